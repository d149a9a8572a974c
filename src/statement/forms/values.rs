//! VALUES that DataFusion does not plan as they are meant become SELECTs.
//!
//! It gives all VALUES in an INSERT, or in a CREATE TABLE of columns, the columns of the table, also those in a subquery or
//! WITH. And it has no plan for a subquery in VALUES.
//!
//! ```text
//!   INSERT INTO t SELECT x * 2 FROM (VALUES (0.5), (1.5)) AS v (x)
//!   INSERT INTO t SELECT x * 2 FROM (SELECT 0.5 AS column1 UNION ALL SELECT 1.5 AS column1) AS v (x)
//! ```

use super::rows;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, Statement, Values, VisitMut, VisitorMut, visit_expressions,
};
use std::ops::ControlFlow;

/// Puts such VALUES of a statement as SELECTs.
pub fn plain(statement: &mut Statement) {
    let has_columns = match statement {
        Statement::Insert(_) => true,
        Statement::CreateTable(table) => !table.columns.is_empty(),
        _ => false,
    };
    let _: ControlFlow<()> = statement.visit(&mut Queries { has_columns, depth: 0 });
}

/// Goes through the queries of a statement.
struct Queries {
    /// Whether DataFusion would give VALUES the columns of a table.
    has_columns: bool,
    depth: usize,
}

impl VisitorMut for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        // The VALUES that are inserted themselves do have the table's columns.
        let other_types = self.has_columns && self.depth > 1;
        select(&mut query.body, other_types);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

/// Puts VALUES as SELECTs: all, or those with a subquery.
fn select(rows: &mut SetExpr, all: bool) {
    match rows {
        SetExpr::Values(values) if all || holds_subquery(values) => {
            let rows_of = std::mem::take(&mut values.rows);
            if let Some(selected) = all_of(rows_of.into_iter().map(|row| row.content).collect()) {
                *rows = selected;
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            select(left, all);
            select(right, all);
        }
        _ => {}
    }
}

fn holds_subquery(values: &Values) -> bool {
    let found = visit_expressions(values, |expr| match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// The rows as SELECTs, in a tree that is not deep.
fn all_of(mut rows: Vec<Vec<Expr>>) -> Option<SetExpr> {
    if rows.len() < 2 {
        return rows.pop().map(one);
    }
    let right = rows.split_off(rows.len() / 2);
    Some(SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        left: Box::new(all_of(rows)?),
        right: Box::new(all_of(right)?),
    })
}

/// One row as a SELECT.
fn one(row: Vec<Expr>) -> SetExpr {
    let item = |(at, expr)| SelectItem::ExprWithAlias { expr, alias: Ident::new(format!("column{}", at + 1)) };
    SetExpr::Select(Box::new(rows::select(row.into_iter().enumerate().map(item).collect(), vec![], None)))
}
