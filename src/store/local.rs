//! A local folder whose writes survive a power cut.
//!
//! `object_store`'s own `LocalFileSystem` never syncs. This store reads through it and writes by itself:
//!
//! ```text
//!   write <folder>/#<digits>  ->  fsync the file  ->  hard link (create) or rename (overwrite)  ->  fsync <folder>
//! ```
//!
//! Goes in: objects. Comes out: objects, or an error with the path and what the operating system said.
//! Always holds: a name appears with all of its bytes or not at all; creating it fails if it is there; success means that
//! the name, its bytes and the folders that lead to it are on disk. A file whose name is `#` and digits is half-written: it
//! is never listed or read as an object (`LocalFileSystem` leaves such names out), and a crash can leave one behind.
//! A folder that could not be synced after a name appeared in it is synced again before anything else is read or written
//! here, so that nobody takes such a name for safe.

use super::env;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::UNIX_EPOCH;

/// Asks for a write that need not survive a power cut, whatever the store does otherwise (an extension of `PutOptions`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Relaxed;

/// An [`ObjectStore`] over a local folder. The folder need not exist: the first write creates it.
#[derive(Debug, Clone)]
pub struct DurableLocal {
    disk: Arc<Disk>,
}

impl DurableLocal {
    /// The store over `root`. With `durable` off nothing is ever synced: a power cut may lose or empty any object.
    pub fn new(root: &Path, durable: bool) -> io::Result<Self> {
        let root = std::path::absolute(root)?;
        let disk = Disk { root, durable, opened: OnceLock::new(), anchored: Mutex::default(), unsynced: Mutex::default() };
        Ok(DurableLocal { disk: Arc::new(disk) })
    }

    /// Removes what a crash left half-written in the folder at `location`, if it was last written before `before_ms`.
    /// Returns how many files that were.
    pub(super) async fn remove_half_written(&self, location: ObjectPath, before_ms: u64) -> Result<u64> {
        self.blocking(move |disk| disk.remove_half_written(&location, before_ms)).await
    }

    /// Removes the folders at these locations that are empty, one after another.
    pub(super) async fn remove_empty_folders(&self, locations: Vec<ObjectPath>) -> Result<()> {
        self.blocking(move |disk| locations.iter().try_for_each(|location| disk.remove_empty_folder(location))).await
    }

    /// Runs `work` where it may block.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Disk) -> Result<T> + Send + 'static) -> Result<T> {
        let disk = Arc::clone(&self.disk);
        tokio::task::spawn_blocking(move || work(&disk)).await?
    }

    /// What to read with; `None` while the folder does not exist.
    async fn reader(&self) -> Result<Option<LocalFileSystem>> {
        if let Some(opened) = self.disk.opened.get()
            && lock(&self.disk.unsynced).is_empty()
        {
            return Ok(Some(opened.reader.clone()));
        }
        self.blocking(|disk| {
            disk.settle()?;
            Ok(disk.open()?.map(|opened| opened.reader.clone()))
        })
        .await
    }

    /// What to read the object at `location` with.
    async fn reader_of(&self, location: &ObjectPath) -> Result<LocalFileSystem> {
        self.reader().await?.ok_or_else(|| self.disk.absent(location))
    }
}

impl std::fmt::Display for DurableLocal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DurableLocal({})", self.disk.root.display())
    }
}

