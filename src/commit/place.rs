//! Placing: vectors too large for a manifest go to one Puffin file, pages without a name get one, and an index that lists them.

use super::member::Candidate;
use crate::error::{Error, Result};
use crate::manifest::encode;
use crate::manifest::fragments::FragmentSet;
use crate::manifest::log::VersionLog;
use crate::manifest::pages::{Page, summarised};
use crate::manifest::snapshot::Snapshot;
use crate::store::{ObjectName, Store};
use crate::table::deletion_vector::DeletionFile;
use crate::table::puffin::PuffinWriter;
use crate::txn::action::{Action, SetDeletionFile};
use crate::txn::composite::CommittedTransaction;
use crate::txn::refs::FragmentRef;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Vectors of at most this many bytes stay in the manifest.
const MAX_INLINE_VECTOR_BYTES: usize = 1024;

/// Moves the large inline vectors of transactions that follow one another to one Puffin file, if there are any, and says so. A
/// vector of a fragment that is gone after the last of them stays. What is written is added to `written` first.
pub(super) async fn place_vectors(store: &Store, candidates: &mut [Candidate], written: &mut Vec<ObjectName>) -> Result<bool> {
    let is_large = |set: &SetDeletionFile| match &set.vector {
        Some(DeletionFile::Inline { blob, .. }) => blob.len() > MAX_INLINE_VECTOR_BYTES,
        Some(DeletionFile::Puffin { .. }) | None => false,
    };
    let actions = candidates.iter().flat_map(|candidate| candidate.committed.transaction.actions());
    let any_large = actions.filter_map(Action::deletion).any(is_large);
    let Some(after) = candidates.last().filter(|_| any_large).map(|last| last.after.clone()) else { return Ok(false) };
    let name = ObjectName::new_deletions();
    let mut puffin = PuffinWriter::new();
    let mut any = false;
    for CommittedTransaction { transaction, minted, .. } in candidates.iter_mut().map(|candidate| &mut candidate.committed) {
        let mut placed: BTreeMap<FragmentRef, DeletionFile> = BTreeMap::new();
        for action in transaction.steps.iter_mut().flat_map(|step| &mut step.actions) {
            let Action::SetDeletionFile(set) = action else { continue };
            let Some(DeletionFile::Inline { blob, cardinality }) = &set.vector else { continue };
            let Some(id) = minted.fragment(set.fragment) else { continue };
            let fragment = after.fragments.get(id)?;
            let Some(fragment) = fragment.filter(|_| blob.len() > MAX_INLINE_VECTOR_BYTES) else { continue };
            let file = placed.entry(set.fragment).or_insert_with(|| {
                let data_file = fragment.files.first().map_or("", |file| file.path.as_str());
                let (offset, length) = puffin.add(blob, fragment.id, *cardinality, data_file);
                DeletionFile::Puffin {
                    path: name.as_str().to_owned(),
                    offset,
                    length,
                    cardinality: *cardinality,
                    crc32c: crate::store::checksum::crc32c(blob),
                }
            });
            set.vector = Some(file.clone());
            any = true;
        }
    }
    if any {
        written.push(name.clone());
        store.write(&name, puffin.finish()).await?;
    }
    Ok(any)
}

/// Folds a tail that has passed its bound, and writes the pages that are new, and their index; their names are added to `written` first.
pub(super) async fn place_pages(log: &VersionLog, after: &Snapshot, written: &mut Vec<ObjectName>) -> Result<Option<FragmentSet>> {
    if !after.fragments.needs_fold() {
        return Ok(None);
    }
    let folded = log.load_for_fold(after).await?.fragments.fold()?;
    let fields = summarised(&after.schema, &after.config);
    let mut pages = Vec::with_capacity(folded.pages()?.len());
    for page in folded.pages()? {
        let records = match (&page.reference, &page.records) {
            (Some(reference), _) => {
                pages.push(reference.clone());
                continue;
            }
            (None, records) => records.as_ref().ok_or_else(|| Error::internal("a page that is to be written has no records"))?,
        };
        let name = ObjectName::new_page();
        let encoded = encode::encode_page(records, &fields).map_err(|error| error.of(name.as_str()))?;
        let reference = Arc::new(encoded.reference(name.as_str()));
        written.push(name.clone());
        log.store().write(&name, encoded.bytes).await?;
        log.keep_page(&reference, records);
        pages.push(reference);
    }
    if pages.is_empty() {
        return Ok(Some(FragmentSet::default()));
    }
    let name = ObjectName::new_page_index();
    let encoded = encode::encode_index(&pages).map_err(|error| error.of(name.as_str()))?;
    let reference = encoded.reference(name.as_str());
    written.push(name.clone());
    log.store().write(&name, encoded.bytes).await?;
    Ok(Some(FragmentSet::listed(Some(reference), pages.into_iter().map(Page::named).collect())))
}
