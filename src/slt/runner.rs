//! Running one file: its records in order, on a lake of its own.
//!
//! Goes in: the path of a file. Comes out: a report. Always holds: passed + failed + skipped is the number of records; a file
//! that cannot be read, or that leaves a spawned statement unjoined, has failed.

use super::connection::{Connection, Shared};
use super::lists::{Rules, Skips};
use super::matching;
use super::values::ColumnType;
use crate::error::{Error, Result};
use crate::statement::lake::Lake;
use sqllogictest::{Condition, Record, RecordOutput};
use std::collections::BTreeMap;
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
    /// What to rewrite in every statement.
    pub rules: Rules,
    /// Which files to skip.
    pub skips: Skips,
    /// Whether to go on with a file after a record that failed.
    pub keep_going: bool,
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
    /// Those that were not run: how many for which reason.
    pub skipped: Vec<(String, u64)>,
    /// What went wrong and on which line; with `keep_going` one after another. `None` if nothing did.
    pub failure: Option<String>,
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
        let records = read_records(path)?;
        tally.records = records.iter().filter(|record| is_counted(record)).count() as u64;
        if let Some(reason) = self.skips.reason(&path.to_string_lossy()) {
            tally.skip_rest(reason);
            return Ok(());
        }
        let (lake, _folder) = self.open_lake(path)?;
        let shared = Shared::new(lake);
        let mut runner = sqllogictest::Runner::new(|| Connection::open(shared.clone()));
        runner.with_normalizer(matching::normalize);
        runner.with_validator(matching::rows_match);
        runner.with_column_validator(matching::types_match);
        for mut record in records {
            if let Record::Halt { .. } = record {
                tally.skip_rest("halt");
                break;
            }
            let counted = is_counted(&record);
            if let Some(reason) = self.adapt(&mut record) {
                tally.skip(reason, 1);
                continue;
            }
            shared.set_counts_are_rows(matches!(record, Record::Query { .. } | Record::Let { .. }));
            let result = runner.run_async(record).await;
            tally.count(counted, result);
            if tally.failed > 0 && !self.keep_going {
                tally.skip_rest("a record before it failed");
                break;
            }
        }
        for handle in shared.abandon_spawned() {
            tally.failures.push(format!("the statement spawned as '{handle}' was not joined"));
        }
        Ok(())
    }

    /// Rewrites a record's SQL by the rules, or gives the reason to skip it.
    fn adapt(&self, record: &mut Record<ColumnType>) -> Option<String> {
        match record {
            Record::Statement { conditions, sql, .. } | Record::Query { conditions, sql, .. } | Record::Let { conditions, sql, .. } => {
                *sql = self.rules.apply(sql);
                std::mem::take(conditions).iter().find_map(reason_to_skip)
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
    skipped: BTreeMap<String, u64>,
    failures: Vec<String>,
}

impl Tally {
    fn count(&mut self, counted: bool, result: Result<RecordOutput<ColumnType>, sqllogictest::TestError>) {
        match result {
            Ok(_) => self.passed += u64::from(counted),
            Err(error) => {
                self.failed += 1;
                self.failures.push(error.to_string().trim_end().to_owned());
            }
        }
    }

    fn skip(&mut self, reason: impl Into<String>, records: u64) {
        if records > 0 {
            *self.skipped.entry(reason.into()).or_default() += records;
        }
    }

    fn skip_rest(&mut self, reason: &str) {
        let done = self.passed + self.failed + self.skipped.values().sum::<u64>();
        self.skip(reason, self.records.saturating_sub(done));
    }

    fn report(self) -> FileReport {
        FileReport {
            records: self.records,
            passed: self.passed,
            failed: self.failed,
            skipped: self.skipped.into_iter().collect(),
            failure: (!self.failures.is_empty()).then(|| self.failures.join("\n\n")),
        }
    }
}

/// Reads a file and those that it includes.
fn read_records(path: &Path) -> Result<Vec<Record<ColumnType>>> {
    // Read here first: the parser panics on a name or a text that is not UTF-8.
    std::fs::read_to_string(path).map_err(|error| store_error("read", path, error))?;
    let name = path.to_str().ok_or_else(|| Error::invalid(format!("the name of '{}' is not UTF-8", path.display())))?;
    sqllogictest::parse_file(name).map_err(|error| Error::invalid(error.to_string()))
}

fn is_counted(record: &Record<ColumnType>) -> bool {
    matches!(record, Record::Statement { .. } | Record::Query { .. } | Record::Let { .. } | Record::System { .. })
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

fn store_error(operation: &'static str, path: &Path, error: std::io::Error) -> Error {
    Error::Store { operation, object: path.display().to_string(), source: Box::new(error) }
}

#[cfg(test)]
mod tests;
