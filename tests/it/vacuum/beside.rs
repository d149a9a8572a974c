//! VACUUM beside others who pause, or whose clock is another: what they find when they go on.

use super::{short_retention, table, vacuum};
use crate::support::{Row, assert_exact, change, lake_in, named_objects, refused, rows, run, session_of, stored_objects};
use amend::store::{ObjectName, Store, env};
use amend::{ErrorKind, Lake, Outcome};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::context::SessionContext;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result,
};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// What a store waits at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Create,
    Get,
}

/// A store that stops before one call until it is told to go on, and whose clock may be behind.
#[derive(Debug)]
struct Gate {
    inner: Arc<InMemory>,
    /// The call that waits; the next of its kind if there is no name.
    at: Mutex<Option<(Call, Path)>>,
    reached: Notify,
    go_on: Notify,
    behind: Duration,
}

impl Gate {
    fn new(inner: &Arc<InMemory>, at: Option<(Call, Path)>) -> Arc<Gate> {
        let (at, behind) = (Mutex::new(at), Duration::ZERO);
        Arc::new(Gate { inner: inner.clone(), at, reached: Notify::new(), go_on: Notify::new(), behind })
    }

    async fn pass(&self, call: Call, path: &Path) {
        let waits = self.at.lock().unwrap().take_if(|(kind, at)| *kind == call && at == path).is_some();
        if waits {
            self.reached.notify_one();
            self.go_on.notified().await;
        }
    }

    fn dated(&self, meta: ObjectMeta) -> ObjectMeta {
        ObjectMeta { last_modified: meta.last_modified - self.behind, ..meta }
    }
}

impl std::fmt::Display for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gate")
    }
}

