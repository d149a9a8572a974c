//! `AddField`: a new field, or one that was dropped and comes back under its old id. Rows written before a new field read as
//! its initial value there, or NULL; files that were written for one that comes back carry its id, and can be named again. A
//! field in place of another has the values of that one in another form: its transaction writes them for all rows.
//!
//! Applied: a token gets the next field id; an id that exists already is claimed, if it was given out and no field of the
//! schema has it. Parts of a nested field are added one by one, parents first.
//!
//! Always holds: counters never fall, so an id that was claimed was some field's before.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::frame::DecodeError;
use crate::manifest::record::{required, type_from_wire, type_to_wire};
use crate::manifest::wire;
use crate::table::schema::{Field, FieldType};
use crate::table::stats::StatValue;
use crate::txn::footprint::{Coordinate, Footprint, Mode};
use crate::txn::refs::{FieldRef, Ref};
use std::collections::BTreeMap;

/// A new field.
#[derive(Debug, Clone, PartialEq)]
pub struct AddField {
    /// A token for the id that the field will get, or the id of a dropped field that it claims.
    pub id: FieldRef,
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
    /// Its value in rows of fragments that do not hold it; `None`: NULL.
    pub initial: Option<StatValue>,
    /// The field whose place among the columns it takes, and whose values it has in another form. The same transaction drops that
    /// one.
    pub in_place_of: Option<FieldRef>,
}

impl AddField {
    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        let parent = self.parent.map(|parent| to.field(parent)).transpose()?;
        let id = match self.id {
            Ref::Local(token) => to.mint_field(token)?,
            Ref::Committed(id) => to.claim_field(id)?,
        };
        let before = self.in_place_of.map(|field| to.field(field)).transpose()?;
        let field = Field {
            id,
            parent,
            name: self.name.clone(),
            field_type: self.field_type.clone(),
            nullable: self.nullable,
            metadata: self.metadata.clone(),
            initial: self.initial.clone(),
        };
        to.add_field(field, before)
    }

    /// What it writes and needs.
    pub(crate) fn footprint(&self, into: &mut Footprint) {
        match self.id {
            Ref::Committed(id) => into.claim(Coordinate::FieldDefinition(id), Mode::Writes),
            Ref::Local(_) => into.adds_field(),
        }
        // Rows that others bring have no value in this form.
        if let Some(Ref::Committed(id)) = self.in_place_of {
            into.convert(id);
        }
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
            id: Some(action.id.into()),
            parent: action.parent.map(Into::into),
            name: action.name.clone(),
            r#type: type_to_wire(&action.field_type),
            nullable: action.nullable,
            metadata: action.metadata.clone(),
            initial: action.initial.as_ref().map(Into::into),
            in_place_of: action.in_place_of.map(Into::into),
        }
    }
}

impl TryFrom<wire::AddField> for AddField {
    type Error = DecodeError;

    fn try_from(action: wire::AddField) -> Result<Self, DecodeError> {
        Ok(AddField {
            id: required(action.id, "the id of AddField")?.try_into()?,
            parent: action.parent.map(FieldRef::try_from).transpose()?,
            field_type: type_from_wire(&action.r#type)?,
            name: action.name,
            nullable: action.nullable,
            metadata: action.metadata,
            initial: action.initial.map(StatValue::try_from).transpose()?,
            in_place_of: action.in_place_of.map(FieldRef::try_from).transpose()?,
        })
    }
}
