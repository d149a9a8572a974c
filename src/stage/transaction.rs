//! An open transaction: the versions it reads, and the composite that its statements build up.
//!
//! ```text
//!   base version ── apply(composite so far) ──> working version     what its next statement reads
//!                                                 │
//!   the statement's actions name fragments of the working version;
//!   those that the transaction itself made become tokens again
//! ```
//!
//! At its end fragments that came and went in it are left out, and their files removed.

use super::scope::StagedStatement;
use crate::commit::reads::ReadAssertion;
use crate::commit::staged::Staged;
use crate::error::{Error, Result};
use crate::faulty::{self, Fault};
use crate::manifest::leases::Lease;
use crate::manifest::log::VersionLog;
use crate::manifest::version::Version;
use crate::scan::read::Read;
use crate::store::{ObjectName, env};
use crate::table::fragment::BaseId;
use crate::table::row_address::FragmentId;
use crate::table::schema::FieldId;
use crate::txn::action::Action;
use crate::txn::address_map::AddressMap;
use crate::txn::composite::{Step, Transaction, TransactionId};
use crate::txn::normalise;
use crate::txn::rebase::{self, Rebase};
use crate::txn::refs::{BaseRef, FieldRef, FragmentRef, Minted, Ref, Token};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A transaction between BEGIN and its end.
#[derive(Debug, Clone, Default)]
pub struct OpenTransaction {
    /// The versions that it reads, by table folder, and what keeps them and what was written since.
    pub(super) views: HashMap<String, (Arc<Version>, Arc<Lease>)>,
    /// What it read of them, by table folder, where it is to be serializable.
    pub(super) reads: HashMap<String, Vec<Arc<Read>>>,
    /// The new keys of its rows, by table folder.
    pub(super) key_reads: HashMap<String, Vec<Arc<Read>>>,
    /// The table that it changes.
    pub(super) target: Option<Target>,
    /// Why it can only be rolled back.
    pub(super) failed: Option<String>,
}

impl OpenTransaction {
    /// The version of a table that it reads: its own working version where it has changed the table. With what keeps
    /// it.
    pub(super) fn view(&self, key: &str) -> Option<(Arc<Version>, Arc<Lease>)> {
        match &self.target {
            Some(target) if target.log.store().label() == key && !faulty::is(Fault::ForgetOwnWrites) => {
                Some((target.working.clone(), target.lease.clone()))
            }
            _ => self.views.get(key).filter(|_| !faulty::is(Fault::FracturedRead)).cloned(),
        }
    }

    /// What keeps the version of a table that it reads.
    pub(super) fn lease(&self, key: &str) -> Option<Arc<Lease>> {
        self.views.get(key).map(|(_, lease)| lease.clone())
    }
}

/// The table that a transaction changes.
#[derive(Debug, Clone)]
pub struct Target {
    log: Arc<VersionLog>,
    base: Arc<Version>,
    working: Arc<Version>,
    minted: Minted,
    transaction: Transaction,
    maps: Vec<Arc<AddressMap>>,
    reads: BTreeSet<FieldId>,
    /// Objects that were written for it. Its actions may also name files of old versions, which are not its own.
    objects: Vec<ObjectName>,
    lease: Arc<Lease>,
}

impl Target {
    pub(super) fn new(log: Arc<VersionLog>, base: Arc<Version>, lease: Arc<Lease>) -> Self {
        let id = TransactionId(env::new_uuid().as_u128());
        let transaction = Transaction { id, read_version: base.snapshot.version, steps: vec![] };
        let (minted, reads) = (Minted::default(), BTreeSet::new());
        Target { log, working: base.clone(), base, minted, transaction, maps: vec![], reads, objects: vec![], lease }
    }

    /// The table's folder.
    pub(super) fn label(&self) -> &str {
        self.log.store().label()
    }

    /// The version of the table that the transaction read, if this is its table.
    pub(super) fn read_version(&self, log: &VersionLog) -> Option<u64> {
        (self.log.store().label() == log.store().label()).then_some(self.transaction.read_version)
    }

    /// Refuses another table than this one.
    pub(super) fn check_table(&self, log: &VersionLog) -> Result<()> {
        if self.log.store().label() == log.store().label() {
            return Ok(());
        }
        let what = format!("a transaction that changes '{}' and '{}'", self.log.table(), log.table());
        Err(Error::unsupported(what, Some("change one table per transaction")))
    }

    /// The target after one more statement.
    pub(super) async fn append(
        mut self,
        log: &Arc<VersionLog>,
        step: Step,
        maps: Vec<Arc<AddressMap>>,
        (objects, reads): (Vec<ObjectName>, &BTreeSet<FieldId>),
    ) -> Result<Self> {
        self.check_table(log)?;
        let localised = self.localise(step);
        self.transaction.steps.push(localised);
        self.maps.extend(maps);
        self.reads.extend(reads);
        self.objects.extend(objects);
        let (working, minted) = preview(&self.log, &self.base, &self.transaction, &self.maps).await?;
        self.working = Arc::new(working);
        self.minted = minted;
        Ok(self)
    }

