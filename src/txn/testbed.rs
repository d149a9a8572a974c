//! A table of `(key, value)` rows for tests: transactions are drafted against a version and land on the newest one along
//! the way that the commit layer takes.
//!
//! Goes in: statements by key. Comes out: versions, and the rows that a reader of them finds. What apply cannot know, the
//! rows themselves, lie in `files` by the name of the data file, so that a row is found only as a reader would find it.
//!
//! Always holds: a draft sees its own statements; every version passed `check`.

use super::action::{
    Action, AddDataFile, AddField, AddFragment, ChangeOfAddress, ConfigUpdate, MapLocation, RemoveFragment, SetDeletionFile,
    TombstoneFieldData,
};
use super::address_map::{AddressMap, MapSource, wire};
use super::compare::{Comparison, Maps, compare};
use super::composite::{CommitFacts, CommittedTransaction, RowCounts, Step, Transaction, TransactionId};
use super::normalise::vanish;
use super::rebase::{Collision, Gather, Place, Rebase, Rebased, Run, settle, vectors_needed};
use super::refs::{FieldRef, FragmentRef, Minted, Ref, Token};
use crate::manifest::apply::apply;
use crate::manifest::snapshot::Snapshot;
use crate::table::deletion_vector::{DeletionFile, decode};
use crate::table::fragment::{BlockChecksums, DataFile, FileColumn, Fragment};
use crate::table::row_address::FragmentId;
use crate::table::schema::{FieldId, FieldType};
use arrow_schema::DataType;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A key and its value.
pub type Row = (u32, i64);

/// What is asked of every applied transaction.
pub type Check = fn(&Snapshot, &Snapshot, &Transaction) -> Result<(), String>;

const KEY: FieldId = FieldId(1);
const VALUE: FieldId = FieldId(2);

/// One version and what made it.
#[derive(Clone)]
pub struct TestVersion {
    pub snapshot: Snapshot,
    pub transactions: Vec<CommittedTransaction>,
}

/// The table.
#[derive(Clone)]
pub struct Testbed {
    pub versions: Vec<TestVersion>,
    pub files: BTreeMap<String, Vec<Row>>,
    /// The rows of every fragment that ever was, the short-lived ones too.
    pub fragment_rows: BTreeMap<FragmentId, Vec<Row>>,
    /// For a field in a file of gathered values: the file that each of them was in before; `None` for a NULL.
    pub origins: BTreeMap<(String, FieldId), Vec<Option<String>>>,
    check: Check,
    drafts: u128,
}

/// A fragment as a draft sees it.
#[derive(Clone)]
pub struct Seen {
    pub fragment: FragmentRef,
    pub rows: Vec<Row>,
    pub dead: RoaringBitmap,
}

/// A transaction that is being staged.
#[derive(Clone)]
pub struct Draft {
    pub transaction: Transaction,
    pub seen: Vec<Seen>,
    /// Fields whose values decided what it does.
    pub reads: BTreeSet<FieldId>,
    maps: Vec<Arc<AddressMap>>,
    files: BTreeMap<String, Vec<Row>>,
    fragment_tokens: u32,
    field_tokens: u32,
    /// Reserved ids that the next fragments take, the last one first.
    pub reserved: Vec<FragmentId>,
}

/// A draft on its way to the newest version.
#[derive(Clone)]
pub struct Candidate {
    draft: Draft,
    rebase: Rebase,
    walked: u64,
}

/// What a transaction became.
#[derive(Debug, Clone)]
pub struct Landed {
    pub version: u64,
    pub committed: CommittedTransaction,
}

/// An inline deletion vector, decoded.
pub fn vector(file: &Option<DeletionFile>, physical_rows: u32) -> RoaringBitmap {
    match file {
        None => RoaringBitmap::new(),
        Some(DeletionFile::Inline { blob, cardinality }) => {
            let rows = decode(blob, physical_rows).expect("a vector within its fragment");
            assert_eq!(rows.len(), u64::from(*cardinality), "cardinality of a vector");
            rows
        }
        Some(DeletionFile::Puffin { path, .. }) => panic!("vector in {path}"),
    }
}

