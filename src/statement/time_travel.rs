//! `t VERSION AS OF 3` and `t TIMESTAMP AS OF '2026-01-01'` become `"t@v3" AS t` and `"t@2026-01-01" AS t`, which every
//! DataFusion resolves.
//!
//! Works on tokens, so text in quotes and comments is left alone.

use super::tokens::{self, is, significant_after, significant_before};
use crate::error::{Error, Result};
use crate::scan::expression::fold;
use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, Word};

/// The statement with its time travel spelled as names.
pub fn rewrite(sql: &str, dialect: &dyn Dialect) -> Result<String> {
    let upper = sql.to_ascii_uppercase();
    if !upper.contains("VERSION") && !upper.contains("TIMESTAMP") {
        return Ok(sql.to_owned());
    }
    let Some((tokens, offsets)) = tokens::cut(sql, dialect) else { return Ok(sql.to_owned()) };
    // RESTORE .. TO VERSION AS OF is a statement of its own.
    if is(tokens.iter().find(|token| !matches!(token, Token::Whitespace(_))), "RESTORE") {
        return Ok(sql.to_owned());
    }
    // Only what is rewritten is touched: the rest of the text stays to the letter.
    let mut rewritten = String::with_capacity(sql.len());
    let mut copied = 0;
    for at in 0..tokens.len() {
        let Some(travel) = travel_at(&tokens, at)? else { continue };
        let (Some(Token::Word(word)), Some(from)) = (tokens.get(travel.name), offsets.get(travel.name)) else { continue };
        let to = offsets.get(travel.end).copied().unwrap_or(sql.len());
        rewritten.push_str(sql.get(copied..*from).unwrap_or_default());
        rewritten.push_str(&travel.spelled(word));
        copied = to;
    }
    rewritten.push_str(sql.get(copied..).unwrap_or_default());
    Ok(rewritten)
}

/// One `name VERSION AS OF n` in a list of tokens.
struct Travel {
    /// The last part of the name.
    name: usize,
    /// The token after `n`.
    end: usize,
    /// What follows `@`.
    version: String,
    /// Whether an alias follows, or none may.
    aliased: bool,
}

fn travel_at(tokens: &[Token], at: usize) -> Result<Option<Travel>> {
    let by_version = is(tokens.get(at), "VERSION");
    if !by_version && !is(tokens.get(at), "TIMESTAMP") {
        return Ok(None);
    }
    let (Some(name), Some(r#as)) = (significant_before(tokens, at), significant_after(tokens, at)) else { return Ok(None) };
    let (Some(of), true) = (significant_after(tokens, r#as), is(tokens.get(r#as), "AS")) else { return Ok(None) };
    if !is(tokens.get(of), "OF") || !matches!(tokens.get(name), Some(Token::Word(_))) {
        return Ok(None);
    }
    let value = significant_after(tokens, of);
    let version = match (value.and_then(|value| tokens.get(value)), by_version) {
        (Some(Token::Number(digits, _)), true) if digits.bytes().all(|b| b.is_ascii_digit()) => format!("v{digits}"),
        (Some(Token::SingleQuotedString(time)), false) if !time.contains('\'') => time.clone(),
        // A column called version, and another called of.
        _ if is_keyword(tokens.get(name)) => return Ok(None),
        (_, true) => return Err(Error::invalid("VERSION AS OF takes the number of a version, as in: t VERSION AS OF 3")),
        (_, false) => return Err(Error::invalid("TIMESTAMP AS OF takes a time in quotes, as in: t TIMESTAMP AS OF '2026-01-31 12:00:00'")),
    };
    let end = value.map_or(tokens.len(), |value| value + 1);
    let next = value.and_then(|value| significant_after(tokens, value)).and_then(|next| tokens.get(next));
    let aliased = match next {
        Some(Token::Word(word)) => {
            word.keyword == Keyword::AS || word.quote_style.is_some() || !RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword)
        }
        _ => false,
    };
    // COPY takes a name and no alias.
    let aliased = aliased || significant_before(tokens, name).is_some_and(|before| is(tokens.get(before), "COPY"));
    Ok(Some(Travel { name, end, version, aliased }))
}

impl Travel {
    /// The relation as every DataFusion resolves it.
    fn spelled(&self, word: &Word) -> String {
        let plain = fold(&Ident { value: word.value.clone(), quote_style: word.quote_style, span: Span::empty() });
        let version = quoted(&format!("{plain}@{}", self.version));
        if self.aliased { version } else { format!("{version} AS {}", quoted(&plain)) }
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn is_keyword(token: Option<&Token>) -> bool {
    matches!(token, Some(Token::Word(word)) if word.quote_style.is_none() && word.keyword != Keyword::NoKeyword)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    fn rewrite(sql: &str) -> Result<String> {
        super::rewrite(sql, &GenericDialect {})
    }

    #[test]
    fn versions_and_times_become_names() {
        for (sql, expected) in [
            ("SELECT * FROM t VERSION AS OF 3", r#"SELECT * FROM "t@v3" AS "t""#),
            ("SELECT * FROM T version as of 3 WHERE t.a = 1", r#"SELECT * FROM "t@v3" AS "t" WHERE t.a = 1"#),
            ("SELECT * FROM t VERSION AS OF 3 AS x", r#"SELECT * FROM "t@v3" AS x"#),
            ("SELECT * FROM t VERSION AS OF 3 x, u", r#"SELECT * FROM "t@v3" x, u"#),
            ("SELECT * FROM public.\"T\" VERSION AS OF 12 JOIN u ON true", r#"SELECT * FROM public."T@v12" AS "T" JOIN u ON true"#),
            ("COPY t VERSION AS OF 3 TO 'f.parquet'", r#"COPY "t@v3" TO 'f.parquet'"#),
            ("SELECT * FROM t TIMESTAMP AS OF '2026-01-31 12:00:00'", r#"SELECT * FROM "t@2026-01-31 12:00:00" AS "t""#),
        ] {
            assert_eq!(rewrite(sql).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_not_time_travel_stays_to_the_letter() {
        for rest in ["name = 'x'' OR name <> '''", r#""a""b" = 1"#, "name = 'ü\n''ß' -- ü", r"E'it\'s'", "/* ' */ a = $$ ' $$ -- it's"] {
            let sql = format!("SELECT * FROM t VERSION AS OF 3 WHERE {rest}");
            assert_eq!(rewrite(&sql).unwrap(), format!(r#"SELECT * FROM "t@v3" AS "t" WHERE {rest}"#));
        }
        assert_eq!(rewrite(r#"SELECT * FROM "a""b" VERSION AS OF 1"#).unwrap(), r#"SELECT * FROM "a""b@v1" AS "a""b""#);
    }

    #[test]
    fn other_uses_of_the_words_stay() {
        for sql in [
            "SELECT 'VERSION AS OF 3'",
            "SELECT version AS of FROM t",
            "SELECT CAST(a AS TIMESTAMP) AS of FROM t",
            "SELECT TIMESTAMP '2026-01-01' -- t VERSION AS OF 3",
            "/* back */ RESTORE TABLE t TO VERSION AS OF 3",
        ] {
            assert_eq!(rewrite(sql).unwrap(), sql);
        }
    }

    #[test]
    fn a_version_that_is_no_number_is_refused() {
        assert!(rewrite("SELECT * FROM t VERSION AS OF x").unwrap_err().to_string().contains("number of a version"));
        assert!(rewrite("SELECT * FROM t TIMESTAMP AS OF 3").unwrap_err().to_string().contains("time in quotes"));
    }
}
