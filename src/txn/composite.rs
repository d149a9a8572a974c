//! A transaction: steps of actions that commit as one change.
//!
//! One step is one statement of the user; steps are for history, actions apply in order as one manifest change.

use super::action::Action;
use super::footprint::UNLISTED_KEYS;
use super::refs::{Minted, Ref, Token};
use crate::table::row_address::FragmentId;
use std::collections::BTreeSet;
use std::fmt;

/// A transaction's identity: found again in the version that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub u128);

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid::Uuid::from_u128(self.0).fmt(f)
    }
}

/// Steps of actions that commit as one change.
#[derive(Debug, Clone, PartialEq)]
pub struct Transaction {
    /// Its identity.
    pub id: TransactionId,
    /// The version that its statements read.
    pub read_version: u64,
    /// Its statements.
    pub steps: Vec<Step>,
}

/// One statement of a transaction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// The kind of statement, for example `UPDATE`.
    pub operation: String,
    /// The statement in the user's words.
    pub statement: String,
    /// What it changes.
    pub actions: Vec<Action>,
    /// What it counted.
    pub counts: RowCounts,
}

/// Rows that a statement changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowCounts {
    /// New rows.
    pub inserted: u64,
    /// Rows with new values.
    pub updated: u64,
    /// Rows removed.
    pub deleted: u64,
    /// Rows that a rewrite moved.
    pub moved: u64,
}

impl RowCounts {
    /// Rows changed, in the sense of SQL: moved rows are not.
    pub fn changed(&self) -> u64 {
        self.inserted + self.updated + self.deleted
    }
}

impl Transaction {
    /// All actions in the order in which they apply.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.steps.iter().flat_map(|step| &step.actions)
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(|step| step.actions.is_empty())
    }

    /// Whether it inserts keys that it does not list.
    pub fn has_unlisted_keys(&self) -> bool {
        self.actions().any(|action| matches!(action, Action::AssertUniqueKeys(keys) if keys.scheme == UNLISTED_KEYS))
    }

    /// Whether the table says something else after it; a rewrite moves rows and changes nothing of what they say.
    pub fn changes_data(&self) -> bool {
        self.actions().any(|action| match action {
            Action::AddFragment(add) => add.data_change,
            Action::AddDataFile(add) => add.data_change,
            Action::RemoveFragment(remove) => remove.data_change,
            Action::TombstoneFieldData(tombstone) => tombstone.data_change,
            Action::SetDeletionFile(set) => !set.added.is_empty(),
            Action::ChangeOfAddress(_) | Action::ReserveFragmentIds(_) | Action::AssertUniqueKeys(_) => false,
            Action::AddField(_)
            | Action::AlterField(_)
            | Action::DropField(_)
            | Action::ConfigUpdate(_)
            | Action::ResetTable(_)
            | Action::AddBase(_) => true,
        })
    }

    /// The first fragment token that is free.
    pub fn next_fragment_token(&self) -> Token {
        self.next_token(|binds| match binds {
            Binds::Fragment(token) => Some(token),
            Binds::Field(_) | Binds::Base(_) => None,
        })
    }

    /// The first field token that is free.
    pub fn next_field_token(&self) -> Token {
        self.next_token(|binds| match binds {
            Binds::Field(token) => Some(token),
            Binds::Fragment(_) | Binds::Base(_) => None,
        })
    }

    /// The first base token that is free.
    pub fn next_base_token(&self) -> Token {
        self.next_token(|binds| match binds {
            Binds::Base(token) => Some(token),
            Binds::Fragment(_) | Binds::Field(_) => None,
        })
    }

    fn next_token(&self, of: impl Fn(Binds) -> Option<Token>) -> Token {
        Token(self.actions().filter_map(binds).filter_map(of).map(|token| token.0 + 1).max().unwrap_or(0))
    }

    /// The fragments that its actions name by id.
    pub fn fragments(&self) -> BTreeSet<FragmentId> {
        let mut named = BTreeSet::new();
        for action in self.actions() {
            match action {
                Action::AddFragment(add) => named.extend(add.id.committed()),
                Action::AddDataFile(add) => named.extend(add.fragment.committed()),
                Action::RemoveFragment(remove) => named.extend(remove.fragment.committed()),
                Action::SetDeletionFile(set) => named.extend(set.fragment.committed()),
                Action::TombstoneFieldData(tombstone) => named.extend(tombstone.fragment.committed()),
                Action::ChangeOfAddress(change) => {
                    named.extend(change.sources.iter().chain(&change.targets).filter_map(|fragment| fragment.committed()));
                }
                Action::AddField(_)
                | Action::AlterField(_)
                | Action::DropField(_)
                | Action::ConfigUpdate(_)
                | Action::ReserveFragmentIds(_)
                | Action::ResetTable(_)
                | Action::AddBase(_)
                | Action::AssertUniqueKeys(_) => {}
            }
        }
        named
    }

    /// The reserved fragment ids that it takes: its own fragments, though they have ids.
    pub fn claimed_fragments(&self) -> BTreeSet<FragmentId> {
        self.actions().filter_map(Action::added_fragment).filter_map(|add| add.id.committed()).collect()
    }

    /// What its statements say, one after another.
    pub fn describe(&self) -> String {
        self.steps.iter().map(|step| step.statement.as_str()).collect::<Vec<_>>().join("; ")
    }
}

/// A token that an action binds, by what it names.
enum Binds {
    Fragment(Token),
    Field(Token),
    Base(Token),
}

/// The token of something that is to come.
fn local<Id>(id: Ref<Id>) -> Option<Token> {
    match id {
        Ref::Local(token) => Some(token),
        Ref::Committed(_) => None,
    }
}

fn binds(action: &Action) -> Option<Binds> {
    match action {
        Action::AddFragment(add) => local(add.id).map(Binds::Fragment),
        Action::AddField(add) => local(add.id).map(Binds::Field),
        Action::AddBase(add) => Some(Binds::Base(add.token)),
        Action::AddDataFile(_)
        | Action::RemoveFragment(_)
        | Action::SetDeletionFile(_)
        | Action::ChangeOfAddress(_)
        | Action::AlterField(_)
        | Action::DropField(_)
        | Action::TombstoneFieldData(_)
        | Action::ConfigUpdate(_)
        | Action::ReserveFragmentIds(_)
        | Action::ResetTable(_)
        | Action::AssertUniqueKeys(_) => None,
    }
}

/// A transaction as a version holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct CommittedTransaction {
    /// The transaction as it was applied, after rebase.
    pub transaction: Transaction,
    /// The ids that its tokens got.
    pub minted: Minted,
    /// What it took to commit it.
    pub facts: CommitFacts,
}

/// What it took to commit a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommitFacts {
    /// How many versions were tried, the successful one included.
    pub attempts: u32,
    /// How many versions landed between the one it read and the one it made.
    pub rebased_over: u64,
    /// Row addresses followed through changes of address, its own and those of others.
    pub rows_carried: u64,
    /// Deletion vectors united with those of others.
    pub vectors_merged: u32,
    /// Groups of a rewrite that were given up because others rewrote their fragments first.
    pub groups_dropped: u32,
    /// How many times the engine ran the statement again.
    pub reran: u32,
}

#[cfg(test)]
mod tests;
