//! From bytes to values: the only way in for bytes that amend stored, or that someone else did.
//!
//! In goes an object as the store returned it, out comes a value, or an error that says whether the object is damaged or
//! newer than this build. A manifest is enough to know the version, its schema and the names of its pages; pages and
//! spilled transactions are decoded one by one and put together at the end.
//!
//! Always holds: memory stays in proportion to the bytes and to [`Limits`]; nothing that is not known is skipped, except
//! what is marked as informative; ids are sorted and unique, sums agree, no name leads out of the table folder.

use super::check::{check_base, check_fields};
use super::fragments::{FragmentSet, Page, PageRef};
use super::frame::{self, FRAME_BYTES, Kind};
use super::record::{id_from_wire, required};
use super::shape::{self, Shape};
use super::snapshot::{Counters, Snapshot};
use super::version::{TransactionsRef, Version};
use super::wire;
use crate::table::fragment::{Base, BaseId, Fragment};
use crate::table::row_address::{FragmentId, MAX_ROWS_PER_FRAGMENT};
use crate::table::schema::{Field, FieldId, TableSchema};
use crate::txn::composite::{CommittedTransaction, TransactionId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use super::check::check_path;
pub use super::frame::DecodeError;

/// The features that this build knows, beyond format version 1: so far there are none.
const KNOWN_FEATURES: &[&str] = &[];

/// How large objects may be, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A manifest, and a catalog.
    pub manifest_bytes: u64,
    /// A page.
    pub page_bytes: u64,
    /// A file of transactions.
    pub transactions_bytes: u64,
}

/// The limits of a table that sets none; writers keep them too.
pub const DEFAULT_LIMITS: Limits = Limits { manifest_bytes: 64 << 20, page_bytes: 64 << 20, transactions_bytes: 256 << 20 };

impl Default for Limits {
    fn default() -> Self {
        DEFAULT_LIMITS
    }
}

/// What a manifest says by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedManifest {
    /// The version; the caller holds it against the object's name.
    pub version: u64,
    /// The table's identity.
    pub table_id: u128,
    /// See [`Version::time_ms`].
    pub time_ms: u64,
    /// See [`Version::writer`].
    pub writer: String,
    /// The fields.
    pub schema: Arc<TableSchema>,
    /// The next ids.
    pub counters: Counters,
    /// Settings by name.
    pub config: BTreeMap<String, String>,
    /// Locations outside the table folder.
    pub bases: BTreeMap<BaseId, Base>,
    /// See [`Snapshot::low_water_mark`].
    pub low_water_mark: u64,
    /// See [`Snapshot::swept_ms`].
    pub swept_ms: u64,
    /// The pages, sorted; still to be read.
    pub pages: Vec<PageRef>,
    /// The records newer than the pages, and removals.
    pub tail: BTreeMap<FragmentId, Option<Arc<Fragment>>>,
    /// The transactions of this version.
    pub transactions: Transactions,
    /// What a writer would have to know and this build does not: reading is safe, writing is not.
    pub unknown_writer_features: Vec<String>,
}

/// The transactions of a version, or where they are.
#[derive(Debug, Clone, PartialEq)]
pub enum Transactions {
    /// In the manifest.
    Inline(Vec<CommittedTransaction>),
    /// In an object that is still to be read.
    Object(TransactionsRef),
}

/// The manifest in an object.
pub fn decode_manifest(object: &[u8], limits: &Limits) -> Result<DecodedManifest, DecodeError> {
    let payload = frame::open(Kind::Manifest, object, limits.manifest_bytes)?;
    shape::check_reader_features(payload, KNOWN_FEATURES)?;
    let manifest: wire::Manifest = message(payload, &shape::MANIFEST)?;
    let version = manifest.version;
    if version == u64::MAX {
        return Err(DecodeError::damaged("no version can follow this one"));
    }
    if version == 0 || manifest.low_water_mark == 0 || manifest.low_water_mark > version {
        return Err(DecodeError::damaged(format!("version {version} with low-water mark {}", manifest.low_water_mark)));
    }
    let counters = required(manifest.counters, "the counters")?;
    let counters = Counters { fragment: FragmentId(counters.fragment), field: FieldId(counters.field), base: BaseId(counters.base) };
    let fields = manifest.fields.into_iter().map(Field::try_from).collect::<Result<Vec<_>, _>>()?;
    check_fields(&fields, counters.field).map_err(DecodeError::Damaged)?;
    let decoded = DecodedManifest {
        version,
        table_id: id_from_wire(&manifest.table_id)?,
        time_ms: manifest.time_ms,
        writer: manifest.writer,
        schema: Arc::new(TableSchema::new(fields).map_err(DecodeError::Damaged)?),
        counters,
        config: manifest.config,
        bases: bases(manifest.bases, counters.base)?,
        low_water_mark: manifest.low_water_mark,
        swept_ms: manifest.swept_ms,
        pages: page_refs(manifest.pages, limits)?,
        tail: tail(manifest.tail)?,
        transactions: transactions(required(manifest.transactions, "the transactions")?, limits)?,
        unknown_writer_features: manifest.writer_features.into_iter().filter(|name| !KNOWN_FEATURES.contains(&name.as_str())).collect(),
    };
    decoded.check()?;
    Ok(decoded)
}

