//! Statements of one process that commit at the same time share versions. Each has its own outcome; together they come to what
//! they come to one after another.

use crate::support::{Row, assert_nothing_left_behind, change, lake_in, rows, run, session_of};
use amend::store::faults::{Answer, Fault, FaultStore, OpKind};
use amend::txn::composite::RowCounts;
use amend::{Changed, Error, ErrorKind, Lake, Result};
use async_trait::async_trait;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use std::sync::Arc;
use std::task::Poll;
use tokio::task::yield_now;

/// A store that is waited for before and after each operation, so that what is asked of it at once happens at once.
#[derive(Debug)]
struct Waiting(FaultStore);

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
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> object_store::Result<PutResult> {
        waited_for(self.0.put_opts(path, payload, options)).await
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> object_store::Result<Box<dyn MultipartUpload>> {
        waited_for(self.0.put_multipart_opts(path, options)).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        waited_for(self.0.get_opts(path, options)).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, object_store::Result<Path>>) -> BoxStream<'static, object_store::Result<Path>> {
        self.0.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<object_store::ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        waited_for(self.0.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        waited_for(self.0.copy_opts(from, to, options)).await
    }
}

/// A table of the keys `0..20`, each with the value 0, in two fragments, in two versions.
struct World {
    raw: Arc<InMemory>,
    faults: FaultStore,
    lake: Lake,
}

/// The versions of the table before anything else happens.
const PREPARED: u64 = 3;

impl World {
    async fn new() -> World {
        let raw = Arc::new(InMemory::new());
        let session = session_of(&lake_in(raw.clone()), 1).await;
        run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
        run(&session, "INSERT INTO t SELECT value, 0 FROM generate_series(0, 9)").await;
        run(&session, "INSERT INTO t SELECT value, 0 FROM generate_series(10, 19)").await;
        World::over(&raw)
    }

    fn over(raw: &Arc<InMemory>) -> World {
        let faults = FaultStore::new(raw.clone());
        World { raw: raw.clone(), lake: lake_in(Arc::new(Waiting(faults.clone()))), faults }
    }

    /// Statements that have run, each in its own session; what is left is their commit.
    async fn staged(&self, statements: &[String]) -> Vec<BoxFuture<'static, Result<Changed>>> {
        let mut commits = Vec::new();
        for sql in statements {
            let session = session_of(&self.lake, 1).await;
            let staged = session.stage(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            commits.push(staged.commit().boxed());
        }
        commits
    }

    /// Commits them at once: the first takes the turn, and the others wait together.
    async fn at_once(&self, statements: &[&str]) -> Vec<Result<Changed>> {
        join_all(self.staged(&statements.iter().map(ToString::to_string).collect::<Vec<_>>()).await).await
    }

    async fn newest(&self) -> u64 {
        lake_in(self.raw.clone()).table("t").await.unwrap().newest_number().await.unwrap()
    }

    /// The rows as others see them.
    async fn rows(&self) -> Vec<Row> {
        rows(&session_of(&lake_in(self.raw.clone()), 1).await, "SELECT k, v FROM t").await
    }

    /// How often each statement is in the history, which has to be once.
    async fn landed_once(&self, case: &str) {
        let log = lake_in(self.raw.clone()).table("t").await.unwrap();
        let mut ids = std::collections::BTreeSet::new();
        for number in 1..=log.newest_number().await.unwrap() {
            for committed in &log.read(number).await.unwrap().transactions {
                assert!(ids.insert(committed.transaction.id), "{case}: a transaction landed twice");
            }
        }
    }
}

fn updates(keys: std::ops::Range<i64>) -> Vec<String> {
    keys.map(|k| format!("UPDATE t SET v = v + 1 WHERE k = {k}")).collect()
}

fn versions(outcomes: &[Result<Changed>]) -> Vec<Option<u64>> {
    outcomes.iter().map(|outcome| outcome.as_ref().unwrap_or_else(|error| panic!("{error}")).version).collect()
}

