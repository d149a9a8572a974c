//! Make it happen once: rebase, apply, publish the next version, know the outcome.
//!
//! ```text
//!   Staged ──> [ queue: one turn at a time per table and process; whose turn it is commits for all that wait ]
//!                 │  a group of transactions
//!                 v
//!        ┌─> newest version ──> each: rebase over what landed, and over those before it ──> settle ──> apply ──> invariants
//!        │                                                                                       │ encode
//!        │                                                                       create version L+1, if absent
//!        │                                                                                       │
//!        └── somebody else's <── read the slot: whose is it? <── any other answer ──┬── created ─┴──> Committed
//!                                                                                   └── our ids in it ──> Committed
//! ```
//!
//! Always holds: this folder alone creates versions, at one place ([`attempt`]); what a manifest names is durable
//! before the manifest is.

pub mod attempt;
pub mod catalog;
pub mod gather;
pub mod invariants;
mod member;
pub mod outcome;
mod place;
pub mod precedence;
mod queue;
pub mod reads;
pub mod staged;
mod ticket;

pub use outcome::Committed;
pub use precedence::{Precedence, free, precedence, publish};
pub use staged::Staged;
pub use ticket::Freed;

/// What this program calls itself in what it publishes.
const WRITER: &str = concat!("amend ", env!("CARGO_PKG_VERSION"));
