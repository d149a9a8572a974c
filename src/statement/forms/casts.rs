//! Casts in the query of an INSERT get names of their own where DataFusion would give them that of another column, and refuse both.
//!
//! ```text
//!   INSERT INTO t SELECT a, a::VARCHAR FROM s
//!   INSERT INTO t SELECT a, a::VARCHAR AS "__amend_cast2" FROM s
//! ```
//!
//! Always holds: the columns go to those of the table by their places, so their names say nothing; those that stand in ORDER BY stay.

use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, SelectItem, SetExpr, Statement};
use std::collections::HashMap;

/// Names such casts of a statement.
pub fn name(statement: &mut Statement) {
    if let Statement::Insert(insert) = statement
        && let Some(query) = insert.source.as_mut()
    {
        name_in_query(query);
    }
}

fn name_in_query(query: &mut Query) {
    name_in(&mut query.body);
}

fn name_in(rows: &mut SetExpr) {
    match rows {
        SetExpr::Select(select) => name_items(&mut select.projection),
        SetExpr::Query(query) => name_in_query(query),
        SetExpr::SetOperation { left, right, .. } => {
            name_in(left);
            name_in(right);
        }
        _ => {}
    }
}

fn name_items(items: &mut [SelectItem]) {
    let mut named = HashMap::new();
    for item in items.iter() {
        *named.entry(name_of(item)).or_insert(0) += 1;
    }
    for (at, item) in items.iter_mut().enumerate() {
        let shares = named.get(&name_of(item)).is_some_and(|items| *items > 1);
        if let SelectItem::UnnamedExpr(expr @ Expr::Cast { .. }) = item
            && shares
        {
            let alias = Ident::with_quote('"', format!("__amend_cast{}", at + 1));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// What DataFusion names a column: a cast like that which is cast.
fn name_of(item: &SelectItem) -> String {
    match item {
        SelectItem::UnnamedExpr(expr) => uncast(expr),
        SelectItem::ExprWithAlias { alias, .. } => alias.value.clone(),
        other => other.to_string(),
    }
}

fn uncast(expr: &Expr) -> String {
    match expr {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => uncast(expr),
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(names) => names.last().map(|name| name.value.clone()).unwrap_or_default(),
        other => other.to_string(),
    }
}
