//! A smoke run of the fuzz targets: the same entries, with seeds from `tests/golden`, changed by a seeded generator for a bounded
//! number of rounds. `AMEND_FUZZ_ROUNDS` sets another number.
//!
//! Always holds: no panic; and the peak of the process's memory stays where the seeds alone put it, give or take, whatever sizes
//! the bytes claim.

#[path = "../../fuzz/entries.rs"]
mod entries;

use crate::format_golden::golden;
use amend::manifest::frame::{self, Kind};
use amend::table::deletion_vector::DeletionFile;
use amend::txn::address_map::{AddressMap, MapSource, wire};
use std::process::Command;

/// Rounds for each entry.
const DEFAULT_ROUNDS: u64 = 5_000;
/// How much the peak of memory may grow by reading changed bytes; the seeds have some kilobytes.
const MAX_GROWTH_KIB: u64 = 32 * 1024;

/// SplitMix64: the same numbers from the same seed on every machine.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Numbers that length fields like least.
const WORST: [&[u8]; 6] = [
    &[0],
    &[0xFF; 4],
    &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F],
    &[0x80, 0x80, 0x80, 0x80, 0x08],
    &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01],
    &[0xFE, 0xFF, 0xFF, 0xFF, 0x0F],
];

/// One to four changes.
fn change(seed: &[u8], other: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len() + 1);
        let end = (at + numbers.below(12)).min(bytes.len());
        match numbers.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << numbers.below(8),
            1 if at < bytes.len() => bytes[at] = numbers.next() as u8,
            2 => drop(bytes.splice(at..end, [])),
            3 => drop(bytes.splice(at..end, WORST[numbers.below(WORST.len())].iter().copied())),
            4 => {
                let again = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, again));
            }
            _ => {
                let from = numbers.below(other.len() + 1);
                let to = (from + numbers.below(64)).min(other.len());
                drop(bytes.splice(at..end, other[from..to].iter().copied()));
            }
        }
    }
    bytes
}

type Entry = (&'static str, fn(&[u8]) -> bool, Vec<Vec<u8>>);

/// The entries with their seeds, which all of them accept.
fn targets() -> [Entry; 6] {
    let payload = |name: &str, kind| frame::open(kind, &golden(name), u64::MAX).unwrap().to_vec();
    let blob = |rows: &[u32]| match DeletionFile::inline(&rows.iter().copied().collect()) {
        Some(DeletionFile::Inline { blob, .. }) => blob.to_vec(),
        other => panic!("{other:?}"),
    };
    let source = |physical_rows, absent: &[u32]| MapSource { physical_rows, absent: absent.iter().copied().collect() };
    let map = AddressMap::in_order(vec![source(100, &[3, 99]), source(70_000, &(0..9_000).collect::<Vec<_>>())], vec![98, 61_000]).unwrap();
    let sorted = AddressMap::permuted(vec![source(4, &[1]), source(2, &[])], vec![3, 2], &[vec![4, 0, 2], vec![1, 3]]).unwrap();
    [
        ("manifest", entries::manifest, vec![payload("inline.manifest", Kind::Manifest), payload("spilled.manifest", Kind::Manifest)]),
        ("index", entries::index, vec![payload("pages.index", Kind::PageIndex)]),
        ("page", entries::page, vec![payload("fragments.page", Kind::Page)]),
        ("transactions", entries::transactions, vec![payload("transactions.txn", Kind::Transactions)]),
        ("deletion_vector", entries::deletion_vector, vec![blob(&[0, 99]), blob(&(0..9_000).collect::<Vec<_>>()), blob(&[5, 70_000])]),
        ("map", entries::map, vec![wire::encode(&map).to_vec(), wire::encode(&sorted).to_vec()]),
    ]
}

/// The peak of this process's memory, where the system tells.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Runs in a process of its own, so that nobody else's memory counts.
#[test]
#[ignore = "run by `changed_bytes_neither_panic_nor_take_memory`"]
fn rounds() {
    let rounds = std::env::var("AMEND_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(DEFAULT_ROUNDS);
    for (name, entry, seeds) in targets() {
        let mut numbers = Numbers(7);
        assert!(seeds.iter().all(|seed| entry(seed)), "{name}: a seed is not accepted");
        let mut accepted = 0;
        let before = peak_kib();
        for round in 0..rounds {
            let (seed, other) = (&seeds[numbers.below(seeds.len())], &seeds[numbers.below(seeds.len())]);
            let changed = change(seed, other, &mut numbers);
            let outcome = std::panic::catch_unwind(|| entry(&changed));
            assert!(outcome.is_ok(), "{name}, round {round}: {changed:?}");
            accepted += u64::from(outcome.unwrap_or(false));
        }
        assert!(accepted > 0 && accepted < rounds, "{name}: {accepted} of {rounds} are accepted");
        if let (Some(before), Some(after)) = (before, peak_kib()) {
            assert!(after - before < MAX_GROWTH_KIB, "{name}: the peak of memory grew from {before} to {after} KiB");
            println!("{name}: {rounds} rounds, {accepted} accepted, peak of memory {before} -> {after} KiB");
        }
    }
}

#[test]
fn changed_bytes_neither_panic_nor_take_memory() {
    let rounds =
        Command::new(std::env::current_exe().unwrap()).args(["--exact", "fuzz::rounds", "--ignored", "--nocapture"]).output().unwrap();
    let told = String::from_utf8_lossy(&rounds.stdout);
    assert!(rounds.status.success() && told.contains("1 passed"), "{told}\n{}", String::from_utf8_lossy(&rounds.stderr));
}
