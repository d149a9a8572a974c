//! Reading a file: what it says, record by record, in its dialect and after the rules for its text.
//!
//! Goes in: a path and rules. Comes out: steps. Always holds: a record keeps the line that it has in its file; what is left out
//! is a step as well, with its reason, so that nothing is left out in silence.

use super::lists::{Dialect, Rules};
use super::values::ColumnType;
use super::{duckdb, runner};
use crate::error::{Error, Result};
use sqllogictest::{Control, Record, ResultMode};
use std::path::Path;

/// How deep files include files.
const MAX_DEPTH: usize = 16;

/// A record, or what is done in its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Run(Record<ColumnType>),
    /// Leave out a record.
    Skip(String),
    /// Leave out all that follows.
    SkipRest(String),
}

/// Reads a file and those that it includes.
pub(super) fn read(path: &Path, rules: &Rules) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    if rules.dialect == Dialect::Sqlite {
        steps.push(Step::Run(Record::Control(Control::ResultMode(ResultMode::ValueWise))));
    }
    read_into(path, rules, 0, &mut steps)?;
    Ok(steps)
}

fn read_into(path: &Path, rules: &Rules, depth: usize, steps: &mut Vec<Step>) -> Result<()> {
    let text = std::fs::read_to_string(path).map_err(|error| runner::store_error("read", path, error))?;
    let name = path.to_str().ok_or_else(|| Error::invalid(format!("the name of '{}' is not UTF-8", path.display())))?;
    let text = rules.apply_to_text(&text);
    if rules.dialect == Dialect::DuckDb {
        return duckdb::parse(&text, name, steps);
    }
    for record in parse(&text, name)? {
        match record {
            Record::Halt { .. } => steps.push(Step::SkipRest("halt".to_owned())),
            Record::Include { filename, loc } => {
                if depth == MAX_DEPTH {
                    return Err(Error::invalid(format!("{loc}: files include files more than {MAX_DEPTH} deep")));
                }
                let wanted = path.with_file_name(&filename);
                let found = glob::glob(&wanted.to_string_lossy()).map_err(|error| Error::invalid(format!("{loc}: {error}")))?;
                let found = found.filter_map(Result::ok).collect::<Vec<_>>();
                if found.is_empty() {
                    return Err(Error::invalid(format!("{loc}: no file matches '{filename}'")));
                }
                for included in found {
                    read_into(&included, rules, depth + 1, steps)?;
                }
            }
            record => steps.push(Step::Run(record)),
        }
    }
    Ok(())
}

/// Reads the plain format.
pub(super) fn parse(text: &str, name: &str) -> Result<Vec<Record<ColumnType>>> {
    sqllogictest::parse_with_name(text, name).map_err(|error| Error::invalid(error.to_string()))
}
