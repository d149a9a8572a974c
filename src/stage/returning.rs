//! The rows that a statement returns, on their way from its writers to its end.
//!
//! They are held until the statement has landed: a run that collides returns nothing. What is held is accounted for in the
//! memory pool.

use super::row_changes::RETURNED_COLUMN;
use crate::error::{Error, Result};
use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};

/// The rows that a statement returns, as far as they are known.
#[derive(Debug)]
pub struct Returned {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    held: MemoryReservation,
}

impl Returned {
    /// No rows yet, of these columns.
    pub fn new(schema: SchemaRef, context: &TaskContext) -> Self {
        let held = MemoryConsumer::new("RETURNING").register(context.memory_pool());
        Returned { schema, batches: Vec::new(), held }
    }

    /// The returned columns of rows that reach a writer, of those that `only` says.
    pub fn take(&mut self, batch: &RecordBatch, only: Option<&BooleanArray>) -> Result<()> {
        let internal = |e| Error::internal(format!("rows to return: {e}"));
        let schema = batch.schema();
        let names = schema.fields().iter().map(|field| field.name()).enumerate();
        let columns: Vec<usize> = names.filter(|(_, name)| name.starts_with(RETURNED_COLUMN)).map(|(at, _)| at).collect();
        let rows = batch.project(&columns).map_err(internal)?;
        let rows = match only {
            Some(only) => filter_record_batch(&rows, only).map_err(internal)?,
            None => rows,
        };
        let rows = RecordBatch::try_new(self.schema.clone(), rows.columns().to_vec()).map_err(internal)?;
        self.push(rows)
    }

    /// Holds more rows.
    pub fn push(&mut self, rows: RecordBatch) -> Result<()> {
        if rows.num_rows() > 0 {
            self.held.try_grow(rows.get_array_memory_size())?;
            self.batches.push(rows);
        }
        Ok(())
    }

    /// The rows; nothing accounts for them any longer.
    pub fn into_batches(self) -> Vec<RecordBatch> {
        self.batches
    }
}
