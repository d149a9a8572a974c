//! Statements of every kind of action, and the table that they are said of.
//!
//! Choices are numbers that are taken modulo what there is to choose from. A statement that has nothing to act on is left out.
//!
//! Always holds: what is drafted applies to the version that it was drafted on.

use super::model::Effect;
use crate::manifest::snapshot::Snapshot;
use crate::table::fragment::Base;
use crate::table::row_address::FragmentId;
use crate::table::schema::{FieldId, FieldType};
use crate::txn::action::{
    Action, AddBase, AddDataFile, AddField, AlterField, AssertUniqueKeys, ConfigUpdate, DropField, ReserveFragmentIds, ResetTable,
    TombstoneFieldData,
};
use crate::txn::composite::RowCounts;
use crate::txn::refs::{FieldRef, FragmentRef, Ref, Token};
use crate::txn::testbed::{Draft, Row, data_file};
use arrow_schema::DataType;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The columns of the table, with the ids 1 to 5.
pub(super) const FIRST_COLUMNS: [&str; 5] = ["key", "value", "x", "y", "z"];
/// Names for new columns and renames: few, so that they meet.
const NAMES: [&str; 3] = ["n", "m", "o"];
/// How many ids are reserved.
const RESERVED: u32 = 3;

/// Which of a pair: what they insert and write is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    One,
    Other,
}

/// A statement before it meets a table.
#[derive(Debug, Clone)]
pub(super) enum Words {
    Insert { rows: u8, at_reserved: Option<u8>, asserted: bool },
    Delete(Vec<u8>),
    Update(Vec<u8>),
    Remove(u8),
    Optimize { fragments: Vec<u8>, cut: u8 },
    Fill { column: u8, fragment: u8 },
    Clear { column: u8, fragment: u8 },
    AddColumn { name: u8, filled: Option<u8> },
    Rename { column: u8, name: u8 },
    Nullable(u8),
    Widen(u8),
    Drop(u8),
    Set { key: u8, value: bool, replace: bool },
    Reserve(u8),
    AddBase { name: u8, location: u8 },
    Reset,
}

fn words() -> impl Strategy<Value = Words> {
    let small = || 0u8..8;
    prop_oneof![
        4 => (1u8..4, prop::option::weighted(0.3, small()), prop::bool::weighted(0.2))
            .prop_map(|(rows, at_reserved, asserted)| Words::Insert { rows, at_reserved, asserted }),
        6 => vec(any::<u8>(), 1..4).prop_map(Words::Delete),
        6 => vec(any::<u8>(), 1..4).prop_map(Words::Update),
        2 => small().prop_map(Words::Remove),
        5 => (vec(small(), 1..4), small()).prop_map(|(fragments, cut)| Words::Optimize { fragments, cut }),
        3 => (small(), small()).prop_map(|(column, fragment)| Words::Fill { column, fragment }),
        2 => (small(), small()).prop_map(|(column, fragment)| Words::Clear { column, fragment }),
        2 => (small(), prop::option::of(small())).prop_map(|(name, filled)| Words::AddColumn { name, filled }),
        2 => (small(), small()).prop_map(|(column, name)| Words::Rename { column, name }),
        1 => small().prop_map(Words::Nullable),
        1 => small().prop_map(Words::Widen),
        1 => small().prop_map(Words::Drop),
        2 => (small(), any::<bool>(), prop::bool::weighted(0.3)).prop_map(|(key, value, replace)| Words::Set { key, value, replace }),
        1 => (0u8..3).prop_map(Words::Reserve),
        1 => (small(), small()).prop_map(|(name, location)| Words::AddBase { name, location }),
    ]
}

fn transaction() -> impl Strategy<Value = Vec<Words>> {
    prop_oneof![30 => vec(words(), 1..4), 1 => Just(vec![Words::Reset])]
}

/// The sizes of a table's fragments and two transactions.
pub(super) fn pairs() -> impl Strategy<Value = (Vec<u8>, Vec<Words>, Vec<Words>)> {
    (vec(1u8..10, 1..5), transaction(), transaction())
}

