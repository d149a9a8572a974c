//! Which data files of a fragment are read for the columns that are wanted.
//!
//! ```text
//!   fragment            a, b wanted: one file, DataFusion reads it        b, c wanted: two files, side by side
//!     file 0   a b .
//!     file 1   c
//! ```
//!
//! Goes in: a fragment and the positions of the wanted columns. Comes out: one file, or several with the columns to take from
//! each.
//! Always holds: a column is taken from the file that backs its field, so a dead slot is never read; a column that no file
//! backs is taken from none.

use crate::table::fragment::{DataFile, Fragment};
use crate::table::schema::TableSchema;
use std::collections::BTreeMap;

/// How the wanted columns of a fragment are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// From this file of the fragment; columns that it does not hold are NULL.
    OneFile(usize),
    /// From these files side by side (or from one, whose rows the manifest holds); columns that none of them gives are NULL.
    SideBySide(Vec<Lane>),
}

/// What is read of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// The file's position in the fragment.
    pub file: usize,
    /// The columns, by their positions in the table.
    pub columns: Vec<usize>,
}

/// How a fragment is read. `wanted` says of each column of the table whether it is.
pub fn reading(fragment: &Fragment, schema: &TableSchema, wanted: &[bool]) -> Reading {
    let mut lanes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut absent = false;
    for (position, (field, _)) in schema.columns().zip(wanted).enumerate().filter(|(_, (_, wanted))| **wanted) {
        let holds = |file: &DataFile| file.columns.iter().any(|column| column.field == Some(field.id));
        match fragment.files.iter().position(holds) {
            Some(file) => lanes.entry(file).or_default().push(position),
            None => absent = true,
        }
    }
    // Rows have to be counted in some file.
    if lanes.is_empty() {
        lanes.insert(0, Vec::new());
    }
    // Files name their columns by id, and what is in a dead slot may be the column that no file backs any more.
    let misleads = |file: usize| absent && fragment.files.get(file).is_some_and(|file| file.columns.iter().any(|c| c.field.is_none()));
    let is_inline = |file: usize| fragment.files.get(file).is_some_and(|file| file.inline.is_some());
    match lanes.first_key_value() {
        Some((file, _)) if lanes.len() == 1 && !misleads(*file) && !is_inline(*file) => Reading::OneFile(*file),
        _ => Reading::SideBySide(lanes.into_iter().map(|(file, columns)| Lane { file, columns }).collect()),
    }
}
