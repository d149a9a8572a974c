//! One version, its page, its transactions and a catalog that together use every field of the format.

use amend::manifest::catalog::{Catalog, CatalogEntry, StoredView, TableName};
use amend::manifest::encode::encode_page;
use amend::manifest::fragments::{FragmentSet, Page};
use amend::manifest::snapshot::{Counters, Snapshot};
use amend::manifest::version::Version;
use amend::store::Written;
use amend::table::deletion_vector::DeletionFile;
use amend::table::fragment::{Base, BaseId, BlockChecksums, DataFile, FileColumn, Fragment, SortKey};
use amend::table::row_address::FragmentId;
use amend::table::schema::{Field, FieldId, FieldType, TableSchema};
use amend::table::stats::{ColumnStats, StatValue};
use amend::txn::action::{
    Action, AddBase, AddDataFile, AddField, AddFragment, AlterField, AssertUniqueKeys, ChangeOfAddress, ConfigUpdate, DropField,
    MapLocation, RemoveFragment, ReserveFragmentIds, ResetTable, SetDeletionFile, TombstoneFieldData,
};
use amend::txn::composite::{CommitFacts, CommittedTransaction, RowCounts, Step, Transaction, TransactionId};
use amend::txn::refs::{Minted, Ref, Token};
use arrow_schema::{DataType, TimeUnit};
use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch};
use datafusion::arrow::ipc::writer::StreamWriter;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A whole version.
pub fn version() -> Version {
    let page = Page { reference: Some(encode_page(&page()).unwrap().reference("_pages/0190a1b2.page")), fragments: Arc::new(page()) };
    let tail = BTreeMap::from([
        (FragmentId(2), None),
        (FragmentId(5), Some(fragment(5, DeletionFile::inline(&[0, 99].into_iter().collect())))),
        (FragmentId(8), Some(fragment(8, None))),
    ]);
    Version {
        snapshot: Snapshot {
            version: 42,
            table_id: 0x0190_0000_0000_7000_8000_0000_0000_00AA,
            schema: Arc::new(TableSchema::new(fields()).unwrap()),
            counters: Counters { fragment: FragmentId(10), field: FieldId(12), base: BaseId(4) },
            config: BTreeMap::from([("amend.target_rows".into(), "1000000".into()), ("note".into(), "größer".into())]),
            bases: BTreeMap::from([(BaseId(1), base("archive")), (BaseId(3), Base { name: None, ..base("cold") })]),
            fragments: FragmentSet::new(vec![page], tail),
            low_water_mark: 7,
            swept_ms: 1_764_000_000_000,
        },
        transactions: transactions(),
        time_ms: 1_764_547_200_123,
        writer: "amend 0.1.0".into(),
    }
}

fn base(name: &str) -> Base {
    Base { name: Some(name.into()), location: format!("s3://bucket/{name}") }
}

/// The records of its page.
pub fn page() -> Vec<Arc<Fragment>> {
    let path = "_deletions/0190a1b3.puffin".to_owned();
    let puffin = DeletionFile::Puffin { path, offset: 4, length: 52, cardinality: 30, crc32c: 0xDEAD_BEEF };
    vec![fragment(1, None), fragment(2, Some(puffin)), fragment(5, DeletionFile::inline(&[99].into_iter().collect()))]
}

/// The records of a page that holds rows.
pub fn rows_page() -> Vec<Arc<Fragment>> {
    let rows = RecordBatch::try_from_iter([("", Arc::new(Int32Array::from(vec![Some(1), None])) as ArrayRef)]).unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &rows.schema()).unwrap();
    stream.write(&rows).unwrap();
    let bytes = stream.into_inner().unwrap();
    let written = Written::of(&bytes);
    let bounds = ColumnStats { min: Some(StatValue::Int(1)), max: Some(StatValue::Int(1)), null_count: Some(1) };
    let file = DataFile {
        path: "data/0190a1ba.arrow".into(),
        size_bytes: written.size_bytes,
        checksum: Arc::new(BlockChecksums { block_bytes: written.block_bytes, crc32c: written.crc32c }),
        row_groups: vec![2],
        columns: vec![FileColumn { field: Some(FieldId(1)), stats: bounds, ..FileColumn::default() }],
        inline: Some(bytes.into()),
        ..DataFile::default()
    };
    vec![Arc::new(Fragment { physical_rows: 2, files: vec![file], ..fragment(9, None).as_ref().clone() })]
}

