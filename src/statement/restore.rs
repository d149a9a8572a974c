//! RESTORE TABLE: a new version with the rows, the columns and the properties of an old one.
//!
//! ```text
//!   old version                              actions
//!   fields                                   ResetTable, then AddField under the ids of their day
//!   fragments                                AddFragment: new ids, for the old ones may be taken by then
//!     files                                  AddDataFile: the same files in place, dead columns and all
//!     deletion vectors                       SetDeletionFile of the same rows
//!   properties                               ConfigUpdate that replaces
//! ```
//!
//! No row is read or written. The files are not the statement's own: older versions name them, so whatever becomes of the
//! statement they stay.
//!
//! Always holds: every object that the new version needs was there when it was staged, or the statement has failed.

use super::catalog::version_of;
use super::create::Made;
use crate::error::{Error, Result};
use crate::manifest::leases::Lease;
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::Snapshot;
use crate::stage::write_exec::take_fields;
use crate::store::base;
use crate::store::path::DATA_FOLDER;
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::{DataFile, Fragment};
use crate::table::schema::Field;
use crate::txn::action::{Action, AddDataFile, AddField, AddFragment, ConfigUpdate, ResetTable, SetDeletionFile};
use crate::txn::composite::{RowCounts, Step};
use crate::txn::refs::{FragmentRef, Ref, Token};
use futures::{FutureExt, StreamExt, TryStreamExt};
use roaring::RoaringBitmap;
use std::collections::HashMap;

/// How many files of others are looked up at a time.
const CONCURRENT_LOOKUPS: usize = 8;

/// The actions that make of `base` the version that `at` names, which is one of those up to `newest`. `lease` keeps both from then on.
pub async fn restore(log: &VersionLog, (base, lease): (&Snapshot, &Lease), newest: u64, at: &str, statement: &str) -> Result<Made> {
    let number = version_of(log, at, newest).await?;
    let oldest = base.low_water_mark;
    if number < oldest || number > newest {
        return Err(Error::UnknownVersion { table: log.table().to_owned(), version: number, oldest, newest });
    }
    // VACUUM leaves it its files until the new version names them. (One of another process makes a version before it removes any, and
    // nothing lands beside that.)
    lease.reach_back_to(number);
    let old = log.read_kept(number).await?;
    let old = &log.load_all(&old.snapshot).await?;
    check_files(log, old, number).await?;
    let mut actions = vec![Action::ResetTable(ResetTable)];
    actions.extend(old.schema.fields().iter().map(|field| Action::AddField(field_again(field))));
    for (fragment, token) in old.fragments.iter()?.zip(0..) {
        let id = Ref::Local(Token(token));
        let (add, delete) = rows_again(log, fragment, id).await?;
        actions.push(add);
        actions.extend(fragment.files.iter().map(|file| {
            let mut file = file.clone();
            let (fields, base) = (take_fields(&mut file), file.base.take().map(Ref::Committed));
            Action::AddDataFile(AddDataFile { fragment: id, file, base, fields, data_change: true })
        }));
        actions.extend(delete);
    }
    if base.config != old.config {
        let entries = old.config.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
        actions.push(Action::ConfigUpdate(ConfigUpdate { entries, replace: true }));
    }
    let counts = RowCounts { inserted: old.fragments.live_rows(), deleted: base.fragments.live_rows(), ..RowCounts::default() };
    let step = Step { operation: "RESTORE".into(), statement: statement.to_owned(), actions, counts };
    Ok(Made { step, objects: Vec::new() })
}

/// What adds a fragment of an old version, or of another table, again, and what deletes those of its rows that are deleted. Its
/// files are named between both.
pub(super) async fn rows_again(log: &VersionLog, fragment: &Fragment, id: FragmentRef) -> Result<(Action, Option<Action>)> {
    let (physical_rows, replacing) = (fragment.physical_rows, RoaringBitmap::new());
    let add = Action::AddFragment(AddFragment { id, physical_rows, data_change: true, replacing });
    if fragment.deletions.is_none() {
        return Ok((add, None));
    }
    let added = (*log.deleted_rows(fragment).await?).clone();
    let vector = DeletionFile::inline(&added);
    let delete = SetDeletionFile { fragment: id, vector, added, replaced: RoaringBitmap::new() };
    Ok((add, Some(Action::SetDeletionFile(delete))))
}

/// A field as it was, under its id.
fn field_again(field: &Field) -> AddField {
    AddField {
        id: Ref::Committed(field.id),
        parent: field.parent.map(Ref::Committed),
        name: field.name.clone(),
        field_type: field.field_type.clone(),
        nullable: field.nullable,
        metadata: field.metadata.clone(),
        initial: field.initial.clone(),
        in_place_of: None,
    }
}

/// Refuses a version of which a data file is gone. (Its manifest, pages and vectors are read.)
async fn check_files(log: &VersionLog, old: &Snapshot, number: u64) -> Result<()> {
    let listed = log.store().list(DATA_FOLDER).await?;
    let sizes: HashMap<&str, u64> = listed.iter().map(|entry| (entry.name.as_str(), entry.size_bytes)).collect();
    let mut elsewhere = Vec::new();
    for file in old.fragments.iter()?.flat_map(|fragment| &fragment.files).filter(|file| file.inline.is_none()) {
        if let Some(id) = file.base {
            let none = || Error::internal(format!("'{}' lies in base {}, which is none", file.path, id.0));
            let location = &old.bases.get(&id).ok_or_else(none)?.location;
            elsewhere.push(check_file_in_base(log.table(), location, file, number).boxed());
            continue;
        }
        let found = sizes.get(file.path.as_str()).copied();
        if found != Some(file.size_bytes) {
            return Err(Error::damaged(log.table(), &file.path, missing(number, file, found)));
        }
    }
    futures::stream::iter(elsewhere).buffered(CONCURRENT_LOOKUPS).try_collect().await
}

/// Refuses a version of which a file of others is gone, or has become another.
async fn check_file_in_base(table: &str, location: &str, file: &DataFile, number: u64) -> Result<()> {
    let name = base::full_name(location, &file.path);
    match base::size_if_present(&base::open(location, &file.path)?, &name).await? {
        found if found == Some(file.size_bytes) => Ok(()),
        found => Err(Error::damaged(table, &name, missing(number, file, found))),
    }
}

/// What is wrong with a file of which so many bytes are there, or none.
fn missing(number: u64, file: &DataFile, found: Option<u64>) -> String {
    match found {
        Some(size_bytes) => format!("version {number} needs its {} bytes, and it has {size_bytes}", file.size_bytes),
        None => format!("version {number} needs it, and it is gone"),
    }
}
