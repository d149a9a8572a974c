//! The sink of a statement: a private table to which a rewritten statement inserts its rows, and whose plan is
//! `CommitExec <- WriteExec`.
//!
//! It needs no planner of its own: DataFusion's calls `insert_into` and looks no further. It also keeps the statement as
//! it was before the rewrite, so that it can be planned again when it collides.

use super::options::options;
use crate::error::{Error, Result};
use crate::manifest::version::Version;
use crate::scan::pin::Pin;
use crate::stage::commit_exec::{CommitExec, CommitSpec, PlanAgain};
use crate::stage::row_changes::RowChanges;
use crate::stage::stop::Stop;
use crate::stage::write_exec::{WriteExec, WriteSpec};
use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result as EngineResult;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, LogicalPlan, TableType};
use datafusion::physical_plan::ExecutionPlan;
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
    /// The columns that reach the sink.
    pub schema: SchemaRef,
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
        let base = self.pin.resolve(session, &self.planned).await?;
        // A new version of a row has the values of all its columns.
        let whole_rows = match self.changes {
            RowChanges::Update | RowChanges::Merge => true,
            RowChanges::Insert | RowChanges::Delete => false,
        };
        if whole_rows && base.snapshot.schema != self.planned.snapshot.schema {
            return Err(self.pin.schema_changed(&self.planned, &base).into());
        }
        let log = self.pin.log().clone();
        let version = base.snapshot.version;
        let options = options(session.config_options());
        let stop = Arc::<Stop>::default();
        let write = WriteSpec {
            table: log.table().to_owned(),
            store: log.store().clone(),
            schema: self.planned.snapshot.schema.clone(),
            changes: self.changes,
            rows_per_fragment: options.rows_per_fragment,
            returned: self.returned.clone(),
            stop: stop.clone(),
        };
        let again = session.as_any().downcast_ref::<SessionState>().map(|state| {
            let again: Arc<dyn PlanAgain> = Arc::new(Again { state: state.clone(), statement: self.original.clone() });
            again
        });
        let commit = CommitSpec {
            base,
            operation: self.changes.operation(),
            statement: format!("{} {}", self.changes.operation(), log.table()),
            again,
            max_attempts: options.max_statement_attempts.max(1),
            returned: self.returned.clone(),
            stop,
            lease: self.pin.lease().unwrap_or_else(|| log.leases().take(version)),
            log,
        };
        let write = Arc::new(WriteExec::new(input, Arc::new(write)));
        Ok(Arc::new(CommitExec::new(write, Arc::new(commit))))
    }
}

/// Plans a statement from its logical plan.
struct Again {
    state: SessionState,
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
