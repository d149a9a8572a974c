//! Attempts at the next version, until it holds the transaction or cannot.
//!
//! An answer of the store other than "created" proves nothing: a lost answer, a conditional write that a proxy repeated,
//! a time-out. Only reading the slot decides: our transaction's id in it means that we committed.
//!
//! Names of old versions are freed by VACUUM, which raises the low-water mark first. So a writer that paused for long may
//! find the versions gone that it would have to walk over (then it collides), or create a version whose name had been freed
//! (then that version is none, and it goes on). It looks whether the version that it built upon is still there: they are
//! freed from the oldest on.
//!
//! Always holds: a transaction is never applied twice and never reported as failed when it landed.

use super::WRITER;
use super::invariants;
use super::outcome::Committed;
use super::place;
use super::staged::{Staged, objects, remove};
use crate::error::{ConflictReport, Error, Result};
use crate::faulty::{self, Fault};
use crate::manifest::apply::apply;
use crate::manifest::encode;
use crate::manifest::leases::Lease;
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::Snapshot;
use crate::manifest::version::Version;
use crate::store::{CreateAnswer, ObjectName, env};
use crate::txn::composite::{CommitFacts, CommittedTransaction, Transaction, TransactionId};
use crate::txn::rebase::{self, Collision, Rebase};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How many versions a commit tries before it says that the table is too busy.
const MAX_ATTEMPTS: u32 = 1000;
/// How many unclear answers of the store in a row a commit bears.
const MAX_UNCLEAR_ANSWERS: u32 = 5;
/// The longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_millis(50);
/// Every so many versions the hint is written.
const HINT_INTERVAL: u64 = 16;

/// Commits a transaction on the newest version of its table, or says why it cannot be. `reran` is how many times its
/// statement was run again before, for the record. Staged objects of a transaction that is not committed are removed.
pub async fn publish(log: &VersionLog, staged: &Staged, reran: u32) -> Result<Committed> {
    let _turn = log.turn().await;
    Attempts::new(log, staged, reran, None).finish().await
}

/// Raises the low-water mark of a table to `mark`, by a version of its own: from then on the names of the versions below may
/// be freed. `staged` is a transaction without actions. If the mark is there already, no version is made.
pub async fn raise_low_water_mark(log: &VersionLog, staged: &Staged, mark: u64) -> Result<Committed> {
    let _turn = log.turn().await;
    Attempts { mark: Some(mark), ..Attempts::new(log, staged, 0, None) }.finish().await
}

/// Creates a table: its first version, made of nothing by the transaction.
pub async fn publish_first(log: &VersionLog, staged: &Staged, table_id: u128) -> Result<Committed> {
    Attempts::new(log, staged, 0, Some(table_id)).finish().await
}

struct Attempts<'a> {
    log: &'a VersionLog,
    staged: &'a Staged,
    reran: u32,
    /// The identity of a table that is being created.
    creating: Option<u128>,
    /// The low-water mark that is wanted.
    mark: Option<u64>,
    attempts: u32,
    /// Unclear answers in a row.
    unclear: u32,
    /// The version in which the transaction may still come to be, after an unclear answer: a late success. Only what else
    /// turns up in that slot removes the doubt.
    doubt: Option<u64>,
    /// Vectors, pages and the like, by the attempt that wrote them.
    placed: Vec<(u32, ObjectName)>,
    /// Keeps what is placed.
    _lease: Arc<Lease>,
}

/// What an attempt came to.
enum Attempt {
    /// The version is ours.
    Landed(Committed),
    /// The slot went to somebody else.
    Lost,
    /// The slot was absent after an unclear answer.
    Absent(Error),
}

impl<'a> Attempts<'a> {
    fn new(log: &'a VersionLog, staged: &'a Staged, reran: u32, creating: Option<u128>) -> Self {
        let _lease = log.leases().take(staged.transaction.read_version);
        Attempts { log, staged, reran, creating, mark: None, attempts: 0, unclear: 0, doubt: None, placed: Vec::new(), _lease }
    }

