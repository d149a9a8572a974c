//! Versions come back from their bytes, whatever they are; what breaks a rule is not written.

use super::*;
use crate::manifest::fragments::{FragmentSet, Page};
use crate::manifest::snapshot::{Counters, Snapshot};
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::{Base, BaseId, BlockChecksums, DataFile, FileColumn, SortKey};
use crate::table::schema::{Field, FieldId, FieldType, TableSchema};
use crate::table::stats::{ColumnStats, StatValue};
use crate::txn::action::{
    Action, AddBase, AddDataFile, AddField, AddFragment, AlterField, AssertUniqueKeys, ChangeOfAddress, ConfigUpdate, DropField,
    MapLocation, RemoveFragment, ReserveFragmentIds, ResetTable, SetDeletionFile, TombstoneFieldData,
};
use crate::txn::composite::{CommitFacts, RowCounts, Step, Transaction};
use crate::txn::refs::{FieldRef, FragmentRef, Minted, Ref, Token};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema, TimeUnit};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;

fn data_type() -> impl Strategy<Value = DataType> {
    let leaf = prop_oneof![
        Just(DataType::Int64),
        Just(DataType::Utf8View),
        Just(DataType::Decimal128(15, 2)),
        Just(DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into()))),
        Just(DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8))),
        (0..100i32).prop_map(DataType::FixedSizeBinary),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let item = inner.prop_map(|data_type| Arc::new(ArrowField::new("item", data_type, true)));
        prop_oneof![
            item.clone().prop_map(DataType::List),
            item.clone().prop_map(DataType::LargeList),
            item.clone().prop_map(|item| DataType::FixedSizeList(item, 3)),
            (item.clone(), item).prop_map(|(a, b)| DataType::Struct(vec![a, Arc::new((*b).clone().with_name("other"))].into())),
        ]
    })
}

fn schema() -> impl Strategy<Value = TableSchema> {
    let metadata = proptest::collection::hash_map("[a-z]{1,4}", ".{0,8}", 0..3);
    vec((data_type(), any::<bool>(), metadata), 0..6).prop_map(|columns| {
        let fields: Vec<ArrowField> = columns
            .into_iter()
            .enumerate()
            .map(|(n, (data_type, nullable, metadata))| ArrowField::new(format!("c{n}"), data_type, nullable).with_metadata(metadata))
            .collect();
        TableSchema::from_arrow(&ArrowSchema::new(fields), FieldId(1)).unwrap()
    })
}

fn bounds() -> impl Strategy<Value = (Option<StatValue>, Option<StatValue>)> {
    fn sorted<T: PartialOrd + Clone>(a: T, b: T, of: fn(T) -> StatValue) -> (StatValue, StatValue) {
        if a <= b { (of(a), of(b)) } else { (of(b), of(a)) }
    }
    let both = prop_oneof![
        any::<(bool, bool)>().prop_map(|(a, b)| sorted(a, b, StatValue::Boolean)),
        any::<(i64, i64)>().prop_map(|(a, b)| sorted(a, b, StatValue::Int)),
        any::<(u64, u64)>().prop_map(|(a, b)| sorted(a, b, StatValue::UInt)),
        any::<(f64, f64)>().prop_map(|(a, b)| sorted(a, b, StatValue::Float)),
        any::<(i128, i128)>().prop_map(|(a, b)| sorted(a, b, StatValue::Decimal)),
        (-300i128..300, -300i128..300).prop_map(|(a, b)| sorted(a, b, StatValue::Decimal)),
        (".{0,9}", ".{0,9}").prop_map(|(a, b)| sorted(a, b, StatValue::Utf8)),
        any::<(Vec<u8>, Vec<u8>)>().prop_map(|(a, b)| sorted(a, b, StatValue::Binary)),
    ];
    (both, any::<(bool, bool)>()).prop_map(|((min, max), (has_min, has_max))| (has_min.then_some(min), has_max.then_some(max)))
}

fn column() -> impl Strategy<Value = ColumnStats> {
    (bounds(), option::of(any::<u64>())).prop_map(|((min, max), null_count)| ColumnStats { min, max, null_count })
}

