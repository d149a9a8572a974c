//! What is left out and what stays, looked at in the actions; that the rows are the same whoever lands in between is the
//! simulation's to show, where every second transaction is normalised.

use super::*;
use crate::table::row_address::FragmentId;
use crate::table::schema::FieldId;
use crate::txn::action::{AddDataFile, TombstoneFieldData};
use crate::txn::composite::RowCounts;
use crate::txn::refs::{Ref, Token};
use crate::txn::testbed::{Draft, Testbed, data_file};

fn old(id: u32) -> FragmentRef {
    Ref::Committed(FragmentId(id))
}

fn own(token: u32) -> FragmentRef {
    Ref::Local(Token(token))
}

/// The kinds of the actions of each step.
fn kinds(draft: &Draft) -> Vec<Vec<&str>> {
    draft.transaction.steps.iter().map(|step| step.actions.iter().map(Action::name).collect()).collect()
}

/// Drafts statements on the keys 0..4 in fragment 0 and 4..8 in fragment 1; what is left of the actions, and the rows once it
/// has landed, which are those that the draft saw.
fn landed(statements: impl FnOnce(&mut Draft)) -> (Draft, Vec<(u32, i64)>) {
    let mut bed = Testbed::of(&[&[0, 1, 2, 3], &[4, 5, 6, 7]]);
    let mut draft = bed.draft();
    statements(&mut draft);
    let seen = bed.provisional_rows(&draft);
    let draft = draft.normalised_if(true);
    bed.land(draft.clone()).unwrap();
    assert_eq!(bed.rows(), seen);
    (draft, seen)
}

#[test]
fn what_was_inserted_and_removed_leaves_its_steps() {
    let (draft, rows) = landed(|draft| {
        let fragment = draft.insert(&[(10, 0), (11, 0)]);
        draft.delete(&[0]);
        draft.remove(&[fragment]);
    });
    assert_eq!((kinds(&draft), rows.len()), (vec![vec![], vec!["SetDeletionFile"], vec![]], 7));
    let counts: Vec<(u64, u64)> = draft.transaction.steps.iter().map(|step| (step.counts.inserted, step.counts.deleted)).collect();
    assert_eq!(counts, [(2, 0), (0, 1), (0, 2)]);
}

#[test]
fn values_that_came_and_went_in_a_fragment_go_with_it() {
    let value = Ref::Committed(FieldId(2));
    let mut draft = Testbed::of(&[&[0, 1]]).draft();
    let fragment = draft.insert(&[(10, 0)]);
    let tombstone = |fragment| Action::TombstoneFieldData(TombstoneFieldData { fragment, fields: vec![value], data_change: true });
    let fill = |fragment| {
        let (file, fields) = (data_file("data/anew.parquet", 1, 1), vec![Some(value)]);
        Action::AddDataFile(AddDataFile { fragment, file, base: None, fields, data_change: true })
    };
    draft.step("FILL", String::new(), vec![tombstone(fragment), fill(fragment), tombstone(old(0))], RowCounts::default());
    draft.remove(&[fragment]);
    assert_eq!(kinds(&draft.normalised_if(true)), [vec![], vec!["TombstoneFieldData"], vec![]]);
}

#[test]
fn what_was_inserted_and_then_deleted_row_by_row_goes() {
    let (draft, _) = landed(|draft| {
        draft.insert(&[(10, 0), (11, 0)]);
        draft.delete(&[10]);
        draft.delete(&[11]);
    });
    assert!(draft.transaction.is_empty(), "{:?}", kinds(&draft));
    let (draft, _) = landed(|draft| {
        draft.insert(&[(10, 0), (11, 0)]);
        draft.delete(&[10]);
    });
    assert_eq!(kinds(&draft), [vec!["AddFragment", "AddDataFile"], vec!["SetDeletionFile"]]);
}

#[test]
fn an_updated_row_that_was_inserted_lives_in_its_last_version_only() {
    let (draft, rows) = landed(|draft| {
        draft.insert(&[(10, 0)]);
        draft.update(&[10], 1);
        draft.update(&[10], 2);
    });
    assert_eq!(kinds(&draft), [vec![], vec![], vec!["AddFragment", "AddDataFile"]]);
    assert_eq!(rows.last(), Some(&(10, 3)));
}

#[test]
fn a_rewrite_of_own_rows_only_is_an_insert_of_them() {
    let (draft, rows) = landed(|draft| {
        draft.insert(&[(10, 0), (11, 0)]);
        draft.insert(&[(12, 0)]);
        draft.delete(&[11]);
        draft.optimize(&[(vec![own(0), own(1)], vec![])], true);
        draft.optimize(&[(vec![own(2)], vec![1])], false);
    });
    assert_eq!(kinds(&draft), [vec![], vec![], vec![], vec![], ["AddFragment", "AddDataFile"].repeat(2)]);
    let changes = |action: &Action| match action {
        Action::AddFragment(add) => add.data_change,
        Action::AddDataFile(add) => add.data_change,
        other => panic!("{other:?}"),
    };
    assert!(draft.transaction.actions().all(changes), "rows that were inserted are new to the table");
    assert_eq!(rows.len(), 10);
}

#[test]
fn what_a_rewrite_took_from_others_too_stays() {
    let statements = |draft: &mut Draft| {
        draft.insert(&[(10, 0)]);
        draft.optimize(&[(vec![old(0), own(0)], vec![])], true);
        draft.optimize(&[(vec![own(1)], vec![])], true);
        draft.delete(&[0, 1, 2, 3, 10]);
    };
    let (draft, _) = landed(statements);
    let mut drafted = Testbed::of(&[&[0, 1, 2, 3], &[4, 5, 6, 7]]).draft();
    statements(&mut drafted);
    assert_eq!(draft.transaction, drafted.transaction, "others are led through both rewrites");
}

#[test]
fn a_fragment_at_a_reserved_id_goes_too() {
    let mut draft = Testbed::of(&[&[0, 1]]).draft();
    draft.reserved = vec![FragmentId(9)];
    let fragment = draft.insert(&[(10, 0)]);
    draft.remove(&[fragment]);
    assert_eq!((fragment, draft.normalised_if(true).transaction.is_empty()), (old(9), true));
}

#[test]
fn a_fragment_has_one_vector_and_it_is_the_last() {
    let mut bed = Testbed::of(&[&[0, 1, 2, 3], &[4, 5, 6, 7]]);
    let mut draft = bed.draft();
    draft.delete(&[0, 4]);
    draft.update(&[1], 5);
    draft.delete(&[2]);
    let mut theirs = bed.draft();
    theirs.delete(&[0]);
    bed.land(theirs).unwrap();
    let landed = bed.land(draft).unwrap().committed.transaction;
    let sets: Vec<(usize, FragmentRef, Vec<u32>, Vec<u32>)> = landed
        .steps
        .iter()
        .enumerate()
        .flat_map(|(step, actions)| actions.actions.iter().filter_map(Action::deletion).map(move |set| (step, set)))
        .map(|(step, set)| (step, set.fragment, set.added.iter().collect(), set.replaced.iter().collect()))
        .collect();
    assert_eq!(sets, [(0, old(1), vec![0], vec![]), (2, old(0), vec![1, 2], vec![1])]);
    assert_eq!(landed.steps.iter().map(|step| step.counts.deleted).collect::<Vec<_>>(), [1, 0, 1], "the lost row is the first step's");
    assert_eq!(bed.dead(0), Some(vec![0, 1, 2]));
}
