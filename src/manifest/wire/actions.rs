//! The messages of actions: what a transaction is made of. The rules of the other messages hold here too.

use super::{BaseRef, DataFile, DeletionFile, FieldRef, FragmentRef, StatValue};
use bytes::Bytes;
use prost::{Message, Oneof};
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Action {
    #[prost(oneof = "ActionKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 17, 18, 19, 21")]
    pub kind: Option<ActionKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum ActionKind {
    #[prost(message, tag = "1")]
    AddFragment(AddFragment),
    #[prost(message, tag = "2")]
    AddDataFile(AddDataFile),
    #[prost(message, tag = "3")]
    AddField(AddField),
    #[prost(message, tag = "4")]
    AddBase(AddBase),
    #[prost(message, tag = "5")]
    TombstoneFieldData(TombstoneFieldData),
    #[prost(message, tag = "6")]
    RemoveFragment(RemoveFragment),
    #[prost(message, tag = "7")]
    SetDeletionFile(SetDeletionFile),
    #[prost(message, tag = "8")]
    ConfigUpdate(ConfigUpdate),
    #[prost(message, tag = "12")]
    DropField(DropField),
    #[prost(message, tag = "13")]
    AlterField(AlterField),
    #[prost(message, tag = "17")]
    ResetTable(ResetTable),
    #[prost(message, tag = "18")]
    ReserveFragmentIds(ReserveFragmentIds),
    #[prost(message, tag = "19")]
    AssertUniqueKeys(AssertUniqueKeys),
    #[prost(message, tag = "21")]
    ChangeOfAddress(ChangeOfAddress),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AddFragment {
    #[prost(message, optional, tag = "1")]
    pub id: Option<FragmentRef>,
    #[prost(uint32, tag = "2")]
    pub physical_rows: u32,
    #[prost(bool, tag = "3")]
    pub data_change: bool,
    #[prost(bytes = "bytes", tag = "4")]
    pub replacing: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AddDataFile {
    #[prost(message, optional, tag = "1")]
    pub fragment: Option<FragmentRef>,
    #[prost(message, optional, tag = "2")]
    pub file: Option<DataFile>,
    #[prost(message, repeated, tag = "3")]
    pub fields: Vec<FieldRef>,
    #[prost(bool, tag = "4")]
    pub data_change: bool,
    #[prost(message, optional, tag = "5")]
    pub base: Option<BaseRef>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AddField {
    #[prost(message, optional, tag = "1")]
    pub id: Option<FieldRef>,
    #[prost(message, optional, tag = "2")]
    pub parent: Option<FieldRef>,
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
    #[prost(message, optional, tag = "8")]
    pub in_place_of: Option<FieldRef>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RemoveFragment {
    #[prost(message, optional, tag = "1")]
    pub fragment: Option<FragmentRef>,
    #[prost(bool, tag = "2")]
    pub data_change: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SetDeletionFile {
    #[prost(message, optional, tag = "1")]
    pub fragment: Option<FragmentRef>,
    #[prost(message, optional, tag = "2")]
    pub vector: Option<DeletionFile>,
    #[prost(bytes = "bytes", tag = "3")]
    pub added: Bytes,
    #[prost(enumeration = "Replaced", tag = "4")]
    pub replaced: i32,
    #[prost(bytes = "bytes", tag = "5")]
    pub replaced_rows: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DropField {
    #[prost(message, optional, tag = "1")]
    pub field: Option<FieldRef>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AlterField {
    #[prost(message, optional, tag = "1")]
    pub field: Option<FieldRef>,
    #[prost(message, optional, tag = "2")]
    pub parent: Option<FieldRef>,
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub r#type: Option<String>,
    #[prost(bool, optional, tag = "5")]
    pub nullable: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AddBase {
    #[prost(uint32, tag = "1")]
    pub token: u32,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(string, tag = "3")]
    pub location: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TombstoneFieldData {
    #[prost(message, optional, tag = "1")]
    pub fragment: Option<FragmentRef>,
    #[prost(message, repeated, tag = "2")]
    pub fields: Vec<FieldRef>,
    #[prost(bool, tag = "3")]
    pub data_change: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ConfigUpdate {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<ConfigEntry>,
    #[prost(bool, tag = "2")]
    pub replace: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ConfigEntry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResetTable {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ReserveFragmentIds {
    #[prost(uint32, tag = "1")]
    pub count: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AssertUniqueKeys {
    #[prost(message, repeated, tag = "1")]
    pub fields: Vec<FieldRef>,
    #[prost(uint32, tag = "2")]
    pub scheme: u32,
    #[prost(fixed64, repeated, tag = "3")]
    pub hashes: Vec<u64>,
}

/// Which of the deleted rows live on elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Replaced {
    Unspecified = 0,
    None = 1,
    All = 2,
    Some = 3,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ChangeOfAddress {
    #[prost(message, repeated, tag = "1")]
    pub sources: Vec<FragmentRef>,
    #[prost(message, repeated, tag = "2")]
    pub targets: Vec<FragmentRef>,
    #[prost(message, optional, tag = "3")]
    pub map: Option<MapLocation>,
    #[prost(string, optional, tag = "1000")]
    pub order: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MapLocation {
    #[prost(oneof = "map_location::Place", tags = "1, 2")]
    pub place: Option<map_location::Place>,
}

pub(crate) mod map_location {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(crate) enum Place {
        #[prost(bytes = "bytes", tag = "1")]
        Inline(bytes::Bytes),
        #[prost(message, tag = "2")]
        Object(super::MapObject),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MapObject {
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(uint64, tag = "2")]
    pub size_bytes: u64,
    #[prost(fixed32, tag = "3")]
    pub crc32c: u32,
}