/// The fragments of the page that a manifest names.
pub fn decode_page(object: &[u8], reference: &PageRef, limits: &Limits) -> Result<Vec<Arc<Fragment>>, DecodeError> {
    let payload = frame::open_named(Kind::Page, object, reference.size_bytes, reference.crc32c, limits.page_bytes)?;
    let page: wire::Page = message(payload, &shape::PAGE)?;
    let mut fragments: Vec<Arc<Fragment>> = Vec::with_capacity(page.fragments.len());
    for fragment in page.fragments {
        let fragment = Fragment::try_from(fragment)?;
        follows(fragments.last().map(|last| last.id), fragment.id)?;
        fragments.push(Arc::new(fragment));
    }
    let (first, last) = (fragments.first().map(|first| first.id), fragments.last().map(|last| last.id));
    let live_rows: u64 = fragments.iter().map(|fragment| u64::from(fragment.live_rows())).sum();
    let as_named = (first, last) == (Some(reference.first), Some(reference.last))
        && fragments.len() as u64 == u64::from(reference.fragments)
        && live_rows == reference.live_rows;
    if as_named { Ok(fragments) } else { Err(DecodeError::damaged("it holds other fragments than its manifest says")) }
}

/// The transactions in the object that a manifest names.
pub fn decode_transactions(object: &[u8], reference: &TransactionsRef, limits: &Limits) -> Result<Vec<CommittedTransaction>, DecodeError> {
    let payload = frame::open_named(Kind::Transactions, object, reference.size_bytes, reference.crc32c, limits.transactions_bytes)?;
    let transactions = committed(message(payload, &shape::COMMITTED_TRANSACTIONS)?)?;
    match transactions.iter().map(|committed| committed.transaction.id).eq(reference.ids.iter().copied()) {
        true => Ok(transactions),
        false => Err(DecodeError::damaged("it holds other transactions than its manifest says")),
    }
}

impl DecodedManifest {
    /// The transactions of this version, in order: they say whose version it is.
    pub fn transaction_ids(&self) -> Vec<TransactionId> {
        match &self.transactions {
            Transactions::Inline(transactions) => transactions.iter().map(|committed| committed.transaction.id).collect(),
            Transactions::Object(reference) => reference.ids.clone(),
        }
    }

    /// The version, out of the manifest, its decoded pages in order, and its decoded transactions if they are outside.
    pub fn into_version(
        mut self,
        pages: Vec<Arc<Vec<Arc<Fragment>>>>,
        spilled: Option<Vec<CommittedTransaction>>,
    ) -> Result<Version, DecodeError> {
        let ids = self.transaction_ids();
        let inline = match &mut self.transactions {
            Transactions::Inline(transactions) => Some(std::mem::take(transactions)),
            Transactions::Object(_) => None,
        };
        let transactions = required(inline.or(spilled), "the file of transactions")?;
        if !transactions.iter().map(|committed| committed.transaction.id).eq(ids) {
            return Err(DecodeError::damaged("its transactions are others than it says"));
        }
        self.check_transactions(&transactions)?;
        let (time_ms, writer) = (self.time_ms, std::mem::take(&mut self.writer));
        Ok(Version { snapshot: self.into_snapshot(pages)?, transactions, time_ms, writer })
    }