#[async_trait]
impl ObjectStore for Gate {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        if options.mode == PutMode::Create {
            self.pass(Call::Create, path).await;
        }
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        if !options.head {
            self.pass(Call::Get, path).await;
        }
        let found = self.inner.get_opts(path, options).await?;
        let meta = self.dated(found.meta.clone());
        Ok(GetResult { meta, ..found })
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let found = self.inner.list_with_delimiter(prefix).await?;
        Ok(ListResult { objects: found.objects.into_iter().map(|meta| self.dated(meta)).collect(), ..found })
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[tokio::test]
async fn a_version_whose_name_had_been_freed_is_none() {
    // How many versions others make in the meantime, and whether they leave a trace of the one that is taken.
    for (others, in_transaction) in [(1, false), (2, false), (20, false), (2, true)] {
        let objects = Arc::new(InMemory::new());
        let session = short_retention(&lake_in(objects.clone())).await;
        run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
        change(&session, "INSERT INTO t VALUES (1, 10), (2, 20)").await;
        let log = session.lake().table("t").await.unwrap();
        let gate = Gate::new(&objects, Some((Call::Create, log.store().location(&ObjectName::version(3)))));
        let stalled = session_of(&lake_in(gate.clone()), 1).await;
        if in_transaction {
            run(&stalled, "BEGIN").await;
            change(&stalled, "DELETE FROM t WHERE k = 1").await;
        }
        let sql = if in_transaction { "COMMIT" } else { "DELETE FROM t WHERE k = 1" };
        let statement = stalled.execute(sql);
        let meanwhile = async {
            gate.reached.notified().await;
            for k in 0..others {
                change(&session, &format!("INSERT INTO t VALUES ({}, 0)", 100 + k)).await;
            }
            change(&session, "UPDATE t SET v = 21 WHERE k = 2").await;
            vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
            assert!(!log.store().exists(&ObjectName::version(3)).await.unwrap());
            gate.go_on.notify_one();
        };
        let (outcome, ()) = tokio::join!(statement, meanwhile);
        match in_transaction {
            false => assert!(matches!(outcome.unwrap(), Outcome::Changed(changed) if changed.version == Some(others as u64 + 5))),
            true => assert_eq!(outcome.unwrap_err().sqlstate(), "40001"),
        }
        assert!(!log.store().exists(&ObjectName::version(3)).await.unwrap(), "what was created is taken back");
        let first: &[Row] = if in_transaction { &[(1, 10), (2, 21)] } else { &[(2, 21)] };
        let expected: Vec<Row> = first.iter().copied().chain((0..others).map(|k| (100 + k, 0))).collect();
        for lake in [lake_in(objects.clone()), lake_in(gate.clone())] {
            assert_eq!(rows(&session_of(&lake, 1).await, "SELECT k, v FROM t").await, expected);
        }
        assert_eq!(rows(&stalled, "SELECT k, v FROM t").await, expected);
    }
}

/// Stops at the first `call` of one of those names while a transaction of another process commits; meanwhile all that it would have to
/// walk over is removed.
async fn commits_while_its_versions_go(isolation: &str, at: impl Fn(&amend::manifest::log::VersionLog) -> ObjectName) {
    let objects = Arc::new(InMemory::new());
    let session = short_retention(&lake_in(objects.clone())).await;
    table(&session).await;
    let log = session.lake().table("t").await.unwrap();
    let gate = Gate::new(&objects, None);
    let stalled = session_of(&lake_in(gate.clone()), 1).await;
    run(&stalled, &format!("SET amend.isolation = '{isolation}'")).await;
    run(&stalled, "BEGIN").await;
    change(&stalled, "DELETE FROM t WHERE k = 5").await;
    rows(&stalled, "SELECT k, v FROM t WHERE k = 5 OR v = 60").await;
    // Versions 8 to 10; the first of them gives all rows another address.
    change(&session, "OPTIMIZE t ORDER BY (v, k) FULL").await;
    change(&session, "UPDATE t SET v = 61 WHERE k = 16").await;
    change(&session, "INSERT INTO t VALUES (200, 0)").await;
    *gate.at.lock().unwrap() = Some((Call::Get, log.store().location(&at(&log))));
    let meanwhile = async {
        gate.reached.notified().await;
        change(&session, "UPDATE t SET v = 1 WHERE k = 6").await;
        change(&session, "OPTIMIZE t FULL").await;
        vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
        gate.go_on.notify_one();
    };
    let before = rows(&session, "SELECT k, v FROM t").await;
    let (outcome, ()) = tokio::join!(stalled.execute("COMMIT"), meanwhile);
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Conflict, "40001"), "{error}");
    assert!(error.to_string().contains("which VACUUM has removed"), "{error}");
    let after = rows(&session, "SELECT k, v FROM t").await;
    let changed: Vec<_> = after.iter().filter(|row| !before.contains(row)).collect();
    assert_eq!((after.len(), changed), (before.len(), vec![]));
    // By itself it runs again.
    assert_eq!(change(&stalled, "DELETE FROM t WHERE k = 5").await.counts.deleted, 1);
    vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
}

#[tokio::test]
async fn who_walks_over_versions_that_go_meanwhile_collides() {
    for isolation in ["snapshot", "serializable"] {
        for version in [8, 9, 10] {
            commits_while_its_versions_go(isolation, |_| ObjectName::version(version)).await;
        }
    }
}

#[tokio::test]
async fn a_query_of_another_process_whose_files_go_ends_with_an_error_that_says_so_or_with_the_right_rows() {
    let objects = Arc::new(InMemory::new());
    let session = short_retention(&lake_in(objects.clone())).await;
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
    run(&session, "SET amend.rows_per_fragment = 100").await;
    change(&session, "INSERT INTO t SELECT value, value AS v FROM generate_series(0, 1999)").await;
    let context = SessionContext::new_with_config(datafusion::prelude::SessionConfig::new().with_target_partitions(1));
    amend::install(&context, &lake_in(objects.clone())).unwrap();
    let mut query = context.sql("SELECT k FROM t").await.unwrap().execute_stream().await.unwrap();
    let first = query.next().await.unwrap().unwrap().num_rows();
    run(&session, "SET amend.rows_per_fragment = 1000000").await;
    change(&session, "OPTIMIZE t FULL").await;
    change(&session, "DELETE FROM t WHERE k % 2 = 0").await;
    vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
    let error = amend::Error::from(query.try_collect::<Vec<_>>().await.unwrap_err());
    assert!(first < 2000);
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Conflict, "40001"), "{error}");
    assert!(error.to_string().contains("the versions from 2 to 3, which VACUUM has removed, changed in version 5 (VACUUM)"), "{error}");
    // The next one reads what there is.
    let found = context.sql("SELECT k FROM t").await.unwrap().collect().await.unwrap();
    assert_eq!(found.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1000);
}

