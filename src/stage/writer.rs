//! The fragment writer: batches of rows become Parquet files, one to a fragment; or, if they are few, bytes that the manifest holds.
//!
//! Goes in: batches in the table's column order. Comes out: fragments that are on disk, or in memory, and that nothing names.
//! Always holds: row k that goes in is row k of the fragments in their order; files carry field ids, and a checksum of
//! each of their blocks is known when they are done.

use super::alone::{alone, size_bytes};
use crate::commit::staged::remove;
use crate::error::{Error, Result};
use crate::scan::{inline, statistics};
use crate::store::{ObjectName, ObjectWriter, Store, Written};
use crate::table::fragment::{BlockChecksums, DataFile, FileColumn, Fragment, MAX_INLINE_BYTES, SortKey};
use crate::table::row_address::MAX_ROWS_PER_FRAGMENT;
use crate::table::schema::{Field, TableSchema};
use crate::table::stats::ColumnStats;
use bytes::Bytes;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::{CastOptions, cast_with_options, concat_batches};
use datafusion::arrow::datatypes::{DataType, FieldRef, Float16Type, Float32Type, Float64Type, SchemaRef};
use datafusion::parquet::arrow::AsyncArrowWriter;
use datafusion::parquet::arrow::async_writer::AsyncFileWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::properties::WriterProperties;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::Arc;

/// Rows of a row group.
pub const ROWS_PER_ROW_GROUP: usize = 256 * 1024;
/// Encoded bytes of a row group, which are held in memory until it is written.
const BYTES_PER_ROW_GROUP: usize = 128 * 1024 * 1024;
/// Rows of a data page: so many are decoded to find one.
const ROWS_PER_PAGE: usize = 8 * 1024;
/// How large the dictionary of a column of a row group grows before values are written as they are. Whoever reads one row decodes all of
/// it, and of values that hardly repeat it saves nothing.
const DICTIONARY_BYTES: usize = 128 * 1024;
/// Rows of a fragment, unless a setting says otherwise.
pub const ROWS_PER_FRAGMENT: u32 = 1024 * 1024;

/// A fragment that is on disk and that nothing names yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewFragment {
    /// How many rows it has.
    pub physical_rows: u32,
    /// The file that holds its columns, each named by the field id of the schema that was written.
    pub file: DataFile,
}

/// Writes rows to fragments.
pub struct FragmentWriter {
    store: Store,
    table: String,
    schema: Arc<TableSchema>,
    arrow: SchemaRef,
    rows_per_fragment: u32,
    open: Option<OpenFile>,
    done: Vec<NewFragment>,
    /// The first rows, as long as they may be so few that no file is made for them; `None` if there is to be one.
    few: Option<Few>,
    /// The order in which the rows come, if it is known.
    sorted_by: Vec<SortKey>,
}

/// Rows that are held, and how many bytes they are, roughly.
#[derive(Default)]
struct Few {
    batches: Vec<RecordBatch>,
    rows: usize,
    size_bytes: usize,
    max_bytes: usize,
}

struct OpenFile {
    name: ObjectName,
    writer: AsyncArrowWriter<Sink>,
    rows: u32,
    /// Whether a NaN was seen, by column.
    nan: Vec<bool>,
}

impl FragmentWriter {
    /// A writer of fragments of a table of that schema.
    pub fn new(store: Store, table: String, schema: Arc<TableSchema>, rows_per_fragment: u32) -> Self {
        let arrow = schema.to_arrow();
        let rows_per_fragment = rows_of_a_fragment(rows_per_fragment);
        FragmentWriter { store, table, schema, arrow, rows_per_fragment, open: None, done: Vec::new(), few: None, sorted_by: vec![] }
    }

    /// The same; the rows come in this order.
    pub fn sorted_by(self, sorted_by: Vec<SortKey>) -> Self {
        FragmentWriter { sorted_by, ..self }
    }

    /// The same; rows of up to so many bytes (and [`MAX_INLINE_BYTES`]) become no file, but bytes for the manifest.
    pub fn inline_up_to(self, bytes: u32) -> Self {
        let max_bytes = MAX_INLINE_BYTES.min(bytes as usize);
        FragmentWriter { few: (max_bytes > 0).then(|| Few { max_bytes, ..Few::default() }), ..self }
    }

    /// The same, for columns of a fragment that is there: only if the manifest holds all that it has until now.
    pub fn inline_like(self, fragment: &Fragment, bytes: u32) -> Self {
        match fragment.files.iter().all(|file| file.inline.is_some()) {
            true => self.inline_up_to(bytes),
            false => self,
        }
    }

