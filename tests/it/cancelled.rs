//! A statement whose caller stops waiting, at any moment: it happened or it did not, the session and the table can be used,
//! and a transaction of which it was a part can only be rolled back.

use crate::support::{Row, change, lake_in, refused, rows, run, session_of};
use amend::{Course, Session};
use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use std::sync::Arc;
use std::task::Poll;
use tokio::task::yield_now;

/// A store that is waited for before and after each operation.
#[derive(Debug)]
pub struct Waiting(pub Arc<InMemory>);

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waiting")
    }
}

async fn waited_for<T>(operation: impl Future<Output = T>) -> T {
    yield_now().await;
    let done = operation.await;
    yield_now().await;
    done
}

#[async_trait]
impl ObjectStore for Waiting {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        waited_for(self.0.put_opts(path, payload, options)).await
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        waited_for(self.0.put_multipart_opts(path, options)).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        waited_for(self.0.get_opts(path, options)).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        waited_for(self.0.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        waited_for(self.0.copy_opts(from, to, options)).await
    }
}

/// The value of a future that is asked for it at most so many times.
async fn asked<T>(mut future: BoxFuture<'_, T>, times: usize) -> Option<T> {
    for _ in 0..times {
        if let Poll::Ready(value) = futures::poll!(&mut future) {
            return Some(value);
        }
        // What it has started goes on.
        yield_now().await;
    }
    None
}

async fn prepared() -> InMemory {
    let objects = Arc::new(InMemory::new());
    let session = session_of(&lake_in(objects.clone()), 1).await;
    for sql in [
        "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)",
        "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)",
        "INSERT INTO t VALUES (4, 40), (5, 50)",
    ] {
        run(&session, sql).await;
    }
    objects.fork()
}

/// The rows of every version, as others see them.
async fn look(objects: &Arc<InMemory>) -> Vec<Vec<Row>> {
    let lake = lake_in(objects.clone());
    let session = session_of(&lake, 1).await;
    let mut versions = Vec::new();
    for version in 1..=lake.table("t").await.unwrap().newest_number().await.unwrap() {
        versions.push(rows(&session, &format!("SELECT k, v FROM t VERSION AS OF {version}")).await);
    }
    versions
}

/// What is cancelled: a statement by itself, or the commit of one that was staged.
async fn statement(session: &Session, sql: &str, staged: bool, times: usize) -> Option<()> {
    if staged {
        let change = session.stage(sql).await.unwrap();
        return asked(change.commit().boxed(), times).await.map(|changed| drop(changed.unwrap()));
    }
    asked(session.execute(sql).boxed(), times).await.map(|outcome| drop(outcome.unwrap()))
}

const STATEMENTS: [&str; 4] =
    ["INSERT INTO t VALUES (6, 60)", "UPDATE t SET v = v + 1 WHERE k > 2", "DELETE FROM t WHERE k IN (1, 5)", "OPTIMIZE t FULL"];

#[tokio::test]
async fn a_cancelled_statement_happened_or_did_not() {
    let prepared = prepared().await;
    for sql in STATEMENTS {
        for staged in [false, true] {
            let (mut before, mut after) = (0, 0);
            for times in 0.. {
                let objects = Arc::new(prepared.fork());
                let session = session_of(&lake_in(Arc::new(Waiting(objects.clone()))), 2).await;
                let ended = statement(&session, sql, staged, times).await;
                let case = format!("{sql}, staged: {staged}, asked {times} times");
                let versions = look(&objects).await;
                match versions.len() {
                    3 => before += 1,
                    4 => after += 1,
                    more => panic!("{case}: {more} versions"),
                }
                assert!(ended.is_none() || versions.len() == 4, "{case}");
                // The same session goes on, and so do others.
                change(&session, "INSERT INTO t VALUES (100, 0)").await;
                change(&session_of(&lake_in(objects.clone()), 1).await, "OPTIMIZE t FULL").await;
                let expected = [versions.last().unwrap().as_slice(), &[(100, 0)]].concat();
                assert_eq!(rows(&session, "SELECT k, v FROM t").await, expected, "{case}");
                if ended.is_some() {
                    break;
                }
            }
            assert!(before > 4 && after > 1, "{sql}, staged: {staged}: {before} before, {after} after");
        }
    }
}

