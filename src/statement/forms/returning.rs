//! RETURNING: taken out of a statement, which DataFusion plans without it, and planned over the rows that it changes.
//!
//! Goes in: the statement; then its plan. Comes out: what was asked for; then the plan with that in its target. Always holds:
//! an expression sees one row, before and after; what it cannot see is refused.

use crate::error::{Error, Result};
use crate::plan::returning::{Item, MERGE_ACTION_COLUMN, NEW_COLUMN, OLD_COLUMN, Returning, ReturningSource, is_upsert, target_of};
use crate::scan::expression::fold;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::{DmlStatement, WriteOp};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{
    Expr, ExprWithAlias, Function, FunctionArguments, Ident, ObjectName, ObjectNamePart, OutputClause, SelectItem,
    SelectItemQualifiedWildcardKind, Statement, TableFactor, TableObject, WildcardAdditionalOptions, visit_expressions_mut,
};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a statement is asked to return.
#[derive(Debug, Clone)]
pub struct Asked {
    items: Vec<SelectItem>,
    /// What the target is called.
    target: String,
}

/// Takes RETURNING out of a statement.
pub fn take(statement: &mut Statement) -> Result<Option<Asked>> {
    let (items, target) = match statement {
        Statement::Insert(insert) => {
            let TableObject::TableName(name) = &insert.table else { return Ok(None) };
            (insert.returning.take(), last(name))
        }
        Statement::Update(update) => (update.returning.take(), known_as(&update.table.relation)),
        Statement::Delete(delete) => {
            let target = super::target_of_delete(delete).map(known_as).unwrap_or_default();
            (delete.returning.take(), target)
        }
        Statement::Merge(merge) => {
            let items = match merge.output.take() {
                None => None,
                Some(OutputClause::Returning { select_items, .. }) => Some(select_items),
                Some(OutputClause::Output { .. }) => return Err(Error::unsupported("MERGE with OUTPUT", Some("say RETURNING"))),
            };
            (items, known_as(&merge.table))
        }
        _ => return Ok(None),
    };
    let (Some(items), Some(target)) = (items, target) else { return Ok(None) };
    Ok(Some(Asked { items, target }))
}

fn known_as(table: &TableFactor) -> Option<String> {
    match table {
        TableFactor::Table { alias: Some(alias), .. } => Some(fold(&alias.name)),
        TableFactor::Table { name, .. } => last(name),
        _ => None,
    }
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(ObjectNamePart::as_ident).map(fold)
}

impl Asked {
    /// The plan of the statement, which also yields what was asked for.
    pub fn attach(&self, state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
        let attached = plan.transform_down(|node| match node {
            LogicalPlan::Dml(mut dml) => {
                dml.target = Arc::new(ReturningSource::new(dml.target.clone(), Arc::new(self.planned(state, &dml)?)));
                Ok(Transformed::new(LogicalPlan::Dml(dml), true, datafusion::common::tree_node::TreeNodeRecursion::Stop))
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(attached.data()?)
    }

    /// What was asked for, over the rows of a planned statement.
    fn planned(&self, state: &SessionState, dml: &DmlStatement) -> Result<Returning> {
        if target_of(&dml.target).is_none() {
            let what = format!("RETURNING of '{}', which is no table of the lake,", dml.table_name);
            return Err(Error::unsupported(what, None));
        }
        let none = DFSchema::empty();
        let (rows, merges) = match (&dml.op, dml.input.as_ref()) {
            (WriteOp::Insert(_), _) => (&none, false),
            (WriteOp::Update, LogicalPlan::Projection(projection)) => (projection.input.schema().as_ref(), false),
            (WriteOp::Delete, input) => (input.schema().as_ref(), false),
            // The rows that were to be inserted have no name here.
            (WriteOp::MergeInto(_), _) if is_upsert(&dml.target) => (&none, false),
            (WriteOp::MergeInto(_), source) => (source.schema().as_ref(), true),
            (op, _) => return Err(Error::unsupported(format!("{op} with RETURNING"), None)),
        };
        // The target's rows come first in a plan that yields them.
        let target = match (merges, rows.iter().next()) {
            (false, Some((Some(qualifier), _))) => qualifier.clone(),
            _ => TableReference::bare(self.target.clone()),
        };
        let columns = dml.target.schema();
        let names = Names { state, merges, target: &target, all: Returning::names(&target, &columns, rows, merges)? };
        let mut items = Vec::new();
        for item in &self.items {
            items.extend(names.item(item)?);
        }
        for (at, item) in items.iter().enumerate() {
            let same = |other: &&Item| other.name == item.name && other.qualifier == item.qualifier;
            if items.iter().take(at).any(|other| same(&other)) {
                return Err(Error::invalid(format!("RETURNING yields two columns called '{}'; name one of them with AS", item.name)));
            }
        }
        Ok(Returning { target, items })
    }
}

/// The names by which RETURNING knows a row.
struct Names<'a> {
    state: &'a SessionState,
    merges: bool,
    target: &'a TableReference,
    all: DFSchema,
}

impl Names<'_> {
    fn item(&self, item: &SelectItem) -> Result<Vec<Item>> {
        let plain = |options: &WildcardAdditionalOptions| match *options == WildcardAdditionalOptions::default() {
            true => Ok(()),
            false => Err(Error::unsupported(format!("RETURNING {item}"), Some("name the columns"))),
        };
        match item {
            SelectItem::UnnamedExpr(expr) => Ok(vec![self.expression(expr, None)?]),
            SelectItem::ExprWithAlias { expr, alias } => Ok(vec![self.expression(expr, Some(fold(alias)))?]),
            SelectItem::Wildcard(options) => {
                plain(options)?;
                let (own, others): (Vec<Item>, Vec<Item>) =
                    self.columns(|_| true).into_iter().partition(|item| item.qualifier.as_ref() == Some(self.target));
                Ok(if self.merges { [others, own].concat() } else { [own, others].concat() })
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                plain(options)?;
                let table = last(name).unwrap_or_default();
                let items = match self.side(&table) {
                    Some(prefix) => self.of_side(&table, prefix),
                    None => self.columns(|qualifier| qualifier.table() == table),
                };
                match items.is_empty() {
                    false => Ok(items),
                    true => Err(Error::invalid(format!("RETURNING {item}: there is no table '{table}' in the statement"))),
                }
            }
            other => Err(Error::unsupported(format!("RETURNING {other}"), Some("name the columns"))),
        }
    }

    /// The columns of tables.
    fn columns(&self, of: impl Fn(&TableReference) -> bool) -> Vec<Item> {
        let columns = self.all.iter().filter_map(|(qualifier, field)| qualifier.filter(|qualifier| of(qualifier)).map(|q| (q, field)));
        let item = |(qualifier, field): (&TableReference, &Arc<datafusion::arrow::datatypes::Field>)| Item {
            qualifier: Some(qualifier.clone()),
            name: field.name().clone(),
            expr: PlanExpr::Column(Column::new(Some(qualifier.clone()), field.name())),
        };
        columns.map(item).collect()
    }

    /// What the columns of `old` or `new` are called, if the word means that: a table of the statement goes first.
    fn side(&self, word: &str) -> Option<&'static str> {
        if self.all.iter().any(|(qualifier, _)| qualifier.is_some_and(|qualifier| qualifier.table() == word)) {
            return None;
        }
        match word {
            "old" => Some(OLD_COLUMN),
            "new" => Some(NEW_COLUMN),
            _ => None,
        }
    }

