//! The shell at a terminal: a prompt, editing with history, statements over several lines, a few commands.
//!
//! Goes in: lines. Comes out: printed answers. Always holds: an error ends a statement, never the shell; Ctrl-C gives up what was
//! typed so far, or the statement that runs, and Ctrl-D ends the shell.

use crate::complete::{SessionNames, Words, named};
use crate::shell::Shell;
use amend::statement::split::Splitter;
use amend::{Error, Outcome, Session, TableName};
use datafusion::common::config::CatalogOptions;
use datafusion::common::{ResolvedTableReference, TableReference};
use datafusion::logical_expr::TableType;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use std::ffi::OsString;
use std::io::{Result, Write};
use std::path::PathBuf;
use std::time::Instant;

const HELP: &str = r"Statements end with a semicolon and may take several lines.
  \d          the tables and views
  \d TABLE    the columns of a table, its keys and other constraints; the columns of a view, and its query
  \dt         the tables
  \dv         the views
  \dn         the schemas
  \timing     whether to print how long each statement took
  \?          this help
  \q          the end (also quit, exit, Ctrl-D)
Tab completes keywords, tables and columns. Ctrl-C cancels a statement.";

/// The tables, or the views, that are not the information schema's.
const TABLES: &str = "SELECT table_schema AS schema, table_name AS \"table\" FROM information_schema.tables \
                      WHERE table_type = 'BASE TABLE' AND table_schema <> 'information_schema' ORDER BY 1, 2";
const VIEWS: &str = "SELECT table_schema AS schema, table_name AS view FROM information_schema.tables \
                     WHERE table_type = 'VIEW' AND table_schema <> 'information_schema' ORDER BY 1, 2";

/// Reads and runs statements until the end is wanted.
pub fn run<A: Write, E: Write>(mut shell: Shell<A, E>) -> Result<()> {
    let config = Config::builder().completion_type(CompletionType::List).build();
    let mut editor = Editor::with_config(config).map_err(std::io::Error::other)?;
    let session = shell.session();
    let names = SessionNames { lake: session.lake().clone(), ctx: session.context().clone(), runtime: shell.runtime().clone() };
    editor.set_helper(Some(Words::new(names)));
    shell.catch_interrupts()?;
    let history = history_file(|name| std::env::var_os(name));
    if let Some(file) = &history {
        // A shell without a history, for example the first one, is still a shell.
        let _ = file.parent().map(std::fs::create_dir_all);
        let _ = editor.load_history(file);
    }
    let mut repl = Repl { shell, editor, history, timing: true };
    let ended = repl.run();
    repl.shell.close();
    ended
}

struct Repl<A, E> {
    shell: Shell<A, E>,
    editor: Editor<Words<SessionNames>, FileHistory>,
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
    /// A table that is to be described.
    Describe(String),
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
            if let Some(words) = self.editor.helper_mut() {
                words.typed.clone_from(&typed);
            }
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
            Line::Describe(table) => self.describe(&table),
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

    /// What is known of a table or a view.
    fn describe(&mut self, table: &str) -> Result<()> {
        let session = self.shell.session();
        let options = session.context().state_ref().read().config_options().clone();
        // No statement of the session, so that a name that was mistyped fails no transaction.
        let there = named(table, &options).and_then(|name| self.shell.runtime().block_on(there(session, &name)).map(|()| name));
        let found = match there {
            Ok(found) => found,
            Err(error) => return self.shell.printer.error(&error, None),
        };
        match self.shell.execute(&format!("DESCRIBE {table}")) {
            Ok(columns) => self.shell.printer.outcome(&columns)?,
            Err(error) => return self.shell.printer.error(&error, None),
        }
        let name = TableName::new(&*found.schema, &*found.table);
        let more = match self.shell.runtime().block_on(self.shell.session().lake().find(&name)) {
            Ok(Some(_)) if is_of_the_lake(&found) => {
                format!("SELECT name, type, definition FROM table_constraints({})", text(&quoted(&name)))
            }
            // A view, or nothing.
            _ => format!(
                "SELECT definition FROM information_schema.views WHERE table_schema = {} AND table_name = {} AND definition IS NOT NULL",
                text(&name.namespace),
                text(&name.name)
            ),
        };
        match self.shell.execute(&more) {
            Ok(Outcome::Rows(rows)) if rows.batches.iter().any(|batch| batch.num_rows() > 0) => {
                self.shell.printer.outcome(&Outcome::Rows(rows))
            }
            Ok(_) => Ok(()),
            Err(error) => self.shell.printer.error(&error, None),
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

/// Whether there is a table or a view of that name, which can be read.
async fn there(session: &Session, name: &ResolvedTableReference) -> amend::Result<()> {
    let state = session.context().state();
    let found = match state.schema_for_ref(name.clone()) {
        Ok(schema) => schema.table(&name.table).await?,
        Err(_) => None,
    };
    match found {
        // A view that cannot be read is one without columns, and says why when it is read.
        Some(view) if view.table_type() == TableType::View && view.schema().fields().is_empty() => {
            view.scan(&state, None, &[], None).await?;
        }
        Some(_) => {}
        None if is_of_the_lake(name) => {
            session.lake().table(TableName::new(&*name.schema, &*name.table)).await?;
        }
        None => return Err(Error::UnknownTable { table: TableReference::from(name.clone()).to_string(), nearest: None }),
    }
    Ok(())
}

/// Whether what has that name may be the lake's, which is in the catalog that a session has by itself.
fn is_of_the_lake(name: &ResolvedTableReference) -> bool {
    *name.catalog == *CatalogOptions::default().default_catalog
}

fn command(line: &str) -> Line {
    let line = line.trim();
    let words = line.trim_end_matches(';').split_whitespace().collect::<Vec<_>>();
    match words.as_slice() {
        [r"\q" | ".quit" | ".exit" | "quit" | "exit"] => Line::Quit,
        [r"\?" | ".help" | "help"] => Line::Help,
        [r"\timing"] => Line::Timing,
        [r"\d"] => Line::Run("SHOW TABLES".to_owned()),
        [r"\d", ..] => Line::Describe(line.trim_end_matches(';').trim_start_matches(r"\d").trim().to_owned()),
        [r"\dt"] => Line::Run(TABLES.to_owned()),
        [r"\dv"] => Line::Run(VIEWS.to_owned()),
        [r"\dn"] => Line::Run("SHOW SCHEMAS".to_owned()),
        _ if line.starts_with(['\\', '.']) => Line::Unknown,
        _ => Line::Sql,
    }
}

/// A text as SQL spells it.
fn text(of: &str) -> String {
    format!("'{}'", of.replace('\'', "''"))
}

/// A name as table functions take it.
fn quoted(name: &TableName) -> String {
    let quoted = |part: &str| format!("\"{}\"", part.replace('"', "\"\""));
    format!("{}.{}", quoted(&name.namespace), quoted(&name.name))
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
        assert_eq!(command(r"\d people;"), Line::Describe("people".to_owned()));
        assert_eq!(command(r#" \d "two words" "#), Line::Describe(r#""two words""#.to_owned()));
        assert_eq!(command(r"\dn"), Line::Run("SHOW SCHEMAS".to_owned()));
        assert!(matches!(command(r"\dt"), Line::Run(sql) if sql.contains("BASE TABLE")));
        assert!(matches!(command(r"\dv"), Line::Run(sql) if sql.contains("VIEW")));
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
