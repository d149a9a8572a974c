//! A session: statements one after another, with transactions.
//!
//! Always holds: one statement runs at a time; a statement that failed changed nothing; inside a transaction a failure
//! leaves only ROLLBACK.

use super::alter::Alteration;
use super::constraints::Definition;
use super::forms::{nothing, stars};
use super::lake::Lake;
use super::names::Names;
use super::outcome::{self, Changed, Outcome, Rows, explained, verified};
use super::parse::{self, Command, Explain, Optimize, Syntax, Vacuum};
use super::position::{self, Position};
use super::replace::Replacement;
use super::views::{self, Planner};
use super::{clauses, distinct, forms, functions, install, settings, time_travel};
use crate::error::{Error, Result};
use crate::maintain::verify::verify;
use crate::plan::flush;
use crate::plan::optimize;
use crate::plan::options::options;
use crate::plan::returning::target_of;
use crate::plan::subqueries::{self, Left};
use crate::scan::pin::{ReadView, SessionView};
use crate::stage::commit_exec::returns_rows;
use crate::stage::course::Course;
use crate::stage::gather::Gatherer;
use crate::stage::progress::Progress;
use crate::stage::scope::{Done, SessionScope};
use crate::store::env;
use datafusion::execution::SessionState;
use datafusion::execution::context::{SessionConfig, SessionContext};
use datafusion::logical_expr::{DdlStatement, LogicalPlan, LogicalPlanBuilder, Prepare, Statement as PlanStatement, TableSource, col, lit};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{CommentObject, ObjectType, ShowCreateObject, Statement};
use datafusion::sql::sqlparser::dialect::Dialect;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

mod ddl;
mod names;
mod staged;

pub use staged::StagedChange;
use staged::land;

/// How long back VACUUM keeps things, unless it is said.
const RETAIN_MS: u64 = 168 * 3_600_000;

/// One user's sequence of statements on a lake.
pub struct Session {
    lake: Lake,
    ctx: SessionContext,
    scope: Arc<SessionScope>,
    /// Held while a statement runs.
    running: Mutex<()>,
    /// The catalog that the lake is in.
    catalog: String,
    /// Plans the lake's views.
    planner: Planner,
}

impl Session {
    /// A session on a lake.
    pub async fn new(lake: &Lake) -> Result<Session> {
        Session::with_config(lake, SessionConfig::new()).await
    }

    /// A session on a lake, with DataFusion's settings as they are in `config`.
    pub async fn with_config(lake: &Lake, config: SessionConfig) -> Result<Session> {
        let scope = Arc::new(SessionScope::default());
        let view: Arc<dyn ReadView> = scope.clone();
        let config = config.with_information_schema(true).with_extension(scope.clone()).with_extension(Arc::new(SessionView(view)));
        let ctx = SessionContext::new_with_config(config).enable_url_table();
        let catalog = ctx.state_ref().read().config_options().catalog.default_catalog.clone();
        let planner = install::install_with(&ctx, lake)?;
        Ok(Session { lake: lake.clone(), ctx, scope, running: Mutex::new(()), catalog, planner })
    }

    /// The lake.
    pub fn lake(&self) -> &Lake {
        &self.lake
    }

    /// The DataFusion context that the session runs on: register functions, tables and stores here.
    pub fn context(&self) -> &SessionContext {
        &self.ctx
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.scope.in_transaction()
    }

    /// How much the statement that runs has done so far; `None` if none runs, or it is not there yet.
    pub fn progress(&self) -> Option<Progress> {
        self.scope.progress()
    }

    /// Stops the statement that runs, unless it commits already. Whoever gets [`Course::Running`] drops the future of `execute`:
    /// nothing has come of the statement, and nothing will; an open transaction can only be rolled back.
    pub fn stop(&self) -> Course {
        self.scope.stop()
    }

    /// Runs one statement to its end. A query's rows are collected.
    pub async fn execute(&self, sql: &str) -> Result<Outcome> {
        let _running = self.running.lock().await;
        let mut statement = RunningStatement { scope: &self.scope, ended: false };
        let outcome = self.run(sql, false).await;
        statement.ended = true;
        if let Err(error) = &outcome {
            self.scope.fail(&error.to_string());
        }
        outcome
    }

