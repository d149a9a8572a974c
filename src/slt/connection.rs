//! A named connection of a file: a session, and statements that run in the background on it.
//!
//! Goes in: the SQL of a record. Comes out: rows or a count. Always holds: a session runs one statement at a time, in the order
//! of the file; a statement that was spawned is joined once, by any connection of the file.
//!
//! The first line of a statement may be a comment to this runner: `-- spawn: h` starts the statement and goes on with the file,
//! `-- join: h`, on a line of its own, waits for it and answers what it answered.

use super::lists::{Dialect, Rules};
use super::modes::Modes;
use super::values::{self, ColumnType};
use crate::error::{Error, Result};
use crate::statement::lake::Lake;
use crate::statement::outcome::Outcome;
use crate::statement::session::Session;
use crate::statement::split::Splitter;
use sqllogictest::{DBOutput, QueryExpect, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;

/// What the connections of one file have in common.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    lake: Lake,
    /// Statements that run in the background, by their handles.
    spawned: Arc<Mutex<BTreeMap<String, JoinHandle<Result<Outcome>>>>>,
    /// Whether the record that runs is a query: then a statement that changes something answers its count as a row, as it does
    /// in DataFusion's own runner.
    counts_are_rows: Arc<AtomicBool>,
    /// The types that the record that runs asks for.
    asked: Arc<Mutex<Vec<ColumnType>>>,
    rules: Arc<Rules>,
    modes: Modes,
    /// How many statements have changed a table.
    changes: Arc<AtomicU64>,
    /// The SQLSTATEs of the errors that were answered.
    sqlstates: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl Shared {
    pub(super) fn new(lake: Lake, rules: Rules, modes: Modes) -> Shared {
        let rules = Arc::new(rules);
        Shared {
            lake,
            spawned: Arc::default(),
            counts_are_rows: Arc::default(),
            asked: Arc::default(),
            rules,
            modes,
            changes: Arc::default(),
            sqlstates: Arc::default(),
        }
    }

    /// The SQLSTATEs of the errors that were answered.
    pub(super) fn sqlstates(&self) -> BTreeSet<&'static str> {
        self.sqlstates.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes note of how the answer of the next record is to be given.
    pub(super) fn prepare_for(&self, record: &Record<ColumnType>) {
        self.counts_are_rows.store(matches!(record, Record::Query { .. } | Record::Let { .. }), Ordering::Relaxed);
        if let Record::Query { expected: QueryExpect::Results { types, .. }, .. } = record {
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone_from(types);
        }
    }

    /// The rows of an answer as this suite spells them.
    fn spell(&self, rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
        let asked = match self.rules.dialect {
            Dialect::Sqlite => self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            Dialect::Plain | Dialect::Loose | Dialect::DuckDb => Vec::new(),
        };
        let value = |(at, value): (usize, String)| {
            let value = self.rules.apply_to_answer(value);
            match asked.get(at) {
                Some(asked) => values::as_asked(value, *asked),
                None => value,
            }
        };
        rows.into_iter().map(|row| row.into_iter().enumerate().map(value).collect()).collect()
    }

    /// Ends the statements that nobody joined, and names them.
    pub(super) fn abandon_spawned(&self) -> Vec<String> {
        let left = std::mem::take(&mut *self.spawned.lock().unwrap_or_else(PoisonError::into_inner));
        let end = |(handle, task): (String, JoinHandle<_>)| {
            task.abort();
            handle
        };
        left.into_iter().map(end).collect()
    }

    fn put(&self, handle: &str, task: JoinHandle<Result<Outcome>>) -> Result<()> {
        let mut spawned = self.spawned.lock().unwrap_or_else(PoisonError::into_inner);
        match spawned.insert(handle.to_owned(), task) {
            None => Ok(()),
            Some(earlier) => {
                earlier.abort();
                Err(Error::invalid(format!("the statement spawned earlier as '{handle}' was not joined")))
            }
        }
    }

    async fn join(&self, handle: &str) -> Result<Outcome> {
        let task = self.spawned.lock().unwrap_or_else(PoisonError::into_inner).remove(handle);
        let task = task.ok_or_else(|| Error::invalid(format!("no statement was spawned as '{handle}'")))?;
        task.await.map_err(|error| Error::internal(format!("the statement spawned as '{handle}' died: {error}")))?
    }
}

/// A session with its name in the file.
pub(super) struct Connection {
    shared: Shared,
    session: Arc<tokio::sync::Mutex<Session>>,
}

impl Connection {
    pub(super) async fn open(shared: Shared) -> Result<Connection> {
        let session = Session::new(&shared.lake).await?;
        for sql in &shared.rules.setup {
            session.execute(sql).await?;
        }
        Ok(Connection { shared, session: Arc::new(tokio::sync::Mutex::new(session)) })
    }

    fn answer(&self, outcome: Outcome) -> Result<DBOutput<ColumnType>> {
        Ok(match outcome {
            Outcome::Rows(rows) => {
                DBOutput::Rows { types: values::column_types(&rows.schema), rows: self.shared.spell(values::rows(&rows.batches)?) }
            }
            Outcome::Changed(changed) if self.shared.counts_are_rows.load(Ordering::Relaxed) => {
                DBOutput::Rows { types: vec![ColumnType::Integer], rows: vec![vec![changed.count().to_string()]] }
            }
            Outcome::Changed(changed) => DBOutput::StatementComplete(changed.count()),
            Outcome::Done(_) => DBOutput::StatementComplete(0),
        })
    }
}

#[async_trait::async_trait]
impl sqllogictest::AsyncDB for Connection {
    type Error = Error;
    type ColumnType = ColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<ColumnType>> {
        let answered = self.run_record(sql).await;
        if let Err(error) = &answered {
            self.shared.sqlstates.lock().unwrap_or_else(PoisonError::into_inner).insert(error.sqlstate());
        }
        answered
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "amend"
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    async fn run_command(mut command: Command) -> std::io::Result<Output> {
        tokio::task::spawn_blocking(move || command.output()).await.map_err(std::io::Error::other)?
    }

    fn error_sql_state(error: &Error) -> Option<String> {
        Some(error.sqlstate().to_owned())
    }
}

impl Connection {
    async fn run_record(&self, sql: &str) -> Result<DBOutput<ColumnType>> {
        match Directive::of(sql) {
            Directive::Join(handle) => {
                let outcome = self.shared.join(handle).await?;
                self.answer(outcome)
            }
            Directive::Spawn(handle, sql) => {
                // The lock is taken here, not in the background: so this statement comes before the next one of its session.
                let session = self.session.clone().lock_owned().await;
                self.shared.put(handle, tokio::spawn(spawned(session, sql.to_owned())))?;
                Ok(DBOutput::StatementComplete(0))
            }
            Directive::None => {
                let session = self.session.clone().lock_owned().await;
                let outcome = execute(&session, sql).await?;
                let outcome = self.shared.modes.after(&session, sql, outcome, &self.shared.changes).await?;
                self.answer(outcome)
            }
        }
    }
}

/// Runs a record in the background.
async fn spawned(session: OwnedMutexGuard<Session>, sql: String) -> Result<Outcome> {
    execute(&session, &sql).await
}

/// Runs the statements of a record and answers with the last.
async fn execute(session: &Session, sql: &str) -> Result<Outcome> {
    let mut splitter = Splitter::new();
    splitter.push(sql);
    let mut statements = std::iter::from_fn(|| splitter.next_statement()).collect::<Vec<_>>();
    statements.extend(splitter.finish());
    let mut last = Err(Error::invalid("there is no statement"));
    for statement in statements {
        last = Ok(session.execute(&statement.text).await?);
    }
    last
}

/// What the first line of a statement tells the runner.
#[derive(Debug, PartialEq, Eq)]
enum Directive<'a> {
    None,
    /// Run the statement in the background under this handle.
    Spawn(&'a str, &'a str),
    /// Wait for the statement of this handle.
    Join(&'a str),
}

impl Directive<'_> {
    fn of(sql: &str) -> Directive<'_> {
        let (first, rest) = sql.split_once('\n').unwrap_or((sql, ""));
        let Some(comment) = first.trim().strip_prefix("--").map(str::trim_start) else { return Directive::None };
        if let Some(handle) = comment.strip_prefix("spawn:") {
            Directive::Spawn(handle.trim(), rest)
        } else if let Some(handle) = comment.strip_prefix("join:") {
            Directive::Join(handle.trim())
        } else {
            Directive::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_may_be_a_directive() {
        assert_eq!(Directive::of("-- spawn: h\nUPDATE t\nSET a = 1"), Directive::Spawn("h", "UPDATE t\nSET a = 1"));
        assert_eq!(Directive::of("--join:h2 "), Directive::Join("h2"));
        assert_eq!(Directive::of("-- a comment\nSELECT 1"), Directive::None);
        assert_eq!(Directive::of("SELECT 1 -- spawn: h"), Directive::None);
    }

    #[tokio::test]
    async fn what_was_spawned_is_joined_once() {
        let shared = Shared::new(Lake::memory(), Rules::default(), Modes::default());
        shared.put("h", tokio::spawn(async { Ok(Outcome::Done("late".to_owned())) })).unwrap();
        assert!(matches!(shared.join("h").await, Ok(Outcome::Done(text)) if text == "late"));
        assert_eq!(shared.join("h").await.unwrap_err().to_string(), "no statement was spawned as 'h'");
    }

    #[tokio::test]
    async fn a_handle_is_not_used_twice_and_what_is_left_is_named() {
        let shared = Shared::new(Lake::memory(), Rules::default(), Modes::default());
        let forever = || tokio::spawn(std::future::pending::<Result<Outcome>>());
        shared.put("h", forever()).unwrap();
        let error = shared.put("h", forever()).unwrap_err();
        assert_eq!(error.to_string(), "the statement spawned earlier as 'h' was not joined");
        assert_eq!(shared.abandon_spawned(), ["h"]);
        assert_eq!(shared.abandon_spawned(), [""; 0]);
    }
}
