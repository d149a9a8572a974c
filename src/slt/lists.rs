//! The two lists that adapt a foreign suite: rules that rewrite its SQL, and files to skip with the reason why.
//!
//! Goes in: the text of a list, or its file. Comes out: rules and patterns. Always holds: a line that cannot be read is an
//! error that names its number, never a rule that silently does nothing. Blank lines and lines that begin with `#` are comments.

use crate::error::{Error, Result};
use glob::{MatchOptions, Pattern};
use regex::Regex;
use std::path::Path;

/// `*` stays within a folder, `**` does not.
const MATCH: MatchOptions = MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

/// Rewriting rules, one a line: `regex => replacement`. All are applied to every statement, one after another.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    rules: Vec<(Regex, String)>,
}

impl Rules {
    /// Reads a file of rules.
    pub fn read(path: &Path) -> Result<Rules> {
        Self::parse(&read(path)?, &path.display().to_string())
    }

    /// Reads rules; `name` is where they come from, for messages.
    pub fn parse(text: &str, name: &str) -> Result<Rules> {
        let rule = |line: &str| {
            let (pattern, replacement) = line.split_once("=>").ok_or("a rule reads 'regex => replacement'")?;
            let pattern = Regex::new(pattern.trim()).map_err(|error| error.to_string())?;
            Ok::<_, String>((pattern, replacement.trim().to_owned()))
        };
        Ok(Rules { rules: parse_lines(text, name, rule)? })
    }

    /// The statement after all rules.
    pub fn apply(&self, sql: &str) -> String {
        let rewrite = |sql: String, (pattern, replacement): &(Regex, String)| pattern.replace_all(&sql, replacement).into_owned();
        self.rules.iter().fold(sql.to_owned(), rewrite)
    }
}

/// Files to skip, one pattern a line: `path-glob`, then a tab or two blanks, then the reason.
#[derive(Debug, Clone, Default)]
pub struct Skips {
    skips: Vec<(Pattern, String)>,
}

impl Skips {
    /// Reads a file of skips.
    pub fn read(path: &Path) -> Result<Skips> {
        Self::parse(&read(path)?, &path.display().to_string())
    }

    /// Reads skips; `name` is where they come from, for messages.
    pub fn parse(text: &str, name: &str) -> Result<Skips> {
        let skip = |line: &str| {
            let at = line.find('\t').into_iter().chain(line.find("  ")).min();
            let (pattern, reason) = at.and_then(|at| line.split_at_checked(at)).ok_or("a skip reads 'path-glob', two blanks, 'reason'")?;
            let pattern = Pattern::new(pattern.trim()).map_err(|error| error.to_string())?;
            Ok::<_, String>((pattern, reason.trim().to_owned()))
        };
        Ok(Skips { skips: parse_lines(text, name, skip)? })
    }

    /// Why a file is skipped, if it is. A pattern matches the whole path or what follows any of its slashes.
    pub fn reason(&self, path: &str) -> Option<&str> {
        let tails = || std::iter::once(path).chain(path.match_indices('/').filter_map(|(at, _)| path.get(at + 1..)));
        let found = self.skips.iter().find(|(pattern, _)| tails().any(|tail| pattern.matches_with(tail, MATCH)));
        found.map(|(_, reason)| reason.as_str())
    }
}

fn parse_lines<T>(text: &str, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(number, line)| parse(line).map_err(|reason| Error::invalid(format!("{name}:{number}: {reason}")))).collect()
}

fn read(path: &Path) -> Result<String> {
    let refused = |error| Error::Store { operation: "read", object: path.display().to_string(), source: Box::new(error) };
    std::fs::read_to_string(path).map_err(refused)
}

#[cfg(test)]
mod tests {
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
        assert!(Skips::parse("only/a/path.slt", "s").unwrap_err().to_string().starts_with("s:1: a skip reads"));
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
}
