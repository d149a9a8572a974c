//! The transaction after the walk: what is left of its actions, at today's addresses.
//!
//! Deletions of others in fragments that we move are carried through our own maps, in the order of our actions, so that
//! a row that moved twice is followed twice.

use super::{Claim, Collision, Group, Rebase, count, sample};
use crate::table::row_address::{FragmentId, RowAddress};
use crate::txn::action::{Action, SetDeletionFile};
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
        let mut pending: BTreeMap<FragmentRef, RoaringBitmap> =
            self.foreign.iter().map(|(id, rows)| (Ref::Committed(*id), rows.clone())).collect();
        let mut rows_carried = self.rows_carried;
        let mut already_deleted = self.already_deleted.clone();
        let mut groups = self.groups.iter();
        let mut steps = Vec::with_capacity(self.ours.steps.len());
        for (step, theirs) in self.ours.steps.iter().enumerate() {
            let mut actions = Vec::with_capacity(theirs.actions.len());
            let mut counts = theirs.counts;
            for (at, action) in theirs.actions.iter().enumerate() {
                match action {
                    Action::AddFragment(add) if self.is_dropped_target(Ref::Local(add.token)) => {}
                    Action::AddDataFile(add) if self.is_dropped_target(add.fragment) => {}
                    Action::AddFragment(_) | Action::AddDataFile(_) | Action::AddField(_) => actions.push(action.clone()),
                    Action::RemoveFragment(remove) => {
                        let gone = remove.fragment.committed().is_some_and(|id| !exists(id));
                        if !gone && !self.is_dropped_source(remove.fragment) {
                            actions.push(action.clone());
                        }
                    }
                    Action::ChangeOfAddress(_) => {
                        let Some(group) = groups.next() else { continue };
                        if group.dropped {
                            counts.moved = counts.moved.saturating_sub(group.rows());
                            continue;
                        }
                        rows_carried += carry(group, &mut pending)?;
                        actions.push(action.clone());
                    }
                    Action::SetDeletionFile(set) => match set.fragment {
                        Ref::Local(_) if self.is_dropped_target(set.fragment) => {}
                        Ref::Local(_) => {
                            let (set, lost) = self.own_fragment(set, &pending)?;
                            count(&mut already_deleted, step, lost);
                            actions.push(Action::SetDeletionFile(set));
                        }
                        Ref::Committed(fragment) => {
                            let claimed = self.claimed((step, at), set, fragment);
                            if claimed.iter().any(|set| set.fragment.committed().is_some_and(|id| !exists(id))) {
                                return Err(super::broken("a fragment with live rows is gone"));
                            }
                            actions.extend(claimed.into_iter().map(Action::SetDeletionFile));
                        }
                    },
                }
            }
            let lost = already_deleted.get(step).copied().unwrap_or(0);
            counts.deleted = counts.deleted.saturating_sub(lost);
            steps.push(Step { operation: theirs.operation.clone(), statement: theirs.statement.clone(), actions, counts });
        }
        pending.retain(|fragment, rows| matches!(fragment, Ref::Local(_)) && !rows.is_empty());
        Ok(Rebased {
            transaction: Transaction { id: self.ours.id, read_version: self.ours.read_version, steps },
            carried: pending,
            versions: self.versions,
            rows_carried,
            vectors_merged: self.merged.len() as u32,
            groups_dropped: self.groups.iter().filter(|group| group.dropped).count() as u32,
        })
    }

    /// Deletions of a fragment that existed: the claims that are left of the action, each at its present address.
    fn claimed(&self, origin: (usize, usize), set: &SetDeletionFile, fragment: FragmentId) -> Vec<SetDeletionFile> {
        let action = |claim: &Claim| SetDeletionFile {
            fragment: Ref::Committed(claim.fragment),
            vector: set.vector.clone(),
            added: claim.added.clone(),
            replaced: claim.replaced.clone(),
        };
        if set.added.is_empty() && self.moves(fragment).is_none() {
            // Not a deletion but another vector (a restore): it stands as it is.
            return vec![set.clone()];
        }
        self.claims.iter().filter(|claim| claim.origin == origin).map(action).collect()
    }

    /// Deletions of a fragment that the transaction adds: what others deleted first is no longer ours.
    fn own_fragment(
        &self,
        set: &SetDeletionFile,
        pending: &BTreeMap<FragmentRef, RoaringBitmap>,
    ) -> Result<(SetDeletionFile, u64), Collision> {
        let mut set = set.clone();
        let Some(foreign) = pending.get(&set.fragment) else { return Ok((set, 0)) };
        let collide = &set.replaced & foreign;
        if !collide.is_empty() {
            return Err(Collision {
                coordinate: "rows that this transaction moved and then updated".into(),
                rows: sample_local(&collide),
                version: 0,
                transaction: String::new(),
                statement: String::new(),
            });
        }
        let lost = set.added.intersection_len(foreign);
        set.added -= foreign;
        Ok((set, lost))
    }

    fn is_dropped_target(&self, fragment: FragmentRef) -> bool {
        self.groups.iter().any(|group| group.dropped && group.targets.contains(&fragment))
    }

    fn is_dropped_source(&self, fragment: FragmentRef) -> bool {
        self.groups.iter().any(|group| group.dropped && group.sources.contains(&fragment))
    }
}

impl Group {
    fn rows(&self) -> u64 {
        self.map.targets().iter().map(|rows| u64::from(*rows)).sum()
    }
}

/// Carries deletions of others from a group's sources to its targets; returns how many rows were followed.
fn carry(group: &Group, pending: &mut BTreeMap<FragmentRef, RoaringBitmap>) -> Result<u64, Collision> {
    let mut carried = 0;
    for (at, source) in group.sources.iter().enumerate() {
        let Some(rows) = pending.remove(source) else { continue };
        let moved = group.map.move_rows(at, &rows).map_err(|e| super::broken(&e.0))?;
        for (target, rows) in moved.targets {
            let target = group.targets.get(target).ok_or_else(|| super::broken("a map names a target too many"))?;
            carried += rows.len();
            *pending.entry(*target).or_default() |= rows;
        }
    }
    Ok(carried)
}

/// Rows of a fragment without an id yet are reported under the highest one.
fn sample_local(rows: &RoaringBitmap) -> Vec<RowAddress> {
    sample(FragmentId::MAX, rows)
}