/// A column of a field that is still to be said.
fn file_column() -> impl Strategy<Value = FileColumn> {
    let constant = (option::of(bounds()), any::<bool>()).prop_map(|(bounds, present)| bounds.filter(|_| present)?.0);
    (column(), vec(1..90i32, 0..3), constant).prop_map(|(stats, parts, constant)| {
        let parts = parts.into_iter().map(FieldId).collect();
        FileColumn { field: None, parts, constant, stats }
    })
}

/// A file of `rows` rows with these columns, the fields of which are still to be said.
fn data_file(rows: u32) -> impl Strategy<Value = DataFile> {
    let groups = vec(1..=rows.max(1), 0..4).prop_map(move |cuts| {
        let mut left = rows;
        let mut groups = Vec::new();
        for cut in cuts {
            groups.push(cut.min(left));
            left -= cut.min(left);
        }
        groups.push(left);
        groups
    });
    let checksum = (0..12u32, vec(any::<u32>(), 0..5));
    let base = option::of(0..99u64);
    ("[a-zA-Z0-9_-]{1,8}(\\.[a-z]{1,3})?", checksum, groups, vec(file_column(), 0..4), base).prop_map(
        |(name, (power, crc32c), row_groups, mut columns, base)| DataFile {
            inline: None,
            sorted_by: (0..columns.len() as u32)
                .rev()
                .take(power as usize)
                .map(|column| SortKey { column, descending: power % 2 == 0, nulls_first: power % 3 == 0 })
                .collect(),
            path: if base.is_some() { format!("any folder/k=v/x{name}") } else { format!("data/x{name}") },
            base: base.map(|_| BaseId(3)),
            size_bytes: ((crc32c.len() as u64) << power) + base.unwrap_or(0),
            unchecked_bytes: base.unwrap_or(0),
            checksum: Arc::new(BlockChecksums { block_bytes: 1 << power, crc32c }),
            row_groups,
            columns: {
                columns.sort_by_key(|column| column.constant.is_some());
                columns
            },
        },
    )
}

fn deletions(rows: u32) -> impl Strategy<Value = Option<DeletionFile>> {
    let inline =
        btree_set(0..rows.max(1), 0..20).prop_map(move |deleted| DeletionFile::inline(&deleted.into_iter().take(rows as usize).collect()));
    let puffin = (any::<(u32, u32, u32)>(), 0..=rows).prop_map(|((offset, length, crc32c), cardinality)| {
        let (offset, length) = (u64::from(offset), u64::from(length >> 2));
        Some(DeletionFile::Puffin { path: "_deletions/a.puffin".into(), offset, length, cardinality, crc32c })
    });
    prop_oneof![inline, puffin]
}

/// A fragment without an id; every field in it has one column.
fn fragment() -> impl Strategy<Value = Fragment> {
    (0..70_000u32).prop_flat_map(|rows| {
        (vec(data_file(rows), 0..3), deletions(rows), 1..5u64, 5..9u64, any::<u16>()).prop_map(
            move |(mut files, deletions, created_at, updated_at, dead)| {
                let columns = files.iter_mut().flat_map(|file| &mut file.columns);
                for (n, column) in columns.enumerate() {
                    column.field = (dead >> n & 1 == 0).then_some(FieldId(n as i32 + 1));
                }
                Fragment { id: FragmentId(0), physical_rows: rows, files, deletions, created_at, updated_at }
            },
        )
    })
}

/// What an action is made of, without regard to what goes before it.
type Seed = (u8, u32, bool, Vec<u32>, DataFile, DataType);

fn transaction() -> impl Strategy<Value = CommittedTransaction> {
    let seed = (0..14u8, any::<u32>(), any::<bool>(), vec(0..200_000u32, 0..40), data_file(50), data_type());
    let counts = any::<(u32, u32, u32, u32)>().prop_map(|(inserted, updated, deleted, moved)| RowCounts {
        inserted: inserted.into(),
        updated: updated.into(),
        deleted: deleted.into(),
        moved: moved.into(),
    });
    let step = ("[A-Z]{0,6}", ".{0,20}", vec(seed, 0..5), counts);
    let facts = any::<(u32, u64, u64, u32, u32, u32)>();
    (any::<u128>(), 0..9u64, vec(step, 0..3), facts).prop_map(|(id, read_version, steps, facts)| {
        let mut minted = Minted::default();
        let steps = steps.into_iter().map(|(operation, statement, seeds, counts)| {
            let actions = seeds.into_iter().map(|seed| action(seed, &mut minted)).collect();
            Step { operation, statement, actions, counts }
        });
        let transaction = Transaction { id: TransactionId(id), read_version, steps: steps.collect() };
        let (attempts, rebased_over, rows_carried, vectors_merged, groups_dropped, reran) = facts;
        let facts = CommitFacts { attempts, rebased_over, rows_carried, vectors_merged, groups_dropped, reran };
        CommittedTransaction { transaction, minted, facts }
    })
}

