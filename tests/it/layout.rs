//! Rewrites that sort: how rows lie in the files afterwards, within the memory that there is, and the same every time.

use crate::support::{change, lake_in, run, session_of};
use amend::plan::layout::{Order, OrderKey};
use amend::plan::optimize::{self, Wanted};
use amend::store::ObjectName;
use amend::{Lake, Session};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::execution::context::{SessionConfig, SessionContext};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use object_store::memory::InMemory;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The rows of each fragment of a table of two numbers, as they lie in its file, in the order of fragments. There must be
/// no deleted ones.
async fn fragments(lake: &Lake) -> Vec<Vec<(i64, i64)>> {
    let log = lake.table("t").await.unwrap();
    let version = log.newest().await.unwrap();
    let mut found = Vec::new();
    for fragment in version.snapshot.fragments.iter().unwrap() {
        assert_eq!((fragment.files.len(), fragment.deleted_rows()), (1, 0));
        let bytes = log.store().read(&ObjectName::parse(&fragment.files[0].path).unwrap()).await.unwrap();
        let mut rows = Vec::new();
        for batch in ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().build().unwrap() {
            let batch = batch.unwrap();
            let (a, b) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_primitive::<Int64Type>());
            rows.extend(a.values().iter().copied().zip(b.values().iter().copied()));
        }
        found.push(rows);
    }
    found
}

/// A table of so many rows in fragments of a thousand, in no order.
async fn table(lake: &Lake, rows: i64, partitions: usize) -> Session {
    let session = session_of(lake, partitions).await;
    run(&session, "CREATE TABLE t (a BIGINT NOT NULL, b BIGINT NOT NULL)").await;
    run(&session, "SET amend.rows_per_fragment = 1000").await;
    let insert = format!("INSERT INTO t SELECT value * 7919 % {rows}, value * 104729 % 97 FROM generate_series(0, {})", rows - 1);
    change(&session, &insert).await;
    session
}

#[tokio::test]
async fn rows_are_sorted_within_and_among_fragments_and_always_in_the_same_way() {
    let mut layouts = BTreeSet::new();
    for partitions in [1, 3, 3, 3] {
        let lake = Lake::memory();
        let session = table(&lake, 10_000, partitions).await;
        let mut before: Vec<(i64, i64)> = fragments(&lake).await.concat();
        change(&session, "OPTIMIZE t ORDER BY (b DESC, a)").await;
        let after = fragments(&lake).await;
        assert_eq!(after.iter().map(Vec::len).collect::<Vec<_>>(), [1000; 10]);
        before.sort_by_key(|(a, b)| (-b, *a));
        assert!(after.concat() == before);
        change(&session, "OPTIMIZE t ZORDER BY (a, b)").await;
        layouts.insert(fragments(&lake).await);
    }
    assert_eq!(layouts.len(), 1);
}

#[tokio::test]
async fn a_z_order_keeps_fragments_small_in_every_column() {
    let lake = Lake::memory();
    let session = table(&lake, 10_000, 2).await;
    change(&session, "OPTIMIZE t ZORDER BY (a, b)").await;
    let fragments = fragments(&lake).await;
    assert_eq!(fragments.iter().flatten().collect::<BTreeSet<_>>().len(), 10_000);
    // How many fragments may hold a value, on average: all ten without any order.
    let overlap = |value: fn(&(i64, i64)) -> i64, all: i64| {
        let width = |rows: &Vec<(i64, i64)>| {
            let values = || rows.iter().map(value);
            values().max().unwrap() - values().min().unwrap() + 1
        };
        fragments.iter().map(width).sum::<i64>() as f64 / all as f64
    };
    let (by_a, by_b) = (overlap(|row| row.0, 10_000), overlap(|row| row.1, 97));
    assert!(by_a < 5.0 && by_b < 5.0, "{by_a} {by_b}");
}

