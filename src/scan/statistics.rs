//! Statistics: from the footers of files into the manifest, and from the manifest to the planner.
//!
//! ```text
//!   Parquet footer --from_parquet--> ColumnStats (in the manifest) --to_scalar--> pruning
//!                                                                 `-of_fragment--> Statistics of DataFusion
//! ```
//!
//! DataFusion *answers* from statistics that are exact: `count(*)`, `min`, `max`; it even replaces a column by a constant. The
//! manifest's statistics count deleted rows in, so they are only exact where there are none.
//!
//! Goes in: footers, values, or fragments. Comes out: bounds and counts, each called exact or not.
//! Always holds: bounds of columns other than floats, text and bytes are values of the column (`min` and `max` are answered from
//! them); the number of rows is the number of *live* rows; with deletions, nothing else is exact.

use crate::table::fragment::Fragment;
use crate::table::schema::{Field, FieldId, TableSchema};
use crate::table::stats::{ColumnStats, StatValue};
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Field as ArrowField, SchemaRef, TimeUnit};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::Type;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics as ChunkStatistics;
use std::cmp::Ordering;

/// How many bytes of text or binary a bound keeps.
const MAX_BOUND_BYTES: usize = 64;

/// A bound as a value of `data_type`; `None` if it cannot be one.
pub fn to_scalar(value: &StatValue, data_type: &DataType) -> Option<ScalarValue> {
    match (value, data_type) {
        (_, DataType::Dictionary(key, values)) => Some(ScalarValue::Dictionary(key.clone(), Box::new(to_scalar(value, values)?))),
        (StatValue::Boolean(value), DataType::Boolean) => Some(ScalarValue::from(*value)),
        (StatValue::Int(value), _) => int_to_scalar(*value, data_type),
        (StatValue::UInt(value), DataType::UInt8) => u8::try_from(*value).ok().map(ScalarValue::from),
        (StatValue::UInt(value), DataType::UInt16) => u16::try_from(*value).ok().map(ScalarValue::from),
        (StatValue::UInt(value), DataType::UInt32) => u32::try_from(*value).ok().map(ScalarValue::from),
        (StatValue::UInt(value), DataType::UInt64) => Some(ScalarValue::from(*value)),
        (StatValue::Float(value), _) if value.is_nan() => None,
        (StatValue::Float(value), DataType::Float16) => ScalarValue::from(*value).cast_to(&DataType::Float16).ok(),
        (StatValue::Float(value), DataType::Float32) => Some(*value as f32).filter(|f| f64::from(*f) == *value).map(ScalarValue::from),
        (StatValue::Float(value), DataType::Float64) => Some(ScalarValue::from(*value)),
        (StatValue::Decimal(value), DataType::Decimal32(precision, scale)) => {
            i32::try_from(*value).ok().map(|value| ScalarValue::Decimal32(Some(value), *precision, *scale))
        }
        (StatValue::Decimal(value), DataType::Decimal64(precision, scale)) => {
            i64::try_from(*value).ok().map(|value| ScalarValue::Decimal64(Some(value), *precision, *scale))
        }
        (StatValue::Decimal(value), DataType::Decimal128(precision, scale)) => {
            Some(ScalarValue::Decimal128(Some(*value), *precision, *scale))
        }
        (StatValue::Utf8(value), DataType::Utf8) => Some(ScalarValue::Utf8(Some(value.clone()))),
        (StatValue::Utf8(value), DataType::LargeUtf8) => Some(ScalarValue::LargeUtf8(Some(value.clone()))),
        (StatValue::Utf8(value), DataType::Utf8View) => Some(ScalarValue::Utf8View(Some(value.clone()))),
        (StatValue::Binary(value), DataType::Binary) => Some(ScalarValue::Binary(Some(value.clone()))),
        (StatValue::Binary(value), DataType::LargeBinary) => Some(ScalarValue::LargeBinary(Some(value.clone()))),
        (StatValue::Binary(value), DataType::BinaryView) => Some(ScalarValue::BinaryView(Some(value.clone()))),
        (StatValue::Binary(value), DataType::FixedSizeBinary(length)) => {
            let fits = usize::try_from(*length).is_ok_and(|length| length == value.len());
            fits.then(|| ScalarValue::FixedSizeBinary(*length, Some(value.clone())))
        }
        _ => None,
    }
}

