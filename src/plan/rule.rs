//! The analyzer rule: pins the tables of a statement, and rewrites the statement if it changes one.

use super::merge;
use super::replace_where;
use super::sink::RowSink;
use super::subqueries::{self, Left};
use super::target::{Target, address_columns};
use crate::error::Error;
use crate::scan::pin::Pin;
use crate::scan::provider::{Access, LakeTable};
use crate::stage::row_changes::RowChanges;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::catalog::TableProvider;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result, TableReference};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::dml::{DmlStatement, InsertOp, WriteOp};
use datafusion::logical_expr::logical_plan::{Projection, TableScan, Values};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Plans statements on amend's tables.
#[derive(Debug, Default)]
pub struct AmendRule;

impl AnalyzerRule for AmendRule {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut pins = Pins::default();
        let plan = plan.transform_down_with_subqueries(|node| match node {
            LogicalPlan::Dml(dml) => match lake_table(&dml.target) {
                Some(table) => {
                    let rewritten = rewrite(&dml, &table, &mut pins)?;
                    Ok(Transformed::yes(rewritten))
                }
                None => Ok(Transformed::no(LogicalPlan::Dml(dml))),
            },
            LogicalPlan::TableScan(scan) => match lake_table(&scan.source) {
                Some(table) => {
                    let pin = pins.of(&table);
                    let source = provider_as_source(Arc::new(table.pinned(pin, Access::Rows)));
                    Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
                }
                None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
            },
            other => Ok(Transformed::no(other)),
        });
        // Statements that have nothing to do with our tables are left alone.
        if pins.0.is_empty() { plan.data() } else { subqueries::exact(plan.data()?, Left::Joins) }
    }

    fn name(&self) -> &str {
        "amend"
    }
}

/// The pins of one statement, one for each table and version.
#[derive(Default)]
struct Pins(Vec<Arc<Pin>>);

impl Pins {
    fn of(&mut self, table: &LakeTable) -> Arc<Pin> {
        if let Some(pin) = self.0.iter().find(|pin| Arc::ptr_eq(pin.log(), table.log()) && pin.at() == table.at()) {
            return pin.clone();
        }
        let pin = table.pin();
        self.0.push(pin.clone());
        pin
    }
}

fn lake_table(source: &Arc<dyn datafusion::logical_expr::TableSource>) -> Option<LakeTable> {
    source_as_provider(source).ok()?.downcast_ref::<LakeTable>().cloned()
}

/// The statement as an INSERT into a sink.
fn rewrite(dml: &DmlStatement, table: &LakeTable, pins: &mut Pins) -> Result<LogicalPlan> {
    let name = table.log().table();
    if table.at().is_some() {
        return Err(Error::invalid(format!("an old version of table '{name}' cannot be changed")).into());
    }
    let pin = pins.of(table);
    let target = |access, statement| Target { table, pin: &pin, access, statement };
    let (changes, input) = match &dml.op {
        WriteOp::Insert(InsertOp::Append) => {
            let input = with_nulls_let_through(dml.input.as_ref().clone())?;
            match replace_where::parts(&input) {
                None => (RowChanges::Insert, rows(input, table)?),
                Some((rows, predicate)) => {
                    check_names(rows, table)?;
                    let (target, columns) = (target(Access::Addresses, "REPLACE WHERE"), in_table_types(rows, table)?);
                    (RowChanges::ReplaceWhere, replace_where::plan(&target, &dml.table_name, rows, columns, predicate)?)
                }
            }
        }
        WriteOp::Insert(InsertOp::Overwrite) => (RowChanges::Overwrite, rows(with_nulls_let_through(dml.input.as_ref().clone())?, table)?),
        WriteOp::Insert(InsertOp::Replace) => {
            return Err(Error::unsupported("REPLACE INTO", Some("use MERGE INTO")).into());
        }
        WriteOp::Delete => {
            let input = target(Access::Addresses, "DELETE").with_address(&dml.input)?;
            (RowChanges::Delete, only_address(input)?)
        }
        WriteOp::Truncate => (RowChanges::Truncate, LogicalPlanBuilder::empty(false).build()?),
        WriteOp::Update => {
            let input = target(Access::AddressesAndRows, "UPDATE").with_address(&dml.input)?;
            (RowChanges::Update, rows_and_address(input, table)?)
        }
        WriteOp::MergeInto(merge) => {
            let input = merge::plan(&target(Access::AddressesAndRows, "MERGE"), &dml.table_name, &dml.input, merge)?;
            (RowChanges::Merge, input)
        }
        other => return Err(Error::unsupported(format!("{other} on table '{name}'"), None).into()),
    };
    let schema = Arc::new(input.schema().as_arrow().clone());
    let sink = RowSink { pin: pin.clone(), planned: table.planned().clone(), changes, schema, original: LogicalPlan::Dml(dml.clone()) };
    let sink_name = TableReference::bare(format!("{}_of_{name}", changes.operation().to_lowercase().replace(' ', "_")));
    Ok(LogicalPlan::Dml(DmlStatement::new(
        sink_name,
        provider_as_source(Arc::new(sink)),
        WriteOp::Insert(InsertOp::Append),
        Arc::new(input),
    )))
}

