//! Rebase: carry a transaction over what others committed since it read.
//!
//! ```text
//!   read version ──> their transaction ──> their transaction ──> ... ──> newest version
//!                      │ deleted rows:  compared with the rows we claim; kept for the rows we move
//!                      │ moved rows:    our claims follow their map, and so do columns that we wrote; a group of ours on
//!                      │                the same fragments is given up
//!                      │ new values:    of columns of fragments that we move are gathered for their targets
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

mod carry;
mod columns;
mod finish;
mod rows;
mod settle;

pub use carry::Carry;
pub use columns::{Gather, Place, Run};
pub use finish::Rebased;
pub use settle::{VectorsNeeded, settle, vectors_needed};

use super::action::{Action, ChangeOfAddress};
use super::address_map::AddressMap;
use super::composite::{CommittedTransaction, Transaction};
use super::footprint::Footprint;
use super::refs::{FragmentRef, Minted, Ref};
use crate::faulty::{self, Fault};
use crate::table::row_address::{FragmentId, RowAddress};
use crate::table::schema::FieldId;
use columns::ColumnChanges;
use roaring::RoaringBitmap;
use rows::{DeletedRows, sample};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Why a transaction cannot be carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collision {
    /// What both changed.
    pub coordinate: String,
    /// Some of the rows that both changed, by the addresses that the other transaction knew them by.
    pub rows: Vec<RowAddress>,
    /// The version that came first.
    pub version: u64,
    /// Its transaction.
    pub transaction: String,
    /// What that transaction said.
    pub statement: String,
}

impl Collision {
    /// A collision with something that landed by `version`, without a transaction to name.
    pub fn unnamed(coordinate: String, version: u64) -> Self {
        Collision { coordinate, rows: vec![], version, transaction: String::new(), statement: String::new() }
    }
}

/// The coordinate of a collision, and rows of it.
type Found = (String, Vec<RowAddress>);

/// One rewrite of ours.
#[derive(Debug, Clone)]
struct Group {
    /// The step that it is part of.
    step: usize,
    sources: Vec<FragmentRef>,
    targets: Vec<FragmentRef>,
    map: Arc<AddressMap>,
    /// Whether something else of ours acts on its targets, so that it cannot be given up.
    built_upon: bool,
    /// Fields that others gave new values in its sources after it read them.
    refreshed: BTreeMap<FragmentId, BTreeSet<FieldId>>,
    dropped: bool,
}

/// A transaction on its way to the newest version.
#[derive(Debug, Clone)]
pub struct Rebase {
    ours: Transaction,
    footprint: Footprint,
    /// Rows of others' fragments that we delete, where they are by now, by the step that deletes them.
    claims: BTreeMap<FragmentId, BTreeMap<usize, DeletedRows>>,
    groups: Vec<Group>,
    /// The group of each fragment that we move, and the fragment's number in it.
    sources: BTreeMap<FragmentRef, (usize, usize)>,
    /// The group of each fragment that we move rows to.
    targets: BTreeMap<FragmentRef, usize>,
    /// Fragments that we add under reserved ids: ours, as those with tokens are.
    claimed: BTreeSet<FragmentId>,
    /// Fragments that we remove without moving their rows.
    removals: BTreeSet<FragmentId>,
    /// Columns of fragments of others that we change.
    columns: ColumnChanges,
    /// Fields whose values decided what we change, or how.
    reads: BTreeSet<FieldId>,
    /// Rows that others deleted in fragments that we move, by their addresses before the move.
    foreign: BTreeMap<FragmentId, RoaringBitmap>,
    /// Rows that we meant to delete and others deleted first, by step.
    already_deleted: Vec<u64>,
    rows_carried: u64,
    merged: BTreeSet<FragmentId>,
    /// Fragments that we remove or whose columns we change, and of which others deleted rows.
    thinned: BTreeSet<FragmentId>,
    versions: u64,
}

