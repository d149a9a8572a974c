//! Random schedules of sessions, statement by statement, against a list of rows: what a table holds after each commit is
//! what the model holds after the transactions that landed ran one after another.
//!
//! ```text
//!   seed ──> plan      who does what, in which order
//!              │
//!              ├──> SQL in 2 to 4 sessions of one lake in memory: autocommit, transactions, staged statements
//!              └──> model     rows by key; what a transaction did at its snapshot is done to the newest rows
//! ```
//!
//! Keys are never changed and never used again; predicates are over values, so which rows a statement finds depends on what
//! it reads. A transaction that must collide has to, and none may that need not.
//!
//! `AMEND_SCHEDULES=20000` tries more of them, `AMEND_SCHEDULE_SEED=17` only that one, and prints it.

mod feed;
mod model;
pub mod plan;

use crate::support::{Row, assert_nothing_left_behind, number, problems, session_of, try_rows};
use amend::statement::session::StagedChange;
use amend::txn::composite::RowCounts;
use amend::{Changed, Error, Lake, Outcome, Session};
use model::{Landing, Model, Transaction};
use plan::{Op, Plan};

/// How many schedules a run of the tests tries.
const SCHEDULES: u64 = 1000;

/// The sessions, and what the model knows of them.
struct World {
    lake: Lake,
    sessions: Vec<(Session, Option<Transaction>)>,
    /// Which of them update in column form.
    columns: Vec<bool>,
    /// Looks at the table after each commit.
    reader: Session,
    staged: Vec<(StagedChange, Transaction)>,
    model: Model,
    /// What was said and what came of it.
    trace: Vec<String>,
    met: Met,
}

/// How often something happened that is worth testing.
#[derive(Debug, Default, Clone, Copy)]
struct Met {
    commits: u64,
    commits_over_others: u64,
    collisions: u64,
    collisions_on_moves: u64,
    collisions_on_columns: u64,
    columns_over_others: u64,
    rows_carried: u64,
    vectors_merged: u64,
    groups_dropped: u64,
    already_deleted: u64,
    updates_told: u64,
    updates_not_told: u64,
}

/// Runs a schedule: what was met, or what went wrong.
async fn play(plan: &Plan) -> (Vec<String>, Result<Met, String>) {
    let mut world = World::new(plan).await;
    let outcome = async {
        for op in &plan.ops {
            world.step(op).await?;
        }
        world.end().await
    };
    let outcome = outcome.await.map(|()| world.met);
    (world.trace, outcome)
}

impl World {
    async fn new(plan: &Plan) -> World {
        let lake = Lake::memory();
        let reader = session_of(&lake, 1).await;
        let mut sessions = Vec::new();
        let create = "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)";
        reader.execute(create).await.unwrap();
        let mut trace = vec![format!("{create};")];
        for (who, (partitions, rows_per_fragment, columns)) in plan.sessions.iter().enumerate() {
            let session = session_of(&lake, *partitions).await;
            let size = format!("SET amend.rows_per_fragment = {rows_per_fragment}");
            let form = format!("SET amend.update_form = '{}'", if *columns { "columns" } else { "rows" });
            session.execute(&size).await.unwrap();
            session.execute(&form).await.unwrap();
            // The model knows of rows that both changed, not of what was read.
            session.execute("SET amend.isolation = 'snapshot'").await.unwrap();
            trace.push(format!("[{who}] SET datafusion.execution.target_partitions = {partitions}; {size}; {form};"));
            sessions.push((session, None));
        }
        let columns = plan.sessions.iter().map(|(_, _, columns)| *columns).collect();
        let model = Model::of_an_empty_table();
        World { lake, sessions, columns, reader, staged: vec![], model, trace, met: Met::default() }
    }

