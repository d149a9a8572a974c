//! What every way of using the shell has: a session and a printer.
//!
//! Goes in: one statement. Comes out: its outcome. Always holds: one statement runs at a time, and this thread waits for it.

use crate::output::Printer;
use amend::{Error, Lake, Outcome, Result, Session};
use std::io::Write;
use tokio::runtime::Runtime;

/// A session with a place to print to.
pub struct Shell<A, E> {
    // Before the runtime, so that it is dropped while the runtime lives.
    session: Session,
    runtime: Runtime,
    /// Where answers go.
    pub printer: Printer<A, E>,
}

impl<A, E> Shell<A, E> {
    /// A shell on a lake.
    pub fn open(runtime: Runtime, lake: &Lake, printer: Printer<A, E>) -> Result<Self> {
        let session = runtime.block_on(Session::new(lake))?;
        Ok(Shell { session, runtime, printer })
    }

    /// Runs one statement to its end.
    pub fn execute(&self, sql: &str) -> Result<Outcome> {
        self.runtime.block_on(self.session.execute(sql))
    }

    /// Prints what was wrong with a statement.
    pub fn error(&mut self, error: &Error, sql: &str, place: Option<&str>) -> std::io::Result<()>
    where
        A: Write,
        E: Write,
    {
        let position = self.session.position_of(sql, error);
        self.printer.error_in(error, sql, position, place)
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.session.in_transaction()
    }
}
