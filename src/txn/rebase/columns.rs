//! Column data on its way: new values that we wrote for fragments that others moved, and new values that others wrote for
//! fragments that we move.
//!
//! ```text
//!   ours: a column of fragment 0          theirs: 0 and 1 became 5         what lands: a column of fragment 5
//!     0/0 x                                 5/0 = 0/0                        x   ours
//!     0/1 y                                 5/1 = 0/1                        y   ours
//!                                           5/2 = 1/0                        c   what 5/2 has
//! ```
//!
//! Values are not looked at here. What comes out is a [`Gather`] for each fragment that needs a file: where the value of each of
//! its rows is. The commit layer has the file written.
//!
//! Always holds: a gather names a source for every row of its fragment, in order; a value that others gave a field that we
//! write too is a collision, never overwritten.

use super::{Found, Group, Rebase, unusable};
use crate::table::fragment::DataFile;
use crate::table::row_address::FragmentId;
use crate::txn::action::{Action, AddDataFile};
use crate::txn::address_map::{AddressMap, MapError};
use crate::txn::footprint::Coordinate;
use crate::txn::refs::{FieldRef, FragmentRef, Minted, Ref};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};

/// Columns of a fragment whose values lie in other places, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Gather {
    /// The step that the file belongs to.
    pub step: usize,
    /// The fragment that the file is for: one of the newest version, or one that the transaction adds.
    pub fragment: FragmentRef,
    /// The fields of its columns.
    pub fields: Vec<FieldRef>,
    /// Where the values of its rows are, in the order of the rows.
    pub runs: Vec<Run>,
    /// `false` when the values were in the table before.
    pub data_change: bool,
}

/// Rows that follow one another in a fragment, and whose values lie in one place.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The place.
    pub from: Place,
    /// The rows there, in ascending order.
    pub rows: RoaringBitmap,
}

/// Where values are.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// In a fragment of the newest version.
    Present(FragmentId),
    /// In files that the transaction staged for a fragment with so many rows: each with the fields of its columns, where they
    /// are the fragment's latest. A field that none of them has is NULL.
    Staged {
        /// Rows of each file.
        physical_rows: u32,
        /// The files.
        files: Vec<(DataFile, Vec<Option<FieldRef>>)>,
    },
}

/// Where a fragment of others has rows whose columns we change: piece by piece, in order.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    /// These rows of a fragment that we wrote columns for, before it moved.
    Ours(FragmentId, RoaringBitmap),
    /// So many rows of others.
    Theirs(u64),
}

/// Columns that we change, by the fragments that they are of.
#[derive(Debug, Clone, Default)]
pub(super) struct ColumnChanges {
    /// Fragments of others, where they were when we read, and the fields that we write.
    fields: BTreeMap<FragmentId, BTreeSet<FieldRef>>,
    /// Those of them that did not move.
    in_place: BTreeSet<FragmentId>,
    /// Those that moved, with how many rows each had.
    moved: BTreeMap<FragmentId, u32>,
    /// Where rows of those that moved are by now.
    pub(super) pieces: BTreeMap<FragmentId, Vec<Piece>>,
}

impl ColumnChanges {
    /// Notes that we write these fields.
    pub fn write(&mut self, fragment: FragmentRef, fields: &[FieldRef]) {
        if let Ref::Committed(id) = fragment {
            self.fields.entry(id).or_default().extend(fields);
            self.in_place.insert(id);
        }
    }

    /// Whether a fragment, as it is by now, has rows that we write columns of.
    pub fn touch(&self, id: FragmentId) -> bool {
        self.in_place.contains(&id) || self.pieces.contains_key(&id)
    }

    /// Whether an action of ours for that fragment goes another way now.
    pub fn has_moved(&self, fragment: FragmentRef) -> bool {
        fragment.committed().is_some_and(|id| self.moved.contains_key(&id))
    }

