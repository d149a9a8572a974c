//! `RewriteExec`: groups of fragments are rewritten, and for each it is said where its rows went.
//!
//! Goes in: partition i yields the live rows of group i with their addresses, fragment after fragment or, if they were
//! sorted, in their new order. Comes out: for each group the actions (`AddFragment`, `AddDataFile`)*, `ChangeOfAddress`, `RemoveFragment`*. A partition of the output
//! works on its groups one after another, so that what is held in memory does not grow with their number.
//! Always holds: addresses ascend in the order of the group, unless the rows were sorted; none is one that was deleted; as
//! many rows are written as the group has. Anything else is an error: a map that guesses would bring deleted rows back.

use super::intent;
use super::parts;
pub use super::places::MAX_SORTED_ROWS;
use super::places::Places;
use super::stop::Stop;
use super::write_exec::{add, column};
use super::writer::{FragmentWriter, discard};
use crate::commit::staged::remove;
use crate::error::{Error, Result};
use crate::scan::address::{FRAGMENT_COLUMN, OFFSET_COLUMN};
use crate::store::{ObjectName, Store};
use crate::table::fragment::SortKey;
use crate::table::row_address::FragmentId;
use crate::table::schema::TableSchema;
use crate::txn::action::{Action, ChangeOfAddress, MapLocation, RemoveFragment};
use crate::txn::address_map::{self, AddressMap, MapError, MapSource};
use crate::txn::composite::{RowCounts, Step};
use crate::txn::refs::{Ref, Token};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{Int64Type, UInt32Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as EngineResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, EvaluationType, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::{RecordBatchReceiverStreamBuilder, RecordBatchStreamAdapter};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use roaring::RoaringBitmap;
use std::fmt::{self, Display};
use std::sync::Arc;

/// Maps of at most this many bytes stay in the transaction.
const MAX_INLINE_MAP_BYTES: usize = 4 * 1024;
/// Batches that are decoded and wait to be encoded.
const BATCHES_AHEAD: usize = 2;

/// What is rewritten, and where to.
#[derive(Debug)]
pub struct RewriteSpec {
    /// The table's name.
    pub table: String,
    /// Its folder.
    pub store: Store,
    /// Its schema.
    pub schema: Arc<TableSchema>,
    /// The groups, one a partition.
    pub groups: Vec<RewriteGroup>,
    /// The order in which the rows come, in words that name fields by id; `None` if they keep the one they have.
    pub order: Option<String>,
    /// The order that the rows of each new file lie in.
    pub sorted_by: Vec<SortKey>,
    /// The size of a new fragment.
    pub rows_per_fragment: u32,
    /// How many groups are worked on at a time.
    pub concurrency: usize,
    /// Told when the statement has failed elsewhere.
    pub stop: Arc<Stop>,
}

/// Fragments that are rewritten together, in the order in which they are read.
#[derive(Debug, Clone)]
pub struct RewriteGroup {
    /// Each fragment's id and what the map has to know of it.
    pub sources: Vec<(FragmentId, MapSource)>,
}

/// Rewrites groups of fragments.
#[derive(Debug)]
pub struct RewriteExec {
    input: Arc<dyn ExecutionPlan>,
    spec: Arc<RewriteSpec>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl RewriteExec {
    /// Rewrites what `input` yields, a group a partition.
    pub fn new(input: Arc<dyn ExecutionPlan>, spec: Arc<RewriteSpec>) -> Self {
        let partitions = spec.concurrency.clamp(1, spec.groups.len().max(1));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(parts::PART_SCHEMA.clone()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative)
        .with_evaluation_type(EvaluationType::Eager);
        RewriteExec { input, spec, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for RewriteExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let sources = || self.spec.groups.iter().flat_map(|group| &group.sources).map(|(id, _)| *id);
        write!(f, "RewriteExec: table={}, groups={}, fragments={}", self.spec.table, self.spec.groups.len(), sources().count())?;
        self.spec.order.iter().try_for_each(|order| write!(f, ", order=[{order}]"))?;
        match format {
            DisplayFormatType::Verbose => intent::of_rewrite(sources(), &self.spec.schema).fmt(f),
            DisplayFormatType::Default | DisplayFormatType::TreeRender => Ok(()),
        }
    }
}

impl ExecutionPlan for RewriteExec {
    fn name(&self) -> &str {
        "RewriteExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // A partition is a group: rows must not change places.
        vec![false]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> EngineResult<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(RewriteExec::new(input, self.spec.clone()))),
            _ => Err(DataFusionError::Internal("RewriteExec has one input".into())),
        }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> EngineResult<TreeNodeRecursion>,
    ) -> EngineResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        let (spec, input) = (self.spec.clone(), self.input.clone());
        let rows_moved = MetricBuilder::new(&self.metrics).counter("rows_moved", partition);
        let bytes_written = MetricBuilder::new(&self.metrics).counter("bytes_written", partition);
        let partitions = self.properties.output_partitioning().partition_count();
        let mine: Vec<(usize, RewriteGroup)> =
            spec.groups.iter().cloned().enumerate().filter(|(group, _)| group % partitions == partition).collect();
        let stream = futures::stream::iter(mine).then(move |(number, group)| {
            let (spec, input, context, rows_moved) = (spec.clone(), input.clone(), context.clone(), rows_moved.clone());
            let bytes_written = bytes_written.clone();
            async move {
                let rows = spec.stop.watch(input.execute(number, context.clone())?);
                let track = match spec.order {
                    None => Track::Order(Order { group: &group, at: 0, next: 0 }),
                    Some(_) => Track::Places(Places::new(&group, context.memory_pool())?),
                };
                let step = rewrite(spec, &group, track, ahead(rows)).await?;
                rows_moved.add(step.counts.moved as usize);
                bytes_written.add(step.actions.iter().map(bytes_of).sum());
                Ok(parts::to_batch(&step, &parts::PART_SCHEMA)?)
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(parts::PART_SCHEMA.clone(), stream.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Reads on a task of its own, so that rows are decoded while those before them are encoded.
fn ahead(mut rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let mut builder = RecordBatchReceiverStreamBuilder::new(rows.schema(), BATCHES_AHEAD);
    let decoded = builder.tx();
    builder.spawn(async move {
        while let Some(batch) = rows.next().await {
            // Who wanted them has failed.
            if decoded.send(batch).await.is_err() {
                break;
            }
        }
        Ok(())
    });
    builder.build()
}

/// How large the file is that an action adds.
fn bytes_of(action: &Action) -> usize {
    action.added_file().map_or(0, |file| file.size_bytes as usize)
}

/// What is noted of the rows that pass.
enum Track<'a> {
    Order(Order<'a>),
    Places(Places<'a>),
}

impl Track<'_> {
    fn pass(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Track::Order(order) => order.check(batch),
            Track::Places(places) => places.pass(batch),
        }
    }

    fn into_map(self, targets: Vec<u32>) -> Result<AddressMap, MapError> {
        match self {
            Track::Order(order) => AddressMap::in_order(order.group.sources.iter().map(|(_, source)| source.clone()).collect(), targets),
            Track::Places(places) => places.into_map(targets),
        }
    }
}

async fn rewrite(spec: Arc<RewriteSpec>, group: &RewriteGroup, mut track: Track<'_>, mut input: SendableRecordBatchStream) -> Result<Step> {
    let mut writer = FragmentWriter::new(spec.store.clone(), spec.table.clone(), spec.schema.clone(), spec.rows_per_fragment)
        .sorted_by(spec.sorted_by.clone());
    let columns: Vec<usize> = (0..spec.schema.columns().count()).collect();
    loop {
        let written = match input.next().await {
            None => break,
            Some(Err(error)) => Err(error.into()),
            Some(Ok(batch)) => match track.pass(&batch) {
                Err(error) => Err(error),
                Ok(()) => match batch.project(&columns) {
                    Ok(rows) => writer.write(&rows).await,
                    Err(error) => Err(Error::internal(format!("rows to rewrite: {error}"))),
                },
            },
        };
        if let Err(error) = written {
            writer.abort().await;
            return Err(error);
        }
    }
    let fragments = writer.finish().await?;
    let targets: Vec<u32> = fragments.iter().map(|fragment| fragment.physical_rows).collect();
    let map = match track.into_map(targets.clone()) {
        Ok(map) => map,
        Err(error) => {
            discard(&spec.store, &fragments).await;
            return Err(Error::internal(format!("the rewrite of table '{}' does not add up: {error}", spec.table)));
        }
    };
    let bytes = address_map::wire::encode(&map);
    let location = if bytes.len() <= MAX_INLINE_MAP_BYTES {
        MapLocation::Inline(bytes)
    } else {
        let name = ObjectName::new_moves();
        let (object, crc32c) = address_map::wire::seal(&map);
        let size_bytes = object.len() as u64;
        if let Err(error) = spec.store.write(&name, object).await {
            discard(&spec.store, &fragments).await;
            remove(&spec.store, &[name]).await;
            return Err(error);
        }
        MapLocation::Object { path: name.as_str().to_owned(), size_bytes, crc32c }
    };
    let moved = targets.iter().map(|rows| u64::from(*rows)).sum();
    let tokens = (0..).map(Token).take(fragments.len());
    let change = ChangeOfAddress {
        sources: group.sources.iter().map(|(id, _)| Ref::Committed(*id)).collect(),
        targets: tokens.clone().map(Ref::Local).collect(),
        map: location,
        order: spec.order.clone(),
    };
    let mut actions: Vec<Action> =
        tokens.zip(fragments).flat_map(|(token, fragment)| add(token, fragment, RoaringBitmap::new(), false)).collect();
    actions.push(Action::ChangeOfAddress(change));
    let remove =
        |(id, _): &(FragmentId, MapSource)| Action::RemoveFragment(RemoveFragment { fragment: Ref::Committed(*id), data_change: false });
    actions.extend(group.sources.iter().map(remove));
    Ok(Step { actions, counts: RowCounts { moved, ..RowCounts::default() }, ..Step::default() })
}

/// Watches that rows come in the order that the map claims.
struct Order<'a> {
    group: &'a RewriteGroup,
    /// The source that rows come from.
    at: usize,
    /// The smallest offset that may come next.
    next: u64,
}

impl Order<'_> {
    fn check(&mut self, batch: &RecordBatch) -> Result<()> {
        let fragments = column(batch, FRAGMENT_COLUMN)?.as_primitive::<UInt32Type>();
        let offsets = column(batch, OFFSET_COLUMN)?.as_primitive::<Int64Type>();
        for (fragment, offset) in fragments.values().iter().zip(offsets.values()) {
            let wrong = || Error::internal(format!("row {fragment}/{offset} came out of order or was deleted before the rewrite"));
            while self.group.sources.get(self.at).is_some_and(|(id, _)| id.0 != *fragment) {
                self.at += 1;
                self.next = 0;
            }
            let (_, source) = self.group.sources.get(self.at).ok_or_else(wrong)?;
            let offset = u32::try_from(*offset).map_err(|_| wrong())?;
            if u64::from(offset) < self.next || source.absent.contains(offset) {
                return Err(wrong());
            }
            self.next = u64::from(offset) + 1;
        }
        Ok(())
    }
}
