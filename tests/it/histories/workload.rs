//! Sessions that read and write a few keys of one table at once, in transactions and without, while others compact it and remove
//! its old versions; and the history that comes of it.
//!
//! ```text
//!   seed ──> sessions on two lakes over one store (as two processes would be), on one thread that every store operation
//!            gives to somebody else
//!        ──> history, by what the sessions were told
//!        ──> held against the table's log: what was told as landed is there once, what was told as failed is not
//! ```
//!
//! Every statement carries the number of its transaction in a comment, by which the log tells where it landed.

use super::history::{History, Op, Outcome, Transaction, Workload};
use super::restless::Restless;
use crate::support::{lake_in, session_of};
use amend::manifest::apply::apply;
use amend::manifest::log::VersionLog;
use amend::manifest::snapshot::Snapshot;
use amend::manifest::version::Version;
use amend::{Error, ErrorKind, Lake, Outcome as Answer, Session};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use object_store::memory::InMemory;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What isolation the sessions ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    Serializable,
    Snapshot,
}

impl Isolation {
    /// What a session says to get it.
    fn setting(self) -> &'static str {
        match self {
            Isolation::Snapshot => "SET amend.isolation = 'snapshot'",
            Isolation::Serializable => "SET amend.isolation = 'serializable'",
        }
    }
}

/// A run.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub seed: u64,
    pub workload: Workload,
    pub isolation: Isolation,
    pub transactions: usize,
    pub clients: usize,
    pub keys: i64,
    /// The last of the keys, so many, have no row before the first write of them.
    pub absent: i64,
    /// Whether the table is compacted meanwhile.
    pub compacted: bool,
    /// Whether VACUUM removes all that nobody holds meanwhile. It knows only of its own process, so all sessions are in one then.
    pub vacuumed: bool,
    /// Whether the store fails now and then.
    pub faulty: bool,
}

impl Spec {
    /// The run that a seed stands for.
    pub fn of_seed(seed: u64, workload: Workload, isolation: Isolation, transactions: usize) -> Spec {
        let random = &mut StdRng::seed_from_u64(seed);
        let (clients, keys) = (random.random_range(4..7), random.random_range(3..8));
        // Two that insert a key which neither has read both land under snapshot isolation.
        let absent = if isolation == Isolation::Serializable { 2 } else { 0 };
        let (compacted, vacuumed, faulty) = (seed.is_multiple_of(2), seed.is_multiple_of(3), seed % 4 >= 2);
        Spec { seed, workload, isolation, transactions, clients, keys, absent, compacted, vacuumed, faulty }
    }
}

/// What came of a run: its history, what is wrong for certain, and figures.
pub struct Observed {
    pub history: History,
    pub complaints: Vec<String>,
    pub met: Met,
}

/// How often something happened that is worth testing.
#[derive(Debug, Default, Clone, Copy)]
pub struct Met {
    pub committed: usize,
    pub conflicts: usize,
    pub unknown: usize,
    pub unavailable: usize,
    pub compactions: usize,
    pub rows_carried: u64,
    pub reran: u64,
    /// Objects that VACUUM removed.
    pub removed: usize,
}

/// What compacts the table; the last two give rows another order.
const COMPACTIONS: [&str; 4] = ["OPTIMIZE t", "OPTIMIZE t FULL", "OPTIMIZE t FULL ORDER BY (k DESC)", "OPTIMIZE t FULL ZORDER BY (v, k)"];

struct World {
    spec: Spec,
    moments: AtomicUsize,
    numbers: AtomicUsize,
    values: AtomicI64,
    done: AtomicBool,
    ended: Mutex<Vec<Ended>>,
    complaints: Mutex<Vec<String>>,
    met: Mutex<Met>,
    /// The versions of the table, up to some number, read before VACUUM removes them.
    versions: Mutex<Vec<Arc<Version>>>,
}

/// A transaction as its client knows it.
struct Ended {
    number: usize,
    transaction: Transaction,
    /// Whether its client was told how it ended.
    told: bool,
}