    /// Others gave these fields new values in a fragment: the first that we write too, where rows of ours have moved to. (Where
    /// they did not, footprints say so.)
    fn collision(&self, id: FragmentId, fields: &[FieldRef], minted: &Minted) -> Option<Coordinate> {
        let theirs: BTreeSet<_> = fields.iter().filter_map(|field| minted.field(*field)).collect();
        let sources = self.pieces.get(&id).into_iter().flatten().filter_map(Piece::source);
        let mut ours = sources.filter_map(|source| self.fields.get(&source)).flatten().filter_map(|field| field.committed());
        ours.find(|field| theirs.contains(field)).map(|field| Coordinate::FieldData(id, field))
    }

    /// They moved fragments.
    fn follow(&mut self, sources: &[FragmentId], targets: &[FragmentId], map: &AddressMap) -> Result<u64, MapError> {
        let mut carried = 0;
        for (number, target) in targets.iter().enumerate() {
            let mut pieces = Vec::new();
            for (source, rows) in map.arrivals(number)? {
                let id = *sources.get(source).ok_or_else(|| MapError("a map names a source too many".into()))?;
                if self.in_place.contains(&id) {
                    pieces.push(Piece::Ours(id, rows));
                } else if let Some(before) = self.pieces.get(&id) {
                    pieces.extend(select(before, &rows));
                } else {
                    pieces.push(Piece::Theirs(rows.len()));
                }
            }
            let ours: u64 = pieces.iter().filter(|piece| piece.source().is_some()).map(Piece::rows).sum();
            if ours > 0 {
                carried += ours;
                self.pieces.insert(*target, pieces);
            }
        }
        for (number, id) in sources.iter().enumerate() {
            self.pieces.remove(id);
            if self.in_place.remove(id) {
                let rows = map.sources().get(number).map_or(0, |source| source.physical_rows);
                self.moved.insert(*id, rows);
            }
        }
        Ok(carried)
    }
}

impl Piece {
    fn source(&self) -> Option<FragmentId> {
        match self {
            Piece::Ours(id, _) => Some(*id),
            Piece::Theirs(_) => None,
        }
    }

    fn rows(&self) -> u64 {
        match self {
            Piece::Ours(_, rows) => rows.len(),
            Piece::Theirs(rows) => *rows,
        }
    }
}

/// So many rows from row `next` on, which moves behind them.
fn next_rows(next: &mut u32, rows: u64) -> RoaringBitmap {
    let first = *next;
    *next = next.saturating_add(u32::try_from(rows).unwrap_or(u32::MAX));
    let mut range = RoaringBitmap::new();
    range.insert_range(first..*next);
    range
}

/// The pieces of the rows that are left of a fragment.
fn select(pieces: &[Piece], left: &RoaringBitmap) -> Vec<Piece> {
    let mut selected = Vec::new();
    let mut start = 0u64;
    for piece in pieces {
        let end = start + piece.rows();
        let within = |row: u64| u32::try_from(row).is_ok_and(|row| left.contains(row));
        let piece = match piece {
            Piece::Ours(id, rows) => {
                Piece::Ours(*id, rows.iter().zip(start..).filter(|(_, row)| within(*row)).map(|(row, _)| row).collect())
            }
            Piece::Theirs(_) => Piece::Theirs((start..end).filter(|row| within(*row)).count() as u64),
        };
        if piece.rows() > 0 {
            selected.push(piece);
        }
        start = end;
    }
    selected
}

impl Rebase {
    /// They gave columns of a fragment new values.
    pub(super) fn columns_changed(&mut self, id: FragmentId, fields: &[FieldRef], minted: &Minted) -> Result<(), Found> {
        if let Some(coordinate) = self.columns.collision(id, fields, minted) {
            return Err((coordinate.to_string(), vec![]));
        }
        let theirs = fields.iter().filter_map(|field| minted.field(*field));
        let read = theirs.clone().find(|field| self.reads.contains(field));
        if let Some(field) = read.filter(|_| self.claims.contains_key(&id) || self.columns.touch(id)) {
            return Err((Coordinate::FieldData(id, field).to_string(), vec![]));
        }
        // A new version of a row has the values that its columns had.
        let replaced: RoaringBitmap = self.claims.get(&id).into_iter().flatten().flat_map(|(_, ours)| &ours.replaced).collect();
        if !replaced.is_empty() {
            return Err((format!("column data of fragment {id}"), super::sample(id, &replaced)));
        }
        let Some((at, _)) = self.moves(id) else { return Ok(()) };
        match self.groups.get_mut(at) {
            Some(group) if !group.built_upon => {
                group.refreshed.entry(id).or_default().extend(theirs);
                Ok(())
            }
            _ => Err((format!("column data of fragment {id}"), vec![])),
        }
    }

