//! Generated columns: what a table keeps of them, planned; and the word for a value that is to be generated.
//!
//! Goes in: the properties of a table. Comes out: for each generated column an expression over the other columns, of its type.
//! Always holds: it says the same of the same row in every session, and names no generated column.

use super::expression::{self, check_one_row};
use crate::error::{Error, Result};
use crate::manifest::snapshot::Snapshot;
use crate::table::constraint::{self, Generated};
use crate::table::schema::{Field, FieldId, TableSchema};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result as EngineResult};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast};
use datafusion::sql::sqlparser::ast::Expr as SqlExpr;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

/// What stands for DEFAULT where a column is generated.
pub const TO_BE_GENERATED: &str = "__amend_generated";

static MARK: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    // Volatile, so that it is not evaluated where it is only to be found.
    Arc::new(ScalarUDF::from(Mark { signature: Signature::nullary(Volatility::Volatile) }))
});

/// The function that stands for a value which is to be generated.
pub fn mark() -> Arc<ScalarUDF> {
    MARK.clone()
}

/// Whether an expression is that.
pub fn is_mark(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_mark(&alias.expr),
        Expr::Cast(cast) => is_mark(&cast.expr),
        Expr::ScalarFunction(function) => function.func.inner().downcast_ref::<Mark>().is_some(),
        _ => false,
    }
}

static WHOLE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::from(Whole { signature }))
});

/// The same value, of which a part is not taken further down in a plan: DataFusion's optimizer would put the column beside itself there.
pub fn whole(column: Expr) -> Expr {
    WHOLE.call(vec![column])
}

/// A generated column.
#[derive(Debug, Clone)]
pub struct GeneratedColumn {
    /// Its position.
    pub position: usize,
    /// Its name.
    pub name: String,
    /// The columns that it is made of.
    pub inputs: BTreeSet<FieldId>,
    /// Its value, over the names of the columns.
    pub value: Expr,
}

/// The generated columns of a version.
pub fn of(table: &str, snapshot: &Snapshot) -> Result<Vec<GeneratedColumn>> {
    let kept = constraint::generated(&snapshot.config).map_err(|reason| Error::damaged(table, "its properties", reason))?;
    let schema = &snapshot.schema;
    let column = |kept: Generated| {
        let (position, field) = schema.columns().enumerate().find(|(_, field)| field.id == kept.field)?;
        let value = value(table, &kept.expression, schema, field);
        Some(value.map(|value| GeneratedColumn { position, name: field.name.clone(), inputs: kept.inputs.into_iter().collect(), value }))
    };
    kept.into_iter().filter_map(column).collect()
}

/// What a column is generated from, as it is kept. Refuses what cannot be that.
pub fn kept(table: &str, schema: &TableSchema, field: &Field, expr: &SqlExpr, generated: &BTreeSet<FieldId>) -> Result<Generated> {
    let (expression, inputs) = expression::kept(table, expr, schema)?;
    if let Some(input) = inputs.iter().find(|input| generated.contains(input)) {
        let input = schema.field(*input).map(|input| input.name.clone()).unwrap_or_default();
        let reason = format!("the expression of column '{}' of table '{table}' names '{input}', which is generated itself", field.name);
        return Err(Error::Refused { reason, sqlstate: "42P17" });
    }
    check(table, &expression, schema, field)?;
    expression::hold_no_text(table, &expression, schema, Some(&type_of(schema, field)?))?;
    Ok(Generated { field: field.id, inputs: inputs.into_iter().collect(), expression })
}

/// Refuses what cannot be the value of a generated column, or not be computed.
pub fn check(table: &str, kept: &str, schema: &TableSchema, field: &Field) -> Result<()> {
    let columns = DFSchema::try_from(schema.to_plain_arrow().as_ref().clone())?;
    expression::physical(&*expression::ENGINE, value(table, kept, schema, field)?, &columns)?;
    Ok(())
}

/// The value of a generated column, planned.
fn value(table: &str, kept: &str, schema: &TableSchema, field: &Field) -> Result<Expr> {
    let expr = expression::planned(table, kept, schema)?;
    check_one_row("GENERATED ALWAYS AS", &expr)?;
    let changes = |part: &Expr| match part {
        Expr::ScalarFunction(function) => function.func.signature().volatility != Volatility::Immutable,
        _ => false,
    };
    if expr.exists(|part| Ok(changes(part)))? {
        let reason = format!("the expression of column '{}' of table '{table}' may say something else of the same row later", field.name);
        return Err(Error::Refused { reason, sqlstate: "42P17" });
    }
    let columns = DFSchema::try_from(schema.to_plain_arrow().as_ref().clone())?;
    Ok(expression::coerced(cast(expr, type_of(schema, field)?), &columns)?)
}

fn type_of(schema: &TableSchema, column: &Field) -> Result<DataType> {
    let found = schema.to_plain_arrow().field_with_name(&column.name).map(|field| field.data_type().clone());
    found.map_err(|e| Error::internal(format!("a generated column: {e}")))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Whole {
    signature: Signature,
}

impl ScalarUDFImpl for Whole {
    fn name(&self) -> &str {
        "__amend_whole"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> EngineResult<DataType> {
        types.first().cloned().ok_or_else(|| Error::internal("a whole without a value").into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        args.args.into_iter().next().ok_or_else(|| Error::internal("a whole without a value").into())
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Mark {
    signature: Signature,
}

impl ScalarUDFImpl for Mark {
    fn name(&self) -> &str {
        TO_BE_GENERATED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> EngineResult<DataType> {
        Ok(DataType::Null)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        Err(Error::invalid(format!("{TO_BE_GENERATED} stands for the value of a generated column, and is none")).into())
    }
}
