//! Some columns of the live rows of some fragments, for questions that a statement has about its table beside its own plan.
//!
//! Goes in: fragments of one version, what is deleted in them, positions of columns, and perhaps a condition. Comes out: a table for
//! DataFusion whose rows fulfil the condition.

use super::address::scan_schema;
use super::held::Held;
use super::plan::{self, ScanRequest};
use crate::error::Result;
use crate::manifest::leases::Lease;
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::Snapshot;
use crate::table::fragment::{Base, BaseId, Fragment};
use crate::table::schema::TableSchema;
use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result as EngineResult;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Some columns of some rows.
pub struct SomeRows {
    log: Arc<VersionLog>,
    held: Held,
    bases: BTreeMap<BaseId, Base>,
    table_schema: Arc<TableSchema>,
    fragments: Vec<(Arc<Fragment>, Option<Arc<RoaringBitmap>>)>,
    positions: Vec<usize>,
    condition: Option<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
}

impl fmt::Debug for SomeRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SomeRows").field("table", &self.log.table()).field("fragments", &self.fragments.len()).finish_non_exhaustive()
    }
}

impl SomeRows {
    /// The columns at `positions` of the rows of `fragments` of a version, those that fulfil `condition`: over the columns of a
    /// scan, of which it names no others than these.
    pub async fn new(
        (log, lease): (Arc<VersionLog>, Arc<Lease>),
        snapshot: &Snapshot,
        fragments: Vec<Arc<Fragment>>,
        positions: Vec<usize>,
        condition: Option<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        let mut with_deletions = Vec::with_capacity(fragments.len());
        for fragment in fragments {
            let deleted = match fragment.deletions {
                Some(_) => Some(log.deleted_rows(&fragment).await?),
                None => None,
            };
            with_deletions.push((fragment, deleted));
        }
        let table_schema = snapshot.schema.clone();
        let schema = Arc::new(table_schema.to_plain_arrow().project(&positions).map_err(|e| crate::error::Error::internal(e.to_string()))?);
        let held = Held::new(log.clone(), lease);
        Ok(SomeRows { log, held, bases: snapshot.bases.clone(), table_schema, fragments: with_deletions, positions, condition, schema })
    }

    /// The plan of the rows.
    pub fn plan(&self, session: &dyn Session) -> EngineResult<Arc<dyn ExecutionPlan>> {
        let request = ScanRequest {
            store: self.log.store().clone(),
            table: Arc::from(self.log.table()),
            schema: self.table_schema.clone(),
            bases: self.bases.clone(),
            fragments: self.fragments.clone(),
            projection: Some(self.positions.clone()),
            predicate: self.condition.clone(),
            limit: None,
            groups: None,
            held: Some(self.held.clone()),
            pushdown_filters: Some(true),
            target_partitions: session.config().target_partitions(),
        };
        let scan = plan::plan(request, session)?;
        Ok(match &self.condition {
            Some(condition) => {
                let condition = reassign_expr_columns(condition.clone(), &scan.schema())?;
                Arc::new(FilterExec::try_new(condition, scan)?)
            }
            None => scan,
        })
    }
}

/// The columns of a scan, which a condition is about.
pub fn scan_columns(schema: &TableSchema) -> SchemaRef {
    scan_schema(schema.to_plain_arrow()).table_schema().clone()
}

#[async_trait]
impl TableProvider for SomeRows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
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
        let rows = self.plan(session)?;
        let Some(projection) = projection else { return Ok(rows) };
        let schema = rows.schema();
        let columns = projection.iter().filter_map(|at| {
            let name = schema.fields().get(*at)?.name();
            Some(ProjectionExpr::new(Arc::new(Column::new(name, *at)), name.clone()))
        });
        Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), rows)?))
    }
}
