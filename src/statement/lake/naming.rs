//! Changes of names: tables are renamed and dropped, namespaces and views come and go. Each is one version of the catalog; no table
//! is touched.
//!
//! Always holds: a name stands for one table or view, in a namespace that is there; a change is made whole or not at all; a handle
//! on a table follows the table, whatever it is called.

use super::{Lake, lock};
use crate::error::{Error, Result, nearest_name};
use crate::manifest::catalog::{Catalog, DEFAULT_NAMESPACE, StoredView, TableName};
use datafusion::catalog::information_schema::INFORMATION_SCHEMA;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// What ALTER .. RENAME was said of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renamed {
    /// ALTER TABLE, which may be a view's too.
    Relation,
    /// ALTER VIEW.
    View,
}

/// What became of CREATE VIEW.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfThere {
    /// It is an error.
    Refuse,
    /// The view that is there stays.
    Keep,
    /// The view that is there goes.
    Replace,
}

impl Lake {
    /// Takes a table out of the catalog. Its folder stays, so that readers of it can end. A text is a name in the namespace `public`.
    pub async fn drop_table(&self, name: impl Into<TableName>) -> Result<()> {
        self.drop_tables(&BTreeSet::from([name.into()]), false).await
    }

    /// Takes tables out of the catalog: all of them, or none if one does not exist, which with `if_exists` is no error.
    pub async fn drop_tables(&self, names: &BTreeSet<TableName>, if_exists: bool) -> Result<()> {
        // Of the last attempt, which landed.
        let gone = Mutex::<Vec<String>>::default();
        let dropped = self.inner.catalog.change(|catalog| {
            let mut folders = Vec::new();
            for name in names {
                match catalog.tables.remove(name) {
                    Some(entry) => folders.push(entry.folder),
                    None if catalog.views.contains_key(name) => return Err(is_a_view(name)),
                    None if if_exists => {}
                    None => return Err(self.no_table(name)),
                }
            }
            *lock(&gone) = folders;
            Ok(())
        });
        dropped.await?;
        self.let_go(&lock(&gone));
        Ok(())
    }

    /// Views and prepared statements of this process may still hold tables that were dropped.
    fn let_go(&self, folders: &[String]) {
        for folder in folders {
            if let Some(log) = self.logs().remove(folder) {
                log.drop_table();
            }
        }
    }

    /// Gives a table, or a view, another name. Whoever holds the table goes on with it.
    pub async fn rename(&self, from: &TableName, to: &TableName, what: Renamed) -> Result<()> {
        let renamed = self.inner.catalog.change(|catalog| {
            if what == Renamed::View && catalog.tables.contains_key(from) {
                return Err(Error::refused("42809", format!("'{from}' is a table and no view; say ALTER TABLE")));
            }
            if !catalog.tables.contains_key(from) && !catalog.views.contains_key(from) {
                return Err(self.no_table(from));
            }
            check_free(catalog, to)?;
            if let Some(entry) = catalog.tables.remove(from) {
                catalog.tables.insert(to.clone(), entry);
            }
            if let Some(view) = catalog.views.remove(from) {
                catalog.views.insert(to.clone(), view);
            }
            Ok(())
        });
        let renamed = renamed.await?;
        if let Some(entry) = renamed.tables.get(to)
            && let Some(log) = self.logs().get(&entry.folder)
        {
            log.rename(&to.to_string());
        }
        Ok(())
    }

    /// The namespaces, `public` first.
    pub async fn namespaces(&self) -> Result<Vec<String>> {
        Ok(self.catalog().await?.all_namespaces().map(str::to_owned).collect())
    }

