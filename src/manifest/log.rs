//! The versions of one table, read from its store and kept in memory.
//!
//! The newest version is found by probing from the newest one known: names are made so that no listing is needed, and
//! the work does not grow with the table's history. Versions are immutable, so what was read once is read no more. A version is read
//! without its pages; who looks at fragments says which, and gets the version with the pages for that (`log/pages.rs`).
//!
//! Always holds: what is damaged or missing is an error that names the table and the object; nothing is created here.

use super::called::Called;
use super::decode::{self, DEFAULT_LIMITS, DecodeError, DecodedManifest, Transactions};
use super::leases::{Lease, Leases};
use super::pages::{Page, Records};
use super::version::Version;
use crate::error::{Error, Result};
use crate::store::path::VERSIONS_FOLDER;
use crate::store::{ObjectName, Store, checksum, env};
use crate::table::deletion_vector::{self, DeletionFile};
use crate::table::fragment::Fragment;
use crate::txn::action::{Action, MapLocation};
use crate::txn::address_map::{self, AddressMap};
use crate::txn::composite::CommittedTransaction;
use bytes::Bytes;
use cache::Cache;
use roaring::RoaringBitmap;
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

mod applying;
mod cache;
mod pages;

/// How often the newest version is looked for, if it is removed as soon as it is found.
const MAX_LOOKS: u32 = 5;
/// For how long the newest version known is a place to look on from. VACUUM frees names of versions that were the newest longer
/// ago, and a writer that paused for so long may have given one of them to what is no version.
const TRUSTED_MS: u64 = 3_600_000;
/// How many versions are kept in memory.
const KEPT_VERSIONS: usize = 64;
/// How many vectors and maps are kept in memory.
const KEPT_OBJECTS: usize = 4096;
/// How many bytes the pages take that are kept in memory, roughly.
const KEPT_PAGES_BYTES: u64 = 256 << 20;
/// How many bytes the lists of pages take that are kept in memory, roughly.
const KEPT_INDEXES_BYTES: u64 = 16 << 20;

/// The versions of one table.
#[derive(Debug)]
pub struct VersionLog {
    called: Called,
    store: Store,
    newest_known: AtomicU64,
    /// When that was found to be the newest, in milliseconds since 1970.
    looked_ms: AtomicU64,
    /// Whether the table was dropped by this process: handles on it that are still held find no newest version.
    dropped: AtomicBool,
    versions: Mutex<BTreeMap<u64, Arc<Version>>>,
    pages: Cache<Records>,
    indexes: Cache<Arc<Vec<Page>>>,
    vectors: Mutex<HashMap<(String, u64), Arc<RoaringBitmap>>>,
    maps: Mutex<HashMap<String, Arc<AddressMap>>>,
    /// Whether somebody in this process rewrites what the manifest holds.
    flushing: AtomicBool,
    attached: OnceLock<Arc<dyn Any + Send + Sync>>,
    leases: Arc<Leases>,
}

/// The right to rewrite what the manifest of a table holds; given back when it goes.
#[derive(Debug)]
pub struct Flushes<'a>(&'a AtomicBool);

impl Drop for Flushes<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl VersionLog {
    /// The versions in a table folder; `table` is the name that errors use.
    pub fn new(table: impl Into<String>, store: Store) -> Self {
        VersionLog {
            called: Called::new(table.into()),
            store,
            newest_known: AtomicU64::new(0),
            looked_ms: AtomicU64::new(0),
            dropped: AtomicBool::new(false),
            versions: Mutex::default(),
            pages: Cache::new(KEPT_PAGES_BYTES),
            indexes: Cache::new(KEPT_INDEXES_BYTES),
            vectors: Mutex::default(),
            maps: Mutex::default(),
            flushing: AtomicBool::new(false),
            attached: OnceLock::new(),
            leases: Arc::default(),
        }
    }

    /// The table's name.
    pub fn table(&self) -> &str {
        self.called.name()
    }

    /// The table was renamed.
    pub fn rename(&self, to: &str) {
        self.called.rename(to);
    }

    /// The table's folder.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What the layer above keeps with the table, one for all handles on it: made when it is first asked for.
    pub fn attached<T: Any + Send + Sync + Default>(&self) -> Result<Arc<T>> {
        let attached = self.attached.get_or_init(|| Arc::new(T::default())).clone();
        attached.downcast().map_err(|_| Error::internal(format!("something else is kept with table '{}'", self.table())))
    }

