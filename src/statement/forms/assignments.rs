//! The assignments of an UPDATE: each column at most once, by its plain name; tuples taken apart.
//!
//! `(a, b) = (1, 2)` becomes `a = 1, b = 2`; `(a, b) = (SELECT x, y ..)` becomes `a = (SELECT x ..), b = (SELECT y ..)`. Where a column means
//! something else without the others (ORDER BY 2, GROUP BY 1, an aggregate beside a constant), it becomes
//! `a = (SELECT v1 FROM (SELECT x, y ..) AS v (v1, v2))`, which DataFusion does not plan if it is correlated.

use super::rows;
use crate::error::{Error, Result};
use crate::scan::expression::fold;
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, GroupByExpr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor, TableWithJoins, visit_expressions,
};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

/// What the query of several values is called, and with a number each of them.
const VALUE: &str = "__amend_value";

/// The assignments with one column each. `relation` is the target, with the names that a column may be qualified by.
pub fn plain(assignments: &[Assignment], relation: &TableFactor) -> Result<Vec<Assignment>> {
    let mut plain: Vec<Assignment> = Vec::with_capacity(assignments.len());
    let mut names: Vec<String> = Vec::with_capacity(assignments.len());
    let mut push = |name: &ObjectName, value: Expr| {
        let ident = column(name, relation)?;
        // The planner would take the last of two without a word.
        if names.contains(&ident.value) {
            return Err(Error::invalid(format!("UPDATE gives the column '{}' two values", ident.value)));
        }
        names.push(ident.value.clone());
        plain.push(Assignment { target: AssignmentTarget::ColumnName(ObjectName::from(vec![ident])), value });
        Ok(())
    };
    for Assignment { target, value } in assignments {
        match target {
            AssignmentTarget::ColumnName(name) => push(name, value.clone())?,
            AssignmentTarget::Tuple(columns) => {
                let values = values(value, columns.len())?;
                columns.iter().zip(values).try_for_each(|(name, value)| push(name, value))?;
            }
        }
    }
    Ok(plain)
}

/// The column that is meant. The planner takes the name as it is written, elsewhere it folds names.
fn column(name: &ObjectName, relation: &TableFactor) -> Result<Ident> {
    let idents: Vec<&Ident> = name.0.iter().filter_map(ObjectNamePart::as_ident).collect();
    let Some((column, qualifiers)) = idents.split_last() else {
        return Err(Error::invalid(format!("UPDATE cannot give '{name}' a value")));
    };
    let qualified_well = match (qualifiers, relation) {
        ([], _) => true,
        ([qualifier], TableFactor::Table { name, alias, .. }) => match alias {
            Some(alias) => fold(qualifier) == fold(&alias.name),
            None => name.0.last().and_then(ObjectNamePart::as_ident).is_some_and(|table| fold(table) == fold(qualifier)),
        },
        _ => false,
    };
    if !qualified_well {
        let what = format!("UPDATE of '{name}', which is no column of the target,");
        return Err(Error::unsupported(what, Some("give the whole column a value")));
    }
    Ok(Ident::with_quote('"', fold(column)))
}

/// A value for each column of a tuple.
fn values(value: &Expr, columns: usize) -> Result<Vec<Expr>> {
    let values = match value {
        Expr::Tuple(values) => values.clone(),
        Expr::Nested(value) if columns == 1 => vec![value.as_ref().clone()],
        Expr::Subquery(query) => of_subquery(query)?,
        other => return Err(Error::invalid(format!("UPDATE gives {columns} columns the value {other}, which is not {columns} values"))),
    };
    match values.len() == columns {
        true => Ok(values),
        false => Err(Error::invalid(format!("UPDATE gives {columns} columns {} values", values.len()))),
    }
}

/// A subquery for each of the columns of one.
fn of_subquery(query: &Query) -> Result<Vec<Expr>> {
    let refuse = || {
        let instead = "write a SELECT with one expression for each column, without DISTINCT and UNION";
        Error::unsupported("UPDATE of several columns by such a subquery", Some(instead))
    };
    let SetExpr::Select(select) = query.body.as_ref() else { return Err(refuse()) };
    let expressions = select.projection.iter().all(|item| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }));
    if select.distinct.is_some() || !expressions {
        return Err(refuse());
    }
    if !is_about_all_columns(query, select) {
        let only = |item: &SelectItem| {
            let mut select = select.clone();
            select.projection = vec![item.clone()];
            Expr::Subquery(Box::new(Query { body: Box::new(SetExpr::Select(select)), ..query.clone() }))
        };
        return Ok(select.projection.iter().map(only).collect());
    }
    let names: Vec<Ident> = (1..=select.projection.len()).map(|at| Ident::with_quote('"', format!("{VALUE}{at}"))).collect();
    let column = |name: &Ident| TableAliasColumnDef::from_name(name.value.clone());
    let alias = TableAlias { explicit: true, name: Ident::with_quote('"', VALUE), columns: names.iter().map(column).collect(), at: None };
    let only = |name: &Ident| {
        let relation = TableFactor::Derived { lateral: false, subquery: Box::new(query.clone()), alias: Some(alias.clone()), sample: None };
        let from = TableWithJoins { relation, joins: vec![] };
        let item = SelectItem::UnnamedExpr(Expr::Identifier(name.clone()));
        Expr::Subquery(Box::new(rows::query(None, rows::select(vec![item], vec![from], None))))
    };
    Ok(names.iter().map(only).collect())
}

/// Whether a subquery would mean something else with one of its columns alone.
fn is_about_all_columns(query: &Query, select: &Select) -> bool {
    let has_groups = !matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
    let aggregated = select.projection.iter().filter(|item| is_aggregated(item)).count();
    query.order_by.is_some()
        || query.limit_clause.is_some()
        || query.fetch.is_some()
        || select.having.is_some()
        || has_groups
        || (aggregated > 0 && aggregated < select.projection.len())
}

/// Whether an aggregate stands somewhere in a column.
fn is_aggregated(item: &SelectItem) -> bool {
    static AGGREGATES: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let all = all_default_aggregate_functions();
        all.iter().flat_map(|function| function.aliases().iter().cloned().chain([function.name().to_owned()])).collect()
    });
    let is_aggregate = |expr: &Expr| match expr {
        Expr::Function(call) => call.name.0.last().and_then(ObjectNamePart::as_ident).is_some_and(|name| AGGREGATES.contains(&fold(name))),
        _ => false,
    };
    visit_expressions(item, |expr| if is_aggregate(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }).is_break()
}

/// The column of an assignment as [`plain`] leaves it, and its value.
pub fn column_and_value(assignment: &Assignment) -> Option<(String, Expr)> {
    let AssignmentTarget::ColumnName(name) = &assignment.target else { return None };
    let column = name.0.last()?.as_ident()?.value.clone();
    Some((column, assignment.value.clone()))
}
