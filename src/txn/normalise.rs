//! The same change in fewer actions: what a transaction of several statements made and undid itself is left out.
//!
//! ```text
//!   INSERT own 0 · DELETE all of own 0                 nothing of own 0 is left, its files neither
//!   INSERT own 0 · OPTIMIZE own 0 -> own 1             own 1 is what was inserted
//!   DELETE from F · UPDATE F                           one deletion vector of F, at the last of them
//! ```
//!
//! Fragments go before the transaction is rebased, with [`vanish`]; vectors are made one after that, with [`unite_vectors`]:
//! rebase has to know which step deleted a row that others deleted first.
//!
//! Always holds: applied to any version, the result makes the same rows, whoever else lands in between; steps and their counts
//! stay. A fragment that a change of address names stays as long as others can see rows move through it, or the rewrite can be
//! given up, so that its sources live on.

use super::action::{Action, ChangeOfAddress};
use super::address_map::AddressMap;
use super::composite::Transaction;
use super::refs::FragmentRef;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A fragment that the transaction adds.
#[derive(Default)]
struct Own {
    physical_rows: u32,
    deleted: RoaringBitmap,
    removed: bool,
    /// Whether its rows are new to the table.
    data_change: bool,
}

/// The transaction without the fragments that it adds and of which nothing is left at its end, and the maps that remain. Files
/// that no action names any more can be removed.
pub fn vanish(mut transaction: Transaction, maps: Vec<Arc<AddressMap>>) -> (Transaction, Vec<Arc<AddressMap>>) {
    let mut own = own_fragments(&transaction);
    let within: Vec<bool> = {
        let mut seen_by_others = BTreeSet::new();
        let changes = transaction.actions().filter_map(Action::change_of_address);
        changes.map(|change| moves_within(change, &mut own, &mut seen_by_others)).collect()
    };
    let changes = transaction.actions().filter_map(Action::change_of_address).zip(&within);
    let named: BTreeSet<FragmentRef> =
        changes.filter(|(_, within)| !**within).flat_map(|(change, _)| change.sources.iter().chain(&change.targets).copied()).collect();
    let goes = |fragment: &FragmentRef| {
        own.get(fragment).is_some_and(|own| own.removed || own.deleted.len() == u64::from(own.physical_rows)) && !named.contains(fragment)
    };
    for action in transaction.steps.iter_mut().flat_map(|step| &mut step.actions) {
        match action {
            Action::AddFragment(add) => add.data_change |= own.get(&add.id).is_some_and(|own| own.data_change),
            Action::AddDataFile(add) => add.data_change |= own.get(&add.fragment).is_some_and(|own| own.data_change),
            Action::RemoveFragment(_)
            | Action::SetDeletionFile(_)
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
    let mut at = within.iter();
    for step in &mut transaction.steps {
        step.actions.retain(|action| match action {
            Action::AddFragment(add) => !goes(&add.id),
            Action::AddDataFile(add) => !goes(&add.fragment),
            Action::RemoveFragment(remove) => !goes(&remove.fragment),
            Action::SetDeletionFile(set) => !goes(&set.fragment),
            Action::TombstoneFieldData(tombstone) => !goes(&tombstone.fragment),
            Action::ChangeOfAddress(_) => !at.next().copied().unwrap_or(false),
            Action::AddField(_)
            | Action::AlterField(_)
            | Action::DropField(_)
            | Action::ConfigUpdate(_)
            | Action::ReserveFragmentIds(_)
            | Action::ResetTable(_)
            | Action::AddBase(_)
            | Action::AssertUniqueKeys(_) => true,
        });
    }
    // Keys are asserted of rows that are inserted.
    if !transaction.actions().any(|action| matches!(action, Action::AddFragment(add) if add.data_change)) {
        transaction.steps.iter_mut().for_each(|step| step.actions.retain(|action| !matches!(action, Action::AssertUniqueKeys(_))));
    }
    let maps = maps.into_iter().zip(&within).filter(|(_, within)| !**within).map(|(map, _)| map).collect();
    (transaction, maps)
}

/// The fragments that a transaction adds, as they are at its end.
fn own_fragments(transaction: &Transaction) -> BTreeMap<FragmentRef, Own> {
    let mut own: BTreeMap<FragmentRef, Own> = BTreeMap::new();
    for action in transaction.actions() {
        match action {
            Action::AddFragment(add) => {
                own.insert(add.id, Own { physical_rows: add.physical_rows, data_change: add.data_change, ..Own::default() });
            }
            Action::SetDeletionFile(set) => {
                if let Some(own) = own.get_mut(&set.fragment) {
                    own.deleted |= &set.added;
                }
            }
            Action::RemoveFragment(remove) => {
                if let Some(own) = own.get_mut(&remove.fragment) {
                    own.removed = true;
                }
            }
            Action::ResetTable(_) => own.values_mut().for_each(|own| own.removed = true),
            Action::AddDataFile(_)
            | Action::ChangeOfAddress(_)
            | Action::AddField(_)
            | Action::AlterField(_)
            | Action::DropField(_)
            | Action::TombstoneFieldData(_)
            | Action::ConfigUpdate(_)
            | Action::ReserveFragmentIds(_)
            | Action::AddBase(_)
            | Action::AssertUniqueKeys(_) => {}
        }
    }
    own
}

/// Whether a rewrite moves only rows that the transaction inserted, so that nobody else can know where they were. Its targets
/// then hold new rows.
fn moves_within(change: &ChangeOfAddress, own: &mut BTreeMap<FragmentRef, Own>, seen_by_others: &mut BTreeSet<FragmentRef>) -> bool {
    let within = change.sources.iter().all(|source| own.get(source).is_some_and(|own| own.data_change) && !seen_by_others.contains(source));
    for target in &change.targets {
        match own.get_mut(target) {
            Some(target) if within => target.data_change = true,
            _ => {
                seen_by_others.insert(*target);
            }
        }
    }
    within
}

/// Leaves one deletion vector for each fragment, the last, which then deletes what all of them did.
pub fn unite_vectors(transaction: &mut Transaction) {
    let mut rows: BTreeMap<FragmentRef, (usize, RoaringBitmap, RoaringBitmap)> = BTreeMap::new();
    for set in transaction.actions().filter_map(Action::deletion) {
        let (left, added, replaced) = rows.entry(set.fragment).or_default();
        *left += 1;
        *added |= &set.added;
        *replaced |= &set.replaced;
    }
    rows.retain(|_, (sets, ..)| *sets > 1);
    for step in &mut transaction.steps {
        step.actions.retain_mut(|action| {
            let Action::SetDeletionFile(set) = action else { return true };
            let Some((left, added, replaced)) = rows.get_mut(&set.fragment) else { return true };
            *left -= 1;
            if *left > 0 {
                return false;
            }
            (set.added, set.replaced) = (std::mem::take(added), std::mem::take(replaced));
            true
        });
    }
}

#[cfg(test)]
mod tests;