    /// The right to rewrite what the manifest holds, which one at a time has in this process; `None` if another has it.
    pub fn flushes(&self) -> Option<Flushes<'_>> {
        self.flushing.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire).is_ok().then_some(Flushes(&self.flushing))
    }

    /// The newest version.
    pub async fn newest(&self) -> Result<Arc<Version>> {
        for _ in 0..MAX_LOOKS {
            let number = self.newest_number().await?;
            // It may have been removed by now, or what it names, if there are newer ones.
            match self.read_if_present(number).await {
                Ok(Some(newest)) => return Ok(newest),
                Ok(None) => {}
                Err(error) if self.newest_number().await? == number => return Err(error),
                Err(_) => {}
            }
        }
        self.read(self.newest_number().await?).await
    }

    /// The newest version by a listing, for those who doubt what they know of it.
    pub async fn listed_newest(&self) -> Result<Arc<Version>> {
        let number = self.store.newest_version(VERSIONS_FOLDER).await?.unwrap_or(0);
        self.read(number).await
    }

    /// The newest version, and a lease of it.
    pub async fn newest_leased(&self) -> Result<(Arc<Version>, Arc<Lease>)> {
        // Taken first: the newest version is no older than the newest one known.
        let lease = self.leases.take(self.newest_known.load(Ordering::Acquire));
        let newest = self.newest().await?;
        lease.move_to(newest.snapshot.version);
        Ok((newest, lease))
    }

    /// The leases of this process.
    pub fn leases(&self) -> &Arc<Leases> {
        &self.leases
    }

    /// The table was dropped.
    pub fn drop_table(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// The number of the newest version.
    pub async fn newest_number(&self) -> Result<u64> {
        if self.dropped.load(Ordering::Acquire) {
            return Err(Error::UnknownTable { table: self.table().to_owned(), nearest: None });
        }
        let known = self.newest_known.load(Ordering::Acquire);
        let trusted = env::now_ms().saturating_sub(self.looked_ms.load(Ordering::Acquire)) <= TRUSTED_MS;
        if known > 0
            && trusted
            && let Some(newest) = self.newest_from(known).await?
        {
            return Ok(newest);
        }
        if known == 0
            && let Some(hint) = self.hint().await
            && let Some(newest) = self.newest_from(hint).await?
        {
            return Ok(newest);
        }
        match self.store.newest_version(VERSIONS_FOLDER).await? {
            Some(number) => Ok(self.newest_from(number).await?.unwrap_or(number)),
            None => Err(Error::damaged(self.table(), VERSIONS_FOLDER, "the folder holds no version")),
        }
    }

    /// Whether there is a manifest of the version so many after `from`.
    async fn has(&self, from: u64, ahead: u64) -> Result<bool> {
        match from.checked_add(ahead) {
            Some(number) => self.store.exists(&ObjectName::version(number)).await,
            None => Ok(false),
        }
    }

    /// The newest version, looked for from `from` on; `None` if that does not exist. A manifest that is missing below others
    /// is not taken for the end.
    async fn newest_from(&self, from: u64) -> Result<Option<u64>> {
        let looked_ms = env::now_ms();
        let (here, next, after) = futures::try_join!(self.has(from, 0), self.has(from, 1), self.has(from, 2))?;
        if !here {
            return Ok(None);
        }
        let newest = if next || after { self.gallop(from).await? } else { from };
        self.newest_known.fetch_max(newest, Ordering::AcqRel);
        self.looked_ms.store(looked_ms, Ordering::Release);
        Ok(Some(newest))
    }

    /// Steps that double, then halves.
    async fn gallop(&self, from: u64) -> Result<u64> {
        let (mut low, mut step) = (from, 1u64);
        while self.has(low, step).await? {
            low += step;
            step = step.saturating_mul(2);
        }
        while step > 1 {
            step /= 2;
            if self.has(low, step).await? {
                low += step;
            }
        }
        // Versions come to be in order: where a later one is there, the next one must be there by now.
        match self.has(low, 2).await? && !self.has(low, 1).await? {
            true => Err(self.missing(low + 1)),
            false => Ok(low),
        }
    }

    fn missing(&self, number: u64) -> Error {
        Error::damaged(self.table(), ObjectName::version(number).as_str(), "the manifest is missing")
    }

    async fn hint(&self) -> Option<u64> {
        let bytes = self.store.read_if_present(&ObjectName::hint()).await.ok()??;
        std::str::from_utf8(&bytes).ok()?.trim().parse().ok().filter(|number| *number > 0)
    }

    /// Leaves word of a version for those who look for the newest one. Best effort.
    pub async fn write_hint(&self, number: u64) {
        if let Err(error) = self.store.write_not_durable(&ObjectName::hint(), Bytes::from(number.to_string())).await {
            tracing::debug!(%error, "could not write the version hint");
        }
    }

    /// A version of the table; an error if there is none of that number.
    pub async fn read(&self, number: u64) -> Result<Arc<Version>> {
        match self.read_if_present(number).await? {
            Some(version) => Ok(version),
            None => Err(self.absent(number).await?),
        }
    }

    /// A version that is kept: one below the low-water mark is none, even if some of it is still there.
    pub async fn read_kept(&self, number: u64) -> Result<Arc<Version>> {
        let newest = match self.newest().await {
            // Nobody knows what is kept, then.
            Err(Error::Damaged { .. }) => return self.read(number).await,
            newest => newest?,
        };
        if (newest.snapshot.low_water_mark..newest.snapshot.version).contains(&number) {
            return self.read(number).await;
        }
        if number == newest.snapshot.version {
            return Ok(newest);
        }
        Err(self.unknown(number, &newest))
    }

    /// Why there is no version of that number.
    async fn absent(&self, number: u64) -> Result<Error> {
        let newest = self.store.newest_version(VERSIONS_FOLDER).await?.unwrap_or(0);
        match self.read_if_present(newest).await? {
            Some(newest) if (newest.snapshot.low_water_mark..newest.snapshot.version).contains(&number) => Ok(self.missing(number)),
            Some(newest) => Ok(self.unknown(number, &newest)),
            None => Ok(Error::damaged(self.table(), VERSIONS_FOLDER, "the folder holds no version")),
        }
    }

    fn unknown(&self, version: u64, newest: &Version) -> Error {
        let (oldest, newest) = (newest.snapshot.low_water_mark, newest.snapshot.version);
        Error::UnknownVersion { table: self.table().to_owned(), version, oldest, newest }
    }

    /// A version of the table, if its manifest is there.
    pub async fn read_if_present(&self, number: u64) -> Result<Option<Arc<Version>>> {
        if let Some(version) = lock(&self.versions).get(&number) {
            return Ok(Some(version.clone()));
        }
        if number == 0 {
            return Ok(None);
        }
        let Some(decoded) = self.manifest(number).await? else { return Ok(None) };
        let spilled = self.spilled(&decoded).await?;
        let version = decoded.into_version(spilled).map_err(|e| self.bad(ObjectName::version(number).as_str(), e))?;
        let version = Arc::new(version);
        self.remember(version.clone());
        Ok(Some(version))
    }

    /// The manifest of a version, if it is there, without what it names.
    pub async fn manifest(&self, number: u64) -> Result<Option<DecodedManifest>> {
        let name = ObjectName::version(number);
        let Some(bytes) = self.store.read_if_present(&name).await? else { return Ok(None) };
        let decoded = decode::decode_manifest(&bytes, &DEFAULT_LIMITS).map_err(|e| self.bad(name.as_str(), e))?;
        if decoded.version != number {
            return Err(Error::damaged(self.table(), name.as_str(), format!("it holds version {}", decoded.version)));
        }
        Ok(Some(decoded))
    }

    /// [`Version::time_ms`], if the version's manifest is there.
    pub async fn time_ms(&self, number: u64) -> Result<Option<u64>> {
        let known = lock(&self.versions).get(&number).map(|version| version.time_ms);
        match known {
            Some(time_ms) => Ok(Some(time_ms)),
            None => Ok(self.manifest(number).await?.map(|manifest| manifest.time_ms)),
        }
    }

    async fn spilled(&self, manifest: &DecodedManifest) -> Result<Option<Vec<CommittedTransaction>>> {
        match &manifest.transactions {
            Transactions::Inline(_) => Ok(None),
            Transactions::Object(reference) => {
                let bytes = self.object(&reference.path).await?;
                let spilled = decode::decode_transactions(&bytes, reference, &DEFAULT_LIMITS);
                spilled.map(Some).map_err(|e| self.bad(&reference.path, e))
            }
        }
    }

    /// Keeps a version in memory.
    pub fn remember(&self, version: Arc<Version>) {
        let mut versions = lock(&self.versions);
        self.newest_known.fetch_max(version.snapshot.version, Ordering::AcqRel);
        versions.insert(version.snapshot.version, version);
        while versions.len() > KEPT_VERSIONS {
            versions.pop_first();
        }
    }

    /// A manifest turned out to be no version of the table.
    pub fn forget(&self, number: u64) {
        lock(&self.versions).remove(&number);
    }

    /// The deleted rows of a fragment.
    pub async fn deleted_rows(&self, fragment: &Fragment) -> Result<Arc<RoaringBitmap>> {
        let (object, blob, cardinality) = match &fragment.deletions {
            None => return Ok(Arc::default()),
            Some(DeletionFile::Inline { blob, cardinality }) => (format!("fragment {}", fragment.id), blob.clone(), *cardinality),
            Some(DeletionFile::Puffin { path, offset, length, cardinality, crc32c }) => {
                let key = (path.clone(), *offset);
                if let Some(rows) = lock(&self.vectors).get(&key) {
                    return Ok(rows.clone());
                }
                let name = self.name(path)?;
                let end = offset.checked_add(*length).ok_or_else(|| Error::damaged(self.table(), path, "its vector has no end"))?;
                let blob = match self.store.read_range(&name, *offset..end).await {
                    Ok(blob) => blob,
                    // Stores say in many ways that there are not so many bytes.
                    Err(error) => match self.store.size(&name).await {
                        Ok(size_bytes) if size_bytes < end => {
                            let reason = format!("it has {size_bytes} bytes, and should have a vector at {offset}..{end}");
                            return Err(Error::damaged(self.table(), path, reason));
                        }
                        _ => return Err(self.gone(path, error)),
                    },
                };
                if checksum::crc32c(&blob) != *crc32c {
                    return Err(Error::damaged(self.table(), path, format!("the checksum of the vector at {offset} does not match")));
                }
                (path.clone(), blob, *cardinality)
            }
        };
        let rows = deletion_vector::decode(&blob, fragment.physical_rows).map_err(|e| Error::damaged(self.table(), &object, e))?;
        if rows.len() != u64::from(cardinality) {
            let reason = format!("the vector of fragment {} deletes {} rows, the manifest says {cardinality}", fragment.id, rows.len());
            return Err(Error::damaged(self.table(), &object, reason));
        }
        match &fragment.deletions {
            Some(DeletionFile::Puffin { path, offset, .. }) => Ok(keep(&self.vectors, (path.clone(), *offset), Arc::new(rows))),
            _ => Ok(Arc::new(rows)),
        }
    }

    /// The maps of those changes of address of a transaction that are `needed`, in their order.
    pub async fn maps(&self, committed: &CommittedTransaction, needed: &[bool]) -> Result<Vec<Option<Arc<AddressMap>>>> {
        let mut maps = Vec::with_capacity(needed.len());
        let changes = committed.transaction.actions().filter_map(Action::change_of_address);
        for (change, needed) in changes.zip(needed) {
            maps.push(if *needed { Some(self.map(&change.map).await?) } else { None });
        }
        Ok(maps)
    }

    /// A change-of-address map.
    pub async fn map(&self, location: &MapLocation) -> Result<Arc<AddressMap>> {
        match location {
            MapLocation::Inline(bytes) => {
                let map = address_map::wire::decode(bytes).map_err(|e| Error::damaged(self.table(), "an inline address map", e.0))?;
                Ok(Arc::new(map))
            }
            MapLocation::Object { path, size_bytes, crc32c } => {
                if let Some(map) = lock(&self.maps).get(path) {
                    return Ok(map.clone());
                }
                let bytes = self.object(path).await?;
                let map = address_map::wire::open(&bytes, *size_bytes, *crc32c).map_err(|e| self.bad(path, e))?;
                Ok(keep(&self.maps, path.clone(), Arc::new(map)))
            }
        }
    }

    async fn object(&self, path: &str) -> Result<Bytes> {
        self.store.read(&self.name(path)?).await.map_err(|e| self.gone(path, e))
    }

    fn name(&self, path: &str) -> Result<ObjectName> {
        ObjectName::parse(path).map_err(|e| Error::damaged(self.table(), path, e))
    }

    /// An object that a manifest names and that cannot be read at all is damage, unless the store itself is at fault.
    fn gone(&self, path: &str, error: Error) -> Error {
        match error {
            Error::Store { source, .. } if is_not_found(source.as_ref()) => Error::damaged(self.table(), path, "the object is missing"),
            other => other,
        }
    }

    fn bad(&self, object: &str, error: DecodeError) -> Error {
        match error {
            DecodeError::Damaged(reason) => Error::damaged(self.table(), object, reason),
            DecodeError::Unknown(reason) => Error::UnknownFormat { table: self.table().to_owned(), object: object.to_owned(), reason },
        }
    }
}

fn is_not_found(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(error.downcast_ref::<object_store::Error>(), Some(object_store::Error::NotFound { .. }))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps an object in memory; when there are too many, all others are forgotten.
fn keep<K: std::hash::Hash + Eq, V: Clone>(cache: &Mutex<HashMap<K, V>>, key: K, value: V) -> V {
    let mut cache = lock(cache);
    if cache.len() >= KEPT_OBJECTS {
        cache.clear();
    }
    cache.insert(key, value.clone());
    value
}

#[cfg(test)]
mod tests;
