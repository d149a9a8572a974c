//! OPTIMIZE: which fragments are rewritten together, and the plan that does it.
//!
//! ```text
//!   compaction    a group: Scan(fragments in order + address)
//!   ORDER BY      a group: SortPreservingMerge <- Sort <- Scan(fragments in any order + address)
//!   ZORDER BY     a group: SortPreservingMerge <- Sort <- ZOrderExec <- Scan(fragments in any order + address)
//!                    |
//!                 CommitExec <- CoalescePartitions <- RewriteExec <- the groups, a partition each
//! ```
//!
//! Without an order a fragment is rewritten if it is small (less than half of what a fragment is given), if a large share
//! of its rows is deleted, or if its columns lie in several files. Fragments are taken in the order of their ids and put together up to the size of one; `FULL`
//! takes all of them. A small fragment that would be alone is left as it is, so OPTIMIZE comes to rest.
//!
//! A table with CLUSTER BY is sorted by that, but for large fragments that lie in that order already (`FULL`: all).
//!
//! With an order all fragments are sorted together, unless they are in that order already and not worn; `FULL` sorts them
//! all the same. `WHERE` chooses, in either case, those that may hold a row that matches, by their statistics.

use super::layout::{Layout, Order};
use super::options::{AmendOptions, options};
use crate::error::{Error, Result};
use crate::manifest::leases::Lease;
use crate::manifest::log::VersionLog;
use crate::manifest::version::Version;
use crate::scan::address::scan_schema;
use crate::scan::held::Held;
use crate::scan::plan::{self, ScanRequest};
use crate::scan::pruning::matching;
use crate::stage::commit_exec::{CommitExec, CommitSpec, PlanAgain};
use crate::stage::rewrite_exec::{MAX_SORTED_ROWS, RewriteExec, RewriteGroup, RewriteSpec};
use crate::stage::stop::Stop;
use crate::stage::zorder::SAMPLE_ROWS;
use crate::stage::zorder_exec::ZOrderExec;
use crate::table::constraint;
use crate::table::fragment::Fragment;
use crate::table::schema::TableSchema;
use crate::txn::address_map::MapSource;
use async_trait::async_trait;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::execution::SessionState;
use datafusion::logical_expr::ExprSchemable;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, ExprWithAlias};
use roaring::RoaringBitmap;
use std::fmt;
use std::sync::Arc;

/// What is asked for, beside the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Whether fragments are rewritten that need not be.
    pub full: bool,
    /// The condition on the fragments.
    pub filter: Option<SqlExpr>,
    /// The order of the rows.
    pub order: Option<Order>,
}

/// The fragments to rewrite, in groups that each make one new fragment (or more, where one alone has more rows than that).
pub fn choose<'a>(fragments: impl Iterator<Item = &'a Arc<Fragment>>, options: &AmendOptions, full: bool) -> Vec<Vec<Arc<Fragment>>> {
    let size = u64::from(options.rows_per_fragment.max(1));
    let mut groups = Vec::new();
    let mut open = Vec::new();
    let mut rows = 0u64;
    for fragment in fragments.filter(|fragment| full || is_small(fragment, size) || is_worn(fragment, options)) {
        let live = u64::from(fragment.live_rows());
        if !open.is_empty() && rows + live > size {
            groups.push(std::mem::take(&mut open));
            rows = 0;
        }
        rows += live;
        open.push(fragment.clone());
    }
    groups.push(open);
    groups.retain(|group| match group.as_slice() {
        [] => false,
        [alone] => full || is_worn(alone, options),
        _ => true,
    });
    groups
}

fn is_small(fragment: &Fragment, rows_per_fragment: u64) -> bool {
    u64::from(fragment.live_rows()) * 2 < rows_per_fragment
}

/// Whether many of its rows are deleted, its columns lie in several files, which are read side by side, or its rows are in the manifest.
fn is_worn(fragment: &Fragment, options: &AmendOptions) -> bool {
    fragment.files.len() > 1
        || fragment.inline_bytes() > 0
        || f64::from(fragment.deleted_rows()) > options.max_deleted_share * f64::from(fragment.physical_rows)
}

