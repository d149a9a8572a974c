//! The clauses behind the columns of a CREATE TABLE, in the one order that the parser takes: CLUSTER BY behind WITH and TBLPROPERTIES.
//!
//! Goes in: the statement's text. Comes out: the same, with a CLUSTER BY (..) that stands before them moved behind them.
//! Always holds: other text stays to the letter.

use super::tokens::{cut, is, significant_after};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::Token;

/// The statement's text with its clauses in order.
pub fn ordered(sql: &str, dialect: &dyn Dialect) -> String {
    moved(sql, dialect).unwrap_or_else(|| sql.to_owned())
}

fn moved(sql: &str, dialect: &dyn Dialect) -> Option<String> {
    if !sql.to_ascii_uppercase().contains("CLUSTER") {
        return None;
    }
    let (tokens, offsets) = cut(sql, dialect)?;
    let first = (0..tokens.len()).find(|at| !matches!(tokens.get(*at), Some(Token::Whitespace(_))))?;
    if !is(tokens.get(first), "CREATE") {
        return None;
    }
    let next = |at| significant_after(&tokens, at);
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            // A query follows.
            _ if depth == 0 && is(Some(token), "AS") => return None,
            _ if depth == 0 && is(Some(token), "CLUSTER") => {
                let by = next(at).filter(|by| is(tokens.get(*by), "BY"))?;
                let end = closing(&tokens, next(by)?)?;
                let option = next(end).filter(|option| ["WITH", "TBLPROPERTIES"].iter().any(|word| is(tokens.get(*option), word)))?;
                let last = closing(&tokens, next(option)?)?;
                let offset = |token: usize| offsets.get(token).copied().unwrap_or(sql.len());
                let text = |from: usize, to: usize| sql.get(offset(from)..offset(to));
                return Some([text(0, at)?, text(option, last + 1)?, " ", text(at, option)?, text(last + 1, tokens.len())?].concat());
            }
            _ => {}
        }
    }
    None
}

/// The parenthesis that closes the one at a token.
fn closing(tokens: &[Token], opening: usize) -> Option<usize> {
    if tokens.get(opening) != Some(&Token::LParen) {
        return None;
    }
    let mut depth = 0usize;
    (opening..tokens.len()).find(|at| {
        match tokens.get(*at) {
            Some(Token::LParen) => depth += 1,
            Some(Token::RParen) => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    #[test]
    fn cluster_by_comes_behind_properties() {
        let ordered = |sql| ordered(sql, &GenericDialect {});
        assert_eq!(
            ordered("create table t (a int)\ncluster by (a, b) with (k = (1)) AS SELECT 1"),
            "create table t (a int)\nwith (k = (1)) cluster by (a, b)  AS SELECT 1"
        );
        assert_eq!(
            ordered("CREATE TABLE t CLUSTER BY (a) TBLPROPERTIES ('k' = 1)"),
            "CREATE TABLE t TBLPROPERTIES ('k' = 1) CLUSTER BY (a) "
        );
        for same in [
            "CREATE TABLE t (a INT) WITH (k = 1) CLUSTER BY (a)",
            "CREATE TABLE cluster (a INT) WITH (k = 1)",
            "CREATE TABLE t AS SELECT 1 FROM x CLUSTER BY (a) WITH (k = 1)",
            "CREATE TABLE t CLUSTER BY a WITH (k = 1)",
            "ALTER TABLE t CLUSTER BY (a) WITH (k = 1)",
            "CREATE TABLE t CLUSTER BY (a WITH (k = 1)",
        ] {
            assert_eq!(ordered(same), same);
        }
    }
}
