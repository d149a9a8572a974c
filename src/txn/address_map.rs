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
//! Two forms:
//!
//! - *in order*: an order-preserving rewrite needs no position per row, only the absent rows of each source and the sizes
//!   of the targets. Many rows are mapped by walking both bitmaps, a few by counting the absent ones before each.
//! - *permuted*: a rewrite that sorts also says, for each survivor of each source, which of all rows of all targets it
//!   became (`packed`).
//!
//! Always holds: the survivors of all sources are as many as the rows of all targets; no two rows that are mapped have one
//! address.

mod packed;
pub mod wire;

use packed::PackedPositions;
use roaring::RoaringBitmap;
use std::fmt;

/// The most rows that a rewrite may give another order: positions have 32 bits.
pub const MAX_PERMUTED_ROWS: u64 = 1 << 32;

/// As many absent rows are walked over in the time that it takes to count those before one row.
const ABSENT_PER_RANK: u64 = 64;

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
    /// For each source where its survivors went; `None` if rows kept their order.
    permuted: Option<Vec<PackedPositions>>,
}

/// What became of some rows of one source.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MovedRows {
    /// Where the live ones are now: a target and offsets in it, each target at most once, ascending.
    pub targets: Vec<(usize, RoaringBitmap)>,
    /// Those that were deleted before the rewrite read the source.
    pub absent: RoaringBitmap,
}

/// Which rows arrived at one target.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Arrivals {
    /// Rows of sources, by the source's number; in ascending order.
    pub rows: Vec<(usize, RoaringBitmap)>,
    /// For each row of the target, which it is of `rows` one after another; `None` if they follow one another like that.
    pub order: Option<Vec<u32>>,
}

impl AddressMap {
    /// The map of a rewrite that kept the order of its rows.
    pub fn in_order(sources: Vec<MapSource>, targets: Vec<u32>) -> Result<Self, MapError> {
        Self::new(sources, targets, None)
    }

    /// The map of a rewrite that gave its rows another order. `positions` holds, for each source, the place of each of its
    /// survivors among all rows of all targets: together, each place once.
    pub fn permuted(sources: Vec<MapSource>, targets: Vec<u32>, positions: &[Vec<u32>]) -> Result<Self, MapError> {
        if positions.len() != sources.len() || sources.iter().zip(positions).any(|(source, p)| source.survivors() != p.len() as u64) {
            return Err(MapError("there are not as many positions as survivors".into()));
        }
        let all: u64 = positions.iter().map(|positions| positions.len() as u64).sum();
        let mut taken = vec![0u64; usize::try_from(all.div_ceil(64)).unwrap_or(usize::MAX)];
        for position in positions.iter().flatten() {
            let bit = 1 << (position % 64);
            match taken.get_mut(*position as usize / 64) {
                Some(word) if *word & bit == 0 && u64::from(*position) < all => *word |= bit,
                _ => return Err(MapError(format!("position {position} is taken twice or lies beyond {all} rows"))),
            }
        }
        let packed = positions.iter().map(|positions| PackedPositions::pack(positions)).collect();
        Self::new(sources, targets, Some(packed))
    }

    fn new(sources: Vec<MapSource>, targets: Vec<u32>, permuted: Option<Vec<PackedPositions>>) -> Result<Self, MapError> {
        let mut survivors = 0u64;
        for (at, source) in sources.iter().enumerate() {
            if source.absent.max().is_some_and(|row| row >= source.physical_rows) {
                return Err(MapError(format!("source {at} has {} rows, its absent rows go beyond", source.physical_rows)));
            }
            survivors += source.survivors();
        }
        let rows: u64 = targets.iter().map(|rows| u64::from(*rows)).sum();
        if survivors != rows {
            return Err(MapError(format!("{survivors} rows left the sources, {rows} arrived at the targets")));
        }
        if permuted.is_some() && rows > MAX_PERMUTED_ROWS {
            return Err(MapError(format!("{rows} rows were given another order, more than {MAX_PERMUTED_ROWS}")));
        }
        Ok(AddressMap { sources, targets, permuted })
    }

    /// Whether rows kept their order.
    pub fn keeps_order(&self) -> bool {
        self.permuted.is_none()
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
        let packed = match &self.permuted {
            None => None,
            Some(sources) => Some(sources.get(source).ok_or_else(|| MapError(format!("the map has no positions of source {source}")))?),
        };
        let before: u64 = self.sources.iter().take(source).map(MapSource::survivors).sum();
        let mut out = MovedRows::default();
        let mut target = TargetCursor { targets: &self.targets, at: 0, start: 0, offsets: Vec::new() };
        let mut positions = Vec::new();
        let mut absent = Before::new(&from.absent, rows);
        for row in rows {
            let Some(dead) = absent.count(row) else {
                out.absent.insert(row);
                continue;
            };
            let rank = row - dead;
            match packed {
                None => target.push(before + u64::from(rank), &mut out)?,
                Some(packed) => {
                    let missing = || MapError(format!("the map has no position of row {row} of source {source}"));
                    positions.push(packed.get(rank as usize).ok_or_else(missing)?);
                }
            }
        }
        positions.sort_unstable();
        let mut last = None;
        for position in positions {
            if last == Some(position) {
                return Err(MapError(format!("two rows of source {source} went to position {position}")));
            }
            target.push(position, &mut out)?;
            last = Some(position);
        }
        target.flush(&mut out);
        Ok(out)
    }