/// Runs to the end.
pub async fn run(spec: Spec) -> Observed {
    let raw = Arc::new(InMemory::new());
    let restless: Vec<Arc<Restless>> = (0..2).map(|process| Arc::new(Restless::new(raw.clone(), spec.seed * 2 + process))).collect();
    let lakes: Vec<Lake> = restless.iter().map(|store| lake_in(store.clone())).collect();
    let calm = lake_in(raw);
    let world = Arc::new(World {
        spec,
        moments: AtomicUsize::new(1),
        numbers: AtomicUsize::new(0),
        values: AtomicI64::new(0),
        done: AtomicBool::new(false),
        ended: Mutex::default(),
        complaints: Mutex::default(),
        met: Mutex::default(),
        versions: Mutex::default(),
    });
    let session = session_of(&calm, 1).await;
    prepare(&session, spec).await;
    if spec.faulty {
        restless.iter().for_each(|store| store.fail_some(14, spec.transactions / 2));
    }
    let compacting = spec.compacted.then(|| tokio::spawn(compact(world.clone(), lakes[1].clone())));
    let vacuuming = spec.vacuumed.then(|| tokio::spawn(vacuum(world.clone(), lakes[1].clone(), calm.clone())));
    let clients: Vec<_> = (0..spec.clients)
        .map(|who| tokio::spawn(client(world.clone(), lakes[if spec.vacuumed { 1 } else { who % 2 }].clone(), who)))
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    world.done.store(true, Ordering::Release);
    if let Some(compacting) = compacting {
        compacting.await.unwrap();
    }
    if let Some(vacuuming) = vacuuming {
        vacuuming.await.unwrap();
    }
    // The last word: everything, read by one who came when all were gone.
    let all: Vec<i64> = (0..spec.keys).collect();
    let mut last = world.begin(spec.clients);
    match last.read(&world, &session, &all).await {
        Ok(()) => world.end(last, Outcome::Committed, true),
        Err(error) => world.complain(format!("at the end: {error}")),
    }
    let complaints = world.settle(&calm).await;
    let history = History { workload: spec.workload, transactions: world.take_transactions() };
    let mut met = *world.met.lock().unwrap();
    met.committed = history.transactions.iter().filter(|t| t.outcome == Outcome::Committed).count();
    Observed { history, complaints, met }
}

async fn prepare(session: &Session, spec: Spec) {
    session.execute("CREATE TABLE t (k BIGINT NOT NULL, v VARCHAR NOT NULL)").await.unwrap();
    session.execute(&format!("SET amend.rows_per_fragment = {}", 1 + spec.seed % 4)).await.unwrap();
    let rows: Vec<String> = (0..spec.keys - spec.absent).map(|key| format!("({key}, '')")).collect();
    session.execute(&format!("INSERT INTO t VALUES {}", rows.join(", "))).await.unwrap();
}

/// Compacts until the others are done.
async fn compact(world: Arc<World>, lake: Lake) {
    let session = session_of(&lake, 1).await;
    let mut random = StdRng::seed_from_u64(world.spec.seed + 1_000_000);
    while !world.done.load(Ordering::Acquire) {
        session.execute(&format!("SET amend.rows_per_fragment = {}", [1, 2, 3, 1000].choose(&mut random).unwrap())).await.unwrap();
        match session.execute(COMPACTIONS.choose(&mut random).unwrap()).await {
            Ok(Answer::Changed(changed)) => {
                let met = &mut *world.met.lock().unwrap();
                met.compactions += usize::from(changed.version.is_some());
                met.rows_carried += changed.facts.rows_carried;
            }
            Ok(other) => world.complain(format!("OPTIMIZE answered {other:?}")),
            Err(error) => world.excuse("OPTIMIZE", &error, false),
        }
        for _ in 0..random.random_range(0..60) {
            tokio::task::yield_now().await;
        }
    }
}

