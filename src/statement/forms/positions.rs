//! The rows of an INSERT go into its columns by position: what they are called does not matter, and two may be called the same.
//!
//! DataFusion wants names that differ, so in `INSERT INTO t SELECT a, a` the second gets another. Names are compared as they are written:
//! what `*` stands for is not looked at, nor that `abs(a)` and `abs(r.a)` are one.

use crate::scan::expression::fold;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, SelectItem, SetExpr};
use std::collections::HashSet;

/// What a column is called that would be called as one before it; its number follows.
const AGAIN: &str = "__amend_again_";

/// Gives the columns of an INSERT's query names that differ.
pub fn name(query: &mut Query) {
    name_all(&mut query.body);
}

fn name_all(rows: &mut SetExpr) {
    match rows {
        SetExpr::Select(select) => name_items(&mut select.projection),
        SetExpr::Query(query) => name(query),
        SetExpr::SetOperation { left, right, .. } => {
            name_all(left);
            name_all(right);
        }
        _ => {}
    }
}

fn name_items(items: &mut [SelectItem]) {
    let mut names = HashSet::new();
    for (at, item) in items.iter_mut().enumerate() {
        let called = match item {
            SelectItem::UnnamedExpr(Expr::Identifier(ident)) => fold(ident),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(fold).unwrap_or_default(),
            SelectItem::UnnamedExpr(expr) => expr.to_string(),
            SelectItem::ExprWithAlias { alias, .. } => fold(alias),
            _ => continue,
        };
        if names.insert(called) {
            continue;
        }
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new(format!("{AGAIN}{at}")) };
        }
    }
}
