//! Scenarios that every vocabulary of actions has to answer, by name, as far as they are about the actions here.
//!
//! Where the others of the list are, by what they are about:
//!
//! | about | tests |
//! |---|---|
//! | tokens and ids: minted in order, bound once, used after that, relocated | `manifest/apply/tests.rs`: `tokens_get_the_next_ids`, `a_token_is_bound_once_and_used_after_it_is_bound`, `the_same_actions_on_two_versions_mean_the_same_under_other_ids` |
//! | what is missing is an error, in each action | `manifest/apply/tests.rs`: `what_does_not_exist_cannot_be_changed` and the tests of each action below it |
//! | reserved ids: passed over, claimed, not twice | `reserved_fragment_ids_are_passed_over`, `a_fragment_takes_an_id_that_was_reserved`, `rebase/tests/reserved.rs` |
//! | fields: parents, siblings, subtrees, ids never used again | `siblings_have_different_names`, `a_nested_field_is_complete_at_the_end`, `a_dropped_field_takes_its_parts_and_its_columns_along` |
//! | bases, settings, reset, key assertions | `bases_have_names_and_locations_of_their_own`, `settings_are_merged_removed_and_replaced`, `a_reset_table_is_built_anew_under_new_ids`, `an_assertion_changes_nothing_and_names_fields_that_exist` |
//! | the wire form: round trips, empty actions and references, unknown ones | `wire/tests.rs`, `manifest/encode/tests.rs`, `manifest/shape/tests.rs` |
//! | all pairs of kinds, both orders | `pairs.rs` |
//! | rows: unions, moves, lost updates | `rebase/tests/`, `simulation.rs` |

use super::action::{
    Action, AddBase, AddDataFile, AddField, AddFragment, AlterField, AssertUniqueKeys, ConfigUpdate, DropField, RemoveFragment,
    ReserveFragmentIds, SetDeletionFile, TombstoneFieldData,
};
use super::compare::Comparison;
use super::composite::{RowCounts, Step, Transaction, TransactionId};
use super::footprint::Footprint;
use super::refs::{FieldRef, FragmentRef, Ref, Token};
use super::testbed::{Draft, Testbed, data_file};
use crate::manifest::apply::apply;
use crate::manifest::snapshot::Snapshot;
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::{Base, DataFile, FileColumn, Fragment};
use crate::table::row_address::FragmentId;
use crate::table::schema::{FieldId, FieldType};
use arrow_schema::DataType;
use roaring::RoaringBitmap;
use rstest::rstest;
use std::collections::BTreeMap;
use std::sync::Arc;

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

fn add_fragment(id: FragmentRef, data_change: bool) -> Action {
    Action::AddFragment(AddFragment { id, physical_rows: 4, data_change, replacing: RoaringBitmap::new() })
}

/// A file of four rows.
fn add_file(fragment: FragmentRef, path: &str, fields: &[FieldRef]) -> Action {
    let file = data_file(path, 4, fields.len());
    Action::AddDataFile(AddDataFile { fragment, file, base: None, fields: fields.iter().copied().map(Some).collect(), data_change: true })
}

fn tombstone(fragment: FragmentRef, fields: &[FieldRef]) -> Action {
    Action::TombstoneFieldData(TombstoneFieldData { fragment, fields: fields.to_vec(), data_change: true })
}

fn refill(fragment: u32, id: i32) -> Vec<Action> {
    let path = format!("data/refill-{fragment}-{id}.parquet");
    vec![tombstone(old(fragment), &[field(id)]), add_file(old(fragment), &path, &[field(id)])]
}

fn add_field(token: u32, parent: Option<FieldRef>, name: &str) -> Action {
    let (name, field_type, metadata) = (name.into(), FieldType::Leaf(DataType::Int64), BTreeMap::new());
    Action::AddField(AddField {
        id: Ref::Local(Token(token)),
        parent,
        name,
        field_type,
        nullable: true,
        metadata,
        initial: None,
        in_place_of: None,
    })
}

fn alter(id: i32) -> AlterField {
    AlterField { field: field(id), parent: None, name: None, field_type: None, nullable: None }
}

fn rename(id: i32, name: &str) -> Action {
    Action::AlterField(AlterField { name: Some(name.into()), ..alter(id) })
}

fn cast(id: i32) -> Action {
    Action::AlterField(AlterField { field_type: Some(FieldType::Leaf(DataType::Int64)), ..alter(id) })
}

fn drop_field(id: i32) -> Action {
    Action::DropField(DropField { field: field(id) })
}

