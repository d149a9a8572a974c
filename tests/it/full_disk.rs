//! A disk that is full, a folder that cannot be written to, a process that is killed in the middle of a write: the
//! statement fails, and the table is as it was.

use crate::support::{Row, assert_nothing_left_behind, change, files_below, lake_in, refused, rows, run, session_of};
use amend::store::DurableLocal;
use amend::store::faults::{Answer, Fault, FaultStore, OpKind};
use amend::{ErrorKind, Lake};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// Rows that make a file of more than a megabyte, and a deletion vector of more than a kilobyte.
const MANY: i64 = 300_000;

/// A lake in a folder, with a table of two small fragments and a large one.
async fn prepared() -> (TempDir, Vec<Row>) {
    let folder = TempDir::new().unwrap();
    let lake = Lake::open(folder.path()).unwrap();
    let session = session_of(&lake, 1).await;
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
    change(&session, "INSERT INTO t VALUES (-1, 1), (-2, 2), (-3, 3)").await;
    change(&session, "INSERT INTO t VALUES (-4, 4)").await;
    change(&session, &format!("INSERT INTO t SELECT value AS k, value * 7919 % 1000003 AS v FROM generate_series(1, {MANY})")).await;
    let rows = rows(&session, "SELECT k, v FROM t").await;
    (folder, rows)
}

/// The table is as it was, nothing but it is in its folder, and it can be changed.
async fn assert_as_it_was(folder: &Path, before: &[Row], case: &str) {
    let lake = Lake::open(folder).unwrap();
    let session = session_of(&lake, 1).await;
    assert!(rows(&session, "SELECT k, v FROM t").await == before, "{case}");
    assert_nothing_left_behind(&lake, "t", case).await;
    change(&session, "INSERT INTO t VALUES (0, 0)").await;
    change(&session, "DELETE FROM t WHERE k = 0").await;
    assert!(rows(&session, "SELECT k, v FROM t").await == before, "{case}");
}

fn half_written(folder: &Path) -> Vec<String> {
    files_below(folder).into_iter().filter(|name| name.contains('#')).collect()
}

/// Statements that write large files, and what else they write.
const LARGE: [&str; 4] =
    ["INSERT INTO t SELECT k + 1000000, v FROM t", "UPDATE t SET v = v + 1", "OPTIMIZE t FULL", "CREATE TABLE u AS SELECT * FROM t"];

#[tokio::test]
async fn no_space_for_files() {
    // Each write of a statement in turn meets a disk that is full from then on.
    let (folder, before) = prepared().await;
    let statements = LARGE.iter().chain(&["DELETE FROM t WHERE v % 3 = 1 AND k > 0", "INSERT INTO t VALUES (1, 1)"]);
    for sql in statements {
        for first in 0..4 {
            let faults = FaultStore::new(Arc::new(DurableLocal::new(folder.path(), false).unwrap()));
            for n in first..200 {
                faults.fail_on(OpKind::Put, "", n, Fault::Before(Answer::Generic));
            }
            (0..200).for_each(|n| faults.fail_on(OpKind::Create, "", n, Fault::Before(Answer::Generic)));
            let session = session_of(&lake_in(Arc::new(faults)), 2).await;
            let error = refused(&session, sql).await;
            // A create that was answered so may still come to be, for all that this store says.
            assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown), "{sql}: {error}");
            let session = session_of(&Lake::open(folder.path()).unwrap(), 1).await;
            assert!(rows(&session, "SELECT k, v FROM t").await == before, "{sql}");
            assert_eq!(half_written(folder.path()), Vec::<String>::new(), "{sql}");
        }
    }
}

/// Runs one statement in a shell whose files can have so many blocks of 512 bytes. `ignore` makes the system say so instead
/// of ending the process.
#[cfg(unix)]
fn with_small_files(folder: &Path, sql: &str, blocks: u32, ignore: bool) -> std::process::Output {
    let trap = if ignore { "trap '' XFSZ; " } else { "" };
    let script = format!("{trap}ulimit -c 0; ulimit -f {blocks} && exec \"$0\" --lake \"$1\" -c \"$2\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_amend")]).arg(folder).arg(sql).env_remove("AMEND_LOG");
    command.stdin(Stdio::null()).output().unwrap()
}