/// The records of a page whose rows are sorted.
pub fn sorted_page() -> Vec<Arc<Fragment>> {
    let mut sorted = rows_page();
    let fragment = Arc::make_mut(&mut sorted[0]);
    fragment.files[0].sorted_by =
        vec![SortKey { column: 1, descending: true, nulls_first: true }, SortKey { column: 0, ..SortKey::default() }];
    fragment.files[0].columns.push(FileColumn { field: Some(FieldId(2)), ..FileColumn::default() });
    sorted
}

/// The transactions that made it.
pub fn transactions() -> Vec<CommittedTransaction> {
    vec![update(), rewrite()]
}

/// A catalog.
pub fn catalog() -> Catalog {
    let entry = |folder: &str, table_id| CatalogEntry { folder: folder.into(), table_id };
    let name = |namespace: &str, name: &str| TableName { namespace: namespace.into(), name: name.into() };
    Catalog {
        version: 3,
        tables: BTreeMap::from([
            (name("public", "line items"), entry("tables/line_items-0190a1", 1)),
            (name("public", "orders"), entry("tables/orders-0190a2", u128::MAX)),
        ]),
        namespaces: BTreeSet::new(),
        views: BTreeMap::new(),
        transaction: TransactionId(0x0190_0000_0000_7000_8000_0000_0000_00BB),
        time_ms: 1_764_547_200_456,
        writer: "amend 0.1.0".into(),
    }
}

/// A catalog with namespaces and views.
pub fn catalog_of_names() -> Catalog {
    let view = |query: &str, columns: &[&str], search: &str, settings: &[(&str, &str)]| StoredView {
        query: query.into(),
        columns: columns.iter().map(|column| (*column).into()).collect(),
        search_namespace: search.into(),
        settings: settings.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
    };
    let mut catalog = catalog();
    let staged = CatalogEntry { folder: "tables/orders-0190a3".into(), table_id: 7 };
    catalog.tables.insert(TableName::new("staging", "orders"), staged);
    catalog.namespaces = BTreeSet::from(["archive".into(), "staging".into()]);
    let dialect = [("datafusion.sql_parser.dialect", "postgresql")];
    catalog.views = BTreeMap::from([
        (TableName::new("public", "all orders"), view("SELECT * FROM orders", &["number", "price"], "staging", &dialect)),
        (TableName::new("staging", "one"), view("SELECT 1 AS one", &[], "public", &[])),
    ]);
    catalog
}

fn fields() -> Vec<Field> {
    let field = |id, parent: Option<i32>, name: &str, field_type| Field {
        id: FieldId(id),
        parent: parent.map(FieldId),
        name: name.into(),
        field_type,
        nullable: id > 1,
        metadata: if id == 2 { BTreeMap::from([("comment".into(), "in euros".into())]) } else { BTreeMap::new() },
        initial: (id == 2).then_some(StatValue::Decimal(0)),
    };
    vec![
        field(1, None, "id", FieldType::Leaf(DataType::Int64)),
        field(2, None, "price", FieldType::Leaf(DataType::Decimal128(15, 2))),
        field(3, None, "sold", FieldType::Leaf(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())))),
        field(4, None, "tags", FieldType::List),
        field(5, Some(4), "item", FieldType::Leaf(DataType::Utf8View)),
        field(9, None, "place", FieldType::Struct),
        field(10, Some(9), "lat", FieldType::Leaf(DataType::Float64)),
    ]
}

fn fragment(id: u32, deletions: Option<DeletionFile>) -> Arc<Fragment> {
    Arc::new(Fragment { id: FragmentId(id), physical_rows: 100, files: vec![file(id)], deletions, created_at: 3, updated_at: 40 })
}

