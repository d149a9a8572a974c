//! Which of the rows that a writer writes, one after another, are new versions of rows that go.
//!
//! Goes in: so many rows, whether they are. Comes out: those of each fragment.
//! Always holds: fragments end where the writer ends them, after a given number of rows.

use roaring::RoaringBitmap;

/// The new versions among the rows that were written so far.
#[derive(Debug)]
pub struct Replacing {
    rows_per_fragment: u32,
    fragments: Vec<RoaringBitmap>,
    /// How many rows the last fragment has.
    rows: u32,
}

impl Replacing {
    /// Of fragments of so many rows.
    pub fn new(rows_per_fragment: u32) -> Self {
        Replacing { rows_per_fragment, fragments: vec![RoaringBitmap::new()], rows: 0 }
    }

    /// So many rows more are written.
    pub fn push(&mut self, mut rows: usize, replacing: bool) {
        while rows > 0 {
            if self.rows >= self.rows_per_fragment {
                self.fragments.push(RoaringBitmap::new());
                self.rows = 0;
            }
            let room = (self.rows_per_fragment - self.rows).max(1);
            let taken = u32::try_from(rows).unwrap_or(u32::MAX).min(room);
            let end = self.rows.saturating_add(taken);
            if let Some(fragment) = self.fragments.last_mut().filter(|_| replacing) {
                fragment.insert_range(self.rows..end);
            }
            self.rows = end;
            rows -= taken as usize;
        }
    }

    /// Rows of another writer are written, of which those are new versions.
    pub fn push_all(&mut self, rows: u64, replacing: &RoaringBitmap) {
        for row in 0..rows {
            self.push(1, u32::try_from(row).is_ok_and(|row| replacing.contains(row)));
        }
    }

    /// Those of each fragment, in their order.
    pub fn into_fragments(self) -> Vec<RoaringBitmap> {
        self.fragments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_get_their_part_of_the_rows() {
        let mut written = Replacing::new(5);
        for (rows, replacing) in [(3, true), (1, true), (4, false), (1, true), (2, false), (6, true)] {
            written.push(rows, replacing);
        }
        let fragments: Vec<Vec<u32>> = written.into_fragments().iter().map(|rows| rows.iter().collect()).collect();
        assert_eq!(fragments, [vec![0, 1, 2, 3], vec![3], vec![1, 2, 3, 4], vec![0, 1]]);

        let mut written = Replacing::new(3);
        written.push_all(2, &RoaringBitmap::from([1]));
        written.push_all(3, &RoaringBitmap::from([0, 2]));
        let fragments: Vec<Vec<u32>> = written.into_fragments().iter().map(|rows| rows.iter().collect()).collect();
        assert_eq!(fragments, [vec![1, 2], vec![1]]);
    }
}
