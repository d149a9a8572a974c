//! `AddFragment`: a new set of rows. Its columns follow as `AddDataFile`s.
//!
//! Applied: a token gets the next fragment id. An id is claimed: it was reserved before (`ReserveFragmentIds`), so it lies
//! below the counter, and nothing has it. A claimed id moves with no version; later actions name it as it is, and two
//! transactions that claim one id collide.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::frame::DecodeError;
use crate::manifest::record::required;
use crate::manifest::wire;
use crate::table::fragment::Fragment;
use crate::txn::footprint::{Coordinate, Footprint, Mode};
use crate::txn::refs::{FragmentRef, Ref};
use crate::txn::wire::{rows_from_wire, rows_to_wire};
use bytes::Bytes;
use roaring::RoaringBitmap;
use std::sync::Arc;

/// A new set of rows.
#[derive(Debug, Clone, PartialEq)]
pub struct AddFragment {
    /// A token for the fragment, or the reserved id that it takes.
    pub id: FragmentRef,
    /// How many rows it has.
    pub physical_rows: u32,
    /// `false` when its rows were in the table before (a rewrite).
    pub data_change: bool,
    /// Those of its rows that are new versions of rows which the same statement replaces (`SetDeletionFile.replaced`). Informative:
    /// it lets those who follow the table's changes tell an update from an insert.
    pub replacing: RoaringBitmap,
}

impl AddFragment {
    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        let id = match self.id {
            Ref::Local(token) => to.mint_fragment(token)?,
            Ref::Committed(id) => to.claim_fragment(id)?,
        };
        let version = to.version();
        to.put(Arc::new(Fragment {
            id,
            physical_rows: self.physical_rows,
            files: Vec::new(),
            deletions: None,
            created_at: version,
            updated_at: version,
        }))
    }

    /// What it writes.
    pub(crate) fn footprint(&self, into: &mut Footprint) {
        if let Some(id) = self.id.committed() {
            into.claim(Coordinate::FragmentExistence(id), Mode::Writes);
        }
        if self.data_change {
            into.inserts_rows_of(self.id);
        }
    }
}

impl From<&AddFragment> for wire::AddFragment {
    fn from(action: &AddFragment) -> Self {
        wire::AddFragment {
            id: Some(action.id.into()),
            physical_rows: action.physical_rows,
            data_change: action.data_change,
            replacing: if action.replacing.is_empty() { Bytes::new() } else { rows_to_wire(&action.replacing) },
        }
    }
}

impl TryFrom<wire::AddFragment> for AddFragment {
    type Error = DecodeError;

    fn try_from(action: wire::AddFragment) -> Result<Self, DecodeError> {
        let replacing = if action.replacing.is_empty() { RoaringBitmap::new() } else { rows_from_wire(&action.replacing)? };
        if replacing.max().is_some_and(|row| row >= action.physical_rows) {
            return Err(DecodeError::damaged("AddFragment speaks of rows that it does not have"));
        }
        Ok(AddFragment {
            id: required(action.id, "the id of AddFragment")?.try_into()?,
            physical_rows: action.physical_rows,
            data_change: action.data_change,
            replacing,
        })
    }
}
