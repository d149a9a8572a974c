//! Which statement it is: amend's own verbs are peeked at by their first words, everything else is DataFusion's to parse.

use super::clone::CloneOf;
use super::distinct;
use super::forms::innermost;
use crate::error::{Error, Result};
use crate::plan::layout::{Order, OrderKey};
use crate::plan::optimize::Wanted;
use datafusion::common::DataFusionError;
use datafusion::config::SqlParserOptions;
use datafusion::sql::parser::{DFParser, DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, SetExpr, Statement as SqlStatement};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, dialect_from_str};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

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
    History(String),
    /// ALTER TABLE .. UNSET TBLPROPERTIES.
    UnsetProperties(UnsetProperties),
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
            | Command::UnsetProperties(_)
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
    pub table: String,
    /// What is rewritten, and how.
    pub wanted: Wanted,
}

/// VACUUM [[TABLE] t] [RETAIN n HOURS] [DRY RUN].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vacuum {
    /// The table; `None` for all of the lake, dropped ones included.
    pub table: Option<String>,
    /// How long back things are kept, if it is said.
    pub retain_ms: Option<u64>,
    /// Whether it is only said what would go.
    pub dry_run: bool,
}

/// VERIFY [TABLE] t [ALL VERSIONS].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verify {
    /// The table.
    pub table: String,
    /// Whether all versions are looked at that are kept, and not only the newest.
    pub all_versions: bool,
}

/// ALTER TABLE [IF EXISTS] t UNSET TBLPROPERTIES ('k', ..).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsetProperties {
    /// The table.
    pub table: String,
    /// Whether it is no error that there is no such table.
    pub if_exists: bool,
    /// The names of the properties.
    pub keys: Vec<String>,
}

/// ALTER TABLE [IF EXISTS] t ADD FILES '..', or CREATE TABLE [IF NOT EXISTS] t FROM '..'.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesOf {
    /// The table.
    pub table: String,
    /// Whether it is no error that there is no such table, or that there is one.
    pub lenient: bool,
    /// The pattern of the files' paths.
    pub pattern: String,
}

/// RESTORE [TABLE] t TO VERSION AS OF n | TO TIMESTAMP AS OF 'time'.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restore {
    /// The table.
    pub table: String,
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
}

impl Default for Syntax {
    fn default() -> Self {
        Syntax { dialect: Box::new(GenericDialect {}), recursion_limit: None }
    }
}

impl Syntax {
    /// By DataFusion's settings `datafusion.sql_parser.*`.
    pub fn of(options: &SqlParserOptions) -> Result<Syntax> {
        let dialect =
            dialect_from_str(options.dialect).ok_or_else(|| Error::invalid(format!("'{}' is no dialect of SQL", options.dialect)))?;
        Ok(Syntax { dialect, recursion_limit: Some(options.recursion_limit.get()) })
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
        ["OPTIMIZE", ..] => Command::Optimize(optimize(&mut parser)?),
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
            Command::History(table_name(&mut parser)?)
        }
        ["ALTER", "TABLE", ..] => match own_alteration(&mut parser)? {
            Some(own) => own,
            None => return Ok(Command::Sql(Box::new(single(sql, syntax)?))),
        },
        ["CREATE", "TABLE", ..] => match own_creation(&mut parser)? {
            Some(own) => own,
            None => return Ok(Command::Sql(Box::new(single(sql, syntax)?))),
        },
        ["INSERT", "INTO", ..] => match replace_where(&mut parser, syntax)? {
            Some(replace) => Command::ReplaceWhere(Box::new(replace)),
            None => return Ok(Command::Sql(Box::new(single(sql, syntax)?))),
        },
        ["VACUUM", ..] => Command::Vacuum(vacuum(&mut parser)?),
        ["RESTORE", ..] => Command::Restore(restore(&mut parser)?),
        ["VERIFY", ..] => Command::Verify(verify(&mut parser)?),
        _ => return Ok(Command::Sql(Box::new(single(sql, syntax)?))),
    };
    end(&mut parser)?;
    Ok(command)
}

