//! `ResetTable`: all fields and all rows go; settings, bases and counters stay, so ids are never used again. Later actions of
//! the transaction build the table anew.
//!
//! It writes everything, so it collides with every other transaction, in both orders.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::wire;
use crate::txn::footprint::Footprint;

/// The table is emptied.
#[derive(Debug, Clone, PartialEq)]
pub struct ResetTable;

impl ResetTable {
    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        to.reset();
        Ok(())
    }

    /// What it writes.
    pub(crate) fn footprint(&self, into: &mut Footprint) {
        into.claim_everything();
    }
}

impl From<&ResetTable> for wire::ResetTable {
    fn from(_: &ResetTable) -> Self {
        wire::ResetTable {}
    }
}

impl From<wire::ResetTable> for ResetTable {
    fn from(_: wire::ResetTable) -> Self {
        ResetTable
    }
}
