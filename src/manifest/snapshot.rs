//! The state of a table in one version.
//!
//! Always holds: no counter is ever lower than in an earlier version; every fragment id, field id and base id that was
//! ever given out lies below its counter.

use super::fragments::FragmentSet;
use crate::table::fragment::{Base, BaseId};
use crate::table::row_address::FragmentId;
use crate::table::schema::{FieldId, TableSchema};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The state of a table in one version.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The version.
    pub version: u64,
    /// The table's identity, the same in all its versions.
    pub table_id: u128,
    /// Its fields.
    pub schema: Arc<TableSchema>,
    /// The next ids.
    pub counters: Counters,
    /// Settings by name.
    pub config: BTreeMap<String, String>,
    /// Locations outside the table folder.
    pub bases: BTreeMap<BaseId, Base>,
    /// Its rows.
    pub fragments: FragmentSet,
    /// Versions below this one may be gone, and their names are never used again.
    pub low_water_mark: u64,
    /// Objects whose names were made by then, in milliseconds since 1970, and that nothing named when the version was made may be gone.
    pub swept_ms: u64,
}

/// The next ids of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// The next fragment.
    pub fragment: FragmentId,
    /// The next field.
    pub field: FieldId,
    /// The next base.
    pub base: BaseId,
}

impl Snapshot {
    /// The state before the first version: no fields, no rows.
    pub fn empty(table_id: u128) -> Self {
        Snapshot {
            version: 0,
            table_id,
            schema: Arc::new(TableSchema::default()),
            counters: Counters { fragment: FragmentId(0), field: FieldId(1), base: BaseId(0) },
            config: BTreeMap::new(),
            bases: BTreeMap::new(),
            fragments: FragmentSet::default(),
            low_water_mark: 1,
            swept_ms: 0,
        }
    }

    /// How many rows a reader sees.
    pub fn live_rows(&self) -> u64 {
        self.fragments.live_rows()
    }
}
