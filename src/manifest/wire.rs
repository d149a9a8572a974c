//! The protobuf messages of package `amend.v1`, as `docs/format.proto` has them. Shapes only: what a field means is
//! said there, and what its values may be is checked where they become types.
//!
//! Always holds: a tag is never used again for something else; [`shape`](super::shape) lists the same fields, and a test
//! compares both with `docs/format.proto`.

use bytes::Bytes;
use prost::Message;
use std::collections::BTreeMap;

mod actions;

pub(crate) use actions::*;

/// Stands for "no field" in [`FileColumn::field`].
pub(crate) const TOMBSTONE: i32 = -2;

// ---- objects: the payloads of frames ----

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Manifest {
    #[prost(uint64, tag = "1")]
    pub version: u64,
    #[prost(bytes = "bytes", tag = "2")]
    pub table_id: Bytes,
    #[prost(uint64, tag = "3")]
    pub time_ms: u64,
    #[prost(string, tag = "4")]
    pub writer: String,
    #[prost(string, repeated, tag = "5")]
    pub reader_features: Vec<String>,
    #[prost(string, repeated, tag = "6")]
    pub writer_features: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub fields: Vec<Field>,
    #[prost(message, optional, tag = "8")]
    pub counters: Option<Counters>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub config: BTreeMap<String, String>,
    #[prost(uint64, tag = "10")]
    pub low_water_mark: u64,
    #[prost(message, repeated, tag = "11")]
    pub pages: Vec<PageRef>,
    #[prost(message, repeated, tag = "12")]
    pub tail: Vec<TailRecord>,
    #[prost(message, optional, tag = "13")]
    pub transactions: Option<Transactions>,
    #[prost(message, repeated, tag = "14")]
    pub bases: Vec<Base>,
    #[prost(uint64, tag = "15")]
    pub swept_ms: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Page {
    #[prost(message, repeated, tag = "1")]
    pub fragments: Vec<Fragment>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CommittedTransactions {
    #[prost(message, repeated, tag = "1")]
    pub transactions: Vec<CommittedTransaction>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Catalog {
    #[prost(uint64, tag = "1")]
    pub version: u64,
    #[prost(uint64, tag = "2")]
    pub time_ms: u64,
    #[prost(string, tag = "3")]
    pub writer: String,
    #[prost(bytes = "bytes", tag = "4")]
    pub transaction: Bytes,
    #[prost(message, repeated, tag = "5")]
    pub entries: Vec<CatalogEntry>,
    #[prost(string, repeated, tag = "6")]
    pub namespaces: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub views: Vec<CatalogView>,
}

// ---- parts of a manifest ----

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Counters {
    #[prost(uint32, tag = "1")]
    pub fragment: u32,
    #[prost(int32, tag = "2")]
    pub field: i32,
    #[prost(uint32, tag = "3")]
    pub base: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Base {
    #[prost(uint32, tag = "1")]
    pub id: u32,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(string, tag = "3")]
    pub location: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PageRef {
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(uint64, tag = "2")]
    pub size_bytes: u64,
    #[prost(fixed32, tag = "3")]
    pub crc32c: u32,
    #[prost(uint32, tag = "4")]
    pub first: u32,
    #[prost(uint32, tag = "5")]
    pub last: u32,
    #[prost(uint32, tag = "6")]
    pub fragments: u32,
    #[prost(uint64, tag = "7")]
    pub live_rows: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TailRecord {
    #[prost(oneof = "tail_record::Record", tags = "1, 2")]
    pub record: Option<tail_record::Record>,
}

pub(crate) mod tail_record {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Record {
        #[prost(message, tag = "1")]
        Put(super::Fragment),
        #[prost(uint32, tag = "2")]
        Removed(u32),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Transactions {
    #[prost(oneof = "transactions::Place", tags = "1, 2")]
    pub place: Option<transactions::Place>,
}

pub(crate) mod transactions {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Place {
        #[prost(message, tag = "1")]
        Inline(super::CommittedTransactions),
        #[prost(message, tag = "2")]
        Object(super::TransactionsRef),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TransactionsRef {
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(uint64, tag = "2")]
    pub size_bytes: u64,
    #[prost(fixed32, tag = "3")]
    pub crc32c: u32,
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub ids: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CatalogEntry {
    #[prost(string, tag = "1")]
    pub namespace: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, tag = "3")]
    pub folder: String,
    #[prost(bytes = "bytes", tag = "4")]
    pub table_id: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CatalogView {
    #[prost(string, tag = "1")]
    pub namespace: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, tag = "3")]
    pub query: String,
    #[prost(string, repeated, tag = "4")]
    pub columns: Vec<String>,
    #[prost(string, tag = "5")]
    pub search_namespace: String,
    #[prost(btree_map = "string, string", tag = "6")]
    pub settings: std::collections::BTreeMap<String, String>,
}

// ---- schema ----

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Field {
    #[prost(int32, tag = "1")]
    pub id: i32,
    #[prost(int32, optional, tag = "2")]
    pub parent: Option<i32>,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(string, tag = "4")]
    pub r#type: String,
    #[prost(bool, tag = "5")]
    pub nullable: bool,
    #[prost(btree_map = "string, string", tag = "6")]
    pub metadata: BTreeMap<String, String>,
    #[prost(message, optional, tag = "7")]
    pub initial: Option<StatValue>,
}

// ---- fragments ----

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Fragment {
    #[prost(uint32, tag = "1")]
    pub id: u32,
    #[prost(uint32, tag = "2")]
    pub physical_rows: u32,
    #[prost(message, repeated, tag = "3")]
    pub files: Vec<DataFile>,
    #[prost(message, optional, tag = "4")]
    pub deletions: Option<DeletionFile>,
    #[prost(uint64, tag = "5")]
    pub created_at: u64,
    #[prost(uint64, tag = "6")]
    pub updated_at: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DataFile {
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(uint32, optional, tag = "2")]
    pub base: Option<u32>,
    #[prost(uint64, tag = "3")]
    pub size_bytes: u64,
    #[prost(uint32, tag = "4")]
    pub block_bytes: u32,
    #[prost(fixed32, repeated, tag = "5")]
    pub block_crc32c: Vec<u32>,
    #[prost(uint32, repeated, tag = "6")]
    pub row_groups: Vec<u32>,
    #[prost(message, repeated, tag = "7")]
    pub columns: Vec<FileColumn>,
    #[prost(uint64, tag = "8")]
    pub unchecked_bytes: u64,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub inline: Option<Bytes>,
    #[prost(message, repeated, tag = "10")]
    pub sorted_by: Vec<SortKey>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SortKey {
    #[prost(uint32, tag = "1")]
    pub column: u32,
    #[prost(bool, tag = "2")]
    pub descending: bool,
    #[prost(bool, tag = "3")]
    pub nulls_first: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FileColumn {
    #[prost(sint32, tag = "1")]
    pub field: i32,
    #[prost(uint64, optional, tag = "2")]
    pub null_count: Option<u64>,
    #[prost(message, optional, tag = "3")]
    pub min: Option<StatValue>,
    #[prost(message, optional, tag = "4")]
    pub max: Option<StatValue>,
    #[prost(int32, repeated, tag = "5")]
    pub parts: Vec<i32>,
    #[prost(message, optional, tag = "6")]
    pub constant: Option<StatValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatValue {
    #[prost(oneof = "stat_value::Value", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub value: Option<stat_value::Value>,
}

pub(crate) mod stat_value {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Value {
        #[prost(bool, tag = "1")]
        Boolean(bool),
        #[prost(sint64, tag = "2")]
        Int(i64),
        #[prost(uint64, tag = "3")]
        Uint(u64),
        #[prost(double, tag = "4")]
        Float(f64),
        #[prost(bytes = "bytes", tag = "5")]
        Decimal(bytes::Bytes),
        #[prost(string, tag = "6")]
        Utf8(String),
        #[prost(bytes = "bytes", tag = "7")]
        Binary(bytes::Bytes),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeletionFile {
    #[prost(oneof = "deletion_file::Place", tags = "1, 2")]
    pub place: Option<deletion_file::Place>,
}

pub(crate) mod deletion_file {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Place {
        #[prost(message, tag = "1")]
        Inline(super::InlineVector),
        #[prost(message, tag = "2")]
        Puffin(super::PuffinBlob),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct InlineVector {
    #[prost(bytes = "bytes", tag = "1")]
    pub blob: Bytes,
    #[prost(uint32, tag = "2")]
    pub cardinality: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PuffinBlob {
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    #[prost(uint64, tag = "3")]
    pub length: u64,
    #[prost(uint32, tag = "4")]
    pub cardinality: u32,
    #[prost(fixed32, tag = "5")]
    pub crc32c: u32,
}

// ---- transactions ----

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CommittedTransaction {
    #[prost(message, optional, tag = "1")]
    pub transaction: Option<Transaction>,
    #[prost(message, optional, tag = "2")]
    pub minted: Option<Minted>,
    #[prost(message, optional, tag = "3")]
    pub facts: Option<CommitFacts>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Transaction {
    #[prost(bytes = "bytes", tag = "1")]
    pub id: Bytes,
    #[prost(uint64, tag = "2")]
    pub read_version: u64,
    #[prost(message, repeated, tag = "3")]
    pub steps: Vec<Step>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Step {
    #[prost(string, tag = "1")]
    pub operation: String,
    #[prost(string, tag = "2")]
    pub statement: String,
    #[prost(message, repeated, tag = "3")]
    pub actions: Vec<Action>,
    #[prost(message, optional, tag = "4")]
    pub counts: Option<RowCounts>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RowCounts {
    #[prost(uint64, tag = "1")]
    pub inserted: u64,
    #[prost(uint64, tag = "2")]
    pub updated: u64,
    #[prost(uint64, tag = "3")]
    pub deleted: u64,
    #[prost(uint64, tag = "4")]
    pub moved: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Minted {
    #[prost(message, repeated, tag = "1")]
    pub fragments: Vec<MintedFragment>,
    #[prost(message, repeated, tag = "2")]
    pub fields: Vec<MintedField>,
    #[prost(message, repeated, tag = "3")]
    pub bases: Vec<MintedBase>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MintedBase {
    #[prost(uint32, tag = "1")]
    pub token: u32,
    #[prost(uint32, tag = "2")]
    pub id: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MintedFragment {
    #[prost(uint32, tag = "1")]
    pub token: u32,
    #[prost(uint32, tag = "2")]
    pub id: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MintedField {
    #[prost(uint32, tag = "1")]
    pub token: u32,
    #[prost(int32, tag = "2")]
    pub id: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CommitFacts {
    #[prost(uint32, tag = "1")]
    pub attempts: u32,
    #[prost(uint64, tag = "2")]
    pub rebased_over: u64,
    #[prost(uint64, tag = "3")]
    pub rows_carried: u64,
    #[prost(uint32, tag = "4")]
    pub vectors_merged: u32,
    #[prost(uint32, tag = "5")]
    pub groups_dropped: u32,
    #[prost(uint32, tag = "6")]
    pub reran: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FragmentRef {
    #[prost(oneof = "fragment_ref::Id", tags = "1, 2")]
    pub id: Option<fragment_ref::Id>,
}

pub(crate) mod fragment_ref {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Id {
        #[prost(uint32, tag = "1")]
        Committed(u32),
        #[prost(uint32, tag = "2")]
        Local(u32),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FieldRef {
    #[prost(oneof = "field_ref::Id", tags = "1, 2")]
    pub id: Option<field_ref::Id>,
}

pub(crate) mod field_ref {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Id {
        #[prost(int32, tag = "1")]
        Committed(i32),
        #[prost(uint32, tag = "2")]
        Local(u32),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct BaseRef {
    #[prost(oneof = "base_ref::Id", tags = "1, 2")]
    pub id: Option<base_ref::Id>,
}

pub(crate) mod base_ref {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Id {
        #[prost(uint32, tag = "1")]
        Committed(u32),
        #[prost(uint32, tag = "2")]
        Local(u32),
    }
}
