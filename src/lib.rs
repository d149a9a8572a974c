//! amend

#![forbid(unsafe_code)]

pub mod commit;
pub mod error;
pub mod manifest;
pub mod plan;
pub mod scan;
pub mod slt;
pub mod stage;
pub mod statement;
pub mod store;
pub mod table;
pub mod txn;

pub use error::{Error, ErrorKind, Result};
pub use statement::install::install;
pub use statement::lake::Lake;
pub use statement::outcome::{Changed, Outcome, Rows};
pub use statement::session::Session;