#[async_trait]
impl ObjectStore for DurableLocal {
    async fn put_opts(&self, location: &ObjectPath, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let publish = match options.mode {
            PutMode::Create => Publish::Create,
            PutMode::Overwrite => Publish::Replace,
            PutMode::Update(_) => return Err(not_offered("put_opts with PutMode::Update")),
        };
        if !options.attributes.is_empty() {
            return Err(not_offered("put_opts with attributes"));
        }
        let relaxed = options.extensions.get::<Relaxed>().is_some();
        let location = location.clone();
        self.blocking(move |disk| disk.put(&location, &payload, publish, disk.durable && !relaxed)).await?;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn put_multipart_opts(&self, location: &ObjectPath, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        if !options.attributes.is_empty() {
            return Err(not_offered("put_multipart_opts with attributes"));
        }
        let location = location.clone();
        let (target, temporary) = self.blocking(move |disk| disk.begin(&location)).await?;
        Ok(Box::new(Upload { store: self.clone(), target, temporary: Some(Arc::new(temporary)), next_offset: 0 }))
    }

    async fn get_opts(&self, location: &ObjectPath, options: GetOptions) -> Result<GetResult> {
        self.reader_of(location).await?.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &ObjectPath, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.reader_of(location).await?.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<ObjectPath>>) -> BoxStream<'static, Result<ObjectPath>> {
        let store = self.clone();
        let deleted = async move {
            Ok(match store.reader().await? {
                Some(reader) => reader.delete_stream(locations),
                None => locations.map(move |location| Err(store.disk.absent(&location?))).boxed(),
            })
        };
        flattened(deleted)
    }

    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        let listed = async move {
            Ok(match store.reader().await? {
                Some(reader) => reader.list(prefix.as_ref()),
                None => stream::empty().boxed(),
            })
        };
        flattened(listed)
    }

    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> Result<ListResult> {
        match self.reader().await? {
            Some(reader) => reader.list_with_delimiter(prefix).await,
            None => Ok(ListResult { common_prefixes: Vec::new(), objects: Vec::new() }),
        }
    }

    async fn copy_opts(&self, _from: &ObjectPath, _to: &ObjectPath, _options: CopyOptions) -> Result<()> {
        Err(not_offered("copy_opts"))
    }
}

/// How a half-written file becomes an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Publish {
    /// Fails if the name is there.
    Create,
    /// Takes the place of what is there.
    Replace,
}

/// The folder; all of its methods block.
#[derive(Debug)]
struct Disk {
    root: PathBuf,
    durable: bool,
    /// Set once the folder has been seen.
    opened: OnceLock<Opened>,
    /// Folders that exist and whose every name up to the root is on disk.
    anchored: Mutex<HashSet<PathBuf>>,
    /// Folders in which a name appeared that may not be on disk.
    unsynced: Mutex<HashSet<PathBuf>>,
}

#[derive(Debug)]
struct Opened {
    /// The root without symbolic links; every path of `reader` starts with it.
    root: PathBuf,
    reader: LocalFileSystem,
}

impl Disk {
    fn absent(&self, location: &ObjectPath) -> StoreError {
        let path = self.root.join(location.as_ref()).display().to_string();
        StoreError::NotFound { path, source: io::Error::from(io::ErrorKind::NotFound).into() }
    }