fn int_to_scalar(value: i64, data_type: &DataType) -> Option<ScalarValue> {
    let narrow = || i32::try_from(value).ok();
    Some(match data_type {
        DataType::Int8 => ScalarValue::Int8(Some(i8::try_from(value).ok()?)),
        DataType::Int16 => ScalarValue::Int16(Some(i16::try_from(value).ok()?)),
        DataType::Int32 => ScalarValue::Int32(Some(narrow()?)),
        DataType::Int64 => ScalarValue::Int64(Some(value)),
        DataType::Date32 => ScalarValue::Date32(Some(narrow()?)),
        DataType::Date64 => ScalarValue::Date64(Some(value)),
        DataType::Time32(TimeUnit::Second) => ScalarValue::Time32Second(Some(narrow()?)),
        DataType::Time32(TimeUnit::Millisecond) => ScalarValue::Time32Millisecond(Some(narrow()?)),
        DataType::Time64(TimeUnit::Microsecond) => ScalarValue::Time64Microsecond(Some(value)),
        DataType::Time64(TimeUnit::Nanosecond) => ScalarValue::Time64Nanosecond(Some(value)),
        DataType::Timestamp(TimeUnit::Second, zone) => ScalarValue::TimestampSecond(Some(value), zone.clone()),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => ScalarValue::TimestampMillisecond(Some(value), zone.clone()),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => ScalarValue::TimestampMicrosecond(Some(value), zone.clone()),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => ScalarValue::TimestampNanosecond(Some(value), zone.clone()),
        DataType::Duration(TimeUnit::Second) => ScalarValue::DurationSecond(Some(value)),
        DataType::Duration(TimeUnit::Millisecond) => ScalarValue::DurationMillisecond(Some(value)),
        DataType::Duration(TimeUnit::Microsecond) => ScalarValue::DurationMicrosecond(Some(value)),
        DataType::Duration(TimeUnit::Nanosecond) => ScalarValue::DurationNanosecond(Some(value)),
        _ => return None,
    })
}

/// A value as a bound; `None` for NULL, NaN and types that have none. The inverse of [`to_scalar`].
pub fn from_scalar(value: &ScalarValue) -> Option<StatValue> {
    match value {
        ScalarValue::Dictionary(_, value) => from_scalar(value),
        ScalarValue::Boolean(value) => value.map(StatValue::Boolean),
        ScalarValue::Int8(value) => value.map(|value| StatValue::Int(value.into())),
        ScalarValue::Int16(value) => value.map(|value| StatValue::Int(value.into())),
        ScalarValue::Int32(value)
        | ScalarValue::Date32(value)
        | ScalarValue::Time32Second(value)
        | ScalarValue::Time32Millisecond(value) => value.map(|value| StatValue::Int(value.into())),
        ScalarValue::Int64(value)
        | ScalarValue::Date64(value)
        | ScalarValue::Time64Microsecond(value)
        | ScalarValue::Time64Nanosecond(value)
        | ScalarValue::TimestampSecond(value, _)
        | ScalarValue::TimestampMillisecond(value, _)
        | ScalarValue::TimestampMicrosecond(value, _)
        | ScalarValue::TimestampNanosecond(value, _)
        | ScalarValue::DurationSecond(value)
        | ScalarValue::DurationMillisecond(value)
        | ScalarValue::DurationMicrosecond(value)
        | ScalarValue::DurationNanosecond(value) => value.map(StatValue::Int),
        ScalarValue::UInt8(value) => value.map(|value| StatValue::UInt(value.into())),
        ScalarValue::UInt16(value) => value.map(|value| StatValue::UInt(value.into())),
        ScalarValue::UInt32(value) => value.map(|value| StatValue::UInt(value.into())),
        ScalarValue::UInt64(value) => value.map(StatValue::UInt),
        ScalarValue::Float16(value) => float(value.map(f64::from)),
        ScalarValue::Float32(value) => float(value.map(f64::from)),
        ScalarValue::Float64(value) => float(*value),
        ScalarValue::Decimal32(value, _, _) => value.map(|value| StatValue::Decimal(value.into())),
        ScalarValue::Decimal64(value, _, _) => value.map(|value| StatValue::Decimal(value.into())),
        ScalarValue::Decimal128(value, _, _) => value.map(StatValue::Decimal),
        ScalarValue::Utf8(value) | ScalarValue::LargeUtf8(value) | ScalarValue::Utf8View(value) => value.clone().map(StatValue::Utf8),
        ScalarValue::Binary(value)
        | ScalarValue::LargeBinary(value)
        | ScalarValue::BinaryView(value)
        | ScalarValue::FixedSizeBinary(_, value) => value.clone().map(StatValue::Binary),
        _ => None,
    }
}

fn float(value: Option<f64>) -> Option<StatValue> {
    value.filter(|value| !value.is_nan()).map(StatValue::Float)
}

