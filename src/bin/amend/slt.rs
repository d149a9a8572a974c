//! `amend slt`: runs sqllogictest files and tells what became of them.
//!
//! Goes in: patterns of paths. Comes out: a line per file, then sums, and a table if one is wanted. Always holds: it succeeds only if at least one file was
//! found for every pattern and no file failed.

use amend::slt::{FileReport, LakePlace, Modes, Rules, Runner, Skips, Table};
use amend::{Error, Result};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use tokio::runtime::Runtime;

/// The arguments of `amend slt`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Keep the lakes, one folder per file, in this folder; without it they are temporary
    #[arg(long, value_name = "DIR", conflicts_with = "memory")]
    lake: Option<PathBuf>,
    /// Keep the lakes in memory
    #[arg(long)]
    memory: bool,
    /// Rewrite the suite by the rules in this file: lines 'regex => replacement' for SQL, and 'text:', 'answer:', 'setup:', 'dialect:'
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Skip what this file names: lines 'path-glob[:line[-line],..]', two blanks or a tab, optionally '/regex/', 'reason'
    #[arg(long, value_name = "FILE")]
    skip: Option<PathBuf>,
    /// Records known to fail, named as in the list of skips; they are run, and are no failure
    #[arg(long, value_name = "FILE")]
    open: Option<PathBuf>,
    /// Write the results as a Markdown table to this file
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// The title of the table
    #[arg(long, default_value = "Results", requires = "table")]
    title: String,
    /// Go on with a file after a record that failed
    #[arg(long)]
    keep_going: bool,
    /// After each K statements that changed a table, OPTIMIZE .. FULL of that table
    #[arg(long, value_name = "K")]
    optimize_every: Option<u64>,
    /// Answer each query of tables of the lake by time travel to the current version
    #[arg(long)]
    read_back: bool,
    /// The files to run
    #[arg(required = true, value_name = "GLOB")]
    globs: Vec<String>,
}

/// Runs the files. True if all is well.
pub fn run(runtime: &Runtime, arguments: &Arguments, out: &mut impl Write) -> io::Result<Result<bool>> {
    match prepare(arguments) {
        Ok((runner, paths)) => run_files(runtime, arguments, &runner, &paths, out).map(Ok),
        Err(error) => Ok(Err(error)),
    }
}

fn prepare(arguments: &Arguments) -> Result<(Runner, Vec<PathBuf>)> {
    let lakes = match &arguments.lake {
        Some(folder) => LakePlace::Folder(folder.clone()),
        None if arguments.memory => LakePlace::Memory,
        None => LakePlace::Temporary,
    };
    let rules = arguments.rules.as_deref().map(Rules::read).transpose()?.unwrap_or_default();
    let skips = arguments.skip.as_deref().map(Skips::read).transpose()?.unwrap_or_default();
    let open = arguments.open.as_deref().map(Skips::read).transpose()?.unwrap_or_default();
    let mut paths = Vec::new();
    for pattern in &arguments.globs {
        paths.extend(expand(pattern)?);
    }
    let modes = Modes { optimize_every: arguments.optimize_every, read_back: arguments.read_back };
    Ok((Runner { lakes, rules, skips, open, keep_going: arguments.keep_going, modes }, paths))
}

/// The files that a pattern names, at least one.
fn expand(pattern: &str) -> Result<Vec<PathBuf>> {
    let found = glob::glob(pattern).map_err(|error| Error::invalid(format!("'{pattern}' is no pattern: {error}")))?;
    let unreadable = |error: glob::GlobError| Error::Store {
        operation: "read",
        object: error.path().display().to_string(),
        source: Box::new(io::Error::from(error)),
    };
    let paths = found.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
    let files = paths.into_iter().filter(|path| path.is_file()).collect::<Vec<_>>();
    if files.is_empty() { Err(Error::invalid(format!("no file matches '{pattern}'"))) } else { Ok(files) }
}

