//! INSERT .. ON CONFLICT, as the MERGE that it is.
//!
//! ```text
//!   INSERT INTO t (k, n) q                     MERGE INTO t USING (the rows of the INSERT) AS excluded ON t.k = excluded.k
//!   ON CONFLICT (k) DO UPDATE SET n = e        WHEN MATCHED [AND p] THEN UPDATE SET n = e
//!     [WHERE p]                                WHEN NOT MATCHED THEN INSERT all columns
//!   ON CONFLICT (k) DO NOTHING                 the same without the update, of the first row of each key
//! ```
//!
//! Goes in: the statement; then the plan of the INSERT without the clause. Comes out: the MERGE. Always holds: the columns are those
//! of a key of the table; rows of which the key is NULL are inserted; every
//! row has to be one that could be inserted, but for keys; a name without a table is the target's.

use super::assignments;
use crate::error::{Error, Result};
use crate::plan::generated::GeneratedColumns;
use crate::plan::proposed;
use crate::plan::returning::{UpsertSource, target_of};
use crate::plan::rule::with_nulls_let_through;
use crate::scan::expression::fold;
use crate::table::constraint::{self, Constraint};
use crate::table::schema::{FieldId, TableSchema};
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::execution::SessionState;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::dml::{DmlStatement, InsertOp, MergeIntoAction, MergeIntoClause, MergeIntoClauseKind, MergeIntoOp, WriteOp};
use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::sql::parser::DFParserBuilder;
use datafusion::sql::sqlparser::ast::{
    ConflictTarget, DoUpdate, Expr as SqlExpr, ExprWithAlias, Ident, Insert, ObjectNamePart, OnConflict, OnConflictAction, OnInsert,
    TableFactor, TableObject, visit_expressions_mut,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What the rows of the INSERT are called.
const EXCLUDED: &str = "excluded";
/// The number of a row among those that are inserted.
const ROW_COLUMN: &str = "__amend_row";
/// The number of a row among those of its key.
const OF_KEY_COLUMN: &str = "__amend_of_key";

/// What becomes of rows whose key is there.
#[derive(Debug, Clone)]
pub struct Upsert {
    conflict: OnConflict,
    /// What the target is called.
    target: Ident,
}

impl Upsert {
    /// Takes ON CONFLICT out of an INSERT.
    pub fn take(insert: &mut Insert) -> Result<Option<Upsert>> {
        let conflict = match insert.on.take() {
            None => return Ok(None),
            Some(OnInsert::OnConflict(conflict)) => conflict,
            Some(_) => return Err(Error::unsupported("INSERT .. ON DUPLICATE KEY UPDATE", Some("say ON CONFLICT (key) DO UPDATE SET .."))),
        };
        if insert.overwrite || insert.replace_into {
            return Err(Error::unsupported("ON CONFLICT with OVERWRITE or REPLACE", None));
        }
        let named = match &insert.table {
            TableObject::TableName(name) => name.0.last().and_then(ObjectNamePart::as_ident).cloned(),
            _ => None,
        };
        let target = named.ok_or_else(|| Error::invalid(format!("'{}' is no table to insert into", insert.table)))?;
        Ok(Some(Upsert { conflict, target }))
    }

    /// The planned INSERT as the MERGE.
    pub fn statement(&self, state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
        super::within(plan, &|plan| self.merge(state, plan))
    }

    fn merge(&self, state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
        let LogicalPlan::Dml(insert) = plan else {
            return Err(Error::internal("INSERT .. ON CONFLICT is planned as something else"));
        };
        let Some((table, _)) = target_of(&insert.target) else {
            return Err(Error::unsupported(format!("ON CONFLICT of '{}', which is no table of the lake,", insert.table_name), None));
        };
        if insert.op != WriteOp::Insert(InsertOp::Append) {
            return Err(Error::unsupported(format!("{} with ON CONFLICT", insert.op), None));
        }
        let (name, snapshot) = (table.log().table(), &table.planned().snapshot);
        let all = constraint::constraints(&snapshot.config).map_err(|reason| Error::damaged(name, "its properties", reason))?;
        let keys: Vec<Constraint> = all.into_iter().filter(Constraint::is_key).collect();
        let Some(key) = self.key(name, &snapshot.schema, &keys)? else { return Ok(LogicalPlan::Dml(insert)) };
        let key_columns: Vec<&str> =
            key.fields.iter().filter_map(|id| snapshot.schema.field(*id)).map(|field| field.name.as_str()).collect();

        let target = TableReference::bare(fold(&self.target));
        let of = |table: &TableReference, column: &str| Expr::Column(Column::new(Some(table.clone()), column));
        let excluded = TableReference::bare(EXCLUDED);
        let generated = GeneratedColumns::of(&table)?;
        let mut rows = proposed::held(generated.inserted(with_nulls_let_through(insert.input.as_ref().clone())?, &table)?, &table)?;
        let (mut update, mut second) = (None, None);
        match &self.conflict.action {
            OnConflictAction::DoNothing => rows = first_of_each(rows, &key_columns)?,
            OnConflictAction::DoUpdate(action) => {
                let names = Names { state, target: &self.target, schema: &snapshot.schema };
                let columns = names.all(insert.target.schema().as_ref())?;
                let clause = names.update(name, action, &columns)?;
                // Where the key itself gets new values two rows of one key say nothing of the source.
                let key_changes = matches!(&clause.action, MergeIntoAction::Update(values) if values.iter().any(|(column, _)| key_columns.contains(&column.as_str())));
                second = (!key_changes).then(|| key.name.clone());
                update = Some(clause);
            }
        }
        let columns = insert.target.schema();
        let all = columns.fields().iter().map(|field| field.name().clone());
        let all: Vec<String> = all.filter(|column| !generated.is_generated(column)).collect();
        let insertion = MergeIntoClause {
            kind: MergeIntoClauseKind::NotMatched,
            predicate: None,
            action: MergeIntoAction::Insert { values: all.iter().map(|column| of(&excluded, column)).collect(), columns: all },
        };
        let on = conjunction(key_columns.iter().map(|column| of(&target, column).eq(of(&excluded, column))));
        let on = on.ok_or_else(|| Error::internal("a key of no columns"))?;
        let clauses = update.into_iter().chain([insertion]).collect();
        let rows = LogicalPlanBuilder::from(rows).alias(EXCLUDED)?.build()?;
        let source = Arc::new(UpsertSource::new(insert.target.clone(), second));
        let op = WriteOp::MergeInto(Box::new(MergeIntoOp { on, clauses }));
        Ok(LogicalPlan::Dml(DmlStatement::new(target, source, op, Arc::new(rows))))
    }

    /// The key that rows may have in common; `None` if there is none and need not be.
    fn key<'a>(&self, table: &str, schema: &TableSchema, keys: &'a [Constraint]) -> Result<Option<&'a Constraint>> {
        match &self.conflict.conflict_target {
            Some(ConflictTarget::Columns(columns)) => {
                let fields =
                    columns.iter().map(|column| crate::statement::constraints::column_of(table, schema, column).map(|field| field.id));
                let fields = fields.collect::<Result<BTreeSet<FieldId>>>()?;
                let found = keys.iter().find(|key| key.fields.iter().copied().collect::<BTreeSet<_>>() == fields);
                found.map(Some).ok_or_else(|| {
                    let columns = columns.iter().map(fold).collect::<Vec<_>>().join(", ");
                    let reason =
                        format!("ON CONFLICT ({columns}): table '{table}' has no PRIMARY KEY or UNIQUE constraint of these columns");
                    Error::Refused { reason, sqlstate: "42P10" }
                })
            }
            Some(ConflictTarget::OnConstraint(name)) => {
                let name = name.0.last().and_then(ObjectNamePart::as_ident).map(fold).unwrap_or_default();
                let found = keys.iter().find(|key| key.name == name);
                found.map(Some).ok_or_else(|| {
                    let reason =
                        format!("ON CONFLICT ON CONSTRAINT '{name}': table '{table}' has no PRIMARY KEY or UNIQUE constraint of that name");
                    Error::Refused { reason, sqlstate: "42704" }
                })
            }
            None => match (&self.conflict.action, keys) {
                (OnConflictAction::DoUpdate(_), _) => {
                    Err(Error::invalid("ON CONFLICT DO UPDATE needs the columns of a key: ON CONFLICT (k) DO UPDATE .."))
                }
                (OnConflictAction::DoNothing, []) => Ok(None),
                (OnConflictAction::DoNothing, [key]) => Ok(Some(key)),
                (OnConflictAction::DoNothing, [_, _, ..]) => {
                    let what = format!("ON CONFLICT DO NOTHING without a key, of table '{table}', which has several,");
                    Err(Error::unsupported(what, Some("name one: ON CONFLICT (k) DO NOTHING")))
                }
            },
        }
    }
}

