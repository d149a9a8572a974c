//! Applying a transaction: snapshot + actions -> snapshot.
//!
//! Actions apply in order to a working copy; ids are minted as they are met. At the end fragments without a live row
//! are dropped, and files without a live column. Cost: proportional to the actions, not to the fragments; but for an action
//! that reaches every fragment by its meaning.
//!
//! Always holds: an action that names what does not exist is an error; one that needs a page that is not in memory is another, which
//! says what to load; the snapshot that was given is not changed.

use super::fragments::{FragmentSet, NotLoaded};
use super::snapshot::Snapshot;
use crate::table::fragment::{Base, BaseId, Fragment};
use crate::table::row_address::FragmentId;
use crate::table::schema::{Field, FieldId, TableSchema};
use crate::txn::action::Action;
use crate::txn::composite::Transaction;
use crate::txn::refs::{BaseRef, FieldRef, FragmentRef, Minted, Ref, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Why a transaction cannot be applied to a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ApplyError {
    reason: String,
    not_loaded: Option<NotLoaded>,
}

impl ApplyError {
    /// An error of that reason.
    pub fn new(reason: impl Into<String>) -> Self {
        ApplyError { reason: reason.into(), not_loaded: None }
    }

    /// What has to be in memory for an answer, if it was for the lack of that.
    pub fn not_loaded(&self) -> Option<NotLoaded> {
        self.not_loaded
    }
}

impl From<NotLoaded> for ApplyError {
    fn from(error: NotLoaded) -> Self {
        ApplyError { reason: error.to_string(), not_loaded: Some(error) }
    }
}

/// The snapshot in the making.
pub struct Applying {
    snapshot: Snapshot,
    fields: Option<Vec<Field>>,
    minted: Minted,
    changed: BTreeSet<FragmentId>,
    claimed: BTreeSet<FragmentId>,
}

/// The snapshot after `transaction`, as version `version`, and the ids that its tokens got.
pub fn apply(snapshot: &Snapshot, transaction: &Transaction, version: u64) -> Result<(Snapshot, Minted), ApplyError> {
    let mut to = Applying {
        snapshot: snapshot.clone(),
        fields: None,
        minted: Minted::default(),
        changed: BTreeSet::new(),
        claimed: BTreeSet::new(),
    };
    to.snapshot.version = version;
    for action in transaction.actions() {
        match action {
            Action::AddFragment(action) => action.apply(&mut to)?,
            Action::AddDataFile(action) => action.apply(&mut to)?,
            Action::RemoveFragment(action) => action.apply(&mut to)?,
            Action::SetDeletionFile(action) => action.apply(&mut to)?,
            Action::ChangeOfAddress(action) => action.apply(&mut to)?,
            Action::AddField(action) => action.apply(&mut to)?,
            Action::AlterField(action) => action.apply(&mut to)?,
            Action::DropField(action) => action.apply(&mut to)?,
            Action::TombstoneFieldData(action) => action.apply(&mut to)?,
            Action::ConfigUpdate(action) => action.apply(&mut to)?,
            Action::ReserveFragmentIds(action) => action.apply(&mut to)?,
            Action::ResetTable(action) => action.apply(&mut to)?,
            Action::AddBase(action) => action.apply(&mut to)?,
            Action::AssertUniqueKeys(action) => action.apply(&mut to)?,
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

    /// Takes a fragment id that was reserved.
    pub(crate) fn claim_fragment(&mut self, id: FragmentId) -> Result<FragmentId, ApplyError> {
        if id >= self.snapshot.counters.fragment {
            return Err(ApplyError::new(format!("fragment id {id} is not reserved")));
        }
        if self.snapshot.fragments.get(id)?.is_some() || !self.claimed.insert(id) {
            return Err(ApplyError::new(format!("there is a fragment {id} already")));
        }
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

    /// Lets a field have an id again that was given out before.
    pub(crate) fn claim_field(&mut self, id: FieldId) -> Result<FieldId, ApplyError> {
        if id < FieldId(1) || id >= self.snapshot.counters.field {
            return Err(ApplyError::new(format!("field id {id} was never given out")));
        }
        match self.fields_mut().iter().find(|field| field.id == id) {
            Some(field) => Err(ApplyError::new(format!("field id {id} is that of '{}'", field.name))),
            None => Ok(id),
        }
    }

    /// Takes the next fragment ids out of use.
    pub(crate) fn reserve_fragments(&mut self, count: u32) -> Result<(), ApplyError> {
        let next = self.snapshot.counters.fragment.0.checked_add(count).filter(|next| FragmentId(*next) <= FragmentId::MAX);
        self.snapshot.counters.fragment = FragmentId(next.ok_or_else(|| ApplyError::new("no fragment ids are left"))?);
        Ok(())
    }

    /// Adds a base and gives its id to a token.
    pub(crate) fn add_base(&mut self, token: Token, base: Base) -> Result<(), ApplyError> {
        let twice = |other: &&Base| other.location == base.location || other.name.is_some() && other.name == base.name;
        if let Some(other) = self.snapshot.bases.values().find(twice) {
            let Base { name, location } = other;
            return Err(ApplyError::new(format!("a base shares its name or location with '{location}' ({name:?})")));
        }
        let id = self.snapshot.counters.base;
        let next = id.0.checked_add(1).ok_or_else(|| ApplyError::new("no base ids are left"))?;
        if self.minted.bases.insert(token, id).is_some() {
            return Err(ApplyError::new(format!("base token {} is bound twice", token.0)));
        }
        self.snapshot.counters.base = BaseId(next);
        self.snapshot.bases.insert(id, base);
        Ok(())
    }

    /// The settings by name.
    pub(crate) fn config(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.snapshot.config
    }

    /// Removes all fields and fragments.
    pub(crate) fn reset(&mut self) {
        self.fields = Some(Vec::new());
        self.changed.clear();
        self.snapshot.fragments = FragmentSet::default();
    }

    /// The fragment as it is by now.
    pub(crate) fn fragment(&self, fragment: FragmentRef) -> Result<Arc<Fragment>, ApplyError> {
        let id = self.minted.fragment(fragment).ok_or_else(|| unbound("fragment", fragment))?;
        self.snapshot.fragments.get(id)?.cloned().ok_or_else(|| ApplyError::new(format!("there is no fragment {id}")))
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

    /// The id of a field that exists or did once.
    pub(crate) fn known_field(&self, field: FieldRef) -> Result<FieldId, ApplyError> {
        let id = self.minted.field(field).ok_or_else(|| unbound("field", field))?;
        match id >= FieldId(1) && id < self.snapshot.counters.field {
            true => Ok(id),
            false => Err(ApplyError::new(format!("field id {id} was never given out"))),
        }
    }

    /// The id of a base that exists.
    pub(crate) fn base(&self, base: BaseRef) -> Result<BaseId, ApplyError> {
        let id = self.minted.base(base).ok_or_else(|| unbound("base", base))?;
        match self.snapshot.bases.contains_key(&id) {
            true => Ok(id),
            false => Err(ApplyError::new(format!("there is no base {}", id.0))),
        }
    }

    /// Adds a fragment or replaces its record.
    pub(crate) fn put(&mut self, fragment: Arc<Fragment>) -> Result<(), ApplyError> {
        self.changed.insert(fragment.id);
        Ok(self.snapshot.fragments.put(fragment)?)
    }

    /// Removes a fragment.
    pub(crate) fn remove(&mut self, id: FragmentId) -> Result<(), ApplyError> {
        self.changed.remove(&id);
        Ok(self.snapshot.fragments.remove(id)?)
    }

    /// Adds a field, at the end or before another one.
    pub(crate) fn add_field(&mut self, field: Field, before: Option<FieldId>) -> Result<(), ApplyError> {
        let fields = self.fields_mut();
        let place = match before {
            None => fields.len(),
            Some(id) => {
                let found = fields.iter().position(|other| other.id == id && other.parent == field.parent);
                found.ok_or_else(|| ApplyError::new(format!("field '{}' takes the place of {id}, which is none beside it", field.name)))?
            }
        };
        fields.insert(place, field);
        Ok(())
    }

    /// A field that exists, to be altered.
    pub(crate) fn field_mut(&mut self, id: FieldId) -> Result<&mut Field, ApplyError> {
        self.fields_mut().iter_mut().find(|field| field.id == id).ok_or_else(|| ApplyError::new(format!("there is no field {id}")))
    }

    /// Removes a field with its parts, and their values in every fragment.
    pub(crate) fn drop_field(&mut self, id: FieldId) -> Result<(), ApplyError> {
        let mut dropped = BTreeSet::from([id]);
        // Parents precede their parts.
        self.fields_mut().retain(|field| {
            let goes = dropped.contains(&field.id) || field.parent.is_some_and(|parent| dropped.contains(&parent));
            if goes {
                dropped.insert(field.id);
            }
            !goes
        });
        let holding: Vec<Arc<Fragment>> =
            self.snapshot.fragments.iter()?.filter(|fragment| dropped.iter().any(|id| fragment.backing(*id).is_some())).cloned().collect();
        for fragment in holding {
            let mut fragment = (*fragment).clone();
            fragment.tombstone(&dropped);
            fragment.updated_at = self.version();
            self.put(Arc::new(fragment))?;
        }
        Ok(())
    }

    fn fields_mut(&mut self) -> &mut Vec<Field> {
        self.fields.get_or_insert_with(|| self.snapshot.schema.fields().to_vec())
    }

    fn finish(mut self) -> Result<(Snapshot, Minted), ApplyError> {
        if let Some(fields) = self.fields {
            self.snapshot.schema = Arc::new(TableSchema::new(fields).map_err(ApplyError::new)?);
        }
        for id in self.changed {
            let Some(fragment) = self.snapshot.fragments.get(id)? else { continue };
            if fragment.live_rows() == 0 {
                self.snapshot.fragments.remove(id)?;
            } else if let Some(rest) = fragment.without_dead_files() {
                self.snapshot.fragments.put(Arc::new(rest))?;
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
