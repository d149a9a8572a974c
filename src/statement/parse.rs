//! Which statement it is: amend's own verbs are peeked at by their first words, everything else is DataFusion's to parse.

use super::clone::CloneOf;
use super::distinct;
use super::forms::innermost;
use super::names::Names;
use crate::error::{Error, Result};
use crate::manifest::catalog::TableName;
use crate::plan::layout::{Order, OrderKey};
use crate::plan::optimize::Wanted;
use crate::scan::expression::fold;
use datafusion::common::DataFusionError;
use datafusion::config::SqlParserOptions;
use datafusion::sql::parser::{DFParser, DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{ObjectName, SetExpr, Statement as SqlStatement};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, dialect_from_str};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use words::{at_end, end, optional, skip, text, words};

mod words;

mod alteration;

pub use alteration::{AlterParts, PartOperation};

mod replace_where;

use replace_where::{own_explanation, replace_where};

/// A statement.
#[derive(Debug, Clone)]
pub enum Command {
    /// BEGIN.
    Begin,
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// OPTIMIZE.
    Optimize(Optimize),
    /// EXPLAIN OPTIMIZE.
    ExplainOptimize {
        /// The OPTIMIZE.
        optimize: Optimize,
        /// What is wanted to know.
        how: Explain,
    },
    /// EXPLAIN INSERT INTO .. REPLACE WHERE.
    ExplainReplaceWhere {
        /// The INSERT.
        replace: Box<ReplaceWhere>,
        /// What is wanted to know.
        how: Explain,
    },
    /// VACUUM.
    Vacuum(Vacuum),
    /// VERIFY.
    Verify(Verify),
    /// DESCRIBE HISTORY of a table.
    History(TableName),
    /// ALTER TABLE .. RENAME TO, ALTER TABLE .. SET SCHEMA.
    Rename(Rename),
    /// ALTER TABLE .. UNSET TBLPROPERTIES.
    UnsetProperties(UnsetProperties),
    /// ALTER TABLE of parts of columns.
    AlterParts(AlterParts),
    /// ALTER TABLE .. ADD FILES.
    AddFiles(FilesOf),
    /// CREATE TABLE .. FROM files.
    CreateFromFiles(FilesOf),
    /// CREATE TABLE .. CLONE.
    Clone(CloneOf),
    /// RESTORE TABLE.
    Restore(Restore),
    /// INSERT INTO .. REPLACE WHERE.
    ReplaceWhere(Box<ReplaceWhere>),
    /// Anything that DataFusion parses.
    Sql(Box<Statement>),
}

impl Command {
    /// Whether it changes or moves rows of a table, and nothing else.
    pub fn changes_rows(&self) -> bool {
        match self {
            Command::Optimize(_) | Command::ReplaceWhere(_) => true,
            Command::Sql(statement) => match statement.as_ref() {
                Statement::Statement(statement) => is_row_change(statement),
                _ => false,
            },
            Command::Begin
            | Command::Commit
            | Command::Rollback
            | Command::ExplainOptimize { .. }
            | Command::ExplainReplaceWhere { .. }
            | Command::Vacuum(_)
            | Command::Verify(_)
            | Command::History(_)
            | Command::Rename(_)
            | Command::UnsetProperties(_)
            | Command::AlterParts(_)
            | Command::AddFiles(_)
            | Command::CreateFromFiles(_)
            | Command::Clone(_)
            | Command::Restore(_) => false,
        }
    }
}

/// Whether a statement may depend on which tables there are, other than those that it names and reads.
pub fn looks_at_names(statement: &Statement, sql: &str) -> bool {
    match statement {
        Statement::Statement(statement) => match statement.as_ref() {
            SqlStatement::Query(_) => sql.to_ascii_lowercase().contains("information_schema"),
            statement => !is_row_change(statement),
        },
        _ => true,
    }
}

