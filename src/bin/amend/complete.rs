//! What Tab offers at a terminal: keywords, tables and views, and columns of the tables that the statement names.
//!
//! Goes in: what was typed of a statement. Comes out: how the last word may go on. Always holds: names are looked up past the session's
//! statements, so that a look fails no transaction; what cannot be looked up is not offered.

use amend::Lake;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, ResolvedTableReference, TableReference};
use datafusion::execution::context::SessionContext;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use std::collections::BTreeSet;
use tokio::runtime::Handle;

/// The words that statements are made of.
const KEYWORDS: &str = "ADD ALL ALTER AND AS ASC BEGIN BETWEEN BIGINT BOOLEAN BY CASCADE CASE CAST CHECK CLONE COLUMN COMMENT COMMIT CONFLICT \
    CONSTRAINT COPY CREATE CROSS DATE DECIMAL DEFAULT DELETE DESC DESCRIBE DISTINCT DO DOUBLE DROP ELSE END EXCEPT EXISTS EXPLAIN \
    EXTERNAL FALSE FILES FROM FULL GROUP HAVING HISTORY HOURS IN INNER INSERT INT INTERSECT INTO IS JOIN KEY LEFT LIKE LIMIT \
    MATCHED MERGE NOT NOTHING NULL OF OFFSET ON OPTIMIZE OR ORDER OUTER OVERWRITE PRIMARY RENAME REPLACE RESTORE RETAIN RETURNING \
    RIGHT ROLLBACK SCHEMA SELECT SET SHOW SOURCE TABLE TARGET THEN TIMESTAMP TO TRUE TRUNCATE UNION UNIQUE UPDATE USING VACUUM \
    VALUES VARCHAR VERIFY VERSION VIEW WHERE";

/// A table's or a view's name as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// Its schema.
    pub schema: String,
    /// Its name in it.
    pub name: String,
    /// Whether its schema may be left out.
    pub plain: bool,
}

/// Where names are looked up.
pub trait Names {
    /// Tables and views.
    fn relations(&self) -> Vec<Relation>;
    /// The columns of one.
    fn columns(&self, of: &Relation) -> Vec<String>;
}

/// The names that a session knows.
pub struct SessionNames {
    pub lake: Lake,
    pub ctx: SessionContext,
    pub runtime: Handle,
}

impl SessionNames {
    /// The catalog and the schema of names without one.
    fn defaults(&self) -> (String, String) {
        let state = self.ctx.state_ref();
        let state = state.read();
        let options = &state.config_options().catalog;
        (options.default_catalog.clone(), options.default_schema.clone())
    }
}

impl Names for SessionNames {
    fn relations(&self) -> Vec<Relation> {
        // What others have made meanwhile; without it what is known is offered.
        let _ = self.runtime.block_on(self.lake.table_names());
        let (catalog, default) = self.defaults();
        let Some(catalog) = self.ctx.catalog(&catalog) else { return vec![] };
        let in_schema = |schema: String| {
            let names = catalog.schema(&schema).map(|found| found.table_names()).unwrap_or_default();
            let plain = schema == default;
            names.into_iter().map(move |name| Relation { schema: schema.clone(), name, plain })
        };
        catalog.schema_names().into_iter().flat_map(in_schema).collect()
    }

    fn columns(&self, of: &Relation) -> Vec<String> {
        let name = TableReference::partial(of.schema.as_str(), of.name.as_str());
        let table = self.runtime.block_on(self.ctx.table_provider(name));
        table.map(|table| table.schema().fields().iter().map(|field| field.name().clone()).collect()).unwrap_or_default()
    }
}

/// Offers words to rustyline.
pub struct Words<N> {
    names: N,
    /// The lines of the statement before this one.
    pub typed: String,
}

impl<N: Names> Words<N> {
    /// Words of these names.
    pub fn new(names: N) -> Self {
        Words { names, typed: String::new() }
    }

