//! VACUUM of one table.
//!
//! ```text
//!   1  the oldest version that is kept: the one that was the newest when the time that is kept began, or the one that
//!      something in this process has leased, if that is older
//!   2  list the folder
//!   3  what do the versions from that one on need?      the rest that is old enough can go: manifests, and objects
//!   4  say so by a version of its own                   from here on nobody walks over older versions, or begins to name
//!                                                       one of these objects, which the time in its name tells
//!   5  what do the versions need that came in between?
//!   6  remove the manifests, the oldest first; then the objects
//! ```
//!
//! It may end anywhere: what is left over is found the next time. Several may run at once: when another one raises the mark
//! further, steps 3 and 5 begin anew.
//!
//! Always holds: only names that amend gives are removed, and only in the folders of objects; a writer whose objects are
//! removed, in whatever process, cannot commit any more.

use super::{OLD_VERSION, Removal, Retention, UNNAMED, remove_all};
use crate::commit::{self, Committed, Freed, Staged};
use crate::error::{Error, Result};
use crate::manifest::decode::Transactions;
use crate::manifest::leases::Needs;
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::Snapshot;
use crate::store::path::{FOLDERS, VERSIONS_FOLDER};
use crate::store::{ObjectEntry, ObjectName, ROUNDED_MS, env};
use crate::txn::composite::{Step, Transaction, TransactionId};
use futures::{FutureExt, StreamExt};
use std::collections::{BTreeMap, BTreeSet};

/// How often others may raise the mark while it is found out what is needed.
const MAX_ROUNDS: u32 = 10;
/// How many manifests are read at a time.
const CONCURRENT_READS: usize = 8;

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
    for _ in 0..MAX_ROUNDS {
        match once(log, retention, statement).await {
            // Something landed that takes the whole table, as RESTORE does: other files may be needed now.
            Err(Error::Conflict(_)) => {}
            ended => return ended,
        }
    }
    Err(too_busy(log))
}

async fn once(log: &VersionLog, retention: Retention, statement: &str) -> Result<Vacuumed> {
    let until_ms = retention.until_ms();
    let newest = log.newest().await?;
    let oldest = oldest_kept(log, &newest.snapshot, until_ms).await?;
    let told = newest.snapshot.low_water_mark;
    let mark = if oldest > told && changed_between(log, told, oldest).await? { oldest } else { told };

    let mut listed = Vec::new();
    for folder in FOLDERS {
        listed.extend(log.store().list(folder).await?);
    }
    // What was listed by now was written under a lease that is still held, or its statement has ended.
    let needs = log.leases().needs();
    let margin_ms = retention.ahead_ms + ROUNDED_MS;
    let written_until_ms = needs.map_or(until_ms, |needs| until_ms.min(needs.since_ms.saturating_sub(margin_ms)));
    let mut needed = Needed::default();
    needed.look(log, mark, needs).await?;

    let (mut manifests, mut objects) = (BTreeMap::new(), BTreeMap::new());
    let mut swept_ms = 0;
    for ObjectEntry { name: path, size_bytes, modified_ms } in listed {
        let Ok(name) = ObjectName::parse(&path) else { continue };
        match (name.version_of(), name.made_ms()) {
            (Some(version), _) if version < needed.from => {
                manifests.insert(version, (name, Removal { path, size_bytes, reason: OLD_VERSION }));
            }
            (None, Some(made_ms)) if made_ms.max(modified_ms) <= written_until_ms && !needed.objects.contains(&path) => {
                swept_ms = swept_ms.max(made_ms);
                objects.insert(path.clone(), (name, Removal { path, size_bytes, reason: UNNAMED }));
            }
            _ => {}
        }
    }
    let mut version = None;
    let nothing = manifests.is_empty() && objects.is_empty();
    if !retention.dry_run && !nothing {
        let freed = Freed { low_water_mark: mark, swept_ms };
        if freed.is_news_to(&newest.snapshot) {
            version = free(log, freed, newest.snapshot.version, statement).await?.version;
        }
        // What was committed or leased meanwhile.
        needed.look(log, mark, log.leases().needs()).await?;
        manifests.retain(|version, _| *version < needed.from);
        objects.retain(|path, _| !needed.objects.contains(path));
        // One after another: a writer that finds the one before its own knows that its own was not removed.
        for (name, _) in manifests.values() {
            log.store().delete(name).await?;
        }
        remove_all(log.store(), objects.values().map(|(name, _)| name.clone()).collect()).await?;
    }
    if !retention.dry_run {
        for folder in FOLDERS {
            log.store().remove_half_written(folder, written_until_ms).await?;
        }
    }
    let mut removed: Vec<Removal> = manifests.into_values().chain(objects.into_values()).map(|(_, removal)| removal).collect();
    removed.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Vacuumed { removed, version })
}

