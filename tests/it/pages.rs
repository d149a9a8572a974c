//! Statements on a table whose fragments lie in several pages. Each is run by a process of its own, which has none of them in memory, and
//! read back by another.

use crate::support::{self, Row, lake_in, session_of};
use amend::{Changed, Lake, Outcome, Session};
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::memory::InMemory;
use std::collections::BTreeMap;
use std::sync::Arc;

const ROWS: i64 = 11_000;

// In boxes: a test of so many statements would not fit on its stack.
fn run<'a>(session: &'a Session, sql: &'a str) -> BoxFuture<'a, Outcome> {
    support::run(session, sql).boxed()
}

fn change<'a>(session: &'a Session, sql: &'a str) -> BoxFuture<'a, Changed> {
    support::change(session, sql).boxed()
}

fn rows<'a>(session: &'a Session, sql: &'a str) -> BoxFuture<'a, Vec<Row>> {
    support::rows(session, sql).boxed()
}

fn problems<'a>(session: &'a Session, sql: &'a str) -> BoxFuture<'a, Vec<(String, String)>> {
    support::problems(session, sql).boxed()
}

struct Paged {
    objects: Arc<InMemory>,
    expected: BTreeMap<i64, i64>,
}

impl Paged {
    /// A process that remembers nothing.
    async fn process(&self) -> (Lake, Session) {
        let lake = lake_in(self.objects.clone());
        let session = session_of(&lake, 2).await;
        run(&session, "SET amend.rows_per_fragment = 10").await;
        (lake, session)
    }

    async fn holds(&self, after: &str) {
        let (lake, session) = self.process().await;
        let expected: Vec<Row> = self.expected.iter().map(|(k, v)| (*k, *v)).collect();
        assert_eq!(rows(&session, "SELECT count(*), 0 FROM t").await, [(expected.len() as i64, 0)], "{after}");
        assert!(rows(&session, "SELECT k, v FROM t").await == expected, "{after}");
        let some = expected.iter().copied().filter(|(k, _)| (4_990..5_040).contains(k) || *k == 77).collect::<Vec<_>>();
        assert_eq!(rows(&session, "SELECT k, v FROM t WHERE k BETWEEN 4990 AND 5039 OR k = 77").await, some, "{after}");
        let snapshot = &lake.table("t").await.unwrap().newest().await.unwrap().snapshot;
        assert_eq!(snapshot.live_rows(), expected.len() as u64, "{after}");
    }

    /// Runs a statement that changes so many rows, which `model` changes likewise.
    async fn change(&mut self, before: &str, sql: &str, count: u64, model: impl FnOnce(&mut BTreeMap<i64, i64>)) {
        let (_, session) = self.process().await;
        if !before.is_empty() {
            run(&session, before).await;
        }
        assert_eq!(change(&session, sql).await.count(), count, "{sql}");
        model(&mut self.expected);
        self.holds(sql).await;
    }

    async fn version(&self) -> u64 {
        self.process().await.0.table("t").await.unwrap().newest_number().await.unwrap()
    }
}

#[tokio::test]
async fn statements_load_the_pages_that_they_need() {
    let mut table = Paged { objects: Arc::new(InMemory::new()), expected: (0..ROWS).map(|k| (k, k)).collect() };
    let (lake, session) = table.process().await;
    run(&session, "CREATE TABLE t (k BIGINT, v BIGINT)").await;
    change(&session, &format!("INSERT INTO t SELECT value, value FROM generate_series(0, {})", ROWS - 1)).await;
    let made = lake.table("t").await.unwrap().newest().await.unwrap().snapshot.clone();
    assert_eq!(made.fragments.pages().unwrap().len(), 2);
    assert!(made.fragments.iter().is_err(), "no records are kept with a version");
    table.holds("the beginning").await;

    table.change("", "DELETE FROM t WHERE k % 100 = 3", 110, |rows| rows.retain(|k, _| k % 100 != 3)).await;
    let add = |rows: &mut BTreeMap<i64, i64>| rows.range_mut(5_000..5_031).for_each(|(_, v)| *v += 1);
    table.change("", "UPDATE t SET v = v + 1 WHERE k BETWEEN 5000 AND 5030", 30, add).await;
    let double = |rows: &mut BTreeMap<i64, i64>| rows.range_mut(10_900..).for_each(|(_, v)| *v *= 2);
    table.change("SET amend.update_form = 'columns'", "UPDATE t SET v = v * 2 WHERE k >= 10900", 99, double).await;
    let merge = "MERGE INTO t USING (VALUES (1, 7), (6000, 8), (-5, 9)) AS s (k, v) ON t.k = s.k \
                 WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.v)";
    table.change("", merge, 3, |rows| rows.extend([(1, 7), (6_000, 8), (-5, 9)])).await;

    // Others move the row and delete beside it; the transaction has read what was there before.
    let ((_, one), (_, other)) = (table.process().await, table.process().await);
    run(&one, "BEGIN").await;
    change(&one, "UPDATE t SET v = -1 WHERE k IN (77, 9000)").await;
    change(&other, "OPTIMIZE t FULL WHERE k < 500").await;
    change(&other, "DELETE FROM t WHERE k = 9001").await;
    let facts = change(&one, "COMMIT").await.facts;
    assert!(facts.rows_carried > 0 && facts.rebased_over == 2, "{facts:?}");
    table.expected.extend([(77, -1), (9_000, -1)]);
    table.expected.remove(&9_001);
    table.holds("a transaction over a rewrite").await;

    let version = table.version().await;
    let kept = table.expected.clone();
    let (_, session) = table.process().await;
    run(&session, "ALTER TABLE t ADD COLUMN w BIGINT DEFAULT 1").await;
    change(&table.process().await.1, "UPDATE t SET w = 2 WHERE k = 6001").await;
    run(&table.process().await.1, "ALTER TABLE t DROP COLUMN w").await;
    table.holds("a column that came and went").await;
    // Whole fragments go: more than a tail holds.
    let gone = table.expected.range(2_000..6_000).count() as u64;
    table.change("", "DELETE FROM t WHERE k BETWEEN 2000 AND 5999", gone, |rows| rows.retain(|k, _| !(2_000..6_000).contains(k))).await;
    let changed = format!("SELECT count(*), 0 FROM table_changes('t', {version}) WHERE _change_type = 'delete'");
    let (_, session) = table.process().await;
    assert_eq!(rows(&session, &changed).await, [(gone as i64, 0)]);
    let (lake, session) = table.process().await;
    let fragments = lake.table("t").await.unwrap().newest().await.unwrap().snapshot.fragments.len() as i64;
    assert_eq!(rows(&session, "SELECT count(*), 0 FROM table_fragments('t')").await, [(fragments, 0)]);

    let (_, session) = table.process().await;
    run(&session, &format!("RESTORE t TO VERSION AS OF {version}")).await;
    table.expected = kept;
    table.holds("RESTORE").await;
    assert_eq!(problems(&table.process().await.1, "VERIFY t").await, []);
    let (_, session) = table.process().await;
    run(&session, "SET amend.allow_short_retention = true").await;
    run(&session, "VACUUM t RETAIN 0 HOURS").await;
    table.holds("VACUUM").await;
    let all = table.expected.len() as u64;
    table.change("", "TRUNCATE t", all, BTreeMap::clear).await;
    assert_eq!(problems(&table.process().await.1, "VERIFY t ALL VERSIONS").await, []);
}