    /// Writes rows. The columns must be the table's, in order; NULLs are refused where the table refuses them.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = self.conform(batch)?;
        let Some(mut few) = self.few.take() else { return self.write_to_file(&batch).await };
        let batch = alone(&batch).map_err(|e| Error::internal(format!("rows for the manifest: {e}")))?;
        few.rows += batch.num_rows();
        few.size_bytes += size_bytes(&batch);
        few.batches.push(batch);
        if few.size_bytes <= few.max_bytes && few.rows <= self.rows_per_fragment as usize {
            self.few = Some(few);
            return Ok(());
        }
        self.write_few_to_file(few).await
    }

    async fn write_few_to_file(&mut self, few: Few) -> Result<()> {
        for batch in &few.batches {
            self.write_to_file(batch).await?;
        }
        Ok(())
    }

    async fn write_to_file(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut from = 0;
        while from < batch.num_rows() {
            let rows_per_fragment = self.rows_per_fragment;
            let open = match &mut self.open {
                Some(open) => open,
                None => self.open.insert(OpenFile::create(&self.store, &self.arrow)?),
            };
            let length = (batch.num_rows() - from).min((rows_per_fragment - open.rows) as usize);
            let piece = batch.slice(from, length);
            for (nan, column) in open.nan.iter_mut().zip(piece.columns()) {
                *nan = *nan || has_nan(column.as_ref());
            }
            open.writer.write(&piece).await?;
            open.rows += length as u32;
            from += length;
            if open.rows == rows_per_fragment {
                self.close().await?;
            }
        }
        Ok(())
    }

    /// Ends the fragment that is open.
    async fn close(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let name = open.name.clone();
        match open.finish(&self.schema, &self.arrow).await {
            Ok(mut fragment) => {
                fragment.file.sorted_by.clone_from(&self.sorted_by);
                self.done.push(fragment);
                Ok(())
            }
            Err(error) => {
                // The file may be there nevertheless: an answer can be lost.
                remove(&self.store, &[name]).await;
                Err(error)
            }
        }
    }

    /// Rows that are held become a fragment that the manifest holds, or a file after all if their bytes are too many.
    async fn keep_few(&mut self, few: Few) -> Result<()> {
        if few.rows == 0 {
            return Ok(());
        }
        let rows = concat_batches(&self.arrow, &few.batches).map_err(|e| Error::internal(format!("rows for the manifest: {e}")))?;
        let bytes = inline::encode(&rows)?;
        if bytes.len() > few.max_bytes {
            return self.write_few_to_file(few).await;
        }
        let stats = rows.columns().iter().map(|column| statistics::from_array(column, has_nan(column.as_ref())));
        let written = Written::of(&bytes);
        let file = DataFile {
            path: ObjectName::new_inline().as_str().to_owned(),
            base: None,
            size_bytes: written.size_bytes,
            unchecked_bytes: 0,
            checksum: Arc::new(BlockChecksums { block_bytes: written.block_bytes, crc32c: written.crc32c }),
            row_groups: vec![rows.num_rows() as u32],
            columns: columns(&self.schema, stats),
            inline: Some(bytes.into()),
            sorted_by: self.sorted_by.clone(),
        };
        self.done.push(NewFragment { physical_rows: rows.num_rows() as u32, file });
        Ok(())
    }

    /// The rows that were written, where they are so few that nothing was made of them yet; nothing is made of them then.
    pub fn take_few(&mut self) -> Option<Vec<RecordBatch>> {
        Some(self.few.take()?.batches).filter(|batches| !batches.is_empty())
    }

    /// Ends the last fragment and gives all of them, in order.
    pub async fn finish(mut self) -> Result<Vec<NewFragment>> {
        let kept = match self.few.take() {
            Some(few) => self.keep_few(few).await,
            None => Ok(()),
        };
        let ended = match kept {
            Ok(()) => self.close().await,
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) => Ok(self.done),
            Err(error) => {
                self.abort().await;
                Err(error)
            }
        }
    }

    /// Removes what was written. Best effort.
    pub async fn abort(self) {
        if let Some(open) = self.open {
            open.writer.into_inner().abort().await;
        }
        discard(&self.store, &self.done).await;
    }

    /// The batch under the table's own schema: names and metadata are the table's, NULLs only where they may be.
    pub(super) fn conform(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        hold_not_null(&self.table, &self.arrow, batch)?;
        let columns = self.arrow.fields().iter().zip(batch.columns()).map(|(field, column)| relabel(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        RecordBatch::try_new(self.arrow.clone(), columns)
            .map_err(|e| Error::internal(format!("rows for table '{}' do not fit its schema: {e}", self.table)))
    }
}

/// Refuses NULL where a column must not be NULL. The columns are those of `schema`, in order.
pub(super) fn hold_not_null(table: &str, schema: &SchemaRef, batch: &RecordBatch) -> Result<()> {
    let violated = |(field, column): &(&FieldRef, &ArrayRef)| !field.is_nullable() && column.logical_null_count() > 0;
    match schema.fields().iter().zip(batch.columns()).find(violated) {
        Some((field, _)) => Err(Error::NotNull { table: table.to_owned(), column: field.name().clone() }),
        None => Ok(()),
    }
}

/// The same values under a type that differs at most in the names, metadata and nullability of nested fields. A value that
/// would not be the same is an error, never NULL.
fn relabel(column: &Arc<dyn Array>, data_type: &DataType) -> Result<Arc<dyn Array>> {
    if column.data_type() == data_type {
        return Ok(column.clone());
    }
    if !column.data_type().is_nested() {
        return Err(Error::internal(format!("values of type {} were planned for a column of type {data_type}", column.data_type())));
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, data_type, &strict).map_err(|e| Error::invalid(format!("a value does not fit its column: {e}")))
}

/// The rows of a fragment where so many are asked for.
pub fn rows_of_a_fragment(rows: u32) -> u32 {
    rows.clamp(1, MAX_ROWS_PER_FRAGMENT as u32)
}

fn has_nan(column: &dyn Array) -> bool {
    match column.data_type() {
        DataType::Float64 => column.as_primitive::<Float64Type>().values().iter().any(|value| value.is_nan()),
        DataType::Float32 => column.as_primitive::<Float32Type>().values().iter().any(|value| value.is_nan()),
        DataType::Float16 => column.as_primitive::<Float16Type>().values().iter().any(|value| value.is_nan()),
        _ => false,
    }
}

/// The columns of a file that has all of a table's, in order.
fn columns(schema: &TableSchema, stats: impl Iterator<Item = ColumnStats>) -> Vec<FileColumn> {
    let column =
        |(field, stats): (&Field, ColumnStats)| FileColumn { field: Some(field.id), parts: schema.parts(field.id), constant: None, stats };
    schema.columns().zip(stats).map(column).collect()
}

/// Removes fragments that will not be named. Best effort.
pub async fn discard<'a>(store: &Store, fragments: impl IntoIterator<Item = &'a NewFragment>) {
    let objects = fragments.into_iter().filter(|fragment| fragment.file.is_object_of_table());
    let names: Vec<ObjectName> = objects.filter_map(|fragment| ObjectName::parse(&fragment.file.path).ok()).collect();
    remove(store, &names).await;
}

