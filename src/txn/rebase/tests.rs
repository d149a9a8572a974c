//! Scenarios of rebase, by name. They look at rows and bitmaps, not at verdicts: what a reader finds, which offsets the
//! deletion vectors hold, which rows a landed transaction claims.

mod carry;
mod columns;
mod composites;
mod deletes;
mod gathers;
mod maps;
mod moves;
mod reserved;
mod retries;

use super::Collision;
use crate::table::row_address::FragmentId;
use crate::txn::action::Action;
use crate::txn::refs::{FragmentRef, Ref, Token};
use crate::txn::testbed::{Landed, Row};

/// A fragment of a committed version.
fn old(id: u32) -> FragmentRef {
    Ref::Committed(FragmentId(id))
}

/// A fragment that the transaction adds.
fn own(token: u32) -> FragmentRef {
    Ref::Local(Token(token))
}

/// Rows of value 0.
fn rows(keys: impl IntoIterator<Item = u32>) -> Vec<Row> {
    keys.into_iter().map(|key| (key, 0)).collect()
}

/// The rows that a transaction deletes, as it landed: fragment, all, replaced.
fn claims(landed: &Landed) -> Vec<(FragmentRef, Vec<u32>, Vec<u32>)> {
    let sets = landed
        .committed
        .transaction
        .actions()
        .filter_map(|action| if let Action::SetDeletionFile(set) = action { Some(set) } else { None });
    sets.map(|set| (set.fragment, set.added.iter().collect(), set.replaced.iter().collect())).collect()
}

/// The rows that each step says it deleted.
fn deleted(landed: &Landed) -> Vec<u64> {
    landed.committed.transaction.steps.iter().map(|step| step.counts.deleted).collect()
}

/// What a collision names: coordinate, rows, version.
fn named(collision: &Collision) -> (&str, Vec<String>, u64) {
    (&collision.coordinate, collision.rows.iter().map(|row| row.to_string()).collect(), collision.version)
}
