//! VACUUM: what it removes and what it never does; who else is at work meanwhile; where it may end.

mod beside;

use crate::support::{
    Row, assert_exact, change, files_below, lake_in, named_objects, refused, rows, run, session_of, stored_objects, try_rows,
};
use amend::store::faults::{Fault, FaultStore};
use amend::store::{ObjectName, Store, env};
use amend::{ErrorKind, Lake, Outcome, Session};
use datafusion::arrow::array::AsArray;
use datafusion::execution::context::SessionContext;
use futures::StreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// The paths and reasons that a VACUUM tells, without the table's folder.
async fn vacuum(session: &Session, sql: &str) -> BTreeSet<(String, String)> {
    let Outcome::Rows(told) = run(session, sql).await else { panic!("{sql} yields no rows") };
    let mut removed = BTreeSet::new();
    for batch in told.batches {
        for (path, reason) in batch.column(0).as_string::<i32>().iter().zip(batch.column(2).as_string::<i32>()) {
            let within: Vec<&str> = path.unwrap().splitn(3, '/').collect();
            removed.insert((within[2].to_owned(), reason.unwrap().to_owned()));
        }
    }
    removed
}

async fn short_retention(lake: &Lake) -> Session {
    let session = session_of(lake, 2).await;
    run(&session, "SET amend.allow_short_retention = true").await;
    session
}

fn days_ago(days: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(env::now_ms()) - Duration::from_secs(days * 24 * 3600)
}

/// A table with a history: versions 1 to 7.
async fn table(session: &Session) {
    run(session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
    change(session, "INSERT INTO t SELECT value, value * 10 AS v FROM generate_series(0, 99)").await;
    change(session, "UPDATE t SET v = 1 WHERE k < 10").await;
    change(session, "DELETE FROM t WHERE k = 50").await;
    change(session, "OPTIMIZE t ORDER BY (v DESC)").await;
    change(session, "INSERT INTO t VALUES (100, 1000)").await;
    change(session, "OPTIMIZE t FULL").await;
}

#[tokio::test]
async fn what_no_kept_version_needs_goes_and_the_rest_stays() {
    let lake = Lake::memory();
    let session = short_retention(&lake).await;
    table(&session).await;
    let log = lake.table("t").await.unwrap();
    let before = rows(&session, "SELECT k, v FROM t").await;
    let stored = stored_objects(log.store()).await;

    // What it would do, and that it does not.
    let told = vacuum(&session, "VACUUM t RETAIN 0 HOURS DRY RUN").await;
    assert_eq!(stored_objects(log.store()).await, stored);
    assert_eq!(log.newest_number().await.unwrap(), 7);
    assert_eq!(told.iter().filter(|(_, reason)| reason == "an old version").count(), 6);

    let removed = vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
    assert_eq!(removed, told);
    let newest = log.newest().await.unwrap();
    assert_eq!((newest.snapshot.version, newest.snapshot.low_water_mark), (8, 7));
    let left = stored_objects(log.store()).await;
    assert_eq!(left, named_objects(&log).await);
    assert_eq!(left.union(&removed.into_iter().map(|(path, _)| path).collect()).cloned().collect::<BTreeSet<_>>().len(), stored.len() + 1);
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, before);
    assert_eq!(rows(&session, "SELECT k, v FROM t VERSION AS OF 7").await, before);

    // Other handles find the table as well; what is gone is gone for all, and they are told what is left.
    for lake in [lake.clone(), Lake::new(Store::new(log.store().objects().clone(), Path::default(), "again".into()))] {
        let session = session_of(&lake, 1).await;
        assert_eq!(rows(&session, "SELECT k, v FROM t").await, before);
        let error = refused(&session, "SELECT k, v FROM t VERSION AS OF 6").await;
        assert_eq!(error.to_string(), "table 't' has no version 6: the oldest that can be read is 7, the newest 8");
        let error = refused(&session, "SELECT k, v FROM t TIMESTAMP AS OF '2001-01-01'").await;
        assert!(error.to_string().contains("the oldest that can be read is 7"), "{error}");
        let history = rows(&session, "SELECT CAST(version AS BIGINT), CAST(rows_moved AS BIGINT) FROM table_history('t')").await;
        assert_eq!(history, [(7, 100), (8, 0)]);
    }

    // There is nothing left to do, and no version to make for it.
    assert_eq!(vacuum(&session, "VACUUM t RETAIN 0 HOURS").await, BTreeSet::new());
    assert_eq!(log.newest_number().await.unwrap(), 8);
    change(&session, "UPDATE t SET v = 2 WHERE k = 100").await;
    assert!(!vacuum(&session, "VACUUM t RETAIN 0 HOURS").await.is_empty());
    assert_exact(&log, "a VACUUM").await;
}

