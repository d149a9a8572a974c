//! `AddFragment`: a new set of rows. Its columns follow as `AddDataFile`s.
//!
//! Applied: mints the next fragment id for its token.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::wire;
use crate::table::fragment::Fragment;
use crate::txn::refs::Token;
use std::sync::Arc;

/// A new set of rows.
#[derive(Debug, Clone, PartialEq)]
pub struct AddFragment {
    /// The name of the fragment within the transaction.
    pub token: Token,
    /// How many rows it has.
    pub physical_rows: u32,
    /// `false` when its rows were in the table before (a rewrite).
    pub data_change: bool,
}

impl AddFragment {
    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        let id = to.mint_fragment(self.token)?;
        let version = to.version();
        to.put(Arc::new(Fragment {
            id,
            physical_rows: self.physical_rows,
            files: Vec::new(),
            deletions: None,
            created_at: version,
            updated_at: version,
        }));
        Ok(())
    }
}

impl From<&AddFragment> for wire::AddFragment {
    fn from(action: &AddFragment) -> Self {
        wire::AddFragment { token: action.token.0, physical_rows: action.physical_rows, data_change: action.data_change }
    }
}

impl From<wire::AddFragment> for AddFragment {
    fn from(action: wire::AddFragment) -> Self {
        AddFragment { token: Token(action.token), physical_rows: action.physical_rows, data_change: action.data_change }
    }
}
