//! CREATE TABLE .. CLONE: a table of the rows of another, whose files it reads where they are.
//!
//! ```text
//!   version of the source                    actions
//!   fields                                   AddField, with new ids
//!   the table's folder, and its bases        AddBase
//!   fragments                                AddFragment
//!     files                                  AddDataFile: in the base of the source's folder, or in one of its bases
//!     deletion vectors                       SetDeletionFile of the same rows
//!   properties                               ConfigUpdate
//! ```
//!
//! Goes in: a table, and which version of it. Comes out: a new table; no row is read or written.
//! Always holds: what is done to either table afterwards is not seen in the other; but the clone's old rows lie in the source's folder, and
//! are gone when that is vacuumed after it has no use for them.

use super::catalog::version_of;
use super::create;
use super::lake::Lake;
use super::parse::CloneOf;
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::Snapshot;
use crate::stage::commit_exec::staged;
use crate::stage::scope::Done;
use crate::stage::write_exec::take_fields;
use crate::store::base;
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::{Base, DataFile};
use crate::table::schema::FieldId;
use crate::txn::action::{Action, AddBase, AddDataFile, AddFragment, ConfigUpdate, SetDeletionFile};
use crate::txn::composite::{RowCounts, Step};
use crate::txn::refs::{FieldRef, Ref, Token};
use roaring::RoaringBitmap;
use std::collections::BTreeMap;

/// Creates a clone.
pub async fn create_clone(lake: &Lake, clone: &CloneOf, statement: &str) -> Result<Done> {
    let name = &clone.table;
    create::check_name(name)?;
    if lake.find(name).await?.is_some() {
        return match clone.lenient {
            true => Ok(create::done(0, None, 0)),
            false => Err(Error::TableExists { table: name.clone() }),
        };
    }
    let (source, at) = match (lake.find(&clone.source).await?, clone.source.rsplit_once('@')) {
        (Some(log), _) => (log, None),
        (None, Some((source, at))) => (lake.table(source).await?, Some(at)),
        (None, None) => return Err(lake.unknown_table(&clone.source)),
    };
    // Held until the clone is there, so that its files are when it comes to be.
    let (newest, lease) = source.newest_leased().await?;
    let version = match at {
        None => newest,
        Some(at) => {
            let number = version_of(&source, at, newest.snapshot.version).await?;
            lease.reach_back_to(number);
            source.read_kept(number).await?
        }
    };
    let step = step(&source, &version.snapshot, statement).await?;
    let inserted = step.counts.inserted;
    match lake.create_table(lake.new_table(name), staged(0, step, vec![], vec![])).await {
        Ok(version) => Ok(create::done(inserted, Some(version), 0)),
        Err(Error::TableExists { .. }) if clone.lenient => Ok(create::done(0, None, 0)),
        Err(error) => Err(error),
    }
}

/// What makes of nothing a table like `source`.
async fn step(log: &VersionLog, source: &Snapshot, statement: &str) -> Result<Step> {
    let tokens: BTreeMap<FieldId, Token> = source.schema.fields().iter().map(|field| field.id).zip((0..).map(Token)).collect();
    let mut actions = Vec::new();
    for field in source.schema.fields() {
        let token = |id: FieldId| tokens.get(&id).copied().unwrap_or(Token(u32::MAX));
        actions.push(Action::AddField(create::add_field(field, token)));
    }
    let mut bases: BTreeMap<String, Token> = BTreeMap::new();
    let folder = base::folder(log.store())?;
    let mut rows = Vec::new();
    for (fragment, token) in source.fragments.iter().zip((0..).map(Token)) {
        let id = Ref::Local(token);
        let (physical_rows, replacing) = (fragment.physical_rows, RoaringBitmap::new());
        rows.push(Action::AddFragment(AddFragment { id, physical_rows, data_change: true, replacing }));
        for file in &fragment.files {
            let location = match file.base {
                None => &folder,
                Some(id) => {
                    let none = || Error::internal(format!("'{}' lies in base {}, which is none", file.path, id.0));
                    &source.bases.get(&id).ok_or_else(none)?.location
                }
            };
            let next = Token(bases.len() as u32);
            let base = *bases.entry(location.clone()).or_insert(next);
            let (file, fields) = of_clone(file, &tokens)?;
            rows.push(Action::AddDataFile(AddDataFile { fragment: id, file, base: Some(Ref::Local(base)), fields, data_change: true }));
        }
        if fragment.deletions.is_some() {
            let added = (*log.deleted_rows(fragment).await?).clone();
            let vector = DeletionFile::inline(&added);
            rows.push(Action::SetDeletionFile(SetDeletionFile { fragment: id, vector, added, replaced: RoaringBitmap::new() }));
        }
    }
    let base = |(location, token)| Action::AddBase(AddBase { token, base: Base { name: None, location } });
    actions.extend(bases.into_iter().map(base));
    actions.extend(rows);
    if !source.config.is_empty() {
        let entries = source.config.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
        actions.push(Action::ConfigUpdate(ConfigUpdate { entries, replace: false }));
    }
    let counts = RowCounts { inserted: source.live_rows(), ..RowCounts::default() };
    Ok(Step { operation: "CREATE TABLE CLONE".into(), statement: statement.to_owned(), actions, counts })
}

/// A file as the clone names it, and the fields of its columns and of their parts.
fn of_clone(file: &DataFile, tokens: &BTreeMap<FieldId, Token>) -> Result<(DataFile, Vec<Option<FieldRef>>)> {
    let mut file = file.clone();
    file.base = None;
    let fields = take_fields(&mut file).into_iter().map(|field| match field.and_then(FieldRef::committed) {
        None => Ok(None),
        Some(id) => match tokens.get(&id) {
            Some(token) => Ok(Some(Ref::Local(*token))),
            None => Err(Error::unsupported(format!("cloning '{}', which has a part of a column that was dropped,", file.path), None)),
        },
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    Ok((file, fields))
}
