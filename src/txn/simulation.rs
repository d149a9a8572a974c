//! Any schedule of sessions, against a plain model: a map of keys to values on which the transactions that landed run one
//! after another, in the order in which they landed.
//!
//! ```text
//!   schedule: statements of four sessions, attempts that lose their race, landings alone and in groups
//!      |                                     |
//!      v testbed                             v model
//!   draft, rebase, settle, apply          the same statements by key
//!      |                                     |
//!      +---- rows of the newest version == rows of the model, after every landing
//! ```
//!
//! A statement acts on the keys that it found at its read version (snapshot isolation: no phantoms are looked for). UPDATE
//! adds to a value, so a lost update shows. A transaction that collides never happened; that it had to collide is checked
//! too: the model knows which keys both changed and which fragments both moved.
//!
//! `AMEND_SIMULATION_CASES` sets the number of schedules.

#![allow(clippy::result_large_err, reason = "errors are rare here, and lie on no hot path")]

mod schedule;

use super::action::{Action, MapLocation};
use super::address_map::wire;
use super::composite::Transaction;
use super::rebase::Collision;
use super::refs::Ref;
use super::testbed::{Candidate, Check, Draft, Landed, Row, Testbed};
use crate::table::row_address::FragmentId;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use schedule::{Op, Statement};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many schedules a run of the tests tries.
const DEFAULT_CASES: u32 = 10_000;

/// What a statement means, by key.
#[derive(Debug, Clone, Default)]
struct Effect {
    deleted: Vec<u32>,
    updated: Vec<u32>,
    delta: i64,
    inserted: Vec<Row>,
    /// Keys of the fragments of which it wrote columns, if it is an UPDATE in place.
    in_place: Option<Vec<u32>>,
    /// Keys of the fragments that it rewrote.
    rewritten: Vec<u32>,
    /// Whether the count of deleted rows follows the rebase; that of whole fragments does not.
    counted: bool,
}

/// What became of a key; the last counts for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Write {
    Deleted,
    UpdatedInPlace,
    Updated,
}

impl Write {
    /// Whether two transactions cannot both have done it.
    fn collides(self, other: Write) -> bool {
        self == Write::Updated || other == Write::Updated || (self == Write::UpdatedInPlace && other == Write::UpdatedInPlace)
    }
}

/// What transactions collide on.
#[derive(Debug, Clone, Default)]
struct Reach {
    /// Keys that it deleted or updated.
    written: BTreeMap<u32, Write>,
    /// Keys of the fragments of which it wrote columns.
    spread: BTreeSet<u32>,
    /// Keys of the fragments that it rewrote.
    rewritten: BTreeSet<u32>,
    /// Fragments that it moved.
    moved: BTreeSet<FragmentId>,
    /// Fragments that it moved to where later statements of it act.
    built_upon: BTreeSet<FragmentId>,
    /// Fragments that it removed with their rows.
    removed: BTreeSet<FragmentId>,
    columns: BTreeSet<String>,
}

/// A session's open transaction.
#[expect(clippy::large_enum_variant, reason = "a handful of them in a test")]
enum Session {
    Drafting(Draft, Vec<Effect>),
    /// It lost a race and tries again.
    Landing(Candidate, Vec<Effect>, Box<Draft>),
}

/// The table, the model, and what landed.
struct World {
    bed: Testbed,
    model: BTreeMap<u32, i64>,
    next_key: u32,
    next_delta: i64,
    sessions: BTreeMap<u8, Session>,
    landed: Vec<(u64, Reach)>,
    reached: BTreeSet<&'static str>,
}

/// What a thousand schedules must have reached, or the simulation proves less than it says.
const TO_REACH: [&str; 13] = [
    "a collision",
    "a fragment that came and went",
    "a group dropped",
    "a rewrite that took over columns",
    "a rewrite with deletions of others, built upon",
    "a source that others emptied",
    "columns that followed their rows",
    "rows carried",
    "rows carried by a rewrite that gives them another order",
    "rows carried over two rewrites",
    "rows carried over two rewrites that give them another order",
    "several transactions in one version",
    "vectors united",
];

