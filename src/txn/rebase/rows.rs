//! Deleted rows as the walk sees them: which, and which of them live on in a new version elsewhere.
//!
//! Two transactions may both delete a row: it is gone either way. A row that either of them replaced cannot be changed
//! by the other, which read the old version.
//!
//! Always holds: `replaced` lies in `added`, also after a move.

use crate::table::row_address::{FragmentId, RowAddress};
use crate::txn::action::SetDeletionFile;
use crate::txn::address_map::{AddressMap, MapError};
use roaring::RoaringBitmap;
use std::collections::BTreeMap;

/// How many rows a report names.
pub(super) const REPORTED_ROWS: usize = 5;

/// Rows of one fragment that a transaction deletes.
#[derive(Debug, Clone, Default)]
pub(super) struct DeletedRows {
    /// All of them.
    pub added: RoaringBitmap,
    /// Those whose new version the transaction inserted elsewhere.
    pub replaced: RoaringBitmap,
}

/// What became of deleted rows when their fragment moved.
pub(super) struct Followed {
    /// Where they are now: targets by number.
    pub targets: Vec<(usize, DeletedRows)>,
    /// Those that did not move, being deleted when the rewrite read them.
    pub absent: DeletedRows,
}

impl DeletedRows {
    /// The rows that an action deletes.
    pub fn of(set: &SetDeletionFile) -> Self {
        DeletedRows { added: set.added.clone(), replaced: set.replaced.clone() }
    }

    /// Rows that are deleted and not replaced.
    pub fn plain(added: RoaringBitmap) -> Self {
        DeletedRows { added, replaced: RoaringBitmap::new() }
    }

    /// The rows on which both collide.
    pub fn collision(&self, other: &DeletedRows) -> RoaringBitmap {
        (&self.added & &other.added) & (&self.replaced | &other.replaced)
    }

    /// Adds the rows of `other`.
    pub fn unite(&mut self, other: DeletedRows) {
        self.added |= other.added;
        self.replaced |= other.replaced;
    }

    /// Follows the rows, which lie in source number `source`, through a move.
    pub fn follow(&self, map: &AddressMap, source: usize) -> Result<Followed, MapError> {
        let added = map.move_rows(source, &self.added)?;
        let replaced = map.move_rows(source, &self.replaced)?;
        let mut replaced_by_target: BTreeMap<usize, RoaringBitmap> = replaced.targets.into_iter().collect();
        let targets = added.targets.into_iter().map(|(target, added)| {
            let replaced = replaced_by_target.remove(&target).unwrap_or_default();
            (target, DeletedRows { added, replaced })
        });
        Ok(Followed { targets: targets.collect(), absent: DeletedRows { added: added.absent, replaced: replaced.absent } })
    }
}

/// The rows that a report names.
pub(super) fn sample(fragment: FragmentId, rows: &RoaringBitmap) -> Vec<RowAddress> {
    rows.iter().take(REPORTED_ROWS).map(|offset| RowAddress::new(fragment, offset)).collect()
}
