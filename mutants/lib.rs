//! The pure layers of amend, and nothing else: what `mutants/run` lets cargo-mutants change.

#![allow(dead_code, missing_docs)]

pub mod error;
pub mod faulty;
pub mod table;
pub mod txn;

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

pub mod commit {
    //! What is asked of every version.
    pub mod invariants;
}
