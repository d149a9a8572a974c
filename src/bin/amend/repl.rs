//! The shell at a terminal: a prompt, editing with history, statements over several lines, a few commands.
//!
//! Goes in: lines. Comes out: printed answers. Always holds: an error ends a statement, never the shell; Ctrl-C gives up what was
//! typed so far and Ctrl-D ends the shell.

use crate::shell::Shell;
use amend::Error;
use amend::statement::split::Splitter;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use std::ffi::OsString;
use std::io::{Result, Write};
use std::path::PathBuf;
use std::time::Instant;

const HELP: &str = r"Statements end with a semicolon and may take several lines.
  \d          the tables
  \d TABLE    the columns of a table
  \timing     whether to print how long each statement took
  \?          this help
  \q          the end (also quit, exit, Ctrl-D)";

/// Reads and runs statements until the end is wanted.
pub fn run<A: Write, E: Write>(shell: Shell<A, E>) -> Result<()> {
    let mut editor = DefaultEditor::new().map_err(std::io::Error::other)?;
    let history = history_file(|name| std::env::var_os(name));
    if let Some(file) = &history {
        // A shell without a history, for example the first one, is still a shell.
        let _ = file.parent().map(std::fs::create_dir_all);
        let _ = editor.load_history(file);
    }
    let mut repl = Repl { shell, editor, history, timing: true };
    repl.run()
}

struct Repl<A, E> {
    shell: Shell<A, E>,
    editor: DefaultEditor,
    history: Option<PathBuf>,
    timing: bool,
}

/// What a line at the first prompt asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    /// Part of a statement.
    Sql,
    /// A statement that stands behind a command.
    Run(String),
    Timing,
    Help,
    Quit,
    Unknown,
}

impl<A: Write, E: Write> Repl<A, E> {
    fn run(&mut self) -> Result<()> {
        let mut splitter = Splitter::new();
        let mut typed = String::new();
        loop {
            let prompt = match (splitter.in_statement(), self.shell.in_transaction()) {
                (true, _) => "  ...> ",
                (false, true) => "amend*> ",
                (false, false) => "amend> ",
            };
            let line = match self.editor.readline(prompt) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => {
                    splitter = Splitter::new();
                    typed.clear();
                    continue;
                }
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(std::io::Error::other(error)),
            };
            let asked = if splitter.in_statement() { Line::Sql } else { command(&line) };
            match asked {
                Line::Sql => {
                    typed.push_str(&line);
                    splitter.push(&line);
                    splitter.push("\n");
                    while let Some(statement) = splitter.next_statement() {
                        self.execute(&statement.text)?;
                    }
                    if splitter.in_statement() {
                        typed.push('\n');
                        continue;
                    }
                    self.remember(&typed);
                    typed.clear();
                }
                Line::Quit => return Ok(()),
                command => {
                    self.remember(&line);
                    self.obey(command)?;
                }
            }
        }
    }

    fn obey(&mut self, command: Line) -> Result<()> {
        match command {
            Line::Run(sql) => self.execute(&sql),
            Line::Help => self.shell.printer.message(HELP),
            Line::Timing => {
                self.timing = !self.timing;
                self.shell.printer.message(if self.timing { "Timing is on." } else { "Timing is off." })
            }
            Line::Sql | Line::Quit | Line::Unknown => {
                self.shell.printer.error(&Error::invalid(r"there is no such command; \? lists the commands"), None)
            }
        }
    }

    fn execute(&mut self, sql: &str) -> Result<()> {
        let start = Instant::now();
        match self.shell.execute(sql) {
            Ok(outcome) => self.shell.printer.outcome(&outcome)?,
            Err(error) => self.shell.error(&error, sql, None)?,
        }
        if self.timing { self.shell.printer.message(&format!("Time: {} ms", start.elapsed().as_millis())) } else { Ok(()) }
    }

    fn remember(&mut self, typed: &str) {
        if typed.trim().is_empty() {
            return;
        }
        // What cannot be remembered can be typed again.
        let _ = self.editor.add_history_entry(typed);
        if let Some(file) = &self.history {
            let _ = self.editor.append_history(file);
        }
    }
}

fn command(line: &str) -> Line {
    let line = line.trim();
    let words = line.trim_end_matches(';').split_whitespace().collect::<Vec<_>>();
    match words.as_slice() {
        [r"\q" | ".quit" | ".exit" | "quit" | "exit"] => Line::Quit,
        [r"\?" | ".help" | "help"] => Line::Help,
        [r"\timing"] => Line::Timing,
        [r"\d"] => Line::Run("SHOW TABLES".to_owned()),
        [r"\d", table] => Line::Run(format!("DESCRIBE {table}")),
        _ if line.starts_with(['\\', '.']) => Line::Unknown,
        _ => Line::Sql,
    }
}

/// The file that keeps the history, by the rules of XDG.
fn history_file(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("amend/history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_commands_are_told_from_sql() {
        for line in [r"\q", " quit ", "exit;", ".quit"] {
            assert_eq!(command(line), Line::Quit, "{line:?}");
        }
        assert_eq!(command(r"\d"), Line::Run("SHOW TABLES".to_owned()));
        assert_eq!(command(r"\d people;"), Line::Run("DESCRIBE people".to_owned()));
        assert_eq!(command(r"\timing"), Line::Timing);
        assert_eq!(command(r"\?"), Line::Help);
        assert_eq!(command(r"\x 1"), Line::Unknown);
        for line in ["", "SELECT 1;", "quit the job", "-- \\q"] {
            assert_eq!(command(line), Line::Sql, "{line:?}");
        }
    }

    #[test]
    fn the_history_is_where_xdg_wants_it() {
        let file = |state: Option<&str>, home: Option<&str>| {
            history_file(|name| if name == "HOME" { home.map(Into::into) } else { state.map(Into::into) })
        };
        assert_eq!(file(Some("/s"), Some("/h")), Some(PathBuf::from("/s/amend/history")));
        assert_eq!(file(None, Some("/h")), Some(PathBuf::from("/h/.local/state/amend/history")));
        assert_eq!(file(Some(""), Some("/h")), Some(PathBuf::from("/h/.local/state/amend/history")));
        assert_eq!(file(None, None), None);
    }
}
