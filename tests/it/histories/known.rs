//! The judges on histories whose anomaly is known: each names it, at the weakest level that forbids it.
//!
//! A line is a transaction: when it began and ended, how, and what it did: `r1=3.4` read 3 and 4 of key 1, `w1=5` wrote 5.

use super::checker::{LEVELS, Level};
use super::history::{History, Op, Outcome, Transaction, Workload};
use super::judge;

fn parse(workload: Workload, text: &str) -> History {
    let transaction = |(client, line): (usize, &str)| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let op = |word: &&str| {
            let (what, value) = word.split_once('=').unwrap();
            let key = what[1..].parse().unwrap();
            match &what[..1] {
                "r" => Op::Read { key, found: value.split('.').filter(|v| !v.is_empty()).map(|v| v.parse().unwrap()).collect() },
                _ => Op::Write { key, value: value.parse().unwrap() },
            }
        };
        let outcome = if words[2] == "ok" { Outcome::Committed } else { Outcome::Failed };
        let (began, ended) = (words[0].parse().unwrap(), words[1].parse().unwrap());
        // The order of the log is that of the ends.
        Transaction { client, began, ended, outcome, ops: words[3..].iter().map(op).collect(), position: Some(ended as u64) }
    };
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    History { workload, transactions: lines.enumerate().map(transaction).collect() }
}

/// Both judges find `anomaly` (by our name for it), and `weakest` is the first level that forbids it.
fn shows(workload: Workload, text: &str, anomaly: &str, weakest: Level) {
    let verdict = judge(&parse(workload, text)).unwrap_or_else(|differ| panic!("{anomaly}: {differ}"));
    assert!(verdict.has(anomaly), "{anomaly}: {verdict:?}");
    let forbidding = LEVELS.into_iter().find(|level| !verdict.against(*level).is_empty());
    assert_eq!(forbidding, Some(weakest), "{anomaly}: {verdict:?}");
}

#[test]
fn anomalies_of_lists_are_named() {
    use Level::*;
    for (anomaly, weakest, text) in [
        ("G0", ReadCommitted, "1 9 ok w1=1 w2=1\n 2 8 ok w1=2 w2=2\n 10 11 ok r1=1.2 r2=2.1"),
        ("G1a", ReadCommitted, "1 2 failed w1=1\n 3 4 ok r1=1\n 5 6 ok w1=2\n 7 8 ok r1=1.2"),
        ("G1b", ReadCommitted, "1 9 ok w1=1 w1=2\n 2 3 ok r1=1\n 10 11 ok r1=1.2"),
        ("G1c", ReadCommitted, "1 9 ok w1=1 r2=2\n 2 8 ok w2=2 r1=1\n 10 11 ok r1=1 r2=2"),
        ("internal", Snapshot, "1 2 ok w1=1 r1=\n 3 4 ok r1=1"),
        ("internal", Snapshot, "1 9 ok r1= r1=1\n 2 3 ok w1=1"),
        ("future read", ReadCommitted, "1 2 ok r1=1 w1=1\n 3 4 ok r1=1"),
        ("duplicate elements", ReadCommitted, "1 2 ok w1=1\n 3 4 ok r1=1.1"),
        ("incompatible order", ReadCommitted, "1 4 ok w1=1\n 2 3 ok w1=2\n 5 6 ok r1=1\n 7 8 ok r1=2"),
        ("lost update", Snapshot, "1 9 ok r1= w1=1\n 2 8 ok r1= w1=2\n 10 11 ok r1=2.1"),
        ("G-single", Snapshot, "1 9 ok r1= r2=2\n 2 3 ok w1=2 w2=2\n 10 11 ok r1=2 r2=2"),
        // Two readers that do not agree which of two writers came first.
        ("G-nonadjacent", Snapshot, "1 9 ok w1=1\n 2 9 ok w2=2\n 3 10 ok r1=1 r2=\n 4 11 ok r1= r2=2\n 12 13 ok r1=1 r2=2"),
        ("G2-item", Serializable, "1 9 ok r1= r2= w1=1\n 2 8 ok r1= r2= w2=2\n 10 11 ok r1=1 r2=2"),
        // What ended is not seen by what began later.
        ("G-single", StrongSnapshot, "1 2 ok w1=1\n 3 4 ok r1=\n 5 6 ok r1=1"),
    ] {
        shows(Workload::ListAppend, text, anomaly, weakest);
    }
}