fn remove(id: u32) -> Action {
    Action::RemoveFragment(RemoveFragment { fragment: old(id), data_change: true })
}

/// Deletes rows; they live on nowhere.
fn delete(id: u32, rows: &[u32]) -> Action {
    let added: RoaringBitmap = rows.iter().copied().collect();
    let vector = DeletionFile::inline(&added);
    Action::SetDeletionFile(SetDeletionFile { fragment: old(id), vector, added, replaced: RoaringBitmap::new() })
}

fn add_base(name: Option<&str>, location: &str) -> Action {
    let base = Base { name: name.map(str::to_owned), location: location.into() };
    Action::AddBase(AddBase { token: Token(0), base })
}

fn set(key: &str, replace: bool) -> Action {
    Action::ConfigUpdate(ConfigUpdate { entries: BTreeMap::from([(key.to_owned(), Some("1".to_owned()))]), replace })
}

fn assert_keys(fields: &[i32], hashes: &[u64]) -> Action {
    let fields = fields.iter().map(|id| field(*id)).collect();
    Action::AssertUniqueKeys(AssertUniqueKeys { fields, scheme: 1, hashes: Arc::new(hashes.iter().copied().collect()) })
}

fn append() -> Vec<Action> {
    vec![add_fragment(own(0), true), add_file(own(0), "data/append.parquet", &[field(1), field(2), field(3)])]
}

fn transaction(steps: Vec<Vec<Action>>) -> Transaction {
    let steps = steps.into_iter().map(|actions| Step { actions, ..Step::default() }).collect();
    Transaction { id: TransactionId(9), read_version: 0, steps }
}

/// Columns key (1), value (2), x (3) and y (4), of which x can be cast; fragments 0 to 2 of four rows hold all of them; the ids 3
/// to 5 are reserved.
fn table() -> Testbed {
    let mut bed = Testbed::of(&[&[0, 1, 2, 3], &[4, 5, 6, 7], &[8, 9, 10, 11]]);
    let mut draft = bed.draft();
    let mut actions = Vec::new();
    for (token, name) in ["x", "y"].into_iter().enumerate() {
        let field_type = FieldType::Leaf(DataType::Int32);
        let (token, name, metadata) = (Token(token as u32), name.into(), BTreeMap::new());
        actions.push(Action::AddField(AddField {
            id: Ref::Local(token),
            parent: None,
            name,
            field_type,
            nullable: false,
            metadata,
            initial: None,
            in_place_of: None,
        }));
    }
    actions.extend((0..3).map(|id| add_file(old(id), &format!("data/more-{id}.parquet"), &[own_field(0), own_field(1)])));
    actions.push(Action::ReserveFragmentIds(ReserveFragmentIds { count: 3 }));
    draft.step("SET UP", "SET UP".into(), actions, RowCounts::default());
    bed.land(draft).unwrap();
    bed
}

fn paths(snapshot: &Snapshot, id: u32) -> Vec<&str> {
    snapshot.fragments.get(FragmentId(id)).unwrap().unwrap().files.iter().map(|file| file.path.as_str()).collect()
}

#[test]
fn one_commit_adds_a_fragment_and_then_modifies_it() {
    let steps = vec![
        vec![add_fragment(own(7), true), add_file(own(7), "data/first", &[field(1), field(2)])],
        vec![tombstone(own(7), &[field(1), field(2)]), add_file(own(7), "data/last", &[field(1), field(2)])],
    ];
    let (after, minted) = apply(table().newest(), &transaction(steps), 4).unwrap();
    assert_eq!((minted.fragments[&Token(7)], paths(&after, 6)), (FragmentId(6), vec!["data/last"]));
}

#[test]
fn one_commit_adds_a_field_and_then_fills_it() {
    let steps = vec![vec![add_field(3, None, "n")], vec![add_file(old(1), "data/n", &[own_field(3)])]];
    let (after, minted) = apply(table().newest(), &transaction(steps), 4).unwrap();
    let (file, position) = after.fragments.get(FragmentId(1)).unwrap().unwrap().backing(minted.fields[&Token(3)]).unwrap();
    assert_eq!((file.path.as_str(), position, minted.fields[&Token(3)]), ("data/n", 0, FieldId(5)));
}

#[test]
fn actions_apply_step_after_step() {
    let (after, _) =
        apply(table().newest(), &transaction(vec![vec![rename(3, "n")], vec![], vec![rename(3, "m"), rename(4, "n")]]), 4).unwrap();
    assert!(after.schema.column("m").is_some_and(|column| column.id == FieldId(3)));
    assert!(after.schema.column("n").is_some_and(|column| column.id == FieldId(4)));
}

