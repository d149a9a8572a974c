//! The vocabulary: every change of a table is a list of these.
//!
//! A new action is a new file here, a variant below, and the places that the compiler then names: no `match` over
//! [`Action`] has a wildcard arm, so apply, footprint, rebase and the wire form cannot forget one.

pub mod add_base;
pub mod add_data_file;
pub mod add_field;
pub mod add_fragment;
pub mod alter_field;
pub mod assert_unique_keys;
pub mod change_of_address;
pub mod config_update;
pub mod drop_field;
pub mod remove_fragment;
pub mod reserve_fragment_ids;
pub mod reset_table;
pub mod set_deletion_file;
pub mod tombstone_field_data;

pub use add_base::AddBase;
pub use add_data_file::AddDataFile;
pub use add_field::AddField;
pub use add_fragment::AddFragment;
pub use alter_field::AlterField;
pub use assert_unique_keys::AssertUniqueKeys;
pub use change_of_address::{ChangeOfAddress, MapLocation};
pub use config_update::ConfigUpdate;
pub use drop_field::DropField;
pub use remove_fragment::RemoveFragment;
pub use reserve_fragment_ids::ReserveFragmentIds;
pub use reset_table::ResetTable;
pub use set_deletion_file::SetDeletionFile;
pub use tombstone_field_data::TombstoneFieldData;

use crate::manifest::frame::DecodeError;
use crate::manifest::record::required;
use crate::manifest::wire;
use crate::table::fragment::DataFile;

/// One delta.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// A new set of rows, still without columns.
    AddFragment(AddFragment),
    /// Columns for a fragment.
    AddDataFile(AddDataFile),
    /// A fragment goes; its rows are gone, or moved if a [`ChangeOfAddress`] covers it.
    RemoveFragment(RemoveFragment),
    /// Rows of a fragment are deleted.
    SetDeletionFile(SetDeletionFile),
    /// Rows that a rewrite moved, and where to.
    ChangeOfAddress(ChangeOfAddress),
    /// A new field.
    AddField(AddField),
    /// Another name or type of a field, or that it may be NULL.
    AlterField(AlterField),
    /// A field goes with its values.
    DropField(DropField),
    /// Values of a fragment go.
    TombstoneFieldData(TombstoneFieldData),
    /// Settings change.
    ConfigUpdate(ConfigUpdate),
    /// Fragment ids are taken out of use.
    ReserveFragmentIds(ReserveFragmentIds),
    /// All fields and rows go.
    ResetTable(ResetTable),
    /// A new location outside the table folder.
    AddBase(AddBase),
    /// Keys that only this transaction inserts.
    AssertUniqueKeys(AssertUniqueKeys),
}

impl Action {
    /// The name of its kind.
    pub fn name(&self) -> &'static str {
        match self {
            Action::AddFragment(_) => "AddFragment",
            Action::AddDataFile(_) => "AddDataFile",
            Action::RemoveFragment(_) => "RemoveFragment",
            Action::SetDeletionFile(_) => "SetDeletionFile",
            Action::ChangeOfAddress(_) => "ChangeOfAddress",
            Action::AddField(_) => "AddField",
            Action::AlterField(_) => "AlterField",
            Action::DropField(_) => "DropField",
            Action::TombstoneFieldData(_) => "TombstoneFieldData",
            Action::ConfigUpdate(_) => "ConfigUpdate",
            Action::ReserveFragmentIds(_) => "ReserveFragmentIds",
            Action::ResetTable(_) => "ResetTable",
            Action::AddBase(_) => "AddBase",
            Action::AssertUniqueKeys(_) => "AssertUniqueKeys",
        }
    }

    /// The fragment that it adds, if it does.
    pub fn added_fragment(&self) -> Option<&AddFragment> {
        match self {
            Action::AddFragment(action) => Some(action),
            Action::AddDataFile(_)
            | Action::RemoveFragment(_)
            | Action::SetDeletionFile(_)
            | Action::ChangeOfAddress(_)
            | Action::AddField(_)
            | Action::AlterField(_)
            | Action::DropField(_)
            | Action::TombstoneFieldData(_)
            | Action::ConfigUpdate(_)
            | Action::ReserveFragmentIds(_)
            | Action::ResetTable(_)
            | Action::AddBase(_)
            | Action::AssertUniqueKeys(_) => None,
        }
    }

    /// The rows that it deletes, if it does.
    pub fn deletion(&self) -> Option<&SetDeletionFile> {
        match self {
            Action::SetDeletionFile(action) => Some(action),
            Action::AddFragment(_)
            | Action::AddDataFile(_)
            | Action::RemoveFragment(_)
            | Action::ChangeOfAddress(_)
            | Action::AddField(_)
            | Action::AlterField(_)
            | Action::DropField(_)
            | Action::TombstoneFieldData(_)
            | Action::ConfigUpdate(_)
            | Action::ReserveFragmentIds(_)
            | Action::ResetTable(_)
            | Action::AddBase(_)
            | Action::AssertUniqueKeys(_) => None,
        }
    }

    /// The data file that it adds, if it does.
    pub fn added_file(&self) -> Option<&DataFile> {
        match self {
            Action::AddDataFile(action) => Some(&action.file),
            Action::AddFragment(_)
            | Action::RemoveFragment(_)
            | Action::SetDeletionFile(_)
            | Action::ChangeOfAddress(_)
            | Action::AddField(_)
            | Action::AlterField(_)
            | Action::DropField(_)
            | Action::TombstoneFieldData(_)
            | Action::ConfigUpdate(_)
            | Action::ReserveFragmentIds(_)
            | Action::ResetTable(_)
            | Action::AddBase(_)
            | Action::AssertUniqueKeys(_) => None,
        }
    }

    /// The object of the table's folder that it names as a whole, if it does. Files in a base are others', and a deletion vector is a
    /// part of an object.
    pub fn object(&self) -> Option<&str> {
        match self {
            Action::AddDataFile(action) => (action.base.is_none() && action.file.is_object_of_table()).then_some(action.file.path.as_str()),
            Action::ChangeOfAddress(action) => match &action.map {
                MapLocation::Object { path, .. } => Some(path),
                MapLocation::Inline(_) => None,
            },
            Action::AddFragment(_)
            | Action::RemoveFragment(_)
            | Action::SetDeletionFile(_)
            | Action::AddField(_)
            | Action::AlterField(_)
            | Action::DropField(_)
            | Action::TombstoneFieldData(_)
            | Action::ConfigUpdate(_)
            | Action::ReserveFragmentIds(_)
            | Action::ResetTable(_)
            | Action::AddBase(_)
            | Action::AssertUniqueKeys(_) => None,
        }
    }

    /// The rows that it says moved, if it does.
    pub fn change_of_address(&self) -> Option<&ChangeOfAddress> {
        match self {
            Action::ChangeOfAddress(action) => Some(action),
            Action::AddFragment(_)
            | Action::AddDataFile(_)
            | Action::RemoveFragment(_)
            | Action::SetDeletionFile(_)
            | Action::AddField(_)
            | Action::AlterField(_)
            | Action::DropField(_)
            | Action::TombstoneFieldData(_)
            | Action::ConfigUpdate(_)
            | Action::ReserveFragmentIds(_)
            | Action::ResetTable(_)
            | Action::AddBase(_)
            | Action::AssertUniqueKeys(_) => None,
        }
    }
}

