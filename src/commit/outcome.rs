//! What became of a transaction.

use super::staged::objects;
use crate::manifest::version::Version;
use crate::txn::composite::{CommitFacts, CommittedTransaction, RowCounts};
use std::sync::Arc;

/// A transaction that was committed, or that turned out to change nothing.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The version that holds it; `None` if there was nothing left to change.
    pub version: Option<u64>,
    /// The newest version by then, which is the one that holds it if there is one.
    pub newest: Arc<Version>,
    /// Rows by statement, others' deletions of the same rows taken off.
    pub counts: Vec<RowCounts>,
    /// What it took.
    pub facts: CommitFacts,
    /// How many data files and maps the transaction wrote and names.
    pub files_written: usize,
}

impl Committed {
    /// The outcome of a transaction that is in `version`.
    pub(super) fn landed(version: Arc<Version>, committed: &CommittedTransaction) -> Self {
        Committed {
            version: Some(version.snapshot.version),
            counts: committed.transaction.steps.iter().map(|step| step.counts).collect(),
            facts: committed.facts,
            files_written: objects(committed.transaction.actions()).len(),
            newest: version,
        }
    }
}
