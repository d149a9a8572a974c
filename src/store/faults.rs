//! An object store that fails on command: for tests of this crate and of programs that embed it.
//!
//! ```text
//!   run once without faults    ->  operations() names every call:  0 get  1 put  2 create  3 list ...
//!   for each n, for each fault ->  a fresh store, fail_at(n, fault), the same run again
//! ```
//!
//! Goes in: any object store and a script of faults. Comes out: the same store, until the script strikes.
//! Always holds: without a script it changes nothing; after a crash every operation fails, as it would for a process that
//! is gone, while what was applied before stays in the store below.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kinds of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Reading an object, a part of it, or its length.
    Get,
    /// Writing an object; of an upload in parts the start, each part, and the end.
    Put,
    /// Writing an object if its name does not exist.
    Create,
    /// Listing a folder.
    List,
    /// Deleting an object.
    Delete,
}

/// What a failing store answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The name exists (true or not: S3 says so of a create that merely met another).
    AlreadyExists,
    /// A condition was not met (what Azure says of a lost create).
    Precondition,
    /// The object is as it was.
    NotModified,
    /// Something went wrong.
    Generic,
    /// No answer came in time.
    Timeout,
}

/// What happens to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is not done, and this is the answer.
    Before(Answer),
    /// It is done, and this is the answer: the true one was lost.
    After(Answer),
    /// The process ends just before it.
    CrashBefore,
    /// The process ends just after it.
    CrashAfter,
    /// A write leaves only the first half of its bytes, and fails; other operations are not done, and fail.
    ShortWrite,
}

/// A store with a script of faults. Clones share the script and the record of operations.
#[derive(Debug, Clone)]
pub struct FaultStore {
    inner: Arc<dyn ObjectStore>,
    script: Arc<Mutex<Script>>,
}

#[derive(Debug, Default)]
struct Script {
    operations: Vec<(OpKind, String)>,
    rules: Vec<Rule>,
    crashed: bool,
}

#[derive(Debug)]
enum Rule {
    /// The operation with this index.
    At(usize, Fault),
    /// An operation of this kind on a path with this text, after `skip` others like it.
    On { kind: OpKind, path_contains: String, skip: usize, fault: Fault },
}

impl FaultStore {
    /// `inner`, without faults as yet.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        FaultStore { inner, script: Arc::default() }
    }

    /// Fails operation `n`, counted from 0 as in [`operations`](Self::operations).
    pub fn fail_at(&self, n: usize, fault: Fault) {
        self.script().rules.push(Rule::At(n, fault));
    }

    /// Fails, once, the `n`-th (counted from 0, from now on) operation of `kind` on a path that contains `path_contains`.
    pub fn fail_on(&self, kind: OpKind, path_contains: &str, n: usize, fault: Fault) {
        self.script().rules.push(Rule::On { kind, path_contains: path_contains.to_owned(), skip: n, fault });
    }

    /// Every operation so far, with the path it was about, in the order in which they began.
    pub fn operations(&self) -> Vec<(OpKind, String)> {
        self.script().operations.clone()
    }

    /// Whether a crash has struck.
    pub fn crashed(&self) -> bool {
        self.script().crashed
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an operation and says what is to happen to it.
    fn begin(&self, kind: OpKind, path: &Path) -> Result<Option<Fault>> {
        let mut script = self.script();
        if script.crashed {
            return Err(gone());
        }
        let index = script.operations.len();
        script.operations.push((kind, path.to_string()));
        let strikes = |rule: &mut Rule| match rule {
            Rule::At(at, _) => *at == index,
            Rule::On { kind: of_kind, path_contains, skip, .. } => {
                let meant = *of_kind == kind && path.as_ref().contains(path_contains.as_str());
                let strikes = meant && *skip == 0;
                *skip -= usize::from(meant && !strikes);
                strikes
            }
        };
        // Every rule counts the operation, also when another one strikes.
        let struck: Vec<Rule> = script.rules.extract_if(.., strikes).collect();
        Ok(struck.into_iter().next().map(|rule| match rule {
            Rule::At(_, fault) | Rule::On { fault, .. } => fault,
        }))
    }

    /// Carries out `work` as `fault` will have it.
    async fn act<T>(&self, fault: Option<Fault>, path: &Path, work: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(fault) = fault else {
            return work.await;
        };
        match fault {
            Fault::Before(answer) => Err(answer.error(path)),
            Fault::After(answer) => {
                work.await?;
                Err(answer.error(path))
            }
            Fault::CrashBefore => {
                self.script().crashed = true;
                Err(gone())
            }
            Fault::CrashAfter => {
                let done = work.await;
                self.script().crashed = true;
                done.and(Err(gone()))
            }
            // Of a write nothing but its bytes is short; see `shorten`.
            Fault::ShortWrite => Err(Answer::Generic.error(path)),
        }
    }
}

