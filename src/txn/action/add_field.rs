//! `AddField`: a new field. Rows written before it read as NULL there.
//!
//! Applied: mints the next field id for its token. Parts of a nested field are added one by one, parents first.

use crate::manifest::apply::{ApplyError, Applying};
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