impl From<&Action> for wire::Action {
    fn from(action: &Action) -> Self {
        use wire::ActionKind as Kind;
        let kind = match action {
            Action::AddFragment(action) => Kind::AddFragment(action.into()),
            Action::AddDataFile(action) => Kind::AddDataFile(action.into()),
            Action::RemoveFragment(action) => Kind::RemoveFragment(action.into()),
            Action::SetDeletionFile(action) => Kind::SetDeletionFile(action.into()),
            Action::ChangeOfAddress(action) => Kind::ChangeOfAddress(action.into()),
            Action::AddField(action) => Kind::AddField(action.into()),
            Action::AlterField(action) => Kind::AlterField(action.into()),
            Action::DropField(action) => Kind::DropField(action.into()),
            Action::TombstoneFieldData(action) => Kind::TombstoneFieldData(action.into()),
            Action::ConfigUpdate(action) => Kind::ConfigUpdate(action.into()),
            Action::ReserveFragmentIds(action) => Kind::ReserveFragmentIds(action.into()),
            Action::ResetTable(action) => Kind::ResetTable(action.into()),
            Action::AddBase(action) => Kind::AddBase(action.into()),
            Action::AssertUniqueKeys(action) => Kind::AssertUniqueKeys(action.into()),
        };
        wire::Action { kind: Some(kind) }
    }
}

impl TryFrom<wire::Action> for Action {
    type Error = DecodeError;

    fn try_from(action: wire::Action) -> Result<Self, DecodeError> {
        use wire::ActionKind as Kind;
        Ok(match required(action.kind, "the kind of an action")? {
            Kind::AddFragment(action) => Action::AddFragment(action.try_into()?),
            Kind::AddDataFile(action) => Action::AddDataFile(action.try_into()?),
            Kind::AddField(action) => Action::AddField(action.try_into()?),
            Kind::AlterField(action) => Action::AlterField(action.try_into()?),
            Kind::DropField(action) => Action::DropField(action.try_into()?),
            Kind::TombstoneFieldData(action) => Action::TombstoneFieldData(action.try_into()?),
            Kind::ConfigUpdate(action) => Action::ConfigUpdate(action.try_into()?),
            Kind::ReserveFragmentIds(action) => Action::ReserveFragmentIds(action.into()),
            Kind::ResetTable(action) => Action::ResetTable(action.into()),
            Kind::AddBase(action) => Action::AddBase(action.try_into()?),
            Kind::AssertUniqueKeys(action) => Action::AssertUniqueKeys(action.try_into()?),
            Kind::RemoveFragment(action) => Action::RemoveFragment(action.try_into()?),
            Kind::SetDeletionFile(action) => Action::SetDeletionFile(action.try_into()?),
            Kind::ChangeOfAddress(action) => Action::ChangeOfAddress(action.try_into()?),
        })
    }
}

#[cfg(test)]
mod tests;
