//! What a statement answers: rows, or what it changed.

use crate::error::ConflictReport;
use crate::txn::composite::{CommitFacts, RowCounts};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;

/// What a statement answers.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// A query's rows.
    Rows(Rows),
    /// A statement that changed a table, or that could have.
    Changed(Changed),
    /// A statement that is only acknowledged, for example `BEGIN`; the text says what was done.
    Done(String),
}

/// A query's rows.
#[derive(Debug, Clone)]
pub struct Rows {
    /// The columns.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
}

/// What a statement changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The kind of statement, for example `UPDATE`.
    pub operation: String,
    /// Rows by what was done to them.
    pub counts: RowCounts,
    /// The version that it made; `None` if it changed nothing or if its transaction is still open.
    pub version: Option<u64>,
    /// What it took to commit it.
    pub facts: CommitFacts,
    /// How many data files and maps were written for it, those of runs that did not land left out.
    pub files_written: usize,
    /// The collisions for which the engine ran the statement again, in their order.
    pub conflicts: Vec<ConflictReport>,
}

impl Changed {
    /// Rows changed, in the sense of SQL; for OPTIMIZE the rows that it moved.
    pub fn count(&self) -> u64 {
        self.counts.changed() + self.counts.moved
    }
}
