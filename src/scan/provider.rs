//! What DataFusion sees of a table: [`LakeTable`], which name resolution finds, and [`PinnedTable`], which a statement
//! reads.
//!
//! `LakeTable` refuses to be written to by DataFusion's own hooks: they lose predicates (subqueries, `WHERE false`,
//! `LIMIT`), and an empty list of filters means all rows. The analyzer rule of [`plan`](crate::plan) plans such
//! statements before the hooks are reached.

use super::address::scan_schema;
use super::expression;
use super::generated;
use super::isolation::SessionIsolation;
use super::keys::Keys;
use super::pin::Pin;
use super::plan::{self, ScanRequest};
use super::pruning::matching;
use super::read::{JoinKeys, Read};
use crate::error::Error;
use crate::manifest::log::VersionLog;
use crate::manifest::version::Version;
use crate::table::constraint;
use crate::table::schema::{FieldId, TableSchema};
use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchemaRef;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::dml::{InsertOp, MergeIntoClause};
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A table, or one version of it.
#[derive(Debug, Clone)]
pub struct LakeTable {
    log: Arc<VersionLog>,
    at: Option<u64>,
    planned: Arc<Version>,
    schema: SchemaRef,
    /// The defaults of columns, by name.
    defaults: Arc<HashMap<String, Expr>>,
}

impl LakeTable {
    /// The table as it is in `planned`; it is read at its newest version, or at `at`.
    pub fn new(log: Arc<VersionLog>, at: Option<u64>, planned: Arc<Version>) -> Self {
        let schema = planned.snapshot.schema.to_plain_arrow();
        LakeTable { log, at, planned, schema, defaults: Arc::default() }
    }

    /// The same, with the defaults of its columns, for statements that insert.
    pub fn with_defaults(self) -> crate::error::Result<Self> {
        let snapshot = &self.planned.snapshot;
        let mut defaults = HashMap::new();
        for (field, kept) in constraint::defaults(&snapshot.config) {
            // That of a column that is gone is nobody's.
            if let Some(field) = snapshot.schema.field(field) {
                defaults.insert(field.name.clone(), expression::default_value(self.log.table(), kept)?);
            }
        }
        for column in generated::of(self.log.table(), snapshot)? {
            defaults.insert(column.name, generated::mark().call(vec![]));
        }
        Ok(LakeTable { defaults: Arc::new(defaults), ..self })
    }

    /// The versions of the table.
    pub fn log(&self) -> &Arc<VersionLog> {
        &self.log
    }

    /// The version that was asked for by number or time.
    pub fn at(&self) -> Option<u64> {
        self.at
    }

    /// The version whose schema statements are planned with.
    pub fn planned(&self) -> &Arc<Version> {
        &self.planned
    }

    /// A pin for one statement of a session that wants this isolation.
    pub fn pin(&self, isolation: SessionIsolation) -> Arc<Pin> {
        Arc::new(Pin::new(self.log.clone(), self.at, isolation))
    }

    /// The table as one statement reads it.
    pub fn pinned(&self, pin: Arc<Pin>, access: Access) -> PinnedTable {
        let schema = match access {
            Access::Rows => self.schema.clone(),
            Access::Addresses | Access::AddressesAndRows | Access::AddressesAndAbsence => {
                scan_schema(self.schema.clone()).table_schema().clone()
            }
        };
        PinnedTable { pin, planned: self.planned.clone(), access, schema, keys: None }
    }

    fn not_installed<T>(&self, statement: &str) -> Result<T> {
        let what = format!("{statement} of table '{}' without amend's planner", self.log.table());
        Err(Error::unsupported(what, Some("call amend::install on this SessionContext, or use amend::Session")).into())
    }
}