#[test]
fn a_field_may_be_given_the_name_that_it_has() {
    let before = table();
    let (after, _) = apply(before.newest(), &transaction(vec![vec![rename(3, "x")]]), 4).unwrap();
    assert_eq!(after.schema.fields(), before.newest().schema.fields());
}

#[test]
fn a_reservation_of_no_ids_changes_nothing() {
    let before = table();
    let reserve = |count| transaction(vec![vec![Action::ReserveFragmentIds(ReserveFragmentIds { count })]]);
    let (after, _) = apply(before.newest(), &reserve(0), 4).unwrap();
    assert_eq!(after, Snapshot { version: 4, ..before.newest().clone() });
    let (after, _) = apply(before.newest(), &reserve(2), 4).unwrap();
    assert_eq!((after.counters.fragment, after.fragments.len()), (FragmentId(8), 3));
}

#[test]
fn a_deletion_vector_is_set_replaced_and_cleared() {
    let cleared = SetDeletionFile { fragment: old(1), vector: None, added: RoaringBitmap::new(), replaced: RoaringBitmap::new() };
    let bed = table();
    let mut dead = Vec::new();
    for actions in
        [vec![delete(1, &[0, 2])], vec![delete(1, &[0, 2]), delete(1, &[3])], vec![delete(1, &[0]), Action::SetDeletionFile(cleared)]]
    {
        let (after, _) = apply(bed.newest(), &transaction(vec![actions]), 4).unwrap();
        dead.push(after.fragments.get(FragmentId(1)).unwrap().unwrap().deleted_rows());
    }
    assert_eq!(dead, [2, 1, 0], "the vector is the whole one, not what is added to it");
}

#[test]
fn a_missing_field_is_neither_dropped_nor_altered_nor_filled() {
    for action in [drop_field(9), rename(9, "n"), tombstone(old(0), &[field(9)]), add_field(0, Some(field(9)), "part")] {
        assert_eq!(apply(table().newest(), &transaction(vec![vec![action]]), 4).unwrap_err().to_string(), "there is no field 9");
    }
    let twice = transaction(vec![vec![drop_field(3), drop_field(3)]]);
    assert_eq!(apply(table().newest(), &twice, 4).unwrap_err().to_string(), "there is no field 3");
}

#[test]
fn two_appends_with_the_same_tokens_both_land() {
    let mut bed = table();
    let (mut one, mut other) = (bed.draft(), bed.draft());
    assert_eq!(one.insert(&[(20, 0)]), other.insert(&[(21, 0)]));
    let (one, other) = (bed.land(one).unwrap(), bed.land(other).unwrap());
    assert_ne!(one.committed.minted, other.committed.minted);
    assert_eq!(bed.rows().len(), 14);
}

#[test]
fn minting_actions_write_nothing() {
    let nothing = Footprint::default();
    let file = add_file(own(0), "data/own", &[own_field(0)]);
    // Of a field there is only that it gets an id, for those that wrote down ids that they foresaw.
    let mut a_field = Footprint::default();
    a_field.adds_field();
    for (actions, footprint) in [
        (vec![add_fragment(own(0), false)], &nothing),
        (vec![add_fragment(own(0), false), add_field(0, Some(own_field(4)), "part"), file], &a_field),
        (vec![Action::ReserveFragmentIds(ReserveFragmentIds { count: 9 })], &nothing),
    ] {
        let names: Vec<_> = actions.iter().map(Action::name).collect();
        assert_eq!(&Footprint::of(&transaction(vec![actions])), footprint, "{names:?}");
    }
    assert_ne!(Footprint::of(&transaction(vec![vec![add_fragment(own(0), true)]])), nothing, "it inserts rows");
}

/// What becomes of `ours` after `theirs`: `ok`, `carry`, or `conflict`.
fn verdict(theirs: &[Action], ours: &[Action]) -> &'static str {
    let mut bed = table();
    let step = |actions: &[Action], draft: &mut Draft| draft.step("SAMPLE", String::new(), actions.to_vec(), RowCounts::default());
    let (mut first, mut second) = (bed.draft(), bed.draft());
    step(theirs, &mut first);
    step(ours, &mut second);
    let landed = bed.land(first).unwrap();
    match bed.land_compared(second, &landed).0 {
        Comparison::Commutes => "ok",
        Comparison::Carry(_) => "carry",
        Comparison::Conflict(_) => "conflict",
    }
}

