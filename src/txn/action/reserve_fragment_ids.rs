//! `ReserveFragmentIds`: fragment ids that no transaction will be given from now on.
//!
//! Who reserved them learns which they are from the version that holds the reservation: the ids that end below the counter
//! as it was when the action was applied. It collides with nothing.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::wire;

/// Fragment ids are taken out of use.
#[derive(Debug, Clone, PartialEq)]
pub struct ReserveFragmentIds {
    /// How many.
    pub count: u32,
}

impl ReserveFragmentIds {
    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        to.reserve_fragments(self.count)
    }
}

impl From<&ReserveFragmentIds> for wire::ReserveFragmentIds {
    fn from(action: &ReserveFragmentIds) -> Self {
        wire::ReserveFragmentIds { count: action.count }
    }
}

impl From<wire::ReserveFragmentIds> for ReserveFragmentIds {
    fn from(action: wire::ReserveFragmentIds) -> Self {
        ReserveFragmentIds { count: action.count }
    }
}