fn action((kind, number, flag, rows, file, data_type): Seed, minted: &mut Minted) -> Action {
    let (fragments, fields) = (minted.fragments.len() as u32, minted.fields.len() as u32);
    let pick = |number: u32| match number.checked_rem(fragments) {
        Some(token) if number.is_multiple_of(2) => FragmentRef::Local(Token(token)),
        _ => Ref::Committed(FragmentId(number.min(FragmentId::MAX.0))),
    };
    let pick_field = |number: u32| match number.checked_rem(fields) {
        Some(token) if number.is_multiple_of(2) => FieldRef::Local(Token(token)),
        _ => Ref::Committed(FieldId((number >> 1).max(1) as i32)),
    };
    match kind {
        0 => {
            let id = if number.is_multiple_of(5) { Ref::Committed(FragmentId(number >> 1)) } else { Ref::Local(Token(fragments)) };
            if let Ref::Local(token) = id {
                minted.fragments.insert(token, FragmentId(1000 + fragments));
            }
            Action::AddFragment(AddFragment { id, physical_rows: number, data_change: flag, replacing: (0..number.min(3)).collect() })
        }
        1 => {
            let picked = |number: u32| Some(pick_field(number));
            let column = |column: &FileColumn, number: u32| {
                let parts = (number + 1..).take(column.parts.len()).map(picked);
                std::iter::once((!number.is_multiple_of(5)).then(|| pick_field(number))).chain(parts).collect::<Vec<_>>()
            };
            let fields = file.columns.iter().zip(number..).flat_map(|(of, number)| column(of, number)).collect();
            let base = file.base.map(Ref::Committed);
            let file = DataFile { base: None, ..file };
            Action::AddDataFile(AddDataFile { fragment: pick(number), file, base, fields, data_change: flag })
        }
        2 => {
            // Every fourth one comes back under its old id.
            let claims = number % 4 == 0;
            if !claims {
                minted.fields.insert(Token(fields), FieldId(100 + fields as i32));
            }
            let field_type = TableSchema::from_arrow(&ArrowSchema::new(vec![ArrowField::new("f", data_type, true)]), FieldId(1)).unwrap();
            Action::AddField(AddField {
                id: if claims { Ref::Committed(FieldId(1 + (number % 90) as i32)) } else { Ref::Local(Token(fields)) },
                parent: flag.then(|| pick_field(number)),
                name: format!("f{number}"),
                field_type: field_type.fields()[0].field_type.clone(),
                nullable: flag,
                metadata: BTreeMap::from([("k".into(), number.to_string())]),
                initial: flag.then_some(StatValue::Int(number.into())),
                in_place_of: number.is_multiple_of(3).then(|| pick_field(number)),
            })
        }
        6 => Action::AlterField(AlterField {
            field: pick_field(number),
            parent: flag.then(|| pick_field(number)),
            name: flag.then(|| format!("f{number}")),
            field_type: (number % 3 == 0).then_some(FieldType::Leaf(DataType::Int64)),
            nullable: (number % 3 == 1).then_some(flag),
        }),
        8 => {
            let token = Token(minted.bases.len() as u32);
            minted.bases.insert(token, BaseId(token.0 + 50));
            Action::AddBase(AddBase { token, base: Base { name: flag.then(|| "b".into()), location: format!("file:///{number}") } })
        }
        9 => {
            let fields = rows.iter().map(|number| pick_field(*number)).collect();
            Action::TombstoneFieldData(TombstoneFieldData { fragment: pick(number), fields, data_change: flag })
        }
        10 => {
            let entries = rows.iter().map(|row| (row.to_string(), (row % 2 == 0).then(|| "v".to_owned()))).collect();
            Action::ConfigUpdate(ConfigUpdate { entries, replace: flag })
        }
        11 => Action::ResetTable(ResetTable),
        12 => Action::ReserveFragmentIds(ReserveFragmentIds { count: number }),
        13 => Action::AssertUniqueKeys(AssertUniqueKeys {
            fields: vec![pick_field(number)],
            scheme: number.max(1),
            hashes: Arc::new(rows.iter().map(|row| u64::from(*row) << 40).collect()),
        }),
        7 => Action::DropField(DropField { field: pick_field(number) }),
        3 => Action::RemoveFragment(RemoveFragment { fragment: pick(number), data_change: flag }),
        4 => {
            let vector: RoaringBitmap = rows.iter().copied().chain(50..50 + number % 5000).collect();
            let added: RoaringBitmap = vector.iter().filter(|row| row % 3 > 0 || flag).collect();
            let replaced = match number % 3 {
                0 => RoaringBitmap::new(),
                1 => added.clone(),
                _ => added.iter().filter(|row| row % 2 == 0).collect(),
            };
            Action::SetDeletionFile(SetDeletionFile { fragment: pick(number), vector: DeletionFile::inline(&vector), added, replaced })
        }
        _ => {
            let map = match flag {
                true => MapLocation::Inline(rows.iter().map(|row| *row as u8).collect()),
                false => MapLocation::Object { path: format!("_moves/{number}"), size_bytes: u64::from(number) << 7, crc32c: number },
            };
            let refs = |part: &[u32]| part.iter().map(|number| pick(*number)).collect();
            let (sources, targets) = rows.split_at(rows.len() / 3);
            Action::ChangeOfAddress(ChangeOfAddress {
                sources: refs(sources),
                targets: refs(targets),
                map,
                order: flag.then(|| format!("ORDER BY {number}")),
            })
        }
    }
}

