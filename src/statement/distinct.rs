//! IS DISTINCT FROM that ends where SQL says: the parser takes all that follows, up to a parenthesis, for its right side, so
//! `a IS DISTINCT FROM b AND c` would be `a IS DISTINCT FROM (b AND c)`.
//!
//! ```text
//!   a IS NOT DISTINCT FROM b AND c    ->   a <=> (b) AND c            ->   (a IS NOT DISTINCT FROM b) AND c
//!   a IS DISTINCT FROM b AND c        ->   a <=> (b) IS FALSE AND c   ->   (a IS DISTINCT FROM b) AND c
//!                                text, which the parser takes rightly      as parsed
//! ```
//!
//! Always holds: where a right side ends is the parser's own answer, for an operand of that precedence; other text stays to the
//! letter.

use super::tokens::{self, is, significant_after, significant_before};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Statement, visit_expressions_mut};
use datafusion::sql::sqlparser::dialect::{Dialect, Precedence};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use std::ops::ControlFlow;

/// The statement's text with the IS DISTINCT FROM spelled otherwise that the parser would not end.
pub fn spell(sql: &str, dialect: &dyn Dialect) -> String {
    if !sql.to_ascii_uppercase().contains("DISTINCT") {
        return sql.to_owned();
    }
    let Some((tokens, offsets)) = tokens::cut(sql, dialect) else { return sql.to_owned() };
    let offset_of = |token: usize| offsets.get(token).copied().unwrap_or(sql.len());
    // What is put in place of which part of the text.
    let mut instead = Vec::new();
    for at in 0..tokens.len() {
        let Some(operator) = Operator::at(&tokens, at, dialect) else { continue };
        instead.push((offset_of(at), offset_of(operator.right), "<=> ("));
        instead.push((offset_of(operator.end), offset_of(operator.end), if operator.negated { ")" } else { ") IS FALSE" }));
    }
    instead.sort_by_key(|(from, to, _)| (*from, *to));
    let mut spelled = String::with_capacity(sql.len());
    let mut copied = 0;
    for (from, to, text) in instead {
        spelled.push_str(sql.get(copied..from).unwrap_or_default());
        spelled.push_str(text);
        copied = to;
    }
    spelled.push_str(sql.get(copied..).unwrap_or_default());
    spelled
}

/// One IS [NOT] DISTINCT FROM that the parser would not end.
struct Operator {
    negated: bool,
    /// The first token of its right side.
    right: usize,
    /// The token behind its last.
    end: usize,
}

impl Operator {
    fn at(tokens: &[Token], at: usize, dialect: &dyn Dialect) -> Option<Operator> {
        let next = |at| significant_after(tokens, at);
        let word = |at: usize, word| is(tokens.get(at), word);
        let after_is = next(at).filter(|_| word(at, "IS"))?;
        let negated = word(after_is, "NOT");
        let distinct = if negated { next(after_is)? } else { after_is };
        let from = next(distinct).filter(|from| word(distinct, "DISTINCT") && word(*from, "FROM"))?;
        let right = next(from)?;
        let length_at = |precedence: u8| {
            let mut parser = Parser::new(dialect).with_tokens(tokens.get(right..)?.to_vec());
            parser.parse_subexpr(precedence).ok()?;
            Some(parser.index())
        };
        let length = length_at(dialect.prec_value(Precedence::Is))?;
        if length_at(dialect.prec_unknown()) == Some(length) {
            return None;
        }
        significant_before(tokens, right + length).map(|last| Operator { negated, right, end: last + 1 })
    }
}

/// The parsed statement with IS [NOT] DISTINCT FROM for what was spelled otherwise.
pub fn restore(statement: &mut Statement) {
    let _: ControlFlow<()> = visit_expressions_mut(statement, |expr| {
        let restored = match *expr {
            Expr::IsFalse(ref equal) => sides(equal).map(|(left, right)| Expr::IsDistinctFrom(left, right)),
            ref other => sides(other).map(|(left, right)| Expr::IsNotDistinctFrom(left, right)),
        };
        if let Some(restored) = restored {
            *expr = Expr::Nested(Box::new(restored));
        }
        ControlFlow::Continue(())
    });
}

/// The sides of `a <=> b`, or of what became of it.
fn sides(expr: &Expr) -> Option<(Box<Expr>, Box<Expr>)> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Spaceship, right } => Some((left.clone(), right.clone())),
        Expr::Nested(nested) => match nested.as_ref() {
            Expr::IsNotDistinctFrom(left, right) if matches!(right.as_ref(), Expr::Nested(_)) => Some((left.clone(), right.clone())),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    #[test]
    fn right_sides_end_where_they_should() {
        for (given, expected) in [
            ("a IS DISTINCT FROM b AND c", "(a IS DISTINCT FROM (b)) AND c"),
            ("a is not distinct from b + 1 -- it is\nOR c", "(a IS NOT DISTINCT FROM (b + 1)) OR c"),
            ("a IS DISTINCT FROM b OR c IS DISTINCT FROM d", "(a IS DISTINCT FROM (b)) OR c IS DISTINCT FROM d"),
            ("x AND (a IS DISTINCT FROM -1 AND c) OR d", "x AND ((a IS DISTINCT FROM (-1)) AND c) OR d"),
            ("NOT a IS DISTINCT FROM b OR c", "NOT (a IS DISTINCT FROM (b)) OR c"),
            (
                "a IS DISTINCT FROM (b IS NOT DISTINCT FROM c AND d) AND e",
                "(a IS DISTINCT FROM (((b IS NOT DISTINCT FROM (c)) AND d))) AND e",
            ),
            ("a + 1 IS DISTINCT FROM CASE WHEN b THEN c END IS NULL", "(a + 1 IS DISTINCT FROM (CASE WHEN b THEN c END)) IS NULL"),
            ("CASE WHEN a IS DISTINCT FROM b THEN c END", "CASE WHEN a IS DISTINCT FROM b THEN c END"),
            ("(a IS NOT DISTINCT FROM b) IS FALSE", "(a IS NOT DISTINCT FROM b) IS FALSE"),
            ("a = 'x IS DISTINCT FROM b AND c'", "a = 'x IS DISTINCT FROM b AND c'"),
        ] {
            let select = |condition: &str| format!("SELECT DISTINCT a FROM t WHERE {condition}");
            let spelled = super::spell(&select(given), &GenericDialect {});
            let mut parsed = Parser::parse_sql(&GenericDialect {}, &spelled).unwrap();
            super::restore(&mut parsed[0]);
            assert_eq!(parsed[0].to_string(), select(expected));
        }
    }
}
