//! From values to bytes: manifests, pages, files of transactions.
//!
//! ```text
//!   1  encode_page          for every page without a name     -> write it, then name it with EncodedPage::reference
//!   2  encode_index         if there is a new page            -> write it, then name it with EncodedIndex::reference
//!   3  encode_transactions  if it does not fit inline         -> write it, then name it with EncodedTransactions::reference
//!   4  encode_manifest      of a version whose page index has a name
//! ```
//!
//! Always holds: every object is read back before it is returned, so nothing is published that this build could not read
//! or would read as something else; equal values give equal bytes.

use super::decode::{
    DEFAULT_LIMITS, DecodeError, DecodedManifest, Transactions, decode_index, decode_manifest, decode_page, decode_transactions,
};
use super::fragments::TailRecord;
use super::frame::{self, Kind};
use super::pages::{self, IndexRef, PageRef};
use super::record::id_to_wire;
use super::version::{TransactionsRef, Version};
use super::wire;
use crate::error::Error;
use crate::table::fragment::Fragment;
use crate::table::row_address::FragmentId;
use crate::table::schema::FieldId;
use crate::txn::action::Action;
use crate::txn::composite::{CommittedTransaction, TransactionId};
use bytes::Bytes;
use prost::Message;
use std::sync::Arc;

/// How many bytes of transactions a manifest holds at most; more go into an object of their own.
pub const MAX_INLINE_TRANSACTIONS_BYTES: usize = 64 << 10;
/// How many bytes of rows those may hold besides: a small statement makes one object.
const MAX_INLINE_ROWS_BYTES: usize = 96 << 10;

/// Why a value cannot be written: it breaks a rule that every reader checks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct EncodeError {
    reason: String,
}

impl EncodeError {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        EncodeError { reason: reason.into() }
    }

    /// The error of a caller who knows which object it was: what amend built is not sound.
    pub fn of(self, object: &str) -> Error {
        Error::internal(format!("'{object}' cannot be written: {}", self.reason))
    }
}

impl From<DecodeError> for EncodeError {
    fn from(error: DecodeError) -> Self {
        EncodeError::new(error.to_string())
    }
}

/// A page to write.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedPage {
    /// The object.
    pub bytes: Bytes,
    unnamed: PageRef,
}

impl EncodedPage {
    /// The page as the index names it, once it is written under `path`.
    pub fn reference(&self, path: impl Into<String>) -> PageRef {
        PageRef { path: path.into(), ..self.unnamed.clone() }
    }
}

/// The page of these fragments, which are sorted by id, with summaries of some fields.
pub fn encode_page(fragments: &[Arc<Fragment>], summarised: &[FieldId]) -> Result<EncodedPage, EncodeError> {
    let (Some(first), Some(last)) = (fragments.first(), fragments.last()) else {
        return Err(EncodeError::new("a page without fragments"));
    };
    let page = wire::Page { fragments: fragments.iter().map(|fragment| (&**fragment).into()).collect() };
    let bytes = frame::seal(Kind::Page, &page.encode_to_vec());
    let unnamed = PageRef {
        path: String::new(),
        size_bytes: bytes.len() as u64,
        crc32c: frame::checksum(&bytes).unwrap_or_default(),
        first: first.id,
        last: last.id,
        fragments: fragments.len() as u32,
        rows: fragments.iter().map(|fragment| u64::from(fragment.physical_rows)).sum(),
        live_rows: fragments.iter().map(|fragment| u64::from(fragment.live_rows())).sum(),
        summaries: pages::summaries(fragments, summarised.iter().copied()),
    };
    same(&decode_page(&bytes, &unnamed, &DEFAULT_LIMITS)?[..], fragments, "fragments")?;
    Ok(EncodedPage { bytes, unnamed })
}

/// A page index to write.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedIndex {
    /// The object.
    pub bytes: Bytes,
    unnamed: IndexRef,
}

impl EncodedIndex {
    /// The index as a manifest names it, once it is written under `path`.
    pub fn reference(&self, path: impl Into<String>) -> IndexRef {
        IndexRef { path: path.into(), ..self.unnamed.clone() }
    }
}