#[tokio::test]
async fn statements_that_wait_share_a_version_and_count_for_themselves() {
    let world = World::new().await;
    let outcomes = join_all(world.staged(&updates(0..12)).await).await;
    let shared = versions(&outcomes);
    assert_eq!(shared[0], Some(PREPARED + 1));
    assert!(shared[1..].iter().all(|version| *version == Some(PREPARED + 2)), "{shared:?}");
    for outcome in outcomes {
        let changed = outcome.unwrap();
        assert_eq!(changed.counts, RowCounts { updated: 1, ..RowCounts::default() });
        let facts = changed.facts;
        assert_eq!((facts.attempts, facts.reran), (1, 0));
        assert_eq!(facts.rebased_over + PREPARED + 1, changed.version.unwrap());
    }
    let expected: Vec<Row> = (0..20).map(|k| (k, i64::from(k < 12))).collect();
    assert_eq!(world.rows().await, expected);
    let session = session_of(&world.lake, 1).await;
    let history = "SELECT version, count(*) FROM table_history('t') WHERE operation = 'UPDATE' AND rows_updated = 1 GROUP BY version";
    let history = history.replace("SELECT version", "SELECT CAST(version AS BIGINT)");
    assert_eq!(rows(&session, &history).await, [(4, 1), (5, 11)]);
    assert_nothing_left_behind(&world.lake, "t", "a group").await;
    // Another process reads it, and goes on.
    let other = session_of(&lake_in(world.raw.clone()), 1).await;
    assert_eq!(change(&other, "UPDATE t SET v = 0 WHERE v = 1").await.count(), 12);
    assert_eq!(change(&other, "OPTIMIZE t FULL").await.version, Some(7));
}

#[tokio::test]
async fn who_collides_with_one_of_its_group_fails_alone() {
    let world = World::new().await;
    let outcomes = world
        .at_once(&[
            "INSERT INTO t VALUES (100, 0)",
            "UPDATE t SET v = 1 WHERE k = 1",
            "UPDATE t SET v = 2 WHERE k IN (1, 2)",
            "DELETE FROM t WHERE k IN (3, 4)",
            "DELETE FROM t WHERE k IN (4, 5)",
            "DELETE FROM t WHERE k = 3",
            "INSERT INTO t VALUES (200, 7)",
            "UPDATE t SET v = 3 WHERE k >= 200",
            "MERGE INTO t USING (SELECT 200 AS k) AS s ON t.k = s.k WHEN NOT MATCHED THEN INSERT VALUES (s.k, 8)",
            "OPTIMIZE t FULL",
            "UPDATE t SET v = 4 WHERE k = 6",
        ])
        .await;
    let group = Some(PREPARED + 2);
    let found: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().map(|changed| (changed.version, changed.count()))).collect();
    assert_eq!(found[0].as_ref().unwrap(), &(Some(PREPARED + 1), 1));
    assert_eq!(found[1].as_ref().unwrap(), &(group, 1));
    assert_eq!(found[3].as_ref().unwrap(), &(group, 2));
    // One row was deleted by the one before, and none was left to the next.
    assert_eq!(found[4].as_ref().unwrap(), &(group, 1));
    assert_eq!(found[5].as_ref().unwrap(), &(None, 0));
    assert_eq!(found[6].as_ref().unwrap(), &(group, 1));
    assert_eq!(found[9].as_ref().unwrap(), &(group, 20));
    assert_eq!(found[10].as_ref().unwrap(), &(group, 1));
    for (at, other, coordinate) in [
        (2, "UPDATE t SET v = 1 WHERE k = 1", "rows of fragment 0"),
        (7, "INSERT INTO t VALUES (200, 7)", "rows where k >= 200 (new rows)"),
        (8, "INSERT INTO t VALUES (200, 7)", "rows where k is 200 (new rows)"),
    ] {
        let Err(Error::Conflict(report)) = &outcomes[at] else { panic!("{:?}", outcomes[at]) };
        assert_eq!((report.coordinate.as_str(), report.other_statement.as_str()), (coordinate, other));
        assert_eq!((report.read_version, report.other_version), (PREPARED, PREPARED + 2));
    }
    let mut expected: Vec<Row> = (0..20)
        .filter(|k| ![3, 4, 5].contains(k))
        .map(|k| (k, [(1, 1), (6, 4)].iter().find(|(key, _)| *key == k).map_or(0, |(_, v)| *v)))
        .collect();
    expected.extend([(100, 0), (200, 7)]);
    assert_eq!(world.rows().await, expected);
    assert_eq!(world.newest().await, PREPARED + 2);
    assert_nothing_left_behind(&world.lake, "t", "a group with collisions").await;
}

