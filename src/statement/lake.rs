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
use crate::maintain::dropped::remove_dropped;
use crate::maintain::vacuum::vacuum;
use crate::maintain::{Removal, Retention};
use crate::manifest::catalog::{Catalog, CatalogEntry, TableName};
use crate::manifest::log::VersionLog;
use crate::store::path::FOLDERS;
use crate::store::{ObjectName, Store, env, new_table_folder};
use std::collections::{HashMap, HashSet};
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
    /// The folders of tables that are being created, which nothing names yet.
    creating: Mutex<HashSet<String>>,
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
        let inner = Inner { catalog: CatalogLog::new(store.clone()), store, logs: Mutex::default(), creating: Mutex::default() };
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
        lock(&self.inner.logs)
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
        lock(&self.inner.creating).insert(folder.clone());
        let creating = Creating { lake: self.clone(), folder: folder.clone() };
        NewTable { name: name.to_owned(), folder, table_id: env::new_uuid().as_u128(), log: Arc::new(log), _creating: creating }
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

    /// Removes from a table, or from all tables and the folders of dropped ones, what is not needed. What was removed, by name
    /// within the lake.
    pub(super) async fn vacuum(&self, table: Option<&str>, retain_ms: u64, dry_run: bool, statement: &str) -> Result<Vec<Removal>> {
        let catalog = self.inner.catalog.newest().await?;
        let wanted: Vec<(&str, &CatalogEntry)> = match table {
            None => catalog.tables.iter().map(|(name, entry)| (name.name.as_str(), entry)).collect(),
            Some(name) => vec![(name, catalog.tables.get(&qualified(name)).ok_or_else(|| self.unknown_table(name))?)],
        };
        // Whoever only asks leaves nothing.
        let ahead_ms = if dry_run { 0 } else { self.inner.store.clock_ahead_ms().await? };
        let retention = Retention { retain_ms, ahead_ms, dry_run };
        let mut removed = Vec::new();
        for (name, entry) in wanted {
            let log = self.log(name, &entry.folder);
            let vacuumed = match vacuum(&log, retention, statement).await {
                // Dropped in the meantime.
                Err(Error::UnknownTable { .. }) if table.is_none() => continue,
                vacuumed => vacuumed?,
            };
            let within = |removal: Removal| Removal { path: format!("{}/{}", entry.folder, removal.path), ..removal };
            removed.extend(vacuumed.removed.into_iter().map(within));
        }
        if table.is_none() {
            let in_use = |folder: &str| lock(&self.inner.creating).contains(folder);
            removed.extend(remove_dropped(&self.inner.store, &self.inner.catalog, TABLES, in_use, retention).await?);
        }
        Ok(removed)
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
    _creating: Creating,
}

/// Keeps the folder of a table that is being created.
#[derive(Debug)]
struct Creating {
    lake: Lake,
    folder: String,
}

impl Drop for Creating {
    fn drop(&mut self) {
        lock(&self.lake.inner.creating).remove(&self.folder);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
