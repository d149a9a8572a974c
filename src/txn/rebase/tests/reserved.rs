//! Fragments at reserved ids: they have ids from the start, and are the transaction's own all the same.

use super::*;
use crate::txn::action::ReserveFragmentIds;
use crate::txn::composite::RowCounts;
use crate::txn::testbed::{Draft, Testbed};

/// Fragment 0 holds keys 0..4; the ids 1 to 3 are reserved.
fn reserved() -> Testbed {
    let mut bed = Testbed::of(&[&[0, 1, 2, 3]]);
    let mut draft = bed.draft();
    let reserve = Action::ReserveFragmentIds(ReserveFragmentIds { count: 3 });
    draft.step("RESERVE", "RESERVE 3".into(), vec![reserve], RowCounts::default());
    bed.land(draft).unwrap();
    bed
}

fn draft_at(bed: &mut Testbed, ids: &[u32]) -> Draft {
    let mut draft = bed.draft();
    draft.reserved = ids.iter().rev().map(|id| FragmentId(*id)).collect();
    draft
}

#[test]
fn a_fragment_keeps_its_reserved_id_on_a_newer_version() {
    let mut bed = reserved();
    let mut ours = draft_at(&mut bed, &[2]);
    ours.insert(&rows([10, 11]));
    ours.delete(&[0, 11]);
    let mut theirs = bed.draft();
    theirs.insert(&rows([20]));
    bed.land(theirs).unwrap();
    let landed = bed.land(ours).unwrap();
    assert_eq!(claims(&landed), [(old(0), vec![0], vec![]), (old(2), vec![1], vec![])]);
    assert_eq!((bed.dead(2), bed.rows()), (Some(vec![1]), rows([1, 2, 3, 10, 20])));
}

#[test]
fn one_reserved_id_is_taken_once() {
    let mut bed = reserved();
    let (mut ours, mut same, mut other) = (draft_at(&mut bed, &[1]), draft_at(&mut bed, &[1]), draft_at(&mut bed, &[3]));
    for draft in [&mut ours, &mut same, &mut other] {
        draft.insert(&rows([10]));
    }
    bed.land(same).unwrap();
    assert_eq!(named(&bed.land(ours).unwrap_err()), ("the fragment id 1", vec![], 4));
    bed.land(other).unwrap();
    assert_eq!(bed.rows(), rows([0, 1, 2, 3, 10, 10]));
}

#[test]
fn a_rewrite_to_a_reserved_id_takes_over_what_others_deleted() {
    let mut bed = reserved();
    let mut ours = draft_at(&mut bed, &[1]);
    ours.optimize(&[(vec![old(0)], vec![2])], false);
    let mut theirs = bed.draft();
    theirs.delete(&[1, 3]);
    bed.land(theirs).unwrap();
    let landed = bed.land(ours).unwrap();
    // Keys 0 and 1 went to fragment 1, keys 2 and 3 to a fragment that was minted.
    assert_eq!(claims(&landed), [(old(1), vec![], vec![]), (own(0), vec![], vec![])]);
    assert_eq!((bed.dead(1), bed.dead(4), bed.rows()), (Some(vec![1]), Some(vec![1]), rows([0, 2])));
}

#[test]
fn rows_are_followed_to_a_fragment_at_a_reserved_id() {
    let mut bed = reserved();
    let mut ours = bed.draft();
    ours.update(&[1], 5);
    let mut theirs = draft_at(&mut bed, &[3]);
    theirs.optimize(&[(vec![old(0)], vec![])], true);
    bed.land(theirs).unwrap();
    let landed = bed.land(ours).unwrap();
    assert_eq!((claims(&landed), landed.committed.facts.rows_carried), (vec![(old(3), vec![1], vec![1])], 1));
    assert_eq!(bed.rows(), [(0, 0), (1, 5), (2, 0), (3, 0)]);
}

#[test]
fn a_rewrite_that_is_given_up_leaves_its_reserved_id_free() {
    let mut bed = reserved();
    let (mut ours, mut theirs) = (draft_at(&mut bed, &[1]), draft_at(&mut bed, &[2]));
    ours.optimize(&[(vec![old(0)], vec![])], true);
    theirs.optimize(&[(vec![old(0)], vec![])], true);
    bed.land(theirs).unwrap();
    assert_eq!(bed.land(ours).unwrap().committed.facts.groups_dropped, 1);
    let mut insert = draft_at(&mut bed, &[1]);
    insert.insert(&rows([10]));
    bed.land(insert).unwrap();
    assert_eq!(bed.rows(), rows([0, 1, 2, 3, 10]));
}
