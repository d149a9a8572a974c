//! What must hold of every version before it is published, as a list of named predicates.
//!
//! Goes in: the snapshot before a transaction, the snapshot after it, and the transaction as it was applied. Comes out:
//! nothing, or the name of the invariant that is broken and what was found.
//!
//! Always holds: a predicate looks only at the fragments that the actions name and at those whose record in the tail
//! changed, so its cost grows with the change and not with the table. It is written from the meaning of the actions and
//! calls nothing of what applied them, so that it can find a fault there.

use crate::manifest::snapshot::Snapshot;
use crate::table::constraint::{self, Rule};
use crate::table::deletion_vector::{self, DeletionFile};
use crate::table::fragment::{DataFile, Fragment};
use crate::table::row_address::FragmentId;
use crate::table::schema::FieldId;
use crate::txn::action::Action;
use crate::txn::composite::Transaction;
use crate::txn::refs::{FragmentRef, Ref, Token};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A predicate on a version: the snapshot before, the snapshot after, and the transaction between them.
pub type Invariant = fn(&Snapshot, &Snapshot, &Transaction) -> Result<(), String>;

/// All of them, by name.
pub const INVARIANTS: &[(&str, Invariant)] = &[
    ("the table stays the same table", same_table),
    ("counters never fall, and every id lies below its counter", counters),
    ("the low-water mark never falls", low_water_mark),
    ("the time up to which objects were swept never falls", swept),
    ("live rows = before + added - deleted", live_rows),
    ("a field has one live column in a fragment", one_backing),
    ("columns are of fields that exist", columns_of_fields),
    ("a data file has a length, checksums and rows that fit", data_files),
    ("a deletion vector lies within its fragment and holds what was deleted", deletion_vectors),
    ("a fragment has live rows", no_empty_fragments),
    ("constraints are about columns that exist, and the columns of a primary key are NOT NULL", constraints),
];

/// Holds a version against every invariant.
pub fn check(before: &Snapshot, after: &Snapshot, transaction: &Transaction) -> Result<(), String> {
    INVARIANTS.iter().try_for_each(|(name, invariant)| {
        invariant(before, after, transaction).map_err(|found| format!("version {} breaks '{name}': {found}", after.version))
    })
}

fn same_table(before: &Snapshot, after: &Snapshot, _: &Transaction) -> Result<(), String> {
    if before.table_id != after.table_id {
        return Err(format!("table id {:032x} became {:032x}", before.table_id, after.table_id));
    }
    if after.version < before.version {
        return Err(format!("version {} follows version {}", after.version, before.version));
    }
    Ok(())
}

fn counters(before: &Snapshot, after: &Snapshot, transaction: &Transaction) -> Result<(), String> {
    let (from, to) = (before.counters, after.counters);
    if to.fragment < from.fragment || to.field < from.field {
        return Err(format!("fragment counter {} -> {}, field counter {} -> {}", from.fragment, to.fragment, from.field, to.field));
    }
    if to.base < from.base
        || after.bases.keys().any(|id| *id >= to.base)
        || !before.bases.iter().all(|(id, base)| after.bases.get(id) == Some(base))
    {
        return Err(format!("base counter {} -> {}, bases {:?} -> {:?}", from.base.0, to.base.0, before.bases, after.bases));
    }
    let claimed = transaction.claimed_fragments();
    for id in touched(before, after, transaction) {
        let Some(fragment) = after.fragments.get(id) else { continue };
        if id >= to.fragment {
            return Err(format!("fragment {id} is not below the counter {}", to.fragment));
        }
        if id < from.fragment && before.fragments.get(id).is_none() && !claimed.contains(&id) {
            return Err(format!("fragment {id} comes back"));
        }
        if let Some(field) = fields(fragment).find(|field| *field >= to.field) {
            return Err(format!("fragment {id} holds field {field}, the counter is {}", to.field));
        }
    }
    // The schema is shared while it does not change.
    if Arc::ptr_eq(&before.schema, &after.schema) {
        return Ok(());
    }
    let claimed = transaction.actions().filter_map(|action| if let Action::AddField(add) = action { add.id.committed() } else { None });
    let known: BTreeSet<FieldId> = before.schema.fields().iter().map(|field| field.id).chain(claimed).collect();
    for field in after.schema.fields() {
        if field.id >= to.field {
            return Err(format!("field {} ('{}') is not below the counter {}", field.id, field.name, to.field));
        }
        if field.id < from.field && !known.contains(&field.id) {
            return Err(format!("field {} ('{}') comes back, and nobody claims it", field.id, field.name));
        }
    }
    Ok(())
}

