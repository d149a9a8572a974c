//! No staged files are left behind: after a statement that failed, a transaction that was rolled back or a rewrite that was
//! partly given up, a table's folder holds exactly what its versions name.

use crate::support::{assert_nothing_left_behind, change, files_below, named_objects, refused, rows, run, session_of, stored_objects};
use amend::{Lake, Session};
use tempfile::TempDir;

/// A lake in a folder, and a table of ten fragments of a thousand rows.
async fn lake(partitions: usize) -> (TempDir, Lake, Session) {
    let folder = TempDir::new().unwrap();
    let lake = Lake::open(folder.path()).unwrap();
    let session = session_of(&lake, partitions).await;
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
    run(&session, "SET amend.rows_per_fragment = 1000").await;
    change(&session, "INSERT INTO t SELECT value, value AS v FROM generate_series(0, 9999)").await;
    (folder, lake, session)
}

/// Also the half-written files that a listing does not show.
async fn assert_folder_is_exact(folder: &TempDir, lake: &Lake, after: &str) {
    assert_nothing_left_behind(lake, "t", after).await;
    let half_written: Vec<_> = files_below(folder.path()).into_iter().filter(|name| name.contains('#')).collect();
    assert!(half_written.is_empty(), "half-written after {after}: {half_written:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_fail_leave_nothing() {
    for partitions in [1, 4] {
        let (folder, lake, session) = lake(partitions).await;
        run(&session, "CREATE TABLE u (k BIGINT, v BIGINT)").await;
        // Eight fragments for four partitions; the last of them is the one with the NULL.
        change(&session, "INSERT INTO u SELECT value, value AS v FROM generate_series(0, 7999)").await;
        change(&session, "UPDATE u SET v = NULL WHERE k = 7999").await;
        let merge = "MERGE INTO t USING (SELECT k % 9000 AS k, v FROM u UNION ALL SELECT 5, 5) AS s (k, v) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 0";
        let failing = [
            ("INSERT INTO t SELECT k, v FROM u", "23502"),
            ("INSERT INTO t SELECT k, v FROM u ORDER BY k", "23502"),
            ("UPDATE t SET v = (CASE WHEN k = 9999 THEN NULL ELSE v END)", "23502"),
            ("UPDATE t SET v = 1 / (9999 - k)", "22012"),
            ("DELETE FROM t WHERE 1 / (9999 - k) = 0", "22012"),
            (merge, "21000"),
            ("MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN UPDATE SET v = u.v WHEN NOT MATCHED BY SOURCE THEN DELETE", "23502"),
        ];
        for (sql, sqlstate) in failing {
            for in_transaction in [false, true] {
                if in_transaction {
                    run(&session, "BEGIN").await;
                    change(&session, "INSERT INTO t VALUES (10000, 0)").await;
                }
                let error = refused(&session, sql).await;
                assert_eq!(error.sqlstate(), sqlstate, "{sql}: {error}");
                if in_transaction {
                    run(&session, "ROLLBACK").await;
                }
                assert_folder_is_exact(&folder, &lake, &format!("{sql}, {partitions} partitions, in a transaction: {in_transaction}"))
                    .await;
            }
        }
        assert_eq!(rows(&session, "SELECT k, v FROM t").await, (0..10_000).map(|k| (k, k)).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn transactions_that_do_not_commit_leave_nothing() {
    let (folder, lake, session) = lake(1).await;
    let other = session_of(&lake, 1).await;
    run(&session, "CREATE TABLE u (k BIGINT, v BIGINT)").await;
    let statements = [
        "INSERT INTO t SELECT value, 0 FROM generate_series(20000, 22500)",
        "UPDATE t SET v = -1 WHERE k < 2500",
        "OPTIMIZE t FULL",
        "DELETE FROM t WHERE k % 7 = 0",
    ];
    let begin = async || {
        run(&session, "BEGIN").await;
        for sql in statements {
            change(&session, sql).await;
        }
    };
    begin().await;
    run(&session, "ROLLBACK").await;
    assert_folder_is_exact(&folder, &lake, "ROLLBACK").await;

    begin().await;
    change(&other, "UPDATE t SET v = 5 WHERE k = 77").await;
    assert_eq!(refused(&session, "COMMIT").await.sqlstate(), "40001");
    assert_folder_is_exact(&folder, &lake, "a COMMIT that collided").await;

    begin().await;
    assert_eq!(refused(&session, "SELECT nothing FROM nowhere").await.sqlstate(), "42P01");
    assert_eq!(refused(&session, "COMMIT").await.sqlstate(), "25P02");
    assert_folder_is_exact(&folder, &lake, "a COMMIT of a transaction that had failed").await;

    begin().await;
    assert_eq!(refused(&session, "INSERT INTO u VALUES (1, 1)").await.sqlstate(), "0A000");
    run(&session, "ROLLBACK").await;
    assert_folder_is_exact(&folder, &lake, "a transaction on two tables").await;
    assert_nothing_left_behind(&lake, "u", "a transaction on two tables").await;

    begin().await;
    change(&session, "COMMIT").await;
    assert_folder_is_exact(&folder, &lake, "COMMIT").await;
}

#[tokio::test]
async fn what_was_staged_and_not_committed_leaves_nothing() {
    let (folder, lake, session) = lake(2).await;
    for sql in ["OPTIMIZE t FULL", "UPDATE t SET v = 1 WHERE k < 3000", "INSERT INTO t VALUES (1, 2)"] {
        session.stage(sql).await.unwrap().discard().await;
        assert_folder_is_exact(&folder, &lake, &format!("{sql}, discarded")).await;
    }
    let update = session.stage("UPDATE t SET v = 1 WHERE k < 3000").await.unwrap();
    change(&session, "DELETE FROM t WHERE k = 2999").await;
    assert_eq!(update.commit().await.unwrap_err().sqlstate(), "40001");
    assert_folder_is_exact(&folder, &lake, "a staged UPDATE that collided").await;
}

#[tokio::test]
async fn what_came_and_went_in_a_transaction_leaves_nothing() {
    let (folder, lake, session) = lake(2).await;
    run(&session, "BEGIN").await;
    for (sql, rows) in [
        ("INSERT INTO t SELECT value, 0 FROM generate_series(20000, 21499)", 1500),
        ("UPDATE t SET v = 1 WHERE k >= 20000", 1500),
        ("DELETE FROM t WHERE k >= 21000", 500),
        ("INSERT INTO t VALUES (30000, 0)", 1),
        ("DELETE FROM t WHERE k = 30000 OR k = 0", 2),
    ] {
        assert_eq!(change(&session, sql).await.counts.changed(), rows, "{sql}");
    }
    let log = lake.table("t").await.unwrap();
    let staged = stored_objects(log.store()).await.len();
    let committed = change(&session, "COMMIT").await;
    assert_eq!((committed.counts.inserted, committed.counts.updated, committed.counts.deleted), (1501, 1500, 502));
    assert_folder_is_exact(&folder, &lake, "a transaction in which fragments came and went").await;
    assert!(stored_objects(log.store()).await.len() < staged, "files of the fragments that came and went");
    assert_eq!(rows(&session, "SELECT k, v FROM t WHERE k >= 20000").await, (20_000..21_000).map(|k| (k, 1)).collect::<Vec<_>>());
}

#[tokio::test]
async fn groups_that_were_given_up_leave_nothing() {
    let (folder, lake, session) = lake(2).await;
    // Five groups of two fragments, of which the other compaction rewrites the worn ones.
    run(&session, "SET amend.rows_per_fragment = 2000").await;
    let compaction = session.stage("OPTIMIZE t FULL").await.unwrap();
    let other = session_of(&lake, 1).await;
    run(&other, "SET amend.rows_per_fragment = 1000").await;
    change(&other, "DELETE FROM t WHERE k BETWEEN 2000 AND 2500 OR k BETWEEN 8000 AND 8700").await;
    assert_eq!(change(&other, "OPTIMIZE t").await.counts.moved, 499 + 299);
    let facts = compaction.commit().await.unwrap().facts;
    assert_eq!((facts.groups_dropped, facts.rebased_over), (2, 2));
    assert_folder_is_exact(&folder, &lake, "a compaction of which a part was given up").await;
    assert_eq!(rows(&session, "SELECT k, v FROM t").await.len(), 10_000 - 501 - 701);

    let compaction = session.stage("OPTIMIZE t FULL").await.unwrap();
    change(&other, "OPTIMIZE t FULL").await;
    let given_up = compaction.commit().await.unwrap();
    assert_eq!(given_up.version, None);
    assert_folder_is_exact(&folder, &lake, "a compaction that was given up").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_in_column_form_leave_nothing() {
    for partitions in [1, 4] {
        let (folder, lake, session) = lake(partitions).await;
        run(&session, "SET amend.update_form = 'columns'").await;
        for (sql, sqlstate) in
            [("UPDATE t SET v = (CASE WHEN k = 9999 THEN NULL ELSE v END)", "23502"), ("UPDATE t SET v = 1 / (9999 - k)", "22012")]
        {
            assert_eq!(refused(&session, sql).await.sqlstate(), sqlstate, "{sql}");
            assert_folder_is_exact(&folder, &lake, &format!("{sql}, {partitions} partitions")).await;
        }
        let other = session_of(&lake, 1).await;
        run(&other, "SET amend.rows_per_fragment = 3000").await;
        change(&other, "DELETE FROM t WHERE k % 100 = 7").await;

        // The rows move before the columns land.
        let update = session.stage("UPDATE t SET v = -v WHERE k % 2 = 1").await.unwrap();
        assert_eq!(change(&other, "OPTIMIZE t FULL").await.counts.moved, 9_900);
        change(&other, "DELETE FROM t WHERE k = 5").await;
        let landed = update.commit().await.unwrap();
        assert_eq!((landed.counts.updated, landed.facts.rows_carried, landed.facts.rebased_over), (4_900, 9_900, 2));
        assert_folder_is_exact(&folder, &lake, "columns that followed their rows").await;
        let alive = |k: &i64| k % 100 != 7 && *k != 5;
        let sign = |k: i64| if k % 2 == 1 { -k } else { k };
        assert_eq!(rows(&session, "SELECT k, v FROM t").await, (0..10_000).filter(alive).map(|k| (k, sign(k))).collect::<Vec<_>>());

        // The columns land before the rewrite does.
        let compaction = other.stage("OPTIMIZE t FULL").await.unwrap();
        change(&session, "UPDATE t SET v = 0 WHERE k < 4000").await;
        assert_eq!(compaction.commit().await.unwrap().facts.groups_dropped, 0);
        assert_folder_is_exact(&folder, &lake, "a rewrite that took over columns").await;
        let value = |k: i64| if k < 4_000 { 0 } else { sign(k) };
        assert_eq!(rows(&session, "SELECT k, v FROM t").await, (0..10_000).filter(alive).map(|k| (k, value(k))).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn an_alter_table_that_fails_leaves_nothing() {
    let (folder, lake, session) = lake(1).await;
    for (sql, sqlstate) in [
        ("ALTER TABLE t ALTER COLUMN k TYPE VARCHAR, ALTER COLUMN v TYPE BIGINT USING 1 / (v - 9999)", "22012"),
        ("ALTER TABLE t ALTER COLUMN v TYPE BIGINT USING 1 / (v - 9999), ALTER COLUMN k TYPE VARCHAR", "22012"),
        ("ALTER TABLE t ALTER COLUMN k TYPE VARCHAR, ALTER COLUMN v TYPE VARCHAR, ADD CHECK (v <> '9999')", "23514"),
        ("ALTER TABLE t ALTER COLUMN k TYPE VARCHAR, ALTER COLUMN v TYPE VARCHAR USING nullif(v, 9999)", "23502"),
    ] {
        for in_transaction in [false, true] {
            if in_transaction {
                run(&session, "BEGIN").await;
            }
            let error = refused(&session, sql).await;
            assert_eq!(error.sqlstate(), sqlstate, "{sql}: {error}");
            if in_transaction {
                run(&session, "ROLLBACK").await;
            }
            assert_folder_is_exact(&folder, &lake, &format!("{sql}, in a transaction: {in_transaction}")).await;
        }
    }
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, (0..10_000).map(|k| (k, k)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_table_that_was_not_created_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let lake = Lake::open(folder.path()).unwrap();
    let session = session_of(&lake, 4).await;
    run(&session, "CREATE TABLE s AS SELECT value AS k FROM generate_series(0, 9999)").await;
    let before = files_below(folder.path());
    let error = refused(&session, "CREATE TABLE t AS SELECT k, 1 / (9999 - k) AS v FROM s").await;
    assert_eq!(error.sqlstate(), "22012", "{error}");
    assert_eq!(files_below(folder.path()), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_tables_created_at_once_one_stays() {
    let folder = TempDir::new().unwrap();
    let mut creators = Vec::new();
    for number in 0..8 {
        // Lakes of their own, as in processes of their own.
        let session = session_of(&Lake::open(folder.path()).unwrap(), 1).await;
        let create = format!("CREATE TABLE t AS SELECT value AS k, CAST({number} AS BIGINT) AS v FROM generate_series(0, 99)");
        creators.push(tokio::spawn(async move { session.execute(&create).await.map(|_| number) }));
    }
    let mut created = Vec::new();
    for creator in creators {
        match creator.await.unwrap() {
            Ok(number) => created.push(number),
            Err(error) => assert_eq!(error.sqlstate(), "42P07", "{error}"),
        }
    }
    let [number] = created[..] else { panic!("{created:?}") };
    let lake = Lake::open(folder.path()).unwrap();
    let session = session_of(&lake, 1).await;
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, (0..100).map(|k| (k, number)).collect::<Vec<_>>());
    let log = lake.table("t").await.unwrap();
    let (named, stored) = (named_objects(&log).await, stored_objects(log.store()).await);
    assert_eq!(named, stored);
    let tables: Vec<_> = files_below(folder.path()).into_iter().filter(|name| name.starts_with("tables/")).collect();
    assert_eq!(tables.len(), stored.len(), "{tables:?}");
}

#[tokio::test]
async fn only_statements_that_change_rows_can_be_staged() {
    let (_folder, lake, session) = lake(1).await;
    let before = lake.table("t").await.unwrap().newest_number().await.unwrap();
    for sql in [
        "ALTER TABLE t ADD COLUMN w BIGINT",
        "CREATE TABLE u (k BIGINT)",
        "DROP TABLE t",
        "SELECT k FROM t",
        "BEGIN",
        "DESCRIBE HISTORY t",
        "EXPLAIN DELETE FROM t",
        "COPY t TO '/nonexistent/amend.csv'",
    ] {
        let Err(error) = session.stage(sql).await else { panic!("{sql} was staged") };
        assert_eq!(error.sqlstate(), "42601", "{sql}: {error}");
        assert_eq!(lake.table_names().await.unwrap(), ["t".into()], "{sql}");
        assert_eq!(lake.table("t").await.unwrap().newest_number().await.unwrap(), before, "{sql}");
        assert!(!session.in_transaction(), "{sql}");
    }
}