/// Whether the bounds of such a column are values of it: not those of text and bytes, which are cut, nor those of floats, where
/// Parquet makes -0 of 0.
fn bounds_are_values(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => bounds_are_values(values),
        DataType::Boolean | DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) => true,
        other => other.is_integer() || int_to_scalar(0, other).is_some(),
    }
}

/// What a footer says of the column at position `column` of a file, whose type is `data_type`. Nothing is said of nested columns;
/// and no bounds are given of floats if the writer `saw_nan` in the column, since Parquet's bounds pass over NaN.
pub fn from_parquet(footer: &ParquetMetaData, column: usize, data_type: &DataType, saw_nan: bool) -> ColumnStats {
    leaf_of(footer, column).and_then(|leaf| leaf_stats(footer, leaf, data_type, saw_nan)).unwrap_or_default()
}

/// What is known of a few values that are at hand: the same that [`from_parquet`] would say of them.
pub fn from_array(column: &ArrayRef, saw_nan: bool) -> ColumnStats {
    if column.data_type().is_nested() {
        return ColumnStats::default();
    }
    let nulls = column.logical_nulls();
    let null_count = Some(nulls.as_ref().map_or(0, |nulls| nulls.null_count() as u64));
    if column.data_type().is_floating() && saw_nan {
        return ColumnStats { min: None, max: None, null_count };
    }
    let has_values: Vec<bool> = (0..column.len()).map(|row| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))).collect();
    let bound = |wanted, zero: f64| match extreme(column, &has_values, wanted).as_ref().and_then(from_scalar) {
        // Both zeros are one value to a predicate.
        Some(StatValue::Float(bound)) if bound == 0.0 => Some(StatValue::Float(zero)),
        bound => bound,
    };
    ColumnStats { min: bound(Ordering::Less, -0.0).and_then(cut_min), max: bound(Ordering::Greater, 0.0).and_then(cut_max), null_count }
}

/// The only leaf of a column that is not nested.
fn leaf_of(footer: &ParquetMetaData, column: usize) -> Option<usize> {
    let schema = footer.file_metadata().schema_descr();
    if !schema.root_schema().get_fields().get(column)?.is_primitive() {
        return None;
    }
    (0..schema.num_columns()).find(|leaf| schema.get_column_root_idx(*leaf) == column)
}

fn leaf_stats(footer: &ParquetMetaData, leaf: usize, data_type: &DataType, saw_nan: bool) -> Option<ColumnStats> {
    let field = ArrowField::new("", data_type.clone(), true);
    let converter = StatisticsConverter::from_column_index(leaf, &field, footer.file_metadata().schema_descr()).ok()?;
    let converter = converter.with_missing_null_counts_as_zero(false);
    let groups = footer.row_groups();
    let nulls = converter.row_group_null_counts(groups).ok()?;
    let null_count = if nulls.null_count() == 0 { Some(nulls.values().iter().sum()) } else { None };
    if data_type.is_floating() && saw_nan {
        return Some(ColumnStats { min: None, max: None, null_count });
    }
    let rows = || groups.iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0));
    // Old writers compared text and bytes as signed numbers.
    let is_outdated = |group: &RowGroupMetaData| group.column(leaf).statistics().is_some_and(ChunkStatistics::is_min_max_deprecated);
    if matches!(footer_type(footer, leaf), Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY) && groups.iter().any(is_outdated) {
        return Some(ColumnStats { min: None, max: None, null_count });
    }
    let has_values: Vec<bool> = rows().zip(nulls.iter()).map(|(rows, nulls)| nulls != Some(rows)).collect();
    let min = converter.row_group_mins(groups).ok().and_then(|mins| extreme(&mins, &has_values, Ordering::Less));
    let max = converter.row_group_maxes(groups).ok().and_then(|maxes| extreme(&maxes, &has_values, Ordering::Greater));
    Some(ColumnStats {
        min: min.as_ref().and_then(from_scalar).and_then(cut_min),
        max: max.as_ref().and_then(from_scalar).and_then(cut_max),
        null_count,
    })
}

fn footer_type(footer: &ParquetMetaData, leaf: usize) -> Type {
    footer.file_metadata().schema_descr().column(leaf).physical_type()
}

/// The least or the greatest of some values, or of the bounds of row groups; `None` if one that should be there is NULL.
fn extreme(bounds: &ArrayRef, has_values: &[bool], wanted: Ordering) -> Option<ScalarValue> {
    let mut extreme: Option<ScalarValue> = None;
    for (group, _) in has_values.iter().enumerate().filter(|(_, has_values)| **has_values) {
        let bound = ScalarValue::try_from_array(bounds, group).ok().filter(|bound| !bound.is_null())?;
        let replaces = match &extreme {
            Some(extreme) => bound.partial_cmp(extreme)? == wanted,
            None => true,
        };
        if replaces {
            extreme = Some(bound);
        }
    }
    extreme
}

