//! CHECK: the conditions that rows are held to before they are written.
//!
//! Goes in: rows on their way to a file. Comes out: nothing, or an error that names the constraint and the row.
//! Always holds: a condition that is NULL lets the row in.

use crate::error::{Error, Result};
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::cast::as_boolean_array;
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// How many columns of a row are shown.
const SHOWN_COLUMNS: usize = 16;

/// One condition.
#[derive(Debug, Clone)]
pub struct Check {
    /// The name of the constraint.
    pub name: String,
    /// The condition in words.
    pub shown: String,
    /// The condition, over the columns that are written.
    pub condition: Arc<dyn PhysicalExpr>,
}

/// Refuses rows of which one violates a check.
pub fn hold(table: &str, checks: &[Check], rows: &RecordBatch) -> Result<()> {
    for check in checks.iter().filter(|_| rows.num_rows() > 0) {
        let holds = check.condition.evaluate(rows)?.into_array(rows.num_rows())?;
        // A condition that is the constant NULL has no type of its own.
        if holds.data_type().is_null() {
            continue;
        }
        if let Some(row) = as_boolean_array(&holds)?.iter().position(|holds| holds == Some(false)) {
            return Err(violation(table, &check.name, &check.shown, rows, row));
        }
    }
    Ok(())
}

/// The error for a row that violates a constraint.
pub fn violation(table: &str, constraint: &str, condition: &str, rows: &RecordBatch, row: usize) -> Error {
    Error::CheckViolation {
        table: table.to_owned(),
        constraint: constraint.to_owned(),
        condition: condition.to_owned(),
        row: shown(rows, row),
    }
}

/// A row in words.
pub fn shown(rows: &RecordBatch, row: usize) -> String {
    let options = FormatOptions::default().with_null("NULL");
    let schema = rows.schema();
    let value = |(field, column): (&Arc<datafusion::arrow::datatypes::Field>, &Arc<dyn Array>)| {
        let value = ArrayFormatter::try_new(column, &options).map_or_else(|_| "?".to_owned(), |format| format.value(row).to_string());
        format!("{} = {value}", field.name())
    };
    let mut values: Vec<String> = schema.fields().iter().zip(rows.columns()).take(SHOWN_COLUMNS).map(value).collect();
    if rows.num_columns() > SHOWN_COLUMNS {
        values.push("..".to_owned());
    }
    values.join(", ")
}