/// A data file of two columns.
pub fn data_file(path: &str, rows: u32, columns: usize) -> DataFile {
    DataFile {
        inline: None,
        sorted_by: vec![],
        path: path.to_owned(),
        base: None,
        size_bytes: 100,
        unchecked_bytes: 0,
        checksum: Arc::new(BlockChecksums { block_bytes: 4096, crc32c: vec![0] }),
        row_groups: vec![rows],
        columns: (0..columns).map(|_| FileColumn { field: None, ..FileColumn::default() }).collect(),
    }
}

impl Testbed {
    /// An empty table of two columns.
    pub fn new(check: Check) -> Self {
        let empty = TestVersion { snapshot: Snapshot::empty(7), transactions: vec![] };
        let mut bed = Testbed {
            versions: vec![empty],
            files: BTreeMap::new(),
            fragment_rows: BTreeMap::new(),
            origins: BTreeMap::new(),
            check,
            drafts: 0,
        };
        let mut create = bed.draft();
        let column = |token, name: &str| {
            let field_type = FieldType::Leaf(DataType::Int64);
            let (id, name, metadata) = (Ref::Local(Token(token)), name.into(), BTreeMap::new());
            Action::AddField(AddField { id, parent: None, name, field_type, nullable: false, metadata, initial: None, in_place_of: None })
        };
        create.step("CREATE", "CREATE TABLE".into(), vec![column(0, "key"), column(1, "value")], RowCounts::default());
        bed.land(create).expect("the first version");
        bed
    }

    /// A table of fragments that hold these keys, with value 0.
    pub fn of(fragments: &[&[u32]]) -> Self {
        let mut bed = Testbed::new(|_, _, _| Ok(()));
        let mut insert = bed.draft();
        for keys in fragments {
            insert.insert(&keys.iter().map(|key| (*key, 0)).collect::<Vec<_>>());
        }
        bed.land(insert).expect("the rows to start with");
        bed
    }

    /// The newest version.
    pub fn newest(&self) -> &Snapshot {
        &self.versions.last().expect("a version").snapshot
    }

    /// The live rows of a snapshot, by fragment, as a reader finds them.
    pub fn fragments_of(&self, snapshot: &Snapshot, staged: &BTreeMap<String, Vec<Row>>) -> Vec<Seen> {
        let read = |fragment: &Fragment| {
            let rows = rows_of(fragment, &[&self.files, staged]);
            Seen { fragment: Ref::Committed(fragment.id), rows, dead: vector(&fragment.deletions, fragment.physical_rows) }
        };
        snapshot.fragments.iter().map(|fragment| read(fragment)).collect()
    }

    /// The file that each gathered value of a field was in before; `None` for a NULL.
    fn origins_of(&self, gather: &Gather, field: FieldRef, id: FieldId, before: &Snapshot) -> Vec<Option<String>> {
        let of_run = |run: &Run| {
            let file = match &run.from {
                Place::Present(fragment) => {
                    before.fragments.get(*fragment).expect("a fragment to gather from").backing(id).map(|(file, _)| file.path.clone())
                }
                Place::Staged { files, .. } => {
                    files.iter().rev().find(|(_, fields)| fields.contains(&Some(field))).map(|(file, _)| file.path.clone())
                }
            };
            let origin = |row: u32| {
                let file = file.clone()?;
                match self.origins.get(&(file.clone(), id)) {
                    Some(origins) => origins[row as usize].clone(),
                    None => Some(file),
                }
            };
            run.rows.iter().map(origin).collect::<Vec<_>>()
        };
        let origins: Vec<Option<String>> = gather.runs.iter().flat_map(of_run).collect();
        match &gather.order {
            Some(order) => order.iter().map(|value| origins[*value as usize].clone()).collect(),
            None => origins,
        }
    }

