//! Random scripts of SQL, run here and in SQLite: after each statement the tables hold the same rows, and statements have
//! counted and answered the same.
//!
//! ```text
//!   seed ──> script ──┬──> amend                                   rows of every table,
//!                     ├──> amend without some optimizer rules  ──> counts and answers
//!                     └──> SQLite, in equivalent statements        are the same
//! ```
//!
//! `AMEND_ORACLE=20000` tries more scripts (`AMEND_ORACLE_FROM=2000` begins there), `AMEND_ORACLE_SEED=17` only that one, and prints it.

mod both;
mod merge;
mod script;
mod sides;

use crate::support::number;
use futures::FutureExt;
use script::{Does, Script, Step};
use sides::{Answer, Failure, Here, There};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

/// How many scripts a run of the tests tries.
const SCRIPTS: u64 = 300;

/// After how many that went wrong it stops.
const FAULTS: usize = 5;

/// Why a script goes wrong.
#[derive(Debug)]
struct Fault {
    /// What kind of difference it is, the same for a shorter script that shows it.
    kind: String,
    reason: String,
}

fn fault(kind: impl Into<String>, reason: impl Into<String>) -> Fault {
    Fault { kind: kind.into(), reason: reason.into() }
}

/// How often something happened that is worth testing.
#[derive(Debug, Default)]
struct Met {
    said: BTreeMap<&'static str, u64>,
    rows: u64,
    refused: u64,
    rolled_back: u64,
    old_versions: u64,
}

/// Runs a script; a panic is a fault as well.
async fn play(script: &Script, generated: bool, met: &mut Met) -> Result<(), Fault> {
    match AssertUnwindSafe(play_all(script, generated, met)).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(_) => Err(fault("panic", "it panicked")),
    }
}

/// Runs a script in all three places. `generated` is whether it is as its seed made it: then only constraints fail it.
async fn play_all(script: &Script, generated: bool, met: &mut Met) -> Result<(), Fault> {
    let mut there = There::new();
    let mut here = [Here::new(script, &[]).await, Here::new(script, &script.without).await];
    let mut open = false;
    for (at, step) in script.steps.iter().enumerate() {
        match step.does {
            Does::Begin if open => continue,
            Does::End if !open => continue,
            _ => {}
        }
        let expected = there.run(step);
        for (side, here) in here.iter_mut().enumerate() {
            let found = here.run(step).await;
            let whose = if side == 0 { "here" } else { "without rules" };
            compare(step, &found, &expected, whose, generated)
                .map_err(|fault| Fault { reason: format!("statement {at}: {}\n{}", fault.reason, step.here), ..fault })?;
        }
        match (&step.does, &expected) {
            (Does::Begin, _) => open = true,
            (Does::End, _) => open = false,
            // Here a failure leaves only ROLLBACK.
            (_, Err(_)) if open => {
                let rollback = Step { here: "ROLLBACK".into(), there: vec!["ROLLBACK".into()], does: Does::End };
                there.run(&rollback).map_err(|failure| fault("ROLLBACK", failure.reason))?;
                for here in &mut here {
                    here.run(&rollback).await.map_err(|failure| fault("ROLLBACK", failure.reason))?;
                }
                open = false;
                met.rolled_back += 1;
            }
            _ => {}
        }
        met.refused += u64::from(expected.is_err());
        *met.said.entry(word(step)).or_default() += 1;
        met.rows += expected.map_or(0, |answer| answer.count);
        for (name, rows) in there.tables() {
            for here in &mut here {
                let found = here.contents(&name, open).await.map_err(|failure| fault("contents", failure.reason))?;
                if found != rows {
                    let reason = format!("after statement {at} table {name} holds\n  {found:?}\nthere\n  {rows:?}\n{}", step.here);
                    return Err(fault("contents", reason));
                }
            }
        }
    }
    if !open {
        for here in &mut here {
            met.old_versions += here.check_old_versions().await.map_err(|failure| fault("old versions", failure.reason))?;
        }
    }
    Ok(())
}

fn word(step: &Step) -> &'static str {
    let words = ["INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "OPTIMIZE", "SELECT", "ALTER", "COMMIT", "ROLLBACK", "WITH"];
    words.into_iter().find(|word| step.here.starts_with(word)).unwrap_or("other")
}

