//! Transactions as messages and back. The messages of single actions are made in the files of the actions.
//!
//! Always holds: a transaction that is read binds each token once and uses it only after that, the ids that its tokens
//! got are there, its counts can be added up; an action that this build does not know is an error.

use super::action::Action;
use super::composite::{CommitFacts, CommittedTransaction, RowCounts, Step, Transaction, TransactionId};
use super::refs::{BaseRef, FieldRef, FragmentRef, Minted, Ref, Token};
use crate::manifest::frame::DecodeError;
use crate::manifest::record::{id_from_wire, id_to_wire, required};
use crate::manifest::wire;
use crate::table::fragment::BaseId;
use crate::table::row_address::{FragmentId, MAX_ROWS_PER_FRAGMENT};
use crate::table::schema::FieldId;
use bytes::Bytes;
use prost::Message;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};

impl From<&CommittedTransaction> for wire::CommittedTransaction {
    fn from(committed: &CommittedTransaction) -> Self {
        let Transaction { id, read_version, steps } = &committed.transaction;
        wire::CommittedTransaction {
            transaction: Some(wire::Transaction {
                id: id_to_wire(id.0),
                read_version: *read_version,
                steps: steps.iter().map(wire::Step::from).collect(),
            }),
            minted: Some((&committed.minted).into()),
            facts: Some(committed.facts.into()),
        }
    }
}

impl TryFrom<wire::CommittedTransaction> for CommittedTransaction {
    type Error = DecodeError;

    fn try_from(committed: wire::CommittedTransaction) -> Result<Self, DecodeError> {
        let transaction = required(committed.transaction, "a transaction")?;
        let committed = CommittedTransaction {
            transaction: Transaction {
                id: TransactionId(id_from_wire(&transaction.id)?),
                read_version: transaction.read_version,
                steps: transaction.steps.into_iter().map(Step::try_from).collect::<Result<_, _>>()?,
            },
            minted: required(committed.minted, "what a transaction minted")?.try_into()?,
            facts: required(committed.facts, "how a transaction was committed")?.into(),
        };
        check(&committed)
            .map_err(|reason| DecodeError::damaged(format!("transaction {}: {reason}", committed.transaction.id)))
            .map(|()| committed)
    }
}

impl From<&Step> for wire::Step {
    fn from(step: &Step) -> Self {
        wire::Step {
            operation: step.operation.clone(),
            statement: step.statement.clone(),
            actions: step.actions.iter().map(wire::Action::from).collect(),
            counts: Some(step.counts.into()),
        }
    }
}

impl TryFrom<wire::Step> for Step {
    type Error = DecodeError;

    fn try_from(step: wire::Step) -> Result<Self, DecodeError> {
        Ok(Step {
            operation: step.operation,
            statement: step.statement,
            actions: step.actions.into_iter().map(Action::try_from).collect::<Result<_, _>>()?,
            counts: required(step.counts, "the counts of a step")?.into(),
        })
    }
}

impl From<RowCounts> for wire::RowCounts {
    fn from(RowCounts { inserted, updated, deleted, moved }: RowCounts) -> Self {
        wire::RowCounts { inserted, updated, deleted, moved }
    }
}

impl From<wire::RowCounts> for RowCounts {
    fn from(wire::RowCounts { inserted, updated, deleted, moved }: wire::RowCounts) -> Self {
        RowCounts { inserted, updated, deleted, moved }
    }
}

impl From<CommitFacts> for wire::CommitFacts {
    fn from(facts: CommitFacts) -> Self {
        let CommitFacts { attempts, rebased_over, rows_carried, vectors_merged, groups_dropped, reran } = facts;
        wire::CommitFacts { attempts, rebased_over, rows_carried, vectors_merged, groups_dropped, reran }
    }
}

impl From<wire::CommitFacts> for CommitFacts {
    fn from(facts: wire::CommitFacts) -> Self {
        let wire::CommitFacts { attempts, rebased_over, rows_carried, vectors_merged, groups_dropped, reran } = facts;
        CommitFacts { attempts, rebased_over, rows_carried, vectors_merged, groups_dropped, reran }
    }
}

impl From<&Minted> for wire::Minted {
    fn from(minted: &Minted) -> Self {
        wire::Minted {
            fragments: minted.fragments.iter().map(|(token, id)| wire::MintedFragment { token: token.0, id: id.0 }).collect(),
            fields: minted.fields.iter().map(|(token, id)| wire::MintedField { token: token.0, id: id.0 }).collect(),
            bases: minted.bases.iter().map(|(token, id)| wire::MintedBase { token: token.0, id: id.0 }).collect(),
        }
    }
}

