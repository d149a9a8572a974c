//! Objects kept in memory by name, up to so many bytes; those that were not asked for longest go first.
//!
//! Goes in: an immutable object and what it weighs. Comes out: the same, while it is kept.
//! Always holds: what is kept weighs no more than the bound.

use super::lock;
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

/// Objects kept in memory.
#[derive(Debug)]
pub(super) struct Cache<V> {
    max_bytes: u64,
    kept: Mutex<Kept<V>>,
}

#[derive(Debug)]
struct Kept<V> {
    /// Each with its weight, and when it was asked for last.
    objects: HashMap<String, (V, u64, u64)>,
    /// The names by when they were asked for last.
    by_use: BTreeMap<u64, String>,
    bytes: u64,
    uses: u64,
}

impl<V: Clone> Cache<V> {
    pub fn new(max_bytes: u64) -> Self {
        Cache { max_bytes, kept: Mutex::new(Kept { objects: HashMap::new(), by_use: BTreeMap::new(), bytes: 0, uses: 0 }) }
    }

    pub fn get(&self, name: &str) -> Option<V> {
        let mut kept = lock(&self.kept);
        let kept = &mut *kept;
        let (object, _, used) = kept.objects.get_mut(name)?;
        kept.uses += 1;
        if let Some(name) = kept.by_use.remove(used) {
            kept.by_use.insert(kept.uses, name);
        }
        *used = kept.uses;
        Some(object.clone())
    }

    pub fn keep(&self, name: &str, object: V, bytes: u64) {
        let mut kept = lock(&self.kept);
        if bytes > self.max_bytes || kept.objects.contains_key(name) {
            return;
        }
        kept.uses += 1;
        let used = kept.uses;
        kept.objects.insert(name.to_owned(), (object, bytes, used));
        kept.by_use.insert(used, name.to_owned());
        kept.bytes += bytes;
        while kept.bytes > self.max_bytes {
            let Some((_, oldest)) = kept.by_use.pop_first() else { break };
            let gone = kept.objects.remove(&oldest).map_or(0, |(_, bytes, _)| bytes);
            kept.bytes = kept.bytes.saturating_sub(gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_longest_goes_first() {
        let cache = Cache::new(10);
        let kept = |cache: &Cache<u32>| ["a", "b", "c", "d"].map(|name| lock(&cache.kept).objects.get(name).map(|(object, ..)| *object));
        cache.keep("a", 1, 4);
        cache.keep("b", 2, 4);
        assert_eq!(cache.get("a"), Some(1));
        cache.keep("c", 3, 4);
        assert_eq!(kept(&cache), [Some(1), None, Some(3), None]);
        cache.keep("d", 4, 11);
        assert_eq!(kept(&cache), [Some(1), None, Some(3), None], "it would not fit");
        cache.keep("a", 7, 10);
        assert_eq!(kept(&cache), [Some(1), None, Some(3), None], "objects do not change");
        cache.keep("d", 4, 7);
        assert_eq!(kept(&cache), [None, None, None, Some(4)]);
        let kept = lock(&cache.kept);
        assert_eq!((kept.bytes, kept.by_use.len()), (7, 1));
    }
}
