//! `TombstoneFieldData`: the values of fields in one fragment go; they read as NULL, unless an `AddDataFile` of the same
//! transaction holds new ones.
//!
//! Applied: the columns become dead slots, the others of their files keep their positions; a file of which nothing is left
//! goes. Rebase treats it as `AddDataFile`: values that others gave the same field in the same fragment collide.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::frame::DecodeError;
use crate::manifest::record::required;
use crate::manifest::wire;
use crate::txn::footprint::{Coordinate, Footprint, Mode};
use crate::txn::refs::{FieldRef, FragmentRef, Ref};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Values of a fragment go.
#[derive(Debug, Clone, PartialEq)]
pub struct TombstoneFieldData {
    /// The fragment.
    pub fragment: FragmentRef,
    /// The fields whose values go; the fragment has a column for each.
    pub fields: Vec<FieldRef>,
    /// `false` when the same values are written anew.
    pub data_change: bool,
}

impl TombstoneFieldData {
    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        let mut fragment = (*to.fragment(self.fragment)?).clone();
        let fields: BTreeSet<_> = self.fields.iter().map(|field| to.field(*field)).collect::<Result<_, _>>()?;
        let found = fragment.tombstone(&fields);
        if let Some(field) = fields.difference(&found).next() {
            return Err(ApplyError::new(format!("fragment {} has no values of field {field} to remove", fragment.id)));
        }
        fragment.updated_at = to.version();
        to.put(Arc::new(fragment))?;
        Ok(())
    }

    /// What it writes and needs.
    pub(crate) fn footprint(&self, into: &mut Footprint) {
        for field in self.fields.iter().filter_map(|field| field.committed()) {
            into.claim(Coordinate::FieldDefinition(field), Mode::Requires);
            if let Ref::Committed(fragment) = self.fragment {
                into.claim(Coordinate::FieldData(fragment, field), Mode::Writes);
            }
        }
    }
}

impl From<&TombstoneFieldData> for wire::TombstoneFieldData {
    fn from(action: &TombstoneFieldData) -> Self {
        wire::TombstoneFieldData {
            fragment: Some(action.fragment.into()),
            fields: action.fields.iter().map(|field| (*field).into()).collect(),
            data_change: action.data_change,
        }
    }
}

impl TryFrom<wire::TombstoneFieldData> for TombstoneFieldData {
    type Error = DecodeError;

    fn try_from(action: wire::TombstoneFieldData) -> Result<Self, DecodeError> {
        Ok(TombstoneFieldData {
            fragment: required(action.fragment, "the fragment of TombstoneFieldData")?.try_into()?,
            fields: action.fields.into_iter().map(FieldRef::try_from).collect::<Result<_, _>>()?,
            data_change: action.data_change,
        })
    }
}
