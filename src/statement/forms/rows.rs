//! UPDATE and DELETE as the query of the rows that they change, where DataFusion's planner does not take the statement.
//!
//! ```text
//!   WITH q AS (..) DELETE FROM t AS x USING s WHERE p        WITH q AS (..) SELECT x.* FROM t AS x, s WHERE p
//!   WITH q AS (..) UPDATE t AS x SET a = e FROM s WHERE p    WITH q AS (..) SELECT x.*, e FROM t AS x, s WHERE p
//! ```
//!
//! Goes in: the statement's parts. Comes out: the query, and once that is planned, the statement over its plan. Always holds:
//! the target is the leftmost table of the query. Several rows of the others may match one of the target's: a DELETE deletes
//! it, an UPDATE is refused when it runs.

use crate::error::{Error, Result, nearest_name};
use datafusion::common::TableReference;
use datafusion::logical_expr::dml::{DmlStatement, WriteOp};
use datafusion::logical_expr::logical_plan::Projection;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan, TableSource};
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, ObjectName, Query, Select, SelectFlavor, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement,
    TableFactor, TableWithJoins, WildcardAdditionalOptions, With, helpers::attached_token::AttachedToken,
};
use std::sync::Arc;

/// What a column of the query is called that holds a new value.
const NEW_VALUE: &str = "__amend_new";

/// What becomes of the rows.
#[derive(Debug, Clone)]
pub enum Change {
    /// They go.
    Delete,
    /// These columns get these values.
    Update(Vec<(String, Expr)>),
}

/// A statement over the rows of a query.
#[derive(Debug, Clone)]
pub struct RowsOf {
    target: TableReference,
    change: Change,
}

impl RowsOf {
    /// The statement on `relation`, and the query of its rows.
    pub fn new(
        relation: &TableFactor,
        others: Vec<TableWithJoins>,
        selection: Option<Expr>,
        with: Option<With>,
        change: Change,
    ) -> Result<(RowsOf, Statement)> {
        let TableFactor::Table { name, alias, .. } = relation else {
            return Err(Error::invalid(format!("'{relation}' is no table that can be changed")));
        };
        let target = object_name_to_table_reference(name.clone(), true)?;
        let known_as = alias.as_ref().map_or_else(|| name.clone(), |alias| ObjectName::from(vec![alias.name.clone()]));
        let of_target = SelectItemQualifiedWildcardKind::ObjectName(known_as);
        let mut items = vec![SelectItem::QualifiedWildcard(of_target, WildcardAdditionalOptions::default())];
        if let Change::Update(values) = &change {
            let item = |(at, (_, value)): (usize, &(String, Expr))| SelectItem::ExprWithAlias {
                expr: value.clone(),
                alias: Ident::with_quote('"', format!("{NEW_VALUE}_{at}")),
            };
            items.extend(values.iter().enumerate().map(item));
        }
        let mut from = vec![TableWithJoins { relation: relation.clone(), joins: vec![] }];
        from.extend(others);
        let query = query(with, select(items, from, selection));
        Ok((RowsOf { target, change }, Statement::Query(Box::new(query))))
    }

    /// The planned query, at the top or within EXPLAIN and PREPARE, as the statement.
    pub fn statement(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        super::within(plan, &|plan| self.change(plan))
    }

    fn change(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::Projection(projection) => {
                let source = self.source(&projection.input).ok_or_else(|| {
                    let what = format!("{} of '{}', which is a query here and no table,", self.verb(), self.target);
                    Error::unsupported(what, Some("change the table itself"))
                })?;
                let (op, input) = match &self.change {
                    Change::Delete => (WriteOp::Delete, projection.input),
                    Change::Update(values) => (WriteOp::Update, Arc::new(self.new_rows(projection, values)?)),
                };
                Ok(LogicalPlan::Dml(DmlStatement::new(self.target.clone(), source, op, input)))
            }
            other => {
                let what = format!("{} with aggregates or other functions of many rows", self.verb());
                tracing::debug!(plan = %other.display(), "a query of rows to change is no projection");
                Err(Error::unsupported(what, Some("compute them in a subquery")))
            }
        }
    }

    fn verb(&self) -> &'static str {
        match self.change {
            Change::Delete => "DELETE",
            Change::Update(_) => "UPDATE",
        }
    }

    /// The target's rows with their new values.
    fn new_rows(&self, projection: Projection, values: &[(String, Expr)]) -> Result<LogicalPlan> {
        let Projection { mut expr, input, .. } = projection;
        let new = expr.split_off(expr.len().saturating_sub(values.len()));
        let name = |expr: &PlanExpr| expr.qualified_name().1;
        let columns: Vec<String> = expr.iter().map(name).collect();
        for (column, _) in values {
            if !columns.contains(column) {
                let nearest = nearest_name(column, columns.iter().map(String::as_str));
                return Err(Error::UnknownColumn { table: self.target.table().to_owned(), column: column.clone(), nearest });
            }
        }
        let row = expr.into_iter().zip(&columns).map(|(old, name)| {
            let new = values.iter().zip(&new).find(|((column, _), _)| column == name);
            match new {
                Some((_, new)) => new.clone().unalias().alias(name),
                None => old,
            }
        });
        Ok(LogicalPlan::Projection(Projection::try_new(row.collect(), input)?))
    }

    /// The target's table in the plan of its rows; `None` if the name stands for a query: of WITH, or of a view.
    fn source(&self, plan: &LogicalPlan) -> Option<Arc<dyn TableSource>> {
        match plan {
            LogicalPlan::Filter(filter) => self.source(&filter.input),
            LogicalPlan::SubqueryAlias(alias) => self.source(&alias.input),
            LogicalPlan::Join(join) => self.source(&join.left),
            LogicalPlan::TableScan(scan) if self.target.resolved_eq(&scan.table_name) => Some(scan.source.clone()),
            _ => None,
        }
    }
}

/// The query of all rows of a table, with what stands in front of it.
pub fn all_of(relation: TableFactor, with: With) -> Query {
    let items = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
    query(Some(with), select(items, vec![TableWithJoins { relation, joins: vec![] }], None))
}

/// A query of a SELECT alone.
pub(super) fn query(with: Option<With>, select: Select) -> Query {
    Query {
        with,
        body: Box::new(SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: vec![],
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: vec![],
    }
}

/// A SELECT of no more than this.
pub(super) fn select(projection: Vec<SelectItem>, from: Vec<TableWithJoins>, selection: Option<Expr>) -> Select {
    Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: vec![],
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views: vec![],
        prewhere: None,
        selection,
        connect_by: vec![],
        group_by: GroupByExpr::Expressions(vec![], vec![]),
        cluster_by: vec![],
        distribute_by: vec![],
        sort_by: vec![],
        having: None,
        named_window: vec![],
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    }
}