    /// Runs, and removes the objects that no version names for certain.
    async fn finish(mut self) -> Result<Committed> {
        let outcome = self.run().await;
        let outcome = outcome.map_err(|error| match (error, self.doubt) {
            (error @ Error::OutcomeUnknown { .. }, _) | (error, None) => error,
            (error, Some(version)) => Error::OutcomeUnknown { table: self.log.table().to_owned(), version, reason: error.to_string() },
        });
        let unnamed = match &outcome {
            Ok(committed) => self.unnamed(committed.version.and_then(|_| ours(&committed.newest, self.staged.transaction.id))),
            Err(Error::OutcomeUnknown { .. }) => Vec::new(),
            Err(_) => self.unnamed(None),
        };
        remove(self.log.store(), &unnamed).await;
        outcome
    }

    /// The objects that the transaction as it landed does not name; all of them if it did not land.
    fn unnamed(&self, landed: Option<&CommittedTransaction>) -> Vec<ObjectName> {
        let named = match landed {
            None => Vec::new(),
            // Rewrites that were given up, and what came and went in a transaction, leave files that nothing names.
            Some(landed) => objects(landed.transaction.actions()),
        };
        let landed_attempt = landed.map(|landed| landed.facts.attempts);
        let lost = self.placed.iter().filter(|(attempt, _)| Some(*attempt) != landed_attempt).map(|(_, object)| object);
        self.staged.objects.iter().filter(|object| !named.contains(object)).chain(lost).cloned().collect()
    }

    async fn run(&mut self) -> Result<Committed> {
        let transaction = &self.staged.transaction;
        let mut rebase = Rebase::new(transaction.clone(), &self.staged.maps).map_err(|c| self.conflict(c))?;
        let mut walked = transaction.read_version;
        loop {
            let newest = self.newest().await?;
            self.check_kept(walked + 1, &newest)?;
            for version in walked + 1..=newest.snapshot.version {
                match self.walk(&mut rebase, version).await {
                    Ok(Some(landed)) => return Ok(landed),
                    Ok(None) => {}
                    // Removed since we looked?
                    Err(error @ Error::Conflict(_)) => return Err(error),
                    Err(error) => {
                        return Err(self.newest().await.and_then(|newest| self.check_kept(version, &newest)).err().unwrap_or(error));
                    }
                }
            }
            walked = walked.max(newest.snapshot.version);
            self.attempts += 1;
            match self.attempt(&rebase, &newest).await? {
                Attempt::Landed(committed) => return Ok(committed),
                Attempt::Lost => self.unclear = 0,
                Attempt::Absent(error) => {
                    self.unclear += 1;
                    if self.unclear >= MAX_UNCLEAR_ANSWERS {
                        return Err(error);
                    }
                }
            }
            if self.attempts >= MAX_ATTEMPTS {
                return Err(Error::TooBusy { table: self.log.table().to_owned(), attempts: self.attempts });
            }
            let pause = Duration::from_millis(1) * 2u32.saturating_pow(self.attempts.min(8));
            tokio::time::sleep(env::jitter(pause.min(MAX_PAUSE))).await;
        }
    }

    /// Refuses to go on from version `next`, if that is no longer kept.
    fn check_kept(&self, next: u64, newest: &Version) -> Result<()> {
        let mark = newest.snapshot.low_water_mark;
        if next >= mark {
            return Ok(());
        }
        let coordinate = format!("the versions from {next} to {}, which VACUUM has removed,", mark - 1);
        Err(self.conflict(Collision::unnamed(coordinate, mark - 1)))
    }

    async fn newest(&self) -> Result<Arc<Version>> {
        match self.creating {
            // A table's first version is created where there is none.
            Some(table_id) => {
                Ok(Arc::new(Version { snapshot: Snapshot::empty(table_id), transactions: vec![], time_ms: 0, writer: WRITER.to_owned() }))
            }
            None => self.log.newest().await,
        }
    }

    /// Walks over one version; returns the outcome if it turns out to be ours.
    async fn walk(&mut self, rebase: &mut Rebase, number: u64) -> Result<Option<Committed>> {
        let version = self.log.read(number).await?;
        if let Some(ours) = ours(&version, self.staged.transaction.id)
            && !faulty::is(Fault::ApplyTwice)
        {
            return Ok(Some(Committed::landed(version.clone(), ours)));
        }
        self.doubt = self.doubt.filter(|slot| *slot != number);
        rebase.version_landed();
        for landed in version.transactions.iter().filter(|_| !faulty::is(Fault::BlindRetry)) {
            let needed = rebase.maps_needed(landed);
            let maps = self.log.maps(landed, &needed).await?;
            rebase.over(number, landed, &maps).map_err(|c| self.conflict(c))?;
        }
        Ok(None)
    }

