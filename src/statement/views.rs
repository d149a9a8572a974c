//! Views of the lake: queries under a name, kept in the catalog as text and planned anew whenever they are read.
//!
//! ```text
//!   CREATE VIEW v (x) AS SELECT a, b FROM t       kept:  SELECT a, b FROM t  |  x  |  names without a schema are of this one
//!                                                        how the parser was set
//!   SELECT .. FROM v                              planned: the text, against the tables of now; its first columns get their names
//! ```
//!
//! Goes in: the statement that creates a view; later its text. Comes out: what is kept; later a table provider. Always holds: what is
//! kept reads as what was written, in every session; what only one session has is in no view; a view that leads back to itself is
//! an error, however it came to be.

use super::forms;
use super::lake::Lake;
use super::names::Names;
use super::parse::Syntax;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::catalog::{StoredView, TableName};
use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::{ConfigOptions, SqlParserOptions};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Column, Result as EngineResult};
use datafusion::datasource::{ViewTable, source_as_provider};
use datafusion::execution::SessionState;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableType};
use datafusion::optimizer::Analyzer;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{CreateTableOptions, CreateView, Statement};
use std::fmt;
use std::future::Future;
use std::sync::Arc;

/// How many views may read one another.
const MAX_DEPTH: usize = 32;
/// The settings that say how text is read.
const PARSER: &str = "datafusion.sql_parser.";
/// Those of them that do not change what it means.
const NO_MEANING: [&str; 2] = ["datafusion.sql_parser.collect_spans", "datafusion.sql_parser.recursion_limit"];

tokio::task_local! {
    /// The views that are being planned, one within the other.
    static PLANNING: Vec<TableName>;
}

/// Plans something in which a view that cannot be planned is an error. (Elsewhere names are only listed: there it is a view without columns.)
pub async fn strictly<T>(planning: impl Future<Output = T>) -> T {
    PLANNING.scope(Vec::new(), planning).await
}

/// What plans views: a context.
#[derive(Clone)]
pub struct Planner {
    /// Its state, as long as it is there.
    state: Arc<dyn Fn() -> Option<SessionState> + Send + Sync>,
    /// The catalog that the lake is in.
    catalog: String,
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}

impl Planner {
    /// A context in whose catalog `catalog` the lake is.
    pub fn new(ctx: &SessionContext, catalog: impl Into<String>) -> Self {
        let state = ctx.state_weak_ref();
        Planner { state: Arc::new(move || state.upgrade().map(|state| state.read().clone())), catalog: catalog.into() }
    }

    /// Plans a view as every session does.
    async fn plan(&self, view: &StoredView) -> Result<LogicalPlan> {
        let Some(mut state) = (self.state)() else {
            return Err(Error::unsupported("reading a view whose SessionContext is gone", Some("keep the SessionContext")));
        };
        let options = state.config_mut().options_mut();
        options.sql_parser = SqlParserOptions::default();
        for (name, value) in &view.settings {
            options.set(name, value)?;
        }
        options.catalog.default_catalog = self.catalog.clone();
        options.catalog.default_schema = view.search_namespace.clone();
        let statement = parsed(view, &state)?;
        let plan = forms::plan(&state, statement).await?;
        // Which types its columns have is known only then.
        let coercion = Analyzer::with_rules(vec![Arc::new(TypeCoercion::new())]);
        let plan = coercion.execute_and_check(plan, state.config_options(), |_, _| {})?;
        named(plan, &view.columns)
    }
}

/// The text of a view.
fn parsed(view: &StoredView, state: &SessionState) -> Result<DfStatement> {
    let names = Names::of(&state.config_options().catalog.default_catalog, state.config_options());
    let statement = super::parse::single(&view.query, &Syntax::of(&state.config_options().sql_parser, names)?)?;
    match &statement {
        DfStatement::Statement(query) if matches!(query.as_ref(), Statement::Query(_)) => Ok(statement),
        _ => Err(Error::invalid("its text is no query")),
    }
}

/// A plan with its first columns renamed. No two may have one name.
fn named(plan: LogicalPlan, columns: &[String]) -> Result<LogicalPlan> {
    if columns.len() > plan.schema().fields().len() {
        let (names, found) = (columns.len(), plan.schema().fields().len());
        return Err(Error::invalid(format!("it has names for {names} columns, and its query has {found}")));
    }
    let plan = match columns {
        [] => plan,
        columns => {
            let column = |(at, (qualifier, field)): (usize, (Option<&_>, &Arc<_>))| {
                let column = Expr::Column(Column::from((qualifier, field)));
                match columns.get(at) {
                    Some(name) => column.alias(name),
                    None => column,
                }
            };
            let columns: Vec<Expr> = plan.schema().iter().enumerate().map(column).collect();
            LogicalPlanBuilder::from(plan).project(columns)?.build()?
        }
    };
    let mut names = std::collections::BTreeSet::new();
    match plan.schema().fields().iter().find(|field| !names.insert(field.name())) {
        None => Ok(plan),
        Some(twice) => {
            Err(Error::refused("42701", format!("two of its columns share the name '{}'; name one of them with AS", twice.name())))
        }
    }
}

