//! The analyzer rule: pins the tables of a statement, and rewrites the statement if it changes one.

use super::generated::GeneratedColumns;
use super::merge;
use super::options::options;
use super::reads::columns_read;
use super::replace_where;
use super::returning::{ChangedRow, Returning, key_brought_once, target_of};
use super::sink::RowSink;
use super::subqueries::{self, Left};
use super::target::{Target, address_columns};
use super::update::changed_columns;
use crate::error::Error;
use crate::scan::isolation::SessionIsolation;
use crate::scan::pin::Pin;
use crate::scan::provider::{Access, LakeTable};
use crate::stage::row_changes::RowChanges;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::catalog::TableProvider;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::dml::{DmlStatement, InsertOp, WriteOp};
use datafusion::logical_expr::logical_plan::{Projection, TableScan, Values};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Plans statements on amend's tables.
#[derive(Debug, Default)]
pub struct AmendRule;

impl AnalyzerRule for AmendRule {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut pins = Pins { isolation: options(config).isolation, pins: vec![] };
        let plan = plan.transform_down_with_subqueries(|node| match node {
            LogicalPlan::Dml(dml) => match target_of(&dml.target) {
                Some((table, returning)) => {
                    let rewritten = rewrite(&dml, &table, returning.as_deref(), &mut pins)?;
                    Ok(Transformed::yes(rewritten))
                }
                None => Ok(Transformed::no(LogicalPlan::Dml(dml))),
            },
            LogicalPlan::TableScan(scan) => match target_of(&scan.source) {
                Some((table, _)) => {
                    let pin = pins.of(&table);
                    let source = provider_as_source(Arc::new(table.pinned(pin, Access::Rows)));
                    Ok(Transformed::yes(LogicalPlan::TableScan(TableScan { source, ..scan })))
                }
                None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
            },
            other => Ok(Transformed::no(other)),
        });
        // Statements that have nothing to do with our tables are left alone.
        if pins.pins.is_empty() { plan.data() } else { subqueries::exact(plan.data()?, Left::Joins) }
    }

    fn name(&self) -> &str {
        "amend"
    }
}

/// The pins of one statement, one for each table and version.
struct Pins {
    isolation: SessionIsolation,
    pins: Vec<Arc<Pin>>,
}

impl Pins {
    fn of(&mut self, table: &LakeTable) -> Arc<Pin> {
        if let Some(pin) = self.pins.iter().find(|pin| Arc::ptr_eq(pin.log(), table.log()) && pin.at() == table.at()) {
            return pin.clone();
        }
        let pin = table.pin(self.isolation);
        self.pins.push(pin.clone());
        pin
    }
}

