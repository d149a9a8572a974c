//! Applying actions: what each makes of a snapshot, and what it refuses.

use super::*;
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::{BlockChecksums, DataFile, FileColumn};
use crate::table::schema::FieldType;
use crate::txn::action::{
    AddBase, AddDataFile, AddField, AddFragment, AlterField, AssertUniqueKeys, ChangeOfAddress, ConfigUpdate, DropField, MapLocation,
    RemoveFragment, ReserveFragmentIds, ResetTable, SetDeletionFile, TombstoneFieldData,
};
use crate::txn::composite::{Step, TransactionId};
use arrow_schema::DataType;
use bytes::Bytes;
use std::collections::BTreeMap;

const LEAF: FieldType = FieldType::Leaf(DataType::Int32);

fn old(id: u32) -> FragmentRef {
    Ref::Committed(FragmentId(id))
}

fn own(token: u32) -> FragmentRef {
    Ref::Local(Token(token))
}

fn field(id: i32) -> FieldRef {
    Ref::Committed(FieldId(id))
}

fn own_field(token: u32) -> FieldRef {
    Ref::Local(Token(token))
}

fn add_fragment(token: u32, physical_rows: u32) -> Action {
    Action::AddFragment(AddFragment { id: own(token), physical_rows, data_change: true, replacing: roaring::RoaringBitmap::new() })
}

fn add_file(fragment: FragmentRef, row_groups: &[u32], fields: &[FieldRef]) -> Action {
    let column = FileColumn { field: None, ..FileColumn::default() };
    let file = DataFile {
        inline: None,
        sorted_by: vec![],
        path: "data/a.parquet".into(),
        base: None,
        size_bytes: 10,
        unchecked_bytes: 0,
        checksum: BlockChecksums { block_bytes: 16, crc32c: vec![0] }.into(),
        row_groups: row_groups.to_vec(),
        columns: vec![column; fields.len()],
    };
    let fields = fields.iter().copied().map(Some).collect();
    Action::AddDataFile(AddDataFile { fragment, file, base: None, fields, data_change: true })
}

fn add_field(token: u32, parent: Option<FieldRef>, name: &str, field_type: FieldType) -> Action {
    let metadata = BTreeMap::new();
    Action::AddField(AddField {
        id: Ref::Local(Token(token)),
        parent,
        name: name.into(),
        field_type,
        nullable: true,
        metadata,
        initial: None,
        in_place_of: None,
    })
}

fn remove(fragment: FragmentRef) -> Action {
    Action::RemoveFragment(RemoveFragment { fragment, data_change: true })
}

fn delete(fragment: FragmentRef, vector: &[u32], added: &[u32], replaced: &[u32]) -> Action {
    let rows = |rows: &[u32]| rows.iter().copied().collect();
    let vector = DeletionFile::inline(&rows(vector));
    Action::SetDeletionFile(SetDeletionFile { fragment, vector, added: rows(added), replaced: rows(replaced) })
}

fn moved(sources: &[FragmentRef], targets: &[FragmentRef]) -> Action {
    let map = MapLocation::Inline(Bytes::new());
    Action::ChangeOfAddress(ChangeOfAddress { sources: sources.to_vec(), targets: targets.to_vec(), map, order: None })
}

fn transaction(actions: Vec<Action>) -> Transaction {
    let step = Step { actions, ..Step::default() };
    Transaction { id: TransactionId(1), read_version: 0, steps: vec![step] }
}

/// Columns a (field 1) and b (field 2); fragment 0 of three rows, fragment 1 of two.
fn table() -> Snapshot {
    let actions = vec![
        add_field(0, None, "a", LEAF),
        add_field(1, None, "b", LEAF),
        add_fragment(0, 3),
        add_file(own(0), &[2, 1], &[own_field(0), own_field(1)]),
        add_fragment(1, 2),
        add_file(own(1), &[2], &[own_field(0), own_field(1)]),
    ];
    apply(&Snapshot::empty(7), &transaction(actions), 1).unwrap().0
}

