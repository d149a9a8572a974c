//! Values and column types as sqllogictest files spell them, by the conventions of DataFusion's own files.
//!
//! Goes in: a query's batches. Comes out: rows of text. Always holds: NULL is `NULL` and an empty string is `(empty)`, so the
//! two differ; a number is written without exponent, and a floating one is rounded to twelve decimals, so it does not depend on
//! the machine.

use crate::error::{Error, Result};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type, Schema};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, DurationFormat, FormatOptions};

/// The decimals that are kept of a number.
const DECIMALS: usize = 12;

/// The type of a column as a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnType {
    Boolean,
    Date,
    Integer,
    Number,
    Text,
    Timestamp,
    Other,
}

impl sqllogictest::ColumnType for ColumnType {
    fn from_char(letter: char) -> Option<Self> {
        Some(match letter {
            'B' => ColumnType::Boolean,
            'D' => ColumnType::Date,
            'I' => ColumnType::Integer,
            'R' => ColumnType::Number,
            'T' => ColumnType::Text,
            'P' => ColumnType::Timestamp,
            _ => ColumnType::Other,
        })
    }

    fn to_char(&self) -> char {
        match self {
            ColumnType::Boolean => 'B',
            ColumnType::Date => 'D',
            ColumnType::Integer => 'I',
            ColumnType::Number => 'R',
            ColumnType::Text => 'T',
            ColumnType::Timestamp => 'P',
            ColumnType::Other => '?',
        }
    }
}

/// The types of all columns.
pub(super) fn column_types(schema: &Schema) -> Vec<ColumnType> {
    schema.fields().iter().map(|field| column_type(field.data_type())).collect()
}

fn column_type(data_type: &DataType) -> ColumnType {
    match data_type {
        DataType::Boolean => ColumnType::Boolean,
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => ColumnType::Date,
        DataType::Timestamp(_, _) => ColumnType::Timestamp,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnType::Text,
        DataType::Dictionary(_, value) if value.is_string() => ColumnType::Text,
        whole if whole.is_integer() => ColumnType::Integer,
        number if number.is_floating() || number.is_decimal() => ColumnType::Number,
        _ => ColumnType::Other,
    }
}

/// The rows of all batches as text. A row whose last value has several lines, as EXPLAIN's have, becomes several rows, each
/// line with its number and with `-` for the blanks that begin it.
pub(super) fn rows(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(column_text).collect::<Result<Vec<_>>>()?;
        let mut columns = columns.into_iter().map(Vec::into_iter).collect::<Vec<_>>();
        for _ in 0..batch.num_rows() {
            let row = columns.iter_mut().filter_map(Iterator::next).collect();
            push_row(row, &mut rows);
        }
    }
    Ok(rows)
}

fn push_row(mut row: Vec<String>, rows: &mut Vec<Vec<String>>) {
    match row.pop_if(|last| last.contains('\n')) {
        None => rows.push(row),
        Some(last) => {
            rows.push(row);
            for (at, line) in last.split('\n').enumerate() {
                let content = line.trim_start();
                let indent = "-".repeat(line.len() - content.len());
                rows.push(vec![format!("{:02}){indent}{content}", at + 1)]);
            }
        }
    }
}

/// A value in SQLite's conventions, where the letter of the column asks for a type.
pub(super) fn as_asked(value: String, asked: ColumnType) -> String {
    let number = match value.as_str() {
        "NULL" => return value,
        "true" => Some(1.0),
        "false" => Some(0.0),
        text => text.parse::<f64>().ok(),
    };
    match (asked, number) {
        (ColumnType::Integer, _) if value.parse::<i128>().is_ok() => value,
        (ColumnType::Integer, number) => format!("{:.0}", number.unwrap_or(0.0).trunc()),
        (ColumnType::Number, number) => format!("{:.3}", number.unwrap_or(0.0)),
        _ => value,
    }
}

