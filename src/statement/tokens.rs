//! The tokens of a statement's text, for rewriting what the parser does not take without touching the rest.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};

/// The tokens, white space included, and the byte at which each starts. `None` if the text cannot be cut: that is the
/// parser's to complain about.
pub fn cut(sql: &str, dialect: &dyn Dialect) -> Option<(Vec<Token>, Vec<usize>)> {
    let spans = Tokenizer::new(dialect, sql).tokenize_with_location().ok()?;
    let (tokens, starts): (Vec<Token>, Vec<Location>) = spans.into_iter().map(|token| (token.token, token.span.start)).unzip();
    let offsets = byte_offsets(sql, &starts);
    Some((tokens, offsets))
}

/// Where places given by line and column (in characters, from 1, ascending) lie in the text.
fn byte_offsets(sql: &str, places: &[Location]) -> Vec<usize> {
    let mut offsets = Vec::with_capacity(places.len());
    let mut characters = sql.char_indices();
    let (mut line, mut column, mut offset) = (1, 1, 0);
    for place in places {
        while (line, column) < (place.line, place.column) {
            let Some((at, character)) = characters.next() else { break };
            offset = at + character.len_utf8();
            (line, column) = if character == '\n' { (line + 1, 1) } else { (line, column + 1) };
        }
        offsets.push(offset);
    }
    offsets
}

/// Whether a token is this bare word.
pub fn is(token: Option<&Token>, word: &str) -> bool {
    matches!(token, Some(Token::Word(w)) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// The next token that is no white space or comment.
pub fn significant_after(tokens: &[Token], at: usize) -> Option<usize> {
    (at + 1..tokens.len()).find(|next| !matches!(tokens.get(*next), Some(Token::Whitespace(_))))
}

/// The token before that is no white space or comment.
pub fn significant_before(tokens: &[Token], at: usize) -> Option<usize> {
    (0..at).rev().find(|before| !matches!(tokens.get(*before), Some(Token::Whitespace(_))))
}
