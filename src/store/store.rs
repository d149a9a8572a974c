//! The store of one table or lake: its objects, by name.
//!
//! Goes in: an [`ObjectName`] and bytes. Comes out: bytes, or an error that prints where the object should be.
//! Always holds: nothing outside this store's own folder is touched; only the answer `Created` says that a name is ours, every
//! other answer to `create` proves nothing until the object is read.

use super::env;
use super::local::{self, DurableLocal, Relaxed};
use super::path::{FOLDERS, ObjectName};
use super::writer::ObjectWriter;
use crate::error::{Error, Result};
use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error as StoreError, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes by name, below one folder of an object store. Cloning it is cheap.
#[derive(Debug, Clone)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    root: Path,
    label: Arc<str>,
    url_key: Arc<str>,
    /// The folder on disk, if it is one: it has half-written files to clear up.
    local: Option<DurableLocal>,
}

/// The answer to creating an object.
#[derive(Debug)]
pub enum CreateAnswer {
    /// The name did not exist and now has these bytes, durably.
    Created,
    /// The store says that the name exists. A store that tries again by itself may have met our own object: read it.
    Exists,
    /// Nothing came to be, and nothing will: a full disk, for example.
    Refused(Error),
    /// Anything else: the object may or may not have come to be.
    Unclear(Error),
}

/// An object that a listing showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectEntry {
    /// Its name within the store, for example `data/0190….parquet`. Not an [`ObjectName`]: a folder may hold other files too.
    pub name: String,
    /// Its length in bytes.
    pub size_bytes: u64,
    /// When it was last written, in milliseconds since 1970, by the clock of the store.
    pub modified_ms: u64,
}

impl Store {
    /// A local folder, whose writes survive a power cut. It need not exist: the first write creates it.
    pub fn local(dir: &std::path::Path) -> Result<Self> {
        Self::folder(dir, true)
    }

    /// A local folder for scratch data: nothing is synced, so a power cut may lose or empty any object.
    pub fn local_not_durable(dir: &std::path::Path) -> Result<Self> {
        Self::folder(dir, false)
    }

    fn folder(dir: &std::path::Path, durable: bool) -> Result<Self> {
        let label = dir.display().to_string();
        let objects = DurableLocal::new(dir, durable).map_err(|error| Error::Store {
            operation: "open",
            object: label.clone(),
            source: error.into(),
        })?;
        Ok(Store { local: Some(objects.clone()), ..Self::new(Arc::new(objects), Path::default(), label) })
    }

    /// A store in memory, empty, gone with its last clone.
    pub fn memory() -> Self {
        Self::new(Arc::new(InMemory::new()), Path::default(), "memory:".to_owned())
    }

    /// The folder `root` of `objects`. `label` is what messages call it: it must not hold a secret.
    pub fn new(objects: Arc<dyn ObjectStore>, root: Path, label: String) -> Self {
        static NEXT_KEY: AtomicU64 = AtomicU64::new(0);
        let url_key = format!("amend-{}", NEXT_KEY.fetch_add(1, Ordering::Relaxed));
        Store { objects, root, label: label.into(), url_key: url_key.into(), local: None }
    }

    /// The folder `folder` (`a` or `a/b`) of this store. What is not plain in its name is escaped: it cannot lead outside.
    pub fn child(&self, folder: &str) -> Self {
        let escaped = Path::from(folder);
        let parts = folder.split('/').filter(|part| !part.is_empty());
        let root = parts.fold(self.root.clone(), |root, part| root.join(part));
        Store { root, label: self.printable(escaped.as_ref()).into(), ..self.clone() }
    }

    /// Where it is, for messages.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Whether it is a folder of this machine's file system.
    pub fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// The object store below.
    pub fn objects(&self) -> &Arc<dyn ObjectStore> {
        &self.objects
    }

    /// Where an object of this store is in the object store below.
    pub fn location(&self, name: &ObjectName) -> Path {
        self.root.clone().join(name.folder()).join(name.file())
    }

    /// The authority of a URL for the object store below: the same for this store, its children and clones, and different
    /// for every other store.
    pub fn url_key(&self) -> &str {
        &self.url_key
    }

    /// All bytes of an object.
    pub async fn read(&self, name: &ObjectName) -> Result<Bytes> {
        self.get(name, None, u64::MAX).await?.map_err(|absent| self.failed("read", name, absent))
    }

