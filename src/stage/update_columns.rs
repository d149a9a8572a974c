//! `UpdateColumnsExec`: an UPDATE in column form. For each fragment that has a row of the UPDATE, one file of the changed
//! columns is written, for all rows of the fragment; of a fragment without files, whose rows the manifest holds, likewise into the
//! manifest.
//!
//! ```text
//!   rows that change, by address     fragment 7, values until now      the new file
//!   7/0  x                           a                                 x
//!   7/2  y                           b                                 b
//!                                    c (deleted)                       y
//!                                    d                                 d
//! ```
//!
//! Goes in: the changed columns and the address of rows, a fragment in one partition and its rows in order (both of which it
//! requires of the plan). Comes out: a description of what was staged for each partition that had rows: for each fragment
//! `TombstoneFieldData` and `AddDataFile`.
//! Always holds: a row that the UPDATE does not name keeps its value; a row that it names twice is an error; values until now
//! are read only where the UPDATE names not all rows; what is held is a batch of each. On an error the files of this
//! partition are removed.

use super::checks::{self, Check};
use super::intent;
use super::marks::MarkError;
use super::old_values::{OldValues, ValuesOf};
use super::parts;
use super::stop::Stop;
use super::write_exec::{column, take_fields};
use super::writer::{FragmentWriter, NewFragment, discard, hold_not_null};
use crate::error::{Error, Result};
use crate::manifest::version::Version;
use crate::scan::address::{FRAGMENT_COLUMN, OFFSET_COLUMN};
use crate::store::Store;
use crate::table::fragment::Fragment;
use crate::table::row_address::{FragmentId, RowAddress};
use crate::table::schema::TableSchema;
use crate::txn::action::{Action, AddDataFile, TombstoneFieldData};
use crate::txn::composite::{RowCounts, Step};
use crate::txn::refs::Ref;
use datafusion::arrow::array::{Array, AsArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{SortOptions, interleave_record_batch};
use datafusion::arrow::datatypes::{Int64Type, UInt32Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as EngineResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexRequirement, OrderingRequirements, Partitioning, PhysicalExpr, PhysicalSortRequirement,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, EvaluationType, SchedulingType};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements, PlanProperties,
};
use futures::StreamExt;
use std::fmt::{self, Display};
use std::sync::Arc;

/// So many rows in a row that all change are written without a look at the values until now.
const LONG_RUN: usize = 1024;

/// Which columns are written, and where.
#[derive(Debug)]
pub struct ColumnsSpec {
    /// The table's name.
    pub table: String,
    /// Its folder.
    pub store: Store,
    /// The version that the UPDATE reads.
    pub base: Arc<Version>,
    /// The changed columns, by their positions in the table, ascending.
    pub changed: Vec<usize>,
    /// Values of a fragment that has no file become none up to so many bytes.
    pub max_inline_bytes: u32,
    /// What the new values are held to.
    pub checks: Vec<Check>,
    /// Told when the statement has failed elsewhere.
    pub stop: Arc<Stop>,
}

/// Writes new files of columns.
#[derive(Debug)]
pub struct UpdateColumnsExec {
    input: Arc<dyn ExecutionPlan>,
    spec: Arc<ColumnsSpec>,
    /// The address in the input: fragment, then offset.
    address: [Arc<dyn PhysicalExpr>; 2],
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl UpdateColumnsExec {
    /// Writes what `input` yields: the changed columns, then the address.
    pub fn try_new(input: Arc<dyn ExecutionPlan>, spec: Arc<ColumnsSpec>) -> EngineResult<Self> {
        let schema = input.schema();
        let address = [col(FRAGMENT_COLUMN, &schema)?, col(OFFSET_COLUMN, &schema)?];
        let properties = PlanProperties::new(
            EquivalenceProperties::new(parts::PART_SCHEMA.clone()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative)
        .with_evaluation_type(EvaluationType::Eager);
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(UpdateColumnsExec { input, spec, address, properties: Arc::new(properties), metrics })
    }
}

impl DisplayAs for UpdateColumnsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let columns = self.spec.base.snapshot.schema.columns().enumerate().filter(|(at, _)| self.spec.changed.contains(at));
        let names: Vec<&str> = columns.map(|(_, column)| column.name.as_str()).collect();
        write!(f, "UpdateColumnsExec: table={}, columns=[{}]", self.spec.table, names.join(", "))?;
        match format {
            DisplayFormatType::Verbose => intent::of_columns(&self.input, &self.spec.base.snapshot.schema.only(&self.spec.changed)).fmt(f),
            DisplayFormatType::Default | DisplayFormatType::TreeRender => Ok(()),
        }
    }
}

