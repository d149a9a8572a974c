//! Damage of every kind is noticed, and what is not damaged is read as it is.

#![allow(clippy::single_range_in_vec_init)]

use super::*;
use crate::error::ErrorKind;
use crate::store::faults::{FaultStore, OpKind};
use crate::store::{DurableLocal, Written};
use object_store::memory::InMemory;
use proptest::prelude::*;

const SIZE: usize = 200_000;
const BLOCK: usize = 65_536;

fn sample(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

fn path() -> Path {
    Path::from("t/data/x.parquet")
}

fn check_of(bytes: &[u8]) -> FileCheck {
    let Written { size_bytes, block_bytes, crc32c } = Written::of(bytes);
    FileCheck {
        elsewhere: None,
        size_bytes,
        unchecked_bytes: 0,
        block_bytes,
        crc32c: crc32c.into(),
        table: "orders".into(),
        object: "data/x.parquet".into(),
    }
}

/// Blocks smaller than real ones, so that edges are met often.
fn small_blocks(bytes: &[u8], block_bytes: u32) -> FileCheck {
    let crc32c = bytes.chunks(block_bytes as usize).map(crate::store::crc32c).collect();
    FileCheck { block_bytes, crc32c, ..check_of(bytes) }
}

async fn holding(bytes: Vec<u8>) -> Arc<dyn ObjectStore> {
    let inner = InMemory::new();
    inner.put(&path(), bytes.into()).await.unwrap();
    Arc::new(inner)
}

fn verified(inner: Arc<dyn ObjectStore>, check: FileCheck) -> VerifiedStore {
    VerifiedStore::new(inner, HashMap::from([(path(), check)]))
}

/// The reason, if `answer` is damage reported as it should be.
fn damage<T: std::fmt::Debug>(answer: Result<T>) -> String {
    let StoreError::Generic { source, .. } = answer.unwrap_err() else {
        panic!("not a generic error");
    };
    match source.downcast_ref::<Error>() {
        Some(error @ Error::Damaged { table, object, reason }) => {
            assert_eq!((table.as_str(), object.as_str(), error.kind()), ("orders", "data/x.parquet", ErrorKind::Data));
            reason.clone()
        }
        _ => panic!("{source}"),
    }
}

#[tokio::test]
async fn every_flipped_byte_is_noticed_by_a_read_that_covers_it_and_by_no_other() {
    let good = sample(SIZE);
    let check = check_of(&good);
    for at in 0..SIZE {
        let block = at / BLOCK * BLOCK;
        let end = (block + BLOCK).min(SIZE);
        let mut bytes = good[block..end].to_vec();
        bytes[at - block] ^= 1 << (at % 8);
        assert!(check.verify_blocks(&(block as u64..end as u64), &bytes).is_err(), "{at}");
    }

    let edges = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK - 1, 3 * BLOCK, SIZE - 1];
    for at in (0..SIZE).step_by(7919).chain(edges) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        let store = verified(holding(bytes).await, check.clone());
        let block = at / BLOCK * BLOCK;
        let reason = damage(store.get_range(&path(), at as u64..at as u64 + 1).await);
        assert_eq!(reason, format!("the checksum of its bytes {block}..{} does not match", (block + BLOCK).min(SIZE)));
        assert_eq!(damage(store.get_ranges(&path(), &[at as u64..at as u64 + 1]).await), reason);
        assert_eq!(damage(store.get(&path()).await), reason);
        for other in (0..SIZE).step_by(BLOCK).filter(|other| *other != block) {
            let range = other as u64..(other + 100) as u64;
            let expected = &good[other..other + 100];
            assert_eq!(store.get_range(&path(), range.clone()).await.unwrap(), expected);
            assert_eq!(store.get_ranges(&path(), &[range]).await.unwrap(), [expected]);
        }
    }
}

/// Every way of reading a few bytes at `range`.
async fn read_each_way(store: &VerifiedStore, range: Range<u64>) -> Vec<Result<Bytes>> {
    let suffix = GetOptions { range: Some(GetRange::Suffix(10)), ..GetOptions::default() };
    let whole = async { store.get(&path()).await?.bytes().await };
    let suffix = async { store.get_opts(&path(), suffix).await?.bytes().await };
    let head = async { store.head(&path()).await.map(|_| Bytes::new()) };
    let ranges = async { Ok(store.get_ranges(&path(), std::slice::from_ref(&range)).await?.remove(0)) };
    vec![store.get_range(&path(), range.clone()).await, ranges.await, whole.await, suffix.await, head.await]
}

