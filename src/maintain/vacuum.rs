//! VACUUM of one table.
//!
//! ```text
//!   1  the oldest version that is kept: the one that was the newest when the time that is kept began, or the one that
//!      something in this process has leased, if that is older
//!   2  raise the low-water mark to it, by a version of its own     from here on nobody walks over older versions
//!   3  list the folder
//!   4  what do the versions from the mark on need?                 after 3: what was committed meanwhile is seen
//!   5  remove the manifests below the mark, the oldest first; then what is old and not needed
//! ```
//!
//! It may end anywhere: what is left over is found the next time. Several may run at once: when another one raises the mark
//! further, step 4 begins anew.
//!
//! Always holds: only names that amend gives are removed, and only in the folders of objects.

use super::{OLD_VERSION, Removal, Retention, UNNAMED, remove_all};
use crate::commit::{Committed, Staged, raise_low_water_mark};
use crate::error::{Error, Result};
use crate::manifest::decode::Transactions;
use crate::manifest::log::VersionLog;
use crate::store::path::{FOLDERS, VERSIONS_FOLDER};
use crate::store::{ObjectEntry, ObjectName, env};
use crate::txn::composite::{Step, Transaction, TransactionId};
use futures::{FutureExt, StreamExt};
use std::collections::{BTreeMap, BTreeSet};

/// How often others may raise the mark while it is found out what is needed.
const MAX_ROUNDS: u32 = 10;
/// How many manifests are read at a time.
const CONCURRENT_READS: usize = 8;
/// Times of objects are rounded: so much may lie between a lease and an object that was written after.
const CLOCK_MARGIN_MS: u64 = 2_000;

/// What a VACUUM did.
#[derive(Debug, Clone)]
pub struct Vacuumed {
    /// What was removed, or would be, by name.
    pub removed: Vec<Removal>,
    /// The version that raised the low-water mark, if one was needed.
    pub version: Option<u64>,
}

/// Removes what no version of a table needs that was current within the time that is kept. `statement` is the statement in
/// words.
pub async fn vacuum(log: &VersionLog, retention: Retention, statement: &str) -> Result<Vacuumed> {
    let until_ms = retention.until_ms();
    let newest = log.newest().await?.snapshot.version;
    let oldest = oldest_kept(log, newest, until_ms).await?;
    let mut version = None;
    let mut mark = log.newest().await?.snapshot.low_water_mark;
    if oldest > mark && changed_between(log, mark, oldest).await? {
        if retention.dry_run {
            mark = oldest;
        } else {
            let raised = raise(log, oldest, newest, statement).await?;
            mark = raised.newest.snapshot.low_water_mark;
            version = raised.version;
        }
    }

    let mut listed = Vec::new();
    for folder in FOLDERS {
        listed.extend(log.store().list(folder).await?);
    }
    // What was listed by now was written under a lease that is still held, or its statement has ended.
    let needs = log.leases().needs();
    let written_until_ms =
        needs.map_or(until_ms, |needs| until_ms.min(needs.since_ms.saturating_sub(retention.ahead_ms + CLOCK_MARGIN_MS)));
    let leased = needs.map_or(u64::MAX, |needs| needs.version);
    let (from, needed) = needed_from(log, mark, leased, retention.dry_run).await?;

    let (mut manifests, mut objects) = (BTreeMap::new(), Vec::new());
    for entry in listed {
        let ObjectEntry { name: path, size_bytes, modified_ms } = entry;
        let Ok(name) = ObjectName::parse(&path) else { continue };
        if !name.is_made_here() {
            continue;
        }
        match name.version_of() {
            Some(version) if version < from => drop(manifests.insert(version, (name, Removal { path, size_bytes, reason: OLD_VERSION }))),
            Some(_) => {}
            None if needed.contains(&path) || modified_ms > written_until_ms => {}
            None => objects.push((name, Removal { path, size_bytes, reason: UNNAMED })),
        }
    }
    if !retention.dry_run {
        // One after another: a writer that finds the one before its own knows that its own was not removed.
        for (name, _) in manifests.values() {
            log.store().delete(name).await?;
        }
        remove_all(log.store(), objects.iter().map(|(name, _)| name.clone()).collect()).await?;
        for folder in FOLDERS {
            log.store().remove_half_written(folder, written_until_ms).await?;
        }
    }
    let mut removed: Vec<Removal> = manifests.into_values().chain(objects).map(|(_, removal)| removal).collect();
    removed.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Vacuumed { removed, version })
}

