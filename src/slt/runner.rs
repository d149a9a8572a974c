//! Running one file: its records in order, on a lake of its own.
//!
//! Goes in: the path of a file. Comes out: a report. Always holds: passed + failed + open + skipped is the number of records; a
//! file that cannot be read, or that leaves a spawned statement unjoined, has failed.

use super::connection::{Connection, Shared};
use super::lists::{Dialect, Place, Rules, Skips};
use super::matching;
use super::modes::Modes;
use super::script::{self, Step};
use super::values::ColumnType;
use crate::error::{Error, Result};
use crate::statement::lake::Lake;
use futures::FutureExt;
use sqllogictest::{Condition, Location, QueryExpect, Record, StatementExpect};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The names under which files may include or exclude this engine.
const LABELS: [&str; 3] = ["amend", "datafusion", "DataFusion"];

/// Where the lakes of the files are.
#[derive(Debug, Clone, Default)]
pub enum LakePlace {
    /// In folders that are removed at the end of the file.
    #[default]
    Temporary,
    /// In memory.
    Memory,
    /// In folders within this one, which stay; one that exists already is an error.
    Folder(PathBuf),
}

/// Runs files.
#[derive(Debug, Clone, Default)]
pub struct Runner {
    /// Where the lakes are.
    pub lakes: LakePlace,
    /// What to rewrite, and in which dialect the files are.
    pub rules: Rules,
    /// Which files and records to skip.
    pub skips: Skips,
    /// Which records are known to fail: they are run, and their failures are told apart from others.
    pub open: Skips,
    /// Whether to go on with a file after a record that failed.
    pub keep_going: bool,
    /// What is done besides.
    pub modes: Modes,
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileReport {
    /// Statements, queries, `let`s and system commands in the file.
    pub records: u64,
    /// Those that answered as expected.
    pub passed: u64,
    /// Those that did not.
    pub failed: u64,
    /// Those that did not and are known for it: how many for which reason.
    pub open: Vec<(String, u64)>,
    /// Those that were not run: how many for which reason.
    pub skipped: Vec<(String, u64)>,
    /// What went wrong and on which line; with `keep_going` one after another. `None` if nothing did.
    pub failure: Option<String>,
    /// The SQLSTATEs of the errors that records met.
    pub sqlstates: BTreeSet<&'static str>,
}

impl Runner {
    /// Runs one file.
    pub async fn run_file(&self, path: &Path) -> FileReport {
        let mut tally = Tally::default();
        if let Err(error) = self.run_records(path, &mut tally).await {
            tally.failures.push(error.to_string());
            tally.skip_rest("the file could not be run");
        }
        tally.report()
    }

    async fn run_records(&self, path: &Path, tally: &mut Tally) -> Result<()> {
        let steps = script::read(path, &self.rules)?;
        tally.records = steps.iter().filter(|step| is_record(step)).count() as u64;
        let file = path.to_string_lossy();
        if let Some(reason) = self.skips.reason(&file) {
            tally.skip_rest(reason);
            return Ok(());
        }
        let (lake, _folder) = self.open_lake(path)?;
        let shared = Shared::new(lake, self.rules.clone(), self.modes);
        let mut runner = sqllogictest::Runner::new(|| Connection::open(shared.clone()));
        runner.with_normalizer(matching::normalize);
        match self.rules.dialect {
            Dialect::Plain => runner.with_column_validator(matching::types_match),
            Dialect::Sqlite | Dialect::Loose | Dialect::DuckDb => runner.with_column_validator(matching::widths_match),
        }
        for step in steps {
            let mut record = match step {
                Step::Run(record) => record,
                Step::Skip(reason) => {
                    tally.skip(reason, 1);
                    continue;
                }
                Step::SkipRest(reason) => {
                    tally.skip_rest(&reason);
                    break;
                }
            };
            let counted = is_counted(&record);
            let text = text_of(&record);
            let holder = location(&record).map_or((file.to_string(), 0), |at| (at.file().to_owned(), at.line()));
            let place = Place { file: &file, holder: &holder.0, line: holder.1, text: &text };
            let skipped = if counted { self.skips.reason_of(place).map(str::to_owned) } else { None };
            if let Some(reason) = skipped.or_else(|| self.adapt(&mut record)) {
                tally.skip(reason, 1);
                continue;
            }
            shared.prepare_for(&record);
            runner.with_validator(self.validator(&record));
            let failure = match AssertUnwindSafe(runner.run_async(record)).catch_unwind().await {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(error.to_string().trim_end().to_owned()),
                Err(_) => Some(format!("the engine panicked at {}:{}", holder.0, holder.1)),
            };
            match failure {
                None => tally.passed += u64::from(counted),
                Some(failure) => match self.open.reason_of(place) {
                    Some(reason) => *tally.open.entry(reason.to_owned()).or_default() += 1,
                    None => match self.skips.reason_to_differ(place) {
                        Some(reason) => tally.skip(reason, 1),
                        None => {
                            tally.failed += 1;
                            tally.failures.push(failure);
                        }
                    },
                },
            }
            if tally.failed > 0 && !self.keep_going {
                tally.skip_rest("a record before it failed");
                break;
            }
        }
        tally.sqlstates = shared.sqlstates();
        for handle in shared.abandon_spawned() {
            tally.failures.push(format!("the statement spawned as '{handle}' was not joined"));
        }
        Ok(())
    }

