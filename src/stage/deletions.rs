//! Deletions that no plan has to look for: all rows of a version.
//!
//! They are claimed row by row, as a DELETE without a WHERE would claim them: so they are followed when others move them, and
//! united with what others delete. Cost: one bitmap a fragment, and no data file is read.

use super::row_changes::Cleared;
use crate::error::Result;
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::Snapshot;
use crate::table::deletion_vector::DeletionFile;
use crate::txn::action::SetDeletionFile;
use crate::txn::refs::Ref;
use roaring::RoaringBitmap;

/// The deletion of every live row.
pub(super) async fn of_all_rows(log: &VersionLog, snapshot: &Snapshot, cleared: Cleared) -> Result<Vec<SetDeletionFile>> {
    let mut deletions = Vec::with_capacity(snapshot.fragments.len());
    let snapshot = log.load_all(snapshot).await?;
    for fragment in snapshot.fragments.iter()? {
        let mut added = RoaringBitmap::new();
        added.insert_range(0..fragment.physical_rows);
        added -= log.deleted_rows(fragment).await?.as_ref();
        added.optimize();
        let vector = DeletionFile::inline(&added);
        let replaced = match cleared {
            Cleared::Deleted => RoaringBitmap::new(),
            Cleared::Replaced => added.clone(),
        };
        deletions.push(SetDeletionFile { fragment: Ref::Committed(fragment.id), vector, added, replaced });
    }
    Ok(deletions)
}