/// The fragments of a clustered table that are sorted together: those of which the rows lie in no such order, and small and worn ones. Large
/// ones that were sorted before stay, so that the cost of an OPTIMIZE is that of what was written since.
fn to_cluster(mut fragments: Vec<Arc<Fragment>>, layout: &Layout, options: &AmendOptions, full: bool) -> Vec<Arc<Fragment>> {
    let size = u64::from(options.rows_per_fragment.max(1));
    if !full {
        fragments.retain(|fragment| is_small(fragment, size) || is_worn(fragment, options) || !layout.is_that_of(fragment));
    }
    match fragments.as_slice() {
        [alone] if !full && !is_worn(alone, options) && layout.is_that_of(alone) => vec![],
        _ => fragments,
    }
}

/// Fragments that are sorted together: all of them, in parts of so many rows.
fn sorted_together(fragments: Vec<Arc<Fragment>>, max_rows: u64) -> Vec<Vec<Arc<Fragment>>> {
    let max_rows = max_rows.min(MAX_SORTED_ROWS);
    let mut groups: Vec<Vec<Arc<Fragment>>> = Vec::new();
    let mut rows = 0u64;
    for fragment in fragments {
        let live = u64::from(fragment.live_rows());
        match groups.last_mut() {
            Some(group) if rows + live <= max_rows => {
                rows += live;
                group.push(fragment);
            }
            _ => {
                rows = live;
                groups.push(vec![fragment]);
            }
        }
    }
    groups
}

/// The fragments that by their statistics may hold a row for which `filter` is true.
async fn that_may_match(log: &VersionLog, version: &Version, filter: &SqlExpr, state: &SessionState) -> Result<Vec<Arc<Fragment>>> {
    let schema = &version.snapshot.schema;
    let rows = scan_schema(schema.to_plain_arrow()).table_schema().clone();
    let columns = DFSchema::try_from(rows.as_ref().clone())?;
    let filter = state.create_logical_expr_from_sql_expr(ExprWithAlias { expr: filter.clone(), alias: None }, &columns)?;
    match filter.get_type(&columns)? {
        DataType::Boolean | DataType::Null => {}
        other => return Err(Error::invalid(format!("the condition of OPTIMIZE .. WHERE has the type {other}, not BOOLEAN"))),
    }
    let filter = state.create_physical_expr(filter, &columns)?;
    matching(log, &version.snapshot, schema, &rows, Some(&filter), None).await
}

/// The order that CLUSTER BY gives a table.
pub fn layout_of_table(log: &VersionLog, version: &Version) -> Result<Option<Layout>> {
    let damaged = |reason| Error::damaged(log.table(), "its properties", reason);
    let clustered_by = constraint::cluster_by(&version.snapshot.config).map_err(damaged)?;
    match clustered_by.is_empty() {
        true => Ok(None),
        false => Layout::of_fields(&clustered_by, &version.snapshot.schema, log.table()).map(Some),
    }
}

/// The plan of an OPTIMIZE of the version `base`. `statement` is the statement in words.
pub async fn plan(
    state: &SessionState,
    log: &Arc<VersionLog>,
    base: Arc<Version>,
    wanted: &Wanted,
    statement: String,
) -> Result<Arc<dyn ExecutionPlan>> {
    let lease = log.leases().take(base.snapshot.version);
    let options = options(state.config_options());
    let schema = base.snapshot.schema.clone();
    let clustered_by =
        constraint::cluster_by(&base.snapshot.config).map_err(|reason| Error::damaged(log.table(), "its properties", reason))?;
    let layout = match &wanted.order {
        Some(order) => Some(Layout::resolve(order, &schema, log.table())?),
        None if clustered_by.is_empty() => None,
        None => Some(Layout::of_fields(&clustered_by, &schema, log.table())?),
    };
    let fragments = match &wanted.filter {
        Some(filter) => that_may_match(log, &base, filter, state).await?,
        None => log.load_all(&base.snapshot).await?.fragments.iter()?.cloned().collect(),
    };
    let chosen = match &layout {
        None => choose(fragments.iter(), &options, wanted.full),
        Some(layout) if wanted.order.is_none() => {
            sorted_together(to_cluster(fragments, layout, &options, wanted.full), options.max_rows_per_sort)
        }
        Some(layout) => {
            let worn = fragments.iter().any(|fragment| is_worn(fragment, &options));
            match !wanted.full && !worn && layout.is_had_by(&fragments, &base, log).await? {
                true => vec![],
                false => sorted_together(fragments, options.max_rows_per_sort),
            }
        }
    };
    let stop = Arc::<Stop>::default();
    let rewritten = rewriting(state, log, (&base, &lease), chosen, layout.as_ref(), &stop).await?;
    let again = Again { state: state.clone(), log: log.clone(), wanted: wanted.clone(), statement: statement.clone() };
    let commit = CommitSpec {
        keys: vec![],
        log: log.clone(),
        base,
        pin: None,
        operation: "OPTIMIZE",
        clears: None,
        statement,
        again: Some(Arc::new(again)),
        afterwards: None,
        max_attempts: options.max_statement_attempts.max(1),
        reads: Default::default(),
        returned: None,
        stop,
        lease,
    };
    Ok(Arc::new(CommitExec::new(rewritten, Arc::new(commit))))
}