fn after(actions: Vec<Action>) -> (Snapshot, Minted) {
    apply(&table(), &transaction(actions), 2).unwrap()
}

/// Why actions are refused; the table is left as it was.
fn refusal(actions: Vec<Action>) -> String {
    let before = table();
    let refusal = apply(&before, &transaction(actions), 2).unwrap_err();
    assert_eq!(before, table());
    refusal.to_string()
}

fn ids(snapshot: &Snapshot) -> Vec<u32> {
    snapshot.fragments.iter().map(|fragment| fragment.id.0).collect()
}

#[test]
fn tokens_get_the_next_ids() {
    let table = table();
    assert_eq!((ids(&table), table.live_rows()), (vec![0, 1], 5));
    assert_eq!((table.counters.fragment, table.counters.field), (FragmentId(2), FieldId(3)));
    let (after, minted) =
        after(vec![add_fragment(9, 1), add_file(own(9), &[1], &[field(1)]), add_fragment(4, 6), add_field(9, None, "c", LEAF)]);
    assert_eq!(minted.fragments, BTreeMap::from([(Token(9), FragmentId(2)), (Token(4), FragmentId(3))]));
    assert_eq!(minted.fields, BTreeMap::from([(Token(9), FieldId(3))]), "fragments and fields have their own tokens");
    assert_eq!((after.counters.fragment, after.counters.field), (FragmentId(4), FieldId(4)));
    let added = after.fragments.get(FragmentId(2)).unwrap();
    assert_eq!((added.created_at, added.updated_at, added.backing(FieldId(1)).unwrap().1), (2, 2, 0));
    assert_eq!(added.backing(FieldId(2)), None);
}

#[test]
fn the_snapshot_that_was_given_stays_as_it_was() {
    let before = table();
    let copy = before.clone();
    let actions = vec![remove(old(0)), delete(old(1), &[0], &[0], &[]), add_fragment(0, 1), add_field(0, None, "c", LEAF)];
    let (after, _) = apply(&before, &transaction(actions), 2).unwrap();
    assert_eq!(before, copy);
    assert_eq!((ids(&after), after.version, after.schema.fields().len()), (vec![1, 2], 2, 3));
}

#[test]
fn a_token_is_bound_once_and_used_after_it_is_bound() {
    assert_eq!(refusal(vec![add_fragment(3, 1), add_fragment(3, 1)]), "fragment token 3 is bound twice");
    assert_eq!(refusal(vec![add_field(3, None, "c", LEAF), add_field(3, None, "d", LEAF)]), "field token 3 is bound twice");
    assert_eq!(refusal(vec![add_file(own(3), &[1], &[])]), "fragment token 3 is not bound");
    assert_eq!(refusal(vec![add_file(own(3), &[1], &[]), add_fragment(3, 1)]), "fragment token 3 is not bound");
    assert_eq!(refusal(vec![add_fragment(3, 1), add_file(own(3), &[1], &[own_field(3)])]), "field token 3 is not bound");
    assert_eq!(refusal(vec![add_field(0, Some(own_field(1)), "part", LEAF)]), "field token 1 is not bound");
    assert_eq!(
        refusal(vec![add_field(3, None, "c", LEAF), remove(own(3))]),
        "fragment token 3 is not bound",
        "a field's token is no fragment's"
    );
}

#[test]
fn what_does_not_exist_cannot_be_changed() {
    for action in [remove(old(2)), delete(old(2), &[0], &[0], &[]), add_file(old(2), &[1], &[]), moved(&[old(0)], &[old(2)])] {
        assert_eq!(refusal(vec![action]), "there is no fragment 2");
    }
    for action in [remove(old(0)), delete(old(0), &[0], &[0], &[]), add_file(old(0), &[3], &[])] {
        assert_eq!(refusal(vec![remove(old(0)), action]), "there is no fragment 0");
    }
    assert_eq!(refusal(vec![moved(&[old(0)], &[own(5)])]), "fragment token 5 is not bound");
    assert_eq!(refusal(vec![add_fragment(0, 1), add_file(own(0), &[1], &[field(3)])]), "there is no field 3");
    assert_eq!(refusal(vec![add_field(0, Some(field(3)), "part", LEAF)]), "there is no field 3");
}

