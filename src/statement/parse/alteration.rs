//! ALTER TABLE and ALTER VIEW where DataFusion does not parse it: RENAME TO, SET SCHEMA, UNSET TBLPROPERTIES, CLUSTER BY NONE, DROP EXPRESSION, ADD FILES, parts of columns, and USING after a type.
//!
//! Goes in: a parser at the beginning of the statement. Comes out: the statement, or nothing if DataFusion parses it.

use super::{Command, FilesOf, Rename, Syntax, UnsetProperties, skip, text, words};
use crate::error::{Error, Result};
use crate::manifest::catalog::TableName;
use crate::statement::distinct;
use datafusion::common::DataFusionError;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, DataType, Ident, ObjectName, ObjectNamePart, Statement as SqlStatement,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// An ALTER TABLE that DataFusion does not parse; `None` if it is another.
pub(super) fn own(parser: &mut DFParser<'_>, syntax: &Syntax) -> Result<Option<Command>> {
    let of_view = words(parser, 2) == ["ALTER", "VIEW"];
    skip(parser, 2);
    let if_exists = words(parser, 2) == ["IF", "EXISTS"];
    if if_exists {
        skip(parser, 2);
    }
    let Ok(name) = parser.parser.parse_object_name(false) else { return Ok(None) };
    match words(parser, 2).as_slice() {
        ["RENAME", "TO"] => {
            let table = syntax.names.table(&name)?;
            skip(parser, 2);
            let to = parser.parser.parse_object_name(false).map_err(DataFusionError::from)?;
            let to = match to.0.as_slice() {
                [ObjectNamePart::Identifier(to)] => table.sibling(syntax.names.fold(to)),
                _ => syntax.names.table(&to)?,
            };
            if to.namespace != table.namespace {
                let what = format!("RENAME of '{table}' to another schema");
                return Err(Error::unsupported(what, Some("say ALTER TABLE .. SET SCHEMA")));
            }
            Ok(Some(Command::Rename(Rename { table, to, if_exists, of_view })))
        }
        ["SET", "SCHEMA"] => {
            let table = syntax.names.table(&name)?;
            skip(parser, 2);
            let namespace = parser.parser.parse_object_name(false).map_err(DataFusionError::from)?;
            let namespace = syntax.names.namespace(&namespace)?.ok_or_else(|| {
                let what = format!("SET SCHEMA of '{table}' to '{namespace}', which is in another catalog,");
                Error::unsupported(what, Some("tables stay in their lake"))
            })?;
            let to = TableName::new(namespace, table.name.clone());
            Ok(Some(Command::Rename(Rename { table, to, if_exists, of_view })))
        }
        _ if of_view => Err(Error::unsupported("ALTER VIEW with anything but RENAME TO and SET SCHEMA", Some("CREATE OR REPLACE VIEW"))),
        ["UNSET", "TBLPROPERTIES"] => {
            let table = syntax.names.table(&name)?;
            skip(parser, 2);
            let keys = parser.parser.parse_parenthesized_column_list(IsOptional::Mandatory, false);
            let keys = keys.map_err(datafusion::common::DataFusionError::from)?;
            let keys = keys.into_iter().map(|key| key.value).collect();
            Ok(Some(Command::UnsetProperties(UnsetProperties { table, if_exists, keys })))
        }
        ["CLUSTER", "BY"] if parser.parser.peek_nth_token(2).token.to_string().eq_ignore_ascii_case("none") => {
            skip(parser, 3);
            Ok(Some(Command::Sql(Box::new(altered(name, if_exists, vec![AlterTableOperation::DropClusteringKey])))))
        }
        ["ADD", "FILES"] => {
            skip(parser, 2);
            // A column may be called files.
            let Some(pattern) = text(parser) else { return Ok(None) };
            Ok(Some(Command::AddFiles(FilesOf { table: syntax.names.table(&name)?, lenient: if_exists, pattern })))
        }
        _ if drops_expression(parser) => {
            let operation = drop_expression(&mut parser.parser).map_err(DataFusionError::from)?;
            Ok(Some(Command::AlterParts(AlterParts { table: syntax.names.table(&name)?, if_exists, operations: vec![operation] })))
        }
        _ if names_a_part(parser) => {
            let operations = parts(parser)?;
            Ok(Some(Command::AlterParts(AlterParts { table: syntax.names.table(&name)?, if_exists, operations })))
        }
        _ if says_using(parser) => Ok(Some(Command::Sql(Box::new(operations(parser, name, if_exists)?)))),
        _ => Ok(None),
    }
}

/// Whether an operation on a part of a column follows: `ADD s.a ..`, `DROP COLUMN s.a`, `RENAME s.a ..`.
fn names_a_part(parser: &DFParser<'_>) -> bool {
    let token = |at: usize| parser.parser.peek_nth_token(at).token;
    let is = |at: usize, words: &[Keyword]| matches!(token(at), Token::Word(word) if words.contains(&word.keyword));
    if !is(0, &[Keyword::ADD, Keyword::DROP, Keyword::RENAME]) {
        return false;
    }
    let mut at = 1;
    for word in [Keyword::COLUMN, Keyword::IF, Keyword::NOT, Keyword::EXISTS] {
        // A column may have such a name.
        at += usize::from(is(at, &[word]) && token(at + 1) != Token::Period);
    }
    matches!(token(at), Token::Word(_)) && token(at + 1) == Token::Period
}

