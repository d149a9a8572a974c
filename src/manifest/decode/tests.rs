//! Hostile objects: frames and checksums are right, what they hold is not. That values come back is tested where they
//! are encoded.

use super::*;
use crate::manifest::encode::{encode_index, encode_page, encode_transactions};
use bytes::Bytes;
use prost::Message;
use std::time::Instant;

fn fragment(id: u32) -> wire::Fragment {
    wire::Fragment { id, physical_rows: 10, created_at: 1, updated_at: 2, ..Default::default() }
}

fn added(id: u32) -> wire::TailRecord {
    wire::TailRecord { record: Some(wire::tail_record::Record::Added(fragment(id))) }
}

fn replaced(id: u32) -> wire::TailRecord {
    let replacement = wire::Replacement { fragment: Some(fragment(id)), hidden_live_rows: 10 };
    wire::TailRecord { record: Some(wire::tail_record::Record::Replaced(replacement)) }
}

fn removed(id: u32) -> wire::TailRecord {
    wire::TailRecord { record: Some(wire::tail_record::Record::Removed(wire::Removal { id, hidden_live_rows: 10 })) }
}

fn page(first: u32, last: u32) -> wire::PageRef {
    let (path, fragments) = (format!("_pages/{first}.page"), last - first + 1);
    let rows = u64::from(fragments) * 10;
    wire::PageRef { path, size_bytes: 100, crc32c: 1, first, last, fragments, rows, live_rows: rows, summaries: vec![] }
}

