//! Whether a file's column can be read as a column of the table, and which field each of its parts holds.
//!
//! Goes in: a field of the table, and a column as Arrow reads it from the file. Comes out: the ids of its parts, depth first.
//! Always holds: what fits is read without loss; what does not is told by name and types.

use crate::table::schema::{Field, FieldId, FieldType, TableSchema};
use datafusion::arrow::datatypes::{DataType, Field as ArrowField, FieldRef, Fields};
use std::sync::Arc;

/// The fields that the parts of a file's column hold, depth first; an error says what does not fit.
pub fn parts(schema: &TableSchema, field: &Field, found: &ArrowField) -> Result<Vec<FieldId>, String> {
    let mut parts = Vec::new();
    collect(schema, field, found, &mut parts)?;
    Ok(parts)
}

fn collect(schema: &TableSchema, field: &Field, found: &ArrowField, into: &mut Vec<FieldId>) -> Result<(), String> {
    let mismatch = || {
        let wanted = schema.arrow_field(field).data_type().clone();
        Err(format!("column '{}' is of type {}, in the table of type {}", found.name(), shown(found.data_type()), shown(&wanted)))
    };
    let children: Vec<&Field> = schema.children(Some(field.id)).collect();
    let part = |field: &Field, found: &ArrowField, into: &mut Vec<FieldId>| {
        if !field.nullable && found.is_nullable() {
            return Err(format!("part '{}' may hold NULL, and is NOT NULL in the table", found.name()));
        }
        into.push(field.id);
        collect(schema, field, found, into)
    };
    match (&field.field_type, found.data_type()) {
        (FieldType::Leaf(wanted), found) if leaf_fits(found, wanted) => Ok(()),
        (FieldType::Struct, DataType::Struct(found)) => {
            if found.len() != children.len() {
                return mismatch();
            }
            for found in found {
                let Some(field) = children.iter().find(|field| field.name == *found.name()) else { return mismatch() };
                part(field, found, into)?;
            }
            Ok(())
        }
        (FieldType::List, DataType::List(found)) | (FieldType::LargeList, DataType::LargeList(found)) => match children.as_slice() {
            [element] => part(element, found, into),
            _ => mismatch(),
        },
        (FieldType::FixedSizeList(wanted), DataType::FixedSizeList(found, size)) if wanted == size => match children.as_slice() {
            [element] => part(element, found, into),
            _ => mismatch(),
        },
        (FieldType::Map { .. }, DataType::Map(found, _)) => match children.as_slice() {
            [entries] => part(entries, found, into),
            _ => mismatch(),
        },
        _ => mismatch(),
    }
}

/// Whether values of a type in a file are values of the table's type.
fn leaf_fits(found: &DataType, wanted: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Dictionary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    match (found, wanted) {
        (found, wanted) if found == wanted => true,
        (Dictionary(_, values), wanted) => leaf_fits(values, wanted),
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => true,
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => true,
        (found, wanted) => FieldType::Leaf(found.clone()).widens_to(&FieldType::Leaf(wanted.clone())),
    }
}

/// The column that a table made of such a file has: text and bytes in the form that queries yield, and no more rules than a
/// file can be held to.
pub fn table_column(found: &ArrowField) -> ArrowField {
    ArrowField::new(found.name(), table_type(found.data_type()), true)
}

fn table_type(found: &DataType) -> DataType {
    let part = |found: &FieldRef| Arc::new(table_column(found));
    match found {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, values) => table_type(values),
        DataType::List(element) => DataType::List(part(element)),
        DataType::LargeList(element) => DataType::LargeList(part(element)),
        DataType::FixedSizeList(element, size) => DataType::FixedSizeList(part(element), *size),
        DataType::Struct(parts) => DataType::Struct(parts.iter().map(part).collect()),
        DataType::Map(entries, sorted) => DataType::Map(map_entries(entries), *sorted),
        other => other.clone(),
    }
}

/// The entries of a map, and the keys in them, are never NULL.
fn map_entries(entries: &FieldRef) -> FieldRef {
    let DataType::Struct(parts) = entries.data_type() else { return entries.clone() };
    let parts = parts.iter().enumerate().map(|(at, part)| table_column(part).with_nullable(at > 0)).collect::<Fields>();
    Arc::new(ArrowField::new(entries.name(), DataType::Struct(parts), false))
}

/// A type without the ids in its parts.
fn shown(data_type: &DataType) -> DataType {
    let part = |found: &FieldRef| Arc::new(ArrowField::new(found.name(), shown(found.data_type()), found.is_nullable()));
    match data_type {
        DataType::List(element) => DataType::List(part(element)),
        DataType::LargeList(element) => DataType::LargeList(part(element)),
        DataType::FixedSizeList(element, size) => DataType::FixedSizeList(part(element), *size),
        DataType::Struct(parts) => DataType::Struct(parts.iter().map(part).collect()),
        DataType::Map(entries, sorted) => DataType::Map(part(entries), *sorted),
        other => other.clone(),
    }
}
