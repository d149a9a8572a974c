//! The lists that adapt a foreign suite: rules that rewrite it, records to skip with the reason why, records known to fail.
//!
//! Goes in: the text of a list, or its file. Comes out: rules and entries. Always holds: a line that cannot be read is an
//! error that names its number, never a rule that silently does nothing; every entry has one reason. Blank lines and lines that
//! begin with `#` are comments.

use crate::error::{Error, Result};
use glob::{MatchOptions, Pattern};
use regex::Regex;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// `*` stays within a folder, `**` does not.
const MATCH: MatchOptions = MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

/// How a suite writes its files and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// DataFusion's conventions, to the letter.
    #[default]
    Plain,
    /// The plain format of files; answers are compared value by value, as [`Dialect::DuckDb`] does.
    Loose,
    /// SQLite's conventions: a value a line, converted to what the letters of the query ask for.
    Sqlite,
    /// DuckDB's format of files, with its loops; numbers, truth values and times may be spelled in another way.
    DuckDb,
}

/// Rewriting rules, one a line, applied in the order of the lines:
///
/// ```text
/// regex => replacement            the SQL of every record; a record of which nothing is left is skipped
/// text: regex => replacement      the text of the file, before it is read; the number of lines must stay
/// answer: regex => replacement    every value that is answered
/// setup: SQL                      run at the beginning of every session
/// dialect: plain | loose | sqlite | duckdb
/// order: any                      the rows of a query without ORDER BY may come in any order
/// ```
#[derive(Debug, Clone, Default)]
pub struct Rules {
    sql: Rewrites,
    text: Rewrites,
    answer: Rewrites,
    pub(super) setup: Vec<String>,
    pub(super) dialect: Dialect,
    pub(super) any_order: bool,
}

#[derive(Debug, Clone, Default)]
struct Rewrites(Vec<(Regex, String)>);

impl Rewrites {
    fn push(&mut self, rule: &str) -> Result<(), String> {
        let (pattern, replacement) = rule.split_once("=>").ok_or("a rule reads 'regex => replacement'")?;
        let pattern = Regex::new(pattern.trim()).map_err(|error| error.to_string())?;
        self.0.push((pattern, replacement.trim().replace("\\n", "\n")));
        Ok(())
    }

    fn apply(&self, text: &str) -> String {
        let rewrite = |text: String, (pattern, replacement): &(Regex, String)| pattern.replace_all(&text, replacement).into_owned();
        self.0.iter().fold(text.to_owned(), rewrite)
    }
}

impl Rules {
    /// Reads a file of rules.
    pub fn read(path: &Path) -> Result<Rules> {
        Self::parse(&read(path)?, &path.display().to_string())
    }

    /// Reads rules; `name` is where they come from, for messages.
    pub fn parse(text: &str, name: &str) -> Result<Rules> {
        let mut rules = Rules::default();
        let rule = |line: &str| {
            if let Some(rule) = line.strip_prefix("text:") {
                rules.text.push(rule)
            } else if let Some(rule) = line.strip_prefix("answer:") {
                rules.answer.push(rule)
            } else if let Some(sql) = line.strip_prefix("setup:") {
                rules.setup.push(sql.trim().to_owned());
                Ok(())
            } else if let Some(dialect) = line.strip_prefix("dialect:") {
                rules.dialect = match dialect.trim() {
                    "plain" => Dialect::Plain,
                    "loose" => Dialect::Loose,
                    "sqlite" => Dialect::Sqlite,
                    "duckdb" => Dialect::DuckDb,
                    other => return Err(format!("'{other}' is no dialect: plain, loose, sqlite or duckdb")),
                };
                Ok(())
            } else if let Some(order) = line.strip_prefix("order:") {
                rules.any_order = order.trim() == "any";
                if rules.any_order { Ok(()) } else { Err(format!("'{}' is no order: any", order.trim())) }
            } else {
                rules.sql.push(line)
            }
        };
        parse_lines(text, name, rule)?;
        Ok(rules)
    }

    /// The statement after all rules.
    pub fn apply(&self, sql: &str) -> String {
        self.sql.apply(sql)
    }

    /// The text of a file after its rules.
    pub(super) fn apply_to_text(&self, text: &str) -> String {
        self.text.apply(text)
    }

    /// An answered value after its rules.
    pub(super) fn apply_to_answer(&self, value: String) -> String {
        if self.answer.0.is_empty() { value } else { self.answer.apply(&value) }
    }
}

/// What a list says of files and records, one entry a line, the parts separated by a tab or by two blanks:
///
/// ```text
/// path-glob  reason               a whole file
/// path-glob:7,12-15  reason       the records that begin in these lines
/// path-glob  /regex/  reason      those whose SQL, followed by the expected answer, matches
/// path-glob:7  run: reason        run all the same, as what follows builds on it; left out if it answers otherwise
/// ```
#[derive(Debug, Clone, Default)]
pub struct Skips {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    path: Pattern,
    /// Empty: all.
    lines: Vec<RangeInclusive<u32>>,
    text: Option<Regex>,
    reason: String,
    /// Whether its records are run all the same.
    runs: bool,
    /// As written, for people.
    written: String,
    used: Arc<AtomicBool>,
}

