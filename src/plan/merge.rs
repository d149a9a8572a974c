//! MERGE: the target joined with the source, and for each pair what the first clause that applies does.
//!
//! ```text
//!   rows, address, action  <-  Filter(clause IS NOT NULL)  <-  clause = CASE WHEN .. THEN 0 WHEN .. THEN 1 .. END
//!                                                          <-  Join(target + address, source + present)
//! ```
//!
//! Always holds: a pair is matched where it has an address and a source row, never by a column being non-null; clauses are
//! tried in their order; the join keeps unmatched rows only of the sides that a clause wants.

use super::generated::GeneratedColumns;
use super::returning::{ChangedRow, Returning};
use super::rule::{NEW_VALUE, columns_of, new_values};
use super::source_keys;
use super::subqueries;
use super::target::{Target, address_columns};
use crate::error::Error;
use crate::scan::address::{FRAGMENT_COLUMN, OFFSET_COLUMN};
use crate::scan::keys::Keys;
use crate::scan::provider::{Access, LakeTable};
use crate::stage::row_changes::{ACTION_COLUMN, ACTION_DELETE, ACTION_INSERT, ACTION_UPDATE};
use datafusion::arrow::datatypes::Field;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue, TableReference};
use datafusion::logical_expr::dml::{MergeIntoAction, MergeIntoClause, MergeIntoClauseKind, MergeIntoOp};
use datafusion::logical_expr::{Case, Expr, ExprSchemable, JoinType, LogicalPlan, LogicalPlanBuilder, lit};
use std::collections::HashMap;
use std::sync::Arc;

/// Whether there is a source row.
const PRESENT_COLUMN: &str = "__amend_source";
/// The number of the clause that applies.
const CLAUSE_COLUMN: &str = "__amend_clause";

fn wants(merge: &MergeIntoOp, kind: MergeIntoClauseKind) -> bool {
    merge.clauses.iter().any(|clause| clause.kind.canonical() == kind)
}

/// What the target of a MERGE is read for.
pub fn access(merge: &MergeIntoOp) -> Access {
    match wants(merge, MergeIntoClauseKind::NotMatchedByTarget) {
        true => Access::AddressesAndAbsence,
        false => Access::AddressesAndRows,
    }
}

/// The positions of the columns that a MERGE gives new values.
pub fn columns_given(merge: &MergeIntoOp, table: &LakeTable) -> Vec<usize> {
    let given = |name: &str| {
        merge.clauses.iter().any(|clause| match &clause.action {
            MergeIntoAction::Insert { .. } => true,
            MergeIntoAction::Update(assignments) => assignments.iter().any(|(column, _)| column == name),
            MergeIntoAction::Delete => false,
        })
    };
    table.schema().fields().iter().enumerate().filter(|(_, field)| given(field.name())).map(|(at, _)| at).collect()
}

