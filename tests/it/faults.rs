//! A store that fails, loses its answers or is gone in the middle of a statement: the table is as it was before or as it
//! should be after, it is the latter if and only if that was reported, and it can be used.
//!
//! ```text
//!   run the scenario once           -> its operations, in order
//!   for each of them, for each fault -> a copy of the store, the scenario again, then a look without faults
//! ```

use crate::support::{Row, change, lake_in, named_objects, rows, run, session_of};
use amend::store::faults::{Answer, Fault, FaultStore, OpKind};
use amend::{Error, ErrorKind, Lake};
use futures::future::BoxFuture;
use futures::{FutureExt, TryStreamExt};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is tried on a table.
struct Scenario {
    name: &'static str,
    /// Statements that come before, without faults.
    before: &'static [&'static str],
    /// Folders of which it must be sure that it writes to them.
    writes: &'static [&'static str],
    /// What is done under faults; `rival` is the same lake without them.
    act: for<'a> fn(faulty: &'a Lake, rival: &'a Lake) -> BoxFuture<'a, amend::Result<()>>,
}

/// One statement in a session of its own.
async fn statement(lake: &Lake, sql: &str) -> amend::Result<()> {
    session_of(lake, 1).await.execute(sql).await.map(drop)
}

/// A table of three fragments, some of whose rows are deleted.
const TABLE: &[&str] = &[
    "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)",
    "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)",
    "INSERT INTO t VALUES (4, 40), (5, 50), (6, 60)",
    "DELETE FROM t WHERE k IN (2, 5)",
    "INSERT INTO t VALUES (7, 70), (8, 80)",
];

/// A table of a large fragment and small ones.
const LARGE_TABLE: &[&str] = &[
    "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)",
    "INSERT INTO t SELECT value, value AS v FROM generate_series(1, 20000)",
    "INSERT INTO t VALUES (20001, 0), (20251, 0)",
    "INSERT INTO t VALUES (20002, 0), (20252, 0)",
];

