//! The catalog of a lake: which table folder a name stands for. A versioned object like a manifest, published the same
//! way.
//!
//! Always holds: a name stands for one folder and a folder has one name; the transaction that made a catalog version is
//! in it, so that a writer who got no answer can find out whether the version is his.

use super::check::check_path;
use super::decode::{DEFAULT_LIMITS, DecodeError, Limits, message};
use super::encode::{EncodeError, same};
use super::frame::{self, Kind};
use super::record::{id_from_wire, id_to_wire};
use super::{shape, wire};
use crate::txn::composite::TransactionId;
use bytes::Bytes;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

/// A version of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// The version, counted from 1.
    pub version: u64,
    /// The tables by name.
    pub tables: BTreeMap<TableName, CatalogEntry>,
    /// The change that made this version.
    pub transaction: TransactionId,
    /// When it was written, in milliseconds since 1970 UTC by the writer's clock. Informative.
    pub time_ms: u64,
    /// The program that wrote it.
    pub writer: String,
}

/// A table's name: `namespace.name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    /// The namespace (SQL calls it a schema).
    pub namespace: String,
    /// The name in it.
    pub name: String,
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// The table's folder within the lake folder.
    pub folder: String,
    /// The table's identity, which its manifests repeat.
    pub table_id: u128,
}

/// The object of a catalog version.
pub fn encode_catalog(catalog: &Catalog) -> Result<Bytes, EncodeError> {
    let entries = catalog.tables.iter().map(|(name, entry)| wire::CatalogEntry {
        namespace: name.namespace.clone(),
        name: name.name.clone(),
        folder: entry.folder.clone(),
        table_id: id_to_wire(entry.table_id),
    });
    let message = wire::Catalog {
        version: catalog.version,
        time_ms: catalog.time_ms,
        writer: catalog.writer.clone(),
        transaction: id_to_wire(catalog.transaction.0),
        entries: entries.collect(),
    };
    let bytes = frame::seal(Kind::Catalog, &message.encode_to_vec());
    same(&decode_catalog(&bytes, &DEFAULT_LIMITS)?, catalog, "tables")?;
    Ok(bytes)
}

/// The catalog in an object; the caller holds its version against the object's name.
pub fn decode_catalog(object: &[u8], limits: &Limits) -> Result<Catalog, DecodeError> {
    let payload = frame::open(Kind::Catalog, object, limits.manifest_bytes)?;
    let catalog: wire::Catalog = message(payload, &shape::CATALOG)?;
    if catalog.version == 0 || catalog.version == u64::MAX {
        return Err(DecodeError::damaged(format!("version {}, which cannot be", catalog.version)));
    }
    let mut tables = BTreeMap::new();
    let mut folders = BTreeSet::new();
    for entry in catalog.entries {
        check_path(&entry.folder).map_err(DecodeError::Damaged)?;
        let name = TableName { namespace: entry.namespace, name: entry.name };
        if tables.last_key_value().is_some_and(|(last, _)| *last >= name) || !folders.insert(entry.folder.clone()) {
            let reason = format!("table '{}.{}' is out of order or shares a folder", name.namespace, name.name);
            return Err(DecodeError::Damaged(reason));
        }
        tables.insert(name, CatalogEntry { folder: entry.folder, table_id: id_from_wire(&entry.table_id)? });
    }
    Ok(Catalog {
        version: catalog.version,
        tables,
        transaction: TransactionId(id_from_wire(&catalog.transaction)?),
        time_ms: catalog.time_ms,
        writer: catalog.writer,
    })
}
