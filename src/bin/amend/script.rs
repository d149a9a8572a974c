//! Running the statements of a script: a `-c`, a file, or what comes through a pipe.
//!
//! Goes in: bytes. Comes out: printed answers, and how many statements failed. Always holds: a statement runs as soon as its
//! semicolon has arrived, whatever else is still to come; a statement that is not UTF-8 is an error and is not run.

use crate::shell::Shell;
use amend::Error;
use amend::statement::split::{Splitter, Statement};
use std::io::{self, Read, Write};

/// How long a statement may be in the line that says which one failed.
const SHOWN_CHARS: usize = 200;

/// What stands in for bytes that are not UTF-8.
const REPLACEMENT: &str = "\u{FFFD}";

/// What to do about a statement that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// Name it and end the script.
    Stop,
    /// Name it and go on.
    Continue,
    /// Answer with the error and go on: the other side of the pipe knows what it has sent.
    Answer,
}

/// How a script ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// How many statements failed.
    pub failed: u64,
    /// Whether the rest was not run.
    pub stopped: bool,
}

/// Runs a script; `name` is what messages call it. Fails only if its answers cannot be written.
pub fn run<A: Write, E: Write>(shell: &mut Shell<A, E>, mut script: impl Read, name: &str, on_error: OnError) -> io::Result<Ended> {
    let mut run = Run { shell, name, on_error, splitter: Splitter::new(), damaged: false, failed: 0 };
    let mut bytes = vec![0; 64 * 1024];
    let mut pending = Vec::new();
    loop {
        let length = match script.read(&mut bytes) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let error = Error::Store { operation: "read", object: name.to_owned(), source: Box::new(error) };
                run.shell.printer.error(&error, None)?;
                return Ok(Ended { failed: run.failed + 1, stopped: true });
            }
        };
        let at_end = length == 0;
        pending.extend_from_slice(bytes.get(..length).unwrap_or_default());
        if run.push(&mut pending, at_end)? || (at_end && run.finish()?) {
            return Ok(Ended { failed: run.failed, stopped: true });
        }
        if at_end {
            return Ok(Ended { failed: run.failed, stopped: false });
        }
    }
}

/// A script on its way.
struct Run<'a, A, E> {
    shell: &'a mut Shell<A, E>,
    name: &'a str,
    on_error: OnError,
    splitter: Splitter,
    /// Whether bytes were replaced since the last statement ended.
    damaged: bool,
    failed: u64,
}

impl<A: Write, E: Write> Run<'_, A, E> {
    /// Runs the statements that these bytes complete, and leaves those of an unfinished character. True if the script ends here.
    fn push(&mut self, bytes: &mut Vec<u8>, at_end: bool) -> io::Result<bool> {
        let mut used = 0;
        for chunk in bytes.utf8_chunks() {
            used += chunk.valid().len();
            self.splitter.push(chunk.valid());
            if self.run_complete()? {
                return Ok(true);
            }
            let invalid = chunk.invalid();
            let unfinished = used + invalid.len() == bytes.len() && is_unfinished(invalid);
            if invalid.is_empty() || (unfinished && !at_end) {
                continue;
            }
            used += invalid.len();
            self.splitter.push(REPLACEMENT);
            self.damaged = true;
        }
        bytes.drain(..used);
        Ok(false)
    }

    fn run_complete(&mut self) -> io::Result<bool> {
        while let Some(statement) = self.splitter.next_statement() {
            if self.run_one(&statement)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs what follows the last semicolon. True if the script ends with an error that stops it.
    fn finish(&mut self) -> io::Result<bool> {
        match std::mem::take(&mut self.splitter).finish() {
            Some(statement) => self.run_one(&statement),
            None => Ok(false),
        }
    }

    /// Runs a statement. True if the script ends here.
    fn run_one(&mut self, statement: &Statement) -> io::Result<bool> {
        let damaged = std::mem::take(&mut self.damaged) && statement.text.contains(REPLACEMENT);
        let result = if damaged { Err(Error::invalid("the statement is not valid UTF-8")) } else { self.shell.execute(&statement.text) };
        match result {
            Ok(outcome) => self.shell.printer.outcome(&outcome).map(|()| false),
            Err(error) => {
                self.failed += 1;
                let place = (self.on_error != OnError::Answer).then(|| place(self.name, statement));
                self.shell.error(&error, &statement.text, place.as_deref())?;
                Ok(self.on_error == OnError::Stop)
            }
        }
    }
}

/// Whether more bytes could still make a character of these.
fn is_unfinished(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// `sql/x.sql:12: DELETE FROM …`
fn place(name: &str, statement: &Statement) -> String {
    let text = statement.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    };
    format!("{name}:{}: {shown}", statement.line)
}

#[cfg(test)]
mod tests;