fn run_files(runtime: &Runtime, arguments: &Arguments, runner: &Runner, paths: &[PathBuf], out: &mut impl Write) -> io::Result<bool> {
    let mut sums = Sums::default();
    let mut table = Table::new(&arguments.title);
    for path in paths {
        let report = runtime.block_on(runner.run_file(path));
        let path = path.display().to_string();
        write_file(&path, &report, out)?;
        table.push(&path, &report);
        sums.add(report);
    }
    sums.write(out)?;
    if let Some(path) = &arguments.table {
        std::fs::write(path, table.to_markdown())?;
        for (list, entries) in [("skips", &runner.skips), ("open", &runner.open)] {
            for entry in entries.unused() {
                writeln!(out, "not needed any more in the list of {list}: {entry}")?;
            }
        }
    }
    Ok(sums.failed_files == 0)
}

fn write_file(path: &str, report: &FileReport, out: &mut impl Write) -> io::Result<()> {
    let word = if report.failure.is_some() { "FAIL" } else { "ok" };
    let total = |counts: &[(String, u64)]| counts.iter().map(|(_, count)| count).sum::<u64>();
    let (open, skipped) = (total(&report.open), total(&report.skipped));
    let open = if open == 0 { String::new() } else { format!("{open} open, ") };
    let FileReport { records, passed, failed, .. } = report;
    writeln!(out, "{word:4} {path}: {records} records, {passed} passed, {failed} failed, {open}{skipped} skipped")?;
    for line in report.failure.iter().flat_map(|failure| failure.lines()) {
        writeln!(out, "     {line}")?;
    }
    out.flush()
}

/// What became of all files.
#[derive(Debug, Default)]
struct Sums {
    files: u64,
    failed_files: u64,
    records: u64,
    passed: u64,
    failed: u64,
    open: BTreeMap<String, u64>,
    skipped: BTreeMap<String, u64>,
}

impl Sums {
    fn add(&mut self, report: FileReport) {
        self.files += 1;
        self.failed_files += u64::from(report.failure.is_some());
        self.records += report.records;
        self.passed += report.passed;
        self.failed += report.failed;
        for (reason, count) in report.open {
            *self.open.entry(reason).or_default() += count;
        }
        for (reason, count) in report.skipped {
            *self.skipped.entry(reason).or_default() += count;
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let skipped = self.skipped.values().sum::<u64>();
        let open = self.open.values().sum::<u64>();
        let open = if open == 0 { String::new() } else { format!("{open} open, ") };
        writeln!(out, "\n{} files, {} failed", self.files, self.failed_files)?;
        writeln!(out, "{} records: {} passed, {} failed, {open}{skipped} skipped", self.records, self.passed, self.failed)?;
        for (reason, count) in &self.open {
            writeln!(out, "  open {count}: {reason}")?;
        }
        for (reason, count) in &self.skipped {
            writeln!(out, "  skipped {count}: {reason}")?;
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_sums_are_told() {
        let mut out = Vec::new();
        let mut sums = Sums::default();
        let well = FileReport { records: 3, passed: 2, skipped: vec![("halt".to_owned(), 1)], ..FileReport::default() };
        let ill = FileReport { records: 1, failed: 1, failure: Some("one\ntwo".to_owned()), ..FileReport::default() };
        for (path, report) in [("a.slt", well), ("b.slt", ill)] {
            write_file(path, &report, &mut out).unwrap();
            sums.add(report);
        }
        sums.write(&mut out).unwrap();
        let expected = "ok   a.slt: 3 records, 2 passed, 0 failed, 1 skipped\n\
                        FAIL b.slt: 1 records, 0 passed, 1 failed, 0 skipped\n     one\n     two\n\n\
                        2 files, 1 failed\n4 records: 2 passed, 1 failed, 1 skipped\n  skipped 1: halt\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_pattern_without_files_is_an_error() {
        assert_eq!(expand("no/such/*.slt").unwrap_err().to_string(), "no file matches 'no/such/*.slt'");
        assert!(expand("***").unwrap_err().to_string().starts_with("'***' is no pattern: "));
    }
}
