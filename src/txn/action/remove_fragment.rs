//! `RemoveFragment`: a fragment goes. Its rows are gone with it, unless a `ChangeOfAddress` of the same transaction
//! says that they moved.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::frame::DecodeError;
use crate::manifest::record::required;
use crate::manifest::wire;
use crate::txn::footprint::{Coordinate, Footprint, Mode};
use crate::txn::refs::FragmentRef;

/// A fragment goes.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoveFragment {
    /// The fragment.
    pub fragment: FragmentRef,
    /// `false` when its rows stay in the table under other addresses.
    pub data_change: bool,
}

impl RemoveFragment {
    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        let id = to.fragment(self.fragment)?.id;
        to.remove(id)?;
        Ok(())
    }

    /// What it writes: two removals of one fragment are compared by its rows, its id is nothing to claim meanwhile.
    pub(crate) fn footprint(&self, into: &mut Footprint) {
        if let Some(id) = self.fragment.committed() {
            into.claim(Coordinate::FragmentExistence(id), Mode::WritesPart);
        }
    }
}

impl From<&RemoveFragment> for wire::RemoveFragment {
    fn from(action: &RemoveFragment) -> Self {
        wire::RemoveFragment { fragment: Some(action.fragment.into()), data_change: action.data_change }
    }
}

impl TryFrom<wire::RemoveFragment> for RemoveFragment {
    type Error = DecodeError;

    fn try_from(action: wire::RemoveFragment) -> Result<Self, DecodeError> {
        Ok(RemoveFragment {
            fragment: required(action.fragment, "the fragment of RemoveFragment")?.try_into()?,
            data_change: action.data_change,
        })
    }
}
