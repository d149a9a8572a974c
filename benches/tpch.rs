//! Figures on TPC-H lineitem, amend beside DataFusion's own Parquet scan and copy of the same data in the same run.
//!
//!     cargo bench --bench tpch                        scale factor 0.1
//!     AMEND_BENCH_SCALE=1 cargo bench --bench tpch    the figures of docs/performance.md
//!
//! Prints Markdown. Variants that are compared run interleaved, and the table gives medians and their ratio: single
//! milliseconds mean little on a shared machine.

use amend::{Lake, Outcome, Session};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use std::path::Path;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const Q1: &str = "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)), \
    sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*) \
    FROM lineitem WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus";
const Q6: &str = "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= DATE '1994-01-01' \
    AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24";

#[tokio::main]
async fn main() -> Result<()> {
    let scale: f64 = std::env::var("AMEND_BENCH_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(0.1);
    let rounds: usize = std::env::var("AMEND_BENCH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(9);
    let folder = tempfile::tempdir()?;
    let lake = Lake::open(folder.path().join("lake"))?;
    let session = Session::new(&lake).await?;
    let source = folder.path().join("source.parquet");
    run(&session, &format!("COPY (SELECT * FROM tpch('lineitem', {scale})) TO '{}' STORED AS PARQUET", source.display())).await?;
    println!("TPC-H lineitem, scale factor {scale}, {rounds} rounds, medians in ms.\n");
    println!("| what | amend | DataFusion | ratio |\n|---|---|---|---|");
    load(&session, &source, folder.path()).await?;
    scans(&session, &lake, rounds).await?;
    changes(&session, rounds).await?;
    rewrite(&session, folder.path()).await?;
    Ok(())
}

/// Loading a file: CREATE TABLE AS beside COPY of the same rows.
async fn load(session: &Session, source: &Path, folder: &Path) -> Result<()> {
    let (mut ours, mut theirs) = (vec![], vec![]);
    for round in 0..3 {
        run(session, "DROP TABLE IF EXISTS lineitem").await?;
        ours.push(timed(session, &format!("CREATE TABLE lineitem AS SELECT * FROM '{}'", source.display())).await?);
        let copy = folder.join(format!("copy-{round}/"));
        let sql = format!(
            "COPY (SELECT * FROM '{}') TO '{}' STORED AS PARQUET OPTIONS (compression 'zstd(1)')",
            source.display(),
            copy.display()
        );
        theirs.push(timed(session, &sql).await?);
    }
    row("load from Parquet; COPY of the same rows (not synced)", ours, Some(theirs));
    Ok(())
}

/// Q1 and Q6 on a table without deletions, beside DataFusion on the very same files; then with 1 % and 10 % deleted.
async fn scans(session: &Session, lake: &Lake, rounds: usize) -> Result<()> {
    let files = lake.table("lineitem").await?.store().label().to_owned();
    let plain = SessionContext::new();
    plain.register_parquet("lineitem", format!("{files}/data/"), ParquetReadOptions::default()).await?;
    for (name, sql) in [("Q1", Q1), ("Q6", Q6)] {
        let (ours, theirs) = interleaved(session, &plain, sql, rounds).await?;
        row(&format!("{name}, no deletions; the same files"), ours, Some(theirs));
    }
    run(session, "DELETE FROM lineitem WHERE l_orderkey % 100 = 13").await?;
    for (name, sql) in [("Q1", Q1), ("Q6", Q6)] {
        let (ours, theirs) = interleaved(session, &plain, sql, rounds).await?;
        row(&format!("{name}, 1 % deleted; the same files without deletions"), ours, Some(theirs));
    }
    run(session, "DELETE FROM lineitem WHERE l_orderkey % 100 < 10").await?;
    for (name, sql) in [("Q1", Q1), ("Q6", Q6)] {
        let (ours, theirs) = interleaved(session, &plain, sql, rounds).await?;
        row(&format!("{name}, 11 % deleted; the same files without deletions"), ours, Some(theirs));
    }
    Ok(())
}

/// Statements that change rows, commit and sync included.
async fn changes(session: &Session, rounds: usize) -> Result<()> {
    let keys = "SELECT l_orderkey FROM lineitem WHERE l_linenumber = 1 AND l_orderkey % 100 = 50 ORDER BY l_orderkey";
    let Outcome::Rows(keys) = session.execute(&format!("{keys} LIMIT {}", 2 * rounds)).await? else { return Err("no rows".into()) };
    let mut found = vec![];
    for batch in &keys.batches {
        let column = batch.column(0);
        for at in 0..batch.num_rows() {
            found.push(datafusion::arrow::util::display::array_value_to_string(column, at)?);
        }
    }
    let (mut updates, mut deletes) = (vec![], vec![]);
    for pair in found.chunks_exact(2) {
        let [updated, deleted] = pair else { continue };
        updates.push(timed(session, &format!("UPDATE lineitem SET l_tax = 0.5 WHERE l_orderkey = {updated} AND l_linenumber = 1")).await?);
        deletes.push(timed(session, &format!("DELETE FROM lineitem WHERE l_orderkey = {deleted} AND l_linenumber = 1")).await?);
    }
    row("UPDATE of one row by key", updates, None);
    row("DELETE of one row by key", deletes, None);
    for (percent, modulus) in [("1 %", "= 77"), ("10 %", "BETWEEN 80 AND 89")] {
        let sql = format!("UPDATE lineitem SET l_discount = l_discount + 0.01, l_comment = 'x' WHERE l_orderkey % 100 {modulus}");
        row(&format!("UPDATE of {percent}"), vec![timed(session, &sql).await?], None);
        let sql = format!("DELETE FROM lineitem WHERE l_orderkey % 100 {modulus}");
        row(&format!("DELETE of {percent}"), vec![timed(session, &sql).await?], None);
    }
    Ok(())
}

/// OPTIMIZE of everything, beside COPY of the same rows.
async fn rewrite(session: &Session, folder: &Path) -> Result<()> {
    let (mut ours, mut theirs) = (vec![], vec![]);
    for round in 0..3 {
        let copy = folder.join(format!("rewritten-{round}/"));
        let sql = format!("COPY (SELECT * FROM lineitem) TO '{}' STORED AS PARQUET OPTIONS (compression 'zstd(1)')", copy.display());
        theirs.push(timed(session, &sql).await?);
        ours.push(timed(session, "OPTIMIZE lineitem FULL").await?);
    }
    row("OPTIMIZE FULL; COPY of the same rows (not synced)", ours, Some(theirs));
    Ok(())
}

async fn interleaved(session: &Session, plain: &SessionContext, sql: &str, rounds: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut ours, mut theirs) = (vec![], vec![]);
    for round in 0..=rounds {
        let took = timed(session, sql).await?;
        let start = Instant::now();
        plain.sql(sql).await?.collect().await?;
        // The first round warms the caches.
        if round > 0 {
            ours.push(took);
            theirs.push(start.elapsed().as_secs_f64() * 1000.0);
        }
    }
    Ok((ours, theirs))
}

async fn run(session: &Session, sql: &str) -> Result<()> {
    session.execute(sql).await.map(|_| ()).map_err(|error| format!("{sql}: {error}").into())
}

async fn timed(session: &Session, sql: &str) -> Result<f64> {
    let start = Instant::now();
    run(session, sql).await?;
    Ok(start.elapsed().as_secs_f64() * 1000.0)
}

fn row(what: &str, ours: Vec<f64>, theirs: Option<Vec<f64>>) {
    let ours = median(ours);
    match theirs.map(median) {
        Some(theirs) => println!("| {what} | {ours:.1} | {theirs:.1} | {:.2} |", ours / theirs),
        None => println!("| {what} | {ours:.1} | | |"),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