/// The fragments of these ids in pages of `page_size`, with every third record in the tail, and every seventh removed.
fn fragment_set(fragments: BTreeMap<u32, Fragment>, page_size: usize) -> FragmentSet {
    let fragments: Vec<Arc<Fragment>> =
        fragments.into_iter().map(|(id, fragment)| Arc::new(Fragment { id: FragmentId(id), ..fragment })).collect();
    let mut pages = Vec::new();
    let mut tail = BTreeMap::new();
    for (n, chunk) in fragments.chunks(page_size).enumerate() {
        pages.push(Page {
            reference: Some(encode_page(chunk).unwrap().reference(format!("_pages/{n}"))),
            fragments: Arc::new(chunk.to_vec()),
        });
        for fragment in chunk {
            match fragment.id.0 {
                id if id % 3 == 0 => tail.insert(fragment.id, Some(Arc::new(Fragment { updated_at: 9, ..(**fragment).clone() }))),
                id if id % 7 == 0 => tail.insert(fragment.id, None),
                _ => continue,
            };
        }
    }
    if let Some(last) = fragments.last() {
        let id = FragmentId(last.id.0 + 1);
        tail.insert(id, Some(Arc::new(Fragment { id, ..(**last).clone() })));
    }
    FragmentSet::new(pages, tail)
}

fn version() -> impl Strategy<Value = Version> {
    let fragments = (btree_map(0..900u32, fragment(), 0..10), 1..4usize).prop_map(|(fragments, size)| fragment_set(fragments, size));
    let config = btree_map("[a-z.]{0,9}", ".{0,9}", 0..4);
    let transactions = btree_map(any::<u128>(), transaction(), 0..4);
    let head = (10..20u64, 1..10u64, any::<(u128, u64)>(), ".{0,9}");
    (schema(), fragments, config, transactions, head).prop_map(|(schema, fragments, config, transactions, head)| {
        let (version, low_water_mark, (table_id, time_ms), writer) = head;
        let counters = Counters { fragment: FragmentId(2000), field: FieldId(200), base: BaseId(100) };
        let schema = Arc::new(schema);
        let name = version.is_multiple_of(2).then(|| "archive".to_owned());
        let bases = BTreeMap::from([(BaseId(3), Base { name, location: format!("s3://bucket/{version}") })]);
        let transactions = transactions.into_iter().map(|(id, mut committed)| {
            committed.transaction.id = TransactionId(id);
            committed
        });
        Version {
            snapshot: Snapshot { version, table_id, schema, counters, config, bases, fragments, low_water_mark, swept_ms: time_ms / 2 },
            transactions: transactions.collect(),
            time_ms,
            writer,
        }
    })
}

