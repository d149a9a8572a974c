//! Stored bytes keep their meaning: the files in `tests/golden` open for ever, and as long as this build writes their
//! format version it writes exactly these bytes.
//!
//! Files of an older format version stay as they are. New ones are written by
//! `cargo test --test it write_golden_files -- --ignored`.

use crate::format_samples::{catalog, catalog_of_names, page, rows_page, sorted_page, transactions, version};
use amend::manifest::catalog::{decode_catalog, encode_catalog};
use amend::manifest::decode::{DEFAULT_LIMITS, Transactions, decode_manifest, decode_page, decode_transactions};
use amend::manifest::encode::{encode_manifest, encode_page, encode_transactions};
use amend::manifest::fragments::PageRef;
use amend::manifest::version::TransactionsRef;
use bytes::Bytes;
use std::path::PathBuf;
use std::sync::Arc;

fn path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", "v1", name].iter().collect()
}

/// A stored file.
pub fn golden(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

/// The page as the stored manifests name it.
pub fn page_ref() -> PageRef {
    version().snapshot.fragments.pages()[0].reference.clone().unwrap()
}

/// The page of rows as a manifest would name it.
pub fn rows_page_ref() -> PageRef {
    encode_page(&rows_page()).unwrap().reference("_pages/0190a1b9.page")
}

/// The transactions as the stored manifest `spilled.manifest` names them.
pub fn transactions_ref() -> TransactionsRef {
    encode_transactions(&transactions()).unwrap().reference("_transactions/0190a1f0.txn")
}

/// What this build writes, by file name.
fn written() -> [(&'static str, Bytes); 8] {
    [
        ("inline.manifest", encode_manifest(&version(), None).unwrap().bytes),
        ("spilled.manifest", encode_manifest(&version(), Some(&transactions_ref())).unwrap().bytes),
        ("fragments.page", encode_page(&page()).unwrap().bytes),
        ("rows.page", encode_page(&rows_page()).unwrap().bytes),
        ("sorted.page", encode_page(&sorted_page()).unwrap().bytes),
        ("transactions.txn", encode_transactions(&transactions()).unwrap().bytes),
        ("catalog.manifest", encode_catalog(&catalog()).unwrap()),
        ("names.manifest", encode_catalog(&catalog_of_names()).unwrap()),
    ]
}

#[test]
fn stored_files_open_as_what_they_were() {
    let pages = || vec![Arc::new(decode_page(&golden("fragments.page"), &page_ref(), &DEFAULT_LIMITS).unwrap())];
    assert_eq!(*pages()[0], page());

    assert_eq!(decode_page(&golden("rows.page"), &rows_page_ref(), &DEFAULT_LIMITS).unwrap(), rows_page());

    let sorted = encode_page(&sorted_page()).unwrap().reference("_pages/0190a1c0.page");
    assert_eq!(decode_page(&golden("sorted.page"), &sorted, &DEFAULT_LIMITS).unwrap(), sorted_page());

    let inline = decode_manifest(&golden("inline.manifest"), &DEFAULT_LIMITS).unwrap();
    assert_eq!(inline.into_version(pages(), None).unwrap(), version());

    let spilled = decode_manifest(&golden("spilled.manifest"), &DEFAULT_LIMITS).unwrap();
    assert_eq!(spilled.transactions, Transactions::Object(transactions_ref()));
    let outside = decode_transactions(&golden("transactions.txn"), &transactions_ref(), &DEFAULT_LIMITS).unwrap();
    assert_eq!(outside, transactions());
    assert_eq!(spilled.into_version(pages(), Some(outside)).unwrap(), version());

    assert_eq!(decode_catalog(&golden("catalog.manifest"), &DEFAULT_LIMITS).unwrap(), catalog());
    assert_eq!(decode_catalog(&golden("names.manifest"), &DEFAULT_LIMITS).unwrap(), catalog_of_names());
}

#[test]
fn the_same_values_are_written_as_the_same_bytes() {
    for (name, bytes) in written() {
        assert!(golden(name) == bytes, "{name} is written differently");
    }
}

#[test]
#[ignore = "writes files: for a new format version only"]
fn write_golden_files() {
    for (name, bytes) in written() {
        std::fs::write(path(name), bytes).unwrap();
    }
}
