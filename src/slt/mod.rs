//! The sqllogictest runner: files of SQL with the answers that they must get.
//!
//! Goes in: a file of records, optionally rules that rewrite it, a list of what to leave out and one of what is known to fail.
//! Comes out: a report of what was run, what failed and what was skipped for which reason. Always holds: every file gets a lake of its own, every
//! named connection is one session on it, and no record counts as passed that was not run.
//!
//! ```text
//! file --script--> steps --> runner --(rules, lists)--> connection --> Session
//!                              |                             |
//!                table <---- report <--- compare <--- values as text
//! ```
//!
//! The conventions are those of DataFusion's own files (`values`, `matching`), unless the rules name another dialect; `-- spawn: h` and `-- join: h` (`connection`)
//! let a file run statements at the same time.

mod connection;
mod duckdb;
mod lists;
mod matching;
mod modes;
mod runner;
mod script;
mod table;
mod values;

pub use lists::{Dialect, Rules, Skips};
pub use modes::Modes;
pub use runner::{FileReport, LakePlace, Runner};
pub use table::Table;
