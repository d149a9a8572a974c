//! Reads against rows that others changed: by statistics, then by looking at the rows.

use super::fixture::{Layout, Table};
use crate::manifest::log::VersionLog;
use crate::scan::address::scan_schema;
use crate::scan::keys::Keys;
use crate::scan::read::{JoinKeys, Read};
use crate::table::fragment::Fragment;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, col, lit};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionContext;
use roaring::RoaringBitmap;
use std::sync::Arc;

/// Fragments of keys `0..10`, `10..20` and so on, each with the text of its key; row 3 of each is deleted.
async fn table(fragments: i64) -> Table {
    let schema = Schema::new(vec![Field::new("k", DataType::Int64, true), Field::new("s", DataType::Utf8, true)]);
    let mut table = Table::new(&schema);
    for first in (0..fragments).map(|fragment| fragment * 10) {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter((first..first + 10).map(|key| (key % 10 != 9).then_some(key))));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((first..first + 10).map(|key| key.to_string())));
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![keys, texts]).unwrap();
        table.add(&batch, Layout::groups_of(4), [3]).await;
    }
    table
}

fn physical(table: &Table, context: &SessionContext, expr: Expr) -> Arc<dyn PhysicalExpr> {
    let columns = scan_schema(table.schema.to_plain_arrow()).table_schema().as_ref().clone();
    context.state().create_physical_expr(expr, &DFSchema::try_from(columns).unwrap()).unwrap()
}

fn read(table: &Table, predicate: Option<Expr>, keys: Option<&Arc<Keys>>) -> Read {
    let context = SessionContext::new();
    Read {
        schema: table.schema.clone(),
        fields: table.schema.columns().map(|column| column.id).collect(),
        predicate: predicate.map(|predicate| physical(table, &context, predicate)),
        keys: keys.map(|keys| JoinKeys { of_row: physical(table, &context, col("k")), brought: keys.clone() }),
        minds_deletions: true,
        options: context.state().config().options().clone(),
        runtime: context.runtime_env(),
    }
}

async fn matching(table: &Table, read: &Read, rows: impl Fn(&Fragment) -> RoaringBitmap) -> Vec<String> {
    let log = VersionLog::new("t", table.store.clone());
    let rows: Vec<_> = table.fragments.iter().map(|(fragment, _)| (fragment.clone(), rows(fragment))).collect();
    read.matching(&log, &rows).await.unwrap().iter().map(ToString::to_string).collect()
}

fn all(fragment: &Fragment) -> RoaringBitmap {
    (0..fragment.physical_rows).collect()
}

fn may_match(table: &Table, read: &Read) -> Vec<bool> {
    read.may_match(&table.fragments.iter().map(|(fragment, _)| fragment.clone()).collect::<Vec<_>>()).unwrap()
}

#[tokio::test]
async fn statistics_tell_which_fragments_may_hold_a_row_that_matches() {
    let table = table(3).await;
    assert_eq!(may_match(&table, &read(&table, None, None)), [true, true, true]);
    assert_eq!(may_match(&table, &read(&table, Some(col("k").gt(lit(12i64))), None)), [false, true, true]);
    assert_eq!(may_match(&table, &read(&table, Some(col("k").eq(lit(-1i64))), None)), [false, false, false]);
    // Nothing is known of what is made of a column.
    assert_eq!(may_match(&table, &read(&table, Some((col("k") % lit(7i64)).eq(lit(3i64))), None)), [true, true, true]);
    let keys = Arc::<Keys>::default();
    assert_eq!(may_match(&table, &read(&table, None, Some(&keys))), [false, false, false]);
    keys.note(&(Arc::new(Int64Array::from(vec![21, 25])) as ArrayRef)).unwrap();
    assert_eq!(may_match(&table, &read(&table, None, Some(&keys))), [false, false, true]);
    keys.forgo();
    assert_eq!(may_match(&table, &read(&table, None, Some(&keys))), [true, true, true]);
}

#[tokio::test]
async fn the_predicate_is_evaluated_on_just_the_rows_that_are_given() {
    let table = table(2).await;
    let third = read(&table, Some((col("k") % lit(5i64)).eq(lit(3i64))), None);
    // Deleted rows are looked at like others.
    assert_eq!(matching(&table, &third, all).await, ["0/3", "0/8", "1/3", "1/8"]);
    assert_eq!(matching(&table, &third, |_| [1, 8].into_iter().collect()).await, ["0/8", "1/8"]);
    assert_eq!(matching(&table, &third, |_| [1, 2, 9].into_iter().collect()).await, Vec::<String>::new());
    assert_eq!(matching(&table, &third, |_| RoaringBitmap::new()).await, Vec::<String>::new());
    // NULL is not true.
    assert_eq!(matching(&table, &read(&table, Some(col("k").is_null()), None), all).await, ["0/9", "1/9"]);
    let text = read(&table, Some(col("s").eq(lit("14"))), None);
    assert_eq!(matching(&table, &text, all).await, ["1/4"]);
    assert_eq!(text.describe(), "rows where s = 14");
}

#[tokio::test]
async fn all_rows_are_read_where_nothing_is_asked_and_five_are_named() {
    let table = table(2).await;
    let any = read(&table, None, None);
    assert_eq!(any.describe(), "any row");
    assert_eq!(matching(&table, &any, all).await, ["0/0", "0/1", "0/2", "0/3", "0/4"]);
    let narrow = read(&table, Some(col("k").eq(lit(14i64))), None);
    assert_eq!(matching(&table, &narrow, all).await, ["1/4"]);
    assert_eq!(matching(&table, &narrow.of_all_rows(), |_| [2].into_iter().collect()).await, ["0/2", "1/2"]);
}

#[tokio::test]
async fn keys_that_a_join_brought_are_asked_of_a_row_besides() {
    let table = table(2).await;
    let keys = Arc::<Keys>::default();
    keys.note(&(Arc::new(Int64Array::from(vec![Some(4), None, Some(12), Some(17)])) as ArrayRef)).unwrap();
    assert_eq!(matching(&table, &read(&table, None, Some(&keys)), all).await, ["0/4", "1/2", "1/7"]);
    let both = read(&table, Some(col("k").gt(lit(12i64))), Some(&keys));
    assert_eq!(matching(&table, &both, all).await, ["1/7"]);
    assert_eq!(both.describe(), "rows where k > 12 AND k is one of 3 keys from 4 to 17");
}
