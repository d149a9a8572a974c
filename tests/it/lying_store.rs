//! The answer to "create this version" cannot be trusted: it is lost, wrong, late, or another writer was faster. A
//! transaction lands exactly once, and is never said to have failed when it landed or may still land.

use crate::support::{Row, change, lake_in, refused, rows, run, session_of};
use amend::store::ObjectName;
use amend::store::faults::{Answer, Fault, FaultStore, OpKind};
use amend::{Changed, ErrorKind, Outcome};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::sync::{Arc, Mutex};

const ANSWERS: [Answer; 5] = [Answer::AlreadyExists, Answer::Precondition, Answer::NotModified, Answer::Generic, Answer::Timeout];

/// A store in which something happens between the moment when a writer looked and the moment when it creates.
#[derive(Debug)]
struct Meddling {
    inner: FaultStore,
    /// The same store without faults.
    raw: Arc<InMemory>,
    plan: Mutex<Plan>,
}

#[derive(Debug, Clone)]
enum Plan {
    /// Before the first create, somebody else takes the name.
    Rival(Path, Bytes),
    /// The first create in this folder gets no answer, and is done so many operations later.
    Late {
        folder: &'static str,
        operations: usize,
    },
    Waiting {
        operations: usize,
        path: Path,
        payload: PutPayload,
    },
    Done,
}

impl Meddling {
    fn new(raw: &Arc<InMemory>, plan: Plan) -> Arc<Meddling> {
        Arc::new(Meddling { inner: FaultStore::new(raw.clone()), raw: raw.clone(), plan: Mutex::new(plan) })
    }

    fn take_if(&self, wanted: impl Fn(&Plan) -> bool) -> Option<Plan> {
        let mut plan = self.plan.lock().unwrap();
        wanted(&plan).then(|| std::mem::replace(&mut *plan, Plan::Done))
    }

    /// One more operation begins.
    async fn operation(&self) {
        if let Plan::Waiting { operations, .. } = &mut *self.plan.lock().unwrap() {
            *operations = operations.saturating_sub(1);
        }
        self.let_land(|operations| operations == 0).await;
    }

    async fn let_land(&self, now: impl Fn(usize) -> bool) {
        let waiting = self.take_if(|plan| matches!(plan, Plan::Waiting { operations, .. } if now(*operations)));
        if let Some(Plan::Waiting { path, payload, .. }) = waiting {
            let _ = self.raw.put_opts(&path, payload, PutMode::Create.into()).await;
        }
    }
}

impl std::fmt::Display for Meddling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meddling")
    }
}

