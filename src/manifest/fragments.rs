//! The fragments of a table: immutable pages, overridden by a tail of the latest changes.
//!
//! A commit publishes the tail and the names of the pages, so its bytes grow with the change and not with the table.
//! When the tail passes its bound, [`FragmentSet::fold`] makes new pages of what it touches.
//!
//! Always holds: pages are sorted by fragment id and do not overlap; a fragment's record in the tail, or its removal
//! there, is newer than the one in a page.

use crate::table::fragment::Fragment;
use crate::table::row_address::FragmentId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many records a tail holds at most before it is folded.
pub const MAX_TAIL_RECORDS: usize = 256;
/// How many bytes of rows a tail holds at most before it is folded: every version writes them again.
pub const MAX_TAIL_INLINE_BYTES: u64 = 128 * 1024;
/// How many records a page holds at most.
pub const MAX_PAGE_RECORDS: usize = 1024;
/// How many bytes of rows a page holds at most, unless one fragment alone has more.
pub const MAX_PAGE_INLINE_BYTES: u64 = 1024 * 1024;

/// A page as a manifest names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRef {
    /// The object's name within the table folder.
    pub path: String,
    /// Its length.
    pub size_bytes: u64,
    /// Its CRC-32C.
    pub crc32c: u32,
    /// The smallest fragment id in it.
    pub first: FragmentId,
    /// The largest fragment id in it.
    pub last: FragmentId,
    /// How many fragments it holds.
    pub fragments: u32,
    /// How many rows they have, deleted ones not counted.
    pub live_rows: u64,
}

/// A page and its records, sorted by id.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Its name; `None` for a page that is still to be written.
    pub reference: Option<PageRef>,
    /// Its records.
    pub fragments: Arc<Vec<Arc<Fragment>>>,
}

/// The fragments of a version.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FragmentSet {
    pages: Vec<Page>,
    /// `None` removes the record of a page.
    tail: BTreeMap<FragmentId, Option<Arc<Fragment>>>,
}

impl FragmentSet {
    /// Puts a set together from what a manifest says.
    pub fn new(pages: Vec<Page>, tail: BTreeMap<FragmentId, Option<Arc<Fragment>>>) -> Self {
        FragmentSet { pages, tail }
    }

    /// The pages.
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// The tail: records newer than the pages, and removals.
    pub fn tail(&self) -> &BTreeMap<FragmentId, Option<Arc<Fragment>>> {
        &self.tail
    }

    /// The fragment of that id.
    pub fn get(&self, id: FragmentId) -> Option<&Arc<Fragment>> {
        match self.tail.get(&id) {
            Some(record) => record.as_ref(),
            None => self.paged(id),
        }
    }

    fn paged(&self, id: FragmentId) -> Option<&Arc<Fragment>> {
        let after = self.pages.partition_point(|page| page.fragments.first().is_some_and(|first| first.id <= id));
        let page = self.pages.get(after.checked_sub(1)?)?;
        let at = page.fragments.binary_search_by_key(&id, |fragment| fragment.id).ok()?;
        page.fragments.get(at)
    }

    /// Adds a fragment or replaces its record.
    pub fn put(&mut self, fragment: Arc<Fragment>) {
        self.tail.insert(fragment.id, Some(fragment));
    }

    /// Removes a fragment.
    pub fn remove(&mut self, id: FragmentId) {
        if self.paged(id).is_some() {
            self.tail.insert(id, None);
        } else {
            self.tail.remove(&id);
        }
    }

