//! Schedules: what the sessions say, and when they land.
//!
//! Choices are numbers that are taken modulo what there is to choose from, so that every schedule can be played and a
//! shorter one is still a schedule.

use proptest::collection::vec;
use proptest::prelude::*;

/// How many sessions there are.
const SESSIONS: u8 = 4;

/// A statement.
#[derive(Debug, Clone)]
pub(super) enum Statement {
    /// So many new rows.
    Insert(u8),
    /// Some keys.
    Delete(Vec<u16>),
    /// Every key of a fragment, by deletion vector.
    DeleteFragment(u16),
    /// Some keys.
    Update(Vec<u16>),
    /// Some keys, in column form.
    UpdateInPlace(Vec<u16>),
    /// Keys to delete, keys to update, new rows.
    Merge(Vec<u16>, Vec<u16>, u8),
    /// Groups of fragments, and where their targets are cut; `shuffle` gives rows another order.
    Optimize { groups: Vec<(Vec<u16>, Vec<u8>)>, removals_first: bool, shuffle: Option<u8> },
    /// A whole fragment.
    Remove(u16),
    /// One of a few names.
    AddColumn(u8),
}

/// A turn.
#[derive(Debug, Clone)]
pub(super) enum Op {
    /// A session says something.
    Say(u8, Statement),
    /// A session tries to land and is overtaken.
    Lose(u8),
    /// Sessions land as one version.
    Land(Vec<u8>),
}

fn statement() -> impl Strategy<Value = Statement> {
    let picks = || vec(any::<u16>(), 1..4);
    let group = (vec(any::<u16>(), 1..4), vec(0u8..6, 0..3));
    prop_oneof![
        2 => (1u8..5).prop_map(Statement::Insert),
        5 => picks().prop_map(Statement::Delete),
        1 => any::<u16>().prop_map(Statement::DeleteFragment),
        5 => picks().prop_map(Statement::Update),
        4 => picks().prop_map(Statement::UpdateInPlace),
        2 => (picks(), picks(), 0u8..3).prop_map(|(deleted, updated, rows)| Statement::Merge(deleted, updated, rows)),
        7 => (vec(group, 1..3), any::<bool>(), any::<Option<u8>>())
            .prop_map(|(groups, removals_first, shuffle)| Statement::Optimize { groups, removals_first, shuffle }),
        1 => any::<u16>().prop_map(Statement::Remove),
        1 => (0u8..3).prop_map(Statement::AddColumn),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (0..SESSIONS, statement()).prop_map(|(session, statement)| Op::Say(session, statement)),
        2 => (0..SESSIONS).prop_map(Op::Lose),
        4 => (0..SESSIONS).prop_map(|session| Op::Land(vec![session])),
        2 => vec(0..SESSIONS, 2..4).prop_map(Op::Land),
    ]
}

/// Any schedule; it begins with some rows.
pub(super) fn schedules() -> impl Strategy<Value = Vec<Op>> {
    let rows = vec(1u8..6, 1..4).prop_map(|sizes| sizes.into_iter().map(|rows| Op::Say(0, Statement::Insert(rows))).collect::<Vec<_>>());
    (rows, vec(op(), 1..30)).prop_map(|(mut schedule, ops)| {
        schedule.push(Op::Land(vec![0]));
        schedule.extend(ops);
        schedule
    })
}
