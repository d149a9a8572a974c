//! INSERT INTO .. REPLACE WHERE, and EXPLAIN of the statements that DataFusion does not parse.
//!
//! Goes in: a parser behind the first words. Comes out: the statement, or nothing if it is another. Always holds: of another
//! statement nothing is refused here.

use super::{Command, Explain, ReplaceWhere, Syntax, optimize, optional, single, skip, words};
use crate::error::Result;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::{Ident, Statement as SqlStatement};
use datafusion::sql::sqlparser::parser::IsOptional;

/// An EXPLAIN of a statement that DataFusion does not parse; `None` if it is of another.
pub(super) fn own_explanation(parser: &mut DFParser<'_>, syntax: &Syntax) -> Result<Option<Command>> {
    let (count, how) = match words(parser, 2).as_slice() {
        [_, "ANALYZE"] => (2, Explain::Analyze),
        [_, "VERBOSE"] => (2, Explain::Verbose),
        _ => (1, Explain::Plan),
    };
    skip(parser, count);
    Ok(match words(parser, 2).as_slice() {
        ["OPTIMIZE", ..] => Some(Command::ExplainOptimize { optimize: optimize(parser, syntax)?, how }),
        ["INSERT", "INTO"] => {
            replace_where(parser, syntax)?.map(|replace| Command::ExplainReplaceWhere { replace: Box::new(replace), how })
        }
        _ => None,
    })
}

/// The parts of an INSERT .. REPLACE WHERE; `None` if it is another INSERT.
pub(super) fn replace_where(parser: &mut DFParser<'_>, syntax: &Syntax) -> Result<Option<ReplaceWhere>> {
    skip(parser, 2);
    optional(parser, &["TABLE"]);
    let Ok(name) = parser.parser.parse_object_name(false) else { return Ok(None) };
    let Ok(columns) = parser.parser.parse_parenthesized_column_list(IsOptional::Optional, false) else { return Ok(None) };
    if words(parser, 2) != ["REPLACE", "WHERE"] {
        return Ok(None);
    }
    skip(parser, 2);
    let engine = datafusion::common::DataFusionError::from;
    let predicate = parser.parser.parse_expr().map_err(engine)?;
    let query = parser.parser.parse_query().map_err(engine)?;
    let columns = columns.iter().map(Ident::to_string).collect::<Vec<_>>().join(", ");
    let columns = if columns.is_empty() { columns } else { format!(" ({columns})") };
    let mut insert = single(&format!("INSERT INTO {name}{columns} SELECT 1"), syntax)?;
    let mut delete = single(&format!("DELETE FROM {name} WHERE true"), syntax)?;
    if let Statement::Statement(insert) = &mut insert
        && let SqlStatement::Insert(insert) = insert.as_mut()
    {
        insert.source = Some(query);
    }
    if let Statement::Statement(delete) = &mut delete
        && let SqlStatement::Delete(delete) = delete.as_mut()
    {
        delete.selection = Some(predicate);
    }
    Ok(Some(ReplaceWhere { insert, delete }))
}
