//! `INSERT INTO t REPLACE WHERE p ..`: rows that match a predicate go, and rows that must match it come.
//!
//! ```text
//!   Dml(Insert)  Filter(all_match(p)) <- rows     =>  Union( rows, NULL, CASE WHEN all_match(p) THEN insert END <- rows
//!                                                            NULL, address, delete  <- Filter(p) <- Scan(t + address) )
//! ```
//!
//! The statement is an INSERT of rows under a filter that lets all of them through or fails: the rule knows it by that
//! filter. So it is coerced, explained and planned again like every INSERT. The filter itself is not run: the optimizer would
//! join it with filters of the query, and rows that those leave out need not match.
//!
//! Always holds: a row that comes matches the predicate where it is true, not where it is NULL; a row goes likewise.

use super::target::{Target, address_columns};
use crate::error::{Error, ErrorKind};
use crate::scan::address::{self, FRAGMENT_COLUMN, OFFSET_COLUMN};
use crate::stage::row_changes::{ACTION_COLUMN, ACTION_DELETE, ACTION_INSERT, ACTION_REPLACE};
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, ScalarValue, TableReference};
use datafusion::logical_expr::dml::{DmlStatement, InsertOp, WriteOp};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit, when,
};
use std::sync::{Arc, LazyLock};

static ALL_MATCH: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    // Volatile, so that it is evaluated for all rows, wherever the optimizer puts it.
    let signature = Signature::exact(vec![DataType::Boolean], Volatility::Volatile);
    Arc::new(ScalarUDF::from(AllMatch { signature }))
});

/// An INSERT into a table, and the predicate of a DELETE from the same table, as one statement.
pub fn statement(insert: DmlStatement, predicate: Expr) -> Result<LogicalPlan> {
    let DmlStatement { table_name, target, input, .. } = insert;
    let rows = LogicalPlanBuilder::from(Arc::unwrap_or_clone(input)).alias(table_name.clone())?;
    let rows = rows.filter(ALL_MATCH.call(vec![predicate]))?.build()?;
    Ok(LogicalPlan::Dml(DmlStatement::new(table_name, target, WriteOp::Insert(InsertOp::Append), Arc::new(rows))))
}

/// The rows of such an INSERT, and the predicate under which they replace others; `None` if it is a plain INSERT.
pub fn parts(input: &LogicalPlan) -> Option<(&LogicalPlan, &Expr)> {
    let LogicalPlan::Filter(filter) = input else { return None };
    let Expr::ScalarFunction(function) = &filter.predicate else { return None };
    function.func.inner().downcast_ref::<AllMatch>()?;
    Some((&filter.input, function.args.first()?))
}

/// The rows that come, as `columns` of `rows`, and the addresses of those that go; `of_target` says whether the former may be
/// made of the latter.
pub fn plan(
    target: &Target<'_>,
    name: &TableReference,
    (rows, of_target): (&LogicalPlan, bool),
    columns: Vec<Expr>,
    predicate: &Expr,
) -> Result<LogicalPlan> {
    let null = |data_type: &DataType| ScalarValue::try_from(data_type).map(|null| Expr::Literal(null, None));
    let mut come = columns;
    for field in address::fields() {
        come.push(null(field.data_type())?.alias(field.name()));
    }
    let all_match = ALL_MATCH.call(vec![predicate.clone()]);
    come.push(when(all_match, lit(ACTION_INSERT)).end()?.alias(ACTION_COLUMN));
    let come = LogicalPlanBuilder::from(rows.clone()).project(come)?;

    let found = LogicalPlanBuilder::scan(name.clone(), target.source(), None)?.filter(predicate.clone())?.build()?;
    let planned = target.table.schema();
    let nulls = planned.fields().iter().map(|field| Ok(null(field.data_type())?.alias(field.name())));
    let action = if of_target { ACTION_REPLACE } else { ACTION_DELETE };
    let mut go = nulls.collect::<Result<Vec<Expr>>>()?;
    let [fragment, offset] = address_columns(found.schema())?;
    go.extend([fragment.alias(FRAGMENT_COLUMN), offset.alias(OFFSET_COLUMN), lit(action).alias(ACTION_COLUMN)]);
    let go = LogicalPlanBuilder::from(found).project(go)?.build()?;
    come.union(go)?.build()
}

/// `all_match(p)`: true; or an error, if `p` is not true of some row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AllMatch {
    signature: Signature,
}

impl ScalarUDFImpl for AllMatch {
    fn name(&self) -> &str {
        "all_match"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let all = match args.args.first() {
            Some(ColumnarValue::Scalar(ScalarValue::Boolean(matches))) => *matches == Some(true) || args.number_rows == 0,
            Some(ColumnarValue::Array(matches)) if *matches.data_type() == DataType::Boolean => {
                matches.null_count() == 0 && !matches.as_boolean().has_false()
            }
            _ => return Err(Error::internal("all_match has a predicate of another type").into()),
        };
        if all {
            return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))));
        }
        let message = "a row to be inserted does not match the predicate of REPLACE WHERE".to_owned();
        Err(Error::Engine { message, kind: ErrorKind::Invalid, sqlstate: "44000" }.into())
    }
}