/// How many schedules to try: `default`, unless the environment says otherwise.
pub(crate) fn cases(default: u32) -> u32 {
    cases_of("AMEND_SIMULATION_CASES", default)
}

/// The number in a variable of the environment, if there is one.
pub(super) fn cases_of(variable: &str, default: u32) -> u32 {
    std::env::var(variable).ok().and_then(|cases| cases.parse().ok()).unwrap_or(default)
}

/// Tries as many schedules; panics with the shortest that fails.
pub(crate) fn run(cases: u32, check: Check) {
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Config::default() });
    let reached = RefCell::new(BTreeMap::new());
    let outcome = runner.run(&schedule::schedules(), |schedule| {
        let trace = RefCell::new(Vec::new());
        let outcome = catch_unwind(AssertUnwindSafe(|| World::new(check).play(&schedule, &trace)));
        let told = |reason: String| TestCaseError::fail(format!("{reason}\n  {}", trace.borrow().join("\n  ")));
        match outcome {
            Ok(Ok(places)) => {
                places.into_iter().for_each(|place| *reached.borrow_mut().entry(place).or_insert(0) += 1);
                Ok(())
            }
            Ok(Err(reason)) => Err(told(reason)),
            Err(panic) => {
                let reason = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
                Err(told(reason.unwrap_or_else(|| "a panic".into())))
            }
        }
    });
    if let Err(TestError::Fail(reason, schedule)) = outcome {
        panic!("{reason}\nschedule: {schedule:?}");
    }
    println!("of {cases} schedules reached: {:#?}", reached.borrow());
    if cases >= 1_000 {
        assert_eq!(reached.borrow().keys().copied().collect::<Vec<_>>(), TO_REACH);
    }
}

impl World {
    fn new(check: Check) -> Self {
        World {
            bed: Testbed::new(check),
            model: BTreeMap::new(),
            next_key: 0,
            next_delta: 1,
            sessions: BTreeMap::new(),
            landed: vec![],
            reached: BTreeSet::new(),
        }
    }

