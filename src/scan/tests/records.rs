//! Columns are found by the manifest's record of a file: whatever names and ids the file has, or none.

use super::fixture::{Layout, Table, cause, fragment, write};
use crate::Error;
use crate::table::fragment::{Base, BaseId, BlockChecksums, DataFile, FileColumn, Fragment};
use crate::table::row_address::FragmentId;
use crate::table::schema::{Field, FieldId, FieldType, PARQUET_FIELD_ID, TableSchema};
use crate::table::stats::StatValue;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StructArray};
use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;

fn column(id: i32, name: &str, data_type: DataType) -> Field {
    let (id, name, field_type) = (FieldId(id), name.to_owned(), FieldType::Leaf(data_type));
    Field { id, parent: None, name, field_type, nullable: true, metadata: BTreeMap::new(), initial: None }
}

fn schema(columns: Vec<Field>) -> Arc<TableSchema> {
    Arc::new(TableSchema::new(columns).unwrap())
}

/// A column of a file that carries this id, or none.
fn in_file(name: &str, id: Option<i32>) -> ArrowField {
    let metadata = id.map(|id| (PARQUET_FIELD_ID.to_owned(), id.to_string())).into_iter().collect();
    ArrowField::new(name, DataType::Int64, true).with_metadata(metadata)
}

/// A table of two columns `a` (1) and `b` (2), and a file of two columns, in whose rows the first is 1 and 3, the second 10 and 30.
async fn table(file_columns: [ArrowField; 2]) -> Table {
    let columns = schema(vec![column(1, "a", DataType::Int64), column(2, "b", DataType::Int64)]);
    let mut table = Table::new(&columns.to_plain_arrow());
    table.schema = columns;
    let written = Arc::new(Schema::new(file_columns.to_vec()));
    let values = [vec![1, 3], vec![10, 30]].map(|values| Arc::new(Int64Array::from(values)) as ArrayRef);
    let file = write(&table.store, &RecordBatch::try_new(written, values.to_vec()).unwrap(), Layout::groups_of(1)).await;
    table.fragments.push(fragment(FragmentId(4), file, Default::default()));
    record(&mut table, &[Some(1), Some(2)]);
    table
}

fn file(table: &mut Table) -> &mut DataFile {
    &mut Arc::<Fragment>::make_mut(&mut table.fragments[0].0).files[0]
}

/// Says which fields the columns of the file hold.
fn record(table: &mut Table, fields: &[Option<i32>]) {
    for (column, field) in file(table).columns.iter_mut().zip(fields) {
        column.field = field.map(FieldId);
    }
}

const QUERIES: [&str; 5] = [
    "SELECT a, b FROM t",
    "SELECT a, b FROM t WHERE a >= 3",
    "SELECT a FROM t WHERE b < 20",
    "SELECT min(a), max(b), count(*) FROM t WHERE a > 0",
    "SELECT __amend_fragment, __amend_offset, b FROM t WHERE a = 3",
];
const ANSWERS: [&[&str]; 5] = [&["1,10", "3,30"], &["3,30"], &["1"], &["1,30,2"], &["4,1,30"]];

async fn assert_answers(table: &mut Table, what: &str) {
    for pushdown in [Some(true), Some(false)] {
        table.pushdown_filters = pushdown;
        for (sql, answer) in QUERIES.iter().zip(ANSWERS) {
            assert_eq!(table.rows(sql).await, answer, "{what}: {sql}");
        }
    }
}

#[tokio::test]
async fn ids_in_the_file_do_not_count() {
    for (ids, what) in [
        ([Some(1), Some(2)], "the same"),
        ([None, None], "none"),
        ([Some(2), Some(1)], "the other way round"),
        ([Some(1), Some(1)], "one for both"),
        ([Some(7), None], "other ones"),
    ] {
        let mut table = table([in_file("x", ids[0]), in_file("y", ids[1])]).await;
        assert_answers(&mut table, what).await;
    }
}

#[tokio::test]
async fn a_file_that_looks_just_like_the_table_is_still_read_by_its_record() {
    // The names of the file are those of the table, of the wrong columns: only the record tells.
    let mut swapped = table([in_file("b", None), in_file("a", None)]).await;
    assert_answers(&mut swapped, "swapped").await;
    let mut same = table([in_file("a", None), in_file("b", None)]).await;
    record(&mut same, &[Some(2), Some(1)]);
    // The manifest's statistics go with the columns.
    assert_eq!(same.rows("SELECT a, b FROM t").await, ["10,1", "30,3"]);
    assert_eq!(same.rows("SELECT a FROM t WHERE b = 3").await, ["30"]);
}

