//! A query's rows as a table, as CSV, as JSON objects and as one line of JSON.
//!
//! Goes in: batches. Comes out: text. Always holds: a value that is not a number, a truth value or NULL reads the same in every
//! format; a number in JSON has all its digits.

use amend::Rows;
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, DurationFormat, FormatOptions};
use datafusion::arrow::util::pretty::pretty_format_batches_with_options;
use std::io::{Error, Result, Write};

const OPTIONS: FormatOptions<'static> = FormatOptions::new().with_null("NULL").with_duration_format(DurationFormat::Pretty);

/// A box with the rows and their number.
pub fn write_table(rows: &Rows, out: &mut impl Write) -> Result<()> {
    let mut batches = rows.batches.clone();
    if batches.is_empty() {
        // The names of the columns come from a batch.
        batches.push(RecordBatch::new_empty(rows.schema.clone()));
    }
    let table = pretty_format_batches_with_options(&batches, &OPTIONS).map_err(unprintable)?;
    let count = rows.batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    writeln!(out, "{table}\n({})", super::counted(count as u64, "row"))
}

/// A line of names and a line per row.
pub fn write_csv(rows: &Rows, out: &mut impl Write) -> Result<()> {
    let names = rows.schema.fields().iter().map(|field| csv_text(field.name()));
    writeln!(out, "{}", names.collect::<Vec<_>>().join(","))?;
    for_each_row(rows, |columns, row| {
        let line = columns.iter().map(|column| column.text(row).map_or(String::new(), |text| csv_text(&text)));
        writeln!(out, "{}", line.collect::<Vec<_>>().join(","))
    })
}

/// One array with an object per row, a line each.
pub fn write_json(rows: &Rows, out: &mut impl Write) -> Result<()> {
    let names = rows.schema.fields().iter().map(|field| json_text(field.name())).collect::<Vec<_>>();
    let mut before = "[";
    for_each_row(rows, |columns, row| {
        let members = names.iter().zip(columns).map(|(name, column)| format!("{name}:{}", column.json(row)));
        let object = members.collect::<Vec<_>>().join(",");
        write!(out, "{before}{{{object}}}")?;
        before = ",\n";
        Ok(())
    })?;
    writeln!(out, "{}", if before == "[" { "[]" } else { "]" })
}

/// One line with the names and all rows.
pub fn write_jsonl(rows: &Rows, out: &mut impl Write) -> Result<()> {
    let names = rows.schema.fields().iter().map(|field| json_text(field.name()));
    write!(out, r#"{{"ok":true,"columns":[{}],"rows":["#, names.collect::<Vec<_>>().join(","))?;
    let mut before = "";
    for_each_row(rows, |columns, row| {
        let values = columns.iter().map(|column| column.json(row));
        let values = values.collect::<Vec<_>>().join(",");
        write!(out, "{before}[{values}]")?;
        before = ",";
        Ok(())
    })?;
    writeln!(out, "]}}")
}

fn for_each_row(rows: &Rows, mut write: impl FnMut(&[Column<'_>], usize) -> Result<()>) -> Result<()> {
    for batch in &rows.batches {
        let columns = batch.columns().iter().map(Column::new).collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            write(&columns, row)?;
        }
    }
    Ok(())
}

/// A column whose values are asked for one by one.
struct Column<'a> {
    formatter: ArrayFormatter<'a>,
    nulls: Option<NullBuffer>,
    kind: Kind,
}

/// What the values are in JSON.
enum Kind {
    /// Their text as it is.
    Bare,
    /// Their text as it is if it is a finite number, else a string.
    Float,
    String,
}

impl<'a> Column<'a> {
    fn new(array: &'a ArrayRef) -> Result<Column<'a>> {
        let formatter = ArrayFormatter::try_new(array.as_ref(), &OPTIONS).map_err(unprintable)?;
        Ok(Column { formatter, nulls: array.logical_nulls(), kind: kind(array.data_type()) })
    }

    /// A value as the table shows it; `None` is NULL.
    fn text(&self, row: usize) -> Option<String> {
        let null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        (!null).then(|| self.formatter.value(row).to_string())
    }

    fn json(&self, row: usize) -> String {
        let Some(text) = self.text(row) else { return "null".to_owned() };
        match self.kind {
            Kind::Bare => text,
            // What is not finite reads `NaN` or `inf`.
            Kind::Float if text.ends_with(|last: char| last.is_ascii_digit()) => text,
            Kind::Float | Kind::String => json_text(&text),
        }
    }
}

fn kind(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Boolean => Kind::Bare,
        DataType::Dictionary(_, value) => kind(value),
        DataType::RunEndEncoded(_, values) => kind(values.data_type()),
        whole if whole.is_integer() => Kind::Bare,
        number if number.is_floating() => Kind::Float,
        _ => Kind::String,
    }
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A value of CSV, in quotes where they are needed; an empty string has them, to differ from NULL.
fn csv_text(text: &str) -> String {
    let quoted = text.is_empty() || text.contains(['"', ',', '\n', '\r']);
    if quoted { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn unprintable(error: ArrowError) -> Error {
    Error::other(error)
}
