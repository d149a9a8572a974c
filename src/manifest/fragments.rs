//! The fragments of a table: immutable pages, overridden by a tail of the latest changes.
//!
//! A commit publishes the tail and the name of the page index, so its bytes grow with the change and not with the table.
//! When the tail passes its bound, [`FragmentSet::fold`] makes new pages of what it touches.
//!
//! A set knows how much it holds without its pages. Whoever asks for fragments of a page that is not in memory gets
//! [`NotLoaded`], which says what to load ([`log`](super::log)); never an answer that leaves them out.
//!
//! Always holds: pages are sorted by fragment id and do not overlap; a fragment's record in the tail, or its removal
//! there, is newer than the one in a page, and says how many live rows that one has.

use super::pages::{IndexRef, Page, Records};
use crate::error::Error;
use crate::table::fragment::Fragment;
use crate::table::row_address::FragmentId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many records a tail holds at most before it is folded.
pub const MAX_TAIL_RECORDS: usize = 256;
/// How many bytes, roughly, a tail has at most before it is folded: every version writes them again.
pub const MAX_TAIL_BYTES: u64 = 96 * 1024;
/// How many records a page holds at most.
pub const MAX_PAGE_RECORDS: usize = 1024;
/// How many bytes of rows a page holds at most, unless one fragment alone has more.
pub const MAX_PAGE_INLINE_BYTES: u64 = 1024 * 1024;

/// Something was asked for that is not in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotLoaded {
    /// The page that may hold this fragment.
    #[error("the page of fragment {0} is not loaded")]
    Fragment(FragmentId),
    /// All pages.
    #[error("not all pages are loaded")]
    All,
}

impl From<NotLoaded> for Error {
    fn from(error: NotLoaded) -> Self {
        Error::internal(error.to_string())
    }
}

/// A record of the tail.
#[derive(Debug, Clone, PartialEq)]
pub struct TailRecord {
    /// The fragment; `None` if it was removed.
    pub fragment: Option<Arc<Fragment>>,
    /// The live rows of the record that a page has of it; `None` if no page has one.
    pub hidden: Option<u32>,
}

/// The fragments of a version.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FragmentSet {
    pages: Pages,
    tail: BTreeMap<FragmentId, TailRecord>,
}

/// The pages of a version, as far as they are known.
#[derive(Debug, Clone, PartialEq)]
enum Pages {
    /// The index is not in memory.
    Named(Arc<IndexRef>),
    /// `index` is `None` if there is none, or if it is still to be written.
    Listed { index: Option<Arc<IndexRef>>, pages: Arc<Vec<Page>> },
}

impl Default for Pages {
    fn default() -> Self {
        Pages::Listed { index: None, pages: Arc::default() }
    }
}

impl FragmentSet {
    /// A set as a manifest has it: nothing but the tail is in memory.
    pub fn named(index: Option<IndexRef>, tail: BTreeMap<FragmentId, TailRecord>) -> Self {
        FragmentSet { pages: index.map_or_else(Pages::default, |index| Pages::Named(Arc::new(index))), tail }
    }

    /// A set of these pages, which `index` lists, and no tail.
    pub fn listed(index: Option<IndexRef>, pages: Vec<Page>) -> Self {
        FragmentSet { pages: Pages::Listed { index: index.map(Arc::new), pages: Arc::new(pages) }, tail: BTreeMap::new() }
    }

    /// The name of the page index, if it has one.
    pub fn index(&self) -> Option<&Arc<IndexRef>> {
        match &self.pages {
            Pages::Named(index) => Some(index),
            Pages::Listed { index, .. } => index.as_ref(),
        }
    }

    /// The pages, if the index is in memory.
    pub fn pages(&self) -> Result<&[Page], NotLoaded> {
        match &self.pages {
            Pages::Named(_) => Err(NotLoaded::All),
            Pages::Listed { pages, .. } => Ok(pages),
        }
    }

    /// The tail: records newer than the pages, and removals.
    pub fn tail(&self) -> &BTreeMap<FragmentId, TailRecord> {
        &self.tail
    }

    /// The same with these pages, listed by its index or loaded from those.
    pub fn with_pages(&self, pages: Arc<Vec<Page>>) -> Self {
        FragmentSet { pages: Pages::Listed { index: self.index().cloned(), pages }, tail: self.tail.clone() }
    }

    /// The same with the pages of `other`, a set that differs in its tail and in what is in memory only.
    pub fn with_pages_of(&self, other: &FragmentSet) -> Self {
        FragmentSet { pages: other.pages.clone(), tail: self.tail.clone() }
    }

    /// The same without the records of pages that can be read again.
    pub fn without_records(&self) -> Self {
        let Pages::Listed { index, pages } = &self.pages else { return self.clone() };
        if pages.iter().all(|page| page.reference.is_none() || page.records.is_none()) {
            return self.clone();
        }
        let pages = pages.iter().map(|page| match &page.reference {
            Some(reference) => Page::named(reference.clone()),
            None => page.clone(),
        });
        FragmentSet { pages: Pages::Listed { index: index.clone(), pages: Arc::new(pages.collect()) }, tail: self.tail.clone() }
    }

