//! Deletions in a later row group, while earlier ones are skipped (a bug that several engines had).

use super::fixture::{Layout, Table, cause, config, lines, sorted_lines};
use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::physical_plan::{ExecutionPlan, metrics::MetricValue};
use std::sync::Arc;

const DELETED: [u32; 3] = [2_500, 7_001, 9_999];

/// One fragment of ten row groups of 1,000 rows; `id` is the offset, `g` the row group.
async fn table(deleted: impl IntoIterator<Item = u32>) -> Table {
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("g", DataType::Int64, false)]);
    let ids = Int64Array::from_iter_values(0..10_000);
    let groups = Int64Array::from_iter_values((0..10_000).map(|id| id / 1_000));
    let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::new(ids), Arc::new(groups)]).unwrap();
    let mut table = Table::new(&schema);
    table.add(&batch, Layout::groups_of(1_000), deleted).await;
    table
}

fn live(wanted: impl Fn(i64) -> bool) -> Vec<i64> {
    (0..10_000).filter(|id| !DELETED.contains(&(*id as u32)) && wanted(*id)).collect()
}

fn ids(batches: &[RecordBatch]) -> Vec<i64> {
    let mut ids: Vec<i64> = lines(batches).iter().map(|line| line.parse().unwrap()).collect();
    ids.sort_unstable();
    ids
}

/// How many row groups were pruned by statistics.
fn pruned(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let own = plan.metrics().into_iter().flat_map(|metrics| metrics.iter().cloned().collect::<Vec<_>>());
    let own: usize = own
        .filter_map(|metric| match metric.value() {
            MetricValue::PruningMetrics { name, pruning_metrics } if name == "row_groups_pruned_statistics" => {
                Some(pruning_metrics.pruned())
            }
            _ => None,
        })
        .sum();
    own + plan.children().into_iter().map(pruned).sum::<usize>()
}

#[tokio::test]
async fn every_subset_of_pruned_row_groups() {
    let mut table = table(DELETED).await;
    for subset in 1..1u32 << 10 {
        table.pushdown_filters = Some(subset % 2 == 0);
        let kept: Vec<String> = (0..10).filter(|group| subset & (1 << group) != 0).map(|group: u32| group.to_string()).collect();
        let context = table.context(config(1));
        let sql = format!("SELECT id FROM t WHERE g IN ({})", kept.join(", "));
        let plan = context.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
        let batches = datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
        assert_eq!(ids(&batches), live(|id| subset & (1 << (id / 1_000)) != 0), "{sql}");
        assert_eq!(pruned(&plan), 10 - kept.len(), "{sql}");
    }
}

#[tokio::test]
async fn a_filter_that_prunes_the_first_groups() {
    let mut table = table(DELETED).await;
    for pushdown in [true, false] {
        table.pushdown_filters = Some(pushdown);
        for partitions in [1, 3, 10] {
            let context = table.context(config(partitions));
            let run = async |sql: &str| sorted_lines(&context.sql(sql).await.unwrap().collect().await.unwrap());
            let found: Vec<i64> = run("SELECT id FROM t WHERE id >= 6500").await.iter().map(|id| id.parse().unwrap()).collect();
            assert_eq!(found, live(|id| id >= 6_500));
            assert_eq!(run("SELECT count(*) FROM t").await, ["9997"]);
            assert_eq!(run("SELECT count(*), min(id), max(id) FROM t WHERE g >= 0").await, ["9997,0,9998"]);
            assert_eq!(run("SELECT id FROM t WHERE id IN (2500, 7001, 9999, 7000)").await, ["7000"]);
        }
    }
}

#[tokio::test]
async fn limits_count_live_rows() {
    let table = table(DELETED).await;
    for partitions in [1, 4, 10] {
        let context = table.context(config(partitions));
        for (limit, expected) in [(1, 1), (2_500, 2_500), (2_501, 2_501), (9_996, 9_996), (9_997, 9_997), (9_998, 9_997), (20_000, 9_997)] {
            let batches = context.sql(&format!("SELECT id FROM t LIMIT {limit}")).await.unwrap().collect().await.unwrap();
            let mut found = ids(&batches);
            assert_eq!(found.len(), expected, "limit {limit}");
            found.dedup();
            assert_eq!(found.len(), expected, "limit {limit}, rows twice");
            assert!(found.iter().all(|id| !DELETED.contains(&(*id as u32))));
        }
        for (sql, expected) in [
            ("SELECT id FROM t WHERE id >= 9990 LIMIT 100", 9),
            ("SELECT id FROM t WHERE g = 7 LIMIT 1000", 999),
            ("SELECT id FROM t WHERE g IN (7, 9) LIMIT 1998", 1_998),
        ] {
            assert_eq!(ids(&context.sql(sql).await.unwrap().collect().await.unwrap()).len(), expected, "{sql}");
        }
    }
}