    /// Runs a statement that changes a table up to its commit. What comes back can be committed later, by
    /// [`StagedChange::commit`], over whatever others have done in the meantime.
    pub async fn stage(&self, sql: &str) -> Result<StagedChange> {
        let _running = self.running.lock().await;
        if self.in_transaction() {
            let reason = "a transaction is open: its statements are staged by it".into();
            return Err(Error::TransactionState { reason, sqlstate: "25001" });
        }
        let mut statement = RunningStatement { scope: &self.scope, ended: false };
        let outcome = self.run(sql, true).await;
        statement.ended = true;
        let outcome = outcome?;
        match (self.scope.take_staged(), outcome) {
            (Some(statement), Outcome::Changed(changed)) => Ok(StagedChange { lake: self.lake.clone(), statement, changed }),
            (Some(statement), Outcome::Rows(_)) => {
                statement.staged.discard(statement.log.store()).await;
                Err(Error::unsupported("RETURNING in a statement that is only staged", None))
            }
            _ => Err(Error::internal("a statement that was to be staged was not")),
        }
    }

    async fn run(&self, sql: &str, staging: bool) -> Result<Outcome> {
        let sql = sql.trim().trim_end_matches(';').trim_end();
        let command = self.parse(sql)?;
        if staging && !command.changes_rows() {
            return Err(Error::invalid("only OPTIMIZE, INSERT, UPDATE, DELETE, MERGE and TRUNCATE can be staged"));
        }
        if !matches!(command, Command::Commit | Command::Rollback) {
            self.scope.check_usable()?;
        }
        let max_attempts = options(self.ctx.state_ref().read().config_options()).max_statement_attempts.max(1);
        let mut reran = 0;
        loop {
            self.scope.begin_statement(sql, staging, reran);
            match self.command(&command, sql).await {
                // Planning met another schema than name resolution did: resolve again.
                Err(Error::SchemaChanged { .. }) if reran + 1 < max_attempts && !self.in_transaction() => {
                    tokio::time::sleep(env::jitter(Duration::from_millis(5))).await;
                }
                Err(error) => return Err(self.lake.explained(error)),
                Ok(outcome) => return Ok(outcome),
            }
            reran += 1;
        }
    }

    fn parse(&self, sql: &str) -> Result<Command> {
        let syntax = Syntax::of(&self.ctx.state_ref().read().config_options().sql_parser, self.names())?;
        parse::parse(&spelled(sql, syntax.dialect.as_ref())?, &syntax)
    }

    /// Where in the text of a statement its error lies; `None` if the error is about the statement as a whole.
    pub fn position_of(&self, sql: &str, error: &Error) -> Option<Position> {
        let syntax = Syntax::of(&self.ctx.state_ref().read().config_options().sql_parser, self.names()).ok()?;
        let dialect = syntax.dialect.as_ref();
        // What stands before the statement is not parsed.
        let start = sql.len() - sql.trim_start().len();
        let (before, rest) = sql.split_at_checked(start)?;
        let parsed = spelled(rest, dialect).unwrap_or_else(|_| rest.to_owned());
        position::of(sql, &format!("{before}{parsed}"), dialect, error)
    }

    /// What names mean in this session.
    fn names(&self) -> Names {
        Names::of(&self.catalog, self.ctx.state_ref().read().config_options())
    }

    async fn command(&self, command: &Command, sql: &str) -> Result<Outcome> {
        match command {
            Command::Begin => self.scope.begin().map(|()| Outcome::Done("BEGIN".into())),
            Command::Commit => self.commit().await,
            Command::Rollback => self.rollback().await,
            Command::Optimize(optimize) => {
                let plan = self.optimize(optimize, sql).await?;
                self.changing(plan).await
            }
            Command::ExplainOptimize { optimize, how } => {
                let plan = self.optimize(optimize, sql).await?;
                if *how != Explain::Analyze {
                    return explained(&displayable(plan.as_ref()).indent(*how == Explain::Verbose).to_string());
                }
                self.changing(plan.clone()).await?;
                explained(&DisplayableExecutionPlan::with_metrics(plan.as_ref()).indent(false).to_string())
            }
            Command::ExplainReplaceWhere { replace, how } => {
                let plan = forms::plan_replace_where(&self.ctx.state(), replace).await?;
                let explain = LogicalPlanBuilder::from(plan).explain(*how == Explain::Verbose, *how == Explain::Analyze)?;
                self.engine(explain.build()?).await
            }
            Command::Vacuum(vacuum) => self.vacuum(vacuum, sql).await,
            Command::Verify(wanted) => {
                let log = self.lake.table(&wanted.table).await?;
                verified(verify(&log, wanted.all_versions, &self.ctx.task_ctx()).await?)
            }
            Command::History(table) => {
                let rows = functions::history(self.lake.table(table).await?.as_ref()).await?;
                Ok(Outcome::Rows(Rows { schema: rows.schema(), batches: vec![rows] }))
            }
            Command::Restore(restore) => {
                let log = self.lake.table(&restore.table).await?;
                self.replace(&log, Replacement::Restore { at: &restore.at }, sql).await
            }
            Command::ReplaceWhere(replace) => {
                let plan = views::strictly(forms::plan_replace_where(&self.ctx.state(), replace)).await?;
                self.engine(plan).await
            }
            Command::Rename(rename) => self.rename(rename).await,
            Command::UnsetProperties(unset) => self.alter(&self.ctx.state(), Alteration::Unset(unset), sql).await,
            Command::AlterParts(parts) => self.alter(&self.ctx.state(), Alteration::Parts(parts), sql).await,
            Command::AddFiles(files) => {
                let alteration = Alteration::AddFiles { files, lake: self.lake.location() };
                self.alter(&self.ctx.state(), alteration, sql).await
            }
            Command::CreateFromFiles(files) => self.create_from_files(files, sql).await,
            Command::Clone(clone) => self.create_clone(clone, sql).await,
            Command::Sql(statement) => self.sql(statement.as_ref().clone(), sql).await,
        }
    }

