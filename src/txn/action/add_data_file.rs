//! `AddDataFile`: a file that holds columns of a fragment.
//!
//! Applied: the file joins the fragment's files, its columns and their parts named by the resolved field ids. A field that the
//! fragment holds already must have been tombstoned before. The record says where a field is found, not the ids that the file
//! carries: those may be none, or others than the field has got. A column without a field is dead from the start: the file was
//! written for another fragment, or another version of the schema, and nobody reads that column any more.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::frame::DecodeError;
use crate::manifest::record::required;
use crate::manifest::wire::{self, TOMBSTONE};
use crate::table::fragment::DataFile;
use crate::txn::footprint::{Coordinate, Facet, Footprint, Mode};
use crate::txn::refs::{BaseRef, FieldRef, FragmentRef, Ref};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A file that holds columns of a fragment.
#[derive(Debug, Clone, PartialEq)]
pub struct AddDataFile {
    /// The fragment.
    pub fragment: FragmentRef,
    /// The file; its base and the fields of its columns are in `base` and `fields`, not here.
    pub file: DataFile,
    /// The base that its path is in; `None` for the table folder.
    pub base: Option<BaseRef>,
    /// The field of each of its columns, in file order, each followed by the fields of its parts; `None` for a column that nobody
    /// reads. A part may be of a field that the table has no more.
    pub fields: Vec<Option<FieldRef>>,
    /// `false` when the rows were in the table before.
    pub data_change: bool,
}

impl AddDataFile {
    /// The fields of its columns and of their parts.
    pub fn held(&self) -> impl Iterator<Item = FieldRef> + '_ {
        self.fields.iter().flatten().copied()
    }

    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        if self.fields.len() != fields_of(&self.file) {
            return Err(ApplyError::new(format!(
                "AddDataFile names {} fields for the {} columns and parts of '{}'",
                self.fields.len(),
                fields_of(&self.file),
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
        file.base = self.base.map(|base| to.base(base)).transpose()?;
        let mut held = BTreeSet::new();
        let mut fields = self.fields.iter();
        for column in &mut file.columns {
            let Some(field) = fields.next() else { break };
            for (part, field) in column.parts.iter_mut().zip(&mut fields) {
                let field = field.ok_or_else(|| ApplyError::new(format!("a part of a column of '{}' has no field", self.file.path)))?;
                *part = to.known_field(field)?;
            }
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
        to.put(Arc::new(fragment))?;
        Ok(())
    }

    /// What it writes and needs.
    pub(crate) fn footprint(&self, into: &mut Footprint) {
        let mut fields = self.fields.iter().copied();
        for column in &self.file.columns {
            let Some(field) = fields.next() else { break };
            let parts = fields.by_ref().take(column.parts.len()).flatten();
            let Some(field) = field else {
                parts.for_each(drop);
                continue;
            };
            for id in std::iter::once(field).chain(parts).filter_map(|field| field.committed()) {
                into.claim(Coordinate::FieldDefinition(id), Mode::Requires);
                into.claim(Coordinate::FieldFacet(id, Facet::Type), Mode::Requires);
                if let Ref::Committed(fragment) = self.fragment {
                    into.claim(Coordinate::FieldData(fragment, id), Mode::Writes);
                }
            }
            // Whether a part is NULL is not known of files; a part never becomes NOT NULL.
            if let (Some(id), true) = (field.committed(), self.data_change) {
                into.gives_values(self.fragment, id, column.stats.null_count != Some(0));
            }
        }
        if let (Some(Ref::Committed(base)), true) = (self.base, self.data_change) {
            // A file that others wrote is in the table once, whoever adopts it.
            into.claim(Coordinate::FileInBase(base, self.file.path.clone()), Mode::Writes);
        }
    }
}

/// How many fields a file holds: one for each column and each part of it.
fn fields_of(file: &DataFile) -> usize {
    file.columns.iter().map(|column| 1 + column.parts.len()).sum()
}

impl From<&AddDataFile> for wire::AddDataFile {
    fn from(action: &AddDataFile) -> Self {
        wire::AddDataFile {
            fragment: Some(action.fragment.into()),
            file: Some((&action.file).into()),
            fields: action.fields.iter().map(|field| field_to_wire(*field)).collect(),
            data_change: action.data_change,
            base: action.base.map(Into::into),
        }
    }
}

impl TryFrom<wire::AddDataFile> for AddDataFile {
    type Error = DecodeError;

    fn try_from(action: wire::AddDataFile) -> Result<Self, DecodeError> {
        let base = action.base.map(BaseRef::try_from).transpose()?;
        let mut file = required(action.file, "the file of AddDataFile")?;
        // What a path may be depends on where it is; the id comes from the action.
        file.base = base.map(|_| 0);
        let mut file = DataFile::try_from(file)?;
        file.base = None;
        if action.fields.len() != fields_of(&file) {
            return Err(DecodeError::damaged(format!("AddDataFile names another number of fields than '{}' has columns", file.path)));
        }
        Ok(AddDataFile {
            fragment: required(action.fragment, "the fragment of AddDataFile")?.try_into()?,
            file,
            base,
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
