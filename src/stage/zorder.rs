//! Z-values: several columns as one number, so that rows that are near each other in all of them are near in the order of
//! the number.
//!
//! ```text
//!   a column's values ──> row format, whose bytes sort as the values do ──> rank among a sample, 16 bits
//!   ranks of all columns: the highest bit of each, then the second highest of each, ...
//! ```
//!
//! Goes in: a sample of the columns, then their values batch by batch. Comes out: one `UInt64` a row.
//! Always holds: a larger value never has a smaller rank; ranks fill their range however the values are spread, so every
//! column has its say in the highest bits; the same sample gives the same numbers.

use crate::error::{Error, Result};
use datafusion::arrow::array::{ArrayRef, UInt64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{OwnedRow, Row, RowConverter, Rows, SortField};

/// The most columns of a Z-order: more would have too few bits each.
pub const MAX_COLUMNS: usize = 8;
/// The most bits of a column's rank: as many as a sample can tell apart.
const MAX_BITS: u32 = 16;
/// How many rows a sample has, more or less.
pub const SAMPLE_ROWS: u64 = 1 << MAX_BITS;

/// Whether values of a type have an order.
pub fn is_sortable(data_type: &DataType) -> bool {
    RowConverter::supports_fields(&[SortField::new(data_type.clone())])
}

/// A sample of the columns, as it grows.
pub struct Sample {
    columns: Vec<SampledColumn>,
}

struct SampledColumn {
    converter: RowConverter,
    values: Rows,
}

/// What turns values into Z-values.
pub struct Ranks {
    columns: Vec<RankedColumn>,
    bits: u32,
}

struct RankedColumn {
    converter: RowConverter,
    /// The distinct values of the sample in order, each with the rank of the values from it on.
    steps: Vec<(OwnedRow, u64)>,
}

impl Sample {
    /// An empty sample of columns of these types.
    pub fn new(types: &[DataType]) -> Result<Self> {
        let column = |data_type: &DataType| {
            let converter = RowConverter::new(vec![SortField::new(data_type.clone())]).map_err(broken)?;
            let values = converter.empty_rows(0, 0);
            Ok(SampledColumn { converter, values })
        };
        Ok(Sample { columns: types.iter().map(column).collect::<Result<_>>()? })
    }

    /// Adds rows: one array a column.
    pub fn add(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        for (column, array) in self.columns.iter_mut().zip(arrays) {
            column.converter.append(&mut column.values, std::slice::from_ref(array)).map_err(broken)?;
        }
        Ok(())
    }

    /// The ranks that the sample gives.
    pub fn ranks(self) -> Ranks {
        let bits = MAX_BITS.min(u64::BITS / (self.columns.len().max(1) as u32));
        let columns = self.columns.into_iter().map(|column| {
            let mut values: Vec<Row<'_>> = column.values.iter().collect();
            values.sort_unstable();
            let mut steps: Vec<(OwnedRow, u64)> = Vec::new();
            for (at, value) in values.iter().enumerate() {
                if steps.last().is_none_or(|(last, _)| last.row() < *value) {
                    steps.push((value.owned(), ((at as u64) << bits) / values.len() as u64));
                }
            }
            RankedColumn { converter: column.converter, steps }
        });
        Ranks { columns: columns.collect(), bits }
    }
}

impl Ranks {
    /// The Z-values of rows: one array a column.
    pub fn z_values(&self, arrays: &[ArrayRef]) -> Result<UInt64Array> {
        let rows = arrays.first().map_or(0, |array| array.len());
        let mut ranks: Vec<Vec<u64>> = Vec::with_capacity(arrays.len());
        for (column, array) in self.columns.iter().zip(arrays) {
            let values = column.converter.convert_columns(std::slice::from_ref(array)).map_err(broken)?;
            ranks.push(values.iter().map(|value| column.rank(value)).collect());
        }
        let value = |row: usize| {
            let bits =
                (0..self.bits).rev().flat_map(|bit| ranks.iter().map(move |column| column.get(row).map_or(0, |rank| rank >> bit & 1)));
            bits.fold(0, |value, bit| value << 1 | bit)
        };
        Ok((0..rows).map(value).collect::<Vec<u64>>().into())
    }
}

impl RankedColumn {
    fn rank(&self, value: Row<'_>) -> u64 {
        let after = self.steps.partition_point(|(step, _)| step.row() <= value);
        after.checked_sub(1).and_then(|at| self.steps.get(at)).map_or(0, |(_, rank)| *rank)
    }
}

fn broken(error: datafusion::arrow::error::ArrowError) -> Error {
    Error::internal(format!("Z-values: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Float64Array, Int64Array, StringArray};
    use std::sync::Arc;

    fn z_values(columns: &[ArrayRef]) -> Vec<u64> {
        let types: Vec<DataType> = columns.iter().map(|column| column.data_type().clone()).collect();
        let mut sample = Sample::new(&types).unwrap();
        sample.add(columns).unwrap();
        sample.ranks().z_values(columns).unwrap().values().to_vec()
    }

    #[test]
    fn one_column_is_in_its_own_order() {
        let values: Vec<Option<i64>> = vec![Some(5), None, Some(-7), Some(i64::MAX), Some(5), Some(0)];
        let found = z_values(&[Arc::new(Int64Array::from(values))]);
        let mut order: Vec<usize> = (0..6).collect();
        order.sort_by_key(|at| (found[*at], *at));
        assert_eq!(order, [1, 2, 5, 0, 4, 3]);
        assert_eq!(found[0], found[4]);
    }

    #[test]
    fn a_square_is_walked_quarter_by_quarter() {
        // Values of quite different kinds and spreads: only their order counts.
        let words: Vec<String> = (0..16).map(|at| format!("the same beginning {}", "x".repeat(1 + at / 4 * 7))).collect();
        let numbers: Vec<f64> = (0..16).map(|at| 10f64.powi(at % 4 * 50)).collect();
        let found = z_values(&[Arc::new(StringArray::from(words)), Arc::new(Float64Array::from(numbers))]);
        let mut order: Vec<usize> = (0..16).collect();
        order.sort_by_key(|at| found[*at]);
        assert_eq!(order, [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]);
    }

    #[test]
    fn a_column_of_two_values_has_its_say_beside_one_of_many() {
        let (two, many): (Vec<i64>, Vec<i64>) = (0..1000).map(|at| (at % 2, at)).unzip();
        let found = z_values(&[Arc::new(Int64Array::from(two)), Arc::new(Int64Array::from(many))]);
        let mut order: Vec<usize> = (0..1000).collect();
        order.sort_by_key(|at| found[*at]);
        assert!(order[..500].iter().all(|at| at % 2 == 0) && order[500..].iter().all(|at| at % 2 == 1));
    }

    #[test]
    fn values_that_the_sample_does_not_hold_lie_between_those_that_it_does() {
        let mut sample = Sample::new(&[DataType::Int64]).unwrap();
        sample.add(&[Arc::new(Int64Array::from(vec![10, 20, 30, 40])) as ArrayRef]).unwrap();
        let ranks = sample.ranks();
        let found = ranks.z_values(&[Arc::new(Int64Array::from(vec![5, 10, 15, 29, 30, 99])) as ArrayRef]).unwrap();
        assert_eq!(found.values().to_vec(), [0, 0, 0, 1 << 14, 1 << 15, 3 << 14]);
        let nothing = Sample::new(&[DataType::Int64]).unwrap().ranks();
        assert_eq!(nothing.z_values(&[Arc::new(Int64Array::from(vec![5])) as ArrayRef]).unwrap().values().to_vec(), [0]);
    }
}
