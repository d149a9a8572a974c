//! DELETE forms that DataFusion's planner does not take: an alias of the target, and WITH in front.
//!
//! `WITH q AS (..) DELETE FROM t AS x WHERE p` is planned as the query `WITH q AS (..) SELECT * FROM t AS x WHERE p`,
//! whose rows are the rows to delete.

use crate::error::{Error, Result};
use datafusion::common::TableReference;
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::{DmlStatement, WriteOp};
use datafusion::logical_expr::{LogicalPlan, TableSource};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Delete, FromTable, GroupByExpr, Query, Select, SelectFlavor, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins,
    WildcardAdditionalOptions, With, helpers::attached_token::AttachedToken,
};
use std::sync::Arc;

/// A DELETE that has to be planned here.
pub struct AliasedDelete {
    delete: Delete,
    with: Option<With>,
}

/// Takes a statement that is such a DELETE; gives back any other.
pub fn take(statement: Statement) -> Result<Result<AliasedDelete, Statement>> {
    match statement {
        Statement::Delete(delete) if alias_of(&delete) => Ok(Ok(AliasedDelete { delete, with: None })),
        Statement::Query(query) => match *query {
            Query { body, with, order_by: None, limit_clause: None, .. } if matches!(&*body, SetExpr::Delete(Statement::Delete(_))) => {
                match *body {
                    SetExpr::Delete(Statement::Delete(delete)) => Ok(Ok(AliasedDelete { delete, with })),
                    _ => Err(Error::internal("a DELETE is none")),
                }
            }
            Query { body, .. } if matches!(&*body, SetExpr::Update(_) | SetExpr::Merge(_)) => {
                Err(Error::unsupported("WITH in front of UPDATE or MERGE", Some("put the query into the statement as a subquery")))
            }
            query => Ok(Err(Statement::Query(Box::new(query)))),
        },
        other => Ok(Err(other)),
    }
}

fn tables(delete: &Delete) -> &[TableWithJoins] {
    match &delete.from {
        FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables) => tables,
    }
}

fn alias_of(delete: &Delete) -> bool {
    matches!(tables(delete), [TableWithJoins { relation: TableFactor::Table { alias: Some(_), .. }, joins }] if joins.is_empty())
}

/// Plans the DELETE.
pub async fn plan(state: &SessionState, aliased: AliasedDelete) -> Result<LogicalPlan> {
    let AliasedDelete { delete, with } = aliased;
    let refuse = |what: &str, instead: &str| Err(Error::unsupported(format!("DELETE with {what}"), Some(instead)));
    if !delete.tables.is_empty() || delete.using.is_some() {
        return refuse("USING or several tables", "name the rows by a subquery in WHERE");
    }
    if delete.returning.is_some() || delete.output.is_some() {
        return refuse("RETURNING", "SELECT the rows first");
    }
    if !delete.order_by.is_empty() || delete.limit.is_some() {
        return refuse("ORDER BY or LIMIT", "name the rows in WHERE, for example by a subquery with ORDER BY and LIMIT");
    }
    let [TableWithJoins { relation: relation @ TableFactor::Table { name, .. }, joins }] = tables(&delete) else {
        return refuse("several tables", "delete from one table at a time");
    };
    if !joins.is_empty() {
        return refuse("joins", "name the rows by a subquery in WHERE");
    }
    let target = TableReference::parse_str(&super::parse::plain_name(name)?);
    let select = select(relation.clone(), delete.selection.clone());
    let query = Query {
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
    };
    let planned = state.statement_to_plan(DfStatement::Statement(Box::new(Statement::Query(Box::new(query))))).await?;
    let LogicalPlan::Projection(projection) = planned else {
        return Err(Error::internal("a query of all columns is planned without a projection"));
    };
    let input = projection.input;
    let source = leftmost(&input).ok_or_else(|| Error::internal("a query of a table is planned without a scan"))?;
    Ok(LogicalPlan::Dml(DmlStatement::new(target, source, WriteOp::Delete, input)))
}

fn select(relation: TableFactor, selection: Option<datafusion::sql::sqlparser::ast::Expr>) -> Select {
    Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: vec![],
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection: vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())],
        exclude: None,
        into: None,
        from: vec![TableWithJoins { relation, joins: vec![] }],
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

/// The table at the start of a plan.
fn leftmost(plan: &LogicalPlan) -> Option<Arc<dyn TableSource>> {
    match plan {
        LogicalPlan::TableScan(scan) => source_as_provider(&scan.source).ok().map(|_| scan.source.clone()),
        other => other.inputs().first().and_then(|input| leftmost(input)),
    }
}
