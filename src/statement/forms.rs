//! Forms of statements that DataFusion's planner does not take, at the top or within EXPLAIN and PREPARE: a DELETE with an
//! alias or with WITH in front, an INSERT with WITH in front. And clauses that it takes and ignores, or refuses without advice.
//!
//! `WITH q AS (..) INSERT INTO t SELECT ..` is put as `INSERT INTO t WITH q AS (..) SELECT ..`.
//! `WITH q AS (..) DELETE FROM t AS x WHERE p` is planned as the query `WITH q AS (..) SELECT * FROM t AS x WHERE p`,
//! whose rows are the rows to delete.
//!
//! Always holds: a clause that would be lost on the way is refused.

use super::parse::ReplaceWhere;
use crate::error::{Error, Result};
use crate::plan::replace_where;
use datafusion::common::TableReference;
use datafusion::common::tree_node::TreeNode;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::{DmlStatement, WriteOp};
use datafusion::logical_expr::{
    Analyze, Explain, Expr as Expression, LogicalPlan, PlanType, Prepare, Statement as PlanStatement, TableSource, ToStringifiedPlan,
};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, Delete, Expr, FromTable, GroupByExpr, Insert, ObjectNamePart, Query, Select, SelectFlavor, SelectItem, SetExpr,
    Statement, TableFactor, TableWithJoins, Update, Visit, Visitor, WildcardAdditionalOptions, With,
    helpers::attached_token::AttachedToken,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Plans a statement.
pub async fn plan(state: &SessionState, mut statement: DfStatement) -> Result<LogicalPlan> {
    if let Some(statement) = innermost(&mut statement) {
        check_ignored(statement)?;
    }
    let target = put_plainly(innermost(&mut statement))?;
    let plan = state.statement_to_plan(statement).await?;
    match target {
        Some(target) => delete_rows_of(plan, target),
        None => Ok(plan),
    }
}

/// Plans an INSERT .. REPLACE WHERE.
pub async fn plan_replace_where(state: &SessionState, replace: &ReplaceWhere) -> Result<LogicalPlan> {
    let (insert, delete) = (plan(state, replace.insert.clone()).await?, plan(state, replace.delete.clone()).await?);
    let (LogicalPlan::Dml(insert), LogicalPlan::Dml(delete)) = (insert, delete) else {
        return Err(Error::internal("INSERT .. REPLACE WHERE is planned as something else"));
    };
    let LogicalPlan::Filter(filter) = delete.input.as_ref() else {
        return Err(Error::internal("DELETE .. WHERE is planned without a filter"));
    };
    if filter.predicate.exists(|e| Ok(matches!(e, Expression::InSubquery(_) | Expression::Exists(_) | Expression::ScalarSubquery(_))))? {
        let instead = "DELETE and INSERT in one transaction";
        return Err(Error::unsupported("a subquery in the predicate of REPLACE WHERE", Some(instead)));
    }
    Ok(replace_where::statement(insert, filter.predicate.clone())?)
}

/// The statement within EXPLAIN and PREPARE.
fn innermost(statement: &mut DfStatement) -> Option<&mut Statement> {
    match statement {
        DfStatement::Explain(explain) => innermost(&mut explain.statement),
        DfStatement::Statement(statement) => match statement.as_mut() {
            Statement::Prepare { statement, .. } => Some(statement),
            statement => Some(statement),
        },
        DfStatement::CreateExternalTable(_) | DfStatement::CopyTo(_) | DfStatement::Reset(_) => None,
    }
}