impl Rebase {
    /// The start: nothing has landed yet. `maps` are those of our changes of address, in order.
    pub fn new(ours: Transaction, maps: &[Arc<AddressMap>]) -> Result<Self, Collision> {
        let mut this = Rebase {
            footprint: Footprint::of(&ours),
            claimed: ours.claimed_fragments(),
            already_deleted: vec![0; ours.steps.len()],
            claims: BTreeMap::new(),
            groups: Vec::new(),
            sources: BTreeMap::new(),
            targets: BTreeMap::new(),
            removals: BTreeSet::new(),
            columns: ColumnChanges::default(),
            reads: BTreeSet::new(),
            foreign: BTreeMap::new(),
            rows_carried: 0,
            merged: BTreeSet::new(),
            thinned: BTreeSet::new(),
            versions: 0,
            ours,
        };
        let added = added_rows(&this.ours);
        let mut removed = BTreeSet::new();
        for (step, actions) in this.ours.steps.iter().enumerate() {
            for action in &actions.actions {
                match action {
                    Action::SetDeletionFile(set) => {
                        if let Some(fragment) = this.of_others(set.fragment) {
                            if set.added.is_empty() {
                                return Err(broken("a deletion vector without rows that it deletes"));
                            }
                            this.claims.entry(fragment).or_default().entry(step).or_default().unite(DeletedRows::of(set));
                        }
                    }
                    Action::ChangeOfAddress(change) => {
                        let at = this.groups.len();
                        let map = maps.get(at).cloned().ok_or_else(|| broken("a change of address has no map"))?;
                        check_map(change, &map, &added)?;
                        let numbered = change.sources.iter().enumerate().map(|(number, source)| (*source, (at, number)));
                        this.sources.extend(numbered);
                        this.targets.extend(change.targets.iter().map(|target| (*target, at)));
                        let (sources, targets) = (change.sources.clone(), change.targets.clone());
                        this.groups.push(Group {
                            step,
                            sources,
                            targets,
                            map,
                            built_upon: false,
                            refreshed: BTreeMap::new(),
                            dropped: false,
                        });
                    }
                    Action::RemoveFragment(remove) => {
                        removed.insert(remove.fragment);
                    }
                    Action::AddDataFile(add) => this.columns.write(this.of_others(add.fragment), add.held()),
                    Action::TombstoneFieldData(gone) => this.columns.write(this.of_others(gone.fragment), gone.fields.iter().copied()),
                    Action::AddFragment(_)
                    | Action::AddField(_)
                    | Action::AlterField(_)
                    | Action::DropField(_)
                    | Action::ConfigUpdate(_)
                    | Action::ReserveFragmentIds(_)
                    | Action::ResetTable(_)
                    | Action::AddBase(_)
                    | Action::AssertUniqueKeys(_) => {}
                }
            }
        }
        let moves: usize = this.groups.iter().map(|group| group.sources.len()).sum();
        if this.sources.len() != moves || this.sources.keys().any(|source| !removed.contains(source)) {
            return Err(broken("a fragment is moved twice, or moved and not removed"));
        }
        this.removals = removed.iter().filter(|f| !this.sources.contains_key(f)).filter_map(|f| this.of_others(*f)).collect();
        this.mark_built_upon();
        Ok(this)
    }

    /// The same for a transaction that read these fields: new values that others gave them in place, in fragments that it acts
    /// upon, collide.
    pub fn reading(mut self, fields: &BTreeSet<FieldId>) -> Self {
        self.reads = fields.clone();
        self
    }

