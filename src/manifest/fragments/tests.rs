//! Pages and tails against plain maps: what is folded, what is counted, and what is refused where a page is not in memory.

use super::*;
use crate::manifest::pages::PageRef;
use crate::table::fragment::DataFile;

fn fragment(id: u32, rows: u32) -> Arc<Fragment> {
    Arc::new(Fragment { id: FragmentId(id), physical_rows: rows, files: vec![], deletions: None, created_at: 1, updated_at: 1 })
}

fn ids(set: &FragmentSet) -> Vec<(u32, u32)> {
    set.iter().unwrap().map(|fragment| (fragment.id.0, fragment.physical_rows)).collect()
}

/// The set as it is when its pages have been written; with their records or without.
fn written(set: &FragmentSet, with_records: bool) -> FragmentSet {
    let named = |(at, page): (usize, &Page)| {
        let records = page.records.as_ref().unwrap();
        let (fragments, live_rows) = page.counts();
        let reference = PageRef {
            path: format!("_pages/{at}.page"),
            size_bytes: 100,
            crc32c: 0,
            first: page.first().unwrap(),
            last: records.last().unwrap().id,
            fragments: fragments as u32,
            rows: live_rows,
            live_rows,
            summaries: BTreeMap::new(),
        };
        Page { reference: Some(Arc::new(reference)), records: with_records.then(|| records.clone()) }
    };
    let pages: Vec<Page> = set.pages().unwrap().iter().enumerate().map(named).collect();
    let last = pages.last().and_then(|page| page.reference.as_ref()).map(|page| page.last);
    let (fragments, live_rows) = pages.iter().map(Page::counts).fold((0, 0), |sum, page| (sum.0 + page.0, sum.1 + page.1));
    let index = last.map(|last| IndexRef {
        path: "_pages/a.index".into(),
        size_bytes: 100,
        crc32c: 0,
        pages: pages.len() as u32,
        last,
        fragments: fragments as u32,
        live_rows,
    });
    FragmentSet::listed(index, pages)
}

#[test]
fn fold_changes_nothing_that_can_be_seen() {
    let mut set = FragmentSet::default();
    let mut model = BTreeMap::new();
    for round in 0..6u32 {
        for id in 0..700 {
            match (id * 7 + round * 13) % 5 {
                0 => {
                    set.remove(FragmentId(id)).unwrap();
                    model.remove(&id);
                }
                1 | 2 => {
                    set.put(fragment(id, round)).unwrap();
                    model.insert(id, round);
                }
                _ => {}
            }
        }
        let expected: Vec<(u32, u32)> = model.iter().map(|(id, rows)| (*id, *rows)).collect();
        let live: u64 = model.values().map(|rows| u64::from(*rows)).sum();
        let holds = |set: &FragmentSet, when: &str| {
            assert_eq!(ids(set), expected, "round {round}, {when}");
            assert_eq!((set.len(), set.live_rows()), (expected.len(), live), "round {round}, {when}");
            assert!(expected.iter().all(|(id, _)| set.get(FragmentId(*id)).unwrap().is_some()));
        };
        holds(&set, "before the fold");
        set = set.fold().unwrap();
        assert!(set.tail().is_empty());
        holds(&set, "after the fold");
        set = written(&set, true);
        holds(&set, "written");
    }
}

