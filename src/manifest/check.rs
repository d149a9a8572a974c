//! What must hold of every noun that comes from stored bytes, whoever wrote them.
//!
//! In goes a value whose form is right, out comes nothing or the reason to refuse it. Always holds for what passes: sums
//! over it do not overflow, walks over it do not exhaust the stack, a name in it stays within its folder.

use super::frame::DecodeError;
use crate::table::deletion_vector::{self, DeletionFile};
use crate::table::fragment::{Base, DataFile, FileColumn, Fragment, MAX_INLINE_BYTES};
use crate::table::row_address::{FragmentId, MAX_ROWS_PER_FRAGMENT};
use crate::table::schema::{Field, FieldId, FieldType};
use crate::table::stats::{ColumnStats, StatValue};
use crate::table::type_name::MAX_FIXED_SIZE;
use arrow_schema::DataType;
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

/// The longest name of an object or of its folder.
const MAX_NAME_BYTES: usize = 128;
/// The longest name or location of a base.
const MAX_BASE_BYTES: usize = 4096;
/// The largest file, 16 TiB.
const MAX_FILE_BYTES: u64 = 1 << 44;
/// The largest deletion vector: one bit for each row that a fragment can have, and some room.
const MAX_VECTOR_BYTES: u64 = 1 << 30;
/// How deep types are nested at most; each level is a call on the stack of whoever walks them.
pub const MAX_NESTING: u32 = 64;
/// The most elements that nested types of fixed size make of one value.
const MAX_FIXED_ELEMENTS: u64 = 1 << 20;

/// Refuses a name that is not `folder/name` of letters, digits, `.`, `_` and `-`, or that could lead out of the folder.
pub fn check_path(path: &str) -> Result<(), String> {
    let sound = |part: &str| {
        (1..=MAX_NAME_BYTES).contains(&part.len())
            && !part.starts_with('.')
            && !part.contains("..")
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
    };
    match path.split_once('/') {
        Some((folder, name)) if sound(folder) && sound(name) => Ok(()),
        _ => Err(format!("'{}' is not the name of an object", path.escape_debug())),
    }
}

/// Refuses a name within a base that could lead out of it, or that is no text of one line.
pub fn check_path_in_base(path: &str) -> Result<(), String> {
    let sound = (1..=MAX_BASE_BYTES).contains(&path.len())
        && !path.chars().any(|character| character.is_control() || character == '\\')
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if sound { Ok(()) } else { Err(format!("'{}' is not the name of a file in a base", path.escape_debug())) }
}

/// Refuses a base whose name or location is no text of one line.
pub(crate) fn check_base(base: &Base) -> Result<(), String> {
    let sound = |text: &str| (1..=MAX_BASE_BYTES).contains(&text.len()) && !text.chars().any(char::is_control);
    match sound(&base.location) && base.name.as_deref().is_none_or(sound) {
        true => Ok(()),
        false => Err(format!("'{}' is no location of a base, or has no sound name", base.location.escape_debug())),
    }
}

/// Refuses fields that no table can have, beyond what [`TableSchema::new`](crate::table::schema::TableSchema::new) does.
pub fn check_fields(fields: &[Field], next: FieldId) -> Result<(), String> {
    // Depth, and elements of fixed size that one value has.
    let mut seen: HashMap<FieldId, (u32, u64)> = HashMap::new();
    for field in fields {
        if field.id.0 < 1 || field.id >= next {
            return Err(format!("field {} was never given out", field.id));
        }
        let (depth, elements) = field.parent.and_then(|parent| seen.get(&parent)).copied().unwrap_or((0, 1));
        let own = match &field.field_type {
            FieldType::FixedSizeList(size) => *size,
            FieldType::Leaf(DataType::FixedSizeBinary(size)) => *size,
            _ => 1,
        };
        if !(0..=MAX_FIXED_SIZE).contains(&own) {
            return Err(format!("column '{}': values of fixed size hold 0 to {MAX_FIXED_SIZE} elements", field.name));
        }
        let elements = elements.saturating_mul(u64::from(own.unsigned_abs()).max(1));
        if depth >= MAX_NESTING || elements > MAX_FIXED_ELEMENTS {
            return Err(format!("column '{}' is nested too deeply or too widely", field.name));
        }
        let has_initial = match &field.initial {
            None => true,
            Some(StatValue::Float(value)) if value.is_nan() => false,
            Some(_) => field.parent.is_none() && matches!(field.field_type, FieldType::Leaf(_)),
        };
        if !has_initial {
            return Err(format!("column '{}' cannot have that initial value", field.name));
        }
        seen.insert(field.id, (depth + 1, elements));
    }
    Ok(())
}

/// Refuses a fragment that does not add up.
pub(crate) fn check_fragment(fragment: &Fragment) -> Result<(), DecodeError> {
    let id = fragment.id;
    if id > FragmentId::MAX || u64::from(fragment.physical_rows) > MAX_ROWS_PER_FRAGMENT {
        return Err(DecodeError::damaged(format!("fragment {id} of {} rows: the last number is never used", fragment.physical_rows)));
    }
    if fragment.created_at > fragment.updated_at {
        let Fragment { created_at, updated_at, .. } = fragment;
        return Err(DecodeError::damaged(format!("fragment {id} was updated in version {updated_at} and created in {created_at}")));
    }
    for file in &fragment.files {
        check_data_file(file)?;
        let rows = file_rows(file);
        if rows != u64::from(fragment.physical_rows) {
            let reason = format!("'{}' has {rows} rows, its fragment {id} has {}", file.path, fragment.physical_rows);
            return Err(DecodeError::Damaged(reason));
        }
    }
    let mut fields: Vec<FieldId> = fragment.files.iter().flat_map(|file| &file.columns).filter_map(|column| column.field).collect();
    fields.sort_unstable();
    if let Some([field, _]) = fields.array_windows().find(|[a, b]| a == b) {
        return Err(DecodeError::damaged(format!("fragment {id} holds field {field} twice")));
    }
    fragment.deletions.as_ref().map_or(Ok(()), |vector| check_vector(vector, fragment.physical_rows))
}