/// The plan that rewrites groups of fragments of a version, in their order or in that of a layout.
pub async fn rewriting(
    state: &SessionState,
    log: &Arc<VersionLog>,
    (base, lease): (&Arc<Version>, &Arc<Lease>),
    chosen: Vec<Vec<Arc<Fragment>>>,
    layout: Option<&Layout>,
    stop: &Arc<Stop>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = base.snapshot.schema.clone();
    let mut groups = Vec::with_capacity(chosen.len());
    let mut sources = Vec::with_capacity(chosen.len());
    for group in chosen {
        let mut fragments = Vec::with_capacity(group.len());
        for fragment in group {
            let absent = log.deleted_rows(&fragment).await?;
            fragments.push((fragment, Some(absent)));
        }
        let map_source = |(fragment, absent): &(Arc<Fragment>, Option<Arc<RoaringBitmap>>)| {
            let absent = absent.as_deref().cloned().unwrap_or_default();
            (fragment.id, MapSource { physical_rows: fragment.physical_rows, absent })
        };
        groups.push(RewriteGroup { sources: fragments.iter().map(map_source).collect() });
        sources.push(fragments);
    }
    let scans = Scans { state, log, base, schema: &schema, lease };
    let rows = match layout {
        Some(layout) if !sources.is_empty() => scans.sorted(sources, layout)?,
        _ => scans.in_order(sources)?,
    };
    let rewrite = RewriteSpec {
        table: log.table().to_owned(),
        store: log.store().clone(),
        schema,
        groups,
        sorted_by: layout.map(Layout::sort_keys).unwrap_or_default(),
        order: layout.map(Layout::describe),
        rows_per_fragment: options(state.config_options()).rows_per_fragment,
        concurrency: state.config().target_partitions(),
        stop: stop.clone(),
    };
    let rewritten = Arc::new(RewriteExec::new(rows, Arc::new(rewrite)));
    Ok(Arc::new(CoalescePartitionsExec::new(rewritten)))
}

/// A fragment and the rows that are deleted in it.
type Source = (Arc<Fragment>, Option<Arc<RoaringBitmap>>);

/// Scans of a table's rows with their addresses.
struct Scans<'a> {
    state: &'a SessionState,
    log: &'a Arc<VersionLog>,
    base: &'a Version,
    schema: &'a Arc<TableSchema>,
    lease: &'a Arc<Lease>,
}

impl Scans<'_> {
    fn request(&self, fragments: Vec<Source>, projection: Vec<usize>) -> ScanRequest {
        ScanRequest {
            store: self.log.store().clone(),
            table: Arc::from(self.log.table()),
            schema: self.schema.clone(),
            bases: self.base.snapshot.bases.clone(),
            fragments,
            projection: Some(projection),
            predicate: None,
            limit: None,
            groups: None,
            pushdown_filters: Some(false),
            target_partitions: self.state.config().target_partitions(),
            held: Some(Held::new(self.log.clone(), self.lease.clone())),
        }
    }

    /// All columns and the address.
    fn all_columns(&self) -> Vec<usize> {
        (0..self.schema.columns().count() + 2).collect()
    }

    /// A partition a group, its fragments one after another.
    fn in_order(&self, groups: Vec<Vec<Source>>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut first = 0;
        let mut positions = Vec::with_capacity(groups.len());
        for group in &groups {
            positions.push((first..first + group.len()).collect());
            first += group.len();
        }
        let request = self.request(groups.into_iter().flatten().collect(), self.all_columns());
        Ok(plan::plan(ScanRequest { target_partitions: positions.len(), groups: Some(positions), ..request }, self.state)?)
    }

    /// A partition a group, sorted.
    fn sorted(&self, groups: Vec<Vec<Source>>, layout: &Layout) -> Result<Arc<dyn ExecutionPlan>> {
        let sorted = groups.into_iter().map(|group| {
            let live_rows: u64 = group.iter().map(|(fragment, _)| u64::from(fragment.live_rows())).sum();
            let rows = plan::plan(self.request(group.clone(), self.all_columns()), self.state)?;
            let rows: Arc<dyn ExecutionPlan> = match layout.z {
                false => rows,
                true => {
                    let columns: Vec<usize> = layout.keys.iter().map(|(at, _)| *at).collect();
                    let offset = self.schema.columns().count() + 1;
                    let sampled = columns.iter().copied().chain([offset]).collect();
                    let sample = plan::plan(self.request(group, sampled), self.state)?;
                    Arc::new(ZOrderExec::new(rows, sample, columns, live_rows / SAMPLE_ROWS))
                }
            };
            let order = layout.sort(&rows.schema())?;
            let sort: Arc<dyn ExecutionPlan> = Arc::new(SortExec::new(order.clone(), rows).with_preserve_partitioning(true));
            Ok(match sort.output_partitioning().partition_count() {
                1 => sort,
                _ => Arc::new(SortPreservingMergeExec::new(order, sort)),
            })
        });
        let sorted = sorted.collect::<Result<Vec<_>>>()?;
        Ok(UnionExec::try_new(sorted)?)
    }
}