    fn open(&self) -> Result<Option<&Opened>> {
        if let Some(opened) = self.opened.get() {
            return Ok(Some(opened));
        }
        let root = match fs::canonicalize(&self.root) {
            Ok(root) => root,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("open folder", &self.root, error)),
        };
        if !root.is_dir() {
            return Err(failed("open folder", &root, io::Error::from(io::ErrorKind::NotADirectory)));
        }
        let reader = LocalFileSystem::new_with_prefix(&root)?;
        Ok(Some(self.opened.get_or_init(|| Opened { root, reader })))
    }

    /// Opens the folder, having created it if need be.
    fn open_or_create(&self) -> Result<&Opened> {
        if let Some(opened) = self.open()? {
            return Ok(opened);
        }
        let missing: Vec<&Path> = self.root.ancestors().take_while(|folder| !folder.exists()).collect();
        fs::create_dir_all(&self.root).map_err(|error| failed("create folder", &self.root, error))?;
        if self.durable {
            for parent in missing.iter().filter_map(|folder| folder.parent()) {
                self.sync_folder(parent)?;
            }
        }
        self.open()?.ok_or_else(|| failed("open folder", &self.root, io::Error::from(io::ErrorKind::NotFound)))
    }

    /// Makes sure that `folder` exists and, if writes are durable, will exist after a power cut. Whoever created it may have
    /// died before syncing, so the names above it are synced once whether or not they are new.
    fn anchor(&self, folder: &Path, root: &Path) -> Result<()> {
        if lock(&self.anchored).contains(folder) {
            return Ok(());
        }
        fs::create_dir_all(folder).map_err(|error| failed("create folder", folder, error))?;
        if self.durable {
            for above in folder.ancestors().skip(1).take_while(|above| above.starts_with(root)) {
                self.sync_folder(above)?;
            }
        }
        lock(&self.anchored).insert(folder.to_owned());
        Ok(())
    }

    /// A new half-written file beside the object at `location`, and the path of that object.
    fn begin(&self, location: &ObjectPath) -> Result<(PathBuf, Temporary)> {
        self.settle()?;
        let opened = self.open_or_create()?;
        let target = opened.reader.path_to_filesystem(location)?;
        let folder = target.parent().unwrap_or(&opened.root);
        self.anchor(folder, &opened.root)?;
        let temporary = match Temporary::create_in(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Someone removed the folder since it was last used here.
                lock(&self.anchored).remove(folder);
                self.anchor(folder, &opened.root)?;
                Temporary::create_in(folder)
            }
            other => other,
        };
        let temporary = temporary.map_err(|error| failed("create a file in", folder, error))?;
        Ok((target, temporary))
    }

    fn put(&self, location: &ObjectPath, payload: &PutPayload, publish: Publish, durable: bool) -> Result<()> {
        let (target, temporary) = self.begin(location)?;
        if publish == Publish::Create && fs::symlink_metadata(&target).is_ok() {
            return Err(already_exists(&target, io::Error::from(io::ErrorKind::AlreadyExists)));
        }
        temporary.write_at(0, payload).map_err(|error| failed("write", &target, error))?;
        self.publish(&temporary, &target, publish, durable)
    }

    fn publish(&self, temporary: &Temporary, target: &Path, publish: Publish, durable: bool) -> Result<()> {
        if durable {
            lock(&temporary.file).sync_all().map_err(|error| failed("sync", target, error))?;
        }
        match publish {
            Publish::Create => fs::hard_link(&temporary.path, target).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => already_exists(target, error),
                _ => failed(PUBLISH, target, error),
            })?,
            Publish::Replace => fs::rename(&temporary.path, target).map_err(|error| failed("replace", target, error))?,
        }
        match target.parent() {
            Some(folder) if durable => self.sync_folder(folder),
            _ => Ok(()),
        }
    }

    fn remove_half_written(&self, location: &ObjectPath, before_ms: u64) -> Result<u64> {
        let folder = self.folder(location);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(failed("read folder", &folder, error)),
        };
        let mut removed = 0;
        for entry in entries {
            let entry = entry.map_err(|error| failed("read folder", &folder, error))?;
            if !is_temporary(&entry.file_name()) {
                continue;
            }
            let path = entry.path();
            let written = entry.metadata().and_then(|metadata| metadata.modified());
            let written_ms = written.map(|at| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis());
            let outcome = match written_ms {
                Ok(written_ms) if written_ms < u128::from(before_ms) => fs::remove_file(&path).map(|()| removed += 1),
                other => other.map(|_| ()),
            };
            // Its writer may have ended in the meantime.
            outcome.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(failed("remove", &path, error)) })?;
        }
        Ok(removed)
    }

    fn remove_empty_folder(&self, location: &ObjectPath) -> Result<()> {
        let folder = self.folder(location);
        match fs::remove_dir(&folder) {
            Err(error) if ![io::ErrorKind::NotFound, io::ErrorKind::DirectoryNotEmpty].contains(&error.kind()) => {
                Err(failed("remove folder", &folder, error))
            }
            _ => Ok(()),
        }
    }

    fn folder(&self, location: &ObjectPath) -> PathBuf {
        location.parts().fold(self.root.clone(), |folder, part| folder.join(part.as_ref()))
    }

    /// Syncs the names in `folder`, and remembers it if that fails.
    fn sync_folder(&self, folder: &Path) -> Result<()> {
        match sync_names(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                lock(&self.unsynced).insert(folder.to_owned());
                Err(failed(SYNC_FOLDER, folder, error))
            }
            // Synced, or gone and its names with it.
            _ => {
                lock(&self.unsynced).remove(folder);
                Ok(())
            }
        }
    }

    /// Syncs what could not be synced when it was written.
    fn settle(&self) -> Result<()> {
        let waiting: Vec<PathBuf> = lock(&self.unsynced).iter().cloned().collect();
        waiting.iter().try_for_each(|folder| self.sync_folder(folder))
    }
}

