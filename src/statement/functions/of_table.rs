//! Functions of a table's name that say something about the table: read when they are scanned.

use super::text;
use crate::error::Result;
use crate::manifest::log::VersionLog;
use crate::manifest::version::Version;
use crate::scan::pin::SessionView;
use crate::statement::lake::Lake;
use crate::statement::names::of_text;
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result as EngineResult;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// What such a function says.
#[async_trait]
pub trait OfTable: fmt::Debug + Send + Sync + 'static {
    /// The function's name.
    const NAME: &'static str;

    /// The columns of its rows.
    fn schema() -> SchemaRef;

    /// Its rows, as the session sees the table.
    async fn rows(log: &VersionLog, session: &dyn Session) -> Result<RecordBatch>;
}

/// The version that a session reads.
pub async fn version_of(log: &VersionLog, session: &dyn Session) -> Result<Arc<Version>> {
    match session.config().get_extension::<SessionView>() {
        Some(view) => Ok(view.0.view(log).await?.0),
        None => log.newest().await,
    }
}

/// The function, for the tables of a lake.
#[derive(Debug)]
pub struct FunctionOfTable<F> {
    lake: Lake,
    says: PhantomData<F>,
}

impl<F: OfTable> FunctionOfTable<F> {
    /// The function for the tables of a lake.
    pub fn new(lake: Lake) -> Self {
        FunctionOfTable { lake, says: PhantomData }
    }
}

impl<F: OfTable> TableFunctionImpl for FunctionOfTable<F> {
    fn call_with_args(&self, args: TableFunctionArgs) -> EngineResult<Arc<dyn TableProvider>> {
        let table = text(F::NAME, args.exprs().first())?;
        Ok(Arc::new(Called::<F> { lake: self.lake.clone(), table, says: PhantomData }))
    }
}

/// The function with its argument.
#[derive(Debug)]
struct Called<F> {
    lake: Lake,
    table: String,
    says: PhantomData<F>,
}

#[async_trait]
impl<F: OfTable> TableProvider for Called<F> {
    fn schema(&self) -> SchemaRef {
        F::schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        let table = of_text(&self.table, &session.config().options().catalog.default_schema)?;
        let log = self.lake.table(table).await?;
        let rows = F::rows(&log, session).await?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![rows]], F::schema(), projection.cloned())?)
    }
}