/// Plans an OPTIMIZE on the newest version.
struct Again {
    state: SessionState,
    log: Arc<VersionLog>,
    wanted: Wanted,
    statement: String,
}

impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Again").field("table", &self.log.table()).finish_non_exhaustive()
    }
}

#[async_trait]
impl PlanAgain for Again {
    async fn plan_again(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let (newest, _lease) = self.log.newest_leased().await?;
        plan(&self.state, &self.log, newest, &self.wanted, self.statement.clone()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::deletion_vector::DeletionFile;
    use crate::table::fragment::DataFile;
    use crate::table::row_address::FragmentId;

    fn fragment(id: u32, rows: u32, deleted: u32) -> Arc<Fragment> {
        let deletions = DeletionFile::inline(&(0..deleted).collect());
        Arc::new(Fragment { id: FragmentId(id), physical_rows: rows, files: vec![], deletions, created_at: 1, updated_at: 1 })
    }

    fn chosen(fragments: &[Arc<Fragment>], full: bool) -> Vec<Vec<u32>> {
        let options = AmendOptions { rows_per_fragment: 100, ..AmendOptions::default() };
        choose(fragments.iter(), &options, full).iter().map(|group| group.iter().map(|f| f.id.0).collect()).collect()
    }

    #[test]
    fn small_fragments_are_put_together_up_to_the_size_of_one() {
        let fragments = [fragment(0, 40, 0), fragment(1, 40, 0), fragment(2, 90, 0), fragment(3, 40, 0), fragment(4, 40, 0)];
        assert_eq!(chosen(&fragments, false), [vec![0, 1], vec![3, 4]]);
    }

    #[test]
    fn a_worn_fragment_is_rewritten_alone_and_a_small_one_is_not() {
        assert_eq!(chosen(&[fragment(0, 100, 11)], false), [vec![0]]);
        assert_eq!(chosen(&[fragment(0, 100, 10)], false), Vec::<Vec<u32>>::new());
        assert_eq!(chosen(&[fragment(0, 10, 0)], false), Vec::<Vec<u32>>::new());
        assert_eq!(chosen(&[], false), Vec::<Vec<u32>>::new());
    }

    #[test]
    fn a_fragment_of_several_files_is_worn() {
        let mut fragment = fragment(0, 100, 0);
        let file = |path: &str| DataFile {
            inline: None,
            sorted_by: vec![],
            path: path.into(),
            base: None,
            size_bytes: 1,
            unchecked_bytes: 0,
            checksum: Default::default(),
            row_groups: vec![100],
            columns: vec![],
        };
        Arc::make_mut(&mut fragment).files = vec![file("data/a.parquet")];
        assert_eq!(chosen(&[fragment.clone()], false), Vec::<Vec<u32>>::new());
        Arc::make_mut(&mut fragment).files.push(file("data/b.parquet"));
        assert_eq!(chosen(&[fragment], false), [vec![0]]);
    }

    #[test]
    fn full_takes_every_fragment() {
        assert_eq!(chosen(&[fragment(0, 100, 0), fragment(1, 20, 0), fragment(2, 70, 0)], true), [vec![0], vec![1, 2]]);
    }
}
