//! Files that were written when the table had other columns.

use super::fixture::{Layout, Table, cause, config, fragment, sorted_lines, write};
use crate::Error;
use crate::scan::evolve::FieldIdAdapterFactory;
use crate::table::row_address::FragmentId;
use crate::table::schema::{Field, FieldId, FieldType, PARQUET_FIELD_ID, TableSchema};
use datafusion::arrow::array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray, StructArray};
use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Int8Type, Schema};
use datafusion::arrow::json::ReaderBuilder;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr_adapter::PhysicalExprAdapterFactory;
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
        initial: None,
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
async fn parts_of_structs_are_found_by_their_ids() {
    for (table, file, row) in [
        (vec![(2, "x"), (3, "z")], vec![(2, "x"), (3, "y")], "{x: 2, z: 3}"),
        (vec![(2, "x"), (4, "y")], vec![(2, "x"), (3, "y")], "{x: 2, y: }"),
        (vec![(3, "x"), (2, "y")], vec![(2, "x"), (3, "y")], "{x: 3, y: 2}"),
        (vec![(4, "x")], vec![(2, "x"), (3, "y")], "{x: }"),
        (vec![(4, "z")], vec![(2, "x")], "{z: }"),
    ] {
        let table = nested(&table, &file).await;
        assert_eq!(table.rows("SELECT s FROM t").await, [row; 2]);
        assert_eq!(table.rows("SELECT s FROM t WHERE s IS NOT NULL").await, [row; 2]);
    }
    let swapped = nested(&[(3, "x"), (2, "y")], &[(2, "x"), (3, "y")]).await;
    assert_eq!(swapped.rows("SELECT s['x'] FROM t WHERE s['y'] = 2").await, ["3", "3"]);
    assert_eq!(swapped.rows("SELECT s['x'] FROM t WHERE s['y'] = 3").await, [] as [&str; 0]);
}

#[tokio::test]
async fn files_whose_columns_cannot_be_told_apart_are_refused() {
    let table = arrow(&[column(1, "a", DataType::Int64), column(2, "b", DataType::Int64)]);
    let field = |name: &str, id: Option<i32>| {
        let metadata: HashMap<String, String> = id.map(|id| (PARQUET_FIELD_ID.to_owned(), id.to_string())).into_iter().collect();
        ArrowField::new(name, DataType::Int64, true).with_metadata(metadata)
    };
    for (fields, reason) in [
        (vec![field("a", Some(1)), field("a", Some(2))], "two of its columns are called 'a'"),
        (vec![field("a", Some(1)), field("__amend_offset", Some(2))], "'__amend_offset', which is reserved"),
    ] {
        let mut table = Table::new(&table);
        let rows = batch(&Schema::new(fields), vec![Arc::new(Int64Array::from(vec![1])), Arc::new(Int64Array::from(vec![2]))]);
        let file = write(&table.store, &rows, Layout::groups_of(2)).await;
        table.fragments.push(fragment(FragmentId(0), file, Default::default()));
        let error = table.query("SELECT a, b, __amend_offset FROM t").await.unwrap_err();
        match cause(&error) {
            Some(Error::Damaged { table: name, object, reason: found }) => {
                assert_eq!((name.as_str(), object), ("t", &table.fragments[0].0.files[0].path));
                assert!(found.contains(reason), "{found}");
            }
            _ => panic!("{error:?}"),
        }
    }
}

