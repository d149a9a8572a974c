//! `amend slt`: runs sqllogictest files and tells what became of them.
//!
//! Goes in: patterns of paths. Comes out: a line per file, then sums. Always holds: it succeeds only if at least one file was
//! found for every pattern and no file failed.

use amend::slt::{FileReport, LakePlace, Rules, Runner, Skips};
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
    /// Rewrite every statement by the rules in this file: lines 'regex => replacement'
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Skip the files named in this file: lines 'path-glob', two blanks or a tab, 'reason'
    #[arg(long, value_name = "FILE")]
    skip: Option<PathBuf>,
    /// Go on with a file after a record that failed
    #[arg(long)]
    keep_going: bool,
    /// The files to run
    #[arg(required = true, value_name = "GLOB")]
    globs: Vec<String>,
}

/// Runs the files. True if all is well.
pub fn run(runtime: &Runtime, arguments: &Arguments, out: &mut impl Write) -> io::Result<Result<bool>> {
    match prepare(arguments) {
        Ok((runner, paths)) => run_files(runtime, &runner, &paths, out).map(Ok),
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
    let mut paths = Vec::new();
    for pattern in &arguments.globs {
        paths.extend(expand(pattern)?);
    }
    Ok((Runner { lakes, rules, skips, keep_going: arguments.keep_going }, paths))
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

fn run_files(runtime: &Runtime, runner: &Runner, paths: &[PathBuf], out: &mut impl Write) -> io::Result<bool> {
    let mut sums = Sums::default();
    for path in paths {
        let report = runtime.block_on(runner.run_file(path));
        write_file(&path.display().to_string(), &report, out)?;
        sums.add(report);
    }
    sums.write(out)?;
    Ok(sums.failed_files == 0)
}

fn write_file(path: &str, report: &FileReport, out: &mut impl Write) -> io::Result<()> {
    let word = if report.failure.is_some() { "FAIL" } else { "ok" };
    let skipped = report.skipped.iter().map(|(_, count)| count).sum::<u64>();
    writeln!(out, "{word:4} {path}: {} records, {} passed, {} failed, {skipped} skipped", report.records, report.passed, report.failed)?;
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
    skipped: BTreeMap<String, u64>,
}

impl Sums {
    fn add(&mut self, report: FileReport) {
        self.files += 1;
        self.failed_files += u64::from(report.failure.is_some());
        self.records += report.records;
        self.passed += report.passed;
        self.failed += report.failed;
        for (reason, count) in report.skipped {
            *self.skipped.entry(reason).or_default() += count;
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let skipped = self.skipped.values().sum::<u64>();
        writeln!(out, "\n{} files, {} failed", self.files, self.failed_files)?;
        writeln!(out, "{} records: {} passed, {} failed, {skipped} skipped", self.records, self.passed, self.failed)?;
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
