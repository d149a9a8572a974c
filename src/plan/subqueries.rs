//! Subqueries in expressions where DataFusion has no plan for them, or one that forgets NULL.
//!
//! DataFusion makes joins of IN and EXISTS in filters only; and where they do not stand alone there, as in
//! `a NOT IN (SELECT ..) OR b`, a mark join that is never NULL, which finds rows that SQL does not. A correlated subquery that
//! is used as a value must be an aggregate. Here such expressions are put as aggregates, which DataFusion plans anywhere:
//!
//! ```text
//!   EXISTS q     count of q > 0
//!   x IN q       CASE WHEN count of q equal to x > 0           THEN true
//!                     WHEN x IS NULL AND count of q > 0        THEN NULL
//!                     WHEN count of q that are NULL > 0        THEN NULL
//!                     ELSE false END
//!   value of q   only_row(first value of q, count of q)
//! ```
//!
//! What the condition of an inner join within a subquery says of outer tables goes to a filter above the join.
//!
//! A value of what may be no row is one that may be NULL: `maybe_absent`.
//!
//! Always holds: a predicate that DataFusion plans right is left to it, because its joins are faster.

use super::maybe_absent::{is_maybe_absent, maybe_absent};
use super::only_row::only_row;
use crate::error::Error;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue, Spans};
use datafusion::functions_aggregate::count::count;
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Distinct, Filter, Projection};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, ExprSchemable, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit, not,
};
use std::sync::Arc;

/// What the values of a correlated IN are called.
const VALUES: &str = "__amend_in";

/// Which predicates of a filter are left to DataFusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// All that it plans right.
    Joins,
    /// Those that it does not need mark joins for: a mark does not tell where it came from, so it cannot be trusted later.
    JoinsWithoutMarks,
}

/// The plan, with those subqueries put as aggregates that DataFusion would not plan right.
pub fn exact(plan: LogicalPlan, left: Left) -> Result<LogicalPlan> {
    let plan = plan.transform_down_with_subqueries(correlated_above).data()?;
    let mut any = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            any |= expr.exists(|e| Ok(is_predicate(e) || is_value_of_rows(e) || is_never_null(e)))?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    if !any {
        return Ok(plan);
    }
    let plan = plan.transform_up_with_subqueries(|node| node.map_expressions(|expr| expr.transform_up(of_a_name_of_its_own))).data()?;
    let plan = plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(expr.transform_down(absent)?.update_data(|expr| name.restore(expr)))
        })?
        .map_data(LogicalPlan::recompute_schema)
    });
    let plan = plan.data()?;
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) => {
            let schema = filter.input.schema().clone();
            let conjuncts =
                split_conjunction_owned(filter.predicate).into_iter().map(|conjunct| conjunct_of_filter(conjunct, &schema, left));
            let predicate = conjunction(conjuncts.collect::<Result<Vec<_>>>()?).unwrap_or_else(|| lit(true));
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
        }
        LogicalPlan::Projection(projection) => {
            let schema = projection.input.schema().clone();
            let node = LogicalPlan::Projection(projection);
            let names = NamePreserver::new(&node);
            let node = node.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(counted(expr, &schema, true)?.update_data(|expr| name.restore(expr)))
            });
            Ok(Transformed::yes(node?.data.recompute_schema()?))
        }
        other => Ok(Transformed::yes(other.recompute_schema()?)),
    })
    .data()
}

/// An inner join with what its condition says of outer tables in a filter above it, the only place where DataFusion looks for that.
fn correlated_above(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Join(mut join) if join.join_type == JoinType::Inner && join.filter.as_ref().is_some_and(Expr::contains_outer) => {
            let conjuncts = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
            let (correlated, others): (Vec<_>, Vec<_>) = conjuncts.into_iter().partition(Expr::contains_outer);
            join.filter = conjunction(others);
            let predicate = conjunction(correlated).unwrap_or_else(|| lit(true));
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(LogicalPlan::Join(join)))?)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether an expression holds IN (subquery) or EXISTS.
pub fn holds_predicate(expr: &Expr) -> Result<bool> {
    expr.exists(|e| Ok(is_predicate(e)))
}

fn is_predicate(expr: &Expr) -> bool {
    matches!(expr, Expr::InSubquery(_) | Expr::Exists(_))
}

