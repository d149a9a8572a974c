//! Generated columns in statements: they are given no values, and computed from the new values of the others.
//!
//! ```text
//!   INSERT   every row                        UPDATE   where a column that they are made of gets a new value
//!   MERGE    every row                        ON CONFLICT is a MERGE
//! ```
//!
//! Goes in: the plan of what a statement gives. Comes out: the same with the generated columns in it.
//! Always holds: a value that is given, other than DEFAULT, is an error (428C9); what is computed is computed once, from values of
//! the table's types.

use crate::error::{Error, Result};
use crate::scan::generated::{self, GeneratedColumn, is_mark};
use crate::scan::provider::LakeTable;
use crate::table::schema::FieldId;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result as EngineResult, ScalarValue};
use datafusion::logical_expr::dml::{MergeIntoAction, MergeIntoOp};
use datafusion::logical_expr::logical_plan::Projection;
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The generated columns of a statement's table.
pub struct GeneratedColumns {
    table: String,
    columns: Vec<GeneratedColumn>,
    /// The table's columns, in their order.
    fields: Vec<(FieldId, String)>,
}

impl GeneratedColumns {
    /// Those of the table as the statement knows it.
    pub fn of(table: &LakeTable) -> Result<Self> {
        let (name, snapshot) = (table.log().table(), &table.planned().snapshot);
        let fields = snapshot.schema.columns().map(|column| (column.id, column.name.clone())).collect();
        Ok(GeneratedColumns { table: name.to_owned(), columns: generated::of(name, snapshot)?, fields })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Whether a column is one of them.
    pub fn is_generated(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name == name)
    }

    fn given(&self, column: &str) -> Error {
        let reason = format!("column '{column}' of table '{}' is generated: it can be given no value but DEFAULT", self.table);
        Error::Refused { reason, sqlstate: "428C9" }
    }

    /// The rows of an INSERT without values for generated columns, which are NULL there.
    pub fn check_inserted(&self, rows: LogicalPlan) -> Result<LogicalPlan> {
        if let Some(column) = self.columns.iter().find(|column| !is_default(&rows, column.position)) {
            return Err(self.given(&column.name));
        }
        if self.is_empty() { Ok(rows) } else { Ok(without_marks(rows)?) }
    }

    /// The rows of an INSERT in the table's types, with generated columns; just as they are if there are none of these.
    pub fn inserted(&self, rows: LogicalPlan, table: &LakeTable) -> Result<LogicalPlan> {
        if self.is_empty() {
            return Ok(rows);
        }
        let rows = super::rule::rows(self.check_inserted(rows)?, table)?;
        Ok(self.computed(rows, |_, name| name.to_owned())?)
    }

    /// A plan whose columns `called` names the new values of the table's columns, with the generated ones computed of them.
    pub fn computed(&self, plan: LogicalPlan, called: impl Fn(usize, &str) -> String) -> EngineResult<LogicalPlan> {
        self.computed_of(plan, called, |_| true)
    }

