//! Keep a lake in order: remove what nothing needs any more, and look whether what is needed is whole.
//!
//! ```text
//!   vacuum    a table: raise the low-water mark ──> list ──> what do the kept versions need? ──> remove the rest
//!   verify    a table: read all that a version needs ──> what is damaged?
//!   dropped   a folder that no catalog names: remove it once it has been dropped for long enough
//! ```
//!
//! Always holds: an object that a version which is kept names stays; so does one that is younger than what is asked for, and
//! one that something in this process may still need.

pub mod dropped;
pub mod vacuum;
pub mod verify;

use crate::error::Result;
use crate::store::{ObjectName, Store, env};
use futures::{StreamExt, TryStreamExt};

/// An object that was removed, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Its name within the folder that was looked through.
    pub path: String,
    /// Its length.
    pub size_bytes: u64,
    /// Why it is not needed.
    pub reason: &'static str,
}

/// How long back things are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// What is younger than this stays.
    pub retain_ms: u64,
    /// By how much our clock is ahead of the store's: what the store calls young stays.
    pub ahead_ms: u64,
    /// Whether it is only said what would go.
    pub dry_run: bool,
}

impl Retention {
    /// What was written after this, in milliseconds since 1970 by the store's clock, stays.
    fn until_ms(self) -> u64 {
        env::now_ms().saturating_sub(self.ahead_ms).saturating_sub(self.retain_ms)
    }
}

/// A manifest below the low-water mark.
const OLD_VERSION: &str = "an old version";
/// An object that only old versions named, or none.
const UNNAMED: &str = "named by no version that is kept";
/// An object of a table that is gone.
const DROPPED: &str = "of a table that was dropped";
/// How many objects are removed at a time.
const CONCURRENT_REMOVALS: usize = 16;

/// Removes objects, several at a time.
async fn remove_all(store: &Store, names: Vec<ObjectName>) -> Result<()> {
    let remove = |name: ObjectName| {
        let store = store.clone();
        async move { store.delete(&name).await }
    };
    futures::stream::iter(names.into_iter().map(remove)).buffer_unordered(CONCURRENT_REMOVALS).try_collect().await
}
