//! Whether an answer is the one that the file expects.
//!
//! Goes in: the rows or the types that were answered and those that are written in the file. Comes out: yes or no. Always
//! holds: but for blanks at the end of a line everything counts, unless the file says `<slt:ignore>` for it. Loosely, for suites of
//! other products, the spelling of numbers, truth values and times does not count, their values do.

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

/// Compares the rows in any order.
pub(super) fn rows_match_in_any_order(normalizer: sqllogictest::Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    let one = |row: &Vec<String>, line: &String| normalizer(&row.join(" ")) == normalizer(line);
    rows_match(normalizer, actual, expected) || pairs(actual, expected, one)
}

/// Compares the rows value by value, in any order.
pub(super) fn rows_match_loosely_in_any_order(normalizer: sqllogictest::Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    if rows_match_loosely(normalizer, actual, expected) || pairs(actual, expected, |row, line| row_matches(row, line)) {
        return true;
    }
    // A value a line.
    let columns = actual.first().map_or(0, Vec::len);
    let rows = expected.chunks(columns.max(1)).map(|values| values.join("\t")).collect::<Vec<_>>();
    columns > 1 && pairs(actual, &rows, |row, line| row_matches(row, line))
}

/// Whether every row has a line of its own.
fn pairs(actual: &[Vec<String>], expected: &[String], matches: impl Fn(&Vec<String>, &String) -> bool) -> bool {
    let mut lines = expected.iter().collect::<Vec<_>>();
    let mut takes_one = |row: &Vec<String>| match lines.iter().position(|line| matches(row, line)) {
        Some(at) => {
            lines.swap_remove(at);
            true
        }
        None => false,
    };
    actual.len() == expected.len() && actual.iter().all(&mut takes_one)
}

/// Compares the types of the columns; a record that names none takes any.
pub(super) fn types_match(actual: &Vec<ColumnType>, expected: &Vec<ColumnType>) -> bool {
    expected.is_empty() || actual == expected
}

/// Compares value by value. A line of the file is a row, its values separated by tabs or by blanks, or, if there are as many
/// lines as values, a value.
pub(super) fn rows_match_loosely(normalizer: sqllogictest::Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    if rows_match(normalizer, actual, expected) {
        return true;
    }
    let columns = actual.first().map_or(0, Vec::len);
    if columns > 1 && expected.len() == actual.len() * columns {
        return actual.iter().flatten().zip(expected).all(|(actual, expected)| value_matches(actual, expected));
    }
    actual.len() == expected.len() && actual.iter().zip(expected).all(|(actual, expected)| row_matches(actual, expected))
}

fn row_matches(actual: &[String], expected: &str) -> bool {
    let all = |values: Vec<&str>| {
        values.len() == actual.len() && actual.iter().zip(values).all(|(actual, expected)| value_matches(actual, expected))
    };
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    words(&actual.join(" ")) == words(expected)
        || all(expected.split('\t').collect())
        || all(expected.split_whitespace().collect())
        || matches!(actual, [value] if value_matches(value, expected))
}

fn value_matches(actual: &str, expected: &str) -> bool {
    let (actual, expected) = (actual.trim(), expected.trim());
    if let Some(pattern) = expected.strip_prefix("<REGEX>:") {
        return matches_whole(pattern, actual);
    }
    if let Some(pattern) = expected.strip_prefix("<!REGEX>:") {
        return !matches_whole(pattern, actual);
    }
    let truth = |value: &str| match value {
        "1" | "true" | "True" => Some(true),
        "0" | "false" | "False" => Some(false),
        _ => None,
    };
    if actual == expected || (truth(actual).is_some() && truth(actual) == truth(expected)) {
        return true;
    }
    match (actual.parse::<i128>(), expected.parse::<i128>(), actual.parse::<f64>(), expected.parse::<f64>()) {
        (Ok(actual), Ok(expected), ..) => actual == expected,
        (_, _, Ok(actual), Ok(expected)) => (actual - expected).abs() <= 1e-9 * actual.abs().max(expected.abs()),
        _ => plainly_spelled(actual) == plainly_spelled(expected),
    }
}