/// The changes of the newest version, as key, value before and value after (-1 for none), sorted.
async fn changes(world: &World) -> Vec<(i64, i64, i64)> {
    let session = session_of(&world.lake, 1).await;
    let sql = format!(
        "SELECT k, CASE WHEN _change_type IN ('delete', 'update_preimage') THEN v ELSE 1000 + v END FROM table_changes('t', {})",
        world.newest().await
    );
    let of_kind = |new: i64| move |(k, v): &Row| (*v >= 1000) == (new == 1) && *k >= 0;
    let all = rows(&session, &sql).await;
    let (old, new): (Vec<Row>, Vec<Row>) =
        (all.iter().copied().filter(of_kind(0)).collect(), all.iter().copied().filter(of_kind(1)).collect());
    let mut both: Vec<(i64, i64, i64)> =
        old.iter().map(|(k, v)| (*k, *v, -1)).chain(new.iter().map(|(k, v)| (*k, -1, *v - 1000))).collect();
    both.sort_unstable();
    both
}

#[tokio::test]
async fn each_of_a_group_tells_its_own_changes() {
    let world = World::new().await;
    let session = session_of(&world.lake, 1).await;
    run(&session, "SET amend.update_form = 'columns'").await;
    let mut commits = world.staged(&["INSERT INTO t VALUES (100, 0)".to_owned()]).await;
    commits.push(session.stage("UPDATE t SET v = 5 WHERE k IN (3, 4)").await.unwrap().commit().boxed());
    let others = ["DELETE FROM t WHERE k = 3", "OPTIMIZE t FULL", "UPDATE t SET v = 6 WHERE k = 12", "DELETE FROM t WHERE k IN (13, 3)"];
    commits.extend(world.staged(&others.map(ToOwned::to_owned)).await);
    let outcomes = join_all(commits).await;
    let shared = versions(&outcomes);
    assert_eq!(shared, [PREPARED + 1, PREPARED + 2, PREPARED + 2, PREPARED + 2, PREPARED + 2, PREPARED + 2].map(Some));
    // 3 got a value from the first of them and was deleted by the second; rows that moved are not told.
    let told = changes(&world).await;
    assert_eq!(told, [(3, -1, 5), (3, 0, -1), (3, 5, -1), (4, -1, 5), (4, 0, -1), (12, -1, 6), (12, 0, -1), (13, 0, -1)]);
}

#[tokio::test]
async fn a_statement_that_collides_within_its_group_is_run_again() {
    let world = World::new().await;
    let sessions = join_all((0..8).map(|_| session_of(&world.lake, 1))).await;
    let sql = "UPDATE t SET v = v + 1 WHERE k = 7";
    let outcomes = join_all(sessions.iter().map(|session| change(session, sql))).await;
    assert!(outcomes.iter().all(|changed| changed.count() == 1));
    assert!(outcomes.iter().any(|changed| changed.facts.reran > 0));
    assert_eq!(world.rows().await[7], (7, 8));
    world.landed_once(sql).await;
    assert_nothing_left_behind(&world.lake, "t", sql).await;
}

