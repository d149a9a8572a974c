//! Tests of DuckDB's format.

use super::*;
use sqllogictest::{Connection, QueryExpect, Record, StatementExpect};

/// Every step as `line connection SQL => expected`, or as the reason why it is left out.
fn steps(text: &str) -> Vec<String> {
    let mut steps = Vec::new();
    parse(text, "f", &mut steps).unwrap();
    let told = |step: Step| match step {
        Step::Run(Record::Statement { loc, connection, sql, expected, .. }) => {
            let expected = if expected == StatementExpect::Ok { "ok" } else { "error" };
            format!("{} {}{sql} => {expected}", loc.line(), named(&connection))
        }
        Step::Run(Record::Query { loc, connection, sql, expected: QueryExpect::Results { results, .. }, .. }) => {
            format!("{} {}{sql} => {}", loc.line(), named(&connection), results.join("|"))
        }
        other => format!("{other:?}"),
    };
    steps.into_iter().map(told).collect()
}

fn named(connection: &Connection) -> String {
    match connection {
        Connection::Default => String::new(),
        Connection::Named(name) => format!("{name}: "),
    }
}

#[test]
fn records_keep_their_lines_and_connections() {
    let text = "# name: x\n\nstatement ok con1\nBEGIN\n\nquery II rowsort\nSELECT\n1, 2\n----\n2\t1\n1\t2\n\nstatement error\nx\n----\ntheir text\n";
    assert_eq!(steps(text), ["3 con1: BEGIN => ok", "6 SELECT\n1, 2 => 1\t2|2\t1", "13 x => error"]);
}

#[test]
fn loops_are_written_out() {
    let text = "loop i 0 2\n\nforeach v a b\n\nskipif i=1\nstatement ok\n${v}${i}\n\nendloop\n\nendloop\n\nstatement ok\nend\n";
    assert_eq!(steps(text), ["6 a0 => ok", "6 b0 => ok", "13 end => ok"]);
    let mut none = Vec::new();
    assert_eq!(parse("\nloop i 0 2\n", "f", &mut none).unwrap_err().to_string(), "f:2: a loop without an end");
}

#[test]
fn what_is_left_out_is_told() {
    let text = "test-env X 7\n\nstatement maybe\nx\n\nmode skip\n\nstatement ok\nx\n\nmode unskip\n\nconcurrentloop i 0 9\n\n\
                statement ok\nx\n\nendloop\n\nstatement ok\n{X}\n\nrequire icu\n\nstatement ok\nx\n";
    let expected =
        ["Skip(\"statement maybe\")", "Skip(\"mode skip\")", "Skip(\"a loop of threads\")", "20 7 => ok", "Skip(\"require icu\")"];
    assert_eq!(steps(text), expected);
}