fn is_row_change(statement: &SqlStatement) -> bool {
    match statement {
        SqlStatement::Insert(_)
        | SqlStatement::Update(_)
        | SqlStatement::Delete(_)
        | SqlStatement::Merge(_)
        | SqlStatement::Truncate(_) => true,
        // WITH .. DELETE and the like.
        SqlStatement::Query(query) => match query.body.as_ref() {
            SetExpr::Insert(inner) | SetExpr::Update(inner) | SetExpr::Delete(inner) | SetExpr::Merge(inner) => is_row_change(inner),
            _ => false,
        },
        _ => false,
    }
}

/// What EXPLAIN tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Explain {
    /// The plan.
    Plan,
    /// VERBOSE: the plan, and what it would stage.
    Verbose,
    /// ANALYZE: the plan with what it took to run it.
    Analyze,
}

/// OPTIMIZE t [FULL] [WHERE p] [ORDER BY (a [DESC], ..) | ZORDER BY (a, ..)].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Optimize {
    /// The table.
    pub table: TableName,
    /// What is rewritten, and how.
    pub wanted: Wanted,
}

/// VACUUM [[TABLE] t] [RETAIN n HOURS] [DRY RUN].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vacuum {
    /// The table; `None` for all of the lake, dropped ones included.
    pub table: Option<TableName>,
    /// How long back things are kept, if it is said.
    pub retain_ms: Option<u64>,
    /// Whether it is only said what would go.
    pub dry_run: bool,
}

/// VERIFY [TABLE] t [ALL VERSIONS].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verify {
    /// The table.
    pub table: TableName,
    /// Whether all versions are looked at that are kept, and not only the newest.
    pub all_versions: bool,
}

/// ALTER TABLE [IF EXISTS] t RENAME TO u, ALTER TABLE [IF EXISTS] t SET SCHEMA s; ALTER VIEW likewise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rename {
    /// The table.
    pub table: TableName,
    /// What it is called then.
    pub to: TableName,
    /// Whether it is no error that there is no such table.
    pub if_exists: bool,
    /// Whether a view is meant: ALTER VIEW.
    pub of_view: bool,
}

/// ALTER TABLE [IF EXISTS] t UNSET TBLPROPERTIES ('k', ..).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsetProperties {
    /// The table.
    pub table: TableName,
    /// Whether it is no error that there is no such table.
    pub if_exists: bool,
    /// The names of the properties.
    pub keys: Vec<String>,
}

/// ALTER TABLE [IF EXISTS] t ADD FILES '..', or CREATE TABLE [IF NOT EXISTS] t FROM '..'.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesOf {
    /// The table.
    pub table: TableName,
    /// Whether it is no error that there is no such table, or that there is one.
    pub lenient: bool,
    /// The pattern of the files' paths.
    pub pattern: String,
}

/// RESTORE [TABLE] t TO VERSION AS OF n | TO TIMESTAMP AS OF 'time'.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restore {
    /// The table.
    pub table: TableName,
    /// The version, as it follows the `@` of a name: `v3`, or a time.
    pub at: String,
}

/// INSERT INTO t [(columns)] REPLACE WHERE p query.
#[derive(Debug, Clone)]
pub struct ReplaceWhere {
    /// The statement without the predicate.
    pub insert: Statement,
    /// The DELETE of the rows that match the predicate.
    pub delete: Statement,
}

/// The SQL that the session's settings ask for.
pub struct Syntax {
    /// Whose SQL it is.
    pub dialect: Box<dyn Dialect>,
    recursion_limit: Option<usize>,
    names: Names,
}

impl Default for Syntax {
    fn default() -> Self {
        Syntax { dialect: Box::new(GenericDialect {}), recursion_limit: None, names: Names::default() }
    }
}

