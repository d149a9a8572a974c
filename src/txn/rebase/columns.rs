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
//! Always holds: a gather names a source for every row of its fragment; a value that others gave a field that we
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
    /// Where the values of its rows are.
    pub runs: Vec<Run>,
    /// For each of its rows, which value it is of those of `runs` one after another; `None` if they follow one another like that.
    pub order: Option<Vec<u32>>,
    /// `false` when the values were in the table before.
    pub data_change: bool,
}

/// Rows whose values lie in one place.
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
        /// The files; each column's field is followed by those of its parts, as in `AddDataFile`.
        files: Vec<(DataFile, Vec<Option<FieldRef>>)>,
    },
}

/// Where the rows of a fragment that has some whose columns we change come from.
#[derive(Debug, Clone)]
struct Layout {
    pieces: Vec<Piece>,
    /// For each of its rows, which it is of `pieces` one after another; `None` if they follow one another like that.
    order: Option<Vec<u32>>,
}

/// Some rows of such a fragment.
#[derive(Debug, Clone)]
enum Piece {
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
    /// The fragments that rows of those that moved are in by now.
    layouts: BTreeMap<FragmentId, Layout>,
    /// How many rows were followed, each once for every move.
    pub rows_followed: u64,
}

impl ColumnChanges {
    /// Notes that we write these fields of a fragment, if it is one of others.
    pub fn write(&mut self, of_others: Option<FragmentId>, fields: impl Iterator<Item = FieldRef>) {
        if let Some(id) = of_others {
            self.fields.entry(id).or_default().extend(fields);
            self.in_place.insert(id);
        }
    }

    /// Whether a fragment, as it is by now, has rows that we write columns of.
    pub fn touch(&self, id: FragmentId) -> bool {
        self.in_place.contains(&id) || self.layouts.contains_key(&id)
    }

    /// Those of some rows of a fragment that we write columns of.
    pub fn written(&self, id: FragmentId, rows: &RoaringBitmap) -> RoaringBitmap {
        match self.layouts.get(&id) {
            _ if self.in_place.contains(&id) => rows.clone(),
            Some(layout) => rows.iter().filter(|row| layout.is_ours(*row)).collect(),
            None => RoaringBitmap::new(),
        }
    }

    /// The fragments that moved.
    pub fn moved(&self) -> impl Iterator<Item = FragmentId> {
        self.moved.keys().copied()
    }

    /// Others gave these fields new values in a fragment: the first that we write too, where rows of ours have moved to. (Where
    /// they did not, footprints say so.)
    fn collision(&self, id: FragmentId, fields: &[FieldRef], minted: &Minted) -> Option<Coordinate> {
        let theirs: BTreeSet<_> = fields.iter().filter_map(|field| minted.field(*field)).collect();
        let sources = self.layouts.get(&id).into_iter().flat_map(Layout::sources);
        let mut ours = sources.filter_map(|source| self.fields.get(&source)).flatten().filter_map(|field| field.committed());
        ours.find(|field| theirs.contains(field)).map(|field| Coordinate::FieldData(id, field))
    }

