//! What every way of using the shell has: a session and a printer.
//!
//! Goes in: one statement. Comes out: its outcome. Always holds: one statement runs at a time, and this thread waits for it; what is said
//! of a statement that was cancelled is true: nothing was changed, or it is not known.

use crate::output::Printer;
use amend::{Course, Error, Lake, Outcome, Progress, Result, Session};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};

/// When a statement is long, so that its progress is shown.
const LONG: Duration = Duration::from_secs(1);
/// How often it is shown.
const OFTEN: Duration = Duration::from_millis(200);
/// How often it is looked whether Ctrl-C was pressed.
const LOOK: Duration = Duration::from_millis(20);

/// A session with a place to print to.
pub struct Shell<A, E> {
    // Before the runtime, so that it is dropped while the runtime lives.
    session: Arc<Session>,
    runtime: Runtime,
    /// Where answers go.
    pub printer: Printer<A, E>,
    /// Set when Ctrl-C is pressed, if that ends a statement instead of the shell.
    interrupted: Option<Arc<AtomicBool>>,
}

impl<A, E> Shell<A, E> {
    /// A shell on a lake.
    pub fn open(runtime: Runtime, lake: &Lake, printer: Printer<A, E>) -> Result<Self> {
        let session = Arc::new(runtime.block_on(Session::new(lake))?);
        Ok(Shell { session, runtime, printer, interrupted: None })
    }

    /// From now on Ctrl-C ends a statement and not the shell.
    pub fn catch_interrupts(&mut self) -> io::Result<()> {
        let interrupted = Arc::<AtomicBool>::default();
        signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted.clone())?;
        self.interrupted = Some(interrupted);
        Ok(())
    }

    /// Runs one statement to its end, or until it is cancelled.
    pub fn execute(&self, sql: &str) -> Result<Outcome> {
        let (session, sql) = (self.session.clone(), sql.to_owned());
        let (answers, answer) = mpsc::channel();
        // On threads of its own, so that this one sees Ctrl-C and tells the time however busy they are.
        let statement = self.runtime.spawn(async move {
            let outcome = session.execute(&sql).await;
            // If it was cancelled nobody waits.
            let _ = answers.send(outcome);
        });
        let shown = io::stderr().is_terminal();
        // What was pressed before is over.
        self.take_interrupt();
        let (start, mut told) = (Instant::now(), LONG);
        let (mut interrupted, mut committing) = (false, false);
        let outcome = loop {
            match answer.recv_timeout(LOOK) {
                Ok(outcome) => break outcome,
                Err(RecvTimeoutError::Disconnected) => break Err(Error::internal("the statement broke off")),
                Err(RecvTimeoutError::Timeout) => {}
            }
            interrupted |= self.take_interrupt();
            if interrupted {
                match self.session.stop() {
                    // It has not begun, as one that was cancelled before still lets go of what it held; or its outcome is on its way.
                    Course::Ended | Course::Stopped => {}
                    Course::Committing if !committing => {
                        (interrupted, committing) = (false, true);
                        say("it is being committed; its outcome is waited for (Ctrl-C again: not waited for)\n");
                    }
                    course @ (Course::Running | Course::Committing) => {
                        statement.abort();
                        break Err(cancelled(course, self.session.in_transaction()));
                    }
                }
            }
            if shown && start.elapsed() >= told {
                told = start.elapsed() + OFTEN;
                if let Some(progress) = self.session.progress() {
                    say(&format!("\r\x1b[2K{}", progress_line(&progress, start.elapsed())));
                }
            }
        };
        if shown && told > LONG {
            say("\r\x1b[2K");
        }
        outcome
    }

    /// Ends without waiting for what was cancelled.
    pub fn close(self) {
        let Shell { session, runtime, .. } = self;
        drop(session);
        runtime.shutdown_background();
    }

    /// Whether Ctrl-C was pressed since the last look.
    fn take_interrupt(&self) -> bool {
        self.interrupted.as_ref().is_some_and(|interrupted| interrupted.swap(false, Ordering::Relaxed))
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

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Where its statements run.
    pub fn runtime(&self) -> &Handle {
        self.runtime.handle()
    }
}

/// What is known of a statement that was cancelled.
fn cancelled(course: Course, in_transaction: bool) -> Error {
    match (course, in_transaction) {
        (Course::Committing, _) => Error::refused("08007", "left while it was being committed: read the table to learn whether it was"),
        (_, true) => Error::refused("57014", "cancelled: no table was changed; the transaction can only be rolled back"),
        (_, false) => Error::refused("57014", "cancelled: no table was changed"),
    }
}

/// Says something beside the answers. If it cannot be said, nothing is lost.
fn say(text: &str) {
    let mut errors = io::stderr();
    let _ = errors.write_all(text.as_bytes()).and_then(|()| errors.flush());
}

/// `12.3 s, 1,200,000 rows and 45.6 MB read, 300 rows and 1.2 MB written`
fn progress_line(progress: &Progress, elapsed: Duration) -> String {
    let Progress { rows_read, bytes_read, rows_written, bytes_written } = *progress;
    let part = |rows: u64, bytes: u64, verb: &str| {
        let amounts = [(rows > 0).then(|| format!("{} rows", grouped(rows))), (bytes > 0).then(|| megabytes(bytes))];
        let amounts = amounts.into_iter().flatten().collect::<Vec<_>>().join(" and ");
        (!amounts.is_empty()).then(|| format!(", {amounts} {verb}"))
    };
    let parts = [part(rows_read, bytes_read, "read"), part(rows_written, bytes_written, "written")];
    format!("{:.1} s{}", elapsed.as_secs_f64(), parts.into_iter().flatten().collect::<String>())
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// A number with commas between its thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |(at, digit): (usize, char)| {
        let comma = at > 0 && (digits.len() - at).is_multiple_of(3);
        [comma.then_some(','), Some(digit)].into_iter().flatten()
    };
    digits.chars().enumerate().flat_map(comma).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_one_line() {
        let line = |rows_read, bytes_read, rows_written, bytes_written| {
            progress_line(&Progress { rows_read, bytes_read, rows_written, bytes_written }, Duration::from_millis(12_345))
        };
        assert_eq!(line(0, 0, 0, 0), "12.3 s");
        assert_eq!(line(1_234_567, 45_600_000, 0, 0), "12.3 s, 1,234,567 rows and 45.6 MB read");
        assert_eq!(line(999, 0, 1_000, 50_000), "12.3 s, 999 rows read, 1,000 rows and 0.1 MB written");
    }

    #[test]
    fn what_is_said_of_a_cancelled_statement_is_what_is_known() {
        assert_eq!(cancelled(Course::Running, false).to_string(), "cancelled: no table was changed");
        assert!(cancelled(Course::Running, true).to_string().ends_with("can only be rolled back"));
        assert_eq!(cancelled(Course::Committing, false).sqlstate(), "08007");
    }
}