/// Writes a version and reads it.
fn round_trip(version: &Version, spill: bool) -> Version {
    let encoded = encode_transactions(&version.transactions).unwrap();
    let reference = (spill || encoded.needs_object()).then(|| encoded.reference("_transactions/a.txn"));
    let manifest = encode_manifest(version, reference.as_ref()).unwrap();
    assert_eq!(encode_manifest(version, reference.as_ref()).unwrap(), manifest);

    let decoded = decode_manifest(&manifest.bytes, &DEFAULT_LIMITS).unwrap();
    let pages = decoded.pages.iter().zip(version.snapshot.fragments.pages()).map(|(reference, page)| {
        let object = encode_page(&page.fragments).unwrap().bytes;
        Arc::new(decode_page(&object, reference, &DEFAULT_LIMITS).unwrap())
    });
    let pages = pages.collect();
    let spilled = match &decoded.transactions {
        Transactions::Inline(_) => None,
        Transactions::Object(reference) => Some(decode_transactions(&encoded.bytes, reference, &DEFAULT_LIMITS).unwrap()),
    };
    decoded.into_version(pages, spilled).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn versions_come_back(version in version(), spill in any::<bool>()) {
        prop_assert_eq!(round_trip(&version, spill), version);
    }
}

fn simple() -> Version {
    let field_type = FieldType::Leaf(DataType::Int64);
    let field =
        Field { id: FieldId(1), parent: None, name: "a".into(), field_type, nullable: true, metadata: BTreeMap::new(), initial: None };
    let mut snapshot = Snapshot { version: 1, schema: Arc::new(TableSchema::new(vec![field]).unwrap()), ..Snapshot::empty(7) };
    snapshot.counters = Counters { fragment: FragmentId(10), field: FieldId(2), base: BaseId(100) };
    Version { snapshot, transactions: vec![], time_ms: 0, writer: "amend".into() }
}

fn plain_fragment() -> Fragment {
    Fragment { id: FragmentId(3), physical_rows: 5, files: vec![], deletions: None, created_at: 1, updated_at: 1 }
}

fn statement(id: u128, bytes: usize) -> CommittedTransaction {
    let step = Step { statement: "x".repeat(bytes), ..Step::default() };
    let transaction = Transaction { id: TransactionId(id), read_version: 0, steps: vec![step] };
    CommittedTransaction { transaction, minted: Minted::default(), facts: CommitFacts::default() }
}

#[test]
fn what_no_reader_would_take_is_not_written() {
    let reason = |change: fn(&mut Version)| {
        let mut version = simple();
        change(&mut version);
        encode_manifest(&version, None).unwrap_err().to_string()
    };
    assert!(encode_manifest(&simple(), None).is_ok());
    assert!(reason(|v| v.snapshot.version = 0).contains("version 0"));
    assert!(reason(|v| v.snapshot.counters.field = FieldId(1)).contains("never given out"));
    assert!(reason(|v| v.transactions = vec![statement(1, 1), statement(1, 1)]).contains("there twice"));
    assert!(reason(|v| v.transactions = vec![statement(1, MAX_INLINE_TRANSACTIONS_BYTES)]).contains("too large"));
    assert!(
        reason(|v| v.snapshot.fragments.put(Arc::new(Fragment { id: FragmentId(10), ..plain_fragment() }))).contains("never given out")
    );
    assert!(
        reason(|v| {
            let pages = vec![Page { reference: None, fragments: Arc::new(vec![Arc::new(plain_fragment())]) }];
            v.snapshot.fragments = FragmentSet::new(pages, BTreeMap::new());
        })
        .contains("no name")
    );
    assert!(
        reason(|v| {
            let item = Arc::new(ArrowField::new("item", DataType::Int32, true));
            let nested = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::List(item)));
            let mut field = v.snapshot.schema.fields()[0].clone();
            field.field_type = FieldType::Leaf(nested);
            v.snapshot.schema = Arc::new(TableSchema::new(vec![field]).unwrap());
        })
        .contains("type")
    );
}

