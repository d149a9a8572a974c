//! Columns by field id: what a scan calls by today's names is found in a file under the names of the day it was written.
//!
//! ```text
//!   table           file                    read as
//!   b  (id 2)       a (id 1), b' (id 2)     b -> column 1 of the file, cast if its type was narrower then
//!   a  (id 3)                               a -> NULL: the file's `a` is another field
//!   k  (id 4)       not in it, but "x" in its record              k -> 'x'
//!   n  (id 5)       not in it, and the field's initial value is 7  n -> 7
//! ```
//!
//! Which field a column of a file holds is what the manifest's record says, by the column's position. Most files that amend wrote
//! carry the same ids, and need no further look. The others (files of others, and those written before their fields had ids) are
//! given them when their footer is read: see [`as_recorded`].
//!
//! Goes in: expressions over the table's columns. Comes out: the same over the columns of one file.
//! Always holds: a column is matched by its id and by nothing else; so are the parts of nested ones (`parts`).

use super::address;
use super::external;
use super::parts::{ByIds, field_id, same_parts};
use super::statistics::{initial, to_scalar};
use crate::error::Error;
use crate::table::fragment::{FileColumn, Fragment};
use crate::table::row_address::FragmentId;
use crate::table::schema::{Field as TableField, FieldId, PARQUET_FIELD_ID, TableSchema};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapter, PhysicalExprAdapter, PhysicalExprAdapterFactory, replace_columns_with_literals,
};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema, parquet_to_arrow_schema};
use parquet::file::metadata::{FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataBuilder};
use std::collections::HashMap;
use std::sync::Arc;

/// The key in the metadata of a file's columns under which the id of its fragment stands, and which of its files it is.
const FRAGMENT_KEY: &str = "amend.fragment";

/// The nested columns of a file whose parts are others than the table's, by position: the types of the file and of the table, with ids,
/// and the latter without.
type Nested = HashMap<usize, (DataType, DataType, DataType)>;

/// The fragments of a scan by id.
pub type Records = Arc<HashMap<FragmentId, Arc<Fragment>>>;

/// The footer of a file of a fragment with the ids that the manifest has of its columns, whatever ids it has itself; and with
/// the fragment's id, so that the rest of its record is found.
pub fn as_recorded(footer: &ParquetMetaData, which: (FragmentId, usize), columns: &[FileColumn]) -> Result<ParquetMetaData, String> {
    let file = footer.file_metadata();
    let own = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata()).map_err(|error| error.to_string())?;
    let schema = encode_arrow_schema(&schema_as_recorded(own.fields(), which, columns)?);
    // What a column is called in Arrow, and its ids, stand in the schema that Arrow's writers leave in the footer.
    let other = |entry: &&KeyValue| entry.key != ARROW_SCHEMA_META_KEY;
    let mut entries: Vec<KeyValue> = file.key_value_metadata().into_iter().flatten().filter(other).cloned().collect();
    entries.push(KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), schema));
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        Some(entries),
        file.schema_descr_ptr(),
        file.column_orders().cloned(),
    );
    let recorded = ParquetMetaDataBuilder::new(file)
        .set_row_groups(footer.row_groups().to_vec())
        .set_column_index(footer.column_index().cloned())
        .set_offset_index(footer.offset_index().cloned());
    Ok(recorded.build())
}

/// The columns of a file with the ids that the manifest has of them, and with the number of the fragment and the file.
pub fn schema_as_recorded(own: &Fields, (fragment, number): (FragmentId, usize), columns: &[FileColumn]) -> Result<Schema, String> {
    let field = |(field, column): (&FieldRef, &FileColumn)| {
        let mut parts = column.parts.iter();
        let numbered = with_id(field, column.field, &mut parts).filter(|_| parts.next().is_none());
        let numbered = numbered.ok_or_else(|| format!("its column '{}' has other parts than the manifest says", field.name()))?;
        let mut metadata = numbered.metadata().clone();
        metadata.insert(FRAGMENT_KEY.to_owned(), format!("{fragment}/{number}"));
        Ok(numbered.as_ref().clone().with_metadata(metadata))
    };
    own.iter().zip(columns).map(field).collect::<Result<Vec<_>, String>>().map(Schema::new)
}

/// Makes the adapter of each file.
#[derive(Debug, Clone)]
pub struct FieldIdAdapterFactory {
    /// The table's columns with their ids, which the schema of a scan does not show.
    columns: SchemaRef,
    /// The values of columns that have one other than NULL where a file does not hold them, by field id.
    initial: HashMap<i32, ScalarValue>,
    records: Records,
}

impl FieldIdAdapterFactory {
    /// For the files of these fragments of a table of that schema.
    pub fn new(table: &TableSchema, records: Records) -> crate::error::Result<Self> {
        let columns = table.to_arrow();
        let value = |(field, arrow): (&TableField, &FieldRef)| Ok((field.id.0, initial(field, arrow.data_type())?));
        let with_value = table.columns().zip(columns.fields()).filter(|(field, _)| field.initial.is_some());
        let initial = with_value.map(value).collect::<crate::error::Result<_>>()?;
        Ok(FieldIdAdapterFactory { columns, initial, records })
    }

    /// The record of the file with this schema, if its footer names one.
    fn record(&self, physical: &Schema) -> Result<Option<&[FileColumn]>> {
        let Some(mark) = physical.fields().iter().find_map(|field| field.metadata().get(FRAGMENT_KEY)) else { return Ok(None) };
        let file = mark.split_once('/').and_then(|(fragment, file)| {
            let fragment = self.records.get(&FragmentId(fragment.parse().ok()?))?;
            fragment.files.get(file.parse::<usize>().ok()?)
        });
        match file {
            Some(file) => Ok(Some(&file.columns)),
            None => Err(external(Error::internal(format!("file {mark} is read and not part of the scan")))),
        }
    }

