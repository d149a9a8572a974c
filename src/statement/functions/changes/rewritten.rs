//! Rows that stayed while columns of theirs were written anew: which of them have other values now.
//!
//! An UPDATE in column form writes the columns of all rows of a fragment; which rows it was about, only their values tell.
//!
//! Goes in: the rows before and the rows after, in the same order, batch by batch. Comes out: those that differ.
//! Always holds: no more than two batches of each side are held; floats are compared by their total order, so 0 and -0 differ.

use crate::error::{Error, Result};
use datafusion::arrow::array::{Array, BooleanArray, RecordBatch, make_comparator};
use datafusion::arrow::compute::{SortOptions, filter_record_batch};
use datafusion::execution::SendableRecordBatchStream;
use futures::stream::{BoxStream, try_unfold};
use futures::{StreamExt, TryStreamExt};

/// Rows, batch by batch.
pub type Batches = BoxStream<'static, Result<RecordBatch>>;

/// The rows of which a column at one of the positions `written` differs: as they were, and as they are.
pub fn differing(before: Batches, after: Batches, written: Vec<usize>) -> BoxStream<'static, Result<(RecordBatch, RecordBatch)>> {
    let aligned = try_unfold((Side::new(before), Side::new(after)), |(mut before, mut after)| async move {
        let rows = match (before.rows().await?, after.rows().await?) {
            (0, 0) => return Ok(None),
            (0, _) | (_, 0) => return Err(Error::internal("not as many rows were there before a change of columns as after it")),
            (one, other) => one.min(other),
        };
        Ok(Some(((before.take(rows), after.take(rows)), (before, after))))
    });
    aligned.try_filter_map(move |(before, after)| std::future::ready(only_differing(&before, &after, &written))).boxed()
}

/// The rows of a stream of the engine.
pub fn batches(stream: SendableRecordBatchStream) -> Batches {
    stream.map_err(Error::from).boxed()
}

struct Side {
    rest: Batches,
    held: Option<RecordBatch>,
}

impl Side {
    fn new(rest: Batches) -> Self {
        Side { rest, held: None }
    }

    /// How many rows are held, which is none at the end only.
    async fn rows(&mut self) -> Result<usize> {
        while self.held.as_ref().is_none_or(|held| held.num_rows() == 0) {
            match self.rest.try_next().await? {
                Some(batch) => self.held = Some(batch),
                None => return Ok(0),
            }
        }
        Ok(self.held.as_ref().map_or(0, RecordBatch::num_rows))
    }

    fn take(&mut self, rows: usize) -> Option<RecordBatch> {
        let held = self.held.take()?;
        self.held = Some(held.slice(rows, held.num_rows() - rows));
        Some(held.slice(0, rows))
    }
}

fn only_differing(
    before: &Option<RecordBatch>,
    after: &Option<RecordBatch>,
    written: &[usize],
) -> Result<Option<(RecordBatch, RecordBatch)>> {
    let (Some(before), Some(after)) = (before, after) else { return Ok(None) };
    let mut differs = vec![false; before.num_rows()];
    for position in written {
        let (Some(one), Some(other)) = (before.columns().get(*position), after.columns().get(*position)) else {
            return Err(Error::internal(format!("there is no column {position} to compare")));
        };
        match make_comparator(one, other, SortOptions::default()) {
            Ok(compare) => differs.iter_mut().enumerate().for_each(|(at, differs)| *differs = *differs || compare(at, at).is_ne()),
            // A type without an order.
            Err(_) => {
                differs.iter_mut().enumerate().for_each(|(at, differs)| *differs = *differs || one.slice(at, 1) != other.slice(at, 1))
            }
        }
    }
    if !differs.contains(&true) {
        return Ok(None);
    }
    let differs = BooleanArray::from(differs);
    let only = |batch| filter_record_batch(batch, &differs).map_err(|error| Error::internal(format!("rows that changed: {error}")));
    Ok(Some((only(before)?, only(after)?)))
}
