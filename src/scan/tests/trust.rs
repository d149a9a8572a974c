//! What DataFusion answers from statistics instead of rows, where rows are deleted.

use super::fixture::{Layout, Table, config};
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, StructArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::physical_plan::displayable;
use std::sync::Arc;

/// One fragment of columns `a` (Int64), `s` (Utf8) and `f` (Float64).
async fn table(rows: &[(Option<i64>, Option<&str>, Option<f64>)], deleted: impl IntoIterator<Item = u32>) -> Table {
    let schema = Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("f", DataType::Float64, true),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<Float64Array>()),
    ];
    let batch = RecordBatch::try_new(Arc::new(schema.clone()), columns).unwrap();
    let mut table = Table::new(&schema);
    table.add(&batch, Layout::groups_of(50), deleted).await;
    table
}

async fn is_answered_from_statistics(table: &Table, sql: &str) -> bool {
    let plan = table.context(config(2)).sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    !displayable(plan.as_ref()).indent(false).to_string().contains("DataSourceExec")
}

#[tokio::test]
async fn counts_are_of_live_rows_and_read_nothing() {
    let rows: Vec<_> = (0..200).map(|a| (Some(a), Some("x"), Some(1.5))).collect();
    let table = table(&rows, [0, 100, 199]).await;
    assert_eq!(table.rows("SELECT count(*) FROM t").await, ["197"]);
    assert!(is_answered_from_statistics(&table, "SELECT count(*) FROM t").await);
    assert_eq!(table.rows("SELECT count(a), count(s), count(f) FROM t").await, ["197,197,197"]);
    assert_eq!(table.rows("SELECT count(*) FROM t WHERE a >= 100").await, ["98"]);
}

#[tokio::test]
async fn extremes_of_deleted_rows_are_not_answered() {
    let rows: Vec<_> = (0..200).map(|a| (Some(a), Some(if a == 199 { "zz" } else { "m" }), Some(a as f64))).collect();
    let whole = table(&rows, []).await;
    assert_eq!(whole.rows("SELECT min(a), max(a) FROM t").await, ["0,199"]);
    assert!(is_answered_from_statistics(&whole, "SELECT min(a), max(a) FROM t").await);
    let holed = table(&rows, [0, 199]).await;
    assert_eq!(holed.rows("SELECT min(a), max(a), min(s), max(s), min(f), max(f) FROM t").await, ["1,198,m,m,1.0,198.0"]);
    assert!(!is_answered_from_statistics(&holed, "SELECT min(a) FROM t").await);
}

#[tokio::test]
async fn bounds_that_are_cut_or_rounded_are_not_answered() {
    let long = "y".repeat(500);
    let whole = table(&[(Some(1), Some(&long), Some(0.0)), (Some(2), Some("a"), Some(-1.0))], []).await;
    assert_eq!(whole.rows("SELECT max(s) FROM t").await, [long.as_str()]);
    assert_eq!(whole.rows(&format!("SELECT a FROM t WHERE s >= '{}'", "y".repeat(400))).await, ["1"]);
    assert_eq!(whole.rows(&format!("SELECT a FROM t WHERE s = '{long}'")).await, ["1"]);
    // Parquet has -0 as the least of zeros: the column holds none.
    let zero = table(&[(Some(1), None, Some(0.0)), (Some(2), None, Some(0.0))], []).await;
    assert_eq!(zero.rows("SELECT min(f), max(f) FROM t").await, ["0.0,0.0"]);
    assert_eq!(zero.rows("SELECT f FROM t").await, ["0.0", "0.0"]);
}

#[tokio::test]
async fn a_column_that_is_null_in_all_live_rows() {
    // Rows 0 to 9 have values and are deleted.
    let rows: Vec<_> = (0..100).map(|a| if a < 10 { (Some(a), Some("v"), Some(2.0)) } else { (None, None, None) }).collect();
    let mut table = table(&rows, 0..10).await;
    for pushdown in [true, false] {
        table.pushdown_filters = Some(pushdown);
        assert_eq!(table.rows("SELECT count(*), count(a), count(s), max(a) FROM t").await, ["90,0,0,"]);
        assert_eq!(table.rows("SELECT count(*) FROM t WHERE a IS NULL").await, ["90"]);
        assert_eq!(table.rows("SELECT count(*) FROM t WHERE a IS NOT NULL").await, ["0"]);
        assert_eq!(table.rows("SELECT count(*) FROM t WHERE s IS NULL OR a = 3").await, ["90"]);
    }
}