/// The rows of an INSERT, where VALUES may hold NULL in any column. DataFusion gives them the columns of the table, and then
/// fails on a NULL where the column takes none with a message about its own columns; the writer names ours.
fn with_nulls_let_through(input: LogicalPlan) -> Result<LogicalPlan> {
    let nullable = |schema: &DFSchema| {
        let field = |(qualifier, field): (Option<&TableReference>, &FieldRef)| {
            (qualifier.cloned(), Arc::new(field.as_ref().clone().with_nullable(true)))
        };
        DFSchema::new_with_metadata(schema.iter().map(field).collect(), schema.metadata().clone())
    };
    input
        .transform_up(|node| match node {
            LogicalPlan::Values(values) => {
                let schema = Arc::new(nullable(&values.schema)?);
                Ok(Transformed::yes(LogicalPlan::Values(Values { schema, ..values })))
            }
            other => Ok(Transformed::yes(other.recompute_schema()?)),
        })
        .data()
}

/// The addresses alone, under their bare names.
fn only_address(input: LogicalPlan) -> Result<LogicalPlan> {
    let address = address_columns(input.schema())?.map(bare);
    Ok(LogicalPlan::Projection(Projection::try_new(address.to_vec(), Arc::new(input))?))
}

/// The rows of an INSERT in the table's types; they must come in the table's column order.
fn rows(input: LogicalPlan, table: &LakeTable) -> Result<LogicalPlan> {
    check_names(&input, table)?;
    let exprs = in_table_types(&input, table)?;
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
}

fn check_names(input: &LogicalPlan, table: &LakeTable) -> Result<()> {
    let planned = table.schema();
    let names =
        |schema: &datafusion::arrow::datatypes::Schema| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    if names(&planned) != names(input.schema().as_arrow()) {
        let (given, wanted) = (names(input.schema().as_arrow()).join(", "), names(&planned).join(", "));
        let reason = format!("rows of the columns {given} cannot be inserted into table '{}' of the columns {wanted}", table.log().table());
        return Err(Error::invalid(reason).into());
    }
    Ok(())
}

/// The first columns of a plan as those of the table, which come in the same order.
fn in_table_types(input: &LogicalPlan, table: &LakeTable) -> Result<Vec<Expr>> {
    let planned = table.schema();
    let column = |(field, (qualifier, found)): (&FieldRef, (Option<&TableReference>, &FieldRef))| {
        if found.name() != field.name() {
            return Err(Error::internal(format!("the plan yields '{}' for column '{}'", found.name(), field.name())).into());
        }
        let column = Expr::Column(Column::new(qualifier.cloned(), found.name()));
        Ok(column.cast_to(field.data_type(), input.schema())?.alias(field.name()))
    };
    planned.fields().iter().zip(input.schema().iter()).map(column).collect()
}

/// The new rows in the table's column order and types, then their addresses.
fn rows_and_address(input: LogicalPlan, table: &LakeTable) -> Result<LogicalPlan> {
    let mut exprs = in_table_types(&input, table)?;
    exprs.extend(address_columns(input.schema())?.map(bare));
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
}

fn bare(column: Expr) -> Expr {
    match &column {
        Expr::Column(named) => {
            let name = named.name.clone();
            column.alias(name)
        }
        _ => column,
    }
}