#[tokio::test]
async fn what_is_young_stays_whatever_the_times_of_files_say() {
    let folder = TempDir::new().unwrap();
    let lake = Lake::open(folder.path()).unwrap();
    let session = session_of(&lake, 2).await;
    table(&session).await;
    let log = lake.table("t").await.unwrap();
    let mut checksums = Vec::new();
    for version in 2..=7 {
        checksums.push(rows(&session, &format!("SELECT k, v FROM t VERSION AS OF {version}")).await);
    }
    let long_ago = days_ago(365);
    for file in files_below(folder.path()) {
        std::fs::File::options().write(true).open(folder.path().join(file)).unwrap().set_modified(long_ago).unwrap();
    }
    let stored = stored_objects(log.store()).await;
    for sql in ["VACUUM t", "VACUUM t RETAIN 168 HOURS", "VACUUM TABLE t RETAIN 1000 HOURS", "VACUUM"] {
        assert_eq!(vacuum(&session, sql).await, BTreeSet::new(), "{sql}");
    }
    assert_eq!(stored_objects(log.store()).await, stored);
    for (version, before) in (2..=7).zip(checksums) {
        assert_eq!(rows(&session, &format!("SELECT k, v FROM t VERSION AS OF {version}")).await, before);
    }
}

#[tokio::test]
async fn only_files_of_its_own_that_are_old_are_cleared_up() {
    let folder = TempDir::new().unwrap();
    let lake = Lake::open(folder.path()).unwrap();
    let session = session_of(&lake, 1).await;
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
    change(&session, "INSERT INTO t VALUES (1, 1)").await;
    let log = lake.table("t").await.unwrap();
    let table = std::fs::read_dir(folder.path().join("tables")).unwrap().next().unwrap().unwrap().path();
    let long_ago = days_ago(8);
    let file = |name: &str, old: bool| {
        std::fs::create_dir_all(table.join(name).parent().unwrap()).unwrap();
        let file = std::fs::File::create(table.join(name)).unwrap();
        if old {
            file.set_modified(long_ago).unwrap();
        }
        name.to_owned()
    };
    let made_ms = long_ago.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let of_old = |name: &str| name.replace("<id>", &format!("{:08x}-{:04x}-7000-8000-000000000000", made_ms >> 16, made_ms & 0xffff));
    let names = [
        "data/<id>.parquet",
        "_pages/<id>.page",
        "_pages/<id>.index",
        "_deletions/<id>.puffin",
        "_moves/<id>.moves",
        "_transactions/<id>.txn",
    ];
    let orphans: Vec<String> = names.iter().map(|name| file(&of_old(name), true)).collect();
    let half = file("data/#12345", true);
    let foreign =
        [file("data/theirs.parquet", true), file("_moves/notes.txt", true), file("other/x.parquet", true), file("data/#678", false)];
    // Written long ago, or named, but not both.
    let young = [
        file(ObjectName::new_data().as_str(), false),
        file(ObjectName::new_data().as_str(), true),
        file(&of_old("data/<id>.parquet").replace("-8000-", "-9000-"), false),
    ];
    let removed = vacuum(&session, "VACUUM t").await;
    assert_eq!(removed, orphans.iter().map(|name| (name.clone(), "named by no version that is kept".to_owned())).collect());
    let left = files_below(&table);
    assert!(foreign.iter().chain(&young).all(|name| left.contains(name)), "{left:?}");
    assert!(orphans.iter().chain([&half]).all(|name| !left.contains(name)), "{left:?}");
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, [(1, 1)]);
    // From the version of the VACUUM on nobody can begin to name them.
    let newest = log.newest().await.unwrap();
    assert_eq!((newest.snapshot.version, newest.snapshot.low_water_mark, u128::from(newest.snapshot.swept_ms)), (3, 1, made_ms));
    assert_eq!(vacuum(&session, "VACUUM t").await, BTreeSet::new());
    assert_eq!(log.newest_number().await.unwrap(), 3);
}