/// The index of these pages, which are sorted by their ids.
pub fn encode_index(pages: &[Arc<PageRef>]) -> Result<EncodedIndex, EncodeError> {
    let Some(last) = pages.last() else { return Err(EncodeError::new("an index without pages")) };
    let fragments: u64 = pages.iter().map(|page| u64::from(page.fragments)).sum();
    let index = wire::PageIndex { pages: pages.iter().map(|page| (&**page).into()).collect() };
    let bytes = frame::seal(Kind::PageIndex, &index.encode_to_vec());
    let unnamed = IndexRef {
        path: String::new(),
        size_bytes: bytes.len() as u64,
        crc32c: frame::checksum(&bytes).unwrap_or_default(),
        pages: pages.len() as u32,
        last: last.last,
        fragments: u32::try_from(fragments).map_err(|_| EncodeError::new("more fragments than there are ids"))?,
        live_rows: pages.iter().map(|page| page.live_rows).sum(),
    };
    same(&decode_index(&bytes, &unnamed, &DEFAULT_LIMITS)?[..], pages, "pages")?;
    Ok(EncodedIndex { bytes, unnamed })
}

/// A file of transactions to write, if they do not fit into a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedTransactions {
    /// The object.
    pub bytes: Bytes,
    /// How many of the bytes are rows.
    rows_bytes: usize,
    unnamed: TransactionsRef,
}

impl EncodedTransactions {
    /// Whether they have to be an object of their own.
    pub fn needs_object(&self) -> bool {
        are_too_large(self.bytes.len().saturating_sub(frame::FRAME_BYTES), self.rows_bytes)
    }

    /// The object as a manifest names it, once it is written under `path`.
    pub fn reference(&self, path: impl Into<String>) -> TransactionsRef {
        TransactionsRef { path: path.into(), ..self.unnamed.clone() }
    }
}

/// The transactions of one version.
pub fn encode_transactions(transactions: &[CommittedTransaction]) -> Result<EncodedTransactions, EncodeError> {
    let bytes = frame::seal(Kind::Transactions, &transactions_to_wire(transactions).encode_to_vec());
    let unnamed = TransactionsRef {
        path: String::new(),
        size_bytes: bytes.len() as u64,
        crc32c: frame::checksum(&bytes).unwrap_or_default(),
        ids: ids(transactions),
    };
    same(&decode_transactions(&bytes, &unnamed, &DEFAULT_LIMITS)?[..], transactions, "transactions")?;
    Ok(EncodedTransactions { bytes, rows_bytes: rows_bytes(transactions), unnamed })
}

/// A manifest to write.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedManifest {
    /// The object.
    pub bytes: Bytes,
    /// How many of its bytes the tail takes.
    pub tail_bytes: usize,
}

/// The manifest of a version, the page index of which has a name. `spilled` names its transactions if they are an object of
/// their own, which they must be when [`EncodedTransactions::needs_object`].
pub fn encode_manifest(version: &Version, spilled: Option<&TransactionsRef>) -> Result<EncodedManifest, EncodeError> {
    let Version { snapshot, transactions, time_ms, writer } = version;
    let index = snapshot.fragments.index();
    if index.is_none() && snapshot.fragments.pages().is_ok_and(|pages| !pages.is_empty()) {
        return Err(EncodeError::new("pages that have no name yet"));
    }
    let tail = snapshot.fragments.tail().iter().map(|(id, record)| tail_record(*id, record));
    let tail = tail.collect::<Result<Vec<wire::TailRecord>, _>>()?;
    let tail_bytes = tail.iter().map(Message::encoded_len).sum();
    let manifest = wire::Manifest {
        version: snapshot.version,
        table_id: id_to_wire(snapshot.table_id),
        time_ms: *time_ms,
        writer: writer.clone(),
        reader_features: Vec::new(),
        writer_features: Vec::new(),
        fields: snapshot.schema.fields().iter().map(Into::into).collect(),
        counters: Some(wire::Counters {
            fragment: snapshot.counters.fragment.0,
            field: snapshot.counters.field.0,
            base: snapshot.counters.base.0,
        }),
        config: snapshot.config.clone(),
        low_water_mark: snapshot.low_water_mark,
        swept_ms: snapshot.swept_ms,
        pages: index.map(|index| (&**index).into()),
        tail,
        transactions: Some(place(transactions, spilled)?),
        bases: snapshot
            .bases
            .iter()
            .map(|(id, base)| wire::Base { id: id.0, name: base.name.clone(), location: base.location.clone() })
            .collect(),
    };
    let bytes = frame::seal(Kind::Manifest, &manifest.encode_to_vec());
    let written = DecodedManifest {
        version: snapshot.version,
        table_id: snapshot.table_id,
        time_ms: *time_ms,
        writer: writer.clone(),
        schema: snapshot.schema.clone(),
        counters: snapshot.counters,
        config: snapshot.config.clone(),
        bases: snapshot.bases.clone(),
        low_water_mark: snapshot.low_water_mark,
        swept_ms: snapshot.swept_ms,
        pages: index.map(|index| (**index).clone()),
        tail: snapshot.fragments.tail().clone(),
        transactions: spilled.map_or_else(|| Transactions::Inline(transactions.clone()), |object| Transactions::Object(object.clone())),
        unknown_writer_features: Vec::new(),
    };
    same(&decode_manifest(&bytes, &DEFAULT_LIMITS)?, &written, "parts")?;
    same(&written.transaction_ids(), &ids(transactions), "transactions")?;
    Ok(EncodedManifest { bytes, tail_bytes })
}