/// The same table with many rows deleted.
const WORN_TABLE: &[&str] =
    &[LARGE_TABLE[0], LARGE_TABLE[1], LARGE_TABLE[2], LARGE_TABLE[3], "DELETE FROM t WHERE k <= 20000 AND k * k % 7 = 1"];

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "INSERT",
        before: TABLE,
        writes: &["_versions/"],
        act: |lake, _| statement(lake, "INSERT INTO t VALUES (9, 90), (10, 100)").boxed(),
    },
    Scenario {
        name: "UPDATE",
        before: TABLE,
        writes: &["_versions/"],
        act: |lake, _| statement(lake, "UPDATE t SET v = v + 1 WHERE k > 2").boxed(),
    },
    Scenario {
        name: "DELETE",
        before: TABLE,
        writes: &["_versions/"],
        act: |lake, _| statement(lake, "DELETE FROM t WHERE k IN (3, 7)").boxed(),
    },
    Scenario {
        name: "MERGE",
        before: TABLE,
        writes: &["_versions/"],
        act: |lake, _| {
            let merge = "MERGE INTO t USING (VALUES (1, 11), (4, 44), (9, 99)) AS s (k, v) ON t.k = s.k \
                         WHEN MATCHED AND t.k = 4 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v \
                         WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)";
            statement(lake, merge).boxed()
        },
    },
    Scenario { name: "OPTIMIZE", before: TABLE, writes: &["_versions/"], act: |lake, _| statement(lake, "OPTIMIZE t FULL").boxed() },
    Scenario {
        name: "a transaction",
        before: TABLE,
        writes: &["_versions/"],
        act: |lake, _| {
            async move {
                let session = session_of(lake, 1).await;
                for sql in ["BEGIN", "UPDATE t SET v = 0 WHERE k = 1", "DELETE FROM t WHERE k = 3", "OPTIMIZE t FULL", "COMMIT"] {
                    if let Err(error) = session.execute(sql).await {
                        // COMMIT has ended it already.
                        let _ = session.execute("ROLLBACK").await;
                        return Err(error);
                    }
                }
                Ok(())
            }
            .boxed()
        },
    },
    Scenario {
        name: "OPTIMIZE while others delete",
        before: TABLE,
        writes: &["_versions/"],
        act: |lake, rival| {
            async move {
                let staged = session_of(lake, 1).await.stage("OPTIMIZE t FULL").await;
                statement(rival, "DELETE FROM t WHERE k IN (1, 8)").await.unwrap();
                staged?.commit().await.map(drop)
            }
            .boxed()
        },
    },
    Scenario {
        name: "DELETE while others compact",
        before: TABLE,
        writes: &["_versions/"],
        act: |lake, rival| {
            async move {
                let staged = session_of(lake, 1).await.stage("DELETE FROM t WHERE k IN (1, 8)").await;
                statement(rival, "OPTIMIZE t FULL").await.unwrap();
                staged?.commit().await.map(drop)
            }
            .boxed()
        },
    },
    Scenario {
        name: "DELETE with a large vector",
        before: LARGE_TABLE,
        writes: &["_versions/", "_deletions/"],
        act: |lake, _| statement(lake, "DELETE FROM t WHERE (k <= 20000 AND k * k % 7 = 1) OR k > 20250").boxed(),
    },
    Scenario {
        name: "OPTIMIZE with a large map",
        before: WORN_TABLE,
        writes: &["_moves/"],
        act: |lake, _| statement(lake, "OPTIMIZE t").boxed(),
    },
    Scenario {
        name: "INSERT of many fragments, with a page and a transaction beside the manifest",
        before: TABLE,
        writes: &["_versions/", "_pages/", "_transactions/", "data/"],
        act: |lake, _| {
            async move {
                let session = session_of(lake, 1).await;
                session.execute("SET amend.rows_per_fragment = 1").await?;
                session.execute("INSERT INTO t SELECT value, value AS v FROM generate_series(11, 810)").await.map(drop)
            }
            .boxed()
        },
    },
    Scenario {
        name: "ALTER TABLE",
        before: TABLE,
        writes: &["_versions/"],
        act: |lake, _| statement(lake, "ALTER TABLE t ADD COLUMN w BIGINT").boxed(),
    },
    Scenario {
        name: "CREATE TABLE AS",
        before: &[],
        writes: &["_versions/"],
        act: |lake, _| statement(lake, "CREATE TABLE t AS SELECT value AS k, value AS v FROM generate_series(1, 9)").boxed(),
    },
    Scenario {
        name: "CREATE TABLE",
        before: &[],
        writes: &["_versions/"],
        act: |lake, _| statement(lake, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").boxed(),
    },
    Scenario { name: "DROP TABLE", before: TABLE, writes: &["_catalog/"], act: |lake, _| statement(lake, "DROP TABLE t").boxed() },
    Scenario { name: "RENAME", before: TABLE, writes: &["_catalog/"], act: |lake, _| statement(lake, "ALTER TABLE t RENAME TO u").boxed() },
];

/// A table as a fresh process sees it: the newest version and the rows of all; `None` if there is no table.
#[derive(Debug, Clone, PartialEq)]
struct Seen(Option<Vec<Vec<Row>>>);

async fn look(objects: &Arc<InMemory>) -> Seen {
    let lake = lake_in(objects.clone());
    let session = session_of(&lake, 1).await;
    let Some(log) = lake.find("t").await.unwrap() else { return Seen(None) };
    let mut versions = Vec::new();
    for version in 1..=log.newest_number().await.unwrap() {
        versions.push(rows(&session, &format!("SELECT k, v FROM t VERSION AS OF {version}")).await);
    }
    assert_eq!(&rows(&session, "SELECT k, v FROM t").await, versions.last().unwrap());
    Seen(Some(versions))
}

/// Objects that nothing names, in all folders: the catalog's tables, and folders of tables that it does not have.
async fn left_behind(objects: &Arc<InMemory>) -> Vec<String> {
    let lake = lake_in(objects.clone());
    let mut named = BTreeSet::new();
    for table in lake.table_names().await.unwrap() {
        let log = lake.table(&table).await.unwrap();
        named.extend(named_objects(&log).await.iter().map(|name| format!("{}/{name}", log.store().label())));
    }
    let all: Vec<_> = objects.list(None).try_collect().await.unwrap();
    let all = all.into_iter().map(|meta| format!("test:/{}", meta.location));
    all.filter(|name| !named.contains(name) && !name.starts_with("test:/_catalog/") && !name.ends_with("/_versions/_hint")).collect()
}

async fn prepared(scenario: &Scenario) -> InMemory {
    let objects = Arc::new(InMemory::new());
    let session = session_of(&lake_in(objects.clone()), 1).await;
    for sql in scenario.before {
        run(&session, sql).await;
    }
    objects.fork()
}

struct Trial {
    objects: Arc<InMemory>,
    faults: FaultStore,
}