#[tokio::test]
async fn every_kind_of_object_that_is_needed_stays() {
    let lake = Lake::memory();
    let session = short_retention(&lake).await;
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
    run(&session, "SET amend.rows_per_fragment = 50").await;
    // More fragments than a tail holds, and more actions than a manifest does.
    change(&session, "INSERT INTO t SELECT value, 0 AS v FROM generate_series(0, 19999)").await;
    run(&session, "SET amend.rows_per_fragment = 20000").await;
    // Fragments of several files, one of them of the one column.
    run(&session, "SET amend.update_form = 'columns'").await;
    change(&session, "UPDATE t SET v = 7 WHERE k IN (100, 15000)").await;
    run(&session, "SET amend.update_form = 'rows'").await;
    let log = lake.table("t").await.unwrap();
    // The mark comes to lie below a rewrite with a map of its own, and a vector of its own.
    vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
    let old = session_of(&lake, 1).await;
    run(&old, "BEGIN").await;
    change(&old, "UPDATE t SET v = 1 WHERE k IN (3, 19990)").await;
    change(&session, "OPTIMIZE t WHERE k < 20000 ORDER BY (v, k DESC)").await;
    change(&session, "DELETE FROM t WHERE k * k % 7 = 1").await;
    run(&session, "SET amend.rows_per_fragment = 100").await;
    change(&session, "INSERT INTO t SELECT value, 0 AS v FROM generate_series(20000, 69999)").await;
    let before = rows(&session, "SELECT k, v FROM t").await;
    let folders =
        |objects: &BTreeSet<String>| objects.iter().map(|name| name.split('/').next().unwrap().to_owned()).collect::<BTreeSet<_>>();
    let all = ["_deletions", "_moves", "_pages", "_transactions", "_versions", "data"];
    assert_eq!(folders(&named_objects(&log).await).into_iter().collect::<Vec<_>>(), all);

    vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
    let left = stored_objects(log.store()).await;
    assert_eq!(folders(&left).into_iter().collect::<Vec<_>>(), all);
    assert!(named_objects(&log).await.is_subset(&left));
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, before);
    // The transaction is older than all of that, and is carried through the map.
    let committed = change(&old, "COMMIT").await;
    assert_eq!((committed.counts.updated, committed.facts.rows_carried), (2, 2));
    assert_eq!(rows(&session, "SELECT k, v FROM t WHERE v = 1").await, [(3, 1), (19990, 1)]);
    vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
    assert_exact(&log, "a VACUUM").await;
    assert_eq!(rows(&session, "SELECT k, v FROM t").await.len(), before.len());
}