#[tokio::test]
async fn a_column_whose_nulls_are_as_many_as_the_live_rows() {
    // 50 NULLs, 40 of them deleted with 10 values: 50 live rows, 10 NULL. Counted together they would look all NULL.
    let rows: Vec<_> = (0..100).map(|a| if a < 50 { (None, None, None) } else { (Some(a), Some("v"), Some(2.0)) }).collect();
    let mut table = table(&rows, (0..40).chain(50..60)).await;
    for pushdown in [true, false] {
        table.pushdown_filters = Some(pushdown);
        assert_eq!(table.rows("SELECT count(*), count(a), count(s), min(a), sum(a) FROM t").await, ["50,40,40,60,3180"]);
        assert_eq!(table.rows("SELECT count(*) FROM t WHERE a IS NULL").await, ["10"]);
        assert_eq!(table.rows("SELECT count(*) FROM t WHERE a > 0").await, ["40"]);
        assert_eq!(table.rows("SELECT a FROM t ORDER BY a DESC NULLS LAST LIMIT 2").await, ["98", "99"]);
    }
}

#[tokio::test]
async fn a_column_that_is_constant_in_all_rows_but_deleted_ones() {
    let rows: Vec<_> = (0..60).map(|row| (Some(if row == 7 { 99 } else { 5 }), Some("c"), None)).collect();
    let table = table(&rows, [7]).await;
    assert_eq!(table.rows("SELECT min(a), max(a), count(a) FROM t").await, ["5,5,59"]);
    assert_eq!(table.rows("SELECT count(*) FROM t WHERE a = 99").await, ["0"]);
    assert_eq!(table.rows("SELECT DISTINCT a, s, f FROM t").await, ["5,c,"]);
}

/// Row groups of 1 to 99 with a NaN at 50, and of 101 to 199; `s.f` is the same as `f`. The bounds of the manifest are as the writer
/// has them that saw NaN, or did not.
async fn with_nan(saw_nan: bool) -> Table {
    let float = Field::new("f", DataType::Float64, true);
    let schema =
        Schema::new(vec![Field::new("a", DataType::Int64, false), float.clone(), Field::new_struct("s", vec![float.clone()], false)]);
    let values: Float64Array = (1..=200).map(|a| Some(if a == 50 { f64::NAN } else { f64::from(a) })).collect();
    let values: ArrayRef = Arc::new(values);
    let mut table = Table::new(&schema);
    let batch_schema = table.schema.to_arrow();
    let DataType::Struct(parts) = batch_schema.field(2).data_type().clone() else { unreachable!() };
    let nested = StructArray::new(parts, vec![Arc::clone(&values)], None);
    let ids = Int64Array::from_iter_values(1..=200);
    let batch = RecordBatch::try_new(batch_schema, vec![Arc::new(ids), values, Arc::new(nested)]).unwrap();
    table.add(&batch, Layout { group_rows: 100, page_rows: 10, page_index: true }, [150]).await;
    if saw_nan {
        let stats = &mut Arc::make_mut(&mut table.fragments[0].0).files[0].columns[1].stats;
        (stats.min, stats.max) = (None, None);
    }
    table
}

#[tokio::test]
async fn nan_is_found_although_bounds_pass_over_it() {
    let mut table = with_nan(true).await;
    for pushdown in [true, false] {
        table.pushdown_filters = Some(pushdown);
        for (sql, expected) in [
            ("SELECT a FROM t WHERE f > 1000", vec!["50"]),
            ("SELECT a FROM t WHERE f = 'NaN'::double", vec!["50"]),
            ("SELECT a FROM t WHERE s['f'] > 1000", vec!["50"]),
            ("SELECT a FROM t WHERE f > 198 AND a < 100", vec!["50"]),
            ("SELECT max(f), count(f) FROM t", vec!["NaN,199"]),
            ("SELECT a FROM t ORDER BY f DESC LIMIT 2", vec!["200", "50"]),
            ("SELECT a FROM t WHERE NOT (f <= 199)", vec!["200", "50"]),
        ] {
            assert_eq!(table.rows(sql).await, expected, "{sql}, pushdown {pushdown}");
        }
    }
}

#[tokio::test]
async fn floats_without_nan_still_prune() {
    let table = with_nan(false).await;
    let explained = table.rows("EXPLAIN ANALYZE SELECT a FROM t WHERE f > 150").await.join("\n");
    assert!(explained.contains("row_groups_pruned_statistics=2 total → 1 matched"), "{explained}");
    let table = with_nan(true).await;
    let explained = table.rows("EXPLAIN ANALYZE SELECT a FROM t WHERE f > 150").await.join("\n");
    assert!(explained.contains("row_groups_pruned_statistics=2 total → 2 matched"), "{explained}");
    let explained = table.rows("EXPLAIN ANALYZE SELECT a FROM t WHERE a > 150").await.join("\n");
    assert!(explained.contains("row_groups_pruned_statistics=2 total → 1 matched"), "{explained}");
}

#[tokio::test]
async fn a_limit_below_an_aggregate() {
    let rows: Vec<_> = (0..200).map(|a| (Some(a), None, None)).collect();
    let table = table(&rows, [0, 1]).await;
    assert_eq!(table.rows("SELECT count(*) FROM (SELECT a FROM t LIMIT 3)").await, ["3"]);
    assert_eq!(table.rows("SELECT count(*), min(a) FROM (SELECT a FROM t ORDER BY a LIMIT 3)").await, ["3,2"]);
}
