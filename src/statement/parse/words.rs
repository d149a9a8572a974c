//! The words in front of a parser.
//!
//! Always holds: a word in quotes is none.

use crate::error::{Error, Result};
use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::tokenizer::Token;

/// A text in quotes, if it is the next.
pub(super) fn text(parser: &mut DFParser<'_>) -> Option<String> {
    let Token::SingleQuotedString(text) = parser.parser.peek_token().token else { return None };
    parser.parser.next_token();
    Some(text)
}

/// The next words, in upper case; fewer if something else comes first.
pub(super) fn words<'a>(parser: &DFParser<'a>, count: usize) -> Vec<&'static str> {
    const KNOWN: [&str; 63] = [
        "CLUSTER",
        "ANALYZE",
        "COMMENT",
        "ON",
        "CREATE",
        "RENAME",
        "SET",
        "SCHEMA",
        "VIEW",
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

pub(super) fn optional(parser: &mut DFParser<'_>, any: &[&str]) -> bool {
    let found = words(parser, 1).first().is_some_and(|word| any.contains(word));
    if found {
        parser.parser.next_token();
    }
    found
}

pub(super) fn skip(parser: &mut DFParser<'_>, count: usize) {
    for _ in 0..count {
        parser.parser.next_token();
    }
}

pub(super) fn at_end(parser: &DFParser<'_>) -> bool {
    matches!(parser.parser.peek_token().token, Token::EOF | Token::SemiColon)
}

/// Nothing but semicolons may be left.
pub(super) fn end(parser: &mut DFParser<'_>) -> Result<()> {
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
