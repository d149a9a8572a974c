//! What a transaction is, and what it may land on. Pure: values in, values out; no I/O, no engine.
//!
//! ```text
//!   Transaction = steps = actions          refs          ids that exist, or tokens for ids that do not exist yet
//!        |                                 action/*      one file an action: meaning, footprint, wire form
//!        v
//!   footprint ── collision                               coordinates other than rows
//!        |
//!        v
//!   rebase: the walk over what landed since the transaction read
//!        rows that others deleted    united with ours, or a conflict on just those rows
//!        rows that others moved      followed through their change of address
//!        rows that we moved          their deletions followed through ours
//!        |
//!        v
//!   settle: deletion vectors written against the newest version's
//! ```
//!
//! `compare` is the walk over one transaction as a value: it commutes, is carried (how), or collides (on what).

pub mod action;
pub mod address_map;
pub mod changes;
pub mod compare;
pub mod composite;
pub mod describe;
pub mod footprint;
pub mod net;
pub mod normalise;
pub mod rebase;
pub mod refs;
pub mod wire;

#[cfg(test)]
mod behaviours;
#[cfg(test)]
mod exploration;
#[cfg(test)]
mod pairs;
#[cfg(test)]
mod properties;
#[cfg(test)]
pub(crate) mod simulation;
#[cfg(test)]
pub(crate) mod testbed;
