//! `table_changes('t', 3, 5)` becomes `"t@changes 3..5" AS "table_changes"`, which every DataFusion resolves: a table function gets its
//! columns where nothing can be waited for, and these are the table's.
//!
//! Works on tokens, so text in quotes and comments is left alone.

use crate::error::{Error, Result};
use crate::manifest::catalog::TableName;
use crate::statement::names::of_text;
use crate::statement::tokens::{self, is, significant_after};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use datafusion::sql::sqlparser::tokenizer::Token;

/// The function's name.
pub const NAME: &str = "table_changes";
/// What stands between the table's name and the range.
pub const MARK: &str = "changes ";
/// What stands between both ends of the range.
pub const TO: &str = "..";

/// The statement with its calls of the function spelled as names.
pub fn rewrite(sql: &str, dialect: &dyn Dialect) -> Result<String> {
    if !sql.to_ascii_lowercase().contains(NAME) {
        return Ok(sql.to_owned());
    }
    let Some((tokens, offsets)) = tokens::cut(sql, dialect) else { return Ok(sql.to_owned()) };
    let mut rewritten = String::with_capacity(sql.len());
    let mut copied = 0;
    for at in 0..tokens.len() {
        let (Some(call), Some(from)) = (call_at(&tokens, at)?, offsets.get(at)) else { continue };
        rewritten.push_str(sql.get(copied..*from).unwrap_or_default());
        rewritten.push_str(&call.spelled);
        copied = offsets.get(call.end).copied().unwrap_or(sql.len());
    }
    rewritten.push_str(sql.get(copied..).unwrap_or_default());
    Ok(rewritten)
}

/// A call.
struct Call {
    spelled: String,
    /// The token after it.
    end: usize,
}

fn call_at(tokens: &[Token], at: usize) -> Result<Option<Call>> {
    let Some(open) = significant_after(tokens, at).filter(|_| is(tokens.get(at), NAME)) else { return Ok(None) };
    if tokens.get(open) != Some(&Token::LParen) {
        return Ok(None);
    }
    let mut arguments = Vec::new();
    let mut last = open;
    loop {
        let argument = significant_after(tokens, last).ok_or_else(usage)?;
        arguments.push(match (tokens.get(argument), arguments.len()) {
            (Some(Token::SingleQuotedString(text)), _) => text.clone(),
            (Some(Token::Number(digits, _)), 1 | 2) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.clone(),
            _ => return Err(usage()),
        });
        last = significant_after(tokens, argument).ok_or_else(usage)?;
        match tokens.get(last) {
            Some(Token::Comma) if arguments.len() < 3 => {}
            Some(Token::RParen) => break,
            _ => return Err(usage()),
        }
    }
    let (Some(table), Some(from)) = (arguments.first(), arguments.get(1)) else { return Err(usage()) };
    let to = arguments.get(2).map(String::as_str).unwrap_or_default();
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    // A namespace that is not said is left out, so that it is the session's.
    let TableName { namespace, name } = of_text(table, "")?;
    let namespace = if namespace.is_empty() { namespace } else { format!("{}.", quoted(&namespace)) };
    let name = quoted(&format!("{name}@{MARK}{from}{TO}{to}"));
    let aliased = match significant_after(tokens, last).and_then(|next| tokens.get(next)) {
        Some(Token::Word(word)) => {
            word.keyword == Keyword::AS || word.quote_style.is_some() || !RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword)
        }
        _ => false,
    };
    let alias = if aliased { String::new() } else { format!(" AS \"{NAME}\"") };
    Ok(Some(Call { spelled: format!("{namespace}{name}{alias}"), end: last + 1 }))
}

fn usage() -> Error {
    let usage = "table_changes takes the table's name in quotes, the first version, and perhaps the last one; a version is its number or \
                 a time in quotes: table_changes('t', 3), table_changes('t', 3, 5), table_changes('t', '2026-01-31 12:00:00')";
    Error::invalid(usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    #[test]
    fn calls_become_names() {
        for (sql, expected) in [
            ("SELECT * FROM table_changes('t', 3)", r#"SELECT * FROM "t@changes 3.." AS "table_changes""#),
            ("SELECT * FROM Table_Changes ( 't' , 3, 5 ) WHERE a = 1", r#"SELECT * FROM "t@changes 3..5" AS "table_changes" WHERE a = 1"#),
            ("SELECT * FROM table_changes('T', 3) AS c, u", r#"SELECT * FROM "T@changes 3.." AS c, u"#),
            ("SELECT * FROM table_changes('t', '2026-01-31', 5) c", r#"SELECT * FROM "t@changes 2026-01-31..5" c"#),
            ("SELECT * FROM table_changes('s.T', 3)", r#"SELECT * FROM "s"."T@changes 3.." AS "table_changes""#),
            ("SELECT 'table_changes(1)' -- table_changes(2)", "SELECT 'table_changes(1)' -- table_changes(2)"),
            ("SELECT table_changes FROM t", "SELECT table_changes FROM t"),
        ] {
            assert_eq!(rewrite(sql, &GenericDialect {}).unwrap(), expected);
        }
    }

    #[test]
    fn other_arguments_are_refused() {
        for arguments in ["", "'t'", "t, 1", "'t', x", "'t', -1", "'t', 1, 2, 3", "1, 2", "'t', 1.5", "'t', 1"] {
            let error = rewrite(&format!("SELECT * FROM table_changes({arguments}"), &GenericDialect {}).unwrap_err();
            assert!(error.to_string().contains("table_changes('t', 3)"), "{arguments}: {error}");
        }
    }
}