    fn play(mut self, schedule: &[Op], trace: &RefCell<Vec<String>>) -> Result<BTreeSet<&'static str>, String> {
        for op in schedule {
            match op {
                Op::Say(session, statement) => self.say(*session, statement, trace)?,
                Op::Lose(session) => self.lose(*session, trace)?,
                Op::Land(sessions) => self.land(sessions, trace)?,
            }
        }
        let open: Vec<u8> = self.sessions.keys().copied().collect();
        open.iter().try_for_each(|session| self.land(&[*session], trace))?;
        Ok(self.reached)
    }

    /// A statement in a session; the first one begins a transaction on the newest version.
    fn say(&mut self, session: u8, statement: &Statement, trace: &RefCell<Vec<String>>) -> Result<(), String> {
        let (mut draft, mut effects) = match self.sessions.remove(&session) {
            None => (self.bed.draft(), vec![]),
            Some(Session::Drafting(draft, effects)) => (draft, effects),
            Some(landing) => {
                self.sessions.insert(session, landing);
                return Ok(());
            }
        };
        if let Some(effect) = self.act(&mut draft, statement) {
            effects.push(effect);
            let step = draft.transaction.steps.last().ok_or("a statement without a step")?;
            trace.borrow_mut().push(format!("session {session} at v{}: {}", draft.transaction.read_version, step.statement));
            let seen = super::testbed::live(&draft.seen);
            if self.bed.provisional_rows(&draft) != seen {
                return Err(format!("session {session} does not read its own writes {seen:?}"));
            }
        }
        if !effects.is_empty() {
            self.sessions.insert(session, Session::Drafting(draft, effects));
        }
        Ok(())
    }

    /// Carries a statement out on a draft; `None` if there is nothing for it to do.
    fn act(&mut self, draft: &mut Draft, statement: &Statement) -> Option<Effect> {
        let counted = |effect: Effect| Some(Effect { counted: true, ..effect });
        let keys: Vec<u32> = super::testbed::live(&draft.seen).into_iter().map(|(key, _)| key).collect();
        let choose = |picks: &[u16]| -> Vec<u32> {
            let chosen: BTreeSet<u32> = picks.iter().filter_map(|pick| keys.get(usize::from(*pick) % keys.len().max(1)).copied()).collect();
            chosen.into_iter().collect()
        };
        match statement {
            Statement::Insert(rows) => {
                let inserted = self.new_rows(*rows);
                draft.insert(&inserted);
                counted(Effect { inserted, ..Effect::default() })
            }
            Statement::Delete(picks) => {
                let deleted = choose(picks);
                (!deleted.is_empty()).then(|| draft.delete(&deleted))?;
                counted(Effect { deleted, ..Effect::default() })
            }
            Statement::DeleteFragment(pick) => {
                let seen = draft.seen.get(usize::from(*pick) % draft.seen.len().max(1))?;
                let deleted: Vec<u32> = seen.live().map(|(_, (key, _))| key).collect();
                (!deleted.is_empty()).then(|| draft.delete(&deleted))?;
                counted(Effect { deleted, ..Effect::default() })
            }
            Statement::Update(picks) => {
                let (updated, delta) = (choose(picks), self.new_delta());
                (!updated.is_empty()).then(|| draft.update(&updated, delta))?;
                counted(Effect { updated, delta, ..Effect::default() })
            }
            Statement::UpdateInPlace(picks) => {
                let (updated, delta) = (choose(picks), self.new_delta());
                let touched = draft.seen.iter().filter(|seen| seen.live().any(|(_, (key, _))| updated.contains(&key)));
                let in_place = touched.flat_map(|seen| seen.rows.iter().map(|(key, _)| *key)).collect();
                (!updated.is_empty()).then(|| draft.update_columns(&updated, delta))?;
                counted(Effect { updated, delta, in_place: Some(in_place), ..Effect::default() })
            }
            Statement::Merge(deleted, updated, rows) => {
                let (updated, delta) = (choose(updated), self.new_delta());
                let deleted: Vec<u32> = choose(deleted).into_iter().filter(|key| !updated.contains(key)).collect();
                let inserted = self.new_rows(*rows);
                draft.merge("MERGE", &deleted, &updated, delta, &inserted);
                counted(Effect { deleted, updated, delta, inserted, ..Effect::default() })
            }
            Statement::Optimize { groups, removals_first, shuffle } => {
                let mut free: Vec<_> = draft.seen.iter().filter(|seen| seen.live().next().is_some()).map(|seen| seen.fragment).collect();
                let mut chosen = Vec::new();
                for (picks, cuts) in groups {
                    let mut sources = Vec::new();
                    for pick in picks {
                        if !free.is_empty() {
                            sources.push(free.remove(usize::from(*pick) % free.len()));
                        }
                    }
                    if !sources.is_empty() {
                        chosen.push((sources, cuts.iter().map(|cut| usize::from(*cut)).collect()));
                    }
                }
                let moves = |fragment| chosen.iter().any(|(sources, _): &(Vec<_>, Vec<usize>)| sources.contains(fragment));
                let rewritten =
                    draft.seen.iter().filter(|seen| moves(&seen.fragment)).flat_map(|seen| seen.rows.iter().map(|(key, _)| *key));
                let rewritten = rewritten.collect();
                (!chosen.is_empty()).then(|| draft.rewrite(&chosen, *removals_first, *shuffle))?;
                counted(Effect { rewritten, ..Effect::default() })
            }
            Statement::Remove(pick) => {
                let seen = draft.seen.get(usize::from(*pick) % draft.seen.len().max(1))?;
                let deleted: Vec<u32> = seen.live().map(|(_, (key, _))| key).collect();
                let fragment = seen.fragment;
                (!deleted.is_empty()).then(|| draft.remove(&[fragment]))?;
                Some(Effect { deleted, ..Effect::default() })
            }
            Statement::AddColumn(name) => {
                let name = format!("column{name}");
                let taken =
                    |id: u64| self.bed.versions.iter().any(|v| v.snapshot.version == id && v.snapshot.schema.column(&name).is_some());
                let ours = reach(&draft.transaction, &[]).columns.contains(&name);
                (!taken(draft.transaction.read_version) && !ours).then(|| draft.add_column(&name))?;
                counted(Effect::default())
            }
        }
    }

    fn new_rows(&mut self, rows: u8) -> Vec<Row> {
        let first = self.next_key;
        self.next_key += u32::from(rows);
        (first..self.next_key).map(|key| (key, 0)).collect()
    }

    /// Powers of two, so that every sum says which updates it is of.
    fn new_delta(&mut self) -> i64 {
        self.next_delta = self.next_delta.wrapping_mul(2).max(1);
        self.next_delta
    }

    /// An attempt to land that another writer would overtake.
    fn lose(&mut self, session: u8, trace: &RefCell<Vec<String>>) -> Result<(), String> {
        let Some(open) = self.sessions.remove(&session) else { return Ok(()) };
        let landing = open.landing(&self.bed).and_then(|(mut candidate, effects, draft)| {
            let attempt = self.bed.attempt(&mut candidate).map_err(|collision| (collision, effects.clone(), draft.clone()))?;
            trace.borrow_mut().push(format!("session {session} loses a race for v{}", self.bed.newest().version + 1));
            drop(attempt);
            Ok((candidate, effects, draft))
        });
        match landing {
            Ok((candidate, effects, draft)) => {
                self.sessions.insert(session, Session::Landing(candidate, effects, draft));
                Ok(())
            }
            Err((collision, effects, draft)) => self.collided(session, &collision, &effects, &draft.transaction, &[], trace),
        }
    }

    /// Lands the transactions of sessions as one version.
    fn land(&mut self, sessions: &[u8], trace: &RefCell<Vec<String>>) -> Result<(), String> {
        let mut candidates = Vec::new();
        let mut waiting = Vec::new();
        for session in sessions {
            let Some(open) = self.sessions.remove(session) else { continue };
            match open.landing(&self.bed) {
                Ok((candidate, effects, draft)) => {
                    candidates.push(candidate);
                    waiting.push((*session, effects, draft));
                }
                Err((collision, effects, draft)) => self.collided(*session, &collision, &effects, &draft.transaction, &[], trace)?,
            }
        }
        let before = self.bed.versions.len();
        let results = self.bed.land_together(candidates);
        let mut mates = Vec::new();
        for ((session, effects, draft), result) in waiting.into_iter().zip(results) {
            match result {
                Err(collision) => self.collided(session, &collision, &effects, &draft.transaction, &mates, trace)?,
                Ok(landed) => {
                    trace.borrow_mut().push(format!("session {session} lands as v{}", landed.version));
                    let mut ours = reach(&draft.transaction, &effects);
                    // What others deleted first was not updated.
                    ours.written.retain(|key, write| *write != Write::UpdatedInPlace || self.model.contains_key(key));
                    if let Some(key) = self.key_collision(&ours, draft.transaction.read_version, &mates) {
                        return Err(format!("session {session} landed, but key {key} was changed since it read"));
                    }
                    let (read, over) = (draft.transaction.read_version, landed.committed.facts.rebased_over);
                    if read + over + 1 != landed.version {
                        return Err(format!("session {session} read v{read}, walked over {over} versions, landed as v{}", landed.version));
                    }
                    self.serially(session, &effects, &landed)?;
                    self.note(&draft.transaction, &ours, &landed, !mates.is_empty());
                    mates.push((landed.version, committed_reach(&landed, ours, &self.bed.fragment_rows)));
                }
            }
        }
        self.landed.append(&mut mates);
        if self.bed.versions.len() > before { self.compare() } else { Ok(()) }
    }

    /// The same statements on the model.
    fn serially(&mut self, session: u8, effects: &[Effect], landed: &Landed) -> Result<(), String> {
        let transaction = &landed.committed.transaction;
        let mut counted = 0;
        for (effect, step) in effects.iter().zip(&transaction.steps) {
            let mut deleted = 0;
            for key in &effect.deleted {
                deleted += u64::from(self.model.remove(key).is_some());
            }
            for key in &effect.updated {
                match self.model.get_mut(key) {
                    Some(value) => *value += effect.delta,
                    // As if it had been updated first.
                    None if effect.in_place.is_some() => {}
                    None => return Err(format!("session {session} updated key {key}, which was deleted")),
                }
            }
            self.model.extend(effect.inserted.iter().copied());
            if effect.counted {
                counted += deleted + if effect.in_place.is_some() { 0 } else { effect.updated.len() as u64 };
            }
            let counts = (step.counts.inserted, step.counts.updated, step.counts.deleted);
            let expected = (effect.inserted.len() as u64, effect.updated.len() as u64, deleted);
            if effect.counted && counts != expected {
                return Err(format!(
                    "session {session} says (inserted, updated, deleted) = {counts:?}, it was {expected:?}: {}",
                    step.statement
                ));
            }
        }
        // What it deleted of fragments that came and went in it is not claimed any more.
        let claimed: u64 = transaction.actions().filter_map(Action::deletion).map(|set| set.added.len()).sum();
        if claimed > counted || claimed < counted && !is_normalised(transaction) {
            return Err(format!("session {session} claims {claimed} rows and counts {counted}: {}", transaction.describe()));
        }
        Ok(())
    }

    /// Notes what a landing reached.
    fn note(&mut self, drafted: &Transaction, ours: &Reach, landed: &Landed, with_mates: bool) {
        let facts = &landed.committed.facts;
        let removals = |transaction: &Transaction| {
            transaction.actions().filter(|action| matches!(action, Action::RemoveFragment(remove) if !remove.data_change)).count()
        };
        let gathered = |taken_over: bool| {
            let mut files = landed.committed.transaction.actions().filter_map(|action| match action {
                Action::AddDataFile(add) => Some(add.file.path.contains("gathered") && add.fragment.committed().is_none() == taken_over),
                _ => None,
            });
            files.any(|found| found)
        };
        let added = |transaction: &Transaction| transaction.actions().filter_map(Action::added_fragment).count();
        let rewrites_since = self.landed.iter().filter(|(version, theirs)| *version > drafted.read_version && !theirs.moved.is_empty());
        let shuffles = |transaction: &Transaction| {
            let mut maps = transaction.actions().filter_map(Action::change_of_address).filter_map(|change| match &change.map {
                MapLocation::Inline(bytes) => wire::decode(bytes).ok(),
                MapLocation::Object { .. } => None,
            });
            maps.any(|map| !map.keeps_order())
        };
        let landed_since = self
            .bed
            .versions
            .iter()
            .filter(|version| version.snapshot.version > drafted.read_version && version.snapshot.version < landed.version);
        let shuffles_since = landed_since.flat_map(|version| &version.transactions).filter(|theirs| shuffles(&theirs.transaction));
        for (reached, place) in [
            (facts.groups_dropped == 0 && added(&landed.committed.transaction) < added(drafted), "a fragment that came and went"),
            (facts.groups_dropped > 0, "a group dropped"),
            (gathered(true), "a rewrite that took over columns"),
            (gathered(false), "columns that followed their rows"),
            (facts.rows_carried > 0 && !ours.built_upon.is_empty(), "a rewrite with deletions of others, built upon"),
            (facts.groups_dropped == 0 && removals(&landed.committed.transaction) < removals(drafted), "a source that others emptied"),
            (facts.rows_carried > 0, "rows carried"),
            (facts.rows_carried > 0 && ours.moved.is_empty() && rewrites_since.count() > 1, "rows carried over two rewrites"),
            (facts.rows_carried > 0 && shuffles(&landed.committed.transaction), "rows carried by a rewrite that gives them another order"),
            (
                facts.rows_carried > 0 && ours.moved.is_empty() && shuffles_since.count() > 1,
                "rows carried over two rewrites that give them another order",
            ),
            (with_mates, "several transactions in one version"),
            (facts.vectors_merged > 0, "vectors united"),
        ] {
            if reached {
                self.reached.insert(place);
            }
        }
    }

    /// The newest version against the model, and what must hold of any version.
    fn compare(&self) -> Result<(), String> {
        let (before, after) = match self.bed.versions.as_slice() {
            [.., before, after] => (&before.snapshot, &after.snapshot),
            _ => return Err("no version".into()),
        };
        let rows = self.bed.rows();
        let expected: Vec<Row> = self.model.iter().map(|(key, value)| (*key, *value)).collect();
        if rows != expected {
            return Err(format!("v{} reads {rows:?}, the model has {expected:?}", after.version));
        }
        if after.live_rows() != expected.len() as u64 {
            return Err(format!("v{} counts {} rows of {}", after.version, after.live_rows(), expected.len()));
        }
        if after.counters.fragment < before.counters.fragment || after.counters.field < before.counters.field {
            return Err(format!("v{}: a counter fell", after.version));
        }
        for fragment in after.fragments.iter().unwrap() {
            let fields: BTreeSet<_> = fragment.files.iter().flat_map(|file| &file.columns).filter_map(|column| column.field).collect();
            let columns = fragment.files.iter().flat_map(|file| &file.columns).filter(|column| column.field.is_some()).count();
            if fragment.live_rows() == 0 || fragment.id >= after.counters.fragment || fields.len() != columns {
                return Err(format!("v{}: fragment {} is not as it should be: {fragment:?}", after.version, fragment.id));
            }
        }
        Ok(())
    }

    /// A key that both changed, and cannot both have.
    fn key_collision(&self, ours: &Reach, read_version: u64, mates: &[(u64, Reach)]) -> Option<u32> {
        let theirs = self.landed.iter().filter(|(version, _)| *version > read_version).chain(mates);
        let collides = |key: &u32, ours: Write, theirs: &Reach| theirs.written.get(key).is_some_and(|theirs| ours.collides(*theirs));
        theirs
            .flat_map(|(_, theirs)| ours.written.iter().filter(move |(key, ours)| collides(key, **ours, theirs)))
            .map(|(key, _)| *key)
            .next()
    }

    /// A transaction that collided never happened; but it must have had a reason, and must name it.
    fn collided(
        &mut self,
        session: u8,
        collision: &Collision,
        effects: &[Effect],
        transaction: &Transaction,
        mates: &[(u64, Reach)],
        trace: &RefCell<Vec<String>>,
    ) -> Result<(), String> {
        trace.borrow_mut().push(format!("session {session} collides: {collision:?}"));
        self.reached.insert("a collision");
        let ours = reach(transaction, effects);
        let since: Vec<&(u64, Reach)> =
            self.landed.iter().filter(|(version, _)| *version > transaction.read_version).chain(mates).collect();
        let Some((_, theirs)) = since.iter().find(|(version, theirs)| {
            *version == collision.version
                && (ours.written.iter().any(|(key, ours)| theirs.written.get(key).is_some_and(|they| ours.collides(*they)))
                    || ours.columns_meet(theirs)
                    || !ours.built_upon.is_disjoint(&theirs.moved)
                    || !ours.removed.is_disjoint(&theirs.moved)
                    || !ours.columns.is_disjoint(&theirs.columns))
        }) else {
            return Err(format!("session {session} collides without a reason: {collision:?}"));
        };
        let named: Vec<u32> = collision.rows.iter().map(|row| self.bed.fragment_rows[&row.fragment()][row.offset() as usize].0).collect();
        let only_rows = ours.built_upon.is_disjoint(&theirs.moved)
            && ours.removed.is_disjoint(&theirs.moved)
            && ours.columns.is_disjoint(&theirs.columns)
            && !ours.columns_meet(theirs);
        let ours_has = |key: &u32| ours.written.contains_key(key) || ours.spread.contains(key);
        let theirs_has = |key: &u32| since.iter().any(|(_, r)| r.written.contains_key(key) || r.spread.contains(key));
        if only_rows && named.is_empty() || !named.iter().all(|key| ours_has(key) && theirs_has(key)) {
            return Err(format!("session {session} names the keys {named:?} for {collision:?}"));
        }
        Ok(())
    }
}