/// Refuses a data file that does not add up.
pub(crate) fn check_data_file(file: &DataFile) -> Result<(), DecodeError> {
    let checked_path = if file.base.is_some() { check_path_in_base(&file.path) } else { check_path(&file.path) };
    checked_path.map_err(DecodeError::Damaged)?;
    let refuse = |reason: &str| Err(DecodeError::damaged(format!("'{}' {reason}", file.path)));
    if file.base.is_none() && file.unchecked_bytes > 0 {
        return refuse("lies in the table folder and has bytes without checksums");
    }
    if let Some(rows) = &file.inline
        && (rows.len() as u64 != file.size_bytes || rows.len() > MAX_INLINE_BYTES || file.base.is_some() || file.row_groups.len() != 1)
    {
        return refuse("is in the manifest and has another length, another place or several row groups");
    }
    if file.size_bytes > MAX_FILE_BYTES {
        return refuse("is too large to be a file");
    }
    if !file.checksum.block_bytes.is_power_of_two() {
        return refuse("has blocks whose size is not a power of two");
    }
    let checked_bytes = file.size_bytes.checked_sub(file.unchecked_bytes);
    if checked_bytes.map(|bytes| bytes.div_ceil(u64::from(file.checksum.block_bytes))) != Some(file.checksum.crc32c.len() as u64) {
        return refuse("has another number of checksums than of blocks");
    }
    if file_rows(file) > MAX_ROWS_PER_FRAGMENT {
        return refuse("has more rows than a fragment can hold");
    }
    if !file.columns.is_sorted_by_key(|column| column.constant.is_some()) {
        return refuse("has a column after those that are not in it");
    }
    let sorted_by: BTreeSet<u32> = file.sorted_by.iter().map(|key| key.column).collect();
    if sorted_by.len() < file.sorted_by.len() || sorted_by.last().is_some_and(|column| *column as usize >= file.columns.len()) {
        return refuse("is sorted by a column twice, or by one that it does not have");
    }
    match file.columns.iter().all(column_is_sound) {
        true => Ok(()),
        false => refuse("has a column of no field, or with bounds that exclude everything"),
    }
}

fn column_is_sound(column: &FileColumn) -> bool {
    let constant = ColumnStats { min: column.constant.clone(), max: column.constant.clone(), null_count: None };
    column.field.iter().chain(&column.parts).all(|field| field.0 >= 1) && bounds_in_order(&column.stats) && bounds_in_order(&constant)
}

/// Rows of a file; its groups are too few to overflow.
fn file_rows(file: &DataFile) -> u64 {
    file.row_groups.iter().map(|rows| u64::from(*rows)).sum()
}

fn bounds_in_order(stats: &ColumnStats) -> bool {
    let not_a_number = |bound: &Option<StatValue>| matches!(bound, Some(StatValue::Float(float)) if float.is_nan());
    if not_a_number(&stats.min) || not_a_number(&stats.max) {
        return false;
    }
    let (Some(min), Some(max)) = (&stats.min, &stats.max) else { return true };
    let order = match (min, max) {
        (StatValue::Boolean(min), StatValue::Boolean(max)) => min.cmp(max),
        (StatValue::Int(min), StatValue::Int(max)) => min.cmp(max),
        (StatValue::UInt(min), StatValue::UInt(max)) => min.cmp(max),
        (StatValue::Float(min), StatValue::Float(max)) => return min <= max,
        (StatValue::Decimal(min), StatValue::Decimal(max)) => min.cmp(max),
        (StatValue::Utf8(min), StatValue::Utf8(max)) => min.cmp(max),
        // Bytes may stand for types with an order of their own.
        (StatValue::Binary(_), StatValue::Binary(_)) => Ordering::Equal,
        _ => return false,
    };
    order.is_le()
}

/// Refuses a deletion vector that does not fit a fragment of that many rows.
pub(crate) fn check_vector(vector: &DeletionFile, physical_rows: u32) -> Result<(), DecodeError> {
    if vector.cardinality() > physical_rows {
        let reason = format!("a deletion vector of {} rows for a fragment of {physical_rows}", vector.cardinality());
        return Err(DecodeError::Damaged(reason));
    }
    match vector {
        DeletionFile::Inline { blob, cardinality } => {
            let rows = deletion_vector::decode(blob, physical_rows).map_err(DecodeError::Damaged)?;
            match rows.len() == u64::from(*cardinality) {
                true => Ok(()),
                false => Err(DecodeError::damaged(format!("a deletion vector of {} rows that says it has {cardinality}", rows.len()))),
            }
        }
        DeletionFile::Puffin { path, offset, length, .. } => {
            check_path(path).map_err(DecodeError::Damaged)?;
            match *length <= MAX_VECTOR_BYTES && *offset <= MAX_FILE_BYTES {
                true => Ok(()),
                false => Err(DecodeError::damaged(format!("a deletion vector of {length} bytes at {offset} of '{path}'"))),
            }
        }
    }
}

#[cfg(test)]
mod tests;
