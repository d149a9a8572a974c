//! Change-of-address maps: where the live rows of a rewrite's sources went.
//!
//! ```text
//!   source 0   a b . c          '.' = absent: already deleted when the rewrite read it
//!   source 1   . d e f
//!                 |   order kept: position = rank among the survivors of all sources
//!                 v
//!   target 0   a b c d          target 1   e f
//! ```
//!
//! The encoding is *in order*: an order-preserving rewrite needs no position per row, only the absent rows of each
//! source and the sizes of the targets. Rows are mapped by walking both bitmaps, never by a lookup per row.
//!
//! Always holds: the survivors of all sources are as many as the rows of all targets.

pub mod wire;

use roaring::RoaringBitmap;
use std::fmt;

/// Why a map cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapError(pub String);

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A rewrite's source, as the rewrite read it.
#[derive(Debug, Clone, PartialEq)]
pub struct MapSource {
    /// How many rows its files hold.
    pub physical_rows: u32,
    /// The rows that were deleted already, and so were not moved.
    pub absent: RoaringBitmap,
}

/// Where the rows of the sources of one rewrite went, sources and targets being numbered from 0 in order.
#[derive(Debug, Clone, PartialEq)]
pub struct AddressMap {
    sources: Vec<MapSource>,
    /// How many rows each target has.
    targets: Vec<u32>,
}

/// What became of some rows of one source.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MovedRows {
    /// Where the live ones are now: a target and offsets in it, each target at most once, ascending.
    pub targets: Vec<(usize, RoaringBitmap)>,
    /// Those that were deleted before the rewrite read the source.
    pub absent: RoaringBitmap,
}

impl AddressMap {
    /// The map of a rewrite that kept the order of its rows.
    pub fn in_order(sources: Vec<MapSource>, targets: Vec<u32>) -> Result<Self, MapError> {
        let mut survivors = 0u64;
        for (at, source) in sources.iter().enumerate() {
            if source.absent.max().is_some_and(|row| row >= source.physical_rows) {
                return Err(MapError(format!("source {at} has {} rows, its absent rows go beyond", source.physical_rows)));
            }
            survivors += u64::from(source.physical_rows) - source.absent.len();
        }
        let rows: u64 = targets.iter().map(|rows| u64::from(*rows)).sum();
        if survivors != rows {
            return Err(MapError(format!("{survivors} rows left the sources, {rows} arrived at the targets")));
        }
        Ok(AddressMap { sources, targets })
    }

    /// The sources.
    pub fn sources(&self) -> &[MapSource] {
        &self.sources
    }

    /// How many rows each target has.
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// Where `rows` of source number `source` went.
    pub fn move_rows(&self, source: usize, rows: &RoaringBitmap) -> Result<MovedRows, MapError> {
        let from = self.sources.get(source).ok_or_else(|| MapError(format!("the map has no source {source}")))?;
        if rows.max().is_some_and(|row| row >= from.physical_rows) {
            return Err(MapError(format!("source {source} has {} rows, rows beyond were to be mapped", from.physical_rows)));
        }
        let before: u64 = self.sources.iter().take(source).map(|s| u64::from(s.physical_rows) - s.absent.len()).sum();
        let mut out = MovedRows::default();
        let mut target = TargetCursor { targets: &self.targets, at: 0, start: 0, offsets: Vec::new() };
        let mut absent = from.absent.iter().peekable();
        let mut dead = 0u64;
        for row in rows {
            while absent.next_if(|dead_row| *dead_row < row).is_some() {
                dead += 1;
            }
            if absent.peek() == Some(&row) {
                out.absent.insert(row);
            } else {
                target.push(before + u64::from(row) - dead, &mut out)?;
            }
        }
        target.flush(&mut out);
        Ok(out)
    }

    /// Which rows arrived at target number `target`: rows of sources, in the order in which they follow one another there.
    pub fn arrivals(&self, target: usize) -> Result<Vec<(usize, RoaringBitmap)>, MapError> {
        let rows = *self.targets.get(target).ok_or_else(|| MapError(format!("the map has no target {target}")))?;
        let before: u64 = self.targets.iter().take(target).map(|rows| u64::from(*rows)).sum();
        let (first, end) = (before, before + u64::from(rows));
        let mut arrivals = Vec::new();
        let mut start = 0u64;
        for (at, source) in self.sources.iter().enumerate() {
            let survivors = u64::from(source.physical_rows) - source.absent.len();
            let (from, to) = (first.max(start), end.min(start + survivors));
            if from < to {
                let mut live = RoaringBitmap::new();
                live.insert_range(0..source.physical_rows);
                live -= &source.absent;
                // The rows of these ranks.
                live.remove_smallest(from - start);
                live.remove_biggest(start + survivors - to);
                arrivals.push((at, live));
            }
            start += survivors;
        }
        Ok(arrivals)
    }

    /// Where a row of target number `target` came from: a source and an offset in it. For reports; it walks the source.
    pub fn origin(&self, target: usize, offset: u32) -> Option<(usize, u32)> {
        if offset >= *self.targets.get(target)? {
            return None;
        }
        let before: u64 = self.targets.iter().take(target).map(|rows| u64::from(*rows)).sum();
        let mut position = before + u64::from(offset);
        for (at, source) in self.sources.iter().enumerate() {
            let survivors = u64::from(source.physical_rows) - source.absent.len();
            if position < survivors {
                // Each absent row before it pushes it one further.
                let pushed = source.absent.iter().fold(position, |row, absent| row + u64::from(u64::from(absent) <= row));
                return Some((at, pushed as u32));
            }
            position -= survivors;
        }
        None
    }
}

/// Walks the targets while positions ascend.
struct TargetCursor<'a> {
    targets: &'a [u32],
    at: usize,
    start: u64,
    offsets: Vec<u32>,
}

impl TargetCursor<'_> {
    fn push(&mut self, position: u64, out: &mut MovedRows) -> Result<(), MapError> {
        loop {
            let rows = self.targets.get(self.at).ok_or_else(|| MapError(format!("position {position} lies beyond the targets")))?;
            let offset = position - self.start;
            if offset < u64::from(*rows) {
                self.offsets.push(offset as u32);
                return Ok(());
            }
            self.flush(out);
            self.start += u64::from(*rows);
            self.at += 1;
        }
    }

    fn flush(&mut self, out: &mut MovedRows) {
        if !self.offsets.is_empty() {
            out.targets.push((self.at, self.offsets.drain(..).collect()));
        }
    }
}

#[cfg(test)]
mod tests;
