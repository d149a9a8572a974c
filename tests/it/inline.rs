//! Rows of small statements are in the manifest: how many objects a statement makes, where the rows go from there, and that they are
//! read, changed and moved as those of files are.

use crate::support::{assert_exact, change, lake_in, problems, rows, run, session_of, stored_objects};
use amend::manifest::log::VersionLog;
use amend::store::faults::{Answer, Fault, FaultStore, OpKind};
use amend::{Lake, Outcome, Session};
use datafusion::arrow::util::pretty::pretty_format_batches;
use object_store::memory::InMemory;
use std::collections::BTreeSet;
use std::sync::Arc;

async fn place() -> (Arc<InMemory>, Lake, Session) {
    let objects = Arc::new(InMemory::new());
    let lake = lake_in(objects.clone());
    let session = session_of(&lake, 2).await;
    (objects, lake, session)
}

/// The objects that a statement made.
async fn made(log: &VersionLog, session: &Session, sql: &str) -> Vec<String> {
    let before = stored_objects(log.store()).await;
    run(session, sql).await;
    let after = stored_objects(log.store()).await;
    after.difference(&before).map(|name| name.split('/').next().unwrap().to_owned()).collect()
}

async fn text(session: &Session, sql: &str) -> String {
    let Outcome::Rows(answer) = run(session, sql).await else { panic!("{sql} yields no rows") };
    pretty_format_batches(&answer.batches).unwrap().to_string()
}

#[tokio::test]
async fn a_small_statement_makes_one_object() {
    let (objects, lake, session) = place().await;
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT, w VARCHAR)").await;
    run(&session, "SET amend.max_inline_bytes = 0").await;
    change(&session, "INSERT INTO t SELECT value, value AS v, concat('old and long enough for a buffer of its own ', value) AS w FROM generate_series(1, 50000)").await;
    run(&session, "SET amend.max_inline_bytes = 65536").await;
    let log = lake.table("t").await.unwrap();
    for sql in [
        "INSERT INTO t VALUES (60001, 1, 'new'), (60002, NULL, NULL)",
        "UPDATE t SET v = -v WHERE k IN (7, 49000, 60001)",
        "DELETE FROM t WHERE k = 8",
        "INSERT INTO t SELECT k + 100000, v, w FROM t WHERE k <= 500",
        "MERGE INTO t USING (VALUES (9, 90), (70000, 1)) AS s (k, v) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.v, 'merged')",
    ] {
        assert_eq!(made(&log, &session, sql).await, ["_versions"], "{sql}");
    }
    assert_eq!(
        rows(&session, "SELECT k, v FROM t WHERE (w IS NULL OR w NOT LIKE 'old%') AND v IS NOT NULL").await,
        [(60001, -1), (70000, 1)]
    );
    assert_eq!(rows(&session, "SELECT k, v FROM t WHERE k IN (7, 8, 9, 49000)").await, [(7, -7), (9, 90), (49000, -49000)]);
    assert_eq!(rows(&session, "SELECT count(*), count(v) FROM t").await, [(50501, 50500)]);
    assert_exact(&log, "small statements").await;
    assert_eq!(problems(&session, "VERIFY t ALL VERSIONS").await, []);

    // Who has never seen the table reads the same.
    let other = session_of(&lake_in(objects.clone()), 1).await;
    assert_eq!(rows(&other, "SELECT count(*), sum(v) FROM t").await, rows(&session, "SELECT count(*), sum(v) FROM t").await);
}

#[tokio::test]
async fn more_than_the_bound_makes_a_file() {
    let (_, lake, session) = place().await;
    run(&session, "CREATE TABLE t (k BIGINT, v BIGINT)").await;
    let log = lake.table("t").await.unwrap();
    // 16 bytes a row, and what surrounds them.
    assert_eq!(made(&log, &session, "INSERT INTO t SELECT value, value AS v FROM generate_series(1, 4000)").await, ["_versions"]);
    assert_eq!(made(&log, &session, "INSERT INTO t SELECT value, value AS v FROM generate_series(1, 4100)").await, ["_versions", "data"]);
    run(&session, "SET amend.max_inline_bytes = 1000").await;
    assert_eq!(made(&log, &session, "INSERT INTO t VALUES (1, 1)").await, ["_versions"]);
    assert_eq!(made(&log, &session, "INSERT INTO t SELECT value, value AS v FROM generate_series(1, 100)").await, ["_versions", "data"]);
    run(&session, "SET amend.max_inline_bytes = 0").await;
    assert_eq!(made(&log, &session, "INSERT INTO t VALUES (1, 1)").await, ["_versions", "data"]);
    assert_eq!(rows(&session, "SELECT count(*), sum(v) FROM t").await, [(8202, 4000 * 4001 / 2 + 4100 * 4101 / 2 + 2 + 5050)]);
}