impl Answer {
    fn error(self, path: &Path) -> StoreError {
        let (path, source) = (path.to_string(), "injected fault".into());
        match self {
            Answer::AlreadyExists => StoreError::AlreadyExists { path, source },
            Answer::Precondition => StoreError::Precondition { path, source },
            Answer::NotModified => StoreError::NotModified { path, source },
            Answer::Generic => StoreError::Generic { store: "FaultStore", source },
            Answer::Timeout => StoreError::Generic { store: "FaultStore", source: "injected fault: no answer in time".into() },
        }
    }
}

fn gone() -> StoreError {
    StoreError::Generic { store: "FaultStore", source: "injected fault: the process is gone".into() }
}

/// A short write is one that succeeds with half of its bytes, and whose answer is lost.
fn shorten(fault: Option<Fault>, payload: PutPayload) -> (Option<Fault>, PutPayload) {
    if fault != Some(Fault::ShortWrite) {
        return (fault, payload);
    }
    let whole = Bytes::from(payload);
    (Some(Fault::After(Answer::Generic)), whole.slice(..whole.len() / 2).into())
}

impl std::fmt::Display for FaultStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FaultStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let kind = if options.mode == PutMode::Create { OpKind::Create } else { OpKind::Put };
        let (fault, payload) = shorten(self.begin(kind, location)?, payload);
        self.act(fault, location, self.inner.put_opts(location, payload, options)).await
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let fault = self.begin(OpKind::Put, location)?;
        let upload = self.act(fault, location, self.inner.put_multipart_opts(location, options)).await?;
        Ok(Box::new(FaultUpload { store: self.clone(), path: location.clone(), upload }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let fault = self.begin(OpKind::Get, location)?;
        self.act(fault, location, self.inner.get_opts(location, options)).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let fault = self.begin(OpKind::Get, location)?;
        self.act(fault, location, self.inner.get_ranges(location, ranges)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let delete = move |location: Result<Path>| {
            let store = store.clone();
            async move {
                let location = location?;
                let fault = store.begin(OpKind::Delete, &location)?;
                store.act(fault, &location, store.inner.delete(&location)).await?;
                Ok(location)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        let listed = async move {
            let path = prefix.clone().unwrap_or_default();
            let fault = store.begin(OpKind::List, &path)?;
            let found: Vec<ObjectMeta> = store.act(fault, &path, store.inner.list(prefix.as_ref()).try_collect()).await?;
            Ok::<_, StoreError>(stream::iter(found).map(Ok))
        };
        stream::once(listed).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let path = prefix.cloned().unwrap_or_default();
        let fault = self.begin(OpKind::List, &path)?;
        self.act(fault, &path, self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let fault = self.begin(OpKind::Put, to)?;
        self.act(fault, to, self.inner.copy_opts(from, to, options)).await
    }
}

/// An upload in parts through a [`FaultStore`].
#[derive(Debug)]
struct FaultUpload {
    store: FaultStore,
    path: Path,
    upload: Box<dyn MultipartUpload>,
}

#[async_trait]
impl MultipartUpload for FaultUpload {
    fn put_part(&mut self, part: PutPayload) -> UploadPart {
        let fault = match self.store.begin(OpKind::Put, &self.path) {
            Ok(fault) => fault,
            Err(error) => return futures::future::ready(Err(error)).boxed(),
        };
        let (fault, part) = shorten(fault, part);
        let (store, path, writing) = (self.store.clone(), self.path.clone(), self.upload.put_part(part));
        async move { store.act(fault, &path, writing).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let fault = self.store.begin(OpKind::Put, &self.path)?;
        self.store.act(fault, &self.path, self.upload.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        if self.store.crashed() {
            return Err(gone());
        }
        self.upload.abort().await
    }
}

#[cfg(test)]
mod tests;
