//! `ZOrderExec`: adds the Z-value of some columns to rows, so that an ordinary sort puts them into Z-order.
//!
//! ```text
//!   SortExec by the Z-value <- ZOrderExec <─┬─ rows
//!                                           └─ the same rows' columns, of which every n-th is sampled first
//! ```
//!
//! Always holds: the sample is taken once, before the first row passes, and does not depend on the order in which
//! partitions run: it is every row whose offset is a multiple of n.

use super::zorder::{Ranks, Sample};
use crate::error::{Error, Result};
use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as EngineResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, execute_stream};
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// The column that is added, the last one.
pub const Z_COLUMN: &str = "__amend_z";

/// Adds Z-values.
pub struct ZOrderExec {
    input: Arc<dyn ExecutionPlan>,
    /// The columns of the Z-order, then the offset of the row.
    sample: Arc<dyn ExecutionPlan>,
    /// The columns of the Z-order in the input.
    columns: Vec<usize>,
    /// Of how many offsets one is sampled.
    every: u64,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    ranks: Arc<OnceCell<Ranks>>,
}

impl ZOrderExec {
    /// Adds the Z-value of `columns` of `input`. `sample` yields just these columns, in that order, and then the offset; rows
    /// of which the offset is a multiple of `every` are looked at.
    pub fn new(input: Arc<dyn ExecutionPlan>, sample: Arc<dyn ExecutionPlan>, columns: Vec<usize>, every: u64) -> Self {
        let mut fields = input.schema().fields().to_vec();
        fields.push(Arc::new(Field::new(Z_COLUMN, DataType::UInt64, false)));
        let schema = Arc::new(Schema::new(fields));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            input.output_partitioning().clone(),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        ZOrderExec { input, sample, columns, every: every.max(1), schema, properties: Arc::new(properties), ranks: Arc::default() }
    }
}

impl fmt::Debug for ZOrderExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZOrderExec").field("columns", &self.columns).field("every", &self.every).finish_non_exhaustive()
    }
}

impl DisplayAs for ZOrderExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let schema = self.input.schema();
        let names: Vec<&str> = self.columns.iter().filter_map(|at| schema.fields().get(*at)).map(|field| field.name().as_str()).collect();
        write!(f, "ZOrderExec: columns=[{}], sampled=1/{}", names.join(", "), self.every)
    }
}

impl ExecutionPlan for ZOrderExec {
    fn name(&self) -> &str {
        "ZOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input, &self.sample]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> EngineResult<Arc<dyn ExecutionPlan>> {
        match <[_; 2]>::try_from(children) {
            Ok([input, sample]) => Ok(Arc::new(ZOrderExec::new(input, sample, self.columns.clone(), self.every))),
            Err(_) => Err(DataFusionError::Internal("ZOrderExec has two inputs".into())),
        }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> EngineResult<TreeNodeRecursion>,
    ) -> EngineResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context.clone())?;
        let (ranks, sample, every) = (self.ranks.clone(), self.sample.clone(), self.every);
        let (columns, schema) = (self.columns.clone(), self.schema.clone());
        let sampled = async move {
            ranks.get_or_try_init(|| take_sample(sample, every, context)).await?;
            Ok::<_, DataFusionError>(input.map(move |batch| {
                let ranks = ranks.get().ok_or_else(|| DataFusionError::Internal("there are no ranks".into()))?;
                with_z_values(&batch?, ranks, &columns, &schema)
            }))
        };
        let stream = futures::stream::once(sampled).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), stream.boxed())))
    }
}

fn with_z_values(batch: &RecordBatch, ranks: &Ranks, columns: &[usize], schema: &SchemaRef) -> EngineResult<RecordBatch> {
    let z_values: ArrayRef = Arc::new(ranks.z_values(batch.project(columns)?.columns())?);
    let mut arrays = batch.columns().to_vec();
    arrays.push(z_values);
    Ok(RecordBatch::try_new(schema.clone(), arrays)?)
}

async fn take_sample(plan: Arc<dyn ExecutionPlan>, every: u64, context: Arc<TaskContext>) -> Result<Ranks> {
    let schema = plan.schema();
    let (_, columns) = schema.fields().split_last().ok_or_else(|| Error::internal("a sample without an offset"))?;
    let types: Vec<DataType> = columns.iter().map(|field| field.data_type().clone()).collect();
    let mut sample = Sample::new(&types)?;
    let mut rows = execute_stream(plan, context)?;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let offsets = batch.columns().last().and_then(|column| column.as_primitive_opt::<Int64Type>());
        let offsets = offsets.ok_or_else(|| Error::internal("a sample without an offset"))?;
        let wanted: BooleanArray = offsets.values().iter().map(|offset| Some(offset.unsigned_abs().is_multiple_of(every))).collect();
        let mut kept = filter_record_batch(&batch, &wanted).map_err(DataFusionError::from)?.columns().to_vec();
        kept.pop();
        sample.add(&kept)?;
    }
    Ok(sample.ranks())
}
