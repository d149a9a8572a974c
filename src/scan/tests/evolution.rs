//! Files that were written when the table had other columns.

use super::fixture::{Layout, Table, cause, config, fragment, sorted_lines, write};
use crate::Error;
use crate::table::row_address::FragmentId;
use crate::table::schema::{Field, FieldId, FieldType, PARQUET_FIELD_ID, TableSchema};
use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, StructArray};
use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Schema};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

fn column(id: i32, name: &str, data_type: DataType) -> Field {
    Field {
        id: FieldId(id),
        parent: None,
        name: name.into(),
        field_type: FieldType::Leaf(data_type),
        nullable: true,
        metadata: BTreeMap::new(),
    }
}

fn arrow(columns: &[Field]) -> Schema {
    TableSchema::new(columns.to_vec()).unwrap().to_arrow().as_ref().clone()
}

fn batch(schema: &Schema, columns: Vec<ArrayRef>) -> RecordBatch {
    RecordBatch::try_new(Arc::new(schema.clone()), columns).unwrap()
}

/// Files of two schemas: in the first `b` (2) and `a` (1, Int32); in the second, which is today's, `c` (2, the old `b`), a new
/// `a` (3, Int64), and `w` (1, the old `a`, now Int64).
async fn renamed() -> Table {
    let old = arrow(&[column(1, "a", DataType::Int32), column(2, "b", DataType::Int64)]);
    let new = arrow(&[column(3, "a", DataType::Int64), column(2, "c", DataType::Int64), column(1, "w", DataType::Int64)]);
    let mut table = Table::new(&new);
    table.schema = Arc::new(
        TableSchema::new(vec![column(3, "a", DataType::Int64), column(2, "c", DataType::Int64), column(1, "w", DataType::Int64)]).unwrap(),
    );
    let rows = batch(&old, vec![Arc::new(Int32Array::from(vec![1, 2, 3, 4])), Arc::new(Int64Array::from(vec![10, 20, 30, 40]))]);
    let file = write(&table.store, &rows, Layout::groups_of(2)).await;
    table.fragments.push(fragment(FragmentId(0), file, [3].into_iter().collect()));
    let rows = batch(
        &new,
        vec![
            Arc::new(Int64Array::from(vec![100, 200])),
            Arc::new(Int64Array::from(vec![50, 60])),
            Arc::new(Int64Array::from(vec![Some(5), None])),
        ],
    );
    let file = write(&table.store, &rows, Layout::groups_of(2)).await;
    table.fragments.push(fragment(FragmentId(1), file, Default::default()));
    table
}

#[tokio::test]
async fn columns_are_found_by_id_and_not_by_name() {
    let mut table = renamed().await;
    for pushdown in [true, false] {
        table.pushdown_filters = Some(pushdown);
        for (sql, expected) in [
            ("SELECT a, c, w FROM t", vec![",10,1", ",20,2", ",30,3", "100,50,5", "200,60,"]),
            ("SELECT c FROM t WHERE c >= 20 AND c < 60", vec!["20", "30", "50"]),
            ("SELECT c FROM t WHERE a IS NULL", vec!["10", "20", "30"]),
            ("SELECT c FROM t WHERE a = 1", vec![]),
            ("SELECT c FROM t WHERE a > 100", vec!["60"]),
            ("SELECT w FROM t WHERE w BETWEEN 2 AND 5", vec!["2", "3", "5"]),
            ("SELECT c FROM t WHERE w IS NULL", vec!["60"]),
            ("SELECT a + c FROM t WHERE a IS NOT NULL", vec!["150", "260"]),
            ("SELECT count(*), count(a), sum(c), min(w), max(w) FROM t", vec!["5,2,170,1,5"]),
            ("SELECT __amend_fragment, __amend_offset, c FROM t WHERE c > 20", vec!["0,2,30", "1,0,50", "1,1,60"]),
        ] {
            assert_eq!(table.rows(sql).await, expected, "{sql}, pushdown {pushdown}");
        }
        for (sql, expected) in [
            ("SELECT c FROM t ORDER BY a DESC NULLS LAST, c LIMIT 3", vec!["10", "50", "60"]),
            ("SELECT a FROM t ORDER BY c DESC LIMIT 3", vec!["", "100", "200"]),
            ("SELECT w FROM t ORDER BY w DESC NULLS LAST LIMIT 1", vec!["5"]),
        ] {
            assert_eq!(sorted_lines(&table.query(sql).await.unwrap()), expected, "{sql}, pushdown {pushdown}");
        }
    }
}

#[tokio::test]
async fn a_filter_on_a_renamed_column_prunes_row_groups() {
    let table = renamed().await;
    let context = table.context(config(1));
    let explained = context.sql("EXPLAIN ANALYZE SELECT c FROM t WHERE c < 20").await.unwrap().collect().await.unwrap();
    let explained = sorted_lines(&explained).join("\n");
    assert!(explained.contains("row_groups_pruned_statistics=2 total → 1 matched"), "{explained}");
}

