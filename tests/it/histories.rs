//! Histories of sessions that change one table at once, judged by what isolation promises.
//!
//! ```text
//!   workload   sessions over SQL: transactions and single statements, with and without compaction, VACUUM and a failing store
//!      │
//!      v history
//!   two judges: the `adya` crate, and our own (checker), which must agree at five levels
//!      │
//!      v
//!   serializable: nothing at all; snapshot: nothing but write skew
//! ```
//!
//! `AMEND_HISTORIES=200 AMEND_HISTORY_TRANSACTIONS=200` says how many and how long; `AMEND_HISTORY_SEED=17` runs one.

#[cfg(feature = "faulty-builds")]
mod broken;
pub mod checker;
pub mod graph;
pub mod history;
mod known;
pub mod restless;
pub mod workload;

use adya::{Opts, Valid};
use checker::{LEVELS, Level, Verdict};
use history::{History, Workload};
use std::time::Instant;
use workload::{Isolation, Met, Observed, Spec};

/// Histories of all tests together, and transactions of each.
const HISTORIES: u64 = 60;
const TRANSACTIONS: u64 = 60;
/// The tests share the histories.
const TESTS: u64 = 4;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// What both judges say, who must agree.
pub fn judge(history: &History) -> Result<Verdict, String> {
    let verdict = checker::check(history);
    let (judged, order) = history.for_adya();
    for level in LEVELS {
        let options = Opts { models: vec![level.name().to_owned()], transaction_order: Some(order.clone()), ..Opts::default() };
        let workload = match history.workload {
            Workload::ListAppend => adya::Workload::ListAppend,
            Workload::Register => adya::Workload::RwRegister,
        };
        let theirs = adya::check(&judged, workload, &options);
        let ours = verdict.against(level);
        if (theirs.valid == Valid::True) != ours.is_empty() || theirs.valid == Valid::Unknown {
            return Err(format!(
                "the judges differ at {level:?}: adya says {:?} {:?}, we say {ours:?}",
                theirs.valid, theirs.anomaly_types
            ));
        }
    }
    Ok(verdict)
}

/// What is wrong with what was observed.
pub fn wrong_with(observed: &Observed, isolation: Isolation) -> Result<Verdict, String> {
    if !observed.complaints.is_empty() {
        return Err(observed.complaints.join("\n"));
    }
    if let Some(lost) = checker::lost_writes(&observed.history).first() {
        return Err(format!("lost write: {lost}"));
    }
    let verdict = judge(&observed.history)?;
    let promised = match isolation {
        Isolation::Serializable => Level::StrictSerializable,
        Isolation::Snapshot => Level::StrongSnapshot,
    };
    match verdict.against(promised).as_slice() {
        [] => Ok(verdict),
        found => Err(found.iter().map(|anomaly| format!("{}: {}", anomaly.name, anomaly.example)).collect::<Vec<_>>().join("\n")),
    }
}

fn try_histories(workload: Workload, isolation: Isolation) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let transactions = number("AMEND_HISTORY_TRANSACTIONS").unwrap_or(TRANSACTIONS) as usize;
    let histories = number("AMEND_HISTORIES").unwrap_or(HISTORIES) / TESTS;
    let only = number("AMEND_HISTORY_SEED");
    let begun = Instant::now();
    let (mut total, mut skewed) = (Met::default(), 0);
    for seed in only.map_or(0..histories, |seed| seed..seed + 1) {
        let spec = Spec::of_seed(seed, workload, isolation, transactions);
        let observed = runtime.block_on(workload::run(spec));
        match wrong_with(&observed, isolation) {
            Err(wrong) => panic!("{spec:?}\n{wrong}\nAMEND_HISTORY_SEED={seed} AMEND_HISTORY_TRANSACTIONS={transactions} tries it again"),
            Ok(verdict) => skewed += u64::from(verdict.has("G2-item")),
        }
        total.add(observed.met);
    }
    println!(
        "{workload:?}, {isolation:?}: {histories} histories of {transactions} in {:?}: {total:?}, {skewed} with write skew",
        begun.elapsed()
    );
    if only.is_none() && histories >= HISTORIES / TESTS {
        total.assert_worth_it();
        match isolation {
            // The judges can see it where it may be.
            Isolation::Snapshot => assert!(skewed > 0, "no write skew was met"),
            Isolation::Serializable => assert_eq!(skewed, 0),
        }
    }
}

impl Met {
    fn add(&mut self, more: Met) {
        self.committed += more.committed;
        self.conflicts += more.conflicts;
        self.unknown += more.unknown;
        self.unavailable += more.unavailable;
        self.compactions += more.compactions;
        self.rows_carried += more.rows_carried;
        self.reran += more.reran;
        self.removed += more.removed;
    }

    /// Histories in which nothing meets prove nothing.
    fn assert_worth_it(self) {
        let rare = [self.conflicts as u64, self.compactions as u64, self.rows_carried, self.reran, self.removed as u64];
        assert!(rare.into_iter().all(|met| met >= 10) && self.unavailable + self.unknown > 0, "{self:?}");
        assert!(self.committed > self.conflicts, "{self:?}");
    }
}

#[test]
fn lists_are_serializable() {
    try_histories(Workload::ListAppend, Isolation::Serializable);
}

#[test]
fn registers_are_serializable() {
    try_histories(Workload::Register, Isolation::Serializable);
}

#[test]
fn lists_under_snapshot_isolation_show_nothing_but_write_skew() {
    try_histories(Workload::ListAppend, Isolation::Snapshot);
}

#[test]
fn registers_under_snapshot_isolation_show_nothing_but_write_skew() {
    try_histories(Workload::Register, Isolation::Snapshot);
}