    /// The actions that add what has to be gathered, as the commit layer makes them, and the files.
    fn gather(&mut self, gathers: &[Gather], draft: &Draft, before: &Snapshot, after: &Snapshot, minted: &Minted) -> Gathered {
        let (mut actions, mut files) = (Vec::new(), BTreeMap::new());
        for (at, gather) in gathers.iter().enumerate() {
            let Some(fragment) = after.fragments.get(minted.fragment(gather.fragment).expect("a fragment with an id")) else { continue };
            // A field that is gone by then is left out.
            let there = |field: &FieldRef| minted.field(*field).is_some_and(|id| after.schema.field(id).is_some());
            let fields: Vec<FieldRef> = gather.fields.iter().copied().filter(there).collect();
            if fields.is_empty() {
                continue;
            }
            let mut rows = Vec::new();
            for run in &gather.runs {
                let from = match &run.from {
                    Place::Present(id) => rows_of(before.fragments.get(*id).expect("a fragment to gather from"), &[&self.files]),
                    Place::Staged { physical_rows, files } => {
                        let holding = files.iter().rev().find(|(_, fields)| fields.contains(&Some(Ref::Committed(VALUE))));
                        let none = || vec![(0, 0); *physical_rows as usize];
                        holding.map_or_else(none, |(file, _)| draft.files[&file.path].clone())
                    }
                };
                rows.extend(run.rows.iter().map(|row| from[row as usize]));
            }
            if let Some(order) = &gather.order {
                rows = order.iter().map(|value| rows[*value as usize]).collect();
            }
            assert_eq!(rows.len(), fragment.physical_rows as usize, "values for every row of fragment {}", fragment.id);
            let path = format!("data/{}-gathered-{at}.parquet", draft.transaction.id.0);
            let backed = |field: &FieldRef| fragment.backing(minted.field(*field).expect("a field with an id")).is_some();
            let old: Vec<FieldRef> = fields.iter().copied().filter(backed).collect();
            let (target, data_change) = (gather.fragment, gather.data_change);
            if !old.is_empty() {
                let tombstone = TombstoneFieldData { fragment: target, fields: old, data_change };
                actions.push((gather.step, Action::TombstoneFieldData(tombstone)));
            }
            let file = data_file(&path, rows.len() as u32, fields.len());
            let add = AddDataFile { fragment: target, file, base: None, fields: fields.iter().copied().map(Some).collect(), data_change };
            actions.push((gather.step, Action::AddDataFile(add)));
            for field in &fields {
                let id = minted.field(*field).expect("a field with an id");
                let origins = self.origins_of(gather, *field, id, before);
                self.origins.insert((path.clone(), id), origins);
            }
            files.insert(path, rows);
        }
        (actions, files)
    }

    /// The rows of the newest version, sorted.
    pub fn rows(&self) -> Vec<Row> {
        live(&self.fragments_of(self.newest(), &BTreeMap::new()))
    }

    /// The deleted offsets of a fragment of the newest version; `None` if there is no such fragment.
    pub fn dead(&self, fragment: u32) -> Option<Vec<u32>> {
        let fragment = self.newest().fragments.get(FragmentId(fragment))?;
        Some(vector(&fragment.deletions, fragment.physical_rows).iter().collect())
    }

    /// A transaction on the newest version.
    pub fn draft(&mut self) -> Draft {
        self.drafts += 1;
        let transaction = Transaction { id: TransactionId(self.drafts), read_version: self.newest().version, steps: vec![] };
        Draft {
            transaction,
            seen: self.fragments_of(self.newest(), &BTreeMap::new()),
            reads: BTreeSet::new(),
            maps: vec![],
            files: BTreeMap::new(),
            fragment_tokens: 0,
            field_tokens: 0,
            reserved: vec![],
        }
    }

    /// A draft that begins to land.
    pub fn candidate(&self, draft: Draft) -> Result<Candidate, Collision> {
        let rebase = Rebase::new(draft.transaction.clone(), &draft.maps)?.reading(&draft.reads);
        let walked = draft.transaction.read_version;
        Ok(Candidate { draft, rebase, walked })
    }