/// Every second transaction lands in fewer actions, if there are fewer.
fn is_normalised(transaction: &Transaction) -> bool {
    transaction.id.0.is_multiple_of(2)
}

type Landing = (Candidate, Vec<Effect>, Box<Draft>);

impl Session {
    fn landing(self, bed: &Testbed) -> Result<Landing, (Collision, Vec<Effect>, Box<Draft>)> {
        match self {
            Session::Landing(candidate, effects, draft) => Ok((candidate, effects, draft)),
            Session::Drafting(draft, effects) => match bed.candidate(draft.clone().normalised_if(is_normalised(&draft.transaction))) {
                Ok(candidate) => Ok((candidate, effects, Box::new(draft))),
                Err(collision) => Err((collision, effects, Box::new(draft))),
            },
        }
    }
}

impl Reach {
    /// Whether columns that one of them wrote are of fragments in which the other wrote columns too, or updated rows, or on whose
    /// rewrite it built.
    fn columns_meet(&self, theirs: &Reach) -> bool {
        let updated = |reach: &Reach, in_columns_of: &Reach| {
            reach.written.iter().any(|(key, write)| *write == Write::Updated && in_columns_of.spread.contains(key))
        };
        updated(self, theirs)
            || updated(theirs, self)
            || !self.spread.is_disjoint(&theirs.spread)
            || (!self.built_upon.is_empty() && !self.rewritten.is_disjoint(&theirs.spread))
    }
}

