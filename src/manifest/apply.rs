//! Applying a transaction: snapshot + actions -> snapshot.
//!
//! Actions apply in order to a working copy; ids are minted as they are met. At the end fragments without a live row
//! are dropped. Cost: proportional to the actions, not to the fragments.
//!
//! Always holds: an action that names what does not exist is an error; the snapshot that was given is not changed.

use super::snapshot::Snapshot;
use crate::table::fragment::Fragment;
use crate::table::row_address::FragmentId;
use crate::table::schema::{Field, FieldId, TableSchema};
use crate::txn::action::Action;
use crate::txn::composite::Transaction;
use crate::txn::refs::{FieldRef, FragmentRef, Minted, Ref, Token};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Why a transaction cannot be applied to a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ApplyError {
    reason: String,
}

impl ApplyError {
    /// An error of that reason.
    pub fn new(reason: impl Into<String>) -> Self {
        ApplyError { reason: reason.into() }
    }
}

/// The snapshot in the making.
pub struct Applying {
    snapshot: Snapshot,
    fields: Option<Vec<Field>>,
    minted: Minted,
    changed: BTreeSet<FragmentId>,
}

/// The snapshot after `transaction`, as version `version`, and the ids that its tokens got.
pub fn apply(snapshot: &Snapshot, transaction: &Transaction, version: u64) -> Result<(Snapshot, Minted), ApplyError> {
    let mut to = Applying { snapshot: snapshot.clone(), fields: None, minted: Minted::default(), changed: BTreeSet::new() };
    to.snapshot.version = version;
    for action in transaction.actions() {
        match action {
            Action::AddFragment(action) => action.apply(&mut to)?,
            Action::AddDataFile(action) => action.apply(&mut to)?,
            Action::RemoveFragment(action) => action.apply(&mut to)?,
            Action::SetDeletionFile(action) => action.apply(&mut to)?,
            Action::ChangeOfAddress(action) => action.apply(&mut to)?,
            Action::AddField(action) => action.apply(&mut to)?,
        }
    }
    to.finish()
}

impl Applying {
    /// The version in the making.
    pub(crate) fn version(&self) -> u64 {
        self.snapshot.version
    }

    /// Gives the next fragment id to a token.
    pub(crate) fn mint_fragment(&mut self, token: Token) -> Result<FragmentId, ApplyError> {
        let id = self.snapshot.counters.fragment;
        if id > FragmentId::MAX {
            return Err(ApplyError::new("no fragment ids are left"));
        }
        if self.minted.fragments.insert(token, id).is_some() {
            return Err(ApplyError::new(format!("fragment token {} is bound twice", token.0)));
        }
        self.snapshot.counters.fragment = FragmentId(id.0 + 1);
        Ok(id)
    }

    /// Gives the next field id to a token.
    pub(crate) fn mint_field(&mut self, token: Token) -> Result<FieldId, ApplyError> {
        let id = self.snapshot.counters.field;
        let next = id.0.checked_add(1).ok_or_else(|| ApplyError::new("no field ids are left"))?;
        if self.minted.fields.insert(token, id).is_some() {
            return Err(ApplyError::new(format!("field token {} is bound twice", token.0)));
        }
        self.snapshot.counters.field = FieldId(next);
        Ok(id)
    }

    /// The fragment as it is by now.
    pub(crate) fn fragment(&self, fragment: FragmentRef) -> Result<Arc<Fragment>, ApplyError> {
        let id = self.minted.fragment(fragment).ok_or_else(|| unbound("fragment", fragment))?;
        self.snapshot.fragments.get(id).cloned().ok_or_else(|| ApplyError::new(format!("there is no fragment {id}")))
    }

    /// The id of a field that exists.
    pub(crate) fn field(&self, field: FieldRef) -> Result<FieldId, ApplyError> {
        let id = self.minted.field(field).ok_or_else(|| unbound("field", field))?;
        let exists = match &self.fields {
            Some(fields) => fields.iter().any(|field| field.id == id),
            None => self.snapshot.schema.field(id).is_some(),
        };
        if exists { Ok(id) } else { Err(ApplyError::new(format!("there is no field {id}"))) }
    }

    /// Adds a fragment or replaces its record.
    pub(crate) fn put(&mut self, fragment: Arc<Fragment>) {
        self.changed.insert(fragment.id);
        self.snapshot.fragments.put(fragment);
    }

    /// Removes a fragment.
    pub(crate) fn remove(&mut self, id: FragmentId) {
        self.changed.remove(&id);
        self.snapshot.fragments.remove(id);
    }

    /// Adds a field.
    pub(crate) fn add_field(&mut self, field: Field) {
        self.fields.get_or_insert_with(|| self.snapshot.schema.fields().to_vec()).push(field);
    }

    fn finish(mut self) -> Result<(Snapshot, Minted), ApplyError> {
        if let Some(fields) = self.fields {
            self.snapshot.schema = Arc::new(TableSchema::new(fields).map_err(ApplyError::new)?);
        }
        for id in self.changed {
            if self.snapshot.fragments.get(id).is_some_and(|fragment| fragment.live_rows() == 0) {
                self.snapshot.fragments.remove(id);
            }
        }
        Ok((self.snapshot, self.minted))
    }
}

fn unbound<Id>(kind: &str, reference: Ref<Id>) -> ApplyError {
    match reference {
        Ref::Local(token) => ApplyError::new(format!("{kind} token {} is not bound", token.0)),
        Ref::Committed(_) => ApplyError::new(format!("a {kind} id is not known")),
    }
}

#[cfg(test)]
mod tests;