#[test]
fn a_dropped_field_comes_back_under_its_id_and_only_then() {
    let claim = |id, name: &str| {
        let Action::AddField(add) = add_field(0, None, name, LEAF) else { panic!("not a field") };
        Action::AddField(AddField { id: field(id), ..add })
    };
    let drop = || Action::DropField(DropField { field: field(1) });
    // The file of fragment 2 was written for a column of the dropped field.
    let (after, minted) = after(vec![drop(), claim(1, "back"), add_fragment(0, 1), add_file(own(0), &[1], &[field(1)])]);
    let names: Vec<(i32, &str)> = after.schema.fields().iter().map(|field| (field.id.0, field.name.as_str())).collect();
    assert_eq!((names, after.counters.field), (vec![(2, "b"), (1, "back")], FieldId(3)));
    assert!(minted.fields.is_empty());
    assert_eq!(after.fragments.get(FragmentId(0)).unwrap().backing(FieldId(1)), None, "old values do not come back by themselves");
    assert!(after.fragments.get(FragmentId(2)).unwrap().backing(FieldId(1)).is_some());
    assert_eq!(refusal(vec![claim(1, "c")]), "field id 1 is that of 'a'");
    assert_eq!(refusal(vec![drop(), claim(1, "c"), claim(1, "d")]), "field id 1 is that of 'c'");
    for id in [3, 0, -1] {
        assert_eq!(refusal(vec![claim(id, "c")]), format!("field id {id} was never given out"));
    }
}

#[test]
fn a_column_without_a_field_is_dead_and_keeps_its_place() {
    let Action::AddDataFile(mut file) = add_file(own(0), &[1], &[field(1), field(2)]) else { panic!("not a file") };
    file.fields = vec![None, Some(field(2))];
    let (after, _) = after(vec![add_fragment(0, 1), Action::AddDataFile(file)]);
    let fragment = after.fragments.get(FragmentId(2)).unwrap();
    assert_eq!((fragment.backing(FieldId(1)).is_none(), fragment.backing(FieldId(2)).unwrap().1), (true, 1));
}

#[test]
fn a_part_is_of_a_field_that_is_there_or_was() {
    let with_part = |part: Option<FieldRef>| {
        let Action::AddDataFile(mut file) = add_file(own(0), &[1], &[field(1)]) else { panic!("not a file") };
        file.file.columns[0].parts = vec![FieldId(9)];
        file.fields.push(part);
        vec![Action::DropField(DropField { field: field(2) }), add_fragment(0, 1), Action::AddDataFile(file)]
    };
    for id in [1, 2] {
        let (after, _) = after(with_part(Some(field(id))));
        let column = &after.fragments.get(FragmentId(2)).unwrap().files[0].columns[0];
        assert_eq!((column.field, &column.parts[..]), (Some(FieldId(1)), &[FieldId(id)][..]));
    }
    assert_eq!(refusal(with_part(Some(field(3)))), "field id 3 was never given out");
    assert_eq!(refusal(with_part(Some(field(0)))), "field id 0 was never given out");
    assert_eq!(refusal(with_part(None)), "a part of a column of 'data/a.parquet' has no field");
}

#[test]
fn a_source_of_a_rewrite_may_be_gone() {
    let (after, _) = after(vec![remove(old(0)), add_fragment(0, 3), moved(&[old(0), old(9)], &[own(0)])]);
    assert_eq!(ids(&after), [1, 2]);
}

#[test]
fn a_file_has_as_many_rows_as_its_fragment_and_a_field_for_each_column() {
    assert_eq!(refusal(vec![add_fragment(0, 3), add_file(own(0), &[2, 2], &[])]), "'data/a.parquet' has 4 rows, its fragment 2 has 3");
    let Action::AddDataFile(mut file) = add_file(old(0), &[3], &[field(1)]) else { panic!("not a file") };
    file.fields.push(Some(field(2)));
    assert_eq!(refusal(vec![Action::AddDataFile(file)]), "AddDataFile names 2 fields for the 1 columns and parts of 'data/a.parquet'");
}