    /// All bytes of an object; `None` if it does not exist.
    pub async fn read_if_present(&self, name: &ObjectName) -> Result<Option<Bytes>> {
        Ok(self.get(name, None, u64::MAX).await?.ok())
    }

    /// All bytes of an object; `None` if it does not exist. One of more than `limit_bytes` is refused before it is read.
    pub async fn read_at_most(&self, name: &ObjectName, limit_bytes: u64) -> Result<Option<Bytes>> {
        Ok(self.get(name, None, limit_bytes).await?.ok())
    }

    /// The bytes `range` of an object, all of them.
    pub async fn read_range(&self, name: &ObjectName, range: Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let bytes = self.get(name, Some(range.clone()), u64::MAX).await?.map_err(|absent| self.failed("read", name, absent))?;
        if bytes.len() as u64 != range.end - range.start {
            return Err(self.failed("read", name, CutShort { expected_bytes: range.end - range.start, found_bytes: bytes.len() as u64 }));
        }
        Ok(bytes)
    }

    /// The bytes, or the error that says that there is no such object.
    async fn get(&self, name: &ObjectName, range: Option<Range<u64>>, limit_bytes: u64) -> Result<Result<Bytes, StoreError>> {
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        let found = match self.objects.get_opts(&self.location(name), options).await {
            Ok(found) => found,
            Err(absent @ StoreError::NotFound { .. }) => return Ok(Err(absent)),
            Err(error) => return Err(self.failed("read", name, error)),
        };
        let expected_bytes = found.range.end.saturating_sub(found.range.start);
        if expected_bytes > limit_bytes {
            let reason = format!("it has {expected_bytes} bytes, more than the limit of {limit_bytes}");
            return Err(Error::damaged(self.label(), name.as_str(), reason));
        }
        let bytes = found.bytes().await.map_err(|error| self.failed("read", name, error))?;
        if bytes.len() as u64 != expected_bytes {
            return Err(self.failed("read", name, CutShort { expected_bytes, found_bytes: bytes.len() as u64 }));
        }
        Ok(Ok(bytes))
    }

