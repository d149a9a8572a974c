//! Every statement's translation into actions makes the version that the statement means: the version that it made is held
//! against a plain description of its effect on the one before (`model`), fragment by fragment, with files, deleted rows,
//! columns, properties and counters. The actions in the history make the same version again, and its rows are read.

mod model;

use crate::support::{Row, rows, run, session_of, stored_objects};
use amend::manifest::apply::apply;
use amend::manifest::log::VersionLog;
use amend::{Lake, Session};
use model::Table;
use std::sync::Arc;

const LONG: &str = "Leaf(Int64)";
const TEXT: &str = "Leaf(Utf8View)";

/// A table on its way from version to version.
struct Script {
    session: Session,
    log: Arc<VersionLog>,
    /// Its versions so far, as descriptions.
    versions: Vec<Table>,
}

impl Script {
    /// A table of two numbers and two more columns: `t (k, v, s (a, b), name)`, with the fields 1 to 6.
    async fn new() -> Script {
        let lake = Lake::memory();
        // Writers that run side by side would each make a fragment.
        let session = session_of(&lake, 1).await;
        run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT, s STRUCT<a BIGINT, b VARCHAR>, name VARCHAR)").await;
        let log = lake.table("t").await.unwrap();
        let mut script = Script { session, log, versions: vec![Table::before_the_first()] };
        let describe = |table: &mut Table, _: &[Table]| {
            table.add_column("k", LONG, false, None);
            table.add_column("v", LONG, true, None);
            let s = table.add_column("s", "Struct", true, None);
            table.add_column("a", LONG, true, Some(s));
            table.add_column("b", TEXT, true, Some(s));
            table.add_column("name", TEXT, true, None);
        };
        script.check("CREATE TABLE", describe, "SELECT k, v FROM t", &[]).await;
        script
    }

    /// Two fragments of four and two rows, of which the second of the first is deleted.
    async fn with_rows() -> Script {
        let mut script = Script::new().await;
        let values = "(1, 10, {a: 1, b: 'x'}, 'one'), (2, 20, NULL, 'two'), (3, 30, NULL, NULL), (4, 40, NULL, 'four')";
        let all = [(1, 10), (2, 20), (3, 30), (4, 40)];
        script.step(&format!("INSERT INTO t VALUES {values}"), "INSERT", |table, _| table.insert(4), "SELECT k, v FROM t", &all).await;
        let all = [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50), (6, 60)];
        let more = "INSERT INTO t (v, k) SELECT value * 10, value FROM generate_series(5, 6)";
        script.step(more, "INSERT", |table, _| table.insert(2), "SELECT k, v FROM t", &all).await;
        let rest = [(1, 10), (3, 30), (4, 40), (5, 50), (6, 60)];
        script.step("DELETE FROM t WHERE k = 2", "DELETE", |table, _| table.delete(0, &[1]), "SELECT k, v FROM t", &rest).await;
        script
    }

    /// Runs a statement, and holds the version that it made against `describe`, which changes the version before; it is also
    /// given all versions so far, the first being number 1.
    async fn step(&mut self, sql: &str, operation: &str, describe: impl FnOnce(&mut Table, &[Table]), query: &str, expected: &[Row]) {
        self.say(sql).await;
        self.check(operation, describe, query, expected).await;
    }

    async fn say(&self, sql: &str) {
        run(&self.session, sql).await;
    }

    async fn check(&mut self, operation: &str, describe: impl FnOnce(&mut Table, &[Table]), query: &str, expected: &[Row]) {
        let number = self.versions.len() as u64;
        let version = self.log.newest().await.unwrap();
        assert_eq!(version.snapshot.version, number, "the statement makes one version");
        let [committed] = version.transactions.as_slice() else { panic!("one transaction") };
        let operations: Vec<&str> = committed.transaction.steps.iter().map(|step| step.operation.as_str()).collect();
        assert_eq!(operations.join(", "), operation);

        // The files that older versions name were there before.
        let mut known = std::collections::BTreeSet::new();
        for older in 1..number {
            let older = self.log.read(older).await.unwrap();
            known.extend(older.snapshot.fragments.iter().unwrap().flat_map(|fragment| &fragment.files).map(|file| file.path.clone()));
        }
        let found = Table::of(&self.log, &version.snapshot, &known).await;
        let before = self.versions.last().unwrap();
        let mut described = Table { version: number, ..before.clone() };
        describe(&mut described, self.versions.get(1..).unwrap());
        assert_eq!(found, described, "{}", committed.transaction.describe());

        // What the history says makes the same version of the one before.
        if number > 1 {
            let before = self.log.read(number - 1).await.unwrap();
            let (again, minted) = apply(&before.snapshot, &committed.transaction, number).unwrap();
            assert_eq!((&again, &minted), (&version.snapshot, &committed.minted));
        }
        assert_eq!(rows(&self.session, query).await, expected, "{}", committed.transaction.describe());
        let stored = stored_objects(self.log.store()).await;
        let named = version.snapshot.fragments.iter().unwrap().flat_map(|fragment| &fragment.files);
        assert!(named.filter(|file| file.is_object_of_table()).all(|file| stored.contains(&file.path)));

        // From now on its files are known by their names.
        known.extend(version.snapshot.fragments.iter().unwrap().flat_map(|fragment| &fragment.files).map(|file| file.path.clone()));
        self.versions.push(Table::of(&self.log, &version.snapshot, &known).await);
    }
}

