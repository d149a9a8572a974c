//! Changes of transactions made by hand: what a reader is told of, and what not.

use super::Changes;
use crate::table::row_address::FragmentId;
use crate::table::schema::FieldId;
use crate::txn::action::{
    Action, AddDataFile, AddFragment, ChangeOfAddress, MapLocation, RemoveFragment, SetDeletionFile, TombstoneFieldData,
};
use crate::txn::composite::{CommitFacts, CommittedTransaction, Step, Transaction, TransactionId};
use crate::txn::refs::{FragmentRef, Minted, Ref, Token};
use crate::txn::testbed::data_file;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a transaction of these steps changed; token `t` got the id `100 + t`.
fn changes(steps: Vec<Vec<Action>>) -> Changes {
    let steps = steps.into_iter().map(|actions| Step { actions, ..Step::default() }).collect();
    let fragments = (0..10).map(|token| (Token(token), FragmentId(100 + token))).collect();
    Changes::of(&CommittedTransaction {
        transaction: Transaction { id: TransactionId(1), read_version: 1, steps },
        minted: Minted { fragments, ..Minted::default() },
        facts: CommitFacts::default(),
    })
}

fn old(id: u32) -> FragmentRef {
    Ref::Committed(FragmentId(id))
}

fn new(token: u32) -> FragmentRef {
    Ref::Local(Token(token))
}

fn add(token: u32, data_change: bool) -> Action {
    Action::AddFragment(AddFragment { id: new(token), physical_rows: 4, data_change, replacing: roaring::RoaringBitmap::new() })
}

fn delete(fragment: FragmentRef, rows: impl IntoIterator<Item = u32>) -> Action {
    Action::SetDeletionFile(SetDeletionFile { fragment, vector: None, added: rows.into_iter().collect(), replaced: Default::default() })
}

fn remove(fragment: FragmentRef, data_change: bool) -> Action {
    Action::RemoveFragment(RemoveFragment { fragment, data_change })
}

/// A rewrite of `sources` to one fragment.
fn rewrite(sources: &[FragmentRef], target: u32) -> Vec<Action> {
    let change =
        ChangeOfAddress { sources: sources.to_vec(), targets: vec![new(target)], map: MapLocation::Inline(Bytes::new()), order: None };
    let mut actions = vec![add(target, false), Action::ChangeOfAddress(change)];
    actions.extend(sources.iter().map(|source| remove(*source, false)));
    actions
}

fn ids(ids: &[u32]) -> BTreeSet<FragmentId> {
    ids.iter().map(|id| FragmentId(*id)).collect()
}

#[test]
fn new_rows_and_rows_that_are_gone_are_told_of() {
    let update = changes(vec![vec![add(0, true), delete(old(3), [1, 2])], vec![delete(old(3), [5]), remove(old(4), true)]]);
    assert_eq!(update.added, ids(&[100]));
    assert_eq!(update.deleted, BTreeMap::from([(FragmentId(3), [1, 2, 5].into_iter().collect())]));
    assert_eq!(update.removed, ids(&[4]));
    assert!(update.columns.is_empty() && !update.is_empty());
}

#[test]
fn a_fragment_of_a_reserved_id_is_new_like_any_other() {
    let add =
        Action::AddFragment(AddFragment { id: old(7), physical_rows: 4, data_change: true, replacing: roaring::RoaringBitmap::new() });
    let inserted = changes(vec![vec![add, delete(old(7), [1])]]);
    assert_eq!((inserted.added, inserted.deleted), (ids(&[7]), BTreeMap::new()));
}

#[test]
fn rows_that_moved_are_not() {
    assert!(changes(vec![rewrite(&[old(1), old(2)], 0)]).is_empty());
}

#[test]
fn rows_of_its_own_that_moved_are_new_where_they_are() {
    // An INSERT, then an OPTIMIZE of that fragment together with an old one, then another OPTIMIZE.
    let moved = changes(vec![vec![add(0, true)], rewrite(&[old(1), new(0)], 1), rewrite(&[new(1)], 2)]);
    assert_eq!(moved.added, ids(&[100, 101, 102]));
    assert!(moved.removed.is_empty());
}

