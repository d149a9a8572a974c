//! The plan of a scan: which files, in which groups, with what the planner may know of them.
//!
//! ```text
//!   ordered     where the rows of all fragments are known to lie in one order (`order`), files one behind the other
//!   unordered   files spread over partitions by size; DataFusion may split them by byte ranges, let partitions take each
//!               other's files, read row groups in any order
//!   in groups   partition i reads the fragments of group i, in their order, row by row (OPTIMIZE: new addresses follow)
//! ```
//!
//! A fragment is read from one file where that holds all columns that are wanted, else from several side by side (`zip`).
//!
//! Goes in: the fragments of a version and the rows deleted in each. Comes out: an execution plan for their live rows.
//! Always holds: the deleted rows given are as many as the fragment says (else the scan is refused, since counts are answered
//! from the fragment); every file is read through its checksums.

use super::address::{is_reserved, scan_schema};
use super::backing::{Reading, reading};
use super::evolve::FieldIdAdapterFactory;
use super::external;
use super::held::Held;
use super::mask::Deletions;
use super::order::{Ordered, ordered};
use super::pruning::prune;
use super::reader::{FileOf, FragmentReaderFactory};
use super::source::FragmentSource;
use super::statistics::{initial, of_fragment, of_fragments};
use super::zip::{LaneFile, Lanes};
use crate::error::{Error, Result};
use crate::store::{Elsewhere, FileCheck, ObjectName, Store, VerifiedStore, base, crc32c};
use crate::table::fragment::{Base, BaseId, DataFile, Fragment};
use crate::table::row_address::FragmentId;
use crate::table::schema::TableSchema;
use chrono::DateTime;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::config::{ConfigOptions, TableParquetOptions};
use datafusion::common::{ColumnStatistics, Result as EngineResult, ScalarValue, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetAccessPlan;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use object_store::ObjectMeta;
use object_store::path::Path;
use roaring::RoaringBitmap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

/// How much of the end of a file is read at first, at least: as much as one block of its checksums, which is read anyway.
const SMALLEST_FOOTER_HINT_BYTES: usize = 64 * 1024;
/// How much of the end of a file is read at first, at most.
const LARGEST_FOOTER_HINT_BYTES: usize = 512 * 1024;
/// Where DataFusion sees files of other stores, which in truth lie elsewhere.
const FOREIGN: &str = "_bases";
/// What a footer says of one column of one row group, roughly.
const FOOTER_BYTES_PER_CHUNK: usize = 200;

/// What to scan.
#[derive(Debug)]
pub struct ScanRequest {
    /// The store of the table.
    pub store: Store,
    /// The table's name, for errors.
    pub table: Arc<str>,
    /// The table's columns.
    pub schema: Arc<TableSchema>,
    /// The locations that files outside of the table's folder are in.
    pub bases: BTreeMap<BaseId, Base>,
    /// The fragments, and the rows that are deleted in each.
    pub fragments: Vec<(Arc<Fragment>, Option<Arc<RoaringBitmap>>)>,
    /// Positions in: the table's columns, then `__amend_fragment`, then `__amend_offset`. `None` is the table's columns.
    pub projection: Option<Vec<usize>>,
    /// A condition, over all columns that a scan can have, on the rows that are wanted. [`ScanRequest::prune`] leaves out
    /// fragments that cannot hold one; rows that do not match are not left out: DataFusion pushes its filters down by itself.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
    /// How many rows are enough; not obeyed together with a predicate, since rows that do not match would count.
    pub limit: Option<usize>,
    /// Groups of positions in `fragments`, each to be read in order as one partition; `None` if order does not matter.
    pub groups: Option<Vec<Vec<usize>>>,
    /// Whether filters are evaluated row by row while columns are read; `None` leaves it to the session.
    pub pushdown_filters: Option<bool>,
    /// How many partitions to spread the files over, if they are not in groups.
    pub target_partitions: usize,
    /// What keeps the version that is read, held for as long as something may read; `None` where the commit or the statement that
    /// reads holds it.
    pub held: Option<Held>,
}

/// Makes the objects of `store` known to the runtime, and says under which URL.
pub fn register(store: &Store, runtime: &RuntimeEnv) -> EngineResult<ObjectStoreUrl> {
    let url = ObjectStoreUrl::parse(format!("amend://{}", store.url_key()))?;
    runtime.register_object_store(url.as_ref(), Arc::clone(store.objects()));
    Ok(url)
}

/// The fragments that a scan reads, if the plan is one.
pub fn fragments_read(plan: &dyn ExecutionPlan) -> Vec<FragmentId> {
    let config = plan.downcast_ref::<DataSourceExec>().and_then(|exec| exec.data_source().downcast_ref::<FileScanConfig>());
    let files = config.into_iter().flat_map(|config| &config.file_groups).flat_map(|group| group.files());
    files.filter_map(|file| file.extension::<FileOf>().map(|file_of| file_of.fragment.id)).collect()
}

/// The plan of a scan.
pub fn plan(request: ScanRequest, session: &dyn Session) -> EngineResult<Arc<dyn ExecutionPlan>> {
    plan_with(request, session.runtime_env(), session.config_options())
}

/// The plan of a scan, where there is no session.
pub fn plan_with(request: ScanRequest, runtime: &RuntimeEnv, options: &ConfigOptions) -> EngineResult<Arc<dyn ExecutionPlan>> {
    if let Some(column) = request.schema.columns().find(|column| is_reserved(&column.name)) {
        return Err(external(Error::invalid(format!("column '{}' of table '{}' has a reserved name", column.name, request.table))));
    }
    let columns = request.schema.to_plain_arrow();
    let schema = scan_schema(Arc::clone(&columns));
    let projection = request.projection.clone().unwrap_or_else(|| (0..columns.fields().len()).collect());

    let seen = request.seen(&columns, &projection);
    let Files { files, checks, statistics, zipped } = request.files(&columns, &seen).map_err(external)?;
    let is_empty = statistics.is_empty();
    let files_with_deletions = files.iter().flatten().filter(|file| file.extension::<Deletions>().is_some()).count();
    let fragments: Vec<&Fragment> = request.fragments.iter().map(|(fragment, _)| fragment.as_ref()).collect();
    let (groups, order) = match &request.groups {
        None => match ordered(&fragments, &files, (&request.schema, &columns), &seen, request.target_partitions) {
            Some(Ordered { groups, order }) => (groups, vec![order]),
            None => (spread(files, request.target_partitions), vec![]),
        },
        Some(groups) => (in_groups(files, groups).map_err(external)?, vec![]),
    };
    if is_empty {
        let projected = schema.table_schema().project(&projection)?;
        return Ok(Arc::new(EmptyExec::new(Arc::new(projected)).with_partitions(groups.len().max(1))));
    }
    // Declared like this, files stay in their group and their order.
    let in_order = request.groups.is_some();
    let partitioning = in_order.then(|| Partitioning::UnknownPartitioning(groups.len()));

    let records: HashMap<_, _> = request.fragments.iter().map(|(fragment, _)| (fragment.id, Arc::clone(fragment))).collect();
    if records.len() < request.fragments.len() {
        return Err(external(Error::internal(format!("a scan of table '{}' names a fragment twice", request.table))));
    }
    let records = Arc::new(records);
    let adapter = FieldIdAdapterFactory::new(&request.schema, records).map_err(external)?;
    let url = register(&request.store, runtime)?;
    let verified = VerifiedStore::new(Arc::clone(request.store.objects()), checks);
    let footers = runtime.cache_manager.get_file_metadata_cache();
    let mut parquet = TableParquetOptions { global: options.execution.parquet.clone(), ..Default::default() };
    // The type of a column is the table's, whatever the session thinks of INT96.
    parquet.global.coerce_int96 = None;
    // Rows that are deleted may be NULL where no live one may.
    let read = if files_with_deletions > 0 { scan_schema(request.schema.with_nullable_columns().to_plain_arrow()) } else { schema.clone() };
    let parquet = ParquetSource::new(read)
        .with_table_parquet_options(parquet)
        .with_parquet_file_reader_factory(Arc::new(FragmentReaderFactory::new(verified, footers, request.held.clone())));
    let source = FragmentSource::new(parquet, schema, request.pushdown_filters, files_with_deletions, zipped);
    let config = FileScanConfigBuilder::new(url, Arc::new(source))
        .with_projection_indices(Some(projection))?
        .with_file_groups(groups)
        .with_statistics(with_address(of_fragments(&statistics, &columns)?))
        .with_limit(request.limit.filter(|_| request.predicate.is_none()))
        .with_expr_adapter(Some(Arc::new(adapter)))
        .with_preserve_order(in_order)
        .with_output_ordering(order)
        .with_output_partitioning(partitioning)
        .build();
    Ok(DataSourceExec::from_data_source(config))
}

/// Where a file is.
struct Place {
    /// Its name to DataFusion.
    location: Path,
    /// Its name in another store than the table's.
    elsewhere: Option<Elsewhere>,
    /// Its name in errors.
    object: String,
}

/// The files of a scan.
#[derive(Default)]
struct Files {
    /// One for each fragment of the request; `None` if it need not be read.
    files: Vec<Option<PartitionedFile>>,
    /// What the bytes of those that are read are held against.
    checks: HashMap<Path, FileCheck>,
    /// What is known of each of those that are read.
    statistics: Vec<Statistics>,
    /// How many of them stand for several files of their fragment.
    zipped: usize,
}

impl ScanRequest {
    /// Leaves out the fragments that cannot hold a row that matches. Comes first, so that nothing is read for them. (Not for
    /// fragments in groups, which are all read.)
    pub fn prune(&mut self) {
        let (Some(predicate), None) = (&self.predicate, &self.groups) else { return };
        let scan = scan_schema(self.schema.to_plain_arrow());
        let fragments: Vec<Arc<Fragment>> = self.fragments.iter().map(|(fragment, _)| Arc::clone(fragment)).collect();
        let mut may_match = prune(&fragments, &self.schema, scan.table_schema(), predicate).into_iter();
        self.fragments.retain(|_| may_match.next().unwrap_or(true));
    }

    /// Which columns DataFusion can see: it can only push down what it sees, so nothing is ever asked of others.
    fn seen(&self, columns: &SchemaRef, projection: &[usize]) -> Vec<bool> {
        let seen: HashSet<usize> =
            projection.iter().copied().chain(self.predicate.iter().flat_map(collect_columns).map(|column| column.index())).collect();
        (0..columns.fields().len()).map(|column| seen.contains(&column)).collect()
    }

    /// The files of the fragments that are not empty.
    fn files(&self, columns: &SchemaRef, seen: &[bool]) -> Result<Files> {
        let mut found = Files::default();
        for (fragment, deleted) in &self.fragments {
            if fragment.live_rows() == 0 {
                found.files.push(None);
                continue;
            }
            let file = self.fragment((fragment, deleted.as_ref()), columns, seen, &mut found)?;
            let known = of_fragment(fragment, &self.schema, columns, seen);
            found.files.push(Some(file.with_statistics(Arc::new(known.clone()))));
            found.statistics.push(known);
        }
        Ok(found)
    }

    /// Where a file is.
    fn place(&self, file: &DataFile) -> Result<Place> {
        let Some(id) = file.base else {
            let name = ObjectName::parse(&file.path).map_err(|reason| Error::damaged(self.table.as_ref(), &file.path, reason))?;
            return Ok(Place { location: self.store.location(&name), elsewhere: None, object: file.path.clone() });
        };
        let none = || Error::damaged(self.table.as_ref(), &file.path, format!("it lies in base {}, which the table does not have", id.0));
        let base = self.bases.get(&id).ok_or_else(none)?;
        let object = base::full_name(&base.location, &file.path);
        let elsewhere = base::open(&base.location, &file.path)?;
        // Another file of that name has another footer, and is another file to whoever keeps footers by location.
        let checksums: Vec<u8> = file.checksum.crc32c.iter().flat_map(|crc| crc.to_le_bytes()).collect();
        let location = Path::from(FOREIGN).join(format!("{:08x}", crc32c(&checksums))).parts().chain(elsewhere.location.parts()).collect();
        Ok(Place { location, elsewhere: Some(elsewhere), object })
    }

    /// The file of a fragment, or the one that stands for those that are read side by side.
    fn fragment(
        &self,
        (fragment, deleted): (&Arc<Fragment>, Option<&Arc<RoaringBitmap>>),
        columns: &SchemaRef,
        seen: &[bool],
        found: &mut Files,
    ) -> Result<PartitionedFile> {
        let deleted_rows = deleted.map_or(0, |deleted| deleted.len());
        if deleted_rows != u64::from(fragment.deleted_rows()) {
            let (id, expected) = (fragment.id, fragment.deleted_rows());
            return Err(Error::internal(format!("{deleted_rows} deleted rows were given for fragment {id}, which has {expected}")));
        }
        let deleted = deleted.filter(|deleted| !deleted.is_empty());
        let mut open = |file: usize| {
            let (opened, check) = self.file(fragment, file)?;
            found.checks.insert(opened.object_meta.location.clone(), check);
            Ok::<_, Error>(opened)
        };
        let file = match reading(fragment, &self.schema, seen) {
            Reading::OneFile(at) => {
                let file = open(at)?;
                match deleted.zip(fragment.files.get(at)).and_then(|(deleted, record)| live_row_groups(record, deleted)) {
                    Some(access) => file.with_extension(access),
                    None => file,
                }
            }
            Reading::SideBySide(lanes) => {
                let lanes = lanes.into_iter().map(|lane| Ok(LaneFile { file: open(lane.file)?, columns: lane.columns }));
                let lanes = lanes.collect::<Result<Vec<_>>>()?;
                let first = lanes.first().ok_or_else(|| Error::internal(format!("fragment {} is read from no file", fragment.id)))?;
                found.zipped += 1;
                let absent = self.absent(&lanes, columns)?;
                first.file.clone().with_extension(Lanes { files: Arc::new(lanes), absent: Arc::new(absent) })
            }
        };
        Ok(match deleted {
            Some(deleted) => file.with_extension(Deletions(Arc::clone(deleted))),
            None => file,
        })
    }

    /// The values of columns that none of these files gives, where they are not NULL.
    fn absent(&self, lanes: &[LaneFile], columns: &SchemaRef) -> Result<HashMap<usize, ScalarValue>> {
        let given: HashSet<usize> = lanes.iter().flat_map(|lane| lane.columns.iter().copied()).collect();
        let of_table = self.schema.columns().zip(columns.fields()).enumerate();
        let absent = of_table.filter(|(position, (field, _))| field.initial.is_some() && !given.contains(position));
        absent.map(|(position, (field, arrow))| Ok((position, initial(field, arrow.data_type())?))).collect()
    }

    /// A file of a fragment, with what its readers have to know, and with what its bytes are held against.
    fn file(&self, fragment: &Arc<Fragment>, at: usize) -> Result<(PartitionedFile, FileCheck)> {
        let Some(file) = fragment.files.get(at) else {
            let what = format!("reading fragment {} of table '{}', which has no file,", fragment.id, self.table);
            return Err(Error::unsupported(what, None));
        };
        let Place { location, elsewhere, object } = self.place(file)?;
        let damaged = |reason: String| Error::damaged(self.table.as_ref(), object.as_str(), reason);
        let rows: u64 = file.row_groups.iter().map(|rows| u64::from(*rows)).sum();
        if rows != u64::from(fragment.physical_rows) {
            return Err(damaged(format!("its row groups have {rows} rows, fragment {} has {}", fragment.id, fragment.physical_rows)));
        }
        let check = FileCheck {
            elsewhere,
            size_bytes: file.size_bytes,
            unchecked_bytes: file.unchecked_bytes,
            block_bytes: file.checksum.block_bytes,
            crc32c: file.checksum.crc32c.as_slice().into(),
            table: self.table.to_string(),
            object: object.clone(),
        };
        // Files never change (and those of others have another location here when they do), so what is cached of one never goes
        // stale, and no time is needed to tell.
        let (last_modified, size) = (DateTime::UNIX_EPOCH, file.size_bytes);
        let partitioned = PartitionedFile::from(ObjectMeta { location, last_modified, size, e_tag: None, version: None })
            .with_partition_values(vec![ScalarValue::UInt32(Some(fragment.id.0))])
            .with_metadata_size_hint(footer_hint(file))
            .with_extension(FileOf { fragment: Arc::clone(fragment), file: at, table: Arc::clone(&self.table), object: object.into() });
        Ok((partitioned, check))
    }
}

/// Skips the row groups of which every row is deleted; `None` if there are none.
fn live_row_groups(file: &DataFile, deleted: &RoaringBitmap) -> Option<ParquetAccessPlan> {
    let mut access = ParquetAccessPlan::new_all(file.row_groups.len());
    let mut skips = false;
    let mut start = 0u32;
    for (group, rows) in file.row_groups.iter().enumerate() {
        let end = start.checked_add(*rows)?;
        if *rows > 0 && deleted.contains_range(start..end) {
            access.skip(group);
            skips = true;
        }
        start = end;
    }
    skips.then_some(access)
}

fn footer_hint(file: &DataFile) -> usize {
    let chunks = file.columns.len().saturating_mul(file.row_groups.len());
    let guess = chunks.saturating_mul(FOOTER_BYTES_PER_CHUNK).clamp(SMALLEST_FOOTER_HINT_BYTES, LARGEST_FOOTER_HINT_BYTES);
    usize::try_from(file.size_bytes).unwrap_or(usize::MAX).min(guess)
}

/// Files in at most `partitions` groups of about the same size, in each in the order given.
fn spread(files: Vec<Option<PartitionedFile>>, partitions: usize) -> Vec<FileGroup> {
    let files: Vec<PartitionedFile> = files.into_iter().flatten().collect();
    let mut largest_first: Vec<(usize, u64)> = files.iter().map(|file| file.object_meta.size).enumerate().collect();
    largest_first.sort_by_key(|(position, size_bytes)| (Reverse(*size_bytes), *position));
    let groups = partitions.clamp(1, files.len().max(1));
    let mut emptiest: BinaryHeap<Reverse<(u64, usize)>> = (0..groups).map(|group| Reverse((0, group))).collect();
    let mut group_of = vec![0; files.len()];
    for (position, size_bytes) in largest_first {
        let Some(Reverse((load_bytes, group))) = emptiest.pop() else { break };
        if let Some(group_of) = group_of.get_mut(position) {
            *group_of = group;
        }
        emptiest.push(Reverse((load_bytes.saturating_add(size_bytes), group)));
    }
    let mut grouped = vec![Vec::new(); groups];
    for (file, group) in files.into_iter().zip(group_of) {
        if let Some(grouped) = grouped.get_mut(group) {
            grouped.push(file);
        }
    }
    grouped.into_iter().map(FileGroup::new).collect()
}

/// Files in the groups given; those that are left out are missing in their group.
fn in_groups(files: Vec<Option<PartitionedFile>>, groups: &[Vec<usize>]) -> Result<Vec<FileGroup>> {
    let group = |positions: &Vec<usize>| {
        let files = positions.iter().filter_map(|position| match files.get(*position) {
            Some(file) => file.clone().map(Ok),
            None => Some(Err(Error::internal(format!("there is no fragment at position {position} of the scan")))),
        });
        files.collect::<Result<Vec<_>>>().map(FileGroup::new)
    };
    groups.iter().map(group).collect()
}

/// Statistics of the whole schema of a scan.
fn with_address(mut statistics: Statistics) -> Statistics {
    statistics.column_statistics.extend([ColumnStatistics::new_unknown(), ColumnStatistics::new_unknown()]);
    statistics
}