impl Syntax {
    /// By DataFusion's settings `datafusion.sql_parser.*`, and what names mean.
    pub fn of(options: &SqlParserOptions, names: Names) -> Result<Syntax> {
        let dialect =
            dialect_from_str(options.dialect).ok_or_else(|| Error::invalid(format!("'{}' is no dialect of SQL", options.dialect)))?;
        Ok(Syntax { dialect, recursion_limit: Some(options.recursion_limit.get()), names })
    }

    fn parser<'a>(&'a self, sql: &'a str) -> Result<DFParser<'a>> {
        let builder = DFParserBuilder::new(sql).with_dialect(self.dialect.as_ref());
        Ok(match self.recursion_limit {
            Some(limit) => builder.with_recursion_limit(limit).build()?,
            None => builder.build()?,
        })
    }
}

/// Parses one statement.
pub fn parse(sql: &str, syntax: &Syntax) -> Result<Command> {
    let mut parser = syntax.parser(sql)?;
    let command = match words(&parser, 3).as_slice() {
        ["BEGIN", ..] => {
            parser.parser.next_token();
            optional(&mut parser, &["TRANSACTION", "WORK"]);
            Command::Begin
        }
        ["START", "TRANSACTION", ..] => {
            skip(&mut parser, 2);
            Command::Begin
        }
        ["COMMIT" | "END", ..] => {
            parser.parser.next_token();
            optional(&mut parser, &["TRANSACTION", "WORK"]);
            Command::Commit
        }
        ["ROLLBACK" | "ABORT", ..] => {
            parser.parser.next_token();
            optional(&mut parser, &["TRANSACTION", "WORK"]);
            if words(&parser, 1) == ["TO"] {
                return Err(Error::unsupported("ROLLBACK TO a savepoint", Some("say ROLLBACK")));
            }
            Command::Rollback
        }
        ["SAVEPOINT" | "RELEASE", ..] => return Err(Error::unsupported("SAVEPOINT", None)),
        ["OPTIMIZE", ..] => Command::Optimize(optimize(&mut parser, syntax)?),
        ["EXPLAIN", ..] => match own_explanation(&mut parser, syntax)? {
            Some(own) => own,
            None => return Ok(Command::Sql(Box::new(single(sql, syntax)?))),
        },
        ["DESCRIBE" | "DESC", "HISTORY", ..] => {
            skip(&mut parser, 2);
            // A table may be called history.
            if at_end(&parser) {
                return Ok(Command::Sql(Box::new(single(sql, syntax)?)));
            }
            Command::History(table_name(&mut parser, syntax)?)
        }
        ["ALTER", "TABLE" | "VIEW", ..] => match alteration::own(&mut parser, syntax)? {
            Some(own) => own,
            None => return Ok(Command::Sql(Box::new(single(sql, syntax)?))),
        },
        ["CREATE", "TABLE", ..] => match own_creation(&mut parser, syntax)? {
            Some(own) => own,
            None => return Ok(Command::Sql(Box::new(single(sql, syntax)?))),
        },
        ["INSERT", "INTO", ..] => match replace_where(&mut parser, syntax)? {
            Some(replace) => Command::ReplaceWhere(Box::new(replace)),
            None => return Ok(Command::Sql(Box::new(single(sql, syntax)?))),
        },
        // Not every dialect has it.
        ["COMMENT", "ON", ..] => {
            parser.parser.next_token();
            let comment = parser.parser.parse_comment().map_err(DataFusionError::from)?;
            Command::Sql(Box::new(Statement::Statement(Box::new(comment))))
        }
        ["VACUUM", ..] => Command::Vacuum(vacuum(&mut parser, syntax)?),
        ["RESTORE", ..] => Command::Restore(restore(&mut parser, syntax)?),
        ["VERIFY", ..] => Command::Verify(verify(&mut parser, syntax)?),
        _ => return Ok(Command::Sql(Box::new(single(sql, syntax)?))),
    };
    end(&mut parser)?;
    Ok(command)
}

