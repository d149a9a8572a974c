//! Files of others in a table: they are never changed, whatever becomes of the statements that name them, and what others do to
//! them is noticed.

use crate::support::{assert_nothing_left_behind, change, files_below, refused, rows, run, session_of};
use amend::{Error, ErrorKind, Lake};
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use datafusion::parquet::file::properties::WriterProperties;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// Writes a file of two columns as another program would. The columns may carry ids; the Arrow schema may be left out.
fn write(path: &Path, names: [&str; 2], ids: Option<[i32; 2]>, arrow_schema: bool, values: &[(i64, i64)]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let field = |at: usize| {
        let id = ids.map(|ids| (PARQUET_FIELD_ID_META_KEY.to_owned(), ids[at].to_string()));
        Field::new(names[at], DataType::Int64, false).with_metadata(id.into_iter().collect())
    };
    let schema = Arc::new(Schema::new(vec![field(0), field(1)]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(values.iter().map(|row| row.0).collect::<Int64Array>()),
        Arc::new(values.iter().map(|row| row.1).collect::<Int64Array>()),
    ];
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2));
    let options = datafusion::parquet::arrow::arrow_writer::ArrowWriterOptions::new()
        .with_properties(properties.build())
        .with_skip_arrow_metadata(!arrow_schema);
    let mut writer = ArrowWriter::try_new_with_options(std::fs::File::create(path).unwrap(), Arc::clone(&schema), options).unwrap();
    writer.write(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
    writer.close().unwrap();
}

/// The bytes of every file in a folder.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    files_below(folder).into_iter().map(|name| (name.clone(), std::fs::read(folder.join(name)).unwrap())).collect()
}

/// A lake, and two files of others: keys 1 to 3 and 4 to 5.
fn place() -> (TempDir, Lake, String) {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("in/1.parquet"), ["k", "v"], None, true, &[(1, 10), (2, 20), (3, 30)]);
    write(&folder.path().join("in/2.parquet"), ["k", "v"], Some([2, 1]), false, &[(4, 40), (5, 50)]);
    let lake = Lake::open(folder.path().join("lake")).unwrap();
    let pattern = folder.path().join("in/*.parquet").to_str().unwrap().to_owned();
    (folder, lake, pattern)
}

/// What a RESTORE to an old version names of others' files.
#[tokio::test]
async fn a_version_with_files_of_others_is_restored_while_they_are_what_they_were() {
    let (folder, lake, pattern) = place();
    let session = session_of(&lake, 2).await;
    run(&session, &format!("CREATE TABLE t FROM '{pattern}'")).await;
    change(&session, "DELETE FROM t WHERE k IN (1, 5)").await;
    change(&session, "OPTIMIZE t FULL").await;
    change(&session, "RESTORE TABLE t TO VERSION AS OF 2").await;
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, ALL[1..4]);
    change(&session, "RESTORE TABLE t TO VERSION AS OF 1").await;
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, ALL);
    change(&session, "TRUNCATE TABLE t").await;
    let second = folder.path().join("in/2.parquet");
    let bytes = std::fs::read(&second).unwrap();
    for broken in [None, Some(&bytes[..bytes.len() - 1])] {
        std::fs::remove_file(&second).unwrap();
        broken.into_iter().for_each(|bytes| std::fs::write(&second, bytes).unwrap());
        let error = refused(&session, "RESTORE TABLE t TO VERSION AS OF 1").await;
        assert_eq!(error.kind(), ErrorKind::Data, "{error}");
        assert!(error.to_string().contains("in/2.parquet"), "{error}");
        std::fs::write(&second, &bytes).unwrap();
    }
    change(&session, "RESTORE TABLE t TO VERSION AS OF 1").await;
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, ALL);
}

const ALL: [(i64, i64); 5] = [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)];

