//! From bytes to values: the only way in for bytes that amend stored, or that someone else did.
//!
//! In goes an object as the store returned it, out comes a value, or an error that says whether the object is damaged or
//! newer than this build. A manifest is enough to know the version, its schema and how much it holds; the page index, pages and
//! spilled transactions are decoded one by one, when they are needed.
//!
//! Always holds: memory stays in proportion to the bytes and to [`Limits`]; nothing that is not known is skipped, except
//! what is marked as informative; ids are sorted and unique, sums agree, no name leads out of the table folder.

use super::check::{bounds_in_order, check_base, check_fields};
use super::fragments::{FragmentSet, TailRecord};
use super::frame::{self, FRAME_BYTES, Kind};
use super::pages::{self, IndexRef, PageRef, Records};
use super::record::{id_from_wire, required};
use super::shape::{self, Shape};
use super::snapshot::{Counters, Snapshot};
use super::version::{TransactionsRef, Version};
use super::wire;
use crate::table::fragment::{Base, BaseId, Fragment};
use crate::table::row_address::{FragmentId, MAX_ROWS_PER_FRAGMENT};
use crate::table::schema::{Field, FieldId, TableSchema};
use crate::table::stats::ColumnStats;
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
    /// The index of the pages, which is still to be read; `None` if there are none.
    pub pages: Option<IndexRef>,
    /// The records newer than the pages, and removals.
    pub tail: BTreeMap<FragmentId, TailRecord>,
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
        pages: manifest.pages.map(|index| index_ref(index, limits)).transpose()?,
        tail: tail(manifest.tail)?,
        transactions: transactions(required(manifest.transactions, "the transactions")?, limits)?,
        unknown_writer_features: manifest.writer_features.into_iter().filter(|name| !KNOWN_FEATURES.contains(&name.as_str())).collect(),
    };
    decoded.check()?;
    Ok(decoded)
}

/// The pages that an index lists, which a manifest names.
pub fn decode_index(object: &[u8], reference: &IndexRef, limits: &Limits) -> Result<Vec<Arc<PageRef>>, DecodeError> {
    let payload = frame::open_named(Kind::PageIndex, object, reference.size_bytes, reference.crc32c, limits.page_bytes)?;
    let index: wire::PageIndex = message(payload, &shape::PAGE_INDEX)?;
    let pages = page_refs(index.pages, limits)?;
    let fragments: u64 = pages.iter().map(|page| u64::from(page.fragments)).sum();
    let live_rows = pages.iter().try_fold(0u64, |sum, page| sum.checked_add(page.live_rows));
    let as_named = pages.len() as u64 == u64::from(reference.pages)
        && pages.last().map(|page| page.last) == Some(reference.last)
        && fragments == u64::from(reference.fragments)
        && live_rows == Some(reference.live_rows);
    if as_named { Ok(pages) } else { Err(DecodeError::damaged("it lists other pages than its manifest says")) }
}

