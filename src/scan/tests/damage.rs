//! Files that are not what the manifest says.

use super::fixture::{Layout, Table, cause};
use crate::Error;
use crate::store::ObjectName;
use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use std::sync::Arc;

async fn table() -> Table {
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
    let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::new(Int64Array::from_iter_values(0..5_000))]).unwrap();
    let mut table = Table::new(&schema);
    table.add(&batch, Layout::groups_of(1_000), [7]).await;
    table
}

/// The error of reading everything, which must be of damage and name the object and the table.
async fn damage(table: &Table) -> String {
    let path = table.fragments[0].0.files[0].path.clone();
    let error = table.query("SELECT sum(id) FROM t").await.unwrap_err();
    match cause(&error) {
        Some(Error::Damaged { table, object, reason }) => {
            assert_eq!((table.as_str(), object), ("t", &path));
            reason.clone()
        }
        _ => panic!("{error:?}"),
    }
}

async fn rewrite(table: &Table, change: impl FnOnce(&mut Vec<u8>)) {
    let name = ObjectName::parse(&table.fragments[0].0.files[0].path).unwrap();
    let mut bytes = table.store.read(&name).await.unwrap().to_vec();
    change(&mut bytes);
    table.store.write(&name, bytes.into()).await.unwrap();
}

#[tokio::test]
async fn a_flipped_byte_of_the_rows_is_noticed() {
    let table = table().await;
    rewrite(&table, |bytes| bytes[2_000] ^= 4).await;
    assert!(damage(&table).await.contains("checksum"));
}

#[tokio::test]
async fn a_flipped_byte_of_the_footer_is_noticed() {
    let table = table().await;
    rewrite(&table, |bytes| {
        let last = bytes.len() - 100;
        bytes[last] ^= 1;
    })
    .await;
    assert!(damage(&table).await.contains("checksum"));
}

#[tokio::test]
async fn a_file_cut_short_is_noticed() {
    let table = table().await;
    rewrite(&table, |bytes| bytes.truncate(3_000)).await;
    assert!(damage(&table).await.contains("3000 bytes"));
}

#[tokio::test]
async fn a_file_that_is_gone_is_noticed() {
    let table = table().await;
    let name = ObjectName::parse(&table.fragments[0].0.files[0].path).unwrap();
    table.store.delete(&name).await.unwrap();
    assert!(damage(&table).await.contains("does not exist"));
}

#[tokio::test]
async fn bytes_with_good_checksums_that_are_no_parquet_are_noticed() {
    let mut table = table().await;
    rewrite(&table, |bytes| bytes.fill(0)).await;
    let name = ObjectName::parse(&table.fragments[0].0.files[0].path).unwrap();
    let written = crate::store::Written::of(&table.store.read(&name).await.unwrap());
    let fragment = Arc::make_mut(&mut table.fragments[0].0);
    Arc::make_mut(&mut fragment.files[0].checksum).crc32c = written.crc32c;
    damage(&table).await;
}

#[tokio::test]
async fn a_footer_with_other_row_groups_is_noticed() {
    let mut table = table().await;
    Arc::make_mut(&mut table.fragments[0].0).files[0].row_groups = vec![2_000, 3_000];
    assert!(damage(&table).await.contains("5000 rows in 5 row groups"));
    Arc::make_mut(&mut table.fragments[0].0).files[0].row_groups = vec![1_000, 1_000, 1_000, 999, 1_001];
    damage(&table).await;
    Arc::make_mut(&mut table.fragments[0].0).files[0].row_groups = vec![1_000];
    let error = table.query("SELECT id FROM t").await.unwrap_err();
    assert!(cause(&error).unwrap().to_string().contains("its row groups have 1000 rows, fragment 0 has 5000"), "{error}");
}

#[tokio::test]
async fn a_path_out_of_the_folder_is_refused() {
    let mut table = table().await;
    Arc::make_mut(&mut table.fragments[0].0).files[0].path = "data/../../secret".into();
    let error = table.query("SELECT id FROM t").await.unwrap_err();
    assert!(matches!(cause(&error), Some(Error::Damaged { .. })), "{error:?}");
}
