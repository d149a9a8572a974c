//! The value that a new column has in the rows that are there: its DEFAULT, computed once.
//!
//! Goes in: the DEFAULT of ADD COLUMN. Comes out: the value as the field keeps it, or that there is none.
//! Always holds: what is kept is read back as the same value.

use crate::error::{Error, Result};
use crate::scan::expression;
use crate::scan::statistics::{from_scalar, to_scalar};
use crate::table::stats::StatValue;
use datafusion::arrow::datatypes::Field;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::dataframe::DataFrame;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{ExprSchemable, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::Expr as SqlExpr;

/// What to say of a value that cannot be kept.
const INSTEAD: &str = "add it without DEFAULT, UPDATE the rows that are there, then ALTER COLUMN .. SET DEFAULT";

/// The value of a default for a column; `None` is NULL.
pub async fn value(state: &SessionState, table: &str, column: &Field, default: &SqlExpr) -> Result<Option<StatValue>> {
    let (name, data_type) = (column.name(), column.data_type());
    let kept = expression::default(table, default, name, data_type)?;
    let expr = expression::default_value(table, &kept)?;
    let refuse = |what: &str| {
        let what = format!("ADD COLUMN '{name}' on table '{table}' with the DEFAULT {default}, {what},");
        Err(Error::unsupported(what, Some(INSTEAD)))
    };
    if expr.exists(|part| Ok(part.is_volatile_node()))? {
        return refuse("which says something else for each row");
    }
    let of_type = expr.cast_to(data_type, &DFSchema::empty())?;
    let plan = LogicalPlanBuilder::empty(true).project([of_type])?.build()?;
    let rows = DataFrame::new(state.clone(), plan).collect().await?;
    let first = rows.iter().find(|batch| batch.num_rows() > 0).and_then(|batch| batch.columns().first());
    let first = first.ok_or_else(|| Error::internal(format!("the default of column '{name}' has no value")))?;
    let value = ScalarValue::try_from_array(first, 0)?;
    if value.is_null() {
        return Ok(None);
    }
    match from_scalar(&value) {
        Some(kept) if to_scalar(&kept, data_type).as_ref() == Some(&value) => Ok(Some(kept)),
        _ => refuse("which is of a type whose values the definition of a column does not hold"),
    }
}