/// Whether an expression is a correlated subquery of which it is not known that it yields one row.
fn is_value_of_rows(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(subquery) if !subquery.outer_ref_columns.is_empty() && !yields_one_row(&subquery.subquery))
}

/// Whether an expression is a subquery that may yield no row, and of which DataFusion says that it is never NULL.
fn is_never_null(expr: &Expr) -> bool {
    let Expr::ScalarSubquery(subquery) = expr else { return false };
    subquery.subquery.schema().fields().iter().all(|field| !field.is_nullable()) && !yields_a_row(&subquery.subquery)
}

/// Whether a plan yields a row whatever there is.
fn yields_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => yields_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => yields_a_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(relation) => relation.produce_one_row,
        _ => false,
    }
}

/// Such a subquery as a value that may be NULL.
fn absent(expr: Expr) -> Result<Transformed<Expr>> {
    if is_maybe_absent(&expr) {
        return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump));
    }
    match is_never_null(&expr) {
        true => Ok(Transformed::new(maybe_absent(expr), true, TreeNodeRecursion::Jump)),
        false => Ok(Transformed::no(expr)),
    }
}

/// What DataFusion takes for a plan of one row, but for groups.
fn yields_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => yields_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => yields_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Filter(filter) if matches!(*filter.input, LogicalPlan::Aggregate(_)) => yields_one_row(&filter.input),
        other => other.max_rows().is_some_and(|rows| rows <= 1),
    }
}

/// A correlated IN whose values are called as nothing else: where DataFusion pulls the comparison with the outer row out of the
/// subquery, it adds the columns of that to the values, and one of them may be called as the values are.
fn of_a_name_of_its_own(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::InSubquery(mut within) if !within.subquery.outer_ref_columns.is_empty() => {
            let rows = Arc::unwrap_or_clone(within.subquery.subquery);
            within.subquery.subquery = Arc::new(with_name(rows)?);
            Ok(Transformed::yes(Expr::InSubquery(within)))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn with_name(rows: LogicalPlan) -> Result<LogicalPlan> {
    match rows {
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            // A column is the same column wherever it stands.
            let name = |value: Expr| if matches!(value, Expr::Column(_)) { value } else { value.unalias().alias(VALUES) };
            Ok(LogicalPlan::Projection(Projection::try_new(expr.into_iter().map(name).collect(), input)?))
        }
        LogicalPlan::Distinct(Distinct::All(rows)) => {
            Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(with_name(Arc::unwrap_or_clone(rows))?))))
        }
        other => Ok(other),
    }
}

fn conjunct_of_filter(conjunct: Expr, schema: &DFSchema, left: Left) -> Result<Expr> {
    match &conjunct {
        Expr::Exists(_) => Ok(conjunct),
        Expr::Not(inner) if matches!(**inner, Expr::Exists(_)) => Ok(conjunct),
        Expr::InSubquery(within) if !within.negated || is_plain(within) => Ok(conjunct),
        Expr::Not(inner) => match inner.as_ref() {
            Expr::InSubquery(within) if !within.negated && is_plain(within) => Ok(conjunct),
            _ => part_of_filter(conjunct, schema, left),
        },
        _ => part_of_filter(conjunct, schema, left),
    }
}

/// Whether NOT IN becomes an anti join that heeds NULL: with one column on either side, and nothing else to compare.
fn is_plain(within: &InSubquery) -> bool {
    let mut expr = within.expr.as_ref();
    while let Expr::Cast(cast) = expr {
        expr = cast.expr.as_ref();
    }
    matches!(expr, Expr::Column(_)) && within.subquery.outer_ref_columns.is_empty()
}

/// Between ANDs and ORs of a filter false and NULL are alike, so an IN that is not negated may stay.
fn part_of_filter(expr: Expr, schema: &DFSchema, left: Left) -> Result<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left: one, op: op @ (Operator::And | Operator::Or), right: two }) => {
            let one = Box::new(part_of_filter(*one, schema, left)?);
            let two = Box::new(part_of_filter(*two, schema, left)?);
            Ok(Expr::BinaryExpr(BinaryExpr { left: one, op, right: two }))
        }
        Expr::InSubquery(within) if !within.negated && left == Left::Joins => Ok(Expr::InSubquery(within)),
        other => counted(other, schema, left == Left::JoinsWithoutMarks).data(),
    }
}

