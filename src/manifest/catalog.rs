//! The catalog of a lake: which table folder a name stands for, which namespaces there are, and which views. A versioned object
//! like a manifest, published the same way.
//!
//! Always holds: a name stands for one folder or for one view, and a folder has one name; the namespace of every name is
//! there; the transaction that made a catalog version is in it, so that a writer who got no answer can find out whether the
//! version is his.

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
use std::fmt;

/// The namespace of tables that are named without one. It is always there.
pub const DEFAULT_NAMESPACE: &str = "public";

/// A version of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// The version, counted from 1.
    pub version: u64,
    /// The tables by name.
    pub tables: BTreeMap<TableName, CatalogEntry>,
    /// The namespaces beside [`DEFAULT_NAMESPACE`].
    pub namespaces: BTreeSet<String>,
    /// The views by name.
    pub views: BTreeMap<TableName, StoredView>,
    /// The change that made this version.
    pub transaction: TransactionId,
    /// When it was written, in milliseconds since 1970 UTC by the writer's clock. Informative.
    pub time_ms: u64,
    /// The program that wrote it.
    pub writer: String,
}

impl Catalog {
    /// Whether a namespace is there.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        namespace == DEFAULT_NAMESPACE || self.namespaces.contains(namespace)
    }

    /// The namespaces, the one that is always there first.
    pub fn all_namespaces(&self) -> impl Iterator<Item = &str> {
        std::iter::once(DEFAULT_NAMESPACE).chain(self.namespaces.iter().map(String::as_str))
    }

    /// The names of the tables and views in a namespace.
    pub fn names_in(&self, namespace: &str) -> Vec<&TableName> {
        self.tables.keys().chain(self.views.keys()).filter(|name| name.namespace == namespace).collect()
    }
}

/// A table's or a view's name: `namespace.name`. Errors show it without the namespace where that is [`DEFAULT_NAMESPACE`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    /// The namespace (SQL calls it a schema).
    pub namespace: String,
    /// The name in it.
    pub name: String,
}

impl TableName {
    /// A name in a namespace.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        TableName { namespace: namespace.into(), name: name.into() }
    }

    /// Another name in the same namespace.
    pub fn sibling(&self, name: impl Into<String>) -> Self {
        TableName::new(self.namespace.clone(), name)
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            DEFAULT_NAMESPACE => f.write_str(&self.name),
            namespace => write!(f, "{namespace}.{}", self.name),
        }
    }
}

/// A name in the namespace [`DEFAULT_NAMESPACE`], to the letter.
impl From<&str> for TableName {
    fn from(name: &str) -> Self {
        TableName::new(DEFAULT_NAMESPACE, name)
    }
}

impl From<&String> for TableName {
    fn from(name: &String) -> Self {
        TableName::from(name.as_str())
    }
}

impl From<&TableName> for TableName {
    fn from(name: &TableName) -> Self {
        name.clone()
    }
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// The table's folder within the lake folder.
    pub folder: String,
    /// The table's identity, which its manifests repeat.
    pub table_id: u128,
}

/// A view: a query under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredView {
    /// Its text.
    pub query: String,
    /// New names of its first columns.
    pub columns: Vec<String>,
    /// The namespace of what it names without one.
    pub search_namespace: String,
    /// The settings of the parser that reads it, where they are not those that it has by itself.
    pub settings: BTreeMap<String, String>,
}

/// The object of a catalog version.
pub fn encode_catalog(catalog: &Catalog) -> Result<Bytes, EncodeError> {
    let entries = catalog.tables.iter().map(|(name, entry)| wire::CatalogEntry {
        namespace: name.namespace.clone(),
        name: name.name.clone(),
        folder: entry.folder.clone(),
        table_id: id_to_wire(entry.table_id),
    });
    let views = catalog.views.iter().map(|(name, view)| wire::CatalogView {
        namespace: name.namespace.clone(),
        name: name.name.clone(),
        query: view.query.clone(),
        columns: view.columns.clone(),
        search_namespace: view.search_namespace.clone(),
        settings: view.settings.clone(),
    });
    let message = wire::Catalog {
        version: catalog.version,
        time_ms: catalog.time_ms,
        writer: catalog.writer.clone(),
        transaction: id_to_wire(catalog.transaction.0),
        entries: entries.collect(),
        namespaces: catalog.namespaces.iter().cloned().collect(),
        views: views.collect(),
    };
    let bytes = frame::seal(Kind::Catalog, &message.encode_to_vec());
    same(&decode_catalog(&bytes, &DEFAULT_LIMITS)?, catalog, "names")?;
    Ok(bytes)
}

