//! Keys under load: many sessions insert the same keys at the same time, and upserts count without losing one.

use crate::support::{assert_nothing_left_behind, change, lake_in, rows, run, session_of};
use amend::{Lake, Outcome};
use futures::future::join_all;
use object_store::memory::InMemory;
use std::sync::Arc;

const SESSIONS: i64 = 8;
const ROUNDS: i64 = 6;

/// A lake with the table `t (k, v)`, on which statements may run again as often as they must.
async fn world(isolation: &str) -> Lake {
    let lake = lake_in(Arc::new(InMemory::new()));
    let session = session_of(&lake, 1).await;
    run(&session, "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)").await;
    run(&session, &format!("ALTER TABLE t SET TBLPROPERTIES ('amend.isolation' = '{isolation}')")).await;
    lake
}

async fn writer(lake: &Lake) -> amend::Session {
    let session = session_of(lake, 1).await;
    run(&session, "SET amend.max_statement_attempts = 1000").await;
    session
}

/// Every session inserts all keys, in an order of its own, some with DO NOTHING, some in transactions.
async fn insert_everything(lake: Lake, number: i64) -> i64 {
    let session = writer(&lake).await;
    let mut won = 0;
    for at in 0..ROUNDS {
        // Two sessions come by each pair of keys at the same time.
        let key = (at + number / 2) % ROUNDS * 2;
        let values = format!("({key}, {number}), ({}, {number})", key + 1);
        match number % 4 {
            0 | 1 => match session.execute(&format!("INSERT INTO t VALUES {values}")).await {
                Ok(Outcome::Changed(changed)) => won += changed.counts.inserted as i64,
                Ok(other) => panic!("{other:?}"),
                Err(error) => assert_eq!(error.sqlstate(), "23505", "{error}"),
            },
            2 => won += change(&session, &format!("INSERT INTO t VALUES {values} ON CONFLICT (k) DO NOTHING")).await.counts.inserted as i64,
            _ => loop {
                run(&session, "BEGIN").await;
                let inserted = session.execute(&format!("INSERT INTO t VALUES {values}")).await;
                let ended = session.execute(if inserted.is_ok() { "COMMIT" } else { "ROLLBACK" }).await;
                match (inserted, ended) {
                    (Ok(_), Ok(_)) => won += 2,
                    (Ok(_), Err(error)) if error.sqlstate() == "40001" => continue,
                    (Err(error), Ok(_)) => assert_eq!(error.sqlstate(), "23505", "{error}"),
                    other => panic!("{other:?}"),
                }
                break;
            },
        }
    }
    won
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_insert_a_key_one_does() {
    for isolation in ["serializable", "snapshot"] {
        let lake = world(isolation).await;
        let all = (0..SESSIONS).map(|number| tokio::spawn(insert_everything(lake.clone(), number)));
        let won: i64 = join_all(all).await.into_iter().map(Result::unwrap).sum();
        let session = session_of(&lake, 1).await;
        let found = rows(&session, "SELECT k, count(*) FROM t GROUP BY k").await;
        let each_once: Vec<(i64, i64)> = (0..ROUNDS * 2).map(|key| (key, 1)).collect();
        assert_eq!(found, each_once, "{isolation}");
        assert_eq!(won, ROUNDS * 2, "{isolation}: what was said to be inserted");
        assert_nothing_left_behind(&lake, "t", isolation).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn upserts_count_without_losing_one() {
    const UPSERTS: i64 = 12;
    for isolation in ["serializable", "snapshot"] {
        let lake = world(isolation).await;
        let count = |lake: Lake, number: i64| async move {
            let session = writer(&lake).await;
            for at in 0..UPSERTS {
                let key = (at + number) % 3;
                let sql = format!("INSERT INTO t VALUES ({key}, 1) ON CONFLICT (k) DO UPDATE SET v = t.v + excluded.v");
                assert_eq!(change(&session, &sql).await.counts.changed(), 1, "{sql}");
                if at == 5 {
                    run(&session, "OPTIMIZE t FULL").await;
                }
            }
        };
        join_all((0..4).map(|number| tokio::spawn(count(lake.clone(), number)))).await.into_iter().for_each(Result::unwrap);
        let session = session_of(&lake, 1).await;
        assert_eq!(rows(&session, "SELECT k, v FROM t").await, [(0, 16), (1, 16), (2, 16)], "{isolation}");
    }
}

/// A constraint that is added while others insert rows of which every other violates it: it lands when they are gone, and
/// then there are none.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_constraint_and_rows_that_violate_it_are_never_both_there() {
    for constraint in ["CHECK (v >= 0)", "UNIQUE (v)"] {
        let lake = world("serializable").await;
        let violate = |lake: Lake, number: i64| async move {
            let session = writer(&lake).await;
            for at in 0..10 {
                let key = number * 100 + at * 2;
                match session.execute(&format!("INSERT INTO t VALUES ({key}, -1), ({}, -1)", key + 1)).await {
                    Ok(_) => run(&session, "DELETE FROM t WHERE v = -1").await,
                    Err(error) => {
                        assert!(["23514", "23505"].contains(&error.sqlstate()), "{error}");
                        continue;
                    }
                };
            }
        };
        let writers = (0..2).map(|number| tokio::spawn(violate(lake.clone(), number)));
        let session = writer(&lake).await;
        let adding = async {
            loop {
                match session.execute(&format!("ALTER TABLE t ADD CONSTRAINT c {constraint}")).await {
                    Ok(_) => break,
                    Err(error) => assert!(["23514", "23505"].contains(&error.sqlstate()), "{error}"),
                }
                tokio::task::yield_now().await;
            }
        };
        let (written, ()) = tokio::join!(join_all(writers), adding);
        written.into_iter().for_each(Result::unwrap);
        assert_eq!(rows(&session, "SELECT count(*), count(DISTINCT v) FROM t WHERE v = -1").await, [(0, 0)], "{constraint}");
        assert!(session.execute("INSERT INTO t VALUES (999, -1), (1000, -1)").await.is_err(), "{constraint}");
    }
}
