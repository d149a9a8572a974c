//! A lake: a folder of tables and the catalog that names them.
//!
//! ```text
//!   <lake>/_catalog/<v>.manifest     names -> folders
//!   <lake>/tables/<name>-<short id>/ one folder a table
//! ```
//!
//! Always holds: all sessions of a process on one lake share one log per table, and so its caches and its queue.

use crate::commit::catalog::CatalogLog;
use crate::commit::staged::remove;
use crate::commit::{Staged, attempt};
use crate::error::{Error, ErrorKind, Result, nearest_name};
use crate::manifest::catalog::{Catalog, CatalogEntry, TableName};
use crate::manifest::log::VersionLog;
use crate::store::path::FOLDERS;
use crate::store::{ObjectName, Store, env, new_table_folder};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The namespace of tables that are named without one.
pub const DEFAULT_NAMESPACE: &str = "public";
/// The folder of table folders.
const TABLES: &str = "tables";

/// A folder of tables. Clones share it.
#[derive(Debug, Clone)]
pub struct Lake {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    catalog: CatalogLog,
    logs: Mutex<HashMap<String, Arc<VersionLog>>>,
}

impl Lake {
    /// The lake in a local folder, which is created on the first write.
    pub fn open(folder: impl AsRef<Path>) -> Result<Lake> {
        Ok(Lake::new(Store::local(folder.as_ref())?))
    }

    /// A lake in memory, which is gone with its last clone.
    pub fn memory() -> Lake {
        Lake::new(Store::memory())
    }

    /// The lake in a store.
    pub fn new(store: Store) -> Lake {
        let inner = Inner { catalog: CatalogLog::new(store.clone()), store, logs: Mutex::default() };
        Lake { inner: Arc::new(inner) }
    }

    /// Where it is, for people.
    pub fn location(&self) -> &str {
        self.inner.store.label()
    }

    /// The names of its tables, as of the newest catalog.
    pub async fn table_names(&self) -> Result<Vec<String>> {
        let catalog = self.inner.catalog.newest().await?;
        Ok(names(&catalog))
    }

    /// The names of its tables as of the last catalog that was read.
    pub(super) fn known_table_names(&self) -> Vec<String> {
        names(&self.inner.catalog.known())
    }

    /// The versions of a table; `None` if there is no table of that name.
    pub async fn find(&self, name: &str) -> Result<Option<Arc<VersionLog>>> {
        let catalog = self.inner.catalog.newest().await?;
        Ok(catalog.tables.get(&qualified(name)).map(|entry| self.log(name, &entry.folder)))
    }

    /// The versions of a table.
    pub async fn table(&self, name: &str) -> Result<Arc<VersionLog>> {
        match self.find(name).await? {
            Some(log) => Ok(log),
            None => Err(self.unknown_table(name)),
        }
    }

    /// The error for a name that is no table's.
    pub(super) fn unknown_table(&self, name: &str) -> Error {
        let names = self.known_table_names();
        Error::UnknownTable { table: name.to_owned(), nearest: nearest_name(name, names.iter().map(String::as_str)) }
    }

    fn logs(&self) -> MutexGuard<'_, HashMap<String, Arc<VersionLog>>> {
        self.inner.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, name: &str, folder: &str) -> Arc<VersionLog> {
        let mut logs = self.logs();
        let log = logs.entry(folder.to_owned()).or_insert_with(|| Arc::new(VersionLog::new(name, self.inner.store.child(folder))));
        log.clone()
    }

    /// A folder for a table that is to be created, which nothing names yet.
    pub(super) fn new_table(&self, name: &str) -> NewTable {
        let folder = format!("{TABLES}/{}", new_table_folder(name));
        let log = VersionLog::new(name, self.inner.store.child(&folder));
        NewTable { name: name.to_owned(), folder, table_id: env::new_uuid().as_u128(), log: Arc::new(log) }
    }

    /// Commits the first version of a table and names it. The error is `TableExists` if the name was taken meanwhile. A table
    /// that is not named for certain is removed.
    pub(super) async fn create_table(&self, table: NewTable, staged: Staged) -> Result<u64> {
        let committed = attempt::publish_first(&table.log, Arc::new(staged), table.table_id).await?;
        let Some(version) = committed.version else {
            return Err(Error::internal(format!("table '{}' was made of nothing", table.name)));
        };
        // Before others can find the name, so that they find this log and make none of their own.
        self.logs().insert(table.folder.clone(), table.log.clone());
        let named = self.inner.catalog.change(|catalog| {
            let entry = CatalogEntry { folder: table.folder.clone(), table_id: table.table_id };
            match catalog.tables.insert(qualified(&table.name), entry) {
                None => Ok(()),
                Some(_) => Err(Error::TableExists { table: table.name.clone() }),
            }
        });
        if let Err(error) = named.await {
            if error.kind() != ErrorKind::Unknown {
                self.logs().remove(&table.folder);
                discard_table(table.log.store()).await;
            }
            return Err(error);
        }
        Ok(version)
    }

    /// Takes a table out of the catalog. Its folder stays, so that readers of it can end.
    pub async fn drop_table(&self, name: &str) -> Result<()> {
        self.drop_tables(&[name.to_owned()]).await
    }

    /// Takes tables out of the catalog: all of them, or none if one does not exist.
    pub async fn drop_tables(&self, names: &[String]) -> Result<()> {
        let before = self.inner.catalog.newest().await?;
        let dropped = self.inner.catalog.change(|catalog| {
            for name in names {
                catalog.tables.remove(&qualified(name)).ok_or_else(|| self.unknown_table(name))?;
            }
            Ok(())
        });
        dropped.await?;
        // Views and prepared statements of this process may still hold the table.
        for entry in names.iter().filter_map(|name| before.tables.get(&qualified(name))) {
            if let Some(log) = self.logs().remove(&entry.folder) {
                log.drop_table();
            }
        }
        Ok(())
    }
}

/// A table that is being created.
#[derive(Debug)]
pub(super) struct NewTable {
    pub(super) name: String,
    pub(super) folder: String,
    pub(super) table_id: u128,
    pub(super) log: Arc<VersionLog>,
}

/// Removes a table that no catalog names. Best effort.
async fn discard_table(store: &Store) {
    for folder in FOLDERS {
        match store.list(folder).await {
            Ok(entries) => {
                let objects: Vec<ObjectName> = entries.iter().filter_map(|entry| ObjectName::parse(&entry.name).ok()).collect();
                remove(store, &objects).await;
            }
            Err(error) => tracing::warn!(%error, folder = store.label(), "could not remove a table that was not created"),
        }
    }
}

fn qualified(name: &str) -> TableName {
    TableName { namespace: DEFAULT_NAMESPACE.to_owned(), name: name.to_owned() }
}

fn names(catalog: &Catalog) -> Vec<String> {
    catalog.tables.keys().map(|table| table.name.clone()).collect()
}
