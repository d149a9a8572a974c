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
//! column that the stretch ended without, even if it was dropped there and files still hold it. Values are never changed: a type that does not hold all of another's values is an error.

use crate::error::{Error, Result};
use crate::table::schema::{Field, FieldId, FieldType, TableSchema};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::DataType;
use std::collections::BTreeSet;
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
        Self::new(shown, shown.columns().map(|column| (column, shown)).collect())
    }

    /// The columns of `shown`, for versions up to one with the schema `then`, after which the table was reset.
    pub fn before_reset(table: &str, shown: &TableSchema, then: &TableSchema) -> Result<Self> {
        let ids: BTreeSet<_> = shown.columns().map(|column| column.id).collect();
        let absent = absent(shown)?;
        let found = shown.columns().zip(absent.columns()).map(|(column, nowhere)| {
            let by_id = then.columns().find(|field| field.id == column.id);
            let by_name = || then.column(&column.name).filter(|field| !ids.contains(&field.id));
            match by_id.or_else(by_name) {
                Some(field) => (field, then),
                None => (nowhere, &absent),
            }
        });
        let found: Vec<_> = found.collect();
        for (column, (field, of)) in shown.columns().zip(&found) {
            let (now, before) = (shown.arrow_field(column).data_type().clone(), of.arrow_field(field).data_type().clone());
            if !(now.equals_datatype(&before) || holds(&field.field_type, &column.field_type)) {
                let what =
                    format!("showing changes of column '{}' of table '{table}', which was of type {before} and is {now},", column.name);
                return Err(Error::unsupported(what, Some("ask for the versions before the table was replaced, and for those after it")));
            }
        }
        Self::new(shown, found)
    }

    fn new(shown: &TableSchema, found: Vec<(&Field, &TableSchema)>) -> Result<Self> {
        let mut fields = Vec::new();
        for (column, (field, of)) in shown.columns().zip(found) {
            // Rows that came before the column was there, or had to have a value, are NULL in it.
            fields.push(Field { name: column.name.clone(), nullable: true, ..field.clone() });
            let parts: BTreeSet<_> = of.parts(field.id).into_iter().collect();
            fields.extend(of.fields().iter().filter(|part| parts.contains(&part.id)).cloned());
        }
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

/// The same columns under ids that no file holds.
fn absent(shown: &TableSchema) -> Result<TableSchema> {
    let id = |FieldId(id): FieldId| FieldId(i32::MAX - id);
    let nowhere = |field: &Field| Field { id: id(field.id), parent: field.parent.map(id), nullable: true, initial: None, ..field.clone() };
    let fields = shown.fields().iter().map(nowhere).collect();
    TableSchema::new(fields).map_err(|reason| Error::internal(format!("the columns of changes: {reason}")))
}

/// Whether values of one type can be shown as the other: they are the same there, or it is an error.
fn holds(from: &FieldType, to: &FieldType) -> bool {
    let float = |of: &FieldType| matches!(of, FieldType::Leaf(DataType::Float16 | DataType::Float32 | DataType::Float64));
    from.widens_to(to) || (to.widens_to(from) && !float(from))
}
