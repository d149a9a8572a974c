//! The scope of a session: what its statements share. It travels in the session's configuration, so that scans and
//! writers deep in a plan find it.
//!
//! A session without a scope (a host's own `SessionContext`) commits every statement by itself.
//!
//! Always holds: inside a transaction every read of a table sees the version that the transaction read first, with the
//! transaction's own changes; a statement that fails inside a transaction leaves only ROLLBACK.

use super::course::Course;
use super::progress::{self, Progress};
use super::transaction::{OpenTransaction, Target};
use crate::commit::Staged;
use crate::error::{ConflictReport, Error, Result};
use crate::faulty::{self, Fault};
use crate::manifest::leases::Lease;
use crate::manifest::log::VersionLog;
use crate::manifest::version::Version;
use crate::scan::pin::ReadView;
use crate::scan::read::Read;
use crate::store::ObjectName;
use crate::table::schema::FieldId;
use crate::txn::address_map::AddressMap;
use crate::txn::composite::{CommitFacts, RowCounts, Step};
use async_trait::async_trait;
use datafusion::physical_plan::ExecutionPlan;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the statements of a session share.
#[derive(Debug, Default)]
pub struct SessionScope {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The statement that runs, in the user's words.
    statement: Option<String>,
    transaction: Option<OpenTransaction>,
    /// How many times it was run before all the same, because its names did not mean any more what they did.
    reran: u32,
    /// Whether the statement that runs is only to be staged.
    staging: bool,
    staged: Option<StagedStatement>,
    done: Option<Done>,
    course: Course,
    /// What runs.
    plan: Option<Arc<dyn ExecutionPlan>>,
}

/// A statement that ran and was not committed.
#[derive(Debug, Clone)]
pub struct StagedStatement {
    /// The versions of its table.
    pub log: Arc<VersionLog>,
    /// What is to be committed.
    pub staged: Staged,
    /// What keeps the version that it read, and what it wrote.
    pub lease: Arc<Lease>,
}

/// What the last statement changed.
#[derive(Debug, Clone)]
pub struct Done {
    /// The kind of statement.
    pub operation: String,
    /// Rows.
    pub counts: RowCounts,
    /// The version that holds the change; `None` if there is none, or none yet.
    pub version: Option<u64>,
    /// What it took.
    pub facts: CommitFacts,
    /// How many data files and maps were written for it.
    pub files_written: usize,
    /// The collisions for which it was run again, in their order.
    pub conflicts: Vec<ConflictReport>,
}

impl SessionScope {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A statement has ended: what runs on the session's context by itself is no statement of the session.
    pub fn end_statement(&self) {
        let mut state = self.state();
        state.course.end();
        state.plan = None;
        state.statement = None;
        state.reran = 0;
        state.staging = false;
    }

    /// How many times the statement began before.
    pub fn reran(&self) -> u32 {
        self.state().reran
    }

    /// A statement begins; what the last one left is forgotten. `reran` is how many times it began before, because its names did
    /// not mean any more what they did.
    pub fn begin_statement(&self, statement: &str, staging: bool, reran: u32) {
        let mut state = self.state();
        state.reran = reran;
        state.statement = Some(statement.to_owned());
        state.staging = staging;
        state.staged = None;
        state.done = None;
        state.course.begin();
    }

    /// The statement begins to commit: from here on it cannot be stopped, unless it was already.
    pub fn commits(&self) -> Result<()> {
        self.state().course.commit()
    }

    /// The statement runs this plan from now on.
    pub fn watch(&self, plan: &Arc<dyn ExecutionPlan>) {
        let mut state = self.state();
        if state.course != Course::Ended {
            state.plan = Some(plan.clone());
        }
    }

    /// How much the statement has done so far; `None` if none runs a plan.
    pub fn progress(&self) -> Option<Progress> {
        let plan = self.state().plan.clone();
        plan.map(|plan| progress::of_plan(&plan))
    }

    /// The statement collided and runs again.
    pub fn runs_again(&self) {
        self.state().course.begin();
    }

    /// The statement is to stop. How far it was: it is stopped if it was running.
    pub fn stop(&self) -> Course {
        self.state().course.stop()
    }

    /// The statement that runs, in the user's words.
    pub fn statement(&self) -> Option<String> {
        self.state().statement.clone()
    }

    /// What the statement changed, if it was one that changes.
    pub fn take_done(&self) -> Option<Done> {
        self.state().done.take()
    }

    /// What the statement staged, if it was only to be staged.
    pub fn take_staged(&self) -> Option<StagedStatement> {
        self.state().staged.take()
    }

    /// Notes what the statement changed.
    pub fn set_done(&self, done: Done) {
        self.state().done = Some(done);
    }

    /// Keeps a staged statement, if that is what the session wants. Gives it back otherwise.
    pub(super) fn keep_staged(&self, log: &Arc<VersionLog>, staged: Staged, lease: &Arc<Lease>) -> Option<Staged> {
        let mut state = self.state();
        if state.staging {
            state.staged = Some(StagedStatement { log: log.clone(), staged, lease: lease.clone() });
            return None;
        }
        Some(staged)
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.state().transaction.is_some()
    }

    /// Opens a transaction.
    pub fn begin(&self) -> Result<()> {
        let mut state = self.state();
        if state.transaction.is_some() {
            let reason = "a transaction is already open; say COMMIT or ROLLBACK first".into();
            return Err(Error::TransactionState { reason, sqlstate: "25001" });
        }
        state.transaction = Some(OpenTransaction::default());
        Ok(())
    }

