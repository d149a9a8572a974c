//! Rewrites that move rows, before and after deletes and updates of them.

use super::*;
use crate::txn::testbed::Testbed;

/// Fragment 0 holds keys 0..4, fragment 1 keys 4..8.
fn two_fragments() -> Testbed {
    Testbed::of(&[&[0, 1, 2, 3], &[4, 5, 6, 7]])
}

#[test]
fn a_compaction_lands_after_an_update_and_a_delete() {
    let mut bed = two_fragments();
    let (mut compaction, mut update, mut delete) = (bed.draft(), bed.draft(), bed.draft());
    compaction.optimize(&[(vec![old(0), old(1)], vec![])], true);
    update.update(&[1], 10);
    delete.delete(&[6]);
    bed.land(update).unwrap();
    bed.land(delete).unwrap();
    let landed = bed.land(compaction).unwrap();
    assert_eq!(bed.rows(), [(0, 0), (1, 10), (2, 0), (3, 0), (4, 0), (5, 0), (7, 0)]);
    assert_eq!((bed.dead(0), bed.dead(1), bed.dead(2), bed.dead(3)), (None, None, Some(vec![]), Some(vec![1, 6])));
    assert_eq!(claims(&landed), [(own(0), vec![], vec![])]);
    assert_eq!((landed.committed.facts.rows_carried, landed.committed.facts.rebased_over), (2, 2));
}

#[test]
fn an_update_and_a_delete_land_after_a_compaction() {
    let mut bed = two_fragments();
    let (mut compaction, mut update, mut delete) = (bed.draft(), bed.draft(), bed.draft());
    compaction.optimize(&[(vec![old(0), old(1)], vec![])], false);
    update.update(&[1], 10);
    delete.delete(&[6]);
    bed.land(compaction).unwrap();
    let update = bed.land(update).unwrap();
    let delete = bed.land(delete).unwrap();
    assert_eq!(bed.rows(), [(0, 0), (1, 10), (2, 0), (3, 0), (4, 0), (5, 0), (7, 0)]);
    assert_eq!((bed.dead(0), bed.dead(2), bed.dead(3)), (None, Some(vec![1, 6]), Some(vec![])));
    assert_eq!(claims(&update), [(old(2), vec![1], vec![1])]);
    assert_eq!(claims(&delete), [(old(2), vec![6], vec![])]);
    assert_eq!((update.committed.facts.rows_carried, delete.committed.facts.rows_carried), (1, 1));
}

#[test]
fn a_compaction_lands_between_an_update_and_a_delete() {
    let mut bed = two_fragments();
    let (mut compaction, mut update, mut delete) = (bed.draft(), bed.draft(), bed.draft());
    compaction.optimize(&[(vec![old(0), old(1)], vec![])], true);
    update.update(&[1], 10);
    delete.delete(&[6]);
    bed.land(delete).unwrap();
    bed.land(compaction).unwrap();
    bed.land(update).unwrap();
    assert_eq!(bed.rows(), [(0, 0), (1, 10), (2, 0), (3, 0), (4, 0), (5, 0), (7, 0)]);
    assert_eq!(bed.dead(2), Some(vec![1, 6]));
}

#[test]
fn an_update_is_carried_through_two_compactions() {
    let mut bed = Testbed::of(&[&[0, 1, 2, 3], &[4, 5, 6, 7], &[8, 9]]);
    let mut update = bed.draft();
    update.update(&[0, 3, 7], 10);
    let mut first = bed.draft();
    first.optimize(&[(vec![old(0), old(1)], vec![5])], true);
    bed.land(first).unwrap();
    // Fragment 3 holds 0..5 now, fragment 4 holds 5..8. A row goes, then the three change places.
    let mut delete = bed.draft();
    delete.delete(&[2]);
    bed.land(delete).unwrap();
    let mut second = bed.draft();
    second.optimize(&[(vec![old(4), old(2), old(3)], vec![6])], true);
    bed.land(second).unwrap();
    // Fragment 5 holds 5 6 7 8 9 0, fragment 6 holds 1 3 4.
    let landed = bed.land(update).unwrap();
    assert_eq!(claims(&landed), [(old(5), vec![2, 5], vec![2, 5]), (old(6), vec![1], vec![1])]);
    assert_eq!((bed.dead(5), bed.dead(6)), (Some(vec![2, 5]), Some(vec![1])));
    assert_eq!(bed.rows(), [(0, 10), (1, 0), (3, 10), (4, 0), (5, 0), (6, 0), (7, 10), (8, 0), (9, 0)]);
    assert_eq!(landed.committed.facts.rows_carried, 6);
}