    /// The same of some of them, by position.
    pub fn computed_of(
        &self,
        plan: LogicalPlan,
        called: impl Fn(usize, &str) -> String,
        which: impl Fn(usize) -> bool,
    ) -> EngineResult<LogicalPlan> {
        let wanted: Vec<&GeneratedColumn> = self.columns.iter().filter(|column| which(column.position)).collect();
        if wanted.is_empty() {
            return Ok(plan);
        }
        let exprs = plan.schema().columns().into_iter().map(|column| {
            let of =
                wanted.iter().find(|generated| column.relation.is_none() && called(generated.position, &generated.name) == column.name);
            let Some(generated) = of else { return Ok(Expr::Column(column)) };
            let value = generated.value.clone().transform_up(|part| match part {
                Expr::Column(input) => {
                    let position = self.fields.iter().position(|(_, name)| *name == input.name);
                    let position = position.ok_or_else(|| Error::internal(format!("there is no column '{}'", input.name)))?;
                    let column = Column::from_name(called(position, &input.name));
                    let is_nested = plan.schema().field_with_unqualified_name(&column.name)?.data_type().is_nested();
                    let column = Expr::Column(column);
                    Ok(Transformed::yes(if is_nested { generated::whole(column) } else { column }))
                }
                other => Ok(Transformed::no(other)),
            });
            Ok(value.data()?.alias(column.name))
        });
        let exprs = exprs.collect::<EngineResult<Vec<Expr>>>()?;
        Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?))
    }

    /// Of the columns that an UPDATE gives new values, those that follow from the others are added. Fields that they are made of
    /// are what the UPDATE reads.
    pub fn follow(&self, changed: &mut Vec<usize>, reads: &mut BTreeSet<FieldId>) {
        let given: BTreeSet<FieldId> = changed.iter().filter_map(|at| self.fields.get(*at)).map(|(id, _)| *id).collect();
        for column in &self.columns {
            if changed.contains(&column.position) || !column.inputs.is_disjoint(&given) {
                reads.extend(&column.inputs);
                changed.push(column.position);
            }
        }
        changed.sort_unstable();
        changed.dedup();
    }

    /// The new values of an UPDATE, without any for generated columns. `changed` are the columns that get one.
    pub fn check_updated(&self, input: LogicalPlan, changed: &[usize]) -> Result<LogicalPlan> {
        let given = self.columns.iter().filter(|column| changed.contains(&column.position));
        if let Some(column) = given.into_iter().find(|column| !is_default(&input, column.position)) {
            return Err(self.given(&column.name));
        }
        if self.is_empty() { Ok(input) } else { Ok(without_marks(input)?) }
    }

    /// A MERGE without values for generated columns, which are NULL where a row is inserted.
    pub fn check_merged(&self, merge: &MergeIntoOp) -> Result<MergeIntoOp> {
        let mut merge = merge.clone();
        let null = || Expr::Literal(ScalarValue::Null, None);
        for clause in &mut merge.clauses {
            for column in &self.columns {
                match &mut clause.action {
                    MergeIntoAction::Update(assignments) => {
                        if assignments.iter().any(|(name, value)| *name == column.name && !is_mark(value)) {
                            return Err(self.given(&column.name));
                        }
                        assignments.retain(|(name, _)| *name != column.name);
                    }
                    MergeIntoAction::Insert { columns, values } => {
                        let at =
                            if columns.is_empty() { Some(column.position) } else { columns.iter().position(|name| *name == column.name) };
                        match at.map(|at| values.get_mut(at)) {
                            Some(Some(value)) if is_mark(value) => *value = null(),
                            Some(_) => return Err(self.given(&column.name)),
                            None => {
                                columns.push(column.name.clone());
                                values.push(null());
                            }
                        }
                    }
                    MergeIntoAction::Delete => {}
                }
            }
        }
        Ok(merge)
    }
}

/// Whether a column of a plan is DEFAULT in all rows.
fn is_default(plan: &LogicalPlan, at: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => match projection.expr.get(at) {
            Some(expr) if is_mark(expr) => true,
            Some(expr) => {
                let Some(column) = bare(expr) else { return false };
                let below = projection.input.schema().maybe_index_of_column(column);
                below.is_some_and(|below| is_default(&projection.input, below))
            }
            None => false,
        },
        LogicalPlan::SubqueryAlias(alias) => is_default(&alias.input, at),
        LogicalPlan::Values(values) => values.values.iter().all(|row| row.get(at).is_some_and(is_mark)),
        _ => false,
    }
}

fn bare(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => bare(&alias.expr),
        Expr::Cast(cast) => bare(&cast.expr),
        _ => None,
    }
}

/// A plan with NULL where a value was to be generated.
fn without_marks(plan: LogicalPlan) -> EngineResult<LogicalPlan> {
    let null = |expr: Expr| {
        expr.transform_up(|part| match part {
            Expr::ScalarFunction(_) if is_mark(&part) => Ok(Transformed::yes(Expr::Literal(ScalarValue::Null, None))),
            other => Ok(Transformed::no(other)),
        })
    };
    plan.transform_up(|node| node.map_expressions(null)?.map_data(LogicalPlan::recompute_schema)).data()
}
