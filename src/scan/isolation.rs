//! How far statements are kept apart: `SET amend.isolation`, and the property of that name of a table.
//!
//! Goes in: the setting of a session, and the properties of a table. Comes out: one level.
//! Always holds: the session's setting goes before the table's; where neither says anything it is serializable.

use crate::error::{Error, Result};
use datafusion::common::Result as EngineResult;
use datafusion::common::config::{ConfigField, Visit};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The name of the setting and of the property.
pub const ISOLATION: &str = "amend.isolation";

/// A level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// As if each transaction had run by itself, where it commits.
    Serializable,
    /// Each transaction reads one version; only changes of the same rows collide.
    Snapshot,
}

impl FromStr for Isolation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "serializable" => Ok(Isolation::Serializable),
            "snapshot" => Ok(Isolation::Snapshot),
            _ => Err(Error::invalid(format!("{ISOLATION} is 'serializable' or 'snapshot', not '{text}'"))),
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isolation::Serializable => "serializable",
            Isolation::Snapshot => "snapshot",
        })
    }
}

/// What a session says; nothing by default, and again after `SET amend.isolation = 'default'`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionIsolation(Option<Isolation>);

impl SessionIsolation {
    /// The level of a statement on a table of these properties.
    pub fn on(self, properties: &BTreeMap<String, String>) -> Isolation {
        let of_the_table = || properties.get(ISOLATION).and_then(|level| level.parse().ok());
        self.0.or_else(of_the_table).unwrap_or(Isolation::Serializable)
    }
}

impl ConfigField for SessionIsolation {
    fn visit<V: Visit>(&self, visit: &mut V, key: &str, description: &'static str) {
        match self.0 {
            Some(level) => visit.some(key, level, description),
            None => visit.none(key, description),
        }
    }

    fn set(&mut self, _: &str, value: &str) -> EngineResult<()> {
        self.0 = if value.eq_ignore_ascii_case("default") { None } else { Some(value.parse()?) };
        Ok(())
    }

    fn reset(&mut self, _: &str) -> EngineResult<()> {
        self.0 = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_goes_before_the_table_and_both_before_the_default() {
        let property = |value: &str| BTreeMap::from([(ISOLATION.to_owned(), value.to_owned())]);
        let mut session = SessionIsolation::default();
        assert_eq!(session.on(&BTreeMap::new()), Isolation::Serializable);
        assert_eq!(session.on(&property("snapshot")), Isolation::Snapshot);
        // What an older or newer program wrote there and nobody understands is not less than the default.
        assert_eq!(session.on(&property("chaos")), Isolation::Serializable);
        session.set("", "Serializable").unwrap();
        assert_eq!(session.on(&property("snapshot")), Isolation::Serializable);
        session.set("", "SNAPSHOT").unwrap();
        assert_eq!(session.on(&property("serializable")), Isolation::Snapshot);
        assert!(session.set("", "chaos").unwrap_err().to_string().contains("'serializable' or 'snapshot'"));
        session.set("", "default").unwrap();
        assert_eq!(session.on(&property("snapshot")), Isolation::Snapshot);
        assert_eq!(session.on(&BTreeMap::new()), Isolation::Serializable);
    }
}