#[test]
fn an_update_collides_after_a_compaction_moved_its_row() {
    let mut bed = two_fragments();
    let (mut late, mut compaction) = (bed.draft(), bed.draft());
    late.update(&[6], 10);
    compaction.optimize(&[(vec![old(0), old(1)], vec![])], true);
    bed.land(compaction).unwrap();
    let mut delete = bed.draft();
    delete.delete(&[5, 6]);
    bed.land(delete).unwrap();
    assert_eq!(named(&bed.land(late).unwrap_err()), ("rows of fragment 2", vec!["2/6".to_owned()], 4));
}

#[test]
fn a_delete_that_met_a_delete_before_the_compaction_does_not_look_for_its_row() {
    let mut bed = two_fragments();
    let (mut late, mut delete, mut compaction) = (bed.draft(), bed.draft(), bed.draft());
    late.delete(&[1, 2]);
    delete.delete(&[1]);
    compaction.optimize(&[(vec![old(0), old(1)], vec![])], true);
    bed.land(delete).unwrap();
    let mut fresh = bed.draft();
    fresh.optimize(&[(vec![old(0), old(1)], vec![])], true);
    bed.land(fresh).unwrap();
    let landed = bed.land(late).unwrap();
    assert_eq!((claims(&landed), deleted(&landed)), (vec![(old(2), vec![1], vec![])], vec![1]));
    assert_eq!(bed.rows(), rows([0, 3, 4, 5, 6, 7]));
    assert!(bed.land(compaction).unwrap().committed.transaction.is_empty());
}

#[test]
fn rows_that_were_dead_when_the_rewrite_read_them_shift_the_others() {
    let mut bed = two_fragments();
    let mut early = bed.draft();
    early.delete(&[0, 5]);
    bed.land(early).unwrap();
    let (mut compaction, mut delete) = (bed.draft(), bed.draft());
    compaction.optimize(&[(vec![old(1), old(0)], vec![])], true);
    delete.delete(&[4, 7, 1, 3]);
    let mut other = bed.draft();
    other.delete(&[6]);
    bed.land(other).unwrap();
    bed.land(compaction).unwrap();
    // Fragment 2 holds 4 6 7 1 2 3.
    assert_eq!(bed.dead(2), Some(vec![1]));
    bed.land(delete).unwrap();
    assert_eq!((bed.dead(2), bed.rows()), (Some(vec![0, 1, 2, 3, 5]), rows([2])));
}

#[test]
fn a_compaction_carries_deletions_of_the_first_and_the_last_row() {
    let mut bed = two_fragments();
    let (mut compaction, mut delete) = (bed.draft(), bed.draft());
    compaction.optimize(&[(vec![old(0), old(1)], vec![3])], true);
    delete.delete(&[0, 7]);
    bed.land(delete).unwrap();
    bed.land(compaction).unwrap();
    assert_eq!((bed.dead(2), bed.dead(3)), (Some(vec![0]), Some(vec![4])));
    assert_eq!(bed.rows(), rows(1..7));
}

