//! A ticket: one transaction that wants to be committed, and whoever waits for the answer.
//!
//! Always holds: the answer is given once. While an answer of the store leaves open whether the transaction landed, the ticket
//! says in which version it may have; an error that is answered then is of kind *unknown*, and its files stay.

use super::outcome::Committed;
use super::staged::{Staged, objects};
use crate::error::{Error, Result};
use crate::manifest::leases::{Lease, Leases};
use crate::manifest::snapshot::Snapshot;
use crate::manifest::version::Version;
use crate::store::ObjectName;
use crate::txn::composite::{CommittedTransaction, TransactionId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// What became of a transaction, and the objects of it that no version names.
#[derive(Debug)]
pub(super) struct Answer {
    pub outcome: Result<Committed>,
    pub unnamed: Vec<ObjectName>,
}

/// What may be gone from a version on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freed {
    /// Versions below this one, and their names.
    pub low_water_mark: u64,
    /// Objects whose names were made by then, in milliseconds since 1970, and that nothing names.
    pub swept_ms: u64,
}

impl Freed {
    /// Whether it is more than what may be gone of a table already.
    pub fn is_news_to(&self, snapshot: &Snapshot) -> bool {
        self.low_water_mark > snapshot.low_water_mark || self.swept_ms > snapshot.swept_ms
    }
}

/// A ticket, and where its answer will be.
pub(super) type Issued = (Arc<Ticket>, oneshot::Receiver<Answer>);

/// A transaction that wants to be committed.
#[derive(Debug)]
pub(super) struct Ticket {
    /// What is to be committed.
    pub staged: Arc<Staged>,
    /// How often its statement was run again.
    pub reran: u32,
    /// What it frees of its table.
    pub frees: Option<Freed>,
    /// The version in which it may still come to be; 0 for none.
    doubt: AtomicU64,
    answer: Mutex<Option<oneshot::Sender<Answer>>>,
    /// Keeps what it has to walk over, and what is written for it, also when nobody waits any more.
    _lease: Arc<Lease>,
}

impl Ticket {
    /// A ticket, and where its answer will be.
    pub fn new(staged: Arc<Staged>, reran: u32, leases: &Arc<Leases>) -> Issued {
        Ticket::issue(staged, reran, None, leases)
    }

    /// The same, for a transaction that also frees something.
    pub fn freeing(staged: Arc<Staged>, freed: Freed, leases: &Arc<Leases>) -> Issued {
        Ticket::issue(staged, 0, Some(freed), leases)
    }

    fn issue(staged: Arc<Staged>, reran: u32, frees: Option<Freed>, leases: &Arc<Leases>) -> Issued {
        let (sender, receiver) = oneshot::channel();
        let _lease = leases.take(staged.transaction.read_version);
        let (doubt, answer) = (AtomicU64::new(0), Mutex::new(Some(sender)));
        (Arc::new(Ticket { staged, reran, frees, doubt, answer, _lease }), receiver)
    }

    /// The transaction's identity.
    pub fn id(&self) -> TransactionId {
        self.staged.transaction.id
    }

    fn sender(&self) -> MutexGuard<'_, Option<oneshot::Sender<Answer>>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has its answer.
    pub fn is_answered(&self) -> bool {
        self.sender().is_none()
    }

    /// It is part of an attempt at a version, and may come to be there until something else is known.
    pub fn may_land(&self, version: u64) {
        self.doubt.store(version, Ordering::Release);
    }

    /// It did not come to be in a version, and will not any more.
    pub fn did_not_land(&self, version: u64) {
        // Whether another version was in question does not matter here.
        let _ = self.doubt.compare_exchange(version, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The version in which it may still come to be.
    pub fn doubt(&self) -> Option<u64> {
        Some(self.doubt.load(Ordering::Acquire)).filter(|version| *version > 0)
    }

    /// Answers. Whoever waited may be gone; then so is the answer.
    pub fn answer(&self, table: &str, outcome: Result<Committed>) {
        let Some(sender) = self.sender().take() else { return };
        let outcome = outcome.map_err(|error| match (error, self.doubt()) {
            (error @ Error::OutcomeUnknown { .. }, _) | (error, None) => error,
            (error, Some(version)) => Error::OutcomeUnknown { table: table.to_owned(), version, reason: error.to_string() },
        });
        let unnamed = match &outcome {
            Ok(committed) => self.unnamed(committed.version.and_then(|_| ours(&committed.newest, self.id()))),
            Err(Error::OutcomeUnknown { .. }) => Vec::new(),
            Err(_) => self.unnamed(None),
        };
        if sender.send(Answer { outcome, unnamed }).is_err() {
            tracing::debug!(table, transaction = %self.id(), "nobody waits any more for what became of a transaction");
        }
    }

    /// The staged objects that the transaction as it landed does not name; all of them if it did not land.
    fn unnamed(&self, landed: Option<&CommittedTransaction>) -> Vec<ObjectName> {
        let named = match landed {
            None => Vec::new(),
            // Rewrites that were given up, and what came and went in a transaction, leave files that nothing names.
            Some(landed) => objects(landed.transaction.actions()),
        };
        self.staged.objects.iter().filter(|object| !named.contains(object)).cloned().collect()
    }
}

/// A transaction in a version, if it is there.
pub(super) fn ours(version: &Version, id: TransactionId) -> Option<&CommittedTransaction> {
    version.transactions.iter().find(|committed| committed.transaction.id == id)
}