/// The statement as an INSERT into a sink. What it returns are more columns of the sink's rows.
fn rewrite(dml: &DmlStatement, table: &LakeTable, returning: Option<&Returning>, pins: &mut Pins) -> Result<LogicalPlan> {
    let name = table.log().table();
    if table.at().is_some() {
        return Err(Error::invalid(format!("an old version of table '{name}' cannot be changed")).into());
    }
    let pin = pins.of(table);
    let generated = GeneratedColumns::of(table)?;
    let by_name = |_: usize, name: &str| name.to_owned();
    let target = |access, statement| Target { table, pin: &pin, access, statement };
    let width = table.planned().snapshot.schema.columns().count();
    let mut changed = Vec::new();
    let mut brings: Vec<usize> = (0..width).collect();
    let mut keys = None;
    let mut follows = BTreeSet::new();
    let (changes, input) = match &dml.op {
        WriteOp::Insert(InsertOp::Append) => {
            let input = with_nulls_let_through(dml.input.as_ref().clone())?;
            match replace_where::parts(&input) {
                None => {
                    let rows = generated.computed(rows(generated.check_inserted(input)?, table)?, by_name)?;
                    (RowChanges::Insert, with_returned(rows, table, returning)?)
                }
                Some((given, predicate)) => {
                    check_names(given, table)?;
                    let reads = reads(given, table)?;
                    let called = given.schema().iter().find_map(|(qualifier, _)| qualifier.cloned());
                    let given = match called.filter(|_| !generated.is_empty()) {
                        Some(called) => LogicalPlanBuilder::from(generated.inserted(given.clone(), table)?).alias(called)?.build()?,
                        None => generated.inserted(given.clone(), table)?,
                    };
                    let (target, columns) = (target(Access::Addresses, "REPLACE WHERE"), in_table_types(&given, table)?);
                    (RowChanges::ReplaceWhere, replace_where::plan(&target, &dml.table_name, (&given, reads), columns, predicate)?)
                }
            }
        }
        WriteOp::Insert(InsertOp::Overwrite) => {
            let input = generated.check_inserted(with_nulls_let_through(dml.input.as_ref().clone())?)?;
            let input = generated.computed(rows(input, table)?, by_name)?;
            let reads_target = reads(&input, table)?;
            (RowChanges::Overwrite { reads_target }, with_returned(input, table, returning)?)
        }
        WriteOp::Insert(InsertOp::Replace) => {
            return Err(Error::unsupported("REPLACE INTO", Some("use MERGE INTO")).into());
        }
        WriteOp::Delete => {
            brings.clear();
            let input = target(Access::Addresses, "DELETE").with_address(&dml.input)?;
            (RowChanges::Delete, only_address(input, table, returning)?)
        }
        WriteOp::Truncate => {
            brings.clear();
            (RowChanges::Truncate, LogicalPlanBuilder::empty(false).build()?)
        }
        WriteOp::Update => {
            let input = target(Access::AddressesAndRows, "UPDATE").with_address(&dml.input)?;
            changed = changed_columns(&input, width);
            let input = generated.check_updated(input, &changed)?;
            generated.follow(&mut changed, &mut follows);
            brings.clone_from(&changed);
            let input = match returning {
                Some(returning) => updated_rows(input, table, (&generated, &changed), returning)?,
                None => generated.computed_of(rows_and_address(input, table)?, by_name, |at| changed.contains(&at))?,
            };
            (RowChanges::Update, input)
        }
        WriteOp::MergeInto(merge) => {
            let input;
            let merge = &generated.check_merged(merge)?;
            brings = merge::columns_given(merge, table);
            generated.follow(&mut brings, &mut follows);
            let target = target(merge::access(merge), "MERGE");
            (input, keys) = merge::plan(&target, &dml.table_name, &dml.input, (merge, &generated), returning)?;
            (RowChanges::Merge, input)
        }
        other => return Err(Error::unsupported(format!("{other} on table '{name}'"), None).into()),
    };
    let schema = Arc::new(input.schema().as_arrow().clone());
    let all = &table.planned().snapshot.schema;
    let reads = match changes {
        RowChanges::Insert | RowChanges::Truncate | RowChanges::Overwrite { reads_target: false } => BTreeSet::new(),
        RowChanges::Delete | RowChanges::Update => columns_read(&dml.input, all)?.into_iter().chain(follows).collect(),
        RowChanges::Merge | RowChanges::ReplaceWhere | RowChanges::Overwrite { reads_target: true } => {
            all.columns().map(|column| column.id).collect()
        }
    };
    let returned = returning.map(|returning| returning.output(input.schema())).transpose()?;
    let sink = RowSink {
        pin: pin.clone(),
        planned: table.planned().clone(),
        changes,
        changed,
        brings,
        reads,
        schema,
        keys,
        brought_once: key_brought_once(&dml.target),
        returned: returned.as_ref().map(|returned| Arc::new(returned.as_arrow().clone())),
        original: LogicalPlan::Dml(dml.clone()),
    };
    let sink_name = TableReference::bare(format!("{}_of_{name}", changes.operation().to_lowercase().replace(' ', "_")));
    let mut into_sink =
        DmlStatement::new(sink_name, provider_as_source(Arc::new(sink)), WriteOp::Insert(InsertOp::Append), Arc::new(input));
    if let Some(returned) = returned {
        into_sink.output_schema = returned;
    }
    Ok(LogicalPlan::Dml(into_sink))
}

