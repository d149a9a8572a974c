//! Loading pages: the parts of a version that its manifest does not hold.
//!
//! ```text
//!   Snapshot as it was read ──> which pages? ──> the index, if the counts do not answer ──> those pages ──> Snapshot with them
//! ```
//!
//! Goes in: a snapshot and what is to be looked at. Comes out: the same snapshot with the pages for that in memory. Snapshots that are
//! kept have none; pages are kept by name, up to so many bytes.
//!
//! Always holds: what is loaded is held against the manifest and the index; a page that is kept is not read again.

use super::VersionLog;
use crate::error::Result;
use crate::manifest::decode::{self, DEFAULT_LIMITS, DecodedManifest};
use crate::manifest::fragments::{FragmentSet, NotLoaded};
use crate::manifest::pages::{IndexRef, Page, PageRef, Records};
use crate::manifest::reach;
use crate::manifest::snapshot::Snapshot;
use crate::table::fragment::Fragment;
use crate::table::row_address::FragmentId;
use futures::{FutureExt, StreamExt, TryStreamExt};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many pages are read at a time.
const CONCURRENT_READS: usize = 16;
/// How much larger records are in memory than in their object, roughly.
const RECORDS_IN_MEMORY: u64 = 4;

impl VersionLog {
    /// The snapshot with those pages in memory that `choose` wants besides those that are; `None` is none.
    pub async fn load(
        &self,
        snapshot: &Snapshot,
        choose: impl FnOnce(&FragmentSet) -> Result<Option<Vec<bool>>, NotLoaded>,
    ) -> Result<Snapshot> {
        let listed = self.listed(&snapshot.fragments).await?;
        let wanted = choose(&listed)?;
        let mut pages = listed.pages()?.to_vec();
        let missing =
            pages.iter().zip(wanted.iter().flatten()).enumerate().filter(|(_, (page, wanted))| **wanted && page.records.is_none());
        let missing: Vec<(usize, Arc<PageRef>)> =
            missing.filter_map(|(at, (page, _))| page.reference.clone().map(|reference| (at, reference))).collect();
        if missing.is_empty() {
            return Ok(Snapshot { fragments: listed, ..snapshot.clone() });
        }
        let reads = missing.into_iter().map(|(at, page)| async move {
            let records = self.page(&page).await?;
            decode::check_page(snapshot, &page, &records).map_err(|e| self.bad(&page.path, e))?;
            Ok::<_, crate::error::Error>((at, records))
        });
        let loaded: Vec<(usize, Records)> = futures::stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await?;
        for (at, records) in loaded {
            if let Some(page) = pages.get_mut(at) {
                page.records = Some(records);
            }
        }
        Ok(Snapshot { fragments: listed.with_pages(Arc::new(pages)), ..snapshot.clone() })
    }

    /// The snapshot with all pages in memory.
    pub async fn load_all(&self, snapshot: &Snapshot) -> Result<Snapshot> {
        self.load(snapshot, |set| Ok(Some(vec![true; set.pages()?.len()]))).await
    }

    /// The snapshot with the pages in memory that may hold these fragments.
    pub async fn load_fragments(&self, snapshot: &Snapshot, ids: &BTreeSet<FragmentId>) -> Result<Snapshot> {
        match snapshot.fragments.pages_of(ids.iter().copied()) {
            Ok(None) => Ok(snapshot.clone()),
            Ok(Some(_)) | Err(_) => self.load(snapshot, |set| set.pages_of(ids.iter().copied())).await,
        }
    }

    /// The snapshot with the pages in memory that a fold makes anew.
    pub async fn load_for_fold(&self, snapshot: &Snapshot) -> Result<Snapshot> {
        self.load(snapshot, |set| set.pages_to_fold().map(Some)).await
    }

    /// What `look` makes of the snapshot. Pages that it turns out to need are loaded into it.
    pub async fn load_for<T>(&self, snapshot: &mut Snapshot, look: impl Fn(&Snapshot) -> Result<T, NotLoaded>) -> Result<T> {
        loop {
            match look(snapshot) {
                Ok(seen) => return Ok(seen),
                Err(NotLoaded::Fragment(id)) => *snapshot = self.load_fragments(snapshot, &BTreeSet::from([id])).await?,
                Err(NotLoaded::All) => *snapshot = self.load_all(snapshot).await?,
            }
        }
    }