#[test]
fn a_field_is_held_once_in_a_fragment() {
    assert_eq!(refusal(vec![add_file(old(0), &[3], &[field(2)])]), "fragment 0 holds field 2 already");
    let new = || vec![add_field(0, None, "c", LEAF), add_file(old(0), &[3], &[own_field(0)])];
    let (after, minted) = after(new());
    let fragment = after.fragments.get(FragmentId(0)).unwrap();
    assert_eq!(minted.fields[&Token(0)], FieldId(3));
    assert_eq!((fragment.files.len(), fragment.updated_at, fragment.created_at), (2, 2, 1));
    let mut twice = new();
    twice.push(add_file(old(0), &[3], &[own_field(0)]));
    assert_eq!(refusal(twice), "fragment 0 holds field 3 already");
    assert_eq!(refusal(vec![add_fragment(0, 1), add_file(own(0), &[1], &[field(1), field(1)])]), "'data/a.parquet' holds field 1 twice");
}

#[test]
fn siblings_have_different_names() {
    assert_eq!(refusal(vec![add_field(0, None, "b", LEAF)]), "fields 2 and 3 share the name 'b'");
    assert_eq!(refusal(vec![add_field(0, None, "c", LEAF), add_field(1, None, "c", LEAF)]), "fields 3 and 4 share the name 'c'");
    let (after, minted) = after(vec![
        add_field(0, None, "s", FieldType::Struct),
        add_field(1, Some(own_field(0)), "b", LEAF),
        add_field(2, Some(own_field(0)), "s", LEAF),
    ]);
    assert_eq!(after.schema.children(Some(minted.fields[&Token(0)])).map(|field| field.id.0).collect::<Vec<_>>(), [4, 5]);
}

#[test]
fn a_nested_field_is_complete_at_the_end() {
    assert!(refusal(vec![add_field(0, None, "l", FieldType::List)]).contains("has 0 parts"));
    assert!(refusal(vec![add_field(0, Some(field(1)), "part", LEAF)]).contains("which has no parts"));
    let (after, _) = after(vec![add_field(0, None, "l", FieldType::List), add_field(1, Some(own_field(0)), "item", LEAF)]);
    assert_eq!(after.schema.fields().len(), 4);
}

#[test]
fn the_same_actions_on_two_versions_mean_the_same_under_other_ids() {
    let actions = || {
        let add = vec![add_fragment(0, 2), add_file(own(0), &[2], &[field(1), field(2)]), delete(own(0), &[1], &[1], &[])];
        let columns = vec![add_field(0, None, "s", FieldType::Struct), add_field(1, Some(own_field(0)), "part", LEAF)];
        transaction(add.into_iter().chain(columns).collect())
    };
    let first = table();
    let (second, _) = after(vec![add_fragment(0, 1), add_field(0, None, "c", LEAF)]);
    let (on_first, minted_first) = apply(&first, &actions(), 2).unwrap();
    let (on_second, minted_second) = apply(&second, &actions(), 3).unwrap();
    assert_eq!((minted_first.fragments[&Token(0)], minted_second.fragments[&Token(0)]), (FragmentId(2), FragmentId(3)));
    assert_eq!((minted_first.fields[&Token(1)], minted_second.fields[&Token(1)]), (FieldId(4), FieldId(5)));
    for (snapshot, minted, version) in [(on_first, minted_first, 2), (on_second, minted_second, 3)] {
        let fragment = snapshot.fragments.get(minted.fragments[&Token(0)]).unwrap();
        let part = snapshot.schema.field(minted.fields[&Token(1)]).unwrap();
        assert_eq!((fragment.physical_rows, fragment.live_rows(), fragment.created_at), (2, 1, version));
        assert_eq!((part.name.as_str(), part.parent), ("part", Some(minted.fields[&Token(0)])));
    }
}