    /// They moved fragments whose columns we change.
    pub(super) fn columns_moved(&mut self, sources: &[FragmentId], targets: &[FragmentId], map: Option<&AddressMap>) -> Result<(), Found> {
        if !sources.iter().any(|id| self.columns.touch(*id)) {
            return Ok(());
        }
        let map = map.ok_or_else(|| unusable("it was not read"))?;
        self.rows_carried += self.columns.follow(sources, targets, map).map_err(|e| unusable(&e.0))?;
        Ok(())
    }

    /// What has to be gathered to land on the version whose fragments `exists` knows.
    pub(super) fn gathers(&self, exists: impl Fn(FragmentId) -> bool) -> Result<Vec<Gather>, MapError> {
        let mut gathers = self.gathers_of_ours(&exists);
        for group in self.groups.iter().filter(|group| !group.dropped && !group.refreshed.is_empty()) {
            self.gathers_of_theirs(group, &exists, &mut gathers)?;
        }
        Ok(gathers)
    }

    /// Our values, for the fragments that others moved rows to.
    fn gathers_of_ours(&self, exists: impl Fn(FragmentId) -> bool) -> Vec<Gather> {
        let mut gathers = Vec::new();
        let staged: BTreeMap<FragmentId, (usize, Place, BTreeSet<FieldRef>)> =
            self.columns.moved.iter().map(|(id, rows)| (*id, self.staged(*id, *rows))).collect();
        for (id, pieces) in self.columns.pieces.iter().filter(|(id, _)| exists(**id)) {
            let sources: BTreeSet<FragmentId> = pieces.iter().filter_map(Piece::source).collect();
            let written = sources.iter().filter_map(|source| Some((*source, staged.get(source)?.2.clone()))).collect();
            let step = sources.iter().filter_map(|source| staged.get(source)).map(|(step, ..)| *step).max().unwrap_or(0);
            for (fields, sources) in by_sources(&written) {
                let mut next = 0;
                let runs = pieces.iter().map(|piece| {
                    let here = next_rows(&mut next, piece.rows());
                    match piece {
                        Piece::Ours(source, rows) if sources.contains(source) => {
                            let from = staged.get(source).map_or(Place::Present(*id), |(_, place, _)| place.clone());
                            Run { from, rows: rows.clone() }
                        }
                        Piece::Ours(..) | Piece::Theirs(_) => Run { from: Place::Present(*id), rows: here },
                    }
                });
                gathers.push(Gather { step, fragment: Ref::Committed(*id), fields, runs: runs.collect(), data_change: true });
            }
        }
        gathers
    }

    /// The latest that we staged for a fragment of others: by which step, where it is, and its fields.
    fn staged(&self, id: FragmentId, physical_rows: u32) -> (usize, Place, BTreeSet<FieldRef>) {
        let mut files: Vec<(DataFile, Vec<Option<FieldRef>>)> = Vec::new();
        let (mut last, mut fields) = (0, BTreeSet::new());
        let mut forget = |files: &mut Vec<(DataFile, Vec<Option<FieldRef>>)>, gone: &[FieldRef]| {
            let columns = files.iter_mut().flat_map(|(_, columns)| columns);
            columns.filter(|column| column.is_some_and(|field| gone.contains(&field))).for_each(|column| *column = None);
            fields.extend(gone);
        };
        for (step, actions) in self.ours.steps.iter().enumerate() {
            for action in &actions.actions {
                let (fragment, changed, file) = match action {
                    Action::AddDataFile(add) => (add.fragment, &add.fields, Some(&add.file)),
                    Action::TombstoneFieldData(tombstone) => (tombstone.fragment, &tombstone.fields, None),
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
                    | Action::AssertUniqueKeys(_) => continue,
                };
                if fragment == Ref::Committed(id) {
                    forget(&mut files, changed);
                    files.extend(file.map(|file| (file.clone(), changed.iter().copied().map(Some).collect())));
                    last = step;
                }
            }
        }
        (last, Place::Staged { physical_rows, files }, fields)
    }