#[tokio::test]
async fn optimize_makes_files_of_them_and_changes_follow() {
    let (_, lake, session) = place().await;
    run(&session, "CREATE TABLE t (k BIGINT, v BIGINT)").await;
    let log = lake.table("t").await.unwrap();
    run(&session, "SET amend.max_inline_fragments = 0").await;
    for k in 0..20 {
        run(&session, &format!("INSERT INTO t VALUES ({k}, 0), ({}, 1)", k + 100)).await;
    }
    let other = session_of(&lake, 1).await;
    run(&other, "BEGIN").await;
    change(&other, "UPDATE t SET v = 7 WHERE k IN (3, 103)").await;
    change(&other, "DELETE FROM t WHERE k = 4").await;
    assert_eq!(change(&session, "OPTIMIZE t").await.count(), 40);
    let files =
        log.newest().await.unwrap().snapshot.fragments.iter().unwrap().flat_map(|fragment| fragment.files.clone()).collect::<Vec<_>>();
    assert!(files.len() == 1 && files[0].is_object_of_table() && files[0].path.ends_with(".parquet"), "{files:?}");
    let landed = change(&other, "COMMIT").await;
    assert_eq!((landed.facts.rows_carried, landed.facts.reran), (3, 0));
    assert_eq!(rows(&session, "SELECT k, v FROM t WHERE v = 7 OR k IN (4, 104)").await, [(3, 7), (103, 7), (104, 1)]);
    // One alone is worth it too.
    assert_eq!(change(&session, "OPTIMIZE t").await.count(), 39);
    assert!(log.newest().await.unwrap().snapshot.fragments.iter().unwrap().all(|fragment| fragment.inline_bytes() == 0));
    assert_exact(&log, "OPTIMIZE").await;
}

/// Every type that a table can have comes back from the manifest as from a file, and is found by its bounds.
#[tokio::test]
async fn every_type_reads_as_it_does_from_a_file() {
    let (_, _lake, session) = place().await;
    let types = "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f REAL, g DOUBLE, h DECIMAL(9, 2), i DECIMAL(38, 10), j DATE, k TIMESTAMP, \
        l TIME, m VARCHAR, n BYTEA, o INT[], p STRUCT<x INT, y VARCHAR>, q BIGINT UNSIGNED, r TIMESTAMP WITH TIME ZONE";
    let values = "(true, -1, 300, 70000, 5000000000, 1.5, -0.0, 12.34, 0.0000000001, DATE '2026-01-31', TIMESTAMP '2026-01-31 12:00:00.123456', \
        TIME '12:30:00', 'größer', X'00ff', [1, NULL], {x: 1, y: 'z'}, 9, TIMESTAMP '2026-01-31 12:00:00'), \
        (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), \
        (false, 7, -300, -70000, -5000000000, 'NaN', 'Infinity', -12.34, 1234567890.5, DATE '1969-01-01', TIMESTAMP '1969-01-31 12:00:00', \
        TIME '00:00:00', '', X'', [], {x: NULL, y: NULL}, 18446744073709551615, TIMESTAMP '1970-01-01 00:00:00')";
    for (table, bytes) in [("kept", 65536), ("file", 0)] {
        run(&session, &format!("SET amend.max_inline_bytes = {bytes}")).await;
        run(&session, &format!("CREATE TABLE {table} ({types})")).await;
        run(&session, &format!("INSERT INTO {table} VALUES {values}")).await;
    }
    let predicates = [
        "true",
        "a",
        "b < 0",
        "c = 300",
        "d < 0",
        "e > 0",
        "f > 1",
        "f = 'NaN'",
        "g = 0",
        "g < 0",
        "g > 1e300",
        "h = 12.34",
        "i > 1",
        "j < DATE '1970-01-01'",
        "k > TIMESTAMP '2026-01-31 12:00:00'",
        "l = TIME '00:00:00'",
        "m = 'größer'",
        "m < 'a'",
        "n = X'00ff'",
        "o IS NOT NULL",
        "p['x'] = 1",
        "q > 9",
        "r < TIMESTAMP '2000-01-01'",
        "d IS NULL",
        "m > 'z' OR b = 7",
    ];
    for predicate in predicates {
        let of = |table: &str| format!("SELECT * FROM {table} WHERE {predicate} ORDER BY d");
        let (kept, file) = (text(&session, &of("kept")).await, text(&session, &of("file")).await);
        assert_eq!(kept, file, "{predicate}");
    }
    let least = |table: &str| {
        format!("SELECT min(b), max(d), min(e), max(h), min(j), max(k), min(m), max(q), min(f), max(g), count(n) FROM {table}")
    };
    assert_eq!(text(&session, &least("kept")).await, text(&session, &least("file")).await.replace("file", "kept"));
}

