//! `AlterField`: a field gets another name, a wider type, or may be NULL from now on, or may not. No rows are rewritten: files are
//! read by field id and their values are cast.
//!
//! Each of the three is a facet, and different facets of one field commute. A type that does not hold every value of the old one is
//! refused. Whether there are NULLs in a field that becomes NOT NULL is for the statement to look at, in the version that it read;
//! what landed since may not have brought any.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::frame::DecodeError;
use crate::manifest::record::{required, type_from_wire, type_to_wire};
use crate::manifest::wire;
use crate::table::schema::FieldType;
use crate::txn::footprint::{Coordinate, Facet, Footprint, Mode};
use crate::txn::refs::{FieldRef, Ref};

/// A field is altered.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterField {
    /// The field.
    pub field: FieldRef,
    /// The field that it is a part of; `None` for a column. It says among which names the new one has to be unique.
    pub parent: Option<FieldRef>,
    /// Its new name.
    pub name: Option<String>,
    /// Its new type.
    pub field_type: Option<FieldType>,
    /// Whether it can be NULL.
    pub nullable: Option<bool>,
}

impl AlterField {
    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        let id = to.field(self.field)?;
        let parent = self.parent.map(|parent| to.field(parent)).transpose()?;
        let field = to.field_mut(id)?;
        if field.parent != parent {
            return Err(ApplyError::new(format!("field {id} ('{}') is a part of another field than AlterField says", field.name)));
        }
        if let Some(name) = &self.name {
            field.name.clone_from(name);
        }
        if let Some(field_type) = &self.field_type {
            if !field.field_type.widens_to(field_type) {
                return Err(ApplyError::new(format!("not every value of field {id} ('{}') has a place in its new type", field.name)));
            }
            field.field_type.clone_from(field_type);
        }
        if let Some(nullable) = self.nullable {
            if parent.is_some() && field.nullable && !nullable {
                return Err(ApplyError::new(format!("field {id} ('{}') is a part of another, whose NULLs nobody looks at", field.name)));
            }
            field.nullable = nullable;
        }
        Ok(())
    }

    /// What it writes and needs.
    pub(crate) fn footprint(&self, into: &mut Footprint) {
        if let Some(name) = &self.name {
            match self.parent {
                None => into.claim(Coordinate::FieldName(None, name.clone()), Mode::Writes),
                Some(Ref::Committed(parent)) => into.claim(Coordinate::FieldName(Some(parent), name.clone()), Mode::Writes),
                // The parts of a field that nobody else can see.
                Some(Ref::Local(_)) => {}
            }
        }
        if self.nullable == Some(false) {
            into.forbid_null(self.field);
        }
        let Ref::Committed(field) = self.field else { return };
        into.claim(Coordinate::FieldDefinition(field), Mode::WritesPart);
        let facets =
            [(self.name.is_some(), Facet::Name), (self.field_type.is_some(), Facet::Type), (self.nullable.is_some(), Facet::Nullability)];
        for (_, facet) in facets.into_iter().filter(|(altered, _)| *altered) {
            into.claim(Coordinate::FieldFacet(field, facet), Mode::Writes);
        }
    }
}

impl From<&AlterField> for wire::AlterField {
    fn from(action: &AlterField) -> Self {
        wire::AlterField {
            field: Some(action.field.into()),
            parent: action.parent.map(Into::into),
            name: action.name.clone(),
            r#type: action.field_type.as_ref().map(type_to_wire),
            nullable: action.nullable,
        }
    }
}

impl TryFrom<wire::AlterField> for AlterField {
    type Error = DecodeError;

    fn try_from(action: wire::AlterField) -> Result<Self, DecodeError> {
        Ok(AlterField {
            field: required(action.field, "the field of AlterField")?.try_into()?,
            parent: action.parent.map(FieldRef::try_from).transpose()?,
            name: action.name,
            field_type: action.r#type.as_deref().map(type_from_wire).transpose()?,
            nullable: action.nullable,
        })
    }
}
