//! Types as text: how a field's type is written in metadata.
//!
//! In goes a [`FieldType`], out comes its name, and back. For types without parts the name is the one that Arrow prints
//! (`Int64`, `Timestamp(us, "UTC")`), written and read here so that stored text does not depend on Arrow's version;
//! a type with parts is named without them.
//!
//! Always holds: a name that is written is read back as the same type; a name is read only if it is exactly one that is
//! written; types that Parquet cannot hold have no name.

use super::schema::FieldType;
use arrow_schema::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, IntervalUnit, TimeUnit,
};

/// Types whose name has no parameters other than units.
const PLAIN: [(&str, DataType); 35] = [
    ("Null", DataType::Null),
    ("Boolean", DataType::Boolean),
    ("Int8", DataType::Int8),
    ("Int16", DataType::Int16),
    ("Int32", DataType::Int32),
    ("Int64", DataType::Int64),
    ("UInt8", DataType::UInt8),
    ("UInt16", DataType::UInt16),
    ("UInt32", DataType::UInt32),
    ("UInt64", DataType::UInt64),
    ("Float16", DataType::Float16),
    ("Float32", DataType::Float32),
    ("Float64", DataType::Float64),
    ("Date32", DataType::Date32),
    ("Date64", DataType::Date64),
    ("Time32(s)", DataType::Time32(TimeUnit::Second)),
    ("Time32(ms)", DataType::Time32(TimeUnit::Millisecond)),
    ("Time64(us)", DataType::Time64(TimeUnit::Microsecond)),
    ("Time64(ns)", DataType::Time64(TimeUnit::Nanosecond)),
    ("Timestamp(s)", DataType::Timestamp(TimeUnit::Second, None)),
    ("Timestamp(ms)", DataType::Timestamp(TimeUnit::Millisecond, None)),
    ("Timestamp(us)", DataType::Timestamp(TimeUnit::Microsecond, None)),
    ("Timestamp(ns)", DataType::Timestamp(TimeUnit::Nanosecond, None)),
    ("Duration(s)", DataType::Duration(TimeUnit::Second)),
    ("Duration(ms)", DataType::Duration(TimeUnit::Millisecond)),
    ("Duration(us)", DataType::Duration(TimeUnit::Microsecond)),
    ("Duration(ns)", DataType::Duration(TimeUnit::Nanosecond)),
    ("Interval(YearMonth)", DataType::Interval(IntervalUnit::YearMonth)),
    ("Interval(DayTime)", DataType::Interval(IntervalUnit::DayTime)),
    ("Binary", DataType::Binary),
    ("LargeBinary", DataType::LargeBinary),
    ("BinaryView", DataType::BinaryView),
    ("Utf8", DataType::Utf8),
    ("LargeUtf8", DataType::LargeUtf8),
    ("Utf8View", DataType::Utf8View),
];

/// The most elements, or bytes, that one value of fixed size holds: a NULL of such a type takes as much memory as a value.
pub const MAX_FIXED_SIZE: i32 = 1 << 16;

/// The name of a type; `None` for a type that no field can have.
pub fn name(field_type: &FieldType) -> Option<String> {
    Some(match field_type {
        FieldType::Leaf(leaf) => leaf_name(leaf)?,
        FieldType::Struct => "Struct".into(),
        FieldType::List => "List".into(),
        FieldType::LargeList => "LargeList".into(),
        FieldType::FixedSizeList(size) => format!("FixedSizeList({size})"),
        FieldType::Map { sorted: false } => "Map(unsorted)".into(),
        FieldType::Map { sorted: true } => "Map(sorted)".into(),
    })
}

/// The type of that name; `None` if there is none, or if its parameters are out of range.
pub fn parse(text: &str) -> Option<FieldType> {
    let parsed = match text {
        "Struct" => FieldType::Struct,
        "List" => FieldType::List,
        "LargeList" => FieldType::LargeList,
        "Map(unsorted)" => FieldType::Map { sorted: false },
        "Map(sorted)" => FieldType::Map { sorted: true },
        _ => match parameters(text, "FixedSizeList") {
            Some(size) => FieldType::FixedSizeList(fixed_size(size)?),
            None => FieldType::Leaf(parse_leaf(text)?),
        },
    };
    // Numbers can be read in more ways than they are written.
    (name(&parsed)? == text).then_some(parsed)
}

