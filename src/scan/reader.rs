//! What opens a data file: footers are cached, and compared with what the manifest says of the file.
//!
//! Goes in: a file of a scan, with the fragment it belongs to. Comes out: a reader of its bytes and of its footer.
//! Always holds: every byte was held against its checksum; a footer that does not describe the fragment's rows is refused, so the
//! counts that the planner believes are those that are read; so is one whose columns are not those of the manifest; every error names the object and the table.

use super::address::is_reserved;
use super::evolve::as_recorded;
use super::external;
use super::held::Held;
use super::nan::without_misleading_bounds;
use crate::error::Error;
use crate::store::VerifiedStore;
use crate::table::fragment::{DataFile, FileColumn, Fragment};
use bytes::Bytes;
use datafusion::common::DataFusionError;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::parquet::{CachedParquetFileReaderFactory, ParquetFileReaderFactory};
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::{ObjectMeta, ObjectStore};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::{Type, TypePtr};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// The fragment whose data a file holds: an extension of its `PartitionedFile`.
#[derive(Debug, Clone)]
pub struct FileOf {
    /// The fragment.
    pub fragment: Arc<Fragment>,
    /// Which of its files it is.
    pub file: usize,
    /// The table, for errors.
    pub table: Arc<str>,
    /// What the file is called in errors.
    pub object: Arc<str>,
}

impl FileOf {
    /// What the manifest says of the file.
    pub(super) fn record(&self) -> Option<&DataFile> {
        self.fragment.files.get(self.file)
    }

    fn damaged(&self, reason: String) -> ParquetError {
        ParquetError::External(Box::new(Error::damaged(self.table.as_ref(), self.object.as_ref(), reason)))
    }

    /// Refuses a footer that is not of the file that the manifest describes, or in which columns cannot be told apart.
    fn check(&self, footer: &ParquetMetaData) -> parquet::errors::Result<()> {
        self.check_rows(footer).and_then(|()| self.check_columns(footer)).map_err(|reason| self.damaged(reason))
    }

    /// The columns that the manifest says are in the file.
    fn columns(&self) -> impl Iterator<Item = &FileColumn> {
        self.record().into_iter().flat_map(|file| &file.columns).filter(|column| column.constant.is_none())
    }

    /// Whether the ids that the file carries are those that the manifest has. Of files of others nothing is believed: some
    /// readers take ids from one place in them, some from another.
    fn ids_are_recorded(&self, footer: &ParquetMetaData) -> bool {
        let same = |(column, recorded): (&TypePtr, &FileColumn)| {
            let mut found = Vec::new();
            ids_of(column, &mut found);
            found.iter().copied().eq(recorded.field.iter().chain(&recorded.parts).map(|id| id.0))
        };
        let columns = footer.file_metadata().schema_descr().root_schema().get_fields();
        let own = self.record().is_none_or(|file| file.base.is_none() && file.columns.iter().all(|column| column.constant.is_none()));
        own && columns.iter().zip(self.columns()).all(same)
    }

    fn check_rows(&self, footer: &ParquetMetaData) -> Result<(), String> {
        let recorded = self.record().into_iter().flat_map(|file| file.row_groups.iter()).map(|rows| i64::from(*rows));
        let found = footer.row_groups().iter().map(|group| group.num_rows());
        if recorded.clone().eq(found.clone()) {
            return Ok(());
        }
        let describe = |groups: usize, rows: i64| format!("{rows} rows in {groups} row groups");
        let found = describe(footer.num_row_groups(), found.sum());
        let recorded = describe(recorded.clone().count(), recorded.sum());
        Err(format!("its footer says that it has {found}, the manifest {recorded}, or they are divided otherwise"))
    }

    fn check_columns(&self, footer: &ParquetMetaData) -> Result<(), String> {
        let columns = footer.file_metadata().schema_descr().root_schema().get_fields();
        let recorded = self.columns().count();
        if columns.len() != recorded {
            return Err(format!("its footer says that it has {} columns, the manifest {recorded}", columns.len()));
        }
        let mut names = HashSet::new();
        for column in columns {
            let name = column.name();
            if is_reserved(name) {
                return Err(format!("one of its columns is called '{name}', which is reserved"));
            }
            if !names.insert(name) {
                return Err(format!("two of its columns are called '{name}'"));
            }
        }
        Ok(())
    }
}

