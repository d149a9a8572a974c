//! Two writers and a compaction, all at once on one table: nobody fails, and every row is right.
//!
//!     cargo run --example two_writers

use amend::{Lake, Outcome, Session};
use datafusion::arrow::util::pretty::pretty_format_batches;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ROWS: u32 = 200;
const STATEMENTS: u32 = 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let lake = Lake::open(folder.path())?;
    let session = Session::new(&lake).await?;
    session.execute("CREATE TABLE t (id INT, value INT)").await?;
    session.execute(&format!("INSERT INTO t SELECT value, 0 FROM generate_series(0, {})", ROWS - 1)).await?;

    let done = Arc::new(AtomicBool::new(false));
    let compactor = tokio::spawn({
        let (lake, done) = (lake.clone(), done.clone());
        async move {
            let session = Session::new(&lake).await?;
            let mut compactions = 0u32;
            while !done.load(Ordering::Relaxed) {
                session.execute("OPTIMIZE t FULL").await?;
                compactions += 1;
            }
            Ok::<u32, amend::Error>(compactions)
        }
    });
    // One updates even ids, the other deletes odd ones: the same files, never the same rows.
    let updater = tokio::spawn(run(lake.clone(), |n| format!("UPDATE t SET value = value + 1 WHERE id = {}", n * 2)));
    let deleter = tokio::spawn(run(lake.clone(), |n| format!("DELETE FROM t WHERE id = {}", n * 2 + 1)));
    let (updated, deleted) = (updater.await??, deleter.await??);
    done.store(true, Ordering::Relaxed);
    println!("{updated} rows updated and {deleted} deleted while {} compactions ran; nothing failed", compactor.await??);

    let sql = "SELECT count(*) AS rows, sum(value) AS updated FROM t";
    let Outcome::Rows(rows) = session.execute(sql).await? else { return Err("a query gives rows".into()) };
    let rows = pretty_format_batches(&rows.batches)?.to_string();
    println!("{rows}");
    assert_eq!((updated, deleted), (u64::from(STATEMENTS), u64::from(STATEMENTS)));
    assert!(rows.contains(&format!("| {}  | {STATEMENTS}      |", ROWS - STATEMENTS)), "{rows}");
    Ok(())
}

/// Runs the statements of one writer and counts the rows that they changed.
async fn run(lake: Lake, statement: impl Fn(u32) -> String) -> amend::Result<u64> {
    let session = Session::new(&lake).await?;
    let mut count = 0;
    for n in 0..STATEMENTS {
        if let Outcome::Changed(changed) = session.execute(&statement(n)).await? {
            count += changed.count();
        }
    }
    Ok(count)
}
