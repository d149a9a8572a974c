//! Random sets of actions against random tables, two at a time, every kind of action among them.
//!
//! ```text
//!   table ── theirs lands ── ours lands, rebased        rows, columns, settings, bases = the table, then theirs, then ours,
//!     └───── ours lands ── theirs lands, rebased        one after the other, on a plain model
//! ```
//!
//! For each pair and both orders: what lands is what the model says (a row that was updated and is gone is a lost update);
//! what commutes applies as it was staged (`Testbed::land_compared`), and commutes in both orders to the same contents; apply
//! gives the same twice; the wire form comes back as it was; every version passes the invariants.

mod model;
mod statements;

use super::compare::Comparison;
use super::simulation::cases_of;
use super::testbed::{Draft, Landed, Testbed};
use crate::commit::invariants;
use crate::manifest::apply::apply;
use crate::manifest::wire;
use crate::txn::composite::CommittedTransaction;
use crate::txn::wire::{decode_step, encode_step};
use model::{Content, Effect, content};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use statements::{Side, Words, pairs, say};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many pairs a run of the tests tries.
const DEFAULT_CASES: u32 = 2_000;

/// What two thousand pairs must have come to, or they prove less than they say.
const TO_REACH: [&str; 3] = ["carried", "commutes", "conflicts"];

/// A table for a pair: fragments of ten rows and fewer, values of three more columns in the first of them, settings, a base, and
/// reserved ids.
fn table(rows: &[u8]) -> Testbed {
    let mut bed = Testbed::new(invariants::check);
    let mut draft = bed.draft();
    statements::set_up(rows, &mut draft);
    bed.land(draft).expect("the table to begin with");
    bed
}

/// A draft of one side and what it means; that of the other side lands in fewer actions, if there are fewer.
fn draft(bed: &mut Testbed, side: Side, words: &[Words]) -> (Draft, Vec<Effect>) {
    let mut draft = bed.draft();
    let snapshot = bed.newest().clone();
    let effects = say(side, words, &snapshot, &mut draft);
    (draft.normalised_if(side == Side::Other), effects)
}

/// Lands `first`, then `second`, both of the same version, and looks at what is there.
fn in_order(bed: &Testbed, first: &(Draft, Vec<Effect>), second: &(Draft, Vec<Effect>)) -> (Comparison, Option<Content>) {
    let mut bed = bed.clone();
    let mut expected = content(&bed);
    let landed = bed.land(first.0.clone()).expect("nothing landed before");
    expected.then(&first.1);
    assert_eq!(content(&bed), expected, "the first");
    comes_back(&landed);
    let before = bed.newest().clone();
    let (comparison, landed) = bed.land_compared(second.0.clone(), &landed);
    let Ok(landed) = landed else { return (comparison, None) };
    expected.then(&second.1);
    assert_eq!(content(&bed), expected, "the second, {comparison:?}");
    let again = || apply(&before, &landed.committed.transaction, before.version + 1).expect("it was applied before");
    assert_eq!(again(), again());
    assert_eq!(again().1, landed.committed.minted);
    comes_back(&landed);
    (comparison, Some(expected))
}

/// The wire form of a transaction and of its steps.
fn comes_back(landed: &Landed) {
    let read = CommittedTransaction::try_from(wire::CommittedTransaction::from(&landed.committed)).expect("what was written");
    assert_eq!(read, landed.committed);
    for step in &landed.committed.transaction.steps {
        assert_eq!(&decode_step(&encode_step(step)).expect("what was written"), step);
    }
}

/// One pair; what both orders came to.
fn pair(rows: &[u8], one: &[Words], other: &[Words]) -> [&'static str; 2] {
    let mut bed = table(rows);
    let (one, other) = (draft(&mut bed, Side::One, one), draft(&mut bed, Side::Other, other));
    let (there, back) = (in_order(&bed, &one, &other), in_order(&bed, &other, &one));
    if let ((Comparison::Commutes, Some(there)), (Comparison::Commutes, Some(back))) = (&there, &back) {
        assert_eq!(there, back, "two orders make two tables");
    }
    [there, back].map(|(comparison, _)| match comparison {
        Comparison::Commutes => "commutes",
        Comparison::Carry(_) => "carried",
        Comparison::Conflict(_) => "conflicts",
    })
}

#[test]
fn any_two_sets_of_actions_land_as_one_after_the_other() {
    let cases = cases_of("AMEND_PROPERTY_CASES", DEFAULT_CASES);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Config::default() });
    let reached = RefCell::new(BTreeMap::new());
    let outcome = runner.run(&pairs(), |(rows, one, other)| match catch_unwind(AssertUnwindSafe(|| pair(&rows, &one, &other))) {
        Ok(verdicts) => {
            verdicts.into_iter().for_each(|verdict| *reached.borrow_mut().entry(verdict).or_insert(0) += 1);
            Ok(())
        }
        Err(panic) => {
            let reason = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Err(TestCaseError::fail(reason.unwrap_or_else(|| "a panic".into())))
        }
    });
    if let Err(TestError::Fail(reason, pair)) = outcome {
        panic!("{reason}\npair: {pair:#?}");
    }
    println!("of {cases} pairs, in both orders: {:#?}", reached.borrow());
    if cases >= DEFAULT_CASES {
        assert_eq!(reached.borrow().keys().copied().collect::<Vec<_>>(), TO_REACH);
    }
}