/// The stream that `opening` will give.
fn flattened<T: 'static>(
    opening: impl Future<Output = Result<BoxStream<'static, Result<T>>>> + Send + 'static,
) -> BoxStream<'static, Result<T>> {
    stream::once(opening).try_flatten().boxed()
}

#[cfg(unix)]
fn sync_names(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Other systems do not let a folder be synced.
#[cfg(not(unix))]
fn sync_names(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// A half-written file. Its name is given up when this is dropped: after a link the object has another name, after a rename
/// this one is gone already, and otherwise nobody wants it.
#[derive(Debug)]
struct Temporary {
    path: PathBuf,
    file: Mutex<File>,
    written_bytes: AtomicU64,
}

impl Temporary {
    fn create_in(folder: &Path) -> io::Result<Self> {
        let path = folder.join(format!("#{}", env::new_uuid().as_u128()));
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Temporary { path, file: Mutex::new(file), written_bytes: AtomicU64::new(0) })
    }

    fn write_at(&self, offset: u64, payload: &PutPayload) -> io::Result<()> {
        let mut file = lock(&self.file);
        file.seek(SeekFrom::Start(offset))?;
        payload.iter().try_for_each(|chunk| file.write_all(chunk))?;
        self.written_bytes.fetch_add(payload.content_length() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Whether a file of this name is half-written.
fn is_temporary(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix('#'));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// An object that arrives in parts.
#[derive(Debug)]
struct Upload {
    store: DurableLocal,
    target: PathBuf,
    /// Taken when the upload ends.
    temporary: Option<Arc<Temporary>>,
    next_offset: u64,
}

impl Upload {
    fn ended(&self) -> StoreError {
        failed("write", &self.target, io::Error::other("the upload has ended"))
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, part: PutPayload) -> UploadPart {
        let Some(temporary) = self.temporary.clone() else {
            return futures::future::ready(Err(self.ended())).boxed();
        };
        let offset = self.next_offset;
        self.next_offset += part.content_length() as u64;
        let (store, target) = (self.store.clone(), self.target.clone());
        async move { store.blocking(move |_| temporary.write_at(offset, &part).map_err(|error| failed("write", &target, error))).await }
            .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let temporary = self.temporary.take().ok_or_else(|| self.ended())?;
        let (target, expected_bytes) = (self.target.clone(), self.next_offset);
        self.store
            .blocking(move |disk| {
                let written_bytes = temporary.written_bytes.load(Ordering::Relaxed);
                if written_bytes != expected_bytes {
                    let gap = format!("only {written_bytes} of {expected_bytes} bytes were written");
                    return Err(failed("complete", &target, io::Error::other(gap)));
                }
                disk.publish(&temporary, &target, Publish::Replace, disk.durable)
            })
            .await?;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn abort(&mut self) -> Result<()> {
        let temporary = self.temporary.take().ok_or_else(|| self.ended())?;
        self.store
            .blocking(move |_| {
                drop(temporary);
                Ok(())
            })
            .await
    }
}

/// What could not be done, to which path, and what the operating system said.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}: {source}", path.display())]
struct DiskError {
    operation: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Making the name of an object.
const PUBLISH: &str = "create";
/// What comes after it.
const SYNC_FOLDER: &str = "sync folder";

impl DiskError {
    fn left_no_name(&self) -> bool {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        match self.operation {
            SYNC_FOLDER => false,
            // On a network's file system the name may be there although the answer was lost.
            PUBLISH => matches!(self.source.kind(), PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull),
            _ => true,
        }
    }
}

/// Whether an error of [`DurableLocal`] says that no name came to be.
pub(super) fn left_no_name(error: &StoreError) -> bool {
    let StoreError::Generic { source, .. } = error else { return false };
    source.downcast_ref::<DiskError>().is_some_and(DiskError::left_no_name)
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Generic { store: "DurableLocal", source: Box::new(DiskError { operation, path: path.to_owned(), source }) }
}

fn already_exists(path: &Path, source: io::Error) -> StoreError {
    StoreError::AlreadyExists { path: path.display().to_string(), source: source.into() }
}

fn not_offered(operation: &str) -> StoreError {
    StoreError::NotImplemented { operation: operation.to_owned(), implementer: "DurableLocal".to_owned() }
}

/// The value, even if a thread died holding it: each is a set that is valid between any two operations.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
