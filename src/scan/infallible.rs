//! Expressions that cannot fail, whatever the row: only those may be evaluated on rows that are deleted, which a reader decodes
//! before the mask takes them out. `1 / (k - 5)` fails on the row of 5, also when that row was deleted.
//!
//! Goes in: an expression of a plan. Always holds: what is not known is taken to fail.

use crate::table::schema::FieldType;
use datafusion::arrow::datatypes::Schema;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr, TryCastExpr,
};
use std::sync::Arc;

/// Whether an expression over columns of `schema` has a value for every row.
pub fn cannot_fail(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let itself = if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        compares(binary.op())
    } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(schema);
        from.is_ok_and(|from| FieldType::Leaf(from).widens_to(&FieldType::Leaf(cast.cast_type().clone())))
    } else {
        expr.is::<Column>()
            || expr.is::<Literal>()
            || expr.is::<NotExpr>()
            || expr.is::<IsNullExpr>()
            || expr.is::<IsNotNullExpr>()
            || expr.is::<InListExpr>()
            || expr.is::<LikeExpr>()
            || expr.is::<TryCastExpr>()
            // What it compares its children with is values.
            || expr.is::<DynamicFilterPhysicalExpr>()
    };
    itself && expr.children().into_iter().all(|child| cannot_fail(child, schema))
}

fn compares(operator: &Operator) -> bool {
    matches!(
        operator,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::And
            | Operator::Or
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion::common::ToDFSchema;
    use datafusion::logical_expr::{Expr, cast, col, lit, try_cast};
    use datafusion::physical_expr::create_physical_expr;

    #[test]
    fn comparisons_cannot_fail_and_arithmetic_can() {
        let schema = Schema::new(vec![Field::new("k", DataType::Int32, true), Field::new("w", DataType::Utf8, true)]);
        let named = schema.clone().to_dfschema().unwrap();
        let whether =
            |expr: &Expr| cannot_fail(&create_physical_expr(expr, &named, &Default::default(), &Default::default()).unwrap(), &schema);
        for safe in [
            col("k"),
            col("k").eq(lit(5)).and(col("w").like(lit("a%")).or(col("k").is_null())),
            col("k").in_list(vec![lit(1), lit(2)], true),
            cast(col("k"), DataType::Int64).gt(lit(5i64)),
            try_cast(col("w"), DataType::Int32).is_not_null(),
        ] {
            assert!(whether(&safe), "{safe}");
        }
        for fails in [
            lit(1) / (col("k") - lit(5)),
            (col("k") + lit(1)).gt(lit(0)),
            cast(col("w"), DataType::Int32).eq(lit(1)),
            col("k").eq(lit(1)).and(lit(1).eq(lit(10) / col("k"))),
        ] {
            assert!(!whether(&fails), "{fails}");
        }
    }
}
