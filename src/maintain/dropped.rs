//! Folders of tables that no catalog names: dropped tables, and those of a CREATE TABLE that did not come to its end.
//!
//! Always holds: a folder that the newest catalog names stays; one that it does not name stays until the table has been
//! dropped for as long as is asked for, and until nothing was written to it for so long.

use super::{DROPPED, Removal, Retention, remove_all};
use crate::commit::catalog::CatalogLog;
use crate::error::Result;
use crate::store::path::FOLDERS;
use crate::store::{ObjectEntry, ObjectName, Store};
use std::collections::{BTreeMap, BTreeSet};

/// Removes the objects of folders in `tables` (a folder of `lake`) that no catalog names. `in_use` says which of them this
/// process is about to name. Names are relative to the lake.
pub async fn remove_dropped(
    lake: &Store,
    catalog: &CatalogLog,
    tables: &str,
    in_use: impl Fn(&str) -> bool,
    retention: Retention,
) -> Result<Vec<Removal>> {
    let until_ms = retention.until_ms();
    let folders: Vec<String> = lake.list_folders(tables).await?.into_iter().map(|folder| format!("{tables}/{folder}")).collect();
    // After the listing: what was named meanwhile is seen.
    let mut unnamed: BTreeSet<String> = folders.into_iter().filter(|folder| !in_use(folder)).collect();
    let newest = catalog.newest().await?;
    for entry in newest.tables.values() {
        unnamed.remove(&entry.folder);
    }
    let dropped_ms = when_dropped(catalog, &unnamed, newest.version, newest.time_ms).await?;
    let mut removed = Vec::new();
    for folder in unnamed {
        let store = lake.child(&folder);
        let mut listed = Vec::new();
        for objects in FOLDERS {
            listed.extend(store.list(objects).await?);
        }
        let last_ms = listed.iter().map(|entry| entry.modified_ms).chain(dropped_ms.get(&folder).copied()).max();
        if last_ms.is_some_and(|last_ms| last_ms > until_ms) {
            continue;
        }
        let ours = |entry: ObjectEntry| {
            let name = ObjectName::parse(&entry.name).ok().filter(|name| name.is_made_here() || *name == ObjectName::hint())?;
            let path = format!("{folder}/{}", entry.name);
            Some((name, Removal { path, size_bytes: entry.size_bytes, reason: DROPPED }))
        };
        let ours: Vec<(ObjectName, Removal)> = listed.into_iter().filter_map(ours).collect();
        if !retention.dry_run {
            remove_all(&store, ours.iter().map(|(name, _)| name.clone()).collect()).await?;
            for objects in FOLDERS {
                store.remove_half_written(objects, until_ms).await?;
            }
            store.remove_empty_folders().await?;
        }
        removed.extend(ours.into_iter().map(|(_, removal)| removal));
    }
    removed.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(removed)
}

/// When the catalog stopped naming each of these folders; a folder that it never named is missing.
async fn when_dropped(catalog: &CatalogLog, folders: &BTreeSet<String>, newest: u64, newest_ms: u64) -> Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    let mut later_ms = newest_ms;
    for version in (1..newest).rev() {
        if found.len() == folders.len() {
            break;
        }
        let Some(catalog) = catalog.version(version).await? else { break };
        for entry in catalog.tables.values().filter(|entry| folders.contains(&entry.folder)) {
            found.entry(entry.folder.clone()).or_insert(later_ms);
        }
        later_ms = catalog.time_ms;
    }
    Ok(found)
}
