//! Table functions: `table_changes('t', 3, 5)`, `table_columns('t')`, `table_constraints('t')`, `table_files('t')`, `table_fragments('t')`,
//! `table_history('t')`, `table_transactions('t')`, `table_properties('t')` and `tpch('lineitem', 0.01)`.

pub mod changes;
mod columns;
mod constraints;
mod files;
mod history;
mod of_table;
mod properties;
mod tpch;
mod transactions;

use super::lake::Lake;
use crate::error::{Error, Result};
use crate::scan::generated::mark;
use datafusion::common::ScalarValue;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::Expr;
use of_table::{FunctionOfTable, OfTable};
use std::sync::Arc;

pub use history::history;

/// Makes the functions known to a context.
pub fn register(ctx: &SessionContext, lake: &Lake) {
    ctx.register_udtf(files::Files::NAME, Arc::new(FunctionOfTable::<files::Files>::new(lake.clone())));
    ctx.register_udtf(files::Fragments::NAME, Arc::new(FunctionOfTable::<files::Fragments>::new(lake.clone())));
    ctx.register_udtf(history::History::NAME, Arc::new(FunctionOfTable::<history::History>::new(lake.clone())));
    ctx.register_udtf(columns::TableColumns::NAME, Arc::new(FunctionOfTable::<columns::TableColumns>::new(lake.clone())));
    let constraints = FunctionOfTable::<constraints::TableConstraints>::new(lake.clone());
    ctx.register_udtf(constraints::TableConstraints::NAME, Arc::new(constraints));
    ctx.register_udtf(properties::Properties::NAME, Arc::new(FunctionOfTable::<properties::Properties>::new(lake.clone())));
    ctx.register_udtf(transactions::Transactions::NAME, Arc::new(FunctionOfTable::<transactions::Transactions>::new(lake.clone())));
    ctx.register_udtf(changes::spelled::NAME, Arc::new(changes::NotSpelled));
    ctx.register_udf(mark().as_ref().clone());
    ctx.register_udtf("tpch", Arc::new(tpch::TpchFunction));
}

/// The text of an argument.
fn text(function: &str, argument: Option<&Expr>) -> Result<String> {
    match argument {
        Some(Expr::Literal(value, _)) => match value.try_as_str() {
            Some(Some(text)) => Ok(text.to_owned()),
            _ => Err(Error::invalid(format!("{function} takes a text in quotes, not {value}"))),
        },
        Some(other) => Err(Error::invalid(format!("{function} takes a text in quotes, not {other}"))),
        None => Err(Error::invalid(format!("{function} needs a text in quotes"))),
    }
}

/// The number of an argument.
fn number(function: &str, argument: Option<&Expr>) -> Result<f64> {
    let wrong = || Error::invalid(format!("{function} takes a number, as in 0.01"));
    let Some(Expr::Literal(value, _)) = argument else { return Err(wrong()) };
    match value.cast_to(&datafusion::arrow::datatypes::DataType::Float64) {
        Ok(ScalarValue::Float64(Some(number))) => Ok(number),
        _ => Err(wrong()),
    }
}