    /// Where the last word of a line begins that may go on, and how.
    fn candidates(&self, line: &str, rest: &str) -> (usize, Vec<String>) {
        let word_at = line
            .rfind(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '"')))
            .map_or(0, |at| at + line.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8));
        let word = line.get(word_at..).unwrap_or_default();
        if line.trim_start().starts_with('\\') && word_at > 0 && !line.trim_start().starts_with(r"\d") {
            return (line.len(), vec![]);
        }
        let relations = self.names.relations();
        let (qualifier, partial) = match word.rsplit_once('.') {
            Some((qualifier, partial)) => (Some(qualifier.trim_matches('"')), partial),
            None => (None, word),
        };
        let start = line.len() - partial.len();
        let goes_on = |name: &str| starts_with(name, partial.trim_start_matches('"'));
        let statement = format!("{}\n{line} {rest}", self.typed);
        let mut found = BTreeSet::new();
        match qualifier {
            None => {
                if partial.is_empty() {
                    return (start, vec![]);
                }
                if !partial.starts_with('"') {
                    let lower = partial.chars().all(|c| !c.is_uppercase());
                    let keyword = |word: &str| if lower { word.to_lowercase() } else { word.to_owned() };
                    found.extend(KEYWORDS.split(' ').filter(|word| goes_on(word)).map(keyword));
                }
                found
                    .extend(relations.iter().filter(|relation| relation.plain && goes_on(&relation.name)).map(|found| quoted(&found.name)));
                found.extend(relations.iter().filter(|relation| goes_on(&relation.schema)).map(|found| quoted(&found.schema)));
                for (relation, _) in mentioned(&statement, &relations) {
                    found.extend(self.names.columns(relation).iter().filter(|name| goes_on(name)).map(|name| quoted(name)));
                }
            }
            Some(qualifier) => {
                let in_schema = relations.iter().filter(|relation| relation.schema == qualifier && goes_on(&relation.name));
                found.extend(in_schema.map(|found| quoted(&found.name)));
                for (relation, alias) in mentioned(&statement, &relations) {
                    if relation.name == qualifier || alias.is_some_and(|alias| alias.eq_ignore_ascii_case(qualifier)) {
                        found.extend(self.names.columns(relation).iter().filter(|name| goes_on(name)).map(|name| quoted(name)));
                    }
                }
            }
        }
        (start, found.into_iter().collect())
    }
}

/// The tables that a statement names, and what it calls them.
fn mentioned<'a>(statement: &'a str, relations: &'a [Relation]) -> Vec<(&'a Relation, Option<&'a str>)> {
    let words: Vec<&str> =
        statement.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '"'))).filter(|word| !word.is_empty()).collect();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let (schema, name) = match word.rsplit_once('.') {
            Some((schema, name)) => (Some(schema.trim_matches('"')), name.trim_matches('"')),
            None => (None, word.trim_matches('"')),
        };
        let means =
            |relation: &&Relation| relation.name.eq_ignore_ascii_case(name) && schema.map_or(relation.plain, |s| s == relation.schema);
        let Some(relation) = relations.iter().find(means) else { continue };
        let mut next = words.iter().skip(at + 1).copied();
        let alias = match next.next() {
            Some(r#as) if r#as.eq_ignore_ascii_case("AS") => next.next(),
            other => other,
        };
        found.push((relation, alias.filter(|alias| !KEYWORDS.split(' ').any(|keyword| keyword.eq_ignore_ascii_case(alias)))));
    }
    found
}

fn starts_with(name: &str, start: &str) -> bool {
    name.to_lowercase().starts_with(&start.to_lowercase())
}

/// A name as a statement has to spell it.
fn quoted(name: &str) -> String {
    let plain =
        name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') && !name.starts_with(|c: char| c.is_ascii_digit());
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The name behind a command, as a statement would read it: `t`, `s.t`, `catalog.s.t`, with or without quotes.
pub fn named(text: &str, options: &ConfigOptions) -> amend::Result<ResolvedTableReference> {
    let name = Parser::new(&GenericDialect {}).try_with_sql(text).and_then(|mut parser| {
        let name = parser.parse_object_name(false)?;
        parser.expect_token(&Token::EOF).map(|_| name)
    });
    let name = object_name_to_table_reference(name.map_err(DataFusionError::from)?, options.sql_parser.enable_ident_normalization)?;
    Ok(name.resolve(&options.catalog.default_catalog, &options.catalog.default_schema))
}

impl<N: Names> Completer for Words<N> {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (before, after) = line.split_at_checked(at).unwrap_or((line, ""));
        let (start, words) = self.candidates(before, after);
        Ok((start, words.into_iter().map(|word| Pair { display: word.clone(), replacement: word }).collect()))
    }
}