    async fn sql(&self, mut statement: DfStatement, sql: &str) -> Result<Outcome> {
        if let Some(outcome) = settings::run(&self.ctx, &statement)? {
            return Ok(outcome);
        }
        let state = self.ctx.state();
        if parse::looks_at_names(&statement, sql) || self.names_a_new_schema(&state, &statement) {
            // DataFusion asks for names where it cannot wait for a store.
            self.lake.catalog().await?;
        }
        let mut definition = Definition::default();
        let (mut created, mut shows_tables) = (None, false);
        if let DfStatement::Statement(statement) = &mut statement {
            match statement.as_mut() {
                Statement::AlterTable(alter) => return self.alter(&state, Alteration::Operations(alter), sql).await,
                Statement::Comment { object_type: CommentObject::Table, object_name, comment, if_exists } => {
                    let comment = Alteration::Comment { table: object_name, if_exists: *if_exists, comment: comment.as_deref() };
                    return self.alter(&state, comment, sql).await;
                }
                Statement::Comment { object_type: CommentObject::Column, object_name: column, comment, if_exists } => {
                    let comment = Alteration::ColumnComment { column, if_exists: *if_exists, comment: comment.as_deref() };
                    return self.alter(&state, comment, sql).await;
                }
                Statement::Comment { object_type, .. } => {
                    return Err(Error::unsupported(format!("COMMENT ON {object_type}"), Some("tables and columns can have one")));
                }
                Statement::Drop {
                    object_type: ObjectType::Table,
                    cascade: false,
                    purge: false,
                    temporary: false,
                    if_exists,
                    names,
                    ..
                } => {
                    return self.drop_tables(names, *if_exists).await;
                }
                Statement::Drop { object_type: ObjectType::Table, .. } => {
                    return Err(Error::unsupported("DROP TABLE with CASCADE, PURGE or TEMPORARY", None));
                }
                Statement::CreateSchema {
                    schema_name,
                    if_not_exists,
                    with: None,
                    options: None,
                    default_collate_spec: None,
                    clone: None,
                } => {
                    if let Some(done) = self.create_schema(schema_name, *if_not_exists).await? {
                        return Ok(done);
                    }
                }
                Statement::CreateSchema { .. } => return Err(Error::unsupported("CREATE SCHEMA with options", None)),
                Statement::CreateDatabase { .. } => {
                    return Err(Error::unsupported("CREATE DATABASE", Some("a lake is one database; CREATE SCHEMA divides it")));
                }
                Statement::Drop { object_type: ObjectType::Schema, if_exists, names, cascade, .. } => {
                    if let Some(done) = self.drop_schemas(names, *if_exists, *cascade).await? {
                        return Ok(done);
                    }
                }
                Statement::ShowSchemas { .. } => return self.show_schemas().await,
                Statement::Use(schema) => return self.use_schema(schema).await,
                Statement::CreateView(create) => return self.create_view(create.clone()).await,
                Statement::Drop {
                    object_type: ObjectType::View, cascade: false, purge: false, temporary: false, if_exists, names, ..
                } => {
                    return self.drop_views(names, *if_exists).await;
                }
                Statement::Drop { object_type: ObjectType::View, .. } => {
                    return Err(Error::unsupported("DROP VIEW with CASCADE, PURGE or TEMPORARY", None));
                }
                Statement::ShowCreate { obj_type, .. } if *obj_type == ShowCreateObject::View => *obj_type = ShowCreateObject::Table,
                Statement::CreateTable(table) => {
                    definition = Definition::take(table)?;
                    created = Some(self.names().table(&table.name)?);
                }
                Statement::ShowTables { .. } => shows_tables = true,
                _ => {}
            }
        }
        match (views::strictly(forms::plan(&state, statement)).await?, created) {
            (LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)), Some(name)) => {
                self.create_table(&state, &name, create, &definition, sql).await
            }
            (plan, _) if shows_tables => {
                // DataFusion also lists the views that make up the information schema.
                let own = col("table_schema").not_eq(lit("information_schema"));
                self.engine(LogicalPlanBuilder::from(plan).filter(own)?.build()?).await
            }
            (plan, _) => self.engine(plan).await,
        }
    }

    /// Whether a statement names something in a schema that is not known, so that another may have made it.
    fn names_a_new_schema(&self, state: &SessionState, statement: &DfStatement) -> bool {
        let known = self.lake.known_catalog();
        let options = &state.config_options().catalog;
        state
            .resolve_table_references(statement)
            .is_ok_and(|references| references.iter().any(|name| !known.has_namespace(name.schema().unwrap_or(&options.default_schema))))
    }

    /// Runs what DataFusion has planned.
    async fn engine(&self, plan: LogicalPlan) -> Result<Outcome> {
        let plan = match plan {
            // DataFusion optimises it now, and our rule sees what comes of that.
            LogicalPlan::Statement(PlanStatement::Prepare(Prepare { name, fields, input })) => {
                let input = Arc::new(subqueries::exact(Arc::unwrap_or_clone(input), Left::JoinsWithoutMarks)?);
                LogicalPlan::Statement(PlanStatement::Prepare(Prepare { name, fields, input }))
            }
            plan => plan,
        };
        let acknowledged = match &plan {
            LogicalPlan::Ddl(ddl) => Some(ddl_words(ddl)?),
            LogicalPlan::Statement(PlanStatement::SetVariable(_)) => Some("SET".to_owned()),
            LogicalPlan::Statement(PlanStatement::ResetVariable(_)) => Some("RESET".to_owned()),
            LogicalPlan::Statement(PlanStatement::Prepare(_)) => Some("PREPARE".to_owned()),
            LogicalPlan::Statement(PlanStatement::Deallocate(_)) => Some("DEALLOCATE".to_owned()),
            _ => None,
        };
        if self.in_transaction() {
            within_transaction(&plan)?;
        }
        let explains = matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
        let frame = self.ctx.execute_logical_plan(plan).await?;
        if let Some(text) = acknowledged {
            return Ok(Outcome::Done(text));
        }
        // By now it is known what EXECUTE runs.
        if let Some(what) = changes_elsewhere(frame.logical_plan()) {
            self.no_transaction(&what)?;
            // What it writes others see while it runs.
            self.scope.commits()?;
        }
        let context = Arc::new(frame.task_ctx());
        let physical = frame.create_physical_plan().await?;
        let (schema, returns) = (physical.schema(), returns_rows(&physical));
        self.scope.watch(&physical);
        let batches = collect(physical, context).await?;
        match self.scope.take_done() {
            Some(done) if !explains && !returns => Ok(changed(done)),
            _ => Ok(Outcome::Rows(Rows { schema, batches })),
        }
    }

    /// Runs a plan of ours that changes a table.
    async fn changing(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Outcome> {
        self.scope.watch(&plan);
        collect(plan, self.ctx.task_ctx()).await?;
        match self.scope.take_done() {
            Some(done) => Ok(changed(done)),
            None => Err(Error::internal("a statement ended without a word of what it did")),
        }
    }

    async fn optimize(&self, optimize: &Optimize, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
        let log = self.lake.table(&optimize.table).await?;
        let (base, _lease) = self.scope.view(&log).await?;
        optimize::plan(&self.ctx.state(), &log, base, &optimize.wanted, sql.to_owned()).await
    }

    async fn vacuum(&self, wanted: &Vacuum, sql: &str) -> Result<Outcome> {
        self.no_transaction("VACUUM")?;
        let short = options(self.ctx.state_ref().read().config_options()).allow_short_retention;
        let retain_ms = wanted.retain_ms.unwrap_or(RETAIN_MS);
        if retain_ms < RETAIN_MS && !short {
            return Err(Error::invalid(
                "VACUUM that retains less than 168 hours may remove what statements of other processes still need; \
                 if there are none, say SET amend.allow_short_retention = true",
            ));
        }
        // What it has removed is removed.
        self.scope.commits()?;
        let removed = self.lake.vacuum(wanted.table.as_ref(), retain_ms, wanted.dry_run, sql).await?;
        outcome::removed(&removed)
    }

    async fn commit(&self) -> Result<Outcome> {
        self.scope.commits()?;
        let open = self.scope.end()?;
        if open.has_failed()
            && let Some(statement) = open.clone().into_discarded()
        {
            statement.staged.discard(statement.log.store()).await;
        }
        let Some(mut statement) = open.into_staged()? else { return Ok(Outcome::Done("COMMIT".into())) };
        statement.staged.gathering = Some(Arc::new(Gatherer::new(self.ctx.task_ctx())));
        let afterwards = flush::afterwards(Arc::new(self.ctx.state()));
        land(&self.lake, statement, "COMMIT", Some(afterwards)).await
    }

    async fn rollback(&self) -> Result<Outcome> {
        if let Some(statement) = self.scope.end()?.into_discarded() {
            statement.staged.discard(statement.log.store()).await;
        }
        Ok(Outcome::Done("ROLLBACK".into()))
    }

    fn no_transaction(&self, statement: &str) -> Result<()> {
        if self.in_transaction() {
            return Err(Error::unsupported(format!("{statement} in a transaction"), Some("COMMIT or ROLLBACK first")));
        }
        Ok(())
    }
}