/// The ids of a column and its parts, depth first. What lies between a list and its elements has none.
fn ids_of(column: &Type, into: &mut Vec<i32>) {
    let info = column.get_basic_info();
    if info.has_id() {
        into.push(info.id());
    }
    if column.is_group() {
        column.get_fields().iter().for_each(|part| ids_of(part, into));
    }
}

/// Makes the readers of a scan's files.
#[derive(Debug)]
pub struct FragmentReaderFactory {
    store: Arc<dyn ObjectStore>,
    cache: Arc<FileMetadataCache>,
    readers: CachedParquetFileReaderFactory,
    held: Option<Held>,
}

impl FragmentReaderFactory {
    /// Reads files through `store`, and keeps their footers in `cache`. `held` is what they are of.
    pub fn new(store: VerifiedStore, cache: Arc<FileMetadataCache>, held: Option<Held>) -> Self {
        let store: Arc<dyn ObjectStore> = Arc::new(store);
        let readers = CachedParquetFileReaderFactory::new(Arc::clone(&store), Arc::clone(&cache));
        FragmentReaderFactory { store, cache, readers, held }
    }
}

impl ParquetFileReaderFactory for FragmentReaderFactory {
    fn create_reader(
        &self,
        partition_index: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>, DataFusionError> {
        let file_of = file.extension::<FileOf>().cloned();
        let file_of = file_of.ok_or_else(|| external(Error::internal(format!("'{}' is of no fragment", file.path()))))?;
        let object = file.object_meta.clone();
        let bytes = self.readers.create_reader(partition_index, file, metadata_size_hint, metrics)?;
        let (store, cache) = (Arc::clone(&self.store), Arc::clone(&self.cache));
        let held = self.held.clone();
        Ok(Box::new(FragmentReader { bytes, held, footer: Footer { store, cache, object, metadata_size_hint, file_of } }))
    }
}

/// Reads one data file. DataFusion's own reader of footers turns errors into text, so that is done here.
struct FragmentReader {
    bytes: Box<dyn AsyncFileReader + Send>,
    footer: Footer,
    /// The version that the file is read for.
    held: Option<Held>,
}

/// Reads the footer of one data file.
struct Footer {
    store: Arc<dyn ObjectStore>,
    cache: Arc<FileMetadataCache>,
    object: ObjectMeta,
    metadata_size_hint: Option<usize>,
    file_of: FileOf,
}

impl Footer {
    async fn read(&self, options: Option<&ArrowReaderOptions>) -> parquet::errors::Result<Arc<ParquetMetaData>> {
        let footer = DFParquetMetadata::new(&self.store, &self.object)
            .with_file_metadata_cache(Some(Arc::clone(&self.cache)))
            .with_metadata_size_hint(self.metadata_size_hint)
            .with_page_index_policy(options.map(ArrowReaderOptions::column_index_policy))
            .fetch_metadata()
            .await
            .map_err(|error| match error {
                // The bytes are as they were written, and still no footer.
                DataFusionError::ParquetError(error) => self.file_of.damaged(error.to_string()),
                other => ParquetError::External(Box::new(other)),
            })?;
        self.file_of.check(&footer)?;
        let Some(file) = self.file_of.record() else { return Ok(footer) };
        let footer = without_misleading_bounds(footer, file)?;
        if self.file_of.ids_are_recorded(&footer) {
            return Ok(footer);
        }
        let recorded = as_recorded(&footer, (self.file_of.fragment.id, self.file_of.file), &file.columns);
        recorded.map(Arc::new).map_err(|reason| self.file_of.damaged(reason))
    }
}

impl AsyncFileReader for FragmentReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        let (held, bytes) = (self.held.clone(), self.bytes.get_bytes(range));
        async move { Held::explained_file(held, bytes.await).await }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        let (held, bytes) = (self.held.clone(), self.bytes.get_byte_ranges(ranges));
        async move { Held::explained_file(held, bytes.await).await }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        let (held, footer) = (self.held.clone(), self.footer.read(options));
        async move { Held::explained_file(held, footer.await).await }.boxed()
    }
}