impl OpenFile {
    fn create(store: &Store, arrow: &SchemaRef) -> Result<Self> {
        let name = ObjectName::new_data();
        let zstd = ZstdLevel::try_new(1).map_err(|e| Error::internal(format!("zstd level: {e}")))?;
        let properties = WriterProperties::builder()
            .set_created_by(concat!("amend ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::ZSTD(zstd))
            .set_max_row_group_row_count(Some(ROWS_PER_ROW_GROUP))
            .set_max_row_group_bytes(Some(BYTES_PER_ROW_GROUP))
            .set_data_page_row_count_limit(ROWS_PER_PAGE)
            .set_dictionary_page_size_limit(DICTIONARY_BYTES)
            .build();
        let writer = AsyncArrowWriter::try_new(Sink(store.writer(&name)), arrow.clone(), Some(properties))?;
        Ok(OpenFile { name, writer, rows: 0, nan: vec![false; arrow.fields().len()] })
    }

    /// Ends the file; its columns are named by the field ids of `schema`.
    async fn finish(mut self, schema: &TableSchema, arrow: &SchemaRef) -> Result<NewFragment> {
        let footer = match self.writer.finish().await {
            Ok(footer) => footer,
            Err(error) => {
                self.writer.into_inner().abort().await;
                return Err(error.into());
            }
        };
        let written = self.writer.into_inner().0.finish().await?;
        let stats = arrow.fields().iter().enumerate();
        let stats = stats.map(|(at, arrow)| statistics::from_parquet(&footer, at, arrow.data_type(), self.nan.get(at) == Some(&true)));
        let file = DataFile {
            path: self.name.as_str().to_owned(),
            base: None,
            size_bytes: written.size_bytes,
            unchecked_bytes: 0,
            checksum: Arc::new(BlockChecksums { block_bytes: written.block_bytes, crc32c: written.crc32c }),
            row_groups: footer.row_groups().iter().map(|group| group.num_rows() as u32).collect(),
            columns: columns(schema, stats),
            inline: None,
            sorted_by: vec![],
        };
        Ok(NewFragment { physical_rows: self.rows, file })
    }
}

/// Parquet's view of an object that is being written.
struct Sink(ObjectWriter);

impl Sink {
    async fn abort(self) {
        if let Err(error) = self.0.abort().await {
            tracing::warn!(%error, "could not remove a file that was not finished");
        }
    }
}

impl AsyncFileWriter for Sink {
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, ParquetResult<()>> {
        self.0.write(bytes).map(|result| result.map_err(|e| ParquetError::External(Box::new(e)))).boxed()
    }

    fn complete(&mut self) -> BoxFuture<'_, ParquetResult<()>> {
        // The object is finished by its owner, who wants its checksums.
        futures::future::ready(Ok(())).boxed()
    }
}