/// What a transaction reaches, read off its actions and the meaning of its statements.
fn reach(transaction: &Transaction, effects: &[Effect]) -> Reach {
    let mut reach = Reach::default();
    for effect in effects {
        let update = if effect.in_place.is_some() { Write::UpdatedInPlace } else { Write::Updated };
        let deleted = effect.deleted.iter().map(|key| (*key, Write::Deleted));
        for (key, write) in deleted.chain(effect.updated.iter().map(|key| (*key, update))) {
            let held = reach.written.entry(key).or_insert(write);
            *held = (*held).max(write);
        }
        reach.spread.extend(effect.in_place.iter().flatten());
        reach.rewritten.extend(&effect.rewritten);
    }
    let inserted: BTreeSet<u32> = effects.iter().flat_map(|effect| &effect.inserted).map(|(key, _)| *key).collect();
    reach.written.retain(|key, _| !inserted.contains(key));
    reach.spread.retain(|key| !inserted.contains(key));
    let mut acted_upon = BTreeSet::new();
    for action in transaction.actions() {
        match action {
            Action::SetDeletionFile(set) => {
                acted_upon.insert(set.fragment);
            }
            Action::RemoveFragment(remove) => {
                acted_upon.insert(remove.fragment);
                if let (Ref::Committed(id), true) = (remove.fragment, remove.data_change) {
                    reach.removed.insert(id);
                }
            }
            Action::ChangeOfAddress(change) => reach.moved.extend(change.sources.iter().filter_map(|source| source.committed())),
            Action::AddField(add) => {
                reach.columns.insert(add.name.clone());
            }
            Action::TombstoneFieldData(tombstone) => {
                acted_upon.insert(tombstone.fragment);
            }
            Action::AddFragment(_)
            | Action::AddDataFile(_)
            | Action::AlterField(_)
            | Action::DropField(_)
            | Action::ConfigUpdate(_)
            | Action::ReserveFragmentIds(_)
            | Action::ResetTable(_)
            | Action::AddBase(_)
            | Action::AssertUniqueKeys(_) => {}
        }
    }
    for action in transaction.actions() {
        if let Action::ChangeOfAddress(change) = action
            && change.targets.iter().any(|target| acted_upon.contains(target))
        {
            reach.built_upon.extend(change.sources.iter().filter_map(|source| source.committed()));
        }
    }
    reach
}

/// The same after it landed: the groups that were given up moved nothing, what it minted has ids, and columns that were gathered
/// are of fragments with more keys. `rows` are those of every fragment.
fn committed_reach(landed: &Landed, mut drafted: Reach, rows: &BTreeMap<FragmentId, Vec<Row>>) -> Reach {
    let written = landed
        .committed
        .transaction
        .actions()
        .filter_map(|action| if let Action::TombstoneFieldData(tombstone) = action { tombstone.fragment.committed() } else { None });
    drafted.spread.extend(written.filter_map(|id| rows.get(&id)).flatten().map(|(key, _)| *key));
    let moved = landed
        .committed
        .transaction
        .actions()
        .filter_map(|action| if let Action::ChangeOfAddress(change) = action { Some(&change.sources) } else { None });
    let moved = moved.flatten().filter_map(|source| landed.committed.minted.fragment(*source)).collect();
    Reach { moved, ..drafted }
}

#[test]
fn any_schedule_reads_as_its_transactions_one_after_another() {
    run(cases(DEFAULT_CASES), |_, _, _| Ok(()));
}
