//! Flushing: rows of many small statements, which the manifest holds, become a file.
//!
//! ```text
//!   fragments among the newest changes      rows     flushed
//!     41  in the manifest                      1        x
//!     ..  in the manifest                      1        x      33 rows
//!     73  in the manifest                      1        x
//!     40  data/01a2...parquet                 90        x      at most four times as many: 123 rows
//!     12  data/0190...parquet            800,000
//! ```
//!
//! A statement after which there are more of them than `amend.max_inline_fragments`, or 64 KiB of them, does it before it answers. It is a rewrite like an
//! OPTIMIZE, so nobody fails of it, and its version is called FLUSH in the history. What earlier flushes made is put together with it
//! once it is of a similar size, as in a log-structured merge tree: of n rows that came one by one each is rewritten some log n times,
//! and some log n fragments are left of them.
//!
//! Always holds: whatever becomes of it, the statement has landed; only one at a time flushes a table in a process.

use super::optimize::{layout_of_table, rewriting};
use super::options::options;
use crate::commit::gather::WriteGathered;
use crate::commit::staged::{objects, remove};
use crate::commit::{self, Staged};
use crate::error::{Error, Result};
use crate::manifest::fragments::MAX_TAIL_BYTES;
use crate::manifest::log::VersionLog;
use crate::manifest::version::Version;
use crate::stage::commit_exec::{Afterwards, collect_step, staged};
use crate::stage::gather::Gatherer;
use crate::stage::stop::Stop;
use crate::table::fragment::Fragment;
use crate::txn::action::Action;
use async_trait::async_trait;
use datafusion::execution::SessionState;
use std::fmt;
use std::sync::Arc;

/// What it is called in the history.
const OPERATION: &str = "FLUSH";
/// More bytes of their records than this among the newest changes are flushed, however few fragments they are: sooner than the tail is
/// folded, after which they lie in pages, where they wait for an OPTIMIZE.
const MAX_BYTES: u64 = MAX_TAIL_BYTES / 3 * 2;
/// A fragment goes along that has at most so many times the rows that are flushed anyway.
const SIMILAR: u64 = 4;

/// Flushes a table when a statement has landed, if it has to be.
pub fn afterwards(state: Arc<SessionState>) -> Arc<dyn Afterwards> {
    Arc::new(Flush { state })
}

struct Flush {
    state: Arc<SessionState>,
}

impl fmt::Debug for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flush").finish_non_exhaustive()
    }
}

#[async_trait]
impl Afterwards for Flush {
    async fn landed(&self, log: &Arc<VersionLog>, newest: &Arc<Version>) {
        let options = options(self.state.config_options());
        let chosen = choose(newest, options.max_inline_fragments, options.rows_per_fragment);
        if chosen.is_empty() {
            return;
        }
        let Some(_flushes) = log.flushes() else { return };
        match flush(&self.state, log, newest, chosen).await {
            Ok(()) => {}
            // Others have flushed or changed what there was.
            Err(Error::Conflict(_)) => {}
            Err(error) => tracing::warn!(%error, table = log.table(), "could not flush the rows of small statements"),
        }
    }
}

/// The fragments of a version to be flushed, by id; none if it need not be.
fn choose(version: &Version, max_fragments: u32, rows_per_fragment: u32) -> Vec<Arc<Fragment>> {
    let newest = || version.snapshot.fragments.tail().values().filter_map(|record| record.fragment.as_ref());
    let (in_manifest, files): (Vec<_>, Vec<_>) = newest().partition(|fragment| fragment.inline_bytes() > 0);
    let bytes: u64 = in_manifest.iter().map(|fragment| fragment.record_bytes()).sum();
    let too_many = in_manifest.len() > max_fragments as usize || bytes > MAX_BYTES && in_manifest.len() > 1;
    if max_fragments == 0 || !too_many {
        return vec![];
    }
    let mut chosen: Vec<Arc<Fragment>> = in_manifest.into_iter().cloned().collect();
    let mut rows: u64 = chosen.iter().map(|fragment| u64::from(fragment.live_rows())).sum();
    let mut files: Vec<_> = files.into_iter().filter(|fragment| fragment.files.iter().all(|file| file.base.is_none())).collect();
    files.sort_by_key(|fragment| fragment.live_rows());
    for fragment in files {
        let more = u64::from(fragment.live_rows());
        // Of the rows that are deleted nothing need be carried, but they make a fragment large.
        if u64::from(fragment.physical_rows) > rows.saturating_mul(SIMILAR) || rows + more > u64::from(rows_per_fragment) / 2 {
            break;
        }
        rows += more;
        chosen.push(fragment.clone());
    }
    chosen.sort_by_key(|fragment| fragment.id);
    chosen
}

async fn flush(state: &SessionState, log: &Arc<VersionLog>, base: &Arc<Version>, chosen: Vec<Arc<Fragment>>) -> Result<()> {
    let lease = log.leases().take(base.snapshot.version);
    let layout = layout_of_table(log, base)?;
    let stop = Arc::<Stop>::default();
    let plan = rewriting(state, log, (base, &lease), vec![chosen], layout.as_ref(), &stop).await?;
    let context = state.task_ctx();
    let step = collect_step(plan, OPERATION, format!("{OPERATION} {}", log.table()), log, &stop, context.clone()).await?;
    let written = objects(step.actions.iter());
    let mut maps = Vec::new();
    for change in step.actions.iter().filter_map(Action::change_of_address) {
        match log.map(&change.map).await {
            Ok(map) => maps.push(map),
            Err(error) => {
                remove(log.store(), &written).await;
                return Err(error);
            }
        }
    }
    let gathering: Arc<dyn WriteGathered> = Arc::new(Gatherer::new(context));
    let staged = Staged { gathering: Some(gathering), ..staged(base.snapshot.version, step, maps, written) };
    commit::publish(log, staged, 0).await.map(|_| ())
}