/// A statement that is told to stop after it was asked so many times: whether it had ended before, and how far it was.
async fn stopped(session: &Session, sql: &str, times: usize) -> (bool, Course) {
    let mut statement = session.execute(sql).boxed();
    for _ in 0..times {
        if futures::poll!(&mut statement).is_ready() {
            return (true, Course::Ended);
        }
        yield_now().await;
    }
    let course = session.stop();
    if course == Course::Committing {
        statement.await.unwrap();
    }
    (false, course)
}

#[tokio::test]
async fn what_was_stopped_never_happened_and_what_commits_happens() {
    let prepared = prepared().await;
    let ddl =
        ["ALTER TABLE t ADD COLUMN w BIGINT", "RESTORE TABLE t TO VERSION AS OF 2", "CREATE OR REPLACE TABLE t AS SELECT k, v FROM t"];
    // How often each is asked before it commits differs from time to time: some wait for other threads.
    let mut committing = 0;
    for sql in STATEMENTS.into_iter().chain(ddl) {
        let mut running = 0;
        for times in 1.. {
            let objects = Arc::new(prepared.fork());
            let session = session_of(&lake_in(Arc::new(Waiting(objects.clone()))), 2).await;
            let (ended, course) = stopped(&session, sql, times).await;
            // Whatever it had started goes on for a while.
            for _ in 0..20 {
                yield_now().await;
            }
            let versions = look(&objects).await.len();
            match course {
                Course::Running => running += 1,
                Course::Committing => committing += 1,
                Course::Ended | Course::Stopped => assert!(ended, "{sql}, asked {times} times"),
            }
            assert_eq!(versions, if course == Course::Running { 3 } else { 4 }, "{sql}, asked {times} times, {course:?}");
            change(&session, "DELETE FROM t WHERE k = 3").await;
            if ended {
                break;
            }
        }
        assert!(running > 2, "{sql}: {running} running");
    }
    for (sql, found) in [
        ("CREATE TABLE u AS SELECT k, v FROM t", "SELECT k, v FROM u"),
        ("CREATE VIEW u AS SELECT k, v FROM t", "SELECT k, v FROM u"),
        ("ALTER TABLE t RENAME TO u", "SELECT k, v FROM u"),
    ] {
        let mut running = 0;
        for times in 1.. {
            let objects = Arc::new(prepared.fork());
            let session = session_of(&lake_in(Arc::new(Waiting(objects.clone()))), 2).await;
            let (ended, course) = stopped(&session, sql, times).await;
            for _ in 0..20 {
                yield_now().await;
            }
            let there = session_of(&lake_in(objects.clone()), 1).await.execute(found).await.is_ok();
            assert_eq!(there, course != Course::Running, "{sql}, asked {times} times, {course:?}");
            running += usize::from(course == Course::Running);
            committing += usize::from(course == Course::Committing);
            if ended {
                break;
            }
        }
        assert!(running > 0, "{sql}: {running} running");
    }
    assert!(committing > 10, "{committing} committing");
}

#[tokio::test]
async fn a_transaction_with_a_cancelled_statement_can_only_be_rolled_back() {
    let prepared = prepared().await;
    for sql in STATEMENTS.into_iter().chain(["SELECT k, v FROM t"]) {
        for times in 1.. {
            let objects = Arc::new(prepared.fork());
            let session = session_of(&lake_in(Arc::new(Waiting(objects.clone()))), 2).await;
            run(&session, "BEGIN").await;
            change(&session, "DELETE FROM t WHERE k = 2").await;
            if asked(session.execute(sql).boxed(), times).await.is_some() {
                break;
            }
            let case = format!("{sql}, asked {times} times");
            assert_eq!(refused(&session, "SELECT k, v FROM t").await.sqlstate(), "25P02", "{case}");
            assert_eq!(refused(&session, "COMMIT").await.sqlstate(), "25P02", "{case}");
            assert_eq!(look(&objects).await.len(), 3, "{case}");
            change(&session, "INSERT INTO t VALUES (100, 0)").await;
            assert_eq!(rows(&session, "SELECT k, v FROM t").await.len(), 6, "{case}");
        }
    }
}

