//! Every interleaving of three writers over the pure core: which steps each takes, where it crashes, and where the answer
//! to its commit is lost, walked through by a model checker.
//!
//! ```text
//!   idle ── stage ──> staged ── rebase, settle ──> ready ── create version L+1 ──┬── created ──────────> committed
//!                       ^                            ^  ^                        ├── taken ──> staged
//!                       │ somebody else's            │  └ absent                 └── no answer ──> unclear ── look ──> whose?
//!                       └────────────────────────────┴──────────────────────────────────────────────────┘
//! ```
//!
//! The table begins with two fragments of two rows. What a writer says is one of [`Kind`]; the steps are those of the commit
//! layer, and each of them calls what the commit layer calls: `Rebase`, `settle`, `apply`. A create whose answer is lost was
//! done, was not done, or is done later. A writer whose transaction collides is told so and is done.
//!
//! Held in every state in which all are done: each writer knows the truth, nothing landed twice, and the rows are what the
//! transactions that landed come to in some order, one after another.

use super::composite::Transaction;
use super::rebase::Rebased;
use super::testbed::{Candidate, Row, Testbed};
use stateright::{Checker, Model, Property};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What a writer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    /// A row that nobody else has.
    Insert,
    /// One row of each fragment.
    Delete,
    /// A row that `Delete` deletes too, and one that it does not.
    Update,
    /// Both fragments into one.
    Compact,
    /// The first fragment alone.
    CompactFirst,
    /// Both fragments into one, of which a row is then deleted.
    CompactDelete,
    /// All versions but the newest are removed.
    Vacuum,
    /// The rows that the table began with.
    Restore,
}

const KINDS: [Kind; 8] =
    [Kind::Insert, Kind::Delete, Kind::Update, Kind::Compact, Kind::CompactFirst, Kind::CompactDelete, Kind::Vacuum, Kind::Restore];
const WRITERS: usize = 3;
const FIRST_ROWS: [Row; 4] = [(0, 0), (1, 0), (2, 0), (3, 0)];

/// What a transaction of this kind makes of rows, if it is `writer`'s.
fn serially(kind: Kind, writer: usize, rows: &mut BTreeMap<u32, i64>) {
    match kind {
        Kind::Insert => {
            rows.insert(10 + writer as u32, 0);
        }
        Kind::Delete => rows.retain(|key, _| ![1, 2].contains(key)),
        Kind::Update => rows.iter_mut().filter(|(key, _)| [1, 3].contains(*key)).for_each(|(_, value)| *value += delta(writer)),
        Kind::CompactDelete => {
            rows.remove(&0);
        }
        Kind::Compact | Kind::CompactFirst | Kind::Vacuum => {}
        Kind::Restore => *rows = FIRST_ROWS.into_iter().collect(),
    }
}

/// A power of two, so that a sum tells which updates it is of.
fn delta(writer: usize) -> i64 {
    1 << writer
}

/// How far a writer is. Versions are those that it read, and the one that it tries to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Staged { read: u64 },
    Ready { read: u64, version: u64 },
    Unclear { read: u64, version: u64 },
    Committed,
    Failed,
    Crashed,
}

/// A transaction as it would land as a version.
#[derive(Clone)]
struct Attempt {
    version: u64,
    what: (Rebased, Transaction),
}

#[derive(Clone)]
struct Writer {
    kind: Kind,
    phase: Phase,
    candidate: Option<Arc<Candidate>>,
    attempt: Option<Arc<Attempt>>,
    /// A create that will be done later, if its version is still absent then.
    late: Option<u64>,
    /// Whether an answer to it was lost: once is enough.
    lost: bool,
}

/// The table and its writers. What the first fields do not say follows from them.
#[derive(Clone)]
struct World {
    /// Who made each version, of what it had read.
    log: Vec<(usize, u64)>,
    /// Versions before this one are gone.
    oldest: u64,
    writers: Vec<Writer>,
    bed: Arc<Testbed>,
}