impl Trial {
    fn on(prepared: &InMemory) -> Trial {
        let objects = Arc::new(prepared.fork());
        Trial { faults: FaultStore::new(objects.clone()), objects }
    }

    async fn act(&self, scenario: &Scenario) -> amend::Result<()> {
        (scenario.act)(&lake_in(Arc::new(self.faults.clone())), &lake_in(self.objects.clone())).await
    }

    /// A statement of somebody else, later.
    async fn still_usable(&self, seen: &Seen, case: &str) {
        let session = session_of(&lake_in(self.objects.clone()), 1).await;
        let expected = match &seen.0 {
            None => {
                run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
                vec![]
            }
            Some(versions) => versions.last().unwrap().clone(),
        };
        change(&session, "INSERT INTO t (k, v) VALUES (1000000, 0)").await;
        change(&session, "OPTIMIZE t FULL").await;
        let after = rows(&session, "SELECT k, v FROM t").await;
        assert_eq!(after, [expected, vec![(1_000_000, 0)]].concat(), "{case}");
    }
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Says what was not as it should be.
async fn every_operation_fails_once(scenario: &Scenario) -> Vec<String> {
    let prepared = prepared(scenario).await;
    let trial = Trial::on(&prepared);
    trial.act(scenario).await.unwrap();
    let operations = trial.faults.operations();
    let after = look(&trial.objects).await;
    // A rival's change is there either way.
    let rival_alone = Trial::on(&prepared);
    rival_alone.faults.fail_at(0, Fault::CrashBefore);
    let _ = rival_alone.act(scenario).await;
    let before = look(&rival_alone.objects).await;
    assert!(before != after, "{}", scenario.name);
    for folder in scenario.writes {
        assert!(operations.iter().any(|(_, path)| path.contains(folder)), "{} writes nothing in {folder}", scenario.name);
    }

    let faults = [Fault::Before(Answer::Generic), Fault::After(Answer::Generic), Fault::CrashBefore, Fault::CrashAfter, Fault::ShortWrite];
    let mut wrong = Vec::new();
    for (at, (kind, path)) in operations.iter().enumerate() {
        // Of a long row of like operations, the first and the last ones say it all.
        let alike = |other: usize| operations.get(other).is_some_and(|(k, p)| k == kind && folder(p) == folder(path));
        if at >= 2 && (at - 2..=at + 2).all(alike) {
            continue;
        }
        for fault in faults {
            // Objects are written in one piece or not at all: a store that leaves half of a manifest is not one that amend can be used on.
            if fault == Fault::ShortWrite && *kind == OpKind::Create {
                continue;
            }
            let case = format!("{}: operation {at} of {} ({kind:?} {path}), {fault:?}", scenario.name, operations.len());
            let trial = Trial::on(&prepared);
            trial.faults.fail_at(at, fault);
            let outcome = trial.act(scenario).await;
            let seen = look(&trial.objects).await;
            let told = match &outcome {
                Ok(()) => "success".to_owned(),
                Err(error) => format!("{:?} ({error})", error.kind()),
            };
            let right = match outcome.as_ref().map_err(Error::kind) {
                Ok(()) => seen == after,
                Err(ErrorKind::Unknown) => seen == before || seen == after,
                Err(ErrorKind::Unavailable) => seen == before,
                Err(_) => false,
            };
            if !right {
                let state = if seen == before {
                    "before"
                } else if seen == after {
                    "after"
                } else {
                    "neither"
                };
                wrong.push(format!("{case}: told {told}, the table is as {state}"));
            }
            let crashes = matches!(fault, Fault::CrashBefore | Fault::CrashAfter);
            let certain = !matches!(&outcome, Err(error) if error.kind() == ErrorKind::Unknown);
            // The folder of a table that was dropped stays, for those who read it.
            let dropped = before.0.is_some() && seen.0.is_none();
            if !crashes && certain && *kind != OpKind::Delete && !dropped {
                let left = left_behind(&trial.objects).await;
                if !left.is_empty() {
                    wrong.push(format!("{case}: told {told}, left behind {left:?}"));
                }
            }
            trial.still_usable(&seen, &case).await;
        }
    }
    println!("{}: {} operations", scenario.name, operations.len());
    wrong
}

#[tokio::test]
async fn every_operation_of_every_statement_fails_once() {
    let mut wrong = Vec::new();
    for scenario in SCENARIOS {
        wrong.extend(every_operation_fails_once(scenario).await);
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}
