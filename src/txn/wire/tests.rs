//! Transactions as messages: what is refused. That values come back is tested where manifests are encoded.

use super::*;
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::{BlockChecksums, DataFile, FileColumn};
use crate::table::schema::FieldType;
use crate::txn::action::{AddDataFile, AddField, AddFragment, ChangeOfAddress, MapLocation, RemoveFragment, SetDeletionFile};
use std::sync::Arc;

const LOCAL: FragmentRef = Ref::Local(Token(0));

fn rows(rows: &[u32]) -> RoaringBitmap {
    rows.iter().copied().collect()
}

fn add_fragment(token: u32) -> Action {
    Action::AddFragment(AddFragment {
        id: Ref::Local(Token(token)),
        physical_rows: 10,
        data_change: true,
        replacing: roaring::RoaringBitmap::new(),
    })
}

fn add_reserved(id: u32) -> Action {
    Action::AddFragment(AddFragment {
        id: Ref::Committed(FragmentId(id)),
        physical_rows: 10,
        data_change: true,
        replacing: roaring::RoaringBitmap::new(),
    })
}

fn add_field(token: u32, parent: Option<FieldRef>) -> Action {
    let (name, metadata) = ("f".into(), BTreeMap::new());
    Action::AddField(AddField {
        id: Ref::Local(Token(token)),
        parent,
        name,
        field_type: FieldType::Struct,
        nullable: true,
        metadata,
        initial: None,
        in_place_of: None,
    })
}

fn set_deletion_file(vector: &[u32], added: &[u32], replaced: &[u32]) -> SetDeletionFile {
    let vector = DeletionFile::inline(&rows(vector));
    SetDeletionFile { fragment: Ref::Committed(FragmentId(3)), vector, added: rows(added), replaced: rows(replaced) }
}

/// A transaction of these actions whose first tokens got ids.
fn committed(actions: Vec<Action>, fragments: u32, fields: u32) -> CommittedTransaction {
    let step = Step { operation: "UPDATE".into(), statement: "UPDATE t SET a = 1".into(), actions, counts: RowCounts::default() };
    CommittedTransaction {
        transaction: Transaction { id: TransactionId(5), read_version: 1, steps: vec![step] },
        minted: Minted {
            fragments: (0..fragments).map(|n| (Token(n), FragmentId(n))).collect(),
            fields: (0..fields).map(|n| (Token(n), FieldId(n as i32 + 1))).collect(),
            bases: BTreeMap::new(),
        },
        facts: CommitFacts::default(),
    }
}

fn round_trip(committed: &CommittedTransaction) -> Result<(), String> {
    let read = CommittedTransaction::try_from(wire::CommittedTransaction::from(committed)).map_err(|error| error.to_string())?;
    assert_eq!(&read, committed);
    Ok(())
}