impl World {
    fn key(&self) -> impl Hash + PartialEq + '_ {
        let writers: Vec<_> =
            self.writers.iter().map(|w| (w.kind, w.phase, w.late, w.lost, w.attempt.as_ref().map(|a| a.version))).collect();
        (&self.log, self.oldest, writers)
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let writers: Vec<_> = self.writers.iter().map(|w| (w.kind, w.phase, w.late)).collect();
        write!(f, "{writers:?}, log {:?} from {}, rows {:?}", self.log, self.oldest, self.bed.rows())
    }
}

/// A step of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Move {
    Stage(usize),
    Rebase(usize),
    Create(usize),
    /// The create is done, and the answer lost.
    CreateAnswerLost(usize),
    /// The create is not done, and the answer lost.
    CreateLost(usize),
    /// The create is done later, and the answer lost.
    CreateLate(usize),
    Look(usize),
    Arrive(usize),
    Crash(usize),
}

struct Writers {
    first: Arc<Testbed>,
}

impl Model for Writers {
    type State = World;
    type Action = Move;

    /// Writers differ in nothing but their numbers, so kinds are given out in order.
    fn init_states(&self) -> Vec<World> {
        let mut worlds = vec![];
        for (at, first) in KINDS.iter().enumerate() {
            for (then, second) in KINDS.iter().enumerate().skip(at) {
                for third in &KINDS[then..] {
                    let writer =
                        |kind: &Kind| Writer { kind: *kind, phase: Phase::Idle, candidate: None, attempt: None, late: None, lost: false };
                    let writers = [first, second, third].map(writer).to_vec();
                    worlds.push(World { log: vec![], oldest: 1, writers, bed: self.first.clone() });
                }
            }
        }
        worlds
    }

    fn actions(&self, world: &World, moves: &mut Vec<Move>) {
        for (who, writer) in world.writers.iter().enumerate() {
            if writer.late.is_some() {
                moves.push(Move::Arrive(who));
            }
            match writer.phase {
                Phase::Idle => moves.push(Move::Stage(who)),
                Phase::Staged { .. } => moves.extend([Move::Rebase(who), Move::Crash(who)]),
                Phase::Ready { .. } => {
                    moves.extend([Move::Create(who), Move::Crash(who)]);
                    if !writer.lost {
                        moves.extend([Move::CreateAnswerLost(who), Move::CreateLost(who), Move::CreateLate(who)]);
                    }
                }
                Phase::Unclear { .. } => moves.extend([Move::Look(who), Move::Crash(who)]),
                Phase::Committed | Phase::Failed | Phase::Crashed => {}
            }
        }
    }

    fn next_state(&self, before: &World, step: Move) -> Option<World> {
        let mut world = before.clone();
        match step {
            Move::Stage(who) => world.stage(who),
            Move::Rebase(who) => world.rebase(who),
            Move::Create(who) => world.create(who),
            Move::CreateAnswerLost(who) => {
                world.lose_answer(who);
                world.publish(who);
            }
            Move::CreateLost(who) => {
                world.lose_answer(who);
            }
            Move::CreateLate(who) => {
                let version = world.lose_answer(who);
                world.writers[who].late = Some(version);
            }
            Move::Look(who) => world.look(who),
            Move::Arrive(who) => {
                world.publish(who);
                world.writers[who].late = None;
            }
            Move::Crash(who) => world.writers[who].phase = Phase::Crashed,
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("rows are those of a serial order, and writers know the truth", |_, world: &World| world.is_right()),
            Property::sometimes("all commit", |_, world: &World| {
                world.writers.iter().all(|w| w.phase == Phase::Committed) && world.log.len() == 3
            }),
            Property::sometimes("one collides", |_, world: &World| world.writers.iter().any(|w| w.phase == Phase::Failed)),
            Property::sometimes("a transaction lands whose writer crashed", |_, world: &World| {
                world.log.iter().any(|(who, _)| world.writers[*who].phase == Phase::Crashed)
            }),
            Property::sometimes("a late create lands after its writer tried again", |_, world: &World| {
                world.log.iter().any(|(who, _)| world.writers[*who].lost && world.writers[*who].phase == Phase::Committed)
            }),
        ]
    }
}

