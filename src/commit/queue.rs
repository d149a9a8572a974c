//! The queue of a table within a process: who waits to commit, and who commits for all that wait.
//!
//! ```text
//!   publish ──> ticket ──> waiting ──┬── the turn comes: take the tickets that wait, commit them as one group, answer each
//!                                    └── an answer comes: somebody had the turn and took ours along
//! ```
//!
//! Always holds: a ticket is answered once; whoever stops waiting takes its ticket away, if nobody took it along before; a
//! leader that stops in the middle puts the tickets of others back, in their order, before it gives the turn away.

use super::attempt::Group;
use super::outcome::Committed;
use super::precedence::Passage;
use super::staged::remove;
use super::ticket::{Answer, Issued, Ticket};
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many transactions share a version at most.
const MAX_GROUP: usize = 64;
/// How many actions they have together at most, unless one alone has more.
const MAX_GROUP_ACTIONS: usize = 4096;

/// The transactions of one table that wait to be committed.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<VecDeque<Arc<Ticket>>>,
    turn: tokio::sync::Mutex<()>,
    /// Who may enter.
    pub(super) passage: Passage,
}

/// Waits until a transaction is committed, or cannot be.
pub(super) async fn enter(log: &VersionLog, (ticket, mut answer): Issued) -> Result<Committed> {
    let queue = log.attached::<Queue>()?;
    let waiting = Waiting::enter(&queue, ticket);
    let Answer { outcome, unnamed } = loop {
        let turn = tokio::select! {
            biased;
            answered = &mut answer => break answered.map_err(|_| Error::internal("a transaction that waited was forgotten"))?,
            turn = queue.turn.lock() => turn,
        };
        if let Ok(answered) = answer.try_recv() {
            break answered;
        }
        let lead = Lead { queue: &queue, tickets: queue.take(), own: &waiting.ticket, turn };
        Group::new(log, lead.tickets.iter().cloned(), None).commit().await;
    };
    remove(log.store(), &unnamed).await;
    outcome
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Arc<Ticket>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the first that wait, as many as may share a version.
    fn take(&self) -> Vec<Arc<Ticket>> {
        let mut waiting = self.waiting();
        let mut actions = 0;
        let fits = |ticket: &&Arc<Ticket>| {
            let first = actions == 0;
            actions += ticket.staged.transaction.actions().count().max(1);
            first || actions <= MAX_GROUP_ACTIONS
        };
        let count = waiting.iter().take(MAX_GROUP).take_while(fits).count();
        waiting.drain(..count).collect()
    }
}

/// A ticket that waits, as long as this lives.
struct Waiting<'a> {
    queue: &'a Queue,
    ticket: Arc<Ticket>,
}

impl<'a> Waiting<'a> {
    fn enter(queue: &'a Queue, ticket: Arc<Ticket>) -> Self {
        queue.waiting().push_back(ticket.clone());
        Waiting { queue, ticket }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.queue.waiting().retain(|ticket| !Arc::ptr_eq(ticket, &self.ticket));
    }
}

/// The turn, and the tickets that are committed in it.
struct Lead<'a> {
    queue: &'a Queue,
    tickets: Vec<Arc<Ticket>>,
    own: &'a Arc<Ticket>,
    #[expect(dead_code, reason = "given away after the tickets were put back")]
    turn: tokio::sync::MutexGuard<'a, ()>,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting();
        for ticket in self.tickets.drain(..).rev().filter(|ticket| !ticket.is_answered() && !Arc::ptr_eq(ticket, self.own)) {
            waiting.push_front(ticket);
        }
    }
}

#[cfg(test)]
mod tests;