/// The first row of each key, and all rows without one.
fn first_of_each(rows: LogicalPlan, key: &[&str]) -> Result<LogicalPlan> {
    if is_one_row(&rows) {
        return Ok(rows);
    }
    let columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
    let key: Vec<Expr> = key.iter().map(|name| Expr::Column(Column::from_name(*name))).collect();
    let numbered = LogicalPlanBuilder::from(rows).window([row_number().alias(ROW_COLUMN)])?;
    let in_order = vec![Expr::Column(Column::from_name(ROW_COLUMN)).sort(true, false)];
    let of_key = row_number().partition_by(key.clone()).order_by(in_order).build()?.alias(OF_KEY_COLUMN);
    let first = Expr::Column(Column::from_name(OF_KEY_COLUMN)).eq(lit(1u64));
    let without = disjunction(key.into_iter().map(Expr::is_null)).unwrap_or_else(|| lit(false));
    Ok(numbered.window([of_key])?.filter(first.or(without))?.project(columns)?.build()?)
}

fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::Filter(filter) => is_one_row(&filter.input),
        LogicalPlan::Values(values) => values.values.len() == 1,
        _ => false,
    }
}

/// The names in DO UPDATE.
struct Names<'a> {
    state: &'a SessionState,
    target: &'a Ident,
    schema: &'a TableSchema,
}

