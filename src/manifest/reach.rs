//! Reach: the objects that a version needs. What no version that is kept needs may be removed.
//!
//! Goes in: a manifest and what it names. Comes out: names within the table's folder.
//! Always holds: every kind of object that a manifest, a fragment or an action can name is named here (of new actions the compiler asks
//! in `Action::object`); files in other locations are none of this table's objects.

use super::decode::{DecodedManifest, Transactions};
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::{DataFile, Fragment};
use crate::txn::composite::CommittedTransaction;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a manifest names, but for what its page index and its spilled transactions name in turn.
pub fn of_manifest(manifest: &DecodedManifest, into: &mut BTreeSet<String>) {
    into.extend(manifest.pages.iter().map(|index| index.path.clone()));
    of_fragments(manifest.tail.values().filter_map(|record| record.fragment.as_ref()), into);
    match &manifest.transactions {
        Transactions::Object(reference) => drop(into.insert(reference.path.clone())),
        Transactions::Inline(transactions) => of_transactions(transactions, into),
    }
}

/// What fragments name.
pub fn of_fragments<'a>(fragments: impl Iterator<Item = &'a Arc<Fragment>>, into: &mut BTreeSet<String>) {
    for fragment in fragments {
        into.extend(fragment.files.iter().filter_map(of_file));
        into.extend(of_vector(&fragment.deletions));
    }
}

/// What transactions name: their maps above all, which those who come after them need.
pub fn of_transactions(transactions: &[CommittedTransaction], into: &mut BTreeSet<String>) {
    for action in transactions.iter().flat_map(|committed| committed.transaction.actions()) {
        into.extend(action.object().map(str::to_owned));
        into.extend(action.deletion().and_then(|set| of_vector(&set.vector)));
    }
}

fn of_file(file: &DataFile) -> Option<String> {
    file.is_object_of_table().then(|| file.path.clone())
}

fn of_vector(vector: &Option<DeletionFile>) -> Option<String> {
    match vector {
        Some(DeletionFile::Puffin { path, .. }) => Some(path.clone()),
        Some(DeletionFile::Inline { .. }) | None => None,
    }
}