    /// Whether an object exists.
    pub async fn exists(&self, name: &ObjectName) -> Result<bool> {
        match self.objects.head(&self.location(name)).await {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.failed("look up", name, error)),
        }
    }

    /// The length of an object in bytes.
    pub async fn size(&self, name: &ObjectName) -> Result<u64> {
        let meta = self.objects.head(&self.location(name)).await;
        Ok(meta.map_err(|error| self.failed("look up", name, error))?.size)
    }

    /// Creates an object if its name does not exist.
    pub async fn create(&self, name: &ObjectName, bytes: Bytes) -> CreateAnswer {
        match self.objects.put_opts(&self.location(name), bytes.into(), PutMode::Create.into()).await {
            Ok(_) => CreateAnswer::Created,
            Err(StoreError::AlreadyExists { .. }) => CreateAnswer::Exists,
            Err(error) if local::left_no_name(&error) => CreateAnswer::Refused(self.failed("create", name, error)),
            Err(error) => CreateAnswer::Unclear(self.failed("create", name, error)),
        }
    }

    /// Writes an object under a name that nobody else writes, durably.
    pub async fn write(&self, name: &ObjectName, bytes: Bytes) -> Result<()> {
        self.put(name, bytes, PutOptions::default()).await
    }

    /// Writes an object whose loss in a power cut costs nothing (a hint): whole or not at all for readers of today, but not
    /// synced.
    pub async fn write_not_durable(&self, name: &ObjectName, bytes: Bytes) -> Result<()> {
        let mut options = PutOptions::default();
        options.extensions.insert(Relaxed);
        self.put(name, bytes, options).await
    }

    async fn put(&self, name: &ObjectName, bytes: Bytes, options: PutOptions) -> Result<()> {
        let answer = self.objects.put_opts(&self.location(name), bytes.into(), options).await;
        answer.map(|_| ()).map_err(|error| self.failed("write", name, error))
    }

    /// Writes an object piece by piece, under a name that nobody else writes, durably.
    pub fn writer(&self, name: &ObjectName) -> ObjectWriter {
        ObjectWriter::new(Arc::clone(&self.objects), self.location(name), self.printable(name.as_str()))
    }

    /// Deletes an object; one that does not exist is as good as deleted.
    pub async fn delete(&self, name: &ObjectName) -> Result<()> {
        match self.objects.delete(&self.location(name)).await {
            Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("delete", name, error)),
        }
    }

    /// The objects directly in `folder` (for example `data`), in no order. A folder that does not exist is empty.
    pub async fn list(&self, folder: &str) -> Result<Vec<ObjectEntry>> {
        let listing = self.objects.list_with_delimiter(Some(&self.root.clone().join(folder))).await.map_err(|error| Error::Store {
            operation: "list",
            object: self.printable(folder),
            source: error.into(),
        })?;
        let entries = listing.objects.into_iter().filter_map(|meta| {
            Some(ObjectEntry {
                name: format!("{folder}/{}", meta.location.filename()?),
                size_bytes: meta.size,
                modified_ms: u64::try_from(meta.last_modified.timestamp_millis()).unwrap_or(0),
            })
        });
        Ok(entries.collect())
    }

    /// The folders directly in `folder`, by name, in no order.
    pub async fn list_folders(&self, folder: &str) -> Result<Vec<String>> {
        let listing = self.objects.list_with_delimiter(Some(&self.root.clone().join(folder))).await.map_err(|error| Error::Store {
            operation: "list",
            object: self.printable(folder),
            source: error.into(),
        })?;
        Ok(listing.common_prefixes.iter().filter_map(|prefix| prefix.parts().next_back().map(|part| part.as_ref().to_owned())).collect())
    }

    /// Removes this store's own folder and the folders of objects in it, as far as they are empty. Only a local folder has any.
    pub async fn remove_empty_folders(&self) -> Result<()> {
        let Some(local) = &self.local else { return Ok(()) };
        let inner = FOLDERS.iter().map(|folder| self.root.clone().join(*folder));
        let all = inner.chain([self.root.clone()]).collect();
        local.remove_empty_folders(all).await.map_err(|error| Error::Store {
            operation: "clear up",
            object: self.label().to_owned(),
            source: error.into(),
        })
    }

    /// Removes the half-written files that crashes left in `folder`, which no listing shows, if they were last written before
    /// `before_ms` (an upload may be under way). Returns how many there were; only a local folder has any.
    pub async fn remove_half_written(&self, folder: &str, before_ms: u64) -> Result<u64> {
        let Some(local) = &self.local else {
            return Ok(0);
        };
        local.remove_half_written(self.root.clone().join(folder), before_ms).await.map_err(|error| Error::Store {
            operation: "clear up",
            object: self.printable(folder),
            source: error.into(),
        })
    }

    /// By how much our clock is ahead of the one that gives objects their times; 0 if it is not, but for rounding. An object is written
    /// for it.
    pub async fn clock_ahead_ms(&self) -> Result<u64> {
        let name = ObjectName::clock();
        self.write_not_durable(&name, Bytes::new()).await?;
        let meta = self.objects.head(&self.location(&name)).await.map_err(|error| self.failed("look up", &name, error))?;
        let ahead_ms = env::now_ms().saturating_sub(u64::try_from(meta.last_modified.timestamp_millis()).unwrap_or(0));
        Ok(if ahead_ms > ROUNDED_MS { ahead_ms } else { 0 })
    }

    /// The newest version that has a manifest in `folder` (`_versions` or `_catalog`), by listing it.
    pub async fn newest_version(&self, folder: &str) -> Result<Option<u64>> {
        let entries = self.list(folder).await?;
        Ok(entries.iter().filter_map(|entry| ObjectName::parse(&entry.name).ok()?.version_of()).max())
    }

    fn printable(&self, name: &str) -> String {
        format!("{}/{name}", self.label)
    }

    fn failed(&self, operation: &'static str, name: &ObjectName, source: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Store { operation, object: self.printable(name.as_str()), source: Box::new(source) }
    }
}

/// Times of objects are rounded: so much may lie between them and a clock that is right.
pub const ROUNDED_MS: u64 = 2_000;

/// Fewer bytes arrived than the store had announced, or than the object was said to have.
#[derive(Debug, thiserror::Error)]
#[error("it was cut short: {found_bytes} of {expected_bytes} bytes")]
struct CutShort {
    expected_bytes: u64,
    found_bytes: u64,
}

#[cfg(test)]
mod tests;