#[test]
fn a_compaction_lands_over_a_delete_of_a_whole_source() {
    let mut bed = two_fragments();
    let (mut compaction, mut delete, mut late) = (bed.draft(), bed.draft(), bed.draft());
    compaction.optimize(&[(vec![old(0), old(1)], vec![2])], true);
    delete.delete(&[0, 1, 2, 3]);
    late.delete(&[3, 7]);
    bed.land(delete).unwrap();
    assert_eq!(bed.dead(0), None);
    let landed = bed.land(compaction).unwrap();
    let removed = landed.committed.transaction.actions().filter(|action| matches!(action, Action::RemoveFragment(_)));
    assert_eq!(removed.count(), 1, "fragment 0 was gone already");
    // Target 2 held 0 1 and is gone; target 3 holds 2 3 4 5 6 7.
    assert_eq!((bed.dead(2), bed.dead(3), bed.rows()), (None, Some(vec![0, 1]), rows(4..8)));
    let late = bed.land(late).unwrap();
    assert_eq!((claims(&late), deleted(&late)), (vec![(old(3), vec![5], vec![])], vec![1]));
    assert_eq!(bed.rows(), rows(4..7));
}

#[test]
fn a_compaction_lands_over_a_delete_of_all_its_sources() {
    let mut bed = two_fragments();
    let (mut compaction, mut delete, mut late) = (bed.draft(), bed.draft(), bed.draft());
    compaction.optimize(&[(vec![old(0), old(1)], vec![])], true);
    delete.delete(&(0..8).collect::<Vec<_>>());
    late.delete(&[3, 7]);
    bed.land(delete).unwrap();
    assert!(bed.newest().fragments.is_empty());
    bed.land(compaction).unwrap();
    assert!(bed.newest().fragments.is_empty());
    assert_eq!(bed.newest().counters.fragment, FragmentId(3));
    assert_eq!(deleted(&bed.land(late).unwrap()), [0]);
}

#[test]
fn a_compaction_lands_over_the_removal_of_a_source() {
    let mut bed = two_fragments();
    let (mut compaction, mut remove) = (bed.draft(), bed.draft());
    compaction.optimize(&[(vec![old(0), old(1)], vec![])], true);
    remove.remove(&[old(1)]);
    bed.land(remove).unwrap();
    bed.land(compaction).unwrap();
    assert_eq!((bed.dead(2), bed.rows()), (Some(vec![4, 5, 6, 7]), rows(0..4)));
}

#[test]
fn of_two_compactions_the_overlapping_group_is_dropped_and_the_other_kept() {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3], &[4, 5], &[6, 7]]);
    let (mut first, mut second, mut delete) = (bed.draft(), bed.draft(), bed.draft());
    first.optimize(&[(vec![old(1)], vec![])], true);
    second.optimize(&[(vec![old(0), old(1)], vec![]), (vec![old(2), old(3)], vec![])], true);
    delete.delete(&[0, 6]);
    bed.land(delete).unwrap();
    bed.land(first).unwrap();
    let landed = bed.land(second).unwrap();
    // The target of the second group is fragment 5: the dropped one took no id.
    let found: Vec<u32> = bed.newest().fragments.iter().unwrap().map(|fragment| fragment.id.0).collect();
    assert_eq!(found, [0, 4, 5]);
    assert_eq!((bed.dead(0), bed.dead(4), bed.dead(5)), (Some(vec![0]), Some(vec![]), Some(vec![2])));
    assert_eq!(bed.rows(), rows([1, 2, 3, 4, 5, 7]));
    let counts = landed.committed.transaction.steps[0].counts;
    assert_eq!((counts.moved, landed.committed.facts.groups_dropped, landed.committed.facts.rows_carried), (4, 1, 1));
}

#[test]
fn claims_that_a_compaction_brings_together_become_one_action() {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3], &[4, 5]]);
    let (mut delete, mut compaction) = (bed.draft(), bed.draft());
    delete.delete(&[1, 2]);
    delete.update(&[5], 1);
    compaction.optimize(&[(vec![old(2), old(1), old(0)], vec![])], true);
    bed.land(compaction).unwrap();
    let landed = bed.land(delete).unwrap();
    // Fragment 3 holds 4 5 2 3 0 1. One action for both statements.
    assert_eq!(claims(&landed), [(old(3), vec![1, 2, 5], vec![1])]);
    assert_eq!((bed.dead(3), bed.rows()), (Some(vec![1, 2, 5]), vec![(0, 0), (3, 0), (4, 0), (5, 1)]));
}
