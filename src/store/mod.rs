//! The floor: bytes by name. Everything above says *which* object; this folder knows *how* to keep it.
//!
//! ```text
//!   commit, manifest, stage, maintain                        scan (DataFusion's Parquet reader)
//!            | ObjectName, Bytes                                       | Path, ranges
//!            v                                                         v
//!   store::Store  read, create, write, list, delete          verified::VerifiedStore  every block
//!            |        `- writer::ObjectWriter                          |  held against its CRC-32C
//!            |             (checksum::BlockHasher as it goes)          |
//!            +----------------------------+----------------------------+
//!                                         v
//!                         object_store::ObjectStore, one of
//!            local::DurableLocal        a folder: temp -> fsync -> link -> fsync folder
//!            object_store's InMemory    tests
//!            faults::FaultStore         any of them, failing on command
//!
//!   path  the only maker of object names          env  the only clock, randomness and ids
//! ```
//!
//! Goes in: names and bytes. Comes out: bytes, or an [`Error`](crate::error::Error) that names the object.
//! Always holds: an object that was reported as written is whole and (on a local folder) survives a power cut; a name is
//! created at most once; bytes that do not match their checksum are never returned.

pub mod base;
pub mod checksum;
pub mod env;
pub mod faults;
pub mod local;
pub mod path;
#[allow(clippy::module_inception)]
mod store;
pub mod verified;
mod writer;

#[cfg(test)]
mod contract;

pub use checksum::{BlockHasher, Written, crc32c};
pub use faults::FaultStore;
pub use local::DurableLocal;
pub use path::{ObjectName, new_table_folder};
pub use store::{CreateAnswer, ObjectEntry, ROUNDED_MS, Store};
pub use verified::{Elsewhere, FileCheck, VerifiedStore};
pub use writer::ObjectWriter;
