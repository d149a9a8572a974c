//! Tests of rules and lists.

use super::*;

#[test]
fn rules_rewrite_one_after_another() {
    let rules = Rules::parse("# types\n\n(?i)\\bTEXT\\b => VARCHAR\nVARCHAR\\((\\d+)\\)=>CHAR($1)\n-- .* =>\n", "r").unwrap();
    assert_eq!(rules.apply("a text, b TEXT(3) -- bye"), "a VARCHAR, b CHAR(3) ");
    assert_eq!(Rules::default().apply("a text"), "a text");
}

#[test]
fn a_rule_that_cannot_be_read_is_named() {
    let error = Rules::parse("a => b\n\nno arrow", "suite.rules").unwrap_err();
    assert_eq!(error.to_string(), "suite.rules:3: a rule reads 'regex => replacement'");
    assert!(Rules::parse("( => b", "suite.rules").unwrap_err().to_string().starts_with("suite.rules:1: regex parse error"));
    assert!(Skips::parse("only/a/path.slt", "s").unwrap_err().to_string().starts_with("s:1: an entry reads"));
}

#[test]
fn a_skip_gives_its_reason() {
    let skips = Skips::parse("# no\nspill/*.slt\tneeds a disk quota\njoin  x.slt  two blanks\n**/old/**  old\n", "s").unwrap();
    assert_eq!(skips.reason("/suite/spill/a.slt"), Some("needs a disk quota"));
    assert_eq!(skips.reason("spill/a.slt"), Some("needs a disk quota"));
    assert_eq!(skips.reason("spill/deep/a.slt"), None);
    assert_eq!(skips.reason("nospill/a.slt"), None);
    assert_eq!(skips.reason("a/old/b/c.slt"), Some("old"));
    assert_eq!(skips.reason("join"), Some("x.slt  two blanks"));
}

#[test]
fn a_missing_list_is_an_error() {
    assert!(Rules::read(Path::new("no/such.rules")).unwrap_err().to_string().starts_with("cannot read 'no/such.rules': "));
}

#[test]
fn rules_of_all_kinds() {
    let rules = "dialect: duckdb\nsetup: SET a.b = 1\ntext: (?m)^require x$ =>\nanswer: /tmp/[a-z]+ => DIR\na => b\n";
    let rules = Rules::parse(rules, "r").unwrap();
    assert_eq!(rules.dialect, Dialect::DuckDb);
    assert_eq!(rules.setup, ["SET a.b = 1"]);
    assert_eq!(rules.apply_to_text("a\nrequire x\nrequire xy\n"), "a\n\nrequire xy\n");
    assert_eq!(rules.apply_to_answer("a /tmp/abc/f".to_owned()), "a DIR/f");
    assert_eq!(rules.apply("a"), "b");
    let error = Rules::parse("dialect: mysql", "r").unwrap_err();
    assert_eq!(error.to_string(), "r:1: 'mysql' is no dialect: plain, loose, sqlite or duckdb");
}

#[test]
fn an_entry_names_a_file_lines_or_a_text() {
    let skips = "a.slt:3  one line\nb.slt:1,5-7  lines\nc/*.slt  /(?i)^explain .*/  plans of others\nd.slt  /a  b//x/  two blanks\n";
    let skips = Skips::parse(skips, "s").unwrap();
    let of = |file, line, text| skips.reason_of(Place { file, holder: file, line, text });
    assert_eq!(of("x/a.slt", 3, ""), Some("one line"));
    assert_eq!(of("x/a.slt", 4, ""), None);
    assert_eq!(of("b.slt", 7, ""), Some("lines"));
    assert_eq!(of("b.slt", 1, ""), Some("lines"));
    assert_eq!(of("b.slt", 8, ""), None);
    assert_eq!(of("c/e.slt", 1, "EXPLAIN SELECT 1"), Some("plans of others"));
    assert_eq!(of("c/e.slt", 1, "SELECT 1"), None);
    assert_eq!(skips.reason("a.slt"), None);
    assert_eq!(skips.unused().collect::<Vec<_>>(), ["d.slt  /a  b//x/  two blanks"]);
    // A line is one of the file that holds the record, a text may be named by the file that includes it.
    let included = |line, text| skips.reason_of(Place { file: "c/a.slt", holder: "c/a.part", line, text });
    assert_eq!(included(3, ""), None);
    assert_eq!(included(3, "explain 1"), Some("plans of others"));
    for wrong in ["a.slt:x  reason", "a.slt:1-  reason", "a.slt  /(/  reason", "a.slt  /a/", "a.slt  /a/reason", "a.slt"] {
        assert!(Skips::parse(wrong, "s").unwrap_err().to_string().starts_with("s:1: "), "{wrong}");
    }
}