    async fn step(&mut self, op: &Op) -> Result<(), String> {
        match op {
            Op::Begin(who) if self.sessions[*who].1.is_none() => {
                self.execute(*who, "BEGIN").await?;
                self.sessions[*who].1 = Some(Transaction::default());
            }
            Op::Rollback(who) if self.sessions[*who].1.is_some() => {
                self.execute(*who, "ROLLBACK").await?;
                self.sessions[*who].1 = None;
            }
            Op::Commit(who) => {
                if let Some(transaction) = self.sessions[*who].1.take() {
                    let outcome = self.sessions[*who].0.execute("COMMIT").await;
                    self.landed(&format!("[{who}] COMMIT;"), outcome, &transaction).await?;
                }
            }
            Op::Run(who, statement) => match self.sessions[*who].1.take() {
                Some(mut transaction) => {
                    let sql = self.model.run(statement, self.columns[*who], &mut transaction);
                    let outcome = self.execute(*who, &sql).await?;
                    self.counted(&outcome, transaction.last)?;
                    self.sessions[*who].1 = Some(transaction);
                }
                None => {
                    let mut transaction = Transaction::default();
                    let sql = self.model.run(statement, self.columns[*who], &mut transaction);
                    let outcome = self.sessions[*who].0.execute(&sql).await;
                    self.landed(&format!("[{who}] {sql};"), outcome, &transaction).await?;
                }
            },
            Op::Stage(who, statement) if self.sessions[*who].1.is_none() => {
                let mut transaction = Transaction::default();
                let sql = self.model.run(statement, self.columns[*who], &mut transaction);
                self.trace.push(format!("[{who}] {sql};   -- staged as number {}", self.staged.len()));
                let staged = self.sessions[*who].0.stage(&sql).await.map_err(|error| error.to_string())?;
                self.counted(&Outcome::Changed(staged.changed().clone()), transaction.last)?;
                self.staged.push((staged, transaction));
            }
            Op::CommitStaged(pick) if !self.staged.is_empty() => {
                let at = pick % self.staged.len();
                let (staged, transaction) = self.staged.remove(at);
                let outcome = staged.commit().await.map(Outcome::Changed);
                self.landed(&format!("-- staged number {at} commits"), outcome, &transaction).await?;
            }
            Op::DiscardStaged(pick) if !self.staged.is_empty() => {
                let at = pick % self.staged.len();
                self.staged.remove(at).0.discard().await;
                self.trace.push(format!("-- staged number {at} is discarded"));
            }
            Op::Read(who) => {
                self.trace.push(format!("[{who}] SELECT k, v FROM t;"));
                let (session, transaction) = &mut self.sessions[*who];
                let expected = self.model.view(transaction.as_mut());
                same(try_rows(session, "SELECT k, v FROM t").await, &expected)?;
            }
            // What does not fit the state of its session.
            Op::Begin(_) | Op::Rollback(_) | Op::Stage(..) | Op::CommitStaged(_) | Op::DiscardStaged(_) => {}
        }
        Ok(())
    }

    /// Runs what cannot fail.
    async fn execute(&mut self, who: usize, sql: &str) -> Result<Outcome, String> {
        self.trace.push(format!("[{who}] {sql};"));
        self.sessions[who].0.execute(sql).await.map_err(|error| error.to_string())
    }

    /// A statement counts the rows that the model counts; how many a rewrite moves is its own affair.
    fn counted(&self, outcome: &Outcome, expected: RowCounts) -> Result<(), String> {
        let Outcome::Changed(Changed { counts, .. }) = outcome else { return Err(format!("it answered {outcome:?}")) };
        match (RowCounts { moved: 0, ..*counts }) == expected {
            true => Ok(()),
            false => Err(format!("it counted {counts:?}, the model {expected:?}")),
        }
    }

    /// A transaction ended: as the model has it, or something is wrong.
    async fn landed(&mut self, what: &str, outcome: Result<Outcome, Error>, transaction: &Transaction) -> Result<(), String> {
        self.trace.push(what.to_owned());
        let newest = self.model.newest();
        let changed = match outcome {
            Ok(Outcome::Changed(changed)) => changed,
            // A transaction that changed nothing.
            Ok(_) => nothing_changed(),
            Err(error) if error.sqlstate() == "40001" => {
                self.note("40001");
                match self.model.land(transaction) {
                    Landing::Collides => self.met.collisions += 1,
                    Landing::Lands { .. } if self.model.may_collide_on_a_move(transaction) => self.met.collisions_on_moves += 1,
                    Landing::Lands { .. } if self.model.may_collide_on_columns(transaction) => self.met.collisions_on_columns += 1,
                    Landing::Lands { .. } => return Err(format!("it collided for no reason: {error}")),
                }
                return self.look().await;
            }
            Err(error) => return Err(error.to_string()),
        };
        let Landing::Lands { contents, counts, touched } = self.model.land(transaction) else {
            return Err("it landed, and should have collided".to_owned());
        };
        self.counted(&Outcome::Changed(changed.clone()), counts)?;
        match changed.version {
            Some(version) if version == newest as u64 + 1 => {
                self.note(&format!("version {version}"));
                self.model.push(contents, touched, changed.counts.moved > 0, transaction.in_place);
                self.met.columns_over_others += u64::from(transaction.in_place && changed.facts.rebased_over > 0);
                self.met.commits += 1;
                self.met.commits_over_others += u64::from(changed.facts.rebased_over > 0);
                self.met.rows_carried += changed.facts.rows_carried;
                self.met.vectors_merged += u64::from(changed.facts.vectors_merged);
                self.met.groups_dropped += u64::from(changed.facts.groups_dropped);
                self.met.already_deleted += transaction.counts.deleted - counts.deleted;
            }
            Some(version) => return Err(format!("it made version {version} after version {newest}")),
            None if contents == *self.model.contents() => self.note("nothing to commit"),
            None => return Err("it made no version, and should have".to_owned()),
        }
        self.look().await
    }

    fn note(&mut self, outcome: &str) {
        if let Some(last) = self.trace.last_mut() {
            last.push_str(&format!("   -- {outcome}"));
        }
    }

