//! The values that columns of a fragment have: read in the order of its rows, deleted ones included, from where they are needed.
//!
//! Goes in: a fragment and positions of columns. Comes out: the values from a given row on, batch after batch.
//! Always holds: nothing is read before the first value is asked for; rows are asked for in ascending order.

use crate::error::{Error, Result};
use crate::scan::plan::{ScanRequest, plan_with};
use crate::store::Store;
use crate::table::fragment::{Base, BaseId, Fragment};
use crate::table::schema::TableSchema;
use datafusion::arrow::array::RecordBatch;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use futures::StreamExt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the values are.
#[derive(Debug, Clone)]
pub struct ValuesOf {
    /// The table's folder.
    pub store: Store,
    /// The table's name.
    pub table: String,
    /// Its bases.
    pub bases: BTreeMap<BaseId, Base>,
    /// Its schema.
    pub schema: Arc<TableSchema>,
    /// The fragment.
    pub fragment: Arc<Fragment>,
    /// The columns, by their positions in the table.
    pub columns: Vec<usize>,
}

/// The values of columns of one fragment.
pub struct OldValues {
    of: ValuesOf,
    context: Arc<TaskContext>,
    rows: Option<SendableRecordBatchStream>,
    held: Option<RecordBatch>,
    /// The number of the first row that is held, or that comes next.
    at: u32,
}

impl OldValues {
    /// Values that are still to be read.
    pub fn new(of: ValuesOf, context: Arc<TaskContext>) -> Self {
        OldValues { of, context, rows: None, held: None, at: 0 }
    }

    /// The name of the table.
    pub fn table(&self) -> &str {
        &self.of.table
    }

    /// Some rows from number `row` on; at least one.
    pub async fn from(&mut self, row: u32) -> Result<RecordBatch> {
        loop {
            if let Some(held) = &self.held {
                let skip = row.checked_sub(self.at).ok_or_else(|| self.of.astray("was read beyond", row))? as usize;
                if skip < held.num_rows() {
                    return Ok(held.slice(skip, held.num_rows() - skip));
                }
                self.at += held.num_rows() as u32;
            }
            let rows = match &mut self.rows {
                Some(rows) => rows,
                None => self.rows.insert(self.of.read(&self.context)?),
            };
            self.held = match rows.next().await {
                Some(batch) => Some(batch?),
                None => return Err(self.of.astray("ends", row)),
            };
        }
    }
}

impl ValuesOf {
    fn astray(&self, what: &str, row: u32) -> Error {
        Error::internal(format!("fragment {} of table '{}' {what} at row {row}", self.fragment.id, self.table))
    }

    fn read(&self, context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        // Rows that are deleted have values too.
        let fragment = Arc::new(Fragment { deletions: None, ..(*self.fragment).clone() });
        let request = ScanRequest {
            store: self.store.clone(),
            table: Arc::from(self.table.as_str()),
            bases: self.bases.clone(),
            schema: Arc::new(self.schema.with_nullable_columns()),
            fragments: vec![(fragment, None)],
            projection: Some(self.columns.clone()),
            predicate: None,
            limit: None,
            groups: Some(vec![vec![0]]),
            pushdown_filters: Some(false),
            target_partitions: 1,
            held: None,
        };
        let plan = plan_with(request, &context.runtime_env(), context.session_config().options())?;
        Ok(plan.execute(0, context.clone())?)
    }
}
