//! What is said of each action, and of the claims of a transaction.

use super::*;
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::Base;
use crate::txn::action::{
    AddBase, AddDataFile, AddField, AddFragment, AlterField, AssertUniqueKeys, ChangeOfAddress, ConfigUpdate, DropField, RemoveFragment,
    ReserveFragmentIds, ResetTable, SetDeletionFile, TombstoneFieldData,
};
use crate::txn::composite::{CommitFacts, Step, Transaction, TransactionId};
use crate::txn::footprint::Footprint;
use crate::txn::refs::{Minted, Ref, Token};
use crate::txn::testbed::data_file;
use arrow_schema::DataType;
use std::collections::BTreeMap;
use std::sync::Arc;

fn committed(actions: Vec<Action>) -> CommittedTransaction {
    let step = Step { actions, ..Step::default() };
    CommittedTransaction {
        transaction: Transaction { id: TransactionId(1), read_version: 1, steps: vec![step] },
        minted: Minted {
            fragments: BTreeMap::from([(Token(0), FragmentId(7))]),
            fields: BTreeMap::from([(Token(0), FieldId(5))]),
            bases: BTreeMap::new(),
        },
        facts: CommitFacts::default(),
    }
}

/// Fragment, fields, rows, whether data changes, and the rest.
fn told(action: Action) -> (Option<u32>, Vec<i32>, Option<u64>, bool, String) {
    let Description { fragment, fields, rows, data_change, detail } = describe(&action, &committed(vec![action.clone()]));
    (fragment.map(|id| id.0), fields.iter().map(|id| id.0).collect(), rows, data_change, detail)
}

fn says(
    fragment: Option<u32>,
    fields: &[i32],
    rows: Option<u64>,
    data_change: bool,
    detail: &str,
) -> (Option<u32>, Vec<i32>, Option<u64>, bool, String) {
    (fragment, fields.to_vec(), rows, data_change, detail.into())
}

const OWN: FragmentRef = Ref::Local(Token(0));
const OLD: FragmentRef = Ref::Committed(FragmentId(3));
const NEW_FIELD: FieldRef = Ref::Local(Token(0));

fn field(id: i32) -> FieldRef {
    Ref::Committed(FieldId(id))
}

#[test]
fn actions_of_fragments_name_them_and_count_rows() {
    for data_change in [true, false] {
        let add = |id| Action::AddFragment(AddFragment { id, physical_rows: 9, data_change, replacing: roaring::RoaringBitmap::new() });
        assert_eq!(told(add(OWN)), says(Some(7), &[], Some(9), data_change, ""));
        assert_eq!(told(add(OLD)), says(Some(3), &[], Some(9), data_change, ""));
        let (file, fields) = (data_file("data/a.parquet", 9, 2), vec![Some(field(1)), Some(NEW_FIELD)]);
        let file = Action::AddDataFile(AddDataFile { fragment: OWN, file, base: None, fields, data_change });
        assert_eq!(told(file), says(Some(7), &[1, 5], None, data_change, "data/a.parquet, 100 bytes"));
        let remove = Action::RemoveFragment(RemoveFragment { fragment: OLD, data_change });
        assert_eq!(told(remove), says(Some(3), &[], None, data_change, ""));
        let tombstone = Action::TombstoneFieldData(TombstoneFieldData { fragment: OLD, fields: vec![field(2)], data_change });
        assert_eq!(told(tombstone), says(Some(3), &[2], None, data_change, ""));
    }
    let delete = |replaced: &[u32]| {
        let added = [1, 2, 4].into_iter().collect();
        let (vector, replaced) = (DeletionFile::inline(&added), replaced.iter().copied().collect());
        Action::SetDeletionFile(SetDeletionFile { fragment: OLD, vector, added, replaced })
    };
    assert_eq!(told(delete(&[])), says(Some(3), &[], Some(3), true, ""));
    assert_eq!(told(delete(&[2, 4])), says(Some(3), &[], Some(3), true, "2 of them live on in new versions"));
}

#[test]
fn a_change_of_address_names_both_sides_and_its_map() {
    let moved = |map, order: Option<&str>| {
        let (sources, targets, order) = (vec![OLD, Ref::Committed(FragmentId(4))], vec![OWN], order.map(str::to_owned));
        Action::ChangeOfAddress(ChangeOfAddress { sources, targets, map, order })
    };
    let inline = MapLocation::Inline(vec![0; 6].into());
    assert_eq!(told(moved(inline, None)), says(None, &[], None, false, "fragments 3, 4 to 7; map of 6 bytes"));
    let object = MapLocation::Object { path: "_moves/a.moves".into(), size_bytes: 90, crc32c: 1 };
    assert_eq!(
        told(moved(object, Some("1"))),
        says(None, &[], None, false, "fragments 3, 4 to 7, ordered by 1; map _moves/a.moves, 90 bytes")
    );
}