    /// The file's schema with each column under the table's name for its field id. A column of a field that the table does
    /// not have gets a name that no column of the table has. Nested columns whose parts are others have the table's type there, and are
    /// among the second: the types of the file and of the table, and what the latter is seen as.
    fn todays_names(&self, logical: &Schema, physical: &Schema) -> Result<(SchemaRef, Nested)> {
        let mut nested = Nested::new();
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
            // Where only the metadata differs (the file has the id), no cast is needed.
            let seen = logical.field_with_name(column.name())?;
            let field = field.as_ref().clone().with_name(column.name()).with_metadata(seen.metadata().clone());
            if same_parts(column.data_type(), field.data_type()) {
                return Ok(Arc::new(field));
            }
            let by_ids = (field.data_type().clone(), column.data_type().clone(), seen.data_type().clone());
            nested.insert(index, by_ids);
            Ok(Arc::new(field.with_data_type(seen.data_type().clone())))
        };
        let renamed = physical.fields().iter().enumerate().map(todays_name).collect::<Result<Fields>>()?;
        Ok((Arc::new(Schema::new_with_metadata(renamed, physical.metadata().clone())), nested))
    }

    /// The columns that are not in the file, by today's names.
    fn constants(&self, record: Option<&[FileColumn]>, physical: &Schema) -> Result<HashMap<String, ScalarValue>> {
        let mut constants = HashMap::new();
        let held: Vec<i32> = physical.fields().iter().filter_map(|field| field_id(field)).collect();
        for column in self.columns.fields() {
            let Some(id) = field_id(column).filter(|id| !held.contains(id)) else { continue };
            constants.extend(self.initial.get(&id).map(|value| (column.name().clone(), value.clone())));
        }
        for column in record.into_iter().flatten() {
            let (Some(value), Some(id)) = (&column.constant, column.field) else { continue };
            let Some(field) = self.columns.fields().iter().find(|field| field_id(field) == Some(id.0)) else { continue };
            let value = to_scalar(value, field.data_type()).ok_or_else(|| {
                external(Error::internal(format!("the constant of column '{}' is none of type {}", field.name(), field.data_type())))
            })?;
            constants.insert(field.name().clone(), value);
        }
        Ok(constants)
    }
}

impl PhysicalExprAdapterFactory for FieldIdAdapterFactory {
    fn create(&self, logical_file_schema: SchemaRef, physical_file_schema: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let record = self.record(&physical_file_schema)?;
        let (renamed, nested) = self.todays_names(&logical_file_schema, &physical_file_schema)?;
        let constants = self.constants(record, &physical_file_schema)?;
        let by_name = DefaultPhysicalExprAdapter::new(logical_file_schema, renamed);
        Ok(Arc::new(FieldIdAdapter { by_name, constants, nested, physical: physical_file_schema }))
    }
}

/// Casts and fills in what is missing as DataFusion does, over a schema in which the file's columns have today's names; then
/// gives them back the names that they have in the file.
#[derive(Debug)]
struct FieldIdAdapter {
    by_name: DefaultPhysicalExprAdapter,
    constants: HashMap<String, ScalarValue>,
    nested: Nested,
    physical: SchemaRef,
}

impl PhysicalExprAdapter for FieldIdAdapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let adapted = self.by_name.rewrite(replace_columns_with_literals(expr, &self.constants)?)?;
        let in_file = |expr: Arc<dyn PhysicalExpr>| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let field = self.physical.fields().get(column.index());
            let field = field.ok_or_else(|| external(Error::internal(format!("no column {} in the file", column.index()))))?;
            let nested = self.nested.get(&column.index());
            if field.name() == column.name() && nested.is_none() {
                return Ok(Transformed::no(expr));
            }
            let of_file: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), column.index()));
            Ok(Transformed::yes(match nested {
                Some((file, table, seen)) => Arc::new(ByIds::new(of_file, file.clone(), table.clone(), seen.clone())),
                None => of_file,
            }))
        };
        adapted.transform_up(in_file).data()
    }
}

/// A field with the id `id`, and its parts with the next of `parts`; `None` if those are too few.
fn with_id<'a>(field: &Field, id: Option<FieldId>, parts: &mut impl Iterator<Item = &'a FieldId>) -> Option<FieldRef> {
    let mut part = |part: &FieldRef| {
        let id = *parts.next()?;
        with_id(part, Some(id), parts)
    };
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(part).collect::<Option<Fields>>()?),
        DataType::List(element) => DataType::List(part(element)?),
        DataType::LargeList(element) => DataType::LargeList(part(element)?),
        DataType::FixedSizeList(element, size) => DataType::FixedSizeList(part(element)?, *size),
        DataType::Map(entries, sorted) => DataType::Map(part(entries)?, *sorted),
        other => other.clone(),
    };
    let mut metadata = field.metadata().clone();
    match id {
        Some(id) => metadata.insert(PARQUET_FIELD_ID.to_owned(), id.to_string()),
        None => metadata.remove(PARQUET_FIELD_ID),
    };
    Some(Arc::new(field.clone().with_data_type(data_type).with_metadata(metadata)))
}

fn is_row_number(field: &Field) -> bool {
    field.name() == address::OFFSET_COLUMN && field.extension_type_name() == address::offset_field().extension_type_name()
}
