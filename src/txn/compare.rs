//! Two transactions that read one version: what becomes of the second once the first has landed.
//!
//! Goes in: ours, which lands second, theirs as it landed, and the maps of both. Comes out: a [`Comparison`]. There is one rule
//! for every pair, the walk of [`Rebase`]; this is its answer for one transaction, as a value.
//!
//! Always holds: ours can be applied as it was staged after theirs exactly if both commute.

use super::address_map::AddressMap;
use super::composite::{CommittedTransaction, Transaction, TransactionId};
use super::rebase::{Carry, Collision, Rebase};
use crate::table::row_address::RowAddress;
use std::sync::Arc;

/// What becomes of a transaction after another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// It lands as it is.
    Commutes,
    /// It lands once this is recomputed.
    Carry(Carry),
    /// It cannot land.
    Conflict(Conflict),
}

/// Why a transaction cannot land after another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// What both changed.
    pub coordinate: String,
    /// Some of the rows that both changed, by the addresses that the other transaction knew them by.
    pub rows: Vec<RowAddress>,
    /// The one that cannot land.
    pub ours: Party,
    /// The one that landed.
    pub theirs: Party,
}

/// A transaction of a conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// Its identity.
    pub id: TransactionId,
    /// What it said.
    pub statement: String,
}

impl Party {
    fn of(transaction: &Transaction) -> Self {
        Party { id: transaction.id, statement: transaction.describe() }
    }
}

/// The maps of the changes of address of two transactions, in the order of their actions.
#[derive(Debug, Clone, Copy)]
pub struct Maps<'a> {
    /// Those of the one that lands second.
    pub ours: &'a [Arc<AddressMap>],
    /// Those of the one that landed; at least those that [`Rebase::maps_needed`] asks for.
    pub theirs: &'a [Option<Arc<AddressMap>>],
}

/// What becomes of `ours` after `theirs`, which read the same version or an earlier one.
pub fn compare(ours: &Transaction, theirs: &CommittedTransaction, maps: Maps<'_>) -> Comparison {
    let walked = Rebase::new(ours.clone(), maps.ours).and_then(|mut rebase| {
        // Which version it is shows only in the collision's report, which is not used here.
        rebase.over(0, theirs, maps.theirs)?;
        Ok(rebase.carry())
    });
    match walked {
        Ok(carry) if carry.is_empty() => Comparison::Commutes,
        Ok(carry) => Comparison::Carry(carry),
        Err(Collision { coordinate, rows, .. }) => {
            Comparison::Conflict(Conflict { coordinate, rows, ours: Party::of(ours), theirs: Party::of(&theirs.transaction) })
        }
    }
}

#[cfg(test)]
mod tests;
