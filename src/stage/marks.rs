//! Marks: the rows that a statement deletes or replaces, collected from the addresses that its plan yields.
//!
//! Always holds: a row that is replaced is marked once; a second mark is an error that names the row. A row that is only
//! deleted may be met again.

use crate::error::{Error, Result};
use crate::table::deletion_vector::DeletionFile;
use crate::table::row_address::{FragmentId, RowAddress};
use crate::txn::action::{Action, SetDeletionFile};
use crate::txn::refs::Ref;
use datafusion::arrow::array::{Array, Int64Array, UInt32Array};
use roaring::RoaringBitmap;
use std::collections::BTreeMap;

/// The rows that one writer marked, by fragment.
#[derive(Debug, Default)]
pub struct Marks {
    rows: BTreeMap<FragmentId, Marked>,
}

/// The rows of one fragment.
#[derive(Debug, Default)]
struct Marked {
    added: RoaringBitmap,
    replaced: RoaringBitmap,
}

impl Marks {
    /// Marks row `at` of the address columns. Returns whether the row was not marked before.
    pub fn mark(&mut self, fragments: &UInt32Array, offsets: &Int64Array, at: usize, replaced: bool) -> Result<bool, MarkError> {
        if fragments.is_null(at) || offsets.is_null(at) {
            return Err(MarkError::NoAddress);
        }
        let fragment = FragmentId(fragments.value(at));
        let offset = u32::try_from(offsets.value(at)).map_err(|_| MarkError::NoAddress)?;
        let marked = self.rows.entry(fragment).or_default();
        let new = marked.added.insert(offset);
        if !new && (replaced || marked.replaced.contains(offset)) {
            return Err(MarkError::Twice(RowAddress::new(fragment, offset)));
        }
        if replaced {
            marked.replaced.insert(offset);
        }
        Ok(new)
    }

    /// The actions that delete the marked rows. Their vectors hold only these rows: what others have deleted is added
    /// when the transaction is settled.
    pub fn into_actions(self) -> Vec<Action> {
        let action = |(fragment, marked): (FragmentId, Marked)| {
            Action::SetDeletionFile(SetDeletionFile {
                fragment: Ref::Committed(fragment),
                vector: DeletionFile::inline(&marked.added),
                added: marked.added,
                replaced: marked.replaced,
            })
        };
        self.rows.into_iter().map(action).collect()
    }
}

/// Why a row cannot be marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkError {
    /// The row was marked before.
    Twice(RowAddress),
    /// The row has no address.
    NoAddress,
}

impl MarkError {
    /// The error of a statement on a table.
    pub fn into_error(self, table: &str, statement: &'static str) -> Error {
        match self {
            MarkError::Twice(row) => Error::AmbiguousMatch { table: table.to_owned(), statement, row: row.to_string(), matches: 2 },
            MarkError::NoAddress => Error::internal(format!("a row that {statement} is to change has no address")),
        }
    }
}