    /// Walks over what landed since the last attempt.
    pub fn walk(&self, candidate: &mut Candidate) -> Result<(), Collision> {
        for version in self.versions.iter().filter(|version| version.snapshot.version > candidate.walked) {
            candidate.rebase.version_landed();
            for landed in &version.transactions {
                over(&mut candidate.rebase, version.snapshot.version, landed)?;
            }
        }
        candidate.walked = self.newest().version;
        Ok(())
    }

    /// The transaction as it would land now; nothing is published.
    pub fn attempt(&self, candidate: &mut Candidate) -> Result<(Rebased, Transaction), Collision> {
        self.walk(candidate)?;
        settled(&candidate.rebase, self.newest())
    }

    /// Lands one draft.
    pub fn land(&mut self, draft: Draft) -> Result<Landed, Collision> {
        let candidate = self.candidate(draft)?;
        self.land_together(vec![candidate]).pop().expect("one result")
    }

    /// Lands a draft, and compares it with the only transaction that landed since it read.
    pub fn land_compared(&mut self, draft: Draft, first: &Landed) -> (Comparison, Result<Landed, Collision>) {
        let maps: Vec<_> = maps_of(&first.committed).into_iter().map(Some).collect();
        let comparison = compare(&draft.transaction, &first.committed, Maps { ours: &draft.maps, theirs: &maps });
        let (newest, staged) = (self.newest().clone(), draft.transaction.clone());
        let landed = self.land(draft);
        match (&comparison, &landed) {
            (Comparison::Conflict(conflict), Err(collision)) => {
                assert_eq!((&conflict.coordinate, &conflict.rows), (&collision.coordinate, &collision.rows));
                assert_eq!((conflict.ours.id, conflict.theirs.id), (staged.id, first.committed.transaction.id));
            }
            (Comparison::Commutes, Ok(_)) => {
                let (after, _) = apply(&newest, &staged, newest.version + 1).expect("what commutes applies as it was staged");
                assert!(after.fragments.iter().eq(self.newest().fragments.iter()), "{staged:#?} commutes, and lands otherwise");
                assert_eq!(after.schema, self.newest().schema);
            }
            (Comparison::Carry(_), Ok(_)) => {}
            other => panic!("compared and landed: {other:?}"),
        }
        (comparison, landed)
    }

    /// Lands candidates as one version, one after another; those that collide are left out.
    pub fn land_together(&mut self, candidates: Vec<Candidate>) -> Vec<Result<Landed, Collision>> {
        let version = self.newest().version + 1;
        let mut snapshot = self.newest().clone();
        let mut mates: Vec<CommittedTransaction> = Vec::new();
        let mut results = Vec::new();
        for mut candidate in candidates {
            let landed = self.walk(&mut candidate).and_then(|()| {
                let mut rebase = candidate.rebase.clone();
                mates.iter().try_for_each(|mate| over(&mut rebase, version, mate))?;
                settled(&rebase, &snapshot)
            });
            results.push(landed.map(|(rebased, transaction)| {
                let committed = self.applied(&mut snapshot, &mut candidate, rebased, transaction);
                mates.push(committed.clone());
                Landed { version, committed }
            }));
        }
        if !mates.is_empty() {
            if version.is_multiple_of(3) {
                snapshot.fragments = snapshot.fragments.fold();
            }
            self.versions.push(TestVersion { snapshot, transactions: mates });
        }
        results
    }

    /// Creates version `number` of what [`Testbed::attempt`] gave for it, unless the version exists.
    pub fn create(&mut self, number: u64, candidate: &Candidate, attempt: &(Rebased, Transaction)) -> bool {
        if self.newest().version + 1 != number {
            return false;
        }
        let mut snapshot = self.newest().clone();
        let (rebased, transaction) = attempt.clone();
        let committed = self.applied(&mut snapshot, &mut candidate.clone(), rebased, transaction);
        self.versions.push(TestVersion { snapshot, transactions: vec![committed] });
        true
    }