#[tokio::test]
async fn vectors_too_large_for_the_manifest_are_those_of_all_members() {
    let world = World::new().await;
    let session = session_of(&world.lake, 1).await;
    run(&session, "INSERT INTO t SELECT value, 1 FROM generate_series(1000, 20999)").await;
    // Scattered rows make large vectors; each member adds to the vector of the one before.
    let statements: Vec<String> = (0..5).map(|part| format!("DELETE FROM t WHERE k >= 1000 AND k * 7919 % 31 = {part}")).collect();
    let outcomes = join_all(world.staged(&statements).await).await;
    assert_eq!(versions(&outcomes), [&[Some(5)][..], &[Some(6); 4][..]].concat());
    let left = (1000..21000).filter(|k| k * 7919 % 31 > 4).count();
    assert_eq!(world.rows().await.len(), left + 20);
    let deleted: u64 = outcomes.iter().map(|outcome| outcome.as_ref().unwrap().count()).sum();
    assert_eq!(deleted as usize, 20000 - left);
    assert_nothing_left_behind(&world.lake, "t", "large vectors").await;
}

#[tokio::test]
async fn two_processes_of_groups_come_to_one_history() {
    let world = World::new().await;
    let other = World::over(&world.raw);
    let mut commits = world.staged(&updates(0..10)).await;
    commits.extend(other.staged(&updates(10..20)).await);
    commits.extend(world.staged(&["OPTIMIZE t FULL".to_owned(), "DELETE FROM t WHERE k = 100".to_owned()]).await);
    let outcomes = join_all(commits).await;
    for outcome in &outcomes {
        outcome.as_ref().unwrap();
    }
    assert_eq!(world.rows().await, (0..20).map(|k| (k, 1)).collect::<Vec<Row>>());
    assert!(world.newest().await <= PREPARED + 6, "{} versions", world.newest().await);
    world.landed_once("two processes").await;
    assert_nothing_left_behind(&lake_in(world.raw.clone()), "t", "two processes").await;
}

const ANSWERS: [Answer; 5] = [Answer::AlreadyExists, Answer::Precondition, Answer::NotModified, Answer::Generic, Answer::Timeout];

#[tokio::test]
async fn whatever_the_store_answers_all_of_a_group_land_once() {
    for answer in ANSWERS {
        for fault in [Fault::Before(answer), Fault::After(answer)] {
            for create in 0..3 {
                let world = World::new().await;
                let commits = world.staged(&updates(0..6)).await;
                world.faults.fail_on(OpKind::Create, "_versions", create, fault);
                let case = format!("{fault:?} at create {create}");
                for outcome in join_all(commits).await {
                    assert_eq!(outcome.unwrap_or_else(|error| panic!("{case}: {error}")).count(), 1);
                }
                assert_eq!(world.rows().await, (0..20).map(|k| (k, i64::from(k < 6))).collect::<Vec<Row>>(), "{case}");
                assert_eq!(world.newest().await, PREPARED + 2, "{case}");
                world.landed_once(&case).await;
                assert_nothing_left_behind(&world.lake, "t", &case).await;
            }
        }
    }
}

#[tokio::test]
async fn an_outcome_that_cannot_be_learned_is_unknown_to_all_of_the_group() {
    let world = World::new().await;
    let mut commits = world.staged(&updates(0..4)).await;
    // One that collides within the group is no part of the version, whatever becomes of that.
    commits.extend(world.staged(&["UPDATE t SET v = 9 WHERE k = 3".to_owned()]).await);
    // The group's version comes to be, the answer is lost, and then the store cannot be read.
    world.faults.fail_on(OpKind::Create, "_versions", 1, Fault::CrashAfter);
    let outcomes = join_all(commits).await;
    assert_eq!(outcomes[0].as_ref().unwrap().version, Some(PREPARED + 1));
    for outcome in &outcomes[1..4] {
        assert!(matches!(outcome, Err(Error::OutcomeUnknown { version, .. }) if *version == PREPARED + 2), "{outcome:?}");
    }
    assert_eq!(outcomes[4].as_ref().unwrap_err().kind(), ErrorKind::Unavailable, "{:?}", outcomes[4]);
    assert_eq!(world.rows().await, (0..20).map(|k| (k, i64::from(k < 4))).collect::<Vec<Row>>());
}