    /// The table's state, out of the manifest and its decoded pages in order.
    pub fn into_snapshot(self, pages: Vec<Arc<Vec<Arc<Fragment>>>>) -> Result<Snapshot, DecodeError> {
        if pages.len() != self.pages.len() {
            return Err(DecodeError::damaged(format!("{} pages, of which {} were read", self.pages.len(), pages.len())));
        }
        for fragment in pages.iter().flat_map(|page| page.iter()) {
            self.check_fragment(fragment)?;
        }
        let removed = self.tail.iter().filter(|(_, record)| record.is_none()).map(|(id, _)| *id);
        let known = FragmentSet::new(named(&self.pages, &pages), BTreeMap::new());
        if let Some(id) = removed.into_iter().find(|id| known.get(*id).is_none()) {
            return Err(DecodeError::damaged(format!("it removes fragment {id}, which no page holds")));
        }
        Ok(Snapshot {
            version: self.version,
            table_id: self.table_id,
            schema: self.schema,
            counters: self.counters,
            config: self.config,
            bases: self.bases,
            fragments: FragmentSet::new(named(&self.pages, &pages), self.tail),
            low_water_mark: self.low_water_mark,
            swept_ms: self.swept_ms,
        })
    }

    /// What holds between the parts of a manifest.
    fn check(&self) -> Result<(), DecodeError> {
        if self.pages.last().is_some_and(|page| page.last >= self.counters.fragment) {
            return Err(DecodeError::damaged("a page holds fragments that were never given out"));
        }
        for (id, record) in &self.tail {
            match record {
                Some(fragment) => self.check_fragment(fragment)?,
                None if self.may_be_in_page(*id) => {}
                None => return Err(DecodeError::damaged(format!("it removes fragment {id}, which no page holds"))),
            }
        }
        match &self.transactions {
            Transactions::Inline(transactions) => self.check_transactions(transactions),
            Transactions::Object(_) => Ok(()),
        }
    }

    fn may_be_in_page(&self, id: FragmentId) -> bool {
        let at = self.pages.partition_point(|page| page.last < id);
        self.pages.get(at).is_some_and(|page| page.first <= id)
    }

    /// Refuses a fragment that this version cannot have.
    fn check_fragment(&self, fragment: &Fragment) -> Result<(), DecodeError> {
        let fields = fragment.files.iter().flat_map(|file| &file.columns).filter_map(|column| column.field);
        if fragment.id >= self.counters.fragment || fields.into_iter().any(|field| field >= self.counters.field) {
            return Err(DecodeError::damaged(format!("fragment {} or a field in it was never given out", fragment.id)));
        }
        if let Some(file) = fragment.files.iter().find(|file| file.base.is_some_and(|base| !self.bases.contains_key(&base))) {
            return Err(DecodeError::damaged(format!("'{}' lies in a base that the table does not have", file.path)));
        }
        if fragment.updated_at > self.version {
            return Err(DecodeError::damaged(format!("fragment {} was updated in version {}", fragment.id, fragment.updated_at)));
        }
        Ok(())
    }

    /// Refuses transactions that this version cannot have applied.
    fn check_transactions(&self, transactions: &[CommittedTransaction]) -> Result<(), DecodeError> {
        for CommittedTransaction { transaction, minted, .. } in transactions {
            let given_out = minted.fragments.values().all(|id| *id < self.counters.fragment)
                && minted.fields.values().all(|id| *id < self.counters.field)
                && minted.bases.values().all(|id| *id < self.counters.base);
            if transaction.read_version >= self.version || !given_out {
                return Err(DecodeError::damaged(format!("transaction {} is not one of this version", transaction.id)));
            }
        }
        Ok(())
    }
}

/// Refuses foreign bytes of the wrong shape, then decodes them.
pub(super) fn message<M: prost::Message + Default>(payload: &[u8], shape: &Shape) -> Result<M, DecodeError> {
    shape::check(payload, shape)?;
    M::decode(payload).map_err(|error| DecodeError::damaged(error.to_string()))
}

fn named(references: &[PageRef], pages: &[Arc<Vec<Arc<Fragment>>>]) -> Vec<Page> {
    let pages = references.iter().zip(pages);
    pages.map(|(reference, fragments)| Page { reference: Some(reference.clone()), fragments: fragments.clone() }).collect()
}

/// The bases by id: given out, and no two of one name or location.
fn bases(records: Vec<wire::Base>, next: BaseId) -> Result<BTreeMap<BaseId, Base>, DecodeError> {
    let mut bases: BTreeMap<BaseId, Base> = BTreeMap::new();
    let (mut names, mut locations) = (BTreeSet::new(), BTreeSet::new());
    for wire::Base { id, name, location } in records {
        let id = BaseId(id);
        let base = Base { name, location };
        check_base(&base).map_err(DecodeError::Damaged)?;
        let unique = base.name.iter().all(|name| names.insert(name.clone())) && locations.insert(base.location.clone());
        if !unique || id >= next || bases.last_key_value().is_some_and(|(last, _)| *last >= id) {
            return Err(DecodeError::damaged(format!("base {} was never given out, or is there twice", id.0)));
        }
        bases.insert(id, base);
    }
    Ok(bases)
}