#[rstest]
#[case::same_field_of_one_fragment(refill(0, 3), refill(0, 3), "conflict")]
#[case::other_field_of_one_fragment(refill(0, 3), refill(0, 4), "ok")]
#[case::same_field_of_another_fragment(refill(0, 3), refill(1, 3), "ok")]
#[case::deletions_and_values_of_one_fragment(vec![delete(0, &[1])], refill(0, 3), "ok or carry")]
#[case::deletions_of_other_rows(vec![delete(0, &[1])], vec![delete(0, &[2])], "carry")]
#[case::deletions_of_another_fragment(vec![delete(0, &[1])], vec![delete(1, &[1])], "ok")]
#[case::removal_and_deletions_inside(vec![remove(0)], vec![delete(0, &[1])], "carry")]
#[case::removal_and_values_inside(vec![remove(0)], refill(0, 3), "ok or carry")]
#[case::removal_elsewhere(vec![remove(0)], refill(1, 3), "ok")]
#[case::one_fragment_removed_twice(vec![remove(0)], vec![remove(0)], "carry")]
#[case::one_definition_altered_twice(vec![cast(3)], vec![cast(3)], "conflict")]
#[case::two_facets_of_one_field(vec![cast(3)], vec![rename(3, "n")], "ok")]
#[case::two_definitions(vec![cast(3)], vec![cast(4)], "ok")]
#[case::drop_and_alter(vec![drop_field(3)], vec![cast(3)], "conflict")]
#[case::one_field_dropped_twice(vec![drop_field(3)], vec![drop_field(3)], "conflict")]
#[case::drop_and_another_field(vec![drop_field(3)], refill(0, 4), "ok")]
#[case::drop_and_deletions(vec![drop_field(3)], vec![delete(0, &[1])], "ok")]
#[case::cast_of_a_column_that_an_append_lacks(vec![cast(4)], append(), "ok")]
#[case::same_name_added(vec![add_field(0, None, "n")], vec![add_field(0, None, "n")], "conflict")]
#[case::different_names_added(vec![add_field(0, None, "n")], vec![add_field(0, None, "m")], "ok")]
#[case::name_added_and_renamed_to(vec![add_field(0, None, "n")], vec![rename(3, "n")], "conflict")]
#[case::two_renames_to_one_name(vec![rename(3, "n")], vec![rename(4, "n")], "conflict")]
#[case::two_renames_of_one_field(vec![rename(3, "n")], vec![rename(3, "m")], "conflict")]
#[case::bases_of_one_name(vec![add_base(Some("b"), "s3://b")], vec![add_base(Some("b"), "s3://c")], "conflict")]
#[case::bases_at_one_location(vec![add_base(Some("b"), "s3://b")], vec![add_base(Some("c"), "s3://b")], "conflict")]
#[case::bases_that_share_nothing(vec![add_base(Some("b"), "s3://b")], vec![add_base(Some("c"), "s3://c")], "ok")]
#[case::unnamed_bases_elsewhere(vec![add_base(None, "s3://b")], vec![add_base(None, "s3://c")], "ok")]
#[case::unnamed_bases_at_one_place(vec![add_base(None, "s3://b")], vec![add_base(None, "s3://b")], "conflict")]
#[case::one_reserved_id(vec![add_fragment(old(3), true)], vec![add_fragment(old(3), true)], "conflict")]
#[case::two_reserved_ids(vec![add_fragment(old(3), true)], vec![add_fragment(old(4), true)], "ok")]
#[case::different_settings(vec![set("a", false)], vec![set("b", false)], "ok")]
#[case::one_setting(vec![set("a", false)], vec![set("a", false)], "conflict")]
#[case::all_settings_and_one(vec![set("a", true)], vec![set("b", false)], "conflict")]
#[case::all_settings_twice(vec![set("a", true)], vec![set("b", true)], "conflict")]
#[case::keys_that_share_none(vec![assert_keys(&[1], &[1])], vec![assert_keys(&[1], &[2])], "ok")]
#[case::keys_that_share_one(vec![assert_keys(&[1], &[1, 2])], vec![assert_keys(&[1], &[2])], "conflict")]
#[case::keys_and_an_insert_without(vec![assert_keys(&[1], &[1])], append(), "conflict")]
#[case::keys_and_values_of_their_column(vec![assert_keys(&[3], &[1])], refill(0, 3), "conflict")]
#[case::keys_and_values_of_another_column(vec![assert_keys(&[3], &[1])], refill(0, 4), "ok")]
#[case::keys_and_a_removal(vec![assert_keys(&[1], &[1])], vec![remove(0)], "ok")]
#[case::keys_and_rows_that_were_there_before(vec![assert_keys(&[1], &[1])], vec![add_fragment(own(0), false)], "ok")]
#[case::two_appends(append(), append(), "ok")]
fn both_orders_come_to_the_same(#[case] one: Vec<Action>, #[case] other: Vec<Action>, #[case] expected: &str) {
    for (theirs, ours) in [(&one, &other), (&other, &one)] {
        let found = verdict(theirs, ours);
        assert!(expected.split(" or ").any(|one| one == found), "{found}: {ours:?} after {theirs:?}");
    }
}

