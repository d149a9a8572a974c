//! Several statements in one transaction that act on each other's rows.

use super::*;
use crate::txn::testbed::{Draft, Testbed};

/// Fragment 0 holds keys 0..4, fragment 1 keys 4..8.
fn two_fragments() -> Testbed {
    Testbed::of(&[&[0, 1, 2, 3], &[4, 5, 6, 7]])
}

/// A table on which `theirs` lands, and then `ours`, both having read the same version.
fn race(theirs: impl FnOnce(&mut Draft), ours: impl FnOnce(&mut Draft)) -> (Testbed, Result<Landed, Collision>) {
    let mut bed = two_fragments();
    let (mut first, mut second) = (bed.draft(), bed.draft());
    theirs(&mut first);
    ours(&mut second);
    bed.land(first).unwrap();
    let landed = bed.land(second);
    (bed, landed)
}

fn compact_both(draft: &mut Draft) {
    draft.optimize(&[(vec![old(0), old(1)], vec![])], true);
}

fn update_then_compact(draft: &mut Draft) {
    draft.update(&[1], 10);
    draft.optimize(&[(vec![old(0), old(1), own(0)], vec![])], true);
}

fn compact_then_delete(draft: &mut Draft) {
    compact_both(draft);
    draft.delete(&[2, 5]);
}

#[test]
fn update_and_compact_land_over_a_delete_of_another_row() {
    let (bed, landed) = race(|theirs| theirs.delete(&[3, 4]), update_then_compact);
    let landed = landed.unwrap();
    // The target, own(1), holds 0 2 3 4 5 6 7 1; own(0), which held the new version of 1, is gone.
    assert_eq!((bed.dead(2), bed.dead(3)), (None, Some(vec![2, 3])));
    assert_eq!(bed.rows(), [(0, 0), (1, 10), (2, 0), (5, 0), (6, 0), (7, 0)]);
    assert_eq!(claims(&landed), [(old(0), vec![1], vec![1]), (own(1), vec![], vec![])]);
}

#[test]
fn update_and_compact_collide_with_a_delete_of_the_updated_row() {
    let (bed, landed) = race(|theirs| theirs.delete(&[0, 1]), update_then_compact);
    assert_eq!(named(&landed.unwrap_err()), ("rows of fragment 0", vec!["0/1".to_owned()], 3));
    assert_eq!(bed.rows(), rows(2..8));
}

#[test]
fn update_and_compact_give_the_compaction_up_when_others_compacted() {
    let (bed, landed) = race(compact_both, update_then_compact);
    let landed = landed.unwrap();
    // Fragment 2 is their target; own(0) landed as 3.
    assert_eq!(claims(&landed), [(old(2), vec![1], vec![1])]);
    assert_eq!((bed.dead(2), bed.dead(3), landed.committed.facts.groups_dropped), (Some(vec![1]), Some(vec![]), 1));
    assert_eq!(bed.rows(), [(0, 0), (1, 10), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0)]);
}

#[test]
fn compact_and_delete_land_over_deletes_of_the_same_and_of_other_rows() {
    let (bed, landed) = race(|theirs| theirs.delete(&[2, 7]), compact_then_delete);
    let landed = landed.unwrap();
    assert_eq!(bed.dead(2), Some(vec![2, 5, 7]));
    assert_eq!(bed.rows(), rows([0, 1, 3, 4, 6]));
    assert_eq!(deleted(&landed), [0, 1], "key 2 was deleted by others");
    assert_eq!(claims(&landed), [(own(0), vec![5], vec![])]);
}

#[test]
fn compact_and_delete_collide_with_an_update_of_the_deleted_row() {
    let (bed, landed) = race(|theirs| theirs.update(&[5, 6], 10), compact_then_delete);
    let collision = landed.unwrap_err();
    assert_eq!(named(&collision), ("rows of fragment 1", vec!["1/1".to_owned()], 3));
    assert!(collision.statement.starts_with("UPDATE"), "{}", collision.statement);
    assert_eq!(bed.rows(), [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 10), (6, 10), (7, 0)]);
}