/// The table: the columns x, y and z, which the first fragment has values of; settings, a base, reserved ids.
pub(super) fn set_up(sizes: &[u8], draft: &mut Draft) {
    let mut fragments = Vec::new();
    let mut next = 0;
    for size in sizes {
        let keys = next..next + u32::from(*size);
        next = keys.end;
        fragments.push((draft.insert(&keys.map(|key| (key, 0)).collect::<Vec<_>>()), *size));
    }
    let mut actions = Vec::new();
    let mut fields: Vec<Option<FieldRef>> = Vec::new();
    for name in &FIRST_COLUMNS[2..] {
        let token = draft.field_token();
        fields.push(Some(Ref::Local(token)));
        let (name, metadata) = ((*name).to_owned(), BTreeMap::new());
        let field_type = FieldType::Leaf(DataType::Int32);
        actions.push(Action::AddField(AddField {
            id: Ref::Local(token),
            parent: None,
            name,
            field_type,
            nullable: false,
            metadata,
            initial: None,
            in_place_of: None,
        }));
    }
    if let Some((fragment, size)) = fragments.first() {
        let file = data_file("data/first.parquet", u32::from(*size), fields.len());
        actions.push(Action::AddDataFile(AddDataFile { fragment: *fragment, file, base: None, fields, data_change: true }));
    }
    let entries = ["a", "b"].map(|key| (key.to_owned(), Some("0".to_owned()))).into();
    actions.push(Action::ConfigUpdate(ConfigUpdate { entries, replace: false }));
    let base = Base { name: Some("first".into()), location: "s3://first".into() };
    actions.push(Action::AddBase(AddBase { token: Token(0), base }));
    actions.push(Action::ReserveFragmentIds(ReserveFragmentIds { count: RESERVED }));
    draft.step("SET UP", "SET UP".into(), actions, RowCounts::default());
}

/// Drafts statements against a version; what each means.
pub(super) fn say(side: Side, words: &[Words], on: &Snapshot, draft: &mut Draft) -> Vec<Effect> {
    let tag = if side == Side::One { 1 } else { 2 };
    let mut speaker = Speaker {
        tag,
        on,
        touched: BTreeSet::new(),
        names: BTreeSet::new(),
        next_key: 1000 * tag,
        files: 0,
        bases: 0,
        claimed: BTreeSet::new(),
        more: None,
    };
    let mut effects = Vec::new();
    for words in words {
        effects.extend(speaker.say(words, draft));
        effects.extend(speaker.more.take());
    }
    effects
}

/// One side, as it speaks.
struct Speaker<'a> {
    /// 1 or 2.
    tag: u32,
    on: &'a Snapshot,
    /// Columns that a statement has altered or filled: another one leaves them alone.
    touched: BTreeSet<FieldId>,
    /// Names that it has given.
    names: BTreeSet<&'static str>,
    next_key: u32,
    files: u32,
    bases: u32,
    /// Reserved ids that it has taken.
    claimed: BTreeSet<FragmentId>,
    /// What the last statement means besides.
    more: Option<Effect>,
}

