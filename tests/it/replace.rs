//! Statements that replace a table, and its files: what a RESTORE names belongs to older versions and outlives every failure;
//! what is missing is named before anything is committed.

use crate::support::{assert_nothing_left_behind, change, refused, rows, run, session_of, stored_objects};
use amend::store::ObjectName;
use amend::table::deletion_vector::DeletionFile;
use amend::{ErrorKind, Lake, Session};
use tempfile::TempDir;

const ROWS: i64 = 30_000;

/// A lake in a folder, and a table of which version 3 has a large deletion vector and version 4 no rows.
async fn lake() -> (TempDir, Lake, Session) {
    let folder = TempDir::new().unwrap();
    let lake = Lake::open(folder.path()).unwrap();
    let session = session_of(&lake, 1).await;
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT)").await;
    change(&session, &format!("INSERT INTO t SELECT value, value AS v FROM generate_series(0, {})", ROWS - 1)).await;
    change(&session, "DELETE FROM t WHERE k * 7919 % 3 = 1").await;
    change(&session, "TRUNCATE TABLE t").await;
    (folder, lake, session)
}

fn left() -> Vec<(i64, i64)> {
    (0..ROWS).filter(|k| k * 7919 % 3 != 1).map(|k| (k, k)).collect()
}

#[tokio::test]
async fn what_a_restore_names_outlives_its_failures() {
    let (_folder, lake, session) = lake().await;
    let other = session_of(&lake, 1).await;
    let log = lake.table("t").await.unwrap();
    let before = stored_objects(log.store()).await;
    let check = async |after: &str| {
        assert_nothing_left_behind(&lake, "t", after).await;
        let stored = stored_objects(log.store()).await;
        let gone: Vec<_> = before.difference(&stored).collect();
        assert!(gone.is_empty(), "gone after {after}: {gone:?}");
        assert_eq!(rows(&session, "SELECT k, v FROM t VERSION AS OF 3").await, left(), "{after}");
    };
    for end in ["ROLLBACK", "COMMIT"] {
        run(&session, "BEGIN").await;
        change(&session, "RESTORE TABLE t TO VERSION AS OF 3").await;
        change(&session, "INSERT INTO t VALUES (-1, -1)").await;
        change(&session, "DELETE FROM t WHERE k = 0").await;
        if end == "COMMIT" {
            // Something lands meanwhile: the transaction is refused.
            change(&other, "INSERT INTO t VALUES (-2, -2)").await;
            assert_eq!(refused(&session, end).await.sqlstate(), "40001");
        } else {
            run(&session, end).await;
        }
        check(&format!("a transaction with RESTORE and {end}")).await;
    }
    run(&session, "BEGIN").await;
    change(&session, "RESTORE TABLE t TO VERSION AS OF 3").await;
    assert_eq!(refused(&session, "UPDATE t SET v = 1 / (k - 3)").await.sqlstate(), "22012");
    assert_eq!(refused(&session, "COMMIT").await.sqlstate(), "25P02");
    check("a transaction that failed after its RESTORE").await;
    // What was restored and is undone by the same transaction is not its own either.
    run(&session, "BEGIN").await;
    change(&session, "RESTORE TABLE t TO VERSION AS OF 3").await;
    change(&session, "TRUNCATE TABLE t").await;
    change(&session, "RESTORE TABLE t TO VERSION AS OF 2").await;
    change(&session, "OPTIMIZE t FULL").await;
    change(&session, "INSERT OVERWRITE t VALUES (7, 7)").await;
    change(&session, "COMMIT").await;
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, [(7, 7)]);
    check("RESTORE and TRUNCATE in one transaction").await;
    change(&session, "RESTORE TABLE t TO VERSION AS OF 3").await;
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, left());
    check("RESTORE").await;
}

#[tokio::test]
async fn a_large_vector_is_written_for_its_new_fragment() {
    let (_folder, lake, session) = lake().await;
    let log = lake.table("t").await.unwrap();
    change(&session, "RESTORE TABLE t TO VERSION AS OF 3").await;
    let vector = async |version: u64| {
        let version = log.read(version).await.unwrap();
        let fragment = version.snapshot.fragments.iter().unwrap().next().unwrap();
        match fragment.deletions.clone() {
            Some(DeletionFile::Puffin { path, cardinality, .. }) => (fragment.id, fragment.files[0].path.clone(), path, cardinality),
            other => panic!("{other:?}"),
        }
    };
    let ((old, old_data, old_vector, deleted), (new, data, vector, deleted_again)) = (vector(3).await, vector(5).await);
    assert_eq!((old_data, deleted), (data, deleted_again));
    assert!(old_vector != vector && old != new);
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, left());
}

