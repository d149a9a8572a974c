//! Installing amend in a `SessionContext` that a host owns: no fork of DataFusion, no context of another type.

use super::catalog::LakeCatalog;
use super::functions;
use super::lake::Lake;
use super::views::Planner;
use crate::error::{Error, Result};
use crate::plan::options::AmendOptions;
use crate::plan::pushdown;
use crate::plan::rule::AmendRule;
use crate::scan::pin::SessionView;
use datafusion::common::Result as EngineResult;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::planner::{RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::sql::sqlparser::ast::TableFactor;
use std::sync::Arc;

/// Makes the tables of `lake` readable and writable in `ctx`: `ctx.sql("UPDATE ..")` works from then on, and so do
/// INSERT, DELETE, MERGE, TRUNCATE, EXPLAIN, PREPARE and time travel by `"t@v12"`.
///
/// The namespaces of the lake appear as schemas of the context's default catalog, beside what is there; those that others make are
/// known once a table was looked for. Each statement commits by itself; for transactions, OPTIMIZE and DDL on the lake use
/// [`Session`](crate::Session). Views of the lake are planned by `ctx`, so it has to be kept.
pub fn install(ctx: &SessionContext, lake: &Lake) -> Result<()> {
    install_with(ctx, lake).map(drop)
}

/// Likewise. What plans the lake's views in `ctx`.
pub(super) fn install_with(ctx: &SessionContext, lake: &Lake) -> Result<Planner> {
    let (catalog_name, view) = {
        let state = ctx.state_ref();
        let mut state = state.write();
        pushdown::guard(&mut state);
        let view = state.config().get_extension::<SessionView>();
        let options = state.config_mut().options_mut();
        options.extensions.insert(AmendOptions::default());
        (options.catalog.default_catalog.clone(), view)
    };
    let others = ctx
        .catalog(&catalog_name)
        .ok_or_else(|| Error::invalid(format!("the SessionContext has no catalog '{catalog_name}' to put a lake in")))?;
    let planner = Planner::new(ctx, &catalog_name);
    ctx.register_catalog(&catalog_name, Arc::new(LakeCatalog::new(lake.clone(), others, view, planner.clone())));
    ctx.add_analyzer_rule(Arc::new(AmendRule));
    ctx.register_relation_planner(Arc::new(NoSilentVersions))?;
    functions::register(ctx, lake);
    Ok(planner)
}

/// Refuses `t VERSION AS OF n` where DataFusion would read the newest version and say nothing.
#[derive(Debug)]
struct NoSilentVersions;

impl RelationPlanner for NoSilentVersions {
    fn plan_relation(&self, relation: TableFactor, _: &mut dyn RelationPlannerContext) -> EngineResult<RelationPlanning> {
        match &relation {
            TableFactor::Table { name, version: Some(version), .. } => {
                let instead = "write \"t@v3\" for version 3 of t, or use amend::Session";
                Err(Error::unsupported(format!("'{name} {version}' in this SessionContext"), Some(instead)).into())
            }
            _ => Ok(RelationPlanning::Original(Box::new(relation))),
        }
    }
}
