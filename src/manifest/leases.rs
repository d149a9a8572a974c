//! Leases: which versions this process still reads or builds upon, and since when, so that VACUUM leaves them what they
//! need.
//!
//! Whoever reads a version, or writes files for a change of it, holds a lease meanwhile. Of other processes nothing is known
//! here: what they need is kept by its age.

use crate::store::env;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The leases of one table in this process.
#[derive(Debug, Default)]
pub struct Leases {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    leases: BTreeMap<u64, Needs>,
    next: u64,
}

/// What is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// This version and those after it.
    pub version: u64,
    /// Objects that were written since then, in milliseconds since 1970, named or not.
    pub since_ms: u64,
}

/// A lease; it ends when it is dropped.
#[derive(Debug)]
pub struct Lease {
    leases: Arc<Leases>,
    number: u64,
}

impl Leases {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lease of `version` from now on.
    pub fn take(self: &Arc<Self>, version: u64) -> Arc<Lease> {
        let mut held = self.held();
        let number = held.next;
        held.next += 1;
        held.leases.insert(number, Needs { version, since_ms: env::now_ms() });
        Arc::new(Lease { leases: self.clone(), number })
    }

    /// What all leases need together; `None` if there is none.
    pub fn needs(&self) -> Option<Needs> {
        let both = |a: Needs, b: &Needs| Needs { version: a.version.min(b.version), since_ms: a.since_ms.min(b.since_ms) };
        let held = self.held();
        let first = held.leases.values().next()?;
        Some(held.leases.values().fold(*first, both))
    }
}

impl Lease {
    /// The version that it is about.
    pub fn version(&self) -> u64 {
        self.leases.held().leases.get(&self.number).map_or(0, |needs| needs.version)
    }

    /// It is to keep this version too.
    pub fn reach_back_to(&self, version: u64) {
        if let Some(needs) = self.leases.held().leases.get_mut(&self.number) {
            needs.version = needs.version.min(version);
        }
    }

    /// It turned out to be about this version.
    pub fn move_to(&self, version: u64) {
        if let Some(needs) = self.leases.held().leases.get_mut(&self.number) {
            needs.version = version;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.held().leases.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_version_and_the_earliest_time_count_while_they_are_held() {
        let leases = Arc::<Leases>::default();
        assert_eq!(leases.needs(), None);
        let before_ms = env::now_ms();
        let first = leases.take(7);
        let second = leases.take(5);
        let needs = leases.needs().unwrap();
        assert!(needs.version == 5 && (before_ms..=env::now_ms()).contains(&needs.since_ms));
        second.move_to(9);
        assert_eq!(leases.needs().unwrap().version, 7);
        let also_first = first.clone();
        drop((first, second));
        assert_eq!(leases.needs().unwrap().version, 7);
        drop(also_first);
        assert_eq!(leases.needs(), None);
    }
}
