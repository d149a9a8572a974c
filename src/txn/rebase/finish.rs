//! The transaction after the walk: what is left of its actions, at today's addresses.
//!
//! Deletions of others in fragments that we move are carried through our own maps, in the order of our actions, so that
//! a row that moved twice is followed twice.

use super::columns::Gather;
use super::rows::DeletedRows;
use super::{Collision, Found, Group, Rebase, broken, count, rows::REPORTED_ROWS, unusable};
use crate::table::row_address::{FragmentId, RowAddress};
use crate::txn::action::{Action, SetDeletionFile};
use crate::txn::address_map::MapError;
use crate::txn::composite::{Step, Transaction};
use crate::txn::refs::{FragmentRef, Ref};
use roaring::RoaringBitmap;
use std::collections::BTreeMap;

/// A transaction that fits the newest version, but for its deletion vectors, which [`settle`](super::settle) writes.
#[derive(Debug, Clone)]
pub struct Rebased {
    /// The actions at today's addresses.
    pub transaction: Transaction,
    /// Rows of fragments that the transaction adds and that others deleted before they moved, by fragment.
    pub carried: BTreeMap<FragmentRef, RoaringBitmap>,
    /// Columns whose values have to be gathered into files before it can land; their actions are not in `transaction`.
    pub gathers: Vec<Gather>,
    /// How many versions were walked over.
    pub versions: u64,
    /// Row addresses followed through maps.
    pub rows_carried: u64,
    /// Fragments whose deletion vectors others changed too.
    pub vectors_merged: u32,
    /// Groups given up.
    pub groups_dropped: u32,
}

impl Rebase {
    /// The transaction as it must be to land on the newest version, whose fragments `exists` knows. A fragment that we
    /// remove may be gone already: others deleted its last row.
    pub fn finish(&self, exists: impl Fn(FragmentId) -> bool) -> Result<Rebased, Collision> {
        let mut pending: BTreeMap<FragmentRef, DeletedRows> =
            self.foreign.iter().map(|(id, rows)| (Ref::Committed(*id), DeletedRows::plain(rows.clone()))).collect();
        let mut rows_carried = self.rows_carried + self.columns.rows_followed;
        let mut already_deleted = self.already_deleted.clone();
        let mut claimed = self.claimed_by_step();
        let mut groups = self.groups.iter();
        let mut steps = Vec::with_capacity(self.ours.steps.len());
        for (step, theirs) in self.ours.steps.iter().enumerate() {
            let mut actions = Vec::with_capacity(theirs.actions.len());
            let mut counts = theirs.counts;
            for action in &theirs.actions {
                let gone = |fragment: FragmentRef| self.of_others(fragment).is_some_and(|id| !exists(id));
                match action {
                    Action::AddFragment(add) if self.is_dropped_target(add.id) => {}
                    // Where others moved the rows of a fragment that is gone, our columns are gathered.
                    Action::AddDataFile(add) if self.is_dropped_target(add.fragment) || gone(add.fragment) => {}
                    Action::TombstoneFieldData(tombstone) if gone(tombstone.fragment) => {}
                    Action::RemoveFragment(remove) if self.is_dropped_source(remove.fragment) || gone(remove.fragment) => {}
                    Action::AddFragment(_)
                    | Action::AddDataFile(_)
                    | Action::AddField(_)
                    | Action::AlterField(_)
                    | Action::DropField(_)
                    | Action::TombstoneFieldData(_)
                    | Action::ConfigUpdate(_)
                    | Action::ReserveFragmentIds(_)
                    | Action::ResetTable(_)
                    | Action::AddBase(_)
                    | Action::AssertUniqueKeys(_)
                    | Action::RemoveFragment(_) => {
                        actions.push(action.clone());
                    }
                    Action::ChangeOfAddress(_) => {
                        let Some(group) = groups.next() else { continue };
                        if group.dropped {
                            counts.moved = counts.moved.saturating_sub(group.rows());
                            continue;
                        }
                        rows_carried += carry(group, &mut pending).map_err(|e| broken(&e.0))?;
                        actions.push(action.clone());
                    }
                    Action::SetDeletionFile(set) if self.of_others(set.fragment).is_none() => {
                        // What others deleted first is no longer ours.
                        let mut set = set.clone();
                        if let Some(foreign) = pending.get(&set.fragment) {
                            count(&mut already_deleted, step, set.added.intersection_len(&foreign.added));
                            set.added -= &foreign.added;
                        }
                        actions.push(Action::SetDeletionFile(set));
                    }
                    Action::SetDeletionFile(_) => {
                        let sets = claimed.remove(&step).unwrap_or_default();
                        if sets.iter().any(|set| gone(set.fragment)) {
                            return Err(broken("a fragment with live rows is gone"));
                        }
                        actions.extend(sets.into_iter().map(Action::SetDeletionFile));
                    }
                }
            }
            let lost = already_deleted.get(step).copied().unwrap_or(0);
            counts.deleted = counts.deleted.saturating_sub(lost);
            steps.push(Step { operation: theirs.operation.clone(), statement: theirs.statement.clone(), actions, counts });
        }
        let carried = pending.into_iter().filter(|(fragment, rows)| self.of_others(*fragment).is_none() && !rows.added.is_empty());
        Ok(Rebased {
            transaction: Transaction { id: self.ours.id, read_version: self.ours.read_version, steps },
            carried: carried.map(|(fragment, rows)| (fragment, rows.added)).collect(),
            gathers: self.gathers(&exists).map_err(|e| broken(&e.0))?,
            versions: self.versions,
            rows_carried,
            vectors_merged: self.merged.len() as u32,
            groups_dropped: self.groups.iter().filter(|group| group.dropped).count() as u32,
        })
    }