/// The one statement in a text that DataFusion parses.
pub(super) fn single(sql: &str, syntax: &Syntax) -> Result<Statement> {
    let mut statements = syntax.parser(sql)?.parse_statements()?;
    match (statements.pop_front(), statements.is_empty()) {
        (Some(mut statement), true) => {
            if let Some(statement) = innermost(&mut statement) {
                distinct::restore(statement);
            }
            Ok(statement)
        }
        (Some(_), false) => Err(Error::invalid("one statement at a time, please")),
        (None, _) => Err(Error::invalid("there is no statement")),
    }
}

fn optimize(parser: &mut DFParser<'_>, syntax: &Syntax) -> Result<Optimize> {
    parser.parser.next_token();
    optional(parser, &["TABLE"]);
    let table = table_name(parser, syntax)?;
    let mut wanted = Wanted { full: optional(parser, &["FULL"]), ..Wanted::default() };
    if optional(parser, &["WHERE"]) {
        wanted.filter = Some(parser.parser.parse_expr().map_err(DataFusionError::from)?);
    }
    match words(parser, 2).as_slice() {
        ["ORDER", "BY"] => {
            skip(parser, 2);
            wanted.order = Some(Order::By(in_parentheses(parser, order_key)?));
        }
        ["ZORDER", "BY"] => {
            skip(parser, 2);
            let column = |parser: &mut Parser<'_>| Ok(fold(&parser.parse_identifier()?));
            wanted.order = Some(Order::Z(in_parentheses(parser, column)?));
        }
        _ => {}
    }
    // Where Databricks has it, and at the end.
    wanted.full |= optional(parser, &["FULL"]);
    Ok(Optimize { table, wanted })
}

fn vacuum(parser: &mut DFParser<'_>, syntax: &Syntax) -> Result<Vacuum> {
    const HOUR_MS: f64 = 3_600_000.0;
    parser.parser.next_token();
    optional(parser, &["TABLE"]);
    let clause = matches!(words(parser, 2).as_slice(), ["RETAIN", ..] | ["DRY", "RUN"]);
    let table = if clause || at_end(parser) { None } else { Some(table_name(parser, syntax)?) };
    let mut retain_ms = None;
    if optional(parser, &["RETAIN"]) {
        let Token::Number(hours, _) = parser.parser.next_token().token else {
            return Err(Error::invalid("RETAIN takes a number of hours, as in: VACUUM t RETAIN 168 HOURS"));
        };
        let hours: f64 = hours.parse().map_err(|_| Error::invalid(format!("RETAIN {hours} is no number of hours")))?;
        if !optional(parser, &["HOURS", "HOUR"]) {
            return Err(Error::invalid("RETAIN takes a number of hours, as in: VACUUM t RETAIN 168 HOURS"));
        }
        // A time that is too long for the number is as long as it can be.
        retain_ms = Some((hours * HOUR_MS) as u64);
    }
    let dry_run = words(parser, 2) == ["DRY", "RUN"];
    if dry_run {
        skip(parser, 2);
    }
    Ok(Vacuum { table, retain_ms, dry_run })
}

fn verify(parser: &mut DFParser<'_>, syntax: &Syntax) -> Result<Verify> {
    parser.parser.next_token();
    optional(parser, &["TABLE"]);
    let table = table_name(parser, syntax)?;
    let all_versions = words(parser, 2) == ["ALL", "VERSIONS"];
    if all_versions {
        skip(parser, 2);
    }
    Ok(Verify { table, all_versions })
}

/// A list, with or without parentheses around it.
fn in_parentheses<T>(parser: &mut DFParser<'_>, item: impl FnMut(&mut Parser<'_>) -> Result<T, ParserError>) -> Result<Vec<T>> {
    let parser = &mut parser.parser;
    let parentheses = parser.consume_token(&Token::LParen);
    let items = parser.parse_comma_separated(item).map_err(DataFusionError::from)?;
    if parentheses {
        parser.expect_token(&Token::RParen).map_err(DataFusionError::from)?;
    }
    Ok(items)
}