#[async_trait]
impl ObjectStore for Meddling {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.operation().await;
        if options.mode == PutMode::Create {
            let strikes = |plan: &Plan| match plan {
                Plan::Rival(rivals, _) => rivals == path,
                Plan::Late { folder, .. } => path.as_ref().contains(folder),
                Plan::Waiting { .. } | Plan::Done => false,
            };
            match self.take_if(strikes) {
                Some(Plan::Rival(rivals, bytes)) => {
                    self.raw.put(&rivals, bytes.into()).await.unwrap();
                }
                Some(Plan::Late { operations, .. }) => {
                    *self.plan.lock().unwrap() = Plan::Waiting { operations, path: path.clone(), payload };
                    return Err(StoreError::Generic { store: "Meddling", source: "no answer in time".into() });
                }
                _ => {}
            }
        }
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.operation().await;
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.operation().await;
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.operation().await;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// A lake with a table of two rows, at version 2.
async fn prepared() -> InMemory {
    let objects = Arc::new(InMemory::new());
    let session = session_of(&lake_in(objects.clone()), 1).await;
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
    change(&session, "INSERT INTO t VALUES (1, 10), (2, 20)").await;
    objects.fork()
}

/// The rows and the newest version as a fresh process sees them.
async fn look(objects: &Arc<InMemory>) -> (Vec<Row>, u64) {
    let lake = lake_in(objects.clone());
    let session = session_of(&lake, 1).await;
    let version = lake.table("t").await.unwrap().newest_number().await.unwrap();
    (rows(&session, "SELECT k, v FROM t").await, version)
}

/// Where a version of the table lies in the object store.
async fn slot(objects: &Arc<InMemory>, version: u64) -> Path {
    lake_in(objects.clone()).table("t").await.unwrap().store().location(&ObjectName::version(version))
}

/// Commits `sql` in a copy of the store, and takes everything but the version back: what a rival has done that is about to
/// commit. Returns the version.
async fn rival(objects: &Arc<InMemory>, sql: &str) -> Plan {
    let slot = slot(objects, 3).await;
    change(&session_of(&lake_in(objects.clone()), 1).await, sql).await;
    let bytes = objects.get(&slot).await.unwrap().bytes().await.unwrap();
    objects.delete(&slot).await.unwrap();
    Plan::Rival(slot, bytes)
}

/// What a statement does, alone and after the rival's.
struct Case {
    sql: &'static str,
    alone: &'static [Row],
    rival: &'static str,
    after_rival: &'static [Row],
    /// How many times the engine has to run it again after the rival's.
    reran: u32,
}

const CASES: [Case; 4] = [
    Case {
        sql: "INSERT INTO t VALUES (3, 30)",
        alone: &[(1, 10), (2, 20), (3, 30)],
        rival: "INSERT INTO t VALUES (4, 40)",
        after_rival: &[(1, 10), (2, 20), (3, 30), (4, 40)],
        reran: 0,
    },
    Case {
        sql: "UPDATE t SET v = v + 1 WHERE k = 1",
        alone: &[(1, 11), (2, 20)],
        rival: "UPDATE t SET v = v + 100 WHERE k = 1",
        after_rival: &[(1, 111), (2, 20)],
        reran: 1,
    },
    Case { sql: "DELETE FROM t WHERE k = 1", alone: &[(2, 20)], rival: "OPTIMIZE t FULL", after_rival: &[(2, 20)], reran: 0 },
    Case { sql: "OPTIMIZE t FULL", alone: &[(1, 10), (2, 20)], rival: "DELETE FROM t WHERE k = 2", after_rival: &[(1, 10)], reran: 0 },
];

#[tokio::test]
async fn every_answer_in_every_state_of_the_slot_comes_to_the_one_right_outcome() {
    let prepared = prepared().await;
    for case in &CASES {
        for answer in ANSWERS {
            let told = format!("{}, {answer:?}", case.sql);
            let run_on = async |objects: &Arc<InMemory>, plan: Plan, fault: Fault| {
                let store = Meddling::new(objects, plan);
                store.inner.fail_on(OpKind::Create, "_versions/", 0, fault);
                change(&session_of(&lake_in(store), 1).await, case.sql).await
            };

            let objects = Arc::new(prepared.fork());
            let absent = run_on(&objects, Plan::Done, Fault::Before(answer)).await;
            assert_eq!(look(&objects).await, (case.alone.to_vec(), 3), "{told}, absent");
            assert_eq!((absent.version, absent.facts.attempts, absent.facts.reran), (Some(3), 2, 0), "{told}, absent");

            let objects = Arc::new(prepared.fork());
            let ours = run_on(&objects, Plan::Done, Fault::After(answer)).await;
            assert_eq!(look(&objects).await, (case.alone.to_vec(), 3), "{told}, present and ours");
            assert_eq!((ours.version, ours.facts.attempts, ours.facts.reran), (Some(3), 1, 0), "{told}, present and ours");

            let objects = Arc::new(prepared.fork());
            let plan = rival(&objects, case.rival).await;
            let theirs = run_on(&objects, plan, Fault::Before(answer)).await;
            assert_eq!(look(&objects).await, (case.after_rival.to_vec(), 4), "{told}, present and theirs");
            assert_eq!((theirs.version, theirs.facts.reran), (Some(4), case.reran), "{told}, present and theirs");
            // A statement that ran again read the rival's version.
            assert_eq!(theirs.facts.rebased_over, u64::from(case.reran == 0), "{told}, present and theirs");
        }
    }
}

#[tokio::test]
async fn a_transaction_that_loses_the_slot_to_a_change_of_its_rows_has_no_effect() {
    let prepared = prepared().await;
    for answer in ANSWERS {
        let objects = Arc::new(prepared.fork());
        let plan = rival(&objects, "UPDATE t SET v = v + 100 WHERE k = 1").await;
        let store = Meddling::new(&objects, plan);
        store.inner.fail_on(OpKind::Create, "_versions/", 0, Fault::Before(answer));
        let session = session_of(&lake_in(store), 1).await;
        for sql in ["BEGIN", "UPDATE t SET v = v + 1 WHERE k = 1", "INSERT INTO t VALUES (3, 30)"] {
            run(&session, sql).await;
        }
        assert_eq!(refused(&session, "COMMIT").await.sqlstate(), "40001", "{answer:?}");
        assert_eq!(look(&objects).await, (vec![(1, 110), (2, 20)], 3), "{answer:?}");
    }
}

#[tokio::test]
async fn a_store_that_never_creates_leaves_the_outcome_open() {
    let prepared = prepared().await;
    for answer in ANSWERS {
        let objects = Arc::new(prepared.fork());
        let faults = FaultStore::new(objects.clone());
        (0..100).for_each(|n| faults.fail_on(OpKind::Create, "_versions/", n, Fault::Before(answer)));
        let session = session_of(&lake_in(Arc::new(faults)), 1).await;
        let error = refused(&session, "INSERT INTO t VALUES (3, 30)").await;
        // The store may still do it, for all that is known.
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Unknown, "08007"), "{answer:?}: {error}");
        assert_eq!(look(&objects).await, (vec![(1, 10), (2, 20)], 2), "{answer:?}");
        change(&session_of(&lake_in(objects.clone()), 1).await, "INSERT INTO t VALUES (4, 40)").await;
        assert_eq!(look(&objects).await, (vec![(1, 10), (2, 20), (4, 40)], 3), "{answer:?}");
    }
}

