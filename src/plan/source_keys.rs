//! The keys that the source of a MERGE brings: noted as they pass, so that of the target only rows of those keys count as
//! read, and MERGEs of different keys do not stand in each other's way.
//!
//! ```text
//!   ON t.k = s.k AND ..     ->     ON t.k = __amend_key AND ..      over      source, noted(s.k) AS __amend_key
//! ```
//!
//! Goes in: the condition of the join. Comes out: the same with its first equality of a target's with a source's expression put
//! like this; nothing if it has none.
//! Always holds: every source row passes before the join, or nothing is made of the keys: an inner join may end without having
//! read all of the source ([`all_read`]). The function is volatile, so that it is not moved or left out.

use crate::error::Error;
use crate::scan::keys::Keys;
use crate::scan::provider::LakeTable;
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, TableReference};
use datafusion::logical_expr::JoinType;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The key of a source row.
const KEY_COLUMN: &str = "__amend_key";

/// The name of the function that notes them.
const NOTED: &str = "noted";

/// A join whose keys are noted.
pub struct Noted {
    /// Its condition.
    pub on: Expr,
    /// The column that its source must have.
    pub source_key: Expr,
    /// What the condition compares it with.
    pub target_key: Expr,
    /// Where the keys will be.
    pub keys: Arc<Keys>,
}

/// The join of a target, under its name in the statement, with a source; `None` if its condition has no equality of the two.
pub fn note(on: &Expr, table: &LakeTable, name: &TableReference, source: &DFSchemaRef) -> Result<Option<Noted>> {
    let target = DFSchema::try_from_qualified_schema(name.clone(), &table.schema())?;
    let is_of = |expr: &Expr, schema: &DFSchema| {
        let columns = expr.column_refs();
        !columns.is_empty() && columns.into_iter().all(|column| schema.has_column(column)) && !expr.is_volatile()
    };
    let conjuncts = split_conjunction(on);
    for (position, conjunct) in conjuncts.iter().enumerate() {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = conjunct else { continue };
        // A name that both have belongs to neither for certain.
        let (of_target, of_source) = match (is_of(left, &target), is_of(right, source), is_of(right, &target), is_of(left, source)) {
            (true, true, false, false) => (left, right),
            (false, false, true, true) => (right, left),
            _ => continue,
        };
        let types = (of_target.get_type(&target)?, of_source.get_type(source)?);
        let Some(common) = comparison_coercion(&types.0, &types.1).filter(|common| !common.is_nested()) else { continue };
        let target_key = of_target.as_ref().clone().cast_to(&common, &target)?;
        let keys = Arc::<Keys>::default();
        let noted = ScalarUDF::from(NoteKeys { signature: Signature::any(1, Volatility::Volatile), keys: keys.clone() });
        let source_key = noted.call(vec![of_source.as_ref().clone().cast_to(&common, source.as_ref())?]).alias(KEY_COLUMN);
        let equal = target_key.clone().eq(Expr::Column(Column::from_name(KEY_COLUMN)));
        let others = conjuncts.iter().enumerate().filter(|(other, _)| *other != position).map(|(_, other)| (*other).clone());
        let on = conjunction([equal].into_iter().chain(others)).ok_or_else(|| Error::internal("a join without its condition"))?;
        return Ok(Some(Noted { on, source_key, target_key, keys }));
    }
    Ok(None)
}

/// Whether a plan reads all rows of the source whose keys are noted, whatever it finds in the target.
pub fn all_read(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>()
        && projection.expr().iter().any(|projected| projected.expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(|f| f.name() == NOTED))
    {
        return true;
    }
    let reads = |side: Option<&&Arc<dyn ExecutionPlan>>| side.is_some_and(|side| all_read(side));
    let children = plan.children();
    let join = plan.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
    let join = join.or_else(|| plan.downcast_ref::<SortMergeJoinExec>().map(|join| join.join_type()));
    let join = join.or_else(|| plan.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type()));
    match join {
        Some(JoinType::Left | JoinType::LeftAnti) => reads(children.first()),
        Some(JoinType::Right | JoinType::RightAnti) => reads(children.get(1)),
        Some(JoinType::Full) => children.iter().any(|child| all_read(child)),
        Some(_) => false,
        None => plan.fetch().is_none() && children.iter().any(|child| all_read(child)),
    }
}

/// Gives its argument back, and keeps it.
#[derive(Debug)]
struct NoteKeys {
    signature: Signature,
    keys: Arc<Keys>,
}

impl PartialEq for NoteKeys {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.keys, &other.keys)
    }
}

impl Eq for NoteKeys {}

impl Hash for NoteKeys {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.keys).hash(state);
    }
}

impl ScalarUDFImpl for NoteKeys {
    fn name(&self) -> &str {
        NOTED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(|| Error::internal("a key that is nothing").into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let key = args.args.into_iter().next().ok_or_else(|| Error::internal("a key that is nothing"))?;
        if rows > 0 {
            self.keys.note(&key.to_array(if matches!(key, ColumnarValue::Scalar(_)) { 1 } else { rows })?)?;
        }
        Ok(key)
    }
}
