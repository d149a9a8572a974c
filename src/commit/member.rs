//! A transaction of a group on its way to the newest version: what it has walked over, and what it makes of a snapshot.
//!
//! Always holds: what landed is walked over once; those that go before it in its group, which may yet not land, are walked over
//! by a copy.

use super::gather;
use super::reads::{self, Landed};
use super::ticket::{Ticket, ours};
use crate::error::{ConflictReport, Error, Result};
use crate::faulty::{self, Fault};
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::Snapshot;
use crate::manifest::version::Version;
use crate::store::ObjectName;
use crate::txn::composite::{CommitFacts, CommittedTransaction, RowCounts};
use crate::txn::rebase::{self, Collision, Rebase};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A transaction on its way.
pub(super) struct Member {
    pub ticket: Arc<Ticket>,
    rebase: Rebase,
    /// The version up to which it has walked.
    walked: u64,
}

/// A transaction as it would land, and the table before and after it, with the pages in memory that it touches.
pub(super) struct Candidate {
    pub committed: CommittedTransaction,
    pub before: Snapshot,
    pub after: Snapshot,
}

/// What a transaction comes to on a snapshot.
pub(super) enum Verdict {
    /// It can land.
    Lands(Box<Candidate>),
    /// Nothing is left to change.
    Nothing { counts: Vec<RowCounts>, facts: CommitFacts },
}

impl Member {
    /// A transaction that has walked over nothing yet.
    pub fn new(ticket: Arc<Ticket>, table: &str) -> Result<Self> {
        let staged = &ticket.staged;
        let rebase = Rebase::new(staged.transaction.clone(), &staged.maps);
        let rebase = rebase.map_err(|collision| conflict(&ticket, table, collision))?.reading(&staged.fields_read);
        let walked = staged.transaction.read_version;
        Ok(Member { ticket, rebase, walked })
    }

    /// Walks up to the version `newest`, or to the one that turns out to hold the transaction, which is returned then. Where
    /// VACUUM has removed what it would have to look at, it collides.
    pub async fn walk(&mut self, log: &VersionLog, newest: &Version) -> Result<Option<Arc<Version>>> {
        self.check_kept(log, newest)?;
        match self.walk_to(log, newest.snapshot.version).await {
            // Removed since we looked?
            Err(error) if !matches!(error, Error::Conflict(_)) => {
                let newest = log.newest().await;
                Err(newest.and_then(|newest| self.check_kept(log, &newest)).err().unwrap_or(error))
            }
            walked => walked,
        }
    }

    /// Refuses to go on where the version that it stands on is no longer kept, or what was written for it.
    fn check_kept(&self, log: &VersionLog, newest: &Version) -> Result<()> {
        let removed = |coordinate: String| {
            let by = Collision { statement: "VACUUM".to_owned(), ..Collision::unnamed(coordinate, newest.snapshot.version) };
            Err(conflict(&self.ticket, log.table(), by))
        };
        let swept = |object: &&ObjectName| object.made_ms().is_some_and(|made_ms| made_ms <= newest.snapshot.swept_ms);
        if let Some(object) = self.ticket.staged.objects.iter().find(swept) {
            return removed(format!("'{object}', written for it, which VACUUM may have removed,"));
        }
        let (walked, mark) = (self.walked, newest.snapshot.low_water_mark);
        if walked >= mark.min(newest.snapshot.version) {
            return Ok(());
        }
        removed(format!("the versions from {walked} to {}, which VACUUM has removed,", mark - 1))
    }

    async fn walk_to(&mut self, log: &VersionLog, newest: u64) -> Result<Option<Arc<Version>>> {
        for number in self.walked + 1..=newest {
            let version = log.read(number).await?;
            if ours(&version, self.ticket.id()).is_some() && !faulty::is(Fault::ApplyTwice) {
                return Ok(Some(version));
            }
            self.ticket.did_not_land(number);
            self.rebase.version_landed();
            for committed in version.transactions.iter().filter(|_| !faulty::is(Fault::BlindRetry)) {
                let landed = Landed { number, committed, before: None, after: &version.snapshot };
                over(&mut self.rebase, &self.ticket, log, landed).await?;
            }
            self.walked = number;
        }
        Ok(None)
    }

