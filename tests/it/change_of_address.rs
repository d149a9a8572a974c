//! Updates and deletes meet a compaction that was planned before them, and the other way round: nothing that was deleted
//! comes back, nothing that was updated keeps its old value, and nobody fails.
//!
//! ```text
//!   stage OPTIMIZE  |  UPDATE one row, DELETE another  |  commit      deletions are carried through our own map
//!   stage UPDATE, DELETE  |  OPTIMIZE, once or twice   |  commit      rows are followed through theirs
//! ```

use crate::support::{Row, assert_nothing_left_behind, change, rows, run, session_of};
use amend::commit::publish;
use amend::plan::layout::{Order, OrderKey};
use amend::plan::optimize::{self, Wanted};
use amend::stage::scope::SessionScope;
use amend::{Lake, Session};
use datafusion::execution::context::{SessionConfig, SessionContext};
use datafusion::physical_plan::collect;
use std::sync::Arc;
use tempfile::TempDir;

/// A table of so many fragments of so many rows: keys from 0, values ten times as large.
async fn table(lake: &Lake, fragments: i64, rows_per_fragment: i64) -> Session {
    let session = session_of(lake, 1).await;
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
    run(&session, &format!("SET amend.rows_per_fragment = {rows_per_fragment}")).await;
    let last = fragments * rows_per_fragment - 1;
    change(&session, &format!("INSERT INTO t SELECT value, value * 10 FROM generate_series(0, {last})")).await;
    run(&session, "SET amend.rows_per_fragment = 1000000").await;
    let log = lake.table("t").await.unwrap();
    assert_eq!(log.newest().await.unwrap().snapshot.fragments.len() as i64, fragments);
    session
}

/// The rows of such a table after one was updated to -1 and another deleted.
fn expected(count: i64, updated: i64, deleted: i64) -> Vec<Row> {
    (0..count).filter(|k| *k != deleted).map(|k| (k, if k == updated { -1 } else { k * 10 })).collect()
}

/// First, last and inner rows of the first, the last and an inner fragment.
fn positions(fragments: i64, rows_per_fragment: i64) -> Vec<i64> {
    let mut found: Vec<i64> = [0, fragments / 2, fragments - 1]
        .into_iter()
        .flat_map(|fragment| [0, 1, rows_per_fragment - 1].map(|offset| fragment * rows_per_fragment + offset))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn pairs(positions: &[i64]) -> impl Iterator<Item = (i64, i64)> {
    positions.iter().flat_map(|a| positions.iter().map(|b| (*a, *b))).filter(|(a, b)| a != b)
}

/// `OPTIMIZE` is planned and run, a row is updated, another deleted, and then `OPTIMIZE` commits.
async fn staged_compaction(fragments: i64, rows_per_fragment: i64, updated: i64, deleted: i64) {
    let lake = Lake::memory();
    let session = table(&lake, fragments, rows_per_fragment).await;
    let compaction = session.stage("OPTIMIZE t FULL").await.unwrap();
    assert_eq!(compaction.read_version(), 2);
    assert_eq!(change(&session, &format!("UPDATE t SET v = -1 WHERE k = {updated}")).await.version, Some(3));
    assert_eq!(change(&session, &format!("DELETE FROM t WHERE k = {deleted}")).await.version, Some(4));
    let committed = compaction.commit().await.unwrap();
    let case = format!("{fragments} fragments, updated {updated}, deleted {deleted}");
    assert_eq!(committed.version, Some(5), "{case}");
    assert_eq!((committed.facts.rebased_over, committed.facts.rows_carried), (2, 2), "{case}");
    assert_eq!((committed.facts.groups_dropped, committed.facts.attempts), (0, 1), "{case}");
    assert_eq!(committed.counts.moved, (fragments * rows_per_fragment) as u64, "{case}");
    let found = expected(fragments * rows_per_fragment, updated, deleted);
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, found, "{case}");
    // What the row was before cannot be found by its old value either.
    let old = rows(&session, &format!("SELECT k, v FROM t WHERE v = {} OR k = {deleted}", updated * 10)).await;
    assert_eq!(old, [], "{case}");
    assert_eq!(rows(&session, "SELECT k, v FROM t VERSION AS OF 4").await, found, "{case}");
    let fragments_now = lake.table("t").await.unwrap().newest().await.unwrap().snapshot.fragments.len();
    assert_eq!(fragments_now, 2, "{case}: the rewritten rows and the updated one");
    assert_nothing_left_behind(&lake, "t", &case).await;
}