#[tokio::test]
async fn a_change_of_another_process_whose_files_go_is_planned_again() {
    for (sql, counts) in [("DELETE FROM t WHERE k % 3 = 0", 33), ("UPDATE t SET v = -5 WHERE v < 15", 8), ("OPTIMIZE t FULL", 98)] {
        let objects = Arc::new(InMemory::new());
        let session = short_retention(&lake_in(objects.clone())).await;
        table(&session).await;
        let log = session.lake().table("t").await.unwrap();
        let newest = log.newest().await.unwrap();
        let file = newest.snapshot.fragments.iter().unwrap().next().unwrap().files[0].path.clone();
        let gate = Gate::new(&objects, Some((Call::Get, log.store().location(&ObjectName::parse(&file).unwrap()))));
        let stalled = session_of(&lake_in(gate.clone()), 1).await;
        let meanwhile = async {
            gate.reached.notified().await;
            change(&session, "DELETE FROM t WHERE k IN (3, 4)").await;
            change(&session, "OPTIMIZE t FULL").await;
            vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
            gate.go_on.notify_one();
        };
        let (outcome, ()) = tokio::join!(stalled.execute(sql), meanwhile);
        let Outcome::Changed(changed) = outcome.unwrap_or_else(|error| panic!("{sql}: {error}")) else { panic!("{sql}") };
        assert_eq!((changed.counts.changed() + changed.counts.moved, changed.facts.reran), (counts, 1), "{sql}");
        vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
        assert_exact(&log, sql).await;
    }
}

#[tokio::test]
async fn the_mark_is_raised_in_a_version_that_others_share() {
    let objects = Arc::new(InMemory::new());
    let prepared = short_retention(&lake_in(objects.clone())).await;
    table(&prepared).await;
    let name = prepared.lake().table("t").await.unwrap().store().location(&ObjectName::version(8));
    let gate = Gate::new(&objects, Some((Call::Create, name)));
    let lake = lake_in(gate.clone());
    let mut tasks = vec![];
    for k in 0..4 {
        let session = short_retention(&lake).await;
        tasks.push(tokio::spawn(async move {
            change(&session, &format!("UPDATE t SET v = -1 WHERE k = {k}")).await;
        }));
        if k == 0 {
            gate.reached.notified().await;
        }
    }
    let session = short_retention(&lake).await;
    tasks.push(tokio::spawn(async move {
        vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
    }));
    // All of them wait for the first.
    tokio::time::sleep(Duration::from_millis(300)).await;
    gate.go_on.notify_one();
    for task in tasks {
        task.await.unwrap();
    }
    let log = lake.table("t").await.unwrap();
    let newest = log.newest().await.unwrap();
    assert_eq!((newest.snapshot.version, newest.transactions.len()), (9, 4));
    // What the first had read when it began is kept.
    assert_eq!(newest.snapshot.low_water_mark, 7);
    let operations: Vec<_> = newest.transactions.iter().map(|committed| committed.transaction.steps[0].operation.as_str()).collect();
    assert!(operations.contains(&"VACUUM"), "{operations:?}");
    // By now nobody holds what they wrote.
    vacuum(&prepared, "VACUUM t RETAIN 0 HOURS").await;
    assert_exact(&log, "a VACUUM").await;
    assert_eq!(rows(&prepared, "SELECT k, v FROM t WHERE v = -1").await, [(0, -1), (1, -1), (2, -1), (3, -1)]);
}

