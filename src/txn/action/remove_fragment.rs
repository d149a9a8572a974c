//! `RemoveFragment`: a fragment goes. Its rows are gone with it, unless a `ChangeOfAddress` of the same transaction
//! says that they moved.

use crate::manifest::apply::{ApplyError, Applying};
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
        to.remove(id);
        Ok(())
    }
}
