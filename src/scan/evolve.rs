//! Columns by field id: what a scan calls by today's names is found in a file under the names of the day it was written.
//!
//! ```text
//!   table           file                    read as
//!   b  (id 2)       a (id 1), b' (id 2)     b -> column 1 of the file, cast if its type was narrower then
//!   a  (id 3)                               a -> NULL: the file's `a` is another field
//! ```
//!
//! Goes in: expressions over the table's columns. Comes out: the same over the columns of one file.
//! Always holds: a column is matched by its id and by nothing else (a file whose columns have no ids, or have them twice, is
//! refused when it is opened). Parts of nested columns are read by name: where that would find another field than the id says,
//! it is refused.

use super::address;
use super::external;
use crate::error::Error;
use crate::table::schema::PARQUET_FIELD_ID;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_adapter::{DefaultPhysicalExprAdapter, PhysicalExprAdapter, PhysicalExprAdapterFactory};
use std::collections::HashMap;
use std::sync::Arc;

/// Makes the adapter of each file.
#[derive(Debug, Clone)]
pub struct FieldIdAdapterFactory {
    /// The table's columns with their ids, which the schema of a scan does not show.
    columns: SchemaRef,
}

impl FieldIdAdapterFactory {
    /// For the files of a table whose columns are `columns`, with ids.
    pub fn new(columns: SchemaRef) -> Self {
        FieldIdAdapterFactory { columns }
    }

    /// The file's schema with each column under the table's name for its field id. A column of a field that the table does
    /// not have gets a name that no column of the table has.
    fn todays_names(&self, logical: &Schema, physical: &Schema) -> Result<SchemaRef> {
        let longest = logical.fields().iter().map(|field| field.name().len()).max().unwrap_or(0);
        let nameless = "\0".repeat(longest + 1);
        let columns: HashMap<i32, &FieldRef> =
            self.columns.fields().iter().filter_map(|column| Some((field_id(column)?, column))).collect();
        let todays_name = |(index, field): (usize, &FieldRef)| {
            if is_row_number(field) {
                return Ok(Arc::clone(field));
            }
            let Some(column) = field_id(field).and_then(|id| columns.get(&id)) else {
                return Ok(Arc::new(field.as_ref().clone().with_name(format!("{nameless}{index}"))));
            };
            check_parts(column.name(), column.data_type(), field.data_type())?;
            // Where only the metadata differs (the file has the id), no cast is needed.
            let metadata = logical.field_with_name(column.name())?.metadata().clone();
            Ok(Arc::new(field.as_ref().clone().with_name(column.name()).with_metadata(metadata)))
        };
        let renamed = physical.fields().iter().enumerate().map(todays_name).collect::<Result<Fields>>()?;
        Ok(Arc::new(Schema::new_with_metadata(renamed, physical.metadata().clone())))
    }
}

impl PhysicalExprAdapterFactory for FieldIdAdapterFactory {
    fn create(&self, logical_file_schema: SchemaRef, physical_file_schema: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let renamed = self.todays_names(&logical_file_schema, &physical_file_schema)?;
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
