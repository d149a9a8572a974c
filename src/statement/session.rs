//! A session: statements one after another, with transactions.
//!
//! Always holds: one statement runs at a time; a statement that failed changed nothing; inside a transaction a failure
//! leaves only ROLLBACK.

use super::alter::Alteration;
use super::constraints::Definition;
use super::forms::{nothing, stars};
use super::lake::Lake;
use super::outcome::{self, Changed, Outcome, Rows, explained, verified};
use super::parse::{self, Command, Explain, FilesOf, Optimize, Syntax, Vacuum, plain_name};
use super::position::Position;
use super::replace::{self, Replacement};
use super::{adopt, alter, clone, create, distinct, forms, functions, install, position, settings, time_travel};
use crate::commit;
use crate::error::{Error, Result};
use crate::maintain::verify::verify;
use crate::manifest::log::VersionLog;
use crate::plan::optimize;
use crate::plan::options::options;
use crate::plan::returning::target_of;
use crate::plan::subqueries::{self, Left};
use crate::scan::pin::{ReadView, SessionView};
use crate::stage::commit_exec::{returns_rows, staged};
use crate::stage::gather::Gatherer;
use crate::stage::runs::Runs;
use crate::stage::scope::{Done, SessionScope, StagedStatement};
use crate::store::env;
use crate::txn::composite::{CommitFacts, RowCounts};
use datafusion::common::TableReference;
use datafusion::execution::SessionState;
use datafusion::execution::context::{SessionConfig, SessionContext};
use datafusion::logical_expr::{
    CreateMemoryTable, DdlStatement, LogicalPlan, LogicalPlanBuilder, Prepare, Statement as PlanStatement, TableSource, TableType, col, lit,
};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{CommentObject, ObjectName, ObjectType, Statement};
use datafusion::sql::sqlparser::dialect::Dialect;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long back VACUUM keeps things, unless it is said.
const RETAIN_MS: u64 = 168 * 3_600_000;