#[tokio::test]
async fn a_compaction_carries_what_was_changed_while_it_ran_at_every_position() {
    let all: Vec<i64> = (0..9).collect();
    for (updated, deleted) in pairs(&all) {
        staged_compaction(3, 3, updated, deleted).await;
    }
}

#[tokio::test]
async fn a_compaction_of_one_fragment_carries_what_was_changed_while_it_ran() {
    for (updated, deleted) in pairs(&positions(1, 5)) {
        staged_compaction(1, 5, updated, deleted).await;
    }
}

#[tokio::test]
async fn a_compaction_of_forty_fragments_carries_what_was_changed_while_it_ran() {
    for (updated, deleted) in pairs(&positions(40, 5)) {
        staged_compaction(40, 5, updated, deleted).await;
    }
}

/// How an UPDATE and a DELETE are held back.
#[derive(Debug, Clone, Copy)]
enum Held {
    /// Each is staged and committed by itself.
    Staged,
    /// Both are in one transaction.
    Transaction,
}

/// A row is updated and another deleted, but not committed; others compact once or twice; then they commit.
async fn staged_changes(fragments: i64, rows_per_fragment: i64, updated: i64, deleted: i64, held: Held, compactions: u64) {
    let lake = Lake::memory();
    let session = table(&lake, fragments, rows_per_fragment).await;
    let other = session_of(&lake, 1).await;
    let (update, delete) = (format!("UPDATE t SET v = -1 WHERE k = {updated}"), format!("DELETE FROM t WHERE k = {deleted}"));
    let case = format!("{fragments} fragments, updated {updated}, deleted {deleted}, {held:?}, {compactions} compactions");
    let compact = async || {
        for _ in 0..compactions {
            let compacted = change(&other, "OPTIMIZE t FULL").await;
            assert_eq!(compacted.counts.moved, (fragments * rows_per_fragment) as u64, "{case}");
        }
    };
    match held {
        Held::Staged => {
            let (update, delete) = (session.stage(&update).await.unwrap(), session.stage(&delete).await.unwrap());
            compact().await;
            let (update, delete) = (update.commit().await.unwrap(), delete.commit().await.unwrap());
            assert_eq!((update.facts.rebased_over, update.facts.rows_carried), (compactions, compactions), "{case}");
            assert_eq!((delete.facts.rebased_over, delete.facts.rows_carried), (compactions + 1, compactions), "{case}");
            assert_eq!((update.counts.updated, delete.counts.deleted), (1, 1), "{case}");
        }
        Held::Transaction => {
            run(&session, "BEGIN").await;
            change(&session, &update).await;
            change(&session, &delete).await;
            compact().await;
            let own = rows(&session, "SELECT k, v FROM t").await;
            assert_eq!(own, expected(fragments * rows_per_fragment, updated, deleted), "{case}");
            let both = change(&session, "COMMIT").await;
            assert_eq!((both.facts.rebased_over, both.facts.rows_carried), (compactions, 2 * compactions), "{case}");
            assert_eq!((both.counts.updated, both.counts.deleted), (1, 1), "{case}");
        }
    }
    assert_eq!(rows(&other, "SELECT k, v FROM t").await, expected(fragments * rows_per_fragment, updated, deleted), "{case}");
    assert_nothing_left_behind(&lake, "t", &case).await;
}

#[tokio::test]
async fn changes_follow_a_compaction_at_every_position() {
    let all: Vec<i64> = (0..9).collect();
    for (updated, deleted) in pairs(&all) {
        staged_changes(3, 3, updated, deleted, Held::Transaction, 1).await;
    }
}

#[tokio::test]
async fn changes_follow_two_compactions() {
    for (fragments, rows_per_fragment) in [(1, 5), (3, 3), (40, 2)] {
        for (updated, deleted) in pairs(&positions(fragments, rows_per_fragment)) {
            staged_changes(fragments, rows_per_fragment, updated, deleted, Held::Transaction, 2).await;
        }
    }
}

#[tokio::test]
async fn staged_statements_follow_compactions() {
    for (fragments, rows_per_fragment) in [(1, 5), (3, 3), (40, 2)] {
        for (updated, deleted) in pairs(&positions(fragments, rows_per_fragment)) {
            for compactions in 1..=2 {
                staged_changes(fragments, rows_per_fragment, updated, deleted, Held::Staged, compactions).await;
            }
        }
    }
}

