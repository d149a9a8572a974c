//! OPTIMIZE: which fragments are rewritten together, and the plan that does it.
//!
//! A fragment is rewritten if it is small (less than half of what a fragment is given) or if a large share of its rows is
//! deleted. Fragments are taken in the order of their ids and put together up to the size of one; `FULL` takes all of
//! them. A small fragment that would be alone is left as it is, so OPTIMIZE comes to rest.

use super::options::{AmendOptions, options};
use crate::error::Result;
use crate::manifest::log::VersionLog;
use crate::manifest::version::Version;
use crate::scan::plan::{self, ScanRequest};
use crate::stage::commit_exec::{CommitExec, CommitSpec, PlanAgain};
use crate::stage::rewrite_exec::{RewriteExec, RewriteGroup, RewriteSpec};
use crate::stage::stop::Stop;
use crate::table::fragment::Fragment;
use crate::txn::address_map::MapSource;
use async_trait::async_trait;
use datafusion::execution::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use std::fmt;
use std::sync::Arc;

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

fn is_worn(fragment: &Fragment, options: &AmendOptions) -> bool {
    f64::from(fragment.deleted_rows()) > options.max_deleted_share * f64::from(fragment.physical_rows)
}

/// The plan of an OPTIMIZE of the version `base`. `statement` is the statement in words.
pub async fn plan(
    state: &SessionState,
    log: &Arc<VersionLog>,
    base: Arc<Version>,
    full: bool,
    statement: String,
) -> Result<Arc<dyn ExecutionPlan>> {
    let options = options(state.config_options());
    let chosen = choose(base.snapshot.fragments.iter(), &options, full);
    let mut fragments = Vec::new();
    let mut positions = Vec::with_capacity(chosen.len());
    let mut groups = Vec::with_capacity(chosen.len());
    for group in chosen {
        let mut sources = Vec::with_capacity(group.len());
        let first = fragments.len();
        for fragment in group {
            let absent = log.deleted_rows(&fragment).await?;
            sources.push((fragment.id, MapSource { physical_rows: fragment.physical_rows, absent: (*absent).clone() }));
            fragments.push((fragment, Some(absent)));
        }
        positions.push((first..fragments.len()).collect());
        groups.push(RewriteGroup { sources });
    }
    let schema = base.snapshot.schema.clone();
    let columns = schema.columns().count();
    let request = ScanRequest {
        store: log.store().clone(),
        table: Arc::from(log.table()),
        schema: schema.clone(),
        fragments,
        projection: Some((0..columns + 2).collect()),
        predicate: None,
        limit: None,
        groups: Some(positions),
        pushdown_filters: Some(false),
        target_partitions: groups.len(),
    };
    let stop = Arc::<Stop>::default();
    let rewrite = RewriteSpec {
        table: log.table().to_owned(),
        store: log.store().clone(),
        schema,
        groups,
        rows_per_fragment: options.rows_per_fragment,
        concurrency: state.config().target_partitions(),
        stop: stop.clone(),
    };
    let again = Again { state: state.clone(), log: log.clone(), full, statement: statement.clone() };
    let commit = CommitSpec {
        log: log.clone(),
        base,
        operation: "OPTIMIZE",
        clears: false,
        statement,
        again: Some(Arc::new(again)),
        max_attempts: options.max_statement_attempts.max(1),
        stop,
    };
    let rewritten = Arc::new(RewriteExec::new(plan::plan(request, state)?, Arc::new(rewrite)));
    Ok(Arc::new(CommitExec::new(Arc::new(CoalescePartitionsExec::new(rewritten)), Arc::new(commit))))
}

/// Plans an OPTIMIZE on the newest version.
struct Again {
    state: SessionState,
    log: Arc<VersionLog>,
    full: bool,
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
        let newest = self.log.newest().await?;
        plan(&self.state, &self.log, newest, self.full, self.statement.clone()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::deletion_vector::DeletionFile;
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
    fn full_takes_every_fragment() {
        assert_eq!(chosen(&[fragment(0, 100, 0), fragment(1, 20, 0), fragment(2, 70, 0)], true), [vec![0], vec![1, 2]]);
    }
}