    /// Applies a settled transaction, as a part of the version after the newest, to `snapshot`.
    fn applied(
        &mut self,
        snapshot: &mut Snapshot,
        candidate: &mut Candidate,
        rebased: Rebased,
        mut transaction: Transaction,
    ) -> CommittedTransaction {
        let version = self.newest().version + 1;
        let applied = apply(snapshot, &transaction, version);
        let (mut after, minted) = applied.unwrap_or_else(|e| panic!("cannot apply {transaction:#?}: {e}"));
        if !rebased.gathers.is_empty() {
            let (actions, files) = self.gather(&rebased.gathers, &candidate.draft, snapshot, &after, &minted);
            actions.into_iter().for_each(|(step, action)| transaction.steps[step].actions.push(action));
            candidate.draft.files.extend(files);
            let applied = apply(snapshot, &transaction, version);
            (after, _) = applied.unwrap_or_else(|e| panic!("cannot apply {transaction:#?}: {e}"));
        }
        if let Err(reason) = (self.check)(snapshot, &after, &transaction) {
            panic!("{reason}: {transaction:#?}");
        }
        *snapshot = after;
        for add in transaction.actions().filter_map(Action::added_fragment) {
            let id = minted.fragment(add.id).expect("an id");
            // Actions that were written by hand come without rows.
            let Some(rows) = candidate.draft.files.get(&path(&candidate.draft.transaction, add.id)).cloned() else { continue };
            assert!(self.fragment_rows.insert(id, rows).is_none(), "fragment id {id} is used again");
        }
        self.files.append(&mut candidate.draft.files);
        let facts = CommitFacts {
            attempts: 1,
            rebased_over: rebased.versions,
            rows_carried: rebased.rows_carried,
            vectors_merged: rebased.vectors_merged,
            groups_dropped: rebased.groups_dropped,
            reran: 0,
        };
        CommittedTransaction { transaction, minted, facts }
    }

    /// The rows that a session sees within its transaction: its actions applied to the version that it read.
    pub fn provisional_rows(&self, draft: &Draft) -> Vec<Row> {
        let read = self.versions.iter().find(|v| v.snapshot.version == draft.transaction.read_version).expect("the version read");
        let (snapshot, _) = apply(&read.snapshot, &draft.transaction, read.snapshot.version).expect("a draft applies to what it read");
        live(&self.fragments_of(&snapshot, &draft.files))
    }
}

/// Actions by step, and what files hold.
type Gathered = (Vec<(usize, Action)>, BTreeMap<String, Vec<Row>>);

/// The rows of a fragment, deleted ones included. Keys and values may lie in two files.
fn rows_of(fragment: &Fragment, files: &[&BTreeMap<String, Vec<Row>>]) -> Vec<Row> {
    let column = |field: FieldId| {
        let (file, _) = fragment.backing(field).unwrap_or_else(|| panic!("fragment {} has no field {field}", fragment.id));
        let rows = files.iter().find_map(|files| files.get(&file.path)).unwrap_or_else(|| panic!("no file '{}'", file.path));
        assert_eq!(rows.len(), fragment.physical_rows as usize, "rows of '{}'", file.path);
        rows
    };
    column(KEY).iter().zip(column(VALUE)).map(|((key, _), (_, value))| (*key, *value)).collect()
}

fn over(rebase: &mut Rebase, version: u64, landed: &CommittedTransaction) -> Result<(), Collision> {
    let needed = rebase.maps_needed(landed);
    let maps: Vec<Option<Arc<AddressMap>>> = maps_of(landed).into_iter().zip(&needed).map(|(map, needed)| needed.then_some(map)).collect();
    assert_eq!(maps.len(), needed.len(), "one answer for each change of address");
    rebase.over(version, landed, &maps)
}

/// The maps of a transaction's changes of address.
fn maps_of(landed: &CommittedTransaction) -> Vec<Arc<AddressMap>> {
    let changes = landed.transaction.actions().filter_map(Action::change_of_address);
    let map = |change: &ChangeOfAddress| match &change.map {
        MapLocation::Inline(bytes) => Arc::new(wire::decode(bytes).expect("a map")),
        MapLocation::Object { path, .. } => panic!("map in {path}"),
    };
    changes.map(map).collect()
}

