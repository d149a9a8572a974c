//! `AddDataFile`: a file that holds columns of a fragment.
//!
//! Applied: the file joins the fragment's files, its columns named by the resolved field ids. A field that the fragment
//! holds already must have been tombstoned before. A column without a field is dead from the start: the file was written for
//! another fragment, or another version of the schema, and nobody reads that column any more.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::frame::DecodeError;
use crate::manifest::record::required;
use crate::manifest::wire::{self, TOMBSTONE};
use crate::table::fragment::DataFile;
use crate::txn::footprint::{Coordinate, Facet, Footprint, Mode};
use crate::txn::refs::{FieldRef, FragmentRef, Ref};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A file that holds columns of a fragment.
#[derive(Debug, Clone, PartialEq)]
pub struct AddDataFile {
    /// The fragment.
    pub fragment: FragmentRef,
    /// The file; the fields of its columns are in `fields`, not here.
    pub file: DataFile,
    /// The field of each of its columns, in file order; `None` for a column that nobody reads.
    pub fields: Vec<Option<FieldRef>>,
    /// `false` when the rows were in the table before.
    pub data_change: bool,
}

impl AddDataFile {
    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        if self.fields.len() != self.file.columns.len() {
            return Err(ApplyError::new(format!(
                "AddDataFile names {} fields for the {} columns of '{}'",
                self.fields.len(),
                self.file.columns.len(),
                self.file.path
            )));
        }
        let mut fragment = (*to.fragment(self.fragment)?).clone();
        let rows: u64 = self.file.row_groups.iter().map(|rows| u64::from(*rows)).sum();
        if rows != u64::from(fragment.physical_rows) {
            return Err(ApplyError::new(format!(
                "'{}' has {rows} rows, its fragment {} has {}",
                self.file.path, fragment.id, fragment.physical_rows
            )));
        }
        let mut file = self.file.clone();
        let mut held = BTreeSet::new();
        for (column, field) in file.columns.iter_mut().zip(&self.fields) {
            let Some(field) = field else {
                column.field = None;
                continue;
            };
            let id = to.field(*field)?;
            if fragment.backing(id).is_some() {
                return Err(ApplyError::new(format!("fragment {} holds field {id} already", fragment.id)));
            }
            if !held.insert(id) {
                return Err(ApplyError::new(format!("'{}' holds field {id} twice", file.path)));
            }
            column.field = Some(id);
        }
        fragment.files.push(file);
        fragment.updated_at = to.version();
        to.put(Arc::new(fragment));
        Ok(())
    }

    /// What it writes and needs.
    pub(crate) fn footprint(&self, into: &mut Footprint) {
        for field in self.fields.iter().flatten().filter_map(|field| field.committed()) {
            into.claim(Coordinate::FieldDefinition(field), Mode::Requires);
            into.claim(Coordinate::FieldFacet(field, Facet::Type), Mode::Requires);
            if let Ref::Committed(fragment) = self.fragment {
                into.claim(Coordinate::FieldData(fragment, field), Mode::Writes);
            }
        }
    }
}

impl From<&AddDataFile> for wire::AddDataFile {
    fn from(action: &AddDataFile) -> Self {
        wire::AddDataFile {
            fragment: Some(action.fragment.into()),
            file: Some((&action.file).into()),
            fields: action.fields.iter().map(|field| field_to_wire(*field)).collect(),
            data_change: action.data_change,
        }
    }
}

impl TryFrom<wire::AddDataFile> for AddDataFile {
    type Error = DecodeError;

    fn try_from(action: wire::AddDataFile) -> Result<Self, DecodeError> {
        let file: DataFile = required(action.file, "the file of AddDataFile")?.try_into()?;
        if action.fields.len() != file.columns.len() {
            return Err(DecodeError::damaged(format!("AddDataFile names another number of fields than '{}' has columns", file.path)));
        }
        Ok(AddDataFile {
            fragment: required(action.fragment, "the fragment of AddDataFile")?.try_into()?,
            file,
            fields: action.fields.into_iter().map(field_from_wire).collect::<Result<_, _>>()?,
            data_change: action.data_change,
        })
    }
}

/// A column without a field goes by the number that dead columns have in a fragment.
fn field_to_wire(field: Option<FieldRef>) -> wire::FieldRef {
    field.map_or(wire::FieldRef { id: Some(wire::field_ref::Id::Committed(TOMBSTONE)) }, Into::into)
}

fn field_from_wire(field: wire::FieldRef) -> Result<Option<FieldRef>, DecodeError> {
    match field.id {
        Some(wire::field_ref::Id::Committed(TOMBSTONE)) => Ok(None),
        _ => field.try_into().map(Some),
    }
}