#[tokio::test]
async fn a_version_with_a_missing_object_is_not_restored() {
    let (folder, lake, session) = lake().await;
    let log = lake.table("t").await.unwrap();
    let stored = stored_objects(log.store()).await;
    let only = |folder: &str| stored.iter().find(|name| name.starts_with(folder)).unwrap();
    let (data, vector) = (only("data/"), only("_deletions/"));
    for (object, version) in [(vector, 3), (data, 2)] {
        let name = ObjectName::parse(object).unwrap();
        let bytes = log.store().read(&name).await.unwrap();
        for cut in [true, false] {
            log.store().delete(&name).await.unwrap();
            if cut {
                log.store().write(&name, bytes.slice(..bytes.len() / 2)).await.unwrap();
            }
            // Nothing is in the memory of another process.
            let fresh = session_of(&Lake::open(folder.path()).unwrap(), 1).await;
            let error = refused(&fresh, &format!("RESTORE TABLE t TO VERSION AS OF {version}")).await;
            assert_eq!(error.kind(), ErrorKind::Data, "{error}");
            assert!(error.to_string().contains(object.as_str()), "{error}");
            assert_eq!(log.newest_number().await.unwrap(), 4);
            log.store().delete(&name).await.unwrap();
        }
        log.store().write(&name, bytes).await.unwrap();
    }
    change(&session, "RESTORE TABLE t TO VERSION AS OF 3").await;
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, left());
}

#[tokio::test]
async fn a_replacement_that_fails_leaves_nothing() {
    let (_folder, lake, session) = lake().await;
    let other = session_of(&lake, 1).await;
    change(&session, "RESTORE TABLE t TO VERSION AS OF 3").await;
    for (sql, sqlstate) in [
        ("CREATE OR REPLACE TABLE t AS SELECT k, 1 / (k - 29997) AS v FROM t", "22012"),
        ("CREATE OR REPLACE TABLE t (k BIGINT NOT NULL) AS SELECT CASE WHEN k = 29997 THEN NULL ELSE k END FROM t", "23502"),
        ("INSERT OVERWRITE t SELECT CASE WHEN k = 29997 THEN NULL ELSE k END, v FROM t", "23502"),
        ("INSERT INTO t REPLACE WHERE k > 5 SELECT k - 29990, v FROM t WHERE k > 20000 ORDER BY k DESC", "44000"),
    ] {
        let error = refused(&session, sql).await;
        assert_eq!(error.sqlstate(), sqlstate, "{sql}: {error}");
        assert_nothing_left_behind(&lake, "t", sql).await;
    }
    for sql in ["CREATE OR REPLACE TABLE t AS SELECT k, v FROM t", "INSERT OVERWRITE t SELECT k, v FROM t"] {
        run(&session, "BEGIN").await;
        change(&session, sql).await;
        change(&other, "DELETE FROM t WHERE k = (SELECT min(k) FROM t)").await;
        assert_eq!(refused(&session, "COMMIT").await.sqlstate(), "40001", "{sql}");
        assert_nothing_left_behind(&lake, "t", sql).await;
    }
    assert_eq!(rows(&session, "SELECT k, v FROM t").await.len(), left().len() - 2);
}

#[tokio::test]
async fn rows_are_replaced_by_a_staged_statement() {
    let (_folder, _lake, session) = lake().await;
    run(&session, "SET amend.isolation = 'snapshot'").await;
    change(&session, "INSERT INTO t VALUES (1, 1), (2, 2)").await;
    let staged = session.stage("INSERT OVERWRITE t VALUES (3, 3)").await.unwrap();
    change(&session, "INSERT INTO t VALUES (4, 4)").await;
    change(&session, "OPTIMIZE t FULL").await;
    let changed = staged.commit().await.unwrap();
    assert_eq!((changed.counts.inserted, changed.counts.deleted, changed.facts.rows_carried), (1, 2, 2));
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, [(3, 3), (4, 4)]);
}
