//! `CommitExec`: the last node of a statement. It sees all parts, makes the transaction, and sees to it that it lands.
//!
//! ```text
//!   parts ──> one step ──┬── the session only stages     -> kept for it
//!                        ├── a transaction is open       -> appended to it
//!                        └── else: commit ──> landed
//!                               └── collided, or a rewrite of which others were first everywhere:
//!                                     plan the statement again on the newest version, and run it again
//! ```
//!
//! Always holds: nothing happens before the plan is executed, so EXPLAIN changes nothing; what was staged for a run that
//! did not land is removed.

use super::deletions;
use super::gather::Gatherer;
use super::intent;
use super::parts;
use super::returning::Returned;
use super::row_changes::Cleared;
use super::runs::Runs;
use super::scope::{Done, SessionScope};
use super::stop::Stop;
use super::unique::{self, Key};
use crate::commit::gather::WriteGathered;
use crate::commit::reads::ReadAssertion;
use crate::commit::staged::{objects, remove};
use crate::commit::{Committed, Staged};
use crate::error::{ConflictReport, Error, Result};
use crate::manifest::leases::Lease;
use crate::manifest::log::VersionLog;
use crate::manifest::version::Version;
use crate::scan::pin::Pin;
use crate::scan::read::Read;
use crate::store::{ObjectName, env};
use crate::table::schema::FieldId;
use crate::txn::action::Action;
use crate::txn::address_map::AddressMap;
use crate::txn::composite::{CommitFacts, RowCounts, Step, Transaction, TransactionId};
use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as EngineResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, EvaluationType, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
    ReplaceChildrenOptions, execute_stream,
};
use futures::{StreamExt, TryStreamExt};
use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::sync::{Arc, LazyLock};

static COUNT_SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)])));

/// Plans a statement once more, on the newest version.
#[async_trait]
pub trait PlanAgain: Send + Sync + fmt::Debug {
    /// The new plan, with a [`CommitExec`] at its root, or under nodes that let its rows through.
    async fn plan_again(&self) -> Result<Arc<dyn ExecutionPlan>>;
}

/// What is done for a table when a statement has landed. It is no part of the statement: nothing that goes wrong in it is an error.
#[async_trait]
pub trait Afterwards: Send + Sync + fmt::Debug {
    /// A statement has landed, and this is the newest version.
    async fn landed(&self, log: &Arc<VersionLog>, newest: &Arc<Version>);
}

/// What a statement commits to.
#[derive(Debug)]
pub struct CommitSpec {
    /// The versions of the table.
    pub log: Arc<VersionLog>,
    /// The version that the statement read.
    pub base: Arc<Version>,
    /// The pin that its scans share, which knows what they read; `None` if that is of no account.
    pub pin: Option<Arc<Pin>>,
    /// The kind of statement.
    pub operation: &'static str,
    /// What becomes of all rows of that version.
    pub clears: Option<Cleared>,
    /// The statement in words, for when the session does not know the user's.
    pub statement: String,
    /// How to run it again; `None` if it cannot be.
    pub again: Option<Arc<dyn PlanAgain>>,
    /// What follows once it has landed.
    pub afterwards: Option<Arc<dyn Afterwards>>,
    /// How many times the statement is run at most.
    pub max_attempts: u32,
    /// The fields whose values decided what the statement changes, or how.
    pub reads: BTreeSet<FieldId>,
    /// The keys of the table.
    pub keys: Vec<Key>,
    /// The columns that the statement returns, if it returns rows instead of their number.
    pub returned: Option<SchemaRef>,
    /// What tells the writers that one of them failed.
    pub stop: Arc<Stop>,
    /// What keeps the version that was read, and what is written.
    pub lease: Arc<Lease>,
}