#[test]
fn compact_and_delete_land_over_an_update_of_another_row() {
    let (bed, landed) = race(|theirs| theirs.update(&[6], 10), compact_then_delete);
    landed.unwrap();
    assert_eq!(bed.dead(3), Some(vec![2, 5, 6]));
    assert_eq!(bed.rows(), [(0, 0), (1, 0), (3, 0), (4, 0), (6, 10), (7, 0)]);
}

#[test]
fn compact_and_update_collide_with_a_delete_of_the_updated_row() {
    let ours = |draft: &mut Draft| {
        compact_both(draft);
        draft.update(&[2, 5], 10);
    };
    let (_, landed) = race(|theirs| theirs.delete(&[5, 6]), ours);
    assert_eq!(named(&landed.unwrap_err()), ("rows of fragment 1", vec!["1/1".to_owned()], 3));
    let (_, landed) = race(|theirs| theirs.remove(&[old(1)]), ours);
    assert_eq!(named(&landed.unwrap_err()), ("rows of fragment 1", vec!["1/1".to_owned()], 3));
}

#[test]
fn compact_and_delete_collide_with_a_compaction_of_the_same_fragments() {
    let (bed, landed) = race(compact_both, compact_then_delete);
    assert_eq!(named(&landed.unwrap_err()).0, "fragment 0");
    assert_eq!(bed.rows(), rows(0..8));
}

#[test]
fn a_row_that_moves_twice_is_followed_twice() {
    let ours = |draft: &mut Draft| {
        draft.optimize(&[(vec![old(0)], vec![2])], true);
        draft.delete(&[0]);
        // Targets own(0) with 0 1 (0 is dead) and own(1) with 2 3.
        draft.optimize(&[(vec![own(1), old(1), own(0)], vec![])], false);
        draft.delete(&[3, 6]);
    };
    let (bed, landed) = race(|theirs| theirs.delete(&[1, 3, 4]), ours);
    let landed = landed.unwrap();
    // The last target holds 2 3 4 5 6 7 1.
    let target = landed.committed.minted.fragment(own(2)).unwrap();
    assert_eq!(bed.dead(target.0), Some(vec![1, 2, 4, 6]));
    assert_eq!((bed.rows(), deleted(&landed)), (rows([2, 5, 7]), vec![0, 1, 0, 1]));
    assert_eq!(landed.committed.facts.rows_carried, 2 + 3);
    let (_, landed) = race(|theirs| theirs.update(&[3, 4], 1), ours);
    assert_eq!(named(&landed.unwrap_err()), ("rows of fragment 0", vec!["0/3".to_owned()], 3));
}

#[test]
fn compact_and_remove_the_target_land_over_deletes_and_not_over_updates() {
    let ours = |draft: &mut Draft| {
        compact_both(draft);
        draft.remove(&[own(0)]);
    };
    let (bed, landed) = race(|theirs| theirs.delete(&[1]), ours);
    landed.unwrap();
    assert!(bed.newest().fragments.is_empty());
    let (bed, landed) = race(|theirs| theirs.update(&[1], 10), ours);
    assert_eq!(named(&landed.unwrap_err()), ("rows of fragment 0", vec!["0/1".to_owned()], 3));
    assert_eq!(bed.rows().len(), 8);
}

#[test]
fn rows_inserted_into_a_group_that_is_given_up_stay() {
    let ours = |draft: &mut Draft| {
        draft.insert(&[(20, 0), (21, 0), (22, 0)]);
        draft.delete(&[21]);
        draft.optimize(&[(vec![own(0), old(1)], vec![])], true);
    };
    let (bed, landed) = race(|theirs| theirs.optimize(&[(vec![old(1)], vec![])], true), ours);
    let landed = landed.unwrap();
    let inserted = landed.committed.minted.fragment(own(0)).unwrap();
    assert_eq!((bed.dead(inserted.0), bed.dead(2)), (Some(vec![1]), Some(vec![])));
    assert_eq!(bed.rows(), rows((0..8).chain([20, 22])));
}