/// Refuses ids that do not rise.
fn follows(last: Option<FragmentId>, next: FragmentId) -> Result<(), DecodeError> {
    match last {
        Some(last) if last >= next => Err(DecodeError::damaged(format!("fragment {next} comes after fragment {last}"))),
        _ => Ok(()),
    }
}

fn page_refs(pages: Vec<wire::PageRef>, limits: &Limits) -> Result<Vec<PageRef>, DecodeError> {
    let mut last = None;
    let mut references = Vec::with_capacity(pages.len());
    for page in pages {
        check_path(&page.path).map_err(DecodeError::Damaged)?;
        follows(last, FragmentId(page.first))?;
        let most_rows = u64::from(page.fragments) * MAX_ROWS_PER_FRAGMENT;
        let adds_up = (FRAME_BYTES as u64..=limits.page_bytes).contains(&page.size_bytes)
            && page.first <= page.last
            && FragmentId(page.last) <= FragmentId::MAX
            && (1..=shape::MAX_FRAGMENTS_IN_PAGE).contains(&page.fragments)
            && page.fragments - 1 <= page.last - page.first
            && page.live_rows <= most_rows;
        if !adds_up {
            return Err(DecodeError::damaged(format!("the numbers of page '{}' do not add up", page.path)));
        }
        last = Some(FragmentId(page.last));
        references.push(PageRef {
            path: page.path,
            size_bytes: page.size_bytes,
            crc32c: page.crc32c,
            first: FragmentId(page.first),
            last: FragmentId(page.last),
            fragments: page.fragments,
            live_rows: page.live_rows,
        });
    }
    Ok(references)
}

fn tail(records: Vec<wire::TailRecord>) -> Result<BTreeMap<FragmentId, Option<Arc<Fragment>>>, DecodeError> {
    use wire::tail_record::Record;
    let mut tail = BTreeMap::new();
    for record in records {
        let (id, record) = match required(record.record, "a record of the tail")? {
            Record::Put(fragment) => (FragmentId(fragment.id), Some(Arc::new(Fragment::try_from(fragment)?))),
            Record::Removed(id) => (FragmentId(id), None),
        };
        follows(tail.last_key_value().map(|(last, _)| *last), id)?;
        tail.insert(id, record);
    }
    Ok(tail)
}

fn transactions(transactions: wire::Transactions, limits: &Limits) -> Result<Transactions, DecodeError> {
    use wire::transactions::Place;
    match required(transactions.place, "the place of the transactions")? {
        Place::Inline(transactions) => committed(transactions).map(Transactions::Inline),
        Place::Object(object) => {
            check_path(&object.path).map_err(DecodeError::Damaged)?;
            let ids: Vec<_> = object.ids.iter().map(|id| id_from_wire(id).map(TransactionId)).collect::<Result<_, _>>()?;
            check_ids(&ids)?;
            if !(FRAME_BYTES as u64..=limits.transactions_bytes).contains(&object.size_bytes) {
                return Err(DecodeError::damaged(format!("'{}' of {} bytes", object.path, object.size_bytes)));
            }
            Ok(Transactions::Object(TransactionsRef { path: object.path, size_bytes: object.size_bytes, crc32c: object.crc32c, ids }))
        }
    }
}

fn committed(transactions: wire::CommittedTransactions) -> Result<Vec<CommittedTransaction>, DecodeError> {
    let transactions: Vec<_> = transactions.transactions.into_iter().map(CommittedTransaction::try_from).collect::<Result<_, _>>()?;
    check_ids(&transactions.iter().map(|committed| committed.transaction.id).collect::<Vec<_>>())?;
    Ok(transactions)
}

/// Refuses a list that names a transaction twice: it would have been applied twice.
fn check_ids(ids: &[TransactionId]) -> Result<(), DecodeError> {
    let mut seen = BTreeSet::new();
    match ids.iter().find(|id| !seen.insert(**id)) {
        Some(id) => Err(DecodeError::damaged(format!("transaction {id} is there twice"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
