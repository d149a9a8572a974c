//! Some of the columns of a plan, and nothing read for the others.
//!
//! Which form an UPDATE has is known only when its plan is physical, and reads all columns by then. A projection of bare columns
//! moves down through filters and joins into the scan; one that computes does not, so it is parted from them.
//!
//! Goes in: a plan and positions of its columns. Comes out: a plan that yields those, in that order.

use crate::error::{Error, Result};
use datafusion::common::Result as EngineResult;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, remove_unnecessary_projections};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The columns of `input` at these positions.
pub fn only_columns(input: Arc<dyn ExecutionPlan>, positions: &[usize]) -> EngineResult<Arc<dyn ExecutionPlan>> {
    let Some(projection) = input.downcast_ref::<ProjectionExec>() else { return bare(input, positions) };
    let kept = positions.iter().map(|at| projection.expr().get(*at).cloned().ok_or_else(|| missing(*at)));
    let kept = kept.collect::<Result<Vec<_>>>()?;
    let needed: BTreeSet<usize> = kept.iter().flat_map(|kept| collect_columns(&kept.expr)).map(|column| column.index()).collect();
    let needed: Vec<usize> = needed.into_iter().collect();
    let moved = |expr: Arc<dyn PhysicalExpr>| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let at = needed.binary_search(&column.index()).map_err(|_| missing(column.index()))?;
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as Arc<dyn PhysicalExpr>))
    };
    let exprs = kept.into_iter().map(|kept| Ok(ProjectionExpr::new(kept.expr.transform_up(moved).data()?, kept.alias)));
    let exprs = exprs.collect::<EngineResult<Vec<_>>>()?;
    Ok(Arc::new(ProjectionExec::try_new(exprs, bare(projection.input().clone(), &needed)?)?))
}

/// Bare columns, from as far down as they can come.
fn bare(input: Arc<dyn ExecutionPlan>, positions: &[usize]) -> EngineResult<Arc<dyn ExecutionPlan>> {
    let schema = input.schema();
    let exprs = positions.iter().map(|at| {
        let name = schema.fields().get(*at).map(|field| field.name().clone()).ok_or_else(|| missing(*at))?;
        Ok(ProjectionExpr::new(Arc::new(Column::new(&name, *at)), name))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let projection: Arc<dyn ExecutionPlan> = Arc::new(ProjectionExec::try_new(exprs, input)?);
    projection.transform_down(remove_unnecessary_projections).data()
}

fn missing(at: usize) -> Error {
    Error::internal(format!("the plan of an UPDATE has no column {at}"))
}
