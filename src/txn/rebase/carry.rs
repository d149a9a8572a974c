//! What carrying a transaction over others took so far, as a value.
//!
//! Always holds: it is empty exactly if the transaction can be applied as it was staged.

use super::Rebase;
use crate::table::row_address::FragmentId;
use std::collections::BTreeSet;
use std::fmt;

/// What has to be recomputed before a transaction can land, because of others that landed first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carry {
    /// Fragments in which both delete rows: their deletion vectors are united.
    pub vectors_united: BTreeSet<FragmentId>,
    /// Rows that we delete and that they deleted first: they are theirs.
    pub rows_already_deleted: u64,
    /// Rows that we delete, followed to where their rewrites moved them.
    pub rows_followed: u64,
    /// Rows that they deleted in fragments that we rewrite: they go through our maps to what we add.
    pub rows_deleted_before_our_move: u64,
    /// Fragments that they rewrote and whose columns we change: our values are gathered where the rows are now.
    pub columns_moved: BTreeSet<FragmentId>,
    /// Fragments that we rewrite and of which they changed columns: their values are gathered for what we add.
    pub columns_taken_over: BTreeSet<FragmentId>,
    /// Our rewrites that are given up, by their number among our changes of address: they rewrote the same fragments.
    pub rewrites_given_up: BTreeSet<usize>,
    /// Fragments that we remove, or whose columns we change, and of which they deleted rows: where nothing is left of one, our
    /// actions on it are left out.
    pub thinned: BTreeSet<FragmentId>,
}

impl Carry {
    /// Whether there is nothing to recompute.
    pub fn is_empty(&self) -> bool {
        *self == Carry::default()
    }
}

impl fmt::Display for Carry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (!self.vectors_united.is_empty(), "deletion vectors united"),
            (self.rows_already_deleted > 0, "rows already deleted"),
            (self.rows_followed > 0, "our rows followed through their map"),
            (self.rows_deleted_before_our_move > 0, "their deletions carried through our map"),
            (!self.columns_moved.is_empty(), "our columns gathered where their rewrite moved the rows"),
            (!self.columns_taken_over.is_empty(), "their columns gathered for our rewrite"),
            (!self.rewrites_given_up.is_empty(), "our rewrite given up"),
            (!self.thinned.is_empty(), "fewer rows than we read"),
        ];
        f.write_str(&parts.into_iter().filter_map(|(is, what)| is.then_some(what)).collect::<Vec<_>>().join(", "))
    }
}

impl Rebase {
    /// What the walk took so far.
    pub fn carry(&self) -> Carry {
        let dropped = self.groups.iter().enumerate().filter(|(_, group)| group.dropped).map(|(at, _)| at);
        let taken_over = self.groups.iter().filter(|group| !group.dropped).flat_map(|group| group.refreshed.keys().copied());
        Carry {
            vectors_united: self.merged.clone(),
            rows_already_deleted: self.already_deleted.iter().sum(),
            rows_followed: self.rows_carried,
            rows_deleted_before_our_move: self.foreign.values().map(|rows| rows.len()).sum(),
            columns_moved: self.columns.moved().collect(),
            columns_taken_over: taken_over.collect(),
            rewrites_given_up: dropped.collect(),
            thinned: self.thinned.clone(),
        }
    }
}
