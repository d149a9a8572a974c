//! Clones: tables that read the files of another where they are, and go their own way from there.

use crate::support::{change, problems, refused, rows, run, session_of};
use amend::{ErrorKind, Lake, Session};
use std::path::Path;
use tempfile::TempDir;

/// A table with everything that a file or a fragment can have, at version 7; and another of files of others.
async fn lake(folder: &Path) -> (Lake, Session) {
    let lake = Lake::open(folder.join("lake")).unwrap();
    let session = session_of(&lake, 2).await;
    for sql in [
        "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT, s STRUCT<x BIGINT, y TEXT>)",
        "INSERT INTO t SELECT value AS k, value AS v, named_struct('x', value, 'y', 'why') FROM generate_series(1, 30000)",
        "DELETE FROM t WHERE k * 7919 % 3 = 1",
        "SET amend.update_form = 'columns'",
        "UPDATE t SET v = -v",
        "SET amend.update_form = 'rows'",
        "ALTER TABLE t RENAME COLUMN v TO w",
        "ALTER TABLE t SET TBLPROPERTIES ('owner' = 'me')",
        "UPDATE t SET w = 0 WHERE k < 10",
    ] {
        run(&session, sql).await;
    }
    (lake, session)
}

const ALL: &str = "count(*), sum(k) + sum(w) + sum(s['x'])";

#[tokio::test]
async fn a_clone_goes_its_own_way() {
    let folder = TempDir::new().unwrap();
    let (lake, session) = lake(folder.path()).await;
    let all = async |table: &str| rows(&session, &format!("SELECT {ALL} FROM {table}")).await;
    let newest = all("t").await;
    assert_eq!(change(&session, "CREATE TABLE c CLONE t").await.count() as i64, newest[0].0);
    assert_eq!(all("c").await, newest);
    assert_eq!(rows(&session, "SELECT k, w FROM c WHERE k < 13").await, rows(&session, "SELECT k, w FROM t WHERE k < 13").await);
    run(&session, "CREATE TABLE old SHALLOW CLONE t VERSION AS OF 3").await;
    let old = rows(&session, "SELECT count(*), sum(k) + sum(v) FROM t VERSION AS OF 3").await;
    assert_eq!(rows(&session, "SELECT count(*), sum(k) + sum(v) FROM old").await, old);
    assert_eq!(rows(&session, "SELECT count(*), 0 FROM table_properties('c') WHERE name = 'owner'").await, [(1, 0)]);
    // Neither sees what is done to the other.
    run(&session, "UPDATE c SET w = 1 WHERE k BETWEEN 100 AND 200").await;
    run(&session, "DELETE FROM c WHERE k > 20000").await;
    assert_eq!(all("t").await, newest);
    run(&session, "UPDATE t SET w = 5").await;
    run(&session, "INSERT INTO t VALUES (50000, 1, NULL)").await;
    let cloned = all("c").await;
    run(&session, "OPTIMIZE t FULL").await;
    assert_eq!(all("c").await, cloned);
    // A clone of the clone, another process, and a look at all of it.
    run(&session, "CREATE TABLE IF NOT EXISTS d CLONE \"c@v1\"").await;
    run(&session, "CREATE TABLE IF NOT EXISTS d CLONE t").await;
    assert_eq!(all("d").await, newest);
    let other = session_of(&Lake::open(folder.path().join("lake")).unwrap(), 1).await;
    assert_eq!(rows(&other, &format!("SELECT {ALL} FROM c")).await, cloned);
    for table in ["t", "c", "d", "old"] {
        assert_eq!(problems(&other, &format!("VERIFY TABLE {table} ALL VERSIONS")).await, [], "{table}");
    }
    assert_eq!(rows(&other, "SELECT count(*), 0 FROM table_changes('c', 1, 1)").await[0].0, newest[0].0);
    // What the clone rewrites is its own.
    run(&session, "OPTIMIZE c FULL").await;
    assert_eq!(all("c").await, cloned);
    let elsewhere = "SELECT count(*), count(*) FILTER (WHERE path NOT LIKE 'data/%') FROM table_files('c')";
    assert_eq!(rows(&session, elsewhere).await[0].1, 0);
    // A vacuum of the clone leaves the files of the others alone.
    run(&session, "SET amend.allow_short_retention = true").await;
    run(&session, "VACUUM c RETAIN 0 HOURS").await;
    assert_eq!(all("d").await, newest);
    assert_eq!(problems(&session, "VERIFY TABLE t ALL VERSIONS").await, []);
    drop(lake);
}

