//! ALTER TABLE where DataFusion does not parse it: UNSET TBLPROPERTIES, ADD FILES, and USING after a type.
//!
//! Goes in: a parser at the beginning of the statement. Comes out: the statement, or nothing if DataFusion parses it.

use super::{Command, FilesOf, UnsetProperties, plain_name, skip, text, words};
use crate::error::Result;
use datafusion::common::DataFusionError;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{AlterColumnOperation, AlterTable, AlterTableOperation, ObjectName, Statement as SqlStatement};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// An ALTER TABLE that DataFusion does not parse; `None` if it is another.
pub(super) fn own(parser: &mut DFParser<'_>) -> Result<Option<Command>> {
    skip(parser, 2);
    let if_exists = words(parser, 2) == ["IF", "EXISTS"];
    if if_exists {
        skip(parser, 2);
    }
    let Ok(name) = parser.parser.parse_object_name(false) else { return Ok(None) };
    match words(parser, 2).as_slice() {
        ["UNSET", "TBLPROPERTIES"] => {
            let table = plain_name(&name)?;
            skip(parser, 2);
            let keys = parser.parser.parse_parenthesized_column_list(IsOptional::Mandatory, false);
            let keys = keys.map_err(datafusion::common::DataFusionError::from)?;
            let keys = keys.into_iter().map(|key| key.value).collect();
            Ok(Some(Command::UnsetProperties(UnsetProperties { table, if_exists, keys })))
        }
        ["ADD", "FILES"] => {
            skip(parser, 2);
            // A column may be called files.
            let Some(pattern) = text(parser) else { return Ok(None) };
            Ok(Some(Command::AddFiles(FilesOf { table: plain_name(&name)?, lenient: if_exists, pattern })))
        }
        _ if says_using(parser) => Ok(Some(Command::Sql(Box::new(operations(parser, name, if_exists)?)))),
        _ => Ok(None),
    }
}

/// Whether the word is somewhere in what is left.
fn says_using(parser: &DFParser<'_>) -> bool {
    let tokens = (0..).map(|at| parser.parser.peek_nth_token(at).token);
    tokens.take_while(|token| *token != Token::EOF).any(|token| matches!(token, Token::Word(word) if word.keyword == Keyword::USING))
}

/// The operations on a table, each of which may end in USING.
fn operations(parser: &mut DFParser<'_>, name: ObjectName, if_exists: bool) -> Result<Statement> {
    let operation = |parser: &mut Parser<'_>| -> Result<AlterTableOperation, ParserError> {
        let mut operation = parser.parse_alter_table_operation()?;
        if let AlterTableOperation::AlterColumn { op: AlterColumnOperation::SetDataType { using: using @ None, .. }, .. } = &mut operation
            && parser.parse_keyword(Keyword::USING)
        {
            *using = Some(parser.parse_expr()?);
        }
        Ok(operation)
    };
    let operations = parser.parser.parse_comma_separated(operation).map_err(DataFusionError::from)?;
    let altered = AlterTable {
        name,
        if_exists,
        only: false,
        operations,
        location: None,
        on_cluster: None,
        table_type: None,
        end_token: AttachedToken::empty(),
    };
    Ok(Statement::Statement(Box::new(SqlStatement::AlterTable(altered))))
}
