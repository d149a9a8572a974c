//! `AssertUniqueKeys`: the keys of all rows that the transaction inserts, as hashes. It changes nothing; it keeps two
//! transactions from inserting the same key at the same time.
//!
//! Keys are compared by their hashes, so keys that differ may collide, and equal ones always do. Sets of different schemes
//! say nothing about one another and collide.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::frame::DecodeError;
use crate::manifest::wire;
use crate::txn::footprint::{Coordinate, Facet, Footprint, KeyAssertion, Mode};
use crate::txn::refs::FieldRef;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Keys that only this transaction inserts.
#[derive(Debug, Clone, PartialEq)]
pub struct AssertUniqueKeys {
    /// The fields of the key, in order.
    pub fields: Vec<FieldRef>,
    /// How keys were hashed; sets of one scheme can be compared.
    pub scheme: u32,
    /// The hashes of all keys that are inserted.
    pub hashes: Arc<BTreeSet<u64>>,
}

impl AssertUniqueKeys {
    /// Applies the action: the fields must be there.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        if self.fields.is_empty() {
            return Err(ApplyError::new("a key of no fields"));
        }
        self.fields.iter().try_for_each(|field| to.field(*field).map(|_| ()))
    }

    /// What it needs and asserts.
    pub(crate) fn footprint(&self, into: &mut Footprint) {
        for field in self.fields.iter().filter_map(|field| field.committed()) {
            into.claim(Coordinate::FieldDefinition(field), Mode::Requires);
            into.claim(Coordinate::FieldFacet(field, Facet::Type), Mode::Requires);
        }
        let fields = self.fields.iter().map(|field| field.committed()).collect();
        into.assert_keys(KeyAssertion { fields, scheme: self.scheme, hashes: self.hashes.clone() });
    }
}

impl From<&AssertUniqueKeys> for wire::AssertUniqueKeys {
    fn from(action: &AssertUniqueKeys) -> Self {
        wire::AssertUniqueKeys {
            fields: action.fields.iter().map(|field| (*field).into()).collect(),
            scheme: action.scheme,
            hashes: action.hashes.iter().copied().collect(),
        }
    }
}

impl TryFrom<wire::AssertUniqueKeys> for AssertUniqueKeys {
    type Error = DecodeError;

    fn try_from(action: wire::AssertUniqueKeys) -> Result<Self, DecodeError> {
        if action.fields.is_empty() || action.scheme == 0 || !action.hashes.is_sorted_by(|a, b| a < b) {
            return Err(DecodeError::damaged("AssertUniqueKeys without fields or scheme, or its hashes do not rise"));
        }
        Ok(AssertUniqueKeys {
            fields: action.fields.into_iter().map(FieldRef::try_from).collect::<Result<_, _>>()?,
            scheme: action.scheme,
            hashes: Arc::new(action.hashes.into_iter().collect()),
        })
    }
}