#[tokio::test]
async fn files_stay_as_they_are_whatever_happens() {
    let (folder, lake, pattern) = place();
    let before = contents(&folder.path().join("in"));
    let (a, b) = (session_of(&lake, 2).await, session_of(&lake, 2).await);
    run(&a, &format!("CREATE TABLE t FROM '{pattern}'")).await;
    assert_eq!(rows(&a, "SELECT k, v FROM t").await, ALL);
    change(&a, "UPDATE t SET v = v + 1 WHERE k IN (2, 4)").await;
    change(&a, "DELETE FROM t WHERE k = 1").await;
    change(&b, "OPTIMIZE t FULL").await;
    assert_eq!(rows(&b, "SELECT k, v FROM t").await, [(2, 21), (3, 30), (4, 41), (5, 50)]);
    assert_eq!(rows(&b, "SELECT k, v FROM t VERSION AS OF 1").await, ALL);

    // A transaction that is rolled back, one that fails, one that loses, a statement that is refused.
    run(&a, "CREATE TABLE u (k BIGINT, v BIGINT)").await;
    run(&a, "BEGIN").await;
    assert_eq!(change(&a, &format!("ALTER TABLE u ADD FILES '{pattern}'")).await.counts.inserted, 5);
    assert_eq!(rows(&a, "SELECT k, v FROM u").await, ALL);
    run(&a, "ROLLBACK").await;
    run(&a, "BEGIN").await;
    change(&a, &format!("ALTER TABLE u ADD FILES '{pattern}'")).await;
    refused(&a, "SELECT nothing FROM u").await;
    refused(&a, "COMMIT").await;
    run(&a, "BEGIN").await;
    change(&a, &format!("ALTER TABLE u ADD FILES '{pattern}'")).await;
    run(&b, "ALTER TABLE u DROP COLUMN v").await;
    assert_eq!(refused(&a, "COMMIT").await.kind(), ErrorKind::Conflict);
    assert!(refused(&a, &format!("ALTER TABLE u ADD FILES '{pattern}'")).await.to_string().contains("column 'v' is none of the table's"));
    run(&a, "DROP TABLE t").await;
    assert_eq!(contents(&folder.path().join("in")), before);
}

#[tokio::test]
async fn a_file_is_adopted_once_however_it_is_found() {
    let (folder, lake, _) = place();
    let (a, b) = (session_of(&lake, 1).await, session_of(&lake, 1).await);
    run(&a, "CREATE TABLE t (k BIGINT, v BIGINT)").await;
    let one = folder.path().join("in/1.parquet");
    let add = format!("ALTER TABLE t ADD FILES '{}'", one.display());
    // Two transactions at once: first while neither knows a base, then with one.
    for (file, kept) in [("1", 3), ("2", 5)] {
        let add = add.replace("1.parquet", &format!("{file}.parquet"));
        run(&a, "BEGIN").await;
        run(&b, "BEGIN").await;
        change(&a, &add).await;
        change(&b, &add).await;
        run(&a, "COMMIT").await;
        assert_eq!(refused(&b, "COMMIT").await.sqlstate(), "40001");
        assert_eq!(rows(&a, "SELECT count(*), 0 FROM t").await, [(kept, 0)]);
    }
    std::os::unix::fs::symlink(folder.path().join("in"), folder.path().join("other")).unwrap();
    for path in ["in/1.parquet", "in/../in/1.parquet", "other/1.parquet", "other"] {
        let add = format!("ALTER TABLE t ADD FILES '{}'", folder.path().join(path).display());
        let error = refused(&a, &add).await;
        assert!(error.to_string().contains("is part of table 't' already"), "{path}: {error}");
    }
    assert_eq!(rows(&a, "SELECT k, v FROM t").await, ALL);
}