impl World {
    fn newest(&self) -> u64 {
        self.bed.newest().version
    }

    fn stage(&mut self, who: usize) {
        let kind = self.writers[who].kind;
        if kind == Kind::Vacuum {
            self.oldest = self.newest();
            self.writers[who].phase = Phase::Committed;
            return;
        }
        let bed = Arc::make_mut(&mut self.bed);
        let mut draft = bed.draft();
        draft.transaction.id = super::composite::TransactionId(100 + who as u128);
        match kind {
            Kind::Insert => {
                draft.insert(&[(10 + who as u32, 0)]);
            }
            Kind::Delete => draft.delete(&[1, 2]),
            Kind::Update => draft.update(&[1, 3], delta(who)),
            Kind::Compact | Kind::CompactFirst | Kind::CompactDelete => {
                let live = draft.seen.iter().filter(|seen| seen.live().next().is_some()).map(|seen| seen.fragment);
                let sources: Vec<_> = live.take(if kind == Kind::CompactFirst { 1 } else { usize::MAX }).collect();
                if !sources.is_empty() {
                    draft.rewrite(&[(sources, vec![])], who.is_multiple_of(2), (who == 2).then_some(1));
                }
                if kind == Kind::CompactDelete {
                    draft.delete(&[0]);
                }
            }
            Kind::Restore => draft.restore(&FIRST_ROWS),
            Kind::Vacuum => {}
        }
        let read = draft.transaction.read_version;
        // A statement that finds nothing to do is done.
        if draft.transaction.actions().next().is_none() {
            self.writers[who].phase = Phase::Committed;
            return;
        }
        match bed.candidate(draft) {
            Ok(candidate) => {
                self.writers[who].candidate = Some(Arc::new(candidate));
                self.writers[who].phase = Phase::Staged { read };
            }
            Err(collision) => panic!("a draft collides with itself: {collision:?}"),
        }
    }

    /// Walks to the newest version and makes ready to create the next one.
    fn rebase(&mut self, who: usize) {
        let writer = &mut self.writers[who];
        let (Phase::Staged { read }, Some(candidate)) = (writer.phase, writer.candidate.as_mut()) else { return };
        let candidate = Arc::make_mut(candidate);
        // Its own version may be among those that it has not walked over: a create that was done later.
        if self.log.iter().any(|(landed, _)| *landed == who) {
            writer.phase = Phase::Committed;
            return;
        }
        if candidate.walked() + 1 < self.oldest {
            // Versions that it has to walk over are gone.
            writer.phase = Phase::Failed;
            return;
        }
        let version = self.bed.newest().version + 1;
        match self.bed.attempt(candidate) {
            Err(_) => writer.phase = Phase::Failed,
            Ok((_, transaction)) if transaction.is_empty() => writer.phase = Phase::Committed,
            Ok(what) => {
                writer.attempt = Some(Arc::new(Attempt { version, what }));
                writer.phase = Phase::Ready { read, version };
            }
        }
    }

    /// The store is asked to create the version that a writer is ready to create.
    fn publish(&mut self, who: usize) -> bool {
        let writer = &self.writers[who];
        let (Some(candidate), Some(attempt)) = (writer.candidate.clone(), writer.attempt.clone()) else { return false };
        let version = writer.late.unwrap_or(attempt.version);
        let created = version == attempt.version && Arc::make_mut(&mut self.bed).create(version, &candidate, &attempt.what);
        if created {
            self.log.push((who, attempt.what.1.read_version));
        }
        created
    }

    fn create(&mut self, who: usize) {
        let Phase::Ready { read, .. } = self.writers[who].phase else { return };
        let created = self.publish(who);
        self.writers[who].phase = match created {
            true => Phase::Committed,
            false => self.whose(who, read),
        };
    }