/// Removes all that nobody holds until the others are done. What it removes of versions is remembered.
async fn vacuum(world: Arc<World>, lake: Lake, calm: Lake) {
    let session = session_of(&lake, 1).await;
    session.execute("SET amend.allow_short_retention = true").await.unwrap();
    let mut random = StdRng::seed_from_u64(world.spec.seed + 2_000_000);
    let log = calm.table("t").await.unwrap();
    while !world.done.load(Ordering::Acquire) {
        let newest = world.remember(&log).await;
        let kept = match lake.table("t").await {
            Ok(log) => log.leases().take(newest),
            Err(error) => {
                world.excuse("a look at the table", &error, false);
                continue;
            }
        };
        match session.execute("VACUUM t RETAIN 0 HOURS").await {
            Ok(Answer::Rows(rows)) => world.met.lock().unwrap().removed += rows.batches.iter().map(|batch| batch.num_rows()).sum::<usize>(),
            Ok(other) => world.complain(format!("VACUUM answered {other:?}")),
            Err(error) => world.excuse("VACUUM", &error, false),
        }
        drop(kept);
        for _ in 0..random.random_range(0..60) {
            tokio::task::yield_now().await;
        }
    }
}

/// One session's transactions.
async fn client(world: Arc<World>, lake: Lake, who: usize) {
    let session = session_of(&lake, 1 + who % 2).await;
    session.execute("SET amend.max_statement_attempts = 1000").await.unwrap();
    session.execute(world.spec.isolation.setting()).await.unwrap();
    session.execute(&format!("SET amend.rows_per_fragment = {}", 1 + who % 3)).await.unwrap();
    session.execute(&format!("SET amend.update_form = '{}'", ["auto", "columns", "rows"][who % 3])).await.unwrap();
    session.execute(&format!("SET amend.max_inline_bytes = {}", [65536, 0][who % 2])).await.unwrap();
    let mut random = StdRng::seed_from_u64(world.spec.seed * 100 + who as u64);
    while world.numbers.load(Ordering::Acquire) < world.spec.transactions {
        let mut running = world.begin(who);
        let explicit = random.random_bool(0.7);
        let statements = if explicit { random.random_range(1..5) } else { 1 };
        let ended = running.run(&world, &session, explicit, statements, &mut random).await;
        match ended {
            Ok(outcome) => world.end(running, outcome, true),
            Err(error) => {
                let told = error.kind() != ErrorKind::Unknown;
                world.excuse(&format!("transaction {}", running.number), &error, explicit);
                world.end(running, Outcome::Failed, told);
            }
        }
    }
}

/// A transaction in the making.
struct Running {
    number: usize,
    client: usize,
    began: usize,
    ops: Vec<Op>,
}

impl Running {
    async fn run(
        &mut self,
        world: &World,
        session: &Session,
        explicit: bool,
        statements: usize,
        random: &mut StdRng,
    ) -> Result<Outcome, Error> {
        if explicit {
            session.execute("BEGIN").await?;
        }
        for _ in 0..statements {
            let keys: Vec<i64> = (0..world.spec.keys).collect();
            let reads = random.random_bool(0.5);
            let wanted = random.random_range(1..if reads { 4 } else { 3 });
            let some: Vec<i64> = keys.sample(random, wanted).copied().collect();
            let done = match reads {
                true => self.read(world, session, &some).await,
                false => self.write(world, session, &some, random).await,
            };
            if let Err(error) = done {
                if session.in_transaction() {
                    session.execute("ROLLBACK").await?;
                }
                return Err(error);
            }
            for _ in 0..random.random_range(0..4) {
                tokio::task::yield_now().await;
            }
        }
        if !explicit {
            return Ok(Outcome::Committed);
        }
        if random.random_bool(0.06) {
            session.execute("ROLLBACK").await?;
            return Ok(Outcome::Failed);
        }
        if let Answer::Changed(changed) = session.execute("COMMIT").await? {
            world.met.lock().unwrap().rows_carried += changed.facts.rows_carried;
        }
        Ok(Outcome::Committed)
    }

