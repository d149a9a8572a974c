//! The nouns of a table as messages and back: fragments, data files, deletion vectors, statistics, fields.
//!
//! Always holds: a value that is written is read back as the same value; a message that lacks a part, names an unknown
//! type or fails a [`check`](super::check) does not become a value.

use super::check::{check_data_file, check_fragment};
use super::frame::DecodeError;
use super::wire::{self, TOMBSTONE};
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::{BaseId, BlockChecksums, DataFile, FileColumn, Fragment, SortKey};
use crate::table::row_address::FragmentId;
use crate::table::schema::{Field, FieldId, FieldType};
use crate::table::stats::{ColumnStats, StatValue};
use crate::table::type_name;
use bytes::Bytes;
use std::sync::Arc;

/// A part that must be there.
pub(crate) fn required<T>(part: Option<T>, what: &str) -> Result<T, DecodeError> {
    part.ok_or_else(|| DecodeError::damaged(format!("{what} is missing")))
}

/// The bytes of a 128-bit id.
pub(crate) fn id_to_wire(id: u128) -> Bytes {
    Bytes::copy_from_slice(&id.to_be_bytes())
}

/// A 128-bit id.
pub(crate) fn id_from_wire(bytes: &[u8]) -> Result<u128, DecodeError> {
    let bytes = bytes.try_into().map_err(|_| DecodeError::damaged(format!("an id of {} bytes", bytes.len())))?;
    Ok(u128::from_be_bytes(bytes))
}

/// The name of a type. A type that has none gets words that no reader accepts.
pub(crate) fn type_to_wire(field_type: &FieldType) -> String {
    type_name::name(field_type).unwrap_or_else(|| format!("{field_type:?}"))
}

/// The type of that name.
pub(crate) fn type_from_wire(name: &str) -> Result<FieldType, DecodeError> {
    type_name::parse(name).ok_or_else(|| DecodeError::unknown(format!("type '{}'", name.escape_debug())))
}

impl From<&Field> for wire::Field {
    fn from(field: &Field) -> Self {
        wire::Field {
            id: field.id.0,
            parent: field.parent.map(|parent| parent.0),
            name: field.name.clone(),
            r#type: type_to_wire(&field.field_type),
            nullable: field.nullable,
            metadata: field.metadata.clone(),
            initial: field.initial.as_ref().map(wire::StatValue::from),
        }
    }
}

impl TryFrom<wire::Field> for Field {
    type Error = DecodeError;

    fn try_from(field: wire::Field) -> Result<Self, DecodeError> {
        Ok(Field {
            id: FieldId(field.id),
            parent: field.parent.map(FieldId),
            field_type: type_from_wire(&field.r#type)?,
            name: field.name,
            nullable: field.nullable,
            metadata: field.metadata,
            initial: field.initial.map(StatValue::try_from).transpose()?,
        })
    }
}

impl From<&Fragment> for wire::Fragment {
    fn from(fragment: &Fragment) -> Self {
        wire::Fragment {
            id: fragment.id.0,
            physical_rows: fragment.physical_rows,
            files: fragment.files.iter().map(wire::DataFile::from).collect(),
            deletions: fragment.deletions.as_ref().map(wire::DeletionFile::from),
            created_at: fragment.created_at,
            updated_at: fragment.updated_at,
        }
    }
}

impl TryFrom<wire::Fragment> for Fragment {
    type Error = DecodeError;

