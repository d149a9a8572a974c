//! Finishing and applying transactions on snapshots whose pages are not all in memory.
//!
//! Goes in: a snapshot, and a transaction on its way. Comes out: what the pure layers make of both. The pages that they look at are
//! loaded into the snapshot that was given, so that whoever looks at the same fragments next finds them.

use super::VersionLog;
use crate::error::Result;
use crate::manifest::apply::{self, ApplyError};
use crate::manifest::fragments::NotLoaded;
use crate::manifest::snapshot::Snapshot;
use crate::table::row_address::FragmentId;
use crate::txn::action::Action;
use crate::txn::composite::Transaction;
use crate::txn::rebase::{Collision, Rebase, Rebased};
use crate::txn::refs::Minted;
use std::collections::BTreeSet;
use std::sync::Mutex;

impl VersionLog {
    /// What is left of a transaction on its way, on this snapshot.
    pub async fn finish(&self, rebase: &Rebase, snapshot: &mut Snapshot) -> Result<Result<Rebased, Collision>> {
        loop {
            let missing: Mutex<BTreeSet<FragmentId>> = Mutex::default();
            let exists = |id| match snapshot.fragments.get(id) {
                Ok(found) => found.is_some(),
                Err(NotLoaded::Fragment(_) | NotLoaded::All) => {
                    super::lock(&missing).insert(id);
                    true
                }
            };
            let rebased = rebase.finish(exists);
            let missing = std::mem::take(&mut *super::lock(&missing));
            if missing.is_empty() {
                return Ok(rebased);
            }
            *snapshot = self.load_fragments(snapshot, &missing).await?;
        }
    }

    /// [`apply`](apply::apply). What it touches is in memory afterwards, before and after it.
    pub async fn apply(
        &self,
        snapshot: &mut Snapshot,
        transaction: &Transaction,
        version: u64,
    ) -> Result<std::result::Result<(Snapshot, Minted), ApplyError>> {
        *snapshot = match transaction.actions().any(|action| matches!(action, Action::ResetTable(_))) {
            true => self.load_all(snapshot).await?,
            false => self.load_fragments(snapshot, &transaction.fragments()).await?,
        };
        let applied = |snapshot: &Snapshot| match apply::apply(snapshot, transaction, version) {
            Err(error) => error.not_loaded().map_or(Ok(Err(error)), Err),
            applied => Ok(applied),
        };
        self.load_for(snapshot, applied).await
    }
}