#[tokio::test]
async fn a_compaction_into_many_fragments_is_followed() {
    // Each group of the rewrite makes several fragments, so rows change their place in the order of fragments too.
    for (updated, deleted) in pairs(&positions(4, 6)) {
        let lake = Lake::memory();
        let session = table(&lake, 4, 6).await;
        let other = session_of(&lake, 2).await;
        run(&other, "SET amend.rows_per_fragment = 5").await;
        change(&session, "DELETE FROM t WHERE k % 6 = 2").await;
        if [updated, deleted].iter().any(|k| k % 6 == 2) {
            continue;
        }
        run(&session, "BEGIN").await;
        change(&session, &format!("UPDATE t SET v = -1 WHERE k = {updated}")).await;
        change(&session, &format!("DELETE FROM t WHERE k = {deleted}")).await;
        change(&other, "OPTIMIZE t FULL").await;
        let compaction = other.stage("OPTIMIZE t FULL").await.unwrap();
        let both = change(&session, "COMMIT").await;
        assert_eq!((both.facts.rebased_over, both.facts.rows_carried), (1, 2));
        let facts = compaction.commit().await.unwrap().facts;
        assert_eq!((facts.rebased_over, facts.rows_carried, facts.groups_dropped), (1, 2, 0));
        let mut left = expected(24, updated, deleted);
        left.retain(|(k, _)| k % 6 != 2);
        assert_eq!(rows(&session, "SELECT k, v FROM t").await, left, "updated {updated}, deleted {deleted}");
        assert_nothing_left_behind(&lake, "t", "many fragments").await;
    }
}

#[tokio::test]
async fn fragments_that_lose_their_last_row_while_they_are_moved_stay_away() {
    let lake = Lake::memory();
    let session = table(&lake, 3, 2).await;
    let compaction = session.stage("OPTIMIZE t FULL").await.unwrap();
    change(&session, "DELETE FROM t WHERE k IN (2, 3)").await;
    change(&session, "UPDATE t SET v = -1 WHERE k IN (0, 1)").await;
    let committed = compaction.commit().await.unwrap();
    // Fragments without a live row are gone from the table; their rows are carried nevertheless.
    assert_eq!((committed.facts.rebased_over, committed.facts.rows_carried), (2, 4));
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, [(0, -1), (1, -1), (4, 40), (5, 50)]);
    assert_nothing_left_behind(&lake, "t", "a source that is gone").await;

    let compaction = session.stage("OPTIMIZE t FULL").await.unwrap();
    change(&session, "TRUNCATE TABLE t").await;
    let committed = compaction.commit().await.unwrap();
    assert_eq!(committed.facts.rows_carried, 4);
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, []);
    assert_eq!(lake.table("t").await.unwrap().newest().await.unwrap().snapshot.fragments.len(), 0);
    assert_nothing_left_behind(&lake, "t", "a table emptied while it was moved").await;
}

#[tokio::test]
async fn two_compactions_of_the_same_fragments_do_not_both_land() {
    let lake = Lake::memory();
    let session = table(&lake, 3, 3).await;
    let compaction = session.stage("OPTIMIZE t FULL").await.unwrap();
    change(&session, "OPTIMIZE t FULL").await;
    change(&session, "DELETE FROM t WHERE k = 4").await;
    let committed = compaction.commit().await.unwrap();
    assert_eq!((committed.version, committed.facts.groups_dropped), (None, 1));
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, (0..9).filter(|k| *k != 4).map(|k| (k, k * 10)).collect::<Vec<_>>());
    assert_nothing_left_behind(&lake, "t", "a compaction that was given up").await;
}

