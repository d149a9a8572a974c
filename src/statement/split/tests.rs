//! Tests of the splitter: what ends a statement and what does not, and that pieces make no difference.

use super::*;
use proptest::prelude::*;

/// All statements of a script, the unfinished last one included, as `line:text`.
fn split(script: &str) -> Vec<String> {
    split_pieces([script])
}

fn split_pieces<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut splitter = Splitter::new();
    let mut found = Vec::new();
    for piece in pieces {
        splitter.push(piece);
        while let Some(statement) = splitter.next_statement() {
            found.push(statement);
        }
    }
    found.extend(splitter.finish());
    found.into_iter().map(|statement| format!("{}:{}", statement.line, statement.text)).collect()
}

#[test]
fn statements_end_at_semicolons_and_know_their_lines() {
    assert_eq!(split("SELECT 1;\n\nSELECT\n 2 ; SELECT 3;"), ["1:SELECT 1", "3:SELECT\n 2", "4:SELECT 3"]);
}

#[test]
fn the_rest_without_a_semicolon_is_given_by_finish_only() {
    let mut splitter = Splitter::new();
    splitter.push("SELECT 1; SELECT 2 ");
    assert_eq!(splitter.next_statement().map(|statement| statement.text), Some("SELECT 1".to_owned()));
    assert_eq!(splitter.next_statement(), None);
    assert!(splitter.in_statement());
    assert_eq!(splitter.finish(), Some(Statement { text: "SELECT 2".to_owned(), line: 1 }));
}

#[test]
fn nothing_is_left_of_blanks_comments_and_lone_semicolons() {
    assert_eq!(split(""), [""; 0]);
    assert_eq!(split(" ;;\n; -- bye\n /* and; /* thanks; */ */ "), [""; 0]);
    assert_eq!(split("SELECT 1; -- bye"), ["1:SELECT 1"]);
}

#[test]
fn comments_before_a_statement_go_and_those_within_stay() {
    assert_eq!(split("-- one; two\n/* three; */ SELECT /* four; */ 1 -- five;\n;"), ["2:SELECT /* four; */ 1 -- five;"]);
}

#[test]
fn semicolons_within_quotes_end_nothing() {
    assert_eq!(split("SELECT 'a;''b;', \"c;\"\"d;\", `e;`; SELECT 2"), ["1:SELECT 'a;''b;', \"c;\"\"d;\", `e;`", "1:SELECT 2"]);
    assert_eq!(split("SELECT '--', '/*'; SELECT 2"), ["1:SELECT '--', '/*'", "1:SELECT 2"]);
}

#[test]
fn a_backslash_protects_a_quote_only_in_an_escape_string() {
    assert_eq!(split(r"SELECT E'it\'s; \\'; SELECT 2"), [r"1:SELECT E'it\'s; \\'", "1:SELECT 2"]);
    assert_eq!(split(r"SELECT e'a''; b'; SELECT 2"), [r"1:SELECT e'a''; b'", "1:SELECT 2"]);
    assert_eq!(split(r"SELECT 'c:\'; SELECT 2"), [r"1:SELECT 'c:\'", "1:SELECT 2"]);
    assert_eq!(split(r"SELECT name'c:\'; SELECT 2"), [r"1:SELECT name'c:\'", "1:SELECT 2"]);
}

#[test]
fn semicolons_within_dollar_quotes_end_nothing() {
    assert_eq!(split("SELECT $$a; $b$ ;$$; SELECT 2"), ["1:SELECT $$a; $b$ ;$$", "1:SELECT 2"]);
    assert_eq!(split("SELECT $tag$a; $$ $ta$ ;$tag$; SELECT 2"), ["1:SELECT $tag$a; $$ $ta$ ;$tag$", "1:SELECT 2"]);
    assert_eq!(split("SELECT $1; SELECT a$b$; SELECT $2$; SELECT 4"), ["1:SELECT $1", "1:SELECT a$b$", "1:SELECT $2$", "1:SELECT 4"]);
}

#[test]
fn block_comments_nest() {
    assert_eq!(split("SELECT 1 /* a /* b; */ c; */; SELECT 2"), ["1:SELECT 1 /* a /* b; */ c; */", "1:SELECT 2"]);
}

#[test]
fn what_is_not_closed_is_not_lost() {
    assert_eq!(split("SELECT 'a; SELECT 2;"), ["1:SELECT 'a; SELECT 2;"]);
    assert_eq!(split("SELECT 1;\n/* a; SELECT 2;"), ["1:SELECT 1", "2:/* a; SELECT 2;"]);
    assert_eq!(split("SELECT $a"), ["1:SELECT $a"]);
    assert_eq!(split("SELECT 1 -"), ["1:SELECT 1 -"]);
}

#[test]
fn an_open_statement_or_comment_is_seen() {
    let mut splitter = Splitter::new();
    assert!(!splitter.in_statement());
    for (piece, open) in [("-- c\n", false), ("/* c", true), (" */", false), (" SELECT", true), (" ';", true), ("'", true), (";", false)] {
        splitter.push(piece);
        while splitter.next_statement().is_some() {}
        assert_eq!(splitter.in_statement(), open, "after {piece:?}");
    }
}

#[test]
fn a_long_script_is_cut_in_linear_time() {
    let script = "INSERT INTO t VALUES (1, 'abc');\n".repeat(100_000);
    let mut splitter = Splitter::new();
    splitter.push(&script);
    let mut last = None;
    let mut count = 0;
    while let Some(statement) = splitter.next_statement() {
        count += 1;
        last = Some(statement.line);
    }
    assert_eq!((count, last), (100_000, Some(100_000)));
}

/// Text that is rich in what the splitter looks for.
fn script() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        3 => Just(";"), 2 => Just("'"), 1 => Just("\""), 1 => Just("`"), 1 => Just("E'"), 1 => Just("\\"), 1 => Just("--"), 1 => Just("-"),
        1 => Just("/*"), 1 => Just("*/"), 1 => Just("/"), 1 => Just("*"), 2 => Just("$"), 1 => Just("$a$"), 1 => Just("$ab$"), 1 => Just("a"),
        1 => Just("b"), 1 => Just("1"), 1 => Just("ü"), 2 => Just(" "), 2 => Just("\n"),
    ];
    proptest::collection::vec(token, 0..60).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn pieces_make_no_difference(script in script(), cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12)) {
        let boundaries: Vec<usize> = script.char_indices().map(|(at, _)| at).chain([script.len()]).collect();
        let mut at: Vec<usize> = cuts.iter().map(|cut| *cut.get(&boundaries)).collect();
        at.push(script.len());
        at.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for to in at {
            pieces.push(&script[from..to]);
            from = to;
        }
        prop_assert_eq!(split_pieces(pieces), split(&script));
    }

    #[test]
    fn what_was_joined_is_split_again(bodies in proptest::collection::vec("[a-z][a-z ]{0,8}[a-z]", 1..6)) {
        let joined = bodies.iter().map(|body| format!("{body} ';' -- ;\n + 1 ;\n")).collect::<String>();
        let expected = bodies.iter().enumerate().map(|(at, body)| format!("{}:{body} ';' -- ;\n + 1", 2 * at + 1)).collect::<Vec<_>>();
        prop_assert_eq!(split(&joined), expected);
    }
}
