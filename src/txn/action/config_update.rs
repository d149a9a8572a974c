//! `ConfigUpdate`: settings of the table by name are set and removed, or replaced as a whole.
//!
//! Updates of different keys commute. What replaces all settings also removes keys that it never names, so it collides with
//! every other update. One that adds a constraint also needs the fields that it is about, and meets no rows that others brought;
//! one that clusters the table needs the columns.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::frame::DecodeError;
use crate::manifest::wire;
use crate::table::constraint::{self, Generated};
use crate::table::schema::FieldId;
use crate::txn::footprint::{Coordinate, Facet, Footprint, Mode, Region};
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
        for (key, value) in &self.entries {
            into.claim(Coordinate::ConfigEntry(key.clone()), Mode::Writes);
            let Some(value) = value.as_ref().filter(|_| constraint::is_reserved(key)) else { continue };
            into.writes_ids_down();
            match constraint::of_property(key, value) {
                Some(Ok(constraint)) => {
                    let names = constraint.names();
                    for field in &names {
                        into.claim(Coordinate::FieldDefinition(*field), Mode::Requires);
                        into.claim(Coordinate::FieldFacet(*field, Facet::Type), Mode::Requires);
                    }
                    into.constrain(names);
                }
                // Of one that cannot be read nobody knows what it asks.
                Some(Err(_)) => into.claim_everything(),
                None if key == constraint::CLUSTER_KEY => match constraint::parse_cluster_value(value) {
                    Ok(fields) => fields.iter().for_each(|field| into.claim(Coordinate::FieldDefinition(*field), Mode::Requires)),
                    Err(_) => into.claim_everything(),
                },
                None => {
                    if let Some(id) = key.strip_prefix(constraint::GENERATED_PREFIX) {
                        generated(id, value, into);
                    }
                }
            }
        }
    }
}

/// Of rows that others bring, and of what they make of its columns, a generated column has no value.
fn generated(id: &str, value: &str, into: &mut Footprint) {
    match id.parse().map_err(|_| ()).and_then(|id| Generated::parse(FieldId(id), value).map_err(|_| ())) {
        Ok(generated) => {
            for input in &generated.inputs {
                into.claim(Coordinate::FieldDefinition(*input), Mode::Requires);
                into.claim(Coordinate::FieldFacet(*input, Facet::Type), Mode::Requires);
            }
            into.constrain(generated.inputs);
        }
        Err(()) => into.claim_everything(),
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