/// What was read back must be what was written.
pub(super) fn same<T: PartialEq + ?Sized>(read: &T, written: &T, what: &str) -> Result<(), EncodeError> {
    if read == written { Ok(()) } else { Err(EncodeError::new(format!("its {what} are read back as something else"))) }
}

/// Whether transactions of so many bytes, of which some are rows, are too large to be in a manifest.
fn are_too_large(bytes: usize, rows_bytes: usize) -> bool {
    bytes.saturating_sub(rows_bytes.min(MAX_INLINE_ROWS_BYTES)) > MAX_INLINE_TRANSACTIONS_BYTES
}

/// The bytes of rows that transactions hold.
fn rows_bytes(transactions: &[CommittedTransaction]) -> usize {
    let actions = transactions.iter().flat_map(|committed| committed.transaction.actions());
    actions.filter_map(Action::added_file).filter_map(|file| file.inline.as_ref()).map(Bytes::len).sum()
}

fn ids(transactions: &[CommittedTransaction]) -> Vec<TransactionId> {
    transactions.iter().map(|committed| committed.transaction.id).collect()
}

fn transactions_to_wire(transactions: &[CommittedTransaction]) -> wire::CommittedTransactions {
    wire::CommittedTransactions { transactions: transactions.iter().map(Into::into).collect() }
}

fn place(transactions: &[CommittedTransaction], spilled: Option<&TransactionsRef>) -> Result<wire::Transactions, EncodeError> {
    use wire::transactions::Place;
    let place = match spilled {
        Some(object) => Place::Object(wire::TransactionsRef {
            path: object.path.clone(),
            size_bytes: object.size_bytes,
            crc32c: object.crc32c,
            ids: object.ids.iter().map(|id| id_to_wire(id.0)).collect(),
        }),
        None => {
            let inline = transactions_to_wire(transactions);
            if are_too_large(inline.encoded_len(), rows_bytes(transactions)) {
                return Err(EncodeError::new("transactions that are too large to be in a manifest"));
            }
            Place::Inline(inline)
        }
    };
    Ok(wire::Transactions { place: Some(place) })
}

fn tail_record(id: FragmentId, record: &TailRecord) -> Result<wire::TailRecord, EncodeError> {
    use wire::tail_record::Record;
    let record = match (record.fragment.as_deref(), record.hidden) {
        (Some(fragment), None) => Record::Added(fragment.into()),
        (Some(fragment), Some(hidden_live_rows)) => {
            Record::Replaced(wire::Replacement { fragment: Some(fragment.into()), hidden_live_rows })
        }
        (None, Some(hidden_live_rows)) => Record::Removed(wire::Removal { id: id.0, hidden_live_rows }),
        (None, None) => return Err(EncodeError::new(format!("the removal of fragment {id}, which no page holds"))),
    };
    Ok(wire::TailRecord { record: Some(record) })
}

#[cfg(test)]
mod tests;