/// The rows of a MERGE, their addresses, what is to be done with them, and what is returned of them. Besides, the keys that its
/// source brings, if they are noted.
pub fn plan(
    target: &Target<'_>,
    name: &TableReference,
    source: &LogicalPlan,
    (merge, generated): (&MergeIntoOp, &GeneratedColumns),
    returning: Option<&Returning>,
) -> Result<(LogicalPlan, Option<Arc<Keys>>)> {
    if subqueries::holds_predicate(&merge.on)? {
        return Err(
            Error::unsupported("IN (subquery) or EXISTS in the ON of MERGE", Some("put it in the WHERE of a subquery in USING")).into()
        );
    }
    check_sides(&merge.clauses, name, source)?;
    let wants = |kind| wants(merge, kind);
    let join_type = match (wants(MergeIntoClauseKind::NotMatchedByTarget), wants(MergeIntoClauseKind::NotMatchedBySource)) {
        // Not an inner one, which need not read all of the source.
        (false, false) => JoinType::Right,
        (true, false) => JoinType::Right,
        (false, true) => JoinType::Left,
        (true, true) => JoinType::Full,
    };
    let mut columns: Vec<Expr> = source.schema().columns().into_iter().map(Expr::Column).collect();
    columns.push(lit(true).alias(PRESENT_COLUMN));
    // Where target rows without a partner are of no account, those are read whose key the source brings.
    let noted = match join_type {
        JoinType::Right => source_keys::note(&merge.on, target.table, name, source.schema())?,
        _ => None,
    };
    let (on, target_source, keys) = match noted {
        Some(noted) => {
            columns.push(noted.source_key);
            (noted.on, target.joined_source(noted.target_key, noted.keys.clone()), Some(noted.keys))
        }
        None => (merge.on.clone(), target.source(), None),
    };
    let source = LogicalPlanBuilder::from(source.clone()).project(columns)?.build()?;
    let joined = LogicalPlanBuilder::scan(name.clone(), target_source, None)?.join_on(source, join_type, [on])?.build()?;

    let [fragment, offset] = address_columns(joined.schema())?;
    let present = Expr::Column(Column::from_name(PRESENT_COLUMN));
    let of_kind = |kind| {
        let clauses = (0..).zip(&merge.clauses).filter(|(_, clause)| clause.kind.canonical() == kind);
        let when = clauses.map(|(number, clause)| (clause.predicate.clone().unwrap_or_else(|| lit(true)), lit(number)));
        case(when.collect(), Expr::Literal(ScalarValue::Int32(None), None))
    };
    // Not AND: a predicate is for rows of its kind only, and may fail on others.
    let kinds = [
        (fragment.clone().is_null(), MergeIntoClauseKind::NotMatchedByTarget),
        (present.clone().is_null(), MergeIntoClauseKind::NotMatchedBySource),
        (fragment.clone().is_not_null().and(present.is_not_null()), MergeIntoClauseKind::Matched),
    ];
    let when = kinds.into_iter().filter(|(_, kind)| wants(*kind)).map(|(is_kind, kind)| (is_kind, of_kind(kind)));
    let clause = case(when.collect(), Expr::Literal(ScalarValue::Int32(None), None));
    let mut columns: Vec<Expr> = joined.schema().columns().into_iter().map(Expr::Column).collect();
    columns.push(clause.alias(CLAUSE_COLUMN));
    let chosen =
        LogicalPlanBuilder::from(joined).project(columns)?.filter(Expr::Column(Column::from_name(CLAUSE_COLUMN)).is_not_null())?.build()?;

    check_actions(&merge.clauses, target.table)?;
    check_reached(&merge.clauses, target.table)?;
    let mut exprs = Vec::new();
    for (position, field) in target.table.schema().fields().iter().enumerate() {
        let value = new_value(&merge.clauses, position, field, target.table, name, &chosen)?;
        exprs.push(if returning.is_some() { value.alias(format!("{NEW_VALUE}{position}")) } else { value.alias(field.name()) });
    }
    exprs.push(fragment.alias(FRAGMENT_COLUMN));
    exprs.push(offset.alias(OFFSET_COLUMN));
    let actions = merge.clauses.iter().map(|clause| match clause.action {
        MergeIntoAction::Update(_) => lit(ACTION_UPDATE),
        MergeIntoAction::Insert { .. } => lit(ACTION_INSERT),
        MergeIntoAction::Delete => lit(ACTION_DELETE),
    });
    exprs.push(by_clause(actions, Expr::Literal(ScalarValue::Int32(None), None)).alias(ACTION_COLUMN));
    let Some(returning) = returning else {
        let computed = LogicalPlanBuilder::from(chosen).project(exprs)?.build()?;
        return Ok((generated.computed(computed, |_, name| name.to_owned())?, keys));
    };
    let own = chosen.schema().columns().into_iter().filter(|column| !is_address(&column.name));
    exprs.extend(own.map(Expr::Column));
    let computed = LogicalPlanBuilder::from(chosen).project(exprs)?.build()?;
    let computed = generated.computed(computed, |position, _| format!("{NEW_VALUE}{position}"))?;
    Ok((returned(target.table, name, computed, returning)?, keys))
}