/// `a [ASC | DESC] [NULLS FIRST | NULLS LAST]`.
fn order_key(parser: &mut Parser<'_>) -> Result<OrderKey, ParserError> {
    let column = fold(&parser.parse_identifier()?);
    let descending = match parser.parse_one_of_keywords(&[Keyword::ASC, Keyword::DESC]) {
        Some(Keyword::DESC) => true,
        Some(_) | None => false,
    };
    let nulls_first = match parser.parse_keyword(Keyword::NULLS) {
        // NULLs are larger than anything.
        false => descending,
        true => parser.expect_one_of_keywords(&[Keyword::FIRST, Keyword::LAST])? == Keyword::FIRST,
    };
    Ok(OrderKey { column, descending, nulls_first })
}

/// `[SHALLOW] CLONE t`; which version of it is spelled in the name by now, with the plain name behind AS.
fn clone_of(parser: &mut DFParser<'_>, name: &ObjectName, lenient: bool, words_of: usize, syntax: &Syntax) -> Result<Command> {
    skip(parser, words_of);
    let source = table_name(parser, syntax)?;
    if optional(parser, &["AS"]) {
        table_name(parser, syntax)?;
    }
    Ok(Command::Clone(CloneOf { table: syntax.names.table(name)?, lenient, source }))
}

/// A CREATE TABLE that DataFusion does not parse; `None` if it is another.
fn own_creation(parser: &mut DFParser<'_>, syntax: &Syntax) -> Result<Option<Command>> {
    skip(parser, 2);
    let lenient = words(parser, 3) == ["IF", "NOT", "EXISTS"];
    if lenient {
        skip(parser, 3);
    }
    let Ok(name) = parser.parser.parse_object_name(false) else { return Ok(None) };
    match words(parser, 2).as_slice() {
        ["FROM", ..] => skip(parser, 1),
        ["CLONE", ..] => return clone_of(parser, &name, lenient, 1, syntax).map(Some),
        ["SHALLOW", "CLONE"] => return clone_of(parser, &name, lenient, 2, syntax).map(Some),
        _ => return Ok(None),
    }
    match text(parser) {
        Some(pattern) => Ok(Some(Command::CreateFromFiles(FilesOf { table: syntax.names.table(&name)?, lenient, pattern }))),
        None => Err(Error::invalid("CREATE TABLE t FROM takes files in quotes, as in 'dir/*.parquet'; a query comes after AS")),
    }
}

fn restore(parser: &mut DFParser<'_>, syntax: &Syntax) -> Result<Restore> {
    parser.parser.next_token();
    optional(parser, &["TABLE"]);
    let table = table_name(parser, syntax)?;
    optional(parser, &["TO"]);
    let wrong = || Error::invalid("write RESTORE TABLE t TO VERSION AS OF 3, or RESTORE TABLE t TO TIMESTAMP AS OF '2026-01-31 12:00:00'");
    let by_version = match words(parser, 3).as_slice() {
        ["VERSION", "AS", "OF"] => true,
        ["TIMESTAMP", "AS", "OF"] => false,
        _ => return Err(wrong()),
    };
    skip(parser, 3);
    match (parser.parser.next_token().token, by_version) {
        (Token::Number(digits, _), true) if digits.bytes().all(|b| b.is_ascii_digit()) => Ok(Restore { table, at: format!("v{digits}") }),
        (Token::SingleQuotedString(at), false) => Ok(Restore { table, at }),
        _ => Err(wrong()),
    }
}

/// The name of a table of the lake.
fn table_name(parser: &mut DFParser<'_>, syntax: &Syntax) -> Result<TableName> {
    let name = parser.parser.parse_object_name(false).map_err(DataFusionError::from)?;
    syntax.names.table(&name)
}

#[cfg(test)]
mod tests;
