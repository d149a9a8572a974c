//! Gathering: a transaction that landed on a rewrite, or a rewrite that landed on new values of columns, needs files in which
//! values of several fragments follow one another. They are written here, by way of the stage, before the version is.
//!
//! Goes in: what a rebase says has to be gathered, and the versions before and after the transaction. Comes out: the
//! actions that give each fragment its file.
//! Always holds: a file has a value for every row of its fragment; a field that is gone by then is left out.

use super::staged::Staged;
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::Snapshot;
use crate::store::ObjectName;
use crate::table::fragment::{Base, BaseId, DataFile, Fragment};
use crate::table::row_address::FragmentId;
use crate::table::schema::{FieldId, TableSchema};
use crate::txn::action::{Action, AddDataFile, TombstoneFieldData};
use crate::txn::rebase::{Gather, Place};
use crate::txn::refs::{FieldRef, Minted, Ref};
use async_trait::async_trait;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Writes files of gathered values. The commit layer knows no engine, so whoever stages transactions brings it along.
#[async_trait]
pub trait WriteGathered: fmt::Debug + Send + Sync {
    /// Writes one file.
    async fn write(&self, log: &VersionLog, values: Gathered) -> Result<DataFile>;
}

/// Values of columns.
#[derive(Debug, Clone)]
pub struct Gathered {
    /// The bases of the table.
    pub bases: BTreeMap<BaseId, Base>,
    /// The schema of the table.
    pub schema: Arc<TableSchema>,
    /// The columns, by their positions in the schema, ascending.
    pub columns: Vec<usize>,
    /// Fragments, and the rows of each, ascending, whose values come next. Rows may be deleted ones.
    pub runs: Vec<(Arc<Fragment>, RoaringBitmap)>,
    /// For each row to be written, which of the values it is; `None` if that is their order.
    pub order: Option<Vec<u32>>,
}

/// Writes the files of `gathers` and gives the actions that add them, each with the step that it belongs to. What is written
/// is noted in `placed`.
pub(super) async fn actions(
    log: &VersionLog,
    staged: &Staged,
    gathers: &[Gather],
    (before, after, minted): (&Snapshot, &Snapshot, &Minted),
    placed: &mut Vec<ObjectName>,
) -> Result<Vec<(usize, Action)>> {
    let mut actions = Vec::new();
    let needed = gathers.iter().flat_map(|gather| {
        let from = gather.runs.iter().filter_map(|run| match &run.from {
            Place::Present(id) => Some(*id),
            Place::Staged { .. } => None,
        });
        minted.fragment(gather.fragment).into_iter().chain(from)
    });
    let needed: BTreeSet<FragmentId> = needed.collect();
    let (before, after) = (log.load_fragments(before, &needed).await?, log.load_fragments(after, &needed).await?);
    for gather in gathers {
        // Nothing is left of a fragment whose last rows were deleted.
        let Some(id) = minted.fragment(gather.fragment) else { continue };
        let Some(fragment) = after.fragments.get(id)? else { continue };
        let wanted: BTreeMap<FieldId, FieldRef> = gather.fields.iter().filter_map(|field| Some((minted.field(*field)?, *field))).collect();
        let columns = after.schema.columns().enumerate().filter(|(_, column)| wanted.contains_key(&column.id));
        let columns: Vec<usize> = columns.map(|(position, _)| position).collect();
        if columns.is_empty() {
            continue;
        }
        let runs = gather.runs.iter().map(|run| Ok((place(&run.from, fragment.id, &before, minted)?, run.rows.clone())));
        let values = Gathered {
            bases: before.bases.clone(),
            schema: after.schema.clone(),
            columns,
            runs: runs.collect::<Result<_>>()?,
            order: gather.order.clone(),
        };
        let writer = staged.gathering.as_ref();
        let writer = writer.ok_or_else(|| Error::internal("a transaction that has columns to gather does not say who writes them"))?;
        let mut file = writer.write(log, values).await?;
        placed.extend(ObjectName::parse(&file.path).ok());
        let ids: Vec<FieldId> = file.columns.iter().filter_map(|column| column.field).collect();
        let named = |id: &FieldId| wanted.get(id).copied();
        let (target, data_change) = (gather.fragment, gather.data_change);
        let old: Vec<FieldRef> = ids.iter().filter(|id| fragment.backing(**id).is_some()).filter_map(named).collect();
        if !old.is_empty() {
            let tombstone = TombstoneFieldData { fragment: target, fields: old, data_change };
            actions.push((gather.step, Action::TombstoneFieldData(tombstone)));
        }
        let fields = file.columns.iter_mut().flat_map(|column| {
            let field = column.field.take().and_then(|field| named(&field));
            let parts = column.parts.iter().map(|part| Some(Ref::Committed(*part)));
            std::iter::once(field).chain(parts).collect::<Vec<_>>()
        });
        let fields = fields.collect();
        actions.push((gather.step, Action::AddDataFile(AddDataFile { fragment: target, file, base: None, fields, data_change })));
    }
    Ok(actions)
}

/// The fragment that values are in: one of the version before, or one made of files that were staged.
fn place(from: &Place, id: FragmentId, before: &Snapshot, minted: &Minted) -> Result<Arc<Fragment>> {
    match from {
        Place::Present(id) => before
            .fragments
            .get(*id)?
            .cloned()
            .ok_or_else(|| Error::internal(format!("values are to be gathered from fragment {id}, which is gone"))),
        Place::Staged { physical_rows, files } => {
            let files = files.iter().map(|(file, fields)| {
                let mut file = file.clone();
                // Each column is followed by its parts.
                let mut fields = fields.iter().map(|field| field.and_then(|field| minted.field(field)));
                for column in &mut file.columns {
                    column.field = fields.next().flatten();
                    for (part, field) in column.parts.iter_mut().zip(&mut fields) {
                        *part = field.unwrap_or(*part);
                    }
                }
                file
            });
            let (files, physical_rows) = (files.collect(), *physical_rows);
            Ok(Arc::new(Fragment { id, physical_rows, files, deletions: None, created_at: 0, updated_at: 0 }))
        }
    }
}
