//! Where in a statement's text an error lies.
//!
//! Goes in: the text as the user wrote it, the text that was parsed, and the error. Comes out: a line and a column, or nothing
//! where the error is about the statement as a whole. Always holds: a place that the parser names is mapped back to the user's
//! text, exactly where that text was not touched, else to where the change begins.

use super::tokens;
use crate::error::Error;
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Word};

/// A place in a text; the first line and the first character of a line are 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The character in the line.
    pub column: u64,
}

/// The place that an error is about.
pub(super) fn of(written: &str, parsed: &str, dialect: &dyn Dialect, error: &Error) -> Option<Position> {
    let message = error.to_string();
    if let Some(place) = told(&message) {
        let offset = offset_of(parsed, place)?;
        return Some(position_at(written, in_written(written, parsed, offset)));
    }
    let name = match error {
        Error::UnknownTable { table: name, .. }
        | Error::TableExists { table: name }
        | Error::UnknownColumn { column: name, .. }
        | Error::ColumnExists { column: name, .. } => name.clone(),
        Error::Engine { sqlstate: "42703" | "42702", .. } => named(&message)?,
        _ => return None,
    };
    let (tokens, offsets) = tokens::cut(written, dialect)?;
    let at = tokens.iter().position(|token| matches!(token, Token::Word(word) if is_name(word, &name)))?;
    offsets.get(at).map(|offset| position_at(written, *offset))
}

fn is_name(word: &Word, name: &str) -> bool {
    // A name of a version is written in one word.
    let plain = word.value.split_once('@').map_or(word.value.as_str(), |(table, _)| table);
    if word.quote_style.is_some() { word.value == name || plain == name } else { word.value.eq_ignore_ascii_case(name) }
}

/// `.. at Line: 1, Column: 5`.
fn told(message: &str) -> Option<Position> {
    let (line, rest) = message.split_once("Line: ")?.1.split_once(", Column: ")?;
    let column: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(Position { line: line.parse().ok()?, column: column.parse().ok()? })
}

/// The name in `No field named t.a.` or `Ambiguous reference to unqualified field a`.
fn named(message: &str) -> Option<String> {
    let after = ["No field named ", "field "].iter().find_map(|words| message.split_once(words))?.1;
    let name = after.split_whitespace().next()?.trim_end_matches('.');
    let last = name.rsplit('.').next()?;
    Some(last.trim_matches('"').to_owned())
}

/// Where an offset of the parsed text lies in the written one, whose beginning and end are the same.
fn in_written(written: &str, parsed: &str, offset: usize) -> usize {
    let same = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        pairs.take_while(|(one, two)| one == two).map(|(one, _)| one.len_utf8()).sum()
    };
    let before = same(&mut written.chars().zip(parsed.chars()));
    if offset <= before {
        return offset;
    }
    let after = same(&mut written.chars().rev().zip(parsed.chars().rev())).min(written.len() - before).min(parsed.len() - before);
    match (parsed.len() - offset) <= after {
        true => written.len() - (parsed.len() - offset),
        false => before,
    }
}

fn offset_of(text: &str, place: Position) -> Option<usize> {
    let mut lines = text.split_inclusive('\n');
    let mut before = 0;
    for _ in 1..place.line {
        before += lines.next()?.len();
    }
    let line = lines.next().unwrap_or_default();
    let column = usize::try_from(place.column).ok()?.saturating_sub(1);
    Some(before + line.char_indices().nth(column).map_or(line.len(), |(at, _)| at))
}

fn position_at(text: &str, offset: usize) -> Position {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count();
    Position { line: before.matches('\n').count() as u64 + 1, column: column as u64 + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use datafusion::sql::sqlparser::dialect::GenericDialect;

    fn of(written: &str, parsed: &str, error: &Error) -> Option<(u64, u64)> {
        super::of(written, parsed, &GenericDialect {}, error).map(|position| (position.line, position.column))
    }

    fn engine(message: &str, sqlstate: &'static str) -> Error {
        Error::Engine { message: message.to_owned(), kind: ErrorKind::Invalid, sqlstate }
    }

    #[test]
    fn what_the_parser_tells_is_mapped_to_what_was_written() {
        let at = |line: u64, column: u64| engine(&format!("Expected: x, found: y at Line: {line}, Column: {column}"), "42601");
        assert_eq!(of("SELECT *\nFRM t", "SELECT *\nFRM t", &at(2, 1)), Some((2, 1)));
        let (written, parsed) = ("SELECT ü FROM t VERSION AS OF 3 WHER a", r#"SELECT ü FROM "t@v3" AS "t" WHER a"#);
        assert_eq!(of(written, parsed, &at(1, 8)), Some((1, 8)));
        assert_eq!(of(written, parsed, &at(1, 29)), Some((1, 33)));
        assert_eq!(of(written, parsed, &at(1, 18)), Some((1, 15)));
        assert_eq!(of(written, parsed, &at(1, 99)), Some((1, 39)));
    }

    #[test]
    fn names_are_found() {
        let unknown = Error::UnknownTable { table: "custmers".to_owned(), nearest: None };
        assert_eq!(of("-- custmers\nDELETE FROM Custmers", "", &unknown), Some((2, 13)));
        let field = engine("Schema error: No field named c.nam. Did you mean 'c.name'?", "42703");
        assert_eq!(of("DELETE FROM t AS c\n  WHERE c.nam = 'nam'", "", &field), Some((2, 11)));
        assert_eq!(of("SELECT 1 / 0", "", &engine("Divide by zero error", "22012")), None);
    }
}
