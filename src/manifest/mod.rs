//! What a version is: the state of a table after so many transactions, and the bytes that say so.
//!
//! ```text
//!   Version  = Snapshot + the transactions that made it + when and by whom
//!   Snapshot = schema, counters, settings, FragmentSet
//!   FragmentSet = immutable pages of fragment records  <- overridden by a bounded tail
//!                 an index lists the pages; records are loaded where they are asked for
//!
//!   apply   Snapshot + Transaction -> Snapshot         pure
//!   encode  Version -> bytes, read back before anyone else sees them
//!   decode  bytes -> Version, bounded and checked      the only place where foreign bytes become values
//!     frame   magic, format version, length, checksum  around every metadata object
//!     shape   known fields, bounded counts             before anything is built
//!     wire    the protobuf messages                    shapes only; `record` and `txn::wire` turn them into nouns and back
//!     check   what must hold of a noun
//! ```

pub mod apply;
mod called;
pub mod catalog;
pub mod check;
pub mod decode;
pub mod encode;
pub mod fragments;
pub mod frame;
pub mod leases;
pub mod log;
pub mod pages;
mod reach;
pub(crate) mod record;
mod shape;
pub mod snapshot;
pub mod version;
pub(crate) mod wire;
