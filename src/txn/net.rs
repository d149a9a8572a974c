//! What a transaction changed on the whole: the rows that it found and that are gone after it, the rows that are new after it, and
//! the rows that are there before and after, wherever they are.
//!
//! ```text
//!   live rows before        followed through the transaction's maps        live rows after
//!        │                                   │                                  │
//!        ├── not live where they came to ────┴──> deleted, by the address before
//!        ├── live where they came to ───────────> stayed, by the address after
//!        └                                        all others: inserted ─────────┘
//! ```
//!
//! Goes in: a landed transaction, and the live rows before and after it of the fragments that it touches. Comes out: sets of rows.
//! Always holds: a row that was inserted and deleted by the same transaction is in none of them; rows that moved have stayed. Rows are
//! told to be the old and the new versions of updates only if each of them is one for certain.

use super::action::Action;
use super::address_map::{AddressMap, MapError};
use super::composite::CommittedTransaction;
use crate::manifest::fragments::NotLoaded;
use crate::manifest::snapshot::Snapshot;
use crate::table::row_address::{FragmentId, RowAddress};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rows by fragment.
pub type RowsOf = BTreeMap<FragmentId, RoaringBitmap>;

/// The change of a table by one transaction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Net {
    /// Rows that are gone, at the addresses before.
    pub deleted: RowsOf,
    /// Rows that are gone and live on in a new version, at the addresses before.
    pub replaced: RowsOf,
    /// Rows that are new, at the addresses after.
    pub inserted: RowsOf,
    /// Rows that are new versions of replaced ones, at the addresses after; as many as those.
    pub renewed: RowsOf,
    /// Rows that are there before and after, at the addresses after: those of fragments that the transaction touches.
    pub stayed: RowsOf,
}

/// The fragments of a version before and after a transaction of which it may have changed rows.
pub fn touched(landed: &CommittedTransaction, before: &Snapshot, after: &Snapshot) -> Result<BTreeSet<FragmentId>, NotLoaded> {
    let mut touched = BTreeSet::new();
    for action in landed.transaction.actions() {
        match action {
            Action::AddFragment(add) => touched.extend(landed.minted.fragment(add.id)),
            Action::AddDataFile(add) => touched.extend(landed.minted.fragment(add.fragment)),
            Action::RemoveFragment(remove) => touched.extend(landed.minted.fragment(remove.fragment)),
            Action::TombstoneFieldData(tombstone) => touched.extend(landed.minted.fragment(tombstone.fragment)),
            Action::SetDeletionFile(set) => touched.extend(landed.minted.fragment(set.fragment)),
            Action::ChangeOfAddress(change) => {
                touched.extend(change.sources.iter().chain(&change.targets).filter_map(|fragment| landed.minted.fragment(*fragment)));
            }
            Action::ResetTable(_) => touched.extend(before.fragments.iter()?.chain(after.fragments.iter()?).map(|fragment| fragment.id)),
            Action::AddField(_)
            | Action::AlterField(_)
            | Action::DropField(_)
            | Action::ConfigUpdate(_)
            | Action::ReserveFragmentIds(_)
            | Action::AddBase(_)
            | Action::AssertUniqueKeys(_) => {}
        }
    }
    Ok(touched)
}

/// Whether the table's fields are others after it, so that rows before it have no columns of those after it.
pub fn resets(landed: &CommittedTransaction) -> bool {
    landed.transaction.actions().any(|action| matches!(action, Action::ResetTable(_)))
}

/// Whether rows that stay may have other values after it: it wrote columns of fragments whose rows are not its own.
pub fn writes_in_place(landed: &CommittedTransaction) -> bool {
    let own: BTreeSet<_> =
        landed.transaction.actions().filter_map(Action::added_fragment).filter(|add| add.data_change).map(|add| add.id).collect();
    landed.transaction.actions().any(|action| match action {
        Action::AddDataFile(add) => add.data_change && !own.contains(&add.fragment),
        Action::TombstoneFieldData(tombstone) => tombstone.data_change && !own.contains(&tombstone.fragment),
        Action::AddFragment(_)
        | Action::RemoveFragment(_)
        | Action::SetDeletionFile(_)
        | Action::ChangeOfAddress(_)
        | Action::AddField(_)
        | Action::AlterField(_)
        | Action::DropField(_)
        | Action::ConfigUpdate(_)
        | Action::ReserveFragmentIds(_)
        | Action::ResetTable(_)
        | Action::AddBase(_)
        | Action::AssertUniqueKeys(_) => false,
    })
}