fn settled(rebase: &Rebase, newest: &Snapshot) -> Result<(Rebased, Transaction), Collision> {
    let rebased = rebase.finish(|id| newest.fragments.get(id).is_some())?;
    let present = vectors_needed(&rebased).into_iter().map(|id| {
        let fragment = newest.fragments.get(id).expect("a fragment whose vector is needed");
        (id, vector(&fragment.deletions, fragment.physical_rows))
    });
    let transaction = settle(rebased.clone(), present.collect());
    Ok((rebased, transaction))
}

fn path(transaction: &Transaction, fragment: FragmentRef) -> String {
    let own = match fragment {
        Ref::Local(token) => token.0.to_string(),
        Ref::Committed(id) => format!("at-{id}"),
    };
    format!("data/{}-{own}.parquet", transaction.id.0)
}

/// The live rows of fragments, sorted.
pub fn live(fragments: &[Seen]) -> Vec<Row> {
    let mut rows: Vec<Row> = fragments.iter().flat_map(Seen::live).map(|(_, row)| row).collect();
    rows.sort_unstable();
    rows
}

impl Seen {
    /// Its live rows with their offsets.
    pub fn live(&self) -> impl Iterator<Item = (u32, Row)> {
        self.rows.iter().enumerate().map(|(offset, row)| (offset as u32, *row)).filter(|(offset, _)| !self.dead.contains(*offset))
    }
}

impl Candidate {
    /// The version that it has walked over last.
    pub fn walked(&self) -> u64 {
        self.walked
    }
}

impl Draft {
    /// Adds a step of any actions.
    pub fn step(&mut self, operation: &str, statement: String, actions: Vec<Action>, counts: RowCounts) {
        self.transaction.steps.push(Step { operation: operation.into(), statement, actions, counts });
    }

    /// Without the fragments that came and went in it.
    pub fn normalised_if(mut self, really: bool) -> Draft {
        if really {
            (self.transaction, self.maps) = vanish(self.transaction, self.maps);
        }
        self
    }

    /// The next token for a field.
    pub fn field_token(&mut self) -> Token {
        self.field_tokens += 1;
        Token(self.field_tokens - 1)
    }

    /// Actions that add a fragment of these rows, which the draft sees from now on.
    pub fn add_rows(&mut self, rows: &[Row], data_change: bool, actions: &mut Vec<Action>) -> FragmentRef {
        let fragment = match self.reserved.pop() {
            Some(id) => Ref::Committed(id),
            None => {
                self.fragment_tokens += 1;
                Ref::Local(Token(self.fragment_tokens - 1))
            }
        };
        let path = path(&self.transaction, fragment);
        let fields = vec![Some(Ref::Committed(KEY)), Some(Ref::Committed(VALUE))];
        actions.push(Action::AddFragment(AddFragment {
            id: fragment,
            physical_rows: rows.len() as u32,
            data_change,
            replacing: RoaringBitmap::new(),
        }));
        let file = data_file(&path, rows.len() as u32, 2);
        actions.push(Action::AddDataFile(AddDataFile { fragment, file, base: None, fields, data_change }));
        self.files.insert(path, rows.to_vec());
        self.seen.push(Seen { fragment, rows: rows.to_vec(), dead: RoaringBitmap::new() });
        fragment
    }

    /// INSERT of rows as one fragment.
    pub fn insert(&mut self, rows: &[Row]) -> FragmentRef {
        let mut actions = Vec::new();
        let fragment = self.add_rows(rows, true, &mut actions);
        self.step(
            "INSERT",
            format!("INSERT {rows:?} as {fragment:?}"),
            actions,
            RowCounts { inserted: rows.len() as u64, ..Default::default() },
        );
        fragment
    }

    /// DELETE of keys.
    pub fn delete(&mut self, keys: &[u32]) {
        self.merge("DELETE", keys, &[], 0, &[]);
    }

    /// UPDATE of keys: `delta` is added to their values.
    pub fn update(&mut self, keys: &[u32], delta: i64) {
        self.merge("UPDATE", &[], keys, delta, &[]);
    }