    /// The fragments in pages that `may_match` says yes to, and those of the tail, which nobody is asked about.
    pub async fn matching(&self, snapshot: &Snapshot, may_match: impl FnOnce(&[Arc<PageRef>]) -> Vec<bool>) -> Result<Vec<Arc<Fragment>>> {
        let listed = self.listed(&snapshot.fragments).await?;
        let pages: Vec<Arc<PageRef>> = listed.pages()?.iter().filter_map(|page| page.reference.clone()).collect();
        let mut answers = may_match(&pages).into_iter();
        // A page that is still to be written is in memory, and has no summary.
        let wanted = listed.pages()?.iter().map(|page| page.reference.is_none() || answers.next().unwrap_or(true));
        let wanted: Vec<bool> = wanted.collect();
        let loaded = self.load(&Snapshot { fragments: listed, ..snapshot.clone() }, |_| Ok(Some(wanted.clone()))).await?;
        Ok(loaded.fragments.of_pages(&wanted)?.cloned().collect())
    }

    /// The set with the list of its pages in memory.
    async fn listed(&self, fragments: &FragmentSet) -> Result<FragmentSet> {
        match (fragments.pages(), fragments.index()) {
            (Err(_), Some(index)) => Ok(fragments.with_pages(self.index(index).await?)),
            _ => Ok(fragments.clone()),
        }
    }

    /// The pages that an index lists.
    async fn index(&self, reference: &IndexRef) -> Result<Arc<Vec<Page>>> {
        if let Some(pages) = self.indexes.get(&reference.path) {
            return Ok(pages);
        }
        let bytes = self.object(&reference.path).await?;
        let pages = decode::decode_index(&bytes, reference, &DEFAULT_LIMITS).map_err(|e| self.bad(&reference.path, e))?;
        let pages: Arc<Vec<Page>> = Arc::new(pages.into_iter().map(Page::named).collect());
        self.indexes.keep(&reference.path, pages.clone(), reference.size_bytes * RECORDS_IN_MEMORY);
        Ok(pages)
    }

    /// The records of a page.
    async fn page(&self, reference: &PageRef) -> Result<Records> {
        if let Some(records) = self.pages.get(&reference.path) {
            return Ok(records);
        }
        let bytes = self.object(&reference.path).await?;
        let records = decode::decode_page(&bytes, reference, &DEFAULT_LIMITS).map_err(|e| self.bad(&reference.path, e))?;
        let records = Arc::new(records);
        self.keep_page(reference, &records);
        Ok(records)
    }

    /// Keeps the records of a page that was written.
    pub fn keep_page(&self, reference: &PageRef, records: &Records) {
        self.pages.keep(&reference.path, records.clone(), reference.size_bytes * RECORDS_IN_MEMORY);
    }

    /// The objects that a version needs, its manifest not among them; `None` if the manifest is not there.
    pub async fn objects_needed(&self, number: u64) -> Result<Option<BTreeSet<String>>> {
        let Some(decoded) = self.manifest(number).await? else { return Ok(None) };
        let mut needed = BTreeSet::new();
        reach::of_manifest(&decoded, &mut needed);
        let pages = self.pages_named(&decoded).await?;
        needed.extend(pages.iter().map(|page| page.path.clone()));
        let reads = pages.into_iter().map(|page| async move { self.page(&page).await }.boxed());
        let mut records = futures::stream::iter(reads).buffered(CONCURRENT_READS);
        while let Some(records) = records.try_next().await? {
            // The tail's records are newer.
            reach::of_fragments(records.iter().filter(|fragment| !decoded.tail.contains_key(&fragment.id)), &mut needed);
        }
        reach::of_transactions(&self.spilled(&decoded).await?.unwrap_or_default(), &mut needed);
        Ok(Some(needed))
    }

    /// The pages of a manifest.
    pub async fn pages_named(&self, manifest: &DecodedManifest) -> Result<Vec<Arc<PageRef>>> {
        let Some(index) = &manifest.pages else { return Ok(vec![]) };
        Ok(self.index(index).await?.iter().filter_map(|page| page.reference.clone()).collect())
    }
}