#[tokio::test]
async fn open_transactions_staged_statements_and_running_queries_keep_what_they_need() {
    let lake = Lake::memory();
    let session = short_retention(&lake).await;
    table(&session).await;
    let expected = rows(&session, "SELECT k, v FROM t").await;
    let (writer, reader) = (session_of(&lake, 1).await, session_of(&lake, 1).await);
    run(&writer, "BEGIN").await;
    change(&writer, "UPDATE t SET v = -1 WHERE k = 7").await;
    change(&writer, "INSERT INTO t VALUES (200, 0)").await;
    run(&reader, "BEGIN").await;
    assert_eq!(rows(&reader, "SELECT k, v FROM t").await, expected);
    let staged = session_of(&lake, 1).await.stage("UPDATE t SET v = -2 WHERE k = 8").await.unwrap();
    let context = SessionContext::new();
    amend::install(&context, &lake).unwrap();
    let mut query = context.sql("SELECT k, v FROM t").await.unwrap().execute_stream().await.unwrap();

    for _ in 0..3 {
        change(&session, "OPTIMIZE t ORDER BY (k) FULL").await;
        change(&session, "DELETE FROM t WHERE k = (SELECT max(k) FROM t)").await;
        change(&session, "OPTIMIZE t ZORDER BY (v, k) FULL").await;
        vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
    }
    let mut found = 0;
    while let Some(batch) = query.next().await {
        found += batch.unwrap().num_rows();
    }
    assert_eq!(found, expected.len());
    assert_eq!(rows(&reader, "SELECT k, v FROM t").await, expected);
    assert_eq!(staged.commit().await.unwrap().counts.updated, 1);
    assert_eq!(change(&writer, "COMMIT").await.facts.rows_carried, 6);
    let now: Vec<Row> = expected
        .iter()
        .filter(|(k, _)| *k <= 97)
        .map(|(k, v)| {
            (
                *k,
                if *k == 7 {
                    -1
                } else if *k == 8 {
                    -2
                } else {
                    *v
                },
            )
        })
        .chain([(200, 0)])
        .collect();
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, now);
    // When they are done, what they needed goes.
    run(&reader, "COMMIT").await;
    drop((query, context));
    vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
    let log = lake.table("t").await.unwrap();
    assert_exact(&log, "a VACUUM").await;
}

#[tokio::test]
async fn a_writer_that_read_what_is_gone_collides_and_its_statement_runs_again() {
    let folder = TempDir::new().unwrap();
    let (ours, theirs) = (Lake::open(folder.path()).unwrap(), Lake::open(folder.path()).unwrap());
    let session = short_retention(&ours).await;
    table(&session).await;
    let slow = session_of(&theirs, 1).await;
    run(&slow, "BEGIN").await;
    change(&slow, "DELETE FROM t WHERE k = 5").await;
    let staged = session_of(&theirs, 1).await;
    let context = SessionContext::new();
    amend::install(&context, &theirs).unwrap();
    let log = theirs.table("t").await.unwrap();
    let wanted = amend::plan::optimize::Wanted { full: true, ..Default::default() };
    let base = log.newest().await.unwrap();
    let plan = amend::plan::optimize::plan(&context.state(), &log, base, &wanted, "OPTIMIZE t FULL".into()).await.unwrap();

    change(&session, "DELETE FROM t WHERE k = 6").await;
    change(&session, "INSERT INTO t VALUES (7, 7)").await;
    vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
    let error = refused(&slow, "COMMIT").await;
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Conflict, "40001"), "{error}");
    assert!(error.to_string().contains("the versions from 7 to 8, which VACUUM has removed,"), "{error}");
    // A statement by itself is planned again; its files of before are there, so it can still read them.
    datafusion::physical_plan::collect(plan, context.task_ctx()).await.unwrap();
    let newest = log.newest().await.unwrap();
    assert_eq!(newest.transactions[0].facts.reran, 1);
    assert_eq!(change(&staged, "DELETE FROM t WHERE k = 5").await.counts.deleted, 1);
    assert_eq!(rows(&session, "SELECT k, v FROM t WHERE k BETWEEN 5 AND 7").await, [(7, 1), (7, 7)]);
}

