//! Rebase: carry a transaction over what others committed since it read.
//!
//! ```text
//!   read version ──> their transaction ──> their transaction ──> ... ──> newest version
//!                      │ deleted rows:  compared with the rows we claim; kept for the rows we move
//!                      │ moved rows:    our claims follow their map; a group of ours on the same fragments is given up
//!                      v
//!   finish: our actions, claims at their new addresses, their deletions carried through our maps
//!   settle: deletion vectors = the newest version's, united with ours
//! ```
//!
//! The state is kept between attempts: what landed is walked over once, and [`Rebase::finish`] can be called after each
//! lost race. Maps are given by the caller, who alone does I/O; [`Rebase::maps_needed`] says which.
//!
//! Always holds: no step guesses. A row that both changed, where either gave it a new version, is a [`Collision`]; so
//! is whatever does not add up.

mod finish;
mod settle;

pub use finish::Rebased;
pub use settle::{VectorsNeeded, settle, vectors_needed};

use super::action::{Action, ChangeOfAddress};
use super::address_map::AddressMap;
use super::composite::{CommittedTransaction, Transaction};
use super::footprint::Footprint;
use super::refs::{FragmentRef, Ref};
use crate::table::row_address::{FragmentId, RowAddress};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many rows a report names.
const REPORTED_ROWS: usize = 5;

/// Why a transaction cannot be carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collision {
    /// What both changed.
    pub coordinate: String,
    /// Some of the rows that both changed, by their latest addresses.
    pub rows: Vec<RowAddress>,
    /// The version that came first.
    pub version: u64,
    /// Its transaction.
    pub transaction: String,
    /// What that transaction said.
    pub statement: String,
}

/// Rows of one fragment that our transaction deletes.
#[derive(Debug, Clone)]
struct Claim {
    /// The step and the action within it that made the claim.
    origin: (usize, usize),
    fragment: FragmentId,
    added: RoaringBitmap,
    replaced: RoaringBitmap,
}

/// One rewrite of ours.
#[derive(Debug, Clone)]
struct Group {
    sources: Vec<FragmentRef>,
    targets: Vec<FragmentRef>,
    map: Arc<AddressMap>,
    dropped: bool,
}

/// A transaction on its way to the newest version.
#[derive(Debug, Clone)]
pub struct Rebase {
    ours: Transaction,
    footprint: Footprint,
    claims: Vec<Claim>,
    groups: Vec<Group>,
    /// Fragments that we remove without moving their rows.
    removals: BTreeSet<FragmentId>,
    /// Rows that others deleted in fragments that we move, by their addresses before the move.
    foreign: BTreeMap<FragmentId, RoaringBitmap>,
    /// Rows that we meant to delete and others deleted first, by step.
    already_deleted: Vec<u64>,
    rows_carried: u64,
    merged: BTreeSet<FragmentId>,
    versions: u64,
}

impl Rebase {
    /// The start: nothing has landed yet. `maps` are those of our changes of address, in order.
    pub fn new(ours: Transaction, maps: &[Arc<AddressMap>]) -> Result<Self, Collision> {
        let mut claims = Vec::new();
        let mut groups = Vec::new();
        let mut removed = BTreeSet::new();
        for (step, actions) in ours.steps.iter().enumerate() {
            for (at, action) in actions.actions.iter().enumerate() {
                match action {
                    Action::SetDeletionFile(set) => {
                        if let Ref::Committed(fragment) = set.fragment {
                            let (added, replaced) = (set.added.clone(), set.replaced.clone());
                            claims.push(Claim { origin: (step, at), fragment, added, replaced });
                        }
                    }
                    Action::ChangeOfAddress(change) => {
                        let map = maps.get(groups.len()).cloned().ok_or_else(|| broken("a change of address has no map"))?;
                        groups.push(group(change, map)?);
                    }
                    Action::RemoveFragment(remove) => removed.extend(remove.fragment.committed()),
                    Action::AddFragment(_) | Action::AddDataFile(_) | Action::AddField(_) => {}
                }
            }
        }
        let moved: BTreeSet<FragmentId> =
            groups.iter().flat_map(|group: &Group| &group.sources).filter_map(|source| source.committed()).collect();
        Ok(Rebase {
            footprint: Footprint::of(&ours),
            already_deleted: vec![0; ours.steps.len()],
            ours,
            claims,
            groups,
            removals: removed.difference(&moved).copied().collect(),
            foreign: BTreeMap::new(),
            rows_carried: 0,
            merged: BTreeSet::new(),
            versions: 0,
        })
    }

    /// Which of the changes of address of a transaction that landed are needed to walk over it, in their order.
    pub fn maps_needed(&self, landed: &CommittedTransaction) -> Vec<bool> {
        let mut touched: BTreeSet<FragmentId> = self.claims.iter().map(|claim| claim.fragment).collect();
        let mut needed = Vec::new();
        for action in landed.transaction.actions() {
            match action {
                Action::ChangeOfAddress(change) => {
                    let wanted = change.sources.iter().filter_map(|s| landed.minted.fragment(*s)).any(|id| touched.contains(&id));
                    if wanted {
                        touched.extend(change.targets.iter().filter_map(|t| landed.minted.fragment(*t)));
                    }
                    needed.push(wanted);
                }
                Action::AddFragment(_)
                | Action::AddDataFile(_)
                | Action::RemoveFragment(_)
                | Action::SetDeletionFile(_)
                | Action::AddField(_) => {}
            }
        }
        needed
    }