    fn try_from(fragment: wire::Fragment) -> Result<Self, DecodeError> {
        let fragment = Fragment {
            id: FragmentId(fragment.id),
            physical_rows: fragment.physical_rows,
            files: fragment.files.into_iter().map(data_file).collect::<Result<_, _>>()?,
            deletions: fragment.deletions.map(DeletionFile::try_from).transpose()?,
            created_at: fragment.created_at,
            updated_at: fragment.updated_at,
        };
        check_fragment(&fragment)?;
        Ok(fragment)
    }
}

impl From<&DataFile> for wire::DataFile {
    fn from(file: &DataFile) -> Self {
        wire::DataFile {
            path: file.path.clone(),
            base: file.base.map(|base| base.0),
            size_bytes: file.size_bytes,
            block_bytes: file.checksum.block_bytes,
            block_crc32c: file.checksum.crc32c.clone(),
            row_groups: file.row_groups.clone(),
            columns: file.columns.iter().map(wire::FileColumn::from).collect(),
            unchecked_bytes: file.unchecked_bytes,
            inline: file.inline.clone(),
            sorted_by: file.sorted_by.iter().map(wire::SortKey::from).collect(),
        }
    }
}

impl TryFrom<wire::DataFile> for DataFile {
    type Error = DecodeError;

    fn try_from(file: wire::DataFile) -> Result<Self, DecodeError> {
        let file = data_file(file)?;
        check_data_file(&file)?;
        Ok(file)
    }
}

/// A data file that is still to be checked.
fn data_file(file: wire::DataFile) -> Result<DataFile, DecodeError> {
    Ok(DataFile {
        path: file.path,
        base: file.base.map(BaseId),
        size_bytes: file.size_bytes,
        unchecked_bytes: file.unchecked_bytes,
        checksum: Arc::new(BlockChecksums { block_bytes: file.block_bytes, crc32c: file.block_crc32c }),
        row_groups: file.row_groups,
        columns: file.columns.into_iter().map(FileColumn::try_from).collect::<Result<_, _>>()?,
        inline: file.inline,
        sorted_by: file.sorted_by.into_iter().map(SortKey::from).collect(),
    })
}

impl From<&SortKey> for wire::SortKey {
    fn from(key: &SortKey) -> Self {
        wire::SortKey { column: key.column, descending: key.descending, nulls_first: key.nulls_first }
    }
}

impl From<wire::SortKey> for SortKey {
    fn from(key: wire::SortKey) -> Self {
        SortKey { column: key.column, descending: key.descending, nulls_first: key.nulls_first }
    }
}

impl From<&FileColumn> for wire::FileColumn {
    fn from(column: &FileColumn) -> Self {
        wire::FileColumn {
            field: column.field.map_or(TOMBSTONE, |field| field.0),
            null_count: column.stats.null_count,
            min: column.stats.min.as_ref().map(wire::StatValue::from),
            max: column.stats.max.as_ref().map(wire::StatValue::from),
            parts: column.parts.iter().map(|part| part.0).collect(),
            constant: column.constant.as_ref().map(wire::StatValue::from),
        }
    }
}

impl TryFrom<wire::FileColumn> for FileColumn {
    type Error = DecodeError;

    fn try_from(column: wire::FileColumn) -> Result<Self, DecodeError> {
        Ok(FileColumn {
            field: (column.field != TOMBSTONE).then_some(FieldId(column.field)),
            parts: column.parts.into_iter().map(FieldId).collect(),
            constant: column.constant.map(StatValue::try_from).transpose()?,
            stats: ColumnStats {
                min: column.min.map(StatValue::try_from).transpose()?,
                max: column.max.map(StatValue::try_from).transpose()?,
                null_count: column.null_count,
            },
        })
    }
}

impl From<&StatValue> for wire::StatValue {
    fn from(value: &StatValue) -> Self {
        use wire::stat_value::Value;
        let value = match value {
            StatValue::Boolean(value) => Value::Boolean(*value),
            StatValue::Int(value) => Value::Int(*value),
            StatValue::UInt(value) => Value::Uint(*value),
            StatValue::Float(value) => Value::Float(*value),
            StatValue::Decimal(value) => Value::Decimal(decimal_to_wire(*value)),
            StatValue::Utf8(value) => Value::Utf8(value.clone()),
            StatValue::Binary(value) => Value::Binary(Bytes::copy_from_slice(value)),
        };
        wire::StatValue { value: Some(value) }
    }
}

impl TryFrom<wire::StatValue> for StatValue {
    type Error = DecodeError;

