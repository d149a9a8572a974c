//! Tests of how a script is cut, run and named. Statements that are not UTF-8 never reach the session, so they serve as failures.

use super::*;
use crate::output::{Format, Printer};
use amend::Lake;

type TestShell = Shell<Vec<u8>, Vec<u8>>;

fn shell(format: Format) -> TestShell {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    Shell::open(runtime, &Lake::memory(), Printer::new(Vec::new(), Vec::new(), format, false)).unwrap()
}

/// Gives one piece per read.
struct Pieces<'a>(std::slice::Iter<'a, &'a [u8]>);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(piece) = self.0.next() else { return Ok(0) };
        buffer[..piece.len()].copy_from_slice(piece);
        Ok(piece.len())
    }
}

/// How a script ends that comes in these pieces, and what is written to the stream of errors.
fn ended(pieces: &[&[u8]], on_error: OnError) -> (Ended, String) {
    let mut shell = shell(Format::Table);
    let ended = run(&mut shell, Pieces(pieces.iter()), "x.sql", on_error).unwrap();
    let (_, errors) = shell.printer.into_streams();
    (ended, String::from_utf8(errors).unwrap())
}

const NOT_UTF8: &str = "error: the statement is not valid UTF-8 (SQLSTATE 42601)\n";

#[test]
fn the_first_error_stops_a_script_and_names_the_statement() {
    let (ended, errors) = ended(&[b"-- one\n\nSELECT\n  '\xff';\nSELECT '\xff'"], OnError::Stop);
    assert_eq!(ended, Ended { failed: 1, stopped: true });
    assert_eq!(errors, format!("{NOT_UTF8}x.sql:3: SELECT '\u{FFFD}'\n"));
}

#[test]
fn errors_are_counted_if_the_script_goes_on() {
    let (ended, errors) = ended(&[b"SELECT '\xff';\nSELECT '\xfe'"], OnError::Continue);
    assert_eq!(ended, Ended { failed: 2, stopped: false });
    assert_eq!(errors, format!("{NOT_UTF8}x.sql:1: SELECT '\u{FFFD}'\n{NOT_UTF8}x.sql:2: SELECT '\u{FFFD}'\n"));
}

#[test]
fn on_a_pipe_only_the_error_is_answered() {
    let (ended, errors) = ended(&[b"SELECT '\xff';"], OnError::Answer);
    assert_eq!((ended, errors.as_str()), (Ended { failed: 1, stopped: false }, NOT_UTF8));
}

#[test]
fn a_character_may_come_in_two_pieces_but_must_come_whole() {
    // The character is whole, so what is wrong with the statement is the byte after it.
    let (_, errors) = ended(&[b"SELECT '\xc3", b"\xbc\xff';"], OnError::Stop);
    assert_eq!(errors, format!("{NOT_UTF8}x.sql:1: SELECT 'ü\u{FFFD}'\n"));
    let (ended, errors) = ended(&[b"SELECT '\xe2\x82"], OnError::Stop);
    assert_eq!(ended, Ended { failed: 1, stopped: true });
    assert_eq!(errors, format!("{NOT_UTF8}x.sql:1: SELECT '\u{FFFD}\n"));
}

#[test]
fn comments_and_blanks_run_nothing() {
    let (ended, errors) = ended(&[b"-- not UTF-8: \xff\n;;", b" /* \xff */ "], OnError::Stop);
    assert_eq!((ended, errors.as_str()), (Ended { failed: 0, stopped: false }, ""));
}

#[test]
fn a_long_statement_is_shortened_where_it_is_named() {
    let statement = Statement { text: format!("SELECT\n\t{}", "ü".repeat(300)), line: 7 };
    assert_eq!(place("a.sql", &statement), format!("a.sql:7: SELECT {}…", "ü".repeat(193)));
}

#[test]
fn a_script_that_cannot_be_read_has_failed() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }
    let mut shell = shell(Format::Table);
    assert_eq!(run(&mut shell, Broken, "x.sql", OnError::Continue).unwrap(), Ended { failed: 1, stopped: true });
    let (_, errors) = shell.printer.into_streams();
    assert_eq!(String::from_utf8(errors).unwrap(), "error: cannot read 'x.sql': gone (SQLSTATE 58030)\n");
}
