//! New columns, and column data for fragments that exist.

use super::*;
use crate::table::schema::FieldId;
use crate::txn::action::AddDataFile;
use crate::txn::composite::RowCounts;
use crate::txn::testbed::{Draft, Testbed, data_file};

/// ADD COLUMN with values for these fragments.
pub(super) fn add_column_with_values(draft: &mut Draft, name: &str, fragments: &[FragmentRef]) {
    draft.add_column(name);
    let field = Ref::Local(Token(0));
    let file = |(at, fragment): (usize, &FragmentRef)| {
        let rows = draft.seen.iter().find(|seen| seen.fragment == *fragment).unwrap().rows.len();
        let file = data_file(&format!("data/{}-column-{at}.parquet", draft.transaction.id.0), rows as u32, 1);
        Action::AddDataFile(AddDataFile { fragment: *fragment, file, base: None, fields: vec![Some(field)], data_change: true })
    };
    let actions = fragments.iter().enumerate().map(file).collect();
    draft.step("ALTER", format!("values of {name}"), actions, RowCounts::default());
}

/// The fields that a fragment of the newest version holds.
pub(super) fn fields(bed: &Testbed, fragment: u32) -> Vec<i32> {
    let fragment = bed.newest().fragments.get(FragmentId(fragment)).unwrap().unwrap();
    fragment.files.iter().flat_map(|file| &file.columns).filter_map(|column| column.field).map(|FieldId(id)| id).collect()
}

#[test]
fn a_column_collides_with_a_column_of_the_same_name() {
    let mut bed = Testbed::of(&[&[0]]);
    let (mut first, mut same, mut other) = (bed.draft(), bed.draft(), bed.draft());
    first.add_column("a");
    same.add_column("a");
    other.add_column("b");
    bed.land(first).unwrap();
    assert_eq!(named(&bed.land(same).unwrap_err()), ("the column name 'a'", vec![], 3));
    let landed = bed.land(other).unwrap();
    assert_eq!(landed.committed.minted.fields.values().copied().collect::<Vec<_>>(), [FieldId(4)]);
    assert_eq!(bed.newest().schema.columns().map(|field| field.name.as_str()).collect::<Vec<_>>(), ["key", "value", "a", "b"]);
}

#[test]
fn a_column_commutes_with_rows() {
    let mut bed = Testbed::of(&[&[0, 1], &[2]]);
    let (mut column, mut update, mut compaction) = (bed.draft(), bed.draft(), bed.draft());
    column.add_column("a");
    update.update(&[0], 10);
    compaction.optimize(&[(vec![old(0), old(1)], vec![])], true);
    bed.land(column).unwrap();
    bed.land(update).unwrap();
    bed.land(compaction).unwrap();
    assert_eq!(bed.rows(), [(0, 10), (1, 0), (2, 0)]);
}

#[test]
fn values_of_a_column_stop_an_update_of_their_fragment_but_neither_a_delete_nor_a_rewrite() {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3], &[4, 5]]);
    let (mut column, mut compaction, mut update, mut delete) = (bed.draft(), bed.draft(), bed.draft(), bed.draft());
    add_column_with_values(&mut column, "a", &[old(0)]);
    compaction.optimize(&[(vec![old(0)], vec![]), (vec![old(1), old(2)], vec![])], true);
    update.update(&[1], 10);
    delete.delete(&[0, 2]);
    bed.land(column).unwrap();
    assert_eq!(named(&bed.land(update).unwrap_err()), ("column data of fragment 0", vec!["0/1".to_owned()], 3));
    assert_eq!(bed.land(compaction).unwrap().committed.facts.groups_dropped, 0);
    bed.land(delete).unwrap();
    assert_eq!((fields(&bed, 3), bed.dead(3), bed.dead(4)), (vec![1, 2, 3], Some(vec![0]), Some(vec![0])));
    assert_eq!(bed.rows(), rows([1, 3, 4, 5]));
}

