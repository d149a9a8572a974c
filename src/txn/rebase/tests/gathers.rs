//! Where the values of columns are gathered from when their rows moved, and whose they are.

use super::columns::{add_column_with_values, fields};
use super::*;
use crate::table::schema::FieldId;
use crate::txn::action::TombstoneFieldData;
use crate::txn::composite::RowCounts;
use crate::txn::rebase::{Place, Rebased};
use crate::txn::testbed::{Draft, Testbed};

#[test]
fn of_a_fragment_that_rows_of_ours_moved_to_the_other_rows_are_free() {
    for (key, lands) in [(0, true), (1, false), (2, true), (3, true)] {
        let mut bed = Testbed::of(&[&[0], &[1], &[2, 3]]);
        let mut ours = bed.draft();
        ours.update_columns(&[1], 10);
        let mut theirs = bed.draft();
        theirs.optimize(&[(vec![old(0), old(1), old(2)], vec![])], true);
        bed.land(theirs).unwrap();
        let mut theirs = bed.draft();
        theirs.update(&[key], 100);
        bed.land(theirs).unwrap();
        let outcome = bed.land(ours);
        assert_eq!(outcome.is_ok(), lands, "{key}");
        if let Err(collision) = outcome {
            assert_eq!(named(&collision), ("rows of fragment 3", vec!["3/1".to_owned()], 4));
        }
    }
}

#[test]
fn columns_follow_their_rows_alone_when_a_rewrite_parts_them() {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3]]);
    let mut ours = bed.draft();
    ours.update_columns(&[0, 1], 10);
    add_column_with_values(&mut ours, "a", &[old(1)]);
    let mut together = bed.draft();
    together.optimize(&[(vec![old(0), old(1)], vec![])], true);
    bed.land(together).unwrap();
    let mut apart = bed.draft();
    apart.optimize(&[(vec![old(2)], vec![2])], true);
    bed.land(apart).unwrap();
    bed.land(ours).unwrap();
    assert_eq!((fields(&bed, 3), fields(&bed, 4)), (vec![1, 2], vec![1, 2, 3]));
    assert_eq!(bed.rows(), [(0, 10), (1, 10), (2, 0), (3, 0)]);
}

#[test]
fn a_fragment_that_none_of_our_rows_moved_to_is_not_ours() {
    let outcome = |key: u32| {
        let mut bed = Testbed::of(&[&[0, 1], &[2, 3]]);
        let mut ours = bed.draft();
        add_column_with_values(&mut ours, "a", &[old(0)]);
        ours.reads.insert(FieldId(2));
        let mut theirs = bed.draft();
        theirs.optimize(&[(vec![old(0), old(1)], vec![2])], true);
        bed.land(theirs).unwrap();
        let mut theirs = bed.draft();
        theirs.update_columns(&[key], 100);
        bed.land(theirs).unwrap();
        bed.land(ours).map_err(|collision| collision.coordinate)
    };
    assert!(outcome(2).is_ok());
    assert_eq!(outcome(0).unwrap_err(), "the values of field 2 in fragment 2");
}

#[test]
fn columns_of_two_fragments_that_came_together_leave_the_other_values_alone() {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3]]);
    let mut values = bed.draft();
    values.update_columns(&[2, 3], 5);
    bed.land(values).unwrap();
    let (mut ours, mut theirs) = (bed.draft(), bed.draft());
    ours.update_columns(&[0, 1], 10);
    add_column_with_values(&mut ours, "a", &[old(1)]);
    theirs.optimize(&[(vec![old(0), old(1)], vec![])], true);
    bed.land(theirs).unwrap();
    bed.land(ours).unwrap();
    assert_eq!(bed.rows(), [(0, 10), (1, 10), (2, 5), (3, 5)]);
}

/// What became of `ours` after `theirs` landed one after another; nothing of it is published.
fn attempted(bed: &mut Testbed, ours: Draft, theirs: Vec<Draft>) -> Rebased {
    let mut candidate = bed.candidate(ours).unwrap();
    for draft in theirs {
        bed.land(draft).unwrap();
    }
    bed.attempt(&mut candidate).unwrap().0
}

#[test]
fn what_a_rewrite_wrote_itself_has_the_rows_of_its_target() {
    let mut bed = Testbed::of(&[&[0, 1, 2], &[3, 4]]);
    let (mut compaction, mut column) = (bed.draft(), bed.draft());
    compaction.optimize(&[(vec![old(0), old(1)], vec![2])], true);
    column.update_columns(&[3], 10);
    let rebased = attempted(&mut bed, compaction, vec![column]);
    // Its second target holds 2 3 4, of which the values of 3 and 4 came later.
    let [gather] = &rebased.gathers[..] else { panic!("{:?}", rebased.gathers) };
    assert_eq!((gather.fragment, &gather.fields[..], gather.data_change), (own(1), &[Ref::Committed(FieldId(2))][..], false));
    let runs = gather.runs.iter().map(|run| {
        let from = match &run.from {
            Place::Present(id) => (Some(id.0), None),
            Place::Staged { physical_rows, files } => (None, Some((*physical_rows, files.len()))),
        };
        (from, run.rows.iter().collect::<Vec<_>>())
    });
    assert_eq!(runs.collect::<Vec<_>>(), [((None, Some((3, 1))), vec![0]), ((Some(1), None), vec![0, 1])]);
}

#[test]
fn nothing_is_gathered_for_a_rewrite_that_is_given_up() {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3]]);
    let (mut compaction, mut column, mut theirs) = (bed.draft(), bed.draft(), bed.draft());
    compaction.optimize(&[(vec![old(0), old(1)], vec![])], true);
    column.update_columns(&[2], 10);
    theirs.optimize(&[(vec![old(0)], vec![])], true);
    let rebased = attempted(&mut bed, compaction, vec![column, theirs]);
    assert_eq!((rebased.groups_dropped, rebased.gathers.len(), rebased.transaction.is_empty()), (1, 0, true));
}

#[test]
fn a_rewrite_takes_over_what_others_say_is_no_change() {
    let gathered = |theirs: fn(&mut Draft)| {
        let mut bed = Testbed::of(&[&[0, 1], &[2, 3]]);
        let (mut compaction, mut draft) = (bed.draft(), bed.draft());
        compaction.optimize(&[(vec![old(0), old(1)], vec![])], true);
        theirs(&mut draft);
        let rebased = attempted(&mut bed, compaction, vec![draft]);
        rebased.gathers.into_iter().map(|gather| (gather.fragment, gather.fields)).collect::<Vec<_>>()
    };
    let removed = gathered(|theirs| {
        let tombstone = TombstoneFieldData { fragment: old(0), fields: vec![Ref::Committed(FieldId(2))], data_change: false };
        theirs.step("OPTIMIZE", "values go".into(), vec![Action::TombstoneFieldData(tombstone)], RowCounts::default());
    });
    assert_eq!(removed, [(own(0), vec![Ref::Committed(FieldId(2))])]);
    let added = gathered(|theirs| {
        add_column_with_values(theirs, "a", &[old(0)]);
        for action in theirs.transaction.steps.iter_mut().flat_map(|step| &mut step.actions) {
            if let Action::AddDataFile(add) = action {
                add.data_change = false;
            }
        }
    });
    assert_eq!(added, [(own(0), vec![Ref::Committed(FieldId(3))])]);
}