#[tokio::test]
async fn what_is_young_by_the_clock_of_the_store_stays() {
    let objects = Arc::new(InMemory::new());
    let behind = Duration::from_secs(10 * 24 * 3600);
    let gate = Gate { behind, ..Arc::into_inner(Gate::new(&objects, None)).unwrap() };
    let session = session_of(&lake_in(Arc::new(gate)), 1).await;
    table(&session).await;
    let log = session.lake().table("t").await.unwrap();
    // What a statement of another process has written and not committed; its clock is the store's.
    let made_ms = env::now_ms() - behind.as_millis() as u64;
    let (high, low) = (made_ms >> 16, made_ms & 0xffff);
    let staged = ObjectName::parse(&format!("data/{high:08x}-{low:04x}-7000-8000-000000000000.parquet")).unwrap();
    log.store().write(&staged, Bytes::from("x")).await.unwrap();
    run(&session, "CREATE TABLE u AS SELECT 1 AS k").await;
    assert_eq!(vacuum(&session, "VACUUM t").await, BTreeSet::new());
    assert_eq!(vacuum(&session, "VACUUM").await, BTreeSet::new());
    assert!(log.store().exists(&staged).await.unwrap());
}

#[tokio::test]
async fn where_something_is_damaged_nothing_is_removed() {
    let objects = Arc::new(InMemory::new());
    let session = short_retention(&lake_in(objects.clone())).await;
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
    run(&session, "SET amend.rows_per_fragment = 10").await;
    change(&session, "INSERT INTO t SELECT value, value AS v FROM generate_series(0, 9999)").await;
    change(&session, "UPDATE t SET v = 0 WHERE k = 3").await;
    change(&session, "DELETE FROM t WHERE k = 4").await;
    let log = session.lake().table("t").await.unwrap();
    let named = named_objects(&log).await;
    for folder in ["_pages/", "_versions/", "_transactions/"] {
        let fork = Arc::new(objects.fork());
        let store = Store::new(fork.clone(), Path::default(), "test:".to_owned());
        // The oldest of each kind.
        let victim = named.iter().filter(|name| name.starts_with(folder)).max_by_key(|name| (folder == "_versions/", name.len())).unwrap();
        let path = log.store().location(&ObjectName::parse(victim).unwrap());
        let mut bytes = fork.get_opts(&path, GetOptions::default()).await.unwrap().bytes().await.unwrap().to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        fork.put_opts(&path, bytes.into(), PutOptions::default()).await.unwrap();
        let session = short_retention(&Lake::new(store)).await;
        let damaged = session.lake().table("t").await.unwrap();
        let before = stored_objects(damaged.store()).await;
        let error = refused(&session, "VACUUM t").await;
        assert_eq!(error.kind(), ErrorKind::Data, "{error}");
        assert!(before.is_subset(&stored_objects(damaged.store()).await));
    }
}

#[tokio::test]
async fn a_hundred_preempted_compactions_leave_live_files_only() {
    let lake = Lake::memory();
    let (session, preempted) = (short_retention(&lake).await, session_of(&lake, 1).await);
    table(&session).await;
    let log = lake.table("t").await.unwrap();
    let data = async || {
        let stored = log.store().list("data").await.unwrap();
        stored.iter().map(|entry| entry.size_bytes).sum::<u64>()
    };
    vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
    let before = data().await;
    for _ in 0..100 {
        run(&preempted, "BEGIN").await;
        change(&preempted, "OPTIMIZE t FULL").await;
        change(&session, "OPTIMIZE t FULL").await;
        assert_eq!(change(&preempted, "COMMIT").await.facts.groups_dropped, 1);
    }
    // Nothing but what versions name, even before that.
    assert_exact(&log, "a hundred preempted compactions").await;
    assert!(data().await > 50 * before);
    vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
    assert_exact(&log, "a VACUUM").await;
    assert_eq!(data().await, before);
}

