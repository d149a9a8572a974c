//! Settling: the deletion vectors of a rebased transaction, written against the version it lands on.
//!
//! A vector is the fragment's present one, united with every claim of the transaction on it; a fragment has one action that
//! sets it. Vectors are left inline; the commit layer moves the large ones to a file.

use super::finish::Rebased;
use crate::faulty::{self, Fault};
use crate::table::deletion_vector::DeletionFile;
use crate::table::row_address::FragmentId;
use crate::txn::action::{Action, SetDeletionFile};
use crate::txn::composite::Transaction;
use crate::txn::normalise::unite_vectors;
use crate::txn::refs::{FragmentRef, Ref};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};

/// The fragments of the newest version whose present vectors [`settle`] has to know.
pub type VectorsNeeded = BTreeSet<FragmentId>;

/// The fragments whose present vectors are needed.
pub fn vectors_needed(rebased: &Rebased) -> VectorsNeeded {
    let added = rebased.transaction.claimed_fragments();
    let deletions = rebased.transaction.actions().filter_map(Action::deletion).filter(|set| !set.added.is_empty());
    deletions.filter_map(|set| set.fragment.committed()).filter(|id| !added.contains(id)).collect()
}

/// The transaction with its vectors. `present` holds the vectors that [`vectors_needed`] asked for; a fragment that is
/// not in it has no deleted rows.
pub fn settle(rebased: Rebased, present: BTreeMap<FragmentId, RoaringBitmap>) -> Transaction {
    let Rebased { mut transaction, carried, .. } = rebased;
    let mut vectors: BTreeMap<FragmentRef, RoaringBitmap> = present
        .into_iter()
        .filter(|_| !faulty::is(Fault::LastVectorWins))
        .map(|(id, rows)| (Ref::Committed(id), rows))
        .chain(carried.clone())
        .collect();
    for set in transaction.actions().filter_map(Action::deletion).filter(|set| !set.added.is_empty()) {
        *vectors.entry(set.fragment).or_default() |= &set.added;
    }
    for step in &mut transaction.steps {
        let mut added = BTreeSet::new();
        for action in &mut step.actions {
            match action {
                Action::SetDeletionFile(set) => {
                    if let Some(rows) = vectors.get(&set.fragment) {
                        set.vector = DeletionFile::inline(rows);
                    }
                }
                Action::AddFragment(add) => {
                    added.insert(add.id);
                }
                Action::AddDataFile(_)
                | Action::RemoveFragment(_)
                | Action::ChangeOfAddress(_)
                | Action::AddField(_)
                | Action::AlterField(_)
                | Action::DropField(_)
                | Action::TombstoneFieldData(_)
                | Action::ConfigUpdate(_)
                | Action::ReserveFragmentIds(_)
                | Action::ResetTable(_)
                | Action::AddBase(_)
                | Action::AssertUniqueKeys(_) => {}
            }
        }
        // Targets of a rewrite begin their life with what others deleted while it ran.
        let begin = carried.iter().filter(|(fragment, _)| added.contains(fragment)).map(|(fragment, _)| {
            let vector = vectors.get(fragment).and_then(DeletionFile::inline);
            let (added, replaced) = (RoaringBitmap::new(), RoaringBitmap::new());
            Action::SetDeletionFile(SetDeletionFile { fragment: *fragment, vector, added, replaced })
        });
        step.actions.extend(begin);
    }
    unite_vectors(&mut transaction);
    transaction
}