/// Whether ALTER [COLUMN] c DROP EXPRESSION follows.
fn drops_expression(parser: &DFParser<'_>) -> bool {
    let token = |at: usize| parser.parser.peek_nth_token(at).token;
    let is = |at: usize, text: &str| matches!(token(at), Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text));
    // A column may be called column.
    let column = usize::from(is(1, "COLUMN") && !is(2, "DROP"));
    is(0, "ALTER") && is(column + 2, "DROP") && is(column + 3, "EXPRESSION")
}

/// `ALTER [COLUMN] c DROP EXPRESSION [IF EXISTS]`.
fn drop_expression(parser: &mut Parser<'_>) -> Result<PartOperation, ParserError> {
    parser.next_token();
    if matches!(parser.peek_nth_token(1).token, Token::Word(word) if word.keyword != Keyword::DROP) {
        parser.next_token();
    }
    let column = parser.parse_identifier()?;
    parser.next_token();
    parser.next_token();
    Ok(PartOperation::DropExpression { column, if_exists: parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]) })
}

/// The operations on parts of columns. All of a statement are.
fn parts(parser: &mut DFParser<'_>) -> Result<Vec<PartOperation>> {
    let mut operations = Vec::new();
    loop {
        if !names_a_part(parser) {
            return Err(Error::invalid("parts of columns are altered in a statement of their own"));
        }
        operations.push(part(&mut parser.parser).map_err(DataFusionError::from)?);
        match parser.parser.peek_token().token {
            Token::Comma => parser.parser.next_token(),
            Token::EOF | Token::SemiColon => return Ok(operations),
            other => {
                return Err(Error::unsupported(format!("'{other}' after a part of a column"), Some("a part takes a type, and no more")));
            }
        };
    }
}

fn part(parser: &mut Parser<'_>) -> Result<PartOperation, ParserError> {
    let next = |parser: &mut Parser<'_>| -> Result<Vec<Ident>, ParserError> {
        let mut path = vec![parser.parse_identifier()?];
        while parser.consume_token(&Token::Period) {
            path.push(parser.parse_identifier()?);
        }
        Ok(path)
    };
    let word = parser.next_token();
    let starts_path = parser.peek_nth_token(1).token == Token::Period;
    let _ = !starts_path && parser.parse_keyword(Keyword::COLUMN);
    let starts_path = parser.peek_nth_token(1).token == Token::Period;
    match word.token {
        Token::Word(word) if word.keyword == Keyword::ADD => {
            let if_not_exists = !starts_path && parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
            Ok(PartOperation::Add { path: next(parser)?, data_type: parser.parse_data_type()?, if_not_exists })
        }
        Token::Word(word) if word.keyword == Keyword::DROP => {
            let if_exists = !starts_path && parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
            let path = next(parser)?;
            let cascade = parser.parse_keyword(Keyword::CASCADE);
            let _ = !cascade && parser.parse_keyword(Keyword::RESTRICT);
            Ok(PartOperation::Drop { path, if_exists, cascade })
        }
        _ => {
            let path = next(parser)?;
            parser.expect_keyword(Keyword::TO)?;
            Ok(PartOperation::Rename { path, to: parser.parse_identifier()? })
        }
    }
}

/// ALTER TABLE [IF EXISTS] t of parts of columns.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterParts {
    /// The table.
    pub table: TableName,
    /// Whether it is no error that there is no such table.
    pub if_exists: bool,
    /// What is done, one after another.
    pub operations: Vec<PartOperation>,
}

/// What is done with a part of a column (its path begins with the column), or with what a column is made of.
#[derive(Debug, Clone, PartialEq)]
pub enum PartOperation {
    /// ADD [COLUMN] [IF NOT EXISTS] s.a type.
    Add {
        /// The part.
        path: Vec<Ident>,
        /// Its type.
        data_type: DataType,
        /// Whether it may be there.
        if_not_exists: bool,
    },
    /// DROP [COLUMN] [IF EXISTS] s.a [CASCADE].
    Drop {
        /// The part.
        path: Vec<Ident>,
        /// Whether it is no error that there is none.
        if_exists: bool,
        /// Whether constraints on it go, too.
        cascade: bool,
    },
    /// ALTER [COLUMN] c DROP EXPRESSION [IF EXISTS].
    DropExpression {
        /// The column.
        column: Ident,
        /// Whether it may be one that is not generated.
        if_exists: bool,
    },
    /// RENAME [COLUMN] s.a TO b.
    Rename {
        /// The part.
        path: Vec<Ident>,
        /// Its new name.
        to: Ident,
    },
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
    Ok(altered(name, if_exists, operations))
}

/// The statement of these operations.
fn altered(name: ObjectName, if_exists: bool, operations: Vec<AlterTableOperation>) -> Statement {
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
    let mut altered = SqlStatement::AlterTable(altered);
    distinct::restore(&mut altered);
    Statement::Statement(Box::new(altered))
}
