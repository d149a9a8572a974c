//! The pure layers of amend under its own name, and nothing else: what the targets decode with, without the engine.
//!
//! Always holds: the modules are those of `src`, by their paths; what does I/O is left out.

#![allow(dead_code, missing_docs)]

#[path = "../src/error.rs"]
pub mod error;
#[path = "../src/faulty.rs"]
pub mod faulty;
#[path = "../src/table/mod.rs"]
pub mod table;
#[path = "../src/txn/mod.rs"]
pub mod txn;

#[path = "../src/manifest"]
pub mod manifest {
    //! Without the log, which does I/O.
    pub mod apply;
    pub mod catalog;
    pub mod check;
    pub mod decode;
    pub mod encode;
    pub mod fragments;
    pub mod frame;
    pub mod pages;
    pub(crate) mod record;
    mod shape;
    pub mod snapshot;
    pub mod version;
    pub(crate) mod wire;
}