/// The statement as it is parsed.
fn spelled(sql: &str, dialect: &dyn Dialect) -> Result<String> {
    let spelled = functions::changes::spelled::rewrite(&time_travel::rewrite(sql, dialect)?, dialect)?;
    let spelled = nothing::spell(&stars::spell(&spelled, dialect), dialect);
    Ok(clauses::ordered(&distinct::spell(&spelled, dialect), dialect))
}

/// A statement while it runs. If its future is dropped, nobody knows how far it came: its transaction can only be rolled back.
struct RunningStatement<'a> {
    scope: &'a SessionScope,
    ended: bool,
}

impl Drop for RunningStatement<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.scope.fail("a statement of it was cancelled");
        }
        self.scope.end_statement();
    }
}

/// Refuses what a ROLLBACK could not take back.
fn within_transaction(plan: &LogicalPlan) -> Result<()> {
    let what = match plan {
        LogicalPlan::Ddl(ddl) => ddl_words(ddl)?,
        _ => return Ok(()),
    };
    Err(Error::unsupported(format!("{what} in a transaction"), Some("COMMIT or ROLLBACK first")))
}

/// What a plan changes besides tables of the lake, once it runs.
fn changes_elsewhere(plan: &LogicalPlan) -> Option<String> {
    match plan {
        LogicalPlan::Analyze(analyze) => changes_elsewhere(&analyze.input),
        LogicalPlan::Copy(_) => Some("COPY".to_owned()),
        LogicalPlan::Dml(dml) if !is_of_a_lake(&dml.target) => {
            Some(format!("changing '{}', which is no table of the lake,", dml.table_name))
        }
        _ => None,
    }
}

