//! `only_row(value, rows)`: a value that comes of so many rows, which must not be more than one.
//!
//! The value of a scalar subquery is that of its only row. DataFusion takes a correlated one only if an aggregate gives it
//! one row; so it is put as the first value and the count of its rows, and this function looks at the count, for those
//! outer rows that there are.

use crate::error::{Error, ErrorKind};
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::sync::{Arc, LazyLock};

static ONLY_ROW: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    // Volatile, so that it is not evaluated where there are no rows.
    let signature = Signature::any(2, Volatility::Volatile);
    Arc::new(ScalarUDF::from(OnlyRow { signature }))
});

/// The value, if there are not several rows.
pub fn only_row(value: Expr, rows: Expr) -> Expr {
    ONLY_ROW.call(vec![value, rows])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyRow {
    signature: Signature,
}

impl ScalarUDFImpl for OnlyRow {
    fn name(&self) -> &str {
        "only_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(|| Error::internal("only_row has no value").into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut args = args.args.into_iter();
        let (Some(value), Some(rows)) = (args.next(), args.next()) else {
            return Err(Error::internal("only_row has no count").into());
        };
        let several = match &rows {
            ColumnarValue::Scalar(ScalarValue::Int64(rows)) => rows.is_some_and(|rows| rows > 1),
            ColumnarValue::Array(rows) if *rows.data_type() == DataType::Int64 => {
                rows.as_primitive::<Int64Type>().iter().flatten().any(|rows| rows > 1)
            }
            _ => return Err(Error::internal("only_row has a count of another type").into()),
        };
        if several {
            let message = "a subquery that is used as a value yields more than one row".to_owned();
            return Err(Error::Engine { message, kind: ErrorKind::Invalid, sqlstate: "21000" }.into());
        }
        Ok(value)
    }
}