#[test]
fn a_delete_walks_over_a_compaction_and_a_delete_of_one_transaction() {
    // Their target holds 0..8; they deleted keys 2 and 5 there.
    let (bed, landed) = race(compact_then_delete, |ours| ours.delete(&[1, 2, 5]));
    let landed = landed.unwrap();
    assert_eq!((claims(&landed), deleted(&landed)), (vec![(old(2), vec![1], vec![])], vec![1]));
    assert_eq!((bed.dead(2), bed.rows()), (Some(vec![1, 2, 5]), rows([0, 3, 4, 6, 7])));
    let (_, landed) = race(compact_then_delete, |ours| ours.update(&[1, 2], 10));
    assert_eq!(named(&landed.unwrap_err()), ("rows of fragment 2", vec!["2/2".to_owned()], 3));
}

#[test]
fn a_delete_walks_over_a_delete_and_a_compaction_of_one_transaction() {
    let theirs = |draft: &mut Draft| {
        draft.delete(&[2, 5]);
        compact_both(draft);
    };
    let (bed, landed) = race(theirs, |ours| ours.delete(&[2, 3, 6]));
    let landed = landed.unwrap();
    // Their target holds 0 1 3 4 6 7.
    assert_eq!((claims(&landed), deleted(&landed)), (vec![(old(2), vec![2, 4], vec![])], vec![2]));
    assert_eq!((bed.dead(2), bed.rows()), (Some(vec![2, 4]), rows([0, 1, 4, 7])));
    let (_, landed) = race(theirs, |ours| ours.update(&[5], 10));
    assert_eq!(named(&landed.unwrap_err()), ("rows of fragment 1", vec!["1/1".to_owned()], 3));
}

#[test]
fn a_delete_walks_over_a_compaction_and_an_update_of_one_transaction() {
    let theirs = |draft: &mut Draft| {
        compact_both(draft);
        draft.update(&[4], 10);
    };
    let (bed, landed) = race(theirs, |ours| ours.delete(&[3]));
    landed.unwrap();
    assert_eq!(bed.dead(2), Some(vec![3, 4]));
    let (_, landed) = race(theirs, |ours| ours.delete(&[3, 4]));
    assert_eq!(named(&landed.unwrap_err()), ("rows of fragment 2", vec!["2/4".to_owned()], 3));
}

#[test]
fn a_compaction_walks_over_a_delete_and_a_compaction_of_one_transaction() {
    let theirs = |draft: &mut Draft| {
        draft.delete(&[0]);
        draft.optimize(&[(vec![old(0)], vec![])], true);
    };
    let ours = |draft: &mut Draft| draft.optimize(&[(vec![old(0)], vec![]), (vec![old(1)], vec![])], true);
    let (bed, landed) = race(theirs, ours);
    assert_eq!(landed.unwrap().committed.facts.groups_dropped, 1);
    let found: Vec<(u32, Option<Vec<u32>>)> = bed.newest().fragments.iter().unwrap().map(|f| (f.id.0, bed.dead(f.id.0))).collect();
    assert_eq!(found, [(2, Some(vec![])), (3, Some(vec![]))]);
    assert_eq!(bed.rows(), rows(1..8));
}

#[test]
fn a_file_of_a_target_builds_upon_nothing_wherever_it_stands_in_its_step() {
    let ours = |draft: &mut Draft| {
        compact_both(draft);
        let (files, others) = std::mem::take(&mut draft.transaction.steps[0].actions)
            .into_iter()
            .partition::<Vec<_>, _>(|action| matches!(action, Action::AddDataFile(_)));
        draft.transaction.steps[0].actions = [others, files].concat();
        draft.delete(&[2]);
    };
    let (bed, landed) = race(|theirs| theirs.update(&[6], 10), ours);
    landed.unwrap();
    assert_eq!(bed.rows(), [(0, 0), (1, 0), (3, 0), (4, 0), (5, 0), (6, 10), (7, 0)]);
}
