//! `table_properties('t')`: the properties of a table, by name, as the session sees it.

use super::text;
use crate::error::Error;
use crate::scan::pin::SessionView;
use crate::statement::lake::Lake;
use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result as EngineResult;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::{Arc, LazyLock};

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    Arc::new(Schema::new(vec![text("name"), text("value")]))
});

/// The function.
#[derive(Debug)]
pub struct PropertiesFunction {
    lake: Lake,
}

impl PropertiesFunction {
    /// The function for the tables of a lake.
    pub fn new(lake: Lake) -> Self {
        PropertiesFunction { lake }
    }
}

impl TableFunctionImpl for PropertiesFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> EngineResult<Arc<dyn TableProvider>> {
        let table = text("table_properties", args.exprs().first())?;
        Ok(Arc::new(Properties { lake: self.lake.clone(), table }))
    }
}

/// The properties of one table, read when they are scanned.
#[derive(Debug)]
struct Properties {
    lake: Lake,
    table: String,
}

#[async_trait]
impl TableProvider for Properties {
    fn schema(&self) -> SchemaRef {
        SCHEMA.clone()
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
        let log = self.lake.table(&self.table).await?;
        let version = match session.config().get_extension::<SessionView>() {
            Some(view) => view.0.view(&log).await?,
            None => log.newest().await?,
        };
        let config = &version.snapshot.config;
        let columns: Vec<ArrayRef> =
            vec![Arc::new(StringArray::from_iter_values(config.keys())), Arc::new(StringArray::from_iter_values(config.values()))];
        let rows = RecordBatch::try_new(SCHEMA.clone(), columns).map_err(|e| Error::internal(format!("properties: {e}")))?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![rows]], SCHEMA.clone(), projection.cloned())?)
    }
}