    /// Somebody's version is in the slot.
    fn whose(&self, who: usize, read: u64) -> Phase {
        let version = self.writers[who].attempt.as_ref().map_or(0, |attempt| attempt.version);
        let first = self.bed.newest().version - self.log.len() as u64;
        match version.checked_sub(first + 1).and_then(|at| self.log.get(at as usize)) {
            Some((landed, _)) if *landed == who => Phase::Committed,
            Some(_) => Phase::Staged { read },
            None => Phase::Ready { read, version },
        }
    }

    fn lose_answer(&mut self, who: usize) -> u64 {
        let writer = &mut self.writers[who];
        let Phase::Ready { read, version } = writer.phase else { return 0 };
        writer.lost = true;
        writer.phase = Phase::Unclear { read, version };
        version
    }

    /// The writer reads the slot, which alone tells what became of its create.
    fn look(&mut self, who: usize) {
        let Phase::Unclear { read, .. } = self.writers[who].phase else { return };
        self.writers[who].phase = self.whose(who, read);
    }

    fn is_right(&self) -> bool {
        let done = |w: &Writer| matches!(w.phase, Phase::Committed | Phase::Failed | Phase::Crashed) && w.late.is_none();
        if !self.writers.iter().all(done) {
            return true;
        }
        let landed: BTreeSet<usize> = self.log.iter().map(|(who, _)| *who).collect();
        let truth = landed.len() == self.log.len() && landed.iter().all(|who| self.writers[*who].phase != Phase::Failed);
        // Who committed and is not in the log had nothing to change when its turn came; it counts all the same.
        let committed: Vec<usize> =
            (0..WRITERS).filter(|who| landed.contains(who) || self.writers[*who].phase == Phase::Committed).collect();
        truth && self.some_order(&mut vec![], &committed)
    }

    fn some_order(&self, order: &mut Vec<usize>, rest: &[usize]) -> bool {
        if rest.is_empty() {
            let mut rows: BTreeMap<u32, i64> = FIRST_ROWS.into_iter().collect();
            order.iter().for_each(|who| serially(self.writers[*who].kind, *who, &mut rows));
            return self.bed.rows() == rows.into_iter().collect::<Vec<Row>>();
        }
        rest.iter().any(|next| {
            let others: Vec<usize> = rest.iter().copied().filter(|who| who != next).collect();
            order.push(*next);
            let found = self.some_order(order, &others);
            order.pop();
            found
        })
    }
}

#[test]
fn every_interleaving_of_three_writers_comes_to_a_serial_order() {
    let first = Arc::new(Testbed::of(&[&[0, 1], &[2, 3]]));
    let begun = std::time::Instant::now();
    let checker = Writers { first }.checker().threads(2).spawn_dfs().join();
    println!("{} states, {} of them different, in {:?}", checker.state_count(), checker.unique_state_count(), begun.elapsed());
    checker.assert_properties();
    assert!(checker.unique_state_count() > 100_000, "{} states", checker.unique_state_count());
}

/// With a defence taken away, one of the interleavings comes to something else, or to a version that cannot be made.
#[cfg(feature = "faulty-builds")]
#[test]
#[ignore = "takes defences away for the whole process: run it by itself"]
fn a_defence_that_is_taken_away_is_missed() {
    use crate::faulty::{Fault, choose};
    let right = "rows are those of a serial order, and writers know the truth";
    for fault in [Fault::IgnoreReplaced, Fault::LastVectorWins, Fault::DropForeignDeletions, Fault::SkipMap] {
        choose(Some(fault));
        let first = Arc::new(Testbed::of(&[&[0, 1], &[2, 3]]));
        let explore = || Writers { first }.checker().spawn_bfs().join().discovery(right).map(|path| path.into_actions());
        let explored = std::panic::catch_unwind(std::panic::AssertUnwindSafe(explore));
        choose(None);
        assert!(!matches!(explored, Ok(None)), "nobody missed {fault:?}");
        println!("{fault:?}: {explored:?}");
    }
}