fn file(id: u32) -> DataFile {
    use StatValue::{Binary, Boolean, Decimal, Float, Int, UInt, Utf8};
    let bounds = [
        (Some(1), Some((Int(-5), Int(1 << 40)))),
        (Some(2), Some((Decimal(-129), Decimal(10i128.pow(20))))),
        (Some(3), Some((UInt(0), UInt(u64::MAX)))),
        (Some(5), Some((Utf8("Apfel".into()), Utf8("Öl".into())))),
        (Some(10), Some((Float(-0.5), Float(1e300)))),
        (None, Some((Boolean(false), Boolean(true)))),
        (None, Some((Binary(vec![0]), Binary(vec![0xFF, 0])))),
        (None, None),
    ];
    // One file is enough to show every kind of bound.
    let bounds = bounds.into_iter().take(if id == 5 { 8 } else { 1 });
    let columns = bounds.map(|(field, bounds)| {
        let null_count = bounds.is_some().then_some(3);
        let (min, max) = bounds.unzip();
        FileColumn { field: field.map(FieldId), stats: ColumnStats { min, max, null_count }, ..FileColumn::default() }
    });
    let file = DataFile {
        inline: None,
        sorted_by: vec![],
        path: format!("data/0190a1c{id}.parquet"),
        base: None,
        size_bytes: 10_000,
        unchecked_bytes: 0,
        checksum: Arc::new(BlockChecksums { block_bytes: 4096, crc32c: vec![1, u32::MAX, 0x0102_0304] }),
        row_groups: vec![60, 40],
        columns: columns.collect(),
    };
    if id == 8 { adopted(file) } else { file }
}

/// The same rows in a file that others wrote: one nested column, and a constant.
fn adopted(file: DataFile) -> DataFile {
    let tags = FileColumn { field: Some(FieldId(4)), parts: vec![FieldId(5)], ..FileColumn::default() };
    let price = FileColumn { field: Some(FieldId(2)), constant: Some(StatValue::Decimal(250)), ..FileColumn::default() };
    DataFile {
        path: "year=2025/größer 1.parquet".into(),
        base: Some(BaseId(1)),
        unchecked_bytes: 2_000,
        checksum: Arc::new(BlockChecksums { block_bytes: 4096, crc32c: vec![7, 8] }),
        columns: vec![tags, price],
        ..file
    }
}

fn update() -> CommittedTransaction {
    let old = Ref::Committed(FragmentId(5));
    let new_file = DataFile { path: "data/0190a1d0.parquet".into(), ..file(5) };
    let columns = [1, 2, 3, 5, 10].map(|field| Ref::Committed(FieldId(field))).into_iter();
    // The last column but one is one that nobody reads.
    let more = [Some(Ref::Local(Token(0))), None, Some(Ref::Committed(FieldId(9)))];
    let fields = columns.map(Some).chain(more).collect();
    let add_field = |token, parent, name: &str, field_type| {
        let metadata = BTreeMap::from([("from".into(), "ALTER".into())]);
        Action::AddField(AddField {
            id: Ref::Local(Token(token)),
            parent,
            name: name.into(),
            field_type,
            nullable: true,
            metadata,
            initial: None,
            in_place_of: None,
        })
    };
    let file_without_fields =
        DataFile { columns: new_file.columns.iter().map(|c| FileColumn { field: None, ..c.clone() }).collect(), ..new_file };
    let delete = |fragment, vector: &[u32], added: &[u32], replaced: &[u32]| {
        let rows = |rows: &[u32]| rows.iter().copied().collect();
        let vector = DeletionFile::inline(&rows(vector));
        Action::SetDeletionFile(SetDeletionFile { fragment, vector, added: rows(added), replaced: rows(replaced) })
    };
    let alter = Step {
        operation: "ALTER TABLE".into(),
        statement: "ALTER TABLE t ADD COLUMN place STRUCT<lat DOUBLE>".into(),
        actions: vec![
            add_field(0, None, "place", FieldType::Struct),
            add_field(1, Some(Ref::Local(Token(0))), "lat", FieldType::Leaf(DataType::Float64)),
            Action::AddField(AddField {
                id: Ref::Committed(FieldId(8)),
                parent: None,
                name: "back".into(),
                field_type: FieldType::Leaf(DataType::Int32),
                nullable: false,
                metadata: BTreeMap::new(),
                initial: Some(StatValue::Int(-7)),
                in_place_of: Some(Ref::Committed(FieldId(11))),
            }),
            Action::AlterField(AlterField {
                field: Ref::Local(Token(1)),
                parent: Some(Ref::Local(Token(0))),
                name: Some("latitude".into()),
                field_type: Some(FieldType::Leaf(DataType::Float64)),
                nullable: Some(true),
            }),
            Action::DropField(DropField { field: Ref::Committed(FieldId(11)) }),
            Action::AddBase(AddBase { token: Token(2), base: base("cold") }),
            Action::TombstoneFieldData(TombstoneFieldData {
                fragment: Ref::Committed(FragmentId(8)),
                fields: vec![Ref::Committed(FieldId(1))],
                data_change: true,
            }),
            Action::ConfigUpdate(ConfigUpdate {
                entries: BTreeMap::from([("note".into(), None), ("owner".into(), Some("me".into()))]),
                replace: true,
            }),
            Action::ReserveFragmentIds(ReserveFragmentIds { count: 3 }),
            Action::AssertUniqueKeys(AssertUniqueKeys {
                fields: vec![Ref::Committed(FieldId(1)), Ref::Local(Token(0))],
                scheme: 1,
                hashes: Arc::new([5, u64::MAX].into()),
            }),
            Action::ResetTable(ResetTable),
        ],
        counts: RowCounts::default(),
    };
    let adopted = {
        let fields = [4, 5, 2].map(|field| Some(Ref::Committed(FieldId(field)))).into();
        let mut file = DataFile { base: None, ..adopted(file(8)) };
        file.columns.iter_mut().for_each(|column| column.field = None);
        AddDataFile { fragment: Ref::Local(Token(0)), file, base: Some(Ref::Local(Token(2))), fields, data_change: true }
    };
    let update = Step {
        operation: "UPDATE".into(),
        statement: "UPDATE t SET price = 1 WHERE id IN (0, 99)".into(),
        actions: vec![
            Action::AddFragment(AddFragment {
                id: Ref::Local(Token(0)),
                physical_rows: 100,
                data_change: true,
                replacing: roaring::RoaringBitmap::new(),
            }),
            Action::AddDataFile(AddDataFile {
                fragment: Ref::Local(Token(0)),
                file: file_without_fields,
                base: None,
                fields,
                data_change: true,
            }),
            Action::AddDataFile(AddDataFile { base: Some(Ref::Committed(BaseId(1))), ..adopted.clone() }),
            Action::AddDataFile(adopted),
            delete(old, &[0, 99], &[0], &[0]),
            delete(Ref::Committed(FragmentId(2)), &[1, 2, 3], &[2, 3], &[3]),
            delete(Ref::Local(Token(0)), &[7], &[7], &[]),
        ],
        counts: RowCounts { inserted: 97, updated: 2, deleted: 1, moved: 4 },
    };
    CommittedTransaction {
        transaction: Transaction { id: TransactionId(11), read_version: 40, steps: vec![alter, update] },
        minted: Minted {
            fragments: BTreeMap::from([(Token(0), FragmentId(8))]),
            fields: BTreeMap::from([(Token(0), FieldId(9)), (Token(1), FieldId(10))]),
            bases: BTreeMap::from([(Token(2), BaseId(3))]),
        },
        facts: CommitFacts { attempts: 2, rebased_over: 1, rows_carried: 3, vectors_merged: 1, groups_dropped: 5, reran: 6 },
    }
}

