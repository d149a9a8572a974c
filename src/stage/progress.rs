//! How much a statement has done so far, by the metrics of its plan.
//!
//! Goes in: a plan that runs. Comes out: rows and bytes. Always holds: nothing waits for the plan, and it does not notice.

use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// What a statement has done so far. A statement that runs again begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Rows that were read from tables and files.
    pub rows_read: u64,
    /// Bytes that were read from files.
    pub bytes_read: u64,
    /// Rows that were written to new files.
    pub rows_written: u64,
    /// Bytes of new files.
    pub bytes_written: u64,
}

/// What a plan has done so far.
pub fn of_plan(plan: &Arc<dyn ExecutionPlan>) -> Progress {
    let mut progress = Progress::default();
    add(plan, &mut progress);
    progress
}

fn add(plan: &Arc<dyn ExecutionPlan>, progress: &mut Progress) {
    let children = plan.children();
    if let Some(metrics) = plan.metrics() {
        let sum = |name: &str| metrics.sum_by_name(name).map_or(0, |value| value.as_usize() as u64);
        if children.is_empty() {
            progress.rows_read += metrics.output_rows().unwrap_or(0) as u64;
            progress.bytes_read += sum("bytes_scanned");
        }
        progress.rows_written += sum("rows_written") + sum("rows_moved");
        progress.bytes_written += sum("bytes_written");
    }
    for child in children {
        add(child, progress);
    }
}