#[tokio::test]
async fn a_compaction_of_which_others_were_first_everywhere_plans_again() {
    let by_v = Order::By(vec![OrderKey { column: "v".into(), descending: true, nulls_first: true }]);
    for order in [None, Some(by_v), Some(Order::Z(vec!["v".into(), "k".into()]))] {
        let lake = Lake::memory();
        let session = table(&lake, 3, 3).await;
        let context = SessionContext::new();
        amend::install(&context, &lake).unwrap();
        let log = lake.table("t").await.unwrap();
        // It ends with the plan; what it read is overtaken before it runs.
        let wanted = Wanted { full: true, order, ..Wanted::default() };
        let base = log.newest().await.unwrap();
        let plan = optimize::plan(&context.state(), &log, base, &wanted, "OPTIMIZE t FULL".into()).await.unwrap();
        change(&session, "OPTIMIZE t FULL").await;
        change(&session, "DELETE FROM t WHERE k = 4").await;
        collect(plan, context.task_ctx()).await.unwrap();
        let newest = log.newest().await.unwrap();
        let (landed, version) = (&newest.transactions[0], newest.snapshot.version);
        assert_eq!((landed.transaction.read_version, landed.facts.reran, landed.facts.groups_dropped), (version - 1, 1, 0));
        assert_eq!(landed.transaction.steps[0].counts.moved, 8);
        assert_eq!(rows(&session, "SELECT k, v FROM t").await, (0..9).filter(|k| *k != 4).map(|k| (k, k * 10)).collect::<Vec<_>>());
        assert_nothing_left_behind(&lake, "t", "a compaction that was planned again").await;
    }
}

/// A compaction that is staged by a context of its own, as a background service would.
async fn compaction_staged_elsewhere(lake: &Lake) -> amend::stage::scope::StagedStatement {
    let scope = Arc::new(SessionScope::default());
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1).with_extension(scope.clone()));
    amend::install(&context, lake).unwrap();
    let log = lake.table("t").await.unwrap();
    let base = log.newest().await.unwrap();
    scope.begin_statement("OPTIMIZE t FULL", true, 0);
    let plan =
        optimize::plan(&context.state(), &log, base, &Wanted { full: true, ..Wanted::default() }, "OPTIMIZE t FULL".into()).await.unwrap();
    collect(plan, context.task_ctx()).await.unwrap();
    scope.take_staged().unwrap()
}

#[tokio::test]
async fn a_compaction_planned_at_version_5_and_committed_by_another_handle_carries_the_delete_of_version_6() {
    let folder = TempDir::new().unwrap();
    let staged = {
        let lake = Lake::open(folder.path()).unwrap();
        let session = table(&lake, 2, 3).await;
        for k in [6, 7, 8] {
            change(&session, &format!("INSERT INTO t VALUES ({k}, {})", k * 10)).await;
        }
        let staged = compaction_staged_elsewhere(&lake).await.staged;
        assert_eq!(staged.transaction.read_version, 5);
        staged
    };
    let lake = Lake::open(folder.path()).unwrap();
    let session = session_of(&lake, 1).await;
    assert_eq!(change(&session, "DELETE FROM t WHERE k = 4").await.version, Some(6));

    let reopened = Lake::open(folder.path()).unwrap();
    let log = reopened.table("t").await.unwrap();
    // This handle has never seen version 5: the newest is all that it knows.
    assert_eq!(log.newest().await.unwrap().snapshot.version, 6);
    let committed = publish(&log, staged, 0).await.unwrap();
    assert_eq!(committed.version, Some(7));
    assert_eq!((committed.facts.rebased_over, committed.facts.rows_carried, committed.facts.groups_dropped), (1, 1, 0));
    let left: Vec<Row> = (0..9).filter(|k| *k != 4).map(|k| (k, k * 10)).collect();
    for lake in [lake, reopened, Lake::open(folder.path()).unwrap()] {
        let session = session_of(&lake, 1).await;
        assert_eq!(rows(&session, "SELECT k, v FROM t").await, left);
        assert_eq!(rows(&session, "SELECT k, v FROM t VERSION AS OF 5").await.len(), 9);
    }
    assert_nothing_left_behind(&Lake::open(folder.path()).unwrap(), "t", "a compaction through another handle").await;
}

#[tokio::test]
async fn a_compaction_outlives_the_session_and_the_lake_that_staged_it() {
    let folder = TempDir::new().unwrap();
    let compaction = {
        let lake = Lake::open(folder.path()).unwrap();
        let session = table(&lake, 3, 3).await;
        session.stage("OPTIMIZE t FULL").await.unwrap()
    };
    let lake = Lake::open(folder.path()).unwrap();
    let session = session_of(&lake, 1).await;
    change(&session, "UPDATE t SET v = -1 WHERE k = 8").await;
    change(&session, "DELETE FROM t WHERE k = 0").await;
    let committed = compaction.commit().await.unwrap();
    assert_eq!((committed.facts.rebased_over, committed.facts.rows_carried), (2, 2));
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, expected(9, 8, 0));
}