    async fn read(&mut self, world: &World, session: &Session, keys: &[i64]) -> Result<(), Error> {
        let list: Vec<String> = keys.iter().map(i64::to_string).collect();
        let sql = format!("SELECT k, v FROM t WHERE k IN ({}) /* transaction {} */", list.join(", "), self.number);
        let Answer::Rows(answer) = session.execute(&sql).await? else { panic!("{sql} yields no rows") };
        let mut found: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for batch in answer.batches {
            let values = datafusion::arrow::compute::cast(batch.column(1), &datafusion::arrow::datatypes::DataType::Utf8).unwrap();
            for (key, value) in batch.column(0).as_primitive::<Int64Type>().values().iter().zip(values.as_string::<i32>()) {
                let value = value.unwrap().split(',').filter(|part| !part.is_empty()).map(|part| part.parse().unwrap()).collect();
                if found.insert(*key, value).is_some() {
                    world.complain(format!("transaction {} read two rows of key {key}", self.number));
                }
            }
        }
        // A key without a row was never written.
        keys.iter().filter(|key| world.may_be_absent(**key)).for_each(|key| {
            found.entry(*key).or_default();
        });
        if found.len() != keys.len() {
            world.complain(format!("transaction {} read the keys {:?} of {keys:?}", self.number, found.keys()));
        }
        self.ops.extend(found.into_iter().map(|(key, found)| Op::Read { key, found }));
        Ok(())
    }

    async fn write(&mut self, world: &World, session: &Session, keys: &[i64], random: &mut StdRng) -> Result<(), Error> {
        let value = world.values.fetch_add(1, Ordering::AcqRel);
        let list: Vec<String> = keys.iter().map(i64::to_string).collect();
        let new = |column: &str| match world.spec.workload {
            Workload::ListAppend => format!("{column} || ',{value}'"),
            Workload::Register => format!("'{value}'"),
        };
        let absent = keys.iter().any(|key| world.may_be_absent(*key));
        let sql = if absent || random.random_bool(0.25) {
            let source: Vec<String> = keys.iter().map(|key| format!("({key})")).collect();
            let insert = if absent { format!(" WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, {})", new("''")) } else { String::new() };
            let matched = format!("WHEN MATCHED THEN UPDATE SET v = {}", new("t.v"));
            format!("MERGE INTO t USING (VALUES {}) AS s (k) ON t.k = s.k {matched}{insert}", source.join(", "))
        } else {
            format!("UPDATE t SET v = {} WHERE k IN ({})", new("v"), list.join(", "))
        };
        // Also when it fails: it may have landed.
        self.ops.extend(keys.iter().map(|key| Op::Write { key: *key, value }));
        match session.execute(&format!("{sql} /* transaction {} */", self.number)).await? {
            Answer::Changed(changed) => {
                let met = &mut *world.met.lock().unwrap();
                met.rows_carried += changed.facts.rows_carried;
                met.reran += u64::from(changed.facts.reran);
                if changed.counts.updated + changed.counts.inserted != keys.len() as u64 || !absent && changed.counts.inserted > 0 {
                    world.complain(format!("transaction {} updated {:?} of {keys:?}", self.number, changed.counts));
                }
            }
            other => world.complain(format!("transaction {} was answered {other:?}", self.number)),
        }
        Ok(())
    }
}

impl World {
    fn may_be_absent(&self, key: i64) -> bool {
        key >= self.spec.keys - self.spec.absent
    }

    fn moment(&self) -> usize {
        self.moments.fetch_add(1, Ordering::AcqRel)
    }

    fn begin(&self, client: usize) -> Running {
        Running { number: self.numbers.fetch_add(1, Ordering::AcqRel), client, began: self.moment(), ops: vec![] }
    }

    fn end(&self, running: Running, outcome: Outcome, told: bool) {
        let Running { number, client, began, ops } = running;
        let transaction = Transaction { client, began, ended: self.moment(), outcome, ops, position: None };
        self.ended.lock().unwrap().push(Ended { number, transaction, told });
    }