/// What a transaction changed. `before` and `after` hold the live rows of the fragments that it touches, as far as there are such
/// fragments.
pub fn net(landed: &CommittedTransaction, before: &RowsOf, after: &RowsOf, moves: &Moves) -> Result<Net, MapError> {
    let none = RoaringBitmap::new();
    let (places, mut gone) = moves.follow(before)?;
    let mut net = Net::default();
    for (fragment, rows) in &places {
        let live = after.get(fragment).unwrap_or(&none);
        put(&mut gone, *fragment, rows - live);
        put(&mut net.stayed, *fragment, rows & live);
    }
    for (fragment, live) in after {
        put(&mut net.inserted, *fragment, live - places.get(fragment).unwrap_or(&none));
    }
    net.deleted = moves.back(&gone, before)?;
    net.tell_updates(landed, before, after, moves)?;
    Ok(net)
}

impl Net {
    /// Tells updates from deletions and insertions, if it is certain which are which.
    ///
    /// Every update writes one row. If as many rows as were updated are gone that had been there before, each update replaced one of
    /// those; if as many new versions are there, none of them went again.
    fn tell_updates(&mut self, landed: &CommittedTransaction, before: &RowsOf, after: &RowsOf, moves: &Moves) -> Result<(), MapError> {
        let updated: u64 = landed.transaction.steps.iter().map(|step| step.counts.updated).sum();
        if updated == 0 {
            return Ok(());
        }
        let mut marked = RowsOf::new();
        for set in landed.transaction.actions().filter_map(Action::deletion).filter(|set| !set.replaced.is_empty()) {
            if let Some(fragment) = landed.minted.fragment(set.fragment) {
                put(&mut marked, fragment, set.replaced.clone());
            }
        }
        let replaced = both(&moves.back(&marked, before)?, &self.deleted);
        let mut written = RowsOf::new();
        for add in landed.transaction.actions().filter_map(Action::added_fragment) {
            if let Some(fragment) = landed.minted.fragment(add.id) {
                put(&mut written, fragment, add.replacing.clone());
            }
        }
        let renewed = both(&written, after);
        if count(&replaced) == updated && count(&renewed) == updated {
            without(&mut self.deleted, &replaced);
            without(&mut self.inserted, &renewed);
            (self.replaced, self.renewed) = (replaced, renewed);
        }
        Ok(())
    }
}

/// The changes of address of a transaction, in their order.
#[derive(Debug, Clone, Default)]
pub struct Moves {
    moves: Vec<Move>,
}

#[derive(Debug, Clone)]
struct Move {
    sources: Vec<Option<FragmentId>>,
    targets: Vec<Option<FragmentId>>,
    map: Arc<AddressMap>,
}

impl Moves {
    /// Those of `landed`; `maps` are their maps.
    pub fn of(landed: &CommittedTransaction, maps: Vec<Arc<AddressMap>>) -> Self {
        let changes = landed.transaction.actions().filter_map(Action::change_of_address);
        let moves = changes.zip(maps).map(|(change, map)| Move {
            sources: change.sources.iter().map(|source| landed.minted.fragment(*source)).collect(),
            targets: change.targets.iter().map(|target| landed.minted.fragment(*target)).collect(),
            map,
        });
        Moves { moves: moves.collect() }
    }

    /// Where rows came to; and those that were gone when they would have moved, where they lay then.
    fn follow(&self, rows: &RowsOf) -> Result<(RowsOf, RowsOf), MapError> {
        let (mut places, mut gone) = (rows.clone(), RowsOf::new());
        for step in &self.moves {
            for (number, source) in step.sources.iter().enumerate() {
                let Some((source, rows)) = source.and_then(|source| places.remove_entry(&source)) else { continue };
                let moved = step.map.move_rows(number, &rows)?;
                put(&mut gone, source, moved.absent);
                for (target, rows) in moved.targets {
                    put(&mut places, step.target(target)?, rows);
                }
            }
        }
        Ok((places, gone))
    }

