//! The rows of a table held against a constraint that it is to have.
//!
//! Goes in: the version that is altered, its schema as it will be, and the constraint. Comes out: nothing, or an error that names a
//! row or a key.
//! Always holds: all rows that the session sees are looked at; rows that others bring meanwhile make the statement run again (the
//! footprint of the constraint).

use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::manifest::version::Version;
use crate::scan::expression;
use crate::scan::provider::LakeTable;
use crate::scan::statistics::initial;
use crate::stage::checks::violation;
use crate::stage::unique::{self, Key};
use crate::table::constraint::{Constraint, Rule};
use crate::table::schema::{FieldId, TableSchema};
use datafusion::common::Column;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Refuses a constraint that a row violates.
pub async fn hold(
    state: &SessionState,
    log: &Arc<VersionLog>,
    base: &Arc<Version>,
    (schema, converted): (&TableSchema, &BTreeMap<FieldId, Expr>),
    constraint: &Constraint,
) -> Result<()> {
    let (table, rows) = (log.table(), rows(log, base, (schema, converted), &constraint.fields)?);
    match &constraint.rule {
        Rule::Check(kept) => {
            let condition = expression::condition(table, kept, schema)?;
            let violating = LogicalPlanBuilder::from(rows).filter(condition.is_false())?.limit(0, Some(1))?.build()?;
            let batches = DataFrame::new(state.clone(), violating).collect().await?;
            let Some(row) = batches.iter().find(|batch| batch.num_rows() > 0) else { return Ok(()) };
            let shown = format!("({})", expression::named(table, kept, schema)?);
            Err(violation(table, &constraint.name, &shown, row, 0))
        }
        Rule::Unique | Rule::PrimaryKey => {
            let key = Key::new(constraint, schema)?;
            let repeated = unique::repeated(LogicalPlanBuilder::from(rows), &key)?;
            let batches = DataFrame::new(state.clone(), repeated).collect().await?;
            unique::refuse_any(table, &key, &batches)
        }
    }
}

/// The rows with those of the columns that they will have: new ones have their initial values, converted ones those that they get. Others are not read: who changes them is none of
/// the constraint's affair.
fn rows(
    log: &Arc<VersionLog>,
    base: &Arc<Version>,
    (schema, converted): (&TableSchema, &BTreeMap<FieldId, Expr>),
    fields: &[FieldId],
) -> Result<LogicalPlan> {
    let table = Arc::new(LakeTable::new(log.clone(), None, base.clone()));
    let scan = LogicalPlanBuilder::scan(log.table(), provider_as_source(table), None)?;
    let columns = schema.columns().filter(|field| fields.is_empty() || fields.contains(&field.id)).map(|field| {
        let arrow = schema.arrow_field(field);
        let value = match (base.snapshot.schema.field(field.id), converted.get(&field.id)) {
            (Some(present), _) => Expr::Column(Column::from_name(&present.name)).cast_to(arrow.data_type(), scan.schema())?,
            (None, Some(value)) => value.clone(),
            (None, None) => Expr::Literal(initial(field, arrow.data_type())?, None),
        };
        Ok(value.alias(&field.name))
    });
    let columns = columns.collect::<Result<Vec<Expr>, datafusion::common::DataFusionError>>().map_err(Error::from)?;
    Ok(scan.project(columns)?.build()?)
}
