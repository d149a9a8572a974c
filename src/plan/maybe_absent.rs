//! `maybe_absent(value)`: the value, of which it is not said that it is never NULL.
//!
//! A scalar subquery of no rows is NULL, whatever its column is; DataFusion 55.2 takes over what is known of the column, and answers
//! `(SELECT id FROM t WHERE false) IS NULL` with false, unseen.

use crate::error::Error;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::sync::{Arc, LazyLock};

static MAYBE_ABSENT: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(MaybeAbsent { signature: Signature::any(1, Volatility::Immutable) })));

/// The value, which may be NULL.
pub fn maybe_absent(value: Expr) -> Expr {
    MAYBE_ABSENT.call(vec![value])
}

/// Whether the expression is such a value.
pub fn is_maybe_absent(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<MaybeAbsent>())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MaybeAbsent {
    signature: Signature,
}

impl ScalarUDFImpl for MaybeAbsent {
    fn name(&self) -> &str {
        "maybe_absent"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(|| Error::internal("maybe_absent has no value").into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args.into_iter().next().ok_or_else(|| Error::internal("maybe_absent has no value").into())
    }
}
