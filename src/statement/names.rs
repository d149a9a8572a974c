//! Which table of the lake a name in a statement means.
//!
//! Goes in: a name as it is written, and the session's settings. Comes out: the table's name in the lake's catalog. Always
//! holds: a name in another catalog than the lake's means no table of the lake.

use crate::error::{Error, Result};
use crate::manifest::catalog::{DEFAULT_NAMESPACE, TableName};
use crate::scan::expression::fold;
use datafusion::common::TableReference;
use datafusion::config::ConfigOptions;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

/// DataFusion's own name for the catalog of names without one.
const CATALOG: &str = "datafusion";

/// What names mean that say less than all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The catalog that the lake is in.
    lake: String,
    /// The catalog of names that have none.
    catalog: String,
    /// The namespace of names that have none.
    namespace: String,
    /// Whether names without quotes are folded.
    folds: bool,
}

impl Default for Names {
    fn default() -> Self {
        Names { lake: CATALOG.to_owned(), catalog: CATALOG.to_owned(), namespace: DEFAULT_NAMESPACE.to_owned(), folds: true }
    }
}

impl Names {
    /// In a session with these settings, whose lake is in the catalog `lake`.
    pub fn of(lake: &str, options: &ConfigOptions) -> Self {
        Names {
            lake: lake.to_owned(),
            catalog: options.catalog.default_catalog.clone(),
            namespace: options.catalog.default_schema.clone(),
            folds: options.sql_parser.enable_ident_normalization,
        }
    }

    /// A name as the planner folds it in this session.
    pub fn fold(&self, name: &Ident) -> String {
        if self.folds { fold(name) } else { name.value.clone() }
    }

    /// The catalog that the lake is in.
    pub fn lake(&self) -> &str {
        &self.lake
    }

    /// The namespace of names that have none.
    pub fn default_namespace(&self) -> &str {
        &self.namespace
    }

    /// The table that a name means.
    pub fn table(&self, name: &ObjectName) -> Result<TableName> {
        let (catalog, table) = match parts(name)?.as_slice() {
            [table] => (None, TableName::new(self.namespace.clone(), self.fold(table))),
            [namespace, table] => (None, TableName::new(self.fold(namespace), self.fold(table))),
            [catalog, namespace, table] => (Some(self.fold(catalog)), TableName::new(self.fold(namespace), self.fold(table))),
            _ => return Err(Error::invalid(format!("'{name}' is no name of a table"))),
        };
        self.check_catalog(name, catalog.as_deref())?;
        Ok(table)
    }

    /// The namespace that a name means; `None` if it is in another catalog than the lake.
    pub fn namespace(&self, name: &ObjectName) -> Result<Option<String>> {
        let (catalog, namespace) = match parts(name)?.as_slice() {
            [namespace] => (self.catalog.clone(), self.fold(namespace)),
            [catalog, namespace] => (self.fold(catalog), self.fold(namespace)),
            _ => return Err(Error::invalid(format!("'{name}' is no name of a schema"))),
        };
        Ok((catalog == self.lake).then_some(namespace))
    }

    fn check_catalog(&self, name: &ObjectName, catalog: Option<&str>) -> Result<()> {
        let catalog = catalog.unwrap_or(&self.catalog);
        if catalog == self.lake {
            return Ok(());
        }
        let instead = format!("the lake's tables are in the catalog {}", self.lake);
        Err(Error::unsupported(format!("'{name}' of the catalog '{catalog}' in this statement"), Some(&instead)))
    }

    /// The whole name of a table, as DataFusion takes it.
    pub fn whole(&self, table: &TableName) -> TableReference {
        TableReference::full(self.lake.clone(), table.namespace.clone(), table.name.clone())
    }
}

fn parts(name: &ObjectName) -> Result<Vec<&Ident>> {
    let part = |part| ObjectNamePart::as_ident(part).ok_or_else(|| Error::invalid(format!("'{name}' is no name of a table")));
    name.0.iter().map(part).collect()
}

/// The table that an argument of a table function means: `t`, `s.t`. Names are taken to the letter; one with a dot in it stands in
/// double quotes, as in `"a.b"`.
pub fn of_text(text: &str, default_namespace: &str) -> Result<TableName> {
    let wrong = || Error::invalid(format!("'{text}' is no name of a table: write 't' or 's.t', and names with a dot as '\"a.b\"'"));
    let (mut parts, mut part) = (Vec::new(), String::new());
    let (mut quoted, mut characters) = (false, text.chars().peekable());
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                part.push('"');
            }
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(std::mem::take(&mut part)),
            other => part.push(other),
        }
    }
    parts.push(part);
    if quoted || parts.iter().any(String::is_empty) {
        return Err(wrong());
    }
    match <[String; 2]>::try_from(parts) {
        Ok([namespace, table]) => Ok(TableName::new(namespace, table)),
        Err(mut parts) => match (parts.pop(), parts.is_empty()) {
            (Some(table), true) => Ok(TableName::new(default_namespace, table)),
            _ => Err(wrong()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn name(text: &str) -> ObjectName {
        Parser::new(&GenericDialect {}).try_with_sql(text).unwrap().parse_object_name(false).unwrap()
    }

    #[test]
    fn what_a_name_leaves_out_the_session_says() {
        let names = Names { namespace: "Sales".into(), ..Names::default() };
        for (text, namespace, table) in [
            ("T", "Sales", "t"),
            (r#""T""#, "Sales", "T"),
            (r#"S."a.b""#, "s", "a.b"),
            ("public.t", "public", "t"),
            (r#"datafusion."X".t"#, "X", "t"),
        ] {
            assert_eq!(names.table(&name(text)).unwrap(), TableName::new(namespace, table), "{text}");
        }
        let to_the_letter = Names { folds: false, ..Names::default() };
        assert_eq!(to_the_letter.table(&name("S.T")).unwrap(), TableName::new("S", "T"));
        assert_eq!(names.table(&name("other.s.t")).unwrap_err().sqlstate(), "0A000");
        assert!(names.table(&name("a.b.c.d")).is_err());
        let elsewhere = Names { catalog: "other".into(), ..Names::default() };
        assert_eq!(elsewhere.table(&name("t")).unwrap_err().sqlstate(), "0A000");
        assert_eq!(elsewhere.table(&name("datafusion.s.t")).unwrap(), TableName::new("s", "t"));
    }

    #[test]
    fn a_namespace_may_be_in_another_catalog() {
        let names = Names::default();
        assert_eq!(names.namespace(&name("S")).unwrap().as_deref(), Some("s"));
        assert_eq!(names.namespace(&name("datafusion.s")).unwrap().as_deref(), Some("s"));
        assert_eq!(names.namespace(&name("other.s")).unwrap(), None);
        assert!(names.namespace(&name("a.b.c")).is_err());
    }

    #[test]
    fn texts_are_names_to_the_letter() {
        for (text, namespace, table) in [
            ("t", "public", "t"),
            ("Mixed Case", "public", "Mixed Case"),
            ("S.T", "S", "T"),
            (r#""a.b""#, "public", "a.b"),
            (r#"s."a""b""#, "s", r#"a"b"#),
        ] {
            assert_eq!(of_text(text, "public").unwrap(), TableName::new(namespace, table), "{text}");
        }
        for text in ["", ".", "s.", ".t", "a.b.c", r#""a"#] {
            assert_eq!(of_text(text, "public").unwrap_err().sqlstate(), "42601", "{text}");
        }
    }
}
