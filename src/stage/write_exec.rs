//! `WriteExec`: each partition of a plan is written to fragments of its own, and the addresses it carries are marked. Where partitions have
//! a few rows each, one fragment is made of those (`together`).
//!
//! Goes in: rows in the layout of [`RowChanges`]. Comes out: one description of what was staged for each partition that
//! had rows.
//! Always holds: rows stream through, what is held is one row group and bitmaps of addresses; on an error the files
//! of this partition are removed.

use super::checks::{self, Check};
use super::intent;
use super::marks::Marks;
use super::parts;
use super::replacing::Replacing;
use super::returning::Returned;
use super::row_changes::{ACTION_COLUMN, ACTION_DELETE, ACTION_INSERT, ACTION_REPLACE, ACTION_UPDATE, RowChanges};
use super::stop::Stop;
use super::together::{Left, Together};
use super::writer::{FragmentWriter, NewFragment, discard, rows_of_a_fragment};
use crate::error::{Error, Result};
use crate::scan::address::{FRAGMENT_COLUMN, OFFSET_COLUMN};
use crate::store::Store;
use crate::table::fragment::DataFile;
use crate::table::schema::TableSchema;
use crate::txn::action::{Action, AddDataFile, AddFragment};
use crate::txn::composite::{RowCounts, Step};
use crate::txn::refs::{FieldRef, Ref, Token};
use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, Int32Array, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Int32Type, Int64Type, SchemaRef, UInt32Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as EngineResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, EvaluationType, SchedulingType};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements, PlanProperties,
};
use futures::StreamExt;
use roaring::RoaringBitmap;
use std::fmt::{self, Display};
use std::sync::Arc;

/// Where and what a statement writes.
#[derive(Debug, Clone)]
pub struct WriteSpec {
    /// The table's name.
    pub table: String,
    /// Its folder.
    pub store: Store,
    /// Its schema.
    pub schema: Arc<TableSchema>,
    /// The statement.
    pub changes: RowChanges,
    /// The size of a new fragment.
    pub rows_per_fragment: u32,
    /// How many bytes of rows the manifest holds at most.
    pub max_inline_bytes: u32,
    /// What new rows are held to.
    pub checks: Vec<Check>,
    /// The columns that the statement returns, if it returns rows.
    pub returned: Option<SchemaRef>,
    /// Told when the statement has failed elsewhere.
    pub stop: Arc<Stop>,
}

/// Writes rows and marks addresses, partition by partition.
#[derive(Debug)]
pub struct WriteExec {
    input: Arc<dyn ExecutionPlan>,
    spec: Arc<WriteSpec>,
    together: Arc<Together>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl WriteExec {
    /// Writes what `input` yields.
    pub fn new(input: Arc<dyn ExecutionPlan>, spec: Arc<WriteSpec>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(parts::schema(spec.returned.as_ref())),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative)
        .with_evaluation_type(EvaluationType::Eager);
        let together = Arc::new(Together::new(input.output_partitioning().partition_count()));
        WriteExec { input, spec, together, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }

    fn distribution(&self) -> Distribution {
        // A row that is met several times is returned once.
        if self.spec.returned.is_some() { Distribution::SinglePartition } else { Distribution::UnspecifiedDistribution }
    }
}

impl DisplayAs for WriteExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "WriteExec: table={}, rows={}", self.spec.table, self.spec.changes.operation())?;
        match format {
            DisplayFormatType::Verbose => intent::of_rows(&self.input, self.spec.changes, &self.spec.schema).fmt(f),
            DisplayFormatType::Default | DisplayFormatType::TreeRender => Ok(()),
        }
    }
}

impl ExecutionPlan for WriteExec {
    fn name(&self) -> &str {
        "WriteExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // Splitting a few rows over partitions only makes more and smaller fragments.
        vec![false]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![self.distribution()]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![self.distribution()])
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> EngineResult<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(WriteExec::new(input, self.spec.clone()))),
            _ => Err(DataFusionError::Internal("WriteExec has one input".into())),
        }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> EngineResult<TreeNodeRecursion>,
    ) -> EngineResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        let returned = self.spec.returned.clone().map(|schema| Returned::new(schema, &context));
        let input = self.spec.stop.watch(self.input.execute(partition, context)?);
        let writing = Writing::new(self.spec.clone(), returned, &self.metrics, partition);
        let schema = self.schema();
        let answers = schema.clone();
        let together = self.together.clone();
        let stream =
            futures::stream::once(async move { writing.run(input, partition, &together).await }).flat_map(move |written| match written {
                Ok((step, returned)) => {
                    let part = step.map(|step| parts::to_batch(&step, &answers));
                    let rows: Vec<_> = returned.iter().map(|rows| parts::returned_to_batch(rows, &answers)).collect();
                    futures::stream::iter(
                        part.into_iter().chain(rows).map(|answer| answer.map_err(DataFusionError::from)).collect::<Vec<_>>(),
                    )
                }
                Err(error) => futures::stream::iter(vec![Err(error.into())]),
            });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One partition at work.
