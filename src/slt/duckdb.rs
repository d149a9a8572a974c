//! DuckDB's format of test files, put into the plain one: loops are written out, connections and errors are spelled as the
//! plain format spells them.
//!
//! Goes in: the text of a file. Comes out: steps. Always holds: a directive that is not understood ends the file with that as
//! the reason; the text of another product's errors is not compared.

use super::script::{self, Step};
use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// How many records a file may have when its loops are written out.
const MAX_STEPS: usize = 100_000;

/// A line with its number.
type Line<'a> = (usize, &'a str);

/// Reads a file.
pub(super) fn parse(text: &str, name: &str, steps: &mut Vec<Step>) -> Result<()> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line)).collect::<Vec<_>>();
    let mut reader = Reader { name, lines: &lines, variables: BTreeMap::new(), steps };
    reader.block(&lines).map(|_| ())
}

struct Reader<'a> {
    name: &'a str,
    /// All lines of the file.
    lines: &'a [Line<'a>],
    variables: BTreeMap<String, String>,
    steps: &'a mut Vec<Step>,
}

/// Whether the file goes on.
#[derive(PartialEq)]
enum Then {
    GoOn,
    End,
}

impl Reader<'_> {
    fn block(&mut self, mut lines: &[Line<'_>]) -> Result<Then> {
        let mut runs = true;
        while let Some(((number, line), rest)) = lines.split_first() {
            lines = rest;
            let line = self.substitute(line.trim());
            let words = line.split_whitespace().collect::<Vec<_>>();
            match words.as_slice() {
                [] => {}
                [word, ..] if word.starts_with('#') => {}
                ["statement" | "query", ..] => {
                    let (record, rest) = record_lines(lines);
                    lines = rest;
                    if std::mem::replace(&mut runs, true) {
                        self.record(*number, &words, record)?;
                    }
                }
                ["skipif" | "onlyif", condition @ ..] => runs = self.holds(&condition.concat()) == (words.first() == Some(&"onlyif")),
                ["test-env", name, value @ ..] => {
                    self.variables.insert((*name).to_owned(), value.join(" "));
                }
                ["loop", variable, first, end] => {
                    let number_of = |text: &str| text.parse::<i64>().map_err(|_| self.wrong(*number, &line));
                    let values = (number_of(first)?..number_of(end)?).map(|value| value.to_string());
                    match self.repeat(*number, variable, values, &mut lines)? {
                        Then::GoOn => {}
                        Then::End => return Ok(Then::End),
                    }
                }
                ["foreach", variable, values @ ..] => {
                    let values = values.iter().map(|value| (*value).to_owned());
                    match self.repeat(*number, variable, values, &mut lines)? {
                        Then::GoOn => {}
                        Then::End => return Ok(Then::End),
                    }
                }
                ["concurrentloop" | "concurrentforeach", ..] => {
                    let (body, rest) = self.loop_body(*number, lines)?;
                    lines = rest;
                    self.skip(body, "a loop of threads");
                }
                ["mode", "skip"] => {
                    while let Some(((_, line), rest)) = lines.split_first() {
                        lines = rest;
                        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
                            ["mode", "unskip"] => break,
                            ["statement" | "query", ..] => self.steps.push(Step::Skip("mode skip".to_owned())),
                            _ => {}
                        }
                    }
                }
                // Sessions are on one lake from the beginning to the end of a file.
                ["restart" | "reconnect" | "load" | "reset" | "mode" | "tags" | "sleep", ..] => {}
                _ => {
                    self.skip(self.lines.get(*number..).unwrap_or_default(), &line);
                    return Ok(Then::End);
                }
            }
        }
        Ok(Then::GoOn)
    }

    /// Leaves out the records in these lines.
    fn skip(&mut self, lines: &[Line<'_>], reason: &str) {
        let records = lines.iter().filter(|(_, line)| line.starts_with("statement ") || line.starts_with("query ")).count();
        self.steps.extend(std::iter::repeat_n(Step::Skip(reason.to_owned()), records));
    }

    /// Writes out a loop and moves behind it.
    fn repeat(&mut self, at: usize, variable: &str, values: impl Iterator<Item = String>, lines: &mut &[Line<'_>]) -> Result<Then> {
        let (body, rest) = self.loop_body(at, lines)?;
        *lines = rest;
        for value in values {
            let outer = self.variables.insert(variable.to_owned(), value);
            let then = self.block(body)?;
            match outer {
                Some(value) => self.variables.insert(variable.to_owned(), value),
                None => self.variables.remove(variable),
            };
            if then == Then::End {
                return Ok(Then::End);
            }
        }
        Ok(Then::GoOn)
    }

    /// The lines of a loop, and those behind it.
    fn loop_body<'b, 'c>(&self, at: usize, lines: &'b [Line<'c>]) -> Result<(&'b [Line<'c>], &'b [Line<'c>])> {
        let mut depth = 0usize;
        for (index, (_, line)) in lines.iter().enumerate() {
            match line.split_whitespace().next() {
                Some("loop" | "foreach" | "concurrentloop" | "concurrentforeach") => depth += 1,
                Some("endloop") if depth == 0 => {
                    let (body, rest) = lines.split_at(index);
                    return Ok((body, rest.get(1..).unwrap_or_default()));
                }
                Some("endloop") => depth -= 1,
                _ => {}
            }
        }
        Err(self.wrong(at, "a loop without an end"))
    }

    /// Whether `i=0` and the like hold; of a name without a comparison, whether it is this engine's.
    fn holds(&self, condition: &str) -> bool {
        for comparison in ["!=", ">=", "<=", "=", ">", "<"] {
            let Some((left, right)) = condition.split_once(comparison) else { continue };
            let left = self.variables.get(left).map_or(left, String::as_str);
            let order = match (left.parse::<i64>(), right.parse::<i64>()) {
                (Ok(left), Ok(right)) => left.cmp(&right),
                _ => left.cmp(right),
            };
            return match comparison {
                "!=" => order.is_ne(),
                ">=" => order.is_ge(),
                "<=" => order.is_le(),
                "=" => order.is_eq(),
                ">" => order.is_gt(),
                _ => order.is_lt(),
            };
        }
        false
    }

    fn record(&mut self, number: usize, words: &[&str], lines: &[Line<'_>]) -> Result<()> {
        if self.steps.len() >= MAX_STEPS {
            return Err(self.wrong(number, "the loops are too long"));
        }
        let split = lines.iter().position(|(_, line)| line.trim_end() == "----");
        let (sql, expected) = lines.split_at(split.unwrap_or(lines.len()));
        let expected = expected.iter().skip(1).map(|(_, line)| self.substitute(line)).collect::<Vec<_>>();
        let sql = sql.iter().map(|(_, line)| self.substitute(line)).collect::<Vec<_>>().join("\n");
        let sql = if sql.trim().is_empty() { ";".to_owned() } else { sql };
        let (connection, text) = match words {
            ["statement", "ok" | "error", ..] => {
                (words.get(2), format!("statement {}\n{sql}\n", words.get(1).copied().unwrap_or_default()))
            }
            ["query", types, rest @ ..] => {
                let sort = rest.iter().find(|word| matches!(**word, "nosort" | "rowsort" | "valuesort"));
                let connection = rest.first().filter(|_| sort.is_none());
                let expected = sorted(sort.copied(), expected);
                (connection, format!("query {types} {}\n{sql}\n----\n{}\n", sort.copied().unwrap_or_default(), expected.join("\n")))
            }
            _ => {
                self.steps.push(Step::Skip(words.join(" ")));
                return Ok(());
            }
        };
        // The parser counts lines: so many empty ones that the record gets its own.
        let before = "\n".repeat(number.saturating_sub(1 + usize::from(connection.is_some())));
        let connection = connection.map(|name| format!("connection {name}\n")).unwrap_or_default();
        let records = script::parse(&format!("{before}{connection}{text}"), self.name)?;
        let records = records.into_iter().filter(super::runner::is_counted);
        self.steps.extend(records.map(Step::Run));
        Ok(())
    }

    fn substitute(&self, line: &str) -> String {
        let mut line = line.to_owned();
        // A value may hold another name.
        for _ in 0..2 {
            for (name, value) in &self.variables {
                if line.contains(name.as_str()) {
                    line = line.replace(&format!("${{{name}}}"), value).replace(&format!("{{{name}}}"), value);
                }
            }
        }
        line
    }

    fn wrong(&self, line: usize, what: &str) -> Error {
        Error::invalid(format!("{}:{line}: {what}", self.name))
    }
}

/// The lines of a record, which ends with an empty line, and those behind it.
fn record_lines<'b, 'c>(lines: &'b [Line<'c>]) -> (&'b [Line<'c>], &'b [Line<'c>]) {
    let end = lines.iter().position(|(_, line)| line.trim().is_empty()).unwrap_or(lines.len());
    lines.split_at(end)
}

/// The expected rows in the order in which the answered ones will be.
fn sorted(sort: Option<&str>, mut expected: Vec<String>) -> Vec<String> {
    match sort {
        Some("rowsort") => expected.sort_by(|left, right| left.split('\t').cmp(right.split('\t'))),
        Some("valuesort") => expected.sort(),
        _ => {}
    }
    expected
}

#[cfg(test)]
mod tests;