    /// A statement's actions in the transaction's own terms: its tokens follow those of the earlier statements, and
    /// provisional ids are tokens.
    fn localise(&self, mut step: Step) -> Step {
        let fragments: BTreeMap<FragmentId, Token> = self.minted.fragments.iter().map(|(token, id)| (*id, *token)).collect();
        let fields: BTreeMap<FieldId, Token> = self.minted.fields.iter().map(|(token, id)| (*id, *token)).collect();
        let bases: BTreeMap<BaseId, Token> = self.minted.bases.iter().map(|(token, id)| (*id, *token)).collect();
        let (next_fragment, next_field) = (self.transaction.next_fragment_token().0, self.transaction.next_field_token().0);
        let next_base = self.transaction.next_base_token().0;
        let fragment = |reference: &mut FragmentRef| {
            *reference = match *reference {
                Ref::Local(token) => Ref::Local(Token(token.0 + next_fragment)),
                Ref::Committed(id) => fragments.get(&id).map_or(Ref::Committed(id), |token| Ref::Local(*token)),
            }
        };
        let field = |reference: &mut FieldRef| {
            *reference = match *reference {
                Ref::Local(token) => Ref::Local(Token(token.0 + next_field)),
                Ref::Committed(id) => fields.get(&id).map_or(Ref::Committed(id), |token| Ref::Local(*token)),
            }
        };
        let base = |reference: &mut BaseRef| {
            *reference = match *reference {
                Ref::Local(token) => Ref::Local(Token(token.0 + next_base)),
                Ref::Committed(id) => bases.get(&id).map_or(Ref::Committed(id), |token| Ref::Local(*token)),
            }
        };
        for action in &mut step.actions {
            match action {
                Action::AddFragment(add) => fragment(&mut add.id),
                Action::AddDataFile(add) => {
                    fragment(&mut add.fragment);
                    add.fields.iter_mut().flatten().for_each(field);
                    add.base.as_mut().into_iter().for_each(base);
                }
                Action::RemoveFragment(remove) => fragment(&mut remove.fragment),
                Action::SetDeletionFile(set) => fragment(&mut set.fragment),
                Action::ChangeOfAddress(change) => change.sources.iter_mut().chain(&mut change.targets).for_each(fragment),
                Action::AddField(add) => {
                    field(&mut add.id);
                    add.parent.as_mut().into_iter().chain(&mut add.in_place_of).for_each(field);
                }
                Action::AlterField(alter) => {
                    field(&mut alter.field);
                    alter.parent.as_mut().into_iter().for_each(field);
                }
                Action::DropField(drop) => field(&mut drop.field),
                Action::TombstoneFieldData(tombstone) => {
                    fragment(&mut tombstone.fragment);
                    tombstone.fields.iter_mut().for_each(field);
                }
                Action::AssertUniqueKeys(assert) => assert.fields.iter_mut().for_each(field),
                Action::AddBase(add) => add.token = Token(add.token.0 + next_base),
                Action::ConfigUpdate(_) | Action::ReserveFragmentIds(_) | Action::ResetTable(_) => {}
            }
        }
        step
    }

    /// What is to be committed, having read this.
    pub(super) fn into_staged(mut self, reads: Vec<Arc<Read>>, key_reads: Vec<Arc<Read>>) -> StagedStatement {
        if faulty::is(Fault::DropLastStep) && self.transaction.steps.len() > 1 {
            self.transaction.steps.pop();
        }
        // A column of its own has an id that another one may be given: it says nothing of others' rows.
        let own: BTreeSet<FieldId> = self.minted.fields.values().copied().collect();
        let asserted =
            |read: Arc<Read>| -> Arc<dyn ReadAssertion> { if read.fields.is_disjoint(&own) { read } else { Arc::new(read.of_all_rows()) } };
        // Files of fragments that came and went stay among the objects, so that they are removed.
        let (transaction, maps) = normalise::vanish(self.transaction, self.maps);
        // A transaction that says nothing new takes its place where it read.
        let reads = if transaction.changes_data() { reads } else { vec![] };
        let reads = reads.into_iter().map(asserted).collect();
        let key_reads = key_reads.into_iter().map(asserted).collect();
        let (log, fields_read, lease) = (self.log, self.reads, self.lease);
        let staged = Staged { transaction, maps, objects: self.objects, fields_read, reads, key_reads, gathering: None };
        StagedStatement { log, staged, lease }
    }
}

/// The version that a transaction would make of its base, under ids that may come out otherwise.
pub(super) async fn preview(
    log: &VersionLog,
    base: &Version,
    transaction: &Transaction,
    maps: &[Arc<AddressMap>],
) -> Result<(Version, Minted)> {
    let broken = |reason: String| Error::internal(format!("the open transaction on table '{}': {reason}", log.table()));
    let mut before = base.snapshot.clone();
    let rebase = Rebase::new(transaction.clone(), maps).map_err(|c| broken(c.coordinate))?;
    let rebased = log.finish(&rebase, &mut before).await?.map_err(|c| broken(c.coordinate))?;
    let mut present = BTreeMap::new();
    let needed = rebase::vectors_needed(&rebased);
    before = log.load_fragments(&before, &needed).await?;
    for id in needed {
        if let Some(fragment) = before.fragments.get(id)? {
            present.insert(id, (*log.deleted_rows(fragment).await?).clone());
        }
    }
    let settled = rebase::settle(rebased, present);
    let applied = log.apply(&mut before, &settled, base.snapshot.version + 1).await?;
    let (mut snapshot, minted) = applied.map_err(|e| broken(e.to_string()))?;
    snapshot.fragments = snapshot.fragments.without_records();
    Ok((Version { snapshot, transactions: vec![], time_ms: base.time_ms, writer: base.writer.clone() }, minted))
}