fn compare(
    step: &Step,
    found: &Result<Answer, Failure>,
    expected: &Result<Answer, Failure>,
    whose: &str,
    generated: bool,
) -> Result<(), Fault> {
    match (found, expected) {
        (Ok(found), Ok(expected)) => match &step.does {
            Does::Change | Does::ChangeCounted(_) if found.count != expected.count => {
                Err(fault("count", format!("{} rows {whose}, {} there", found.count, expected.count)))
            }
            Does::Answer if found.rows != expected.rows => {
                Err(fault("answer", format!("{whose} {:?}\nthere {:?}", found.rows, expected.rows)))
            }
            _ => Ok(()),
        },
        (Err(found), Err(expected)) if !generated || (found.constraint && expected.constraint) => Ok(()),
        (Err(found), Err(expected)) => Err(fault(
            format!("both refuse {}", found.state),
            format!("{whose}: {}\nthere: {}\n{:?}", found.reason, expected.reason, step.there),
        )),
        (Err(found), Ok(_)) => Err(fault(format!("refused {}", found.state), format!("refused {whose}: {}", found.reason))),
        (Ok(_), Err(expected)) => {
            Err(fault("refused there", format!("refused there only, not {whose}: {}\n{:?}", expected.reason, step.there)))
        }
    }
}

/// The shortest script that goes wrong in the same way, found by leaving out one statement after another.
async fn shortened(mut script: Script, fault: Fault) -> (Script, Fault) {
    let (mut at, mut last) = (script.steps.len(), fault);
    while at > 0 {
        at -= 1;
        let mut shorter = script.clone();
        shorter.steps.remove(at);
        if let Err(found) = play(&shorter, false, &mut Met::default()).await
            && found.kind == last.kind
        {
            (script, last) = (shorter, found);
            at = at.min(script.steps.len());
        }
    }
    (script, last)
}

fn text_of(script: &Script) -> String {
    let settings = script.settings.iter().cloned().chain([format!("SET datafusion.execution.target_partitions = {}", script.partitions)]);
    let said: Vec<String> = settings.chain(script.steps.iter().map(|step| step.here.clone())).map(|sql| format!("{sql};")).collect();
    format!("{}\n-- the second run goes without {:?}", said.join("\n"), script.without)
}

/// Tries every second seed from `first` on.
async fn try_seeds(first: u64) {
    if let Some(seed) = number("AMEND_ORACLE_SEED") {
        if seed % 2 == first {
            let script = Script::of_seed(seed);
            println!("{}", text_of(&script));
            play(&script, true, &mut Met::default()).await.unwrap_or_else(|fault| panic!("{}", fault.reason));
        }
        return;
    }
    let scripts = number("AMEND_ORACLE").unwrap_or(SCRIPTS);
    let from = number("AMEND_ORACLE_FROM").unwrap_or(0);
    let mut met = Met::default();
    let mut wrong = vec![];
    for seed in (from / 2 * 2 + first..scripts).step_by(2) {
        let script = Script::of_seed(seed);
        if let Err(found) = play(&script, true, &mut met).await {
            let (shorter, found) = shortened(script, found).await;
            wrong.push(format!("{}\n{}\n-- AMEND_ORACLE_SEED={seed} runs all of it", found.reason, text_of(&shorter)));
        }
        if wrong.len() == FAULTS {
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    println!("{met:?}");
    // Scripts in which nothing happens prove nothing.
    let run = scripts.saturating_sub(from) / 2;
    if run >= SCRIPTS / 2 {
        assert!(met.said.len() == 12 && met.said.values().all(|times| times * 10 > run), "{met:?}");
        assert!(met.rows > 10 * run && 5 * met.refused > run && met.rolled_back * 50 > run && met.old_versions > 2 * run, "{met:?}");
    }
}

#[tokio::test]
async fn even_scripts_come_to_what_sqlite_makes_of_them() {
    try_seeds(0).await;
}

#[tokio::test]
async fn odd_scripts_come_to_what_sqlite_makes_of_them() {
    try_seeds(1).await;
}