    async fn attempt(&mut self, rebase: &Rebase, newest: &Arc<Version>) -> Result<Attempt> {
        let before = &newest.snapshot;
        let rebased = rebase.finish(|id| before.fragments.get(id).is_some()).map_err(|c| self.conflict(c))?;
        let mut facts = CommitFacts {
            attempts: self.attempts,
            rebased_over: rebased.versions,
            rows_carried: rebased.rows_carried,
            vectors_merged: rebased.vectors_merged,
            groups_dropped: rebased.groups_dropped,
            reran: self.reran,
        };
        let raises_mark = self.mark.is_some_and(|mark| mark > before.low_water_mark);
        if rebased.transaction.is_empty() && !raises_mark {
            facts.attempts = 0;
            let counts = rebased.transaction.steps.iter().map(|step| step.counts).collect();
            return Ok(Attempt::Landed(Committed { version: None, newest: newest.clone(), counts, facts }));
        }
        let mut present = BTreeMap::new();
        for id in rebase::vectors_needed(&rebased) {
            if let Some(fragment) = before.fragments.get(id) {
                present.insert(id, (*self.log.deleted_rows(fragment).await?).clone());
            }
        }
        let transaction = rebase::settle(rebased, present);
        let mut placed = Vec::new();
        let attempt = self.create(newest, transaction, facts, &mut placed).await;
        self.placed.extend(placed.into_iter().map(|object| (self.attempts, object)));
        attempt
    }

    async fn create(
        &mut self,
        newest: &Arc<Version>,
        mut transaction: Transaction,
        facts: CommitFacts,
        placed: &mut Vec<ObjectName>,
    ) -> Result<Attempt> {
        let store = self.log.store();
        let before = &newest.snapshot;
        let number = before.version + 1;
        let broken = |reason: String| Error::internal(format!("table '{}', version {number}: {reason}", self.log.table()));
        let (mut after, minted) = match apply(before, &transaction, number) {
            Ok(applied) => applied,
            // What no coordinate names, as a part of a field that went with its parent: it reads anew.
            Err(error) if facts.rebased_over > 0 => return Err(self.conflict(Collision::unnamed(error.to_string(), before.version))),
            Err(error) => return Err(broken(error.to_string())),
        };
        if self.staged.field_ids.iter().any(|(token, id)| minted.fields.get(token) != Some(id)) {
            // Files name their columns by id, and others were given the ids that these count on.
            let coordinate = "the ids of the columns that both added".to_owned();
            return Err(self.conflict(Collision::unnamed(coordinate, before.version)));
        }
        if place::place_vectors(store, &mut transaction, &after, &minted, placed).await? {
            (after, _) = apply(before, &transaction, number).map_err(|e| broken(e.to_string()))?;
        }
        if let Some(mark) = self.mark {
            after.low_water_mark = mark.min(before.version).max(before.low_water_mark);
        }
        if !faulty::any() {
            invariants::check(before, &after, &transaction).map_err(broken)?;
        }
        if let Some(folded) = place::place_pages(store, &after.fragments, placed).await? {
            after.fragments = folded;
        }
        let committed = CommittedTransaction { transaction, minted, facts };
        let version = Version { snapshot: after, transactions: vec![committed], time_ms: env::now_ms(), writer: WRITER.to_owned() };
        let transactions = encode::encode_transactions(&version.transactions).map_err(|e| broken(e.to_string()))?;
        let spilled = if transactions.needs_object() {
            let name = ObjectName::new_transaction();
            let reference = transactions.reference(name.as_str());
            placed.push(name.clone());
            store.write(&name, transactions.bytes).await?;
            Some(reference)
        } else {
            None
        };
        let manifest = encode::encode_manifest(&version, spilled.as_ref()).map_err(|e| broken(e.to_string()))?;
        let version = Arc::new(version);
        match store.create(&ObjectName::version(number), manifest.bytes).await {
            CreateAnswer::Created => self.created(version).await,
            CreateAnswer::Refused(error) => Err(error),
            CreateAnswer::Exists => self.whose(number, None).await,
            CreateAnswer::Unclear(error) => self.whose(number, Some(error)).await,
        }
    }

