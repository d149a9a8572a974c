//! The shell as a process: the line protocol on a pipe, scripts and their exit status, `amend slt`.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// Long enough for a slow machine; a shell that waits for the end of its input would wait for ever.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

fn amend(lake: &TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_amend"));
    command.current_dir(lake.path()).env_remove("AMEND_LOG");
    command
}

fn run(lake: &TempDir, arguments: &[&str]) -> Output {
    amend(lake).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A shell at the other end of a pipe.
pub struct Pipe {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Pipe {
    /// A shell on the lake in the folder `lake` of this one.
    pub fn open(lake: &TempDir) -> Pipe {
        let mut command = amend(lake);
        command.args(["--format", "jsonl"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Pipe { input: child.stdin.take(), child, lines }
    }

    pub fn send(&mut self, text: impl AsRef<[u8]>) {
        let input = self.input.as_mut().unwrap();
        input.write_all(text.as_ref()).unwrap();
        input.flush().unwrap();
    }

    /// The next line.
    fn answer(&self) -> Value {
        serde_json::from_str(&self.lines.recv_timeout(ANSWER_TIMEOUT).unwrap()).unwrap()
    }

    pub fn ask(&mut self, text: impl AsRef<[u8]>) -> Value {
        self.send(text);
        self.answer()
    }

    /// Ends the input: the lines that are left, and the exit status.
    pub fn end(mut self) -> (Vec<String>, Option<i32>) {
        drop(self.input.take());
        let left = self.lines.iter().collect();
        (left, self.child.wait().unwrap().code())
    }

    /// Kills the process: the lines that it had said.
    pub fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines.iter().collect()
    }
}

#[test]
fn each_statement_is_answered_before_the_next_one_is_sent() {
    let lake = TempDir::new().unwrap();
    let mut pipe = Pipe::open(&lake);
    let rows = json!({"ok": true, "columns": ["a", "b"], "rows": [[1, "x;y"], [2, null]]});
    assert_eq!(pipe.ask("SELECT * FROM (VALUES (1, 'x;y'), (2, NULL)) AS v (a, b) ORDER BY a;"), rows);
    pipe.send("SELECT\n  3 ");
    pipe.send("AS c -- not yet;\n");
    assert_eq!(pipe.ask(";"), json!({"ok": true, "columns": ["c"], "rows": [[3]]}));
    pipe.send("SELECT 4 AS d; SELECT 5 AS e;\n-- six\nSELECT 6 AS f");
    assert_eq!(pipe.answer()["rows"], json!([[4]]));
    assert_eq!(pipe.answer()["rows"], json!([[5]]));
    let (left, code) = pipe.end();
    assert_eq!(left, [r#"{"ok":true,"columns":["f"],"rows":[[6]]}"#]);
    assert_eq!(code, Some(0));
}

#[test]
fn an_error_is_an_answer_and_not_an_end() {
    let lake = TempDir::new().unwrap();
    let mut pipe = Pipe::open(&lake);
    let answer = pipe.ask("SELEKT 1;");
    assert_eq!(answer["ok"], json!(false));
    assert_eq!(answer["error"]["kind"], json!("invalid"));
    assert_eq!(answer["error"]["sqlstate"].as_str().map(str::len), Some(5));
    assert!(!answer["error"]["message"].as_str().unwrap().is_empty());
    assert_eq!((&answer["error"]["statement"], &answer["error"]["position"]), (&json!("SELEKT 1"), &json!({"line": 1, "column": 1})));
    let answer = pipe.ask("CREATE TABLE t (a INT); SELECT a\n  FROM t WHERE b = 1;");
    assert_eq!(answer["ok"], json!(true));
    let error = pipe.answer()["error"].clone();
    assert_eq!((&error["sqlstate"], &error["position"]), (&json!("42703"), &json!({"line": 2, "column": 16})));
    let mut damaged = json!({"kind": "invalid", "sqlstate": "42601", "message": "the statement is not valid UTF-8"});
    damaged["statement"] = json!("SELECT '\u{fffd}'");
    assert_eq!(pipe.ask(b"SELECT '\xff';"), json!({"ok": false, "error": damaged}));
    assert_eq!(pipe.ask("SELECT 1 AS a;")["rows"], json!([[1]]));
    assert_eq!(pipe.end(), (vec![], Some(0)));
}

#[test]
fn changes_are_counted() {
    let lake = TempDir::new().unwrap();
    let mut pipe = Pipe::open(&lake);
    assert_eq!(pipe.ask("CREATE TABLE t (a BIGINT, b VARCHAR);")["ok"], json!(true));
    let inserted = pipe.ask("INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z');");
    assert_eq!((&inserted["ok"], &inserted["count"]), (&json!(true), &json!(3)));
    let updated = pipe.ask("UPDATE t SET b = 'w' WHERE a > 1;");
    assert_eq!((&updated["ok"], &updated["count"]), (&json!(true), &json!(2)));
    for fact in ["version", "attempts", "rebased_over", "rows_carried", "reran"] {
        assert!(updated.get(fact).is_some(), "{fact}");
    }
    assert_eq!(pipe.ask("SELECT a, b FROM t ORDER BY a;")["rows"], json!([[1, "x"], [2, "w"], [3, "w"]]));
    assert_eq!(pipe.end(), (vec![], Some(0)));
}

#[test]
fn tables_of_others_are_shown() {
    let lake = TempDir::new().unwrap();
    let names = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY table_name;";
    let mut first = Pipe::open(&lake);
    assert_eq!(first.ask("CREATE TABLE a (k BIGINT);")["ok"], json!(true));
    let mut second = Pipe::open(&lake);
    assert_eq!(second.ask(names)["rows"], json!([["a"]]));
    assert_eq!(first.ask("CREATE TABLE b (k BIGINT);")["ok"], json!(true));
    assert_eq!(second.ask(names)["rows"], json!([["a"], ["b"]]));
    assert_eq!(first.ask("DROP TABLE a;")["ok"], json!(true));
    let shown = second.ask("SHOW TABLES;")["rows"].to_string();
    assert!(shown.contains("\"b\"") && !shown.contains("\"a\""), "{shown}");
    assert_eq!(second.ask("CREATE VIEW b AS SELECT 1 AS one;")["ok"], json!(false));
    assert_eq!((first.end(), second.end()), ((vec![], Some(0)), (vec![], Some(0))));
}

#[test]
fn one_long_line_is_one_statement() {
    let lake = TempDir::new().unwrap();
    let mut pipe = Pipe::open(&lake);
    let answer = pipe.ask(format!("SELECT length('{}') AS n;\n", "ü".repeat(1_000_000)));
    assert_eq!(answer["rows"], json!([[1_000_000]]));
    assert_eq!(pipe.end(), (vec![], Some(0)));
}

#[test]
fn long_chains_of_operators_and_of_views_have_a_stack_that_is_large_enough() {
    let lake = TempDir::new().unwrap();
    let mut pipe = Pipe::open(&lake);
    assert_eq!(pipe.ask("CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 10);")["ok"], json!(true));
    for operator in ["AND", "OR"] {
        let terms = (0..2000).map(|n| format!("a <> {}", n + 100)).collect::<Vec<_>>().join(&format!(" {operator} "));
        assert_eq!(pipe.ask(format!("SELECT count(*) AS n FROM t WHERE {terms};"))["rows"], json!([[10]]), "{operator}");
    }
    for level in 1..=32 {
        let below = if level == 1 { "t".to_owned() } else { format!("v{}", level - 1) };
        let made = pipe.ask(format!("CREATE VIEW v{level} AS SELECT a FROM {below} WHERE a <> {level};"));
        assert_eq!(made["ok"], json!(true), "{made}");
    }
    assert_eq!(pipe.ask("SELECT count(*) AS n FROM v32;")["rows"], json!([[0]]));
    assert_eq!(pipe.ask("CREATE VIEW v33 AS SELECT a FROM v32;")["error"]["sqlstate"], json!("42P17"));
    assert_eq!(pipe.end(), (vec![], Some(0)));
}

#[test]
fn scripts_stop_at_the_first_error_and_name_the_statement() {
    let lake = TempDir::new().unwrap();
    let output = run(&lake, &["-c", "SELECT 1 AS a; SELEKT 2; SELECT 3 AS c", "-c", "SELECT 4 AS d"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "+---+\n| a |\n+---+\n| 1 |\n+---+\n(1 row)\n");
    let errors = stderr(&output);
    assert!(errors.starts_with("error: ") && errors.contains(" (SQLSTATE "), "{errors}");
    assert!(errors.ends_with("\n-c:1: SELEKT 2\n"), "{errors}");
}

#[test]
fn files_name_the_line_and_keep_going_goes_on() {
    let lake = TempDir::new().unwrap();
    std::fs::write(lake.path().join("x.sql"), "SELECT 1 AS a;\n\n-- two\nSELEKT\n  2;\nSELECT 3 AS c\n").unwrap();
    let output = run(&lake, &["--format", "csv", "--keep-going", "x.sql", "-c", "SELECT 4 AS d", "missing.sql"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "a\n1\nc\n3\nd\n4\n");
    let errors = stderr(&output);
    assert!(errors.contains("\nx.sql:4: SELEKT 2\n"), "{errors}");
    assert!(errors.contains("error: cannot read 'missing.sql': "), "{errors}");
    let output = run(&lake, &["--format", "csv", "x.sql", "-c", "SELECT 4 AS d"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), "a\n1\n"));
}

#[test]
fn a_script_without_errors_ends_well() {
    let lake = TempDir::new().unwrap();
    let output = run(&lake, &["--format", "json", "-c", "SELECT 1 AS a UNION ALL SELECT 2 ORDER BY a"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert_eq!(stdout(&output), "[{\"a\":1},\n{\"a\":2}]\n");
}

#[test]
fn nobody_at_the_other_end_is_no_error() {
    let lake = TempDir::new().unwrap();
    let mut command = amend(&lake);
    command.args(["-c", "SELECT * FROM generate_series(1, 200000)"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn slt_files_are_run_and_counted() {
    let lake = TempDir::new().unwrap();
    std::fs::write(lake.path().join("good.slt"), "query I\nSELECT 1\n----\n1\n\nskipif amend\nstatement ok\nnonsense\n").unwrap();
    let output = run(&lake, &["slt", "--memory", "*.slt"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let expected = "ok   good.slt: 2 records, 1 passed, 0 failed, 1 skipped\n\n1 files, 0 failed\n\
                    2 records: 1 passed, 0 failed, 1 skipped\n  skipped 1: skipif amend\n";
    assert_eq!(stdout(&output), expected);

    std::fs::write(lake.path().join("bad.slt"), "query I\nSELECT one\n----\n2\n").unwrap();
    std::fs::write(lake.path().join("rules"), "\\bone\\b => 1\n").unwrap();
    let output = run(&lake, &["slt", "--memory", "--rules", "rules", "*.slt"]);
    assert_eq!(output.status.code(), Some(1));
    let out = stdout(&output);
    assert!(out.contains("FAIL bad.slt: 1 records, 0 passed, 1 failed, 0 skipped\n     query result mismatch:\n"), "{out}");
    assert!(out.contains("     [SQL] SELECT 1\n") && out.contains("     at bad.slt:1\n"), "{out}");

    std::fs::write(lake.path().join("skips"), "bad.slt  a known fault\n").unwrap();
    let output = run(&lake, &["slt", "--memory", "--skip", "skips", "*.slt"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("  skipped 1: a known fault\n"));
    let output = run(&lake, &["slt", "none/*.slt"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), "error: no file matches 'none/*.slt' (SQLSTATE 42601)\n"));
}