fn matches_whole(pattern: &str, value: &str) -> bool {
    regex::Regex::new(&format!("(?s)^(?:{pattern})$")).is_ok_and(|pattern| pattern.is_match(value))
}

/// A value without what products spell in their own ways: the letter within a time and its zone, quotes and blanks within lists
/// and structs.
fn plainly_spelled(value: &str) -> String {
    let value = value.strip_suffix('Z').or_else(|| value.strip_suffix("+00")).unwrap_or(value);
    let within = value.starts_with(['[', '{']);
    let mut before = ' ';
    let mut spelled = String::new();
    for character in value.chars() {
        match character {
            'T' if before.is_ascii_digit() => spelled.push(' '),
            '\'' | '"' | ' ' if within => {}
            other => spelled.push(other),
        }
        before = character;
    }
    spelled
}

/// Compares the number of the columns; their types are spelled in another product's letters.
#[expect(clippy::ptr_arg, reason = "the signature of sqllogictest::ColumnTypeValidator")]
pub(super) fn widths_match(actual: &Vec<ColumnType>, expected: &Vec<ColumnType>) -> bool {
    expected.is_empty() || actual.len() == expected.len()
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

    #[test]
    fn loosely_values_count_and_not_their_spelling() {
        let loosely = |actual: &[&[&str]], expected: &[&str]| {
            let actual = actual.iter().map(|row| row.iter().map(|value| (*value).to_owned()).collect()).collect::<Vec<_>>();
            let expected = expected.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
            rows_match_loosely(normalize, &actual, &expected)
        };
        assert!(loosely(&[&["true", "1.5"], &["NULL", "a b"]], &["1\t1.50", "NULL\ta b"]));
        assert!(loosely(&[&["1", "2"], &["3", "4"]], &["1", "2", "3", "4"]));
        assert!(loosely(&[&["2020-01-02T03:04:05", "[1, 2]"]], &["2020-01-02 03:04:05\t[1,2]"]));
        assert!(loosely(&[&["{a: x}"]], &["{'a': x}"]));
        assert!(loosely(&[&["2020-01-02T03:04:05Z"]], &["2020-01-02 03:04:05+00"]));
        assert!(loosely(&[&["abc"]], &["<REGEX>:a.*"]));
        assert!(!loosely(&[&["abc"]], &["<REGEX>:b.*"]));
        assert!(!loosely(&[&["abc"]], &["<!REGEX>:a.*"]));
        assert!(!loosely(&[&["2", "1.5"]], &["1\t1.5"]));
        assert!(!loosely(&[&["NULL"]], &["0"]));
        assert!(!loosely(&[&["9007199254740993"]], &["9007199254740992"]));
        assert!(!loosely(&[&["1"], &["2"]], &["1"]));
        assert!(!loosely(&[&["1"]], &["1", "2"]));
        assert!(!loosely(&[], &["1"]));
    }

    #[test]
    fn in_any_order_every_row_has_a_line() {
        let rows = [vec!["1".to_owned(), "a".to_owned()], vec!["2".to_owned(), "b".to_owned()]];
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        assert!(rows_match_in_any_order(normalize, &rows, &lines(&["2 b", "1 a"])));
        assert!(!rows_match_in_any_order(normalize, &rows, &lines(&["2 b", "2 b"])));
        assert!(!rows_match_in_any_order(normalize, &rows, &lines(&["2 b", "1 a", "1 a"])));
        assert!(!rows_match(normalize, &rows, &lines(&["2 b", "1 a"])));
        assert!(rows_match_loosely_in_any_order(normalize, &rows, &lines(&["2.0\tb", "1\ta"])));
        assert!(!rows_match_loosely_in_any_order(normalize, &rows, &lines(&["1\tb", "2\ta"])));
        assert!(rows_match_loosely_in_any_order(normalize, &rows, &lines(&["2", "b", "1", "a"])));
        assert!(!rows_match_loosely_in_any_order(normalize, &rows, &lines(&["2", "a", "1", "b"])));
    }
}
