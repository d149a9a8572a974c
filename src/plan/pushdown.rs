//! DataFusion's pushdown of filters in physical plans, kept from plans that it would get wrong.
//!
//! On its way down a filter is mapped to the columns of each child by their bare names. Where a child has two columns of one
//! name, as what joins yield often has, it ends up at the wrong one, and rows are missing. (DataFusion maps by position from the
//! release after 55.2 on.)
//!
//! Goes in: a plan. Comes out: what the rule makes of it, or the same plan. Always holds: a rule is left out only if a filter
//! could come by a child with two columns of one name; filters that are pushed down in the logical plan are not touched.

use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use std::collections::HashSet;
use std::sync::Arc;

/// The names of the rules.
const RULES: [&str; 2] = ["FilterPushdown", "FilterPushdown(Post)"];

/// Guards the rules of a session.
pub fn guard(state: &mut SessionState) {
    let guarded = |rule: &Arc<dyn PhysicalOptimizerRule + Send + Sync>| -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
        if RULES.contains(&rule.name()) { Arc::new(Guarded { rule: rule.clone() }) } else { rule.clone() }
    };
    let rules = state.physical_optimizers().iter().map(guarded).collect();
    let creates = state.config_options().catalog.create_default_catalog_and_schema;
    let builder = SessionStateBuilder::new_from_existing(state.clone()).with_session_id(state.session_id().to_owned());
    *state = builder.with_physical_optimizer_rules(rules).build();
    // The builder looked whether there is a default catalog, and said so in the settings.
    state.config_mut().options_mut().catalog.create_default_catalog_and_schema = creates;
}

#[derive(Debug)]
struct Guarded {
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl PhysicalOptimizerRule for Guarded {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if is_ambiguous(plan.as_ref(), false) { Ok(plan) } else { self.rule.optimize(plan, config) }
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

/// Whether a filter may be mapped to columns of which two have one name. `arrive` is whether filters come from above: they begin
/// at filters, hash joins, sorts and aggregates.
fn is_ambiguous(node: &dyn ExecutionPlan, arrive: bool) -> bool {
    let projects = node.is::<ProjectionExec>();
    if arrive && ((projects && has_twice(&node.schema())) || node.children().iter().any(|child| has_twice(&child.schema()))) {
        return true;
    }
    let begins = node.is::<FilterExec>() || node.is::<HashJoinExec>() || node.is::<SortExec>() || node.is::<AggregateExec>();
    node.children().into_iter().any(|child| is_ambiguous(child.as_ref(), arrive || begins))
}

/// Whether two columns have one name.
fn has_twice(schema: &Schema) -> bool {
    let mut names = HashSet::new();
    !schema.fields().iter().all(|field| names.insert(field.name()))
}
