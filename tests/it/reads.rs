//! What a statement reads grows with what it looks for, not with the table: deletion vectors of fragments that cannot hold
//! a row of interest are left alone. What has to be read is not read one by one.

use crate::cancelled::Waiting;
use crate::support::{change, lake_in, rows, run, session_of};
use amend::store::faults::{FaultStore, OpKind};
use chrono::{DateTime, SecondsFormat};
use futures::FutureExt;
use object_store::memory::InMemory;
use std::sync::Arc;

const FRAGMENTS: i64 = 5;
const ROWS: i64 = 20_000;

#[tokio::test]
async fn deletion_vectors_of_pruned_fragments_are_not_read() {
    let objects = Arc::new(InMemory::new());
    let session = session_of(&lake_in(objects.clone()), 1).await;
    run(&session, "CREATE TABLE t (k BIGINT)").await;
    for fragment in 0..FRAGMENTS {
        let first = fragment * ROWS;
        change(&session, &format!("INSERT INTO t SELECT value FROM generate_series({first}, {})", first + ROWS - 1)).await;
    }
    // A vector of every other row is too large for a manifest; one commit each, so one object each.
    for fragment in 0..FRAGMENTS {
        let first = fragment * ROWS;
        let sql = format!("DELETE FROM t WHERE k % 2 = 0 AND k BETWEEN {first} AND {}", first + ROWS - 1);
        assert_eq!(change(&session, &sql).await.count(), ROWS as u64 / 2);
    }

    for (sql, expected, vectors) in [
        (format!("SELECT count(*), 0 FROM t WHERE k BETWEEN {} AND {}", ROWS + 1, ROWS + 10), 5, 1),
        (format!("SELECT count(*), 0 FROM t WHERE k < {ROWS} OR k >= {}", ROWS * (FRAGMENTS - 1)), ROWS, 2),
        ("SELECT count(*), 0 FROM t WHERE k >= 0".to_owned(), ROWS * FRAGMENTS / 2, FRAGMENTS as usize),
    ] {
        // A lake of its own remembers nothing.
        let counted = FaultStore::new(objects.clone());
        let session = session_of(&lake_in(Arc::new(counted.clone())), 1).await;
        let before = counted.operations().len();
        assert_eq!(rows(&session, &sql).await, [(expected, 0)], "{sql}");
        let reads = counted.operations().split_off(before);
        let reads: Vec<_> = reads.iter().filter(|(kind, path)| *kind == OpKind::Get && path.contains("_deletions/")).collect();
        assert_eq!(reads.len(), vectors, "{sql}: {reads:?}");
    }
}

/// How many times a statement of a lake of its own has to wait, where each request is waited for twice.
async fn waits(objects: &Arc<InMemory>, sql: &str, expected: i64) -> usize {
    let session = session_of(&lake_in(Arc::new(Waiting(objects.clone()))), 1).await;
    let mut answer = rows(&session, sql).boxed();
    for waits in 0.. {
        if let std::task::Poll::Ready(rows) = futures::poll!(&mut answer) {
            assert_eq!(rows, [(expected, 0)], "{sql}");
            return waits;
        }
        tokio::task::yield_now().await;
    }
    unreachable!()
}

#[tokio::test]
async fn the_times_of_versions_are_read_many_at_once() {
    const VERSIONS: u64 = 80;
    let objects = Arc::new(InMemory::new());
    let lake = lake_in(objects.clone());
    let session = session_of(&lake, 1).await;
    run(&session, "CREATE TABLE t (k BIGINT)").await;
    // No versions but those of statements.
    run(&session, "SET amend.max_inline_fragments = 0").await;
    for _ in 1..VERSIONS {
        change(&session, "INSERT INTO t VALUES (1)").await;
        // No two of the same time.
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let log = lake.table("t").await.unwrap();
    for version in [2, 30, VERSIONS] {
        let time_ms = i64::try_from(log.read(version).await.unwrap().time_ms).unwrap();
        let time = DateTime::from_timestamp_millis(time_ms).unwrap().to_rfc3339_opts(SecondsFormat::Millis, true);
        let of_number = waits(&objects, &format!("SELECT count(*), 0 FROM t VERSION AS OF {version}"), version as i64 - 1).await;
        let of_time = waits(&objects, &format!("SELECT count(*), 0 FROM t TIMESTAMP AS OF '{time}'"), version as i64 - 1).await;
        // One after another they are waited for twice as often as there are versions.
        assert!(of_time < of_number + 40, "version {version}: {of_time} waits by time, {of_number} by number");
    }
}
