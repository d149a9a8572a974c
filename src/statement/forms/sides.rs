//! Which table the names without one mean, in the clauses of MERGE that see one table alone: WHEN NOT MATCHED sees the source, WHEN
//! NOT MATCHED BY SOURCE the target. The planner knows both tables in every clause, and calls a name ambiguous that both have.
//!
//! Goes in: a parsed MERGE. Comes out: the same with those names qualified. Always holds: names within subqueries and lambdas,
//! which may have tables or parameters of their own, stay as they are; so do those of no column of the target, which mean one
//! thing only.

use super::stars::{columns, known_as};
use crate::error::Result;
use crate::scan::expression::fold;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Merge, MergeAction, MergeClause, MergeClauseKind, MergeInsertKind, Query, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Qualifies the names.
pub async fn qualify(state: &SessionState, merge: &mut Merge) -> Result<()> {
    if merge.clauses.iter().all(|clause| clause.clause_kind == MergeClauseKind::Matched) {
        return Ok(());
    }
    // A source without a name has no names that could be qualified.
    let (Ok(source), Ok(target)) = (known_as(&merge.source), known_as(&merge.table)) else { return Ok(()) };
    let columns = columns(state, &merge.table).await?;
    for clause in &mut merge.clauses {
        let side = match clause.clause_kind {
            MergeClauseKind::Matched => continue,
            MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => &source,
            MergeClauseKind::NotMatchedBySource => &target,
        };
        qualify_clause(clause, &mut Names { side, columns: &columns, scopes: 0 });
    }
    Ok(())
}

fn qualify_clause(clause: &mut MergeClause, names: &mut Names<'_>) {
    let _ = clause.predicate.visit(names);
    match &mut clause.action {
        MergeAction::Insert(insert) => {
            if let MergeInsertKind::Values(values) = &mut insert.kind {
                let _ = values.visit(names);
            }
        }
        MergeAction::Update(update) => {
            for assignment in &mut update.assignments {
                let _ = assignment.value.visit(names);
            }
        }
        MergeAction::Delete { .. } => {}
    }
}

/// Qualifies names as it meets them.
struct Names<'a> {
    side: &'a Ident,
    /// The target's columns.
    columns: &'a [Ident],
    /// How many subqueries and lambdas it is in.
    scopes: usize,
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Lambda(_) => self.scopes += 1,
            Expr::Identifier(name) if self.scopes == 0 => {
                let is_default = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("DEFAULT");
                if !is_default && self.columns.iter().any(|column| column.value == fold(name)) {
                    *expr = Expr::CompoundIdentifier(vec![self.side.clone(), name.clone()]);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(_) = expr {
            self.scopes -= 1;
        }
        ControlFlow::Continue(())
    }
}