/// The catalog in an object; the caller holds its version against the object's name.
pub fn decode_catalog(object: &[u8], limits: &Limits) -> Result<Catalog, DecodeError> {
    let payload = frame::open(Kind::Catalog, object, limits.manifest_bytes)?;
    let message: wire::Catalog = message(payload, &shape::CATALOG)?;
    if message.version == 0 || message.version == u64::MAX {
        return Err(DecodeError::damaged(format!("version {}, which cannot be", message.version)));
    }
    let mut catalog = Catalog {
        version: message.version,
        tables: BTreeMap::new(),
        namespaces: BTreeSet::new(),
        views: BTreeMap::new(),
        transaction: TransactionId(id_from_wire(&message.transaction)?),
        time_ms: message.time_ms,
        writer: message.writer,
    };
    for namespace in message.namespaces {
        if namespace == DEFAULT_NAMESPACE || catalog.namespaces.last().is_some_and(|last| *last >= namespace) {
            return Err(DecodeError::damaged(format!("namespace '{namespace}' is out of order")));
        }
        catalog.namespaces.insert(namespace);
    }
    let mut folders = BTreeSet::new();
    for entry in message.entries {
        check_path(&entry.folder).map_err(DecodeError::Damaged)?;
        let name = TableName::new(entry.namespace, entry.name);
        if catalog.tables.last_key_value().is_some_and(|(last, _)| *last >= name) || !folders.insert(entry.folder.clone()) {
            return Err(DecodeError::damaged(format!("table '{name}' is out of order or shares a folder")));
        }
        check_namespace(&catalog, &name)?;
        catalog.tables.insert(name, CatalogEntry { folder: entry.folder, table_id: id_from_wire(&entry.table_id)? });
    }
    for view in message.views {
        let name = TableName::new(view.namespace, view.name);
        if catalog.views.last_key_value().is_some_and(|(last, _)| *last >= name) || catalog.tables.contains_key(&name) {
            return Err(DecodeError::damaged(format!("view '{name}' is out of order or has the name of a table")));
        }
        check_namespace(&catalog, &name)?;
        let (query, columns, search_namespace, settings) = (view.query, view.columns, view.search_namespace, view.settings);
        catalog.views.insert(name, StoredView { query, columns, search_namespace, settings });
    }
    Ok(catalog)
}

fn check_namespace(catalog: &Catalog, name: &TableName) -> Result<(), DecodeError> {
    match catalog.has_namespace(&name.namespace) {
        true => Ok(()),
        false => Err(DecodeError::damaged(format!("'{}.{}' is in a namespace that is not there", name.namespace, name.name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(folder: &str) -> wire::CatalogEntry {
        wire::CatalogEntry { namespace: "s".into(), name: "t".into(), folder: folder.into(), table_id: id_to_wire(1) }
    }

    fn view(namespace: &str, name: &str) -> wire::CatalogView {
        wire::CatalogView { namespace: namespace.into(), name: name.into(), query: "SELECT 1".into(), ..wire::CatalogView::default() }
    }

    fn message() -> wire::Catalog {
        wire::Catalog {
            version: 1,
            time_ms: 0,
            writer: String::new(),
            transaction: id_to_wire(1),
            entries: vec![entry("tables/t")],
            namespaces: vec!["a".into(), "s".into()],
            views: vec![view("public", "v"), view("s", "v")],
        }
    }

    fn read(message: &wire::Catalog) -> Result<Catalog, DecodeError> {
        decode_catalog(&frame::seal(Kind::Catalog, &message.encode_to_vec()), &DEFAULT_LIMITS)
    }

    #[test]
    fn what_must_hold_of_names_is_checked() {
        assert!(read(&message()).is_ok());
        type Change = fn(&mut wire::Catalog);
        let cases: [(&str, Change); 8] = [
            ("namespace 's' is out of order", |catalog| catalog.namespaces = vec!["t".into(), "s".into()]),
            ("namespace 's' is out of order", |catalog| catalog.namespaces = vec!["s".into(), "s".into()]),
            ("namespace 'public' is out of order", |catalog| catalog.namespaces = vec!["public".into(), "s".into()]),
            ("'s.t' is in a namespace that is not there", |catalog| catalog.namespaces = vec!["a".into()]),
            ("'b.v' is in a namespace that is not there", |catalog| catalog.views = vec![view("b", "v")]),
            ("view 'v' is out of order", |catalog| catalog.views = vec![view("s", "v"), view("public", "v")]),
            ("view 's.t' is out of order or has the name of a table", |catalog| catalog.views = vec![view("s", "t")]),
            ("shares a folder", |catalog| {
                let mut other = entry("tables/t");
                other.name = "u".into();
                catalog.entries.push(other);
            }),
        ];
        for (reason, change) in cases {
            let mut changed = message();
            change(&mut changed);
            let error = read(&changed).unwrap_err();
            assert!(matches!(&error, DecodeError::Damaged(found) if found.contains(reason)), "{reason}: {error:?}");
        }
    }

    #[test]
    fn what_is_new_in_a_catalog_stops_an_older_reader() {
        let mut payload = message().encode_to_vec();
        // Field 8, a text of one byte.
        payload.extend([8 << 3 | 2, 1, b'x']);
        let error = decode_catalog(&frame::seal(Kind::Catalog, &payload), &DEFAULT_LIMITS).unwrap_err();
        assert!(matches!(error, DecodeError::Unknown(_)), "{error:?}");
    }

    #[test]
    fn a_lake_of_tables_alone_is_written_as_before() {
        let mut catalog = read(&message()).unwrap();
        catalog.namespaces.clear();
        catalog.views.clear();
        let (_, table) = catalog.tables.pop_first().unwrap();
        catalog.tables.insert("t".into(), table);
        let bytes = encode_catalog(&catalog).unwrap();
        let payload = frame::open(Kind::Catalog, &bytes, u64::MAX).unwrap();
        let read: wire::Catalog = super::message(payload, &shape::CATALOG).unwrap();
        assert_eq!((read.namespaces.len(), read.views.len(), read.entries.len()), (0, 0, 1));
    }
}
