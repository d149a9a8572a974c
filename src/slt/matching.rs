//! Whether an answer is the one that the file expects.
//!
//! Goes in: the rows or the types that were answered and those that are written in the file. Comes out: yes or no. Always
//! holds: but for blanks at the end of a line everything counts, unless the file says `<slt:ignore>` for it.

use super::values::ColumnType;

/// Stands for any text.
const IGNORE: &str = "<slt:ignore>";

/// Blanks at the end of a line do not count: editors remove them.
#[expect(clippy::ptr_arg, reason = "the signature of sqllogictest::Normalizer")]
pub(super) fn normalize(line: &String) -> String {
    line.trim_end().to_owned()
}

/// Compares the rows that were answered with the lines of the file.
pub(super) fn rows_match(normalizer: sqllogictest::Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    let actual = actual.iter().map(|row| normalizer(&row.join(" "))).collect::<Vec<_>>();
    let expected = expected.iter().map(normalizer).collect::<Vec<_>>();
    if expected.iter().any(|line| line.contains(IGNORE)) {
        matches_around_ignored(&actual.join("\n"), &expected.join("\n"))
    } else {
        actual == expected
    }
}

/// Whether the pieces between the marks occur in this order, the first at the beginning and the last at the end.
fn matches_around_ignored(actual: &str, expected: &str) -> bool {
    let mut pieces = expected.split(IGNORE);
    let Some(mut rest) = pieces.next().and_then(|first| actual.strip_prefix(first)) else { return false };
    let mut last = None;
    for piece in pieces {
        if let Some(before) = last.replace(piece) {
            match rest.split_once(before) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
    }
    last.is_none_or(|piece| rest.ends_with(piece))
}

/// Compares the types of the columns; a record that names none takes any.
pub(super) fn types_match(actual: &Vec<ColumnType>, expected: &Vec<ColumnType>) -> bool {
    expected.is_empty() || actual == expected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(actual: &[&[&str]], expected: &[&str]) -> bool {
        let actual = actual.iter().map(|row| row.iter().map(|value| (*value).to_owned()).collect()).collect::<Vec<_>>();
        let expected = expected.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        rows_match(normalize, &actual, &expected)
    }

    #[test]
    fn all_but_trailing_blanks_counts() {
        assert!(matches(&[&["1", "a b "], &["2", ""]], &["1 a b", "2"]));
        assert!(!matches(&[&["1", "a  b"]], &["1 a b"]));
        assert!(!matches(&[&["1"]], &["1", "2"]));
        assert!(!matches(&[&[" 1"]], &["1"]));
    }

    #[test]
    fn what_is_ignored_is_ignored_and_nothing_else() {
        assert!(matches(&[&["took 12 ms"], &["ok"]], &["took <slt:ignore> ms", "ok"]));
        assert!(matches(&[&["a"], &["b"], &["c"]], &["a", "<slt:ignore>"]));
        assert!(!matches(&[&["it took 12 ms"]], &["took <slt:ignore> ms"]));
        assert!(!matches(&[&["took 12 ms more"]], &["took <slt:ignore> ms"]));
        assert!(!matches(&[&["a b"]], &["a <slt:ignore> x <slt:ignore> b"]));
        assert!(!matches(&[&["aba"]], &["ab<slt:ignore>ba"]));
    }

    #[test]
    fn types_count_if_they_are_named() {
        assert!(types_match(&vec![ColumnType::Integer], &vec![]));
        assert!(types_match(&vec![ColumnType::Integer], &vec![ColumnType::Integer]));
        assert!(!types_match(&vec![ColumnType::Integer], &vec![ColumnType::Text]));
        assert!(!types_match(&vec![ColumnType::Integer], &vec![ColumnType::Integer, ColumnType::Integer]));
    }
}