#[tokio::test]
async fn a_cancelled_commit_happened_or_did_not() {
    let prepared = prepared().await;
    let (mut before, mut after) = (0, 0);
    for times in 0.. {
        let objects = Arc::new(prepared.fork());
        let session = session_of(&lake_in(Arc::new(Waiting(objects.clone()))), 1).await;
        for sql in ["BEGIN", STATEMENTS[0], STATEMENTS[1], STATEMENTS[2]] {
            run(&session, sql).await;
        }
        let ended = asked(session.execute("COMMIT").boxed(), times).await.is_some();
        let versions = look(&objects).await;
        let expected: &[Row] =
            if versions.len() == 4 { &[(2, 20), (3, 31), (4, 41), (6, 61)] } else { &[(1, 10), (2, 20), (3, 30), (4, 40), (5, 50)] };
        assert_eq!(versions.last().unwrap(), expected, "asked {times} times");
        assert!(!ended || versions.len() == 4);
        *if versions.len() == 4 { &mut after } else { &mut before } += 1;
        // It ended the transaction, unless it never began.
        match session.in_transaction() {
            true => assert_eq!(times, 0),
            false => assert_eq!(refused(&session, "COMMIT").await.kind(), amend::ErrorKind::Invalid),
        }
        if ended {
            break;
        }
    }
    assert!(before > 3 && after > 1, "{before} before, {after} after");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_writes_elsewhere_is_not_said_to_have_changed_nothing() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let session = Arc::new(session_of(&lake_in(Arc::new(InMemory::new())), 1).await);
    std::fs::create_dir(path("ext")).unwrap();
    run(&session, &format!("CREATE EXTERNAL TABLE ext (v BIGINT) STORED AS CSV LOCATION '{}/'", path("ext"))).await;
    run(&session, "CREATE TABLE t (v BIGINT)").await;
    let endless = "SELECT value AS v FROM generate_series(1, 1000000000000) AS g (value)";
    run(&session, &format!("PREPARE p AS INSERT INTO ext {endless}")).await;
    std::fs::create_dir(path("copied")).unwrap();
    for (sql, folder) in [
        (format!("INSERT INTO ext {endless}"), "ext"),
        ("EXECUTE p".to_owned(), "ext"),
        (format!("COPY ({endless}) TO '{}'", path("copied/c.csv")), "copied"),
        (format!("EXPLAIN ANALYZE INSERT INTO ext {endless}"), "ext"),
    ] {
        let files = || std::fs::read_dir(path(folder)).unwrap().count();
        let before = files();
        let (running, statement) = (session.clone(), sql.clone());
        let running = tokio::spawn(async move { running.execute(&statement).await });
        while files() == before {
            assert!(!running.is_finished(), "{sql}: {:?}", running.await);
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert_eq!(session.stop(), Course::Committing, "{sql}");
        running.abort();
        assert!(running.await.is_err_and(|ended| ended.is_cancelled()), "{sql}");
    }
    // Nor is it part of a transaction.
    run(&session, "BEGIN").await;
    for sql in ["INSERT INTO ext VALUES (1)".to_owned(), format!("COPY t TO '{}'", path("copied/d.csv")), "EXECUTE p".to_owned()] {
        assert_eq!(refused(&session, &sql).await.sqlstate(), "0A000", "{sql}");
        run(&session, "ROLLBACK").await;
        run(&session, "BEGIN").await;
    }
}
