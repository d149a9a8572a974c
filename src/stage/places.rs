//! Places: where each row of a rewrite's sources lay before, watched while the rows pass in their new order.
//!
//! Goes in: the addresses of the rows of a group, batch by batch, in the order in which they are written. Comes out: the map.
//! Always holds: every live row of every source passes exactly once, and no row that was deleted; anything else is an
//! error: a map that guesses would bring deleted rows back.

use super::rewrite_exec::RewriteGroup;
use super::write_exec::column;
use crate::error::{Error, Result};
use crate::scan::address::{FRAGMENT_COLUMN, OFFSET_COLUMN};
use crate::txn::address_map::{AddressMap, MapError, MapSource};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{Int64Type, UInt32Type};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use std::collections::HashMap;
use std::sync::Arc;

/// A row that has not passed.
const NOWHERE: u32 = u32::MAX;
/// The most rows of one group that may be sorted: every place has a number below `NOWHERE`.
pub const MAX_SORTED_ROWS: u64 = NOWHERE as u64;
/// Bytes of memory for each row of a source: its place, and the same once more while they are packed.
const BYTES_PER_ROW: usize = 8;

/// The places of one group's rows.
pub struct Places<'a> {
    group: &'a RewriteGroup,
    /// The number of each source in the group, by its fragment.
    numbers: HashMap<u32, usize>,
    /// For each source the place of each of its rows.
    places: Vec<Vec<u32>>,
    passed: u32,
    /// The last row that passed, as long as all passed in the order in which they lay.
    in_order: Option<(usize, u32)>,
    _memory: MemoryReservation,
}

impl<'a> Places<'a> {
    /// None has passed. The memory is taken from `pool`.
    pub fn new(group: &'a RewriteGroup, pool: &Arc<dyn MemoryPool>) -> Result<Self> {
        let rows: usize = group.sources.iter().map(|(_, source)| source.physical_rows as usize).sum();
        let memory = MemoryConsumer::new("places of rows that are sorted").register(pool);
        memory.try_grow(rows.saturating_mul(BYTES_PER_ROW))?;
        Ok(Places {
            group,
            numbers: group.sources.iter().enumerate().map(|(number, (id, _))| (id.0, number)).collect(),
            places: group.sources.iter().map(|(_, source)| vec![NOWHERE; source.physical_rows as usize]).collect(),
            passed: 0,
            in_order: Some((0, 0)),
            _memory: memory,
        })
    }

    /// These rows pass.
    pub fn pass(&mut self, batch: &RecordBatch) -> Result<()> {
        let fragments = column(batch, FRAGMENT_COLUMN)?.as_primitive::<UInt32Type>();
        let offsets = column(batch, OFFSET_COLUMN)?.as_primitive::<Int64Type>();
        for (fragment, offset) in fragments.values().iter().zip(offsets.values()) {
            let wrong = || Error::internal(format!("row {fragment}/{offset} came twice, or is none of the rows to rewrite"));
            let number = *self.numbers.get(fragment).ok_or_else(wrong)?;
            let row = u32::try_from(*offset).map_err(|_| wrong())?;
            let place = self.places.get_mut(number).and_then(|places| places.get_mut(row as usize)).ok_or_else(wrong)?;
            if *place != NOWHERE || self.passed == NOWHERE {
                return Err(wrong());
            }
            *place = self.passed;
            self.passed += 1;
            self.in_order = self.in_order.filter(|last| *last <= (number, row)).map(|_| (number, row));
        }
        Ok(())
    }

    /// The map to targets of these sizes: in order, if that is how the rows passed.
    pub fn into_map(self, targets: Vec<u32>) -> Result<AddressMap, MapError> {
        let sources: Vec<MapSource> = self.group.sources.iter().map(|(_, source)| source.clone()).collect();
        let mut survivors = Vec::with_capacity(sources.len());
        for ((id, source), mut places) in self.group.sources.iter().zip(self.places) {
            let absent = places.iter().filter(|place| **place == NOWHERE).count() as u64;
            let all_absent = source.absent.iter().all(|row| places.get(row as usize) == Some(&NOWHERE));
            if absent != source.absent.len() || !all_absent {
                return Err(MapError(format!("of fragment {id} other rows passed than those that live")));
            }
            places.retain(|place| *place != NOWHERE);
            survivors.push(places);
        }
        match self.in_order {
            Some(_) => AddressMap::in_order(sources, targets),
            None => AddressMap::permuted(sources, targets, &survivors),
        }
    }
}

#[cfg(test)]
mod tests;