#[tokio::test]
async fn an_unclear_answer_and_a_slot_that_cannot_be_read_is_an_unknown_outcome() {
    let prepared = prepared().await;
    for (fault, expected) in [
        (Fault::After(Answer::Generic), (vec![(1, 10), (2, 20), (3, 30)], 3)),
        (Fault::Before(Answer::Generic), (vec![(1, 10), (2, 20)], 2)),
        (Fault::Before(Answer::AlreadyExists), (vec![(1, 10), (2, 20)], 2)),
    ] {
        let objects = Arc::new(prepared.fork());
        let faults = FaultStore::new(objects.clone());
        let session = session_of(&lake_in(Arc::new(faults.clone())), 1).await;
        // The statement looks whether the slot is there before it creates it; how often, a run without faults says.
        let slot = slot(&objects, 3).await.to_string();
        let looks = {
            let counting = FaultStore::new(Arc::new(prepared.fork()));
            change(&session_of(&lake_in(Arc::new(counting.clone())), 1).await, "INSERT INTO t VALUES (3, 30)").await;
            counting.operations().iter().filter(|(kind, path)| *kind == OpKind::Get && *path == slot).count()
        };
        faults.fail_on(OpKind::Create, "_versions/", 0, fault);
        faults.fail_on(OpKind::Get, &slot, looks, Fault::Before(Answer::Timeout));
        let error = refused(&session, "INSERT INTO t VALUES (3, 30)").await;
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Unknown, "08007"), "{fault:?}: {error}");
        assert!(error.to_string().contains("version 3 of table 't'"), "{error}");
        assert_eq!(look(&objects).await, expected, "{fault:?}");
    }
}

/// The outcome of a statement whose first create in `folder` succeeds so many operations after it got no answer.
async fn landing_late(objects: &Arc<InMemory>, sql: &str, folder: &'static str, operations: usize) -> amend::Result<Outcome> {
    let store = Meddling::new(objects, Plan::Late { folder, operations });
    let outcome = session_of(&lake_in(store.clone()), 1).await.execute(sql).await;
    store.let_land(|_| true).await;
    assert!(matches!(*store.plan.lock().unwrap(), Plan::Done));
    outcome
}