/// Columns that were added, dropped, renamed or widened since are found as in files; so are rows of old versions.
#[tokio::test]
async fn columns_are_found_by_what_they_are() {
    let (_, _lake, session) = place().await;
    run(&session, "CREATE TABLE t (k INT, gone VARCHAR, v INT, s STRUCT<x INT, y INT>)").await;
    run(&session, "INSERT INTO t VALUES (1, 'a', 10, {x: 1, y: 2}), (2, 'b', NULL, NULL)").await;
    for alter in ["DROP COLUMN gone", "RENAME COLUMN v TO gone", "ALTER COLUMN gone TYPE BIGINT", "ADD COLUMN v INT"] {
        run(&session, &format!("ALTER TABLE t {alter}")).await;
    }
    change(&session, "UPDATE t SET v = gone + 1 WHERE s.x = 1").await;
    run(&session, "SET amend.update_form = 'columns'").await;
    change(&session, "UPDATE t SET gone = 5000000000 WHERE gone = 10").await;
    let now = "+---+------------+--------------+----+\n| k | gone       | s            | v  |\n+---+------------+--------------+----+\n\
        | 1 | 5000000000 | {x: 1, y: 2} | 11 |\n| 2 |            |              |    |\n+---+------------+--------------+----+";
    assert_eq!(text(&session, "SELECT * FROM t ORDER BY k").await, now);
    let then = "+---+------+----+--------------+\n| k | gone | v  | s            |\n+---+------+----+--------------+\n\
        | 1 | a    | 10 | {x: 1, y: 2} |\n| 2 | b    |    |              |\n+---+------+----+--------------+";
    assert_eq!(text(&session, "SELECT * FROM t VERSION AS OF 2 ORDER BY k").await, then);
    change(&session, "RESTORE t TO VERSION AS OF 2").await;
    assert_eq!(text(&session, "SELECT * FROM t ORDER BY k").await, then);
    assert_eq!(problems(&session, "VERIFY t ALL VERSIONS").await, []);
}

/// What a version writes stays small however many small statements there were.
#[tokio::test]
async fn a_long_tail_is_folded_by_its_bytes() {
    let (objects, lake, session) = place().await;
    run(&session, "CREATE TABLE t (k BIGINT, v BIGINT)").await;
    let log = lake.table("t").await.unwrap();
    run(&session, "SET amend.max_inline_fragments = 0").await;
    for k in 0..300 {
        run(&session, &format!("INSERT INTO t VALUES ({k}, {k})")).await;
    }
    let manifests = log.store().list("_versions").await.unwrap();
    let largest = manifests.iter().map(|entry| entry.size_bytes).max().unwrap();
    assert!(largest < 112 * 1024, "{largest} bytes");
    let folders: BTreeSet<_> =
        stored_objects(log.store()).await.into_iter().map(|name| name.split('/').next().unwrap().to_owned()).collect();
    assert_eq!(folders, ["_pages", "_versions"].map(str::to_owned).into());
    assert_eq!(rows(&session, "SELECT count(*), sum(v) FROM t").await, [(300, 299 * 150)]);
    let other = session_of(&lake_in(objects.clone()), 1).await;
    assert_eq!(rows(&other, "SELECT k, v FROM t WHERE k IN (0, 123, 299)").await, [(0, 0), (123, 123), (299, 299)]);
}

