//! New columns, and column data for fragments that exist.

use super::*;
use crate::table::schema::FieldId;
use crate::txn::action::AddDataFile;
use crate::txn::composite::RowCounts;
use crate::txn::testbed::{Draft, Testbed, data_file};

/// ADD COLUMN with values for these fragments.
fn add_column_with_values(draft: &mut Draft, name: &str, fragments: &[FragmentRef]) {
    draft.add_column(name);
    let field = Ref::Local(Token(0));
    let file = |(at, fragment): (usize, &FragmentRef)| {
        let rows = draft.seen.iter().find(|seen| seen.fragment == *fragment).unwrap().rows.len();
        let file = data_file(&format!("data/{}-column-{at}.parquet", draft.transaction.id.0), rows as u32, 1);
        Action::AddDataFile(AddDataFile { fragment: *fragment, file, fields: vec![Some(field)], data_change: true })
    };
    let actions = fragments.iter().enumerate().map(file).collect();
    draft.step("ALTER", format!("values of {name}"), actions, RowCounts::default());
}

/// The fields that a fragment of the newest version holds.
fn fields(bed: &Testbed, fragment: u32) -> Vec<i32> {
    let fragment = bed.newest().fragments.get(FragmentId(fragment)).unwrap();
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
fn values_of_a_column_stop_a_rewrite_and_an_update_of_their_fragment_but_not_a_delete() {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3], &[4, 5]]);
    let (mut column, mut compaction, mut update, mut delete) = (bed.draft(), bed.draft(), bed.draft(), bed.draft());
    add_column_with_values(&mut column, "a", &[old(0)]);
    compaction.optimize(&[(vec![old(0)], vec![]), (vec![old(1), old(2)], vec![])], true);
    update.update(&[1], 10);
    delete.delete(&[0, 2]);
    bed.land(column).unwrap();
    assert_eq!(bed.land(compaction).unwrap().committed.facts.groups_dropped, 1);
    assert_eq!(named(&bed.land(update).unwrap_err()), ("column data of fragment 0", vec!["0/1".to_owned()], 3));
    bed.land(delete).unwrap();
    assert_eq!((fields(&bed, 0), bed.dead(0), bed.dead(3)), (vec![1, 2, 3], Some(vec![0]), Some(vec![0])));
    assert_eq!(bed.rows(), rows([1, 3, 4, 5]));
}

#[test]
fn values_of_a_column_collide_with_a_move_and_an_update_of_their_fragment() {
    let mut bed = Testbed::of(&[&[0, 1], &[2, 3]]);
    let (mut moved, mut updated) = (bed.draft(), bed.draft());
    add_column_with_values(&mut moved, "a", &[old(0)]);
    add_column_with_values(&mut updated, "b", &[old(1)]);
    let mut theirs = bed.draft();
    theirs.optimize(&[(vec![old(0)], vec![])], true);
    theirs.update(&[3], 10);
    bed.land(theirs).unwrap();
    assert_eq!(named(&bed.land(moved).unwrap_err()), ("fragment 0", vec![], 3));
    assert_eq!(named(&bed.land(updated).unwrap_err()), ("rows of fragment 1", vec!["1/1".to_owned()], 3));
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