#[tokio::test]
async fn a_late_success_counts_once() {
    let prepared = prepared().await;
    for case in &CASES {
        for operations in 0..8 {
            let objects = Arc::new(prepared.fork());
            let Outcome::Changed(Changed { version, .. }) = landing_late(&objects, case.sql, "_versions/", operations).await.unwrap()
            else {
                panic!("{}", case.sql);
            };
            assert_eq!(version, Some(3), "{}, {operations} operations late", case.sql);
            assert_eq!(look(&objects).await, (case.alone.to_vec(), 3), "{}, {operations} operations late", case.sql);
        }
    }
    for operations in 0..8 {
        for folder in ["_versions/", "_catalog/"] {
            let objects = Arc::new(InMemory::new());
            let create = "CREATE TABLE t AS SELECT value AS k, value AS v FROM generate_series(1, 2)";
            landing_late(&objects, create, folder, operations).await.unwrap();
            assert_eq!(look(&objects).await, (vec![(1, 1), (2, 2)], 1), "{folder} {operations} operations late");
        }
        let objects = Arc::new(prepared.fork());
        landing_late(&objects, "DROP TABLE t", "_catalog/", operations).await.unwrap();
        assert!(lake_in(objects).find("t").await.unwrap().is_none());
        let objects = Arc::new(prepared.fork());
        landing_late(&objects, "ALTER TABLE t RENAME TO u", "_catalog/", operations).await.unwrap();
        assert_eq!(lake_in(objects).table_names().await.unwrap(), ["u".into()], "{operations} operations late");
        let objects = Arc::new(prepared.fork());
        landing_late(&objects, "CREATE SCHEMA s", "_catalog/", operations).await.unwrap();
        assert_eq!(lake_in(objects).namespaces().await.unwrap(), ["public", "s"], "{operations} operations late");
        let objects = Arc::new(prepared.fork());
        landing_late(&objects, "CREATE VIEW w AS SELECT k, v FROM t", "_catalog/", operations).await.unwrap();
        let session = session_of(&lake_in(objects), 1).await;
        assert_eq!(rows(&session, "SELECT k, v FROM w").await, [(1, 10), (2, 20)], "{operations} operations late");
    }
}

#[tokio::test]
async fn a_success_that_may_still_come_is_never_called_a_failure() {
    let prepared = prepared().await;
    let create = "CREATE TABLE u AS SELECT value AS k, value AS v FROM generate_series(1, 2)";
    let mut unknown = 0;
    for (sql, folder) in CASES.iter().map(|case| (case.sql, "_versions/")).chain([(create, "_versions/"), (create, "_catalog/")]) {
        // The store is gone right after the create, or some operations later.
        for operations in 0..6 {
            let objects = Arc::new(prepared.fork());
            let store = Meddling::new(&objects, Plan::Late { folder, operations: usize::MAX });
            let session = session_of(&lake_in(store.clone()), 1).await;
            let before = {
                let dry = Meddling::new(&Arc::new(prepared.fork()), Plan::Done);
                run(&session_of(&lake_in(dry.clone()), 1).await, sql).await;
                let operations = dry.inner.operations();
                operations.iter().position(|(kind, path)| *kind == OpKind::Create && path.contains(folder)).unwrap()
            };
            for n in 0..1000 {
                store.inner.fail_at(before + operations + n, Fault::Before(Answer::Generic));
            }
            let outcome = session.execute(sql).await;
            store.let_land(|_| true).await;
            if let Err(error) = &outcome {
                unknown += usize::from(error.kind() == ErrorKind::Unknown);
                assert!(matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Unavailable), "{sql}: {error}");
                if error.kind() == ErrorKind::Unavailable {
                    assert_eq!(look(&objects).await, (vec![(1, 10), (2, 20)], 2), "{sql}: {error}");
                    assert_eq!(lake_in(objects.clone()).table_names().await.unwrap(), ["t".into()], "{sql}: {error}");
                }
            }
            let lake = lake_in(objects.clone());
            let session = session_of(&lake, 1).await;
            for table in lake.table_names().await.unwrap() {
                // What landed late is whole: nothing of it had been removed.
                rows(&session, &format!("SELECT k, v FROM {table}")).await;
                for version in 1..=lake.table(&table).await.unwrap().newest_number().await.unwrap() {
                    rows(&session, &format!("SELECT k, v FROM {table} VERSION AS OF {version}")).await;
                }
            }
        }
    }
    assert!(unknown >= 10, "{unknown}");
}