#[tokio::test]
async fn files_of_another_length_are_noticed_by_every_read() {
    let good = sample(SIZE);
    let folder = tempfile::tempdir().unwrap();
    for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, SIZE - 1, SIZE + 1, SIZE + BLOCK] {
        let bytes = [good.clone(), vec![0; BLOCK]].concat()[..length].to_vec();
        let local = DurableLocal::new(folder.path(), false).unwrap();
        local.put(&path(), bytes.clone().into()).await.unwrap();
        let stores: [Arc<dyn ObjectStore>; 2] = [holding(bytes).await, Arc::new(local)];
        for inner in stores {
            for range in [0..1, SIZE as u64 - 1..SIZE as u64] {
                for way in 0..5 {
                    // A new store each time: the first read has to notice.
                    let store = verified(Arc::clone(&inner), check_of(&good));
                    let answer = read_each_way(&store, range.clone()).await.remove(way);
                    assert_eq!(damage(answer), format!("it has {length} bytes where {SIZE} were written"), "{length} {way}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_record_of_a_huge_file_does_not_take_memory() {
    let folder = tempfile::tempdir().unwrap();
    let local = DurableLocal::new(folder.path(), false).unwrap();
    local.put(&path(), "tiny".into()).await.unwrap();
    let huge = FileCheck { size_bytes: 1 << 40, block_bytes: 1 << 31, crc32c: vec![0; 512].into(), ..check_of(b"tiny") };
    // The whole of the block that was asked for would be 2 GiB.
    let faults = FaultStore::new(Arc::new(local));
    for answer in read_each_way(&verified(Arc::new(faults.clone()), huge), 0..1).await {
        assert_eq!(damage(answer), format!("it has 4 bytes where {} were written", 1u64 << 40));
    }
    // One operation for each way of reading, and one more to learn why the last bytes could not be read: the ranges were not
    // asked for once the length was known.
    assert_eq!(faults.operations().len(), 6);
}

#[tokio::test]
async fn a_missing_file_is_damage() {
    let good = sample(SIZE);
    let store = verified(Arc::new(InMemory::new()), check_of(&good));
    for answer in read_each_way(&store, 0..1).await {
        assert_eq!(damage(answer), "it does not exist");
    }
}

#[tokio::test]
async fn a_file_cut_after_its_length_was_seen_is_noticed() {
    let good = sample(SIZE);
    let inner = holding(good.clone()).await;
    let store = verified(Arc::clone(&inner), check_of(&good));
    store.get_ranges(&path(), &[0..1]).await.unwrap();
    inner.put(&path(), good[..150_000].to_vec().into()).await.unwrap();
    let reason = damage(store.get_ranges(&path(), &[199_000..199_001]).await);
    assert_eq!(reason, format!("it has 150000 bytes where {SIZE} were written"));
    assert!(store.get_ranges(&path(), &[0..1]).await.is_ok());
}

#[tokio::test]
async fn records_that_do_not_add_up_are_damage() {
    let good = sample(SIZE);
    let right = check_of(&good);
    let with = |block_bytes: u32, count: usize| FileCheck { block_bytes, crc32c: vec![0; count].into(), ..right.clone() };
    for check in [with(0, 0), with(0, 4), with(65_536, 3), with(65_536, 5), with(65_536, 0), with(1, 4)] {
        let store = verified(holding(good.clone()).await, check);
        for answer in read_each_way(&store, 0..1).await {
            assert!(damage(answer).contains("checksums are recorded for 200000 bytes"));
        }
    }
}

#[tokio::test]
async fn only_given_files_are_read_and_nothing_is_written() {
    let good = sample(10);
    let inner = holding(good.clone()).await;
    let other = Path::from("t/data/y.parquet");
    inner.put(&other, "x".into()).await.unwrap();
    let store = verified(Arc::clone(&inner), check_of(&good));
    for error in [
        store.get(&other).await.map(|_| ()).unwrap_err(),
        store.head(&other).await.map(|_| ()).unwrap_err(),
        store.get_ranges(&other, &[0..1]).await.map(|_| ()).unwrap_err(),
    ] {
        assert!(error.to_string().contains("'t/data/y.parquet' is read without its checksums"), "{error}");
    }
    assert!(matches!(store.put(&path(), "x".into()).await, Err(StoreError::NotSupported { .. })));
    assert!(matches!(store.put_multipart(&path()).await, Err(StoreError::NotSupported { .. })));
    assert!(matches!(store.delete(&path()).await, Err(StoreError::NotSupported { .. })));
    assert!(matches!(store.copy(&path(), &other).await, Err(StoreError::NotSupported { .. })));
    assert!(matches!(store.list_with_delimiter(None).await, Err(StoreError::NotSupported { .. })));
    assert!(matches!(store.list(None).next().await, Some(Err(StoreError::NotSupported { .. }))));
    assert_eq!(inner.get(&path()).await.unwrap().bytes().await.unwrap(), good);
}

#[tokio::test]
async fn ranges_outside_of_the_file_are_refused_not_answered() {
    let good = sample(SIZE);
    let store = verified(holding(good.clone()).await, check_of(&good));
    let size = SIZE as u64;
    for range in [size..size + 1, 0..size + 1, u64::MAX - 1..u64::MAX, Range { start: 5, end: 4 }] {
        assert!(store.get_ranges(&path(), &[0..1, range.clone()]).await.is_err(), "{range:?}");
    }
    // As with every object store, one range is cut at the end of the file, and refused if it starts there.
    assert_eq!(store.get_range(&path(), size - 3..size + 100).await.unwrap(), &good[SIZE - 3..]);
    assert!(store.get_range(&path(), size..size + 1).await.is_err());
    assert!(store.get_range(&path(), 5..5).await.is_err());
}

#[tokio::test]
async fn an_empty_file_is_read() {
    let store = verified(holding(vec![]).await, check_of(&[]));
    assert_eq!(store.get(&path()).await.unwrap().bytes().await.unwrap(), "");
    assert_eq!(store.head(&path()).await.unwrap().size, 0);
}

#[tokio::test]
async fn each_block_is_read_once_and_nothing_is_copied() {
    let good = sample(SIZE);
    let block = BLOCK as u64;
    let check = check_of(&good);
    let asked = [10..20, block - 1..block + 1, 15..30, 3 * block + 1..3 * block + 2, 40..40];
    assert_eq!(check.spans_of(&asked), [0..2 * block, 3 * block..SIZE as u64]);

    let faults = FaultStore::new(holding(good.clone()).await);
    let store = verified(Arc::new(faults.clone()), check);
    let parts = store.get_ranges(&path(), &asked).await.unwrap();
    let expected: Vec<&[u8]> = asked.iter().map(|range| &good[range.start as usize..range.end as usize]).collect();
    assert_eq!(parts, expected);
    // Both lie in one buffer, ten bytes apart.
    assert_eq!(parts[2].as_ptr() as usize - parts[0].as_ptr() as usize, 5);
    // The length is looked up at the first read only.
    assert_eq!(faults.operations().len(), 2);
    store.get_ranges(&path(), &asked).await.unwrap();
    assert_eq!(faults.operations(), vec![(OpKind::Get, path().to_string()); 3]);
}

proptest! {
    #[test]
    fn slices_are_right_wherever_blocks_end(
        length in 1usize..600,
        block_bits in 0u32..9,
        asked in prop::collection::vec((0usize..600, 0usize..600), 0..12),
        suffix in 1u64..700,
        offset in 0u64..600,
    ) {
        let good = sample(length);
        let asked: Vec<Range<u64>> = asked.iter().map(|(a, b)| {
            let (a, b) = (*a.min(b) % length, *a.max(b) % (length + 1));
            a.min(b) as u64..a.max(b) as u64
        }).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let check = small_blocks(&good, 1 << block_bits);
            let block_bytes = u64::from(check.block_bytes);
            let spans = check.spans_of(&asked);
            for span in &spans {
                prop_assert!(span.start % block_bytes == 0 && (span.end % block_bytes == 0 || span.end == length as u64));
            }
            prop_assert!(spans.windows(2).all(|pair| pair[0].end < pair[1].start));

            let store = verified(holding(good.clone()).await, check);
            let expected: Vec<&[u8]> = asked.iter().map(|range| &good[range.start as usize..range.end as usize]).collect();
            prop_assert_eq!(store.get_ranges(&path(), &asked).await.unwrap(), expected.clone());
            for (range, expected) in asked.iter().zip(expected).filter(|(range, _)| !range.is_empty()) {
                let found = store.get_opts(&path(), GetOptions::new().with_range(Some(range.clone()))).await.unwrap();
                prop_assert_eq!((&found.range, found.meta.size), (range, length as u64));
                prop_assert_eq!(found.bytes().await.unwrap(), expected);
            }
            let options = GetOptions { range: Some(GetRange::Suffix(suffix)), ..GetOptions::default() };
            let found = store.get_opts(&path(), options).await.unwrap().bytes().await.unwrap();
            prop_assert_eq!(found, &good[length.saturating_sub(suffix as usize)..]);
            let options = GetOptions { range: Some(GetRange::Offset(offset)), ..GetOptions::default() };
            match store.get_opts(&path(), options).await {
                Ok(found) => prop_assert_eq!(found.bytes().await.unwrap(), &good[offset as usize..]),
                Err(_) => prop_assert!(offset >= length as u64),
            }
            Ok(())
        })?;
    }
}

/// Only the last 1,000 of `bytes` have checksums, in blocks of 256.
fn footer_only(bytes: &[u8]) -> FileCheck {
    let unchecked = bytes.len() - 1000;
    let crc32c = bytes[unchecked..].chunks(256).map(crate::store::crc32c).collect();
    FileCheck { unchecked_bytes: unchecked as u64, block_bytes: 256, crc32c, ..check_of(bytes) }
}

#[tokio::test]
async fn bytes_without_checksums_are_handed_out_as_they_are() {
    let bytes = sample(10_000);
    let store = verified(holding(bytes.clone()).await, footer_only(&bytes));
    for range in [0..10_000, 0..1, 8_999..9_000, 8_999..9_001, 9_000..9_001, 9_255..9_257, 8_000..9_300, 9_999..10_000] {
        let expected = &bytes[range.start as usize..range.end as usize];
        assert_eq!(store.get_range(&path(), range.clone()).await.unwrap(), expected, "{range:?}");
        assert_eq!(store.get_ranges(&path(), &[0..3, range.clone(), 9_990..9_995]).await.unwrap()[1], expected, "{range:?}");
    }
    let mut flipped = bytes.clone();
    flipped[8_999] ^= 1;
    let store = verified(holding(flipped.clone()).await, footer_only(&bytes));
    assert_eq!(store.get_range(&path(), 0..9_100).await.unwrap(), &flipped[..9_100]);
}

#[tokio::test]
async fn nothing_is_handed_out_before_what_has_checksums_matches() {
    let bytes = sample(10_000);
    let mut flipped = bytes.clone();
    flipped[9_999] ^= 1;
    let store = verified(holding(flipped).await, footer_only(&bytes));
    assert_eq!(damage(store.get_range(&path(), 0..10).await), "the checksum of its bytes 9768..10000 does not match");
    assert_eq!(damage(store.get_ranges(&path(), &[0..10]).await), "the checksum of its bytes 9768..10000 does not match");
    let none = FileCheck { unchecked_bytes: 10_000, crc32c: Arc::new([]), ..footer_only(&bytes) };
    assert!(damage(verified(holding(bytes.clone()).await, none).get_range(&path(), 0..10).await).contains("0 checksums are recorded"));
}

#[tokio::test]
async fn a_file_elsewhere_is_read_there() {
    let bytes = sample(1_000);
    let elsewhere = InMemory::new();
    let there = Path::from("other/name");
    elsewhere.put(&there, bytes.clone().into()).await.unwrap();
    let check = FileCheck { elsewhere: Some(Elsewhere { objects: Arc::new(elsewhere), location: there }), ..check_of(&bytes) };
    let store = verified(Arc::new(InMemory::new()), check);
    assert_eq!(store.get_range(&path(), 10..20).await.unwrap(), &bytes[10..20]);
    assert_eq!(store.head(&path()).await.unwrap().size, 1_000);
}