struct Writing {
    spec: Arc<WriteSpec>,
    marks: Marks,
    returned: Option<Returned>,
    /// Which of the rows that were written are new versions of rows that go.
    replacing: Replacing,
    counts: RowCounts,
    rows_found: Count,
    rows_written: Count,
    bytes_written: Count,
    write_time: Time,
}

impl Writing {
    fn new(spec: Arc<WriteSpec>, returned: Option<Returned>, metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let rows_per_fragment = rows_of_a_fragment(spec.rows_per_fragment);
        Writing {
            spec,
            marks: Marks::default(),
            returned,
            replacing: Replacing::new(rows_per_fragment),
            counts: RowCounts::default(),
            rows_found: MetricBuilder::new(metrics).counter("rows_found", partition),
            rows_written: MetricBuilder::new(metrics).counter("rows_written", partition),
            bytes_written: MetricBuilder::new(metrics).counter("bytes_written", partition),
            write_time: MetricBuilder::new(metrics).subset_time("write_time", partition),
        }
    }

    fn writer(&self) -> FragmentWriter {
        let WriteSpec { store, table, schema, rows_per_fragment, max_inline_bytes, .. } = self.spec.as_ref();
        FragmentWriter::new(store.clone(), table.clone(), schema.clone(), *rows_per_fragment).inline_up_to(*max_inline_bytes)
    }

    /// Writes everything; no step if there was nothing. Also what the statement returns.
    async fn run(
        mut self,
        mut input: SendableRecordBatchStream,
        partition: usize,
        together: &Together,
    ) -> Result<(Option<Step>, Vec<RecordBatch>)> {
        let mut writer = self.writer();
        loop {
            let written = match input.next().await {
                None => break,
                Some(Ok(batch)) => self.batch(&mut writer, &batch).await,
                Some(Err(error)) => Err(error.into()),
            };
            if let Err(error) = written {
                writer.abort().await;
                return Err(error);
            }
        }
        let replacing = std::mem::replace(&mut self.replacing, Replacing::new(rows_of_a_fragment(self.spec.rows_per_fragment)));
        let mut replacing = replacing.into_fragments();
        // So few are of one fragment.
        let left = writer.take_few().map(|batches| Left { batches, replacing: replacing.pop().unwrap_or_default() });
        let rows_left = left.as_ref().map_or(0, Left::rows);
        let mut fragments: Vec<(NewFragment, RoaringBitmap)> = writer.finish().await?.into_iter().zip(replacing).collect();
        let rows: u64 = fragments.iter().map(|(fragment, _)| u64::from(fragment.physical_rows)).sum();
        if rows + rows_left != self.counts.inserted + self.counts.updated {
            discard(&self.spec.store, fragments.iter().map(|(fragment, _)| fragment)).await;
            return Err(Error::internal(format!("{rows} rows were written to table '{}', not as many as changed", self.spec.table)));
        }
        match self.write_together(together.leave(partition, left)).await {
            Ok(more) => fragments.extend(more),
            Err(error) => {
                discard(&self.spec.store, fragments.iter().map(|(fragment, _)| fragment)).await;
                return Err(error);
            }
        }
        self.bytes_written.add(fragments.iter().map(|(fragment, _)| fragment.file.size_bytes as usize).sum());
        let mut actions = self.marks.into_actions();
        for (token, (fragment, replacing)) in (0..).zip(fragments) {
            actions.extend(add(Token(token), fragment, replacing, true));
        }
        let returned = self.returned.map(Returned::into_batches).unwrap_or_default();
        // Another partition may have written its rows.
        let has_done = !actions.is_empty() || self.counts != RowCounts::default();
        let step = has_done.then(|| Step { actions, counts: self.counts, ..Step::default() });
        Ok((step, returned))
    }

    /// Writes what partitions have left, one after another.
    async fn write_together(&self, all: Vec<Left>) -> Result<Vec<(NewFragment, RoaringBitmap)>> {
        let mut writer = self.writer();
        let mut replacing = Replacing::new(rows_of_a_fragment(self.spec.rows_per_fragment));
        for left in all {
            replacing.push_all(left.rows(), &left.replacing);
            for batch in &left.batches {
                if let Err(error) = writer.write(batch).await {
                    writer.abort().await;
                    return Err(error);
                }
            }
        }
        Ok(writer.finish().await?.into_iter().zip(replacing.into_fragments()).collect())
    }

