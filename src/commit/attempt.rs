//! Attempts at the next version, until it holds the transactions of a group or cannot.
//!
//! ```text
//!   newest version ──> each member walks over what landed ──> one after another: rebase over those before it, settle, apply
//!        ^                                                        │  who collides with one before it is set aside
//!        │                                                        v
//!        └── somebody else's <── read the slot <── not created <── create the version ──> created: all have their answers
//! ```
//!
//! An answer of the store other than "created" proves nothing: a lost answer, a conditional write that a proxy repeated,
//! a time-out. Only reading the slot decides: a transaction's id in it means that it committed.
//!
//! Names of old versions are freed by VACUUM, which raises the low-water mark first. So a writer that paused for long may
//! find the versions gone that it would have to walk over (then it collides), or create a version whose name had been freed
//! (then that version is none, and it goes on). It looks whether the version that it built upon is still there: they are
//! freed from the oldest on.
//!
//! Always holds: a transaction is never applied twice and never reported as failed when it landed. What a member comes to because
//! of others of its group counts once those have landed, and is found out anew if they do not.

use super::WRITER;
use super::invariants;
use super::member::{Candidate, Member, Verdict};
use super::outcome::Committed;
use super::place;
use super::staged::{Staged, remove};
use super::ticket::{Answer, Ticket, ours};
use crate::error::{Error, Result};
use crate::faulty::{self, Fault};
use crate::manifest::encode;
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::Snapshot;
use crate::manifest::version::Version;
use crate::store::{CreateAnswer, ObjectName, env};
use crate::txn::composite::CommitFacts;
use std::collections::BTreeSet;
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

/// Creates a table: its first version, made of nothing by the transaction.
pub async fn publish_first(log: &VersionLog, staged: Arc<Staged>, table_id: u128) -> Result<Committed> {
    let (ticket, mut answer) = Ticket::new(staged, 0, log.leases());
    Group::new(log, [ticket], Some(table_id)).commit().await;
    let Answer { outcome, unnamed } = answer.try_recv().map_err(|_| Error::internal("a table was neither created nor not"))?;
    remove(log.store(), &unnamed).await;
    outcome
}

/// Transactions that are committed together.
pub(super) struct Group<'a> {
    log: &'a VersionLog,
    /// Those without an answer.
    members: Vec<Member>,
    /// The identity of a table that is being created.
    creating: Option<u128>,
    attempts: u32,
    /// Unclear answers in a row.
    unclear: u32,
    /// Vectors, pages and the like, by the attempt that wrote them.
    placed: Vec<(u32, ObjectName)>,
    /// The attempts that landed, late ones too.
    landed: BTreeSet<u32>,
    /// What was written for members that could not land after all, whatever became of the others of their attempt.
    in_vain: Vec<ObjectName>,
    /// Whether an attempt may have landed without anybody knowing.
    unknown: bool,
}

/// What an attempt came to.
enum Attempt {
    /// All that were part of it have their answers, or it must be made again without one that has.
    Over,
    /// The slot went to somebody else.
    Lost,
    /// The slot was absent after an unclear answer.
    Absent(Error),
}

/// What became of the next version.
enum Created {
    /// It was created.
    Version(Arc<Version>),
    /// It is there already; it may be ours all the same.
    Taken(Arc<Version>),
    /// It is not there, after an unclear answer.
    Absent(Error),
    /// It was created, and is none: its name had been freed before. It was removed again.
    Freed,
    /// It would break an invariant because of this one of its transactions.
    Broken(usize, Error),
}

/// What a member comes to if those before it in its group land.
enum Aside {
    Nothing(Committed),
    Fails(Error),
}

impl<'a> Group<'a> {
    /// A group of these transactions, in their order.
    pub fn new(log: &'a VersionLog, tickets: impl IntoIterator<Item = Arc<Ticket>>, creating: Option<u128>) -> Self {
        let mut members = Vec::new();
        for ticket in tickets {
            match Member::new(ticket.clone(), log.table()) {
                Ok(member) => members.push(member),
                Err(error) => ticket.answer(log.table(), Err(error)),
            }
        }
        Group { log, members, creating, attempts: 0, unclear: 0, placed: vec![], landed: BTreeSet::new(), in_vain: vec![], unknown: false }
    }