fn index() -> wire::IndexRef {
    wire::IndexRef { path: "_pages/a.index".into(), size_bytes: 100, crc32c: 1, pages: 2, last: 9, fragments: 8, live_rows: 80 }
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
        pages: Some(index()),
        tail: vec![removed(2), replaced(8), added(99)],
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
    assert_eq!((decoded.version, decoded.pages.map(|index| index.pages), decoded.tail.len()), (9, Some(2), 3));
    assert!(decode(&wire::Manifest { transactions: inline(vec![minted(99)]), ..good() }).is_ok());
    assert!(decode(&wire::Manifest { transactions: outside(spilled()), ..good() }).is_ok());
    type Change = fn(&mut wire::Manifest);
    let changes: [(&str, Change); 39] = [
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
        ("not the name of an object", |m| m.pages.as_mut().unwrap().path = "/etc/passwd".into()),
        ("do not add up", |m| m.pages.as_mut().unwrap().fragments = 11),
        ("do not add up", |m| m.pages.as_mut().unwrap().fragments = 0),
        ("do not add up", |m| m.pages.as_mut().unwrap().pages = 0),
        ("do not add up", |m| m.pages.as_mut().unwrap().pages = 9),
        ("do not add up", |m| m.pages.as_mut().unwrap().size_bytes = 0),
        ("do not add up", |m| m.pages.as_mut().unwrap().size_bytes = u64::MAX),
        ("do not add up", |m| m.pages.as_mut().unwrap().live_rows = u64::MAX),
        ("do not add up", |m| m.pages.as_mut().unwrap().last = u32::MAX),
        ("never given out", |m| m.pages.as_mut().unwrap().last = 100),
        ("fragment 8 comes after fragment 8", |m| m.tail[2] = added(8)),
        ("fragment 2 comes after fragment 8", |m| m.tail.swap(0, 1)),
        ("no page holds", |m| m.tail[2] = removed(99)),
        ("no page holds", |m| m.tail[2] = replaced(99)),
        ("no page holds", |m| m.pages.as_mut().unwrap().live_rows = 19),
        ("no page holds", |m| (m.pages.as_mut().unwrap().fragments, m.pages.as_mut().unwrap().pages) = (1, 1)),
        ("no page holds", |m| m.pages = None),
        ("never given out", |m| m.tail[2] = added(100)),
        ("updated in version 10", |m| {
            let late = wire::Fragment { updated_at: 10, ..fragment(99) };
            m.tail[2] = wire::TailRecord { record: Some(wire::tail_record::Record::Added(late)) };
        }),
        ("never given out", |m| {
            let columns = vec![wire::FileColumn { field: 3, ..Default::default() }];
            let file = wire::DataFile { path: "data/a".into(), block_bytes: 512, row_groups: vec![10], columns, ..Default::default() };
            let added = wire::Fragment { files: vec![file], ..fragment(99) };
            m.tail[2] = wire::TailRecord { record: Some(wire::tail_record::Record::Added(added)) };
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
    for (number, name) in [(7u8, "fields"), (12, "tail")] {
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
fn an_index_lists_what_its_manifest_says() {
    let index = |pages: &[wire::PageRef]| {
        let bytes = frame::seal(Kind::PageIndex, &wire::PageIndex { pages: pages.to_vec() }.encode_to_vec());
        let reference = IndexRef {
            path: "_pages/a.index".into(),
            size_bytes: bytes.len() as u64,
            crc32c: frame::checksum(&bytes).unwrap(),
            pages: 2,
            last: FragmentId(9),
            fragments: 8,
            live_rows: 80,
        };
        (bytes, reference)
    };
    let good = || vec![page(0, 4), page(7, 9)];
    let (bytes, reference) = index(&good());
    let pages = decode_index(&bytes, &reference, &DEFAULT_LIMITS).unwrap();
    assert_eq!(encode_index(&pages).unwrap().reference("_pages/a.index"), reference);
    for changed in [
        IndexRef { last: FragmentId(8), ..reference.clone() },
        IndexRef { pages: 1, ..reference.clone() },
        IndexRef { fragments: 9, ..reference.clone() },
        IndexRef { live_rows: 79, ..reference.clone() },
        IndexRef { crc32c: reference.crc32c ^ 1, ..reference.clone() },
        IndexRef { size_bytes: reference.size_bytes + 1, ..reference.clone() },
    ] {
        assert!(matches!(decode_index(&bytes, &changed, &DEFAULT_LIMITS), Err(DecodeError::Damaged(_))), "{changed:?}");
    }
    type Change = fn(&mut Vec<wire::PageRef>);
    let summary = |field| wire::Summary { field, null_count: Some(0), ..Default::default() };
    let changes: [(&str, Change); 16] = [
        ("fragment 4 comes after fragment 4", |p| p[1] = page(4, 9)),
        ("fragment 0 comes after fragment 9", |p| p.reverse()),
        ("not the name of an object", |p| p[0].path = "/etc/passwd".into()),
        ("do not add up", |p| p[0].first = 5),
        ("do not add up", |p| p[0].fragments = 6),
        ("do not add up", |p| p[0].fragments = 0),
        ("do not add up", |p| p[0].size_bytes = 0),
        ("do not add up", |p| p[0].size_bytes = u64::MAX),
        ("do not add up", |p| p[0].live_rows = 51),
        ("do not add up", |p| p[0].rows = u64::MAX),
        ("do not add up", |p| p[1].last = u32::MAX),
        ("the value of a bound", |p| {
            p[0].summaries = vec![wire::Summary { field: 1, min: Some(wire::StatValue { value: None }), ..Default::default() }]
        }),
        ("summary of field 0", |p| p[0].summaries = vec![wire::Summary::default()]),
        ("summary of field 2", |p| p[0].summaries = [3, 2].map(|field| wire::Summary { field, ..Default::default() }).to_vec()),
        ("summary of field 17", |p| p[0].summaries = (1..18).map(|field| wire::Summary { field, ..Default::default() }).collect()),
        ("summary of field 1", |p| {
            let bound = |bound| Some(wire::StatValue { value: Some(wire::stat_value::Value::Int(bound)) });
            p[0].summaries = vec![wire::Summary { field: 1, null_count: None, min: bound(2), max: bound(1) }];
        }),
    ];
    for (needle, change) in changes {
        let mut pages = good();
        change(&mut pages);
        let (bytes, reference) = index(&pages);
        match decode_index(&bytes, &reference, &DEFAULT_LIMITS) {
            Err(DecodeError::Damaged(reason)) if reason.contains(needle) || needle == "the value of a bound" => {}
            other => panic!("{needle}: {other:?}"),
        }
    }
    let mut with = good();
    with[1].summaries = vec![summary(3), summary(4)];
    let (bytes, reference) = index(&with);
    assert_eq!(decode_index(&bytes, &reference, &DEFAULT_LIMITS).unwrap()[1].summaries.len(), 2);
}

#[test]
fn a_page_holds_what_its_index_says() {
    let column = |field: i32| wire::FileColumn { field, null_count: Some(2), ..Default::default() };
    let with_column = |id: u32| {
        let file = wire::DataFile {
            path: "data/a".into(),
            block_bytes: 512,
            row_groups: vec![10],
            columns: vec![column(1)],
            ..Default::default()
        };
        wire::Fragment { files: vec![file], ..fragment(id) }
    };
    let encoded = encode_page(&read(&[with_column(3), with_column(5)]), &[FieldId(1), FieldId(2)]).unwrap();
    let reference = encoded.reference("_pages/a.page");
    let nulls = |null_count| BTreeMap::from([(FieldId(1), ColumnStats { null_count: Some(null_count), ..ColumnStats::default() })]);
    assert_eq!((reference.rows, &reference.summaries), (20, &nulls(4)));
    assert_eq!(decode_page(&encoded.bytes, &reference, &DEFAULT_LIMITS).unwrap().len(), 2);
    for changed in [
        PageRef { first: FragmentId(2), ..reference.clone() },
        PageRef { last: FragmentId(6), ..reference.clone() },
        PageRef { fragments: 3, ..reference.clone() },
        PageRef { live_rows: 21, ..reference.clone() },
        PageRef { rows: 21, ..reference.clone() },
        PageRef { summaries: nulls(3), ..reference.clone() },
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
    let version = decode(&good()).unwrap().into_version(None).unwrap();
    let set = &version.snapshot.fragments;
    assert_eq!((set.len(), set.live_rows(), version.transactions.len()), (8, 80, 1));
    assert!(set.iter().is_err(), "no page is loaded");
    assert_eq!(set.get(FragmentId(99)).unwrap().unwrap().id, FragmentId(99));

    let outside = decode(&wire::Manifest { transactions: outside(spilled()), ..good() }).unwrap();
    let read = |ids: &[u8]| Some(ids.iter().map(|id| CommittedTransaction::try_from(transaction(*id)).unwrap()).collect());
    assert_eq!(outside.clone().into_version(read(&[1, 2])).unwrap().transactions.len(), 2);
    assert!(outside.clone().into_version(read(&[1])).is_err());
    assert!(outside.into_version(None).unwrap_err().to_string().contains("file of transactions is missing"));
}

#[test]
fn a_page_is_held_against_the_manifest() {
    let snapshot = decode(&good()).unwrap().into_snapshot();
    let check = |ids: std::ops::Range<u32>, change: fn(&mut wire::Fragment)| {
        let changed = ids.map(|id| {
            let mut fragment = fragment(id);
            change(&mut fragment);
            fragment
        });
        let fragments: Vec<wire::Fragment> = changed.collect();
        let records = read(&fragments);
        let page = encode_page(&records, &[]).unwrap().reference("_pages/a.page");
        check_page(&snapshot, &page, &Arc::new(records)).map_err(|error| error.to_string())
    };
    assert_eq!(check(0..5, |_| {}), Ok(()));
    assert!(check(3..5, |_| {}).is_ok());
    assert!(check(0..5, |fragment| fragment.updated_at = 10).unwrap_err().contains("updated in version 10"));
    assert!(check(0..5, |fragment| fragment.id += 100).unwrap_err().contains("never given out"));
    assert!(check(0..5, |fragment| fragment.physical_rows = 11).unwrap_err().contains("another fragment 2 than"));
    let without_8 = read(&[7, 9].map(fragment));
    let page = encode_page(&without_8, &[]).unwrap().reference("_pages/a.page");
    assert!(check_page(&snapshot, &page, &Arc::new(without_8)).unwrap_err().to_string().contains("another fragment 8 than"));
}
