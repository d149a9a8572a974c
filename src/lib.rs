//! amend
pub mod error;
pub mod store;
pub mod table;