/// One user's sequence of statements on a lake.
pub struct Session {
    lake: Lake,
    ctx: SessionContext,
    scope: Arc<SessionScope>,
    /// Held while a statement runs.
    running: Mutex<()>,
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
        install::install(&ctx, lake)?;
        Ok(Session { lake: lake.clone(), ctx, scope, running: Mutex::new(()) })
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
                Err(error) => return Err(self.explain(error)),
                Ok(outcome) => return Ok(outcome),
            }
            reran += 1;
        }
    }

    fn parse(&self, sql: &str) -> Result<Command> {
        let syntax = Syntax::of(&self.ctx.state_ref().read().config_options().sql_parser)?;
        parse::parse(&spelled(sql, syntax.dialect.as_ref())?, &syntax)
    }

    /// Where in the text of a statement its error lies; `None` if the error is about the statement as a whole.
    pub fn position_of(&self, sql: &str, error: &Error) -> Option<Position> {
        let syntax = Syntax::of(&self.ctx.state_ref().read().config_options().sql_parser).ok()?;
        let dialect = syntax.dialect.as_ref();
        // What stands before the statement is not parsed.
        let start = sql.len() - sql.trim_start().len();
        let (before, rest) = sql.split_at_checked(start)?;
        let parsed = spelled(rest, dialect).unwrap_or_else(|_| rest.to_owned());
        position::of(sql, &format!("{before}{parsed}"), dialect, error)
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
                let plan = forms::plan_replace_where(&self.ctx.state(), replace).await?;
                self.engine(plan).await
            }
            Command::UnsetProperties(unset) => self.alter(&self.ctx.state(), Alteration::Unset(unset), sql).await,
            Command::AddFiles(files) => {
                let alteration = Alteration::AddFiles { files, lake: self.lake.location() };
                self.alter(&self.ctx.state(), alteration, sql).await
            }
            Command::CreateFromFiles(files) => self.create_from_files(files, sql).await,
            Command::Clone(clone) => {
                self.no_transaction("CREATE TABLE")?;
                if self.is_anothers(&clone.table).await? {
                    return name_is_taken(&clone.table, clone.lenient);
                }
                Ok(changed(clone::create_clone(&self.lake, clone, sql).await?))
            }
            Command::Sql(statement) => self.sql(statement.as_ref().clone(), sql).await,
        }
    }

    async fn sql(&self, mut statement: DfStatement, sql: &str) -> Result<Outcome> {
        if let Some(outcome) = settings::run(&self.ctx, &statement)? {
            return Ok(outcome);
        }
        if parse::looks_at_names(&statement, sql) {
            // DataFusion asks for names where it cannot wait for a store.
            self.lake.table_names().await?;
        }
        let state = self.ctx.state();
        let mut definition = Definition::default();
        let mut shows_tables = false;
        if let DfStatement::Statement(statement) = &mut statement {
            match statement.as_mut() {
                Statement::AlterTable(alter) => return self.alter(&state, Alteration::Operations(alter), sql).await,
                Statement::Comment { object_type: CommentObject::Table, object_name, comment, if_exists } => {
                    let comment = Alteration::Comment { table: object_name, if_exists: *if_exists, comment: comment.as_deref() };
                    return self.alter(&state, comment, sql).await;
                }
                Statement::Comment { object_type, .. } => {
                    return Err(Error::unsupported(format!("COMMENT ON {object_type}"), Some("tables can have one")));
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
                Statement::CreateSchema { .. } | Statement::CreateDatabase { .. } => {
                    return Err(Error::unsupported("CREATE SCHEMA", Some("tables live in the namespace public")));
                }
                Statement::CreateTable(table) => definition = Definition::take(table)?,
                Statement::ShowTables { .. } => shows_tables = true,
                _ => {}
            }
        }
        match forms::plan(&state, statement).await? {
            LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => self.create_table(&state, create, &definition, sql).await,
            plan if shows_tables => {
                // DataFusion also lists the views that make up the information schema.
                let own = col("table_schema").not_eq(lit("information_schema"));
                self.engine(LogicalPlanBuilder::from(plan).filter(own)?.build()?).await
            }
            plan => self.engine(plan).await,
        }
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
        let context = Arc::new(frame.task_ctx());
        let physical = frame.create_physical_plan().await?;
        let (schema, returns) = (physical.schema(), returns_rows(&physical));
        let batches = collect(physical, context).await?;
        match self.scope.take_done() {
            Some(done) if !explains && !returns => Ok(changed(done)),
            _ => Ok(Outcome::Rows(Rows { schema, batches })),
        }
    }

    /// Runs a plan of ours that changes a table.
    async fn changing(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Outcome> {
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
        let removed = self.lake.vacuum(wanted.table.as_deref(), retain_ms, wanted.dry_run, sql).await?;
        outcome::removed(&removed)
    }

    async fn alter(&self, state: &SessionState, alteration: Alteration<'_>, sql: &str) -> Result<Outcome> {
        alter::check(alteration)?;
        let table = alteration.table()?;
        let log = match self.lake.find(&table).await? {
            Some(log) => log,
            None if alteration.if_exists() => return Ok(Outcome::Done("ALTER TABLE".into())),
            None => return Err(self.lake.unknown_table(&table)),
        };
        let done = |counts, version, facts, conflicts| {
            changed(Done { operation: "ALTER TABLE".into(), counts, version, facts, files_written: 0, conflicts })
        };
        let mut runs = Runs::new(options(state.config_options()).max_statement_attempts, self.scope.reran());
        loop {
            let (base, _lease) = self.scope.view(&log).await?;
            let step = alter::step(state, &log, &base, alteration, sql).await?;
            let counts = step.counts;
            if self.in_transaction() {
                self.scope.append(&log, &base, step, vec![], (vec![], &Default::default())).await?;
                return Ok(done(counts, None, CommitFacts::default(), vec![]));
            }
            if step.actions.is_empty() {
                let facts = CommitFacts { reran: runs.reran(), ..CommitFacts::default() };
                return Ok(done(counts, None, facts, runs.into_conflicts()));
            }
            match runs.publish(&log, staged(base.snapshot.version, step, vec![], vec![])).await {
                // Another was first: the column may be there by now, or the statement has to say so.
                Err(Error::Conflict(report)) => runs.again(&log, Some(report)).await.map(drop)?,
                Err(error) => return Err(error),
                Ok(committed) => return Ok(done(counts, committed.version, committed.facts, runs.into_conflicts())),
            }
        }
    }

    async fn create_table(&self, state: &SessionState, create: CreateMemoryTable, definition: &Definition, sql: &str) -> Result<Outcome> {
        let name = create.name.table();
        loop {
            let existing = self.lake.find(name).await?;
            if let Some(log) = existing.as_ref().filter(|_| create.or_replace) {
                create::check(&create, name)?;
                return self.replace(log, Replacement::Create { create: &create, definition }, sql).await;
            }
            self.no_transaction("CREATE TABLE")?;
            // A view or an external table of this session may have the name.
            if existing.is_none() && self.ctx.table_exist(TableReference::bare(name))? {
                return name_is_taken(name, create.if_not_exists);
            }
            match create::create_table(&self.lake, state, &create, definition, sql).await {
                // Another created it first, and is replaced.
                Err(Error::TableExists { .. }) if create.or_replace => {}
                done => return done.map(changed),
            }
        }
    }

    async fn replace(&self, log: &Arc<VersionLog>, replacement: Replacement<'_>, sql: &str) -> Result<Outcome> {
        replace::replace(&self.scope, &self.ctx.state(), log, replacement, sql).await.map(changed)
    }

    async fn create_from_files(&self, files: &FilesOf, sql: &str) -> Result<Outcome> {
        self.no_transaction("CREATE TABLE")?;
        if self.is_anothers(&files.table).await? {
            return name_is_taken(&files.table, files.lenient);
        }
        Ok(changed(adopt::create_table(&self.lake, files, sql).await?))
    }

    /// Whether a name is that of a view or an external table of this session, and of no table of the lake.
    async fn is_anothers(&self, name: &str) -> Result<bool> {
        Ok(self.lake.find(name).await?.is_none() && self.ctx.table_exist(TableReference::bare(name))?)
    }

    /// Drops all of the tables, or none if one does not exist.
    async fn drop_tables(&self, names: &[ObjectName], if_exists: bool) -> Result<Outcome> {
        self.no_transaction("DROP TABLE")?;
        let (mut of_the_lake, mut others) = (vec![], vec![]);
        for name in names {
            let table = plain_name(name)?;
            if self.lake.find(&table).await?.is_some() {
                of_the_lake.push(table);
            } else if self.ctx.table_exist(TableReference::bare(table.as_str()))? {
                // A table that is not the lake's: external, or the host's.
                let provider = self.ctx.table_provider(TableReference::bare(table.as_str())).await?;
                if provider.table_type() == TableType::View {
                    return Err(Error::invalid(format!("'{table}' is a view; say DROP VIEW")));
                }
                others.push(table);
            } else if !if_exists {
                return Err(self.lake.unknown_table(&table));
            }
        }
        if !of_the_lake.is_empty() {
            self.lake.drop_tables(&of_the_lake).await?;
        }
        for table in others {
            self.ctx.deregister_table(TableReference::bare(table))?;
        }
        Ok(Outcome::Done("DROP TABLE".into()))
    }

    async fn commit(&self) -> Result<Outcome> {
        let open = self.scope.end()?;
        if open.has_failed()
            && let Some(statement) = open.clone().into_discarded()
        {
            statement.staged.discard(statement.log.store()).await;
        }
        let Some(mut statement) = open.into_staged()? else { return Ok(Outcome::Done("COMMIT".into())) };
        statement.staged.gathering = Some(Arc::new(Gatherer::new(self.ctx.task_ctx())));
        land(&self.lake, statement, "COMMIT").await
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

    /// An error of DataFusion about a name, with the nearest name that there is.
    fn explain(&self, error: Error) -> Error {
        let Error::Engine { message, .. } = &error else { return error };
        let Some(name) = message.split("table '").nth(1).and_then(|rest| rest.split_once("' not found")) else { return error };
        let table = name.0.rsplit('.').next().unwrap_or(name.0);
        self.lake.unknown_table(table)
    }
}

/// The statement as it is parsed.
fn spelled(sql: &str, dialect: &dyn Dialect) -> Result<String> {
    let spelled = functions::changes::spelled::rewrite(&time_travel::rewrite(sql, dialect)?, dialect)?;
    let spelled = nothing::spell(&stars::spell(&spelled, dialect), dialect);
    Ok(distinct::spell(&spelled, dialect))
}

/// What CREATE TABLE comes to where the name is that of something else than a table of the lake.
fn name_is_taken(name: &str, if_not_exists: bool) -> Result<Outcome> {
    match if_not_exists {
        true => Ok(Outcome::Done("CREATE TABLE".into())),
        false => Err(Error::TableExists { table: name.to_owned() }),
    }
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
        LogicalPlan::Copy(_) => "COPY".to_owned(),
        LogicalPlan::Dml(dml) if !is_of_a_lake(&dml.target) => format!("changing '{}', which is no table of the lake,", dml.table_name),
        _ => return Ok(()),
    };
    Err(Error::unsupported(format!("{what} in a transaction"), Some("COMMIT or ROLLBACK first")))
}

fn is_of_a_lake(target: &Arc<dyn TableSource>) -> bool {
    target_of(target).is_some()
}

/// A statement that ran and is not committed. Dropping it leaves its files behind, unnamed; [`StagedChange::discard`]
/// removes them.
#[derive(Debug)]
pub struct StagedChange {
    lake: Lake,
    statement: StagedStatement,
    changed: Changed,
}

impl StagedChange {
    /// What it would change.
    pub fn changed(&self) -> &Changed {
        &self.changed
    }

    /// The version that it read.
    pub fn read_version(&self) -> u64 {
        self.statement.staged.transaction.read_version
    }

    /// Commits it, rebased over everything that landed since it read.
    pub async fn commit(self) -> Result<Changed> {
        match land(&self.lake, self.statement, &self.changed.operation).await? {
            Outcome::Changed(changed) => Ok(changed),
            Outcome::Rows(_) | Outcome::Done(_) => Ok(self.changed),
        }
    }

    /// Removes what was staged.
    pub async fn discard(self) {
        self.statement.staged.discard(self.statement.log.store()).await;
    }
}

/// Commits what was staged, if the table is still there: nobody could read it in one that was dropped.
async fn land(lake: &Lake, statement: StagedStatement, operation: &str) -> Result<Outcome> {
    let log: &Arc<VersionLog> = &statement.log;
    let lost = match lake.find(log.table()).await {
        Ok(Some(named)) if named.store().label() == log.store().label() => None,
        Ok(_) => Some(Error::UnknownTable { table: log.table().to_owned(), nearest: None }),
        Err(error) => Some(error),
    };
    if let Some(error) = lost {
        statement.staged.discard(log.store()).await;
        return Err(error);
    }
    let committed = commit::publish(log, statement.staged, 0).await?;
    let mut counts = RowCounts::default();
    for step in &committed.counts {
        counts.inserted += step.inserted;
        counts.updated += step.updated;
        counts.deleted += step.deleted;
        counts.moved += step.moved;
    }
    let (operation, version, facts) = (operation.to_owned(), committed.version, committed.facts);
    Ok(changed(Done { operation, counts, version, facts, files_written: committed.files_written, conflicts: vec![] }))
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