    /// Values of others, for the fragments that we move rows to.
    fn gathers_of_theirs(&self, group: &Group, exists: impl Fn(FragmentId) -> bool, into: &mut Vec<Gather>) -> Result<(), MapError> {
        for (number, target) in group.targets.iter().enumerate() {
            let arrivals = group.map.arrivals(number)?;
            let fresh = |source: usize| {
                let id = group.sources.get(source)?.committed().filter(|id| exists(*id))?;
                Some((id, group.refreshed.get(&id)?.iter().copied().map(Ref::Committed).collect::<BTreeSet<_>>()))
            };
            let refreshed: BTreeMap<FragmentId, BTreeSet<FieldRef>> = arrivals.iter().filter_map(|(source, _)| fresh(*source)).collect();
            for (fields, sources) in by_sources(&refreshed) {
                let mut next = 0;
                let runs = arrivals.iter().map(|(source, rows)| {
                    let here = next_rows(&mut next, rows.len());
                    match group.sources.get(*source).and_then(|source| source.committed()).filter(|id| sources.contains(id)) {
                        Some(id) => Run { from: Place::Present(id), rows: rows.clone() },
                        None => Run { from: self.written(group, *target), rows: here },
                    }
                });
                into.push(Gather { step: group.step, fragment: *target, fields, runs: runs.collect(), data_change: false });
            }
        }
        Ok(())
    }

    /// What a rewrite of ours wrote for one of its targets.
    fn written(&self, group: &Group, target: FragmentRef) -> Place {
        let number = group.targets.iter().position(|other| *other == target);
        let physical_rows = number.and_then(|number| group.map.targets().get(number).copied()).unwrap_or(0);
        let steps = self.ours.steps.get(group.step).into_iter();
        let files = steps.flat_map(|step| &step.actions).filter_map(|action| file_of(action, target));
        Place::Staged {
            physical_rows,
            files: files.map(|add| (add.file.clone(), add.fields.iter().copied().map(Some).collect())).collect(),
        }
    }
}

fn file_of(action: &Action, fragment: FragmentRef) -> Option<&AddDataFile> {
    match action {
        Action::AddDataFile(add) => Some(add).filter(|add| add.fragment == fragment),
        Action::AddFragment(_)
        | Action::RemoveFragment(_)
        | Action::SetDeletionFile(_)
        | Action::ChangeOfAddress(_)
        | Action::AddField(_)
        | Action::AlterField(_)
        | Action::DropField(_)
        | Action::TombstoneFieldData(_)
        | Action::ConfigUpdate(_)
        | Action::ReserveFragmentIds(_)
        | Action::ResetTable(_)
        | Action::AddBase(_)
        | Action::AssertUniqueKeys(_) => None,
    }
}

/// Fields that the same fragments have new values of go into one file.
fn by_sources(written: &BTreeMap<FragmentId, BTreeSet<FieldRef>>) -> Vec<(Vec<FieldRef>, BTreeSet<FragmentId>)> {
    let mut sources: BTreeMap<FieldRef, BTreeSet<FragmentId>> = BTreeMap::new();
    for (id, fields) in written {
        for field in fields {
            sources.entry(*field).or_default().insert(*id);
        }
    }
    let mut together: BTreeMap<BTreeSet<FragmentId>, Vec<FieldRef>> = BTreeMap::new();
    for (field, ids) in sources {
        together.entry(ids).or_default().push(field);
    }
    together.into_iter().map(|(ids, fields)| (fields, ids)).collect()
}
