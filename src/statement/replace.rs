//! Statements that replace a table's rows and definition at once: RESTORE and CREATE OR REPLACE TABLE.
//!
//! They take everything, so nothing can land beside them: whatever landed since they read makes them run again, and what they
//! land before makes others run again. Inside of a transaction that is COMMIT's to report.
//!
//! Always holds: one version holds the whole replacement, and the versions before it stay what they were; of the objects that
//! the actions name only those are removed after a failure that were written for them.

use super::constraints::Definition;
use super::create::{self, Made};
use super::restore;
use crate::commit::staged::remove;
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::plan::options::options;
use crate::scan::pin::ReadView;
use crate::stage::commit_exec::staged;
use crate::stage::runs::Runs;
use crate::stage::scope::{Done, SessionScope};
use crate::txn::composite::{CommitFacts, RowCounts};
use datafusion::execution::SessionState;
use datafusion::logical_expr::CreateMemoryTable;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What takes the place of a table's rows and definition.
#[derive(Debug, Clone, Copy)]
pub enum Replacement<'a> {
    /// A version of its own.
    Restore {
        /// Which: `v3`, or a time.
        at: &'a str,
    },
    /// A new definition.
    Create {
        /// As DataFusion plans it.
        create: &'a CreateMemoryTable,
        /// What it says of its rows.
        definition: &'a Definition,
    },
}

impl Replacement<'_> {
    fn operation(self) -> &'static str {
        match self {
            Replacement::Restore { .. } => "RESTORE",
            Replacement::Create { .. } => "CREATE OR REPLACE TABLE",
        }
    }
}

/// Replaces a table, or leaves that to the open transaction.
pub async fn replace(
    scope: &SessionScope,
    state: &SessionState,
    log: &Arc<VersionLog>,
    replacement: Replacement<'_>,
    statement: &str,
) -> Result<Done> {
    let mut runs = Runs::new(options(state.config_options()).max_statement_attempts, scope.reran());
    loop {
        let (base, lease) = scope.view(log).await?;
        let made = match replacement {
            Replacement::Restore { at } => {
                let newest = scope.newest_read(log).await?;
                restore::restore(log, (&base.snapshot, &lease), newest, at, statement).await?
            }
            Replacement::Create { create, definition } => {
                create::replacement((scope, state), log, &base.snapshot, create, definition, statement).await?
            }
        };
        let Made { step, objects } = made;
        let done = |counts, version, facts, files_written, conflicts| {
            let operation = replacement.operation().to_owned();
            Done { operation, counts, version, facts, files_written, conflicts }
        };
        if scope.in_transaction() {
            let counts = step.counts;
            if let Err(error) = scope.append(log, &base, step, vec![], (objects.clone(), &BTreeSet::new())).await {
                remove(log.store(), &objects).await;
                return Err(error);
            }
            return Ok(done(counts, None, CommitFacts::default(), objects.len(), vec![]));
        }
        if let Err(stopped) = scope.commits() {
            remove(log.store(), &objects).await;
            return Err(stopped);
        }
        match runs.publish(log, staged(base.snapshot.version, step, vec![], objects)).await {
            Err(Error::Conflict(report)) => {
                scope.runs_again();
                runs.again(log, Some(report)).await.map(drop)?;
            }
            Err(error) => return Err(error),
            Ok(committed) => {
                let counts: RowCounts = committed.counts.first().copied().unwrap_or_default();
                return Ok(done(counts, committed.version, committed.facts, committed.files_written, runs.into_conflicts()));
            }
        }
    }
}