/// The oldest version that is to be kept: that before the first one made after `until_ms`, or one that is leased.
async fn oldest_kept(log: &VersionLog, newest: u64, until_ms: u64) -> Result<u64> {
    let mark = log.newest().await?.snapshot.low_water_mark;
    // Of clocks that differ the later one counts: a version is written after it was made.
    let written: BTreeMap<String, u64> = log.store().list(VERSIONS_FOLDER).await?.into_iter().map(|e| (e.name, e.modified_ms)).collect();
    let made = |number: u64| {
        let written_ms = written.get(ObjectName::version(number).as_str()).copied().unwrap_or(0);
        async move { Ok::<_, Error>(log.manifest(number).await?.map(|manifest| (number, manifest.time_ms.max(written_ms)))) }.boxed()
    };
    let mut times = futures::stream::iter((mark..=newest).map(made)).buffered(CONCURRENT_READS);
    let mut oldest = newest;
    while let Some(time) = times.next().await {
        if let Some((number, time_ms)) = time?
            && time_ms > until_ms
        {
            oldest = (number - 1).max(mark);
            break;
        }
    }
    Ok(log.leases().needs().map_or(oldest, |needs| oldest.min(needs.version)).max(mark))
}

/// Whether something happened after version `from`, up to `to`, other than a mark being raised: otherwise nothing is gained by
/// raising it again.
async fn changed_between(log: &VersionLog, from: u64, to: u64) -> Result<bool> {
    for number in (from + 1..=to).rev() {
        let Some(manifest) = log.manifest(number).await? else { continue };
        match &manifest.transactions {
            Transactions::Inline(all) if all.iter().all(|committed| committed.transaction.is_empty()) => {}
            Transactions::Inline(_) | Transactions::Object(_) => return Ok(true),
        }
    }
    Ok(false)
}

async fn raise(log: &VersionLog, mark: u64, read_version: u64, statement: &str) -> Result<Committed> {
    let step = Step { operation: "VACUUM".into(), statement: statement.to_owned(), ..Step::default() };
    let id = TransactionId(env::new_uuid().as_u128());
    let transaction = Transaction { id, read_version, steps: vec![step] };
    let staged = Staged { transaction, maps: vec![], objects: vec![], fields_read: BTreeSet::new(), reads: vec![], gathering: None };
    raise_low_water_mark(log, staged, mark).await
}

/// What the versions from the mark on need, and those before that are leased and still there; and the first of them.
async fn needed_from(log: &VersionLog, mark: u64, leased: u64, dry_run: bool) -> Result<(u64, BTreeSet<String>)> {
    let mut mark = mark;
    for _ in 0..MAX_ROUNDS {
        let newest = log.newest().await?.snapshot.version;
        let mut first = mark;
        while first > leased && first > 1 && log.store().exists(&ObjectName::version(first - 1)).await? {
            first -= 1;
        }
        let of_version = |number: u64| async move { Ok::<_, Error>((number, log.objects_needed(number).await?)) }.boxed();
        let mut versions = futures::stream::iter((first..=newest).map(of_version)).buffered(CONCURRENT_READS);
        let mut needed = BTreeSet::new();
        let mut failure = None;
        while let Some(version) = versions.next().await {
            match version {
                Ok((_, Some(objects))) => needed.extend(objects),
                Ok((number, None)) => failure = Some(log.read(number).await.err().unwrap_or_else(|| gone(log, number))),
                Err(error) => failure = Some(error),
            }
            if failure.is_some() {
                break;
            }
        }
        let Some(failure) = failure else { return Ok((first, needed)) };
        // Another VACUUM may have raised the mark further.
        let raised = log.newest().await?.snapshot.low_water_mark;
        if raised <= mark || dry_run {
            return Err(failure);
        }
        mark = raised;
    }
    Err(Error::TooBusy { table: log.table().to_owned(), attempts: MAX_ROUNDS })
}

fn gone(log: &VersionLog, number: u64) -> Error {
    Error::damaged(log.table(), ObjectName::version(number).as_str(), "it was removed while it was looked at")
}