fn is_of_a_lake(target: &Arc<dyn TableSource>) -> bool {
    target_of(target).is_some()
}

fn changed(done: Done) -> Outcome {
    let Done { operation, counts, version, facts, files_written, conflicts } = done;
    Outcome::Changed(Changed { operation, counts, version, facts, files_written, conflicts })
}

/// What is said of DDL that DataFusion has done; what it would take for granted without doing it is refused.
fn ddl_words(ddl: &DdlStatement) -> Result<String> {
    let words = match ddl {
        DdlStatement::CreateExternalTable(_) => "CREATE EXTERNAL TABLE",
        DdlStatement::CreateMemoryTable(_) => "CREATE TABLE",
        DdlStatement::CreateView(_) => "CREATE VIEW",
        DdlStatement::CreateCatalogSchema(_) => "CREATE SCHEMA",
        DdlStatement::CreateCatalog(_) => "CREATE DATABASE",
        DdlStatement::CreateIndex(_) => return Err(Error::unsupported("CREATE INDEX", None)),
        DdlStatement::DropTable(_) => "DROP TABLE",
        DdlStatement::DropView(_) => "DROP VIEW",
        DdlStatement::DropCatalogSchema(_) => "DROP SCHEMA",
        DdlStatement::CreateFunction(_) => "CREATE FUNCTION",
        DdlStatement::DropFunction(_) => "DROP FUNCTION",
    };
    Ok(words.to_owned())
}
