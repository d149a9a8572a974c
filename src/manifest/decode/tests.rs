//! Hostile objects: frames and checksums are right, what they hold is not. That values come back is tested where they
//! are encoded.

use super::*;
use crate::manifest::encode::{encode_page, encode_transactions};
use bytes::Bytes;
use prost::Message;
use std::time::Instant;

fn fragment(id: u32) -> wire::Fragment {
    wire::Fragment { id, physical_rows: 10, created_at: 1, updated_at: 2, ..Default::default() }
}

fn put(id: u32) -> wire::TailRecord {
    wire::TailRecord { record: Some(wire::tail_record::Record::Put(fragment(id))) }
}

fn removed(id: u32) -> wire::TailRecord {
    wire::TailRecord { record: Some(wire::tail_record::Record::Removed(id)) }
}

fn page(first: u32, last: u32) -> wire::PageRef {
    let (path, live_rows) = (format!("_pages/{first}.page"), u64::from(last - first + 1));
    wire::PageRef { path, size_bytes: 100, crc32c: 1, first, last, fragments: last - first + 1, live_rows }
}

fn field(id: i32) -> wire::Field {
    wire::Field { id, name: format!("f{id}"), r#type: "Int64".into(), ..Default::default() }
}

fn transaction(id: u8) -> wire::CommittedTransaction {
    let transaction = wire::Transaction { id: Bytes::copy_from_slice(&[id; 16]), read_version: 8, steps: vec![] };
    wire::CommittedTransaction { transaction: Some(transaction), minted: Some(Default::default()), facts: Some(Default::default()) }
}

fn inline(transactions: Vec<wire::CommittedTransaction>) -> Option<wire::Transactions> {
    let place = wire::transactions::Place::Inline(wire::CommittedTransactions { transactions });
    Some(wire::Transactions { place: Some(place) })
}

fn outside(object: wire::TransactionsRef) -> Option<wire::Transactions> {
    Some(wire::Transactions { place: Some(wire::transactions::Place::Object(object)) })
}

fn spilled() -> wire::TransactionsRef {
    let ids = vec![Bytes::from_static(&[1; 16]), Bytes::from_static(&[2; 16])];
    wire::TransactionsRef { path: "_transactions/a.txn".into(), size_bytes: 100_000, crc32c: 3, ids }
}

fn good() -> wire::Manifest {
    wire::Manifest {
        version: 9,
        table_id: Bytes::from_static(&[7; 16]),
        fields: vec![field(1), field(2)],
        counters: Some(wire::Counters { fragment: 100, field: 3, base: 0 }),
        low_water_mark: 1,
        pages: vec![page(0, 4), page(7, 9)],
        tail: vec![removed(2), put(8), put(99)],
        transactions: inline(vec![transaction(1)]),
        ..Default::default()
    }
}

fn decode(manifest: &wire::Manifest) -> Result<DecodedManifest, DecodeError> {
    decode_manifest(&frame::seal(Kind::Manifest, &manifest.encode_to_vec()), &DEFAULT_LIMITS)
}

fn minted(fragment: u32) -> wire::CommittedTransaction {
    let add = wire::AddFragment {
        id: Some(wire::FragmentRef { id: Some(wire::fragment_ref::Id::Local(0)) }),
        physical_rows: 1,
        data_change: true,
        ..Default::default()
    };
    let action = wire::Action { kind: Some(wire::ActionKind::AddFragment(add)) };
    let step = wire::Step { actions: vec![action], counts: Some(Default::default()), ..Default::default() };
    let mut committed = transaction(1);
    committed.transaction.as_mut().unwrap().steps.push(step);
    committed.minted.as_mut().unwrap().fragments.push(wire::MintedFragment { token: 0, id: fragment });
    committed
}

#[test]
fn what_does_not_add_up_is_refused() {
    let decoded = decode(&good()).unwrap();
    assert_eq!((decoded.version, decoded.pages.len(), decoded.tail.len()), (9, 2, 3));
    assert!(decode(&wire::Manifest { transactions: inline(vec![minted(99)]), ..good() }).is_ok());
    assert!(decode(&wire::Manifest { transactions: outside(spilled()), ..good() }).is_ok());
    type Change = fn(&mut wire::Manifest);
    let changes: [(&str, Change); 37] = [
        ("version 0", |m| m.version = 0),
        ("no version can follow", |m| m.version = u64::MAX),
        ("low-water mark 0", |m| m.low_water_mark = 0),
        ("low-water mark 10", |m| m.low_water_mark = 10),
        ("an id of 0 bytes", |m| m.table_id = Bytes::new()),
        ("counters is missing", |m| m.counters = None),
        ("never given out", |m| m.counters = Some(wire::Counters { fragment: 100, field: 2, base: 0 })),
        ("never given out", |m| m.counters = Some(wire::Counters { fragment: 99, field: 3, base: 0 })),
        ("fields 1 and 2 share the name", |m| m.fields[1].name = "f1".into()),
        ("precedes its parent", |m| m.fields[0].parent = Some(2)),
        ("used twice", |m| m.fields[1].id = 1),
        ("field 0 was never", |m| m.fields[0].id = 0),
        ("fragment 4 comes after fragment 4", |m| m.pages[1] = page(4, 9)),
        ("fragment 0 comes after fragment 9", |m| m.pages.reverse()),
        ("not the name of an object", |m| m.pages[0].path = "/etc/passwd".into()),
        ("do not add up", |m| m.pages[0].first = 5),
        ("do not add up", |m| m.pages[0].fragments = 6),
        ("do not add up", |m| m.pages[0].fragments = 0),
        ("do not add up", |m| m.pages[0].size_bytes = 0),
        ("do not add up", |m| m.pages[0].size_bytes = u64::MAX),
        ("do not add up", |m| m.pages[0].live_rows = u64::MAX),
        ("do not add up", |m| m.pages[1].last = u32::MAX),
        ("never given out", |m| m.pages[1].last = 100),
        ("fragment 8 comes after fragment 8", |m| m.tail[2] = put(8)),
        ("fragment 2 comes after fragment 8", |m| m.tail.swap(0, 1)),
        ("no page holds", |m| m.tail[0] = removed(5)),
        ("no page holds", |m| m.tail[2] = removed(99)),
        ("never given out", |m| m.tail[2] = put(100)),
        ("updated in version 10", |m| {
            let late = wire::Fragment { updated_at: 10, ..fragment(99) };
            m.tail[2] = wire::TailRecord { record: Some(wire::tail_record::Record::Put(late)) };
        }),
        ("never given out", |m| {
            let columns = vec![wire::FileColumn { field: 3, ..Default::default() }];
            let file = wire::DataFile { path: "data/a".into(), block_bytes: 512, row_groups: vec![10], columns, ..Default::default() };
            m.tail[2] =
                wire::TailRecord { record: Some(wire::tail_record::Record::Put(wire::Fragment { files: vec![file], ..fragment(99) })) };
        }),
        ("TailRecord has 0 values", |m| m.tail[0].record = None),
        ("transactions is missing", |m| m.transactions = None),
        ("there twice", |m| m.transactions = inline(vec![transaction(1), transaction(1)])),
        ("not one of this version", |m| m.version = 8),
        ("not one of this version", |m| m.transactions = inline(vec![minted(100)])),
        ("'_transactions/a.txn' of 3 bytes", |m| m.transactions = outside(wire::TransactionsRef { size_bytes: 3, ..spilled() })),
        ("there twice", |m| m.transactions = outside(wire::TransactionsRef { ids: vec![Bytes::from_static(&[1; 16]); 2], ..spilled() })),
    ];
    for (needle, change) in changes {
        let mut manifest = good();
        change(&mut manifest);
        match decode(&manifest) {
            Err(DecodeError::Damaged(reason)) if reason.contains(needle) => {}
            other => panic!("{needle}: {other:?}"),
        }
    }
}

#[test]
fn what_is_newer_is_told_apart() {
    let unknown = |manifest: &wire::Manifest| match decode(manifest) {
        Err(DecodeError::Unknown(reason)) => reason,
        other => panic!("{other:?}"),
    };
    let mut manifest = good();
    manifest.fields[0].r#type = "Geography".into();
    assert_eq!(unknown(&manifest), "type 'Geography'");
    let manifest = wire::Manifest { reader_features: vec!["overlays".into()], ..good() };
    assert_eq!(unknown(&manifest), "reader feature 'overlays'");
    let writers = wire::Manifest { writer_features: vec!["row-tracking".into()], ..good() };
    assert_eq!(decode(&writers).unwrap().unknown_writer_features, ["row-tracking"]);
    assert_eq!(decode(&good()).unwrap().unknown_writer_features, [""; 0]);
}

#[test]
fn unknown_actions_are_named() {
    // An action message that holds field 9, in a step, in a transaction, in the list, in the manifest.
    let wrap = |number: u8, inner: &[u8]| [&[number << 3 | 2, inner.len() as u8][..], inner].concat();
    let transaction = wrap(1, &[wrap(1, &[1; 16]), wrap(3, &wrap(3, &wrap(9, b"")))].concat());
    let list = wrap(1, &wrap(1, &transaction));
    let manifest = wire::Manifest { transactions: None, ..good() };
    let payload = [manifest.encode_to_vec(), wrap(13, &list)].concat();
    let error = decode_manifest(&frame::seal(Kind::Manifest, &payload), &DEFAULT_LIMITS).unwrap_err();
    assert_eq!(error, DecodeError::unknown("action AddOverlays"));
}

#[test]
fn deep_and_wide_schemas_do_not_reach_the_stack_or_the_clock() {
    let deep = |levels: i32| wire::Manifest {
        counters: Some(wire::Counters { fragment: 100, field: i32::MAX, base: 0 }),
        fields: (1..=levels).map(|id| wire::Field { r#type: "Struct".into(), parent: (id > 1).then(|| id - 1), ..field(id) }).collect(),
        ..good()
    };
    assert!(decode(&deep(64)).unwrap().schema.to_arrow().fields().len() == 1);
    assert!(matches!(decode(&deep(30_000)), Err(DecodeError::Damaged(reason)) if reason.contains("nested")));
    let start = Instant::now();
    let wide = wire::Manifest { fields: (1..=30_000).map(field).collect(), ..deep(0) };
    assert_eq!(decode(&wide).unwrap().schema.fields().len(), 30_000);
    assert!(start.elapsed().as_secs() < 5);
    let too_wide = wire::Manifest { fields: (1..=40_000).map(field).collect(), ..deep(0) };
    assert!(matches!(decode(&too_wide), Err(DecodeError::Damaged(reason)) if reason.contains("more than")));
}

#[test]
fn a_flood_of_empty_messages_is_refused_before_it_is_built() {
    for (number, name) in [(7u8, "fields"), (11, "pages"), (12, "tail")] {
        let flood = [number << 3 | 2, 0].repeat(2 << 20);
        let error = decode_manifest(&frame::seal(Kind::Manifest, &flood), &DEFAULT_LIMITS).unwrap_err();
        assert!(matches!(error, DecodeError::Damaged(_)), "{name}: {error}");
    }
    let limits = Limits { manifest_bytes: 1000, ..DEFAULT_LIMITS };
    let error = decode_manifest(&frame::seal(Kind::Manifest, &[0; 1000]), &limits).unwrap_err();
    assert_eq!(error, DecodeError::damaged("1024 bytes, where 1000 is the limit"));
}

fn read(fragments: &[wire::Fragment]) -> Vec<Arc<Fragment>> {
    fragments.iter().map(|fragment| Arc::new(Fragment::try_from(fragment.clone()).unwrap())).collect()
}

#[test]
fn a_page_holds_what_its_manifest_says() {
    let encoded = encode_page(&read(&[fragment(3), fragment(5)])).unwrap();
    let reference = encoded.reference("_pages/a.page");
    assert_eq!(decode_page(&encoded.bytes, &reference, &DEFAULT_LIMITS).unwrap().len(), 2);
    for changed in [
        PageRef { first: FragmentId(2), ..reference.clone() },
        PageRef { last: FragmentId(6), ..reference.clone() },
        PageRef { fragments: 3, ..reference.clone() },
        PageRef { live_rows: 21, ..reference.clone() },
        PageRef { crc32c: reference.crc32c ^ 1, ..reference.clone() },
        PageRef { size_bytes: reference.size_bytes + 1, ..reference.clone() },
    ] {
        assert!(matches!(decode_page(&encoded.bytes, &changed, &DEFAULT_LIMITS), Err(DecodeError::Damaged(_))), "{changed:?}");
    }
    for fragments in [vec![fragment(5), fragment(3)], vec![fragment(3), fragment(3)]] {
        let bytes = frame::seal(Kind::Page, &wire::Page { fragments }.encode_to_vec());
        let reference = PageRef { size_bytes: bytes.len() as u64, crc32c: frame::checksum(&bytes).unwrap(), ..reference.clone() };
        let error = decode_page(&bytes, &reference, &DEFAULT_LIMITS).unwrap_err();
        assert!(error.to_string().contains("comes after"), "{error}");
    }
}

#[test]
fn a_file_of_transactions_holds_what_its_manifest_says() {
    let transactions: Vec<_> = [1, 2].map(|id| CommittedTransaction::try_from(transaction(id)).unwrap()).into();
    let encoded = encode_transactions(&transactions).unwrap();
    let reference = encoded.reference("_transactions/a.txn");
    assert_eq!(decode_transactions(&encoded.bytes, &reference, &DEFAULT_LIMITS), Ok(transactions));
    let mut others = reference.clone();
    others.ids.reverse();
    assert!(decode_transactions(&encoded.bytes, &others, &DEFAULT_LIMITS).is_err());
    let other_crc = TransactionsRef { crc32c: !reference.crc32c, ..reference };
    assert!(decode_transactions(&encoded.bytes, &other_crc, &DEFAULT_LIMITS).is_err());
}

#[test]
fn a_version_is_put_together_of_what_its_manifest_says() {
    let pages = || [0..5, 7..10].map(|ids| Arc::new(read(&ids.map(fragment).collect::<Vec<_>>()))).to_vec();
    let version = decode(&good()).unwrap().into_version(pages(), None).unwrap();
    assert_eq!(version.snapshot.fragments.iter().map(|f| f.id.0).collect::<Vec<_>>(), [0, 1, 3, 4, 7, 8, 9, 99]);
    assert_eq!((version.snapshot.fragments.len(), version.transactions.len()), (8, 1));

    let snapshot = |manifest: &wire::Manifest, pages| decode(manifest).unwrap().into_snapshot(pages).map(|_| ()).map_err(|e| e.to_string());
    assert!(snapshot(&good(), pages()[..1].to_vec()).unwrap_err().contains("1 were read"));
    let mut without_2 = pages();
    without_2[0] = Arc::new(read(&[0, 1, 3, 4].map(fragment)));
    assert!(snapshot(&good(), without_2).unwrap_err().contains("no page holds"));
    let mut late = pages();
    late[1] = Arc::new(read(&[wire::Fragment { updated_at: 10, ..fragment(7) }]));
    assert!(snapshot(&good(), late).unwrap_err().contains("updated in version 10"));

    let outside = decode(&wire::Manifest { transactions: outside(spilled()), ..good() }).unwrap();
    let read = |ids: &[u8]| Some(ids.iter().map(|id| CommittedTransaction::try_from(transaction(*id)).unwrap()).collect());
    assert_eq!(outside.clone().into_version(pages(), read(&[1, 2])).unwrap().transactions.len(), 2);
    assert!(outside.clone().into_version(pages(), read(&[1])).is_err());
    assert!(outside.into_version(pages(), None).unwrap_err().to_string().contains("file of transactions is missing"));
}