fn leaf_name(leaf: &DataType) -> Option<String> {
    Some(match leaf {
        DataType::Timestamp(unit, Some(timezone)) => format!("Timestamp({}, \"{timezone}\")", unit_name(*unit)),
        DataType::FixedSizeBinary(size) => format!("FixedSizeBinary({size})"),
        DataType::Decimal32(precision, scale) => format!("Decimal32({precision}, {scale})"),
        DataType::Decimal64(precision, scale) => format!("Decimal64({precision}, {scale})"),
        DataType::Decimal128(precision, scale) => format!("Decimal128({precision}, {scale})"),
        DataType::Decimal256(precision, scale) => format!("Decimal256({precision}, {scale})"),
        DataType::Dictionary(key, value) if key.is_dictionary_key_type() && !matches!(**value, DataType::Dictionary(..)) => {
            format!("Dictionary({}, {})", leaf_name(key)?, leaf_name(value)?)
        }
        plain => PLAIN.iter().find(|(_, known)| known == plain)?.0.to_owned(),
    })
}

fn parse_leaf(text: &str) -> Option<DataType> {
    if let Some((_, plain)) = PLAIN.iter().find(|(name, _)| *name == text) {
        return Some(plain.clone());
    }
    if let Some(timestamp) = parameters(text, "Timestamp") {
        let (unit, timezone) = timestamp.split_once(", ")?;
        // Whatever stands between the outer quotes is the zone: nothing needs an escape.
        let timezone = timezone.strip_prefix('"')?.strip_suffix('"')?;
        return Some(DataType::Timestamp(parse_unit(unit)?, Some(timezone.into())));
    }
    if let Some(size) = parameters(text, "FixedSizeBinary") {
        return Some(DataType::FixedSizeBinary(fixed_size(size)?));
    }
    if let Some(types) = parameters(text, "Dictionary") {
        let (key, value) = types.split_once(", ")?;
        if parameters(value, "Dictionary").is_some() {
            return None;
        }
        return Some(DataType::Dictionary(Box::new(parse_leaf(key)?), Box::new(parse_leaf(value)?)));
    }
    let (kind, numbers) = text.split_once('(')?;
    let (precision, scale) = numbers.strip_suffix(')')?.split_once(", ")?;
    let (precision, scale) = (precision.parse::<u8>().ok()?, scale.parse::<i8>().ok()?);
    let (max_precision, decimal) = match kind {
        "Decimal32" => (DECIMAL32_MAX_PRECISION, DataType::Decimal32(precision, scale)),
        "Decimal64" => (DECIMAL64_MAX_PRECISION, DataType::Decimal64(precision, scale)),
        "Decimal128" => (DECIMAL128_MAX_PRECISION, DataType::Decimal128(precision, scale)),
        "Decimal256" => (DECIMAL256_MAX_PRECISION, DataType::Decimal256(precision, scale)),
        _ => return None,
    };
    let fits = (1..=max_precision).contains(&precision) && i16::from(scale).unsigned_abs() <= u16::from(precision);
    fits.then_some(decimal)
}

/// What stands in the brackets of `kind(..)`.
fn parameters<'a>(text: &'a str, kind: &str) -> Option<&'a str> {
    text.strip_prefix(kind)?.strip_prefix('(')?.strip_suffix(')')
}

