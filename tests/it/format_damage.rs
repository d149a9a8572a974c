//! Damaged metadata is noticed, and never makes the reader panic: every flipped bit, every cut and every added byte of
//! every kind of object; and, for bytes that carry a right checksum but were never written by amend, every changed byte.

use crate::format_golden::{golden, index_ref, rows_page_ref, transactions_ref};
use crate::format_samples::page_ref;
use amend::manifest::catalog::{decode_catalog, encode_catalog};
use amend::manifest::decode::{DEFAULT_LIMITS, DecodeError, decode_index, decode_manifest, decode_page, decode_transactions};
use amend::manifest::encode::{encode_index, encode_page, encode_transactions};
use amend::manifest::frame::{self, Kind};
use amend::manifest::pages::{IndexRef, PageRef};
use amend::manifest::version::TransactionsRef;
use proptest::prelude::*;

/// The stored files, each with how it is read.
type Reader = fn(&[u8]) -> Result<(), DecodeError>;
const OBJECTS: [(&str, Kind, Reader); 8] = [
    ("inline.manifest", Kind::Manifest, |bytes| decode_manifest(bytes, &DEFAULT_LIMITS).map(drop)),
    ("spilled.manifest", Kind::Manifest, |bytes| decode_manifest(bytes, &DEFAULT_LIMITS).map(drop)),
    ("pages.index", Kind::PageIndex, |bytes| decode_index(bytes, &index_ref(), &DEFAULT_LIMITS).map(drop)),
    ("fragments.page", Kind::Page, |bytes| decode_page(bytes, &page_ref(), &DEFAULT_LIMITS).map(drop)),
    ("rows.page", Kind::Page, |bytes| decode_page(bytes, &rows_page_ref(), &DEFAULT_LIMITS).map(drop)),
    ("transactions.txn", Kind::Transactions, |bytes| decode_transactions(bytes, &transactions_ref(), &DEFAULT_LIMITS).map(drop)),
    ("catalog.manifest", Kind::Catalog, |bytes| decode_catalog(bytes, &DEFAULT_LIMITS).map(drop)),
    ("names.manifest", Kind::Catalog, |bytes| decode_catalog(bytes, &DEFAULT_LIMITS).map(drop)),
];

#[test]
fn every_flipped_bit_cut_and_added_byte_is_noticed() {
    for (name, _, read) in OBJECTS {
        let whole = golden(name);
        assert_eq!(read(&whole), Ok(()), "{name}");
        for byte in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[byte] ^= 1 << bit;
                assert!(matches!(read(&damaged), Err(DecodeError::Damaged(_))), "{name}, byte {byte}, bit {bit}");
            }
            assert!(matches!(read(&whole[..byte]), Err(DecodeError::Damaged(_))), "{name}, cut at {byte}");
        }
        for extra in [0, 1, 0x80, 0xFF] {
            assert!(matches!(read(&[&whole[..], &[extra]].concat()), Err(DecodeError::Damaged(_))), "{name}, one more byte");
        }
    }
}

#[test]
fn one_object_does_not_pass_for_another() {
    for (name, kind, _) in OBJECTS {
        for (as_name, other, read) in OBJECTS {
            // One page is not another: who names it knows its checksum.
            let alike = kind == other && (kind != Kind::Page || name == as_name);
            assert_eq!(read(&golden(name)).is_ok(), alike, "{name} read as {as_name}");
        }
    }
}

/// Reads a payload under a right frame, and writes again what came of it.
fn read_forged(kind: Kind, payload: &[u8]) {
    let object = frame::seal(kind, payload);
    let (size_bytes, crc32c) = (object.len() as u64, frame::checksum(&object).unwrap());
    match kind {
        Kind::Manifest => {
            if let Ok(manifest) = decode_manifest(&object, &DEFAULT_LIMITS) {
                manifest.schema.to_arrow();
                manifest.transaction_ids();
                let sizes = manifest
                    .tail
                    .values()
                    .filter_map(|record| record.fragment.as_ref())
                    .map(|fragment| fragment.size_bytes() + u64::from(fragment.live_rows()));
                sizes.sum::<u64>();
            }
        }
        Kind::PageIndex => {
            let reference = IndexRef { size_bytes, crc32c, ..index_ref() };
            if let Ok(pages) = decode_index(&object, &reference, &DEFAULT_LIMITS) {
                assert!(encode_index(&pages).is_ok());
            }
        }
        Kind::Page => {
            let reference = PageRef { size_bytes, crc32c, ..page_ref() };
            if let Ok(fragments) = decode_page(&object, &reference, &DEFAULT_LIMITS) {
                let again = encode_page(&fragments, &[]).unwrap();
                let reference = again.reference("_pages/a");
                assert_eq!(decode_page(&again.bytes, &reference, &DEFAULT_LIMITS).unwrap(), fragments);
            }
        }
        Kind::Transactions => {
            let reference = TransactionsRef { size_bytes, crc32c, ..transactions_ref() };
            if let Ok(transactions) = decode_transactions(&object, &reference, &DEFAULT_LIMITS) {
                assert!(encode_transactions(&transactions).is_ok());
            }
        }
        Kind::Catalog => {
            if let Ok(catalog) = decode_catalog(&object, &DEFAULT_LIMITS) {
                assert!(encode_catalog(&catalog).is_ok());
            }
        }
        Kind::Moves => {}
    }
}

fn payload(name: &str, kind: Kind) -> Vec<u8> {
    frame::open(kind, &golden(name), u64::MAX).unwrap().to_vec()
}

#[test]
fn bytes_that_amend_never_wrote_do_not_make_it_panic() {
    for (name, kind, _) in OBJECTS {
        let whole = payload(name, kind);
        for at in 0..whole.len() {
            for value in [0, 1, 0x7F, 0x80, 0xFF, whole[at] ^ 1, whole[at] ^ 8, whole[at].wrapping_add(1), whole[at].wrapping_sub(1)] {
                let mut forged = whole.clone();
                forged[at] = value;
                read_forged(kind, &forged);
            }
            read_forged(kind, &whole[..at]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn pieces_of_objects_put_together_anew_do_not_make_it_panic(
        object in 0..OBJECTS.len(),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<Vec<u8>>()), 1..4),
    ) {
        let (name, kind, _) = OBJECTS[object];
        let whole = payload(name, kind);
        let mut forged = Vec::new();
        for (from, to, noise) in cuts {
            let (from, to) = (from.index(whole.len()), to.index(whole.len()));
            forged.extend_from_slice(&whole[from.min(to)..from.max(to)]);
            forged.extend_from_slice(&noise);
        }
        read_forged(kind, &forged);
    }
}
