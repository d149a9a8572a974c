//! `amend`: the shell on a lake.
//!
//! Goes in: statements from `-c`, from files, from a pipe or from a terminal. Comes out: their answers, and an exit status: 0 if
//! all is well, 1 if a statement of `-c` or of a file failed or the lake cannot be opened, 2 if the arguments are wrong. Always
//! holds: `-c` and files run in the order in which they are given; on a pipe an error is an answer and not an end; if nobody
//! reads the answers any more, the shell ends quietly.

mod complete;
mod output;
mod repl;
mod script;
mod shell;
mod slt;

use amend::{Error, Lake};
use clap::{CommandFactory, FromArgMatches, Parser};
use output::{Format, Printer};
use script::OnError;
use shell::Shell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

/// The stack of the threads that run statements: long chains of operators are planned from one to the next within it.
const STACK_BYTES: usize = 16 << 20;

/// SQL on tables that are updated, deleted, merged and compacted at the same time.
///
/// Without -c and FILE it reads statements from standard input: at a terminal with a prompt; from a pipe each statement runs as
/// soon as its semicolon has arrived, an error is answered and the next statement runs.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The folder of the tables, created on the first write
    #[arg(long, value_name = "DIR", default_value = "./lake")]
    lake: PathBuf,
    /// Run these statements (repeatable; in order with the files)
    #[arg(short = 'c', id = "sql", value_name = "SQL")]
    sql: Vec<String>,
    /// Run the statements in these files
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How to print answers
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Print rows and errors only
    #[arg(long, short)]
    quiet: bool,
    /// Go on after a statement of -c or FILE that fails, and exit with status 1 at the end
    #[arg(long)]
    keep_going: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run sqllogictest files
    Slt(slt::Arguments),
}

/// A script of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Script {
    Sql(String),
    File(PathBuf),
}

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_env("AMEND_LOG").unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    let (arguments, scripts) = match parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(error) => error.exit(),
    };
    match start(arguments, &scripts) {
        Ok(code) => code,
        // Whoever read the answers has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            // If even this cannot be written, the status says it.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The arguments, and the scripts among them in the order in which they were given.
fn parse(words: impl IntoIterator<Item = OsString>) -> Result<(Arguments, Vec<Script>), clap::Error> {
    let matches = Arguments::command().try_get_matches_from(words)?;
    let arguments = Arguments::from_arg_matches(&matches)?;
    let sql = matches.indices_of("sql").into_iter().flatten().zip(arguments.sql.iter().cloned().map(Script::Sql));
    let files = matches.indices_of("files").into_iter().flatten().zip(arguments.files.iter().cloned().map(Script::File));
    let mut scripts = sql.chain(files).collect::<Vec<_>>();
    scripts.sort_by_key(|(at, _)| *at);
    let scripts = scripts.into_iter().map(|(_, script)| script).collect();
    Ok((arguments, scripts))
}

/// Does what is asked. Fails only if answers cannot be written.
fn start(arguments: Arguments, scripts: &[Script]) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build()?;
    let mut answers = BufWriter::new(io::stdout().lock());
    if let Some(Command::Slt(arguments)) = &arguments.command {
        return match slt::run(&runtime, arguments, &mut answers)? {
            Ok(well) => Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
            Err(error) => refuse(&error),
        };
    }
    let printer = Printer::new(answers, io::stderr(), arguments.format, arguments.quiet);
    let mut shell = match open(runtime, &arguments.lake, printer) {
        Ok(shell) => shell,
        Err(error) => return refuse(&error),
    };
    if !scripts.is_empty() {
        let on_error = if arguments.keep_going { OnError::Continue } else { OnError::Stop };
        return run_scripts(&mut shell, scripts, on_error);
    }
    if io::stdin().is_terminal() {
        repl::run(shell)?;
    } else {
        script::run(&mut shell, io::stdin().lock(), "standard input", OnError::Answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn open<A: Write, E: Write>(runtime: Runtime, lake: &Path, printer: Printer<A, E>) -> amend::Result<Shell<A, E>> {
    Shell::open(runtime, &Lake::open(lake)?, printer)
}

fn run_scripts<A: Write, E: Write>(shell: &mut Shell<A, E>, scripts: &[Script], on_error: OnError) -> io::Result<ExitCode> {
    let mut failed = 0;
    for script in scripts {
        let (name, reader): (_, Box<dyn Read>) = match script {
            Script::Sql(sql) => ("-c".to_owned(), Box::new(sql.as_bytes())),
            Script::File(path) => match File::open(path) {
                Ok(file) => (path.display().to_string(), Box::new(file)),
                Err(error) => (path.display().to_string(), Box::new(Unreadable(Some(error)))),
            },
        };
        let ended = script::run(shell, reader, &name, on_error)?;
        failed += ended.failed;
        if ended.stopped && on_error == OnError::Stop {
            break;
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A file that could not be opened: reading it says why.
struct Unreadable(Option<io::Error>);

impl Read for Unreadable {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Says why nothing was run.
fn refuse(error: &Error) -> io::Result<ExitCode> {
    writeln!(io::stderr(), "error: {error} (SQLSTATE {})", error.sqlstate())?;
    Ok(ExitCode::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<(Arguments, Vec<Script>), clap::Error> {
        parse(std::iter::once("amend").chain(words.iter().copied()).map(OsString::from))
    }

    #[test]
    fn scripts_keep_their_order() {
        let (arguments, scripts) = parsed(&["a.sql", "-c", "SELECT 1", "b.sql", "--quiet", "-c", "SELECT 2"]).unwrap();
        let sql = |text: &str| Script::Sql(text.to_owned());
        let file = |path: &str| Script::File(PathBuf::from(path));
        assert_eq!(scripts, [file("a.sql"), sql("SELECT 1"), file("b.sql"), sql("SELECT 2")]);
        assert_eq!((arguments.lake, arguments.format, arguments.quiet), (PathBuf::from("./lake"), Format::Table, true));
    }

    #[test]
    fn slt_is_a_command_of_its_own() {
        let (arguments, scripts) = parsed(&["slt", "--memory", "slt/**/*.slt"]).unwrap();
        assert!(matches!(arguments.command, Some(Command::Slt(_))));
        assert_eq!(scripts, []);
        assert!(parsed(&["slt"]).is_err());
        assert!(parsed(&["slt", "--memory", "--lake", "x", "a.slt"]).is_err());
        assert!(parsed(&["--format", "xml"]).is_err());
    }

    #[test]
    fn the_arguments_are_sound() {
        Arguments::command().debug_assert();
    }
}