const ALL: &str = "SELECT k, v FROM t";

#[tokio::test]
async fn update_and_delete() {
    let mut script = Script::with_rows().await;
    let update = |table: &mut Table, _: &[Table]| {
        table.delete(0, &[0]);
        table.delete(1, &[1]);
        table.insert(2);
    };
    let rows = [(1, 11), (3, 30), (4, 40), (5, 50), (6, 61)];
    script.step("UPDATE t SET v = v + 1 WHERE k IN (1, 6)", "UPDATE", update, ALL, &rows).await;
    let rows = [(3, 30), (4, 40), (5, 50)];
    let delete = |table: &mut Table, _: &[Table]| table.delete(2, &[0, 1]);
    script.step("DELETE FROM t WHERE v % 10 = 1", "DELETE", delete, ALL, &rows).await;
    assert!(!script.versions.last().unwrap().fragments.contains_key(&2), "a fragment without rows goes");
}

#[tokio::test]
async fn update_in_column_form() {
    let mut script = Script::with_rows().await;
    script.say("SET amend.update_form = 'columns'").await;
    let update = |table: &mut Table, _: &[Table]| table.update_column(0, "v");
    let rows = [(1, 11), (3, 30), (4, 40), (5, 50), (6, 60)];
    script.step("UPDATE t SET v = v + 1 WHERE k = 1", "UPDATE", update, ALL, &rows).await;
    let update = |table: &mut Table, _: &[Table]| {
        table.update_column(0, "v");
        table.update_column(1, "v");
    };
    let rows = [(1, -11), (3, -30), (4, -40), (5, -50), (6, -60)];
    script.step("UPDATE t SET v = -v", "UPDATE", update, ALL, &rows).await;
    script.step("DELETE FROM t WHERE v = -60", "DELETE", |table, _| table.delete(1, &[1]), ALL, &rows[..4]).await;
    script.step("OPTIMIZE t ORDER BY (k DESC)", "OPTIMIZE", |table, _| table.rewrite(&[0, 1]), ALL, &rows[..4]).await;
}

#[tokio::test]
async fn merge() {
    let mut script = Script::with_rows().await;
    let merge = "MERGE INTO t USING (VALUES (1, 100), (5, 500), (7, 700)) AS s (k, v) ON t.k = s.k \
                 WHEN MATCHED AND s.k = 5 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)";
    let describe = |table: &mut Table, _: &[Table]| {
        table.delete(0, &[0]);
        table.delete(1, &[0]);
        table.insert(2);
    };
    script.step(merge, "MERGE", describe, ALL, &[(1, 100), (3, 30), (4, 40), (6, 60), (7, 700)]).await;
}

#[tokio::test]
async fn truncate_and_insert_overwrite() {
    let mut script = Script::with_rows().await;
    let overwrite = |table: &mut Table, _: &[Table]| {
        table.delete(0, &[0, 2, 3]);
        table.delete(1, &[0, 1]);
        table.insert(5);
    };
    let rows = [(1, 11), (3, 31), (4, 41), (5, 51), (6, 61)];
    script.step("INSERT OVERWRITE t SELECT k, v + 1, s, name FROM t", "INSERT OVERWRITE", overwrite, ALL, &rows).await;
    let replace = |table: &mut Table, _: &[Table]| {
        table.delete(2, &[3, 4]);
        table.insert(1);
    };
    let statement = "INSERT INTO t (k, v) REPLACE WHERE k >= 5 SELECT 9, 90";
    script.step(statement, "REPLACE WHERE", replace, ALL, &[(1, 11), (3, 31), (4, 41), (9, 90)]).await;
    script.step("TRUNCATE TABLE t", "TRUNCATE", |table, _| table.fragments.clear(), ALL, &[]).await;
    script
        .step("INSERT OVERWRITE t (k) VALUES (1)", "INSERT OVERWRITE", |table, _| table.insert(1), "SELECT k, k AS v FROM t", &[(1, 1)])
        .await;
}

