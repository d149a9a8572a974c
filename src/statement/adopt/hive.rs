//! Folders whose names give columns: the files in `year=2025/kind=a%2Fb/` have 2025 in `year` and `a/b` in `kind`, in all rows.
//!
//! Goes in: the path by which a file was found. Comes out: keys and values, and the columns that such keys make.
//! Always holds: a value is a text until a column says what type it is of.

use crate::error::{Error, Result};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;

/// The name that stands for NULL.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// What the folders of a file say.
#[derive(Debug, PartialEq, Eq)]
pub struct Folders {
    /// Keys and values, outermost first; no value is NULL.
    pub values: Vec<(String, Option<String>)>,
}

impl Folders {
    /// What the folders in the path of a file say.
    pub fn of(path: &str) -> Result<Folders> {
        let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
        let mut values: Vec<(String, Option<String>)> = Vec::new();
        for (key, value) in folders.split('/').filter_map(|folder| folder.split_once('=')) {
            let key = unescaped(key);
            if values.iter().any(|(other, _)| *other == key) {
                return Err(Error::invalid(format!("two folders of '{path}' give a value of '{key}'")));
            }
            values.push((key, (value != NULL).then(|| unescaped(value))));
        }
        Ok(Folders { values })
    }
}

/// The columns that folders make: of whole numbers or of days if all values are, else of text.
pub fn columns(folders: &[Folders]) -> Vec<Field> {
    let Some(first) = folders.first() else { return vec![] };
    let column = |key: &String| {
        let values =
            || folders.iter().flat_map(|folders| &folders.values).filter(|(other, _)| other == key).filter_map(|(_, v)| v.as_ref());
        let all = |data_type: &DataType| values().next().is_some() && values().all(|text| value(text, data_type).is_some());
        let data_type = [DataType::Int64, DataType::Date32].into_iter().find(all).unwrap_or(DataType::Utf8View);
        Field::new(key, data_type, true)
    };
    first.values.iter().map(|(key, _)| column(key)).collect()
}

/// A text as a value of a type.
pub fn value(text: &str, data_type: &DataType) -> Option<ScalarValue> {
    ScalarValue::try_from_string(text.to_owned(), data_type).ok().filter(|value| !value.is_null())
}

/// A text with `%2F` and the like as the characters that they stand for; what is no such thing stays as it is.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.get(..2).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match escaped.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(path: &str) -> Vec<(String, Option<String>)> {
        Folders::of(path).unwrap().values
    }

    #[test]
    fn folders_give_values() {
        let pair = |key: &str, value: Option<&str>| (key.to_owned(), value.map(str::to_owned));
        assert_eq!(folders("a/year=2025/kind=a%2Fb c/x=1.parquet"), [pair("year", Some("2025")), pair("kind", Some("a/b c"))]);
        assert_eq!(folders("k=__HIVE_DEFAULT_PARTITION__/e=/p=a=b/f"), [pair("k", None), pair("e", Some("")), pair("p", Some("a=b"))]);
        assert_eq!(folders("k=100%/f"), [pair("k", Some("100%"))]);
        assert_eq!(folders("k=1.parquet"), []);
        assert!(Folders::of("k=1/k=2/f").unwrap_err().to_string().contains("two folders"));
    }

    #[test]
    fn the_values_say_the_type() {
        let of = |paths: &[&str]| {
            let folders: Vec<Folders> = paths.iter().map(|path| Folders::of(path).unwrap()).collect();
            columns(&folders).iter().map(|field| field.data_type().clone()).collect::<Vec<_>>()
        };
        assert_eq!(of(&["a=1/f", "a=-20/f", "a=03/f"]), [DataType::Int64]);
        assert_eq!(of(&["a=2025-01-31/f", "a=2025-02-01/f"]), [DataType::Date32]);
        assert_eq!(of(&["a=1/f", "a=x/f"]), [DataType::Utf8View]);
        assert_eq!(of(&["a=1/f", "a=__HIVE_DEFAULT_PARTITION__/f"]), [DataType::Int64]);
        assert_eq!(of(&["a=__HIVE_DEFAULT_PARTITION__/f"]), [DataType::Utf8View]);
        assert_eq!(of(&["f"]), []);
    }
}
