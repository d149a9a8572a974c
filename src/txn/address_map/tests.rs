//! Maps by hand, and against moving rows one by one.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn bitmap(rows: &[u32]) -> RoaringBitmap {
    rows.iter().copied().collect()
}

/// Where each row of a target came from.
fn arrived(map: &AddressMap, target: usize) -> Vec<(usize, u32)> {
    let Arrivals { rows, order } = map.arrivals(target).unwrap();
    let rows: Vec<(usize, u32)> = rows.iter().flat_map(|(at, rows)| rows.iter().map(move |row| (*at, row))).collect();
    match order {
        None => rows,
        Some(order) => order.iter().map(|at| rows[*at as usize]).collect(),
    }
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
fn sources_that_nothing_arrived_from_are_not_named() {
    let source = |absent: &[u32]| MapSource { physical_rows: 3, absent: bitmap(absent) };
    let map = AddressMap::in_order(vec![source(&[]), source(&[0, 1, 2]), source(&[1])], vec![3, 2]).unwrap();
    assert_eq!(map.arrivals(0).unwrap(), Arrivals { rows: vec![(0, bitmap(&[0, 1, 2]))], order: None });
    assert_eq!(map.arrivals(1).unwrap(), Arrivals { rows: vec![(2, bitmap(&[0, 2]))], order: None });
    let sources = vec![source(&[]), source(&[0, 1, 2]), source(&[1])];
    let map = AddressMap::permuted(sources, vec![3, 2], &[vec![2, 1, 0], vec![], vec![4, 3]]).unwrap();
    assert_eq!(map.arrivals(0).unwrap(), Arrivals { rows: vec![(0, bitmap(&[0, 1, 2]))], order: Some(vec![2, 1, 0]) });
    assert_eq!(map.arrivals(1).unwrap(), Arrivals { rows: vec![(2, bitmap(&[0, 2]))], order: Some(vec![1, 0]) });
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

#[test]
fn a_few_rows_land_where_they_would_among_many() {
    let physical_rows = 200_000;
    let absent: RoaringBitmap = (0..physical_rows).filter(|row| row % 7 < 3 || (70_000..140_000).contains(row)).collect();
    let map = || AddressMap::in_order(vec![MapSource { physical_rows, absent: absent.clone() }], vec![74_284]).unwrap();
    let all = map().move_rows(0, &(0..physical_rows).collect()).unwrap();
    assert_eq!((all.absent.len(), all.targets.len()), (125_716, 1));
    let live: Vec<u32> = (0..physical_rows).filter(|row| !absent.contains(*row)).collect();
    for row in [0, 2, 3, 6, 65_535, 65_536, 69_999, 70_000, 139_999, 140_000, 140_004, 199_998, 199_999] {
        let moved = map().move_rows(0, &bitmap(&[row])).unwrap();
        let expected = match live.binary_search(&row) {
            Ok(rank) => MovedRows { targets: vec![(0, bitmap(&[rank as u32]))], absent: bitmap(&[]) },
            Err(_) => MovedRows { targets: vec![], absent: bitmap(&[row]) },
        };
        assert_eq!(moved, expected, "row {row}");
    }
}

#[test]
fn permuted_rows_land_where_their_positions_say() {
    let sources = vec![MapSource { physical_rows: 4, absent: bitmap(&[2]) }, MapSource { physical_rows: 3, absent: bitmap(&[0]) }];
    let map = AddressMap::permuted(sources, vec![3, 2], &[vec![4, 0, 2], vec![3, 1]]).unwrap();
    let first = map.move_rows(0, &bitmap(&[0, 1, 2, 3])).unwrap();
    assert_eq!(first, MovedRows { targets: vec![(0, bitmap(&[0, 2])), (1, bitmap(&[1]))], absent: bitmap(&[2]) });
    let second = map.move_rows(1, &bitmap(&[2])).unwrap();
    assert_eq!(second, MovedRows { targets: vec![(0, bitmap(&[1]))], absent: bitmap(&[]) });
    assert_eq!((map.origin(1, 1), map.origin(0, 1), map.keeps_order()), (Some((0, 0)), Some((1, 2)), false));
}

#[test]
fn positions_that_are_no_permutation_are_refused() {
    let refused = |positions: &[Vec<u32>]| {
        let sources = vec![MapSource { physical_rows: 2, absent: bitmap(&[]) }, MapSource { physical_rows: 2, absent: bitmap(&[1]) }];
        AddressMap::permuted(sources, vec![3], positions).unwrap_err().0
    };
    assert!(refused(&[vec![0, 1], vec![1]]).contains("position 1 is taken twice"));
    assert!(refused(&[vec![0, 1], vec![3]]).contains("position 3 is taken twice or lies beyond"));
    assert!(refused(&[vec![0, 1], vec![2, 3]]).contains("not as many positions"));
    assert!(refused(&[vec![0, 1]]).contains("not as many positions"));
}

#[test]
fn damaged_positions_are_refused_when_they_are_read_or_used() {
    let sources = vec![MapSource { physical_rows: 2000, absent: bitmap(&[]) }];
    let positions: Vec<u32> = (0..2000).rev().collect();
    let map = AddressMap::permuted(sources, vec![2000], &[positions]).unwrap();
    let bytes = wire::encode(&map);
    assert_eq!(wire::decode(&bytes).unwrap(), map);
    for cut in [1, 10, 1000] {
        assert!(wire::decode(&bytes.slice(..bytes.len() - cut)).is_err());
    }
    // Flipped bits are for checksums to find, but no two rows get one address, and none lies beyond the targets.
    let all: RoaringBitmap = (0..2000).collect();
    let mut refused = 0;
    for at in 0..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 4;
        if let Ok(map) = wire::decode(&damaged.into()) {
            match map.move_rows(0, &all) {
                Err(_) => refused += 1,
                Ok(moved) => assert_eq!(moved.absent.len() + moved.targets.iter().map(|(_, rows)| rows.len()).sum::<u64>(), 2000),
            }
            if let Ok(arrivals) = map.arrivals(0) {
                let order: RoaringBitmap = arrivals.order.unwrap().into_iter().collect();
                assert_eq!((order.len(), order.max()), (2000, Some(1999)));
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn rows_that_stay_together_take_few_bytes() {
    let bytes_per_row = |positions: Vec<u32>| {
        let rows = positions.len() as u32;
        let sources = vec![MapSource { physical_rows: rows, absent: bitmap(&[]) }];
        wire::encode(&AddressMap::permuted(sources, vec![rows], &[positions]).unwrap()).len() as f64 / f64::from(rows)
    };
    let rows = 1 << 16;
    // Thrown anywhere: as many bits as the rows have.
    assert!(bytes_per_row((0..rows).map(|row| row * 40_503 % rows).collect()) < 2.02);
    // Merged with as many others.
    assert!(bytes_per_row((0..rows).map(|row| if row % 2 == 0 { row / 2 } else { rows / 2 + row / 2 }).collect()) < 2.02);
    assert!(bytes_per_row((0..rows).map(|row| row ^ 3).collect()) < 1.3);
}

#[test]
fn a_map_in_an_object_is_opened_by_its_length_and_checksum() {
    let map = AddressMap::in_order(vec![MapSource { physical_rows: 3, absent: bitmap(&[1]) }], vec![2]).unwrap();
    let (object, crc32c) = wire::seal(&map);
    assert_eq!(wire::open(&object, object.len() as u64, crc32c), Ok(map));
    assert!(wire::open(&object, object.len() as u64 + 1, crc32c).is_err());
    assert!(wire::open(&object, object.len() as u64, crc32c ^ 1).is_err());
}

#[test]
fn a_map_names_so_many_fragments_and_no_more() {
    const MOST: usize = 1 << 20;
    // Field 2, a source: no rows, and no bytes where its absent rows should be. Field 3, packed: targets without rows.
    let sources = |count: usize| [&[8, 1][..], &[0x12, 0].repeat(count)].concat();
    let targets = |count: usize| {
        let mut bytes = vec![8, 1, 0x1A];
        prost::encoding::encode_varint(count as u64, &mut bytes);
        bytes.resize(bytes.len() + count, 0);
        bytes
    };
    let read = |bytes: Vec<u8>| wire::decode(&bytes.into());
    assert_eq!(read(targets(MOST)).unwrap().targets().len(), MOST);
    assert_eq!(read(targets(MOST + 1)).unwrap_err().0, "address map names too many fragments");
    assert_eq!(read(sources(MOST + 1)).unwrap_err().0, "address map names too many fragments");
    assert_ne!(read(sources(MOST)).unwrap_err().0, "address map names too many fragments");
}

#[test]
fn only_rows_of_another_order_have_positions() {
    let sources = vec![MapSource { physical_rows: 2, absent: bitmap(&[]) }];
    let mut bytes = wire::encode(&AddressMap::permuted(sources, vec![2], &[vec![1, 0]]).unwrap()).to_vec();
    assert_eq!(bytes[..2], [8, 2], "the encoding comes first");
    bytes[1] = 1;
    assert_eq!(wire::decode(&bytes.clone().into()).unwrap_err().0, "address map has positions of rows that kept their order");
    bytes[1] = 3;
    assert_eq!(wire::decode(&bytes.into()).unwrap_err().0, "address map has the unknown encoding 3");
}

#[test]
fn positions_have_up_to_32_bits() {
    let positions = [u32::MAX, 0, 5];
    let packed = PackedPositions::pack(&positions);
    assert_eq!(packed.bytes()[4], 32);
    let read = PackedPositions::parse(packed.bytes().clone(), 3).unwrap();
    assert_eq!((read.iter().collect::<Vec<_>>(), &read), (positions.map(u64::from).to_vec(), &packed));
    // One position is its base, and no bits.
    let alone = PackedPositions::pack(&[7]);
    assert_eq!((alone.bytes().len(), PackedPositions::parse(alone.bytes().clone(), 1)), (5, Ok(alone.clone())));
    assert_eq!(PackedPositions::parse(alone.bytes().slice(..4), 1).unwrap_err().0, "packed positions are cut short");
    let mut wider = packed.bytes().to_vec();
    wider[4] = 33;
    wider.push(0);
    assert_eq!(PackedPositions::parse(wider.into(), 3).unwrap_err().0, "packed positions are wider than 32 bits");
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
        for target in 0..map.targets().len() {
            let expected: BTreeMap<u32, (usize, u32)> =
                address.iter().filter(|(_, (to, _))| *to == target).map(|(row, (_, offset))| (*offset, *row)).collect();
            prop_assert_eq!(arrived(&map, target), expected.into_values().collect::<Vec<_>>());
        }
        prop_assert!(map.arrivals(map.targets().len()).is_err());
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

    /// Positions against a list of rows that are moved one by one to shuffled places.
    #[test]
    fn permuted_maps_equal_moving_rows_one_by_one(
        sources in prop::collection::vec((1u32..3000, prop::collection::vec(any::<prop::sample::Index>(), 0..100)), 1..4),
        shuffled in prop::collection::vec(any::<u32>(), 1..50),
        cut in any::<prop::sample::Index>(),
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
        // The order in which a sort would yield the survivors.
        let mut order: Vec<usize> = (0..survivors.len()).collect();
        order.sort_by_key(|at| (shuffled[at % shuffled.len()], *at));
        let mut positions: Vec<Vec<u32>> = vec![vec![]; sources.len()];
        let mut place = vec![0u32; survivors.len()];
        for (position, at) in order.iter().enumerate() {
            place[*at] = position as u32;
        }
        for (at, (source, _)) in survivors.iter().enumerate() {
            positions[*source].push(place[at]);
        }
        let cut = cut.index(survivors.len() + 1) as u32;
        let targets = vec![cut, survivors.len() as u32 - cut];
        let map = AddressMap::permuted(sources.clone(), targets, &positions).unwrap();
        prop_assert_eq!(&wire::decode(&wire::encode(&map)).unwrap(), &map);
        for (target, range) in [(0, 0..cut as usize), (1, cut as usize..order.len())] {
            prop_assert_eq!(arrived(&map, target), order[range].iter().map(|at| survivors[*at]).collect::<Vec<_>>());
        }
        let went: BTreeMap<(usize, u32), u32> = survivors.iter().copied().zip(place).collect();
        for (source, from) in sources.iter().enumerate() {
            let rows: RoaringBitmap = asked.iter().map(|i| i.index(from.physical_rows as usize) as u32).collect();
            let moved = map.move_rows(source, &rows).unwrap();
            let mut expected: BTreeMap<usize, RoaringBitmap> = BTreeMap::new();
            for row in &rows {
                if let Some(position) = went.get(&(source, row)).copied() {
                    let (target, offset) = if position < cut { (0, position) } else { (1, position - cut) };
                    expected.entry(target).or_default().insert(offset);
                    prop_assert_eq!(map.origin(target, offset), Some((source, row)));
                }
            }
            prop_assert_eq!(moved.targets, expected.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(moved.absent, rows & &from.absent);
        }
    }
}
