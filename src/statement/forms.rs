//! Forms of statements that DataFusion's planner does not take, at the top or within EXPLAIN and PREPARE. And clauses that it
//! takes and ignores, or refuses without advice.
//!
//! ```text
//!   WITH q AS (..) INSERT INTO t SELECT ..            INSERT INTO t WITH q AS (..) SELECT ..
//!   WITH q AS (..) MERGE INTO t USING s ..            MERGE INTO t USING (WITH q AS (..) SELECT * FROM s) AS s ..
//!   DELETE with an alias, USING or WITH               the query of its rows (`rows`)
//!   UPDATE with FROM or WITH                          likewise
//!   UPDATE .. SET (a, b) = ..                         an assignment for each column (`assignments`)
//!   INSERT .. SELECT a, a                             the second under another name (`positions`)
//!   INSERT .. SELECT .. FROM (VALUES ..)              the values in SELECTs (`values`)
//!   DEFAULT as a value                                the value (`defaults`)
//!   INSERT .. ON CONFLICT                             the MERGE of its rows (`upsert`)
//!   INSERT INTO t SELECT a, a::VARCHAR FROM s         a name for the cast (`casts`)
//!   MERGE .. DO NOTHING                               conditions of the clauses behind it (`nothing`)
//!   MERGE .. UPDATE SET * .. INSERT *                 every column from the source (`stars`)
//!   MERGE INTO t AS x .. EXISTS (.. = x.k)            t's own name (`alias`)
//!   MERGE .. WHEN NOT MATCHED .. VALUES (a)           the source's column a (`sides`)
//! ```
//!
//! Always holds: a clause that would be lost on the way is refused.

mod alias;
mod assignments;
mod casts;
mod defaults;
pub mod nothing;
mod positions;
mod returning;
mod rows;
mod sides;
pub mod stars;
mod upsert;
mod values;

use super::parse::ReplaceWhere;
use super::views;
use crate::error::{Error, Result};
use crate::plan::replace_where;
use datafusion::common::tree_node::TreeNode;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Analyze, Explain, Expr, LogicalPlan, PlanType, Prepare, Statement as PlanStatement, ToStringifiedPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Delete, FromTable, Insert, Merge, Query, SetExpr, Statement, TableAlias, TableFactor, TableWithJoins, Update, UpdateTableFromKind,
    Visit, Visitor, With,
};
use returning::Asked;
use rows::{Change, RowsOf};
use std::ops::ControlFlow;
use std::sync::Arc;
use upsert::Upsert;

