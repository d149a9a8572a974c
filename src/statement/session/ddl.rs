//! Statements that make tables and change their definitions.

use super::{Session, changed};
use crate::commit::gather::WriteGathered;
use crate::commit::staged::{Staged, objects, remove};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::catalog::TableName;
use crate::manifest::log::VersionLog;
use crate::plan::options::options;
use crate::scan::pin::ReadView;
use crate::stage::commit_exec::staged;
use crate::stage::gather::Gatherer;
use crate::stage::runs::Runs;
use crate::stage::scope::Done;
use crate::statement::alter::{self, Alteration};
use crate::statement::clone::{self, CloneOf};
use crate::statement::constraints::Definition;
use crate::statement::outcome::Outcome;
use crate::statement::parse::FilesOf;
use crate::statement::replace::{self, Replacement};
use crate::statement::{adopt, create};
use crate::txn::composite::CommitFacts;
use datafusion::execution::SessionState;
use datafusion::logical_expr::CreateMemoryTable;
use std::sync::Arc;

impl Session {
    pub(super) async fn alter(&self, state: &SessionState, alteration: Alteration<'_>, sql: &str) -> Result<Outcome> {
        alter::check(alteration)?;
        let table = alteration.table(&self.names())?;
        let log = match self.lake.table(&table).await {
            Err(error) if error.kind() == ErrorKind::NotFound && alteration.if_exists() => {
                return Ok(Outcome::Done("ALTER TABLE".into()));
            }
            log => log?,
        };
        let done = |counts, version, facts, conflicts| {
            changed(Done { operation: "ALTER TABLE".into(), counts, version, facts, files_written: 0, conflicts })
        };
        let mut runs = Runs::new(options(state.config_options()).max_statement_attempts, self.scope.reran());
        loop {
            let (base, _lease) = self.scope.view(&log).await?;
            let alter::Altered { step, reads } = alter::step(state, &log, &base, alteration, sql).await?;
            let (counts, written) = (step.counts, objects(step.actions.iter()));
            if self.in_transaction() {
                if let Err(error) = self.scope.append(&log, &base, step, vec![], (written.clone(), &reads)).await {
                    remove(log.store(), &written).await;
                    return Err(error);
                }
                return Ok(done(counts, None, CommitFacts::default(), vec![]));
            }
            if step.actions.is_empty() {
                let facts = CommitFacts { reran: runs.reran(), ..CommitFacts::default() };
                return Ok(done(counts, None, facts, runs.into_conflicts()));
            }
            if let Err(stopped) = self.scope.commits() {
                remove(log.store(), &written).await;
                return Err(stopped);
            }
            let gathering: Option<Arc<dyn WriteGathered>> = Some(Arc::new(Gatherer::new(state.task_ctx())));
            let staged = Staged { fields_read: reads, gathering, ..staged(base.snapshot.version, step, vec![], written) };
            match runs.publish(&log, staged).await {
                // Another was first: the column may be there by now, or the statement has to say so.
                Err(Error::Conflict(report)) => {
                    self.scope.runs_again();
                    runs.again(&log, Some(report)).await.map(drop)?;
                }
                Err(error) => return Err(error),
                Ok(committed) => return Ok(done(counts, committed.version, committed.facts, runs.into_conflicts())),
            }
        }
    }

    pub(super) async fn create_table(
        &self,
        state: &SessionState,
        name: &TableName,
        create: CreateMemoryTable,
        definition: &Definition,
        sql: &str,
    ) -> Result<Outcome> {
        loop {
            let existing = self.lake.find(name).await?;
            if let Some(log) = existing.as_ref().filter(|_| create.or_replace) {
                create::check(&create, name)?;
                return self.replace(log, Replacement::Create { create: &create, definition }, sql).await;
            }
            self.no_transaction("CREATE TABLE")?;
            if create.or_replace && self.lake.known_catalog().views.contains_key(name) {
                return Err(Error::refused("42809", format!("'{name}' is a view and no table, so no table can replace it")));
            }
            if self.is_anothers(name).await? {
                return name_is_taken(name, create.if_not_exists);
            }
            match create::create_table(&self.lake, (&self.scope, state), name, &create, definition, sql).await {
                // Another created it first, and is replaced.
                Err(Error::TableExists { .. }) if create.or_replace => {}
                done => return done.map(changed),
            }
        }
    }

    pub(super) async fn replace(&self, log: &Arc<VersionLog>, replacement: Replacement<'_>, sql: &str) -> Result<Outcome> {
        replace::replace(&self.scope, &self.ctx.state(), log, replacement, sql).await.map(changed)
    }

    pub(super) async fn create_from_files(&self, files: &FilesOf, sql: &str) -> Result<Outcome> {
        self.no_transaction("CREATE TABLE")?;
        if self.is_anothers(&files.table).await? {
            return name_is_taken(&files.table, files.lenient);
        }
        Ok(changed(adopt::create_table(&self.lake, &self.scope, files, sql).await?))
    }

    pub(super) async fn create_clone(&self, clone: &CloneOf, sql: &str) -> Result<Outcome> {
        self.no_transaction("CREATE TABLE")?;
        if self.is_anothers(&clone.table).await? {
            return name_is_taken(&clone.table, clone.lenient);
        }
        Ok(changed(clone::create_clone(&self.lake, &self.scope, clone, sql).await?))
    }

    /// Whether a name is that of a view or a table of this session alone.
    pub(super) async fn is_anothers(&self, name: &TableName) -> Result<bool> {
        let catalog = self.lake.catalog().await?;
        let in_lake = catalog.tables.contains_key(name) || catalog.views.contains_key(name);
        Ok(!in_lake && catalog.has_namespace(&name.namespace) && self.ctx.table_exist(self.names().whole(name))?)
    }
}

/// What CREATE TABLE comes to where the name is that of something else than a table of the lake.
fn name_is_taken(name: &TableName, if_not_exists: bool) -> Result<Outcome> {
    match if_not_exists {
        true => Ok(Outcome::Done("CREATE TABLE".into())),
        false => Err(Error::TableExists { table: name.to_string() }),
    }
}