#[test]
fn a_fragment_without_live_rows_is_dropped_at_the_end() {
    let (after, _) = after(vec![
        delete(old(0), &[0, 1], &[0, 1], &[]),
        delete(old(0), &[0, 1, 2], &[2], &[]),
        add_fragment(0, 1),
        delete(own(0), &[0], &[0], &[]),
        delete(old(1), &[1], &[1], &[1]),
        add_fragment(1, 0),
    ]);
    assert_eq!((ids(&after), after.live_rows()), (vec![1], 1));
    assert_eq!(after.counters.fragment, FragmentId(4), "an id is given out once, whatever became of it");
}

#[test]
fn a_fragment_that_comes_and_goes_leaves_nothing_but_its_id() {
    let (after, minted) = after(vec![add_fragment(0, 5), remove(own(0)), add_fragment(1, 1)]);
    assert_eq!(minted.fragments[&Token(0)], FragmentId(2));
    assert_eq!((ids(&after), after.counters.fragment), (vec![0, 1, 3], FragmentId(4)));
}

#[test]
fn deletions_lie_within_their_fragment() {
    assert_eq!(refusal(vec![delete(old(1), &[0, 1, 2], &[], &[])]), "a deletion vector of 3 rows for fragment 1 of 2 rows");
    let beyond = "SetDeletionFile claims rows that fragment 1 does not have";
    assert_eq!(refusal(vec![delete(old(1), &[0], &[2], &[])]), beyond);
    assert_eq!(refusal(vec![delete(old(1), &[0], &[0], &[1])]), beyond);
    assert_eq!(refusal(vec![delete(old(1), &[], &[0], &[])]), "SetDeletionFile deletes 1 rows of fragment 1, its vector holds 0");
    let (after, _) = after(vec![delete(old(1), &[1], &[1], &[])]);
    let fragment = after.fragments.get(FragmentId(1)).unwrap();
    assert_eq!((fragment.live_rows(), fragment.created_at, fragment.updated_at), (1, 1, 2));
}

#[test]
fn ids_end() {
    let mut table = table();
    table.counters.fragment = FragmentId::MAX;
    let (last, minted) = apply(&table, &transaction(vec![add_fragment(0, 1)]), 2).unwrap();
    assert_eq!(minted.fragments[&Token(0)], FragmentId::MAX);
    assert_eq!(apply(&last, &transaction(vec![add_fragment(0, 1)]), 3).unwrap_err().to_string(), "no fragment ids are left");
    table.counters.field = FieldId(i32::MAX);
    let full = apply(&table, &transaction(vec![add_field(0, None, "c", LEAF)]), 2).unwrap_err();
    assert_eq!(full.to_string(), "no field ids are left");
}

fn alter(field: FieldRef) -> AlterField {
    AlterField { field, parent: None, name: None, field_type: None, nullable: None }
}

/// The schema as name, type and whether it can be NULL.
fn columns(snapshot: &Snapshot) -> Vec<(i32, &str, bool)> {
    snapshot.schema.fields().iter().map(|field| (field.id.0, field.name.as_str(), field.nullable)).collect()
}

