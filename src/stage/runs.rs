//! The runs of a statement: it lands, or collides and is run again, a bounded number of times, with a pause in between.
//!
//! Always holds: the collisions are kept in their order, for the user and the record. One that has collided several times asks
//! the others of this process to wait while it runs once more, so that what is slow is not overtaken for ever.

use crate::commit::{self, Committed, Precedence, Staged};
use crate::error::{ConflictReport, Error, Result};
use crate::manifest::log::VersionLog;
use crate::store::env;
use std::time::Duration;

/// The longest pause before a statement is run again.
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// How many times a statement is run again before it asks for precedence.
const PATIENCE: u32 = 3;

/// How a statement fares.
#[derive(Debug)]
pub struct Runs {
    max_attempts: u32,
    reran: u32,
    conflicts: Vec<ConflictReport>,
    precedence: Option<Precedence>,
}

impl Runs {
    /// Before the first run. `reran` is how many times the statement was run before all the same, because its names did not mean
    /// any more what they did.
    pub fn new(max_attempts: u32, reran: u32) -> Self {
        Runs { max_attempts, reran, conflicts: Vec::new(), precedence: None }
    }

    /// How many times the statement was run again so far.
    pub fn reran(&self) -> u32 {
        self.reran
    }

    /// The collisions so far.
    pub fn into_conflicts(self) -> Vec<ConflictReport> {
        self.conflicts
    }

    /// Commits what a run staged.
    pub async fn publish(&self, log: &VersionLog, staged: Staged) -> Result<Committed> {
        match &self.precedence {
            Some(precedence) => precedence.publish(log, staged, self.reran).await,
            None => commit::publish(log, staged, self.reran).await,
        }
    }

    /// Prepares for the next run, after a collision, or (`None`) because nothing was left of what a run did. If there are no more
    /// runs the collision is the error; `false` is the answer if there was none.
    pub async fn again(&mut self, log: &VersionLog, collided: Option<Box<ConflictReport>>) -> Result<bool> {
        if self.reran + 1 >= self.max_attempts {
            return collided.map_or(Ok(false), |report| Err(Error::Conflict(report)));
        }
        self.reran += 1;
        let why = collided.as_ref().map_or("nothing is left of what it did", |report| report.coordinate.as_str());
        tracing::debug!(table = log.table(), reran = self.reran, why, "running a statement again");
        self.conflicts.extend(collided.map(|report| *report));
        if self.reran < PATIENCE {
            let pause = Duration::from_millis(2) * 2u32.saturating_pow(self.reran.min(8));
            tokio::time::sleep(env::jitter(pause.min(MAX_PAUSE))).await;
        } else if self.precedence.is_none() {
            self.precedence = Some(commit::precedence(log).await?);
        }
        Ok(true)
    }
}
