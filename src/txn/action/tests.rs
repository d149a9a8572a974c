//! Single actions: what their messages may not say, and what a file tells of its columns.

use super::*;
use crate::table::fragment::FileColumn;
use crate::table::schema::FieldId;
use crate::txn::composite::{RowCounts, Step, Transaction, TransactionId};
use crate::txn::footprint::Footprint;
use crate::txn::refs::{FieldRef, Ref, Token};
use crate::txn::testbed::data_file;

fn field(id: i32) -> FieldRef {
    Ref::Committed(FieldId(id))
}

fn footprint(actions: Vec<Action>) -> Footprint {
    let step = Step { operation: String::new(), statement: String::new(), actions, counts: RowCounts::default() };
    Footprint::of(&Transaction { id: TransactionId(1), read_version: 1, steps: vec![step] })
}

/// A file of two columns, the first of which has two parts; none of their values is NULL but those of the last.
fn file_with_parts(fields: Vec<Option<FieldRef>>) -> AddDataFile {
    let mut file = data_file("data/a", 4, 2);
    file.columns[0] = FileColumn { parts: vec![FieldId(2), FieldId(3)], ..file.columns[0].clone() };
    file.columns[0].stats.null_count = Some(0);
    file.columns[1].stats.null_count = Some(1);
    AddDataFile { fragment: Ref::Local(Token(0)), file, base: None, fields, data_change: true }
}

#[test]
fn a_file_says_which_of_its_columns_have_no_nulls() {
    let add = AddFragment { id: Ref::Local(Token(0)), physical_rows: 4, data_change: true, replacing: roaring::RoaringBitmap::new() };
    let file = file_with_parts((1..=4).map(|id| Some(field(id))).collect());
    let insert = footprint(vec![Action::AddFragment(add), Action::AddDataFile(file)]);
    let not_null = |id| {
        let alter = AlterField { field: field(id), parent: None, name: None, field_type: None, nullable: Some(false) };
        footprint(vec![Action::AlterField(alter)])
    };
    assert_eq!(insert.collision(&not_null(1)), None);
    assert_eq!(insert.collision(&not_null(4)).as_deref(), Some("whether field 4 can be NULL"));
}

#[test]
fn a_file_names_a_field_for_each_column_and_each_part() {
    let read = |fields: &[i32]| {
        let file = file_with_parts(fields.iter().map(|id| Some(field(*id))).collect());
        AddDataFile::try_from(wire::AddDataFile::from(&file)).map(|read| assert_eq!(read, file)).map_err(|error| error.to_string())
    };
    assert_eq!(read(&[1, 2, 3, 4]), Ok(()));
    for fields in [&[1, 2, 3][..], &[1, 4], &[], &[1, 2, 3, 4, 5]] {
        assert_eq!(read(fields), Err("AddDataFile names another number of fields than 'data/a' has columns".to_owned()));
    }
}

#[test]
fn keys_have_fields_and_a_scheme_and_each_hash_once() {
    let read = |fields: &[i32], scheme, hashes: &[u64]| {
        let fields = fields.iter().map(|id| field(*id).into()).collect();
        AssertUniqueKeys::try_from(wire::AssertUniqueKeys { fields, scheme, hashes: hashes.to_vec() })
    };
    let good = read(&[1, 2], 1, &[5, 6, 9]).unwrap();
    assert_eq!((good.fields, good.scheme, good.hashes.iter().copied().collect::<Vec<_>>()), (vec![field(1), field(2)], 1, vec![5, 6, 9]));
    assert!(read(&[1], 1, &[]).is_ok());
    for refused in [read(&[], 1, &[5]), read(&[1], 0, &[5]), read(&[1], 1, &[6, 5]), read(&[1], 1, &[5, 5])] {
        assert!(refused.unwrap_err().to_string().contains("without fields or scheme, or its hashes do not rise"));
    }
}

#[test]
fn settings_are_named_once_and_in_order() {
    let read = |keys: &[&str]| {
        let entries = keys.iter().map(|key| wire::ConfigEntry { key: (*key).to_owned(), value: None }).collect();
        ConfigUpdate::try_from(wire::ConfigUpdate { entries, replace: true })
    };
    assert_eq!(read(&["a", "b", "c"]).unwrap().entries.into_keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    for refused in [read(&["b", "a"]), read(&["a", "a"]), read(&["a", "c", "b"])] {
        assert_eq!(refused.unwrap_err().to_string(), "the keys of ConfigUpdate do not rise");
    }
}