/// The rows of a MERGE of which something is returned: their new values are columns beside the pair that they come from.
fn returned(table: &LakeTable, name: &TableReference, computed: LogicalPlan, returning: &Returning) -> Result<LogicalPlan> {
    let action = || Expr::Column(Column::from_name(ACTION_COLUMN));
    let is = |number| action().eq(lit(number));
    let word = case(
        vec![(is(ACTION_INSERT), lit("INSERT")), (is(ACTION_UPDATE), lit("UPDATE")), (is(ACTION_DELETE), lit("DELETE"))],
        Expr::Literal(ScalarValue::Utf8(None), None),
    );
    let old = columns_of(table, |column| Expr::Column(Column::new(Some(name.clone()), column)));
    let mut exprs: Vec<Expr> = new_values(table).map(|(name, value)| value.alias(name)).collect();
    exprs.extend([FRAGMENT_COLUMN, OFFSET_COLUMN, ACTION_COLUMN].map(|name| Expr::Column(Column::from_name(name))));
    let new: HashMap<String, Expr> = new_values(table)
        .map(|(name, value)| {
            let after = case(vec![(action().not_eq(lit(ACTION_DELETE)), value)], Expr::Literal(ScalarValue::Null, None));
            (name, after)
        })
        .collect();
    let values = new_values(table).map(|(name, value)| {
        let before = old.get(&name).cloned().unwrap_or_else(|| value.clone());
        (name, case(vec![(is(ACTION_DELETE), before)], value))
    });
    let row = ChangedRow { values: values.collect(), old: old.clone(), new, action: Some(word) };
    exprs.extend(returning.columns(&row, &table.schema())?);
    LogicalPlanBuilder::from(computed).project(exprs)?.build()
}

fn is_address(column: &str) -> bool {
    [FRAGMENT_COLUMN, OFFSET_COLUMN].contains(&column)
}

/// The new value of a column, by the clause that applies.
fn new_value(
    clauses: &[MergeIntoClause],
    position: usize,
    field: &Arc<Field>,
    table: &LakeTable,
    name: &TableReference,
    input: &LogicalPlan,
) -> Result<Expr> {
    let null = || ScalarValue::try_from(field.data_type()).map(|null| Expr::Literal(null, None));
    let old = Expr::Column(Column::new(Some(name.clone()), field.name()));
    let mut values = Vec::with_capacity(clauses.len());
    for clause in clauses {
        let value = match &clause.action {
            MergeIntoAction::Update(assignments) => {
                assignments.iter().find(|(column, _)| column == field.name()).map(|(_, value)| value.clone()).unwrap_or(old.clone())
            }
            MergeIntoAction::Insert { columns, values } => {
                let at = if columns.is_empty() { Some(position) } else { columns.iter().position(|column| column == field.name()) };
                match at.and_then(|at| values.get(at)) {
                    Some(value) => value.clone(),
                    None => table.get_column_default(field.name()).cloned().map_or_else(null, Ok)?,
                }
            }
            // The row goes; its values are not looked at.
            MergeIntoAction::Delete => null()?,
        };
        values.push(value.cast_to(field.data_type(), input.schema())?);
    }
    Ok(by_clause(values, null()?))
}

/// The value that belongs to the clause that applies.
fn by_clause(values: impl IntoIterator<Item = Expr>, otherwise: Expr) -> Expr {
    let clause = Expr::Column(Column::from_name(CLAUSE_COLUMN));
    let when = (0i32..).zip(values).map(|(number, value)| (clause.clone().eq(lit(number)), value)).collect();
    case(when, otherwise)
}

fn case(when: Vec<(Expr, Expr)>, otherwise: Expr) -> Expr {
    let when_then_expr = when.into_iter().map(|(when, then)| (Box::new(when), Box::new(then))).collect();
    Expr::Case(Case { expr: None, when_then_expr, else_expr: Some(Box::new(otherwise)) })
}

