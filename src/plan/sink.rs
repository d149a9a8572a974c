//! The sink of a statement: a private table to which a rewritten statement inserts its rows, and whose plan is
//! `CommitExec <- WriteExec` (or `<- UpdateColumnsExec`).
//!
//! It needs no planner of its own: DataFusion's calls `insert_into` and looks no further. It also keeps the statement as
//! it was before the rewrite, so that it can be planned again when it collides.

use super::constraints::Held;
use super::flush;
use super::narrow::only_columns;
use super::options::options;
use super::source_keys;
use super::update::{Form, form};
use crate::error::{Error, Result};
use crate::manifest::version::Version;
use crate::scan::keys::Keys;
use crate::scan::pin::Pin;
use crate::scan::read::Read;
use crate::stage::commit_exec::{CommitExec, CommitSpec, PlanAgain};
use crate::stage::row_changes::RowChanges;
use crate::stage::stop::Stop;
use crate::stage::update_columns::{ColumnsSpec, UpdateColumnsExec};
use crate::stage::write_exec::{WriteExec, WriteSpec};
use crate::table::constraint;
use crate::table::schema::FieldId;
use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result as EngineResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlan, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Where the rows of a statement go.
#[derive(Debug)]
pub struct RowSink {
    /// The version that the statement reads.
    pub pin: Arc<Pin>,
    /// The version whose columns the statement was planned with.
    pub planned: Arc<Version>,
    /// The layout of the rows.
    pub changes: RowChanges,
    /// The columns of the table that an UPDATE gives new values, by position.
    pub changed: Vec<usize>,
    /// The columns of the table that the statement gives new values, in rows that are there or in new ones.
    pub brings: Vec<usize>,
    /// The columns of the table that decide what is changed, or how.
    pub reads: BTreeSet<FieldId>,
    /// The columns that reach the sink.
    pub schema: SchemaRef,
    /// The keys of the source, if the plan notes them.
    pub keys: Option<Arc<Keys>>,
    /// The constraint of which a key that comes twice is brought twice by the source.
    pub brought_once: Option<String>,
    /// The columns that the statement returns, if it returns rows.
    pub returned: Option<SchemaRef>,
    /// The statement before the rewrite.
    pub original: LogicalPlan,
}

#[async_trait]
impl TableProvider for RowSink {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(&self, _: &dyn Session, _: Option<&Vec<usize>>, _: &[Expr], _: Option<usize>) -> EngineResult<Arc<dyn ExecutionPlan>> {
        Err(Error::internal("the sink of a statement was read").into())
    }