#[test]
fn anomalies_of_registers_are_named() {
    use Level::*;
    for (anomaly, weakest, text) in [
        ("G1a", ReadCommitted, "1 2 failed w1=1\n 3 4 ok r1=1\n 5 6 ok w2=1\n 7 8 ok r2=1"),
        ("G1b", ReadCommitted, "1 9 ok w1=1 w1=2\n 2 3 ok r1=1\n 10 11 ok r1=2"),
        ("G1c", ReadCommitted, "1 9 ok w1=1 r2=2\n 2 8 ok w2=2 r1=1\n 10 11 ok r1=1 r2=2"),
        ("internal", Snapshot, "1 2 ok w1=1 r1=\n 3 4 ok r1=1"),
        ("lost update", Snapshot, "1 9 ok r1= w1=1\n 2 8 ok r1= w1=2\n 10 11 ok r1=1"),
        ("G-single", Snapshot, "1 9 ok r1= r2=2\n 2 3 ok w1=2 w2=2\n 10 11 ok r1=2 r2=2"),
        ("G2-item", Serializable, "1 9 ok r1= r2= w1=1\n 2 8 ok r1= r2= w2=2\n 10 11 ok r1=1 r2=2"),
        ("G-single", StrongSnapshot, "1 2 ok w1=1\n 3 4 ok r1=\n 5 6 ok r1=1"),
    ] {
        shows(Workload::Register, text, anomaly, weakest);
    }
}

#[test]
fn a_history_without_anomalies_passes_at_every_level() {
    for workload in [Workload::ListAppend, Workload::Register] {
        let (one, two) = if workload == Workload::ListAppend { ("r1=1", "r1=1.2") } else { ("r1=1", "r1=2") };
        let text = format!("1 2 ok r1= w1=1\n 3 6 ok {one} w1=2\n 4 7 failed {one} w1=3\n 8 9 ok {two} r2=");
        let verdict = judge(&parse(workload, &text)).unwrap();
        assert!(LEVELS.into_iter().all(|level| verdict.against(level).is_empty()), "{verdict:?}");
    }
}

/// Random histories, most of them impossible: the judges agree on every one.
#[test]
fn the_judges_agree_on_histories_that_are_made_up() {
    use rand::{RngExt, SeedableRng};
    let mut forbidden = std::collections::BTreeMap::<Option<Level>, u32>::new();
    for seed in 0..3000u64 {
        let random = &mut rand::rngs::StdRng::seed_from_u64(seed);
        let workload = if seed.is_multiple_of(2) { Workload::ListAppend } else { Workload::Register };
        let mut moments: Vec<usize> = (0..12).collect();
        let mut transactions: Vec<Transaction> = Vec::new();
        let (mut value, mut written) = (0, std::collections::BTreeMap::<i64, Vec<i64>>::new());
        for client in 0..6 {
            let mut pick = || moments.remove(random.random_range(0..moments.len()));
            let (a, b) = (pick(), pick());
            let mut ops = Vec::new();
            for _ in 0..random.random_range(1..4) {
                let key = random.random_range(0..3);
                let known = written.entry(key).or_default();
                if random.random_bool(0.5) {
                    value += 1;
                    known.push(value);
                    ops.push(Op::Write { key, value });
                } else {
                    let seen = random.random_range(0..=known.len());
                    let found = match workload {
                        Workload::ListAppend => known[..seen].to_vec(),
                        Workload::Register => known[..seen].last().copied().into_iter().collect(),
                    };
                    ops.push(Op::Read { key, found });
                }
            }
            let outcome = if random.random_bool(0.9) { Outcome::Committed } else { Outcome::Failed };
            let (began, ended) = (a.min(b), a.max(b));
            transactions.push(Transaction { client, began, ended, outcome, ops, position: Some(ended as u64) });
        }
        let history = History { workload, transactions };
        match judge(&history) {
            Ok(verdict) => *forbidden.entry(LEVELS.into_iter().find(|level| !verdict.against(*level).is_empty())).or_default() += 1,
            // Nothing depends on anything: adya says nothing.
            Err(differ) if differ.contains("Unknown") => {}
            Err(differ) => panic!("seed {seed}: {differ}\n{history:#?}"),
        }
    }
    assert_eq!(forbidden.len(), LEVELS.len() + 1, "{forbidden:?}");
}
