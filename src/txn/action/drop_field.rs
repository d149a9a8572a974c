//! `DropField`: a field goes with all its parts, and its values with it.
//!
//! Applied: its columns become dead slots in every fragment, those added meanwhile included; a file of which nothing is left
//! goes. The rows stay. Ids are never used again, so a new field of the same name does not find the old values.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::frame::DecodeError;
use crate::manifest::record::required;
use crate::manifest::wire;
use crate::txn::footprint::{Coordinate, Footprint, Mode};
use crate::txn::refs::FieldRef;

/// A field goes.
#[derive(Debug, Clone, PartialEq)]
pub struct DropField {
    /// The field.
    pub field: FieldRef,
}

impl DropField {
    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        let id = to.field(self.field)?;
        to.drop_field(id)
    }

    /// What it writes.
    pub(crate) fn footprint(&self, into: &mut Footprint) {
        if let Some(field) = self.field.committed() {
            into.claim(Coordinate::FieldDefinition(field), Mode::Writes);
        }
    }
}

impl From<&DropField> for wire::DropField {
    fn from(action: &DropField) -> Self {
        wire::DropField { field: Some(action.field.into()) }
    }
}

impl TryFrom<wire::DropField> for DropField {
    type Error = DecodeError;

    fn try_from(action: wire::DropField) -> Result<Self, DecodeError> {
        Ok(DropField { field: required(action.field, "the field of DropField")?.try_into()? })
    }
}