/// The fragments of the page that an index names.
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
    let rows: u64 = fragments.iter().map(|fragment| u64::from(fragment.physical_rows)).sum();
    let as_named = (first, last) == (Some(reference.first), Some(reference.last))
        && fragments.len() as u64 == u64::from(reference.fragments)
        && (rows, live_rows) == (reference.rows, reference.live_rows);
    if !as_named {
        return Err(DecodeError::damaged("it holds other fragments than its index says"));
    }
    match pages::summaries(&fragments, reference.summaries.keys().copied()) == reference.summaries {
        true => Ok(fragments),
        false => Err(DecodeError::damaged("its index has another summary of it")),
    }
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

    /// The version, out of the manifest, and its decoded transactions if they are outside.
    pub fn into_version(mut self, spilled: Option<Vec<CommittedTransaction>>) -> Result<Version, DecodeError> {
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
        Ok(Version { snapshot: self.into_snapshot(), transactions, time_ms, writer })
    }

    /// The table's state, out of the manifest: its pages are not loaded.
    pub fn into_snapshot(self) -> Snapshot {
        Snapshot {
            version: self.version,
            table_id: self.table_id,
            schema: self.schema,
            counters: self.counters,
            config: self.config,
            bases: self.bases,
            fragments: FragmentSet::named(self.pages, self.tail),
            low_water_mark: self.low_water_mark,
            swept_ms: self.swept_ms,
        }
    }

    /// What holds between the parts of a manifest.
    fn check(&self) -> Result<(), DecodeError> {
        if self.pages.as_ref().is_some_and(|index| index.last >= self.counters.fragment) {
            return Err(DecodeError::damaged("a page holds fragments that were never given out"));
        }
        let (last, mut fragments, mut live_rows) =
            self.pages.as_ref().map_or((None, 0, 0), |index| (Some(index.last), index.fragments, index.live_rows));
        for (id, record) in &self.tail {
            if let Some(fragment) = &record.fragment {
                self.check_fragment(fragment)?;
            }
            let Some(hidden) = record.hidden else { continue };
            let left = (fragments.checked_sub(1), live_rows.checked_sub(u64::from(hidden)));
            let ((Some(fragments_left), Some(rows_left)), true) = (left, last.is_some_and(|last| *id <= last)) else {
                return Err(DecodeError::damaged(format!("it replaces or removes fragment {id}, which no page holds")));
            };
            (fragments, live_rows) = (fragments_left, rows_left);
        }
        match &self.transactions {
            Transactions::Inline(transactions) => self.check_transactions(transactions),
            Transactions::Object(_) => Ok(()),
        }
    }

    fn check_fragment(&self, fragment: &Fragment) -> Result<(), DecodeError> {
        check_fragment_of(fragment, self.version, self.counters, &self.bases)
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

/// Refuses the records of a page that this version cannot have, or that its tail says otherwise of.
pub fn check_page(snapshot: &Snapshot, page: &PageRef, records: &Records) -> Result<(), DecodeError> {
    for fragment in records.iter() {
        check_fragment_of(fragment, snapshot.version, snapshot.counters, &snapshot.bases)?;
    }
    for (id, record) in snapshot.fragments.tail().range(page.first..=page.last) {
        let at = records.binary_search_by_key(id, |fragment| fragment.id).ok();
        if at.and_then(|at| records.get(at)).map(|fragment| fragment.live_rows()) != record.hidden {
            return Err(DecodeError::damaged(format!(
                "it has another fragment {id} than the manifest of version {} says",
                snapshot.version
            )));
        }
    }
    Ok(())
}

/// Refuses a fragment that a version cannot have.
fn check_fragment_of(fragment: &Fragment, version: u64, counters: Counters, bases: &BTreeMap<BaseId, Base>) -> Result<(), DecodeError> {
    let fields = fragment.files.iter().flat_map(|file| &file.columns).filter_map(|column| column.field);
    if fragment.id >= counters.fragment || fields.into_iter().any(|field| field >= counters.field) {
        return Err(DecodeError::damaged(format!("fragment {} or a field in it was never given out", fragment.id)));
    }
    if let Some(file) = fragment.files.iter().find(|file| file.base.is_some_and(|base| !bases.contains_key(&base))) {
        return Err(DecodeError::damaged(format!("'{}' lies in a base that the table does not have", file.path)));
    }
    if fragment.updated_at > version {
        return Err(DecodeError::damaged(format!("fragment {} was updated in version {}", fragment.id, fragment.updated_at)));
    }
    Ok(())
}

/// Refuses foreign bytes of the wrong shape, then decodes them.
pub(super) fn message<M: prost::Message + Default>(payload: &[u8], shape: &Shape) -> Result<M, DecodeError> {
    shape::check(payload, shape)?;
    M::decode(payload).map_err(|error| DecodeError::damaged(error.to_string()))
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

fn index_ref(index: wire::IndexRef, limits: &Limits) -> Result<IndexRef, DecodeError> {
    check_path(&index.path).map_err(DecodeError::Damaged)?;
    let index = IndexRef {
        path: index.path,
        size_bytes: index.size_bytes,
        crc32c: index.crc32c,
        pages: index.pages,
        last: FragmentId(index.last),
        fragments: index.fragments,
        live_rows: index.live_rows,
    };
    let adds_up = (FRAME_BYTES as u64..=limits.page_bytes).contains(&index.size_bytes)
        && (1..=index.fragments).contains(&index.pages)
        && index.last <= FragmentId::MAX
        && index.fragments - 1 <= index.last.0
        && index.live_rows <= u64::from(index.fragments) * MAX_ROWS_PER_FRAGMENT;
    match adds_up {
        true => Ok(index),
        false => Err(DecodeError::damaged(format!("the numbers of the page index '{}' do not add up", index.path))),
    }
}

fn page_refs(pages: Vec<wire::PageRef>, limits: &Limits) -> Result<Vec<Arc<PageRef>>, DecodeError> {
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
            && page.rows <= most_rows
            && page.live_rows <= page.rows;
        if !adds_up {
            return Err(DecodeError::damaged(format!("the numbers of page '{}' do not add up", page.path)));
        }
        last = Some(FragmentId(page.last));
        let mut summaries = BTreeMap::new();
        for summary in page.summaries {
            let (field, stats) = <(FieldId, ColumnStats)>::try_from(summary)?;
            let follows = summaries.last_key_value().is_none_or(|(last, _)| *last < field);
            if !follows || field.0 < 1 || !bounds_in_order(&stats) || summaries.len() == pages::MAX_SUMMARIES {
                return Err(DecodeError::damaged(format!("the summary of field {field} in page '{}' does not add up", page.path)));
            }
            summaries.insert(field, stats);
        }
        references.push(Arc::new(PageRef {
            path: page.path,
            size_bytes: page.size_bytes,
            crc32c: page.crc32c,
            first: FragmentId(page.first),
            last: FragmentId(page.last),
            fragments: page.fragments,
            rows: page.rows,
            live_rows: page.live_rows,
            summaries,
        }));
    }
    Ok(references)
}

fn tail(records: Vec<wire::TailRecord>) -> Result<BTreeMap<FragmentId, TailRecord>, DecodeError> {
    use wire::tail_record::Record;
    let mut tail = BTreeMap::new();
    for record in records {
        let (id, fragment, hidden) = match required(record.record, "a record of the tail")? {
            Record::Added(fragment) => (fragment.id, Some(fragment), None),
            Record::Replaced(wire::Replacement { fragment, hidden_live_rows }) => {
                let fragment = required(fragment, "the fragment of a record of the tail")?;
                (fragment.id, Some(fragment), Some(hidden_live_rows))
            }
            Record::Removed(wire::Removal { id, hidden_live_rows }) => (id, None, Some(hidden_live_rows)),
        };
        let id = FragmentId(id);
        let fragment = fragment.map(Fragment::try_from).transpose()?.map(Arc::new);
        follows(tail.last_key_value().map(|(last, _)| *last), id)?;
        tail.insert(id, TailRecord { fragment, hidden });
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