/// A view as a table that can be read.
pub async fn open(lake: &Lake, planner: &Planner, name: &TableName, view: &StoredView) -> Result<Arc<dyn TableProvider>> {
    let outer = PLANNING.try_with(Vec::clone).ok();
    let strict = outer.is_some();
    let mut planning = outer.unwrap_or_default();
    if planning.contains(name) || planning.len() >= MAX_DEPTH {
        let through: Vec<String> = planning.iter().chain([name]).map(|view| format!("'{view}'")).collect();
        let what = if planning.contains(name) { "a view that reads itself" } else { "too many views that read one another" };
        return Err(Error::refused("42P17", format!("{what}: {}", through.join(" reads "))));
    }
    planning.push(name.clone());
    let definition = definition(name, view);
    // As a task, since views that read one another would take more of the caller's stack than there is.
    let (its_planner, text) = (planner.clone(), view.clone());
    let planned = SpawnedTask::spawn(PLANNING.scope(planning, async move { its_planner.plan(&text).await })).join_unwind().await;
    match planned.unwrap_or_else(|_| Err(Error::internal("the runtime ended while a view was planned"))) {
        Ok(plan) => Ok(Arc::new(ViewTable::new(plan, Some(definition)))),
        Err(error) => {
            let error = broken(name, lake.explained(error));
            match strict {
                true => Err(error),
                false => Ok(Arc::new(Broken { error, definition })),
            }
        }
    }
}

/// The error of a view that cannot be planned.
fn broken(name: &TableName, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Invalid | ErrorKind::NotFound | ErrorKind::Unsupported => {
            let message = format!("view '{name}' cannot be read: {error}");
            Error::Engine { message, kind: error.kind(), sqlstate: error.sqlstate() }
        }
        _ => error,
    }
}

/// The statement that makes a view.
fn definition(name: &TableName, view: &StoredView) -> String {
    let quoted = |name: &String| datafusion::common::utils::quote_identifier(name).into_owned();
    let columns = match view.columns.iter().map(quoted).collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        columns => format!(" ({columns})"),
    };
    let namespace = match name.namespace.as_str() {
        crate::manifest::catalog::DEFAULT_NAMESPACE => String::new(),
        _ => format!("{}.", quoted(&name.namespace)),
    };
    format!("CREATE VIEW {namespace}{}{columns} AS {}", quoted(&name.name), view.query)
}

/// A view that cannot be planned, in a list of names.
#[derive(Debug)]
struct Broken {
    error: Error,
    definition: String,
}

#[async_trait]
impl TableProvider for Broken {
    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::empty())
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_table_definition(&self) -> Option<&str> {
        Some(&self.definition)
    }

    async fn scan(&self, _: &dyn Session, _: Option<&Vec<usize>>, _: &[Expr], _: Option<usize>) -> EngineResult<Arc<dyn ExecutionPlan>> {
        Err(self.error.copied().into())
    }
}

/// What is kept of a CREATE VIEW, in a session with these settings. It was tried whether it can be planned.
pub async fn stored(state: &SessionState, planner: &Planner, names: &Names, name: &TableName, create: &CreateView) -> Result<StoredView> {
    let columns: Vec<String> = create.columns.iter().map(|column| names.fold(&column.name)).collect();
    let view = StoredView {
        query: create.query.to_string(),
        columns,
        search_namespace: names.default_namespace().to_owned(),
        settings: settings(state.config_options()),
    };
    let written = DfStatement::Statement(Box::new(Statement::Query(create.query.clone())));
    if parsed(&view, state).ok().as_ref() != Some(&written) {
        return Err(Error::unsupported(
            format!("the view '{name}', whose text reads as another query,"),
            Some("put the query in another way"),
        ));
    }
    PLANNING.scope(vec![name.clone()], planner.plan(&view)).await?;
    Ok(view)
}

/// The settings of the parser that are not its own.
fn settings(options: &ConfigOptions) -> std::collections::BTreeMap<String, String> {
    let own = ConfigOptions::default().entries();
    let set = options.entries().into_iter().filter(|entry| entry.key.starts_with(PARSER) && !NO_MEANING.contains(&entry.key.as_str()));
    let differs = set.filter(|entry| !own.iter().any(|own| own.key == entry.key && own.value == entry.value));
    differs.filter_map(|entry| entry.value.map(|value| (entry.key, value))).collect()
}

/// Refuses what a view cannot have.
pub fn check(create: &CreateView) -> Result<()> {
    let CreateView {
        or_alter,
        or_replace,
        materialized,
        secure,
        name: _,
        name_before_not_exists: _,
        columns,
        query: _,
        options,
        cluster_by,
        comment,
        with_no_schema_binding,
        if_not_exists,
        temporary: _,
        copy_grants,
        to,
        params,
    } = create;
    let what = match () {
        () if *or_alter => "CREATE OR ALTER VIEW",
        () if *or_replace && *if_not_exists => "CREATE OR REPLACE VIEW IF NOT EXISTS",
        () if *materialized => "CREATE MATERIALIZED VIEW",
        () if *secure => "CREATE SECURE VIEW",
        () if *options != CreateTableOptions::None => "CREATE VIEW with options",
        () if !cluster_by.is_empty() => "CREATE VIEW with CLUSTER BY",
        () if comment.is_some() => "CREATE VIEW with COMMENT",
        () if *with_no_schema_binding => "CREATE VIEW WITH NO SCHEMA BINDING",
        () if *copy_grants => "CREATE VIEW with COPY GRANTS",
        () if to.is_some() || params.is_some() => "CREATE VIEW with TO or parameters",
        () if columns.iter().any(|column| column.options.is_some() || column.data_type.is_some()) => "CREATE VIEW with options of columns",
        () => return Ok(()),
    };
    Err(Error::unsupported(what, None))
}

/// Refuses a statement that would change a view.
pub fn refuse_changes(plan: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Dml(dml) = plan else {
        return plan.inputs().into_iter().try_for_each(refuse_changes);
    };
    match source_as_provider(&dml.target) {
        Ok(target) if target.table_type() == TableType::View && target.get_table_definition().is_some() => {
            Err(Error::unsupported(format!("{} of view '{}'", dml.op, dml.table_name), Some("change the tables that it reads")))
        }
        _ => Ok(()),
    }
}