#[rstest]
#[case::append_and_cast(append(), vec![cast(3)])]
#[case::rewrite_and_cast(refill(0, 3), vec![cast(3)])]
#[case::append_and_drop(append(), vec![drop_field(3)])]
#[case::rewrite_and_drop(refill(0, 3), vec![drop_field(3)])]
#[case::part_and_drop_of_its_field(vec![add_field(0, Some(field(3)), "part")], vec![drop_field(3)])]
fn who_needs_a_definition_lands_before_it_changes_and_not_after(#[case] needs: Vec<Action>, #[case] changes: Vec<Action>) {
    // A part of what has no parts is refused where it is applied; its claims are those of any part.
    let claims = |actions: &Vec<Action>| Footprint::of(&transaction(vec![actions.clone()]));
    assert_eq!(claims(&changes).collision(&claims(&needs)), None);
    assert!(claims(&needs).collision(&claims(&changes)).is_some());
}

/// A fragment's record, written by hand.
fn record(id: u32, files: Vec<DataFile>, deletions: Option<DeletionFile>, created_at: u64, updated_at: u64) -> Fragment {
    Fragment { id: FragmentId(id), physical_rows: 4, files, deletions, created_at, updated_at }
}

fn file(path: &str, fields: &[Option<i32>]) -> DataFile {
    let mut file = data_file(path, 4, fields.len());
    file.columns = file.columns.into_iter().zip(fields).map(|(column, id)| FileColumn { field: id.map(FieldId), ..column }).collect();
    file
}

/// The records of a table after these actions are those of before, but for these.
fn assert_makes(actions: Vec<Action>, gone: &[u32], put: Vec<Fragment>) {
    let bed = table();
    let (after, _) = apply(bed.newest(), &transaction(vec![actions]), 4).unwrap();
    let mut expected: BTreeMap<FragmentId, Fragment> =
        bed.newest().fragments.iter().unwrap().map(|fragment| (fragment.id, (**fragment).clone())).collect();
    gone.iter().for_each(|id| drop(expected.remove(&FragmentId(*id))));
    expected.extend(put.into_iter().map(|fragment| (fragment.id, fragment)));
    assert_eq!(
        after.fragments.iter().unwrap().map(|fragment| (**fragment).clone()).collect::<Vec<_>>(),
        expected.into_values().collect::<Vec<_>>()
    );
}

#[test]
fn an_append_makes_the_record_that_it_describes() {
    assert_makes(append(), &[], vec![record(6, vec![file("data/append.parquet", &[Some(1), Some(2), Some(3)])], None, 4, 4)]);
}

#[test]
fn a_delete_makes_vectors_and_drops_what_is_empty() {
    let bed = table();
    let before = (**bed.newest().fragments.get(FragmentId(0)).unwrap().unwrap()).clone();
    let vector = DeletionFile::inline(&[1, 2].into_iter().collect());
    assert_makes(
        vec![delete(0, &[1, 2]), delete(2, &[0, 1, 2, 3]), remove(1)],
        &[1, 2],
        vec![Fragment { deletions: vector, updated_at: 4, ..before }],
    );
}

#[test]
fn a_replacement_of_values_makes_dead_slots_and_a_file() {
    let bed = table();
    let before = (**bed.newest().fragments.get(FragmentId(0)).unwrap().unwrap()).clone();
    let files = vec![before.files[0].clone(), file("data/more-0.parquet", &[None, Some(4)]), file("data/refill-0-3.parquet", &[Some(3)])];
    assert_makes(refill(0, 3), &[], vec![Fragment { files, updated_at: 4, ..before }]);
}

#[test]
fn values_that_are_not_there_are_not_replaced() {
    let once = apply(table().newest(), &transaction(vec![vec![tombstone(old(0), &[field(3)])]]), 4).unwrap().0;
    let refused = apply(&once, &transaction(vec![refill(0, 3)]), 5).unwrap_err();
    assert_eq!(refused.to_string(), "fragment 0 has no values of field 3 to remove");
}