#[test]
fn pages_that_no_reader_would_take_are_not_written() {
    let encode = |fragments: Vec<Fragment>| encode_page(&fragments.into_iter().map(Arc::new).collect::<Vec<_>>());
    assert!(encode(vec![plain_fragment()]).is_ok());
    assert!(encode(vec![]).unwrap_err().to_string().contains("without fragments"));
    assert!(encode(vec![plain_fragment(), plain_fragment()]).unwrap_err().to_string().contains("comes after"));
    let checksum = Arc::new(BlockChecksums { block_bytes: 512, crc32c: vec![] });
    let (path, base, row_groups) = ("data/a".into(), Some(BaseId(1)), vec![5]);
    let elsewhere =
        DataFile { inline: None, sorted_by: vec![], path, base, size_bytes: 0, unchecked_bytes: 0, checksum, row_groups, columns: vec![] };
    let of = |files| encode(vec![Fragment { files, ..plain_fragment() }]);
    assert!(of(vec![elsewhere.clone()]).is_ok());
    let climbing = DataFile { path: "a/../../b".into(), ..elsewhere };
    assert!(of(vec![climbing]).unwrap_err().to_string().contains("not the name of a file in a base"));
}

#[test]
fn transactions_move_out_when_they_are_large() {
    let mut version = simple();
    for (bytes, needs_object) in [(10, false), (MAX_INLINE_TRANSACTIONS_BYTES - 100, false), (MAX_INLINE_TRANSACTIONS_BYTES, true)] {
        version.transactions = vec![statement(8, bytes), statement(9, 1)];
        assert_eq!(encode_transactions(&version.transactions).unwrap().needs_object(), needs_object);
        assert_eq!(round_trip(&version, false), version);
    }
    let others = encode_transactions(&[statement(8, 1)]).unwrap().reference("_transactions/a.txn");
    assert!(encode_manifest(&version, Some(&others)).unwrap_err().to_string().contains("transactions"));
    let reference = encode_transactions(&version.transactions).unwrap().reference("_transactions/a.txn");
    let manifest = encode_manifest(&version, Some(&reference)).unwrap();
    assert!(manifest.bytes.len() < 300);
    let decoded = decode_manifest(&manifest.bytes, &DEFAULT_LIMITS).unwrap();
    assert_eq!(decoded.transaction_ids(), [TransactionId(8), TransactionId(9)]);
}

#[test]
fn the_bytes_of_a_commit_do_not_grow_with_the_table() {
    let file = |id: u32| DataFile {
        inline: None,
        sorted_by: vec![],
        path: format!("data/{}.parquet", uuid::Uuid::from_u128(u128::from(id) << 64)),
        base: None,
        size_bytes: 256 << 20,
        unchecked_bytes: 0,
        checksum: Arc::new(BlockChecksums { block_bytes: 8 << 20, crc32c: vec![id; 32] }),
        row_groups: vec![125_000; 8],
        columns: (1..=16)
            .map(|field| {
                let (min, max) = (StatValue::Int(i64::from(id)), StatValue::Int(1 << 40));
                FileColumn {
                    field: Some(FieldId(field)),
                    stats: ColumnStats { min: Some(min), max: Some(max), null_count: Some(0) },
                    ..FileColumn::default()
                }
            })
            .collect(),
    };
    let reference = |n: u32| PageRef {
        path: format!("_pages/{}.page", uuid::Uuid::from_u128(u128::from(n) << 64)),
        size_bytes: 700_000,
        crc32c: u32::MAX,
        first: FragmentId(n << 10),
        last: FragmentId((n << 10) + 1023),
        fragments: 1024,
        live_rows: 1 << 30,
    };
    let mut version = simple();
    version.snapshot.counters = Counters { fragment: FragmentId(2_000_000), field: FieldId(17), base: BaseId(100) };
    let pages = (0..977).map(|n| Page { reference: Some(reference(n)), fragments: Arc::new(vec![]) }).collect();
    let tail = (1_000_448..1_000_448 + 20).map(|id| {
        let fragment = Fragment { id: FragmentId(id), physical_rows: 1_000_000, files: vec![file(id)], ..plain_fragment() };
        (FragmentId(id), Some(Arc::new(fragment)))
    });
    version.snapshot.fragments = FragmentSet::new(pages, tail.collect());
    let manifest = encode_manifest(&version, None).unwrap();
    let (page_bytes, record_bytes) = ((manifest.bytes.len() - manifest.tail_bytes) / 977, manifest.tail_bytes / 20);
    assert!(page_bytes <= 86, "{page_bytes} bytes for each page");
    assert!(record_bytes <= 640, "{record_bytes} bytes for each record of 16 columns");
    assert!(manifest.bytes.len() < 128 << 10, "{} bytes", manifest.bytes.len());
}
