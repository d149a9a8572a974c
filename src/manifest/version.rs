//! A version: the snapshot, the transactions that made it of the one before, and when and by whom.

use super::snapshot::Snapshot;
use crate::txn::composite::CommittedTransaction;

/// A version as its manifest holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// The table's state.
    pub snapshot: Snapshot,
    /// The transactions that this version applied to the one before, in order.
    pub transactions: Vec<CommittedTransaction>,
    /// When it was written, in milliseconds since 1970 UTC by the writer's clock. Informative: order never comes from it.
    pub time_ms: u64,
    /// The program that wrote it.
    pub writer: String,
}