#[tokio::test]
async fn who_wrote_files_that_are_gone_before_they_were_named_cannot_commit() {
    let objects = Arc::new(InMemory::new());
    let session = short_retention(&lake_in(objects.clone())).await;
    table(&session).await;
    let log = session.lake().table("t").await.unwrap();
    let gate = Gate::new(&objects, None);
    let others = lake_in(gate.clone());
    let (opened, stalled) = (session_of(&others, 1).await, session_of(&others, 1).await);
    for writer in [&opened, &stalled] {
        run(writer, "SET amend.max_inline_bytes = 0").await;
    }
    vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
    run(&opened, "BEGIN").await;
    change(&opened, "INSERT INTO t VALUES (300, 0)").await;
    // Nothing is committed meanwhile: the version that they read stays the newest.
    *gate.at.lock().unwrap() = Some((Call::Create, log.store().location(&ObjectName::version(9))));
    let meanwhile = async {
        gate.reached.notified().await;
        let removed = vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
        assert_eq!(removed.iter().filter(|(name, _)| name.starts_with("data/")).count(), 2, "{removed:?}");
        gate.go_on.notify_one();
    };
    let (outcome, ()) = tokio::join!(stalled.execute("INSERT INTO t VALUES (301, 0)"), meanwhile);
    let Outcome::Changed(changed) = outcome.unwrap() else { panic!("INSERT changes nothing") };
    assert_eq!((changed.version, changed.facts.reran), (Some(10), 1));
    assert!(changed.conflicts[0].coordinate.contains("written for it, which VACUUM may have removed"), "{changed:?}");
    let error = refused(&opened, "COMMIT").await;
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Conflict, "40001"), "{error}");
    for lake in [session.lake(), &others] {
        assert_eq!(rows(&session_of(lake, 1).await, "SELECT k, v FROM t WHERE k >= 300").await, [(301, 0)]);
    }
    vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
    assert_exact(&log, "a VACUUM").await;
}

#[tokio::test]
async fn what_is_restored_is_there() {
    // A VACUUM while RESTORE is about to land, and the other way round.
    for vacuum_first in [true, false] {
        let objects = Arc::new(InMemory::new());
        let session = short_retention(&lake_in(objects.clone())).await;
        table(&session).await;
        let log = session.lake().table("t").await.unwrap();
        let old = rows(&session, "SELECT k, v FROM t VERSION AS OF 3").await;
        let newest = rows(&session, "SELECT k, v FROM t").await;
        let gate = Gate::new(&objects, Some((Call::Create, log.store().location(&ObjectName::version(8)))));
        let stalled = short_retention(&lake_in(gate.clone())).await;
        let (restore, remove) = ("RESTORE TABLE t TO VERSION AS OF 3", "VACUUM t RETAIN 0 HOURS");
        let (first, second) = if vacuum_first { (remove, restore) } else { (restore, remove) };
        let meanwhile = async {
            gate.reached.notified().await;
            run(&session, first).await;
            gate.go_on.notify_one();
        };
        let (outcome, ()) = tokio::join!(stalled.execute(second), meanwhile);
        let expected = match vacuum_first {
            true => {
                let error = outcome.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                newest
            }
            false => {
                outcome.unwrap();
                old
            }
        };
        assert_eq!(rows(&session, "SELECT k, v FROM t").await, expected);
        vacuum(&session, remove).await;
        assert_exact(&log, "a VACUUM").await;
        assert_eq!(rows(&session, "SELECT k, v FROM t").await, expected);
    }
}

#[tokio::test]
async fn a_restore_in_a_transaction_keeps_what_it_restores() {
    let session = short_retention(&Lake::memory()).await;
    table(&session).await;
    let old = rows(&session, "SELECT k, v FROM t VERSION AS OF 3").await;
    let restoring = session_of(session.lake(), 1).await;
    run(&restoring, "BEGIN").await;
    run(&restoring, "RESTORE TABLE t TO VERSION AS OF 3").await;
    vacuum(&session, "VACUUM t RETAIN 0 HOURS").await;
    // Nothing lands beside it, a VACUUM neither; but it can be said again.
    assert_eq!(rows(&restoring, "SELECT k, v FROM t").await, old);
    assert_eq!(refused(&restoring, "COMMIT").await.sqlstate(), "40001");
    run(&restoring, "RESTORE TABLE t TO VERSION AS OF 3").await;
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, old);
}
