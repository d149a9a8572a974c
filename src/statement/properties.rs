//! Properties of a table as statements give them: TBLPROPERTIES, WITH, COMMENT, and CLUSTER BY.
//!
//! Goes in: what sqlparser makes of the clauses. Comes out: keys and values, or columns.
//! Always holds: no property is set that holds something else than what users say in it.

use crate::error::{Error, Result};
use crate::scan::isolation::{ISOLATION, Isolation};
use crate::table::constraint;
use datafusion::sql::sqlparser::ast::{
    CommentDef, CreateTable, CreateTableOptions, Expr, Ident, SqlOption, Value, ValueWithSpan, WrappedCollection,
};
use std::collections::BTreeMap;

/// The property that says what a table is.
pub const COMMENT: &str = "comment";

/// A property and its value: a text, a number or a truth value.
pub fn property(table: &str, option: &SqlOption) -> Result<(String, Option<String>)> {
    let wrong = || Error::invalid(format!("table '{table}': properties are written as ('name' = 'value', ..), not {option}"));
    let SqlOption::KeyValue { key, value: Expr::Value(ValueWithSpan { value, .. }) } = option else { return Err(wrong()) };
    let value = match value {
        Value::SingleQuotedString(text) => text.clone(),
        Value::Number(number, _) => number.clone(),
        Value::Boolean(flag) => flag.to_string(),
        _ => return Err(wrong()),
    };
    if key.value == ISOLATION {
        value.parse::<Isolation>()?;
    }
    Ok((key.value.clone(), Some(value)))
}

/// Refuses properties that are kept for what other statements say.
pub fn check_free<'a>(table: &str, keys: impl IntoIterator<Item = &'a String>) -> Result<()> {
    match keys.into_iter().find(|key| constraint::is_reserved(key)) {
        None => Ok(()),
        Some(reserved) => {
            let what = format!("setting the property '{reserved}' of table '{table}'");
            let instead = "say ADD CONSTRAINT, DROP CONSTRAINT, SET DEFAULT, DROP DEFAULT, COMMENT ON COLUMN or CLUSTER BY";
            Err(Error::unsupported(what, Some(instead)))
        }
    }
}

/// Takes the properties out of a CREATE TABLE.
pub fn take(create: &mut CreateTable) -> Result<BTreeMap<String, Option<String>>> {
    let table = create.name.to_string();
    let options = match &create.table_options {
        CreateTableOptions::None => return Ok(BTreeMap::new()),
        CreateTableOptions::With(options) | CreateTableOptions::TableProperties(options) | CreateTableOptions::Plain(options) => options,
        // What it means is for other products to say.
        CreateTableOptions::Options(_) => return Ok(BTreeMap::new()),
    };
    let one = |option: &SqlOption| match option {
        SqlOption::Comment(CommentDef::WithEq(comment) | CommentDef::WithoutEq(comment)) => Ok((COMMENT.to_owned(), Some(comment.clone()))),
        SqlOption::KeyValue { .. } if !matches!(create.table_options, CreateTableOptions::Plain(_)) => property(&table, option),
        other => Err(Error::unsupported(format!("CREATE TABLE '{table}' with {other}"), None)),
    };
    let mut properties = BTreeMap::new();
    for option in options {
        let (key, value) = one(option)?;
        if properties.insert(key.clone(), value).is_some() {
            return Err(Error::invalid(format!("the property '{key}' of table '{table}' is set twice")));
        }
    }
    check_free(&table, properties.keys())?;
    create.table_options = CreateTableOptions::None;
    Ok(properties)
}

/// Takes the columns of CLUSTER BY out of a CREATE TABLE.
pub fn take_cluster_by(create: &mut CreateTable) -> Result<Vec<Ident>> {
    match create.cluster_by.take() {
        None => Ok(vec![]),
        Some(WrappedCollection::NoWrapping(columns) | WrappedCollection::Parentheses(columns)) => {
            columns_to_cluster_by(&create.name.to_string(), &columns)
        }
    }
}

/// The columns of a CLUSTER BY, with or without parentheses.
pub fn columns_to_cluster_by(table: &str, columns: &[Expr]) -> Result<Vec<Ident>> {
    let columns = match columns {
        [Expr::Tuple(columns)] => columns.iter().collect(),
        [Expr::Nested(column)] => vec![column.as_ref()],
        columns => columns.iter().collect(),
    };
    let plain = |column: &Expr| match column {
        Expr::Identifier(column) => Ok(column.clone()),
        other => Err(Error::unsupported(format!("CLUSTER BY {other} of table '{table}'"), Some("name columns, without expressions"))),
    };
    columns.into_iter().map(plain).collect()
}