    fn complain(&self, what: String) {
        self.complaints.lock().unwrap().push(what);
    }

    /// An error is counted, if it may be: a collision in a transaction, and what a store may do that fails.
    fn excuse(&self, what: &str, error: &Error, explicit: bool) {
        let met = &mut *self.met.lock().unwrap();
        match error.kind() {
            ErrorKind::Conflict if explicit => met.conflicts += 1,
            ErrorKind::Unknown if self.spec.faulty => met.unknown += 1,
            ErrorKind::Unavailable if self.spec.faulty => met.unavailable += 1,
            _ => self.complain(format!("{what}: {error}")),
        }
    }

    /// Remembers the versions that came to be since the last time, and gives the newest.
    async fn remember(&self, log: &VersionLog) -> u64 {
        let newest = log.newest_number().await.unwrap();
        let known = self.versions.lock().unwrap().len() as u64;
        for number in known + 1..=newest {
            let mut version = Version::clone(&log.read(number).await.unwrap());
            version.snapshot = log.load_all(&version.snapshot).await.unwrap();
            let version = Arc::new(version);
            self.versions.lock().unwrap().push(version);
        }
        newest
    }

    /// Holds what was told against the log, takes from it how the others ended, and says what does not fit.
    async fn settle(&self, lake: &Lake) -> Vec<String> {
        let log = lake.table("t").await.unwrap();
        let mut places: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        let mut complaints = std::mem::take(&mut *self.complaints.lock().unwrap());
        let mut replayed: Option<Snapshot> = None;
        self.remember(&log).await;
        for version in std::mem::take(&mut *self.versions.lock().unwrap()) {
            let number = version.snapshot.version;
            let mut before = replayed.take().unwrap_or_else(|| Snapshot::empty(version.snapshot.table_id));
            for committed in &version.transactions {
                match apply(&before, &committed.transaction, number) {
                    Ok((after, _)) => before = after,
                    Err(error) => complaints.push(format!("version {number} cannot be made again: {error}")),
                }
            }
            if !alike(&before, &version.snapshot) {
                complaints.push(format!("version {number} is not what its transactions make of the version before"));
            }
            replayed = Some(version.snapshot.clone());
            for (at, committed) in version.transactions.iter().enumerate() {
                let first = committed.transaction.steps.first().map_or("", |step| step.statement.as_str());
                let tag = first.split_once("/* transaction ").and_then(|(_, rest)| rest.split_once(" */"));
                if let Some((tag, _)) = tag {
                    places.entry(tag.parse().unwrap()).or_default().push(number * 1000 + at as u64);
                }
            }
        }
        for Ended { number, transaction, told } in &mut *self.ended.lock().unwrap() {
            let places = places.remove(number).unwrap_or_default();
            let writes = transaction.ops.iter().any(|op| matches!(op, Op::Write { .. }));
            if places.len() > 1 {
                complaints.push(format!("transaction {number} landed {} times", places.len()));
            }
            if !*told {
                transaction.outcome = if places.is_empty() { Outcome::Failed } else { Outcome::Committed };
            } else if transaction.outcome == Outcome::Committed && writes && places.is_empty() {
                complaints.push(format!("transaction {number} was told to have landed, and is not in the log"));
            } else if transaction.outcome == Outcome::Failed && !places.is_empty() {
                complaints.push(format!("transaction {number} was told to have failed, and is in the log"));
            }
            transaction.position = places.first().copied();
        }
        complaints
    }

    fn take_transactions(&self) -> Vec<Transaction> {
        std::mem::take(&mut *self.ended.lock().unwrap()).into_iter().map(|ended| ended.transaction).collect()
    }
}

/// The same table, however its fragments are paged.
fn alike(one: &Snapshot, other: &Snapshot) -> bool {
    let rest = |of: &Snapshot| (of.version, of.table_id, of.schema.clone(), of.counters, of.config.clone(), of.bases.clone());
    rest(one) == rest(other) && one.fragments.iter().unwrap().eq(other.fragments.iter().unwrap())
}
