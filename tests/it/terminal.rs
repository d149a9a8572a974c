//! The shell at a terminal: commands, completion, and Ctrl-C while a statement runs.

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Long enough for a slow machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A shell with a terminal, and all that it has said there.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
    /// How much of it was looked at.
    seen: usize,
}

impl Terminal {
    fn open(lake: &TempDir) -> Terminal {
        let size = Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_amend"));
        command.current_dir(lake.path()).env("HOME", lake.path()).env("TERM", "xterm").env_remove("XDG_STATE_HOME").env_remove("AMEND_LOG");
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        drop(pty.slave);
        let screen = Arc::new(Mutex::new(String::new()));
        let (mut reader, written) = (File::from(pty.master.try_clone().unwrap()), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                written.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..length]));
            }
        });
        let mut terminal = Terminal { child, keyboard: File::from(pty.master), screen, seen: 0 };
        terminal.wait_for("amend> ");
        terminal
    }

    fn types(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until something new is on the screen. What came before it.
    fn wait_for(&mut self, text: &str) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen.lock().unwrap().clone();
            if let Some(at) = screen[self.seen..].find(text) {
                let before = screen[self.seen..self.seen + at].to_owned();
                self.seen += at + text.len();
                return before;
            }
            assert!(start.elapsed() < TIMEOUT, "waiting for {text:?}, found {:?}", &screen[self.seen..]);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Says a line and gives what is answered until the next prompt.
    fn ask(&mut self, line: &str) -> String {
        self.types(&format!("{line}\r"));
        // The line itself, as it is typed.
        self.wait_for("\n");
        let answer = self.wait_for("amend");
        self.wait_for("> ");
        answer
    }

    fn interrupt(&self) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGINT).unwrap();
    }

    fn end(mut self) {
        self.types("\\q\r");
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn commands_describe_what_there_is() {
    let lake = TempDir::new().unwrap();
    let mut shell = Terminal::open(&lake);
    shell.ask("CREATE SCHEMA s;");
    shell.ask("CREATE TABLE s.t (a INT PRIMARY KEY, b VARCHAR DEFAULT 'x', CHECK (a > 0));");
    shell.ask("CREATE VIEW v AS SELECT a FROM s.t;");
    let all = shell.ask(r"\d");
    assert!(all.contains("| s            | t          | BASE TABLE |") && all.contains("| v          | VIEW "), "{all}");
    let tables = shell.ask(r"\dt");
    assert!(tables.contains("| s      | t     |") && !tables.contains("| v "), "{tables}");
    let views = shell.ask(r"\dv");
    assert!(views.contains("| public | v    |") && !views.contains("| t "), "{views}");
    assert!(shell.ask(r"\dn").contains("| s "));
    let table = shell.ask(r"\d S.t");
    for line in ["| a           | Int32     | NO          |", "PRIMARY KEY (a)", "CHECK (a > 0)", "| DEFAULT "] {
        assert!(table.contains(line), "{line}: {table}");
    }
    let view = shell.ask(r"\d v;");
    assert!(view.contains("| a           | Int32 ") && view.contains("CREATE VIEW v AS SELECT a FROM s.t"), "{view}");
    assert!(shell.ask(r"\d nothing").contains("42P01"));
    assert!(shell.ask(r"\x").contains("there is no such command"));
    assert!(shell.ask(r"\?").contains("Ctrl-C cancels a statement"));
    shell.end();
}

#[test]
fn what_is_described_may_have_its_whole_name_and_may_be_mistyped() {
    let lake = TempDir::new().unwrap();
    let mut shell = Terminal::open(&lake);
    shell.ask("CREATE TABLE t (a INT PRIMARY KEY);");
    shell.ask("CREATE TABLE \"\u{e4}\" (a INT UNIQUE);");
    for name in ["datafusion.public.t", "public.T", "DataFusion.\"public\".t"] {
        let table = shell.ask(&format!(r"\d {name}"));
        assert!(table.contains("PRIMARY KEY (a)"), "{name}: {table}");
    }
    assert!(shell.ask("\\d \u{e4}").contains("UNIQUE (a)"));
    shell.ask("BEGIN;");
    shell.ask("INSERT INTO t VALUES (1);");
    for name in ["u", "s.t", "other.public.t", "t u", "a.b.c.d", "\"t", "\u{c4}"] {
        let answer = shell.ask(&format!(r"\d {name}"));
        assert!(answer.contains("SQLSTATE 42") || answer.contains("SQLSTATE 3F000"), "{name}: {answer}");
    }
    assert!(shell.ask(r"\d t").contains("PRIMARY KEY (a)"));
    assert!(shell.ask("COMMIT;").contains("COMMIT"));
    assert!(shell.ask("SELECT count(*) AS n FROM t;").contains("| 1 |"));
    shell.end();
}

#[test]
fn tab_completes_keywords_tables_and_columns() {
    let lake = TempDir::new().unwrap();
    let mut shell = Terminal::open(&lake);
    shell.ask("CREATE TABLE warehouses (street_name VARCHAR);");
    shell.ask("INSERT INTO warehouses VALUES ('Long Street');");
    shell.types("sel\t");
    shell.wait_for("select");
    shell.types(" street_name from wareh\t");
    shell.wait_for("warehouses");
    shell.types(" where stre\t");
    shell.wait_for("street_name");
    assert!(shell.ask(" is not null;").contains("Long Street"));
    shell.end();
}

#[test]
fn ctrl_c_ends_a_statement_and_not_the_shell() {
    let lake = TempDir::new().unwrap();
    let mut shell = Terminal::open(&lake);
    shell.ask("CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 1000) AS g (value);");
    // Far longer than anybody waits. Its progress is shown meanwhile.
    let long = "SELECT count(*) AS n FROM generate_series(1, 1000000000000) AS g (v) WHERE v % 7 = 8;";
    shell.types(&format!("{long}\r"));
    shell.wait_for(" rows");
    shell.interrupt();
    shell.wait_for("cancelled: no table was changed (SQLSTATE 57014)");
    shell.wait_for("amend> ");
    assert!(shell.ask("SELECT count(*) AS n FROM t;").contains("| 1000 |"));
    // One that would change the table.
    let (update, progress) = (format!("UPDATE t SET a = ({});", long.trim_end_matches(';')), " s");
    shell.types(&format!("{update}\r"));
    shell.wait_for(progress);
    shell.interrupt();
    shell.wait_for("cancelled: no table was changed (SQLSTATE 57014)");
    shell.wait_for("amend> ");
    assert!(shell.ask("SELECT max(version) AS v FROM table_history('t');").contains("| 1 |"));
    // In a transaction.
    shell.ask("BEGIN;");
    shell.ask("DELETE FROM t WHERE a = 1;");
    shell.types(&format!("{long}\r"));
    shell.wait_for(" rows");
    shell.interrupt();
    shell.wait_for("the transaction can only be rolled back");
    shell.wait_for("amend*> ");
    assert!(shell.ask("COMMIT;").contains("25P02"));
    assert!(shell.ask("SELECT count(*) AS n FROM t;").contains("| 1000 |"));
    // What was typed is given up by Ctrl-C too, as a key.
    shell.types("SELECT 'not this");
    shell.types("\x03");
    shell.wait_for("amend> ");
    assert!(shell.ask("SELECT 1 + 1 AS two;").contains("| 2   |"));
    shell.end();
}
