//! A version: the snapshot, the transactions that made it of the one before, and when and by whom.

use super::snapshot::Snapshot;
use crate::txn::composite::{CommittedTransaction, TransactionId};

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

/// Transactions that are kept outside their manifest, as the manifest names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionsRef {
    /// The object's name within the table folder.
    pub path: String,
    /// Its length.
    pub size_bytes: u64,
    /// Its CRC-32C.
    pub crc32c: u32,
    /// The transactions in it, in order: enough to find out whose version this is.
    pub ids: Vec<TransactionId>,
}
