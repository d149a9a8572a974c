//! What a statement hands to the commit layer: a transaction, its maps, and the files that only it knows of.

use super::gather::WriteGathered;
use super::reads::ReadAssertion;
use crate::store::{ObjectName, Store};
use crate::table::schema::FieldId;
use crate::txn::action::Action;
use crate::txn::address_map::AddressMap;
use crate::txn::composite::Transaction;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A transaction that is ready to be committed. It owns the version that it read: a rewrite planned at version 5 is
/// rebased from version 5, whoever commits it and whenever.
#[derive(Debug, Clone)]
pub struct Staged {
    /// The actions; deletion vectors in them are those of the version that was read.
    pub transaction: Transaction,
    /// The maps of its changes of address, in order.
    pub maps: Vec<Arc<AddressMap>>,
    /// Objects that were written for it and that nothing else names; those that its actions do not name when it has landed are
    /// removed, and all of them when it does not land. (An action may also name a file of an old version: that is none of these.)
    pub objects: Vec<ObjectName>,
    /// The fields whose values decided what it changes, or how. If others give them new values in place, in fragments that it
    /// acts upon, it collides.
    pub fields_read: BTreeSet<FieldId>,
    /// Who writes files of values that have to be gathered when rewrites and new columns meet; without it, a transaction that
    /// needs one does not land.
    pub gathering: Option<Arc<dyn WriteGathered>>,
    /// What it read and others must not have changed.
    pub reads: Vec<Arc<dyn ReadAssertion>>,
    /// The keys that it inserts, as rows that others must not have brought, where one of the two did not list its keys.
    pub key_reads: Vec<Arc<dyn ReadAssertion>>,
}

impl Staged {
    /// Removes the objects of a transaction that will not be committed.
    pub async fn discard(&self, store: &Store) {
        remove(store, &self.objects).await;
    }
}

/// Removes objects that nothing names. Best effort: what stays behind is found by reachability.
pub async fn remove(store: &Store, objects: &[ObjectName]) {
    for object in objects {
        if let Err(error) = store.delete(object).await {
            tracing::warn!(%error, object = object.as_str(), "could not remove a staged object");
        }
    }
}

/// The objects that actions name. Of actions that writers have just staged, nothing else names them. Files in a base are not
/// among them: they are others', and never removed.
pub fn objects<'a>(actions: impl Iterator<Item = &'a Action>) -> Vec<ObjectName> {
    actions.filter_map(Action::object).filter_map(|path| ObjectName::parse(path).ok()).collect()
}
