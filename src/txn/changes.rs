//! What a transaction changed for those who read: the rows that are new, the rows that are gone, the values that were
//! written over.
//!
//! Goes in: a transaction as a version holds it. Comes out: fragments, and rows of them, under the ids that it got. A reader
//! holds them against what it read.
//!
//! Always holds: rows that only moved are in none of it. Where a transaction moved rows together with rows of its own, all of
//! them count as new; no change is ever left out.

use super::action::Action;
use super::composite::CommittedTransaction;
use super::refs::FragmentRef;
use crate::table::row_address::FragmentId;
use crate::table::schema::FieldId;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};

/// What a transaction changed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Changes {
    /// Fragments whose rows are new.
    pub added: BTreeSet<FragmentId>,
    /// Rows that are gone, by the fragment that they lay in.
    pub deleted: BTreeMap<FragmentId, RoaringBitmap>,
    /// Fragments that are gone with all their rows.
    pub removed: BTreeSet<FragmentId>,
    /// Fields of fragments that were there before whose values are others now.
    pub columns: BTreeMap<FragmentId, BTreeSet<FieldId>>,
}

impl Changes {
    /// What `landed` changed.
    pub fn of(landed: &CommittedTransaction) -> Self {
        let mut changes = Changes::default();
        // Fragments of the transaction itself: those with new rows, and those that rows moved to, with the step that moved them.
        let mut own: BTreeSet<FragmentRef> = BTreeSet::new();
        let mut targets: BTreeMap<FragmentRef, usize> = BTreeMap::new();
        let moves: BTreeSet<FragmentRef> =
            landed.transaction.actions().filter_map(Action::change_of_address).flat_map(|change| change.sources.iter().copied()).collect();
        let mut born: BTreeSet<FragmentRef> = BTreeSet::new();
        for (number, step) in landed.transaction.steps.iter().enumerate() {
            for action in &step.actions {
                if let Action::AddFragment(add) = action {
                    born.insert(add.id);
                }
                // Whether a fragment holds rows that were there before: it was itself, or rows moved to it, in another step than
                // this one.
                let existed = |fragment: FragmentRef, but_for: Option<usize>| {
                    !born.contains(&fragment) || targets.get(&fragment).is_some_and(|moved| Some(*moved) != but_for)
                };
                match action {
                    Action::AddFragment(add) if add.data_change => {
                        own.insert(add.id);
                    }
                    Action::ChangeOfAddress(change) => {
                        targets.extend(change.targets.iter().map(|target| (*target, number)));
                        if change.sources.iter().any(|source| own.contains(source)) {
                            own.extend(&change.targets);
                        }
                    }
                    // (Of what was deleted by others before, and carried to where the rows are now, nothing is new.)
                    Action::SetDeletionFile(set) if existed(set.fragment, None) && !set.added.is_empty() => {
                        if let Some(id) = landed.minted.fragment(set.fragment) {
                            *changes.deleted.entry(id).or_default() |= &set.added;
                        }
                    }
                    Action::RemoveFragment(remove) if existed(remove.fragment, None) && !moves.contains(&remove.fragment) => {
                        changes.removed.extend(landed.minted.fragment(remove.fragment));
                    }
                    Action::AddDataFile(add) if add.data_change && existed(add.fragment, Some(number)) => {
                        changes.wrote(landed, add.fragment, add.held().filter_map(|field| landed.minted.field(field)));
                    }
                    Action::TombstoneFieldData(tombstone) if tombstone.data_change && existed(tombstone.fragment, Some(number)) => {
                        let fields = tombstone.fields.iter().filter_map(|field| landed.minted.field(*field));
                        changes.wrote(landed, tombstone.fragment, fields);
                    }
                    Action::AddFragment(_)
                    | Action::SetDeletionFile(_)
                    | Action::RemoveFragment(_)
                    | Action::AddDataFile(_)
                    | Action::TombstoneFieldData(_)
                    | Action::AddField(_)
                    | Action::AlterField(_)
                    | Action::DropField(_)
                    | Action::ConfigUpdate(_)
                    | Action::ReserveFragmentIds(_)
                    // Nothing lands beside it, so nobody who read is left to be told.
                    | Action::ResetTable(_)
                    | Action::AddBase(_)
                    | Action::AssertUniqueKeys(_) => {}
                }
            }
        }
        changes.added = own.iter().filter_map(|fragment| landed.minted.fragment(*fragment)).collect();
        changes
    }

    fn wrote(&mut self, landed: &CommittedTransaction, fragment: FragmentRef, fields: impl Iterator<Item = FieldId>) {
        if let Some(id) = landed.minted.fragment(fragment) {
            self.columns.entry(id).or_default().extend(fields);
        }
    }

    /// Whether it changed nothing that can be read.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.deleted.is_empty() && self.removed.is_empty() && self.columns.is_empty()
    }
}

#[cfg(test)]
mod tests;
