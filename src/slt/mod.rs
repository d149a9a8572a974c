//! The sqllogictest runner: files of SQL with the answers that they must get.
//!
//! Goes in: a file of records, optionally rules that rewrite its SQL and a list of files to leave out. Comes out: a report of
//! what was run, what failed and what was skipped for which reason. Always holds: every file gets a lake of its own, every
//! named connection is one session on it, and no record counts as passed that was not run.
//!
//! ```text
//! file --records--> runner --(rules, conditions)--> connection --> Session
//!                     |                                  |
//!                  report <------- compare <----- values as text
//! ```
//!
//! The conventions are those of DataFusion's own files (`values`, `matching`); `-- spawn: h` and `-- join: h` (`connection`)
//! let a file run statements at the same time.

mod connection;
mod lists;
mod matching;
mod runner;
mod values;

pub use lists::{Rules, Skips};
pub use runner::{FileReport, LakePlace, Runner};
