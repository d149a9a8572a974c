//! Change-of-address maps: bytes per row, and addresses mapped per second on one core.
//!
//!     cargo bench --bench maps                               10^6 and 10^7 rows
//!     AMEND_BENCH_MAP_ROWS=100000000 cargo bench --bench maps    10^6 and 10^8 rows
//!
//! Prints Markdown. Sources have 2^20 rows each, as OPTIMIZE makes them. Deletions are scattered; a permutation throws rows
//! anywhere, which is the worst case. Mapping takes bitmaps and gives bitmaps, as a rebase does.

use amend::txn::address_map::{AddressMap, MapError, MapSource, wire};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use roaring::RoaringBitmap;
use std::hint::black_box;
use std::time::Instant;

const ROWS_PER_FRAGMENT: u32 = 1 << 20;
const ROUNDS: usize = 5;

fn main() -> Result<(), MapError> {
    let most: u64 = std::env::var("AMEND_BENCH_MAP_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(10_000_000);
    println!(
        "| map | rows | bytes | bytes per row | bytes per absent row | map all, M/s | map 1 % scattered, M/s | map 1 row a source, us |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for rows in [1_000_000, most] {
        for dead_share in [0.0, 0.01, 0.1] {
            let sources = sources(rows, dead_share);
            let targets = targets(&sources);
            let map = AddressMap::in_order(sources, targets)?;
            report(&format!("in order, {:.0} % absent", dead_share * 100.0), rows, &map)?;
        }
        let sources = sources(rows, 0.01);
        let targets = targets(&sources);
        let map = AddressMap::permuted(sources.clone(), targets, &shuffled(&sources))?;
        report("permuted, 1 % absent", rows, &map)?;
    }
    Ok(())
}

/// Fragments of `rows` rows in all.
fn sources(rows: u64, dead_share: f64) -> Vec<MapSource> {
    let mut random = StdRng::seed_from_u64(rows);
    let mut left = rows;
    let mut sources = Vec::new();
    while left > 0 {
        let physical_rows = left.min(u64::from(ROWS_PER_FRAGMENT)) as u32;
        sources.push(MapSource { physical_rows, absent: scattered(physical_rows, dead_share, &mut random) });
        left -= u64::from(physical_rows);
    }
    sources
}

fn scattered(rows: u32, share: f64, random: &mut StdRng) -> RoaringBitmap {
    (0..rows).filter(|_| share > 0.0 && random.random_bool(share)).collect()
}

fn targets(sources: &[MapSource]) -> Vec<u32> {
    let mut left: u64 = survivors(sources).sum();
    let mut targets = Vec::new();
    while left > 0 {
        let rows = left.min(u64::from(ROWS_PER_FRAGMENT)) as u32;
        targets.push(rows);
        left -= u64::from(rows);
    }
    targets
}

fn survivors(sources: &[MapSource]) -> impl Iterator<Item = u64> {
    sources.iter().map(|source| u64::from(source.physical_rows) - source.absent.len())
}

fn shuffled(sources: &[MapSource]) -> Vec<Vec<u32>> {
    let all: u64 = survivors(sources).sum();
    let mut positions: Vec<u32> = (0..all as u32).collect();
    positions.shuffle(&mut StdRng::seed_from_u64(all));
    let mut positions = positions.into_iter();
    survivors(sources).map(|rows| positions.by_ref().take(rows as usize).collect()).collect()
}

fn report(name: &str, rows: u64, map: &AddressMap) -> Result<(), MapError> {
    let bytes = wire::encode(map).len();
    let absent: u64 = map.sources().iter().map(|source| source.absent.len()).sum();
    let mut random = StdRng::seed_from_u64(7);
    let everything: Vec<RoaringBitmap> = map.sources().iter().map(|source| (0..source.physical_rows).collect()).collect();
    let some: Vec<RoaringBitmap> = map.sources().iter().map(|source| scattered(source.physical_rows, 0.01, &mut random)).collect();
    let one: Vec<RoaringBitmap> = map.sources().iter().map(|source| [source.physical_rows / 2].into_iter().collect()).collect();
    let per_absent = if absent == 0 { "-".to_owned() } else { format!("{:.2}", bytes as f64 / absent as f64) };
    println!(
        "| {name} | {rows} | {bytes} | {:.3} | {per_absent} | {:.1} | {:.1} | {:.2} |",
        bytes as f64 / rows as f64,
        millions_per_second(map, &everything)?,
        millions_per_second(map, &some)?,
        1.0 / millions_per_second(map, &one)?,
    );
    Ok(())
}

/// The median of some rounds.
fn millions_per_second(map: &AddressMap, rows: &[RoaringBitmap]) -> Result<f64, MapError> {
    let count: u64 = rows.iter().map(RoaringBitmap::len).sum();
    let mut seconds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for (source, rows) in rows.iter().enumerate() {
            black_box(map.move_rows(source, black_box(rows))?);
        }
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds.get(ROUNDS / 2).map_or(f64::NAN, |median| count as f64 / median / 1e6))
}