#[test]
fn values_of_a_column_follow_a_move_and_collide_with_an_update_of_their_fragment() {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3]]);
    let (mut moved, mut updated) = (bed.draft(), bed.draft());
    add_column_with_values(&mut moved, "a", &[old(0)]);
    add_column_with_values(&mut updated, "b", &[old(1)]);
    let mut theirs = bed.draft();
    theirs.optimize(&[(vec![old(0)], vec![])], true);
    theirs.update(&[3], 10);
    bed.land(theirs).unwrap();
    bed.land(moved).unwrap();
    assert_eq!(fields(&bed, 2), [1, 2, 3]);
    assert_eq!(named(&bed.land(updated).unwrap_err()), ("rows of fragment 1", vec!["1/1".to_owned()], 3));
}

#[test]
fn an_update_in_place_and_one_of_rows_collide_in_both_orders() {
    let outcome = |first: fn(&mut Draft), second: fn(&mut Draft)| {
        let mut bed = Testbed::of(&[&[0, 1]]);
        let (mut landed, mut ours) = (bed.draft(), bed.draft());
        first(&mut landed);
        second(&mut ours);
        bed.land(landed).unwrap();
        bed.land(ours).map_err(|collision| collision.coordinate)
    };
    let rows: fn(&mut Draft) = |draft| draft.update(&[0], 1);
    let columns: fn(&mut Draft) = |draft| draft.update_columns(&[0, 1], 2);
    assert_eq!(outcome(rows, columns).unwrap_err(), "rows of fragment 0");
    assert_eq!(outcome(columns, rows).unwrap_err(), "column data of fragment 0");
    assert_eq!(outcome(columns, columns).unwrap_err(), "the values of field 2 in fragment 0");
}

#[test]
fn a_delete_collides_with_new_values_of_a_column_that_it_read() {
    let mut bed = Testbed::of(&[&[0, 1], &[2]]);
    let (mut blind, mut reading, mut elsewhere, mut column) = (bed.draft(), bed.draft(), bed.draft(), bed.draft());
    blind.delete(&[0]);
    reading.delete(&[1]);
    elsewhere.delete(&[2]);
    for draft in [&mut reading, &mut elsewhere] {
        draft.reads.insert(FieldId(2));
    }
    column.update_columns(&[0, 1], 5);
    bed.land(column).unwrap();
    bed.land(blind).unwrap();
    bed.land(elsewhere).unwrap();
    assert_eq!(named(&bed.land(reading).unwrap_err()), ("the values of field 2 in fragment 0", vec![], 3));
    assert_eq!(bed.rows(), [(1, 5)]);
}

#[test]
fn an_update_in_place_lands_where_its_rows_moved_to_and_leaves_other_rows_alone() {
    let mut bed = Testbed::of(&[&[0, 1, 2], &[3, 4], &[5, 6]]);
    let (mut ours, mut delete) = (bed.draft(), bed.draft());
    ours.update_columns(&[0, 1, 2, 5], 10);
    delete.delete(&[1]);
    bed.land(delete).unwrap();
    let mut first = bed.draft();
    first.optimize(&[(vec![old(1), old(0)], vec![3])], true);
    bed.land(first).unwrap();
    // Fragment 3 holds 3 4 0, fragment 4 holds 2. Then all change places once more.
    let mut second = bed.draft();
    second.optimize(&[(vec![old(4), old(2), old(3)], vec![4])], true);
    bed.land(second).unwrap();
    // Fragment 5 holds 2 5 6 3, fragment 6 holds 4 0.
    let mut other = bed.draft();
    other.insert(&[(7, 0)]);
    bed.land(other).unwrap();
    let landed = bed.land(ours).unwrap();
    assert_eq!(bed.rows(), [(0, 10), (2, 10), (3, 0), (4, 0), (5, 10), (6, 0), (7, 0)]);
    assert_eq!((fields(&bed, 5), fields(&bed, 6)), (vec![1, 2], vec![1, 2]));
    assert_eq!(landed.committed.transaction.steps[0].counts.updated, 4);
    assert_eq!(landed.committed.facts.rows_carried, 2 + 2 + 2);
}