impl Names<'_> {
    /// The columns of the row that is there and of the one that was to be inserted.
    fn all(&self, columns: &datafusion::arrow::datatypes::Schema) -> Result<DFSchema> {
        let of = |table: &str| DFSchema::try_from_qualified_schema(TableReference::bare(table), columns);
        Ok(of(&fold(self.target))?.join(&of(EXCLUDED)?)?)
    }

    fn update(&self, table: &str, action: &DoUpdate, columns: &DFSchema) -> Result<MergeIntoClause> {
        let assignments = assignments::plain(&action.assignments, &self.relation()?)?;
        let mut values = Vec::with_capacity(assignments.len());
        for (column, value) in assignments.iter().filter_map(assignments::column_and_value) {
            crate::statement::constraints::column_of(table, self.schema, &Ident::with_quote('"', &column))?;
            values.push((column, self.expression(&value, columns)?));
        }
        let predicate = action.selection.as_ref().map(|predicate| self.expression(predicate, columns)).transpose()?;
        Ok(MergeIntoClause { kind: MergeIntoClauseKind::Matched, predicate, action: MergeIntoAction::Update(values) })
    }

    /// The target as a table of a query.
    fn relation(&self) -> Result<TableFactor> {
        let name = Ident::with_quote('"', fold(self.target)).to_string();
        let mut parser = DFParserBuilder::new(name.as_str()).build()?;
        Ok(parser.parser.parse_table_factor().map_err(datafusion::common::DataFusionError::from)?)
    }

    /// An expression, in which names without a table are those of the target.
    fn expression(&self, expr: &SqlExpr, columns: &DFSchema) -> Result<Expr> {
        let mut spelled = expr.clone();
        let refused = visit_expressions_mut(&mut spelled, |expr| {
            match expr {
                SqlExpr::Identifier(name) if self.schema.column(&fold(name)).is_some() => {
                    *expr = SqlExpr::CompoundIdentifier(vec![self.target.clone(), name.clone()]);
                }
                SqlExpr::Subquery(_) | SqlExpr::Exists { .. } | SqlExpr::InSubquery { .. } => return ControlFlow::Break(()),
                _ => {}
            }
            ControlFlow::Continue(())
        });
        if refused.is_break() {
            return Err(Error::unsupported("a subquery in ON CONFLICT DO UPDATE", Some("use MERGE INTO")));
        }
        Ok(self.state.create_logical_expr_from_sql_expr(ExprWithAlias { expr: spelled, alias: None }, columns)?)
    }
}