#[test]
fn a_field_gets_another_name_and_type_and_may_be_null() {
    let wide = Some(FieldType::Leaf(DataType::Int64));
    let (after, _) = after(vec![
        add_field(0, None, "s", FieldType::Struct),
        add_field(1, Some(own_field(0)), "part", LEAF),
        Action::AlterField(AlterField { name: Some("z".into()), field_type: wide.clone(), ..alter(field(1)) }),
        Action::AlterField(AlterField { parent: Some(own_field(0)), name: Some("z".into()), ..alter(own_field(1)) }),
        Action::AlterField(AlterField { nullable: Some(false), ..alter(field(2)) }),
    ]);
    assert_eq!(columns(&after), [(1, "z", true), (2, "b", false), (3, "s", true), (4, "z", true)]);
    let part = AlterField { nullable: Some(false), parent: Some(own_field(0)), ..alter(own_field(1)) };
    let structure = vec![add_field(0, None, "s", FieldType::Struct), add_field(1, Some(own_field(0)), "part", LEAF)];
    assert!(refusal([structure, vec![Action::AlterField(part)]].concat()).contains("whose NULLs nobody looks at"));
    assert_eq!(after.schema.field(FieldId(1)).map(|field| &field.field_type), wide.as_ref());
    for (action, needle) in [
        (AlterField { name: Some("x".into()), ..alter(field(99)) }, "no field 99"),
        (AlterField { name: Some("x".into()), parent: Some(field(2)), ..alter(field(1)) }, "part of another field"),
        (AlterField { field_type: Some(FieldType::Leaf(DataType::Int16)), ..alter(field(1)) }, "not every value of field 1 ('a')"),
        (AlterField { field_type: Some(FieldType::Struct), ..alter(field(1)) }, "not every value of field 1 ('a')"),
        (AlterField { name: Some("b".into()), ..alter(field(1)) }, "share the name 'b'"),
    ] {
        let reason = refusal(vec![Action::AlterField(action)]);
        assert!(reason.contains(needle), "{reason}");
    }
}

#[test]
fn a_dropped_field_takes_its_parts_and_its_columns_along() {
    let (before, _) = after(vec![
        add_field(0, None, "s", FieldType::Struct),
        add_field(1, Some(own_field(0)), "part", LEAF),
        add_fragment(0, 5),
        add_file(own(0), &[5], &[field(1), own_field(0)]),
        add_file(own(0), &[5], &[own_field(1)]),
    ]);
    let dropped = before.schema.fields().iter().find(|field| field.name == "s").unwrap().id;
    let id = before.fragments.iter().last().unwrap().id;
    let step = |action| Step { actions: vec![action], ..Step::default() };
    let of = |steps| Transaction { id: TransactionId(2), read_version: before.version, steps };
    let (after, _) = apply(&before, &of(vec![step(Action::DropField(DropField { field: Ref::Committed(dropped) }))]), 9).unwrap();
    let fragment = after.fragments.get(id).unwrap();
    let slots: Vec<Vec<Option<i32>>> =
        fragment.files.iter().map(|file| file.columns.iter().map(|column| column.field.map(|field| field.0)).collect()).collect();
    assert_eq!((slots, fragment.updated_at, fragment.physical_rows), (vec![vec![Some(1), None]], 9, 5));
    assert!(columns(&after).iter().all(|(_, name, _)| *name != "s" && *name != "part"));
    assert_eq!(after.counters.field, before.counters.field);

    let again = vec![step(Action::DropField(DropField { field: Ref::Committed(dropped) })), step(add_field(0, None, "s", LEAF))];
    let (after, minted) = apply(&before, &of(again), 9).unwrap();
    assert_eq!(minted.fields[&Token(0)], before.counters.field);
    assert!(after.schema.column("s").is_some_and(|column| column.id == before.counters.field));
    let (after, _) = apply(&before, &of(vec![step(Action::DropField(DropField { field: field(1) }))]), 9).unwrap();
    assert_eq!(after.fragments.get(id).unwrap().files.len(), 2);

    // The rows of a fragment stay, and with them a file to count them in.
    let all = [1, dropped.0].map(|id| step(Action::DropField(DropField { field: field(id) }))).to_vec();
    let (after, _) = apply(&before, &of(all), 9).unwrap();
    let fragment = after.fragments.get(id).unwrap();
    assert_eq!((fragment.files.len(), fragment.live_rows()), (1, 5));
}

fn config(replace: bool, entries: &[(&str, Option<&str>)]) -> Action {
    let entries = entries.iter().map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned))).collect();
    Action::ConfigUpdate(ConfigUpdate { entries, replace })
}