/// Makes a transaction of what its input staged.
#[derive(Debug)]
pub struct CommitExec {
    input: Arc<dyn ExecutionPlan>,
    spec: Arc<CommitSpec>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl CommitExec {
    /// Commits what `input` stages.
    pub fn new(input: Arc<dyn ExecutionPlan>, spec: Arc<CommitSpec>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(spec.returned.as_ref().unwrap_or(&COUNT_SCHEMA).clone()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative)
        .with_evaluation_type(EvaluationType::Eager);
        CommitExec { input, spec, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }
}

/// Runs a plan of writers and makes one step of what they staged; on an error what they staged is removed. `stop` is the
/// one that the writers watch.
pub async fn collect_step(
    input: Arc<dyn ExecutionPlan>,
    operation: &'static str,
    statement: String,
    log: &VersionLog,
    stop: &Stop,
    context: Arc<TaskContext>,
) -> Result<Step> {
    collect_parts(input, operation, statement, log, stop, None, context).await.map(|(step, _)| step)
}

/// The same, with the rows that the statement returns.
async fn collect_parts(
    input: Arc<dyn ExecutionPlan>,
    operation: &'static str,
    statement: String,
    log: &VersionLog,
    stop: &Stop,
    returned: Option<&SchemaRef>,
    context: Arc<TaskContext>,
) -> Result<(Step, Vec<RecordBatch>)> {
    stop.reset();
    let mut staged = Vec::new();
    let mut rows = returned.map(|schema| Returned::new(schema.clone(), &context));
    let mut stream = execute_stream(input, context)?;
    let mut failure = None;
    while let Some(batch) = stream.next().await {
        let answer = batch.map_err(Error::from).and_then(|batch| parts::from_batch(&batch, returned));
        let held = answer.and_then(|(steps, returned)| {
            staged.extend(steps);
            match (&mut rows, returned) {
                (Some(rows), Some(returned)) => rows.push(returned),
                _ => Ok(()),
            }
        });
        match held {
            Ok(()) => {}
            // Others may have staged something by now: they are told, and heard to the end.
            Err(error) => {
                stop.fail();
                failure.get_or_insert(error);
            }
        }
    }
    drop(stream);
    let objects = objects(staged.iter().flat_map(|step| &step.actions));
    let merged = match failure {
        Some(error) => Err(error),
        None => parts::merge(staged, operation, statement, log.table()),
    };
    if merged.is_err() {
        remove(log.store(), &objects).await;
    }
    Ok((merged?, rows.map(Returned::into_batches).unwrap_or_default()))
}

/// One run of a statement: what it changed, or what makes it run again.
enum Run {
    Done(Done, Vec<RecordBatch>),
    Collided(Box<ConflictReport>),
    /// Others rewrote all that it rewrote.
    GivenUp(Done),
}

async fn run_once(input: Arc<dyn ExecutionPlan>, spec: &CommitSpec, runs: &Runs, context: Arc<TaskContext>) -> Result<Run> {
    let scope = context.session_config().get_extension::<SessionScope>();
    let statement = scope.as_ref().and_then(|scope| scope.statement()).unwrap_or_else(|| spec.statement.clone());
    if let Some(scope) = &scope {
        scope.check_target(&spec.log)?;
    }
    let in_transaction = scope.as_ref().is_some_and(|scope| scope.in_transaction());
    let parts = collect_parts(input, spec.operation, statement, &spec.log, &spec.stop, spec.returned.as_ref(), context.clone()).await;
    let (mut step, rows) = match parts {
        // What it read is gone.
        Err(Error::Conflict(report)) if !in_transaction => return Ok(Run::Collided(report)),
        parts => parts?,
    };
    let written = objects(step.actions.iter());
    let (maps, key_reads) = match complete(spec, &mut step, &context).await {
        Ok(complete) => complete,
        Err(error) => {
            remove(spec.log.store(), &written).await;
            return match error {
                Error::Conflict(report) if !in_transaction => Ok(Run::Collided(report)),
                error => Err(error),
            };
        }
    };
    let counts = step.counts;
    let done = |counts, version, facts, files_written| {
        let done = Done { operation: spec.operation.to_owned(), counts, version, facts, files_written, conflicts: vec![] };
        Run::Done(done, rows)
    };
    if let Some(scope) = scope.as_ref().filter(|scope| scope.in_transaction()) {
        scope.note_keys(&spec.log, key_reads);
        if let Err(error) = scope.append(&spec.log, &spec.base, step, maps, (written.clone(), &spec.reads)).await {
            remove(spec.log.store(), &written).await;
            return Err(error);
        }
        return Ok(done(counts, None, CommitFacts::default(), written.len()));
    }
    let gathering: Arc<dyn WriteGathered> = Arc::new(Gatherer::new(context));
    let reads = spec.pin.iter().flat_map(|pin| pin.reads()).map(|read| read as Arc<dyn ReadAssertion>).collect();
    let (fields_read, gathering) = (spec.reads.clone(), Some(gathering));
    let key_reads = key_reads.into_iter().map(|read| read as Arc<dyn ReadAssertion>).collect();
    let staged = Staged { reads, key_reads, fields_read, gathering, ..staged(spec.base.snapshot.version, step, maps, written.clone()) };
    let staged = match &scope {
        Some(scope) => scope.keep_staged(&spec.log, staged, &spec.lease),
        None => Some(staged),
    };
    let Some(staged) = staged else { return Ok(done(counts, None, CommitFacts::default(), written.len())) };
    if staged.transaction.is_empty() {
        return Ok(done(counts, None, CommitFacts::default(), 0));
    }
    if let Some(Err(stopped)) = scope.as_ref().map(|scope| scope.commits()) {
        staged.discard(spec.log.store()).await;
        return Err(stopped);
    }
    match runs.publish(&spec.log, staged).await {
        Ok(Committed { version, newest, counts, facts, files_written }) => {
            if let Some(afterwards) = spec.afterwards.as_ref().filter(|_| version.is_some()) {
                afterwards.landed(&spec.log, &newest).await;
            }
            match done(counts.first().copied().unwrap_or_default(), version, facts, files_written) {
                Run::Done(done, _) if version.is_none() && facts.groups_dropped > 0 => Ok(Run::GivenUp(done)),
                done => Ok(done),
            }
        }
        Err(Error::Conflict(report)) => Ok(Run::Collided(report)),
        Err(error) => Err(error),
    }
}

/// Adds what no writer has seen, and reads the maps of the step. Also the new keys of its rows.
async fn complete(spec: &CommitSpec, step: &mut Step, context: &TaskContext) -> Result<(Vec<Arc<AddressMap>>, Vec<Arc<Read>>)> {
    if let Some(cleared) = spec.clears {
        let cleared = deletions::of_all_rows(&spec.log, &spec.base.snapshot, cleared).await?;
        step.counts.deleted += cleared.iter().map(|set| set.added.len()).sum::<u64>();
        step.actions.splice(0..0, cleared.into_iter().map(Action::SetDeletionFile));
    }
    let mut maps = Vec::new();
    for change in step.actions.iter().filter_map(Action::change_of_address) {
        maps.push(spec.log.map(&change.map).await?);
    }
    let key_reads = unique::hold((&spec.log, &spec.lease), &spec.base, &spec.keys, step, &maps, context).await?;
    Ok((maps, key_reads))
}

/// A transaction of one step. `objects` are those that were written for it.
pub fn staged(read_version: u64, step: Step, maps: Vec<Arc<AddressMap>>, objects: Vec<ObjectName>) -> Staged {
    let id = TransactionId(env::new_uuid().as_u128());
    let transaction = Transaction { id, read_version, steps: vec![step] };
    Staged { transaction, maps, objects, fields_read: BTreeSet::new(), reads: vec![], key_reads: vec![], gathering: None }
}

/// Runs a statement until it lands or cannot.
async fn run(input: Arc<dyn ExecutionPlan>, spec: Arc<CommitSpec>, context: Arc<TaskContext>) -> Result<(Done, Vec<RecordBatch>)> {
    let (mut input, mut spec) = (input, spec);
    let scope = context.session_config().get_extension::<SessionScope>();
    let max_attempts = if spec.again.is_some() { spec.max_attempts } else { 1 };
    let mut runs = Runs::new(max_attempts, scope.as_ref().map_or(0, |scope| scope.reran()));
    let told = |mut done: Done, rows, runs: Runs| {
        done.facts.reran = runs.reran();
        done.conflicts = runs.into_conflicts();
        (done, rows)
    };
    loop {
        let (collided, given_up) = match run_once(input, &spec, &runs, context.clone()).await? {
            Run::Done(done, rows) => return Ok(told(done, rows, runs)),
            Run::Collided(report) => (Some(report), None),
            Run::GivenUp(done) => (None, Some(done)),
        };
        if let Some(scope) = &scope {
            scope.runs_again();
        }
        if !runs.again(&spec.log, collided).await?
            && let Some(done) = given_up
        {
            return Ok(told(done, vec![], runs));
        }
        let again = spec.again.clone().ok_or_else(|| Error::internal("a statement is to be run again that cannot be"))?;
        let plan = again.plan_again().await?;
        if let Some(scope) = &scope {
            scope.watch(&plan);
        }
        (input, spec) = taken_apart(&plan)?.ok_or_else(|| Error::internal("a statement planned again commits nothing"))?;
    }
}

/// What is committed, and how.
type Commitment = (Arc<dyn ExecutionPlan>, Arc<CommitSpec>);

/// What a [`CommitExec`] in a plan commits, and how. Nodes above it, such as the one that gives scalar subqueries their
/// values, go above its input.
fn taken_apart(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Commitment>> {
    if let Some(commit) = plan.downcast_ref::<CommitExec>() {
        return Ok(Some((commit.input.clone(), commit.spec.clone())));
    }
    let mut children: Vec<_> = plan.children().into_iter().cloned().collect();
    let Some(first) = children.first_mut() else { return Ok(None) };
    let Some((input, spec)) = taken_apart(first)? else { return Ok(None) };
    *first = input;
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Ok(Some((plan.clone().replace_children(children, options)?, spec)))
}

/// Whether a plan changes a table and yields rows instead of their number.
pub fn returns_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.downcast_ref::<CommitExec>() {
        Some(commit) => commit.spec.returned.is_some(),
        None => plan.children().first().is_some_and(|child| returns_rows(child)),
    }
}

fn count_batch(count: u64) -> EngineResult<RecordBatch> {
    let column: ArrayRef = Arc::new(UInt64Array::from(vec![count]));
    Ok(RecordBatch::try_new(COUNT_SCHEMA.clone(), vec![column])?)
}

impl Done {
    /// Rows changed; for a rewrite the rows that it moved.
    pub fn count(&self) -> u64 {
        let RowCounts { moved, .. } = self.counts;
        self.counts.changed() + moved
    }
}

impl DisplayAs for CommitExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "CommitExec: table={}, read_version={}", self.spec.log.table(), self.spec.base.snapshot.version)?;
        if let Some(left) = intent::fragments_left(&self.input) {
            write!(f, ", fragments={left} of {}", self.spec.base.snapshot.fragments.len())?;
        }
        match format {
            DisplayFormatType::Verbose if self.spec.clears.is_some() => {
                let fragments = self.spec.base.snapshot.fragments.iter().map_err(|_| fmt::Error)?;
                intent::of_clearing(fragments.map(|fragment| fragment.id)).fmt(f)
            }
            DisplayFormatType::Verbose | DisplayFormatType::Default | DisplayFormatType::TreeRender => Ok(()),
        }
    }
}