/// Plans a statement.
pub async fn plan(state: &SessionState, mut statement: DfStatement) -> Result<LogicalPlan> {
    if let Some(statement) = innermost(&mut statement) {
        check_ignored(statement)?;
        defaults::put(state, statement).await?;
    }
    let Plainly { rows, upsert, returning } = put_plainly(innermost(&mut statement))?;
    if let Some(statement) = innermost(&mut statement) {
        values::plain(statement);
        casts::name(statement);
    }
    if let Some(Statement::Merge(merge)) = innermost(&mut statement) {
        nothing::leave(merge)?;
        stars::expand(state, merge).await?;
        sides::qualify(state, merge).await?;
        alias::leave_out(merge);
    }
    let plan = state.statement_to_plan(statement).await?;
    views::refuse_changes(&plan)?;
    let plan = match rows {
        Some(rows) => rows.statement(plan)?,
        None => plan,
    };
    let plan = match upsert {
        Some(upsert) => upsert.statement(state, plan)?,
        None => plan,
    };
    match returning {
        Some(asked) => asked.attach(state, plan),
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
    if filter.predicate.exists(|e| Ok(matches!(e, Expr::InSubquery(_) | Expr::Exists(_) | Expr::ScalarSubquery(_))))? {
        let instead = "DELETE and INSERT in one transaction";
        return Err(Error::unsupported("a subquery in the predicate of REPLACE WHERE", Some(instead)));
    }
    Ok(replace_where::statement(insert, filter.predicate.clone())?)
}

/// The statement within EXPLAIN and PREPARE.
pub(super) fn innermost(statement: &mut DfStatement) -> Option<&mut Statement> {
    match statement {
        DfStatement::Explain(explain) => innermost(&mut explain.statement),
        DfStatement::Statement(statement) => match statement.as_mut() {
            Statement::Prepare { statement, .. } => Some(statement),
            statement => Some(statement),
        },
        DfStatement::CreateExternalTable(_) | DfStatement::CopyTo(_) | DfStatement::Reset(_) => None,
    }
}

/// A plan with what `change` makes of the statement in it, at the top or within EXPLAIN and PREPARE.
fn within(plan: LogicalPlan, change: &dyn Fn(LogicalPlan) -> Result<LogicalPlan>) -> Result<LogicalPlan> {
    let inner = |plan: Arc<LogicalPlan>| within(Arc::unwrap_or_clone(plan), change).map(Arc::new);
    match plan {
        LogicalPlan::Explain(explain) => {
            let plan = inner(explain.plan)?;
            let stringified_plans = vec![plan.to_stringified(PlanType::InitialLogicalPlan)];
            Ok(LogicalPlan::Explain(Explain { plan, stringified_plans, ..explain }))
        }
        LogicalPlan::Analyze(analyze) => {
            let input = inner(analyze.input)?;
            Ok(LogicalPlan::Analyze(Analyze { input, ..analyze }))
        }
        LogicalPlan::Statement(PlanStatement::Prepare(prepare)) => {
            let input = inner(prepare.input)?;
            Ok(LogicalPlan::Statement(PlanStatement::Prepare(Prepare { input, ..prepare })))
        }
        plan => change(plan),
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

/// What a statement was before it was put plainly.
#[derive(Default)]
struct Plainly {
    /// What it does with the rows of the query that it is now.
    rows: Option<RowsOf>,
    /// What becomes of rows whose key is there.
    upsert: Option<Upsert>,
    /// What it returns.
    returning: Option<Asked>,
}

/// Puts a statement in a form that DataFusion plans.
fn put_plainly(statement: Option<&mut Statement>) -> Result<Plainly> {
    let Some(statement) = statement else { return Ok(Plainly::default()) };
    let mut with = None;
    if let Statement::Query(query) = statement
        && let Query { body, with: before, order_by: None, limit_clause: None, .. } = query.as_mut()
        && let SetExpr::Insert(changing) | SetExpr::Update(changing) | SetExpr::Delete(changing) | SetExpr::Merge(changing) = body.as_mut()
    {
        with = before.take();
        *statement = changing.clone();
    }
    let returning = returning::take(statement)?;
    let mut upsert = None;
    let rows = match statement {
        Statement::Insert(insert) => {
            upsert = Upsert::take(insert)?;
            if let Some(query) = insert.source.as_mut() {
                positions::name(query);
            }
            move_with(with, insert)?;
            None
        }
        Statement::Merge(merge) => {
            within_source(with, merge)?;
            None
        }
        Statement::Delete(delete) => rows_to_delete(delete, with, returning.is_some())?,
        Statement::Update(update) => rows_to_update(update, with, returning.is_some())?,
        _ => None,
    };
    let Some((rows, query)) = rows else { return Ok(Plainly { rows: None, upsert, returning }) };
    *statement = query;
    Ok(Plainly { rows: Some(rows), upsert, returning })
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

/// Moves what stands in front of a MERGE into its source.
fn within_source(with: Option<With>, merge: &mut Merge) -> Result<()> {
    let Some(with) = with else { return Ok(()) };
    let refuse = || Error::unsupported(format!("WITH in front of MERGE USING {}", merge.source), Some("put it into a subquery in USING"));
    let (TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. }) = &merge.source else { return Err(refuse()) };
    let known_as = match (alias, &merge.source) {
        (Some(alias), _) => alias.clone(),
        (None, TableFactor::Table { name, .. }) => {
            let name = name.0.last().and_then(|part| part.as_ident()).cloned().ok_or_else(refuse)?;
            TableAlias { explicit: true, name, columns: vec![], at: None }
        }
        (None, _) => return Err(refuse()),
    };
    let subquery = Box::new(rows::all_of(merge.source.clone(), with));
    merge.source = TableFactor::Derived { lateral: false, subquery, alias: Some(known_as), sample: None };
    Ok(())
}

/// The query of the rows of a DELETE, where DataFusion does not plan the DELETE.
fn rows_to_delete(delete: &mut Delete, with: Option<With>, returns: bool) -> Result<Option<(RowsOf, Statement)>> {
    let relation = check_delete(delete)?.clone();
    let TableFactor::Table { alias, .. } = &relation else { return Ok(None) };
    if alias.is_none() && with.is_none() && delete.using.is_none() && !returns {
        return Ok(None);
    }
    let others = delete.using.take().unwrap_or_default();
    RowsOf::new(&relation, others, delete.selection.take(), with, Change::Delete).map(Some)
}

/// The query of the rows of an UPDATE, where DataFusion does not plan the UPDATE.
fn rows_to_update(update: &mut Update, with: Option<With>, returns: bool) -> Result<Option<(RowsOf, Statement)>> {
    check_update(update)?;
    update.assignments = assignments::plain(&update.assignments, &update.table.relation)?;
    let others = match update.from.take() {
        None if with.is_none() && !returns => return Ok(None),
        None => vec![],
        Some(UpdateTableFromKind::AfterSet(tables)) => tables,
        Some(UpdateTableFromKind::BeforeSet(_)) => {
            return Err(Error::unsupported("UPDATE .. FROM .. SET", Some("write UPDATE .. SET .. FROM ..")));
        }
    };
    let values = update.assignments.iter().filter_map(assignments::column_and_value).collect();
    RowsOf::new(&update.table.relation, others, update.selection.take(), with, Change::Update(values)).map(Some)
}

/// Refuses what a DELETE cannot have; returns its target.
fn check_delete(delete: &Delete) -> Result<&TableFactor> {
    let refuse = |what: &str, instead: &str| Err(Error::unsupported(format!("DELETE with {what}"), Some(instead)));
    if delete.output.is_some() {
        return refuse("OUTPUT", "say RETURNING");
    }
    if !delete.order_by.is_empty() || delete.limit.is_some() {
        return refuse("ORDER BY or LIMIT", "name the rows in WHERE, for example by a subquery with ORDER BY and LIMIT");
    }
    match target_of_delete(delete) {
        Some(relation) => Ok(relation),
        None => refuse("several tables", "write DELETE FROM .. USING .."),
    }
}

/// The table that a DELETE names; `None` if it names several.
fn target_of_delete(delete: &Delete) -> Option<&TableFactor> {
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    match tables.as_slice() {
        [TableWithJoins { relation, joins }] if joins.is_empty() && delete.tables.is_empty() => Some(relation),
        _ => None,
    }
}

/// Refuses what an UPDATE cannot have.
fn check_update(update: &Update) -> Result<()> {
    let refuse = |what: &str, instead: &str| Err(Error::unsupported(format!("UPDATE with {what}"), Some(instead)));
    if !update.table.joins.is_empty() {
        return refuse("joins of its target", "write UPDATE .. SET .. FROM ..");
    }
    if update.output.is_some() {
        return refuse("OUTPUT", "say RETURNING");
    }
    if !update.order_by.is_empty() || update.limit.is_some() {
        return refuse("ORDER BY or LIMIT", "name the rows in WHERE, for example by a subquery with ORDER BY and LIMIT");
    }
    Ok(())
}