impl Speaker<'_> {
    fn say(&mut self, words: &Words, draft: &mut Draft) -> Option<Effect> {
        match words {
            Words::Insert { rows, at_reserved, asserted } => {
                if let Some(pick) = at_reserved {
                    let id = FragmentId(self.on.counters.fragment.0 - RESERVED + u32::from(*pick) % RESERVED);
                    draft.reserved.extend(self.claimed.insert(id).then_some(id));
                }
                let rows: Vec<Row> = (0..u32::from(*rows)).map(|n| (self.next_key + n, i64::from(self.tag))).collect();
                self.next_key += rows.len() as u32;
                draft.insert(&rows);
                if *asserted {
                    let hashes = Arc::new(rows.iter().map(|(key, _)| u64::from(*key)).collect());
                    let fields = vec![Ref::Committed(FieldId(1))];
                    act(draft, "ASSERT", Action::AssertUniqueKeys(AssertUniqueKeys { fields, scheme: 1, hashes }));
                }
                Some(Effect::Insert(rows))
            }
            Words::Delete(picks) => {
                let keys = keys(draft, picks)?;
                draft.delete(&keys);
                Some(Effect::Delete(keys))
            }
            Words::Update(picks) => {
                let (keys, delta) = (keys(draft, picks)?, 10i64.pow(self.tag));
                draft.update(&keys, delta);
                Some(Effect::Update(keys, delta))
            }
            Words::Remove(pick) => {
                let seen = pick_of(&draft.seen, *pick)?;
                let (fragment, keys) = (seen.fragment, seen.live().map(|(_, (key, _))| key).collect::<Vec<_>>());
                if keys.is_empty() {
                    return None;
                }
                draft.remove(&[fragment]);
                Some(Effect::Delete(keys))
            }
            Words::Optimize { fragments, cut } => {
                // A rewrite here keeps the first two columns only.
                let mut free: Vec<FragmentRef> =
                    draft.seen.iter().filter(|seen| seen.live().next().is_some()).map(|seen| seen.fragment).collect();
                free.retain(|fragment| !self.has_more_columns(*fragment, draft));
                let mut sources: Vec<FragmentRef> = Vec::new();
                for pick in fragments {
                    if !free.is_empty() {
                        sources.push(free.remove(usize::from(*pick) % free.len()));
                    }
                }
                if sources.is_empty() {
                    return None;
                }
                draft.optimize(&[(sources, vec![usize::from(*cut)])], cut.is_multiple_of(2));
                Some(Effect::Nothing)
            }
            Words::Fill { column, fragment } => self.fill(*column, *fragment, true, draft),
            Words::Clear { column, fragment } => self.fill(*column, *fragment, false, draft),
            Words::AddColumn { name, filled } => {
                let name = self.new_name(*name)?;
                let field = Ref::Local(draft.field_token());
                let Ref::Local(token) = field else { return None };
                let (field_type, metadata) = (FieldType::Leaf(DataType::Int64), BTreeMap::new());
                let add = AddField {
                    id: Ref::Local(token),
                    parent: None,
                    name: name.into(),
                    field_type,
                    nullable: true,
                    metadata,
                    initial: None,
                    in_place_of: None,
                };
                act(draft, "ADD COLUMN", Action::AddField(add));
                if let Some(seen) = filled.and_then(|pick| pick_of(&draft.seen, pick)) {
                    let (fragment, rows) = (seen.fragment, seen.rows.len() as u32);
                    let keys = seen.live().map(|(_, (key, _))| key).collect();
                    let path = self.new_file();
                    let file = data_file(&path, rows, 1);
                    act(
                        draft,
                        "FILL",
                        Action::AddDataFile(AddDataFile { fragment, file, base: None, fields: vec![Some(field)], data_change: true }),
                    );
                    self.more = Some(Effect::Fill(keys, name.into(), Some(path)));
                }
                Some(Effect::AddColumn(name.into()))
            }
            Words::Rename { column, name } => {
                let (id, column) = self.column(*column)?;
                let name = self.new_name(*name)?;
                act(draft, "RENAME", Action::AlterField(AlterField { name: Some(name.into()), ..alter(id) }));
                Some(Effect::Rename(column, name.into()))
            }
            Words::Nullable(column) => {
                let (id, column) = self.column(*column)?;
                act(draft, "DROP NOT NULL", Action::AlterField(AlterField { nullable: Some(true), ..alter(id) }));
                Some(Effect::Nullable(column))
            }
            Words::Widen(column) => {
                let (id, column) = self.column(*column)?;
                let field_type = Some(FieldType::Leaf(DataType::Int64));
                act(draft, "WIDEN", Action::AlterField(AlterField { field_type, ..alter(id) }));
                Some(Effect::Widen(column))
            }
            Words::Drop(column) => {
                let (id, column) = self.column(*column)?;
                act(draft, "DROP COLUMN", Action::DropField(DropField { field: Ref::Committed(id) }));
                Some(Effect::Drop(column))
            }
            Words::Set { key, value, replace } => {
                let key = ["a", "b", "c"][usize::from(*key) % 3].to_owned();
                let entries = BTreeMap::from([(key, value.then(|| self.tag.to_string()))]);
                act(draft, "SET", Action::ConfigUpdate(ConfigUpdate { entries: entries.clone(), replace: *replace }));
                Some(Effect::Set(entries, *replace))
            }
            Words::Reserve(count) => {
                act(draft, "RESERVE", Action::ReserveFragmentIds(ReserveFragmentIds { count: u32::from(*count) }));
                Some(Effect::Nothing)
            }
            Words::AddBase { name, location } => {
                if self.bases > 0 {
                    return None;
                }
                self.bases += 1;
                let location = format!("s3://{}", NAMES[usize::from(*location) % 3]);
                let name = NAMES.get(usize::from(*name) % 4).map(|name| (*name).to_owned());
                act(draft, "ADD BASE", Action::AddBase(AddBase { token: Token(0), base: Base { name, location: location.clone() } }));
                Some(Effect::AddBase(location))
            }
            Words::Reset => {
                act(draft, "RESET", Action::ResetTable(ResetTable));
                Some(Effect::Reset)
            }
        }
    }

    /// Values for a column of one fragment of the table: others than it had, or none.
    fn fill(&mut self, column: u8, fragment: u8, anew: bool, draft: &mut Draft) -> Option<Effect> {
        let of_table: Vec<_> = draft.seen.iter().filter(|seen| self.in_table(seen.fragment).is_some()).collect();
        let seen = pick_of(&of_table, fragment)?;
        let (fragment, rows) = (seen.fragment, seen.rows.len() as u32);
        let keys: Vec<u32> = seen.live().map(|(_, (key, _))| key).collect();
        let (id, column) = self.column(column)?;
        let field: FieldRef = Ref::Committed(id);
        let backed = self.in_table(fragment).is_some_and(|fragment| fragment.backing(id).is_some());
        let mut actions = Vec::new();
        if backed {
            actions.push(Action::TombstoneFieldData(TombstoneFieldData { fragment, fields: vec![field], data_change: true }));
        }
        let path = anew.then(|| self.new_file());
        if let Some(path) = &path {
            let file = data_file(path, rows, 1);
            actions.push(Action::AddDataFile(AddDataFile { fragment, file, base: None, fields: vec![Some(field)], data_change: true }));
        }
        if actions.is_empty() {
            return None;
        }
        draft.step("FILL", format!("FILL {column} of {fragment:?}"), actions, RowCounts::default());
        Some(Effect::Fill(keys, column, path))
    }

    fn in_table(&self, fragment: FragmentRef) -> Option<&crate::table::fragment::Fragment> {
        fragment.committed().and_then(|id| self.on.fragments.get(id).unwrap()).map(|fragment| &**fragment)
    }

    /// Whether a fragment holds, or is given, values of further columns.
    fn has_more_columns(&self, fragment: FragmentRef, draft: &Draft) -> bool {
        let given = draft
            .transaction
            .actions()
            .any(|action| matches!(action, Action::AddDataFile(add) if add.fragment == fragment && add.file.columns.len() != 2));
        given || self.in_table(fragment).is_some_and(|fragment| (3..6).any(|id| fragment.backing(FieldId(id)).is_some()))
    }

    /// One of x, y and z that no statement before has touched.
    fn column(&mut self, pick: u8) -> Option<(FieldId, String)> {
        let at = usize::from(pick) % 3 + 2;
        let id = FieldId(at as i32 + 1);
        self.touched.insert(id).then(|| (id, FIRST_COLUMNS[at].to_owned()))
    }

    fn new_name(&mut self, pick: u8) -> Option<&'static str> {
        let name = NAMES[usize::from(pick) % NAMES.len()];
        self.names.insert(name).then_some(name)
    }

    fn new_file(&mut self) -> String {
        self.files += 1;
        format!("data/fill-{}-{}.parquet", self.tag, self.files)
    }
}

fn act(draft: &mut Draft, operation: &str, action: Action) {
    draft.step(operation, format!("{operation} {action:?}"), vec![action], RowCounts::default());
}

fn alter(id: FieldId) -> AlterField {
    AlterField { field: Ref::Committed(id), parent: None, name: None, field_type: None, nullable: None }
}

fn pick_of<T>(of: &[T], pick: u8) -> Option<&T> {
    of.get(usize::from(pick) % of.len().max(1))
}

/// Some of the keys that a draft sees; `None` if it sees none.
fn keys(draft: &Draft, picks: &[u8]) -> Option<Vec<u32>> {
    let all: Vec<u32> = draft.seen.iter().flat_map(|seen| seen.live().map(|(_, (key, _))| key)).collect();
    let keys: BTreeSet<u32> = picks.iter().filter_map(|pick| all.get(usize::from(*pick) % all.len().max(1)).copied()).collect();
    (!keys.is_empty()).then(|| keys.into_iter().collect())
}