/// The oldest version that is to be kept: that before the first one made after `until_ms`, or one that is leased.
async fn oldest_kept(log: &VersionLog, newest: &Snapshot, until_ms: u64) -> Result<u64> {
    let (mark, newest) = (newest.low_water_mark, newest.version);
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

async fn free(log: &VersionLog, freed: Freed, read_version: u64, statement: &str) -> Result<Committed> {
    let step = Step { operation: "VACUUM".into(), statement: statement.to_owned(), ..Step::default() };
    let id = TransactionId(env::new_uuid().as_u128());
    let transaction = Transaction { id, read_version, steps: vec![step] };
    let staged = Staged {
        transaction,
        maps: vec![],
        objects: vec![],
        fields_read: BTreeSet::new(),
        reads: vec![],
        key_reads: vec![],
        gathering: None,
    };
    commit::free(log, staged, freed).await
}

/// What is needed of a table.
#[derive(Default)]
struct Needed {
    /// The versions from this one on.
    from: u64,
    /// What those need, or needed when they were looked at.
    objects: BTreeSet<String>,
    looked_at: BTreeSet<u64>,
}

impl Needed {
    /// Looks at the versions from the mark on, and at those before that are leased and still there, as far as it has not yet.
    async fn look(&mut self, log: &VersionLog, mark: u64, leased: Option<Needs>) -> Result<()> {
        let leased = leased.map_or(u64::MAX, |needs| needs.version);
        let mut mark = mark;
        for _ in 0..MAX_ROUNDS {
            let newest = log.newest().await?.snapshot.version;
            self.from = mark;
            while self.from > leased && self.from > 1 && log.store().exists(&ObjectName::version(self.from - 1)).await? {
                self.from -= 1;
            }
            let of_version = |number: u64| async move { Ok::<_, Error>((number, log.objects_needed(number).await?)) }.boxed();
            let new: Vec<u64> = (self.from..=newest).filter(|number| !self.looked_at.contains(number)).collect();
            let mut versions = futures::stream::iter(new.into_iter().map(of_version)).buffered(CONCURRENT_READS);
            let mut failure = None;
            while let Some(version) = versions.next().await {
                match version {
                    Ok((number, Some(objects))) => {
                        self.objects.extend(objects);
                        self.looked_at.insert(number);
                    }
                    Ok((number, None)) => failure = Some(log.read(number).await.err().unwrap_or_else(|| gone(log, number))),
                    Err(error) => failure = Some(error),
                }
                if failure.is_some() {
                    break;
                }
            }
            let Some(failure) = failure else { return Ok(()) };
            // Another VACUUM may have raised the mark further.
            let raised = log.newest().await?.snapshot.low_water_mark;
            if raised <= mark {
                return Err(failure);
            }
            mark = raised;
        }
        Err(too_busy(log))
    }
}

fn too_busy(log: &VersionLog) -> Error {
    Error::TooBusy { table: log.table().to_owned(), attempts: MAX_ROUNDS }
}

fn gone(log: &VersionLog, number: u64) -> Error {
    Error::damaged(log.table(), ObjectName::version(number).as_str(), "it was removed while it was looked at")
}
