//! `ChangeOfAddress`: a rewrite moved the live rows of its sources to its targets, and this map says which went where.
//!
//! It changes nothing by itself: the `RemoveFragment`s and `AddFragment`s beside it do. It is what lets others follow
//! their rows, and lets the rewrite follow the deletions of others.
//!
//! Always holds: every target is added by the same transaction, and every source is removed by it or was emptied by others.

use crate::manifest::apply::{ApplyError, Applying};
use crate::txn::refs::FragmentRef;
use bytes::Bytes;

/// Rows moved.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeOfAddress {
    /// The fragments whose rows moved, in the order in which they were read.
    pub sources: Vec<FragmentRef>,
    /// The fragments that took them, in the order in which they were written.
    pub targets: Vec<FragmentRef>,
    /// Where the map itself is.
    pub map: MapLocation,
}

/// Where an encoded [`AddressMap`](crate::txn::address_map::AddressMap) is kept.
#[derive(Debug, Clone, PartialEq)]
pub enum MapLocation {
    /// In the transaction.
    Inline(Bytes),
    /// An object within the table folder.
    Object {
        /// Its name.
        path: String,
        /// Its length.
        size_bytes: u64,
        /// Its CRC-32C.
        crc32c: u32,
    },
}

impl ChangeOfAddress {
    /// Applies the action: its targets must be there by now. A source may be gone: others deleted its last row.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        for fragment in &self.targets {
            to.fragment(*fragment)?;
        }
        Ok(())
    }
}