#[test]
fn what_goes_of_its_own_rows_was_never_there() {
    assert_eq!(changes(vec![vec![add(0, true)], vec![delete(new(0), [1])]]).deleted, BTreeMap::new());
    assert_eq!(changes(vec![vec![add(0, true)], vec![remove(new(0), true)]]).removed, ids(&[]));
}

#[test]
fn rows_that_it_moved_and_then_deleted_were_there() {
    let deleted = changes(vec![rewrite(&[old(1)], 0), vec![delete(new(0), [2])]]);
    assert_eq!(deleted.deleted, BTreeMap::from([(FragmentId(100), [2].into_iter().collect())]));
    assert_eq!(changes(vec![rewrite(&[old(1)], 0), vec![remove(new(0), true)]]).removed, ids(&[100]));
}

#[test]
fn columns_written_over_are_told_of_with_their_fields() {
    let column = |fragment, data_change| {
        let file = Arc::new(data_file("data/x", 4, 1));
        let fields = vec![Some(Ref::Committed(FieldId(2)))];
        Action::AddDataFile(AddDataFile { fragment, file: file.as_ref().clone(), base: None, fields, data_change })
    };
    let tombstone = |fragment| {
        let fields = vec![Ref::Committed(FieldId(3))];
        Action::TombstoneFieldData(TombstoneFieldData { fragment, fields, data_change: true })
    };
    let fields = |ids: &[i32]| ids.iter().map(|id| FieldId(*id)).collect::<BTreeSet<_>>();
    let written = changes(vec![vec![column(old(1), true), tombstone(old(1)), column(old(2), false)]]);
    assert_eq!(written.columns, BTreeMap::from([(FragmentId(1), fields(&[2, 3]))]));
    // The files of a fragment that it adds or moves rows to are how its rows come to be; later ones are not.
    let mut rewritten = rewrite(&[old(1)], 0);
    rewritten.push(column(new(0), true));
    assert!(changes(vec![rewritten.clone()]).is_empty());
    let later = changes(vec![rewritten, vec![column(new(0), true)]]);
    assert_eq!(later.columns, BTreeMap::from([(FragmentId(100), fields(&[2]))]));
}

#[test]
fn values_that_are_removed_are_told_of_where_rows_were_before() {
    let tombstone = |fragment, data_change| {
        Action::TombstoneFieldData(TombstoneFieldData { fragment, fields: vec![Ref::Committed(FieldId(3))], data_change })
    };
    let columns = |steps| changes(steps).columns.into_keys().map(|id| id.0).collect::<Vec<_>>();
    assert_eq!(columns(vec![vec![tombstone(old(1), true), tombstone(old(2), false)]]), [1]);
    assert_eq!(columns(vec![vec![add(0, true)], vec![tombstone(new(0), true)]]), [0; 0]);
    let rewritten = [rewrite(&[old(1)], 0), vec![tombstone(new(0), true)]];
    assert_eq!(columns(vec![rewritten.concat()]), [0; 0]);
    assert_eq!(columns(rewritten.to_vec()), [100]);
}

#[test]
fn deletions_that_a_rewrite_carried_are_no_change() {
    assert!(changes(vec![rewrite(&[old(1)], 0), vec![delete(new(0), [])]]).is_empty());
    assert!(changes(vec![vec![delete(old(1), [])]]).is_empty());
}

#[test]
fn any_change_is_one() {
    let (rows, fields) = ([1].into_iter().collect(), BTreeSet::from([FieldId(2)]));
    assert!(Changes::default().is_empty());
    assert!(!Changes { added: ids(&[1]), ..Changes::default() }.is_empty());
    assert!(!Changes { deleted: BTreeMap::from([(FragmentId(1), rows)]), ..Changes::default() }.is_empty());
    assert!(!Changes { removed: ids(&[1]), ..Changes::default() }.is_empty());
    assert!(!Changes { columns: BTreeMap::from([(FragmentId(1), fields)]), ..Changes::default() }.is_empty());
}
