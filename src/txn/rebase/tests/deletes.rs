//! Deletes, updates and removals of the same fragments.

use super::*;
use crate::txn::testbed::Testbed;

#[test]
fn deletes_of_different_rows_are_united() {
    let mut bed = Testbed::of(&[&[0, 1, 2, 3, 4, 5]]);
    let (mut first, mut second) = (bed.draft(), bed.draft());
    first.delete(&[0]);
    second.delete(&[5]);
    bed.land(first).unwrap();
    let landed = bed.land(second).unwrap();
    assert_eq!(bed.rows(), rows(1..5));
    assert_eq!(bed.dead(0), Some(vec![0, 5]));
    assert_eq!(claims(&landed), [(old(0), vec![5], vec![])]);
    assert_eq!((deleted(&landed), landed.committed.facts.vectors_merged, landed.committed.facts.rebased_over), (vec![1], 1, 1));
}

#[test]
fn of_two_deletes_of_a_row_the_second_does_not_count_it() {
    let mut bed = Testbed::of(&[&[0, 1, 2, 3, 4]]);
    let (mut first, mut second, mut third) = (bed.draft(), bed.draft(), bed.draft());
    first.delete(&[1, 2]);
    second.delete(&[2, 3]);
    third.delete(&[1, 2, 3]);
    assert_eq!(deleted(&bed.land(first).unwrap()), [2]);
    let second = bed.land(second).unwrap();
    assert_eq!((claims(&second), deleted(&second)), (vec![(old(0), vec![3], vec![])], vec![1]));
    let third = bed.land(third).unwrap();
    assert_eq!((claims(&third), deleted(&third)), (vec![], vec![0]));
    assert!(third.committed.transaction.is_empty());
    assert_eq!((bed.rows(), bed.dead(0)), (rows([0, 4]), Some(vec![1, 2, 3])));
}

#[test]
fn updates_of_different_rows_of_a_fragment_both_hold() {
    let mut bed = Testbed::of(&[&[0, 1, 2]]);
    let (mut first, mut second) = (bed.draft(), bed.draft());
    first.update(&[0], 10);
    second.update(&[1], 20);
    bed.land(first).unwrap();
    bed.land(second).unwrap();
    assert_eq!(bed.rows(), [(0, 10), (1, 20), (2, 0)]);
    assert_eq!(bed.dead(0), Some(vec![0, 1]));
}

#[test]
fn an_update_collides_with_an_update_or_a_delete_of_its_row_in_either_order() {
    for (first_updates, second_updates) in [(true, true), (true, false), (false, true)] {
        let mut bed = Testbed::of(&[&[0, 1, 2, 3], &[4, 5]]);
        let (mut first, mut second) = (bed.draft(), bed.draft());
        if first_updates {
            first.update(&[2, 5], 10)
        } else {
            first.delete(&[2, 5])
        }
        if second_updates {
            second.update(&[1, 2], 20)
        } else {
            second.delete(&[1, 2])
        }
        let (id, statement) = (first.transaction.id, first.transaction.describe());
        bed.land(first).unwrap();
        let before = bed.rows();
        let collision = bed.land(second).unwrap_err();
        assert_eq!(named(&collision), ("rows of fragment 0", vec!["0/2".to_owned()], 3));
        assert_eq!((collision.transaction, collision.statement), (id.to_string(), statement));
        assert_eq!(bed.rows(), before);
    }
}

#[test]
fn a_merge_collides_on_the_rows_that_it_updates_and_not_on_those_that_it_deletes() {
    let mut bed = Testbed::of(&[&[0, 1, 2, 3]]);
    let (mut delete, mut same_deletes, mut same_update) = (bed.draft(), bed.draft(), bed.draft());
    delete.delete(&[1, 2]);
    same_deletes.merge("MERGE", &[1, 2], &[3], 5, &[(9, 9)]);
    same_update.merge("MERGE", &[1], &[2], 5, &[]);
    bed.land(delete).unwrap();
    let landed = bed.land(same_deletes).unwrap();
    assert_eq!((claims(&landed), deleted(&landed)), (vec![(old(0), vec![3], vec![3])], vec![0]));
    assert_eq!(bed.rows(), [(0, 0), (3, 5), (9, 9)]);
    assert_eq!(named(&bed.land(same_update).unwrap_err()).1, ["0/2"]);
}

#[test]
fn a_report_names_five_rows_at_most() {
    let mut bed = Testbed::of(&[&(0..100).collect::<Vec<_>>()]);
    let (mut first, mut second) = (bed.draft(), bed.draft());
    first.update(&(0..100).collect::<Vec<_>>(), 1);
    second.delete(&(10..100).collect::<Vec<_>>());
    bed.land(first).unwrap();
    assert_eq!(named(&bed.land(second).unwrap_err()).1, ["0/10", "0/11", "0/12", "0/13", "0/14"]);
}

#[test]
fn two_deletes_that_empty_a_fragment_together_drop_it() {
    let mut bed = Testbed::of(&[&[0, 1, 2, 3], &[4]]);
    let (mut first, mut second, mut late) = (bed.draft(), bed.draft(), bed.draft());
    first.delete(&[0, 2]);
    second.delete(&[1, 3]);
    late.delete(&[3, 4]);
    bed.land(first).unwrap();
    bed.land(second).unwrap();
    assert_eq!((bed.rows(), bed.dead(0)), (rows([4]), None));
    let late = bed.land(late).unwrap();
    assert_eq!((claims(&late), deleted(&late)), (vec![(old(1), vec![0], vec![])], vec![1]));
    assert!(bed.newest().fragments.is_empty());
}

#[test]
fn a_delete_over_the_removal_of_its_fragment_finds_nothing_to_delete() {
    let mut bed = Testbed::of(&[&[0, 1, 2], &[3]]);
    let (mut remove, mut delete, mut update) = (bed.draft(), bed.draft(), bed.draft());
    remove.remove(&[old(0)]);
    delete.delete(&[1, 3]);
    update.update(&[1], 1);
    bed.land(remove).unwrap();
    let landed = bed.land(delete).unwrap();
    assert_eq!((claims(&landed), deleted(&landed)), (vec![(old(1), vec![0], vec![])], vec![1]));
    assert!(bed.rows().is_empty());
    assert_eq!(named(&bed.land(update).unwrap_err()), ("rows of fragment 0", vec!["0/1".to_owned()], 3));
}

#[test]
fn a_removal_lands_over_deletes_and_removals_but_not_over_updates_and_moves() {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3], &[4, 5], &[6, 7]]);
    let [mut over_delete, mut over_removal, mut over_update, mut over_move] = std::array::from_fn(|_| bed.draft());
    let mut theirs = bed.draft();
    over_delete.remove(&[old(0)]);
    over_removal.remove(&[old(1)]);
    over_update.remove(&[old(2)]);
    over_move.remove(&[old(3)]);
    theirs.delete(&[0]);
    theirs.remove(&[old(1)]);
    theirs.update(&[5], 50);
    theirs.optimize(&[(vec![old(3)], vec![])], true);
    bed.land(theirs).unwrap();
    bed.land(over_delete).unwrap();
    assert!(bed.land(over_removal).unwrap().committed.transaction.is_empty());
    assert_eq!(bed.rows(), [(4, 0), (5, 50), (6, 0), (7, 0)]);
    assert_eq!(named(&bed.land(over_update).unwrap_err()).1, ["2/1"]);
    assert_eq!(named(&bed.land(over_move).unwrap_err()).0, "fragment 3");
}
