//! `SetDeletionFile`: rows of a fragment are deleted.
//!
//! `vector` is the whole vector that readers use. `added` is the delta that rebase works with: the rows that *this*
//! transaction deletes, of which those in `replaced` live on in a new version that it inserts elsewhere. Two
//! transactions may both delete a row; a row that either of them replaced is a conflict.
//!
//! Deleted rows do not come back: an action for a fragment of others that deletes nothing is refused by rebase.
//!
//! Always holds: `replaced` lies in `added`, `added` lies in `vector`; rows of `vector` outside `added` were deleted by
//! others.

use crate::manifest::apply::{ApplyError, Applying};
use crate::table::deletion_vector::DeletionFile;
use crate::txn::refs::FragmentRef;
use roaring::RoaringBitmap;
use std::sync::Arc;

/// Rows of a fragment are deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct SetDeletionFile {
    /// The fragment; may be one that the transaction adds.
    pub fragment: FragmentRef,
    /// The fragment's deletion vector from now on; `None` as long as it is not settled.
    pub vector: Option<DeletionFile>,
    /// The rows that this transaction deletes.
    pub added: RoaringBitmap,
    /// Those of `added` whose new version the transaction inserts elsewhere.
    pub replaced: RoaringBitmap,
}

impl SetDeletionFile {
    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        let mut fragment = (*to.fragment(self.fragment)?).clone();
        if let Some(vector) = &self.vector
            && vector.cardinality() > fragment.physical_rows
        {
            return Err(ApplyError::new(format!(
                "a deletion vector of {} rows for fragment {} of {} rows",
                vector.cardinality(),
                fragment.id,
                fragment.physical_rows
            )));
        }
        if self.added.max().is_some_and(|row| row >= fragment.physical_rows) || !self.replaced.is_subset(&self.added) {
            return Err(ApplyError::new(format!("SetDeletionFile claims rows that fragment {} does not have", fragment.id)));
        }
        let deleted = self.vector.as_ref().map_or(0, DeletionFile::cardinality);
        if u64::from(deleted) < self.added.len() {
            return Err(ApplyError::new(format!(
                "SetDeletionFile deletes {} rows of fragment {}, its vector holds {deleted}",
                self.added.len(),
                fragment.id
            )));
        }
        fragment.deletions = self.vector.clone();
        fragment.updated_at = to.version();
        to.put(Arc::new(fragment));
        Ok(())
    }
}