#[tokio::test]
async fn a_dead_slot_is_not_read_although_its_id_is_that_of_a_field() {
    let mut table = table([in_file("a", Some(1)), in_file("b", Some(2))]).await;
    record(&mut table, &[None, Some(2)]);
    assert_eq!(table.rows("SELECT a, b FROM t").await, [",10", ",30"]);
    assert_eq!(table.rows("SELECT b FROM t WHERE a IS NULL AND b > 10").await, ["30"]);
}

#[tokio::test]
async fn a_column_that_is_not_in_the_file_has_one_value() {
    let mut table = table([in_file("x", None), in_file("y", None)]).await;
    let columns = vec![
        column(3, "k", DataType::Utf8View),
        column(1, "a", DataType::Int64),
        column(2, "b", DataType::Int64),
        column(4, "year", DataType::Int32),
    ];
    table.schema = schema(columns);
    let constant = |id, value: StatValue| {
        let stats = crate::table::stats::ColumnStats { min: Some(value.clone()), max: Some(value.clone()), null_count: Some(0) };
        FileColumn { field: Some(FieldId(id)), constant: Some(value), stats, parts: vec![] }
    };
    file(&mut table).columns.extend([constant(3, StatValue::Utf8("x".into())), constant(4, StatValue::Int(2025))]);
    for pushdown in [Some(true), Some(false), None] {
        table.pushdown_filters = pushdown;
        for (sql, answer) in [
            ("SELECT k, a, year FROM t", vec!["x,1,2025", "x,3,2025"]),
            ("SELECT year FROM t", vec!["2025", "2025"]),
            ("SELECT a FROM t WHERE k = 'x' AND b > 10", vec!["3"]),
            ("SELECT a FROM t WHERE k = 'y' OR year <> 2025", vec![]),
            ("SELECT a FROM t WHERE k = 'y' OR b = 10", vec!["1"]),
            ("SELECT a FROM t WHERE year + a = 2028", vec!["3"]),
            ("SELECT k, min(year), max(year), count(k), sum(b) FROM t GROUP BY k", vec!["x,2025,2025,2,40"]),
            ("SELECT count(*) FROM t WHERE year IS NULL", vec!["0"]),
        ] {
            assert_eq!(table.rows(sql).await, answer, "{sql}");
        }
    }
    let explained = table.rows("EXPLAIN SELECT a FROM t WHERE year = 2024").await.join("\n");
    assert!(explained.contains("EmptyExec"), "{explained}");
    // The field was dropped: the slot is dead, and the file has no column more for it.
    file(&mut table).columns[3].field = None;
    assert_eq!(table.rows("SELECT k, a, year FROM t").await, ["x,1,", "x,3,"]);
}

#[tokio::test]
async fn a_record_that_is_not_of_the_file_is_refused() {
    let mut table = table([in_file("a", None), in_file("b", None)]).await;
    file(&mut table).columns.pop();
    let error = table.query("SELECT a FROM t").await.unwrap_err();
    let Some(Error::Damaged { reason, .. }) = cause(&error) else { panic!("{error:?}") };
    assert_eq!(reason, "its footer says that it has 2 columns, the manifest 1");
}

#[tokio::test]
async fn parts_of_structs_are_known_by_the_record() {
    let part = |id, name: &str| Field { parent: Some(FieldId(1)), ..column(id, name, DataType::Int64) };
    let structure = Field { field_type: FieldType::Struct, ..column(1, "s", DataType::Null) };
    let columns = schema(vec![structure, part(2, "x"), part(3, "y")]);
    let parts = vec![in_file("x", Some(9)), in_file("y", None)];
    let written = Arc::new(Schema::new(vec![ArrowField::new_struct("s", parts.clone(), true)]));
    let values = vec![Arc::new(Int64Array::from(vec![5])) as ArrayRef, Arc::new(Int64Array::from(vec![6]))];
    let mut table = Table::new(&written);
    table.schema = columns;
    let rows = RecordBatch::try_new(written, vec![Arc::new(StructArray::new(parts.into(), values, None))]).unwrap();
    let written = write(&table.store, &rows, Layout::groups_of(1)).await;
    table.fragments.push(fragment(FragmentId(0), written, Default::default()));
    let mut with_parts = |parts: &[i32]| {
        let column = &mut file(&mut table).columns[0];
        (column.field, column.parts) = (Some(FieldId(1)), parts.iter().map(|id| FieldId(*id)).collect());
        table.clone()
    };
    assert_eq!(with_parts(&[2, 3]).rows("SELECT s['x'], s['y'] FROM t").await, ["5,6"]);
    // The file's `y` is another field than the table's.
    assert_eq!(with_parts(&[2, 4]).rows("SELECT s['x'], s['y'] FROM t").await, ["5,"]);
    let error = with_parts(&[2]).query("SELECT s FROM t").await.unwrap_err();
    assert!(error.to_string().contains("has other parts than the manifest says"), "{error}");
}

