//! The settings of a session: `SET amend.<name> = <value>`.

use crate::stage::writer::ROWS_PER_FRAGMENT;
use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::extensions_options;

extensions_options! {
    /// The settings of a session.
    pub struct AmendOptions {
        /// How many times a statement that collides with others is run at most.
        pub max_statement_attempts: u32, default = 10

        /// How many rows a fragment is given at most. OPTIMIZE makes fragments of this size.
        pub rows_per_fragment: u32, default = ROWS_PER_FRAGMENT

        /// OPTIMIZE rewrites a fragment of which more than this share of rows is deleted.
        pub max_deleted_share: f64, default = 0.1

        /// How many rows OPTIMIZE sorts together at most; of a larger table each part of that size is sorted by itself.
        pub max_rows_per_sort: u64, default = 128 * 1024 * 1024

        /// Whether VACUUM may remove what is younger than seven days: statements of other processes may still need it.
        pub allow_short_retention: bool, default = false
    }
}

impl ConfigExtension for AmendOptions {
    const PREFIX: &'static str = "amend";
}

/// The settings of a session; the defaults where they were never installed.
pub fn options(config: &ConfigOptions) -> AmendOptions {
    config.extensions.get::<AmendOptions>().cloned().unwrap_or_default()
}
