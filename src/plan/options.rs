//! The settings of a session: `SET amend.<name> = <value>`.

use crate::error::Error;
use crate::scan::isolation::SessionIsolation;
use crate::stage::writer::ROWS_PER_FRAGMENT;
use crate::table::fragment::MAX_INLINE_BYTES;
use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::{DataFusionError, config_field, extensions_options};
use std::fmt;
use std::str::FromStr;

extensions_options! {
    /// The settings of a session.
    pub struct AmendOptions {
        /// How many times a statement that collides with others is run at most.
        pub max_statement_attempts: u32, default = 10

        /// How many rows a fragment is given at most. OPTIMIZE makes fragments of this size.
        pub rows_per_fragment: u32, default = ROWS_PER_FRAGMENT

        /// Rows of a statement that are no more bytes than this (at most 65536) are kept in the manifest, without a file; 0 for none.
        pub max_inline_bytes: u32, default = MAX_INLINE_BYTES as u32

        /// How many fragments that the manifest holds a table may have among its newest changes: the statement that makes more of them also
        /// rewrites them to a file; 0 for no bound.
        pub max_inline_fragments: u32, default = 32

        /// OPTIMIZE rewrites a fragment of which more than this share of rows is deleted.
        pub max_deleted_share: f64, default = 0.1

        /// Whether an UPDATE writes `rows`, `columns`, or (`auto`) what is cheaper.
        pub update_form: UpdateForm, default = UpdateForm::Auto

        /// How far statements are kept apart: 'serializable' or 'snapshot'. If it is not set, the property of that name of
        /// the table decides, and else it is serializable.
        pub isolation: SessionIsolation, default = SessionIsolation::default()

        /// How many rows OPTIMIZE sorts together at most; of a larger table each part of that size is sorted by itself.
        pub max_rows_per_sort: u64, default = 128 * 1024 * 1024

        /// Whether VACUUM may remove what is younger than seven days: statements of other processes may still need it.
        pub allow_short_retention: bool, default = false
    }
}

/// What an UPDATE writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpdateForm {
    /// What is cheaper.
    #[default]
    Auto,
    /// New versions of the rows that change.
    Rows,
    /// New files of the columns that change.
    Columns,
}

impl FromStr for UpdateForm {
    type Err = DataFusionError;

    fn from_str(form: &str) -> Result<Self, DataFusionError> {
        match form.to_lowercase().as_str() {
            "auto" => Ok(UpdateForm::Auto),
            "rows" => Ok(UpdateForm::Rows),
            "columns" => Ok(UpdateForm::Columns),
            _ => Err(Error::invalid(format!("an UPDATE has no form '{form}': say 'auto', 'rows' or 'columns'")).into()),
        }
    }
}

impl fmt::Display for UpdateForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UpdateForm::Auto => "auto",
            UpdateForm::Rows => "rows",
            UpdateForm::Columns => "columns",
        })
    }
}

config_field!(UpdateForm, form => form.parse()?);

impl ConfigExtension for AmendOptions {
    const PREFIX: &'static str = "amend";
}

/// The settings of a session; the defaults where they were never installed.
pub fn options(config: &ConfigOptions) -> AmendOptions {
    config.extensions.get::<AmendOptions>().cloned().unwrap_or_default()
}
