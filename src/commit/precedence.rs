//! Precedence: a statement that collided again and again asks the others of this process to let it pass.
//!
//! ```text
//!   publish      waits while somebody has precedence, but not for long
//!   precedence   waits for those that are publishing, and then keeps others from it: who has it reads, runs and publishes
//! ```
//!
//! It is for progress only. Other processes do not know of it, and who waited long enough goes on without: what may land beside
//! what is decided by rebase alone.

use super::outcome::Committed;
use super::queue::{self, Queue};
use super::staged::Staged;
use super::ticket::{Freed, Issued, Ticket};
use crate::error::Result;
use crate::manifest::log::VersionLog;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};

/// How long a transaction waits for a statement that has precedence.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Who may publish to a table in this process: all at once, or one that has precedence.
pub(super) type Passage = Arc<RwLock<()>>;

/// As long as this lives, others of this process wait to publish to a table.
#[derive(Debug)]
pub struct Precedence {
    _passage: OwnedRwLockWriteGuard<()>,
}

/// Waits for precedence on a table.
pub async fn precedence(log: &VersionLog) -> Result<Precedence> {
    let passage = log.attached::<Queue>()?.passage.clone();
    Ok(Precedence { _passage: passage.write_owned().await })
}

impl Precedence {
    /// Commits a transaction, as [`publish`] does.
    pub async fn publish(&self, log: &VersionLog, staged: impl Into<Arc<Staged>>, reran: u32) -> Result<Committed> {
        queue::enter(log, Ticket::new(staged.into(), reran, log.leases())).await
    }
}

/// Commits a transaction on the newest version of its table, or says why it cannot be; perhaps together with others of this
/// process, in one version. `reran` is how many times its statement was run again before, for the record. Staged objects of
/// a transaction that is not committed are removed.
pub async fn publish(log: &VersionLog, staged: impl Into<Arc<Staged>>, reran: u32) -> Result<Committed> {
    pass(log, Ticket::new(staged.into(), reran, log.leases())).await
}

/// Says in a version what may be gone from then on: only then may it be removed. `staged` is a transaction without actions, since
/// every version has one. If that has been said already, no version is made.
pub async fn free(log: &VersionLog, staged: Staged, freed: Freed) -> Result<Committed> {
    pass(log, Ticket::freeing(Arc::new(staged), freed, log.leases())).await
}

/// Lets a statement that has precedence go first.
async fn pass(log: &VersionLog, issued: Issued) -> Result<Committed> {
    let passage = log.attached::<Queue>()?.passage.clone();
    let _passage = tokio::time::timeout(MAX_WAIT, passage.read_owned()).await.ok();
    queue::enter(log, issued).await
}