#[tokio::test]
async fn wherever_a_vacuum_ends_the_table_is_whole_and_the_next_one_finishes() {
    let original = Arc::new(InMemory::new());
    let session = session_of(&lake_in(original.clone()), 1).await;
    table(&session).await;
    let expected = rows(&session, "SELECT k, v FROM t").await;
    let (first, last) = {
        let store = FaultStore::new(Arc::new(original.fork()));
        let session = short_retention(&lake_in(Arc::new(store.clone()))).await;
        let first = store.operations().len();
        vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
        (first, store.operations().len())
    };
    assert!(last - first > 40, "{first} {last}");
    for n in first..last {
        for fault in [Fault::CrashBefore, Fault::CrashAfter] {
            let raw = Arc::new(original.fork());
            let store = FaultStore::new(raw.clone());
            let session = short_retention(&lake_in(Arc::new(store.clone()))).await;
            store.fail_at(n, fault);
            let _ = session.execute("VACUUM t RETAIN 0 HOURS").await;
            let lake = lake_in(raw);
            let session = short_retention(&lake).await;
            let log = lake.table("t").await.unwrap();
            let newest = log.newest().await.unwrap().snapshot.clone();
            for version in newest.low_water_mark.max(2)..=newest.version {
                let sql = format!("SELECT k, v FROM t VERSION AS OF {version}");
                let found = try_rows(&session, &sql).await.unwrap_or_else(|error| panic!("{fault:?} at {n}: {error}"));
                assert!(version < 7 || found == expected, "{fault:?} at {n}");
            }
            vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
            assert_exact(&log, &format!("{fault:?} at {n}")).await;
            assert_eq!(rows(&session, "SELECT k, v FROM t").await, expected);
        }
    }
}

