//! The comparison as a value: what it says of how, and of why not. That what it says is true of what lands is looked at by
//! `Testbed::land_compared`, for every pair of kinds of actions and for random ones.

use super::*;
use crate::table::row_address::FragmentId;
use crate::txn::refs::Ref;
use crate::txn::testbed::{Draft, Testbed};
use std::collections::BTreeSet;

/// What becomes of `ours` after `theirs` on a table of the keys 0..4 in fragment 0 and 4..8 in fragment 1.
fn compared(theirs: impl FnOnce(&mut Draft), ours: impl FnOnce(&mut Draft)) -> Comparison {
    let mut bed = Testbed::of(&[&[0, 1, 2, 3], &[4, 5, 6, 7]]);
    let (mut first, mut second) = (bed.draft(), bed.draft());
    theirs(&mut first);
    ours(&mut second);
    let first = bed.land(first).unwrap();
    bed.land_compared(second, &first).0
}

fn compact(fragments: &[u32]) -> impl FnOnce(&mut Draft) {
    let groups = fragments.iter().map(|id| (vec![Ref::Committed(FragmentId(*id))], vec![])).collect::<Vec<_>>();
    move |draft| draft.optimize(&groups, true)
}

fn carried(carry: Carry) -> Comparison {
    Comparison::Carry(carry)
}

fn ids<const N: usize>(ids: [u32; N]) -> BTreeSet<FragmentId> {
    ids.map(FragmentId).into()
}

#[test]
fn what_touches_other_places_commutes() {
    assert_eq!(compared(|theirs| theirs.delete(&[0]), |ours| ours.update(&[4], 1)), Comparison::Commutes);
    assert_eq!(compared(compact(&[0]), |ours| ours.update(&[4], 1)), Comparison::Commutes);
    assert_eq!(
        compared(|theirs| theirs.add_column("c"), |ours| ours.insert(&[(9, 9)]).committed().into_iter().for_each(drop)),
        Comparison::Commutes
    );
}

#[test]
fn a_carry_says_which_vectors_are_united_and_which_rows_are_theirs() {
    let both = compared(|theirs| theirs.delete(&[0, 4]), |ours| ours.delete(&[1, 4, 5]));
    assert_eq!(both, carried(Carry { vectors_united: ids([0, 1]), rows_already_deleted: 1, ..Carry::default() }));
    let theirs = compared(|theirs| theirs.delete(&[0, 1]), |ours| ours.delete(&[1]));
    assert_eq!(theirs, carried(Carry { rows_already_deleted: 1, ..Carry::default() }));
}

#[test]
fn a_carry_says_how_many_rows_go_through_whose_map() {
    let ours = compared(compact(&[0, 1]), |ours| ours.update(&[1, 2, 7], 1));
    assert_eq!(ours, carried(Carry { rows_followed: 3, ..Carry::default() }));
    let theirs = compared(|theirs| theirs.delete(&[1, 2, 7]), compact(&[0, 1]));
    assert_eq!(theirs, carried(Carry { rows_deleted_before_our_move: 3, ..Carry::default() }));
}

#[test]
fn a_carry_says_which_rewrites_are_given_up() {
    assert_eq!(compared(compact(&[1]), compact(&[0, 1])), carried(Carry { rewrites_given_up: [1].into(), ..Carry::default() }));
}

#[test]
fn a_carry_says_which_removed_fragments_had_fewer_rows() {
    let remove = |ids: &[u32]| ids.iter().map(|id| Ref::Committed(FragmentId(*id))).collect::<Vec<_>>();
    let some = compared(|theirs| theirs.delete(&[4]), |ours| ours.remove(&remove(&[0, 1])));
    assert_eq!(some, carried(Carry { thinned: ids([1]), ..Carry::default() }));
    let all = compared(|theirs| theirs.remove(&remove(&[1])), |ours| ours.remove(&remove(&[0, 1])));
    assert_eq!(all, carried(Carry { thinned: ids([1]), ..Carry::default() }));
}

#[test]
fn a_conflict_names_the_place_both_transactions_and_five_rows() {
    let keys: Vec<u32> = (0..4).chain(4..8).collect();
    let Comparison::Conflict(conflict) = compared(|theirs| theirs.update(&keys, 1), |ours| ours.delete(&[0, 2])) else {
        panic!("it lands")
    };
    let rows: Vec<String> = conflict.rows.iter().map(ToString::to_string).collect();
    assert_eq!((conflict.coordinate.as_str(), rows), ("rows of fragment 0", vec!["0/0".to_owned(), "0/2".to_owned()]));
    assert!(conflict.ours.statement.starts_with("DELETE") && conflict.theirs.statement.starts_with("UPDATE"), "{conflict:?}");
    assert_ne!(conflict.ours.id, conflict.theirs.id);

    let mut bed = Testbed::of(&[&(0..20).collect::<Vec<_>>()]);
    let all: Vec<u32> = (0..20).collect();
    let (mut first, mut second) = (bed.draft(), bed.draft());
    first.update(&all, 1);
    second.update(&all, 2);
    let first = bed.land(first).unwrap();
    let Comparison::Conflict(conflict) = bed.land_compared(second, &first).0 else { panic!("it lands") };
    assert_eq!(conflict.rows.len(), 5);
}

#[test]
fn what_does_not_add_up_is_a_conflict() {
    let mut bed = Testbed::of(&[&[0, 1]]);
    let (mut first, mut second) = (bed.draft(), bed.draft());
    first.insert(&[(5, 5)]);
    second.optimize(&[(vec![Ref::Committed(FragmentId(0))], vec![])], true);
    let landed = bed.land(first).unwrap();
    let comparison = compare(&second.transaction, &landed.committed, Maps { ours: &[], theirs: &[] });
    assert!(matches!(comparison, Comparison::Conflict(conflict) if conflict.coordinate == "a change of address has no map"));
}