#[tokio::test]
async fn the_last_rows_first() {
    let table = table(DELETED).await;
    let batches = table.query("SELECT id FROM t ORDER BY id DESC LIMIT 3").await.unwrap();
    assert_eq!(lines(&batches), ["9998", "9997", "9996"]);
    let batches = table.query("SELECT id FROM t ORDER BY id LIMIT 2 OFFSET 2499").await.unwrap();
    assert_eq!(lines(&batches), ["2499", "2501"]);
}

#[tokio::test]
async fn all_rows_deleted() {
    let table = table(0..10_000).await;
    for sql in ["SELECT count(*) FROM t", "SELECT count(*) FROM t WHERE g >= 0", "SELECT count(id) FROM t"] {
        assert_eq!(table.rows(sql).await, ["0"], "{sql}");
    }
    assert_eq!(table.rows("SELECT min(id), max(id) FROM t").await, [","]);
    assert_eq!(table.rows("SELECT * FROM t").await, Vec::<String>::new());
}

#[tokio::test]
async fn dead_row_groups_are_not_read() {
    let dead = (1_000..3_000).chain(9_000..10_000).chain([4_321]);
    let mut table = table(dead).await;
    let live = |id: &i64| !(1_000..3_000).contains(id) && *id < 9_000 && *id != 4_321;
    for pushdown in [true, false] {
        table.pushdown_filters = Some(pushdown);
        for partitions in [1, 7] {
            let context = table.context(config(partitions));
            let batches = context.sql("SELECT id FROM t WHERE id % 2 = 1").await.unwrap().collect().await.unwrap();
            let expected: Vec<i64> = (0..10_000).filter(|id| live(id) && id % 2 == 1).collect();
            assert_eq!(ids(&batches), expected);
            let batches = context.sql("SELECT id FROM t ORDER BY id DESC LIMIT 2").await.unwrap().collect().await.unwrap();
            assert_eq!(ids(&batches), [8_998, 8_999]);
        }
    }
    let context = table.context(config(1));
    let plan = context.sql("SELECT id FROM t").await.unwrap().create_physical_plan().await.unwrap();
    datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
    let masked = plan.metrics().unwrap().sum_by_name("masked_rows").unwrap().as_usize();
    assert_eq!(masked, 1, "only row 4321 was read in vain");
}

#[tokio::test]
async fn row_groups_with_one_live_row() {
    // The last row of group 1, the first of group 4, one in the midst of group 8.
    let kept = [1_999, 4_000, 8_500];
    let table = table((1_000..5_000).chain(8_000..9_000).filter(|row| !kept.contains(row) && row / 1_000 != 3)).await;
    let rows = table.rows("SELECT id FROM t WHERE g IN (1, 2, 4, 8)").await;
    assert_eq!(rows, ["1999", "4000", "8500"]);
    assert_eq!(table.rows("SELECT count(*) FROM t WHERE id >= 0").await, ["6003"]);
}

#[tokio::test]
async fn joins_that_filter_the_scan_while_it_runs() {
    let mut table = table(DELETED).await;
    let sql = "SELECT t.id FROM t JOIN (VALUES (2499), (2500), (7001), (7002), (9999)) AS v(id) ON t.id = v.id";
    for pushdown in [true, false] {
        table.pushdown_filters = Some(pushdown);
        assert_eq!(table.rows(sql).await, ["2499", "7002"]);
    }
    assert_eq!(table.rows("SELECT count(*) FROM t AS a JOIN t AS b ON a.id + 1 = b.id").await, ["9994"]);
}

#[tokio::test]
async fn deletions_that_the_fragment_does_not_know_of_are_refused() {
    let mut table = table(DELETED).await;
    table.fragments[0].1 = None;
    let error = table.query("SELECT id FROM t").await.unwrap_err();
    assert!(cause(&error).unwrap().to_string().contains("0 deleted rows were given for fragment 0, which has 3"), "{error}");
}