#[test]
fn counts_need_no_page_and_fragments_do() {
    let mut whole = FragmentSet::default();
    (0..5000).filter(|id| id % 2 == 0).for_each(|id| whole.put(fragment(id, 3)).unwrap());
    let whole = written(&whole.fold().unwrap(), true);
    let bare = written(&whole, false);
    let index = (**bare.index().unwrap()).clone();
    let named = FragmentSet::named(Some(index), BTreeMap::new());
    for set in [&bare, &named] {
        assert_eq!((set.len(), set.live_rows()), (2500, 7500));
        assert_eq!(set.get(FragmentId(2100)), Err(NotLoaded::Fragment(FragmentId(2100))));
        assert_eq!(set.get(FragmentId(2101)), Err(NotLoaded::Fragment(FragmentId(2101))), "it may be there");
        assert_eq!(set.get(FragmentId(4999)), Ok(None), "after the last one");
        assert!(set.iter().is_err());
        let mut set = set.clone();
        assert!(set.put(fragment(2100, 1)).is_err() && set.remove(FragmentId(2100)).is_err());
        set.put(fragment(5001, 4)).unwrap();
        assert_eq!((set.len(), set.live_rows()), (2501, 7504));
        set.remove(FragmentId(5001)).unwrap();
        assert_eq!((set.len(), set.tail().len()), (2500, 0));
    }
    assert_eq!(named.pages_of([FragmentId(2100)]), Err(NotLoaded::Fragment(FragmentId(2100))));
    assert_eq!(named.pages_of([FragmentId(4999)]), Ok(None));
    let wanted = bare.pages_of([2100, 2102, 4999].map(FragmentId)).unwrap().unwrap();
    assert_eq!(wanted, [false, true, false]);
    let pages = bare.pages().unwrap().iter().zip(whole.pages().unwrap()).zip(&wanted);
    let loaded = bare.with_pages(Arc::new(pages.map(|((bare, whole), wanted)| if *wanted { whole } else { bare }.clone()).collect()));
    assert_eq!(loaded.get(FragmentId(2100)).unwrap().unwrap().physical_rows, 3);
    assert_eq!(loaded.get(FragmentId(2101)), Ok(None));
    assert!(loaded.get(FragmentId(0)).is_err() && loaded.iter().is_err());
    let mut changed = loaded.clone();
    changed.put(fragment(2100, 1)).unwrap();
    changed.remove(FragmentId(2102)).unwrap();
    changed.put(fragment(6000, 2)).unwrap();
    assert_eq!((changed.len(), changed.live_rows()), (2500, 7500 - 2 - 3 + 2));
    let found: Vec<u32> =
        changed.of_pages(&wanted).unwrap().map(|fragment| fragment.id.0).filter(|id| (2098..2106).contains(id) || *id > 5000).collect();
    assert_eq!(found, [2098, 2100, 2104, 6000]);
    assert!(changed.of_pages(&[true, true, false]).is_err());
    assert_eq!(changed.added_since(&loaded).map(|fragment| fragment.id.0).collect::<Vec<_>>(), [6000]);
    // The last page takes what comes after it.
    assert_eq!(changed.pages_to_fold().unwrap(), [false, true, true]);
    assert!(changed.fold().is_err());
    let mut bare_again = changed.without_records();
    assert_eq!(bare_again.get(FragmentId(2104)), Err(NotLoaded::Fragment(FragmentId(2104))));
    assert_eq!(bare_again.get(FragmentId(2100)).unwrap().unwrap().physical_rows, 1);
    bare_again.remove(FragmentId(2100)).unwrap();
    assert_eq!((bare_again.len(), bare_again.live_rows()), (2499, 7500 - 3 - 3 + 2));
    assert_eq!(bare_again.with_pages_of(&whole).fold().unwrap().len(), 2499);
}

#[test]
fn a_tail_is_folded_by_its_bytes_and_pages_are_cut_by_their_rows() {
    let with_rows = |id: u32, bytes: usize| {
        let file = DataFile { inline: Some(vec![0; bytes].into()), ..DataFile::default() };
        Arc::new(Fragment { files: vec![file], ..fragment(id, 1).as_ref().clone() })
    };
    let mut set = FragmentSet::default();
    set.put(with_rows(0, MAX_TAIL_BYTES as usize - 1000)).unwrap();
    assert!(!set.needs_fold());
    set.put(with_rows(1, 1000)).unwrap();
    assert!(set.needs_fold());
    (2..50).for_each(|id| set.put(with_rows(id, 60_000)).unwrap());
    let folded = set.fold().unwrap();
    let inline_bytes =
        |page: &Page| page.records.iter().flat_map(|records| records.iter()).map(|fragment| fragment.inline_bytes()).sum::<u64>();
    let pages: Vec<u64> = folded.pages().unwrap().iter().map(inline_bytes).collect();
    assert_eq!(pages.iter().sum::<u64>(), MAX_TAIL_BYTES + 48 * 60_000);
    assert!(pages.len() == 3 && pages.iter().all(|bytes| *bytes <= MAX_PAGE_INLINE_BYTES), "{pages:?}");
    assert_eq!(folded.len(), 50);
}

#[test]
fn fold_leaves_untouched_pages_alone() {
    let mut set = FragmentSet::default();
    (0..5000).for_each(|id| set.put(fragment(id, 1)).unwrap());
    let mut set = set.fold().unwrap();
    let before: Vec<Records> = set.pages().unwrap().iter().map(|page| page.records.clone().unwrap()).collect();
    assert_eq!(before.len(), 5);
    set.put(fragment(2050, 9)).unwrap();
    let after = set.fold().unwrap();
    let kept =
        after.pages().unwrap().iter().filter(|page| before.iter().any(|old| Arc::ptr_eq(old, page.records.as_ref().unwrap()))).count();
    assert_eq!((after.pages().unwrap().len(), kept), (5, 4));
}
