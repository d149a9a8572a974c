//! `AddBase`: a location outside the table folder gets an id, and a name if one is given.
//!
//! Applied: mints the next base id for its token. Names and locations are unique in the table.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::check::check_base;
use crate::manifest::frame::DecodeError;
use crate::manifest::wire;
use crate::table::fragment::Base;
use crate::txn::footprint::{Coordinate, Footprint, Mode};
use crate::txn::refs::Token;

/// A new location.
#[derive(Debug, Clone, PartialEq)]
pub struct AddBase {
    /// The name of the base within the transaction.
    pub token: Token,
    /// The location.
    pub base: Base,
}

impl AddBase {
    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        to.add_base(self.token, self.base.clone())
    }

    /// What it writes.
    pub(crate) fn footprint(&self, into: &mut Footprint) {
        into.claim(Coordinate::BaseLocation(self.base.location.clone()), Mode::Writes);
        if let Some(name) = &self.base.name {
            into.claim(Coordinate::BaseName(name.clone()), Mode::Writes);
        }
    }
}

impl From<&AddBase> for wire::AddBase {
    fn from(action: &AddBase) -> Self {
        wire::AddBase { token: action.token.0, name: action.base.name.clone(), location: action.base.location.clone() }
    }
}

impl TryFrom<wire::AddBase> for AddBase {
    type Error = DecodeError;

    fn try_from(action: wire::AddBase) -> Result<Self, DecodeError> {
        let base = Base { name: action.name, location: action.location };
        check_base(&base).map_err(DecodeError::Damaged)?;
        Ok(AddBase { token: Token(action.token), base })
    }
}