#[tokio::test]
async fn a_vacuum_of_the_source_takes_the_clone_its_files_and_the_error_says_which() {
    let folder = TempDir::new().unwrap();
    let (_lake, session) = lake(folder.path()).await;
    run(&session, "CREATE TABLE c CLONE t").await;
    run(&session, "OPTIMIZE t FULL").await;
    run(&session, "SET amend.allow_short_retention = true").await;
    run(&session, "VACUUM t RETAIN 0 HOURS").await;
    let error = refused(&session, "SELECT sum(w) FROM c").await;
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Data, "XX001"), "{error}");
    let text = error.to_string();
    assert!(text.contains("tables/t-") && text.contains("/data/") && text.contains("'c'"), "{text}");
    let found = problems(&session, "VERIFY c").await;
    assert!(!found.is_empty() && found.iter().all(|(object, _)| object.contains("tables/t-") && object.ends_with(".parquet")), "{found:?}");
}

#[tokio::test]
async fn what_cannot_be_cloned_is_refused() {
    let folder = TempDir::new().unwrap();
    let (_lake, session) = lake(folder.path()).await;
    for (sql, sqlstate) in [
        ("CREATE TABLE t CLONE t", "42P07"),
        ("CREATE TABLE c CLONE nothing", "42P01"),
        ("CREATE TABLE c CLONE t VERSION AS OF 99", "22023"),
        ("CREATE TABLE c CLONE", "42601"),
        ("CREATE TABLE c CLONE t WHERE true", "42601"),
    ] {
        assert_eq!(refused(&session, sql).await.sqlstate(), sqlstate, "{sql}");
    }
    let memory = session_of(&Lake::memory(), 1).await;
    run(&memory, "CREATE TABLE t (k BIGINT)").await;
    let error = refused(&memory, "CREATE TABLE c CLONE t").await;
    assert_eq!(error.sqlstate(), "0A000", "{error}");
    run(&session, "CREATE TABLE parts AS SELECT value AS k, {'a': value, 'b': value} AS s FROM generate_series(1, 20000)").await;
    run(&session, "ALTER TABLE parts DROP COLUMN s.a").await;
    let error = refused(&session, "CREATE TABLE c CLONE parts").await;
    assert_eq!(error.sqlstate(), "0A000", "{error}");
    assert!(error.to_string().contains("OPTIMIZE parts FULL"), "{error}");
    run(&session, "OPTIMIZE parts FULL").await;
    run(&session, "CREATE TABLE c CLONE parts").await;
    assert_eq!(rows(&session, "SELECT count(*), sum(s['b']) FROM c").await, [(20_000, 200_010_000)]);
    run(&session, "BEGIN").await;
    assert_eq!(refused(&session, "CREATE TABLE c CLONE t").await.sqlstate(), "0A000");
}