#[test]
fn actions_of_fields_name_them_and_what_they_become() {
    let add = |nullable| {
        let (field_type, metadata) = (FieldType::Leaf(DataType::Int32), BTreeMap::new());
        Action::AddField(AddField {
            id: Ref::Local(Token(0)),
            parent: None,
            name: "n".into(),
            field_type,
            nullable,
            metadata,
            initial: None,
            in_place_of: None,
        })
    };
    assert_eq!(told(add(true)), says(None, &[5], None, false, "n Int32"));
    assert_eq!(told(add(false)), says(None, &[5], None, false, "n Int32 NOT NULL"));
    let alter = |name: Option<&str>, field_type, nullable| {
        let name = name.map(str::to_owned);
        Action::AlterField(AlterField { field: field(2), parent: None, name, field_type, nullable })
    };
    assert_eq!(told(alter(None, None, Some(false))), says(None, &[2], None, false, "NOT NULL"));
    let all = alter(Some("m"), Some(FieldType::Leaf(DataType::Int64)), Some(true));
    assert_eq!(told(all), says(None, &[2], None, false, "name m, type Int64, NULL"));
    assert_eq!(told(Action::DropField(DropField { field: NEW_FIELD })), says(None, &[5], None, true, ""));
}

#[test]
fn the_others_say_what_they_set() {
    let entries = BTreeMap::from([("a".to_owned(), Some("1".to_owned())), ("b".to_owned(), None)]);
    let set = |replace| Action::ConfigUpdate(ConfigUpdate { entries: entries.clone(), replace });
    assert_eq!(told(set(false)), says(None, &[], None, false, "a = 1, b unset"));
    assert_eq!(told(set(true)), says(None, &[], None, false, "a = 1, b unset, all others unset"));
    assert_eq!(told(Action::ReserveFragmentIds(ReserveFragmentIds { count: 4 })), says(None, &[], None, false, "4 ids"));
    assert_eq!(told(Action::ResetTable(ResetTable)), says(None, &[], None, true, ""));
    let base = |name: Option<&str>| {
        let base = Base { name: name.map(str::to_owned), location: "s3://b".into() };
        Action::AddBase(AddBase { token: Token(0), base })
    };
    assert_eq!(told(base(Some("cold"))), says(None, &[], None, false, "cold at s3://b"));
    assert_eq!(told(base(None)), says(None, &[], None, false, "s3://b"));
    let keys = Action::AssertUniqueKeys(AssertUniqueKeys { fields: vec![field(1)], scheme: 1, hashes: Arc::new([7, 8].into()) });
    assert_eq!(told(keys), says(None, &[1], Some(2), false, ""));
}

#[test]
fn claims_in_words() {
    let words = |actions| Footprint::of(&committed(actions).transaction).in_words();
    let entries = BTreeMap::from([("a".to_owned(), None)]);
    assert_eq!(
        words(vec![
            Action::AddFragment(AddFragment { id: OWN, physical_rows: 1, data_change: true, replacing: roaring::RoaringBitmap::new() }),
            Action::RemoveFragment(RemoveFragment { fragment: OLD, data_change: true }),
            Action::AddField(AddField {
                id: Ref::Local(Token(0)),
                parent: Some(field(2)),
                name: "part".into(),
                field_type: FieldType::Leaf(DataType::Int32),
                nullable: true,
                metadata: BTreeMap::new(),
                initial: None,
                in_place_of: None,
            }),
            Action::ConfigUpdate(ConfigUpdate { entries, replace: true }),
            Action::AssertUniqueKeys(AssertUniqueKeys { fields: vec![NEW_FIELD], scheme: 1, hashes: Arc::new([7, 8].into()) }),
        ]),
        [
            "writes a part of the fragment id 3",
            "requires the definition of field 2",
            "writes the name 'part' in field 2",
            "writes the setting 'a'",
            "writes the settings",
            "inserts rows",
            "asserts that 2 keys are new",
        ]
    );
    assert_eq!(words(vec![Action::ResetTable(ResetTable)]), ["writes the whole table"]);
    assert_eq!(words(vec![]), Vec::<String>::new());
}