#[tokio::test]
async fn a_version_that_does_not_come_to_be_leaves_the_outcome_open_to_all() {
    let world = World::new().await;
    let commits = world.staged(&updates(0..4)).await;
    for create in 1..7 {
        world.faults.fail_on(OpKind::Create, "_versions", create, Fault::Before(Answer::Timeout));
    }
    let outcomes = join_all(commits).await;
    assert_eq!(outcomes[0].as_ref().unwrap().version, Some(PREPARED + 1));
    for outcome in &outcomes[1..] {
        // It may still come to be.
        assert_eq!(outcome.as_ref().unwrap_err().kind(), ErrorKind::Unknown, "{outcome:?}");
    }
    assert_eq!(world.newest().await, PREPARED + 1);
}

/// What is polled so many times and then dropped.
async fn polled<T>(future: &mut Option<BoxFuture<'static, T>>, times: usize) -> Option<T> {
    for _ in 0..times {
        let running = future.as_mut()?;
        if let Poll::Ready(value) = futures::poll!(running) {
            *future = None;
            return Some(value);
        }
        yield_now().await;
    }
    *future = None;
    None
}

#[tokio::test]
async fn who_stops_waiting_takes_nobody_along() {
    // Which of them stops: the first leads alone, the second leads the others, the last is led.
    for who in [0usize, 1, 3] {
        let (mut landed, mut lost) = (0, 0);
        for times in 0.. {
            let world = World::new().await;
            let mut commits: Vec<_> = world.staged(&updates(0..4)).await.into_iter().map(Some).collect();
            // All stand in the queue before the first is done.
            for commit in commits.iter_mut().flatten() {
                assert!(futures::poll!(commit).is_pending());
            }
            let mut stops = commits[who].take();
            let others = join_all(commits.into_iter().flatten());
            let case = format!("{who} stops after {times}");
            let (stopped, others) = tokio::join!(polled(&mut stops, times), others);
            for outcome in others {
                assert_eq!(outcome.unwrap_or_else(|error| panic!("{case}: {error}")).count(), 1, "{case}");
            }
            let found = world.rows().await;
            for (k, v) in found.iter().filter(|(k, _)| *k != who as i64) {
                assert_eq!(*v, i64::from(*k < 4), "{case}: row {k}");
            }
            *if found[who].1 == 1 { &mut landed } else { &mut lost } += 1;
            world.landed_once(&case).await;
            // The session's table goes on.
            change(&session_of(&world.lake, 1).await, "INSERT INTO t VALUES (100, 0)").await;
            if let Some(outcome) = stopped {
                assert_eq!(outcome.unwrap().count(), 1);
                assert_eq!(found[who].1, 1, "{case}");
                break;
            }
        }
        assert!(landed > 1 && lost > 1, "{who}: {landed} landed, {lost} did not");
    }
}

#[tokio::test]
async fn what_was_gathered_for_one_that_fails_is_removed_though_its_group_lands() {
    let world = World::new().await;
    let session = session_of(&world.lake, 1).await;
    for setting in ["SET amend.isolation = 'snapshot'", "SET amend.update_form = 'columns'", "SET amend.rows_per_fragment = 10"] {
        run(&session, setting).await;
    }
    let update = session.stage("UPDATE t SET v = v + 1").await.unwrap();
    change(&session, "OPTIMIZE t ORDER BY (k DESC)").await;
    let inserts: Vec<String> = [100, 101].map(|k| format!("INSERT INTO t VALUES ({k}, 0)")).into();
    let mut commits = world.staged(&inserts).await;
    commits.push(update.commit().boxed());
    // Of its two fragments of values the second cannot be written.
    world.faults.fail_on(OpKind::Put, "data/", 1, Fault::Before(Answer::Generic));
    let outcomes = join_all(commits).await;
    assert_eq!(outcomes[1].as_ref().unwrap().version, Some(PREPARED + 3));
    assert!(matches!(&outcomes[2], Err(Error::Store { operation: "write", .. })), "{:?}", outcomes[2]);
    let expected: Vec<Row> = (0..20).chain([100, 101]).map(|k| (k, 0)).collect();
    assert_eq!(world.rows().await, expected);
    assert_nothing_left_behind(&world.lake, "t", "values that were gathered in vain").await;
}
