//! amend

#![forbid(unsafe_code)]

pub mod commit;
pub mod error;
pub mod manifest;
pub mod statement;
pub mod table;
pub mod txn;

pub use error::{Error, ErrorKind, Result};
pub use statement::lake::Lake;
pub use statement::outcome::{Changed, Outcome, Rows};
pub use statement::session::Session;