/// Whether a plan reads the newest version of a table.
fn reads(plan: &LogicalPlan, table: &LakeTable) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        let read = match node {
            LogicalPlan::TableScan(scan) => target_of(&scan.source).map(|(read, _)| read),
            _ => None,
        };
        found |= read.is_some_and(|read| Arc::ptr_eq(read.log(), table.log()) && read.at().is_none());
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The rows of an INSERT, where VALUES may hold NULL in any column. DataFusion gives them the columns of the table, and then
/// fails on a NULL where the column takes none with a message about its own columns; the writer names ours.
pub fn with_nulls_let_through(input: LogicalPlan) -> Result<LogicalPlan> {
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

/// The addresses alone, under their bare names, and what is returned of the rows there.
fn only_address(input: LogicalPlan, table: &LakeTable, returning: Option<&Returning>) -> Result<LogicalPlan> {
    let mut exprs = address_columns(input.schema())?.map(bare).to_vec();
    if let Some(returning) = returning {
        let old = columns_of(table, |name| Expr::Column(Column::new(Some(returning.target.clone()), name)));
        let row = ChangedRow { values: old.clone(), old, ..ChangedRow::default() };
        exprs.extend(returning.columns(&row, &table.schema())?);
    }
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
}

/// The new rows of an INSERT, and what is returned of them.
fn with_returned(input: LogicalPlan, table: &LakeTable, returning: Option<&Returning>) -> Result<LogicalPlan> {
    let Some(returning) = returning else { return Ok(input) };
    let mut exprs: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let new = columns_of(table, |name| Expr::Column(Column::from_name(name)));
    let row = ChangedRow { values: new.clone(), new, ..ChangedRow::default() };
    exprs.extend(returning.columns(&row, &table.schema())?);
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
}

/// The new rows of an UPDATE, their addresses, and what is returned of them. New values become columns first, beside the old
/// row and the rows of other tables.
fn updated_rows(
    input: LogicalPlan,
    table: &LakeTable,
    (generated, changed): (&GeneratedColumns, &[usize]),
    returning: &Returning,
) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = &input else {
        return Err(Error::internal("an UPDATE is planned without a projection").into());
    };
    let schema = table.schema();
    let mut values: Vec<Expr> = Vec::new();
    for (at, (field, value)) in schema.fields().iter().zip(&projection.expr).enumerate() {
        let value = value.clone().unalias().cast_to(field.data_type(), projection.input.schema())?;
        values.push(value.alias(format!("{NEW_VALUE}{at}")));
    }
    values.extend(projection.input.schema().columns().into_iter().map(Expr::Column));
    let computed = LogicalPlan::Projection(Projection::try_new(values, projection.input.clone())?);
    let computed = generated.computed_of(computed, |at, _| format!("{NEW_VALUE}{at}"), |at| changed.contains(&at))?;

    let new: Vec<(String, Expr)> = new_values(table).collect();
    let mut exprs: Vec<Expr> = new.iter().map(|(name, value)| value.clone().alias(name)).collect();
    exprs.extend(address_columns(computed.schema())?.map(bare));
    let new: HashMap<String, Expr> = new.into_iter().collect();
    let old = columns_of(table, |name| Expr::Column(Column::new(Some(returning.target.clone()), name)));
    let row = ChangedRow { values: new.clone(), old, new, action: None };
    exprs.extend(returning.columns(&row, &schema)?);
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(computed))?))
}

/// A column that holds a new value while what is returned is computed; the number of the table's column follows.
pub(super) const NEW_VALUE: &str = "__amend_value_";

/// The table's columns, and the columns that hold their new values.
pub(super) fn new_values(table: &LakeTable) -> impl Iterator<Item = (String, Expr)> {
    let names: Vec<String> = table.schema().fields().iter().map(|field| field.name().clone()).collect();
    names.into_iter().enumerate().map(|(at, name)| (name, Expr::Column(Column::from_name(format!("{NEW_VALUE}{at}")))))
}

/// The table's columns, each with how it is written.
pub(super) fn columns_of(table: &LakeTable, written: impl Fn(&str) -> Expr) -> HashMap<String, Expr> {
    table.schema().fields().iter().map(|field| (field.name().clone(), written(field.name()))).collect()
}

/// The rows of an INSERT in the table's types; they must come in the table's column order.
pub(super) fn rows(input: LogicalPlan, table: &LakeTable) -> Result<LogicalPlan> {
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