#[test]
fn tokens_are_bound_once_and_before_they_are_used() {
    let remove = |fragment| Action::RemoveFragment(RemoveFragment { fragment, data_change: true });
    let moved = |sources, targets| {
        Action::ChangeOfAddress(ChangeOfAddress { sources, targets, map: MapLocation::Inline(Bytes::new()), order: None })
    };
    let delete = |fragment| Action::SetDeletionFile(SetDeletionFile { fragment, ..set_deletion_file(&[1], &[1], &[]) });
    let parent = Some(Ref::Local(Token(0)));
    for (actions, fragments, fields, needle) in [
        (vec![add_fragment(0), remove(LOCAL), add_fragment(1)], 2, 0, None),
        (vec![add_field(0, None), add_field(1, parent)], 0, 2, None),
        (vec![add_fragment(0), add_fragment(0)], 1, 0, Some("bound twice")),
        (vec![add_reserved(3), remove(Ref::Committed(FragmentId(3)))], 0, 0, None),
        (vec![add_reserved(3), remove(LOCAL)], 0, 0, Some("not bound")),
        (vec![add_fragment(u32::MAX)], 0, 0, Some("bound twice")),
        (vec![remove(LOCAL), add_fragment(0)], 1, 0, Some("not bound")),
        (vec![delete(LOCAL)], 0, 0, Some("not bound")),
        (vec![moved(vec![LOCAL], vec![])], 0, 0, Some("not bound")),
        (vec![moved(vec![], vec![LOCAL])], 0, 0, Some("not bound")),
        (vec![add_field(1, parent), add_field(0, None)], 0, 2, Some("not bound")),
        (vec![add_fragment(0)], 0, 0, Some("other tokens")),
        (vec![add_fragment(0)], 2, 0, Some("other tokens")),
        (vec![add_field(0, None)], 0, 0, Some("other tokens")),
        (vec![add_field(0, None)], 1, 1, Some("other tokens")),
    ] {
        match (round_trip(&committed(actions, fragments, fields)), needle) {
            (Ok(()), None) => {}
            (Err(reason), Some(needle)) if reason.contains(needle) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_field_that_claims_an_id_binds_no_token() {
    let claim = |id| {
        let Action::AddField(add) = add_field(0, None) else { panic!("not a field") };
        AddField { id: Ref::Committed(FieldId(id)), ..add }
    };
    let part = add_field(0, Some(Ref::Committed(FieldId(7))));
    assert_eq!(round_trip(&committed(vec![Action::AddField(claim(7)), part], 0, 1)), Ok(()));
    assert!(round_trip(&committed(vec![Action::AddField(claim(7))], 0, 1)).unwrap_err().contains("other tokens"));
    assert!(round_trip(&committed(vec![Action::AddField(claim(0))], 0, 0)).unwrap_err().contains("field id 0"));
}

#[test]
fn replaced_rows_come_back_however_many_they_are() {
    for (vector, added, replaced, way, bytes) in [
        (&[1, 2, 3][..], &[1, 2][..], &[][..], wire::Replaced::None, false),
        (&[1, 2, 3], &[1, 2], &[1, 2], wire::Replaced::All, false),
        (&[1, 2, 3], &[1, 2], &[2], wire::Replaced::Some, true),
        (&[], &[], &[], wire::Replaced::None, false),
    ] {
        let action = set_deletion_file(vector, added, replaced);
        let message = wire::SetDeletionFile::from(&action);
        assert_eq!((message.replaced, !message.replaced_rows.is_empty()), (way.into(), bytes));
        assert_eq!(SetDeletionFile::try_from(message).unwrap(), action);
    }
}

#[test]
fn rows_that_do_not_lie_in_one_another_are_refused() {
    let refused = |action: &SetDeletionFile| SetDeletionFile::try_from(wire::SetDeletionFile::from(action)).unwrap_err().to_string();
    for (vector, added, replaced) in [(&[1][..], &[2][..], &[][..]), (&[], &[1], &[]), (&[1, 2], &[1], &[2])] {
        assert!(refused(&set_deletion_file(vector, added, replaced)).contains("does not delete"));
    }
    let puffin = DeletionFile::Puffin { path: "_deletions/a".into(), offset: 0, length: 9, cardinality: 1, crc32c: 0 };
    let too_many = SetDeletionFile { vector: Some(puffin), ..set_deletion_file(&[], &[1, 2], &[]) };
    assert!(refused(&too_many).contains("does not delete"));
}

#[test]
fn messages_that_contradict_themselves_are_refused() {
    let good = wire::SetDeletionFile::from(&set_deletion_file(&[1, 2, 3], &[1, 2], &[2]));
    type Change = fn(&mut wire::SetDeletionFile);
    let changes: [(&str, Change); 8] = [
        ("fragment of SetDeletionFile is missing", |m| m.fragment = None),
        ("id of a fragment is missing", |m| m.fragment = Some(wire::FragmentRef { id: None })),
        ("fragment id 4294967295", |m| m.fragment = Some(wire::FragmentRef { id: Some(wire::fragment_ref::Id::Committed(u32::MAX)) })),
        ("does not say", |m| (m.replaced, m.replaced_rows) = (0, Bytes::new())),
        ("names rows that it says", |m| m.replaced = wire::Replaced::All.into()),
        ("rows", |m| m.added = Bytes::new()),
        ("rows", |m| m.added = Bytes::from([&m.added[..], b"x"].concat())),
        ("no fragment can have", |m| m.added = rows_to_wire(&rows(&[u32::MAX - 1]))),
    ];
    for (needle, change) in changes {
        let mut message = good.clone();
        change(&mut message);
        let reason = SetDeletionFile::try_from(message).unwrap_err().to_string();
        assert!(reason.contains(needle), "{needle}: {reason}");
    }
    let new_way = wire::SetDeletionFile { replaced: 4, replaced_rows: Bytes::new(), ..good };
    assert!(matches!(SetDeletionFile::try_from(new_way), Err(DecodeError::Unknown(_))));
}

#[test]
fn a_file_has_one_field_a_column() {
    let column = FileColumn { field: None, ..FileColumn::default() };
    let checksum = Arc::new(BlockChecksums { block_bytes: 512, crc32c: vec![1] });
    let (path, row_groups) = ("data/a".into(), vec![10]);
    let file = DataFile {
        inline: None,
        sorted_by: vec![],
        path,
        base: None,
        size_bytes: 10,
        unchecked_bytes: 0,
        checksum,
        row_groups,
        columns: vec![column],
    };
    let add = |file: &DataFile, fields| {
        let action = Action::AddDataFile(AddDataFile { fragment: LOCAL, file: file.clone(), base: None, fields, data_change: false });
        round_trip(&committed(vec![add_fragment(0), action], 1, 0))
    };
    assert_eq!(add(&file, vec![Some(Ref::Committed(FieldId(1)))]), Ok(()));
    assert_eq!(add(&file, vec![None]), Ok(()), "a column that nobody reads");
    assert!(add(&file, vec![]).unwrap_err().contains("another number of fields"));
    assert!(add(&file, vec![Some(Ref::Committed(FieldId(0)))]).unwrap_err().contains("field id 0"));
    assert!(add(&file, vec![Some(Ref::Local(Token(0)))]).unwrap_err().contains("not bound"));
    let outside = DataFile { path: "../a".into(), ..file };
    assert!(add(&outside, vec![Some(Ref::Committed(FieldId(1)))]).unwrap_err().contains("not the name of an object"));
}

#[test]
fn maps_stay_within_the_table_folder() {
    let map = |path: &str| MapLocation::Object { path: path.into(), size_bytes: 9, crc32c: 1 };
    let moved =
        |map| committed(vec![Action::ChangeOfAddress(ChangeOfAddress { sources: vec![], targets: vec![], map, order: None })], 0, 0);
    assert_eq!(round_trip(&moved(map("_moves/a.moves"))), Ok(()));
    assert!(round_trip(&moved(map("_moves/../../a"))).unwrap_err().contains("not the name of an object"));
}

#[test]
fn counts_can_be_added_up() {
    let mut transaction = committed(vec![], 0, 0);
    transaction.transaction.steps[0].counts = RowCounts { inserted: 1 << 47, updated: 0, deleted: 1 << 47, moved: 0 };
    assert_eq!(round_trip(&transaction), Ok(()));
    transaction.transaction.steps.push(Step { counts: RowCounts { updated: 1, ..RowCounts::default() }, ..Step::default() });
    assert!(round_trip(&transaction).unwrap_err().contains("counted"));
    transaction.transaction.steps[1].counts = RowCounts { updated: u64::MAX, ..RowCounts::default() };
    assert!(round_trip(&transaction).unwrap_err().contains("counted"));
}

#[test]
fn parts_and_ids_must_be_there() {
    let good = wire::CommittedTransaction::from(&committed(vec![add_fragment(0), add_fragment(1)], 2, 0));
    type Change = fn(&mut wire::CommittedTransaction);
    let changes: [(&str, Change); 9] = [
        ("a transaction is missing", |m| m.transaction = None),
        ("minted is missing", |m| m.minted = None),
        ("committed is missing", |m| m.facts = None),
        ("counts of a step is missing", |m| m.transaction.as_mut().unwrap().steps[0].counts = None),
        ("id of AddFragment is missing", |m| {
            let Some(wire::ActionKind::AddFragment(add)) = &mut m.transaction.as_mut().unwrap().steps[0].actions[0].kind else { return };
            add.id = None;
        }),
        ("kind of an action is missing", |m| m.transaction.as_mut().unwrap().steps[0].actions[0].kind = None),
        ("an id of 15 bytes", |m| m.transaction.as_mut().unwrap().id = Bytes::from_static(&[1; 15])),
        ("shares its number", |m| m.minted.as_mut().unwrap().fragments[1].token = 0),
        ("shares its number or its id", |m| m.minted.as_mut().unwrap().fragments[1].id = 0),
    ];
    for (needle, change) in changes {
        let mut message = good.clone();
        change(&mut message);
        let reason = CommittedTransaction::try_from(message).unwrap_err().to_string();
        assert!(reason.contains(needle), "{needle}: {reason}");
    }
}

#[test]
fn references_come_back_up_to_the_last_id() {
    for fragment in [Ref::Committed(FragmentId(0)), Ref::Committed(FragmentId::MAX), Ref::Local(Token(7))] {
        assert_eq!(FragmentRef::try_from(wire::FragmentRef::from(fragment)).unwrap(), fragment);
    }
    for field in [Ref::Committed(FieldId(1)), Ref::Committed(FieldId(i32::MAX)), Ref::Local(Token(7))] {
        assert_eq!(FieldRef::try_from(wire::FieldRef::from(field)).unwrap(), field);
    }
    for base in [Ref::Committed(BaseId(0)), Ref::Committed(BaseId(u32::MAX)), Ref::Local(Token(7))] {
        assert_eq!(BaseRef::try_from(wire::BaseRef::from(base)).unwrap(), base);
    }
    let beyond = wire::FragmentRef::from(Ref::Committed(FragmentId(FragmentId::MAX.0 + 1)));
    assert_eq!(FragmentRef::try_from(beyond).unwrap_err().to_string(), "fragment id 4294967295");
}