impl ExecutionPlan for CommitExec {
    fn name(&self) -> &str {
        "CommitExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> EngineResult<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(CommitExec::new(input, self.spec.clone()))),
            _ => Err(DataFusionError::Internal("CommitExec has one input".into())),
        }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> EngineResult<TreeNodeRecursion>,
    ) -> EngineResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        if partition != 0 {
            return Err(DataFusionError::Internal("CommitExec has one partition".into()));
        }
        let (input, spec) = (self.input.clone(), self.spec.clone());
        let attempts = MetricBuilder::new(&self.metrics).counter("commit_attempts", 0);
        let runs = MetricBuilder::new(&self.metrics).counter("statement_runs", 0);
        let files_written = MetricBuilder::new(&self.metrics).counter("files_written", 0);
        let commit_time = MetricBuilder::new(&self.metrics).subset_time("statement_time", 0);
        if let Some(left) = intent::fragments_left(&self.input) {
            let pruned = self.spec.base.snapshot.fragments.len().saturating_sub(left);
            MetricBuilder::new(&self.metrics).counter("fragments_pruned", 0).add(pruned);
            MetricBuilder::new(&self.metrics).counter("fragments_scanned", 0).add(left);
        }
        let (schema, returns) = (self.schema(), self.spec.returned.is_some());
        let stream = futures::stream::once(async move {
            let timer = commit_time.timer();
            let done = run(input, spec, context.clone()).await;
            timer.done();
            let (done, rows) = done.map_err(DataFusionError::from)?;
            attempts.add(done.facts.attempts as usize);
            runs.add(done.facts.reran as usize + 1);
            files_written.add(done.files_written);
            let count = done.count();
            if let Some(scope) = context.session_config().get_extension::<SessionScope>() {
                scope.set_done(done);
            }
            Ok::<_, DataFusionError>(if returns { rows } else { vec![count_batch(count)?] })
        });
        let batches = stream.map_ok(|batches| futures::stream::iter(batches.into_iter().map(Ok))).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
