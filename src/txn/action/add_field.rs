//! `AddField`: a new field. Rows written before it read as NULL there.
//!
//! Applied: mints the next field id for its token. Parts of a nested field are added one by one, parents first.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::frame::DecodeError;
use crate::manifest::record::{type_from_wire, type_to_wire};
use crate::manifest::wire;
use crate::table::schema::{Field, FieldType};
use crate::txn::footprint::{Coordinate, Footprint, Mode};
use crate::txn::refs::{FieldRef, Token};
use std::collections::BTreeMap;

/// A new field.
#[derive(Debug, Clone, PartialEq)]
pub struct AddField {
    /// The name of the field within the transaction.
    pub token: Token,
    /// The field it is a part of; `None` for a column.
    pub parent: Option<FieldRef>,
    /// Its name.
    pub name: String,
    /// Its type.
    pub field_type: FieldType,
    /// Whether it can be NULL.
    pub nullable: bool,
    /// Arrow metadata.
    pub metadata: BTreeMap<String, String>,
}

impl AddField {
    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        let parent = self.parent.map(|parent| to.field(parent)).transpose()?;
        let id = to.mint_field(self.token)?;
        to.add_field(Field {
            id,
            parent,
            name: self.name.clone(),
            field_type: self.field_type.clone(),
            nullable: self.nullable,
            metadata: self.metadata.clone(),
        });
        Ok(())
    }

    /// What it writes and needs.
    pub(crate) fn footprint(&self, into: &mut Footprint) {
        let parent = match self.parent {
            None => None,
            Some(parent) => match parent.committed() {
                Some(id) => {
                    into.claim(Coordinate::FieldDefinition(id), Mode::Requires);
                    Some(id)
                }
                // A part of a field that nobody else can see collides with nothing.
                None => return,
            },
        };
        into.claim(Coordinate::FieldName(parent, self.name.clone()), Mode::Writes);
    }
}

impl From<&AddField> for wire::AddField {
    fn from(action: &AddField) -> Self {
        wire::AddField {
            token: action.token.0,
            parent: action.parent.map(Into::into),
            name: action.name.clone(),
            r#type: type_to_wire(&action.field_type),
            nullable: action.nullable,
            metadata: action.metadata.clone(),
        }
    }
}

impl TryFrom<wire::AddField> for AddField {
    type Error = DecodeError;

    fn try_from(action: wire::AddField) -> Result<Self, DecodeError> {
        Ok(AddField {
            token: Token(action.token),
            parent: action.parent.map(FieldRef::try_from).transpose()?,
            field_type: type_from_wire(&action.r#type)?,
            name: action.name,
            nullable: action.nullable,
            metadata: action.metadata,
        })
    }
}