/// Refuses clauses of tables and queries that DataFusion reads over.
fn check_ignored(statement: &Statement) -> Result<()> {
    match statement.visit(&mut Ignored) {
        ControlFlow::Break(what) => Err(Error::unsupported(what, None)),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Looks for them.
struct Ignored;

impl Visitor for Ignored {
    type Break = String;

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<String> {
        let TableFactor::Table { name, with_hints, partitions, sample, index_hints, .. } = table else {
            return ControlFlow::Continue(());
        };
        let what = match () {
            () if sample.is_some() => "TABLESAMPLE",
            () if !partitions.is_empty() => "PARTITION",
            () if !with_hints.is_empty() || !index_hints.is_empty() => "a hint",
            () => return ControlFlow::Continue(()),
        };
        ControlFlow::Break(format!("{what} of table '{name}'"))
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<String> {
        if query.locks.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break("SELECT .. FOR UPDATE or FOR SHARE".to_owned()) }
    }
}

/// Puts a statement in a form that DataFusion plans. Returns the target if it was a DELETE and is a query of its rows now.
fn put_plainly(statement: Option<&mut Statement>) -> Result<Option<TableReference>> {
    let Some(statement) = statement else { return Ok(None) };
    let (delete, with) = match statement {
        Statement::Delete(delete) => (delete, None),
        Statement::Update(update) => {
            check_update(update)?;
            return Ok(None);
        }
        Statement::Query(query) => match query.as_mut() {
            Query { body, with, order_by: None, limit_clause: None, .. } => match body.as_mut() {
                SetExpr::Delete(Statement::Delete(delete)) => (delete, with.take()),
                SetExpr::Insert(Statement::Insert(insert)) => {
                    move_with(with.take(), insert)?;
                    *statement = Statement::Insert(insert.clone());
                    return Ok(None);
                }
                SetExpr::Update(_) | SetExpr::Merge(_) => {
                    let instead = "put the query into the statement as a subquery";
                    return Err(Error::unsupported("WITH in front of UPDATE or MERGE", Some(instead)));
                }
                _ => return Ok(None),
            },
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let relation = check_delete(delete)?;
    let TableFactor::Table { name, alias, .. } = relation else { return Ok(None) };
    if alias.is_none() && with.is_none() {
        return Ok(None);
    }
    let target = TableReference::parse_str(&super::parse::plain_name(name)?);
    *statement = Statement::Query(Box::new(rows_of(relation.clone(), delete.selection.take(), with)));
    Ok(Some(target))
}

/// Moves what stands in front of an INSERT into its query.
fn move_with(with: Option<With>, insert: &mut Insert) -> Result<()> {
    let (Some(mut with), Some(source)) = (with, insert.source.as_mut()) else { return Ok(()) };
    match source.with.take() {
        None => {}
        Some(own) if own.recursive == with.recursive => with.cte_tables.extend(own.cte_tables),
        Some(_) => return Err(Error::unsupported("WITH and WITH RECURSIVE in one INSERT", Some("write one of them"))),
    }
    source.with = Some(with);
    Ok(())
}

/// Refuses what a DELETE cannot have; returns its target.
fn check_delete(delete: &Delete) -> Result<&TableFactor> {
    let refuse = |what: &str, instead: &str| Err(Error::unsupported(format!("DELETE with {what}"), Some(instead)));
    if delete.using.is_some() {
        return refuse("USING", "name the rows by a subquery in WHERE");
    }
    if delete.returning.is_some() || delete.output.is_some() {
        return refuse("RETURNING", "SELECT the rows first");
    }
    if !delete.order_by.is_empty() || delete.limit.is_some() {
        return refuse("ORDER BY or LIMIT", "name the rows in WHERE, for example by a subquery with ORDER BY and LIMIT");
    }
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    match tables.as_slice() {
        [TableWithJoins { relation, joins }] if joins.is_empty() && delete.tables.is_empty() => Ok(relation),
        _ => refuse("several tables", "name the rows of one table by a subquery in WHERE"),
    }
}

/// Refuses what an UPDATE cannot have.
fn check_update(update: &mut Update) -> Result<()> {
    let refuse = |what: &str, instead: &str| Err(Error::unsupported(format!("UPDATE with {what}"), Some(instead)));
    if update.from.is_some() || !update.table.joins.is_empty() {
        return refuse("FROM or joins", "take the values from a subquery, or use MERGE INTO");
    }
    if update.returning.is_some() || update.output.is_some() {
        return refuse("RETURNING", "SELECT the rows afterwards");
    }
    if !update.order_by.is_empty() || update.limit.is_some() {
        return refuse("ORDER BY or LIMIT", "name the rows in WHERE, for example by a subquery with ORDER BY and LIMIT");
    }
    let mut columns = Vec::with_capacity(update.assignments.len());
    for assignment in &mut update.assignments {
        let AssignmentTarget::ColumnName(name) = &mut assignment.target else {
            return refuse("a tuple of columns", "give each column its value");
        };
        // The planner would take the last of two without a word.
        let column = name.0.last().and_then(|part| part.as_ident()).map(super::parse::fold);
        if columns.contains(&column) {
            return Err(Error::invalid(format!("UPDATE gives the column '{}' two values", column.unwrap_or_default())));
        }
        // The planner takes the name as it is written, elsewhere it folds names.
        if let (Some(ObjectNamePart::Identifier(ident)), Some(column)) = (name.0.last_mut(), &column) {
            ident.value = column.clone();
        }
        columns.push(column);
    }
    Ok(())
}

/// The query of a table's rows.
fn rows_of(relation: TableFactor, selection: Option<Expr>, with: Option<With>) -> Query {
    Query {
        with,
        body: Box::new(SetExpr::Select(Box::new(select(relation, selection)))),
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

fn select(relation: TableFactor, selection: Option<Expr>) -> Select {
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

/// The planned query of rows, at the top or within EXPLAIN and PREPARE, as their DELETE.
fn delete_rows_of(plan: LogicalPlan, target: TableReference) -> Result<LogicalPlan> {
    let within = |plan: Arc<LogicalPlan>| delete_rows_of(Arc::unwrap_or_clone(plan), target.clone()).map(Arc::new);
    match plan {
        LogicalPlan::Explain(explain) => {
            let plan = within(explain.plan)?;
            let stringified_plans = vec![plan.to_stringified(PlanType::InitialLogicalPlan)];
            Ok(LogicalPlan::Explain(Explain { plan, stringified_plans, ..explain }))
        }
        LogicalPlan::Analyze(analyze) => {
            let input = within(analyze.input)?;
            Ok(LogicalPlan::Analyze(Analyze { input, ..analyze }))
        }
        LogicalPlan::Statement(PlanStatement::Prepare(prepare)) => {
            let input = within(prepare.input)?;
            Ok(LogicalPlan::Statement(PlanStatement::Prepare(Prepare { input, ..prepare })))
        }
        LogicalPlan::Projection(projection) => {
            let input = projection.input;
            let source = scan_of(&input, &target).ok_or_else(|| {
                let what = format!("DELETE from '{target}', which is a query here and no table,");
                Error::unsupported(what, Some("delete from the table itself"))
            })?;
            Ok(LogicalPlan::Dml(DmlStatement::new(target, source, WriteOp::Delete, input)))
        }
        _ => Err(Error::internal("a query of all columns is planned without a projection")),
    }
}

/// The target's table in the plan of its rows; `None` if the name stands for a query: of WITH, or of a view.
fn scan_of(plan: &LogicalPlan, target: &TableReference) -> Option<Arc<dyn TableSource>> {
    match plan {
        LogicalPlan::Filter(filter) => scan_of(&filter.input, target),
        LogicalPlan::SubqueryAlias(alias) => scan_of(&alias.input, target),
        LogicalPlan::TableScan(scan) if scan.table_name.table() == target.table() => Some(scan.source.clone()),
        _ => None,
    }
}
