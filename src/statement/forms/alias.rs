//! MERGE INTO t AS x with subqueries that name x: DataFusion's planner refuses them, since it forgets the alias. They get the table's own
//! name, where nothing else has it.
//!
//! ```text
//!   MERGE INTO t AS x .. WHEN MATCHED AND EXISTS (SELECT 1 FROM u WHERE u.k = x.k) ..
//!   MERGE INTO t      .. WHEN MATCHED AND EXISTS (SELECT 1 FROM u WHERE u.k = t.k) ..
//! ```
//!
//! Goes in: a parsed MERGE. Comes out: the same without the alias; or untouched, if no subquery needs it, or if a table in the source or in a
//! subquery is known by one of the two names, so that a name could come to mean another table.

use crate::scan::expression::fold;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, Expr, Ident, Merge, MergeAction, ObjectName, ObjectNamePart, Query, TableFactor, Visit, VisitMut, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// Takes the alias out.
pub fn leave_out(merge: &mut Merge) {
    let TableFactor::Table { name, alias: Some(alias), .. } = &merge.table else { return };
    let own: Option<Vec<Ident>> = name.0.iter().map(|part| part.as_ident().cloned()).collect();
    let (Some(own), true) = (own, alias.columns.is_empty()) else { return };
    let names = Names { alias: fold(&alias.name), own };
    let mut known = Known { names: &names, taken: false, queries: 0 };
    let _ = Visit::visit(&merge.source, &mut known);
    let of_source = known.queries;
    let _ = Visit::visit(&merge.on, &mut known);
    let _ = Visit::visit(&merge.clauses, &mut known);
    if known.taken || known.queries == of_source {
        return;
    }
    let mut names = names;
    let _ = VisitMut::visit(&mut merge.on, &mut names);
    for clause in &mut merge.clauses {
        let _ = VisitMut::visit(clause, &mut names);
        match &mut clause.action {
            MergeAction::Update(update) => {
                for assignment in &mut update.assignments {
                    match &mut assignment.target {
                        AssignmentTarget::ColumnName(column) => names.unqualify(column),
                        AssignmentTarget::Tuple(columns) => columns.iter_mut().for_each(|column| names.unqualify(column)),
                    }
                }
            }
            MergeAction::Insert(insert) => insert.columns.iter_mut().for_each(|column| names.unqualify(column)),
            MergeAction::Delete { .. } => {}
        }
    }
    if let TableFactor::Table { alias, .. } = &mut merge.table {
        *alias = None;
    }
}

/// The names of the target.
struct Names {
    alias: String,
    own: Vec<Ident>,
}

impl Names {
    fn is_one(&self, name: &str) -> bool {
        self.alias == name || self.own.last().is_some_and(|own| fold(own) == name)
    }

    /// A column that is given a value is the target's anyway.
    fn unqualify(&self, column: &mut ObjectName) {
        if let [ObjectNamePart::Identifier(table), _] = column.0.as_slice()
            && fold(table) == self.alias
        {
            column.0.remove(0);
        }
    }
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.first().is_some_and(|table| fold(table) == self.alias)
        {
            parts.splice(0..1, self.own.iter().cloned());
        }
        ControlFlow::Continue(())
    }
}

/// Looks whether a table is known by one of the names, and for subqueries.
struct Known<'a> {
    names: &'a Names,
    taken: bool,
    queries: usize,
}

impl Visitor for Known<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        let alias = match table {
            TableFactor::Table { name, alias: None, .. } => name.0.last().and_then(ObjectNamePart::as_ident),
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::TableFunction { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. }
            | TableFactor::NestedJoin { alias: Some(alias), .. } => Some(&alias.name),
            _ => None,
        };
        self.taken |= alias.is_some_and(|alias| self.names.is_one(&fold(alias)));
        ControlFlow::Continue(())
    }
}