    fn try_from(value: wire::StatValue) -> Result<Self, DecodeError> {
        use wire::stat_value::Value;
        Ok(match required(value.value, "the value of a bound")? {
            Value::Boolean(value) => StatValue::Boolean(value),
            Value::Int(value) => StatValue::Int(value),
            Value::Uint(value) => StatValue::UInt(value),
            Value::Float(value) => StatValue::Float(value),
            Value::Decimal(value) => StatValue::Decimal(decimal_from_wire(&value)?),
            Value::Utf8(value) => StatValue::Utf8(value),
            Value::Binary(value) => StatValue::Binary(value.to_vec()),
        })
    }
}

/// Two's complement, big-endian, without leading bytes that repeat the sign; zero has no bytes.
fn decimal_to_wire(value: i128) -> Bytes {
    let bytes = value.to_be_bytes();
    let sign = if value < 0 { 0xFF } else { 0 };
    let mut rest = bytes.as_slice();
    while let [first, tail @ ..] = rest
        && *first == sign
        && tail.first().map_or(sign == 0, |next| (next ^ sign) & 0x80 == 0)
    {
        rest = tail;
    }
    Bytes::copy_from_slice(rest)
}

fn decimal_from_wire(bytes: &[u8]) -> Result<i128, DecodeError> {
    if bytes.len() > 16 {
        return Err(DecodeError::damaged(format!("a decimal of {} bytes", bytes.len())));
    }
    let sign = bytes.first().map_or(0, |first| i128::from(*first as i8) >> 7);
    Ok(bytes.iter().fold(sign, |value, byte| (value << 8) | i128::from(*byte)))
}

impl From<&DeletionFile> for wire::DeletionFile {
    fn from(vector: &DeletionFile) -> Self {
        use wire::deletion_file::Place;
        let place = match vector {
            DeletionFile::Inline { blob, cardinality } => {
                Place::Inline(wire::InlineVector { blob: blob.clone(), cardinality: *cardinality })
            }
            DeletionFile::Puffin { path, offset, length, cardinality, crc32c } => Place::Puffin(wire::PuffinBlob {
                path: path.clone(),
                offset: *offset,
                length: *length,
                cardinality: *cardinality,
                crc32c: *crc32c,
            }),
        };
        wire::DeletionFile { place: Some(place) }
    }
}

impl TryFrom<wire::DeletionFile> for DeletionFile {
    type Error = DecodeError;

    /// A deletion vector that is still to be held against its fragment.
    fn try_from(vector: wire::DeletionFile) -> Result<Self, DecodeError> {
        use wire::deletion_file::Place;
        Ok(match required(vector.place, "the place of a deletion vector")? {
            Place::Inline(wire::InlineVector { blob, cardinality }) => DeletionFile::Inline { blob, cardinality },
            Place::Puffin(blob) => DeletionFile::Puffin {
                path: blob.path,
                offset: blob.offset,
                length: blob.length,
                cardinality: blob.cardinality,
                crc32c: blob.crc32c,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_take_no_more_bytes_than_they_need() {
        for (value, bytes) in [
            (0, &[][..]),
            (1, &[1]),
            (127, &[127]),
            (128, &[0, 128]),
            (-1, &[255]),
            (-128, &[128]),
            (-129, &[255, 127]),
            (1 << 64, &[1, 0, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            assert_eq!(decimal_to_wire(value), bytes, "{value}");
            assert_eq!(decimal_from_wire(bytes), Ok(value));
        }
        for value in [i128::MIN, i128::MAX, 10i128.pow(38) - 1, -(10i128.pow(38))] {
            assert_eq!(decimal_from_wire(&decimal_to_wire(value)), Ok(value));
        }
        assert!(decimal_from_wire(&[0; 17]).is_err());
    }
}