/// Refuses clauses for rows without a partner that name the partner's columns: they would be NULL, whatever was meant.
fn check_sides(clauses: &[MergeIntoClause], target: &TableReference, source: &LogicalPlan) -> Result<()> {
    let of_target = |column: &Column| column.relation.as_ref().is_some_and(|relation| relation.resolved_eq(target));
    let of_source = |column: &Column| !of_target(column) && source.schema().has_column(column);
    for clause in clauses {
        let (is_absent, when, seen): (&dyn Fn(&Column) -> bool, _, _) = match clause.kind.canonical() {
            MergeIntoClauseKind::Matched => continue,
            MergeIntoClauseKind::NotMatched | MergeIntoClauseKind::NotMatchedByTarget => (&of_target, "WHEN NOT MATCHED", "source"),
            MergeIntoClauseKind::NotMatchedBySource => (&of_source, "WHEN NOT MATCHED BY SOURCE", "target"),
        };
        let values: Vec<&Expr> = match &clause.action {
            MergeIntoAction::Insert { values, .. } => values.iter().collect(),
            MergeIntoAction::Update(assignments) => assignments.iter().map(|(_, value)| value).collect(),
            MergeIntoAction::Delete => vec![],
        };
        for expr in clause.predicate.iter().chain(values) {
            if let Some(column) = named(expr, is_absent)? {
                let reason = format!("{when} sees only the columns of the {seen}, and names {column}");
                return Err(Error::Refused { reason, sqlstate: "42P01" }.into());
            }
        }
    }
    Ok(())
}

/// The first column in an expression, or named by a subquery of it from outside, of which something is true.
fn named(expr: &Expr, is: &dyn Fn(&Column) -> bool) -> Result<Option<Column>> {
    let mut found = None;
    expr.apply(|part| {
        let outer = match part {
            Expr::Column(column) => {
                found = Some(column).filter(|column| is(column)).cloned();
                &[][..]
            }
            Expr::ScalarSubquery(subquery) => &subquery.outer_ref_columns,
            Expr::Exists(exists) => &exists.subquery.outer_ref_columns,
            Expr::InSubquery(within) => &within.subquery.outer_ref_columns,
            Expr::SetComparison(comparison) => &comparison.subquery.outer_ref_columns,
            _ => &[],
        };
        let of_outside = |expr: &Expr| match expr {
            Expr::OuterReferenceColumn(_, column) => Some(column).filter(|column| is(column)).cloned(),
            _ => None,
        };
        found = found.take().or_else(|| outer.iter().find_map(of_outside));
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Refuses actions that their kind of clause cannot have.
fn check_actions(clauses: &[MergeIntoClause], table: &LakeTable) -> Result<()> {
    for clause in clauses {
        let fits = match (clause.kind.canonical(), &clause.action) {
            (MergeIntoClauseKind::NotMatchedByTarget | MergeIntoClauseKind::NotMatched, MergeIntoAction::Insert { .. }) => true,
            (MergeIntoClauseKind::NotMatchedByTarget | MergeIntoClauseKind::NotMatched, _) => false,
            (_, MergeIntoAction::Insert { .. }) => false,
            (_, MergeIntoAction::Update(_) | MergeIntoAction::Delete) => true,
        };
        if !fits {
            let reason = format!("MERGE INTO '{}': WHEN NOT MATCHED can only INSERT, the other clauses cannot", table.log().table());
            return Err(Error::invalid(reason).into());
        }
    }
    Ok(())
}

/// Refuses a clause that comes after one of its kind without a condition: it would never apply.
fn check_reached(clauses: &[MergeIntoClause], table: &LakeTable) -> Result<()> {
    let mut taken = Vec::new();
    for clause in clauses {
        let kind = clause.kind.canonical();
        if taken.contains(&kind) {
            return Err(unreached(table.log().table()).into());
        }
        if clause.predicate.is_none() {
            taken.push(kind);
        }
    }
    Ok(())
}

/// The error of a clause that would never apply.
pub fn unreached(table: &str) -> Error {
    Error::invalid(format!(
        "MERGE INTO '{table}': a WHEN clause of the same kind without a condition comes before, so this one never applies"
    ))
}
