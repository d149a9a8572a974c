//! A session: statements one after another, with transactions.

use super::lake::Lake;
use super::outcome::Outcome;
use crate::error::{Error, Result};

/// One user's sequence of statements on a lake.
pub struct Session {}

impl Session {
    /// A session on a lake.
    pub async fn new(_lake: &Lake) -> Result<Session> {
        Ok(Session {})
    }

    /// Runs one statement to its end. A query's rows are collected.
    pub async fn execute(&self, _sql: &str) -> Result<Outcome> {
        Err(Error::internal("stub"))
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        false
    }
}