    /// The slot is ours.
    async fn created(&mut self, version: Arc<Version>) -> Result<Attempt> {
        let number = version.snapshot.version;
        self.doubt = Some(number);
        let stands = self.stands(&version).await?;
        self.doubt = None;
        if !stands {
            // So that nobody takes it for a version. If that fails, it is below the mark, and VACUUM removes it.
            remove(self.log.store(), &[ObjectName::version(number)]).await;
            return Ok(Attempt::Lost);
        }
        self.log.remember(version.clone());
        if number.is_multiple_of(HINT_INTERVAL) {
            self.log.write_hint(number).await;
        }
        let transaction = version.transactions.first().ok_or_else(|| Error::internal("a version without transactions"))?;
        Ok(Attempt::Landed(Committed::landed(version.clone(), transaction)))
    }

    /// Whether a version that we created is one, or its name had been freed before.
    async fn stands(&self, ours: &Version) -> Result<bool> {
        let number = ours.snapshot.version;
        // They are removed one after another, the oldest first: where the one before is, none after it was.
        if self.creating.is_some() || self.is_there(number - 1).await? {
            return Ok(true);
        }
        let kept = self.log.listed_newest().await?;
        if kept.snapshot.low_water_mark <= number {
            return Ok(true);
        }
        let oldest = self.log.read(kept.snapshot.low_water_mark).await?;
        let unknown = || Error::internal(format!("version {number} was removed by VACUUM as soon as it was created, or before"));
        descends(&oldest.snapshot, &ours.snapshot).ok_or_else(unknown)
    }

    /// Whether there is a manifest of a version. It is asked more than once: without an answer, a commit that landed would
    /// have to be called unknown.
    async fn is_there(&self, number: u64) -> Result<bool> {
        for attempt in 0..MAX_UNCLEAR_ANSWERS {
            match self.log.store().exists(&ObjectName::version(number)).await {
                Err(error) if attempt + 1 < MAX_UNCLEAR_ANSWERS => tracing::debug!(%error, number, "asking again for a version"),
                answer => return answer,
            }
            tokio::time::sleep(env::jitter(MAX_PAUSE)).await;
        }
        Ok(false)
    }

    /// Whose the slot is, after any answer but "created".
    async fn whose(&mut self, number: u64, unclear: Option<Error>) -> Result<Attempt> {
        self.doubt = Some(number);
        let slot = self.log.read_if_present(number).await.map_err(|error| Error::OutcomeUnknown {
            table: self.log.table().to_owned(),
            version: number,
            reason: match &unclear {
                Some(first) => format!("{first}; and the version cannot be read: {error}"),
                None => format!("the version cannot be read: {error}"),
            },
        })?;
        // Where the slot is taken, nothing of ours can still come to be in it.
        self.doubt = self.doubt.filter(|_| slot.is_none());
        match slot {
            Some(version) => match ours(&version, self.staged.transaction.id) {
                Some(_) if faulty::is(Fault::ApplyTwice) => Ok(Attempt::Lost),
                Some(_) if faulty::is(Fault::FailThoughLanded) => Err(Error::internal("the answer was lost")),
                Some(_) => self.created(version.clone()).await,
                None if self.creating.is_some() => Err(Error::TableExists { table: self.log.table().to_owned() }),
                None => Ok(Attempt::Lost),
            },
            None => Ok(Attempt::Absent(unclear.unwrap_or_else(|| {
                Error::internal(format!(
                    "the store says that version {number} of table '{}' exists, and does not have it",
                    self.log.table()
                ))
            }))),
        }
    }

    fn conflict(&self, collision: Collision) -> Error {
        Error::Conflict(Box::new(ConflictReport {
            table: self.log.table().to_owned(),
            coordinate: collision.coordinate,
            rows: collision.rows.iter().map(ToString::to_string).collect(),
            read_version: self.staged.transaction.read_version,
            other_version: collision.version,
            other_transaction: collision.transaction,
            other_statement: collision.statement,
        }))
    }
}

/// Whether `later` came of a version that reads `ours`, by the fragments that were not changed since; `None` if there are none.
fn descends(later: &Snapshot, ours: &Snapshot) -> Option<bool> {
    let mut made_then = None;
    for fragment in later.fragments.iter().filter(|fragment| fragment.updated_at <= ours.version) {
        if ours.fragments.get(fragment.id) != Some(fragment) {
            return Some(false);
        }
        if fragment.updated_at == ours.version {
            made_then = Some(true);
        }
    }
    made_then
}

/// Our transaction in a version, if it is there.
fn ours(version: &Version, id: TransactionId) -> Option<&CommittedTransaction> {
    version.transactions.iter().find(|committed| committed.transaction.id == id)
}
