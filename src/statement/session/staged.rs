//! Statements that ran and are not committed, and their commit.

use super::changed;
use crate::commit;
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::stage::commit_exec::Afterwards;
use crate::stage::scope::{Done, StagedStatement};
use crate::statement::lake::Lake;
use crate::statement::outcome::{Changed, Outcome};
use crate::txn::composite::RowCounts;
use std::sync::Arc;

/// A statement that ran and is not committed. Dropping it leaves its files behind, unnamed; [`StagedChange::discard`]
/// removes them.
#[derive(Debug)]
pub struct StagedChange {
    pub(super) lake: Lake,
    pub(super) statement: StagedStatement,
    pub(super) changed: Changed,
}

impl StagedChange {
    /// What it would change.
    pub fn changed(&self) -> &Changed {
        &self.changed
    }

    /// The version that it read.
    pub fn read_version(&self) -> u64 {
        self.statement.staged.transaction.read_version
    }

    /// Commits it, rebased over everything that landed since it read.
    pub async fn commit(self) -> Result<Changed> {
        match land(&self.lake, self.statement, &self.changed.operation, None).await? {
            Outcome::Changed(changed) => Ok(changed),
            Outcome::Rows(_) | Outcome::Done(_) => Ok(self.changed),
        }
    }

    /// Removes what was staged.
    pub async fn discard(self) {
        self.statement.staged.discard(self.statement.log.store()).await;
    }
}

/// Commits what was staged, if the table is still there: nobody could read it in one that was dropped.
pub(super) async fn land(
    lake: &Lake,
    statement: StagedStatement,
    operation: &str,
    afterwards: Option<Arc<dyn Afterwards>>,
) -> Result<Outcome> {
    let log: &Arc<VersionLog> = &statement.log;
    let lost = match lake.has(log).await {
        Ok(true) => None,
        Ok(false) => Some(Error::UnknownTable { table: log.table().to_owned(), nearest: None }),
        Err(error) => Some(error),
    };
    if let Some(error) = lost {
        statement.staged.discard(log.store()).await;
        return Err(error);
    }
    let committed = commit::publish(log, statement.staged, 0).await?;
    if let Some(afterwards) = afterwards.filter(|_| committed.version.is_some()) {
        afterwards.landed(log, &committed.newest).await;
    }
    let mut counts = RowCounts::default();
    for step in &committed.counts {
        counts.inserted += step.inserted;
        counts.updated += step.updated;
        counts.deleted += step.deleted;
        counts.moved += step.moved;
    }
    let (operation, version, facts) = (operation.to_owned(), committed.version, committed.facts);
    Ok(changed(Done { operation, counts, version, facts, files_written: committed.files_written, conflicts: vec![] }))
}