fn swept(before: &Snapshot, after: &Snapshot, _: &Transaction) -> Result<(), String> {
    match after.swept_ms < before.swept_ms {
        true => Err(format!("{} became {}", before.swept_ms, after.swept_ms)),
        false => Ok(()),
    }
}

fn low_water_mark(before: &Snapshot, after: &Snapshot, _: &Transaction) -> Result<(), String> {
    match after.low_water_mark < before.low_water_mark {
        true => Err(format!("{} became {}", before.low_water_mark, after.low_water_mark)),
        false => Ok(()),
    }
}

/// Rows that moved are counted on neither side: what left the sources of a rewrite must have arrived at its targets.
fn live_rows(before: &Snapshot, after: &Snapshot, transaction: &Transaction) -> Result<(), String> {
    let live = |snapshot: &Snapshot, ids: &BTreeSet<FragmentId>| -> i128 {
        ids.iter().filter_map(|id| snapshot.fragments.get(*id)).map(|fragment| i128::from(fragment.live_rows())).sum()
    };
    let minted = minted(before, transaction);
    // How many rows a fragment has while the actions go on: all of them, and the live ones.
    let mut rows: BTreeMap<FragmentId, (u32, u32)> = BTreeMap::new();
    let (mut added, mut deleted) = (0i128, 0i128);
    for action in transaction.actions() {
        match action {
            Action::AddFragment(add) => {
                added += if add.data_change { i128::from(add.physical_rows) } else { 0 };
                rows.extend(resolve(&minted, add.id).map(|id| (id, (add.physical_rows, add.physical_rows))));
            }
            Action::SetDeletionFile(set) => {
                deleted += i128::from(set.added.len());
                let Some(id) = resolve(&minted, set.fragment) else { continue };
                let (all, live) = rows.entry(id).or_insert_with(|| rows_before(before, id));
                *live = all.saturating_sub(set.vector.as_ref().map_or(0, DeletionFile::cardinality));
            }
            Action::RemoveFragment(remove) => {
                let Some(id) = resolve(&minted, remove.fragment) else { continue };
                let (_, live) = rows.insert(id, (0, 0)).unwrap_or_else(|| rows_before(before, id));
                deleted += if remove.data_change { i128::from(live) } else { 0 };
            }
            Action::ResetTable(_) => {
                let all: BTreeSet<FragmentId> = before.fragments.iter().map(|fragment| fragment.id).chain(rows.keys().copied()).collect();
                for id in all {
                    let (_, live) = rows.insert(id, (0, 0)).unwrap_or_else(|| rows_before(before, id));
                    deleted += i128::from(live);
                }
            }
            Action::AddDataFile(_)
            | Action::ChangeOfAddress(_)
            | Action::AddField(_)
            | Action::AlterField(_)
            | Action::DropField(_)
            | Action::TombstoneFieldData(_)
            | Action::ConfigUpdate(_)
            | Action::ReserveFragmentIds(_)
            | Action::AddBase(_)
            | Action::AssertUniqueKeys(_) => {}
        }
    }
    let ids = touched(before, after, transaction);
    let (was, is) = (live(before, &ids), live(after, &ids));
    if is != was + added - deleted {
        return Err(format!("{was} before, {added} added, {deleted} deleted, {is} after"));
    }
    Ok(())
}

fn one_backing(before: &Snapshot, after: &Snapshot, transaction: &Transaction) -> Result<(), String> {
    for fragment in touched_fragments(before, after, transaction) {
        let mut seen = BTreeSet::new();
        if let Some(field) = fields(fragment).find(|field| !seen.insert(*field)) {
            return Err(format!("fragment {} holds field {field} twice", fragment.id));
        }
    }
    Ok(())
}