#[tokio::test]
async fn text_is_read_as_the_table_has_it() {
    let mut table = Table::new(&arrow(&[column(1, "new", DataType::Utf8View)]));
    let old = arrow(&[column(1, "old", DataType::Utf8)]);
    let rows = batch(&old, vec![Arc::new(StringArray::from(vec![Some("x"), None, Some("zz")]))]);
    let file = write(&table.store, &rows, Layout::groups_of(2)).await;
    table.fragments.push(fragment(FragmentId(0), file, Default::default()));
    let batches = table.query("SELECT new FROM t WHERE new > 'a'").await.unwrap();
    assert_eq!(sorted_lines(&batches), ["x", "zz"]);
    assert_eq!(batches[0].schema().field(0).data_type(), &DataType::Utf8View);
}

/// A table of one struct column, and a fragment whose struct has these parts.
async fn nested(table: &[(i32, &str)], file: &[(i32, &str)]) -> Table {
    let schema_of = |parts: &[(i32, &str)]| {
        let mut fields = vec![Field { field_type: FieldType::Struct, ..column(1, "s", DataType::Null) }];
        let parts = parts.iter().map(|(id, name)| Field { parent: Some(FieldId(1)), ..column(*id, name, DataType::Int64) });
        fields.extend(parts);
        TableSchema::new(fields).unwrap()
    };
    let written = schema_of(file).to_arrow();
    let DataType::Struct(fields) = written.field(0).data_type().clone() else { unreachable!() };
    let values = file.iter().map(|(id, _)| Arc::new(Int64Array::from(vec![i64::from(*id); 3])) as ArrayRef).collect();
    let rows = RecordBatch::try_new(Arc::clone(&written), vec![Arc::new(StructArray::new(fields, values, None))]).unwrap();
    let mut made = Table::new(&written);
    made.schema = Arc::new(schema_of(table));
    let file = write(&made.store, &rows, Layout::groups_of(10)).await;
    made.fragments.push(fragment(FragmentId(0), file, [1].into_iter().collect()));
    made
}

#[tokio::test]
async fn parts_of_structs() {
    let same = nested(&[(2, "x"), (3, "y")], &[(2, "x"), (3, "y")]).await;
    assert_eq!(same.rows("SELECT s['x'], s['y'] FROM t").await, ["2,3", "2,3"]);
    let added = nested(&[(2, "x"), (3, "y"), (4, "z")], &[(3, "y"), (2, "x")]).await;
    assert_eq!(added.rows("SELECT s['x'], s['y'], s['z'] FROM t").await, ["2,3,", "2,3,"]);
    assert_eq!(added.rows("SELECT s FROM t").await, ["{x: 2, y: 3, z: }"; 2]);
    assert_eq!(added.rows("SELECT s['x'] FROM t WHERE s['y'] = 3").await, ["2", "2"]);
    let dropped = nested(&[(3, "y")], &[(2, "x"), (3, "y")]).await;
    assert_eq!(dropped.rows("SELECT s FROM t").await, ["{y: 3}"; 2]);
}

#[tokio::test]
async fn parts_of_structs_that_names_do_not_find_are_refused() {
    for (table, file) in [
        (vec![(2, "x"), (3, "z")], vec![(2, "x"), (3, "y")]),
        (vec![(2, "x"), (4, "y")], vec![(2, "x"), (3, "y")]),
        (vec![(3, "x"), (2, "y")], vec![(2, "x"), (3, "y")]),
    ] {
        let error = nested(&table, &file).await.query("SELECT s FROM t").await.unwrap_err();
        assert!(matches!(cause(&error), Some(Error::Unsupported { .. })), "{error:?}");
    }
}

#[tokio::test]
async fn files_with_other_ids_than_amend_gives_are_refused() {
    let table = arrow(&[column(1, "a", DataType::Int64), column(2, "b", DataType::Int64)]);
    let field = |name: &str, id: Option<i32>| {
        let metadata: HashMap<String, String> = id.map(|id| (PARQUET_FIELD_ID.to_owned(), id.to_string())).into_iter().collect();
        ArrowField::new(name, DataType::Int64, true).with_metadata(metadata)
    };
    for (fields, reason) in [
        (vec![field("a", Some(1)), field("b", None)], "column 'b' has no field id"),
        (vec![field("a", Some(1)), field("x", Some(1))], "two of its columns have field id 1"),
        (vec![field("a", Some(1)), field("a", Some(2))], "two of its columns are called 'a'"),
        (vec![field("a", Some(1)), field("__amend_offset", Some(2))], "'__amend_offset', which is reserved"),
    ] {
        let mut table = Table::new(&table);
        let rows = batch(&Schema::new(fields), vec![Arc::new(Int64Array::from(vec![1])), Arc::new(Int64Array::from(vec![2]))]);
        let file = write(&table.store, &rows, Layout::groups_of(2)).await;
        table.fragments.push(fragment(FragmentId(0), file, Default::default()));
        let error = table.query("SELECT a, b, __amend_offset FROM t").await.unwrap_err();
        match cause(&error) {
            Some(Error::Damaged { table, reason: found, .. }) => assert!(table == "t" && found.contains(reason), "{found}"),
            _ => panic!("{error:?}"),
        }
    }
}