#[tokio::test]
async fn optimize() {
    let mut script = Script::with_rows().await;
    let rows = [(1, 10), (3, 30), (4, 40), (5, 50), (6, 60)];
    script.step("OPTIMIZE t", "OPTIMIZE", |table, _| table.rewrite(&[0, 1]), ALL, &rows).await;
    script.step("OPTIMIZE t FULL", "OPTIMIZE", |table, _| table.rewrite(&[2]), ALL, &rows).await;
}

#[tokio::test]
async fn columns_and_properties() {
    let mut script = Script::with_rows().await;
    let rows = [(1, 10), (3, 30), (4, 40), (5, 50), (6, 60)];
    let add = |table: &mut Table, _: &[Table]| {
        let place = table.add_column("place", "Struct", true, None);
        table.add_column("lat", "Leaf(Float64)", true, Some(place));
    };
    script.step("ALTER TABLE t ADD COLUMN place STRUCT<lat DOUBLE>", "ALTER TABLE", add, ALL, &rows).await;
    script.step("ALTER TABLE t DROP COLUMN s", "ALTER TABLE", |table, _| table.drop_column("s"), ALL, &rows).await;
    let rename = |table: &mut Table, _: &[Table]| table.column("v").name = "w".into();
    script.step("ALTER TABLE t RENAME COLUMN v TO w", "ALTER TABLE", rename, "SELECT k, w FROM t", &rows).await;
    let nullable = |table: &mut Table, _: &[Table]| table.column("k").nullable = true;
    script.step("ALTER TABLE t ALTER COLUMN k DROP NOT NULL", "ALTER TABLE", nullable, "SELECT k, w FROM t", &rows).await;
    let set = |table: &mut Table, _: &[Table]| table.properties.extend([("a".into(), "1".into()), ("b".into(), "x".into())]);
    script.step("ALTER TABLE t SET TBLPROPERTIES ('a' = 1, 'b' = 'x')", "ALTER TABLE", set, "SELECT k, w FROM t", &rows).await;
    let unset = |table: &mut Table, _: &[Table]| drop(table.properties.remove("a"));
    script.step("ALTER TABLE t UNSET TBLPROPERTIES ('a')", "ALTER TABLE", unset, "SELECT k, w FROM t", &rows).await;
    let required = |table: &mut Table, _: &[Table]| table.column("w").nullable = false;
    script.step("ALTER TABLE t ALTER COLUMN w SET NOT NULL", "ALTER TABLE", required, "SELECT k, w FROM t", &rows).await;
    let add = |table: &mut Table, _: &[Table]| _ = table.add_column("n", "Leaf(Int32)", true, None);
    script.step("ALTER TABLE t ADD COLUMN n INT", "ALTER TABLE", add, "SELECT k, w FROM t", &rows).await;
    let wider = |table: &mut Table, _: &[Table]| table.column("n").data_type = LONG.into();
    script.step("ALTER TABLE t ALTER COLUMN n TYPE BIGINT", "ALTER TABLE", wider, "SELECT k, w FROM t", &rows).await;
    // New rows have the columns of today.
    let rows = [(1, 10), (3, 30), (4, 40), (5, 50), (6, 60), (7, 70)];
    script.step("INSERT INTO t (k, w) VALUES (7, 70)", "INSERT", |table, _| table.insert(1), "SELECT k, w FROM t", &rows).await;
}

