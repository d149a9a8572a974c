//! Progress: a statement that reads the whole table lands while others insert without a pause.
//!
//! Each run of it takes longer than an INSERT, so that whenever it comes to commit, rows have landed that it would have read. It
//! has to be let pass: nobody who says neither BEGIN nor `amend.isolation` sees a collision.

use crate::support::{change, lake_in, rows, session_of};
use amend::{Lake, Session};
use object_store::memory::InMemory;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use tokio::task::JoinHandle;

const INSERTERS: i64 = 3;

/// Sessions that insert rows `(k, 0)` one by one until they are told to stop; each then says how many.
async fn inserters(lake: &Lake, stop: &Arc<AtomicBool>, next: &Arc<AtomicI64>) -> Vec<JoinHandle<i64>> {
    let mut running = Vec::new();
    for _ in 0..INSERTERS {
        let (session, stop, next) = (session_of(lake, 1).await, stop.clone(), next.clone());
        running.push(tokio::spawn(async move {
            let mut inserted = 0;
            while !stop.load(Ordering::Relaxed) {
                let key = next.fetch_add(1, Ordering::Relaxed);
                change(&session, &format!("INSERT INTO t VALUES ({key}, 0)")).await;
                inserted += 1;
            }
            inserted
        }));
    }
    running
}

async fn lake_of(rows: i64) -> (Lake, Session) {
    let lake = lake_in(Arc::new(InMemory::new()));
    let session = session_of(&lake, 1).await;
    session.execute("CREATE TABLE t (k BIGINT NOT NULL, v BIGINT)").await.unwrap();
    change(&session, &format!("INSERT INTO t SELECT value, 0 AS v FROM generate_series(1, {rows})")).await;
    (lake, session)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_over_the_whole_table_lands_among_inserts_without_a_pause() {
    const ROWS: i64 = 20_000;
    let (lake, session) = lake_of(ROWS).await;
    let (stop, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(ROWS + 1)));
    let running = inserters(&lake, &stop, &next).await;
    let (mut updated, mut reran) = (0, 0);
    for sql in ["UPDATE t SET v = v + 1"; 8] {
        let changed = change(&session, sql).await;
        updated += changed.counts.updated;
        reran += changed.facts.reran;
    }
    // What takes the whole table collides with everything.
    let sum = rows(&session, "SELECT sum(v), count(*) FROM t").await;
    assert_eq!(sum[0].0 as u64, updated, "each UPDATE changed the rows that there were, once");
    let replaced = change(&session, "CREATE OR REPLACE TABLE t AS SELECT k, v FROM t").await;
    assert_eq!(replaced.counts.deleted, replaced.counts.inserted);
    let restored = change(&session, "RESTORE TABLE t TO VERSION AS OF 2").await;
    assert_eq!(restored.counts.inserted, ROWS as u64);
    stop.store(true, Ordering::Relaxed);
    let mut inserted = 0;
    for inserter in running {
        inserted += inserter.await.unwrap();
    }
    assert!(inserted > 0 && reran > 0, "{inserted} rows came meanwhile, {reran} runs collided");
    assert_eq!(next.load(Ordering::Relaxed), ROWS + 1 + inserted);
    // After the RESTORE there are the rows of version 2, and those that were inserted since.
    let found = rows(&session, "SELECT k, v FROM t WHERE v = 0 ORDER BY k").await;
    assert_eq!(found[..ROWS as usize], (1..=ROWS).map(|k| (k, 0)).collect::<Vec<_>>());
    assert_eq!(rows(&session, "SELECT count(*), max(v) FROM t").await, [(found.len() as i64, 0)]);
}