    /// Commits until every ticket has its answer, and removes the objects that no version names for certain.
    pub async fn commit(mut self) {
        if let Err(error) = self.run().await {
            let mut members = std::mem::take(&mut self.members);
            let last = members.pop();
            for member in members {
                self.answer(&member.ticket, Err(error.copied()));
            }
            if let Some(member) = last {
                self.answer(&member.ticket, Err(error));
            }
        }
        remove(self.log.store(), &self.in_vain).await;
        if !self.unknown {
            let lost: Vec<ObjectName> =
                self.placed.iter().filter(|(attempt, _)| !self.landed.contains(attempt)).map(|(_, object)| object.clone()).collect();
            remove(self.log.store(), &lost).await;
        }
    }

    fn answer(&mut self, ticket: &Ticket, outcome: Result<Committed>) {
        let outcome = outcome.map_err(|error| match error {
            // It was no part of what may have landed.
            Error::OutcomeUnknown { version, reason, .. } if ticket.doubt().is_none() => {
                Error::Store { operation: "read", object: ObjectName::version(version).to_string(), source: reason.into() }
            }
            error => error,
        });
        self.unknown |= outcome.is_err() && ticket.doubt().is_some();
        ticket.answer(self.log.table(), outcome);
    }

    async fn run(&mut self) -> Result<()> {
        loop {
            if self.members.is_empty() {
                return Ok(());
            }
            let newest = self.newest().await?;
            self.walk(&newest).await;
            if self.members.is_empty() {
                return Ok(());
            }
            self.attempts += 1;
            match self.attempt(&newest).await? {
                Attempt::Over => continue,
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

    async fn newest(&self) -> Result<Arc<Version>> {
        match self.creating {
            // A table's first version is created where there is none.
            Some(table_id) => {
                Ok(Arc::new(Version { snapshot: Snapshot::empty(table_id), transactions: vec![], time_ms: 0, writer: WRITER.to_owned() }))
            }
            None => self.log.newest().await,
        }
    }

    /// Every member walks over what landed; those that landed themselves, or cannot any more, have their answers.
    async fn walk(&mut self, newest: &Version) {
        for mut member in std::mem::take(&mut self.members) {
            match member.walk(self.log, newest).await {
                Ok(None) => self.members.push(member),
                Ok(Some(version)) => self.landed_in(&member.ticket, &version),
                Err(error) => self.answer(&member.ticket, Err(error)),
            }
        }
    }

    /// A transaction turned out to be in a version.
    fn landed_in(&mut self, ticket: &Ticket, version: &Arc<Version>) {
        if let Some(committed) = ours(version, ticket.id()) {
            self.landed.insert(committed.facts.attempts);
            let CommitFacts { attempts, rebased_over, rows_carried, vectors_merged, groups_dropped, reran } = committed.facts;
            tracing::debug!(
                table = self.log.table(),
                version = version.snapshot.version,
                transaction = %ticket.id(),
                transactions = version.transactions.len(),
                attempts,
                rebased_over,
                rows_carried,
                vectors_merged,
                groups_dropped,
                reran,
                "a transaction landed"
            );
            self.answer(ticket, Ok(Committed::landed(version.clone(), committed)));
        }
    }

    /// Tries to create the version after `newest`. Members that can land, one behind the other, are part of it; those that cannot
    /// because of these are set aside.
    async fn attempt(&mut self, newest: &Arc<Version>) -> Result<Attempt> {
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut part: Vec<Member> = Vec::new();
        let mut aside: Vec<(Member, Aside)> = Vec::new();
        let mut placed = Vec::new();
        for member in std::mem::take(&mut self.members) {
            let mut written = Vec::new();
            let verdict = match member.verdict(self.log, &newest.snapshot, &candidates, self.attempts, &mut written).await {
                Ok(Verdict::Lands(candidate)) => {
                    placed.append(&mut written);
                    candidates.push(*candidate);
                    part.push(member);
                    continue;
                }
                Ok(Verdict::Nothing { counts, facts }) => {
                    Aside::Nothing(Committed { version: None, newest: newest.clone(), counts, facts, files_written: 0 })
                }
                Err(error) if self.is_superseded(newest, &error).await => {
                    self.in_vain.append(&mut written);
                    self.members.push(member);
                    continue;
                }
                Err(error) => Aside::Fails(error),
            };
            self.in_vain.append(&mut written);
            match candidates.is_empty() {
                true => self.settle_aside(&member.ticket, verdict, newest),
                false => aside.push((member, verdict)),
            }
        }
        if part.is_empty() {
            self.placed.extend(placed.into_iter().map(|object| (self.attempts, object)));
            return Ok(Attempt::Over);
        }
        let mut outcome = Ok(Attempt::Over);
        let created = self.create(newest, candidates, &part, &mut placed).await;
        self.placed.extend(placed.into_iter().map(|object| (self.attempts, object)));
        match created {
            Ok(Created::Version(version)) => {
                for member in part {
                    self.landed_in(&member.ticket, &version);
                }
                for (member, verdict) in aside {
                    self.settle_aside(&member.ticket, verdict, &version);
                }
                return Ok(Attempt::Over);
            }
            Ok(Created::Broken(member, error)) => self.answer(&part.swap_remove(member).ticket, Err(error)),
            Ok(Created::Taken(version)) => {
                let number = version.snapshot.version;
                part.extend(aside.into_iter().map(|(member, _)| member));
                for member in part {
                    let landed = ours(&version, member.ticket.id()).is_some();
                    if landed && faulty::is(Fault::FailThoughLanded) {
                        member.ticket.did_not_land(number);
                        self.answer(&member.ticket, Err(Error::internal("the answer was lost")));
                        continue;
                    }
                    if landed && !faulty::is(Fault::ApplyTwice) {
                        self.landed_in(&member.ticket, &version);
                        continue;
                    }
                    // Where the slot is taken, nothing of ours can still come to be in it.
                    member.ticket.did_not_land(number);
                    match self.creating {
                        Some(_) => self.answer(&member.ticket, Err(Error::TableExists { table: self.log.table().to_owned() })),
                        None => self.members.push(member),
                    }
                }
                return Ok(if self.members.is_empty() { Attempt::Over } else { Attempt::Lost });
            }
            Ok(Created::Freed) => {
                part.iter().for_each(|member| member.ticket.did_not_land(newest.snapshot.version + 1));
                outcome = Ok(Attempt::Lost);
            }
            Ok(Created::Absent(error)) => outcome = Ok(Attempt::Absent(error)),
            Err(error) if self.is_superseded(newest, &error).await => outcome = Ok(Attempt::Lost),
            Err(error) => outcome = Err(error),
        }
        self.members.extend(part);
        self.members.extend(aside.into_iter().map(|(member, _)| member));
        outcome
    }

    /// Whether something that `newest` needs is gone because it is not the newest version any more: VACUUM may have removed it by now.
    async fn is_superseded(&self, newest: &Version, error: &Error) -> bool {
        let gone = self.creating.is_none() && matches!(error, Error::Damaged { .. });
        gone && self.log.newest_number().await.is_ok_and(|number| number > newest.snapshot.version)
    }

    /// A member that those before it left nothing to do, or that collides with one of them: they are in `version` now.
    fn settle_aside(&mut self, ticket: &Ticket, verdict: Aside, version: &Arc<Version>) {
        match verdict {
            Aside::Nothing(committed) => self.answer(ticket, Ok(Committed { newest: version.clone(), ..committed })),
            Aside::Fails(error) => self.answer(ticket, Err(error)),
        }
    }

    /// Creates the version after `newest` that holds the transactions of `part`.
    async fn create(
        &self,
        newest: &Arc<Version>,
        mut candidates: Vec<Candidate>,
        part: &[Member],
        placed: &mut Vec<ObjectName>,
    ) -> Result<Created> {
        let store = self.log.store();
        let number = newest.snapshot.version + 1;
        let broken = |reason: String| Error::internal(format!("table '{}', version {number}: {reason}", self.log.table()));
        if place::place_vectors(store, &mut candidates, placed).await? {
            let mut last = newest.snapshot.clone();
            for candidate in &mut candidates {
                candidate.before = Snapshot { fragments: last.fragments.with_pages_of(&candidate.before.fragments), ..last };
                let applied = self.log.apply(&mut candidate.before, &candidate.committed.transaction, number).await?;
                (candidate.after, _) = applied.map_err(|e| broken(e.to_string()))?;
                last = candidate.after.clone();
            }
        }
        for (position, candidate) in candidates.iter().enumerate().filter(|_| !faulty::any()) {
            if let Err(reason) = invariants::check(&candidate.before, &candidate.after, &candidate.committed.transaction) {
                return Ok(Created::Broken(position, broken(reason)));
            }
        }
        let mut transactions = Vec::with_capacity(candidates.len());
        let mut last = None;
        for Candidate { committed, after, .. } in candidates {
            transactions.push(committed);
            last = Some(after);
        }
        let mut after = last.ok_or_else(|| broken("nothing is left to publish".into()))?;
        for freed in part.iter().filter_map(|member| member.ticket.frees) {
            after.low_water_mark = after.low_water_mark.max(freed.low_water_mark.min(newest.snapshot.version));
            after.swept_ms = after.swept_ms.max(freed.swept_ms);
        }
        after.fragments = match place::place_pages(self.log, &after, placed).await? {
            Some(folded) => folded,
            None => after.fragments.without_records(),
        };
        let version = Version { snapshot: after, transactions, time_ms: env::now_ms(), writer: WRITER.to_owned() };
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
        if let Some(swept) = placed.iter().find(|object| object.made_ms().is_some_and(|made_ms| made_ms <= newest.snapshot.swept_ms)) {
            let source = "our clock is behind that of a VACUUM, which may have removed it as old".into();
            return Err(Error::Store { operation: "name", object: swept.to_string(), source });
        }
        let manifest = encode::encode_manifest(&version, spilled.as_ref()).map_err(|e| broken(e.to_string()))?;
        for member in part {
            member.ticket.may_land(number);
        }
        match store.create(&ObjectName::version(number), manifest.bytes).await {
            CreateAnswer::Created => {
                let version = Arc::new(version);
                self.stands_or_is_removed(&version).await.map(|stands| if stands { Created::Version(version) } else { Created::Freed })
            }
            CreateAnswer::Refused(error) => {
                for member in part {
                    member.ticket.did_not_land(number);
                }
                Err(error)
            }
            CreateAnswer::Exists => self.whose(number, part, None).await,
            CreateAnswer::Unclear(error) => self.whose(number, part, Some(error)).await,
        }
    }

    /// Whether a version that holds ours is one; if not, it is removed, so that nobody takes it for one. (If that fails, it is
    /// below the mark, and VACUUM removes it.)
    async fn stands_or_is_removed(&self, version: &Arc<Version>) -> Result<bool> {
        let number = version.snapshot.version;
        if !self.stands(version).await.map_err(|error| self.unknown(number, error.to_string()))? {
            remove(self.log.store(), &[ObjectName::version(number)]).await;
            self.log.forget(number);
            return Ok(false);
        }
        self.log.remember(version.clone());
        if number.is_multiple_of(HINT_INTERVAL) {
            self.log.write_hint(number).await;
        }
        Ok(true)
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
        let (oldest, ours) = (self.log.load_all(&oldest.snapshot).await?, self.log.load_all(&ours.snapshot).await?);
        descends(&oldest, &ours)?.ok_or_else(unknown)
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

    fn unknown(&self, version: u64, reason: String) -> Error {
        Error::OutcomeUnknown { table: self.log.table().to_owned(), version, reason }
    }

    /// What is in the slot, after any answer but "created".
    async fn whose(&self, number: u64, part: &[Member], unclear: Option<Error>) -> Result<Created> {
        let slot = self.log.read_if_present(number).await.map_err(|error| {
            let reason = match &unclear {
                Some(first) => format!("{first}; and the version cannot be read: {error}"),
                None => format!("the version cannot be read: {error}"),
            };
            self.unknown(number, reason)
        })?;
        Ok(match slot {
            Some(version) if part.iter().any(|member| ours(&version, member.ticket.id()).is_some()) => {
                if self.stands_or_is_removed(&version).await? { Created::Taken(version) } else { Created::Freed }
            }
            Some(version) => Created::Taken(version),
            None => Created::Absent(unclear.unwrap_or_else(|| {
                Error::internal(format!(
                    "the store says that version {number} of table '{}' exists, and does not have it",
                    self.log.table()
                ))
            })),
        })
    }
}

/// Whether `later` came of a version that reads `ours`, by the fragments that were not changed since; `None` if there are none.
fn descends(later: &Snapshot, ours: &Snapshot) -> Result<Option<bool>> {
    let mut made_then = None;
    for fragment in later.fragments.iter()?.filter(|fragment| fragment.updated_at <= ours.version) {
        if ours.fragments.get(fragment.id)? != Some(fragment) {
            return Ok(Some(false));
        }
        if fragment.updated_at == ours.version {
            made_then = Some(true);
        }
    }
    Ok(made_then)
}