#[tokio::test]
async fn a_clone_has_the_constraints_and_defaults_of_its_source() {
    let folder = TempDir::new().unwrap();
    let session = session_of(&Lake::open(folder.path().join("lake")).unwrap(), 1).await;
    // Ids with a gap: the clone's fields have others.
    run(&session, "CREATE TABLE t (gone INT, k BIGINT PRIMARY KEY, v BIGINT DEFAULT 7, CHECK (v < k AND '\"#2\"' <> 'x'))").await;
    run(&session, "ALTER TABLE t DROP COLUMN gone").await;
    run(&session, "INSERT INTO t VALUES (10, 1)").await;
    run(&session, "CREATE TABLE c CLONE t").await;
    run(&session, "INSERT INTO c (k) VALUES (20)").await;
    assert_eq!(rows(&session, "SELECT k, v FROM c").await, [(10, 1), (20, 7)]);
    assert_eq!(refused(&session, "INSERT INTO c VALUES (20, 2)").await.sqlstate(), "23505");
    assert_eq!(refused(&session, "INSERT INTO c VALUES (5, 6)").await.sqlstate(), "23514");
    assert_eq!(problems(&session, "VERIFY c").await, []);
}

#[tokio::test]
async fn a_clone_is_clustered_as_its_source() {
    let folder = TempDir::new().unwrap();
    let session = session_of(&Lake::open(folder.path().join("lake")).unwrap(), 1).await;
    run(&session, "CREATE TABLE t (gone INT, k BIGINT, v BIGINT) CLUSTER BY (v, k)").await;
    run(&session, "ALTER TABLE t DROP COLUMN gone").await;
    run(&session, "INSERT INTO t VALUES (1, 3), (2, 1), (3, 2), (4, 1)").await;
    run(&session, "CREATE TABLE c CLONE t").await;
    run(&session, "OPTIMIZE c FULL").await;
    assert_eq!(rows(&session, "SELECT CAST(row_number() OVER () AS BIGINT) AS place, k FROM c").await, [(1, 2), (2, 4), (3, 3), (4, 1)]);
}

#[tokio::test]
async fn a_clone_has_columns_of_every_kind() {
    let folder = TempDir::new().unwrap();
    let lake = Lake::open(folder.path().join("lake")).unwrap();
    let session = session_of(&lake, 2).await;
    for sql in [
        "CREATE TABLE t (k BIGINT, gone INT, w VARCHAR, g BIGINT GENERATED ALWAYS AS (k * 2) STORED, s STRUCT<x BIGINT>)",
        "INSERT INTO t (k, w, s) SELECT value, '' || value, named_struct('x', value) FROM generate_series(1, 3)",
        "ALTER TABLE t DROP COLUMN gone",
        "ALTER TABLE t ALTER COLUMN w TYPE BIGINT, ADD COLUMN d BIGINT DEFAULT 7",
        "ALTER TABLE t ADD COLUMN s.y BIGINT, RENAME COLUMN s.x TO z",
        "COMMENT ON COLUMN t.d IS 'seven'",
        "ALTER TABLE t ADD COLUMN e INT",
        "BEGIN",
        "COMMENT ON COLUMN t.e IS 'soon gone'",
    ] {
        run(&session, sql).await;
    }
    run(&session_of(&lake, 1).await, "ALTER TABLE t DROP COLUMN e").await;
    for sql in ["COMMIT", "CREATE TABLE c CLONE t", "INSERT INTO c (k, w) VALUES (10, 10)"] {
        run(&session, sql).await;
    }
    assert_eq!(rows(&session, "SELECT sum(k + w), sum(g + d) FROM c").await, [(32, 60)]);
    assert_eq!(rows(&session, "SELECT sum(s['z']), count(s['y']) FROM c").await, [(6, 0)]);
    assert_eq!(rows(&session, "SELECT count(*), 1 FROM table_columns('c') WHERE name = 'd' AND comment = 'seven'").await, [(1, 1)]);
    assert_eq!(rows(&session, "SELECT count(*), 1 FROM table_columns('c') WHERE name = 'g' AND generated = 'k * 2'").await, [(1, 1)]);
    assert_eq!(refused(&session, "INSERT INTO c (k, g) VALUES (1, 1)").await.sqlstate(), "428C9");
    assert_eq!(problems(&session, "VERIFY TABLE c ALL VERSIONS").await, []);
}