/// Fragments that the change does not touch hold what they held, so they are looked at only if a field went.
fn columns_of_fields(before: &Snapshot, after: &Snapshot, transaction: &Transaction) -> Result<(), String> {
    let known: BTreeSet<FieldId> = after.schema.fields().iter().map(|field| field.id).collect();
    let lost = !Arc::ptr_eq(&before.schema, &after.schema) && before.schema.fields().iter().any(|field| !known.contains(&field.id));
    let all = after.fragments.iter().filter(|_| lost);
    for fragment in touched_fragments(before, after, transaction).chain(all) {
        if let Some(field) = fields(fragment).find(|field| !known.contains(field)) {
            return Err(format!("fragment {} holds field {field}, which is none of the schema", fragment.id));
        }
    }
    Ok(())
}

fn data_files(before: &Snapshot, after: &Snapshot, transaction: &Transaction) -> Result<(), String> {
    for fragment in touched_fragments(before, after, transaction) {
        for file in &fragment.files {
            file_fits(fragment, file)?;
            if file.base.is_some_and(|base| !after.bases.contains_key(&base)) {
                return Err(format!("'{}' lies in a base that is none of the table", file.path));
            }
        }
    }
    Ok(())
}

fn file_fits(fragment: &Fragment, file: &DataFile) -> Result<(), String> {
    let (path, block_bytes) = (&file.path, file.checksum.block_bytes);
    if file.size_bytes == 0 || path.is_empty() {
        return Err(format!("'{path}' of fragment {} has {} bytes", fragment.id, file.size_bytes));
    }
    if !block_bytes.is_power_of_two() {
        return Err(format!("'{path}' has blocks of {block_bytes} bytes"));
    }
    if file.unchecked_bytes >= file.size_bytes || file.base.is_none() && file.unchecked_bytes > 0 {
        return Err(format!("'{path}' has {} bytes without checksums", file.unchecked_bytes));
    }
    let blocks = (file.size_bytes - file.unchecked_bytes).div_ceil(u64::from(block_bytes));
    if blocks != file.checksum.crc32c.len() as u64 {
        return Err(format!("'{path}' has {} checksums for {blocks} blocks", file.checksum.crc32c.len()));
    }
    let rows: u64 = file.row_groups.iter().map(|rows| u64::from(*rows)).sum();
    if rows != u64::from(fragment.physical_rows) {
        return Err(format!("'{path}' has {rows} rows, fragment {} has {}", fragment.id, fragment.physical_rows));
    }
    Ok(())
}

fn deletion_vectors(before: &Snapshot, after: &Snapshot, transaction: &Transaction) -> Result<(), String> {
    let minted = minted(before, transaction);
    let mut added: BTreeMap<FragmentId, Vec<&RoaringBitmap>> = BTreeMap::new();
    for set in transaction.actions().filter_map(Action::deletion) {
        if let Some(id) = resolve(&minted, set.fragment) {
            added.entry(id).or_default().push(&set.added);
        }
    }
    for fragment in touched_fragments(before, after, transaction) {
        let (id, cardinality) = (fragment.id, fragment.deleted_rows());
        if cardinality > fragment.physical_rows {
            return Err(format!("fragment {id} has {} rows, {cardinality} are deleted", fragment.physical_rows));
        }
        let Some(vector) = &fragment.deletions else { continue };
        if cardinality == 0 {
            return Err(format!("fragment {id} has a vector without rows"));
        }
        // A vector in a file was written by the commit, which checked it then.
        let DeletionFile::Inline { blob, .. } = vector else { continue };
        let rows = deletion_vector::decode(blob, fragment.physical_rows).map_err(|e| format!("fragment {id}: {e}"))?;
        if rows.len() != u64::from(cardinality) {
            return Err(format!("fragment {id}: a vector of {} rows says that it has {cardinality}", rows.len()));
        }
        if !added.get(&id).into_iter().flatten().all(|added| added.is_subset(&rows)) {
            return Err(format!("fragment {id}: rows were deleted that its vector does not hold"));
        }
    }
    Ok(())
}

fn no_empty_fragments(before: &Snapshot, after: &Snapshot, transaction: &Transaction) -> Result<(), String> {
    match touched_fragments(before, after, transaction).find(|fragment| fragment.live_rows() == 0) {
        Some(fragment) => Err(format!("fragment {} has none", fragment.id)),
        None => Ok(()),
    }
}

/// All rows and live rows of a fragment before the transaction.
fn rows_before(before: &Snapshot, id: FragmentId) -> (u32, u32) {
    before.fragments.get(id).map_or((0, 0), |fragment| (fragment.physical_rows, fragment.live_rows()))
}

