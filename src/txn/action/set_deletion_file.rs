//! `SetDeletionFile`: rows of a fragment are deleted.
//!
//! `vector` is the whole vector that readers use. `added` is the delta that rebase works with: the rows that *this*
//! transaction deletes, of which those in `replaced` live on in a new version that it inserts elsewhere. Two
//! transactions may both delete a row; a row that either of them replaced is a conflict.
//!
//! Deleted rows do not come back: an action for a fragment of others that deletes nothing is refused by rebase.
//!
//! Always holds: `replaced` lies in `added`, `added` lies in `vector`; rows of `vector` outside `added` were deleted by
//! others.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::check::check_vector;
use crate::manifest::frame::DecodeError;
use crate::manifest::record::required;
use crate::manifest::wire;
use crate::table::deletion_vector::{self, DeletionFile};
use crate::table::row_address::MAX_ROWS_PER_FRAGMENT;
use crate::txn::refs::FragmentRef;
use crate::txn::wire::{rows_from_wire, rows_to_wire};
use bytes::Bytes;
use roaring::RoaringBitmap;
use std::sync::Arc;

/// Rows of a fragment are deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct SetDeletionFile {
    /// The fragment; may be one that the transaction adds.
    pub fragment: FragmentRef,
    /// The fragment's deletion vector from now on; `None` as long as it is not settled.
    pub vector: Option<DeletionFile>,
    /// The rows that this transaction deletes.
    pub added: RoaringBitmap,
    /// Those of `added` whose new version the transaction inserts elsewhere.
    pub replaced: RoaringBitmap,
}

impl SetDeletionFile {
    /// Applies the action.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        let mut fragment = (*to.fragment(self.fragment)?).clone();
        if let Some(vector) = &self.vector
            && vector.cardinality() > fragment.physical_rows
        {
            return Err(ApplyError::new(format!(
                "a deletion vector of {} rows for fragment {} of {} rows",
                vector.cardinality(),
                fragment.id,
                fragment.physical_rows
            )));
        }
        if self.added.max().is_some_and(|row| row >= fragment.physical_rows) || !self.replaced.is_subset(&self.added) {
            return Err(ApplyError::new(format!("SetDeletionFile claims rows that fragment {} does not have", fragment.id)));
        }
        let deleted = self.vector.as_ref().map_or(0, DeletionFile::cardinality);
        if u64::from(deleted) < self.added.len() {
            return Err(ApplyError::new(format!(
                "SetDeletionFile deletes {} rows of fragment {}, its vector holds {deleted}",
                self.added.len(),
                fragment.id
            )));
        }
        fragment.deletions = self.vector.clone();
        fragment.updated_at = to.version();
        to.put(Arc::new(fragment))?;
        Ok(())
    }
}

impl From<&SetDeletionFile> for wire::SetDeletionFile {
    fn from(action: &SetDeletionFile) -> Self {
        let (replaced, replaced_rows) = if action.replaced.is_empty() {
            (wire::Replaced::None, Bytes::new())
        } else if action.replaced == action.added {
            (wire::Replaced::All, Bytes::new())
        } else {
            (wire::Replaced::Some, rows_to_wire(&action.replaced))
        };
        wire::SetDeletionFile {
            fragment: Some(action.fragment.into()),
            vector: action.vector.as_ref().map(Into::into),
            added: rows_to_wire(&action.added),
            replaced: replaced.into(),
            replaced_rows,
        }
    }
}

impl TryFrom<wire::SetDeletionFile> for SetDeletionFile {
    type Error = DecodeError;

    fn try_from(action: wire::SetDeletionFile) -> Result<Self, DecodeError> {
        let vector = action.vector.map(DeletionFile::try_from).transpose()?;
        let added = rows_from_wire(&action.added)?;
        if action.replaced != i32::from(wire::Replaced::Some) && !action.replaced_rows.is_empty() {
            return Err(DecodeError::damaged("SetDeletionFile names rows that it says it does not name"));
        }
        let replaced = match wire::Replaced::try_from(action.replaced) {
            Ok(wire::Replaced::None) => RoaringBitmap::new(),
            Ok(wire::Replaced::All) => added.clone(),
            Ok(wire::Replaced::Some) => rows_from_wire(&action.replaced_rows)?,
            Ok(wire::Replaced::Unspecified) => return Err(DecodeError::damaged("SetDeletionFile does not say which rows it replaced")),
            Err(_) => return Err(DecodeError::unknown(format!("way {} of SetDeletionFile to name rows", action.replaced))),
        };
        let action = SetDeletionFile {
            fragment: required(action.fragment, "the fragment of SetDeletionFile")?.try_into()?,
            vector,
            added,
            replaced,
        };
        action.check()?;
        Ok(action)
    }
}

impl SetDeletionFile {
    /// Refuses sets of rows that do not lie in one another.
    fn check(&self) -> Result<(), DecodeError> {
        // Which fragment it is cannot be seen from here; it has no more rows than any fragment.
        let any = MAX_ROWS_PER_FRAGMENT as u32;
        self.vector.as_ref().map_or(Ok(()), |vector| check_vector(vector, any))?;
        let in_vector = match &self.vector {
            None => self.added.is_empty(),
            Some(DeletionFile::Inline { blob, .. }) => {
                self.added.is_subset(&deletion_vector::decode(blob, any).map_err(DecodeError::Damaged)?)
            }
            Some(DeletionFile::Puffin { cardinality, .. }) => self.added.len() <= u64::from(*cardinality),
        };
        match in_vector && self.replaced.is_subset(&self.added) {
            true => Ok(()),
            false => Err(DecodeError::damaged("SetDeletionFile claims rows that it does not delete")),
        }
    }
}
