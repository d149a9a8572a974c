//! Rows that the manifest itself holds: a few rows of a data file, as an Arrow IPC stream of one batch.
//!
//! ```text
//!   DataFile.inline ──decode──> batch, columns by position ──the adapter of files──> columns of the table, and the row number
//! ```
//!
//! Goes in: rows to be kept, or bytes of a manifest. Comes out: bytes, or the columns that a scan wants.
//! Always holds: the bytes were held against their checksum before anything of them is believed; columns are found by what the manifest
//! says of them, as those of Parquet files are, so renamed, widened and dropped columns read alike.

use super::address::{OFFSET_COLUMN, offset_field};
use super::evolve::schema_as_recorded;
use super::external;
use super::reader::FileOf;
use crate::error::{Error, Result};
use crate::store::Written;
use crate::table::fragment::DataFile;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use datafusion::common::Result as EngineResult;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_adapter::PhysicalExprAdapterFactory;
use std::io::Cursor;
use std::sync::Arc;

/// Buffers of so few values need no more.
const ALIGNMENT_BYTES: usize = 8;

/// The bytes that keep a batch. Names and metadata of columns are not kept: the manifest says what they are.
pub fn encode(batch: &RecordBatch) -> Result<Vec<u8>> {
    let nameless = |field: &FieldRef| Field::new("", field.data_type().clone(), field.is_nullable());
    let schema = Arc::new(Schema::new(batch.schema().fields().iter().map(nameless).collect::<Vec<_>>()));
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let write = || {
        let batch = RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &rows)?;
        let options = IpcWriteOptions::try_new(ALIGNMENT_BYTES, false, datafusion::arrow::ipc::MetadataVersion::V5)?;
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options)?;
        writer.write(&batch)?;
        writer.into_inner()
    };
    write().map_err(|error: ArrowError| Error::internal(format!("rows for the manifest: {error}")))
}

/// The rows of a file that is in the manifest; an error says what is wrong with it.
pub fn decode(file: &DataFile) -> Result<RecordBatch, String> {
    let bytes = file.inline.as_ref().ok_or("its rows are not in the manifest")?;
    let found = Written::of(bytes);
    if (found.block_bytes, &found.crc32c) != (file.checksum.block_bytes, &file.checksum.crc32c) {
        return Err("its rows do not match their checksum".to_owned());
    }
    let mut batches = StreamReader::try_new(Cursor::new(bytes), None).map_err(|error| error.to_string())?;
    let batch = batches.next().ok_or("it holds no batch")?.map_err(|error| error.to_string())?;
    let in_file = file.columns.iter().filter(|column| column.constant.is_none()).count();
    let rows: u64 = file.row_groups.iter().map(|rows| u64::from(*rows)).sum();
    if batches.next().is_some() || batch.num_rows() as u64 != rows || batch.num_columns() != in_file {
        let (rows, columns) = (batch.num_rows(), batch.num_columns());
        return Err(format!("it holds {rows} rows of {columns} columns, which are not those that the manifest says"));
    }
    Ok(batch)
}

/// The columns at `wanted` of a scan with the schema `logical`, all of them of one file, and the row numbers as the last column.
pub fn read(of: &FileOf, logical: &SchemaRef, adapters: &dyn PhysicalExprAdapterFactory, wanted: &[usize]) -> EngineResult<RecordBatch> {
    let file = of.record().ok_or_else(|| external(Error::internal("a file that is in no manifest")))?;
    let damaged = |reason: String| external(Error::damaged(of.table.as_ref(), of.object.as_ref(), reason));
    let batch = decode(file).map_err(damaged)?;
    let columns: Vec<_> = file.columns.iter().filter(|column| column.constant.is_none()).cloned().collect();
    let recorded = schema_as_recorded(batch.schema().fields(), (of.fragment.id, of.file), &columns).map_err(damaged)?;
    let rows = batch.num_rows();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let fields = recorded.fields().iter().cloned().chain([offset_field()]).collect::<Vec<_>>();
    let physical = Arc::new(Schema::new(fields));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    // The parts of nested columns carry the ids of the day on which they were written.
    let renumbered = batch.columns().iter().zip(physical.fields()).map(|(values, field)| cast(values, field.data_type()));
    let arrays = renumbered.chain([Ok(numbers)]).collect::<Result<Vec<_>, _>>()?;
    let batch = RecordBatch::try_new_with_options(physical.clone(), arrays, &options)?;

    let adapter = adapters.create(logical.clone(), physical)?;
    let offset = logical.index_of(OFFSET_COLUMN)?;
    let positions: Vec<usize> = wanted.iter().copied().chain([offset]).collect();
    let value = |position: &usize| {
        let field = logical.field(*position);
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), *position));
        adapter.rewrite(column)?.evaluate(&batch)?.into_array(rows)
    };
    let values = positions.iter().map(value).collect::<EngineResult<Vec<_>>>()?;
    let schema = Arc::new(logical.project(&positions)?);
    Ok(RecordBatch::try_new_with_options(schema, values, &options)?)
}
