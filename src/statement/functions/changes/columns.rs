//! The columns of a table's changes: those of one version, filled from rows of versions with other columns.
//!
//! ```text
//!   versions 1 ..       a reset (RESTORE, CREATE OR REPLACE)      .. newest
//!   columns by id, then by name       │        columns by id
//! ```
//!
//! Goes in: the schema that is shown, and the schema that each stretch between two resets ended with. Comes out: for each stretch a
//! schema to read its rows with, whose columns are those that are shown, in their order.
//! Always holds: within a stretch each column is one field, so a row has the same values when it comes and when it goes: NULL in a
//! column, or a part of one, that the stretch ended without, even if it was dropped there and files still hold it. Values are never
//! changed: a type that does not hold all of another's values is an error.

use crate::error::{Error, Result};
use crate::table::schema::{Field, FieldId, FieldType, TableSchema};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::DataType;
use std::sync::Arc;

/// How the rows of some versions are read.
#[derive(Debug, Clone, PartialEq)]
pub struct Columns {
    /// The columns that are shown, as fields of those versions.
    pub schema: Arc<TableSchema>,
    /// The types that they are shown with.
    types: Vec<DataType>,
}

impl Columns {
    /// The columns of `shown`, for versions with these very fields.
    pub fn same(shown: &TableSchema) -> Result<Self> {
        Self::new(shown, shown.fields().iter().map(|field| Field { nullable: field.nullable || field.parent.is_none(), ..field.clone() }))
    }

    /// The columns of `shown`, for versions up to one with the schema `then`, after which the table was reset.
    pub fn before_reset(table: &str, shown: &TableSchema, then: &TableSchema) -> Result<Self> {
        let mut reading = Reading { shown, then, fields: Vec::new() };
        for column in shown.columns() {
            let found = reading.called(column, None);
            if let (false, Some(found)) = (reading.add(column, found, None), found) {
                let (now, before) = (shown.arrow_field(column), then.arrow_field(found));
                let (now, before) = (now.data_type(), before.data_type());
                let what =
                    format!("showing changes of column '{}' of table '{table}', which was of type {before} and is {now},", column.name);
                return Err(Error::unsupported(what, Some("ask for the versions before the table was replaced, and for those after it")));
            }
        }
        Self::new(shown, reading.fields)
    }

    fn new(shown: &TableSchema, fields: impl IntoIterator<Item = Field>) -> Result<Self> {
        let fields = fields.into_iter().collect();
        let schema = TableSchema::new(fields).map_err(|reason| Error::internal(format!("the columns of changes: {reason}")))?;
        let types = shown.to_plain_arrow().fields().iter().map(|field| field.data_type().clone()).collect();
        Ok(Columns { schema: Arc::new(schema), types })
    }

    /// Values that were read, of the columns at these positions, with the types that they are shown with.
    pub fn shown(&self, batch: &RecordBatch, positions: &[usize]) -> Result<Vec<ArrayRef>> {
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let columns = batch.columns().iter().zip(positions).map(|(column, position)| match self.types.get(*position) {
            Some(shown) if shown != column.data_type() => cast_with_options(column, shown, &strict)
                .map_err(|error| Error::invalid(format!("a value of an older version does not fit its column's type now: {error}"))),
            _ => Ok(Arc::clone(column)),
        });
        columns.collect()
    }
}

/// The columns that are shown, on their way to fields of other versions.
struct Reading<'a> {
    shown: &'a TableSchema,
    then: &'a TableSchema,
    fields: Vec<Field>,
}

impl<'a> Reading<'a> {
    /// The field that a column, or a part of the struct `within`, was.
    fn called(&self, field: &Field, within: Option<FieldId>) -> Option<&'a Field> {
        let is_shown = |other: &Field| self.shown.field(other.id).is_some();
        let by_id = self.then.children(within).find(|other| other.id == field.id);
        by_id.or_else(|| self.then.children(within).find(|other| other.name == field.name && !is_shown(other)))
    }

    /// Adds a field and its parts, as they were; whether their values can be shown as they are.
    fn add(&mut self, field: &Field, found: Option<&'a Field>, parent: Option<FieldId>) -> bool {
        // An id that no file holds: all of it is NULL.
        let id = found.map_or(FieldId(i32::MAX - field.id.0), |found| found.id);
        let mut read = found.unwrap_or(field).clone();
        if found.is_none() {
            read.initial = None;
        }
        // Rows that came before it was there, or had to have a value, are NULL in it.
        read.nullable |= found.is_none() || parent.is_none();
        self.fields.push(Field { id, parent, name: field.name.clone(), ..read });
        // A map has a key and a value, whatever they are called.
        let in_map = field.parent.and_then(|map| self.shown.field(map)).is_some_and(|map| matches!(map.field_type, FieldType::Map { .. }));
        let mut fits = found.is_none_or(|found| holds(&found.field_type, &field.field_type));
        for (position, part) in self.shown.children(Some(field.id)).enumerate() {
            let was = found.and_then(|found| match found.field_type {
                FieldType::Struct if !in_map => self.called(part, Some(found.id)),
                _ => self.then.children(Some(found.id)).nth(position),
            });
            fits &= self.add(part, was, Some(id));
        }
        fits
    }
}

/// Whether values of one type can be shown as the other: they are the same there, or it is an error.
fn holds(from: &FieldType, to: &FieldType) -> bool {
    let float = |of: &FieldType| matches!(of, FieldType::Leaf(DataType::Float16 | DataType::Float32 | DataType::Float64));
    from.widens_to(to) || (to.widens_to(from) && !float(from))
}