    /// The fragment of that id.
    pub fn get(&self, id: FragmentId) -> Result<Option<&Arc<Fragment>>, NotLoaded> {
        match self.tail.get(&id) {
            Some(record) => Ok(record.fragment.as_ref()),
            None => self.paged(id),
        }
    }

    fn paged(&self, id: FragmentId) -> Result<Option<&Arc<Fragment>>, NotLoaded> {
        let Some(page) = self.page_of(id)? else { return Ok(None) };
        let Some(page) = self.pages()?.get(page) else { return Ok(None) };
        let records = page.records.as_ref().ok_or(NotLoaded::Fragment(id))?;
        Ok(records.binary_search_by_key(&id, |fragment| fragment.id).ok().and_then(|at| records.get(at)))
    }

    /// The position of the page that may hold a fragment; `None` if none does.
    fn page_of(&self, id: FragmentId) -> Result<Option<usize>, NotLoaded> {
        if self.index().is_some_and(|index| id > index.last) {
            return Ok(None);
        }
        let pages = self.pages().map_err(|_| NotLoaded::Fragment(id))?;
        let after = pages.partition_point(|page| page.first().is_some_and(|first| first <= id));
        let before = after.checked_sub(1);
        Ok(before.filter(|at| pages.get(*at).and_then(|page| page.reference.as_ref()).is_none_or(|page| id <= page.last)))
    }

    /// Which pages have to be in memory so that [`FragmentSet::get`] of these ids answers, now and whatever is done to them; `None` if
    /// that is none.
    pub fn pages_of(&self, ids: impl IntoIterator<Item = FragmentId>) -> Result<Option<Vec<bool>>, NotLoaded> {
        let mut wanted: Option<Vec<bool>> = None;
        // A record that hides none may be gone with the next change.
        for id in ids.into_iter().filter(|id| self.tail.get(id).is_none_or(|record| record.hidden.is_none())) {
            let Some(at) = self.page_of(id)? else { continue };
            let pages = self.pages()?;
            if pages.get(at).is_some_and(|page| page.records.is_none())
                && let Some(wanted) = wanted.get_or_insert_with(|| vec![false; pages.len()]).get_mut(at)
            {
                *wanted = true;
            }
        }
        Ok(wanted)
    }

    /// Adds a fragment or replaces its record.
    pub fn put(&mut self, fragment: Arc<Fragment>) -> Result<(), NotLoaded> {
        let hidden = self.hidden(fragment.id)?;
        self.tail.insert(fragment.id, TailRecord { fragment: Some(fragment), hidden });
        Ok(())
    }

    /// Removes a fragment.
    pub fn remove(&mut self, id: FragmentId) -> Result<(), NotLoaded> {
        let hidden = self.hidden(id)?;
        match hidden {
            Some(_) => self.tail.insert(id, TailRecord { fragment: None, hidden }),
            None => self.tail.remove(&id),
        };
        Ok(())
    }

    fn hidden(&self, id: FragmentId) -> Result<Option<u32>, NotLoaded> {
        match self.tail.get(&id) {
            Some(record) => Ok(record.hidden),
            None => Ok(self.paged(id)?.map(|fragment| fragment.live_rows())),
        }
    }

    /// All fragments, by id.
    pub fn iter(&self) -> Result<impl Iterator<Item = &Arc<Fragment>>, NotLoaded> {
        let pages = self.pages()?;
        let records = pages.iter().map(|page| page.records.as_ref()).collect::<Option<Vec<&Records>>>().ok_or(NotLoaded::All)?;
        Ok(self.over(records))
    }

    /// The fragments of these pages, and all of the tail, by id.
    pub fn of_pages(&self, wanted: &[bool]) -> Result<impl Iterator<Item = &Arc<Fragment>>, NotLoaded> {
        let pages = self.pages()?.iter().zip(wanted).filter(|(_, wanted)| **wanted);
        let records = pages.map(|(page, _)| page.records.as_ref()).collect::<Option<Vec<&Records>>>().ok_or(NotLoaded::All)?;
        Ok(self.over(records))
    }

    /// The fragments of the tail that `before`, which has the same pages or none, does not have.
    pub fn added_since<'a>(&'a self, before: &'a FragmentSet) -> impl Iterator<Item = &'a Arc<Fragment>> {
        let is_new = |id: &FragmentId| before.tail.get(id).is_none_or(|record| record.fragment.is_none());
        let records = self.tail.iter().filter(move |(id, record)| record.hidden.is_none() && is_new(id));
        records.filter_map(|(_, record)| record.fragment.as_ref())
    }