    /// Finds the groups whose targets something else of ours acts on.
    fn mark_built_upon(&mut self) {
        for (step, actions) in self.ours.steps.iter().enumerate() {
            for action in &actions.actions {
                let (fragment, own_file) = match action {
                    Action::SetDeletionFile(set) => (set.fragment, false),
                    Action::RemoveFragment(remove) => (remove.fragment, false),
                    Action::AddDataFile(add) => (add.fragment, true),
                    Action::TombstoneFieldData(tombstone) => (tombstone.fragment, false),
                    // What a change of address moves is removed as well.
                    Action::ChangeOfAddress(_)
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
                if let Some(group) = self.targets.get(&fragment).and_then(|at| self.groups.get_mut(*at)) {
                    group.built_upon |= !own_file || step != group.step;
                }
            }
        }
    }

    /// Which of the changes of address of a transaction that landed are needed to walk over it, in their order.
    pub fn maps_needed(&self, landed: &CommittedTransaction) -> Vec<bool> {
        // Fragments that take over rows of ours in the course of the transaction.
        let mut taking_over: BTreeSet<FragmentId> = BTreeSet::new();
        let mut needed = Vec::new();
        for change in landed.transaction.actions().filter_map(Action::change_of_address) {
            let mut sources = change.sources.iter().filter_map(|s| landed.minted.fragment(*s));
            let wanted = sources.any(|id| self.claims.contains_key(&id) || self.columns.touch(id) || taking_over.contains(&id));
            if wanted {
                taking_over.extend(change.targets.iter().filter_map(|t| landed.minted.fragment(*t)));
            }
            needed.push(wanted);
        }
        needed
    }

    /// A version landed; [`Rebase::over`] follows for each of its transactions.
    pub fn version_landed(&mut self) {
        self.versions += 1;
    }

    /// Walks over one transaction of `version`. `maps` are those that [`Rebase::maps_needed`] asked for.
    pub fn over(&mut self, version: u64, landed: &CommittedTransaction, maps: &[Option<Arc<AddressMap>>]) -> Result<(), Collision> {
        self.walk(landed, maps).map_err(|(coordinate, rows)| Collision {
            coordinate,
            rows,
            version,
            transaction: landed.transaction.id.to_string(),
            statement: landed.transaction.describe(),
        })
    }

    fn walk(&mut self, landed: &CommittedTransaction, maps: &[Option<Arc<AddressMap>>]) -> Result<(), Found> {
        if let Some(coordinate) = self.footprint.collision(&Footprint::of(&landed.transaction)) {
            return Err((coordinate, vec![]));
        }
        let moved_by_them: BTreeSet<FragmentId> = landed
            .transaction
            .actions()
            .filter_map(Action::change_of_address)
            .flat_map(|change| change.sources.iter().filter_map(|s| landed.minted.fragment(*s)))
            .collect();
        let added_by_them = landed.transaction.claimed_fragments();
        let changed = |fragment: FragmentRef| fragment.committed().filter(|id| !added_by_them.contains(id));
        let id_of = |fragment: FragmentRef| landed.minted.fragment(fragment).ok_or_else(|| ("a fragment without an id".to_owned(), vec![]));
        let added = if maps.iter().any(Option::is_some) { added_rows(&landed.transaction) } else { BTreeMap::new() };
        let mut maps = maps.iter();
        for action in landed.transaction.actions() {
            match action {
                Action::AddFragment(_)
                | Action::AddField(_)
                | Action::AlterField(_)
                | Action::DropField(_)
                | Action::ConfigUpdate(_)
                | Action::ReserveFragmentIds(_)
                | Action::ResetTable(_)
                | Action::AddBase(_)
                | Action::AssertUniqueKeys(_) => {}
                // In a fragment that they add there are rows of ours once those have moved there. What they write then and say is
                // no change, the rows had before they moved.
                Action::AddDataFile(add) => {
                    if changed(add.fragment).is_some() || add.data_change {
                        self.columns_changed(id_of(add.fragment)?, &add.held().collect::<Vec<_>>(), &landed.minted)?;
                    }
                }
                Action::TombstoneFieldData(gone) => {
                    if changed(gone.fragment).is_some() || gone.data_change {
                        self.columns_changed(id_of(gone.fragment)?, &gone.fields, &landed.minted)?;
                    }
                }
                Action::SetDeletionFile(set) => self.rows_deleted(id_of(set.fragment)?, &DeletedRows::of(set))?,
                Action::ChangeOfAddress(change) => {
                    let map = maps.next().ok_or_else(|| unusable("it is missing"))?.as_deref();
                    if let Some(map) = map {
                        check_map(change, map, &added).map_err(|broken| unusable(&broken.coordinate))?;
                    }
                    self.rows_moved(change, &landed.minted, map)?;
                }
                Action::RemoveFragment(remove) => {
                    let id = id_of(remove.fragment)?;
                    if !moved_by_them.contains(&id) {
                        self.fragment_removed(id)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// They deleted rows.
    fn rows_deleted(&mut self, id: FragmentId, theirs: &DeletedRows) -> Result<(), Found> {
        if theirs.added.is_empty() {
            return Ok(());
        }
        if let Some(claims) = self.claims.get_mut(&id) {
            for (step, ours) in claims.iter_mut() {
                let collide = ours.collision(theirs);
                if !collide.is_empty() && !faulty::is(Fault::IgnoreReplaced) {
                    return Err(rows_of(id, &collide));
                }
                let both = &ours.added & &theirs.added;
                ours.added -= &both;
                count(&mut self.already_deleted, *step, both.len());
            }
            claims.retain(|_, ours| !ours.added.is_empty());
            if claims.is_empty() {
                self.claims.remove(&id);
            } else {
                self.merged.insert(id);
            }
        }
        // A new version of a row lies elsewhere: we would not remove it, nor would it have our columns.
        let missed = if self.removals.contains(&id) { theirs.replaced.clone() } else { self.columns.written(id, &theirs.replaced) };
        if !missed.is_empty() {
            return Err(rows_of(id, &missed));
        }
        self.thin(id);
        self.deleted_before_our_move(id, theirs)
    }

    /// They removed a fragment with its rows.
    fn fragment_removed(&mut self, id: FragmentId) -> Result<(), Found> {
        for (step, ours) in self.claims.remove(&id).unwrap_or_default() {
            if !ours.replaced.is_empty() {
                return Err(rows_of(id, &ours.replaced));
            }
            count(&mut self.already_deleted, step, ours.added.len());
        }
        self.thin(id);
        let Some((group, number)) = self.moves(id) else { return Ok(()) };
        let rows = self.groups.get(group).and_then(|group| group.map.sources().get(number)).map_or(0, |source| source.physical_rows);
        let mut all = RoaringBitmap::new();
        all.insert_range(0..rows);
        self.deleted_before_our_move(id, &DeletedRows::plain(all))
    }

    fn thin(&mut self, id: FragmentId) {
        if self.removals.contains(&id) || self.columns.touch(id) {
            self.thinned.insert(id);
        }
    }

    /// They deleted rows that we move, if we move the fragment.
    fn deleted_before_our_move(&mut self, id: FragmentId, theirs: &DeletedRows) -> Result<(), Found> {
        if faulty::is(Fault::DropForeignDeletions) {
            return Ok(());
        }
        let Some((group, _)) = self.moves(id) else { return Ok(()) };
        if self.groups.get(group).is_some_and(|group| group.built_upon)
            && let Some(rows) = self.collision_after_our_moves(id, theirs)?
        {
            return Err((format!("rows of fragment {id}"), rows));
        }
        *self.foreign.entry(id).or_default() |= &theirs.added;
        Ok(())
    }

    /// They moved rows.
    fn rows_moved(&mut self, change: &ChangeOfAddress, minted: &Minted, map: Option<&AddressMap>) -> Result<(), Found> {
        let ids = |refs: &[FragmentRef]| refs.iter().map(|r| minted.fragment(*r)).collect::<Option<Vec<FragmentId>>>();
        let sources = ids(&change.sources).ok_or_else(|| unusable("unknown fragments"))?;
        let targets = ids(&change.targets).ok_or_else(|| unusable("unknown fragments"))?;
        self.columns_moved(&sources, &targets, map)?;
        for (number, source) in sources.iter().enumerate() {
            if self.removals.contains(source) {
                return Err((format!("fragment {source}"), vec![]));
            }
            if let Some((group, _)) = self.moves(*source) {
                self.drop_group(group, format!("fragment {source}"))?;
            }
            for (step, ours) in self.claims.remove(source).unwrap_or_default() {
                let map = map.ok_or_else(|| unusable("it was not read"))?;
                let followed = ours.follow(map, number).map_err(|e| unusable(&e.0))?;
                if !followed.absent.replaced.is_empty() {
                    return Err(rows_of(*source, &followed.absent.replaced));
                }
                count(&mut self.already_deleted, step, followed.absent.added.len());
                for (target, rows) in followed.targets.into_iter().filter(|_| !faulty::is(Fault::SkipMap)) {
                    let fragment = *targets.get(target).ok_or_else(|| unusable("it names a target too many"))?;
                    self.rows_carried += rows.added.len();
                    self.claims.entry(fragment).or_default().entry(step).or_default().unite(rows);
                }
            }
        }
        Ok(())
    }

    /// The id of a fragment that we did not add.
    fn of_others(&self, fragment: FragmentRef) -> Option<FragmentId> {
        fragment.committed().filter(|id| !self.claimed.contains(id))
    }

    /// The group of ours that moves a fragment of others, and the fragment's number in it.
    fn moves(&self, id: FragmentId) -> Option<(usize, usize)> {
        self.sources.get(&Ref::Committed(id)).copied().filter(|(group, _)| !self.is_dropped(*group))
    }

    fn is_dropped(&self, group: usize) -> bool {
        self.groups.get(group).is_some_and(|group| group.dropped)
    }

    /// Gives a group of ours up, unless something else in the transaction builds on its targets.
    fn drop_group(&mut self, at: usize, coordinate: String) -> Result<(), Found> {
        match self.groups.get_mut(at) {
            Some(group) if !group.built_upon => {
                group.dropped = true;
                // Rows that others deleted are in the vectors of fragments that now stay.
                for id in group.sources.iter().filter_map(|source| source.committed()) {
                    self.foreign.remove(&id);
                }
                Ok(())
            }
            _ => Err((coordinate, vec![])),
        }
    }
}

/// The fragments that a transaction adds, and how many rows each has.
fn added_rows(transaction: &Transaction) -> BTreeMap<FragmentRef, u32> {
    transaction.actions().filter_map(Action::added_fragment).map(|add| (add.id, add.physical_rows)).collect()
}

/// Whether a map is the one of this change of address: as many fragments, and targets of the sizes that were added.
fn check_map(change: &ChangeOfAddress, map: &AddressMap, added: &BTreeMap<FragmentRef, u32>) -> Result<(), Collision> {
    if map.sources().len() != change.sources.len() || map.targets().len() != change.targets.len() {
        return Err(broken("a change of address and its map name different fragments"));
    }
    if change.targets.iter().zip(map.targets()).any(|(target, rows)| added.get(target) != Some(rows)) {
        return Err(broken("the targets of a change of address are not of the sizes that its map says"));
    }
    Ok(())
}

fn count(by_step: &mut [u64], step: usize, rows: u64) {
    if let Some(counted) = by_step.get_mut(step) {
        *counted += rows;
    }
}

fn rows_of(id: FragmentId, rows: &RoaringBitmap) -> Found {
    (format!("rows of fragment {id}"), sample(id, rows))
}

fn unusable(reason: &str) -> Found {
    (format!("a change of address that cannot be used ({reason})"), vec![])
}

/// What does not add up is a collision: the statement runs again on the newest version.
fn broken(reason: &str) -> Collision {
    Collision::unnamed(reason.to_owned(), 0)
}

#[cfg(test)]
mod tests;