    async fn insert_into(&self, session: &dyn Session, input: Arc<dyn ExecutionPlan>, _: InsertOp) -> EngineResult<Arc<dyn ExecutionPlan>> {
        let mut base = self.pin.resolve(session, &self.planned).await?;
        if self.changes.rewrites_rows() && base.snapshot.schema != self.planned.snapshot.schema {
            return Err(self.pin.schema_changed(&self.planned, &base).into());
        }
        if self.changes.inserts() && constraint::defaults(&base.snapshot.config) != constraint::defaults(&self.planned.snapshot.config) {
            return Err(self.pin.schema_changed(&self.planned, &base).into());
        }
        if let Some(keys) = self.keys.as_ref().filter(|_| !source_keys::all_read(&input)) {
            keys.forgo();
        }
        if self.changes.clears().is_some() {
            self.pin.note(session, &base, self.read_of_all_rows(session));
            // EXPLAIN names its fragments.
            base = Arc::new(Version { snapshot: self.pin.log().load_all(&base.snapshot).await?, ..Version::clone(&base) });
        }
        let log = self.pin.log().clone();
        let schema = &self.planned.snapshot.schema;
        let held = Held::of(log.table(), &base, schema, &self.brings)?;
        // A column that the statement does not know may be NULL in what it writes, or not.
        if held.fields().chain(held.keys.iter().flat_map(|key| key.fields.iter().copied())).any(|field| schema.field(field).is_none()) {
            return Err(self.pin.schema_changed(&self.planned, &base).into());
        }
        let version = base.snapshot.version;
        let options = options(session.config_options());
        let stop = Arc::<Stop>::default();
        let width = self.planned.snapshot.schema.columns().count();
        let form = match self.changes {
            // What is returned of a row may be of any of its columns.
            RowChanges::Update if self.returned.is_some() || held.wants_rows() => Form::Rows,
            RowChanges::Update => form(options.update_form, self.changed.len(), width, expected_rows(input.as_ref())?, &base.snapshot),
            RowChanges::Insert
            | RowChanges::Delete
            | RowChanges::Merge
            | RowChanges::ReplaceWhere
            | RowChanges::Overwrite { .. }
            | RowChanges::Truncate => Form::Rows,
        };
        let write: Arc<dyn ExecutionPlan> = match form {
            Form::Rows => {
                let write = WriteSpec {
                    table: log.table().to_owned(),
                    store: log.store().clone(),
                    schema: self.planned.snapshot.schema.clone(),
                    changes: self.changes,
                    rows_per_fragment: options.rows_per_fragment,
                    max_inline_bytes: options.max_inline_bytes,
                    checks: held.conditions(session, log.table(), schema, schema)?,
                    returned: self.returned.clone(),
                    stop: stop.clone(),
                };
                Arc::new(WriteExec::new(input, Arc::new(write)))
            }
            Form::Columns => {
                let spec = ColumnsSpec {
                    table: log.table().to_owned(),
                    store: log.store().clone(),
                    log: log.clone(),
                    base: base.clone(),
                    changed: self.changed.clone(),
                    max_inline_bytes: options.max_inline_bytes,
                    checks: held.conditions(session, log.table(), schema, &schema.only(&self.changed))?,
                    stop: stop.clone(),
                };
                let input = only_columns(input, &[self.changed.as_slice(), &[width, width + 1]].concat())?;
                Arc::new(UpdateColumnsExec::try_new(input, Arc::new(spec))?)
            }
        };
        // Copied once: it holds all functions there are.
        let state = session.as_any().downcast_ref::<SessionState>().map(|state| Arc::new(state.clone()));
        let again = state.clone().map(|state| {
            let again: Arc<dyn PlanAgain> = Arc::new(Again { state, statement: self.original.clone() });
            again
        });
        let commit = CommitSpec {
            keys: held.unique(&base.snapshot.schema, self.brought_once.as_deref())?,
            base,
            pin: Some(self.pin.clone()),
            operation: self.changes.operation(),
            clears: self.changes.clears(),
            statement: format!("{} {}", self.changes.operation(), log.table()),
            again,
            afterwards: state.map(flush::afterwards),
            max_attempts: options.max_statement_attempts.max(1),
            reads: self.reads.iter().copied().chain(held.fields().filter(|_| self.changes == RowChanges::Update)).collect(),
            returned: self.returned.clone(),
            stop,
            lease: self.pin.held().map_or_else(|| log.leases().take(version), |held| held.lease().clone()),
            log,
        };
        Ok(Arc::new(CommitExec::new(write, Arc::new(commit))))
    }
}

impl RowSink {
    /// What a statement reads that takes all rows without a scan: that there are no others. It does not ask for their values, nor
    /// whether they are there still.
    fn read_of_all_rows(&self, session: &dyn Session) -> Read {
        Read {
            schema: self.planned.snapshot.schema.clone(),
            fields: BTreeSet::new(),
            predicate: None,
            keys: None,
            minds_deletions: false,
            options: session.config().options().clone(),
            runtime: session.runtime_env().clone(),
        }
    }
}

/// How many rows the planner expects of a plan.
fn expected_rows(plan: &dyn ExecutionPlan) -> EngineResult<Option<usize>> {
    let statistics = StatisticsContext::new().compute(plan, &StatisticsArgs::new())?;
    Ok(statistics.num_rows.get_value().copied())
}

/// Plans a statement from its logical plan.
struct Again {
    state: Arc<SessionState>,
    statement: LogicalPlan,
}

impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Again").finish_non_exhaustive()
    }
}

#[async_trait]
impl PlanAgain for Again {
    async fn plan_again(&self) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.state.create_physical_plan(&self.statement).await?)
    }
}
