//! The word DEFAULT as a value: what the table keeps for that column, or NULL. DataFusion's planner takes it for a column.
//!
//! ```text
//!   INSERT INTO t VALUES (1, DEFAULT)     INSERT INTO t VALUES (1, <default of the second column>)
//!   INSERT INTO t DEFAULT VALUES          INSERT INTO t VALUES (<default>, ..)
//!   UPDATE t SET a = DEFAULT              UPDATE t SET a = <default>, in MERGE and ON CONFLICT likewise
//! ```
//!
//! Goes in: a parsed statement. Comes out: the same without the word.

use crate::error::{Error, Result};
use crate::scan::expression;
use crate::scan::expression::fold;
use crate::scan::generated::TO_BE_GENERATED;
use crate::scan::provider::LakeTable;
use crate::table::constraint;
use datafusion::common::TableReference;
use datafusion::execution::SessionState;
use datafusion::sql::parser::DFParserBuilder;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Insert, MergeAction, MergeInsertKind, ObjectName, ObjectNamePart, OnConflictAction, OnInsert,
    Parens, SetExpr, Statement, TableFactor, TableObject, Value, visit_expressions,
};
use std::ops::ControlFlow;

/// Puts values for the word.
pub async fn put(state: &SessionState, statement: &mut Statement) -> Result<()> {
    let statement = match statement {
        Statement::Query(query) => match query.body.as_mut() {
            SetExpr::Insert(inner) | SetExpr::Update(inner) | SetExpr::Merge(inner) => inner,
            _ => return Ok(()),
        },
        statement => statement,
    };
    let table = match statement {
        Statement::Insert(Insert { table: TableObject::TableName(name), .. }) => name,
        Statement::Update(update) => match &update.table.relation {
            TableFactor::Table { name, .. } => name,
            _ => return Ok(()),
        },
        Statement::Merge(merge) => match &merge.table {
            TableFactor::Table { name, .. } => name,
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    let (Ok(table), true) = (
        object_name_to_table_reference(table.clone(), state.config_options().sql_parser.enable_ident_normalization),
        says_default(statement),
    ) else {
        return Ok(());
    };
    let Some(defaults) = Defaults::of(state, &table).await? else { return Ok(()) };
    match statement {
        Statement::Insert(insert) => defaults.insert(insert),
        Statement::Update(update) => defaults.assignments(&mut update.assignments),
        Statement::Merge(merge) => merge.clauses.iter_mut().try_for_each(|clause| match &mut clause.action {
            MergeAction::Update(update) => defaults.assignments(&mut update.assignments),
            MergeAction::Insert(insert) => match &mut insert.kind {
                MergeInsertKind::Values(values) => values.rows.iter_mut().try_for_each(|row| defaults.row(&insert.columns, row)),
                MergeInsertKind::Row => Ok(()),
            },
            MergeAction::Delete { .. } => Ok(()),
        }),
        _ => Ok(()),
    }
}

/// Whether the word may be in a statement, so that its table has to be looked at.
fn says_default(statement: &Statement) -> bool {
    match statement {
        Statement::Insert(Insert { source: None, .. }) => true,
        statement => visit_expressions(statement, |expr| if is_default(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            .is_break(),
    }
}

fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("DEFAULT"))
}

/// The columns of a table and their defaults.
struct Defaults {
    table: String,
    columns: Vec<(String, Expr)>,
}

impl Defaults {
    /// Those of a table of the lake.
    async fn of(state: &SessionState, table: &TableReference) -> Result<Option<Defaults>> {
        let Ok(schema) = state.schema_for_ref(table.clone()) else { return Ok(None) };
        let Some(provider) = schema.table(table.table()).await? else { return Ok(None) };
        let Some(lake_table) = provider.downcast_ref::<LakeTable>() else { return Ok(None) };
        let (table, snapshot) = (lake_table.log().table(), &lake_table.planned().snapshot);
        let kept = constraint::defaults(&snapshot.config);
        let generated = constraint::generated(&snapshot.config).map_err(|reason| Error::damaged(table, "its properties", reason))?;
        let to_be_generated = DFParserBuilder::new(format!("{TO_BE_GENERATED}()").as_str()).build()?.parse_expr()?.expr;
        let columns = snapshot.schema.columns().map(|column| {
            let value = match kept.get(&column.id) {
                _ if generated.iter().any(|generated| generated.field == column.id) => to_be_generated.clone(),
                Some(kept) => expression::named(table, kept, &snapshot.schema)?,
                None => Expr::Value(Value::Null.into()),
            };
            Ok((column.name.clone(), value))
        });
        Ok(Some(Defaults { table: table.to_owned(), columns: columns.collect::<Result<_>>()? }))
    }

    fn named(&self, column: &ObjectName) -> Option<Expr> {
        let name = column.0.last().and_then(ObjectNamePart::as_ident).map(fold)?;
        self.columns.iter().find(|(column, _)| *column == name).map(|(_, value)| value.clone())
    }

    /// The values of a row that gives these columns, or all.
    fn row(&self, columns: &[ObjectName], row: &mut Parens<Vec<Expr>>) -> Result<()> {
        for (at, value) in row.content.iter_mut().enumerate().filter(|(_, value)| is_default(value)) {
            let default = match columns {
                [] => self.columns.get(at).map(|(_, value)| value.clone()),
                columns => columns.get(at).and_then(|column| self.named(column)),
            };
            let unknown = || Error::invalid(format!("DEFAULT stands for no column of table '{}'", self.table));
            *value = default.ok_or_else(unknown)?;
        }
        Ok(())
    }

    fn assignments(&self, assignments: &mut [Assignment]) -> Result<()> {
        for Assignment { target, value } in assignments {
            match target {
                AssignmentTarget::ColumnName(column) if is_default(value) => {
                    if let Some(default) = self.named(column) {
                        *value = default;
                    }
                }
                AssignmentTarget::Tuple(columns) => {
                    if let Expr::Tuple(values) = value {
                        for (column, value) in columns.iter().zip(values).filter(|(_, value)| is_default(value)) {
                            if let Some(default) = self.named(column) {
                                *value = default;
                            }
                        }
                    }
                }
                AssignmentTarget::ColumnName(_) => {}
            }
        }
        Ok(())
    }

    fn insert(&self, insert: &mut Insert) -> Result<()> {
        if insert.source.is_none() && insert.assignments.is_empty() && insert.columns.is_empty() {
            let values = self.columns.iter().map(|(_, value)| format!("({value})")).collect::<Vec<_>>().join(", ");
            let row = format!("VALUES ({values})");
            let mut parser = DFParserBuilder::new(row.as_str()).build()?;
            insert.source = Some(parser.parser.parse_query().map_err(datafusion::common::DataFusionError::from)?);
        }
        if let Some(source) = &mut insert.source
            && let SetExpr::Values(values) = source.body.as_mut()
        {
            values.rows.iter_mut().try_for_each(|row| self.row(&insert.columns, row))?;
        }
        match &mut insert.on {
            Some(OnInsert::OnConflict(conflict)) => match &mut conflict.action {
                OnConflictAction::DoUpdate(update) => self.assignments(&mut update.assignments),
                OnConflictAction::DoNothing => Ok(()),
            },
            _ => Ok(()),
        }
    }
}