#[test]
fn an_update_in_place_follows_rewrites_that_give_rows_another_order() {
    let mut bed = Testbed::of(&[&[0, 1, 2], &[3, 4], &[5, 6]]);
    let (mut ours, mut theirs) = (bed.draft(), bed.draft());
    ours.update_columns(&[1, 2, 5], 10);
    theirs.rewrite(&[(vec![old(1), old(0)], vec![3])], true, Some(7));
    bed.land(theirs).unwrap();
    for shuffle in [None, Some(3), Some(5)] {
        let mut theirs = bed.draft();
        let all: Vec<FragmentRef> = theirs.seen.iter().rev().map(|seen| seen.fragment).collect();
        theirs.rewrite(&[(all, vec![2, 2])], true, shuffle);
        bed.land(theirs).unwrap();
    }
    bed.land(ours).unwrap();
    assert_eq!(bed.rows(), [(0, 0), (1, 10), (2, 10), (3, 0), (4, 0), (5, 10), (6, 0)]);
}

#[test]
fn a_rewrite_that_gives_rows_another_order_takes_over_values() {
    let mut bed = Testbed::of(&[&[0, 1, 2], &[3, 4], &[5, 6]]);
    let (mut compaction, mut column) = (bed.draft(), bed.draft());
    compaction.rewrite(&[(vec![old(0), old(1), old(2)], vec![4])], true, Some(7));
    column.update_columns(&[1, 5], 10);
    bed.land(column).unwrap();
    assert_eq!(bed.land(compaction).unwrap().committed.facts.groups_dropped, 0);
    assert_eq!(bed.rows(), [(0, 0), (1, 10), (2, 0), (3, 0), (4, 0), (5, 10), (6, 0)]);
}

#[test]
fn an_update_in_place_collides_with_values_that_came_after_its_rows_moved() {
    let outcome = |change: fn(&mut Draft), together: bool| {
        let mut bed = Testbed::of(&[&[0, 1], &[2]]);
        let (mut ours, mut theirs) = (bed.draft(), bed.draft());
        ours.update_columns(&[0, 1], 10);
        theirs.optimize(&[(vec![old(0), old(1)], vec![])], true);
        if !together {
            bed.land(theirs).unwrap();
            theirs = bed.draft();
        }
        change(&mut theirs);
        bed.land(theirs).unwrap();
        bed.land(ours).map_err(|collision| collision.coordinate)
    };
    for together in [true, false] {
        let columns = outcome(|theirs| theirs.update_columns(&[1], 100), together);
        assert_eq!(columns.unwrap_err(), "the values of field 2 in fragment 2");
        assert_eq!(outcome(|theirs| theirs.update(&[0], 100), together).unwrap_err(), "rows of fragment 2");
        assert!(outcome(|theirs| theirs.delete(&[0]), together).is_ok());
    }
}

#[test]
fn an_update_of_rows_collides_with_an_update_in_place_of_where_they_moved_to() {
    let mut bed = Testbed::of(&[&[0, 1]]);
    let (mut ours, mut theirs) = (bed.draft(), bed.draft());
    ours.update(&[0], 1);
    theirs.optimize(&[(vec![old(0)], vec![])], true);
    theirs.update_columns(&[0, 1], 2);
    bed.land(theirs).unwrap();
    assert_eq!(named(&bed.land(ours).unwrap_err()), ("column data of fragment 1", vec!["1/0".to_owned()], 3));
}