    /// What it comes to as the next version after `newest`, behind those that go `first`. `attempts` is how many versions were
    /// tried, this one included. What is written for it is noted in `placed`.
    pub async fn verdict(
        &self,
        log: &VersionLog,
        newest: &Snapshot,
        first: &[Candidate],
        attempts: u32,
        placed: &mut Vec<ObjectName>,
    ) -> Result<Verdict> {
        let number = newest.version + 1;
        let copy;
        let rebase = if first.is_empty() {
            &self.rebase
        } else {
            let mut rebase = self.rebase.clone();
            let mut before = newest;
            for Candidate { committed, after, .. } in first {
                over(&mut rebase, &self.ticket, log, Landed { number, committed, before: Some(before), after }).await?;
                before = after;
            }
            copy = rebase;
            &copy
        };
        let mut before = first.last().map_or(newest, |last| &last.after).clone();
        let collided = |collision| conflict(&self.ticket, log.table(), collision);
        let broken = |reason: String| Error::internal(format!("table '{}', version {number}: {reason}", log.table()));
        let rebased = log.finish(rebase, &mut before).await?.map_err(collided)?;
        let facts = CommitFacts {
            attempts,
            rebased_over: rebased.versions,
            rows_carried: rebased.rows_carried,
            vectors_merged: rebased.vectors_merged,
            groups_dropped: rebased.groups_dropped,
            reran: self.ticket.reran,
        };
        let frees = self.ticket.frees.is_some_and(|freed| freed.is_news_to(newest));
        if rebased.transaction.is_empty() && rebased.gathers.is_empty() && !frees {
            let counts = rebased.transaction.steps.iter().map(|step| step.counts).collect();
            return Ok(Verdict::Nothing { counts, facts: CommitFacts { attempts: 0, ..facts } });
        }
        let mut present = BTreeMap::new();
        let needed = rebase::vectors_needed(&rebased);
        before = log.load_fragments(&before, &needed).await?;
        for id in needed {
            if let Some(fragment) = before.fragments.get(id)? {
                present.insert(id, (*log.deleted_rows(fragment).await?).clone());
            }
        }
        let gathers = rebased.gathers.clone();
        let mut transaction = rebase::settle(rebased, present);
        let (mut after, minted) = match log.apply(&mut before, &transaction, number).await? {
            Ok(applied) => applied,
            // What no coordinate names, as a part of a field that went with its parent: it reads anew.
            Err(error) if facts.rebased_over > 0 || !first.is_empty() => {
                return Err(collided(Collision::unnamed(error.to_string(), before.version)));
            }
            Err(error) => return Err(broken(error.to_string())),
        };
        if !gathers.is_empty() {
            for (step, action) in gather::actions(log, &self.ticket.staged, &gathers, (&before, &after, &minted), placed).await? {
                let step = transaction.steps.get_mut(step).ok_or_else(|| broken(format!("there is no step {step}")))?;
                step.actions.push(action);
            }
            (after, _) = log.apply(&mut before, &transaction, number).await?.map_err(|error| broken(error.to_string()))?;
        }
        let committed = CommittedTransaction { transaction, minted, facts };
        Ok(Verdict::Lands(Box::new(Candidate { committed, before, after })))
    }
}

/// Walks over one transaction.
async fn over(rebase: &mut Rebase, ticket: &Ticket, log: &VersionLog, landed: Landed<'_>) -> Result<()> {
    let needed = rebase.maps_needed(landed.committed);
    let maps = log.maps(landed.committed, &needed).await?;
    let mut collision = rebase.over(landed.number, landed.committed, &maps).err();
    let staged = &ticket.staged;
    let unlisted = staged.transaction.has_unlisted_keys() || landed.committed.transaction.has_unlisted_keys();
    for reads in [Some(&staged.reads), Some(&staged.key_reads).filter(|_| unlisted)].into_iter().flatten() {
        if collision.is_none() {
            collision = reads::collision(reads, log, &landed).await?;
        }
    }
    collision.map_or(Ok(()), |collision| Err(conflict(ticket, log.table(), collision)))
}

fn conflict(ticket: &Ticket, table: &str, collision: Collision) -> Error {
    let report = ConflictReport {
        table: table.to_owned(),
        coordinate: collision.coordinate,
        rows: collision.rows.iter().map(ToString::to_string).collect(),
        transaction: ticket.id().to_string(),
        statement: ticket.staged.transaction.describe(),
        read_version: ticket.staged.transaction.read_version,
        other_version: collision.version,
        other_transaction: collision.transaction,
        other_statement: collision.statement,
    };
    tracing::debug!(
        table,
        transaction = report.transaction,
        statement = report.statement,
        coordinate = report.coordinate,
        rows = report.rows.join(", "),
        read_version = report.read_version,
        other_version = report.other_version,
        other_transaction = report.other_transaction,
        other_statement = report.other_statement,
        "a transaction collided"
    );
    Error::Conflict(Box::new(report))
}