#[test]
fn settings_are_merged_removed_and_replaced() {
    let set = config(false, &[("a", Some("1")), ("b", Some("2"))]);
    let settings = |actions: Vec<Action>| after(actions).0.config.into_iter().collect::<Vec<_>>();
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(settings(vec![set.clone(), config(false, &[("a", None), ("c", Some("3"))])]), [pair("b", "2"), pair("c", "3")]);
    assert_eq!(settings(vec![set.clone(), config(true, &[("b", Some("4")), ("x", None)])]), [pair("b", "4")]);
    assert_eq!(settings(vec![set, config(true, &[])]), []);
}

#[test]
fn reserved_fragment_ids_are_passed_over() {
    let reserve = |count| Action::ReserveFragmentIds(ReserveFragmentIds { count });
    let file = |token| add_file(own(token), &[1], &[field(1)]);
    let (after, minted) = after(vec![add_fragment(0, 1), file(0), reserve(5), reserve(0), add_fragment(1, 1), file(1)]);
    assert_eq!(minted.fragments, BTreeMap::from([(Token(0), FragmentId(2)), (Token(1), FragmentId(8))]));
    assert_eq!((ids(&after), after.counters.fragment), (vec![0, 1, 2, 8], FragmentId(9)));
    assert!(refusal(vec![reserve(u32::MAX - 2)]).contains("no fragment ids"));
    assert!(refusal(vec![reserve(u32::MAX)]).contains("no fragment ids"));
}

fn add_at(id: u32, physical_rows: u32) -> Action {
    Action::AddFragment(AddFragment { id: old(id), physical_rows, data_change: true, replacing: roaring::RoaringBitmap::new() })
}

#[test]
fn a_fragment_takes_an_id_that_was_reserved() {
    let (reserved, _) = after(vec![Action::ReserveFragmentIds(ReserveFragmentIds { count: 3 })]);
    let actions = vec![add_at(3, 2), add_file(old(3), &[2], &[field(1)]), delete(old(3), &[1], &[1], &[]), add_fragment(0, 1)];
    let (taken, minted) = apply(&reserved, &transaction(actions.clone()), 3).unwrap();
    assert_eq!((ids(&taken), taken.live_rows(), taken.counters.fragment), (vec![0, 1, 3, 5], 7, FragmentId(6)));
    assert_eq!(minted.fragments, BTreeMap::from([(Token(0), FragmentId(5))]), "an id that was reserved is not minted");
    let refused = |on: &Snapshot, actions| apply(on, &transaction(actions), 4).unwrap_err().to_string();
    assert_eq!(refused(&taken, actions), "there is a fragment 3 already");
    assert_eq!(refused(&reserved, vec![add_at(2, 1), add_at(2, 1)]), "there is a fragment 2 already");
    assert_eq!(refused(&reserved, vec![add_at(2, 1), remove(old(2)), add_at(2, 1)]), "there is a fragment 2 already");
    assert_eq!(refused(&reserved, vec![add_at(5, 1)]), "fragment id 5 is not reserved");
    assert_eq!(refusal(vec![add_at(1, 1)]), "there is a fragment 1 already");
    let (late, _) = apply(&taken, &transaction(vec![add_at(4, 1), add_file(old(4), &[1], &[])]), 5).unwrap();
    assert_eq!((ids(&late), late.counters), (vec![0, 1, 3, 4, 5], taken.counters), "the rest stays reserved");
}

#[test]
fn a_reset_table_is_built_anew_under_new_ids() {
    let bases = add_base(0, Some("b"), "s3://b");
    let (after, minted) = after(vec![
        config(false, &[("k", Some("v"))]),
        bases,
        Action::ResetTable(ResetTable),
        add_field(0, None, "a", LEAF),
        add_fragment(0, 4),
        add_file(own(0), &[4], &[own_field(0)]),
    ]);
    assert_eq!((minted.fields[&Token(0)], minted.fragments[&Token(0)]), (FieldId(3), FragmentId(2)));
    assert_eq!((columns(&after), ids(&after), after.live_rows()), (vec![(3, "a", true)], vec![2], 4));
    assert_eq!((after.config.len(), after.bases.len()), (1, 1));
    assert!(refusal(vec![Action::ResetTable(ResetTable), remove(old(0))]).contains("no fragment 0"));
    assert!(refusal(vec![Action::ResetTable(ResetTable), add_field(0, Some(field(1)), "p", LEAF)]).contains("no field 1"));
}

