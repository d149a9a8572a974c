//! Lost races and shared versions: the walk goes on from where it was.

use super::*;
use crate::txn::testbed::Testbed;

#[test]
fn a_rebase_that_lost_its_race_goes_on_as_if_it_began_anew() {
    let mut bed = Testbed::of(&[&[0, 1, 2, 3], &[4, 5, 6, 7], &[8, 9]]);
    let mut ours = bed.draft();
    ours.delete(&[0, 1]);
    ours.update(&[9], 10);
    ours.optimize(&[(vec![old(1)], vec![])], true);
    let mut candidate = bed.candidate(ours.clone()).unwrap();
    let (at_first, _) = bed.attempt(&mut candidate).unwrap();
    assert_eq!((at_first.versions, at_first.rows_carried), (0, 0));

    let mut delete = bed.draft();
    delete.delete(&[1, 4]);
    bed.land(delete).unwrap();
    let (after_delete, _) = bed.attempt(&mut candidate).unwrap();
    assert_eq!((after_delete.versions, after_delete.rows_carried), (1, 1));
    assert_eq!(after_delete.transaction.steps[0].counts.deleted, 1);

    let mut compaction = bed.draft();
    compaction.optimize(&[(vec![old(0), old(2)], vec![])], true);
    bed.land(compaction).unwrap();
    let again = bed.attempt(&mut candidate).unwrap();
    let twice = bed.attempt(&mut candidate).unwrap();
    let anew = bed.attempt(&mut bed.candidate(ours).unwrap()).unwrap();
    assert_eq!((&again.1, &again.1), (&twice.1, &anew.1));
    assert_eq!((again.0.versions, again.0.rows_carried), (2, 3));

    let landed = bed.land_together(vec![candidate]).pop().unwrap().unwrap();
    // Fragment 3 holds 0 2 3 8 9.
    assert_eq!(claims(&landed)[0], (old(3), vec![0, 4], vec![4]));
    assert_eq!(bed.rows(), [(2, 0), (3, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, 10)]);
}

#[test]
fn transactions_of_one_version_are_carried_over_each_other() {
    let mut bed = Testbed::of(&[&[0, 1, 2, 3], &[4, 5]]);
    let (mut delete, mut compaction, mut update, mut collides) = (bed.draft(), bed.draft(), bed.draft(), bed.draft());
    delete.delete(&[0]);
    compaction.optimize(&[(vec![old(0), old(1)], vec![])], true);
    update.update(&[3], 10);
    collides.update(&[2, 3], 20);
    let candidates = [delete, compaction, update, collides].map(|draft| bed.candidate(draft).unwrap());
    let results = bed.land_together(candidates.into());
    assert_eq!((bed.newest().version, bed.versions.last().unwrap().transactions.len()), (3, 3));
    assert_eq!(bed.dead(2), Some(vec![0, 3]));
    assert_eq!(bed.rows(), [(1, 0), (2, 0), (3, 10), (4, 0), (5, 0)]);
    assert_eq!(named(results[3].as_ref().unwrap_err()), ("rows of fragment 2", vec!["2/3".to_owned()], 3));
}

#[test]
fn a_late_transaction_walks_over_a_version_of_several() {
    let mut bed = Testbed::of(&[&[0, 1, 2, 3], &[4, 5]]);
    let (mut delete, mut compaction, mut late) = (bed.draft(), bed.draft(), bed.draft());
    delete.delete(&[0]);
    compaction.optimize(&[(vec![old(0), old(1)], vec![])], true);
    late.delete(&[0, 1, 5]);
    let candidates = [delete, compaction].map(|draft| bed.candidate(draft).unwrap());
    bed.land_together(candidates.into());
    let landed = bed.land(late).unwrap();
    assert_eq!((claims(&landed), deleted(&landed)), (vec![(old(2), vec![1, 5], vec![])], vec![2]));
    assert_eq!((bed.dead(2), landed.committed.facts.rebased_over), (Some(vec![0, 1, 5]), 1));
}
