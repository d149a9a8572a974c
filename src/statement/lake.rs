//! A lake: a folder of tables and the catalog that names them. What changes names only is in `lake/naming.rs`.
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
pub use crate::manifest::catalog::DEFAULT_NAMESPACE;
use crate::manifest::catalog::{Catalog, CatalogEntry, TableName};
use crate::manifest::log::VersionLog;
use crate::store::path::FOLDERS;
use crate::store::{ObjectName, Store, env, new_table_folder};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) mod naming;

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
    pub async fn table_names(&self) -> Result<Vec<TableName>> {
        Ok(self.catalog().await?.tables.keys().cloned().collect())
    }

    /// The newest catalog.
    pub(super) async fn catalog(&self) -> Result<Arc<Catalog>> {
        self.inner.catalog.newest().await
    }

    /// The last catalog that was read.
    pub(super) fn known_catalog(&self) -> Arc<Catalog> {
        self.inner.catalog.known()
    }

    /// Whether its catalog was looked for at all.
    pub(super) fn was_read(&self) -> bool {
        self.inner.catalog.was_read()
    }

    /// The versions of a table; `None` if there is no table of that name. A text is a name in the namespace `public`.
    pub async fn find(&self, name: impl Into<TableName>) -> Result<Option<Arc<VersionLog>>> {
        let name = name.into();
        let catalog = self.catalog().await?;
        Ok(catalog.tables.get(&name).map(|entry| self.log(&name, &entry.folder)))
    }

    /// The versions of a table. A text is a name in the namespace `public`.
    pub async fn table(&self, name: impl Into<TableName>) -> Result<Arc<VersionLog>> {
        let name = name.into();
        match self.find(&name).await? {
            Some(log) => Ok(log),
            None => Err(self.no_table(&name)),
        }
    }

    /// Whether a table or a view has the name. An error if its namespace is not there.
    pub(super) async fn is_taken(&self, name: &TableName) -> Result<bool> {
        match naming::check_free(&*self.catalog().await?, name) {
            Ok(()) => Ok(false),
            Err(Error::TableExists { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The error for a name that is no table's.
    pub(super) fn no_table(&self, name: &TableName) -> Error {
        let catalog = self.known_catalog();
        if catalog.views.contains_key(name) {
            return naming::is_a_view(name);
        }
        let names: Vec<String> = catalog.tables.keys().chain(catalog.views.keys()).map(TableName::to_string).collect();
        let name = name.to_string();
        Error::UnknownTable { nearest: nearest_name(&name, names.iter().map(String::as_str)), table: name }
    }

    /// An error, with the nearest name that there is if it is DataFusion's and about a name.
    pub(super) fn explained(&self, error: Error) -> Error {
        let Error::Engine { message, sqlstate: "42P01", .. } = &error else { return error };
        let Some((name, _)) = message.split("table '").nth(1).and_then(|rest| rest.split_once("' not found")) else { return error };
        match name.splitn(3, '.').collect::<Vec<_>>().as_slice() {
            [_, namespace, table] => self.no_table(&TableName::new(*namespace, *table)),
            _ => self.no_table(&name.into()),
        }
    }

    /// Whether the catalog still names the folder of a table, whatever the table is called by now.
    pub(super) async fn has(&self, log: &VersionLog) -> Result<bool> {
        Ok(self.catalog().await?.tables.values().any(|entry| log.store().label().ends_with(&entry.folder)))
    }

    fn logs(&self) -> MutexGuard<'_, HashMap<String, Arc<VersionLog>>> {
        lock(&self.inner.logs)
    }

    fn log(&self, name: &TableName, folder: &str) -> Arc<VersionLog> {
        let name = name.to_string();
        let mut logs = self.logs();
        let log = logs.entry(folder.to_owned()).or_insert_with(|| Arc::new(VersionLog::new(&name, self.inner.store.child(folder))));
        // Another process may have renamed it.
        log.rename(&name);
        log.clone()
    }

    /// A folder for a table that is to be created, which nothing names yet.
    pub(super) fn new_table(&self, name: &TableName) -> NewTable {
        let folder = format!("{TABLES}/{}", new_table_folder(&name.name));
        let log = VersionLog::new(name.to_string(), self.inner.store.child(&folder));
        lock(&self.inner.creating).insert(folder.clone());
        let creating = Creating { lake: self.clone(), folder: folder.clone() };
        NewTable { name: name.clone(), folder, table_id: env::new_uuid().as_u128(), log: Arc::new(log), _creating: creating }
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
            naming::check_free(catalog, &table.name)?;
            let entry = CatalogEntry { folder: table.folder.clone(), table_id: table.table_id };
            catalog.tables.insert(table.name.clone(), entry);
            Ok(())
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
    pub(super) async fn vacuum(&self, table: Option<&TableName>, retain_ms: u64, dry_run: bool, statement: &str) -> Result<Vec<Removal>> {
        let catalog = self.catalog().await?;
        let wanted: Vec<(&TableName, &CatalogEntry)> = match table {
            None => catalog.tables.iter().collect(),
            Some(name) => vec![(name, catalog.tables.get(name).ok_or_else(|| self.no_table(name))?)],
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
}

/// A table that is being created.
#[derive(Debug)]
pub(super) struct NewTable {
    pub(super) name: TableName,
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
