//! Nested columns by field id: the parts that a file has under the names and in the order of its day become those of the table.
//!
//! ```text
//!   table   s { b (id 2), c (id 4), a (id 5) }        file   s { a (id 2), b (id 3) }
//!   read as   s { b: a of the file,  c: NULL,  a: NULL }
//! ```
//!
//! Goes in: an expression that yields the column of the file, and both types with their ids. Comes out: one that yields the table's.
//! Always holds: a part is matched by its id and by nothing else; what is NULL stays NULL; a part that the file lacks is NULL.

use crate::table::schema::PARQUET_FIELD_ID;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, LargeListArray, ListArray, MapArray, RecordBatch, StructArray, new_null_array,
};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

/// The id of a field, if it has one.
pub fn field_id(field: &Field) -> Option<i32> {
    field.metadata().get(PARQUET_FIELD_ID)?.parse().ok()
}

/// Whether the parts of a file's column are those of the table's, by id and by name, in the same order.
pub fn same_parts(table: &DataType, file: &DataType) -> bool {
    match (table, file) {
        (DataType::Struct(table), DataType::Struct(file)) => {
            let same = |(table, file): (&FieldRef, &FieldRef)| {
                field_id(table) == field_id(file) && table.name() == file.name() && same_parts(table.data_type(), file.data_type())
            };
            table.len() == file.len() && table.iter().zip(file).all(same)
        }
        (DataType::Map(table, _), DataType::Map(file, _)) => same_parts(table.data_type(), file.data_type()),
        _ => match (element(table), element(file)) {
            (Some(table), Some(file)) => same_parts(table.data_type(), file.data_type()),
            _ => true,
        },
    }
}

fn element(list: &DataType) -> Option<&FieldRef> {
    match list {
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => Some(element),
        _ => None,
    }
}

/// A nested column of the table.
#[derive(Debug, Eq)]
pub struct ByIds {
    column: Arc<dyn PhysicalExpr>,
    /// The file's type, with ids.
    file: DataType,
    /// The table's type, with ids.
    table: DataType,
    /// The table's type, as it is seen.
    seen: DataType,
}

impl ByIds {
    /// What `column`, of type `file`, is in a table where it is of type `table`, both with ids, and seen as `seen`.
    pub fn new(column: Arc<dyn PhysicalExpr>, file: DataType, table: DataType, seen: DataType) -> Self {
        ByIds { column, file, table, seen }
    }
}

impl PartialEq for ByIds {
    fn eq(&self, other: &Self) -> bool {
        self.column.eq(&other.column) && self.file == other.file && self.table == other.table && self.seen == other.seen
    }
}

impl Hash for ByIds {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.column.hash(state);
        self.seen.hash(state);
    }
}

impl fmt::Display for ByIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by_ids({})", self.column)
    }
}

impl PhysicalExpr for ByIds {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.seen.clone())
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.column.nullable(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let column = self.column.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(by_ids(&column, &self.file, &self.table, &self.seen)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let column = children.pop().unwrap_or_else(|| self.column.clone());
        Ok(Arc::new(ByIds::new(column, self.file.clone(), self.table.clone(), self.seen.clone())))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.column.fmt_sql(f)
    }
}

/// The values of a file's column as those of the table's.
fn by_ids(values: &ArrayRef, file: &DataType, table: &DataType, seen: &DataType) -> Result<ArrayRef> {
    Ok(match (file, table, seen) {
        (DataType::Struct(file), DataType::Struct(table), DataType::Struct(seen)) => structs(values.as_struct(), file, table, seen)?,
        (DataType::List(file), DataType::List(table), DataType::List(seen)) => {
            let list = values.as_list::<i32>();
            let elements = by_ids(list.values(), file.data_type(), table.data_type(), seen.data_type())?;
            Arc::new(ListArray::try_new(seen.clone(), list.offsets().clone(), elements, list.nulls().cloned())?)
        }
        (DataType::LargeList(file), DataType::LargeList(table), DataType::LargeList(seen)) => {
            let list = values.as_list::<i64>();
            let elements = by_ids(list.values(), file.data_type(), table.data_type(), seen.data_type())?;
            Arc::new(LargeListArray::try_new(seen.clone(), list.offsets().clone(), elements, list.nulls().cloned())?)
        }
        (DataType::FixedSizeList(file, _), DataType::FixedSizeList(table, _), DataType::FixedSizeList(seen, size)) => {
            let list = values.as_fixed_size_list();
            let elements = by_ids(list.values(), file.data_type(), table.data_type(), seen.data_type())?;
            Arc::new(FixedSizeListArray::try_new(seen.clone(), *size, elements, list.nulls().cloned())?)
        }
        (DataType::Map(file, _), DataType::Map(table, _), DataType::Map(seen, sorted)) => {
            let map = values.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let entries = by_ids(&entries, file.data_type(), table.data_type(), seen.data_type())?;
            let entries = entries.as_struct().clone();
            Arc::new(MapArray::try_new(seen.clone(), map.offsets().clone(), entries, map.nulls().cloned(), *sorted)?)
        }
        _ if values.data_type() == seen => values.clone(),
        _ => cast_with_options(values, seen, &CastOptions { safe: false, ..CastOptions::default() })?,
    })
}

fn structs(values: &StructArray, file: &Fields, table: &Fields, seen: &Fields) -> Result<ArrayRef> {
    let part = |(table, seen): (&FieldRef, &FieldRef)| {
        let found = file.iter().position(|part| field_id(part).is_some() && field_id(part) == field_id(table));
        match found.and_then(|at| Some((values.columns().get(at)?, file.get(at)?))) {
            Some((part, of_file)) => by_ids(part, of_file.data_type(), table.data_type(), seen.data_type()),
            None => Ok(new_null_array(seen.data_type(), values.len())),
        }
    };
    let parts = table.iter().zip(seen).map(part).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(StructArray::try_new_with_length(seen.clone(), parts, values.nulls().cloned(), values.len())?))
}
