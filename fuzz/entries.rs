//! What a fuzzer calls: one function for each kind of stored bytes.
//!
//! Goes in: any bytes. Frames are put around them here, since no fuzzer guesses a checksum. Comes out: whether they were accepted; a panic, or
//! memory out of proportion to the bytes, is a fault. What is accepted is written again and read as the same.

#![allow(dead_code, reason = "a fuzz target calls one of them")]

use amend::manifest::decode::{DEFAULT_LIMITS, decode_index, decode_manifest, decode_page, decode_transactions};
use amend::manifest::encode::{encode_index, encode_page, encode_transactions};
use amend::manifest::frame::{self, Kind};
use amend::manifest::pages::{IndexRef, PageRef};
use amend::manifest::version::TransactionsRef;
use amend::table::deletion_vector;
use amend::table::row_address::FragmentId;
use amend::txn::address_map::wire;

/// The payload of a manifest; the bytes are also tried as a whole object.
pub fn manifest(bytes: &[u8]) -> bool {
    let _ = decode_manifest(bytes, &DEFAULT_LIMITS);
    let decoded = decode_manifest(&frame::seal(Kind::Manifest, bytes), &DEFAULT_LIMITS);
    if let Ok(manifest) = &decoded {
        let live: u64 =
            manifest.tail.values().filter_map(|record| record.fragment.as_ref()).map(|fragment| u64::from(fragment.live_rows())).sum();
        assert!(live <= manifest.tail.len() as u64 * u64::from(u32::MAX));
        manifest.schema.to_arrow();
    }
    decoded.is_ok()
}

/// The payload of a page index.
pub fn index(bytes: &[u8]) -> bool {
    let mut accepted = false;
    let object = frame::seal(Kind::PageIndex, bytes);
    let (size_bytes, crc32c) = (object.len() as u64, frame::checksum(&object).unwrap_or(0));
    // An index is read as its manifest names it: that of the seed, and that of one page.
    let id = FragmentId(u32::from(bytes.get(3).copied().unwrap_or(0)));
    for (last, pages, fragments, live_rows) in [(FragmentId(5), 1, 3, 269), (id, 1, 1, u64::from(bytes.len() as u32))] {
        let reference = IndexRef { path: "_pages/a.index".into(), size_bytes, crc32c, pages, last, fragments, live_rows };
        if let Ok(pages) = decode_index(&object, &reference, &DEFAULT_LIMITS) {
            let Ok(again) = encode_index(&pages) else { panic!("an index that was read cannot be written") };
            let read = decode_index(&again.bytes, &again.reference("_pages/a.index"), &DEFAULT_LIMITS);
            assert!(read.is_ok_and(|read| read == pages), "an index comes back otherwise");
            accepted = true;
        }
    }
    accepted
}

/// The payload of a page.
pub fn page(bytes: &[u8]) -> bool {
    let mut accepted = false;
    let object = frame::seal(Kind::Page, bytes);
    let (size_bytes, crc32c) = (object.len() as u64, frame::checksum(&object).unwrap_or(0));
    // A page is read as its manifest names it: ids and counts are those of the page, as far as it can be read at all.
    for (first, last, fragments, rows, live_rows) in page_shapes(bytes) {
        let summaries = std::collections::BTreeMap::new();
        let reference = PageRef { path: "_pages/a.page".into(), size_bytes, crc32c, first, last, fragments, rows, live_rows, summaries };
        if let Ok(page) = decode_page(&object, &reference, &DEFAULT_LIMITS) {
            let Ok(again) = encode_page(&page, &[]) else { panic!("a page that was read cannot be written") };
            let read = decode_page(&again.bytes, &again.reference("_pages/a.page"), &DEFAULT_LIMITS);
            assert!(read.is_ok_and(|read| read == page), "a page comes back otherwise");
            accepted = true;
        }
    }
    accepted
}

/// What a manifest could say of a page of these bytes: that of the page the seeds are made of, and that of one fragment.
fn page_shapes(bytes: &[u8]) -> [(FragmentId, FragmentId, u32, u64, u64); 2] {
    let id = FragmentId(u32::from(bytes.get(3).copied().unwrap_or(0)));
    [(FragmentId(1), FragmentId(5), 3, 300, 269), (id, id, 1, u64::from(bytes.len() as u32), u64::from(bytes.len() as u32))]
}

/// The payload of a file of transactions.
pub fn transactions(bytes: &[u8]) -> bool {
    let mut accepted = false;
    let object = frame::seal(Kind::Transactions, bytes);
    let (size_bytes, crc32c) = (object.len() as u64, frame::checksum(&object).unwrap_or(0));
    let path = "_transactions/a.txn".to_owned();
    // Whose they are is said in two places; the seeds hold 11 and 12.
    let ids = [11, 12].map(amend::txn::composite::TransactionId).to_vec();
    for ids in [ids.clone(), ids[..1].to_vec(), vec![]] {
        let reference = TransactionsRef { path: path.clone(), size_bytes, crc32c, ids };
        if let Ok(transactions) = decode_transactions(&object, &reference, &DEFAULT_LIMITS) {
            let Ok(again) = encode_transactions(&transactions) else { panic!("transactions that were read cannot be written") };
            let read = decode_transactions(&again.bytes, &again.reference("_transactions/a.txn"), &DEFAULT_LIMITS);
            assert!(read.is_ok_and(|read| read == transactions), "transactions come back otherwise");
            accepted = true;
        }
    }
    accepted
}

/// A deletion-vector blob, as it is and with its length and checksum made right.
pub fn deletion_vector(bytes: &[u8]) -> bool {
    let mut accepted = false;
    for blob in [bytes.to_vec(), sealed_vector(bytes)] {
        for physical_rows in [0, 100, u32::MAX - 1] {
            if let Ok(rows) = deletion_vector::decode(&blob, physical_rows) {
                assert!(rows.max().is_none_or(|row| row < physical_rows), "a row beyond the fragment");
                accepted = true;
            }
        }
    }
    accepted
}

/// The bitmap within `bytes`, which are a blob, under a right length and checksum.
fn sealed_vector(bytes: &[u8]) -> Vec<u8> {
    let bitmap = bytes.get(8..bytes.len().saturating_sub(4)).unwrap_or(&[]);
    let body = [&[0xD1, 0xD3, 0x39, 0x64][..], bitmap].concat();
    let crc32 = crc32(&body);
    [&(body.len() as u32).to_be_bytes()[..], &body, &crc32.to_be_bytes()].concat()
}

/// CRC-32 of zlib, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()));
    !bytes.iter().fold(!0, step)
}

/// The message of a change-of-address map.
pub fn map(bytes: &[u8]) -> bool {
    let decoded = wire::decode(&bytes.to_vec().into());
    if let Ok(map) = &decoded {
        for (number, source) in map.sources().iter().enumerate() {
            assert!(map.move_rows(number, &source.absent).is_ok_and(|moved| moved.absent == source.absent && moved.targets.is_empty()));
        }
        assert!(wire::decode(&wire::encode(map)).is_ok_and(|read| read == *map), "a map comes back otherwise");
    }
    let object = frame::seal(Kind::Moves, bytes);
    let opened = wire::open(&object, object.len() as u64, frame::checksum(&object).unwrap_or(0));
    assert_eq!(opened.is_ok(), decoded.is_ok(), "a map in an object is another one");
    decoded.is_ok()
}