#[test]
fn a_rewrite_takes_over_values_that_came_while_it_ran() {
    let mut bed = Testbed::of(&[&[0, 1, 2], &[3, 4]]);
    let (mut compaction, mut column, mut delete, mut other) = (bed.draft(), bed.draft(), bed.draft(), bed.draft());
    compaction.optimize(&[(vec![old(0), old(1)], vec![2])], true);
    column.update_columns(&[1, 2], 10);
    delete.delete(&[0, 4]);
    add_column_with_values(&mut other, "a", &[old(1)]);
    bed.land(column).unwrap();
    bed.land(delete).unwrap();
    bed.land(other).unwrap();
    let landed = bed.land(compaction).unwrap();
    assert_eq!(bed.rows(), [(1, 10), (2, 10), (3, 0)]);
    assert_eq!(landed.committed.facts.groups_dropped, 0);
    // Fragment 2 holds 0 1, fragment 3 holds 2 3 4.
    assert_eq!((fields(&bed, 2), fields(&bed, 3)), (vec![1, 2], vec![1, 2, 3]));
}

#[test]
fn a_rewrite_of_values_that_the_transaction_wrote_itself_keeps_them() {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3]]);
    let (mut ours, mut theirs) = (bed.draft(), bed.draft());
    ours.update_columns(&[0, 1], 10);
    ours.optimize(&[(vec![old(0), old(1)], vec![])], true);
    theirs.update_columns(&[2], 100);
    bed.land(theirs).unwrap();
    bed.land(ours).unwrap();
    assert_eq!(bed.rows(), [(0, 10), (1, 10), (2, 100), (3, 0)]);
}

#[test]
fn values_that_a_rewrite_took_over_are_no_news_to_those_who_read_them() {
    let mut bed = Testbed::of(&[&[0, 1]]);
    let (mut compaction, mut column) = (bed.draft(), bed.draft());
    compaction.optimize(&[(vec![old(0)], vec![])], true);
    column.update_columns(&[0, 1], 10);
    bed.land(column).unwrap();
    let (mut rows, mut columns) = (bed.draft(), bed.draft());
    rows.update(&[0], 1);
    columns.update_columns(&[0, 1], 2);
    bed.land(compaction).unwrap();
    bed.land(columns).unwrap();
    assert_eq!(bed.rows(), [(0, 12), (1, 12)]);
    assert_eq!(bed.land(rows).unwrap_err().coordinate, "column data of fragment 1");
}

#[test]
fn values_of_a_column_land_over_deletes_and_skip_a_fragment_that_is_gone() {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3], &[4]]);
    let mut column = bed.draft();
    add_column_with_values(&mut column, "a", &[old(0), old(1), old(2)]);
    let mut theirs = bed.draft();
    theirs.delete(&[0, 2, 3]);
    theirs.remove(&[old(2)]);
    bed.land(theirs).unwrap();
    bed.land(column).unwrap();
    assert_eq!((fields(&bed, 0), bed.dead(0), bed.newest().fragments.len()), (vec![1, 2, 3], Some(vec![0]), 1));
}

#[test]
fn values_of_a_column_for_rows_that_the_transaction_moved_build_upon_the_move() {
    let composite = |bed: &mut Testbed| {
        let mut draft = bed.draft();
        draft.optimize(&[(vec![old(0)], vec![])], true);
        add_column_with_values(&mut draft, "a", &[own(0)]);
        draft
    };
    let outcome = |theirs: fn(&mut Draft)| {
        let mut bed = Testbed::of(&[&[0, 1]]);
        let ours = composite(&mut bed);
        let mut draft = bed.draft();
        theirs(&mut draft);
        bed.land(draft).unwrap();
        let landed = bed.land(ours);
        (bed, landed)
    };
    let (_, landed) = outcome(|theirs| theirs.optimize(&[(vec![old(0)], vec![])], true));
    assert_eq!(named(&landed.unwrap_err()), ("fragment 0", vec![], 3));
    let (_, landed) = outcome(|theirs| theirs.update(&[1], 10));
    assert_eq!(named(&landed.unwrap_err()), ("rows of fragment 0", vec!["0/1".to_owned()], 3));
    let (bed, landed) = outcome(|theirs| theirs.delete(&[1]));
    landed.unwrap();
    assert_eq!((fields(&bed, 1), bed.dead(1)), (vec![1, 2, 3], Some(vec![1])));
}