/// The expression with aggregates for IN and for values, and also for EXISTS where that is wanted.
fn counted(expr: Expr, schema: &DFSchema, exists_too: bool) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::InSubquery(within) => Ok(Transformed::yes(counted_in(within, schema)?)),
        Expr::Exists(Exists { subquery, negated }) if exists_too => {
            let found = is_any(subquery.subquery.as_ref().clone(), &subquery, vec![])?;
            Ok(Transformed::yes(if negated { not(found) } else { found }))
        }
        value if is_value_of_rows(&value) => match value {
            Expr::ScalarSubquery(subquery) => Ok(Transformed::yes(value_of_only_row(&subquery)?)),
            other => Ok(Transformed::no(other)),
        },
        other => Ok(Transformed::no(other)),
    })
}

fn counted_in(within: InSubquery, schema: &DFSchema) -> Result<Expr> {
    let InSubquery { expr, subquery, negated } = within;
    let rows = subquery.subquery.as_ref();
    let (value, nullable) = first_column(rows)?;
    let (outer, references) = seen_from_within(expr.as_ref().clone(), schema)?;
    let of = |rows: &LogicalPlan, predicate| LogicalPlanBuilder::from(rows.clone()).filter(predicate)?.build();
    let null = || Expr::Literal(ScalarValue::Boolean(None), None);

    let equal = is_any(of(rows, outer.eq(value.clone()))?, &subquery, references)?;
    let mut when = vec![(equal, lit(true))];
    if expr.nullable(schema)? {
        when.push((expr.is_null().and(is_any(rows.clone(), &subquery, vec![])?), null()));
    }
    if nullable {
        when.push((is_any(of(rows, value.is_null())?, &subquery, vec![])?, null()));
    }
    let when_then_expr = when.into_iter().map(|(when, then)| (Box::new(when), Box::new(then))).collect();
    let found = Expr::Case(Case { expr: None, when_then_expr, else_expr: Some(Box::new(lit(false))) });
    Ok(if negated { not(found) } else { found })
}

/// Whether there are such rows.
fn is_any(rows: LogicalPlan, subquery: &Subquery, references: Vec<Expr>) -> Result<Expr> {
    Ok(aggregated(rows, count(lit(1i64)), subquery, references)?.gt(lit(0i64)))
}

/// The value of the only row.
fn value_of_only_row(subquery: &Subquery) -> Result<Expr> {
    let rows = subquery.subquery.as_ref();
    let (value, _) = first_column(rows)?;
    let first = aggregated(rows.clone(), first_value(value, vec![]), subquery, vec![])?;
    Ok(only_row(first, aggregated(rows.clone(), count(lit(1i64)), subquery, vec![])?))
}

/// An aggregate of rows, as a value where `subquery` stood. `references` are columns of the outer rows that are new in it.
fn aggregated(rows: LogicalPlan, aggregate: Expr, subquery: &Subquery, references: Vec<Expr>) -> Result<Expr> {
    let aggregated = LogicalPlanBuilder::from(rows).aggregate(Vec::<Expr>::new(), [aggregate])?.build()?;
    let mut outer_ref_columns = subquery.outer_ref_columns.clone();
    outer_ref_columns.extend(references);
    Ok(Expr::ScalarSubquery(Subquery { subquery: Arc::new(aggregated), outer_ref_columns, spans: Spans::new() }))
}

/// The only column of a subquery, and whether it takes NULL.
fn first_column(rows: &LogicalPlan) -> Result<(Expr, bool)> {
    let (qualifier, field) = rows.schema().iter().next().ok_or_else(|| Error::internal("a subquery without a column"))?;
    Ok((Expr::Column(Column::new(qualifier.cloned(), field.name())), field.is_nullable()))
}

/// An expression over the outer rows as it is written within a subquery, and the columns that it refers to there.
fn seen_from_within(expr: Expr, schema: &DFSchema) -> Result<(Expr, Vec<Expr>)> {
    let mut references = Vec::new();
    let seen = expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let (qualifier, field) = schema.qualified_field_from_column(&column)?;
            let column = Column::new(qualifier.cloned(), field.name());
            let reference = Expr::OuterReferenceColumn(field.clone(), column);
            references.push(reference.clone());
            Ok(Transformed::yes(reference))
        }
        Expr::ScalarSubquery(_) => {
            Err(Error::unsupported("a subquery on the left of IN (subquery)", Some("compute it in a WITH or FROM")).into())
        }
        other => Ok(Transformed::no(other)),
    });
    Ok((seen.data()?, references))
}
