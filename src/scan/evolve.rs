//! Columns by field id: what a scan calls by today's names is found in a file under the names of the day it was written.
//!
//! ```text
//!   table           file                    read as
//!   b  (id 2)       a (id 1), b' (id 2)     b -> column 1 of the file, cast if its type was narrower then
//!   a  (id 3)                               a -> NULL: the file's `a` is another field
//! ```
//!
//! Goes in: expressions over the table's columns. Comes out: the same over the columns of one file.
//! Always holds: a column is matched by its id and by nothing else; a file whose columns have no ids, or have them twice, is
//! refused. Parts of nested columns are read by name: where that would find another field than the id says, it is refused.

use super::address;
use super::external;
use crate::error::Error;
use crate::table::schema::PARQUET_FIELD_ID;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_adapter::{DefaultPhysicalExprAdapter, PhysicalExprAdapter, PhysicalExprAdapterFactory};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Makes the adapter of each file.
#[derive(Debug, Clone)]
pub struct FieldIdAdapterFactory {
    table: Arc<str>,
    /// The table's columns with their ids, which the schema of a scan does not show.
    columns: SchemaRef,
}

impl FieldIdAdapterFactory {
    /// For the files of `table` (its name, for errors), whose columns are `columns`, with ids.
    pub fn new(table: Arc<str>, columns: SchemaRef) -> Self {
        FieldIdAdapterFactory { table, columns }
    }

    /// The columns of a scan with their ids.
    fn with_ids(&self, logical: &Schema) -> Schema {
        let with_id = |field: &FieldRef| match self.columns.field_with_name(field.name()) {
            Ok(column) if !is_row_number(field) => Arc::new(column.clone()),
            _ => Arc::clone(field),
        };
        Schema::new(logical.fields().iter().map(with_id).collect::<Fields>())
    }

    /// A file that is not as amend writes them.
    fn refused(&self, reason: String) -> DataFusionError {
        external(Error::damaged(self.table.as_ref(), "a data file", reason))
    }

    /// The file's schema with each column under the table's name for its field id. A column of a field that the table does
    /// not have gets a name that no column of the table has.
    fn todays_names(&self, logical: &Schema, physical: &Schema) -> Result<SchemaRef> {
        let longest = logical.fields().iter().map(|field| field.name().len()).max().unwrap_or(0);
        let nameless = "\0".repeat(longest + 1);
        let mut columns: HashMap<i32, &FieldRef> = HashMap::new();
        for column in logical.fields().iter().filter(|column| !is_row_number(column)) {
            let id = field_id(column).ok_or_else(|| external(Error::internal(format!("column '{}' has no field id", column.name()))))?;
            columns.insert(id, column);
        }
        let mut ids = HashSet::new();
        let mut names = HashSet::new();
        let mut renamed = Vec::with_capacity(physical.fields().len());
        for (index, field) in physical.fields().iter().enumerate() {
            let name = field.name();
            if !names.insert(name) {
                return Err(self.refused(format!("two of its columns are called '{name}'")));
            }
            if is_row_number(field) {
                renamed.push(Arc::clone(field));
                continue;
            }
            if address::is_reserved(name) {
                return Err(self.refused(format!("one of its columns is called '{name}', which is reserved")));
            }
            let id = field_id(field).ok_or_else(|| self.refused(format!("its column '{name}' has no field id")))?;
            if !ids.insert(id) {
                return Err(self.refused(format!("two of its columns have field id {id}")));
            }
            let todays = match columns.get(&id) {
                Some(column) => {
                    check_parts(column.name(), column.data_type(), field.data_type())?;
                    column.name().clone()
                }
                None => format!("{nameless}{index}"),
            };
            renamed.push(Arc::new(field.as_ref().clone().with_name(todays)));
        }
        Ok(Arc::new(Schema::new_with_metadata(renamed, physical.metadata().clone())))
    }
}

impl PhysicalExprAdapterFactory for FieldIdAdapterFactory {
    fn create(&self, logical_file_schema: SchemaRef, physical_file_schema: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let renamed = self.todays_names(&self.with_ids(&logical_file_schema), &physical_file_schema)?;
        let by_name = DefaultPhysicalExprAdapter::new(logical_file_schema, renamed);
        Ok(Arc::new(FieldIdAdapter { by_name, physical: physical_file_schema }))
    }
}

/// Casts and fills in what is missing as DataFusion does, over a schema in which the file's columns have today's names; then
/// gives them back the names that they have in the file.
#[derive(Debug)]
struct FieldIdAdapter {
    by_name: DefaultPhysicalExprAdapter,
    physical: SchemaRef,
}

impl PhysicalExprAdapter for FieldIdAdapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let adapted = self.by_name.rewrite(expr)?;
        let in_file = |expr: Arc<dyn PhysicalExpr>| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let field = self.physical.fields().get(column.index());
            let field = field.ok_or_else(|| external(Error::internal(format!("no column {} in the file", column.index()))))?;
            if field.name() == column.name() {
                return Ok(Transformed::no(expr));
            }
            Ok(Transformed::yes(Arc::new(Column::new(field.name(), column.index())) as Arc<dyn PhysicalExpr>))
        };
        adapted.transform_up(in_file).data()
    }
}

/// Refuses a nested column whose parts would be found by name where their ids say otherwise.
fn check_parts(column: &str, logical: &DataType, physical: &DataType) -> Result<()> {
    match (logical, physical) {
        (DataType::Struct(table), DataType::Struct(file)) => check_struct(column, table, file),
        (
            DataType::List(table) | DataType::LargeList(table) | DataType::FixedSizeList(table, _),
            DataType::List(file) | DataType::LargeList(file) | DataType::FixedSizeList(file, _),
        )
        | (DataType::Map(table, _), DataType::Map(file, _)) => check_parts(column, table.data_type(), file.data_type()),
        _ => Ok(()),
    }
}

fn check_struct(column: &str, table: &Fields, file: &Fields) -> Result<()> {
    for part in file {
        let Some(id) = field_id(part) else { continue };
        let by_id = table.iter().find(|candidate| field_id(candidate) == Some(id));
        let by_name = table.iter().find(|candidate| candidate.name() == part.name());
        match (by_id, by_name) {
            (None, None) => {}
            (Some(by_id), Some(by_name)) if by_id.name() == by_name.name() => {
                check_parts(column, by_id.data_type(), part.data_type())?;
            }
            _ => {
                let what = format!("reading part '{}' of column '{column}', which was renamed or replaced,", part.name());
                return Err(external(Error::unsupported(what, Some("write the column anew"))));
            }
        }
    }
    Ok(())
}

fn field_id(field: &Field) -> Option<i32> {
    field.metadata().get(PARQUET_FIELD_ID)?.parse().ok()
}

fn is_row_number(field: &Field) -> bool {
    field.name() == address::OFFSET_COLUMN && field.extension_type_name() == address::offset_field().extension_type_name()
}
