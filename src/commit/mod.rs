//! Make it happen once: rebase, apply, publish the next version, know the outcome.
//!
//! ```text
//!   Staged ──> [ queue: one at a time per table and process ]
//!                 │
//!                 v
//!        ┌─> newest version ──> rebase over what landed ──> settle ──> apply ──> invariants ──> encode
//!        │                                                                                       │
//!        │                                                                       create version L+1, if absent
//!        │                                                                                       │
//!        └── somebody else's <── read the slot: whose is it? <── any other answer ──┬── created ─┴──> Committed
//!                                                                                   └── our id in it ──> Committed
//! ```
//!
//! Always holds: this folder alone creates versions, at one place ([`attempt`]); what a manifest names is durable
//! before the manifest is.

pub mod attempt;
pub mod catalog;
pub mod invariants;
pub mod outcome;
mod place;
pub mod staged;

pub use attempt::{publish, raise_low_water_mark};
pub use outcome::Committed;
pub use staged::Staged;

/// What this program calls itself in what it publishes.
const WRITER: &str = concat!("amend ", env!("CARGO_PKG_VERSION"));
