//! The vocabulary: every change of a table is a list of these.
//!
//! A new action is a new file here, a variant below, and the places that the compiler then names: no `match` over
//! [`Action`] has a wildcard arm, so apply, footprint, rebase and the wire form cannot forget one.

pub mod add_data_file;
pub mod add_field;
pub mod add_fragment;
pub mod alter_field;
pub mod change_of_address;
pub mod drop_field;
pub mod remove_fragment;
pub mod set_deletion_file;

pub use add_data_file::AddDataFile;
pub use add_field::AddField;
pub use add_fragment::AddFragment;
pub use alter_field::AlterField;
pub use change_of_address::{ChangeOfAddress, MapLocation};
pub use drop_field::DropField;
pub use remove_fragment::RemoveFragment;
pub use set_deletion_file::SetDeletionFile;

use crate::manifest::frame::DecodeError;
use crate::manifest::record::required;
use crate::manifest::wire;

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
        };
        wire::Action { kind: Some(kind) }
    }
}

impl TryFrom<wire::Action> for Action {
    type Error = DecodeError;

    fn try_from(action: wire::Action) -> Result<Self, DecodeError> {
        use wire::ActionKind as Kind;
        Ok(match required(action.kind, "the kind of an action")? {
            Kind::AddFragment(action) => Action::AddFragment(action.into()),
            Kind::AddDataFile(action) => Action::AddDataFile(action.try_into()?),
            Kind::AddField(action) => Action::AddField(action.try_into()?),
            Kind::AlterField(action) => Action::AlterField(action.try_into()?),
            Kind::DropField(action) => Action::DropField(action.try_into()?),
            Kind::RemoveFragment(action) => Action::RemoveFragment(action.try_into()?),
            Kind::SetDeletionFile(action) => Action::SetDeletionFile(action.try_into()?),
            Kind::ChangeOfAddress(action) => Action::ChangeOfAddress(action.try_into()?),
        })
    }
}