    /// All fragments, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Fragment>> {
        let mut paged = self.pages.iter().flat_map(|page| page.fragments.iter()).peekable();
        let mut tail = self.tail.iter().peekable();
        std::iter::from_fn(move || {
            loop {
                match (paged.peek(), tail.peek()) {
                    (Some(page), Some((id, _))) if page.id < **id => return paged.next(),
                    (paged_next, Some((id, _))) => {
                        if paged_next.is_some_and(|page| page.id == **id) {
                            paged.next();
                        }
                        if let Some((_, Some(fragment))) = tail.next() {
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
        let paged: usize = self.pages.iter().map(|page| page.fragments.len()).sum();
        let tail: isize = self.tail.iter().map(|(id, record)| isize::from(record.is_some()) - isize::from(self.paged(*id).is_some())).sum();
        paged.saturating_add_signed(tail)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many rows they have, deleted ones not counted.
    pub fn live_rows(&self) -> u64 {
        self.iter().map(|fragment| u64::from(fragment.live_rows())).sum()
    }

    /// Whether the tail has passed its bound.
    pub fn needs_fold(&self) -> bool {
        self.tail.len() > MAX_TAIL_RECORDS || self.tail.values().flatten().map(|f| f.inline_bytes()).sum::<u64>() > MAX_TAIL_INLINE_BYTES
    }

    /// The same fragments with an empty tail: pages that the tail touches are made anew (without a name yet), the others
    /// stay as they are.
    pub fn fold(&self) -> FragmentSet {
        let mut pages = Vec::with_capacity(self.pages.len() + 1);
        let mut tail = self.tail.iter().peekable();
        for (at, page) in self.pages.iter().enumerate() {
            // Records after this page and before the next belong to it; those after the last page too.
            let until = self.pages.get(at + 1).and_then(|next| next.fragments.first()).map(|fragment| fragment.id);
            let mut records: BTreeMap<FragmentId, Arc<Fragment>> = BTreeMap::new();
            let mut touched = false;
            while let Some((id, record)) = tail.next_if(|(id, _)| until.is_none_or(|until| **id < until)) {
                if !touched {
                    records.extend(page.fragments.iter().map(|fragment| (fragment.id, fragment.clone())));
                    touched = true;
                }
                match record {
                    Some(fragment) => records.insert(*id, fragment.clone()),
                    None => records.remove(id),
                };
            }
            if touched {
                split(records.into_values().collect(), &mut pages);
            } else {
                pages.push(page.clone());
            }
        }
        split(tail.filter_map(|(_, record)| record.clone()).collect(), &mut pages);
        FragmentSet { pages, tail: BTreeMap::new() }
    }
}

/// Cuts records into pages that are not yet named.
fn split(records: Vec<Arc<Fragment>>, into: &mut Vec<Page>) {
    let mut page = Vec::new();
    let mut inline_bytes = 0;
    let mut close = |page: Vec<Arc<Fragment>>| into.push(Page { reference: None, fragments: Arc::new(page) });
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
mod tests {
    use super::*;
    use crate::table::fragment::DataFile;

    fn fragment(id: u32, rows: u32) -> Arc<Fragment> {
        Arc::new(Fragment { id: FragmentId(id), physical_rows: rows, files: vec![], deletions: None, created_at: 1, updated_at: 1 })
    }

    fn ids(set: &FragmentSet) -> Vec<(u32, u32)> {
        set.iter().map(|fragment| (fragment.id.0, fragment.physical_rows)).collect()
    }

    #[test]
    fn fold_changes_nothing_that_can_be_seen() {
        let mut set = FragmentSet::default();
        let mut model = BTreeMap::new();
        for round in 0..6u32 {
            for id in 0..700 {
                match (id * 7 + round * 13) % 5 {
                    0 => {
                        set.remove(FragmentId(id));
                        model.remove(&id);
                    }
                    1 | 2 => {
                        set.put(fragment(id, round));
                        model.insert(id, round);
                    }
                    _ => {}
                }
            }
            let expected: Vec<(u32, u32)> = model.iter().map(|(id, rows)| (*id, *rows)).collect();
            assert_eq!(ids(&set), expected, "round {round}, before the fold");
            set = set.fold();
            assert!(set.tail().is_empty());
            assert_eq!(ids(&set), expected, "round {round}, after the fold");
            assert_eq!(set.len(), expected.len());
            assert!(expected.iter().all(|(id, _)| set.get(FragmentId(*id)).is_some()));
        }
    }

    #[test]
    fn rows_that_manifests_hold_are_folded_by_their_bytes() {
        let with_rows = |id: u32, bytes: usize| {
            let file = DataFile { inline: Some(vec![0; bytes].into()), ..DataFile::default() };
            Arc::new(Fragment { files: vec![file], ..fragment(id, 1).as_ref().clone() })
        };
        let mut set = FragmentSet::default();
        set.put(with_rows(0, MAX_TAIL_INLINE_BYTES as usize));
        assert!(!set.needs_fold());
        set.put(with_rows(1, 1));
        assert!(set.needs_fold());
        (2..50).for_each(|id| set.put(with_rows(id, 60_000)));
        let folded = set.fold();
        let pages = folded.pages().iter().map(|page| page.fragments.iter().map(|fragment| fragment.inline_bytes()).sum::<u64>());
        let pages: Vec<u64> = pages.collect();
        assert_eq!(pages.iter().sum::<u64>(), MAX_TAIL_INLINE_BYTES + 1 + 48 * 60_000);
        assert!(pages.len() == 3 && pages.iter().all(|bytes| *bytes <= MAX_PAGE_INLINE_BYTES), "{pages:?}");
        assert_eq!(folded.len(), 50);
    }

    #[test]
    fn fold_leaves_untouched_pages_alone() {
        let mut set = FragmentSet::default();
        (0..5000).for_each(|id| set.put(fragment(id, 1)));
        let mut set = set.fold();
        let before: Vec<_> = set.pages().iter().map(|page| page.fragments.clone()).collect();
        assert_eq!(before.len(), 5);
        set.put(fragment(2050, 9));
        let after = set.fold();
        let kept = after.pages().iter().filter(|page| before.iter().any(|old| Arc::ptr_eq(old, &page.fragments))).count();
        assert_eq!((after.pages().len(), kept), (5, 4));
    }
}