impl ExecutionPlan for UpdateColumnsExec {
    fn name(&self) -> &str {
        "UpdateColumnsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let [fragment, _] = &self.address;
        InputDistributionRequirements::new(vec![Distribution::KeyPartitioned(vec![fragment.clone()])])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let ascending = Some(SortOptions { descending: false, nulls_first: false });
        let by = self.address.iter().map(|column| PhysicalSortRequirement::new(column.clone(), ascending));
        vec![LexRequirement::new(by).map(OrderingRequirements::new)]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> EngineResult<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(UpdateColumnsExec::try_new(input, self.spec.clone())?)),
            _ => Err(DataFusionError::Internal("UpdateColumnsExec has one input".into())),
        }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> EngineResult<TreeNodeRecursion>,
    ) -> EngineResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        let input = self.spec.stop.watch(self.input.execute(partition, context.clone())?);
        let schema = &self.spec.base.snapshot.schema;
        let updating = Updating {
            written: Arc::new(schema.only(&self.spec.changed)),
            spec: self.spec.clone(),
            context,
            open: None,
            done: Vec::new(),
            rows: 0,
            rows_found: MetricBuilder::new(&self.metrics).counter("rows_found", partition),
            rows_written: MetricBuilder::new(&self.metrics).counter("rows_written", partition),
            bytes_written: MetricBuilder::new(&self.metrics).counter("bytes_written", partition),
        };
        let stream = futures::stream::once(updating.run(input)).filter_map(|part| async move {
            match part {
                Ok(Some(step)) => Some(parts::to_batch(&step, &parts::PART_SCHEMA).map_err(DataFusionError::from)),
                Ok(None) => None,
                Err(error) => Some(Err(error.into())),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(parts::PART_SCHEMA.clone(), stream.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One partition at work.
struct Updating {
    spec: Arc<ColumnsSpec>,
    context: Arc<TaskContext>,
    /// The changed columns.
    written: Arc<TableSchema>,
    open: Option<OpenFragment>,
    done: Vec<(Arc<Fragment>, NewFragment)>,
    rows: u64,
    rows_found: Count,
    rows_written: Count,
    bytes_written: Count,
}

/// The fragment whose rows come.
struct OpenFragment {
    fragment: Arc<Fragment>,
    writer: FragmentWriter,
    old: OldValues,
    /// The number of the next row to be written.
    next: u32,
}

impl Updating {
    /// Writes everything; `None` if there was nothing.
    async fn run(mut self, mut input: SendableRecordBatchStream) -> Result<Option<Step>> {
        loop {
            let written = match input.next().await {
                None => self.close().await.map(|()| true),
                Some(Ok(batch)) => self.batch(&batch).await.map(|()| false),
                Some(Err(error)) => Err(error.into()),
            };
            match written {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => {
                    if let Some(open) = self.open {
                        open.writer.abort().await;
                    }
                    let files: Vec<NewFragment> = self.done.into_iter().map(|(_, file)| file).collect();
                    discard(&self.spec.store, &files).await;
                    return Err(error);
                }
            }
        }
        if self.done.is_empty() {
            return Ok(None);
        }
        self.bytes_written.add(self.done.iter().map(|(_, new)| new.file.size_bytes as usize).sum());
        let actions = self.done.into_iter().flat_map(|(fragment, new)| replace(&fragment, new)).collect();
        Ok(Some(Step { actions, counts: RowCounts { updated: self.rows, ..RowCounts::default() }, ..Step::default() }))
    }

    /// Writes rows of one fragment or several.
    async fn batch(&mut self, batch: &RecordBatch) -> Result<()> {
        let fragments: &UInt32Array = column(batch, FRAGMENT_COLUMN)?.as_primitive::<UInt32Type>();
        let offsets = column(batch, OFFSET_COLUMN)?.as_primitive::<Int64Type>();
        if fragments.null_count() > 0 || offsets.null_count() > 0 {
            return Err(MarkError::NoAddress.into_error(&self.spec.table, "UPDATE"));
        }
        self.rows_found.add(batch.num_rows());
        self.rows += batch.num_rows() as u64;
        let columns: Vec<usize> = (0..self.spec.changed.len()).collect();
        let values = batch.project(&columns).map_err(|e| Error::internal(format!("columns to write: {e}")))?;
        hold_not_null(&self.spec.table, &self.written.to_arrow(), &values)?;
        checks::hold(&self.spec.table, &self.spec.checks, &values)?;
        let mut from = 0;
        for run in fragments.values().chunk_by(|one, next| one == next) {
            let Some(id) = run.first() else { continue };
            let fragment = self.open(FragmentId(*id)).await?;
            fragment.write(values.slice(from, run.len()), offsets.slice(from, run.len()).values()).await?;
            from += run.len();
        }
        Ok(())
    }

    /// The fragment of that id; the one that was open is done.
    async fn open(&mut self, id: FragmentId) -> Result<&mut OpenFragment> {
        let last = self.open.as_ref().map(|open| open.fragment.id);
        if last != Some(id) {
            self.close().await?;
            let missing = || Error::internal(format!("UPDATE of table '{}' names fragment {id}, which it did not read", self.spec.table));
            let base = &self.spec.base.snapshot;
            let fragment = base.fragments.get(id).cloned().ok_or_else(missing)?;
            if last.is_some_and(|last| last > id) {
                return Err(Error::internal(format!("rows of fragment {id} came out of order")));
            }
            let (store, table) = (self.spec.store.clone(), self.spec.table.clone());
            // Deleted rows are written too, and may be NULL.
            let written = Arc::new(self.written.with_nullable_columns());
            let writer = FragmentWriter::new(store.clone(), table.clone(), written, fragment.physical_rows)
                .inline_like(&fragment, self.spec.max_inline_bytes);
            let (schema, columns) = (base.schema.clone(), self.spec.changed.clone());
            let of = ValuesOf { store, table, bases: base.bases.clone(), schema, fragment: fragment.clone(), columns };
            let old = OldValues::new(of, self.context.clone());
            self.open = Some(OpenFragment { fragment, writer, old, next: 0 });
        }
        self.open.as_mut().ok_or_else(|| Error::internal("no fragment is open"))
    }

    /// Ends the fragment that is open.
    async fn close(&mut self) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        open.keep_until(open.fragment.physical_rows).await?;
        self.rows_written.add(open.next as usize);
        let Some(OpenFragment { fragment, writer, .. }) = self.open.take() else { return Ok(()) };
        let mut files = writer.finish().await?;
        match (files.pop(), files.is_empty()) {
            (Some(file), true) if file.physical_rows == fragment.physical_rows => {
                self.done.push((fragment, file));
                Ok(())
            }
            (last, _) => {
                files.extend(last);
                discard(&self.spec.store, &files).await;
                Err(Error::internal(format!("columns of fragment {} were written to several files, or in part", fragment.id)))
            }
        }
    }
}

impl OpenFragment {
    /// Writes new values, which go to these rows.
    async fn write(&mut self, values: RecordBatch, mut offsets: &[i64]) -> Result<()> {
        let mut values = self.writer.conform(&values)?;
        while let Some(first) = offsets.first() {
            let (id, table) = (self.fragment.id, self.old.table());
            let wrong = || Error::internal(format!("row {id}/{first} of table '{table}' does not exist"));
            let first = u32::try_from(*first).ok().filter(|row| *row < self.fragment.physical_rows).ok_or_else(wrong)?;
            if first < self.next {
                // Rows come in order, so that one that was written comes again.
                return Err(MarkError::Twice(RowAddress::new(id, first)).into_error(table, "UPDATE"));
            }
            let run = offsets.iter().zip(i64::from(self.next)..).take_while(|(row, next)| *row == next).count();
            let rows = if run == offsets.len() || run >= LONG_RUN {
                self.writer.write(&values.slice(0, run)).await?;
                self.next += run as u32;
                run
            } else {
                self.overlay(&values, offsets).await?
            };
            values = values.slice(rows, values.num_rows() - rows);
            offsets = offsets.get(rows..).unwrap_or_default();
        }
        Ok(())
    }

    /// Writes some of the values until now with the new ones among them; returns how many of the new ones.
    async fn overlay(&mut self, values: &RecordBatch, offsets: &[i64]) -> Result<usize> {
        let old = self.old.from(self.next).await?;
        let last = offsets.last().map_or(0, |last| last - i64::from(self.next) + 1);
        let length = old.num_rows().min(usize::try_from(last).unwrap_or(0));
        let old = self.writer.conform(&old.slice(0, length))?;
        let mut new = offsets.iter().enumerate().peekable();
        let mut taken = 0;
        let mut sources = Vec::with_capacity(length);
        for (at, row) in (i64::from(self.next)..).take(length).enumerate() {
            match new.next_if(|(_, offset)| **offset == row) {
                Some((position, _)) => {
                    sources.push((1, position));
                    taken += 1;
                }
                None => sources.push((0, at)),
            }
            if let Some((_, twice)) = new.peek().filter(|(_, offset)| **offset <= row) {
                let offset = u32::try_from(**twice).unwrap_or(0);
                return Err(MarkError::Twice(RowAddress::new(self.fragment.id, offset)).into_error(self.old.table(), "UPDATE"));
            }
        }
        let mixed = interleave_record_batch(&[&old, values], &sources).map_err(|e| Error::internal(format!("columns to write: {e}")))?;
        self.writer.write(&mixed).await?;
        self.next += length as u32;
        Ok(taken)
    }

    /// Writes the values until now of the rows before `row`.
    async fn keep_until(&mut self, row: u32) -> Result<()> {
        while self.next < row {
            let old = self.old.from(self.next).await?;
            let length = old.num_rows().min((row - self.next) as usize);
            self.writer.write(&old.slice(0, length)).await?;
            self.next += length as u32;
        }
        Ok(())
    }
}

/// The actions that give a fragment the columns of a new file.
fn replace(fragment: &Fragment, new: NewFragment) -> Vec<Action> {
    let mut file = new.file;
    let held = file.columns.iter().filter_map(|column| column.field).filter(|field| fragment.backing(*field).is_some());
    let old: Vec<_> = held.map(Ref::Committed).collect();
    let fields = take_fields(&mut file);
    let fragment = Ref::Committed(fragment.id);
    let mut actions = Vec::new();
    if !old.is_empty() {
        actions.push(Action::TombstoneFieldData(TombstoneFieldData { fragment, fields: old, data_change: true }));
    }
    actions.push(Action::AddDataFile(AddDataFile { fragment, file, base: None, fields, data_change: true }));
    actions
}