    /// Ends the transaction and gives what it staged.
    pub fn end(&self) -> Result<OpenTransaction> {
        let none = || Error::TransactionState { reason: "no transaction is open; say BEGIN first".into(), sqlstate: "25P01" };
        self.state().transaction.take().ok_or_else(none)
    }

    /// A statement failed: an open transaction can only be rolled back.
    pub fn fail(&self, reason: &str) {
        if let Some(transaction) = &mut self.state().transaction {
            transaction.failed.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Refuses statements in a transaction that has failed.
    pub fn check_usable(&self) -> Result<()> {
        match self.state().transaction.as_ref().and_then(|transaction| transaction.failed.as_ref()) {
            None => Ok(()),
            Some(reason) => {
                let reason = format!("the transaction has failed ({reason}); say ROLLBACK");
                Err(Error::TransactionState { reason, sqlstate: "25P02" })
            }
        }
    }
}

#[async_trait]
impl ReadView for SessionScope {
    async fn view(&self, log: &VersionLog) -> Result<(Arc<Version>, Arc<Lease>)> {
        let key = log.store().label().to_owned();
        match &self.state().transaction {
            None => {}
            Some(transaction) => {
                if let Some(view) = transaction.view(&key) {
                    return Ok(view);
                }
            }
        }
        let (mut newest, lease) = log.newest_leased().await?;
        if faulty::is(Fault::StaleRead) && self.in_transaction() {
            newest = log.read(newest.snapshot.version.saturating_sub(1).max(2)).await?;
        }
        match &mut self.state().transaction {
            None => Ok((newest, lease)),
            Some(transaction) if faulty::is(Fault::FracturedRead) => {
                Ok(transaction.views.entry(key).insert_entry((newest, lease)).get().clone())
            }
            Some(transaction) => Ok(transaction.views.entry(key).or_insert((newest, lease)).clone()),
        }
    }

    fn note(&self, log: &VersionLog, read: &Arc<Read>) {
        if let Some(transaction) = &mut self.state().transaction {
            transaction.reads.entry(log.store().label().to_owned()).or_default().push(read.clone());
        }
    }
}

impl SessionScope {
    /// Refuses a table that the open transaction cannot change, before anything is written for it.
    pub(super) fn check_target(&self, log: &VersionLog) -> Result<()> {
        match self.state().transaction.as_ref().and_then(|transaction| transaction.target.as_ref()) {
            Some(target) => target.check_table(log),
            None => Ok(()),
        }
    }

    /// Keeps the new keys of a statement for the open transaction.
    pub(super) fn note_keys(&self, log: &VersionLog, reads: Vec<Arc<Read>>) {
        if let Some(transaction) = &mut self.state().transaction {
            transaction.key_reads.entry(log.store().label().to_owned()).or_default().extend(reads);
        }
    }

    /// The newest version of a table that the session can know of: what its transaction read, without its own changes.
    pub async fn newest_read(&self, log: &VersionLog) -> Result<u64> {
        let (version, _) = self.view(log).await?;
        let transaction = &self.state().transaction;
        let read = transaction.as_ref().and_then(|transaction| transaction.target.as_ref()).and_then(|target| target.read_version(log));
        Ok(read.unwrap_or(version.snapshot.version))
    }

    /// Adds a statement's changes to the open transaction. `objects` are those that were written for
    /// the statement, `reads` the fields whose values decided what it changes.
    pub async fn append(
        &self,
        log: &Arc<VersionLog>,
        base: &Arc<Version>,
        step: Step,
        maps: Vec<Arc<AddressMap>>,
        (objects, reads): (Vec<ObjectName>, &BTreeSet<FieldId>),
    ) -> Result<()> {
        if step.actions.is_empty() {
            return Ok(());
        }
        let (held, lease) = match self.state().transaction.as_ref() {
            Some(transaction) => (transaction.target.clone(), transaction.lease(log.store().label())),
            None => (None, None),
        };
        let lease = lease.unwrap_or_else(|| log.leases().take(base.snapshot.version));
        let target = held.unwrap_or_else(|| Target::new(log.clone(), base.clone(), lease));
        let target = target.append(log, step, maps, (objects, reads)).await?;
        match &mut self.state().transaction {
            Some(transaction) => transaction.target = Some(target),
            None => return Err(Error::internal("the transaction ended while a statement of it ran")),
        }
        Ok(())
    }
}

/// The transaction's target table and what is staged for it.
impl OpenTransaction {
    /// What is to be committed; `None` if nothing was changed.
    pub fn into_staged(self) -> Result<Option<StagedStatement>> {
        if let Some(reason) = self.failed {
            let reason = format!("the transaction has failed ({reason}) and was rolled back");
            return Err(Error::TransactionState { reason, sqlstate: "25P02" });
        }
        let (mut reads, mut key_reads) = (self.reads, self.key_reads);
        Ok(self.target.map(|target| {
            let reads = reads.remove(target.label()).unwrap_or_default();
            let key_reads = key_reads.remove(target.label()).unwrap_or_default();
            target.into_staged(reads, key_reads)
        }))
    }

    /// What is to be thrown away; `None` if nothing was staged.
    pub fn into_discarded(self) -> Option<StagedStatement> {
        self.target.map(|target| target.into_staged(vec![], vec![]))
    }

    /// Whether a statement of it failed.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }
}