#[tokio::test]
async fn create_or_replace() {
    let mut script = Script::with_rows().await;
    let properties = |table: &mut Table, _: &[Table]| drop(table.properties.insert("a".into(), "1".into()));
    let rows = [(1, 10), (3, 30), (4, 40), (5, 50), (6, 60)];
    script.step("ALTER TABLE t SET TBLPROPERTIES ('a' = 1)", "ALTER TABLE", properties, ALL, &rows).await;
    let replaced = |table: &mut Table, _: &[Table]| {
        table.columns.clear();
        table.fragments.clear();
        table.properties.clear();
        table.add_column("v", LONG, true, None);
        table.add_column("k", LONG, true, None);
        table.insert(2);
    };
    let statement = "CREATE OR REPLACE TABLE t AS SELECT k AS v, v AS k FROM t WHERE k > 4";
    script.step(statement, "CREATE OR REPLACE TABLE AS", replaced, "SELECT v, k FROM t", &[(5, 50), (6, 60)]).await;
    let emptied = |table: &mut Table, _: &[Table]| {
        table.columns.clear();
        table.fragments.clear();
        table.add_column("k", LONG, false, None);
        table.add_column("v", TEXT, true, None);
    };
    let statement = "CREATE OR REPLACE TABLE t (k BIGINT NOT NULL, v VARCHAR)";
    script.step(statement, "CREATE OR REPLACE TABLE", emptied, "SELECT k, k + 0 AS v FROM t", &[]).await;
    // The old columns come back under their ids, the ids of the others are not given out again.
    script.step("RESTORE TABLE t TO VERSION AS OF 4", "RESTORE", |table, old| table.restore(&old[3]), ALL, &rows).await;
    assert_eq!(script.versions.last().unwrap().next_field, 11);
}

#[tokio::test]
async fn restore() {
    let mut script = Script::with_rows().await;
    let rows = [(1, 10), (3, 30), (4, 40), (5, 50), (6, 60)];
    script
        .step("ALTER TABLE t ADD COLUMN x BIGINT", "ALTER TABLE", |table, _| _ = table.add_column("x", LONG, true, None), ALL, &rows)
        .await;
    let update = |table: &mut Table, _: &[Table]| {
        table.delete(1, &[0]);
        table.insert(1);
    };
    script.step("UPDATE t SET x = 5 WHERE k = 5", "UPDATE", update, ALL, &rows).await;
    script
        .step(
            "ALTER TABLE t DROP COLUMN v",
            "ALTER TABLE",
            |table, _| table.drop_column("v"),
            "SELECT k, x FROM t WHERE x IS NOT NULL",
            &[(5, 5)],
        )
        .await;
    let settings = |table: &mut Table, _: &[Table]| drop(table.properties.insert("a".into(), "1".into()));
    script.step("ALTER TABLE t SET TBLPROPERTIES ('a' = 1)", "ALTER TABLE", settings, "SELECT k, x FROM t WHERE x = 5", &[(5, 5)]).await;
    let left = [(1, 10), (2, 20), (3, 30), (4, 40)];
    script.step("RESTORE TABLE t TO VERSION AS OF 2", "RESTORE", |table, old| table.restore(&old[1]), ALL, &left).await;
    script.step("RESTORE TABLE t TO VERSION AS OF 6", "RESTORE", |table, old| table.restore(&old[5]), ALL, &rows).await;
    // Files of which nobody reads one column.
    let query = "SELECT k, x FROM t WHERE x IS NOT NULL";
    script.step("RESTORE TABLE t TO VERSION AS OF 8", "RESTORE", |table, old| table.restore(&old[7]), query, &[(5, 5)]).await;
    script.step("RESTORE TABLE t TO VERSION AS OF 1", "RESTORE", |table, old| table.restore(&old[0]), ALL, &[]).await;
    assert_eq!(script.versions.last().unwrap().live(), 0);
}

#[tokio::test]
async fn a_transaction_of_several_statements() {
    let mut script = Script::with_rows().await;
    for sql in ["BEGIN", "DELETE FROM t WHERE k = 1", "INSERT INTO t (k, v) VALUES (7, 70)", "ALTER TABLE t ADD COLUMN x BIGINT", "COMMIT"]
    {
        script.say(sql).await;
    }
    let describe = |table: &mut Table, _: &[Table]| {
        table.delete(0, &[0]);
        table.insert(1);
        table.add_column("x", LONG, true, None);
    };
    script.check("DELETE, INSERT, ALTER TABLE", describe, ALL, &[(3, 30), (4, 40), (5, 50), (6, 60), (7, 70)]).await;
    for sql in
        ["BEGIN", "INSERT INTO t (k, v) VALUES (8, 80)", "RESTORE TABLE t TO VERSION AS OF 4", "UPDATE t SET v = 0 WHERE k = 6", "COMMIT"]
    {
        script.say(sql).await;
    }
    let describe = |table: &mut Table, old: &[Table]| {
        // The fragment of the row that came and went has no id.
        table.restore(&old[3]);
        let restored = table.next_fragment - 1;
        table.delete(restored, &[1]);
        table.insert(1);
    };
    script.check("INSERT, RESTORE, UPDATE", describe, ALL, &[(1, 10), (3, 30), (4, 40), (5, 50), (6, 0)]).await;
}

// Adopting files in place: a statement that does has its description here, `File::known` being the file that it names.