#[tokio::test]
async fn an_error_of_the_store_ends_a_vacuum_and_nothing_else() {
    let original = Arc::new(InMemory::new());
    table(&session_of(&lake_in(original.clone()), 1).await).await;
    let mut failed = 0;
    for n in (0..60).step_by(3) {
        let store = FaultStore::new(Arc::new(original.fork()));
        let session = short_retention(&lake_in(Arc::new(store.clone()))).await;
        let at = store.operations().len() + n;
        store.fail_at(at, Fault::Before(amend::store::faults::Answer::Generic));
        let outcome = session.execute("VACUUM t RETAIN 0 HOURS").await;
        if store.operations().len() <= at {
            break;
        }
        failed += 1;
        if let Err(error) = outcome {
            assert!([ErrorKind::Unavailable, ErrorKind::Unknown].contains(&error.kind()), "{n}: {error}");
        }
        assert_eq!(rows(&session, "SELECT k, v FROM t").await.len(), 100);
        change(&session, "INSERT INTO t VALUES (-1, 0)").await;
    }
    assert!(failed > 10, "{failed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_vacuums_at_once_beside_writers() {
    let folder = TempDir::new().unwrap();
    let lakes = [Lake::open(folder.path()).unwrap(), Lake::open(folder.path()).unwrap()];
    let session = short_retention(&lakes[0]).await;
    table(&session).await;
    change(&session, "DELETE FROM t WHERE k >= 100").await;
    let sessions = [short_retention(&lakes[0]).await, short_retention(&lakes[0]).await];
    let vacuums = sessions.into_iter().map(|session| {
        tokio::spawn(async move {
            for _ in 0..10 {
                vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
            }
        })
    });
    let vacuums: Vec<_> = vacuums.collect();
    let writers: Vec<_> = (0..2i64)
        .map(|own| {
            let lake = lakes[0].clone();
            tokio::spawn(async move {
                let session = session_of(&lake, 1).await;
                for round in 0..15 {
                    change(&session, &format!("UPDATE t SET v = {round} WHERE k % 2 = {own}")).await;
                    change(&session, &format!("INSERT INTO t VALUES ({}, 0)", 1000 + round * 2 + own)).await;
                    if round % 5 == 0 {
                        change(&session, "OPTIMIZE t ORDER BY (v, k)").await;
                    }
                }
            })
        })
        .collect();
    for task in vacuums.into_iter().chain(writers) {
        task.await.unwrap();
    }
    let found = rows(&session, "SELECT k, v FROM t").await;
    let keys: Vec<i64> = found.iter().map(|row| row.0).collect();
    assert_eq!(keys, (0..50).chain(51..100).chain(1000..1030).collect::<Vec<_>>());
    assert!(found.iter().filter(|row| row.0 < 100).all(|row| row.1 == 14));
    vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
    let log = lakes[0].table("t").await.unwrap();
    assert_exact(&log, "a VACUUM").await;
    // Another handle, which saw nothing of all this, reads the same.
    assert_eq!(rows(&session_of(&lakes[1], 1).await, "SELECT k, v FROM t").await, found);
}

#[tokio::test]
async fn folders_of_dropped_tables_go_after_the_time_that_is_kept() {
    let folder = TempDir::new().unwrap();
    let lake = Lake::open(folder.path()).unwrap();
    let session = short_retention(&lake).await;
    table(&session).await;
    run(&session, "SET amend.max_inline_bytes = 0").await;
    run(&session, "CREATE TABLE dropped AS SELECT 1 AS k").await;
    run(&session, "CREATE TABLE kept AS SELECT 1 AS k, 2 AS v").await;
    run(&session, "DROP TABLE dropped").await;
    run(&session, "CREATE TABLE dropped AS SELECT 2 AS k, 3 AS v").await;
    let folders =
        || std::fs::read_dir(folder.path().join("tables")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(folders().count(), 4);
    // Whatever the times of its files say: it was dropped just now.
    let long_ago = days_ago(365);
    for file in files_below(folder.path()) {
        std::fs::File::options().write(true).open(folder.path().join(file)).unwrap().set_modified(long_ago).unwrap();
    }
    assert_eq!(vacuum(&session, "VACUUM").await, BTreeSet::new());
    assert_eq!(folders().count(), 4);
    // A table by itself says nothing of others.
    vacuum(&session, "VACUUM kept RETAIN 0 HOURS").await;
    assert_eq!(folders().count(), 4);
    let told = vacuum(&session, "VACUUM RETAIN 0 HOURS DRY RUN").await;
    let of_dropped = told.iter().filter(|(_, reason)| reason == "of a table that was dropped").count();
    assert!(of_dropped >= 2, "{told:?}");
    assert_eq!(folders().count(), 4);
    assert_eq!(vacuum(&session, "VACUUM RETAIN 0 HOURS").await, told);
    assert_eq!(folders().count(), 3);
    assert_eq!(rows(&session, "SELECT CAST(k AS BIGINT), CAST(v AS BIGINT) FROM dropped").await, [(2, 3)]);
    assert_eq!(rows(&session, "SELECT CAST(k AS BIGINT), CAST(v AS BIGINT) FROM kept").await, [(1, 2)]);
    assert_eq!(rows(&session, "SELECT k, v FROM t").await.len(), 100);
    assert_eq!(vacuum(&session, "VACUUM RETAIN 0 HOURS").await, BTreeSet::new());
}

#[tokio::test]
async fn a_table_that_is_being_created_stays() {
    let lake = Lake::memory();
    let (session, other) = (short_retention(&lake).await, session_of(&lake, 1).await);
    run(&session, "CREATE TABLE u AS SELECT 1 AS k").await;
    for round in 0..5 {
        let create = format!("CREATE TABLE t{round} AS SELECT value AS k, value AS v FROM generate_series(1, 200000)");
        let (created, ()) = tokio::join!(other.execute(&create), async {
            for _ in 0..20 {
                vacuum(&session, "VACUUM RETAIN 0 HOURS").await;
                tokio::task::yield_now().await;
            }
        });
        created.unwrap();
        assert_eq!(rows(&session, &format!("SELECT count(*), sum(v) FROM t{round}")).await, [(200_000, 20_000_100_000)]);
    }
}

#[tokio::test]
async fn a_short_time_has_to_be_allowed() {
    let lake = Lake::memory();
    let session = session_of(&lake, 1).await;
    table(&session).await;
    for sql in ["VACUUM t RETAIN 0 HOURS", "VACUUM RETAIN 167.9 HOURS", "VACUUM t RETAIN 1 HOUR DRY RUN"] {
        let error = refused(&session, sql).await;
        assert!(error.to_string().contains("SET amend.allow_short_retention = true"), "{error}");
    }
    run(&session, "BEGIN").await;
    assert_eq!(refused(&session, "VACUUM t").await.sqlstate(), "0A000");
    run(&session, "ROLLBACK").await;
    assert_eq!(refused(&session, "VACUUM tt").await.to_string(), "table 'tt' does not exist; did you mean 't'?");
    let log = lake.table("t").await.unwrap();
    assert_eq!(named_objects(&log).await, stored_objects(log.store()).await);
}

/// How long the processes of the next test work.
const WORK: Duration = Duration::from_secs(12);
/// How much is kept meanwhile, in hours: 7.2 seconds, longer than any statement of theirs.
const KEPT_HOURS: &str = "0.002";

/// One of the writers of the next test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a part of the next test, which starts it as a process of its own"]
async fn vacuum_worker() {
    let Ok(folder) = std::env::var("AMEND_VACUUM_LAKE") else { return };
    let own: i64 = std::env::var("AMEND_VACUUM_WORKER").unwrap().parse().unwrap();
    let session = session_of(&Lake::open(folder).unwrap(), 1).await;
    let begun = Instant::now();
    let (mut rounds, mut inserted) = (0, 0);
    while begun.elapsed() < WORK {
        change(&session, &format!("UPDATE t SET v = v + 1 WHERE k < 1000 AND k % 2 = {own}")).await;
        change(&session, &format!("INSERT INTO t VALUES ({}, 0)", 1000 + inserted * 2 + own)).await;
        inserted += 1;
        rounds += 1;
        if rounds % 7 == 0 {
            change(&session, if own == 0 { "OPTIMIZE t" } else { "OPTIMIZE t ORDER BY (v, k)" }).await;
        }
    }
    println!("REPORT {rounds}");
}

#[tokio::test]
async fn a_vacuum_beside_writers_of_other_processes_takes_nothing_that_they_need() {
    let folder = TempDir::new().unwrap();
    let lake = Lake::open(folder.path()).unwrap();
    let session = short_retention(&lake).await;
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
    change(&session, "INSERT INTO t SELECT value, 0 AS v FROM generate_series(0, 99)").await;
    let start = |own: i64| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "vacuum::vacuum_worker", "--ignored", "--nocapture"]).stdout(Stdio::piped());
        command.env("AMEND_VACUUM_LAKE", folder.path()).env("AMEND_VACUUM_WORKER", own.to_string()).spawn().unwrap()
    };
    let workers: Vec<_> = (0..2).map(start).collect();
    let (begun, mut removed) = (Instant::now(), 0);
    while begun.elapsed() < WORK + Duration::from_secs(1) {
        removed += vacuum(&session, &format!("VACUUM RETAIN {KEPT_HOURS} HOURS")).await.len();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut expected: Vec<Row> = Vec::new();
    for (own, worker) in (0..).zip(workers) {
        let output = worker.wait_with_output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{told}");
        let rounds: i64 = told.lines().find_map(|line| line.split_once("REPORT ")).unwrap().1.trim().parse().unwrap();
        expected.extend((0..100).filter(|k| k % 2 == own).map(|k| (k, rounds)));
        expected.extend((0..rounds).map(|round| (1000 + round * 2 + own, 0)));
    }
    expected.sort_unstable();
    assert!(removed > 0);
    let fresh = Lake::open(folder.path()).unwrap();
    assert!(rows(&session_of(&fresh, 1).await, "SELECT k, v FROM t").await == expected);
    vacuum(&session, "VACUUM RETAIN 0 HOURS").await;
    let log = fresh.table("t").await.unwrap();
    assert_exact(&log, "a VACUUM").await;
    assert!(rows(&session_of(&fresh, 1).await, "SELECT k, v FROM t").await == expected);
}
