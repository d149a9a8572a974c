//! Maps by hand, and against moving rows one by one.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn bitmap(rows: &[u32]) -> RoaringBitmap {
    rows.iter().copied().collect()
}

#[test]
fn rows_land_where_the_picture_says() {
    let sources = vec![MapSource { physical_rows: 4, absent: bitmap(&[2]) }, MapSource { physical_rows: 4, absent: bitmap(&[0]) }];
    let map = AddressMap::in_order(sources, vec![4, 2]).unwrap();
    let first = map.move_rows(0, &bitmap(&[0, 2, 3])).unwrap();
    assert_eq!(first, MovedRows { targets: vec![(0, bitmap(&[0, 2]))], absent: bitmap(&[2]) });
    let second = map.move_rows(1, &bitmap(&[0, 1, 3])).unwrap();
    assert_eq!(second, MovedRows { targets: vec![(0, bitmap(&[3])), (1, bitmap(&[1]))], absent: bitmap(&[0]) });
}

#[test]
fn a_map_that_does_not_add_up_is_refused() {
    let source = |absent: &[u32]| vec![MapSource { physical_rows: 3, absent: bitmap(absent) }];
    assert!(AddressMap::in_order(source(&[1]), vec![3]).unwrap_err().to_string().contains("2 rows left the sources, 3 arrived"));
    assert!(AddressMap::in_order(source(&[3]), vec![2]).unwrap_err().0.contains("go beyond"));
    let map = AddressMap::in_order(source(&[]), vec![3]).unwrap();
    assert!(map.move_rows(0, &bitmap(&[3])).is_err());
    assert!(map.move_rows(1, &bitmap(&[0])).is_err());
}

proptest! {
    /// The walk against a list of rows that are moved one by one.
    #[test]
    fn the_walk_equals_moving_rows_one_by_one(
        sources in prop::collection::vec((1u32..200, prop::collection::vec(any::<prop::sample::Index>(), 0..100)), 1..5),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        asked in prop::collection::vec(any::<prop::sample::Index>(), 0..100),
    ) {
        let sources: Vec<MapSource> = sources
            .into_iter()
            .map(|(rows, dead)| MapSource { physical_rows: rows, absent: dead.iter().map(|i| i.index(rows as usize) as u32).collect() })
            .collect();
        let survivors: Vec<(usize, u32)> = sources
            .iter()
            .enumerate()
            .flat_map(|(at, s)| (0..s.physical_rows).filter(|row| !s.absent.contains(*row)).map(move |row| (at, row)))
            .collect();
        let mut ends: Vec<usize> = cuts.iter().map(|c| c.index(survivors.len() + 1)).collect();
        ends.push(survivors.len());
        ends.sort_unstable();
        let mut start = 0;
        let mut targets = Vec::new();
        let mut address = BTreeMap::new();
        for (target, end) in ends.into_iter().enumerate() {
            targets.push((end - start) as u32);
            for (offset, row) in survivors[start..end].iter().enumerate() {
                address.insert(*row, (target, offset as u32));
            }
            start = end;
        }
        let map = AddressMap::in_order(sources.clone(), targets).unwrap();
        prop_assert_eq!(&wire::decode(&wire::encode(&map)).unwrap(), &map);
        for (row, (target, offset)) in &address {
            prop_assert_eq!(map.origin(*target, *offset), Some(*row));
        }
        prop_assert_eq!(map.origin(0, map.targets()[0]), None);
        for (at, source) in sources.iter().enumerate() {
            let rows: RoaringBitmap = asked.iter().map(|i| i.index(source.physical_rows as usize) as u32).collect();
            let moved = map.move_rows(at, &rows).unwrap();
            let mut expected: BTreeMap<usize, RoaringBitmap> = BTreeMap::new();
            for row in &rows {
                if let Some((target, offset)) = address.get(&(at, row)) {
                    expected.entry(*target).or_default().insert(*offset);
                }
            }
            prop_assert_eq!(moved.targets, expected.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(moved.absent, rows & &source.absent);
        }
    }
}
