//! An object store in memory that lets others run before and after every operation, so that sessions on one thread meet at
//! every point of a commit; and that fails now and then, if it is told to.

use amend::store::faults::{Answer, Fault, FaultStore, OpKind};
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::{Arc, Mutex};

const ANSWERS: [Answer; 5] = [Answer::AlreadyExists, Answer::Precondition, Answer::NotModified, Answer::Generic, Answer::Timeout];

/// The store.
#[derive(Debug)]
pub struct Restless {
    inner: FaultStore,
    random: Mutex<StdRng>,
}

impl Restless {
    /// Over `raw`; what it does follows from the seed.
    pub fn new(raw: Arc<InMemory>, seed: u64) -> Restless {
        Restless { inner: FaultStore::new(raw), random: Mutex::new(StdRng::seed_from_u64(seed)) }
    }

    /// So many operations will fail: most of them creations of versions, with and without effect.
    pub fn fail_some(&self, faults: usize, among_creations: usize) {
        let random = &mut *self.random.lock().unwrap();
        for _ in 0..faults {
            let answer = ANSWERS[random.random_range(0..ANSWERS.len())];
            let lost_or_refused = if random.random_bool(0.6) { Fault::After(answer) } else { Fault::Before(answer) };
            let n = random.random_range(0..among_creations.max(1));
            match random.random_range(0..10) {
                0..6 => self.inner.fail_on(OpKind::Create, "_versions/", n, lost_or_refused),
                // Nothing but silence, until the commit gives up.
                6 => (n..n + 5).for_each(|n| self.inner.fail_on(OpKind::Create, "_versions/", n, Fault::Before(Answer::Timeout))),
                7 => self.inner.fail_on(OpKind::Get, "_versions/", n * 5, Fault::Before(Answer::Timeout)),
                8 => self.inner.fail_on(OpKind::Get, "data/", n * 2, Fault::Before(Answer::Generic)),
                _ => self.inner.fail_on(OpKind::Put, "data/", n, Fault::Before(Answer::Generic)),
            }
        }
    }

    async fn rest(&self) {
        let turns = self.random.lock().unwrap().random_range(0..4);
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }
}

impl std::fmt::Display for Restless {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Restless")
    }
}

#[async_trait]
impl ObjectStore for Restless {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.rest().await;
        let result = self.inner.put_opts(path, payload, options).await;
        self.rest().await;
        result
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.rest().await;
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.rest().await;
        let result = self.inner.get_opts(path, options).await;
        self.rest().await;
        result
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.rest().await;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