impl<N: Names> Helper for Words<N> {}
impl<N: Names> Highlighter for Words<N> {}
impl<N: Names> Hinter for Words<N> {
    type Hint = String;
}
impl<N: Names> Validator for Words<N> {}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Names for Fixed {
        fn relations(&self) -> Vec<Relation> {
            let relation = |schema: &str, name: &str| Relation { schema: schema.into(), name: name.into(), plain: schema == "public" };
            vec![relation("public", "orders"), relation("public", "Odd Name"), relation("sales", "people"), relation("sales", "orders")]
        }

        fn columns(&self, of: &Relation) -> Vec<String> {
            let columns: &[&str] = match (of.schema.as_str(), of.name.as_str()) {
                ("public", "orders") => &["o_id", "o_person", "Total"],
                ("sales", "people") => &["id", "name"],
                _ => &["other"],
            };
            columns.iter().map(|column| (*column).to_owned()).collect()
        }
    }

    fn offered(typed: &str, line: &str) -> Vec<String> {
        let mut words = Words::new(Fixed);
        words.typed = typed.into();
        let (before, after) = line.split_once('|').unwrap_or((line, ""));
        let (start, words) = words.candidates(before, after);
        words.into_iter().map(|word| format!("{}{word}", &before[..start])).collect()
    }

    #[test]
    fn words_and_names_go_on() {
        assert_eq!(offered("", "sel"), ["select"]);
        assert_eq!(offered("", "SELECT a FR"), ["SELECT a FROM"]);
        assert_eq!(offered("", "SELECT * FROM ord"), ["SELECT * FROM order", "SELECT * FROM orders"]);
        assert_eq!(offered("", "SELECT * FROM Od"), ["SELECT * FROM \"Odd Name\""]);
        assert_eq!(offered("", "SELECT * FROM sa"), ["SELECT * FROM sales"]);
        assert_eq!(offered("", "SELECT * FROM sales."), ["SELECT * FROM sales.orders", "SELECT * FROM sales.people"]);
        assert_eq!(offered("", r"\d ord"), [r"\d order", r"\d orders"]);
        assert!(offered("", "SELECT ").is_empty());
        assert!(offered("", "").is_empty());
    }

    #[test]
    fn columns_are_those_of_the_tables_that_are_named() {
        assert_eq!(offered("", "SELECT o_| FROM orders"), ["SELECT o_id", "SELECT o_person"]);
        assert_eq!(offered("SELECT 1\nFROM orders\n", "WHERE tot"), ["WHERE \"Total\""]);
        assert_eq!(offered("", "SELECT x.| FROM orders AS x"), ["SELECT x.\"Total\"", "SELECT x.o_id", "SELECT x.o_person"]);
        assert_eq!(offered("", "SELECT p.n| FROM orders o JOIN sales.people p"), ["SELECT p.name"]);
        assert_eq!(offered("", "UPDATE sales.people SET na"), ["UPDATE sales.people SET name"]);
        assert!(offered("", "SELECT o_").is_empty());
    }

    #[test]
    fn names_behind_commands_are_folded() {
        for (text, name) in [
            ("T", ["datafusion", "public", "t"]),
            (r#""T""#, ["datafusion", "public", "T"]),
            ("S.ÄT", ["datafusion", "s", "Ät"]),
            (r#""a.b""#, ["datafusion", "public", "a.b"]),
            (r#"s."a""b""#, ["datafusion", "s", "a\"b"]),
            ("Other.s.t", ["other", "s", "t"]),
        ] {
            let found = named(text, &ConfigOptions::default()).unwrap();
            assert_eq!([&*found.catalog, &*found.schema, &*found.table], name, "{text}");
        }
        for text in ["", "t u", "a.b.c.d", "\"t"] {
            assert_eq!(named(text, &ConfigOptions::default()).unwrap_err().sqlstate(), "42601", "{text}");
        }
    }

    #[test]
    fn keywords_are_sorted_and_unique() {
        assert!(KEYWORDS.split(' ').is_sorted_by(|a, b| a < b));
    }
}