fn tombstone(fragment: FragmentRef, fields: &[FieldRef]) -> Action {
    Action::TombstoneFieldData(TombstoneFieldData { fragment, fields: fields.to_vec(), data_change: true })
}

#[test]
fn values_of_a_fragment_go_and_come_anew() {
    let slots = |snapshot: &Snapshot, id: u32| -> Vec<Vec<Option<i32>>> {
        let fragment = snapshot.fragments.get(FragmentId(id)).unwrap();
        fragment.files.iter().map(|file| file.columns.iter().map(|column| column.field.map(|field| field.0)).collect()).collect()
    };
    let (one, _) = after(vec![tombstone(old(0), &[field(1)])]);
    assert_eq!((slots(&one, 0), slots(&one, 1)), (vec![vec![None, Some(2)]], vec![vec![Some(1), Some(2)]]));
    assert_eq!(one.fragments.get(FragmentId(0)).unwrap().updated_at, 2);
    let (anew, _) = after(vec![tombstone(old(0), &[field(1)]), add_file(old(0), &[3], &[field(1)])]);
    assert_eq!(slots(&anew, 0), [vec![None, Some(2)], vec![Some(1)]]);
    let (all, _) = after(vec![tombstone(old(0), &[field(1), field(2)]), add_file(old(0), &[3], &[field(2)])]);
    assert_eq!(slots(&all, 0), [vec![Some(2)]]);
    let (none, _) = after(vec![tombstone(old(0), &[field(1), field(2)])]);
    assert_eq!((slots(&none, 0), none.live_rows()), (vec![vec![None, None]], 5));
    assert!(refusal(vec![tombstone(old(0), &[field(1)]), tombstone(old(0), &[field(1)])]).contains("no values of field 1"));
    assert!(refusal(vec![tombstone(old(7), &[field(1)])]).contains("no fragment 7"));
}

fn add_base(token: u32, name: Option<&str>, location: &str) -> Action {
    let base = Base { name: name.map(str::to_owned), location: location.into() };
    Action::AddBase(AddBase { token: Token(token), base })
}

#[test]
fn bases_have_names_and_locations_of_their_own() {
    let (after, minted) = after(vec![add_base(4, None, "s3://a"), add_base(2, None, "s3://b"), add_base(3, Some("c"), "s3://c")]);
    assert_eq!(minted.bases, BTreeMap::from([(Token(4), BaseId(0)), (Token(2), BaseId(1)), (Token(3), BaseId(2))]));
    assert_eq!((after.bases.len(), after.counters.base), (3, BaseId(3)));
    for (actions, needle) in [
        (vec![add_base(0, Some("a"), "s3://a"), add_base(1, Some("a"), "s3://b")], "shares its name"),
        (vec![add_base(0, Some("a"), "s3://a"), add_base(1, None, "s3://a")], "shares its name or location"),
        (vec![add_base(0, None, "s3://a"), add_base(0, None, "s3://b")], "bound twice"),
    ] {
        assert!(refusal(actions).contains(needle));
    }
}

#[test]
fn an_assertion_changes_nothing_and_names_fields_that_exist() {
    let assertion = |fields: &[FieldRef]| {
        let (fields, hashes) = (fields.to_vec(), Arc::new(BTreeSet::from([1])));
        Action::AssertUniqueKeys(AssertUniqueKeys { fields, scheme: 1, hashes })
    };
    assert_eq!(after(vec![assertion(&[field(1), field(2)])]).0, Snapshot { version: 2, ..table() });
    assert!(refusal(vec![assertion(&[field(9)])]).contains("no field 9"));
    assert!(refusal(vec![assertion(&[])]).contains("no fields"));
}