#[cfg(unix)]
#[tokio::test]
async fn files_that_cannot_grow_are_an_error_and_leave_nothing() {
    let (folder, before) = prepared().await;
    for sql in LARGE {
        for blocks in [0, 1, 64, 512] {
            let output = with_small_files(folder.path(), sql, blocks, true);
            let errors = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{sql}, {blocks} blocks: {errors}");
            assert!(errors.contains("(SQLSTATE 58030)") && errors.contains("File too large"), "{sql}, {blocks} blocks: {errors}");
            assert_eq!(half_written(folder.path()), Vec::<String>::new(), "{sql}, {blocks} blocks");
        }
    }
    assert_as_it_was(folder.path(), &before, "files that cannot grow").await;
    let tables = std::fs::read_dir(folder.path().join("tables")).unwrap().map(|entry| entry.unwrap().path());
    let with_files: Vec<PathBuf> = tables.filter(|table| !files_below(table).is_empty()).collect();
    assert_eq!(with_files.len(), 1, "{with_files:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_manifest_that_does_not_fit_is_an_error_that_is_certain() {
    let (folder, before) = prepared().await;
    // The vector stays in the manifest, which is larger than a block by that; nothing else is written.
    let sql = "DELETE FROM t WHERE k > 0 AND k % 1000 = 3";
    let output = with_small_files(folder.path(), sql, 1, true);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("cannot create") && errors.contains("(SQLSTATE 58030)"), "{errors}");
    assert_as_it_was(folder.path(), &before, sql).await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_process_that_ends_in_the_middle_of_a_write_leaves_the_table_as_it_was() {
    use std::os::unix::process::ExitStatusExt;
    let (folder, before) = prepared().await;
    for sql in LARGE {
        // In one file: one that was complete when the process ended would stay, with its name.
        let sql = &format!("SET datafusion.execution.target_partitions = 1; SET amend.update_form = 'rows'; {sql}");
        let output = with_small_files(folder.path(), sql, 64, false);
        assert!(output.status.signal().is_some(), "{sql}: {output:?}");
    }
    // It could not clear up; what it left has no name that anybody reads.
    assert_eq!(half_written(folder.path()).len(), LARGE.len());
    assert_as_it_was(folder.path(), &before, "processes that ended").await;
}

#[tokio::test]
async fn a_file_where_a_folder_should_be_is_an_error() {
    let cases: [(&str, &str); 5] = [
        ("_deletions", "DELETE FROM t WHERE v % 3 = 1 AND k > 0"),
        ("_pages", "INSERT INTO t SELECT value, value AS v FROM generate_series(-1000, -700)"),
        ("_transactions", "INSERT INTO t SELECT value, value AS v FROM generate_series(-1700, -700)"),
        ("_moves", "OPTIMIZE t FULL"),
        ("data", "INSERT INTO s SELECT value, value AS v FROM generate_series(1, 5000)"),
    ];
    let (folder, before) = prepared().await;
    let lake = Lake::open(folder.path()).unwrap();
    let session = session_of(&lake, 1).await;
    run(&session, "CREATE TABLE s (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
    // So that the map of a rewrite is too large to be in its transaction.
    change(&session, "DELETE FROM t WHERE v % 2 = 0 AND k > 200000").await;
    let before: Vec<Row> = before.into_iter().filter(|(k, v)| v % 2 != 0 || *k <= 200_000).collect();
    for (name, sql) in cases {
        let log = lake.table(if sql.contains(" s ") { "s" } else { "t" }).await.unwrap();
        let in_the_way = PathBuf::from(log.store().label()).join(name);
        let moved = in_the_way.with_extension("away");
        if in_the_way.exists() {
            std::fs::rename(&in_the_way, &moved).unwrap();
        }
        std::fs::write(&in_the_way, "in the way").unwrap();
        let session = session_of(&Lake::open(folder.path()).unwrap(), 1).await;
        run(&session, "SET amend.rows_per_fragment = 1").await;
        if !sql.starts_with("INSERT") {
            run(&session, "SET amend.rows_per_fragment = 1000000").await;
        }
        let error = refused(&session, sql).await;
        std::fs::remove_file(&in_the_way).unwrap();
        if moved.exists() {
            std::fs::rename(&moved, &in_the_way).unwrap();
        }
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{name}: {error}");
        assert!(error.to_string().contains(&in_the_way.display().to_string()), "{name}: {error}");
        assert!(rows(&session, "SELECT k, v FROM s").await.is_empty());
        assert_as_it_was(folder.path(), &before, &format!("a file in place of {name}")).await;
    }
}