/// A record, as far as a list can speak of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// The file that is run.
    pub(super) file: &'a str,
    /// The file that holds the record: that one or one that it includes.
    pub(super) holder: &'a str,
    pub(super) line: u32,
    /// The SQL and the expected answer.
    pub(super) text: &'a str,
}

impl Skips {
    /// Reads a list.
    pub fn read(path: &Path) -> Result<Skips> {
        Self::parse(&read(path)?, &path.display().to_string())
    }

    /// Reads entries; `name` is where they come from, for messages.
    pub fn parse(text: &str, name: &str) -> Result<Skips> {
        let mut entries = Vec::new();
        parse_lines(text, name, |line| {
            entries.push(Entry::parse(line)?);
            Ok(())
        })?;
        Ok(Skips { entries })
    }

    /// Why a whole file is named, if it is. A pattern matches the whole path or what follows any of its slashes.
    pub fn reason(&self, path: &str) -> Option<&str> {
        let whole = |entry: &&Entry| !entry.runs && entry.lines.is_empty() && entry.text.is_none() && entry.is_of(path);
        self.entries.iter().find(whole).map(Entry::take)
    }

    /// Why a record is left out, if it or its whole file is named.
    pub(super) fn reason_of(&self, place: Place<'_>) -> Option<&str> {
        self.named(place, false)
    }

    /// Why a record that was run may answer otherwise, if it is named as one of those.
    pub(super) fn reason_to_differ(&self, place: Place<'_>) -> Option<&str> {
        self.named(place, true)
    }

    fn named(&self, place: Place<'_>, runs: bool) -> Option<&str> {
        let named = |entry: &&Entry| {
            entry.runs == runs
                && (entry.lines.is_empty() || entry.lines.iter().any(|lines| lines.contains(&place.line)))
                && (entry.is_of(place.holder) || (entry.lines.is_empty() && entry.is_of(place.file)))
                && entry.text.as_ref().is_none_or(|text| text.is_match(place.text))
        };
        self.entries.iter().find(named).map(Entry::take)
    }

    /// The entries that have given no reason since they were read.
    pub fn unused(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|entry| !entry.used.load(Ordering::Relaxed)).map(|entry| entry.written.as_str())
    }
}

impl Entry {
    fn parse(line: &str) -> Result<Entry, String> {
        let form = "an entry reads 'path-glob[:line[-line],..]', two blanks, '/regex/' or nothing, 'reason'";
        let (path, rest) = split_blanks(line).ok_or(form)?;
        let (text, reason) = match rest.strip_prefix('/') {
            None => (None, rest),
            Some(rest) => {
                let parts = rest.match_indices('/').find_map(|(at, _)| {
                    let reason = rest.get(at + 1..)?;
                    (reason.starts_with('\t') || reason.starts_with("  ")).then(|| (rest.get(..at), reason.trim()))
                });
                let (text, reason) = parts.ok_or(form)?;
                (text, reason)
            }
        };
        if reason.is_empty() {
            return Err(form.to_owned());
        }
        let (path, lines) = match path.rsplit_once(':') {
            None => (path, vec![]),
            Some((path, lines)) => (path, lines.split(',').map(parse_range).collect::<Result<_, _>>()?),
        };
        let (reason, runs) = match reason.strip_prefix("run:") {
            Some(reason) => (reason.trim(), true),
            None => (reason, false),
        };
        Ok(Entry {
            path: Pattern::new(path).map_err(|error| error.to_string())?,
            lines,
            text: text.map(Regex::new).transpose().map_err(|error| error.to_string())?,
            reason: reason.to_owned(),
            runs,
            written: line.to_owned(),
            used: Arc::default(),
        })
    }

    fn is_of(&self, path: &str) -> bool {
        let mut tails = std::iter::once(path).chain(path.match_indices('/').filter_map(|(at, _)| path.get(at + 1..)));
        tails.any(|tail| self.path.matches_with(tail, MATCH))
    }

    /// The reason, now that somebody needs it.
    fn take(&self) -> &str {
        self.used.store(true, Ordering::Relaxed);
        &self.reason
    }
}

fn parse_range(text: &str) -> Result<RangeInclusive<u32>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) => Ok(first..=last),
        _ => Err(format!("'{text}' is no line and no range of lines")),
    }
}

/// What stands before and after the first tab or two blanks.
fn split_blanks(line: &str) -> Option<(&str, &str)> {
    let at = line.find('\t').into_iter().chain(line.find("  ")).min()?;
    let (first, rest) = line.split_at_checked(at)?;
    Some((first.trim(), rest.trim()))
}

fn parse_lines(text: &str, name: &str, mut parse: impl FnMut(&str) -> Result<(), String>) -> Result<()> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.try_for_each(|(number, line)| parse(line).map_err(|reason| Error::invalid(format!("{name}:{number}: {reason}"))))
}

fn read(path: &Path) -> Result<String> {
    let refused = |error| Error::Store { operation: "read", object: path.display().to_string(), source: Box::new(error) };
    std::fs::read_to_string(path).map_err(refused)
}

#[cfg(test)]
mod tests;