fn single(sql: &str, syntax: &Syntax) -> Result<Statement> {
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

fn optimize(parser: &mut DFParser<'_>) -> Result<Optimize> {
    parser.parser.next_token();
    optional(parser, &["TABLE"]);
    let table = table_name(parser)?;
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

fn vacuum(parser: &mut DFParser<'_>) -> Result<Vacuum> {
    const HOUR_MS: f64 = 3_600_000.0;
    parser.parser.next_token();
    optional(parser, &["TABLE"]);
    let clause = matches!(words(parser, 2).as_slice(), ["RETAIN", ..] | ["DRY", "RUN"]);
    let table = if clause || at_end(parser) { None } else { Some(table_name(parser)?) };
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

fn verify(parser: &mut DFParser<'_>) -> Result<Verify> {
    parser.parser.next_token();
    optional(parser, &["TABLE"]);
    let table = table_name(parser)?;
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
fn clone_of(parser: &mut DFParser<'_>, name: &ObjectName, lenient: bool, words_of: usize) -> Result<Command> {
    skip(parser, words_of);
    let source = table_name(parser)?;
    if optional(parser, &["AS"]) {
        table_name(parser)?;
    }
    Ok(Command::Clone(CloneOf { table: plain_name(name)?, lenient, source }))
}

/// An ALTER TABLE that DataFusion does not parse; `None` if it is another.
fn own_alteration(parser: &mut DFParser<'_>) -> Result<Option<Command>> {
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
        _ => Ok(None),
    }
}

/// A CREATE TABLE that DataFusion does not parse; `None` if it is another.
fn own_creation(parser: &mut DFParser<'_>) -> Result<Option<Command>> {
    skip(parser, 2);
    let lenient = words(parser, 3) == ["IF", "NOT", "EXISTS"];
    if lenient {
        skip(parser, 3);
    }
    let Ok(name) = parser.parser.parse_object_name(false) else { return Ok(None) };
    match words(parser, 2).as_slice() {
        ["FROM", ..] => skip(parser, 1),
        ["CLONE", ..] => return clone_of(parser, &name, lenient, 1).map(Some),
        ["SHALLOW", "CLONE"] => return clone_of(parser, &name, lenient, 2).map(Some),
        _ => return Ok(None),
    }
    match text(parser) {
        Some(pattern) => Ok(Some(Command::CreateFromFiles(FilesOf { table: plain_name(&name)?, lenient, pattern }))),
        None => Err(Error::invalid("CREATE TABLE t FROM takes files in quotes, as in 'dir/*.parquet'; a query comes after AS")),
    }
}

/// A text in quotes, if it is the next.
fn text(parser: &mut DFParser<'_>) -> Option<String> {
    let Token::SingleQuotedString(text) = parser.parser.peek_token().token else { return None };
    parser.parser.next_token();
    Some(text)
}

fn restore(parser: &mut DFParser<'_>) -> Result<Restore> {
    parser.parser.next_token();
    optional(parser, &["TABLE"]);
    let table = table_name(parser)?;
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
fn table_name(parser: &mut DFParser<'_>) -> Result<String> {
    let name = parser.parser.parse_object_name(false).map_err(DataFusionError::from)?;
    plain_name(&name)
}

/// A table's name without its namespace, folded as the planner folds names.
pub fn plain_name(name: &ObjectName) -> Result<String> {
    let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
    match parts.as_slice() {
        [table] => Ok(fold(table)),
        [namespace, table] | [_, namespace, table] if fold(namespace) == super::lake::DEFAULT_NAMESPACE => Ok(fold(table)),
        _ => Err(Error::unsupported(format!("the namespace of '{name}'"), Some("tables live in the namespace public"))),
    }
}

/// A name as the planner folds it.
pub fn fold(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The next words, in upper case; fewer if something else comes first.
fn words<'a>(parser: &DFParser<'a>, count: usize) -> Vec<&'static str> {
    const KNOWN: [&str; 56] = [
        "ANALYZE",
        "CREATE",
        "CLONE",
        "SHALLOW",
        "FROM",
        "ADD",
        "FILES",
        "INSERT",
        "INTO",
        "REPLACE",
        "VERSION",
        "TIMESTAMP",
        "AS",
        "OF",
        "ISOLATION",
        "READ",
        "NOT",
        "AND",
        "ALTER",
        "UNSET",
        "TBLPROPERTIES",
        "IF",
        "EXISTS",
        "BEGIN",
        "START",
        "TRANSACTION",
        "WORK",
        "COMMIT",
        "END",
        "ROLLBACK",
        "ABORT",
        "TO",
        "SAVEPOINT",
        "RELEASE",
        "OPTIMIZE",
        "EXPLAIN",
        "VERBOSE",
        "DESCRIBE",
        "DESC",
        "HISTORY",
        "VACUUM",
        "RESTORE",
        "VERIFY",
        "ALL",
        "VERSIONS",
        "FULL",
        "TABLE",
        "WHERE",
        "ORDER",
        "ZORDER",
        "BY",
        "RETAIN",
        "HOUR",
        "HOURS",
        "DRY",
        "RUN",
    ];
    let known = |at: usize| match parser.parser.peek_nth_token(at).token {
        Token::Word(word) if word.quote_style.is_none() => KNOWN.into_iter().find(|known| word.value.eq_ignore_ascii_case(known)),
        _ => None,
    };
    (0..count).map_while(known).collect()
}

fn optional(parser: &mut DFParser<'_>, any: &[&str]) -> bool {
    let found = words(parser, 1).first().is_some_and(|word| any.contains(word));
    if found {
        parser.parser.next_token();
    }
    found
}

fn skip(parser: &mut DFParser<'_>, count: usize) {
    for _ in 0..count {
        parser.parser.next_token();
    }
}

fn at_end(parser: &DFParser<'_>) -> bool {
    matches!(parser.parser.peek_token().token, Token::EOF | Token::SemiColon)
}

/// Nothing but semicolons may be left.
fn end(parser: &mut DFParser<'_>) -> Result<()> {
    while parser.parser.consume_token(&Token::SemiColon) {}
    if parser.parser.peek_token().token == Token::EOF {
        return Ok(());
    }
    if let ["ISOLATION" | "READ" | "NOT" | "AND" | "TO", ..] = words(parser, 1).as_slice() {
        let what = format!("'{}' in a statement about transactions", parser.parser.peek_token().token);
        return Err(Error::unsupported(what, Some("say BEGIN, COMMIT or ROLLBACK alone")));
    }
    Err(Error::invalid(format!("nothing may follow here, but there is: {}", parser.parser.peek_token().token)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(sql: &str) -> Result<Command> {
        super::parse(sql, &Syntax::default())
    }

    #[test]
    fn own_verbs_are_known_by_their_first_words() {
        assert!(matches!(parse("begin").unwrap(), Command::Begin));
        assert!(matches!(parse("START TRANSACTION").unwrap(), Command::Begin));
        assert!(matches!(parse("COMMIT WORK;").unwrap(), Command::Commit));
        assert!(matches!(parse("rollback").unwrap(), Command::Rollback));
        assert!(matches!(parse("DESCRIBE HISTORY public.T").unwrap(), Command::History(table) if table == "t"));
        assert!(matches!(parse("DESCRIBE history").unwrap(), Command::Sql(_)));
        let Command::Optimize(optimize) = parse("OPTIMIZE TABLE \"T\" FULL").unwrap() else { panic!() };
        assert_eq!(optimize, Optimize { table: "T".into(), wanted: Wanted { full: true, ..Wanted::default() } });
        assert!(matches!(parse("SELECT 1").unwrap(), Command::Sql(_)));
        let Command::UnsetProperties(unset) = parse("ALTER TABLE IF EXISTS T UNSET TBLPROPERTIES ('a.b', c)").unwrap() else { panic!() };
        assert_eq!(unset, UnsetProperties { table: "t".into(), if_exists: true, keys: vec!["a.b".into(), "c".into()] });
        assert!(matches!(parse("ALTER TABLE t DROP COLUMN unset").unwrap(), Command::Sql(_)));
        let files = |table: &str, lenient| FilesOf { table: table.into(), lenient, pattern: "a/*.parquet".into() };
        let Command::AddFiles(found) = parse("ALTER TABLE IF EXISTS public.T add files 'a/*.parquet';").unwrap() else { panic!() };
        assert_eq!(found, files("t", true));
        assert!(matches!(parse("ALTER TABLE t ADD files INT").unwrap(), Command::Sql(_)));
        let Command::CreateFromFiles(found) = parse("CREATE TABLE \"T\" FROM 'a/*.parquet'").unwrap() else { panic!() };
        assert_eq!(found, files("T", false));
        assert!(parse("CREATE TABLE t FROM u").unwrap_err().to_string().contains("takes files in quotes"));
        assert!(parse("CREATE TABLE t FROM 'a' WHERE b").unwrap_err().to_string().contains("nothing may follow"));
    }

    #[test]
    fn restore_names_a_version_or_a_time() {
        for (sql, table, at) in [
            ("RESTORE TABLE t TO VERSION AS OF 3", "t", "v3"),
            ("restore T version as of 12;", "t", "v12"),
            (r#"RESTORE TABLE public."to" TO TIMESTAMP AS OF '2026-01-31'"#, "to", "2026-01-31"),
        ] {
            let Command::Restore(restore) = parse(sql).unwrap() else { panic!("{sql}") };
            assert_eq!(restore, Restore { table: table.into(), at: at.into() });
        }
        for sql in ["RESTORE t", "RESTORE t TO VERSION AS OF '3'", "RESTORE t TO VERSION AS OF 1.5", "RESTORE t TO TIMESTAMP AS OF 3"] {
            assert!(parse(sql).unwrap_err().to_string().contains("write RESTORE TABLE t TO VERSION AS OF 3"), "{sql}");
        }
    }

    #[test]
    fn replace_where_is_an_insert_and_a_delete() {
        for (sql, insert, delete) in [
            ("INSERT INTO t REPLACE WHERE a = 1 AND b SELECT 1, true", "INSERT INTO t SELECT 1, true", "DELETE FROM t WHERE a = 1 AND b"),
            (
                r#"insert into table public."T" (b, "A") replace where x > 5 values (1, 2)"#,
                r#"INSERT INTO public."T" (b, "A") VALUES (1, 2)"#,
                r#"DELETE FROM public."T" WHERE x > 5"#,
            ),
            (
                "INSERT INTO t REPLACE WHERE a WITH q AS (SELECT 1) SELECT * FROM q",
                "INSERT INTO t WITH q AS (SELECT 1) SELECT * FROM q",
                "DELETE FROM t WHERE a",
            ),
        ] {
            let command = parse(sql).unwrap();
            assert!(command.changes_rows());
            let Command::ReplaceWhere(replace) = command else { panic!("{sql}") };
            assert_eq!((replace.insert.to_string(), replace.delete.to_string()), (insert.to_owned(), delete.to_owned()));
        }
        for sql in ["INSERT INTO t (a) VALUES (1)", "INSERT INTO t SELECT replace FROM u", "INSERT INTO t (SELECT 1)"] {
            assert!(matches!(parse(sql).unwrap(), Command::Sql(_)), "{sql}");
        }
    }

    #[test]
    fn an_optimize_may_choose_fragments_and_order_rows() {
        let wanted = |sql: &str| match parse(sql).unwrap() {
            Command::Optimize(optimize) => optimize.wanted,
            other => panic!("{other:?}"),
        };
        let key = |column: &str, descending, nulls_first| OrderKey { column: column.into(), descending, nulls_first };
        let order = Order::By(vec![key("a", false, false), key("B", true, true), key("c", true, false)]);
        assert_eq!(wanted("OPTIMIZE t ORDER BY (A, \"B\" DESC, c DESC NULLS LAST)").order, Some(order));
        assert_eq!(wanted("optimize t order by a asc nulls first;").order, Some(Order::By(vec![key("a", false, true)])));
        let z = wanted("OPTIMIZE t FULL WHERE a > 1 AND b < 2 ZORDER BY (a, b)");
        assert_eq!((z.full, z.order), (true, Some(Order::Z(vec!["a".into(), "b".into()]))));
        assert_eq!(z.filter.unwrap().to_string(), "a > 1 AND b < 2");
        assert!(wanted("OPTIMIZE t ZORDER BY a FULL").full);
        for sql in [
            "OPTIMIZE t ORDER BY ()",
            "OPTIMIZE t ORDER BY (a",
            "OPTIMIZE t ORDER BY lower(a)",
            "OPTIMIZE t ZORDER BY (a DESC)",
            "OPTIMIZE t WHERE",
            "OPTIMIZE t a",
        ] {
            assert_eq!(parse(sql).unwrap_err().sqlstate(), "42601", "{sql}");
        }
    }

    #[test]
    fn a_vacuum_is_of_a_table_or_of_all() {
        let vacuum = |sql: &str| match parse(sql).unwrap() {
            Command::Vacuum(Vacuum { table, retain_ms, dry_run }) => (table, retain_ms, dry_run),
            other => panic!("{other:?}"),
        };
        assert_eq!(vacuum("VACUUM"), (None, None, false));
        assert_eq!(vacuum("vacuum table \"T\";"), (Some("T".into()), None, false));
        assert_eq!(vacuum("VACUUM t RETAIN 168 HOURS DRY RUN"), (Some("t".into()), Some(168 * 3_600_000), true));
        assert_eq!(vacuum("VACUUM RETAIN 0.5 hours"), (None, Some(1_800_000), false));
        assert_eq!(vacuum("VACUUM DRY RUN"), (None, None, true));
        assert_eq!(vacuum("VACUUM dry"), (Some("dry".into()), None, false));
        for sql in ["VACUUM t RETAIN x HOURS", "VACUUM t RETAIN 3 DAYS", "VACUUM t RETAIN -1 HOURS", "VACUUM t DRY", "VACUUM t, u"] {
            assert_eq!(parse(sql).unwrap_err().sqlstate(), "42601", "{sql}");
        }
    }

    #[test]
    fn what_is_not_offered_says_so() {
        for sql in ["ROLLBACK TO x", "SAVEPOINT x"] {
            let error = parse(sql).unwrap_err();
            assert_eq!(error.sqlstate(), "0A000", "{sql}: {error}");
        }
        assert_eq!(parse("COMMIT AND CHAIN").unwrap_err().sqlstate(), "0A000");
        assert_eq!(parse("BEGIN ISOLATION LEVEL SERIALIZABLE").unwrap_err().sqlstate(), "0A000");
        assert!(parse("COMMIT x").unwrap_err().to_string().contains("nothing may follow"));
        assert!(parse("BEGIN; DELETE FROM t").unwrap_err().to_string().contains("nothing may follow"));
        assert!(parse("SELECT 1; SELECT 2").unwrap_err().to_string().contains("one statement"));
    }
}
