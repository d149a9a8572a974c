//! The mask: the batches of a file without its deleted rows.
//!
//! ```text
//!   ParquetSource's batch      a  b  offset          deleted: 7, 8
//!                              .  .  5
//!                              .  .  7      <- out
//!                              .  .  9
//!   what goes on               a  b                  5, 9
//! ```
//!
//! DataFusion reads a file through three kinds of objects, each made by the one before: morselizer, planners, morsels. Here
//! each is wrapped, so that the stream at the end is masked.
//!
//! Goes in: the reader's batches, each row with its number in the file. Comes out: the live rows, without the numbers unless
//! they were asked for. Always holds: which rows go is decided by their numbers alone, so it does not matter which rows the
//! reader skipped, or in which order it read row groups; no empty batch goes on.

use super::external;
use crate::error::Error;
use datafusion::arrow::array::{Array, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Fields, Int64Type, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::physical_plan::metrics::Count;
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::stream::BoxStream;
use futures::{StreamExt, future};
use roaring::RoaringBitmap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The deleted rows of a file: an extension of its `PartitionedFile`. A file without it has none.
#[derive(Debug, Clone)]
pub struct Deletions(pub Arc<RoaringBitmap>);

/// Where a batch carries the row numbers.
#[derive(Debug, Clone, Copy)]
pub enum RowNumbers {
    /// In this column, which was asked for.
    Wanted(usize),
    /// In this column, the last, which is only there for the mask.
    Appended(usize),
}

/// Wraps the morselizer of Parquet files.
#[derive(Debug)]
pub struct MaskMorselizer {
    inner: Box<dyn Morselizer>,
    numbers: RowNumbers,
    rows: SchemaRef,
    masked_rows: Count,
}

impl MaskMorselizer {
    /// Masks what `inner` reads; `rows` is what the plan knows of the columns that go on, `masked_rows` counts the rows that are taken out.
    pub fn new(inner: Box<dyn Morselizer>, numbers: RowNumbers, rows: SchemaRef, masked_rows: Count) -> Self {
        MaskMorselizer { inner, numbers, rows, masked_rows }
    }
}

impl Morselizer for MaskMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let deleted = file.extension::<Deletions>().map(|deletions| Arc::clone(&deletions.0));
        let mask = Mask { deleted, numbers: self.numbers, rows: self.rows.clone(), masked_rows: self.masked_rows.clone() };
        Ok(Box::new(MaskPlanner { inner: self.inner.plan_file(file)?, mask }))
    }
}

#[derive(Debug)]
struct MaskPlanner {
    inner: Box<dyn MorselPlanner>,
    mask: Mask,
}

impl MorselPlanner for MaskPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let MaskPlanner { inner, mask } = *self;
        let Some(mut plan) = inner.plan()? else { return Ok(None) };
        let planner = |inner, mask| Box::new(MaskPlanner { inner, mask }) as Box<dyn MorselPlanner>;
        let morsel = |inner| Box::new(MaskMorsel { inner, mask: mask.clone() }) as Box<dyn Morsel>;
        let mut masked = MorselPlan::new()
            .with_morsels(plan.take_morsels().into_iter().map(morsel).collect())
            .with_planners(plan.take_ready_planners().into_iter().map(|inner| planner(inner, mask.clone())).collect());
        if let Some(pending) = plan.take_pending_planner() {
            masked.set_pending_planner(async move { Ok(planner(pending.await?, mask)) });
        }
        Ok(Some(masked))
    }
}

#[derive(Debug)]
struct MaskMorsel {
    inner: Box<dyn Morsel>,
    mask: Mask,
}

impl Morsel for MaskMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let MaskMorsel { inner, mask } = *self;
        let live = move |batch: Result<RecordBatch>| future::ready(batch.and_then(|batch| mask.live(&batch)).transpose());
        inner.into_stream().filter_map(live).boxed()
    }
}

/// Which rows of one file are to go.
#[derive(Clone)]
struct Mask {
    deleted: Option<Arc<RoaringBitmap>>,
    numbers: RowNumbers,
    rows: SchemaRef,
    masked_rows: Count,
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deleted_rows = self.deleted.as_ref().map_or(0, |deleted| deleted.len());
        f.debug_struct("Mask").field("deleted_rows", &deleted_rows).field("numbers", &self.numbers).finish()
    }
}

impl Mask {
    /// The live rows of a batch; `None` if there are none.
    fn live(&self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let kept = match &self.deleted {
            Some(deleted) => kept(self.numbers_of(batch)?, deleted)?,
            None => Kept::All,
        };
        let batch = match self.numbers {
            RowNumbers::Wanted(_) => batch.clone(),
            RowNumbers::Appended(column) => batch.project(&(0..column).collect::<Vec<_>>())?,
        };
        let rows = batch.num_rows();
        let live = match kept {
            Kept::All => batch,
            Kept::None => batch.slice(0, 0),
            Kept::Some(mask) => filter_record_batch(&batch, &BooleanArray::new(mask, None))?,
        };
        self.masked_rows.add(rows - live.num_rows());
        if live.num_rows() == 0 {
            return Ok(None);
        }
        self.as_planned(live).map(Some)
    }

    /// Live rows, of which the plan knows that some columns are not NULL.
    fn as_planned(&self, live: RecordBatch) -> Result<RecordBatch> {
        let schema = live.schema();
        let fields = schema.fields().iter().zip(self.rows.fields());
        if fields.clone().all(|(read, planned)| read.is_nullable() == planned.is_nullable()) {
            return Ok(live);
        }
        let fields: Fields = fields.map(|(read, planned)| read.as_ref().clone().with_nullable(planned.is_nullable())).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let rows = RecordBatchOptions::new().with_row_count(Some(live.num_rows()));
        Ok(RecordBatch::try_new_with_options(schema, live.columns().to_vec(), &rows)?)
    }