    /// Makes a namespace. Whether it was not there.
    pub async fn create_namespace(&self, namespace: &str, if_not_exists: bool) -> Result<bool> {
        let exists = || Error::refused("42P06", format!("schema '{namespace}' already exists"));
        if namespace == INFORMATION_SCHEMA || namespace.is_empty() {
            return Err(if namespace.is_empty() { Error::invalid("a schema needs a name") } else { exists() });
        }
        if if_not_exists && self.catalog().await?.has_namespace(namespace) {
            return Ok(false);
        }
        let created = self.inner.catalog.change(|catalog| match catalog.has_namespace(namespace) {
            true => Err(exists()),
            false => {
                catalog.namespaces.insert(namespace.to_owned());
                Ok(())
            }
        });
        match created.await {
            Ok(_) => Ok(true),
            Err(Error::Refused { sqlstate: "42P06", .. }) if if_not_exists => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes a namespace; with `cascade` also what is in it, otherwise it must be empty.
    pub async fn drop_namespace(&self, namespace: &str, cascade: bool) -> Result<()> {
        if namespace == DEFAULT_NAMESPACE {
            return Err(Error::unsupported(format!("DROP SCHEMA '{namespace}'"), Some("it is always there; DROP its tables")));
        }
        // Of the last attempt, which landed.
        let gone = Mutex::<Vec<String>>::default();
        let dropped = self.inner.catalog.change(|catalog| {
            if !catalog.namespaces.remove(namespace) {
                return Err(no_namespace(catalog, namespace));
            }
            let names: Vec<TableName> = catalog.names_in(namespace).into_iter().cloned().collect();
            if let (false, Some(first)) = (cascade, names.first()) {
                let rest = match names.len() {
                    1 => String::new(),
                    all => format!(" and {} more", all - 1),
                };
                let reason = format!("schema '{namespace}' holds '{}'{rest}; DROP SCHEMA .. CASCADE drops them too", first.name);
                return Err(Error::refused("2BP01", reason));
            }
            let mut folders = Vec::new();
            for name in names {
                catalog.views.remove(&name);
                folders.extend(catalog.tables.remove(&name).map(|entry| entry.folder));
            }
            *lock(&gone) = folders;
            Ok(())
        });
        dropped.await?;
        self.let_go(&lock(&gone));
        Ok(())
    }

    /// Keeps a view under a name. Whether it was kept.
    pub(in crate::statement) async fn create_view(&self, name: &TableName, view: &StoredView, if_there: IfThere) -> Result<bool> {
        let created = self.inner.catalog.change(|catalog| {
            if if_there == IfThere::Replace && catalog.tables.contains_key(name) {
                return Err(no_view_replaces(name));
            }
            if if_there != IfThere::Replace || !catalog.views.contains_key(name) {
                check_free(catalog, name)?;
            }
            catalog.views.insert(name.clone(), view.clone());
            Ok(())
        });
        match created.await {
            Ok(_) => Ok(true),
            Err(Error::TableExists { .. }) if if_there == IfThere::Keep => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Takes views out of the catalog: all of them, or none if one does not exist, which with `if_exists` is no error.
    pub(in crate::statement) async fn drop_views(&self, names: &BTreeSet<TableName>, if_exists: bool) -> Result<()> {
        let dropped = self.inner.catalog.change(|catalog| {
            for name in names {
                if catalog.tables.contains_key(name) {
                    return Err(is_a_table(name));
                }
                if catalog.views.remove(name).is_none() && !if_exists {
                    return Err(no_view(name));
                }
            }
            Ok(())
        });
        dropped.await.map(drop)
    }
}

/// Refuses a name that is taken, or whose namespace is not there.
pub(super) fn check_free(catalog: &Catalog, name: &TableName) -> Result<()> {
    if !catalog.has_namespace(&name.namespace) {
        return Err(no_namespace(catalog, &name.namespace));
    }
    match catalog.tables.contains_key(name) || catalog.views.contains_key(name) {
        true => Err(Error::TableExists { table: name.to_string() }),
        false => Ok(()),
    }
}

/// The error for a namespace that is not there.
pub(in crate::statement) fn no_namespace(catalog: &Catalog, namespace: &str) -> Error {
    let nearest = nearest_name(namespace, catalog.all_namespaces());
    let nearest = nearest.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default();
    Error::refused("3F000", format!("schema '{namespace}' does not exist{nearest}"))
}

/// The error for a view where a table has to be.
pub(in crate::statement) fn is_a_view(name: &TableName) -> Error {
    Error::refused("42809", format!("'{name}' is a view and no table"))
}

/// The error for a table where a view has to be.
pub(in crate::statement) fn is_a_table(name: &TableName) -> Error {
    Error::refused("42809", format!("'{name}' is a table and no view; say DROP TABLE"))
}

/// The error for a view that is not there.
pub(in crate::statement) fn no_view(name: &TableName) -> Error {
    Error::refused("42P01", format!("view '{name}' does not exist"))
}

/// The error for a table that a view was to replace.
pub(in crate::statement) fn no_view_replaces(name: &TableName) -> Error {
    Error::refused("42809", format!("'{name}' is a table and no view, so no view can replace it"))
}
