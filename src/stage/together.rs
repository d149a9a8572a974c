//! The few rows that partitions of one statement have each: one fragment is made of them, by the partition that ends last.
//!
//! Which partition meets which rows depends on timing, and a statement of ten rows is not to make as many fragments as partitions
//! met one of them.
//!
//! Goes in: what each partition has left when its input ends. Comes out: for the last one all of it, in the order of partitions.
//! Always holds: each partition comes once; what came is given out once.

use datafusion::arrow::array::RecordBatch;
use roaring::RoaringBitmap;
use std::sync::{Mutex, PoisonError};

/// Where the partitions of a statement leave their rows.
#[derive(Debug)]
pub struct Together {
    partitions: usize,
    came: Mutex<Came>,
}

#[derive(Debug, Default)]
struct Came {
    partitions: usize,
    left: Vec<(usize, Left)>,
}

/// Rows that are still to be written.
#[derive(Debug)]
pub struct Left {
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// Those of them that are new versions of rows that go.
    pub replacing: RoaringBitmap,
}

impl Left {
    /// How many rows they are.
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.num_rows() as u64).sum()
    }
}

impl Together {
    /// For so many partitions.
    pub fn new(partitions: usize) -> Self {
        Together { partitions, came: Mutex::default() }
    }

    /// A partition has ended, and has these rows left. What all of them have left, if it is the last one.
    pub fn leave(&self, partition: usize, left: Option<Left>) -> Vec<Left> {
        let mut came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        came.partitions += 1;
        came.left.extend(left.map(|left| (partition, left)));
        if came.partitions < self.partitions {
            return vec![];
        }
        let mut all = std::mem::take(&mut *came).left;
        all.sort_by_key(|(partition, _)| *partition);
        all.into_iter().map(|(_, left)| left).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int32Array};
    use std::sync::Arc;

    fn left(value: i32) -> Option<Left> {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![value]));
        Some(Left { batches: vec![RecordBatch::try_from_iter([("a", column)]).unwrap()], replacing: RoaringBitmap::from([0]) })
    }

    fn values(left: Vec<Left>) -> Vec<i32> {
        let value = |left: Left| {
            let values = left.batches[0].column(0).to_data();
            Int32Array::from(values).value(0)
        };
        left.into_iter().map(value).collect()
    }

    #[test]
    fn the_last_one_gets_all_of_it_once() {
        let together = Together::new(3);
        for _ in 0..2 {
            assert!(together.leave(2, left(22)).is_empty());
            assert!(together.leave(1, None).is_empty());
            assert_eq!(values(together.leave(0, left(20))), [20, 22]);
        }
    }
}
