//! Rows of which no column is wanted: they are counted in the manifest, so neither pages nor files are read.
//!
//! Goes in: how many rows there are. Comes out: that many rows without columns; to a planner that asks for the number only, the number.
//! Always holds: the number is exact.

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use std::fmt;
use std::sync::Arc;

/// Rows without columns.
#[derive(Debug)]
pub struct CountedExec {
    rows: usize,
    properties: Arc<PlanProperties>,
}

impl CountedExec {
    /// So many rows. `schema` has no columns.
    pub fn new(rows: usize, schema: SchemaRef) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        CountedExec { rows, properties: Arc::new(properties) }
    }
}

impl DisplayAs for CountedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "CountedExec: rows={}", self.rows)
    }
}

impl ExecutionPlan for CountedExec {
    fn name(&self) -> &str {
        "CountedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(&self, _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("CountedExec has one partition");
        }
        let (rows, schema) = (self.rows, self.schema());
        let size = context.session_config().batch_size().max(1);
        let (batches, of) = (rows.div_ceil(size), schema.clone());
        let batch = move |at: usize| {
            let options = RecordBatchOptions::new().with_row_count(Some(size.min(rows - at * size)));
            Ok(RecordBatch::try_new_with_options(of.clone(), vec![], &options)?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter((0..batches).map(batch)))))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics { num_rows: Precision::Exact(self.rows), ..Statistics::new_unknown(&self.schema()) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_plan::collect;
    use datafusion::prelude::{SessionConfig, SessionContext};

    #[tokio::test]
    async fn there_are_as_many_rows_as_are_counted() {
        let context = SessionContext::new_with_config(SessionConfig::new().with_batch_size(100)).task_ctx();
        for (rows, batches) in [(0, 0), (1, 1), (100, 1), (101, 2), (1_000, 10)] {
            let exec = CountedExec::new(rows, Arc::new(Schema::empty()));
            let statistics = exec.statistics_from_inputs(&[], &StatisticsArgs::new()).unwrap();
            assert_eq!(statistics.num_rows, Precision::Exact(rows));
            let made = collect(Arc::new(exec), context.clone()).await.unwrap();
            assert_eq!((made.len(), made.iter().map(RecordBatch::num_rows).sum::<usize>()), (batches, rows));
        }
    }
}