    /// MERGE: some keys are deleted, others updated, rows inserted. Old versions of a fragment's rows go in one action.
    pub fn merge(&mut self, operation: &str, deleted: &[u32], updated: &[u32], delta: i64, inserted: &[Row]) {
        let (deleted, updated): (BTreeSet<u32>, BTreeSet<u32>) = (deleted.iter().copied().collect(), updated.iter().copied().collect());
        let mut actions = Vec::new();
        let mut rows = Vec::new();
        let mut counts = RowCounts { inserted: inserted.len() as u64, ..Default::default() };
        for seen in &mut self.seen {
            let (mut added, mut replaced) = (RoaringBitmap::new(), RoaringBitmap::new());
            for (offset, (key, value)) in seen.live() {
                if updated.contains(&key) {
                    added.insert(offset);
                    replaced.insert(offset);
                    rows.push((key, value + delta));
                    counts.updated += 1;
                } else if deleted.contains(&key) {
                    added.insert(offset);
                    counts.deleted += 1;
                }
            }
            if !added.is_empty() {
                seen.dead |= &added;
                let vector = DeletionFile::inline(&seen.dead);
                actions.push(Action::SetDeletionFile(SetDeletionFile { fragment: seen.fragment, vector, added, replaced }));
            }
        }
        rows.extend(inserted);
        if !rows.is_empty() {
            self.add_rows(&rows, true, &mut actions);
        }
        let statement = format!("{operation} delete {deleted:?} update {updated:?} by {delta} insert {inserted:?}");
        self.step(operation, statement, actions, counts);
    }

    /// UPDATE of keys in column form: each fragment that has one of them gets a file of values.
    pub fn update_columns(&mut self, keys: &[u32], delta: i64) {
        let mut actions = Vec::new();
        let mut counts = RowCounts::default();
        for seen in &mut self.seen {
            let updated: Vec<u32> = seen.live().filter(|(_, (key, _))| keys.contains(key)).map(|(offset, _)| offset).collect();
            if updated.is_empty() {
                continue;
            }
            counts.updated += updated.len() as u64;
            updated.iter().for_each(|offset| seen.rows[*offset as usize].1 += delta);
            let path = format!("data/{}-values-{}-{:?}.parquet", self.transaction.id.0, self.transaction.steps.len(), seen.fragment);
            let (fragment, fields, data_change) = (seen.fragment, vec![Ref::Committed(VALUE)], true);
            let file = data_file(&path, seen.rows.len() as u32, 1);
            actions.push(Action::TombstoneFieldData(TombstoneFieldData { fragment, fields: fields.clone(), data_change }));
            actions.push(Action::AddDataFile(AddDataFile {
                fragment,
                file,
                base: None,
                fields: fields.into_iter().map(Some).collect(),
                data_change,
            }));
            self.files.insert(path, seen.rows.clone());
        }
        self.step("UPDATE", format!("UPDATE {keys:?} by {delta} in place"), actions, counts);
    }

    /// The removal of whole fragments with their rows.
    pub fn remove(&mut self, fragments: &[FragmentRef]) {
        let remove = |fragment: &FragmentRef| Action::RemoveFragment(RemoveFragment { fragment: *fragment, data_change: true });
        let deleted = self.seen.iter().filter(|seen| fragments.contains(&seen.fragment)).map(|seen| seen.live().count() as u64).sum();
        self.seen.retain(|seen| !fragments.contains(&seen.fragment));
        let actions = fragments.iter().map(remove).collect();
        self.step("TRUNCATE", format!("TRUNCATE {fragments:?}"), actions, RowCounts { deleted, ..Default::default() });
    }

    /// All rows go and these come, whatever others do with settings of this name.
    pub fn restore(&mut self, rows: &[Row]) {
        let mut actions = vec![Action::ConfigUpdate(ConfigUpdate { entries: [("restored".to_owned(), None)].into(), replace: false })];
        let deleted = self.seen.iter().map(|seen| seen.live().count() as u64).sum();
        for seen in std::mem::take(&mut self.seen) {
            actions.push(Action::RemoveFragment(RemoveFragment { fragment: seen.fragment, data_change: true }));
        }
        self.add_rows(rows, true, &mut actions);
        let counts = RowCounts { inserted: rows.len() as u64, deleted, ..Default::default() };
        self.step("RESTORE", "RESTORE".into(), actions, counts);
    }