/// The file of [`table`] in a local folder, of whose bytes only the last `checked_bytes` have checksums.
async fn in_a_base(folder: &std::path::Path, checked_bytes: u64) -> Table {
    let mut table = table([in_file("x", None), in_file("y", None)]).await;
    let name = crate::store::ObjectName::parse(&table.fragments[0].0.files[0].path).unwrap();
    let bytes = table.store.read(&name).await.unwrap();
    table.store.delete(&name).await.unwrap();
    std::fs::create_dir_all(folder.join("k=v w")).unwrap();
    std::fs::write(folder.join("k=v w/ü%20.parquet"), &bytes).unwrap();
    let location = format!("file://{}", folder.display());
    table.bases.insert(BaseId(2), Base { name: None, location });
    let file = file(&mut table);
    file.base = Some(BaseId(2));
    file.path = "k=v w/ü%20.parquet".to_owned();
    file.unchecked_bytes = file.size_bytes - checked_bytes;
    let checked = bytes.slice(file.unchecked_bytes as usize..);
    file.checksum = Arc::new(BlockChecksums { block_bytes: 1 << 20, crc32c: vec![crate::store::crc32c(&checked)] });
    table
}

#[tokio::test]
async fn a_file_in_a_base_is_read_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k=v w/ü%20.parquet");
    for checked_bytes in [64, u64::MAX] {
        let mut table = in_a_base(folder.path(), 64).await;
        if checked_bytes == u64::MAX {
            let bytes = std::fs::read(&path).unwrap();
            let file = file(&mut table);
            file.unchecked_bytes = 0;
            file.checksum = Arc::new(BlockChecksums { block_bytes: 1 << 20, crc32c: vec![crate::store::crc32c(&bytes)] });
        }
        assert_answers(&mut table, "in a base").await;
        let whole = std::fs::read(&path).unwrap();
        let mut other_footer = whole.clone();
        let at = whole.len() - 20;
        other_footer[at] ^= 1;
        let mut longer = whole.clone();
        longer.push(0);
        for (bytes, needle) in [(Some(other_footer), "checksum of its bytes"), (Some(longer), "bytes where"), (None, "does not exist")] {
            match bytes {
                Some(bytes) => std::fs::write(&path, bytes).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let error = table.query("SELECT a FROM t").await.unwrap_err();
            let Some(Error::Damaged { table, object, reason }) = cause(&error) else { panic!("{error:?}") };
            assert_eq!((table.as_str(), object.as_str()), ("t", path.to_str().unwrap()));
            assert!(reason.contains(needle), "{reason}");
        }
    }
}

#[tokio::test]
async fn a_file_that_changes_under_a_kept_footer_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let table = in_a_base(folder.path(), 64).await;
    let context = table.context(super::fixture::config(1));
    let query = || async { context.sql("SELECT a FROM t WHERE b > 0").await.unwrap().collect().await };
    assert_eq!(query().await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    let path = folder.path().join("k=v w/ü%20.parquet");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 20;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = query().await.unwrap_err();
    assert!(matches!(cause(&error), Some(Error::Damaged { .. })), "{error:?}");
}

#[tokio::test]
async fn bases_that_are_not_there_or_not_local() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = in_a_base(folder.path(), 64).await;
    table.bases.insert(BaseId(2), Base { name: None, location: "s3://bucket/x".into() });
    let error = table.query("SELECT a FROM t").await.unwrap_err();
    assert_eq!(
        cause(&error).unwrap().to_string(),
        "reading 's3://bucket/x/k=v w/ü%20.parquet' is not supported: only files in local folders are read where they are"
    );
    table.bases.clear();
    let error = table.query("SELECT a FROM t").await.unwrap_err();
    assert!(cause(&error).unwrap().to_string().contains("base 2, which the table does not have"), "{error}");
}