    /// They moved fragments.
    fn follow(&mut self, sources: &[FragmentId], targets: &[FragmentId], map: &AddressMap) -> Result<(), MapError> {
        for (number, target) in targets.iter().enumerate() {
            let arrivals = map.arrivals(number)?;
            let mut layout = Layout { pieces: Vec::new(), order: None };
            // Which each arrival is of the pieces, once that is another order.
            let mut places: Option<Vec<u32>> = None;
            let mut arrived = 0u32;
            for (source, rows) in arrivals.rows {
                let id = *sources.get(source).ok_or_else(|| MapError("a map names a source too many".into()))?;
                let count = rows.len() as u32;
                let mut within = None;
                if self.in_place.contains(&id) {
                    layout.pieces.push(Piece::Ours(id, rows));
                } else if let Some(before) = self.layouts.get(&id) {
                    let left = before.select(&rows);
                    layout.pieces.extend(left.pieces);
                    within = left.order;
                } else {
                    layout.pieces.push(Piece::Theirs(rows.len()));
                }
                match (within, &mut places) {
                    (None, None) => {}
                    (None, Some(places)) => places.extend(arrived..arrived + count),
                    (Some(within), places) => {
                        let places = places.get_or_insert_with(|| (0..arrived).collect());
                        places.extend(within.iter().map(|place| arrived + place));
                    }
                }
                arrived += count;
            }
            layout.order = match (arrivals.order, places) {
                (order, None) => order,
                (None, places) => places,
                (Some(order), Some(places)) => Some(order.iter().filter_map(|arrival| places.get(*arrival as usize)).copied().collect()),
            };
            let ours: u64 = layout.pieces.iter().filter(|piece| piece.source().is_some()).map(Piece::rows).sum();
            if ours > 0 {
                self.rows_followed += ours;
                self.layouts.insert(*target, layout);
            }
        }
        for (number, id) in sources.iter().enumerate() {
            self.layouts.remove(id);
            if self.in_place.remove(id) {
                let rows = map.sources().get(number).map_or(0, |source| source.physical_rows);
                self.moved.insert(*id, rows);
            }
        }
        Ok(())
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

impl Layout {
    fn sources(&self) -> impl Iterator<Item = FragmentId> {
        self.pieces.iter().filter_map(Piece::source)
    }

    /// Whether a row is one whose columns we change.
    fn is_ours(&self, row: u32) -> bool {
        let place = match &self.order {
            None => Some(row),
            Some(order) => order.get(row as usize).copied(),
        };
        let Some(mut place) = place.map(u64::from) else { return false };
        for piece in &self.pieces {
            if place < piece.rows() {
                return piece.source().is_some();
            }
            place -= piece.rows();
        }
        false
    }

    /// Where those rows come from that are left of the fragment.
    fn select(&self, left: &RoaringBitmap) -> Layout {
        let Some(order) = &self.order else { return Layout { pieces: select(&self.pieces, left), order: None } };
        let places = || left.iter().filter_map(|row| order.get(row as usize)).copied();
        let kept: RoaringBitmap = places().collect();
        // Those before it that are kept too, and itself.
        let order = places().map(|place| (kept.rank(place) - 1) as u32).collect();
        Layout { pieces: select(&self.pieces, &kept), order: Some(order) }
    }
}

/// The pieces of which only these places are left.
fn select(pieces: &[Piece], left: &RoaringBitmap) -> Vec<Piece> {
    let mut selected = Vec::new();
    let mut start = 0u64;
    for piece in pieces {
        let end = start + piece.rows();
        let within = |place: u64| u32::try_from(place).is_ok_and(|place| left.contains(place));
        let piece = match piece {
            Piece::Ours(id, rows) => {
                Piece::Ours(*id, rows.iter().zip(start..).filter(|(_, place)| within(*place)).map(|(row, _)| row).collect())
            }
            Piece::Theirs(_) => Piece::Theirs((start..end).filter(|place| within(*place)).count() as u64),
        };
        if piece.rows() > 0 {
            selected.push(piece);
        }
        start = end;
    }
    selected
}

/// Some rows of a fragment: so many, and the place of their values if it is not the fragment's own.
struct Part {
    rows: u64,
    elsewhere: Option<Run>,
}

/// The runs of a fragment whose rows are those of `parts`, in that order; values that lie nowhere else are in `own`.
fn lay_out(parts: Vec<Part>, order: Option<&[u32]>, own: Place) -> (Vec<Run>, Option<Vec<u32>>) {
    let mut runs = Vec::new();
    let Some(order) = order else {
        let mut next = 0u32;
        for Part { rows, elsewhere } in parts {
            let first = next;
            next = next.saturating_add(u32::try_from(rows).unwrap_or(u32::MAX));
            runs.push(elsewhere.unwrap_or_else(|| {
                let mut here = RoaringBitmap::new();
                here.insert_range(first..next);
                Run { from: own.clone(), rows: here }
            }));
        }
        return (runs, None);
    };
    // Where each part begins, and where its values do among those that lie elsewhere.
    let mut begins: Vec<(u32, Option<u32>)> = Vec::new();
    let (mut next, mut taken) = (0u32, 0u32);
    for Part { rows, elsewhere } in parts {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        begins.push((next, elsewhere.is_some().then_some(taken)));
        next = next.saturating_add(rows);
        if let Some(run) = elsewhere {
            taken = taken.saturating_add(rows);
            runs.push(run);
        }
    }
    let mut kept = RoaringBitmap::new();
    let place = |(place, row): (&u32, u32)| {
        let part = begins.partition_point(|(begin, _)| begin <= place).checked_sub(1).and_then(|part| begins.get(part));
        match part {
            Some((begin, Some(value))) => value + (place - begin),
            _ => {
                kept.insert(row);
                taken + kept.len() as u32 - 1
            }
        }
    };
    let order = order.iter().zip(0..).map(place).collect();
    if !kept.is_empty() {
        runs.push(Run { from: own, rows: kept });
    }
    (runs, Some(order))
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
        self.columns.follow(sources, targets, map).map_err(|e| unusable(&e.0))
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
        for (id, layout) in self.columns.layouts.iter().filter(|(id, _)| exists(**id)) {
            let sources: BTreeSet<FragmentId> = layout.sources().collect();
            let written = sources.iter().filter_map(|source| Some((*source, staged.get(source)?.2.clone()))).collect();
            let step = sources.iter().filter_map(|source| staged.get(source)).map(|(step, ..)| *step).max().unwrap_or(0);
            for (fields, sources) in by_sources(&written) {
                let part = |piece: &Piece| {
                    let elsewhere = match piece {
                        Piece::Ours(source, rows) if sources.contains(source) => {
                            staged.get(source).map(|(_, place, _)| Run { from: place.clone(), rows: rows.clone() })
                        }
                        Piece::Ours(..) | Piece::Theirs(_) => None,
                    };
                    Part { rows: piece.rows(), elsewhere }
                };
                let parts = layout.pieces.iter().map(part).collect();
                let (runs, order) = lay_out(parts, layout.order.as_deref(), Place::Present(*id));
                gathers.push(Gather { step, fragment: Ref::Committed(*id), fields, runs, order, data_change: true });
            }
        }
        gathers
    }

    /// The latest that we staged for a fragment of others: by which step, where it is, and its fields.
    fn staged(&self, id: FragmentId, physical_rows: u32) -> (usize, Place, BTreeSet<FieldRef>) {
        let mut files: Vec<(DataFile, Vec<Option<FieldRef>>)> = Vec::new();
        let (mut last, mut fields) = (0, BTreeSet::new());
        let mut forget = |files: &mut Vec<(DataFile, Vec<Option<FieldRef>>)>, gone: Vec<FieldRef>| {
            let columns = files.iter_mut().flat_map(|(_, columns)| columns);
            columns.filter(|column| column.is_some_and(|field| gone.contains(&field))).for_each(|column| *column = None);
            fields.extend(gone);
        };
        for (step, actions) in self.ours.steps.iter().enumerate() {
            for action in &actions.actions {
                let (fragment, changed, file): (_, Vec<FieldRef>, _) = match action {
                    Action::AddDataFile(add) => (add.fragment, add.held().collect(), Some(add)),
                    Action::TombstoneFieldData(tombstone) => (tombstone.fragment, tombstone.fields.clone(), None),
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
                    files.extend(file.map(|add| (add.file.clone(), add.fields.clone())));
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
                let id = self.of_others(*group.sources.get(source)?).filter(|id| exists(*id))?;
                Some((id, group.refreshed.get(&id)?.iter().copied().map(Ref::Committed).collect::<BTreeSet<_>>()))
            };
            let refreshed: BTreeMap<FragmentId, BTreeSet<FieldRef>> =
                arrivals.rows.iter().filter_map(|(source, _)| fresh(*source)).collect();
            for (fields, sources) in by_sources(&refreshed) {
                let part = |(source, rows): &(usize, RoaringBitmap)| {
                    let from = group.sources.get(*source).and_then(|source| self.of_others(*source)).filter(|id| sources.contains(id));
                    Part { rows: rows.len(), elsewhere: from.map(|id| Run { from: Place::Present(id), rows: rows.clone() }) }
                };
                let parts = arrivals.rows.iter().map(part).collect();
                let (runs, order) = lay_out(parts, arrivals.order.as_deref(), self.written(group, *target));
                into.push(Gather { step: group.step, fragment: *target, fields, runs, order, data_change: false });
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
        Place::Staged { physical_rows, files: files.map(|add| (add.file.clone(), add.fields.clone())).collect() }
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