    /// OPTIMIZE of groups of fragments; `cuts` says after how many rows of a group a new target begins.
    pub fn optimize(&mut self, groups: &[(Vec<FragmentRef>, Vec<usize>)], removals_first: bool) {
        self.rewrite(groups, removals_first, None);
    }

    /// OPTIMIZE that gives the rows of each group an order of which `shuffle` is the seed, if it is given.
    pub fn rewrite(&mut self, groups: &[(Vec<FragmentRef>, Vec<usize>)], removals_first: bool, shuffle: Option<u8>) {
        let mut actions = Vec::new();
        let mut counts = RowCounts::default();
        let mut statement = String::from("OPTIMIZE");
        for (sources, cuts) in groups {
            let taken: Vec<Seen> = sources
                .iter()
                .map(|source| {
                    self.seen.remove(self.seen.iter().position(|seen| seen.fragment == *source).expect("a fragment that is seen"))
                })
                .collect();
            let mut survivors: Vec<(usize, Row)> = Vec::new();
            for (number, seen) in taken.iter().enumerate() {
                survivors.extend(seen.live().map(|(_, row)| (number, row)));
            }
            // A row's place before and after.
            let mut order: Vec<usize> = (0..survivors.len()).collect();
            if let Some(seed) = shuffle {
                order.sort_by_key(|at| (survivors[*at].1.0.wrapping_mul(2_654_435_761) >> (seed % 29), *at));
            }
            let rows: Vec<Row> = order.iter().map(|at| survivors[*at].1).collect();
            let mut positions: Vec<Vec<u32>> = vec![vec![]; taken.len()];
            for (at, (number, _)) in survivors.iter().enumerate() {
                positions[*number].push(order.iter().position(|from| *from == at).expect("every row is somewhere") as u32);
            }
            let sizes = taken.iter().map(|seen| MapSource { physical_rows: seen.rows.len() as u32, absent: seen.dead.clone() });
            let removals =
                sources.iter().map(|fragment| Action::RemoveFragment(RemoveFragment { fragment: *fragment, data_change: false }));
            let (mut before, mut after): (Vec<Action>, Vec<Action>) =
                if removals_first { (removals.collect(), vec![]) } else { (vec![], removals.collect()) };
            actions.append(&mut before);
            let (mut targets, mut target_rows, mut rest) = (Vec::new(), Vec::new(), rows.as_slice());
            for cut in cuts.iter().copied().chain([usize::MAX]) {
                let (target, others) = rest.split_at(cut.min(rest.len()));
                rest = others;
                if !target.is_empty() {
                    targets.push(self.add_rows(target, false, &mut actions));
                    target_rows.push(target.len() as u32);
                }
            }
            counts.moved += rows.len() as u64;
            statement += &format!(" {sources:?} to {targets:?} of {target_rows:?}");
            let map = match shuffle {
                Some(_) => AddressMap::permuted(sizes.collect(), target_rows, &positions),
                None => AddressMap::in_order(sizes.collect(), target_rows),
            };
            let map = map.expect("a map that adds up");
            let location = MapLocation::Inline(wire::encode(&map));
            actions.push(Action::ChangeOfAddress(ChangeOfAddress { sources: sources.clone(), targets, map: location, order: None }));
            actions.append(&mut after);
            self.maps.push(Arc::new(map));
        }
        self.step("OPTIMIZE", statement, actions, counts);
    }

    /// ADD COLUMN without values.
    pub fn add_column(&mut self, name: &str) {
        let add = AddField {
            id: Ref::Local(self.field_token()),
            parent: None,
            name: name.into(),
            field_type: FieldType::Leaf(DataType::Int64),
            nullable: true,
            metadata: BTreeMap::new(),
            initial: None,
            in_place_of: None,
        };
        self.step("ALTER", format!("ADD COLUMN {name}"), vec![Action::AddField(add)], RowCounts::default());
    }
}