impl TryFrom<wire::Minted> for Minted {
    type Error = DecodeError;

    fn try_from(minted: wire::Minted) -> Result<Self, DecodeError> {
        let fragments = minted.fragments.into_iter().map(|bound| Ok((Token(bound.token), fragment_id(bound.id)?)));
        let fields = minted.fields.into_iter().map(|bound| Ok((Token(bound.token), field_id(bound.id)?)));
        let bases = minted.bases.into_iter().map(|bound| Ok((Token(bound.token), BaseId(bound.id))));
        Ok(Minted { fragments: once_each(fragments)?, fields: once_each(fields)?, bases: once_each(bases)? })
    }
}

/// A map of pairs whose tokens and whose ids are all different.
fn once_each<Id: Copy + Ord>(pairs: impl Iterator<Item = Result<(Token, Id), DecodeError>>) -> Result<BTreeMap<Token, Id>, DecodeError> {
    let mut map = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for pair in pairs {
        let (token, id) = pair?;
        if map.insert(token, id).is_some() || !ids.insert(id) {
            return Err(DecodeError::damaged(format!("token {} shares its number or its id with another", token.0)));
        }
    }
    Ok(map)
}

impl From<FragmentRef> for wire::FragmentRef {
    fn from(fragment: FragmentRef) -> Self {
        use wire::fragment_ref::Id;
        let id = match fragment {
            Ref::Committed(id) => Id::Committed(id.0),
            Ref::Local(token) => Id::Local(token.0),
        };
        wire::FragmentRef { id: Some(id) }
    }
}

impl TryFrom<wire::FragmentRef> for FragmentRef {
    type Error = DecodeError;

    fn try_from(fragment: wire::FragmentRef) -> Result<Self, DecodeError> {
        use wire::fragment_ref::Id;
        match required(fragment.id, "the id of a fragment")? {
            Id::Committed(id) => fragment_id(id).map(Ref::Committed),
            Id::Local(token) => Ok(Ref::Local(Token(token))),
        }
    }
}

impl From<FieldRef> for wire::FieldRef {
    fn from(field: FieldRef) -> Self {
        use wire::field_ref::Id;
        let id = match field {
            Ref::Committed(id) => Id::Committed(id.0),
            Ref::Local(token) => Id::Local(token.0),
        };
        wire::FieldRef { id: Some(id) }
    }
}

impl TryFrom<wire::FieldRef> for FieldRef {
    type Error = DecodeError;

    fn try_from(field: wire::FieldRef) -> Result<Self, DecodeError> {
        use wire::field_ref::Id;
        match required(field.id, "the id of a field")? {
            Id::Committed(id) => field_id(id).map(Ref::Committed),
            Id::Local(token) => Ok(Ref::Local(Token(token))),
        }
    }
}

impl From<BaseRef> for wire::BaseRef {
    fn from(base: BaseRef) -> Self {
        use wire::base_ref::Id;
        let id = match base {
            Ref::Committed(id) => Id::Committed(id.0),
            Ref::Local(token) => Id::Local(token.0),
        };
        wire::BaseRef { id: Some(id) }
    }
}

impl TryFrom<wire::BaseRef> for BaseRef {
    type Error = DecodeError;

    fn try_from(base: wire::BaseRef) -> Result<Self, DecodeError> {
        use wire::base_ref::Id;
        Ok(match required(base.id, "the id of a base")? {
            Id::Committed(id) => Ref::Committed(BaseId(id)),
            Id::Local(token) => Ref::Local(Token(token)),
        })
    }
}

fn fragment_id(id: u32) -> Result<FragmentId, DecodeError> {
    let id = FragmentId(id);
    if id > FragmentId::MAX { Err(DecodeError::damaged(format!("fragment id {id}"))) } else { Ok(id) }
}

fn field_id(id: i32) -> Result<FieldId, DecodeError> {
    if id < 1 { Err(DecodeError::damaged(format!("field id {id}"))) } else { Ok(FieldId(id)) }
}

/// Rows of a fragment in portable Roaring bytes.
pub(super) fn rows_to_wire(rows: &RoaringBitmap) -> Bytes {
    let mut rows = rows.clone();
    rows.optimize();
    let mut bytes = Vec::with_capacity(rows.serialized_size());
    // Writing to memory cannot fail: `Vec` never refuses bytes.
    let _ = rows.serialize_into(&mut bytes);
    bytes.into()
}

