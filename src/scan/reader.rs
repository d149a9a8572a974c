//! What opens a data file: footers are cached, and compared with what the manifest says of the file.
//!
//! Goes in: a file of a scan, with the fragment it belongs to. Comes out: a reader of its bytes and of its footer.
//! Always holds: every byte was held against its checksum; a footer that does not describe the fragment's rows is refused, so the
//! counts that the planner believes are those that are read; so is one whose columns have no ids of their own; every error names the object and the table.

use super::address::is_reserved;
use super::external;
use super::nan::without_misleading_bounds;
use crate::error::Error;
use crate::manifest::leases::Lease;
use crate::store::VerifiedStore;
use crate::table::fragment::{DataFile, Fragment};
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
}

impl FileOf {
    fn record(&self) -> Option<&DataFile> {
        self.fragment.files.get(self.file)
    }

    fn damaged(&self, reason: String) -> ParquetError {
        let object = self.record().map_or("", |file| file.path.as_str());
        ParquetError::External(Box::new(Error::damaged(self.table.as_ref(), object, reason)))
    }

    /// Refuses a footer that is not of the file that the manifest describes, or in which columns cannot be told apart.
    fn check(&self, footer: &ParquetMetaData) -> parquet::errors::Result<()> {
        self.check_rows(footer).and_then(|()| self.check_columns(footer)).map_err(|reason| self.damaged(reason))
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
        let mut ids = HashSet::new();
        let mut names = HashSet::new();
        for column in footer.file_metadata().schema_descr().root_schema().get_fields() {
            let info = column.get_basic_info();
            let name = info.name();
            if is_reserved(name) {
                return Err(format!("one of its columns is called '{name}', which is reserved"));
            }
            if !names.insert(name) {
                return Err(format!("two of its columns are called '{name}'"));
            }
            if !info.has_id() {
                return Err(format!("its column '{name}' has no field id"));
            }
            if !ids.insert(info.id()) {
                return Err(format!("two of its columns have field id {}", info.id()));
            }
        }
        Ok(())
    }
}

/// Makes the readers of a scan's files.
#[derive(Debug)]
pub struct FragmentReaderFactory {
    store: Arc<dyn ObjectStore>,
    cache: Arc<FileMetadataCache>,
    readers: CachedParquetFileReaderFactory,
    _lease: Option<Arc<Lease>>,
}

impl FragmentReaderFactory {
    /// Reads files through `store`, and keeps their footers in `cache`. `lease` is held meanwhile.
    pub fn new(store: VerifiedStore, cache: Arc<FileMetadataCache>, lease: Option<Arc<Lease>>) -> Self {
        let store: Arc<dyn ObjectStore> = Arc::new(store);
        let readers = CachedParquetFileReaderFactory::new(Arc::clone(&store), Arc::clone(&cache));
        FragmentReaderFactory { store, cache, readers, _lease: lease }
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
        Ok(Box::new(FragmentReader { bytes, footer: Footer { store, cache, object, metadata_size_hint, file_of } }))
    }
}

/// Reads one data file. DataFusion's own reader of footers turns errors into text, so that is done here.
struct FragmentReader {
    bytes: Box<dyn AsyncFileReader + Send>,
    footer: Footer,
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
        match self.file_of.record() {
            Some(file) => without_misleading_bounds(footer, file),
            None => Ok(footer),
        }
    }
}

impl AsyncFileReader for FragmentReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        self.bytes.get_bytes(range)
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        self.bytes.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        self.footer.read(options).boxed()
    }
}