fn fixed_size(text: &str) -> Option<i32> {
    text.parse().ok().filter(|size| (0..=MAX_FIXED_SIZE).contains(size))
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

fn parse_unit(text: &str) -> Option<TimeUnit> {
    [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond].into_iter().find(|unit| unit_name(*unit) == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::Field;
    use std::str::FromStr;
    use std::sync::Arc;

    fn leaves() -> Vec<DataType> {
        let mut leaves: Vec<DataType> = PLAIN.iter().map(|(_, leaf)| leaf.clone()).collect();
        for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
            leaves.extend(["UTC", "+02:00", "Europe/Berlin"].map(|zone| DataType::Timestamp(unit, Some(zone.into()))));
        }
        leaves.extend([0, 1, 16, MAX_FIXED_SIZE].map(DataType::FixedSizeBinary));
        leaves.extend([(9, 0), (1, 1), (5, -5)].map(|(p, s)| DataType::Decimal32(p, s)));
        leaves.extend([(18, 2), (18, 18)].map(|(p, s)| DataType::Decimal64(p, s)));
        leaves.extend([(38, 10), (38, -38), (15, 2)].map(|(p, s)| DataType::Decimal128(p, s)));
        leaves.extend([(76, 76), (76, 0)].map(|(p, s)| DataType::Decimal256(p, s)));
        for key in [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64, DataType::UInt8, DataType::UInt64] {
            for value in [DataType::Utf8, DataType::Decimal128(15, 2), DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))] {
                leaves.push(DataType::Dictionary(Box::new(key.clone()), Box::new(value)));
            }
        }
        leaves
    }

    #[test]
    fn every_type_of_a_field_comes_back_from_its_name() {
        let mut types: Vec<FieldType> = leaves().into_iter().map(FieldType::Leaf).collect();
        types.extend([FieldType::Struct, FieldType::List, FieldType::LargeList, FieldType::FixedSizeList(3)]);
        types.extend([FieldType::Map { sorted: true }, FieldType::Map { sorted: false }]);
        for field_type in types {
            let text = name(&field_type).unwrap();
            assert_eq!(parse(&text), Some(field_type), "{text}");
        }
    }

    #[test]
    fn names_of_leaves_are_those_of_arrow() {
        for leaf in leaves() {
            let text = leaf_name(&leaf).unwrap();
            assert_eq!(text, leaf.to_string().replace('µ', "u"));
            assert_eq!(DataType::from_str(&text).unwrap(), leaf, "Arrow reads {text}");
        }
    }

    #[test]
    fn zones_may_hold_anything() {
        for zone in ["", "a\"b", "\")", "a, \"b", "\\", "\u{0}", "é"] {
            let leaf = DataType::Timestamp(TimeUnit::Second, Some(zone.into()));
            let in_dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(leaf.clone()));
            for leaf in [leaf, in_dictionary] {
                assert_eq!(parse(&leaf_name(&leaf).unwrap()), Some(FieldType::Leaf(leaf)));
            }
        }
    }

    #[test]
    fn what_is_not_a_name_is_refused() {
        for text in [
            "",
            "int64",
            "Int64 ",
            "Int65",
            "Timestamp(us,\"UTC\")",
            "Timestamp(us, None)",
            "Timestamp(min)",
            "Time32(ns)",
            "Time64(s)",
            "Decimal128(0, 0)",
            "Decimal128(39, 0)",
            "Decimal128(10, 11)",
            "Decimal128(10, -11)",
            "Decimal128(+10, 2)",
            "Decimal128(010, 2)",
            "Decimal32(10, 0)",
            "Decimal64(10)",
            "FixedSizeBinary(-1)",
            "FixedSizeBinary(65537)",
            "FixedSizeList(2147483647)",
            "Dictionary(Utf8, Utf8)",
            "Dictionary(Int8, Dictionary(Int8, Utf8))",
            "Dictionary(Int8, Struct)",
            "List(Int64)",
            "Map",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        // Deep nesting must not reach the stack.
        assert_eq!(parse(&"Dictionary(Int8, ".repeat(100_000)), None);
        assert_eq!(parse(&format!("{}{}", "Dictionary(Int8, ".repeat(100_000), ")".repeat(100_000))), None);
    }

    #[test]
    fn types_that_no_field_can_have_are_not_named() {
        let part = Arc::new(Field::new_list_field(DataType::Int32, true));
        for leaf in [
            DataType::List(part.clone()),
            DataType::ListView(part.clone()),
            DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::List(part))),
            DataType::Time32(TimeUnit::Nanosecond),
        ] {
            assert_eq!(name(&FieldType::Leaf(leaf)), None);
        }
    }
}