#[tokio::test]
async fn fragments_of_several_groups_come_in_the_order_of_what_they_replace() {
    let lake = Lake::memory();
    let session = session_of(&lake, 4).await;
    run(&session, "CREATE TABLE t (a BIGINT NOT NULL, b BIGINT NOT NULL)").await;
    run(&session, "SET amend.rows_per_fragment = 10").await;
    for round in 0..8 {
        change(&session, &format!("INSERT INTO t SELECT value + {round} * 10, 0 FROM generate_series(0, 9)")).await;
    }
    for _ in 0..5 {
        change(&session, "OPTIMIZE t FULL").await;
        assert_eq!(fragments(&lake).await.concat(), (0..80).map(|a| (a, 0)).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn an_order_that_is_there_already_costs_no_positions() {
    let lake = Lake::memory();
    let session = table(&lake, 5_000, 2).await;
    change(&session, "OPTIMIZE t ORDER BY (a)").await;
    change(&session, "OPTIMIZE t ORDER BY (a) FULL").await;
    let log = lake.table("t").await.unwrap();
    let mut kept = Vec::new();
    for version in [3, 4] {
        let version = log.read(version).await.unwrap();
        let change = version.transactions[0].transaction.actions().find_map(|action| action.change_of_address()).unwrap();
        assert_eq!(change.order.as_deref(), Some("ORDER BY 1"));
        kept.push(log.map(&change.map).await.unwrap().keeps_order());
    }
    assert_eq!(kept, [false, true]);
}

/// How often the sorts of a plan went to disk.
fn spills(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.spill_count()).unwrap_or(0);
    own + plan.children().into_iter().map(spills).sum::<usize>()
}

#[tokio::test]
async fn a_sort_that_does_not_fit_into_memory_goes_to_disk() {
    let lake = lake_in(Arc::new(InMemory::new()));
    let session = table(&lake, 200_000, 2).await;
    let wanted = |order| Wanted { order: Some(order), ..Wanted::default() };
    let key = |column: &str| OrderKey { column: column.into(), descending: false, nulls_first: false };
    // The rows alone take 5 MB in memory, their new places 1.6 MB.
    let pool = |size_bytes| RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(size_bytes))).build_arc().unwrap();
    let optimize = async |size_bytes: usize, wanted: Wanted| {
        let mut config = SessionConfig::new().with_target_partitions(2).with_batch_size(1024).with_sort_spill_reservation_bytes(256 * 1024);
        config.options_mut().execution.sort_in_place_threshold_bytes = 64 * 1024;
        let context = SessionContext::new_with_config_rt(config, pool(size_bytes));
        amend::install(&context, &lake).unwrap();
        let log = lake.table("t").await.unwrap();
        let base = log.newest().await.unwrap();
        let plan = optimize::plan(&context.state(), &log, base, &wanted, "OPTIMIZE t".into()).await.unwrap();
        collect(plan.clone(), context.task_ctx()).await.map(|_| spills(&plan))
    };
    for order in [Order::By(vec![key("a")]), Order::Z(vec!["b".into(), "a".into()])] {
        let by_a = order == Order::By(vec![key("a")]);
        let spilled = optimize(6_000_000, wanted(order)).await.unwrap();
        assert!(spilled > 0, "the sort fitted into memory");
        let mut found = fragments(&lake).await.concat();
        assert_eq!(found.is_sorted(), by_a);
        found.sort_unstable();
        assert!(found.iter().map(|row| row.0).eq(0..200_000));
    }
    // Where even the places do not fit, it fails in good order.
    let error = amend::Error::from(optimize(1_000_000, wanted(Order::By(vec![key("a")]))).await.unwrap_err());
    assert_eq!(error.sqlstate(), "53200", "{error}");
    crate::support::assert_nothing_left_behind(&lake, "t", "a sort without memory").await;
    change(&session, "DELETE FROM t WHERE a = 7").await;
}