    fn of_side(&self, word: &str, prefix: &str) -> Vec<Item> {
        let item = |(_, field): (Option<&TableReference>, &Arc<datafusion::arrow::datatypes::Field>)| {
            let name = field.name().strip_prefix(prefix)?;
            let expr = PlanExpr::Column(Column::from_name(field.name()));
            Some(Item { qualifier: Some(TableReference::bare(word)), name: name.to_owned(), expr })
        };
        self.all.iter().filter_map(item).collect()
    }

    fn expression(&self, expr: &Expr, alias: Option<String>) -> Result<Item> {
        let mut spelled = expr.clone();
        let refused = visit_expressions_mut(&mut spelled, |expr| self.spell(expr));
        if let ControlFlow::Break(what) = refused {
            return Err(Error::unsupported(format!("{what} in RETURNING"), Some("SELECT the rows afterwards")));
        }
        let planned = self.state.create_logical_expr_from_sql_expr(ExprWithAlias { expr: spelled, alias: None }, &self.all)?;
        if planned.exists(|expr| Ok(matches!(expr, PlanExpr::AggregateFunction(_) | PlanExpr::WindowFunction(_))))? {
            return Err(Error::invalid(format!("RETURNING {expr}: a function of many rows has no place here")));
        }
        let (qualifier, name) = match (&planned, alias) {
            (_, Some(alias)) => (None, alias),
            (PlanExpr::Column(column), None) => self.name_of(column),
            (_, None) => (None, expr.to_string()),
        };
        let context = SimplifyContext::builder().with_schema(Arc::new(self.all.clone())).build();
        Ok(Item { qualifier, name, expr: ExprSimplifier::new(context).coerce(planned, &self.all)? })
    }

    fn name_of(&self, column: &Column) -> (Option<TableReference>, String) {
        let of = |word: &str, name: &str| (Some(TableReference::bare(word)), name.to_owned());
        match &column.relation {
            Some(relation) => (Some(relation.clone()), column.name.clone()),
            None => match (column.name.strip_prefix(OLD_COLUMN), column.name.strip_prefix(NEW_COLUMN)) {
                (Some(name), _) => of("old", name),
                (_, Some(name)) => of("new", name),
                _ if column.name == MERGE_ACTION_COLUMN => (None, "merge_action".to_owned()),
                _ => (None, column.name.clone()),
            },
        }
    }

    /// Puts `old.c`, `new.c` and `merge_action()` as the planner knows them.
    fn spell(&self, expr: &mut Expr) -> ControlFlow<&'static str> {
        let spelled = match expr {
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] => self.side(&fold(table)).map(|prefix| format!("{prefix}{}", fold(column))),
                _ => None,
            },
            Expr::Function(function) if self.merges && is_merge_action(function) => Some(MERGE_ACTION_COLUMN.to_owned()),
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => return ControlFlow::Break("a subquery"),
            _ => None,
        };
        if let Some(name) = spelled {
            *expr = Expr::Identifier(Ident::with_quote('"', name));
        }
        ControlFlow::Continue(())
    }
}

fn is_merge_action(function: &Function) -> bool {
    let named = matches!(function.name.0.as_slice(), [part] if part.as_ident().is_some_and(|ident| fold(ident) == "merge_action"));
    named && matches!(&function.args, FunctionArguments::List(list) if list.args.is_empty())
}
