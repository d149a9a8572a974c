//! What a transaction says of itself.

use super::*;
use crate::table::fragment::Base;
use crate::table::schema::FieldType;
use crate::txn::action::{AddBase, AddField, AddFragment, RemoveFragment, ReserveFragmentIds, ResetTable, SetDeletionFile};
use roaring::RoaringBitmap;
use std::collections::BTreeMap;

fn transaction(steps: Vec<Vec<Action>>) -> Transaction {
    let steps = steps.into_iter().enumerate();
    let steps = steps.map(|(n, actions)| Step { statement: format!("statement {n}"), actions, ..Step::default() }).collect();
    Transaction { id: TransactionId(0x0190_0000_0000_7000_8000_0000_0000_00AA), read_version: 1, steps }
}

fn reserve() -> Action {
    Action::ReserveFragmentIds(ReserveFragmentIds { count: 1 })
}

#[test]
fn it_is_empty_if_no_step_does_anything() {
    assert!(transaction(vec![]).is_empty() && transaction(vec![vec![], vec![]]).is_empty());
    assert!(!transaction(vec![vec![], vec![reserve()]]).is_empty());
}

#[test]
fn the_next_tokens_are_after_the_largest_of_their_kind() {
    let nothing = transaction(vec![vec![reserve()]]);
    assert_eq!([nothing.next_fragment_token(), nothing.next_field_token(), nothing.next_base_token()], [Token(0); 3]);
    let fragment =
        |id| Action::AddFragment(AddFragment { id, physical_rows: 1, data_change: true, replacing: roaring::RoaringBitmap::new() });
    let (name, field_type, metadata) = (String::new(), FieldType::Struct, BTreeMap::new());
    let base = Base { name: None, location: String::new() };
    let some = transaction(vec![
        vec![fragment(Ref::Local(Token(4))), fragment(Ref::Committed(FragmentId(90)))],
        vec![Action::AddField(AddField {
            id: Ref::Local(Token(6)),
            parent: None,
            name,
            field_type,
            nullable: true,
            metadata,
            initial: None,
            in_place_of: None,
        })],
        vec![fragment(Ref::Local(Token(2))), Action::AddBase(AddBase { token: Token(8), base })],
    ]);
    assert_eq!([some.next_fragment_token(), some.next_field_token(), some.next_base_token()], [Token(5), Token(7), Token(9)]);
    assert_eq!(some.claimed_fragments(), [FragmentId(90)].into());
}

#[test]
fn moved_rows_are_not_changed_rows() {
    assert_eq!(RowCounts { inserted: 1, updated: 20, deleted: 300, moved: 4000 }.changed(), 321);
}

#[test]
fn it_is_named_by_a_uuid_and_told_statement_by_statement() {
    let two = transaction(vec![vec![], vec![]]);
    assert_eq!(
        (two.id.to_string().as_str(), two.describe().as_str()),
        ("01900000-0000-7000-8000-0000000000aa", "statement 0; statement 1")
    );
}

#[test]
fn a_rewrite_changes_no_data() {
    let changes = |actions: Vec<Action>| transaction(vec![vec![reserve()], actions]).changes_data();
    let fragment = Ref::Committed(FragmentId(1));
    for data_change in [true, false] {
        let add = Action::AddFragment(AddFragment {
            id: Ref::Local(Token(0)),
            physical_rows: 1,
            data_change,
            replacing: roaring::RoaringBitmap::new(),
        });
        let remove = Action::RemoveFragment(RemoveFragment { fragment, data_change });
        assert_eq!((changes(vec![add]), changes(vec![remove])), (data_change, data_change));
    }
    let delete = |rows: &[u32]| {
        let added: RoaringBitmap = rows.iter().copied().collect();
        Action::SetDeletionFile(SetDeletionFile { fragment, vector: None, added, replaced: RoaringBitmap::new() })
    };
    // The targets of a rewrite begin with what others deleted.
    assert_eq!((changes(vec![delete(&[3])]), changes(vec![delete(&[])])), (true, false));
    assert!(changes(vec![Action::ResetTable(ResetTable)]) && !changes(vec![]));
}
