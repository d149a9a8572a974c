//! What a version is: the state of a table after so many transactions, and the bytes that say so.
//!
//! ```text
//!   Version  = Snapshot + the transactions that made it + when and by whom
//!   Snapshot = schema, counters, settings, FragmentSet
//!   FragmentSet = immutable pages of fragment records  <- overridden by a bounded tail
//!
//!   apply   Snapshot + Transaction -> Snapshot         pure
//!   wire    the protobuf messages                      shapes only
//!   decode  bytes -> Version, bounded and checked      the only place where foreign bytes become values
//! ```

pub mod apply;
pub mod fragments;
pub mod snapshot;
pub mod version;
