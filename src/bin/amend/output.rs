//! What the shell prints: the answers of statements in one of four formats, messages, errors.
//!
//! Goes in: outcomes and errors. Comes out: text on two streams, one for answers and one for errors. Always holds: in the format
//! `jsonl` every statement gives exactly one line on the stream of answers; in `csv` and `json` that stream carries rows
//! and nothing else, so it can be fed to another program; every answer is flushed before the next statement runs.

mod rows;

use amend::error::ConflictReport;
use amend::txn::composite::CommitFacts;
use amend::{Changed, Error, Outcome, Position, Rows};
use std::io::{Result, Write};

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Boxes for people.
    Table,
    /// Comma-separated values with a line of names (RFC 4180); NULL is empty, an empty string is `""`.
    Csv,
    /// One array of objects per query.
    Json,
    /// One line per statement, errors included.
    Jsonl,
}

/// Writes answers and errors.
pub struct Printer<A, E> {
    answers: A,
    errors: E,
    format: Format,
    /// Whether to leave out what is not rows.
    quiet: bool,
}

impl<A: Write, E: Write> Printer<A, E> {
    /// A printer onto two streams.
    pub fn new(answers: A, errors: E, format: Format, quiet: bool) -> Self {
        Printer { answers, errors, format, quiet }
    }

    #[cfg(test)]
    pub fn into_streams(self) -> (A, E) {
        (self.answers, self.errors)
    }

    /// What a statement answered.
    pub fn outcome(&mut self, outcome: &Outcome) -> Result<()> {
        match (self.format, outcome) {
            (Format::Jsonl, Outcome::Rows(rows)) => rows::write_jsonl(rows, &mut self.answers)?,
            (Format::Jsonl, Outcome::Changed(changed)) => writeln!(self.answers, "{}", changed_line(changed))?,
            (Format::Jsonl, Outcome::Done(text)) => writeln!(self.answers, "{}", done_line(text))?,
            (_, Outcome::Rows(rows)) => self.rows(rows)?,
            (_, Outcome::Changed(changed)) => self.message(&changed_text(changed))?,
            (_, Outcome::Done(text)) => self.message(text)?,
        }
        self.answers.flush()
    }

    /// A line for the person at the terminal, unless quiet is wanted. In the formats that other programs read it goes to the
    /// stream of errors.
    pub fn message(&mut self, text: &str) -> Result<()> {
        match self.format {
            _ if self.quiet => Ok(()),
            Format::Table => {
                writeln!(self.answers, "{text}")?;
                self.answers.flush()
            }
            Format::Csv | Format::Json | Format::Jsonl => writeln!(self.errors, "{text}"),
        }
    }

    /// What was wrong, where there is no statement.
    pub fn error(&mut self, error: &Error, place: Option<&str>) -> Result<()> {
        self.error_in(error, "", None, place)
    }

    /// What was wrong with a statement, where in it, and with which one if `place` says so.
    pub fn error_in(&mut self, error: &Error, sql: &str, position: Option<Position>, place: Option<&str>) -> Result<()> {
        if self.format == Format::Jsonl {
            writeln!(self.answers, "{}", error_line(error, sql, position))?;
            self.answers.flush()?;
        }
        if self.format != Format::Jsonl || place.is_some() {
            writeln!(self.errors, "error: {error} (SQLSTATE {})", error.sqlstate())?;
            if let Some(pointed) = position.and_then(|position| pointed_at(sql, position)) {
                writeln!(self.errors, "{pointed}")?;
            }
        }
        match place {
            Some(place) => writeln!(self.errors, "{place}"),
            None => Ok(()),
        }
    }

    fn rows(&mut self, rows: &Rows) -> Result<()> {
        match self.format {
            Format::Csv => rows::write_csv(rows, &mut self.answers),
            Format::Json => rows::write_json(rows, &mut self.answers),
            Format::Table | Format::Jsonl => rows::write_table(rows, &mut self.answers),
        }
    }
}

