//! Places by hand: what may pass, and which map comes of it.

use super::*;
use crate::table::row_address::FragmentId;
use datafusion::arrow::array::{ArrayRef, Int64Array, UInt32Array};
use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};
use roaring::RoaringBitmap;

fn group() -> RewriteGroup {
    let source = |rows, absent: &[u32]| MapSource { physical_rows: rows, absent: absent.iter().copied().collect() };
    RewriteGroup { sources: vec![(FragmentId(4), source(3, &[1])), (FragmentId(2), source(2, &[]))] }
}

fn rows(addresses: &[(u32, i64)]) -> RecordBatch {
    let (fragments, offsets): (Vec<u32>, Vec<i64>) = addresses.iter().copied().unzip();
    let columns: [(&str, ArrayRef); 2] =
        [(FRAGMENT_COLUMN, Arc::new(UInt32Array::from(fragments))), (OFFSET_COLUMN, Arc::new(Int64Array::from(offsets)))];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn map(batches: &[&[(u32, i64)]], targets: &[u32]) -> Result<AddressMap, String> {
    let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
    let group = group();
    let mut places = Places::new(&group, &pool).unwrap();
    for batch in batches {
        places.pass(&rows(batch)).map_err(|error| error.to_string())?;
    }
    places.into_map(targets.to_vec()).map_err(|error| error.0)
}

#[test]
fn rows_that_pass_in_another_order_are_found_where_they_went() {
    let map = map(&[&[(2, 1), (4, 2)], &[(4, 0), (2, 0)]], &[3, 1]).unwrap();
    assert!(!map.keeps_order());
    let moved = map.move_rows(0, &RoaringBitmap::from_iter([0u32, 1, 2])).unwrap();
    assert_eq!(moved.targets, [(0, RoaringBitmap::from_iter([1u32, 2]))]);
    assert_eq!(map.origin(1, 0), Some((1, 0)));
}

#[test]
fn rows_that_pass_in_order_need_no_positions() {
    assert!(map(&[&[(4, 0), (4, 2), (2, 0)], &[(2, 1)]], &[4]).unwrap().keeps_order());
}

#[test]
fn what_does_not_add_up_is_an_error() {
    for (batches, reason) in [
        (vec![(4, 0), (4, 0)], "row 4/0 came twice"),
        (vec![(3, 0)], "row 3/0 came twice, or is none"),
        (vec![(4, 3)], "none of the rows"),
        (vec![(4, -1)], "none of the rows"),
        (vec![(4, 0), (4, 2), (2, 0)], "of fragment 2 other rows passed"),
        (vec![(4, 0), (4, 1), (4, 2), (2, 0), (2, 1)], "of fragment 4 other rows passed"),
        (vec![(4, 1), (4, 2), (2, 0), (2, 1)], "of fragment 4 other rows passed"),
    ] {
        let error = map(&[&batches], &[4]).unwrap_err();
        assert!(error.contains(reason), "{batches:?}: {error}");
    }
}

#[test]
fn memory_is_asked_for_and_given_back() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(50));
    let group = group();
    let held = Places::new(&group, &pool).unwrap();
    assert_eq!(pool.reserved(), 40);
    assert_eq!(Places::new(&group, &pool).err().unwrap().sqlstate(), "53200");
    drop(held);
    assert_eq!(pool.reserved(), 0);
}