#[async_trait]
impl TableProvider for LakeTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.defaults.get(column)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters.iter().map(|filter| pushdown_of(filter)).collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.pinned(self.pin(SessionIsolation::default()), Access::Rows).scan(session, projection, filters, limit).await
    }

    async fn insert_into(&self, _: &dyn Session, _: Arc<dyn ExecutionPlan>, _: InsertOp) -> Result<Arc<dyn ExecutionPlan>> {
        self.not_installed("INSERT")
    }

    async fn delete_from(&self, _: &dyn Session, _: Vec<Expr>) -> Result<Arc<dyn ExecutionPlan>> {
        self.not_installed("DELETE")
    }

    async fn update(&self, _: &dyn Session, _: Vec<(String, Expr)>, _: Vec<Expr>) -> Result<Arc<dyn ExecutionPlan>> {
        self.not_installed("UPDATE")
    }

    async fn truncate(&self, _: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        self.not_installed("TRUNCATE")
    }

    async fn merge_into(
        &self,
        _: &dyn Session,
        _: Arc<dyn ExecutionPlan>,
        _: DFSchemaRef,
        _: Expr,
        _: Vec<MergeIntoClause>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.not_installed("MERGE")
    }
}

/// What a scan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A query: rows.
    Rows,
    /// A DELETE: addresses, and the columns of its predicate.
    Addresses,
    /// An UPDATE or MERGE: addresses and rows. Columns that are not in the predicate are read for the rows found only.
    AddressesAndRows,
    /// A MERGE that inserts: likewise; and where no row is found, one is inserted.
    AddressesAndAbsence,
}

impl Access {
    /// Whether it matters to the statement that a row is not there which would have matched. Where each row is changed by
    /// itself it does not: the statement would have come to the same after the row went.
    fn minds_deletions(self) -> bool {
        match self {
            Access::Rows | Access::AddressesAndAbsence => true,
            Access::Addresses | Access::AddressesAndRows => false,
        }
    }
}

/// A table as one statement reads it.
#[derive(Debug)]
pub struct PinnedTable {
    pin: Arc<Pin>,
    planned: Arc<Version>,
    access: Access,
    schema: SchemaRef,
    /// The key of a row that a join compares, and the keys that it will bring.
    keys: Option<(Expr, Arc<Keys>)>,
}

impl PinnedTable {
    /// The table for a join that looks only for rows whose key, an expression over the table's columns, is among `keys`.
    pub fn joined_on(self, key: Expr, keys: Arc<Keys>) -> Self {
        PinnedTable { keys: Some((unnormalize_col(key), keys)), ..self }
    }

    /// The version that is read.
    pub fn pin(&self) -> &Arc<Pin> {
        &self.pin
    }
}