    /// The tail over the records of some pages.
    fn over<'a>(&'a self, pages: Vec<&'a Records>) -> impl Iterator<Item = &'a Arc<Fragment>> {
        let mut paged = pages.into_iter().flat_map(|records| records.iter()).peekable();
        let mut tail = self.tail.iter().peekable();
        std::iter::from_fn(move || {
            loop {
                match (paged.peek(), tail.peek()) {
                    (Some(page), Some((id, _))) if page.id < **id => return paged.next(),
                    (paged_next, Some((id, _))) => {
                        if paged_next.is_some_and(|page| page.id == **id) {
                            paged.next();
                        }
                        if let Some((_, TailRecord { fragment: Some(fragment), .. })) = tail.next() {
                            return Some(fragment);
                        }
                    }
                    (_, None) => return paged.next(),
                }
            }
        })
    }

    /// How many fragments there are.
    pub fn len(&self) -> usize {
        let tail = self.tail.values().map(|record| isize::from(record.fragment.is_some()) - isize::from(record.hidden.is_some()));
        (self.paged_counts().0 as usize).saturating_add_signed(tail.sum())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many rows they have, deleted ones not counted.
    pub fn live_rows(&self) -> u64 {
        let live = |record: &TailRecord| record.fragment.as_ref().map_or(0, |fragment| i64::from(fragment.live_rows()));
        let tail = self.tail.values().map(|record| live(record) - i64::from(record.hidden.unwrap_or(0)));
        self.paged_counts().1.saturating_add_signed(tail.sum())
    }

    /// The fragments in pages and their live rows, those that the tail hides too.
    fn paged_counts(&self) -> (u64, u64) {
        match &self.pages {
            Pages::Named(index) | Pages::Listed { index: Some(index), .. } => (u64::from(index.fragments), index.live_rows),
            Pages::Listed { index: None, pages } => {
                pages.iter().map(Page::counts).fold((0, 0), |(count, rows), page| (count + page.0, rows + page.1))
            }
        }
    }

    /// Whether the tail has passed its bound.
    pub fn needs_fold(&self) -> bool {
        let bytes = || self.tail.values().map(|record| record.fragment.as_ref().map_or(0, |fragment| fragment.record_bytes())).sum::<u64>();
        self.tail.len() > MAX_TAIL_RECORDS || bytes() > MAX_TAIL_BYTES
    }

    /// Which pages [`FragmentSet::fold`] makes anew: they have to be in memory.
    pub fn pages_to_fold(&self) -> Result<Vec<bool>, NotLoaded> {
        let pages = self.pages()?;
        let mut touched = vec![false; pages.len()];
        let mut tail = self.tail.keys().peekable();
        for (at, touched) in touched.iter_mut().enumerate() {
            let until = pages.get(at + 1).and_then(Page::first);
            while tail.next_if(|id| until.is_none_or(|until| **id < until)).is_some() {
                *touched = true;
            }
        }
        Ok(touched)
    }

    /// The same fragments with an empty tail: pages that the tail touches are made anew (without a name yet), the others
    /// stay as they are. (Records after a page and before the next belong to it; those after the last page too.)
    pub fn fold(&self) -> Result<FragmentSet, NotLoaded> {
        let (old, touched) = (self.pages()?, self.pages_to_fold()?);
        let mut pages = Vec::with_capacity(old.len() + 1);
        let mut tail = self.tail.iter().peekable();
        for (at, (page, touched)) in old.iter().zip(touched).enumerate() {
            if !touched {
                pages.push(page.clone());
                continue;
            }
            let until = old.get(at + 1).and_then(Page::first);
            let records = page.records.as_ref().ok_or(NotLoaded::All)?;
            let mut records: BTreeMap<FragmentId, Arc<Fragment>> = records.iter().map(|fragment| (fragment.id, fragment.clone())).collect();
            while let Some((id, record)) = tail.next_if(|(id, _)| until.is_none_or(|until| **id < until)) {
                match &record.fragment {
                    Some(fragment) => records.insert(*id, fragment.clone()),
                    None => records.remove(id),
                };
            }
            split(records.into_values().collect(), &mut pages);
        }
        split(tail.filter_map(|(_, record)| record.fragment.clone()).collect(), &mut pages);
        Ok(FragmentSet::listed(None, pages))
    }
}

/// Cuts records into pages that are not yet named.
fn split(records: Vec<Arc<Fragment>>, into: &mut Vec<Page>) {
    let mut page = Vec::new();
    let mut inline_bytes = 0;
    let mut close = |page: Vec<Arc<Fragment>>| into.push(Page::unnamed(page));
    for record in records {
        let more = record.inline_bytes();
        if page.len() == MAX_PAGE_RECORDS || !page.is_empty() && inline_bytes + more > MAX_PAGE_INLINE_BYTES {
            close(std::mem::take(&mut page));
            inline_bytes = 0;
        }
        inline_bytes += more;
        page.push(record);
    }
    if !page.is_empty() {
        close(page);
    }
}

#[cfg(test)]
mod tests;
