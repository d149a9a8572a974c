//! `proposed(holds, columns..)`: true, or the error for a row that a constraint does not let in.
//!
//! A row of INSERT .. ON CONFLICT is held to NOT NULL and CHECK before its key is looked for, as in PostgreSQL: a row that
//! could not be inserted is an error, also if another has its key.
//!
//! Goes in: the rows that are to be inserted, in the table's types. Comes out: the same rows. Always holds: a condition that is
//! NULL lets the row in.

use crate::error::{Error, Result};
use crate::scan::expression;
use crate::scan::provider::LakeTable;
use crate::stage::checks;
use crate::table::constraint::{self, Rule};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, Result as EngineResult, ScalarValue};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::sync::Arc;

/// The rows, held to what the table asks of each.
pub fn held(rows: LogicalPlan, table: &LakeTable) -> Result<LogicalPlan> {
    let (name, snapshot) = (table.log().table(), &table.planned().snapshot);
    let fields = table.schema().fields().clone();
    let all = constraint::constraints(&snapshot.config).map_err(|reason| Error::damaged(name, "its properties", reason))?;
    let mut conditions = Vec::new();
    for field in fields.iter().filter(|field| !field.is_nullable()) {
        let column = field.name().clone();
        conditions.push((Expr::Column(Column::from_name(&column)).is_not_null(), Asks::NotNull { column }));
    }
    for constraint in all {
        let Rule::Check(kept) = &constraint.rule else { continue };
        let shown = format!("({})", expression::named(name, kept, &snapshot.schema)?);
        let condition = expression::condition(name, kept, &snapshot.schema)?;
        conditions.push((condition, Asks::Check { constraint: constraint.name, shown }));
    }
    if conditions.is_empty() {
        return Ok(rows);
    }
    let typed = fields.iter().map(|field| {
        let column = Expr::Column(Column::from_name(field.name()));
        Ok(column.cast_to(field.data_type(), rows.schema())?.alias(field.name()))
    });
    let typed = LogicalPlanBuilder::from(rows.clone()).project(typed.collect::<Result<Vec<_>>>()?)?;
    let columns: Vec<Expr> = fields.iter().map(|field| Expr::Column(Column::from_name(field.name()))).collect();
    let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
    let held = conditions.into_iter().map(|(condition, asks)| {
        // Volatile, so that it stays where it is put.
        let signature = Signature::variadic_any(Volatility::Volatile);
        let function = ScalarUDF::from(Proposed { signature, table: name.to_owned(), names: names.clone(), asks });
        function.call([vec![condition], columns.clone()].concat())
    });
    match conjunction(held) {
        Some(held) => Ok(typed.filter(held)?.build()?),
        None => Ok(typed.build()?),
    }
}

/// What is asked of a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Asks {
    NotNull { column: String },
    Check { constraint: String, shown: String },
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Proposed {
    signature: Signature,
    table: String,
    /// What the columns after the condition are called.
    names: Vec<String>,
    asks: Asks,
}

impl Proposed {
    /// The error for one of these rows.
    fn violation(&self, values: &[ColumnarValue], rows: usize, row: usize) -> Result<Error> {
        let Asks::Check { constraint, shown } = &self.asks else {
            return Err(Error::internal("a CHECK was to be told"));
        };
        let arrays = values.iter().map(|value| value.to_array(rows)).collect::<EngineResult<Vec<_>>>()?;
        let field = |(name, array): (&String, &Arc<dyn datafusion::arrow::array::Array>)| Field::new(name, array.data_type().clone(), true);
        let schema = Schema::new(self.names.iter().zip(&arrays).map(field).collect::<Vec<_>>());
        let batch = RecordBatch::try_new(Arc::new(schema), arrays).map_err(|error| Error::internal(format!("a row to tell: {error}")))?;
        Ok(checks::violation(&self.table, constraint, shown, &batch, row))
    }
}

impl ScalarUDFImpl for Proposed {
    fn name(&self) -> &str {
        "proposed"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> EngineResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        let Some((holds, values)) = args.args.split_first() else {
            return Err(Error::internal("proposed has no condition").into());
        };
        let holds = holds.cast_to(&DataType::Boolean, None)?.to_array(args.number_rows)?;
        if let Some(row) = holds.as_boolean().iter().position(|holds| holds == Some(false)) {
            return Err(match &self.asks {
                Asks::NotNull { column } => Error::NotNull { table: self.table.clone(), column: column.clone() },
                Asks::Check { .. } => self.violation(values, args.number_rows, row)?,
            }
            .into());
        }
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))))
    }
}