    /// Where rows lay before the transaction, of those that lay in a fragment of `before`.
    fn back(&self, rows: &RowsOf, before: &RowsOf) -> Result<RowsOf, MapError> {
        let mut origins = RowsOf::new();
        for (fragment, rows) in rows {
            match self.moves.iter().any(|step| step.targets.contains(&Some(*fragment))) {
                false => put(&mut origins, *fragment, rows.clone()),
                true => {
                    for origin in self.origins(*fragment, rows)? {
                        origins.entry(origin.fragment()).or_default().insert(origin.offset());
                    }
                }
            }
        }
        origins.retain(|fragment, _| before.contains_key(fragment));
        Ok(origins)
    }

    /// Whether rows moved to a fragment.
    pub fn moved_to(&self, fragment: FragmentId) -> bool {
        self.moves.iter().any(|step| step.targets.contains(&Some(fragment)))
    }

    /// Where each of `rows` of a fragment lay before the transaction, in ascending order of where it is now.
    pub fn origins(&self, fragment: FragmentId, rows: &RoaringBitmap) -> Result<Vec<RowAddress>, MapError> {
        let mut addresses: Vec<RowAddress> = rows.iter().map(|row| RowAddress::new(fragment, row)).collect();
        for step in self.moves.iter().rev() {
            let mut arrived: BTreeMap<FragmentId, Vec<RowAddress>> = BTreeMap::new();
            for address in &mut addresses {
                let Some(target) = step.targets.iter().position(|target| *target == Some(address.fragment())) else { continue };
                let from = match arrived.entry(address.fragment()) {
                    std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
                    std::collections::btree_map::Entry::Vacant(unknown) => unknown.insert(step.arrivals(target)?),
                };
                *address = *from.get(address.offset() as usize).ok_or_else(|| MapError(format!("no row arrived at {address}")))?;
            }
        }
        Ok(addresses)
    }
}

impl Move {
    fn target(&self, number: usize) -> Result<FragmentId, MapError> {
        self.targets
            .get(number)
            .copied()
            .flatten()
            .ok_or_else(|| MapError(format!("the map has a target {number}, its transaction has none")))
    }

    /// Where each row of a target came from.
    fn arrivals(&self, target: usize) -> Result<Vec<RowAddress>, MapError> {
        let arrivals = self.map.arrivals(target)?;
        let mut rows = Vec::new();
        for (source, from) in &arrivals.rows {
            let source = self.sources.get(*source).copied().flatten();
            let source = source.ok_or_else(|| MapError("the map has a source that its transaction does not have".into()))?;
            rows.extend(from.iter().map(|row| RowAddress::new(source, row)));
        }
        let Some(order) = arrivals.order else { return Ok(rows) };
        let in_order = order.iter().map(|at| rows.get(*at as usize).copied());
        in_order.collect::<Option<_>>().ok_or_else(|| MapError(format!("not all rows of target {target} have come from somewhere")))
    }
}

fn put(into: &mut RowsOf, fragment: FragmentId, rows: RoaringBitmap) {
    if !rows.is_empty() {
        *into.entry(fragment).or_default() |= rows;
    }
}

fn both(one: &RowsOf, other: &RowsOf) -> RowsOf {
    let mut both = RowsOf::new();
    for (fragment, rows) in one {
        if let Some(others) = other.get(fragment) {
            put(&mut both, *fragment, rows & others);
        }
    }
    both
}

fn without(rows: &mut RowsOf, others: &RowsOf) {
    for (fragment, others) in others {
        if let Some(rows) = rows.get_mut(fragment) {
            *rows -= others;
        }
    }
    rows.retain(|_, rows| !rows.is_empty());
}

fn count(rows: &RowsOf) -> u64 {
    rows.values().map(RoaringBitmap::len).sum()
}
