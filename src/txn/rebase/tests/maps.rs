//! Transactions and maps that do not add up are refused.

use super::*;
use crate::txn::address_map::{AddressMap, MapSource};
use crate::txn::composite::{CommittedTransaction, Transaction};
use crate::txn::rebase::Rebase;
use crate::txn::testbed::Testbed;
use roaring::RoaringBitmap;
use std::sync::Arc;

fn map(sources: &[u32], targets: &[u32]) -> Arc<AddressMap> {
    let sources = sources.iter().map(|rows| MapSource { physical_rows: *rows, absent: RoaringBitmap::new() });
    Arc::new(AddressMap::in_order(sources.collect(), targets.to_vec()).unwrap())
}

/// A compaction of fragments 0 and 1, which have two rows each.
fn compaction(bed: &mut Testbed) -> Transaction {
    let mut draft = bed.draft();
    draft.optimize(&[(vec![old(0), old(1)], vec![])], true);
    draft.transaction
}

fn refusal(transaction: Transaction, maps: &[Arc<AddressMap>]) -> String {
    Rebase::new(transaction, maps).unwrap_err().coordinate
}

#[test]
fn a_rewrite_without_the_right_map_does_not_begin() {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3]]);
    let ours = compaction(&mut bed);
    assert!(Rebase::new(ours.clone(), &[map(&[2, 2], &[4])]).is_ok());
    assert_eq!(refusal(ours.clone(), &[]), "a change of address has no map");
    assert_eq!(refusal(ours.clone(), &[map(&[4], &[4])]), "a change of address and its map name different fragments");
    assert_eq!(refusal(ours.clone(), &[map(&[2, 2], &[2, 2])]), "a change of address and its map name different fragments");
    assert_eq!(refusal(ours, &[map(&[2, 3], &[5])]), "the targets of a change of address are not of the sizes that its map says");
}

#[test]
fn a_rewrite_that_would_leave_rows_twice_does_not_begin() {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3]]);
    let maps = [map(&[2, 2], &[4]), map(&[2, 2], &[4])];
    let stays = "a fragment is moved twice, or moved and not removed";
    let mut ours = compaction(&mut bed);
    ours.steps[0].actions.retain(|action| !matches!(action, Action::RemoveFragment(remove) if remove.fragment == old(1)));
    assert_eq!(refusal(ours, &maps), stays);
    let mut ours = compaction(&mut bed);
    let change = ours.steps[0].actions.iter().find(|action| matches!(action, Action::ChangeOfAddress(_))).unwrap().clone();
    ours.steps[0].actions.push(change);
    assert_eq!(refusal(ours, &maps), stays);
}

#[test]
fn a_deletion_of_no_rows_does_not_begin() {
    let mut bed = Testbed::of(&[&[0, 1]]);
    let mut draft = bed.draft();
    draft.delete(&[0]);
    let Action::SetDeletionFile(set) = &mut draft.transaction.steps[0].actions[0] else { panic!("not a deletion") };
    set.added.clear();
    set.vector = None;
    assert_eq!(refusal(draft.transaction, &[]), "a deletion vector without rows that it deletes");
}

/// A delete of key 3, and a compaction that landed meanwhile.
fn delete_and_landed_compaction() -> (Rebase, CommittedTransaction) {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3]]);
    let mut delete = bed.draft();
    delete.delete(&[3]);
    let mut compaction = bed.draft();
    compaction.optimize(&[(vec![old(0), old(1)], vec![])], true);
    let landed = bed.land(compaction).unwrap();
    (Rebase::new(delete.transaction, &[]).unwrap(), landed.committed)
}

#[test]
fn a_landed_rewrite_is_not_walked_over_without_the_right_map() {
    let (rebase, landed) = delete_and_landed_compaction();
    assert_eq!(rebase.maps_needed(&landed), [true]);
    let refusal = |maps: &[Option<Arc<AddressMap>>]| {
        let collision = rebase.clone().over(3, &landed, maps).unwrap_err();
        assert_eq!((collision.version, collision.transaction), (3, landed.transaction.id.to_string()));
        collision.coordinate
    };
    let unusable = |reason: &str| format!("a change of address that cannot be used ({reason})");
    assert_eq!(refusal(&[]), unusable("it is missing"));
    assert_eq!(refusal(&[None]), unusable("it was not read"));
    assert_eq!(refusal(&[Some(map(&[4], &[4]))]), unusable("a change of address and its map name different fragments"));
    assert_eq!(refusal(&[Some(map(&[2, 1], &[3]))]), unusable("the targets of a change of address are not of the sizes that its map says"));
    assert_eq!(refusal(&[Some(map(&[3, 1], &[4]))]), unusable("source 1 has 1 rows, rows beyond were to be mapped"));
    assert!(rebase.clone().over(3, &landed, &[Some(map(&[2, 2], &[4]))]).is_ok());
}

#[test]
fn a_row_that_the_map_does_not_know_was_deleted() {
    let (rebase, landed) = delete_and_landed_compaction();
    let sources = vec![
        MapSource { physical_rows: 3, absent: RoaringBitmap::new() },
        MapSource { physical_rows: 2, absent: [1].into_iter().collect() },
    ];
    let knows_less = Some(Arc::new(AddressMap::in_order(sources, vec![4]).unwrap()));
    let mut delete = rebase.clone();
    delete.over(3, &landed, std::slice::from_ref(&knows_less)).unwrap();
    assert_eq!(delete.finish(|_| true).unwrap().transaction.steps[0].counts.deleted, 0);
    let mut update = rebase.ours.clone();
    let Action::SetDeletionFile(set) = &mut update.steps[0].actions[0] else { panic!("not a deletion") };
    set.replaced = set.added.clone();
    let collision = Rebase::new(update, &[]).unwrap().over(3, &landed, &[knows_less]).unwrap_err();
    assert_eq!(named(&collision), ("rows of fragment 1", vec!["1/1".to_owned()], 3));
}

#[test]
fn only_maps_of_rows_that_are_claimed_are_asked_for() {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3], &[4, 5], &[6]]);
    let mut delete = bed.draft();
    delete.delete(&[3]);
    let mut theirs = bed.draft();
    theirs.optimize(&[(vec![old(0)], vec![]), (vec![old(1)], vec![])], true);
    theirs.optimize(&[(vec![own(0), old(2)], vec![])], true);
    theirs.optimize(&[(vec![own(1), old(3)], vec![])], true);
    let landed = bed.land(theirs).unwrap();
    let rebase = Rebase::new(delete.transaction, &[]).unwrap();
    assert_eq!(rebase.maps_needed(&landed.committed), [false, true, false, true]);
}

#[test]
fn a_fragment_with_claimed_rows_that_is_gone_is_refused() {
    let (rebase, _) = delete_and_landed_compaction();
    assert!(rebase.finish(|_| true).is_ok());
    assert_eq!(rebase.finish(|_| false).unwrap_err().coordinate, "a fragment with live rows is gone");
}
