//! `ConfigUpdate`: settings of the table by name are set and removed, or replaced as a whole.
//!
//! Updates of different keys commute. What replaces all settings also removes keys that it never names, so it collides with
//! every other update.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::frame::DecodeError;
use crate::manifest::wire;
use crate::txn::footprint::{Coordinate, Footprint, Mode, Region};
use std::collections::BTreeMap;

/// Settings change.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigUpdate {
    /// The new values; `None` removes the key.
    pub entries: BTreeMap<String, Option<String>>,
    /// Whether all other settings go.
    pub replace: bool,
}

impl ConfigUpdate {
    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        let config = to.config();
        if self.replace {
            config.clear();
        }
        for (key, value) in &self.entries {
            match value {
                Some(value) => config.insert(key.clone(), value.clone()),
                None => config.remove(key),
            };
        }
        Ok(())
    }

    /// What it writes.
    pub(crate) fn footprint(&self, into: &mut Footprint) {
        if self.replace {
            into.claim_region(Region::Config);
        }
        for key in self.entries.keys() {
            into.claim(Coordinate::ConfigEntry(key.clone()), Mode::Writes);
        }
    }
}

impl From<&ConfigUpdate> for wire::ConfigUpdate {
    fn from(action: &ConfigUpdate) -> Self {
        let entry = |(key, value): (&String, &Option<String>)| wire::ConfigEntry { key: key.clone(), value: value.clone() };
        wire::ConfigUpdate { entries: action.entries.iter().map(entry).collect(), replace: action.replace }
    }
}

impl TryFrom<wire::ConfigUpdate> for ConfigUpdate {
    type Error = DecodeError;

    fn try_from(action: wire::ConfigUpdate) -> Result<Self, DecodeError> {
        let mut entries = BTreeMap::new();
        for wire::ConfigEntry { key, value } in action.entries {
            if entries.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return Err(DecodeError::damaged("the keys of ConfigUpdate do not rise"));
            }
            entries.insert(key, value);
        }
        Ok(ConfigUpdate { entries, replace: action.replace })
    }
}