    /// Which rows arrived at target number `target`.
    pub fn arrivals(&self, target: usize) -> Result<Arrivals, MapError> {
        let rows = *self.targets.get(target).ok_or_else(|| MapError(format!("the map has no target {target}")))?;
        let before: u64 = self.targets.iter().take(target).map(|rows| u64::from(*rows)).sum();
        let (first, end) = (before, before + u64::from(rows));
        let mut arrivals = Arrivals::default();
        let mut start = 0u64;
        for (at, source) in self.sources.iter().enumerate().filter(|_| self.keeps_order()) {
            let survivors = source.survivors();
            let (from, to) = (first.max(start), end.min(start + survivors));
            if from < to {
                let mut live = source.live();
                // The rows of these ranks.
                live.remove_smallest(from - start);
                live.remove_biggest(start + survivors - to);
                arrivals.rows.push((at, live));
            }
            start += survivors;
        }
        if let Some(permuted) = &self.permuted {
            const NONE: u32 = u32::MAX;
            let mut order = vec![NONE; rows as usize];
            let mut arrived = 0u32;
            for (at, (source, positions)) in self.sources.iter().zip(permuted).enumerate() {
                let mut here = RoaringBitmap::new();
                for (row, position) in source.live().iter().zip(positions.iter()).filter(|(_, position)| (first..end).contains(position)) {
                    here.insert(row);
                    match order.get_mut((position - first) as usize) {
                        Some(place) if *place == NONE => *place = arrived,
                        _ => return Err(MapError(format!("two rows went to position {position}"))),
                    }
                    arrived += 1;
                }
                if !here.is_empty() {
                    arrivals.rows.push((at, here));
                }
            }
            if arrived != rows {
                return Err(MapError(format!("{arrived} rows went to target {target}, which has {rows}")));
            }
            arrivals.order = Some(order);
        }
        Ok(arrivals)
    }

    /// Where a row of target number `target` came from: a source and an offset in it. For reports; it walks the sources.
    pub fn origin(&self, target: usize, offset: u32) -> Option<(usize, u32)> {
        if offset >= *self.targets.get(target)? {
            return None;
        }
        let before: u64 = self.targets.iter().take(target).map(|rows| u64::from(*rows)).sum();
        let mut position = before + u64::from(offset);
        if let Some(permuted) = &self.permuted {
            let mut found = self.sources.iter().zip(permuted).enumerate();
            return found.find_map(|(at, (source, positions))| {
                let rank = positions.iter().position(|went| went == position)?;
                Some((at, source.survivor(rank as u64)))
            });
        }
        for (at, source) in self.sources.iter().enumerate() {
            if position < source.survivors() {
                return Some((at, source.survivor(position)));
            }
            position -= source.survivors();
        }
        None
    }
}

impl MapSource {
    /// The rows that were not deleted.
    fn live(&self) -> RoaringBitmap {
        let mut live = RoaringBitmap::new();
        live.insert_range(0..self.physical_rows);
        live - &self.absent
    }

    fn survivors(&self) -> u64 {
        u64::from(self.physical_rows).saturating_sub(self.absent.len())
    }

    /// The row that is the survivor of that rank: each absent row before it pushes it one further.
    fn survivor(&self, rank: u64) -> u32 {
        self.absent.iter().fold(rank, |row, absent| row + u64::from(u64::from(absent) <= row)) as u32
    }
}

/// Counts absent rows.
enum Before<'a> {
    /// By walking over them beside the rows that are asked for.
    Beside { absent: Vec<u32>, passed: usize },
    /// Anew for each row.
    Anew { absent: &'a RoaringBitmap },
}

impl<'a> Before<'a> {
    /// Whichever is cheaper for these rows: what a few cost does not grow with the source.
    fn new(absent: &'a RoaringBitmap, rows: &RoaringBitmap) -> Self {
        match rows.len().saturating_mul(ABSENT_PER_RANK) < absent.len() {
            true => Before::Anew { absent },
            false => {
                // Decoded at once, which is several times faster than one after another.
                let mut decoded = vec![0; absent.len() as usize];
                let decoded_rows = absent.iter().next_many(&mut decoded).len();
                decoded.truncate(decoded_rows);
                Before::Beside { absent: decoded, passed: 0 }
            }
        }
    }

    /// How many absent rows come before a row; `None` if it is one of them. Rows are asked for in ascending order. (They are
    /// rows of one fragment, so their number has 32 bits.)
    fn count(&mut self, row: u32) -> Option<u32> {
        match self {
            Before::Beside { absent, passed } => {
                let rest = absent.get(*passed..).unwrap_or_default();
                *passed += rest.iter().take_while(|absent| **absent < row).count();
                (absent.get(*passed) != Some(&row)).then_some(*passed as u32)
            }
            Before::Anew { absent } => (!absent.contains(row)).then(|| absent.rank(row) as u32),
        }
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