    /// The table as others see it.
    async fn look(&self) -> Result<(), String> {
        same(try_rows(&self.reader, "SELECT k, v FROM t").await, &self.model.view(None))
    }

    async fn end(&mut self) -> Result<(), String> {
        for who in 0..self.sessions.len() {
            self.step(&Op::Rollback(who)).await?;
        }
        while !self.staged.is_empty() {
            self.step(&Op::DiscardStaged(0)).await?;
        }
        for version in (1..=self.model.newest()).step_by(3) {
            let sql = format!("SELECT k, v FROM t VERSION AS OF {version}");
            same(try_rows(&self.reader, &sql).await, &self.model.rows_of(version)).map_err(|error| format!("{sql}: {error}"))?;
        }
        let told = feed::check(&self.reader, &self.model).await.map_err(|error| format!("the changes: {error}"))?;
        self.met.updates_told += told.updates;
        self.met.updates_not_told += told.deletions_and_insertions;
        if self.model.newest().is_multiple_of(8) {
            let problems = problems(&self.reader, "VERIFY TABLE t ALL VERSIONS").await;
            if !problems.is_empty() {
                return Err(format!("VERIFY says {problems:?}"));
            }
        }
        assert_nothing_left_behind(&self.lake, "t", "a schedule").await;
        Ok(())
    }
}

fn same(found: Result<Vec<Row>, Error>, expected: &[Row]) -> Result<(), String> {
    let found = found.map_err(|error| error.to_string())?;
    let (extra, missing): (Vec<&Row>, Vec<&Row>) =
        (found.iter().filter(|row| !expected.contains(row)).collect(), expected.iter().filter(|row| !found.contains(row)).collect());
    match found == expected {
        true => Ok(()),
        false => Err(format!("the table has {extra:?} and the model does not; the model has {missing:?} and the table does not")),
    }
}

/// The shortest schedule that goes wrong as this one does, found by leaving out one move after another.
async fn shortened(mut plan: Plan) -> Plan {
    let mut at = plan.ops.len();
    while at > 0 {
        at -= 1;
        let mut shorter = plan.clone();
        shorter.ops.remove(at);
        if play(&shorter).await.1.is_err() {
            plan = shorter;
            at = at.min(plan.ops.len());
        }
    }
    plan
}

fn nothing_changed() -> Changed {
    let (counts, facts) = (RowCounts::default(), Default::default());
    Changed { operation: String::new(), counts, version: None, facts, files_written: 0, conflicts: vec![] }
}

/// Tries every second seed from `first` on.
async fn try_seeds(first: u64) {
    if let Some(seed) = number("AMEND_SCHEDULE_SEED") {
        if seed % 2 == first {
            let (trace, outcome) = play(&Plan::of_seed(seed)).await;
            println!("{}\n{outcome:?}", trace.join("\n"));
            outcome.unwrap();
        }
        return;
    }
    let schedules = number("AMEND_SCHEDULES").unwrap_or(SCHEDULES);
    let mut met = Met::default();
    for seed in (first..schedules).step_by(2) {
        let plan = Plan::of_seed(seed);
        match play(&plan).await.1 {
            Ok(more) => met.add(more),
            Err(reason) => {
                let (trace, shorter) = play(&shortened(plan).await).await;
                let shorter = shorter.err().unwrap_or_default();
                panic!("seed {seed}: {reason}\nshortened: {shorter}\n{}\nAMEND_SCHEDULE_SEED={seed} runs all of it", trace.join("\n"));
            }
        }
    }
    println!("{met:?}");
    if schedules >= SCHEDULES {
        met.assert_worth_it();
    }
}

impl Met {
    fn add(&mut self, more: Met) {
        self.commits += more.commits;
        self.commits_over_others += more.commits_over_others;
        self.collisions += more.collisions;
        self.collisions_on_moves += more.collisions_on_moves;
        self.collisions_on_columns += more.collisions_on_columns;
        self.columns_over_others += more.columns_over_others;
        self.rows_carried += more.rows_carried;
        self.vectors_merged += more.vectors_merged;
        self.groups_dropped += more.groups_dropped;
        self.already_deleted += more.already_deleted;
        self.updates_told += more.updates_told;
        self.updates_not_told += more.updates_not_told;
    }

    /// Schedules in which nothing meets prove nothing.
    fn assert_worth_it(self) {
        let rare = [
            self.commits_over_others,
            self.collisions,
            self.columns_over_others,
            self.rows_carried,
            self.vectors_merged,
            self.groups_dropped,
            self.already_deleted,
            self.updates_told,
        ];
        assert!(rare.into_iter().all(|met| met >= 20), "{self:?}");
    }
}

#[tokio::test]
async fn even_schedules_come_to_what_the_model_says() {
    try_seeds(0).await;
}

#[tokio::test]
async fn odd_schedules_come_to_what_the_model_says() {
    try_seeds(1).await;
}
