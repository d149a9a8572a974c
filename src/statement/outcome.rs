//! What a statement answers: rows, or what it changed.

use crate::error::{ConflictReport, Error, Result};
use crate::maintain::Removal;
use crate::maintain::verify::Verified;
use crate::txn::composite::{CommitFacts, RowCounts};
use datafusion::arrow::array::{ArrayRef, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use std::sync::Arc;

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

/// What a VERIFY found: a row for each kind of object, and one for each problem.
pub(super) fn verified(found: Verified) -> Result<Outcome> {
    let of_kinds = found.checked.iter().map(|(kind, checked)| (None, kind.name(), Some(checked.size_bytes), Some(checked.number), None));
    let problems = found
        .problems
        .iter()
        .map(|problem| (Some(problem.object.as_str()), problem.kind.name(), problem.size_bytes, None, Some(problem.problem.as_str())));
    let rows: Vec<_> = of_kinds.chain(problems).collect();
    let schema = Arc::new(Schema::new(vec![
        Field::new("object", DataType::Utf8, true),
        Field::new("kind", DataType::Utf8, false),
        Field::new("size_bytes", DataType::UInt64, true),
        Field::new("checked", DataType::UInt64, true),
        Field::new("problem", DataType::Utf8, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| Some(row.1)).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<UInt64Array>()),
        Arc::new(rows.iter().map(|row| row.3).collect::<UInt64Array>()),
        Arc::new(rows.iter().map(|row| row.4).collect::<StringArray>()),
    ];
    let batch = RecordBatch::try_new(schema.clone(), columns).map_err(|error| Error::internal(format!("problems as rows: {error}")))?;
    Ok(Outcome::Rows(Rows { schema, batches: vec![batch] }))
}

/// What a VACUUM removed.
pub(super) fn removed(removed: &[Removal]) -> Result<Outcome> {
    let columns: [(&str, ArrayRef); 3] = [
        ("path", Arc::new(StringArray::from_iter_values(removed.iter().map(|removal| removal.path.as_str())))),
        ("size_bytes", Arc::new(UInt64Array::from_iter_values(removed.iter().map(|removal| removal.size_bytes)))),
        ("reason", Arc::new(StringArray::from_iter_values(removed.iter().map(|removal| removal.reason)))),
    ];
    let batch = RecordBatch::try_from_iter(columns).map_err(|e| Error::internal(format!("objects as rows: {e}")))?;
    Ok(Outcome::Rows(Rows { schema: batch.schema(), batches: vec![batch] }))
}

/// A plan as rows.
pub(super) fn explained(plan: &str) -> Result<Outcome> {
    let schema = Arc::new(Schema::new(vec![Field::new("plan", DataType::Utf8, false)]));
    let lines: ArrayRef = Arc::new(StringArray::from(plan.lines().collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(schema.clone(), vec![lines]).map_err(|e| Error::internal(format!("a plan as rows: {e}")))?;
    Ok(Outcome::Rows(Rows { schema, batches: vec![batch] }))
}

impl Changed {
    /// Rows changed, in the sense of SQL; for OPTIMIZE the rows that it moved.
    pub fn count(&self) -> u64 {
        self.counts.changed() + self.counts.moved
    }
}