    /// A version landed; [`Rebase::over`] follows for each of its transactions.
    pub fn version_landed(&mut self) {
        self.versions += 1;
    }

    /// Walks over one transaction of `version`. `maps` are those that [`Rebase::maps_needed`] asked for.
    pub fn over(&mut self, version: u64, landed: &CommittedTransaction, maps: &[Option<Arc<AddressMap>>]) -> Result<(), Collision> {
        let report = |coordinate: String, rows: Vec<RowAddress>| Collision {
            coordinate,
            rows,
            version,
            transaction: landed.transaction.id.to_string(),
            statement: landed.transaction.describe(),
        };
        if let Some(coordinate) = self.footprint.collision(&Footprint::of(&landed.transaction)) {
            return Err(report(coordinate.to_string(), vec![]));
        }
        let moved_by_them: BTreeSet<FragmentId> = landed
            .transaction
            .actions()
            .filter_map(|action| match action {
                Action::ChangeOfAddress(change) => Some(change.sources.iter().filter_map(|s| landed.minted.fragment(*s))),
                Action::AddFragment(_)
                | Action::AddDataFile(_)
                | Action::RemoveFragment(_)
                | Action::SetDeletionFile(_)
                | Action::AddField(_) => None,
            })
            .flatten()
            .collect();
        let mut maps = maps.iter();
        for action in landed.transaction.actions() {
            match action {
                Action::AddFragment(_) | Action::AddField(_) => {}
                Action::AddDataFile(add) => {
                    if let Ref::Committed(fragment) = add.fragment {
                        self.column_changed(fragment).map_err(|rows| report(format!("column data of fragment {fragment}"), rows))?;
                    }
                }
                Action::SetDeletionFile(set) => {
                    let id =
                        landed.minted.fragment(set.fragment).ok_or_else(|| broken("a landed transaction names an unknown fragment"))?;
                    self.rows_deleted(id, &set.added, &set.replaced).map_err(|rows| report(format!("rows of fragment {id}"), rows))?;
                }
                Action::ChangeOfAddress(change) => {
                    let map = maps.next().ok_or_else(|| broken("a landed change of address is missing"))?;
                    self.rows_moved(change, landed, map.as_deref()).map_err(|(coordinate, rows)| report(coordinate, rows))?;
                }
                Action::RemoveFragment(remove) => {
                    let id =
                        landed.minted.fragment(remove.fragment).ok_or_else(|| broken("a landed transaction names an unknown fragment"))?;
                    if !moved_by_them.contains(&id) {
                        self.fragment_removed(id).map_err(|rows| report(format!("rows of fragment {id}"), rows))?;
                    }
                }
            }
        }
        self.claims.retain(|claim| !claim.added.is_empty());
        Ok(())
    }

    /// They deleted rows. Returns the rows that collide.
    fn rows_deleted(&mut self, id: FragmentId, added: &RoaringBitmap, replaced: &RoaringBitmap) -> Result<(), Vec<RowAddress>> {
        if added.is_empty() {
            return Ok(());
        }
        for claim in self.claims.iter_mut().filter(|claim| claim.fragment == id) {
            let both = &claim.added & added;
            let collide = &both & (&claim.replaced | replaced);
            if !collide.is_empty() {
                return Err(sample(id, &collide));
            }
            claim.added -= &both;
            count(&mut self.already_deleted, claim.origin.0, both.len());
            self.merged.insert(id);
        }
        if self.removals.contains(&id) && !replaced.is_empty() {
            return Err(sample(id, replaced));
        }
        if self.moves(id).is_some() {
            *self.foreign.entry(id).or_default() |= added;
        }
        Ok(())
    }

    /// They removed a fragment with its rows. Returns the rows that collide.
    fn fragment_removed(&mut self, id: FragmentId) -> Result<(), Vec<RowAddress>> {
        for claim in self.claims.iter_mut().filter(|claim| claim.fragment == id) {
            if !claim.replaced.is_empty() {
                return Err(sample(id, &claim.replaced));
            }
            count(&mut self.already_deleted, claim.origin.0, claim.added.len());
            claim.added.clear();
        }
        if let Some((group, source)) = self.moves(id) {
            let rows = self.groups.get(group).and_then(|g| g.map.sources().get(source)).map_or(0, |s| s.physical_rows);
            self.foreign.entry(id).or_default().insert_range(0..rows);
        }
        Ok(())
    }

    /// They gave a column of a fragment new values. Returns the rows that collide.
    fn column_changed(&mut self, id: FragmentId) -> Result<(), Vec<RowAddress>> {
        for claim in self.claims.iter().filter(|claim| claim.fragment == id && !claim.replaced.is_empty()) {
            return Err(sample(id, &claim.replaced));
        }
        match self.moves(id) {
            Some((group, _)) => self.drop_group(group).map_err(|()| vec![]),
            None => Ok(()),
        }
    }