    async fn batch(&mut self, writer: &mut FragmentWriter, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.rows_found.add(batch.num_rows());
        let mut only = None;
        let rows = match self.spec.changes {
            RowChanges::Insert | RowChanges::Overwrite { .. } => {
                self.counts.inserted += batch.num_rows() as u64;
                self.replacing.push(batch.num_rows(), false);
                Some(batch.clone())
            }
            RowChanges::Delete => {
                only = Some(self.mark_all(batch, false)?);
                None
            }
            RowChanges::Update => {
                self.mark_all(batch, true)?;
                self.replacing.push(batch.num_rows(), true);
                Some(batch.clone())
            }
            RowChanges::Merge | RowChanges::ReplaceWhere => Some(self.merge(batch)?),
            RowChanges::Truncate => return Err(Error::internal("a row reached a TRUNCATE")),
        };
        if let Some(returned) = &mut self.returned {
            returned.take(batch, only.as_ref())?;
        }
        if let Some(rows) = rows.filter(|rows| rows.num_rows() > 0) {
            let columns: Vec<usize> = (0..self.spec.changes.row_columns(self.spec.schema.columns().count())).collect();
            let rows = rows.project(&columns).map_err(|e| Error::internal(format!("rows to write: {e}")))?;
            checks::hold(&self.spec.table, &self.spec.checks, &rows)?;
            let timer = self.write_time.timer();
            writer.write(&rows).await?;
            timer.done();
            self.rows_written.add(rows.num_rows());
        }
        Ok(())
    }

    /// Marks every row of a DELETE or an UPDATE. Returns which of them it had not met before.
    fn mark_all(&mut self, batch: &RecordBatch, replaced: bool) -> Result<BooleanArray> {
        let (fragments, offsets) = (column(batch, FRAGMENT_COLUMN)?, column(batch, OFFSET_COLUMN)?);
        let (fragments, offsets) = (fragments.as_primitive::<UInt32Type>(), offsets.as_primitive::<Int64Type>());
        let mut met = BooleanBufferBuilder::new(batch.num_rows());
        for at in 0..batch.num_rows() {
            let new = self.marks.mark(fragments, offsets, at, replaced).map_err(|e| e.into_error(&self.spec.table, self.statement()))?;
            met.append(new);
            match replaced {
                true => self.counts.updated += 1,
                false => self.counts.deleted += u64::from(new),
            }
        }
        Ok(BooleanArray::new(met.finish(), None))
    }

    /// Marks the rows of a MERGE that go or get new values; returns the rows to be written.
    fn merge(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let (fragments, offsets) = (column(batch, FRAGMENT_COLUMN)?, column(batch, OFFSET_COLUMN)?);
        let (fragments, offsets) = (fragments.as_primitive::<UInt32Type>(), offsets.as_primitive::<Int64Type>());
        let actions: &Int32Array = column(batch, ACTION_COLUMN)?.as_primitive::<Int32Type>();
        for at in 0..batch.num_rows() {
            let statement = self.statement();
            let mut mark =
                |replaced| self.marks.mark(fragments, offsets, at, replaced).map_err(|e| e.into_error(&self.spec.table, statement));
            match actions.value(at) {
                ACTION_INSERT => {
                    self.counts.inserted += 1;
                    self.replacing.push(1, false);
                }
                ACTION_UPDATE => {
                    mark(true)?;
                    self.counts.updated += 1;
                    self.replacing.push(1, true);
                }
                ACTION_DELETE => self.counts.deleted += u64::from(mark(false)?),
                ACTION_REPLACE => self.counts.deleted += u64::from(mark(true)?),
                other => return Err(Error::internal(format!("a row of MERGE has the action {other}"))),
            }
        }
        let keep: BooleanArray = actions.iter().map(|action| Some(!matches!(action, Some(ACTION_DELETE | ACTION_REPLACE)))).collect();
        filter_record_batch(batch, &keep).map_err(|e| Error::internal(format!("rows of MERGE: {e}")))
    }

    fn statement(&self) -> &'static str {
        self.spec.changes.operation()
    }
}

/// The actions that add a fragment and its file.
pub(super) fn add(token: Token, fragment: NewFragment, replacing: RoaringBitmap, data_change: bool) -> [Action; 2] {
    let mut file = fragment.file;
    let fields = take_fields(&mut file);
    [
        Action::AddFragment(AddFragment { id: Ref::Local(token), physical_rows: fragment.physical_rows, data_change, replacing }),
        Action::AddDataFile(AddDataFile { fragment: Ref::Local(token), file, base: None, fields, data_change }),
    ]
}

/// The fields of a file's columns and of their parts, as an action names them beside the file.
pub fn take_fields(file: &mut DataFile) -> Vec<Option<FieldRef>> {
    let fields = file.columns.iter_mut().flat_map(|column| {
        let parts = column.parts.iter().map(|part| Some(Ref::Committed(*part)));
        std::iter::once(column.field.take().map(Ref::Committed)).chain(parts).collect::<Vec<_>>()
    });
    fields.collect()
}

/// A column that the planner has put there.
pub(super) fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    batch.column_by_name(name).ok_or_else(|| Error::internal(format!("the plan yields no column {name}")))
}