/// `UPDATE 3 (version 17) rebased over 2 versions, 3 rows carried`.
fn changed_text(changed: &Changed) -> String {
    let facts = &changed.facts;
    let version = changed.version.map(|version| format!(" (version {version})")).unwrap_or_default();
    let told = [
        (facts.rebased_over > 0).then(|| format!("rebased over {}", counted(facts.rebased_over, "version"))),
        (facts.rows_carried > 0).then(|| format!("{} carried", counted(facts.rows_carried, "row"))),
        (facts.reran > 0).then(|| format!("run again {}", counted(facts.reran.into(), "time"))),
    ];
    let told = told.into_iter().flatten().collect::<Vec<_>>().join(", ");
    format!("{} {}{version} {told}", changed.operation, changed.count()).trim_end().to_owned()
}

/// `1 row`, `2 rows`.
fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

fn changed_line(changed: &Changed) -> String {
    let version = changed.version.map_or_else(|| "null".to_owned(), |version| version.to_string());
    let CommitFacts { attempts, rebased_over, rows_carried, vectors_merged, groups_dropped, reran } = changed.facts;
    let (count, files_written) = (changed.count(), changed.files_written);
    let conflicts = match changed.conflicts.iter().map(conflict).collect::<Vec<_>>().join(",") {
        none if none.is_empty() => none,
        conflicts => format!(r#","conflicts":[{conflicts}]"#),
    };
    [
        format!(r#"{{"ok":true,"count":{count},"version":{version},"attempts":{attempts},"rebased_over":{rebased_over},"#),
        format!(r#""rows_carried":{rows_carried},"vectors_merged":{vectors_merged},"groups_dropped":{groups_dropped},"#),
        format!(r#""reran":{reran},"files_written":{files_written}{conflicts}}}"#),
    ]
    .concat()
}

/// What collided, as one object.
fn conflict(report: &ConflictReport) -> String {
    let ConflictReport { table, coordinate, rows, transaction, statement, read_version, other_version, other_transaction, other_statement } =
        report;
    let text = |text: &str| serde_json::Value::from(text);
    let rows = serde_json::Value::from(rows.as_slice());
    [
        format!(r#"{{"table":{},"coordinate":{},"rows":{rows},"#, text(table), text(coordinate)),
        format!(r#""transaction":{},"statement":{},"read_version":{read_version},"#, text(transaction), text(statement)),
        format!(r#""other_version":{other_version},"other_transaction":{},"#, text(other_transaction)),
        format!(r#""other_statement":{}}}"#, text(other_statement)),
    ]
    .concat()
}

fn done_line(text: &str) -> String {
    format!(r#"{{"ok":true,"message":{}}}"#, serde_json::Value::from(text))
}

/// The line of a statement with a mark below the place, or nothing for a place without text.
fn pointed_at(sql: &str, position: Position) -> Option<String> {
    let line = sql.lines().nth(usize::try_from(position.line).ok()?.checked_sub(1)?)?;
    let head = format!("LINE {}: ", position.line);
    let width = head.chars().count() + usize::try_from(position.column).ok()?.checked_sub(1)?;
    Some(format!("{head}{line}\n{}^", " ".repeat(width)))
}

fn error_line(error: &Error, sql: &str, position: Option<Position>) -> String {
    let message = serde_json::Value::from(error.to_string());
    let (kind, sqlstate) = (error.kind().as_str(), error.sqlstate());
    let statement = match sql {
        "" => String::new(),
        sql => format!(r#","statement":{}"#, serde_json::Value::from(sql)),
    };
    let position = position.map_or_else(String::new, |at| format!(r#","position":{{"line":{},"column":{}}}"#, at.line, at.column));
    let conflict = match error {
        Error::Conflict(report) => format!(r#","conflict":{}"#, conflict(report)),
        _ => String::new(),
    };
    [
        format!(r#"{{"ok":false,"error":{{"kind":"{kind}","sqlstate":"{sqlstate}","message":{message}"#),
        format!("{statement}{position}{conflict}}}}}"),
    ]
    .concat()
}

#[cfg(test)]
mod tests;