    /// They moved rows. Returns what collides.
    fn rows_moved(
        &mut self,
        change: &ChangeOfAddress,
        landed: &CommittedTransaction,
        map: Option<&AddressMap>,
    ) -> Result<(), (String, Vec<RowAddress>)> {
        let unusable = |reason: &str| (format!("a change of address that cannot be used ({reason})"), vec![]);
        let ids = |refs: &[FragmentRef]| refs.iter().map(|r| landed.minted.fragment(*r)).collect::<Option<Vec<FragmentId>>>();
        let sources = ids(&change.sources).ok_or_else(|| unusable("unknown fragments"))?;
        let targets = ids(&change.targets).ok_or_else(|| unusable("unknown fragments"))?;
        for (at, source) in sources.iter().enumerate() {
            if self.removals.contains(source) {
                return Err((format!("fragment {source}"), vec![]));
            }
            if let Some((group, _)) = self.moves(*source) {
                self.drop_group(group).map_err(|()| (format!("fragment {source}"), vec![]))?;
            }
            let (here, elsewhere): (Vec<Claim>, Vec<Claim>) =
                std::mem::take(&mut self.claims).into_iter().partition(|claim| claim.fragment == *source);
            self.claims = elsewhere;
            for claim in here {
                let map = map.ok_or_else(|| unusable("it was not read"))?;
                if map.sources().len() != sources.len() || map.targets().len() != targets.len() {
                    return Err(unusable("it is of other fragments"));
                }
                let added = map.move_rows(at, &claim.added).map_err(|e| unusable(&e.0))?;
                let replaced = map.move_rows(at, &claim.replaced).map_err(|e| unusable(&e.0))?;
                if !replaced.absent.is_empty() {
                    return Err((format!("rows of fragment {source}"), sample(*source, &replaced.absent)));
                }
                count(&mut self.already_deleted, claim.origin.0, added.absent.len());
                let mut replaced: BTreeMap<usize, RoaringBitmap> = replaced.targets.into_iter().collect();
                for (target, rows) in added.targets {
                    let fragment = *targets.get(target).ok_or_else(|| unusable("it names a target too many"))?;
                    self.rows_carried += rows.len();
                    let replaced = replaced.remove(&target).unwrap_or_default();
                    self.claims.push(Claim { origin: claim.origin, fragment, added: rows, replaced });
                }
            }
        }
        Ok(())
    }

    /// The group of ours that moves a fragment, and the fragment's number in it.
    fn moves(&self, id: FragmentId) -> Option<(usize, usize)> {
        self.groups.iter().enumerate().filter(|(_, group)| !group.dropped).find_map(|(at, group)| {
            let source = group.sources.iter().position(|source| *source == Ref::Committed(id))?;
            Some((at, source))
        })
    }

    /// Gives a group of ours up, unless something else in the transaction builds on its targets.
    fn drop_group(&mut self, at: usize) -> Result<(), ()> {
        let Some(group) = self.groups.get(at) else { return Err(()) };
        let built_upon = self.ours.actions().any(|action| match action {
            Action::SetDeletionFile(set) => group.targets.contains(&set.fragment) && !set.added.is_empty(),
            Action::RemoveFragment(remove) => group.targets.contains(&remove.fragment),
            Action::ChangeOfAddress(change) => change.sources.iter().any(|source| group.targets.contains(source)),
            Action::AddFragment(_) | Action::AddDataFile(_) | Action::AddField(_) => false,
        });
        if built_upon {
            return Err(());
        }
        // Rows that others deleted are in the vectors of fragments that now stay.
        for id in group.sources.iter().filter_map(|source| source.committed()) {
            self.foreign.remove(&id);
        }
        if let Some(group) = self.groups.get_mut(at) {
            group.dropped = true;
        }
        Ok(())
    }
}

fn group(change: &ChangeOfAddress, map: Arc<AddressMap>) -> Result<Group, Collision> {
    if map.sources().len() != change.sources.len() || map.targets().len() != change.targets.len() {
        return Err(broken("a change of address and its map name different fragments"));
    }
    Ok(Group { sources: change.sources.clone(), targets: change.targets.clone(), map, dropped: false })
}

fn count(by_step: &mut [u64], step: usize, rows: u64) {
    if let Some(counted) = by_step.get_mut(step) {
        *counted += rows;
    }
}

fn sample(fragment: FragmentId, rows: &RoaringBitmap) -> Vec<RowAddress> {
    rows.iter().take(REPORTED_ROWS).map(|offset| RowAddress::new(fragment, offset)).collect()
}

/// What does not add up is a collision: the statement runs again on the newest version.
fn broken(reason: &str) -> Collision {
    Collision { coordinate: reason.to_owned(), rows: vec![], version: 0, transaction: String::new(), statement: String::new() }
}

#[cfg(test)]
mod tests;