/// However many small statements there were, fragments are few, and so are the objects and the bytes that each of them makes.
#[tokio::test]
async fn what_small_statements_leave_does_not_grow_with_their_number() {
    let (objects, lake, session) = place().await;
    run(&session, "CREATE TABLE t (k BIGINT, v BIGINT)").await;
    let log = lake.table("t").await.unwrap();
    for k in 0..1000 {
        run(&session, &format!("INSERT INTO t VALUES ({k}, {k})")).await;
    }
    for k in 0..100 {
        change(&session, &format!("UPDATE t SET v = v + 1 WHERE k = {}", k * 7)).await;
    }
    let newest = log.newest().await.unwrap();
    let fragments = newest.snapshot.fragments.len();
    assert!(fragments <= 32 + 8, "{fragments} fragments");
    let manifests = log.store().list("_versions").await.unwrap();
    let largest = manifests.iter().map(|entry| entry.size_bytes).max().unwrap();
    assert!(largest < 40 * 1024, "{largest} bytes");
    let flushes = log.store().list("data").await.unwrap().len();
    assert!((1100 / 33 - 2..=1100 / 33).contains(&flushes), "{flushes} files");
    assert_eq!(rows(&session, "SELECT count(*), sum(v) FROM t").await, [(1000, 999 * 500 + 100)]);
    let other = session_of(&lake_in(objects.clone()), 1).await;
    assert_eq!(rows(&other, "SELECT k, v FROM t WHERE k IN (0, 7, 8, 999)").await, [(0, 1), (7, 8), (8, 8), (999, 999)]);
    assert_eq!(problems(&session, "VERIFY t").await, []);
}

/// What is known of the values of many columns is more than the values: it counts too, or the tail would be folded before it is flushed.
#[tokio::test]
async fn small_statements_of_wide_tables_are_flushed_too() {
    let (_, lake, session) = place().await;
    let columns = |of: &dyn Fn(usize) -> String| (0..60).map(of).collect::<Vec<_>>().join(", ");
    run(&session, &format!("CREATE TABLE t ({})", columns(&|at| format!("c{at} VARCHAR")))).await;
    let log = lake.table("t").await.unwrap();
    for row in 0..60 {
        run(&session, &format!("INSERT INTO t VALUES ({})", columns(&|at| format!("'{row:030}{at:030}'")))).await;
    }
    let fragments = log.newest().await.unwrap().snapshot.fragments.len();
    assert!(fragments <= 12, "{fragments} fragments");
    let folders: BTreeSet<_> =
        stored_objects(log.store()).await.into_iter().map(|name| name.split('/').next().unwrap().to_owned()).collect();
    assert_eq!(folders, ["_versions", "data"].map(str::to_owned).into(), "nothing was folded");
    assert_eq!(rows(&session, "SELECT count(*), count(DISTINCT c7) FROM t").await, [(60, 60)]);
}

/// A statement has landed whatever becomes of the flush after it; the next one tries again.
#[tokio::test]
async fn a_flush_that_fails_is_nobodys_error() {
    let faults = Arc::new(FaultStore::new(Arc::new(InMemory::new())));
    let lake = lake_in(faults.clone());
    let session = session_of(&lake, 2).await;
    run(&session, "SET amend.max_inline_fragments = 3").await;
    run(&session, "CREATE TABLE t (k BIGINT, v BIGINT)").await;
    let log = lake.table("t").await.unwrap();
    for k in 0..3 {
        change(&session, &format!("INSERT INTO t VALUES ({k}, {k})")).await;
    }
    let written = faults.operations().iter().filter(|(kind, name)| *kind == OpKind::Put && name.contains("data/")).count();
    faults.fail_on(OpKind::Put, "data/", written, Fault::Before(Answer::Generic));
    assert_eq!(change(&session, "INSERT INTO t VALUES (3, 3)").await.count(), 1);
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, [(0, 0), (1, 1), (2, 2), (3, 3)]);
    let held = || async { log.newest().await.unwrap().snapshot.fragments.iter().unwrap().filter(|f| f.inline_bytes() > 0).count() };
    assert_eq!(held().await, 4);
    assert_eq!(change(&session, "UPDATE t SET v = 10 WHERE k = 1").await.count(), 1);
    assert_eq!(held().await, 0);
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, [(0, 0), (1, 10), (2, 2), (3, 3)]);
    assert_exact(&log, "a flush that failed").await;
}