    fn numbers_of<'a>(&self, batch: &'a RecordBatch) -> Result<&'a [i64]> {
        let (RowNumbers::Wanted(column) | RowNumbers::Appended(column)) = self.numbers;
        let array = batch.columns().get(column).and_then(|array| array.as_primitive_opt::<Int64Type>());
        match array {
            Some(array) if array.null_count() == 0 => Ok(array.values()),
            _ => Err(external(Error::internal(format!("column {column} of a batch does not hold row numbers")))),
        }
    }
}

/// Which rows of a batch stay.
#[derive(Debug, PartialEq)]
enum Kept {
    All,
    None,
    /// Those whose bit is set.
    Some(BooleanBuffer),
}

/// Which of the rows with these numbers are not deleted.
fn kept(numbers: &[i64], deleted: &RoaringBitmap) -> Result<Kept> {
    let bits = match contiguous(numbers)? {
        Some(range) => match deleted.range_cardinality(range.clone()) {
            0 => return Ok(Kept::All),
            all if all == numbers.len() as u64 => return Ok(Kept::None),
            _ => {
                let mut bits = BooleanBufferBuilder::new(numbers.len());
                bits.append_n(numbers.len(), true);
                deleted.range(range.clone()).for_each(|row| bits.set_bit((row - range.start()) as usize, false));
                bits.finish()
            }
        },
        None => merged(numbers, deleted)?,
    };
    Ok(match bits.count_set_bits() {
        0 => Kept::None,
        all if all == numbers.len() => Kept::All,
        _ => Kept::Some(bits),
    })
}

/// The range that the numbers are, if they are one without gaps.
fn contiguous(numbers: &[i64]) -> Result<Option<RangeInclusive<u32>>> {
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return Ok(None) };
    let is_range = numbers.iter().zip(*first..).all(|(number, expected)| *number == expected);
    Ok(if is_range { Some(row(*first)?..=row(*last)?) } else { None })
}

/// Walks numbers and deleted rows side by side; where the numbers go back (row groups out of order), it starts again.
fn merged(numbers: &[i64], deleted: &RoaringBitmap) -> Result<BooleanBuffer> {
    let mut ahead = deleted.iter();
    let mut next_deleted = ahead.next();
    let mut previous = 0;
    let mut bits = BooleanBufferBuilder::new(numbers.len());
    for number in numbers {
        let row = row(*number)?;
        if row < previous {
            ahead = deleted.iter();
            next_deleted = ahead.next();
        }
        previous = row;
        if next_deleted.is_some_and(|deleted| deleted < row) {
            ahead.advance_to(row);
            next_deleted = ahead.next();
        }
        bits.append(next_deleted != Some(row));
    }
    Ok(bits.finish())
}

fn row(number: i64) -> Result<u32> {
    u32::try_from(number).map_err(|_| external(Error::internal(format!("row number {number} is not an offset"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(numbers: &[i64], deleted: &[u32]) -> Vec<i64> {
        let expected: Vec<i64> = numbers.iter().copied().filter(|number| !deleted.contains(&(*number as u32))).collect();
        let found = match kept(numbers, &deleted.iter().copied().collect()).unwrap() {
            Kept::All => numbers.to_vec(),
            Kept::None => vec![],
            Kept::Some(bits) => numbers.iter().zip(bits.iter()).filter(|(_, keep)| *keep).map(|(number, _)| *number).collect(),
        };
        assert_eq!(found, expected, "{numbers:?} without {deleted:?}");
        found
    }

    #[test]
    fn whole_batches_are_kept_or_dropped_without_a_mask() {
        let deleted: RoaringBitmap = (10..20).collect();
        assert_eq!(kept(&[], &deleted).unwrap(), Kept::None);
        assert_eq!(kept(&[0, 1, 2], &deleted).unwrap(), Kept::All);
        assert_eq!(kept(&[20, 22], &deleted).unwrap(), Kept::All);
        assert_eq!(kept(&[10, 11, 12], &deleted).unwrap(), Kept::None);
        assert_eq!(kept(&[10, 12, 19], &deleted).unwrap(), Kept::None);
    }

    #[test]
    fn the_deleted_rows_go() {
        assert_eq!(rows(&[4, 5, 6, 7], &[5, 9]), [4, 6, 7]);
        assert_eq!(rows(&[4, 5, 7, 9, 11], &[0, 5, 6, 9, 10]), [4, 7, 11]);
        rows(&[0], &[0]);
        rows(&[i64::from(u32::MAX) - 1], &[u32::MAX - 1]);
    }

    #[test]
    fn numbers_that_go_back_are_not_taken_for_a_range() {
        // The first and last look like a range of four rows.
        assert_eq!(rows(&[5, 1, 2, 8], &[1, 6, 7]), [5, 2, 8]);
        assert_eq!(rows(&[20, 21, 10, 11, 30, 31], &[11, 20, 31]), [21, 10, 30]);
    }

    #[test]
    fn numbers_that_are_no_offsets_are_refused() {
        for numbers in [vec![-1], vec![-1, 5], vec![i64::from(u32::MAX) + 1], vec![3, 1 << 40]] {
            assert!(kept(&numbers, &RoaringBitmap::new()).is_err(), "{numbers:?}");
        }
    }
}