/// The values of a column as text.
fn column_text(column: &ArrayRef) -> Result<Vec<String>> {
    if let DataType::Dictionary(_, _) = column.data_type() {
        let dictionary = column.as_any_dictionary();
        // Keys cannot be normalized if there is no value that they could mean.
        if dictionary.values().is_empty() {
            return Ok(vec!["NULL".to_owned(); column.len()]);
        }
        let values = column_text(dictionary.values())?;
        let keys = dictionary.normalized_keys();
        let text = |row: usize, key: &usize| values.get(*key).filter(|_| dictionary.keys().is_valid(row)).map(String::as_str);
        return Ok(keys.iter().enumerate().map(|(row, key)| text(row, key).unwrap_or("NULL").to_owned()).collect());
    }
    let options = FormatOptions::new().with_null("NULL").with_duration_format(DurationFormat::Pretty);
    let formatter = ArrayFormatter::try_new(column.as_ref(), &options).map_err(|error| Error::internal(error.to_string()))?;
    let nulls = column.logical_nulls();
    let text = |row: usize| match column.data_type() {
        _ if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) => "NULL".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => string_text(&formatter.value(row).to_string()),
        DataType::Float16 => narrow_float_text(column.as_primitive::<Float16Type>().value(row).to_f32()),
        DataType::Float32 => narrow_float_text(column.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => float_text(column.as_primitive::<Float64Type>().value(row)),
        number if number.is_decimal() => exact(&formatter.value(row).to_string()),
        _ => formatter.value(row).to_string(),
    };
    Ok((0..column.len()).map(text).collect())
}

fn string_text(value: &str) -> String {
    match value {
        "" => "(empty)".to_owned(),
        _ => value.trim_end_matches('\n').replace('\0', "\\0"),
    }
}

/// The shortest text of the narrow value: widened first, 0.1 would read 0.100000001490.
fn narrow_float_text(value: f32) -> String {
    if value.is_finite() { rounded(&value.to_string()) } else { float_text(value.into()) }
}

fn float_text(value: f64) -> String {
    match value {
        _ if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => rounded(&value.to_string()),
    }
}

/// A number that is written as digits, without zeros that say nothing.
fn exact(number: &str) -> String {
    with_decimals(number, usize::MAX)
}

/// A number that is written as digits, rounded to twelve decimals, half to even, without zeros that say nothing.
fn rounded(number: &str) -> String {
    with_decimals(number, DECIMALS)
}

fn with_decimals(number: &str, most: usize) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("-", digits));
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let (kept, cut) = decimals.split_at_checked(most).unwrap_or((decimals, ""));
    let mut kept_digits = [whole, kept].concat().into_bytes();
    let odd = kept_digits.last().is_some_and(|digit| digit % 2 == 1);
    let beyond_half = cut.bytes().skip(1).any(|digit| digit != b'0');
    let up = match cut.bytes().next() {
        Some(b'5') => odd || beyond_half,
        Some(first) => first > b'5',
        None => false,
    };
    if up {
        let nines = kept_digits.iter().rev().take_while(|digit| **digit == b'9').count();
        let stays = kept_digits.len() - nines;
        kept_digits.iter_mut().skip(stays).for_each(|digit| *digit = b'0');
        match stays.checked_sub(1).and_then(|last| kept_digits.get_mut(last)) {
            Some(digit) => *digit += 1,
            None => kept_digits.insert(0, b'1'),
        }
    }
    let decimals = kept_digits.split_off(kept_digits.len() - kept.len());
    let text = |digits: Vec<u8>| String::from_utf8(digits).unwrap_or_default();
    let (whole, decimals) = (text(kept_digits), text(decimals));
    let (whole, decimals) = (whole.trim_start_matches('0'), decimals.trim_end_matches('0'));
    let sign = if whole.is_empty() && decimals.is_empty() { "" } else { sign };
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if decimals.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{decimals}")
}

#[cfg(test)]
mod tests;