    /// The deletions that are left of each step in fragments of others, one action a fragment, at today's addresses.
    fn claimed_by_step(&self) -> BTreeMap<usize, Vec<SetDeletionFile>> {
        let mut by_step: BTreeMap<usize, Vec<SetDeletionFile>> = BTreeMap::new();
        for (fragment, claims) in &self.claims {
            for (step, rows) in claims {
                let (fragment, added, replaced) = (Ref::Committed(*fragment), rows.added.clone(), rows.replaced.clone());
                by_step.entry(*step).or_default().push(SetDeletionFile { fragment, vector: None, added, replaced });
            }
        }
        by_step
    }

    /// Whether others deleted rows of fragment `id` that we moved and then changed. If so, some of them, by their addresses
    /// before the move.
    pub(super) fn collision_after_our_moves(&self, id: FragmentId, theirs: &DeletedRows) -> Result<Option<Vec<RowAddress>>, Found> {
        let mut pending = BTreeMap::from([(Ref::Committed(id), theirs.clone())]);
        let mut groups = self.groups.iter();
        for (step, actions) in self.ours.steps.iter().enumerate() {
            for action in &actions.actions {
                // A new version of a row lies elsewhere: to act on the whole fragment would not remove it, nor give it a column.
                let (fragment, ours) = match action {
                    Action::ChangeOfAddress(_) => {
                        if let Some(group) = groups.next().filter(|group| !group.dropped) {
                            carry(group, &mut pending).map_err(|e| unusable(&e.0))?;
                        }
                        continue;
                    }
                    Action::SetDeletionFile(set) => (set.fragment, Some(DeletedRows::of(set))),
                    Action::TombstoneFieldData(tombstone) => (tombstone.fragment, None),
                    Action::RemoveFragment(remove) if !self.sources.contains_key(&remove.fragment) => (remove.fragment, None),
                    Action::AddDataFile(add) if self.target_group(add.fragment).is_some_and(|group| group.step != step) => {
                        (add.fragment, None)
                    }
                    Action::RemoveFragment(_)
                    | Action::AddDataFile(_)
                    | Action::AddFragment(_)
                    | Action::AddField(_)
                    | Action::AlterField(_)
                    | Action::DropField(_)
                    | Action::ConfigUpdate(_)
                    | Action::ReserveFragmentIds(_)
                    | Action::ResetTable(_)
                    | Action::AddBase(_)
                    | Action::AssertUniqueKeys(_) => continue,
                };
                let Some(theirs) = pending.get(&fragment).filter(|_| self.of_others(fragment).is_none()) else { continue };
                let collide = ours.map_or_else(|| theirs.replaced.clone(), |ours| ours.collision(theirs));
                if !collide.is_empty() {
                    return Ok(Some(collide.iter().take(REPORTED_ROWS).filter_map(|row| self.origin(fragment, row)).collect()));
                }
            }
        }
        Ok(None)
    }

    /// Where a row lay before we moved it.
    fn origin(&self, mut fragment: FragmentRef, mut row: u32) -> Option<RowAddress> {
        for _ in &self.groups {
            if self.of_others(fragment).is_some() {
                break;
            }
            let group = self.target_group(fragment)?;
            let number = group.targets.iter().position(|target| *target == fragment)?;
            let source;
            (source, row) = group.map.origin(number, row)?;
            fragment = *group.sources.get(source)?;
        }
        Some(RowAddress::new(self.of_others(fragment)?, row))
    }

    fn target_group(&self, fragment: FragmentRef) -> Option<&Group> {
        self.groups.get(*self.targets.get(&fragment)?)
    }

    fn is_dropped_target(&self, fragment: FragmentRef) -> bool {
        self.target_group(fragment).is_some_and(|group| group.dropped)
    }

    fn is_dropped_source(&self, fragment: FragmentRef) -> bool {
        self.sources.get(&fragment).is_some_and(|(group, _)| self.is_dropped(*group))
    }
}

impl Group {
    fn rows(&self) -> u64 {
        self.map.targets().iter().map(|rows| u64::from(*rows)).sum()
    }
}

/// Carries deletions of others from a group's sources to its targets; returns how many rows were followed.
fn carry(group: &Group, pending: &mut BTreeMap<FragmentRef, DeletedRows>) -> Result<u64, MapError> {
    let mut carried = 0;
    for (number, source) in group.sources.iter().enumerate() {
        let Some(rows) = pending.remove(source) else { continue };
        for (target, rows) in rows.follow(&group.map, number)?.targets {
            let target = group.targets.get(target).ok_or_else(|| MapError("a map names a target too many".into()))?;
            carried += rows.added.len();
            pending.entry(*target).or_default().unite(rows);
        }
    }
    Ok(carried)
}