fn rewrite() -> CommittedTransaction {
    let moved = |map| {
        let (sources, targets) = (vec![Ref::Committed(FragmentId(2)), Ref::Committed(FragmentId(3))], vec![Ref::Local(Token(4))]);
        Action::ChangeOfAddress(ChangeOfAddress { sources, targets, map, order: None })
    };
    let step = Step {
        operation: "OPTIMIZE".into(),
        statement: "OPTIMIZE t".into(),
        actions: vec![
            Action::AddFragment(AddFragment {
                id: Ref::Local(Token(4)),
                physical_rows: 100,
                data_change: false,
                replacing: roaring::RoaringBitmap::new(),
            }),
            Action::AddFragment(AddFragment {
                id: Ref::Committed(FragmentId(7)),
                physical_rows: 1,
                data_change: true,
                replacing: [0].into_iter().collect(),
            }),
            moved(MapLocation::Inline(b"not a real map".as_slice().into())),
            moved(MapLocation::Object { path: "_moves/0190a1e0.moves".into(), size_bytes: 12_345, crc32c: 77 }),
            Action::RemoveFragment(RemoveFragment { fragment: Ref::Committed(FragmentId(2)), data_change: false }),
            Action::RemoveFragment(RemoveFragment { fragment: Ref::Committed(FragmentId(3)), data_change: true }),
        ],
        counts: RowCounts { moved: 100, ..RowCounts::default() },
    };
    CommittedTransaction {
        transaction: Transaction { id: TransactionId(12), read_version: 41, steps: vec![step] },
        minted: Minted { fragments: BTreeMap::from([(Token(4), FragmentId(9))]), ..Minted::default() },
        facts: CommitFacts { attempts: 1, ..CommitFacts::default() },
    }
}