/// The ids of the fragments that the transaction adds: the next ones that are not reserved, in the order of its actions.
fn minted(before: &Snapshot, transaction: &Transaction) -> BTreeMap<Token, FragmentId> {
    let mut minted = BTreeMap::new();
    let mut next = before.counters.fragment.0;
    for action in transaction.actions() {
        match action {
            Action::AddFragment(add) => {
                if let Ref::Local(token) = add.id {
                    minted.insert(token, FragmentId(next));
                    next = next.saturating_add(1);
                }
            }
            Action::ReserveFragmentIds(reserve) => next = next.saturating_add(reserve.count),
            Action::AddDataFile(_)
            | Action::RemoveFragment(_)
            | Action::SetDeletionFile(_)
            | Action::ChangeOfAddress(_)
            | Action::AddField(_)
            | Action::AlterField(_)
            | Action::DropField(_)
            | Action::TombstoneFieldData(_)
            | Action::ConfigUpdate(_)
            | Action::ResetTable(_)
            | Action::AddBase(_)
            | Action::AssertUniqueKeys(_) => {}
        }
    }
    minted
}

fn resolve(minted: &BTreeMap<Token, FragmentId>, fragment: FragmentRef) -> Option<FragmentId> {
    match fragment {
        Ref::Committed(id) => Some(id),
        Ref::Local(token) => minted.get(&token).copied(),
    }
}

/// The fragments that the actions name, and those whose record in the tail changed.
fn touched(before: &Snapshot, after: &Snapshot, transaction: &Transaction) -> BTreeSet<FragmentId> {
    let minted = minted(before, transaction);
    let named = transaction.actions().flat_map(|action| match action {
        Action::AddFragment(add) => vec![add.id],
        Action::AddDataFile(add) => vec![add.fragment],
        Action::RemoveFragment(remove) => vec![remove.fragment],
        Action::SetDeletionFile(set) => vec![set.fragment],
        Action::ChangeOfAddress(change) => change.sources.iter().chain(&change.targets).copied().collect(),
        Action::TombstoneFieldData(tombstone) => vec![tombstone.fragment],
        Action::ResetTable(_) => before.fragments.iter().map(|fragment| Ref::Committed(fragment.id)).collect(),
        Action::AddField(_)
        | Action::AlterField(_)
        | Action::DropField(_)
        | Action::ConfigUpdate(_)
        | Action::ReserveFragmentIds(_)
        | Action::AddBase(_)
        | Action::AssertUniqueKeys(_) => vec![],
    });
    let mut touched: BTreeSet<FragmentId> = named.filter_map(|fragment| resolve(&minted, fragment)).collect();
    let (old, new) = (before.fragments.tail(), after.fragments.tail());
    let same = |id: &FragmentId| match (old.get(id), new.get(id)) {
        (Some(Some(old)), Some(Some(new))) => Arc::ptr_eq(old, new),
        (Some(None), Some(None)) => true,
        _ => false,
    };
    touched.extend(old.keys().chain(new.keys()).filter(|id| !same(id)));
    touched
}

fn touched_fragments<'a>(before: &Snapshot, after: &'a Snapshot, transaction: &Transaction) -> impl Iterator<Item = &'a Arc<Fragment>> {
    touched(before, after, transaction).into_iter().filter_map(|id| after.fragments.get(id))
}

/// The fields of a fragment's live columns, one for each.
fn fields(fragment: &Fragment) -> impl Iterator<Item = FieldId> {
    fragment.files.iter().flat_map(|file| &file.columns).filter_map(|column| column.field)
}

fn constraints(before: &Snapshot, after: &Snapshot, _: &Transaction) -> Result<(), String> {
    if Arc::ptr_eq(&before.schema, &after.schema) && before.config == after.config {
        return Ok(());
    }
    for id in constraint::cluster_by(&after.config)? {
        if after.schema.field(id).is_none() {
            return Err(format!("it is clustered by field {id}, which is none"));
        }
    }
    for constraint in constraint::constraints(&after.config)? {
        for id in &constraint.fields {
            match after.schema.field(*id) {
                None => return Err(format!("'{}' is about field {id}, which is none", constraint.name)),
                Some(field) if field.nullable && constraint.rule == Rule::PrimaryKey => {
                    return Err(format!("'{}' is a primary key of field {id}, which can be NULL", constraint.name));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
