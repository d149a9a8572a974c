//! The checks, checked: the program with one defence taken away, again and again, until the histories give it away.

use super::history::Workload;
use super::workload::{self, Isolation, Spec};
use super::wrong_with;
use amend::faulty::{Fault, choose};
use std::time::{Duration, Instant};

/// Histories that a fault may survive, and how long they are.
const HISTORIES: u64 = 40;
const TRANSACTIONS: usize = 40;

/// Why the fault was noticed, after how many histories.
fn noticed(isolation: Isolation) -> Option<(u64, String)> {
    for seed in 0..HISTORIES {
        let workload = if seed.is_multiple_of(2) { Workload::ListAppend } else { Workload::Register };
        // Every fourth one is without compaction or without faults of the store.
        let spec = Spec { compacted: seed % 4 != 3, faulty: seed % 4 != 2, ..Spec::of_seed(seed, workload, isolation, TRANSACTIONS) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let run = async { tokio::time::timeout(Duration::from_secs(60), tokio::spawn(workload::run(spec))).await };
        let wrong = match runtime.block_on(run) {
            Err(_) => Some("it does not end".to_owned()),
            Ok(Err(panic)) => Some(format!("a session ended: {panic}")),
            Ok(Ok(observed)) => wrong_with(&observed, isolation).err(),
        };
        if let Some(wrong) = wrong {
            assert!(!wrong.starts_with("the judges differ"), "{wrong}");
            return Some((seed + 1, wrong));
        }
    }
    None
}

#[test]
#[ignore = "takes defences away for the whole process: run it by itself"]
fn every_defence_that_is_taken_away_is_missed() {
    let mut unnoticed = vec![];
    for fault in Fault::ALL {
        let begun = Instant::now();
        choose(Some(fault));
        let isolation = if fault == Fault::SkipReadAssertions { Isolation::Serializable } else { Isolation::Snapshot };
        let noticed = noticed(isolation);
        choose(None);
        match noticed {
            Some((histories, wrong)) => {
                let first: String = wrong.lines().next().unwrap_or_default().chars().take(150).collect();
                println!("{fault:?}: history {histories}, {:?}: {first}", begun.elapsed());
            }
            None => unnoticed.push(fault),
        }
    }
    assert!(unnoticed.is_empty(), "nobody missed {unnoticed:?}");
}
