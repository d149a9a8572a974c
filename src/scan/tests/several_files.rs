//! Fragments whose columns lie in several files. (What such scans answer, the oracle checks.)

use super::fixture::{Layout, Table, cause, config, lines};
use crate::Error;
use crate::store::ObjectName;
use crate::table::schema::{Field, TableSchema};
use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Schema};
use std::sync::Arc;

const ROWS: i64 = 5_000;

fn rows(b: impl Fn(i64) -> i64) -> RecordBatch {
    let schema = Schema::new(vec![
        ArrowField::new("a", DataType::Int64, false),
        ArrowField::new("b", DataType::Int64, true),
        ArrowField::new("c", DataType::Utf8, true),
    ]);
    let b = Int64Array::from_iter_values((0..ROWS).map(b));
    let c = StringArray::from_iter_values((0..ROWS).map(|row| format!("c{row}")));
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from_iter_values(0..ROWS)), Arc::new(b), Arc::new(c)]).unwrap()
}

/// A fragment whose `b` was 7 everywhere, and is now twice `a`, in a file of its own.
async fn table() -> Table {
    let old = rows(|_| 7);
    let mut table = Table::new(&old.schema());
    table.add(&old, Layout::groups_of(1_000), [3, 4]).await;
    table.move_columns(&["b"], &rows(|row| 2 * row), Layout::groups_of(1_700)).await;
    table
}

async fn plan(table: &Table, sql: &str) -> String {
    let batches = table.context(config(2)).sql(&format!("EXPLAIN {sql}")).await.unwrap().collect().await.unwrap();
    lines(&batches).join("\n")
}

async fn lose(table: &Table, file: usize) {
    table.store.delete(&ObjectName::parse(&table.fragments[0].0.files[file].path).unwrap()).await.unwrap();
}

#[tokio::test]
async fn values_come_from_the_file_that_backs_their_field() {
    let table = table().await;
    assert_eq!(
        table.rows("SELECT a, b, c, __amend_fragment, __amend_offset FROM t WHERE a < 6").await,
        ["0,0,c0,0,0", "1,2,c1,0,1", "2,4,c2,0,2", "5,10,c5,0,5"]
    );
    assert_eq!(table.rows("SELECT count(*), sum(b), min(b), max(b) FROM t").await, [format!("4998,{},0,9998", ROWS * (ROWS - 1) - 14)]);
    assert_eq!(table.rows("SELECT a FROM t WHERE b = 7").await, Vec::<String>::new());
    assert_eq!(table.rows("SELECT c FROM t WHERE b = 9000").await, ["c4500"]);
}

#[tokio::test]
async fn filters_that_are_pushed_into_the_scan_are_applied() {
    let mut table = table().await;
    table.pushdown_filters = Some(true);
    assert_eq!(table.rows("SELECT a FROM t WHERE b % 1000 = 0 AND c <> 'c0' AND a < 1600").await, ["1000", "1500", "500"]);
    assert!(!plan(&table, "SELECT a FROM t WHERE b > 1000").await.contains("FilterExec"));
    // What could fail on a deleted row is evaluated on the others.
    assert!(plan(&table, "SELECT a FROM t WHERE 1000 / b > 0").await.contains("FilterExec"));
}

#[tokio::test]
async fn only_the_files_that_are_needed_are_read() {
    let table = table().await;
    let zipped = "side_by_side=1 fragments";
    assert!(plan(&table, "SELECT a, b FROM t").await.contains(zipped));
    for sql in ["SELECT a, c FROM t", "SELECT b FROM t WHERE b > 5", "SELECT sum(b), max(__amend_offset) FROM t"] {
        assert!(!plan(&table, sql).await.contains(zipped), "{sql}");
    }
    lose(&table, 0).await;
    assert_eq!(table.rows("SELECT sum(b) FROM t").await, [(ROWS * (ROWS - 1) - 14).to_string()]);
    let error = table.query("SELECT a, b FROM t").await.unwrap_err();
    assert!(matches!(cause(&error), Some(Error::Damaged { object, .. }) if *object == table.fragments[0].0.files[0].path), "{error:?}");
}

#[tokio::test]
async fn a_dead_slot_is_not_read() {
    let mut table = table().await;
    Arc::make_mut(&mut table.fragments[0].0).files.truncate(1);
    assert_eq!(table.rows("SELECT a, b FROM t WHERE a IN (0, 9)").await, ["0,", "9,"]);
    assert_eq!(table.rows("SELECT count(*), count(b) FROM t").await, ["4998,0"]);
    assert_eq!(table.rows("SELECT count(*) FROM t WHERE b IS NULL AND c > 'c'").await, ["4998"]);
}

#[tokio::test]
async fn columns_are_found_by_id_under_todays_names() {
    let mut table = table().await;
    let swapped = |name: &str| match name {
        "a" => "b".to_owned(),
        "b" => "a".to_owned(),
        other => other.to_owned(),
    };
    let fields = table.schema.fields().iter().map(|field| Field { name: swapped(&field.name), ..field.clone() });
    table.schema = Arc::new(TableSchema::new(fields.collect()).unwrap());
    assert_eq!(table.rows("SELECT b, a, c FROM t WHERE b IN (2, 5)").await, ["2,4,c2", "5,10,c5"]);
}

#[tokio::test]
async fn files_of_other_rows_than_the_fragments_are_named() {
    for row_groups in [vec![1_700, 1_700], vec![1_700, 1_700, 1_599, 1]] {
        let mut table = table().await;
        Arc::make_mut(&mut table.fragments[0].0).files[1].row_groups = row_groups;
        let error = table.query("SELECT a, b FROM t").await.unwrap_err();
        let Some(Error::Damaged { object, reason, .. }) = cause(&error) else { panic!("{error:?}") };
        assert_eq!(*object, table.fragments[0].0.files[1].path);
        assert!(reason.contains("row groups"), "{reason}");
        assert!(table.query("SELECT a, c FROM t").await.is_ok(), "the file is not needed");
    }
}

#[tokio::test]
async fn fragments_of_one_file_are_read_as_ever_beside_others() {
    let mut table = table().await;
    table.add(&rows(|row| row), Layout::groups_of(1_000), []).await;
    let found = table.rows("SELECT __amend_fragment, count(*), sum(b) FROM t WHERE a >= 10 GROUP BY __amend_fragment").await;
    let sum: i64 = (10..ROWS).sum();
    assert_eq!(found, [format!("0,4990,{}", 2 * sum), format!("1,4990,{sum}")]);
}