#[tokio::test]
async fn what_others_do_to_a_file_is_noticed() {
    let (folder, lake, pattern) = place();
    let session = session_of(&lake, 1).await;
    run(&session, &format!("CREATE TABLE t FROM '{pattern}'")).await;
    let path = folder.path().join("in/1.parquet").canonicalize().unwrap();
    let whole = std::fs::read(&path).unwrap();
    let assert_noticed = async |needle: &str| {
        for sql in ["SELECT k, v FROM t", "SELECT k, v FROM t WHERE k < 3", "UPDATE t SET v = 0 WHERE k = 2", "OPTIMIZE t FULL"] {
            match refused(&session, sql).await {
                Error::Damaged { table, object, reason } => {
                    assert_eq!((table.as_str(), object.as_str()), ("t", path.to_str().unwrap()), "{sql}");
                    assert!(reason.contains(needle), "{sql}: {reason}");
                }
                other => panic!("{sql}: {other:?}"),
            }
        }
    };
    std::fs::remove_file(&path).unwrap();
    assert_noticed("does not exist").await;
    // What does not need the file goes on.
    assert_eq!(rows(&session, "SELECT k, v FROM t WHERE k > 3").await, [(4, 40), (5, 50)]);
    std::fs::write(&path, &whole[1..]).unwrap();
    assert_noticed("bytes where").await;
    write(&path, ["k", "v"], None, true, &[(1, 11), (2, 20), (3, 30)]);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), whole.len() as u64);
    assert_noticed("checksum of its bytes").await;
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, ALL);
}

#[tokio::test]
async fn files_of_the_lake_itself_are_not_adopted() {
    let (folder, lake, _) = place();
    let session = session_of(&lake, 1).await;
    run(&session, "SET amend.max_inline_bytes = 0").await;
    run(&session, "CREATE TABLE t AS SELECT 1 AS k, 2 AS v").await;
    let error = refused(&session, &format!("CREATE TABLE u FROM '{}'", folder.path().join("lake").display())).await;
    assert_eq!(error.sqlstate(), "0A000");
    assert!(error.to_string().contains("which is a file of this lake"), "{error}");
}

#[tokio::test]
async fn bounds_of_others_are_not_taken_for_values() {
    let (_folder, lake, pattern) = place();
    let session = session_of(&lake, 1).await;
    run(&session, &format!("CREATE TABLE t FROM '{pattern}'")).await;
    let amend::Outcome::Rows(plan) = run(&session, "EXPLAIN SELECT min(k), max(v) FROM t").await else { panic!() };
    let plan = datafusion::arrow::util::pretty::pretty_format_batches(&plan.batches).unwrap().to_string();
    assert!(plan.contains("DataSourceExec"), "{plan}");
    assert_eq!(rows(&session, "SELECT min(k), max(v) FROM t").await, [(1, 50)]);
}

#[tokio::test]
async fn vacuum_never_removes_them() {
    let (folder, lake, _) = place();
    // Also where they are called what amend calls its own.
    let (inside, named) = (folder.path().join("in"), amend::store::ObjectName::new_data());
    std::fs::create_dir(inside.join("data")).unwrap();
    std::fs::rename(inside.join("2.parquet"), inside.join(named.as_str())).unwrap();
    let before = contents(&inside);
    let session = session_of(&lake, 2).await;
    run(&session, "SET amend.allow_short_retention = true").await;
    run(&session, &format!("CREATE TABLE t FROM '{}'", inside.join("1.parquet").to_str().unwrap())).await;
    change(&session, &format!("ALTER TABLE t ADD FILES '{}'", inside.join(named.as_str()).to_str().unwrap())).await;
    change(&session, "UPDATE t SET v = v + 1 WHERE k = 2").await;
    change(&session, "DELETE FROM t WHERE k = 5").await;
    // Needed by a version that is kept, by none, by no table.
    let rest = [(1, 10), (2, 21), (3, 30), (4, 40)];
    for sql in ["VACUUM t RETAIN 0 HOURS", "OPTIMIZE t FULL", "VACUUM t RETAIN 0 HOURS", "VACUUM RETAIN 0 HOURS"] {
        run(&session, sql).await;
        assert_eq!(rows(&session, "SELECT k, v FROM t").await, rest, "{sql}");
        assert_eq!(contents(&inside), before, "{sql}");
    }
    change(&session, "INSERT INTO t VALUES (6, 60)").await;
    run(&session, "VACUUM t RETAIN 0 HOURS").await;
    assert_nothing_left_behind(&lake, "t", "a VACUUM").await;
    run(&session, "DROP TABLE t").await;
    run(&session, "VACUUM RETAIN 0 HOURS").await;
    assert_eq!(std::fs::read_dir(folder.path().join("lake/tables")).unwrap().count(), 0);
    assert_eq!(contents(&inside), before);
}