#[async_trait]
impl TableProvider for PinnedTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters.iter().map(|filter| pushdown_of(filter)).collect())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let version = self.pin.resolve(session, &self.planned).await?;
        let log = self.pin.log();
        let schema = self.planned.snapshot.schema.clone();
        let columns = DFSchema::try_from(scan_schema(schema.to_plain_arrow()).table_schema().as_ref().clone())?;
        let physical = |filters: Vec<Expr>| {
            let predicate = conjunction(filters).map(|filter| session.create_physical_expr(filter, &columns));
            predicate.transpose()
        };
        let predicate = physical(filters.to_vec())?;
        let width = self.schema.fields().len();
        let projection = projection.cloned().unwrap_or_else(|| (0..width).collect());
        let lasting: Vec<Expr> = filters.iter().filter(|filter| lasts(filter)).cloned().collect();
        let keys = self.keys.as_ref().map(|(key, brought)| {
            let of_row = session.create_physical_expr(key.clone(), &columns)?;
            Ok::<_, DataFusionError>(JoinKeys { of_row, brought: brought.clone() })
        });
        let read = Read {
            fields: fields_read(&schema, &projection, predicate.as_ref()),
            predicate: if lasting.len() == filters.len() { predicate.clone() } else { physical(lasting)? },
            keys: keys.transpose()?,
            minds_deletions: self.access.minds_deletions(),
            options: session.config().options().clone(),
            runtime: session.runtime_env().clone(),
            schema: schema.clone(),
        };
        self.pin.note(session, &version, read);
        if self.access == Access::Rows && projection.is_empty() && filters.is_empty() {
            let rows = usize::try_from(version.snapshot.live_rows()).unwrap_or(usize::MAX);
            return rows_without_columns(rows.min(limit.unwrap_or(rows)));
        }
        let whole = scan_schema(schema.to_plain_arrow());
        let fragments = matching(log, &version.snapshot, &schema, whole.table_schema(), predicate.as_ref(), limit).await;
        let fragments = match self.pin.held() {
            Some(held) => held.explained(fragments).await?,
            None => fragments?,
        };
        let mut request = ScanRequest {
            store: log.store().clone(),
            table: Arc::from(log.table()),
            schema,
            bases: version.snapshot.bases.clone(),
            fragments: fragments.into_iter().map(|fragment| (fragment, None)).collect(),
            projection: Some(projection),
            predicate,
            limit,
            groups: None,
            pushdown_filters: matches!(self.access, Access::AddressesAndRows | Access::AddressesAndAbsence).then_some(true),
            target_partitions: session.config().target_partitions(),
            held: self.pin.held(),
        };
        for (fragment, deleted) in request.fragments.iter_mut().filter(|(fragment, _)| fragment.deletions.is_some()) {
            let rows = log.deleted_rows(fragment).await;
            *deleted = Some(match &request.held {
                Some(held) => held.explained(rows).await?,
                None => rows?,
            });
        }
        plan::plan(request, session)
    }
}

/// Whether a scan may have a filter. Not one that is to become a join, or part of a subquery that is: the engine looks for it in
/// filters alone, also after those were pushed down.
fn pushdown_of(filter: &Expr) -> TableProviderFilterPushDown {
    let to_be_joined = filter.exists(|part| {
        Ok(match part {
            Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) | Expr::OuterReferenceColumn(..) => true,
            Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
            _ => false,
        })
    });
    match to_be_joined {
        Ok(false) => TableProviderFilterPushDown::Inexact,
        _ => TableProviderFilterPushDown::Unsupported,
    }
}

/// Whether a filter says the same of a row later, outside of the statement.
fn lasts(filter: &Expr) -> bool {
    let of_the_statement = filter.exists(|part| {
        Ok(part.is_volatile_node()
            || matches!(
                part,
                Expr::ScalarSubquery(_)
                    | Expr::InSubquery(_)
                    | Expr::Exists(_)
                    | Expr::SetComparison(_)
                    | Expr::OuterReferenceColumn(..)
                    | Expr::Placeholder(_)
                    | Expr::ScalarVariable(..)
            ))
    });
    !of_the_statement.unwrap_or(true)
}

/// The fields of the columns that a scan reads.
fn fields_read(schema: &TableSchema, projection: &[usize], predicate: Option<&Arc<dyn PhysicalExpr>>) -> BTreeSet<FieldId> {
    let in_predicate = predicate.into_iter().flat_map(collect_columns).map(|column| column.index());
    let positions: BTreeSet<usize> = projection.iter().copied().chain(in_predicate).collect();
    let mut fields: BTreeSet<FieldId> =
        schema.columns().enumerate().filter(|(position, _)| positions.contains(position)).map(|(_, column)| column.id).collect();
    // The parts of a column follow it.
    for field in schema.fields() {
        if field.parent.is_some_and(|parent| fields.contains(&parent)) {
            fields.insert(field.id);
        }
    }
    fields
}

/// So many rows of which no column is wanted: they are counted in the manifest, so neither pages nor files are read.
fn rows_without_columns(rows: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = Arc::new(Schema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let all = RecordBatch::try_new_with_options(schema.clone(), vec![], &options)?;
    Ok(MemorySourceConfig::try_new_exec(&[vec![all]], schema, None)?)
}
