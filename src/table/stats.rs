//! Statistics of one column in one data file, and single values.
//!
//! Always holds: `min` and `max` are *bounds* (no live or dead value lies outside them), in the column's own order;
//! a bound that is not known is absent. Floating-point columns that hold NaN have no bounds.

use std::fmt;

/// What is known of a column's values without reading them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ColumnStats {
    /// No value is smaller.
    pub min: Option<StatValue>,
    /// No value is larger.
    pub max: Option<StatValue>,
    /// How many values are NULL, deleted rows included.
    pub null_count: Option<u64>,
}

/// A bound, in the physical form of its type.
#[derive(Debug, Clone, PartialEq)]
pub enum StatValue {
    /// Booleans.
    Boolean(bool),
    /// Signed integers, dates, times, timestamps (in the unit of the type).
    Int(i64),
    /// Unsigned integers.
    UInt(u64),
    /// Floats of any width; never NaN.
    Float(f64),
    /// Decimals of up to 38 digits, unscaled.
    Decimal(i128),
    /// Text; a maximum may be cut and rounded up, a minimum cut.
    Utf8(String),
    /// Bytes; likewise.
    Binary(Vec<u8>),
}

impl StatValue {
    /// How many bytes it takes in a manifest, roughly.
    pub fn encoded_bytes(&self) -> usize {
        match self {
            StatValue::Boolean(_) => 1,
            StatValue::Int(_) | StatValue::UInt(_) => 5,
            StatValue::Float(_) => 8,
            StatValue::Decimal(_) => 6,
            StatValue::Utf8(text) => text.len(),
            StatValue::Binary(bytes) => bytes.len(),
        }
    }
}

impl fmt::Display for StatValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatValue::Boolean(value) => value.fmt(f),
            StatValue::Int(value) => value.fmt(f),
            StatValue::UInt(value) => value.fmt(f),
            StatValue::Float(value) => value.fmt(f),
            StatValue::Decimal(value) => write!(f, "{value} (unscaled)"),
            StatValue::Utf8(value) => write!(f, "'{value}'"),
            StatValue::Binary(value) => write!(f, "{} bytes", value.len()),
        }
    }
}