#[tokio::test]
async fn nested_columns_are_read() {
    let int = |name: &str| ArrowField::new(name, DataType::Int32, true);
    let pair = DataType::Struct(vec![int("x"), ArrowField::new("text", DataType::Utf8, true)].into());
    let entries = DataType::Struct(vec![ArrowField::new("key", DataType::Utf8, false), int("value")].into());
    let columns = Schema::new(vec![
        ArrowField::new("id", DataType::Int64, false),
        ArrowField::new("list", DataType::List(Arc::new(int("item"))), true),
        ArrowField::new("pairs", DataType::LargeList(Arc::new(ArrowField::new("element", pair.clone(), true))), true),
        ArrowField::new("nested", DataType::Struct(vec![ArrowField::new("pair", pair, true), int("y")].into()), true),
        ArrowField::new("map", DataType::Map(Arc::new(ArrowField::new("entries", entries, false)), false), true),
        ArrowField::new("two", DataType::FixedSizeList(Arc::new(int("item")), 2), true),
        ArrowField::new("word", DataType::Utf8View, true),
    ]);
    let json = r#"
        {"id": 1, "list": [1, null], "pairs": [{"x": 1, "text": "a"}, null], "nested": {"pair": {"x": 5}, "y": 6}, "map": {"k": 7}, "two": [1, 2], "word": "w"}
        {"id": 2, "list": [], "pairs": [], "nested": {"y": 1}, "map": {}, "two": [3, 4]}
        {"id": 3, "nested": {"pair": {"x": 8, "text": "b"}}, "word": "v"}"#;
    let mut table = Table::new(&columns);
    let mut reader = ReaderBuilder::new(table.schema.to_arrow()).build(json.as_bytes()).unwrap();
    table.add(&reader.next().unwrap().unwrap(), Layout::groups_of(2), [1]).await;
    for pushdown in [true, false] {
        table.pushdown_filters = Some(pushdown);
        let batches = table.query("SELECT * EXCEPT (__amend_fragment, __amend_offset) FROM t").await.unwrap();
        assert_eq!(
            sorted_lines(&batches),
            ["1,[1, ],[{x: 1, text: a}, ],{pair: {x: 5, text: }, y: 6},{k: 7},[1, 2],w", "3,,,{pair: {x: 8, text: b}, y: },,,v",]
        );
        assert_eq!(batches[0].schema().fields(), table.schema.to_plain_arrow().fields());
        for (sql, expected) in [
            ("SELECT id FROM t WHERE nested['pair']['x'] > 5", vec!["3"]),
            ("SELECT nested['pair']['text'], list[1] FROM t WHERE id >= 1", vec![",1", "b,"]),
            ("SELECT id FROM t WHERE list IS NULL", vec!["3"]),
            ("SELECT map['k'], pairs[1]['text'] FROM t WHERE word = 'w'", vec!["7,a"]),
            ("SELECT count(*), count(nested), count(map) FROM t WHERE nested['y'] IS NULL", vec!["1,1,0"]),
        ] {
            assert_eq!(table.rows(sql).await, expected, "{sql}, pushdown {pushdown}");
        }
    }
}

#[tokio::test]
async fn dictionaries_are_read() {
    let word = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let mut table = Table::new(&Schema::new(vec![ArrowField::new("word", word, true)]));
    let words: DictionaryArray<Int8Type> = [Some("b"), None, Some("a"), Some("b"), Some("c")].into_iter().collect();
    table.add(&RecordBatch::try_new(table.schema.to_plain_arrow(), vec![Arc::new(words)]).unwrap(), Layout::groups_of(2), [3]).await;
    for pushdown in [true, false] {
        table.pushdown_filters = Some(pushdown);
        assert_eq!(table.rows("SELECT word FROM t").await, ["", "a", "b", "c"]);
        assert_eq!(table.rows("SELECT word FROM t WHERE word >= 'b'").await, ["b", "c"]);
        assert_eq!(table.rows("SELECT min(word), max(word), count(word) FROM t").await, ["a,c,3"]);
    }
}

#[test]
fn only_what_differs_in_type_is_cast() {
    let table = TableSchema::new(vec![column(2, "c", DataType::Int64), column(1, "w", DataType::Int64), column(3, "b", DataType::Utf8)]);
    let table = table.unwrap();
    let file = arrow(&[column(1, "a", DataType::Int32), column(4, "c", DataType::Int64), column(2, "b", DataType::Int64)]);
    let factory = FieldIdAdapterFactory::new(&table, Arc::default()).unwrap();
    let adapter = factory.create(table.to_plain_arrow(), Arc::new(file)).unwrap();
    let read = |name: &str, index: usize| adapter.rewrite(Arc::new(Column::new(name, index))).unwrap();
    assert_eq!(read("c", 0).downcast_ref::<Column>(), Some(&Column::new("b", 2)));
    let widened = read("w", 1);
    assert_eq!(widened.downcast_ref::<CastExpr>().unwrap().expr().downcast_ref::<Column>(), Some(&Column::new("a", 0)));
    assert_eq!(read("b", 2).downcast_ref::<Literal>().unwrap().value(), &ScalarValue::Utf8(None));
}