/// Rows of portable Roaring bytes, all of which belong to them.
pub(super) fn rows_from_wire(mut bytes: &[u8]) -> Result<RoaringBitmap, DecodeError> {
    let rows = RoaringBitmap::deserialize_from(&mut bytes).map_err(|error| DecodeError::damaged(format!("rows: {error}")))?;
    if !bytes.is_empty() || rows.max().is_some_and(|row| u64::from(row) >= MAX_ROWS_PER_FRAGMENT) {
        return Err(DecodeError::damaged("rows that no fragment can have"));
    }
    Ok(rows)
}

/// Refuses a transaction that its own parts contradict.
fn check(committed: &CommittedTransaction) -> Result<(), String> {
    let CommittedTransaction { transaction, minted, .. } = committed;
    let mut rows = 0u64;
    for counts in transaction.steps.iter().map(|step| step.counts) {
        for count in [counts.inserted, counts.updated, counts.deleted, counts.moved] {
            rows = rows.checked_add(count).filter(|rows| *rows <= MAX_ROWS_COUNTED).ok_or("more rows than can be counted")?;
        }
    }
    let mut fragments = Tokens { kind: "fragment", bound: BTreeSet::new() };
    let mut fields = Tokens { kind: "field", bound: BTreeSet::new() };
    let mut bases = Tokens { kind: "base", bound: BTreeSet::new() };
    for action in transaction.actions() {
        match action {
            Action::AddFragment(action) => match action.id {
                Ref::Local(token) => fragments.bind(token)?,
                Ref::Committed(_) => {}
            },
            Action::AddDataFile(action) => {
                fragments.used(action.fragment)?;
                action.base.map_or(Ok(()), |base| bases.used(base))?;
                action.fields.iter().flatten().try_for_each(|field| fields.used(*field))?;
            }
            Action::AddField(action) => {
                action.parent.iter().chain(&action.in_place_of).try_for_each(|field| fields.used(*field))?;
                match action.id {
                    Ref::Local(token) => fields.bind(token)?,
                    Ref::Committed(_) => {}
                }
            }
            Action::AlterField(action) => {
                fields.used(action.field)?;
                action.parent.map_or(Ok(()), |parent| fields.used(parent))?;
            }
            Action::DropField(action) => fields.used(action.field)?,
            Action::TombstoneFieldData(action) => {
                fragments.used(action.fragment)?;
                action.fields.iter().try_for_each(|field| fields.used(*field))?;
            }
            Action::AddBase(action) => bases.bind(action.token)?,
            Action::AssertUniqueKeys(action) => action.fields.iter().try_for_each(|field| fields.used(*field))?,
            Action::ConfigUpdate(_) | Action::ReserveFragmentIds(_) | Action::ResetTable(_) => {}
            Action::RemoveFragment(action) => fragments.used(action.fragment)?,
            Action::SetDeletionFile(action) => fragments.used(action.fragment)?,
            Action::ChangeOfAddress(action) => {
                action.sources.iter().chain(&action.targets).try_for_each(|fragment| fragments.used(*fragment))?;
            }
        }
    }
    let same = fragments.bound.iter().eq(minted.fragments.keys())
        && fields.bound.iter().eq(minted.fields.keys())
        && bases.bound.iter().eq(minted.bases.keys());
    match same {
        true => Ok(()),
        false => Err("it binds other tokens than those that got ids".into()),
    }
}

/// The most rows that the statements of a transaction count: the sums over many transactions still fit 64 bits.
const MAX_ROWS_COUNTED: u64 = 1 << 48;

/// The tokens of one kind that are bound so far.
struct Tokens {
    kind: &'static str,
    bound: BTreeSet<Token>,
}

impl Tokens {
    fn bind(&mut self, token: Token) -> Result<(), String> {
        // The last number is kept free, so that there is always a next one.
        match token.0 < u32::MAX && self.bound.insert(token) {
            true => Ok(()),
            false => Err(format!("{} token {} is bound twice", self.kind, token.0)),
        }
    }

    fn used<Id>(&self, reference: Ref<Id>) -> Result<(), String> {
        match reference {
            Ref::Local(token) if !self.bound.contains(&token) => Err(format!("{} token {} is not bound", self.kind, token.0)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;

/// The bytes of one step, for passing it between the nodes of a plan.
pub fn encode_step(step: &Step) -> Vec<u8> {
    wire::Step::from(step).encode_to_vec()
}

/// The step of these bytes.
pub fn decode_step(bytes: &[u8]) -> Result<Step, DecodeError> {
    let step = wire::Step::decode(bytes).map_err(|error| DecodeError::damaged(error.to_string()))?;
    Step::try_from(step)
}