    /// What compares the answer of a record.
    fn validator(&self, record: &Record<ColumnType>) -> sqllogictest::Validator {
        let has_order = |sql: &str| sql.to_ascii_uppercase().split_whitespace().any(|word| matches!(word, "ORDER" | "EXPLAIN"));
        let any_order = self.rules.any_order && matches!(record, Record::Query { sql, .. } if !has_order(sql));
        match (self.rules.dialect, any_order) {
            (Dialect::Plain | Dialect::Sqlite, false) => matching::rows_match,
            (Dialect::Plain | Dialect::Sqlite, true) => matching::rows_match_in_any_order,
            (Dialect::Loose | Dialect::DuckDb, false) => matching::rows_match_loosely,
            (Dialect::Loose | Dialect::DuckDb, true) => matching::rows_match_loosely_in_any_order,
        }
    }

    /// Rewrites a record's SQL by the rules, or gives the reason to skip it.
    fn adapt(&self, record: &mut Record<ColumnType>) -> Option<String> {
        match record {
            Record::Statement { conditions, sql, .. } | Record::Query { conditions, sql, .. } | Record::Let { conditions, sql, .. } => {
                let rewritten = self.rules.apply(sql);
                let emptied = rewritten.trim().is_empty() && !sql.trim().is_empty();
                *sql = rewritten;
                let excluded = std::mem::take(conditions).iter().find_map(reason_to_skip);
                excluded.or_else(|| emptied.then(|| "the rules leave nothing of it".to_owned()))
            }
            Record::System { conditions, .. } => std::mem::take(conditions).iter().find_map(reason_to_skip),
            _ => None,
        }
    }

    fn open_lake(&self, path: &Path) -> Result<(Lake, Option<TempDir>)> {
        match &self.lakes {
            LakePlace::Memory => Ok((Lake::memory(), None)),
            LakePlace::Temporary => {
                let folder = TempDir::new().map_err(|error| store_error("create", &std::env::temp_dir(), error))?;
                Ok((Lake::open(folder.path().join("lake"))?, Some(folder)))
            }
            LakePlace::Folder(parent) => {
                let folder = parent.join(folder_name(path));
                if folder.exists() {
                    return Err(Error::invalid(format!("'{}' exists already; every file needs a new lake", folder.display())));
                }
                Ok((Lake::open(folder)?, None))
            }
        }
    }
}

/// Counts what happens to records.
#[derive(Debug, Default)]
struct Tally {
    records: u64,
    passed: u64,
    failed: u64,
    open: BTreeMap<String, u64>,
    skipped: BTreeMap<String, u64>,
    failures: Vec<String>,
    sqlstates: BTreeSet<&'static str>,
}

impl Tally {
    fn skip(&mut self, reason: impl Into<String>, records: u64) {
        if records > 0 {
            *self.skipped.entry(reason.into()).or_default() += records;
        }
    }

    fn skip_rest(&mut self, reason: &str) {
        let done = self.passed + self.failed + self.open.values().sum::<u64>() + self.skipped.values().sum::<u64>();
        self.skip(reason, self.records.saturating_sub(done));
    }

    fn report(self) -> FileReport {
        FileReport {
            records: self.records,
            passed: self.passed,
            failed: self.failed,
            open: self.open.into_iter().collect(),
            skipped: self.skipped.into_iter().collect(),
            failure: (!self.failures.is_empty()).then(|| self.failures.join("\n\n")),
            sqlstates: self.sqlstates,
        }
    }
}

fn is_record(step: &Step) -> bool {
    match step {
        Step::Run(record) => is_counted(record),
        Step::Skip(_) => true,
        Step::SkipRest(_) => false,
    }
}

pub(super) fn is_counted(record: &Record<ColumnType>) -> bool {
    matches!(record, Record::Statement { .. } | Record::Query { .. } | Record::Let { .. } | Record::System { .. })
}

fn location(record: &Record<ColumnType>) -> Option<&Location> {
    match record {
        Record::Statement { loc, .. } | Record::Query { loc, .. } | Record::Let { loc, .. } | Record::System { loc, .. } => Some(loc),
        _ => None,
    }
}

/// What the lists see of a record: its SQL and the answer that it expects.
fn text_of(record: &Record<ColumnType>) -> String {
    match record {
        Record::Query { sql, expected: QueryExpect::Results { results, .. }, .. } => format!("{sql}\n----\n{}", results.join("\n")),
        Record::Query { sql, expected: QueryExpect::Error(error), .. }
        | Record::Statement { sql, expected: StatementExpect::Error(error), .. } => format!("{sql}\n----\n{error}"),
        Record::Statement { sql, .. } | Record::Let { sql, .. } => sql.clone(),
        Record::System { command, .. } => command.clone(),
        _ => String::new(),
    }
}

fn reason_to_skip(condition: &Condition) -> Option<String> {
    match condition {
        Condition::OnlyIf { label } => (!LABELS.contains(&label.as_str())).then(|| format!("onlyif {label}")),
        Condition::SkipIf { label } => LABELS.contains(&label.as_str()).then(|| format!("skipif {label}")),
    }
}

/// A path as the name of one folder: `slt/own/smoke.slt` becomes `slt-own-smoke.slt`.
fn folder_name(path: &Path) -> String {
    let parts = path.components().filter_map(|part| match part {
        std::path::Component::Normal(name) => Some(name.to_string_lossy()),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("-")
}

pub(super) fn store_error(operation: &'static str, path: &Path, error: std::io::Error) -> Error {
    Error::Store { operation, object: path.display().to_string(), source: Box::new(error) }
}

#[cfg(test)]
mod tests;
