//! The table of a suite's results, as Markdown.
//!
//! Goes in: the reports of its files. Comes out: sums, a row a file, and the reasons of what did not pass. Always holds: the
//! text depends on nothing but the reports and their order.

use super::runner::FileReport;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Collects the reports of a suite.
#[derive(Debug, Clone)]
pub struct Table {
    title: String,
    rows: Vec<(String, FileReport)>,
}

impl Table {
    /// A table with nothing in it.
    pub fn new(title: &str) -> Table {
        Table { title: title.to_owned(), rows: Vec::new() }
    }

    /// Adds a file.
    pub fn push(&mut self, path: &str, report: &FileReport) {
        self.rows.push((path.to_owned(), report.clone()));
    }

    /// The whole text.
    pub fn to_markdown(&self) -> String {
        let mut text = format!("## {}\n\n", self.title);
        let sum = |count: fn(&FileReport) -> u64| self.rows.iter().map(|(_, report)| count(report)).sum::<u64>();
        let (records, passed, failed) = (sum(|report| report.records), sum(|report| report.passed), sum(|report| report.failed));
        let (open, skipped) = (sum(|report| total(&report.open)), sum(|report| total(&report.skipped)));
        let files = self.rows.len();
        write_line(
            &mut text,
            format_args!("{files} files, {records} records: {passed} passed, {failed} failed, {open} open, {skipped} skipped.\n"),
        );
        for (name, counts) in [("open", self.reasons(|report| &report.open)), ("skipped", self.reasons(|report| &report.skipped))] {
            if !counts.is_empty() {
                write_line(&mut text, format_args!("| {name} | because |\n|---:|---|"));
                for (reason, count) in counts {
                    write_line(&mut text, format_args!("| {count} | {} |", cell(reason)));
                }
                text.push('\n');
            }
        }
        write_line(&mut text, format_args!("<details><summary>Every file</summary>\n"));
        write_line(&mut text, format_args!("| file | records | passed | failed | open | skipped |\n|---|---:|---:|---:|---:|---:|"));
        for (path, report) in &self.rows {
            let FileReport { records, passed, failed, .. } = report;
            let (open, skipped) = (total(&report.open), total(&report.skipped));
            write_line(&mut text, format_args!("| {} | {records} | {passed} | {failed} | {open} | {skipped} |", cell(path)));
        }
        text.push_str("\n</details>\n");
        text
    }

    /// How many records there are for each reason.
    fn reasons(&self, of: fn(&FileReport) -> &Vec<(String, u64)>) -> BTreeMap<&str, u64> {
        let mut counts = BTreeMap::new();
        for (reason, count) in self.rows.iter().flat_map(|(_, report)| of(report)) {
            *counts.entry(reason.as_str()).or_default() += count;
        }
        counts
    }
}

fn total(counts: &[(String, u64)]) -> u64 {
    counts.iter().map(|(_, count)| count).sum()
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn write_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_sums_reasons_and_files() {
        let mut table = Table::new("A suite");
        let one = FileReport {
            records: 4,
            passed: 2,
            open: vec![("keys".to_owned(), 1)],
            skipped: vec![("a|b".to_owned(), 1)],
            ..Default::default()
        };
        let two = FileReport { records: 3, passed: 1, failed: 1, skipped: vec![("a|b".to_owned(), 1)], ..Default::default() };
        table.push("x/a.slt", &one);
        table.push("b.slt", &two);
        let expected = "## A suite\n\n2 files, 7 records: 3 passed, 1 failed, 1 open, 2 skipped.\n\n\
                        | open | because |\n|---:|---|\n| 1 | keys |\n\n| skipped | because |\n|---:|---|\n| 2 | a\\|b |\n\n\
                        <details><summary>Every file</summary>\n\n\
                        | file | records | passed | failed | open | skipped |\n|---|---:|---:|---:|---:|---:|\n\
                        | x/a.slt | 4 | 2 | 0 | 1 | 1 |\n| b.slt | 3 | 1 | 1 | 0 | 1 |\n\n</details>\n";
        assert_eq!(table.to_markdown(), expected);
    }
}