/// A lower bound that is short: the beginning of a long text is not greater than the text.
fn cut_min(bound: StatValue) -> Option<StatValue> {
    Some(match bound {
        StatValue::Utf8(text) => StatValue::Utf8(text.get(..text.floor_char_boundary(MAX_BOUND_BYTES))?.to_owned()),
        StatValue::Binary(mut bytes) => {
            bytes.truncate(MAX_BOUND_BYTES);
            StatValue::Binary(bytes)
        }
        other => other,
    })
}

/// An upper bound that is short: of a long text the beginning, with its last character raised.
fn cut_max(bound: StatValue) -> Option<StatValue> {
    match bound {
        StatValue::Utf8(text) if text.len() > MAX_BOUND_BYTES => {
            let mut start: Vec<char> = text.get(..text.floor_char_boundary(MAX_BOUND_BYTES))?.chars().collect();
            while let Some(last) = start.pop() {
                // No character lies between U+D7FF and U+E000.
                let raised = if last == '\u{D7FF}' { Some('\u{E000}') } else { char::from_u32(u32::from(last) + 1) };
                if let Some(raised) = raised {
                    start.push(raised);
                    return Some(StatValue::Utf8(start.into_iter().collect()));
                }
            }
            None
        }
        StatValue::Binary(mut bytes) if bytes.len() > MAX_BOUND_BYTES => {
            bytes.truncate(MAX_BOUND_BYTES);
            while let Some(last) = bytes.pop() {
                if let Some(raised) = last.checked_add(1) {
                    bytes.push(raised);
                    return Some(StatValue::Binary(bytes));
                }
            }
            None
        }
        other => Some(other),
    }
}

/// What the manifest says of a field in a fragment; of a field that the fragment does not hold, that it is NULL everywhere.
pub fn column_stats(fragment: &Fragment, field: FieldId) -> ColumnStats {
    match fragment.backing(field) {
        Some((file, position)) => file.columns.get(position).map(|column| column.stats.clone()).unwrap_or_default(),
        None => ColumnStats { min: None, max: None, null_count: Some(u64::from(fragment.physical_rows)) },
    }
}

/// What the planner may know of a fragment. `columns` says which of the table's columns are worth the trouble; the others are
/// unknown.
pub fn of_fragment(fragment: &Fragment, schema: &TableSchema, arrow: &SchemaRef, columns: &[bool]) -> Statistics {
    let mut statistics = Statistics::new_unknown(arrow);
    statistics.num_rows = Precision::Exact(fragment.live_rows() as usize);
    let known = schema.columns().zip(arrow.fields()).zip(columns).zip(&mut statistics.column_statistics);
    for (((field, arrow), wanted), known) in known {
        if *wanted {
            *known = of_column(fragment, field, arrow.data_type());
        }
    }
    statistics
}

fn of_column(fragment: &Fragment, field: &Field, data_type: &DataType) -> ColumnStatistics {
    let stats = column_stats(fragment, field.id);
    let all_live = fragment.deleted_rows() == 0;
    // Other writers may have cut or rounded any bound.
    let is_own = fragment.backing(field.id).is_none_or(|(file, _)| file.base.is_none());
    let precision = |exact: bool| move |value: ScalarValue| if exact { Precision::Exact(value) } else { Precision::Inexact(value) };
    let bound = |bound: &Option<StatValue>| {
        let scalar = bound.as_ref().and_then(|bound| to_scalar(bound, data_type));
        scalar.map_or(Precision::Absent, precision(all_live && is_own && bounds_are_values(data_type)))
    };
    let nulls = stats.null_count.and_then(|nulls| usize::try_from(nulls).ok());
    let mut known = ColumnStatistics::new_unknown();
    known.min_value = bound(&stats.min);
    known.max_value = bound(&stats.max);
    known.null_count = match nulls {
        Some(nulls) if all_live => Precision::Exact(nulls),
        Some(nulls) => Precision::Inexact(nulls),
        None => Precision::Absent,
    };
    known
}

/// What the planner may know of fragments together, given what it may know of each.
pub fn of_fragments(each: &[Statistics], arrow: &SchemaRef) -> Result<Statistics> {
    if each.is_empty() {
        return Ok(Statistics { num_rows: Precision::Exact(0), ..Statistics::new_unknown(arrow) });
    }
    Statistics::try_merge_iter(each, arrow)
}

#[cfg(test)]
mod tests;
