//! Reads in which every byte is held against its checksum: what DataFusion's Parquet reader reads through.
//!
//! ```text
//!   asked for            [---]        [-----]  [-]
//!   blocks         |-------|-------|-------|-------|----|
//!   read, checked  |-------|       |---------------|        each block once a call
//!   handed out           [---]        [-----]  [-]          slices of what was read, not copies
//! ```
//!
//! Goes in: an object store, and what the manifest says of the files that may be read. Comes out: an [`ObjectStore`] that
//! only reads. Always holds: no byte is handed out whose block does not match; a file whose length is not the recorded one
//! is refused; a file that was not given is refused; of a file that has checksums of its footer only, nothing is handed out
//! before the footer was found to match.

use crate::error::Error;
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How much may be asked for before the real length of the file is known: stores set memory aside for all that is asked for,
/// so a record that claims a huge file must not be believed unseen.
const MAX_UNSEEN_BYTES: u64 = 32 * 1024 * 1024;

/// What is known of a file before it is read, and what to call it when it is not so.
#[derive(Debug, Clone)]
pub struct FileCheck {
    /// Where it is, if not at its own name in the store that is read through.
    pub elsewhere: Option<Elsewhere>,
    /// Its length in bytes.
    pub size_bytes: u64,
    /// How many bytes at its beginning have no checksums. If there are any, those after them (a footer that says where everything
    /// is) are held against theirs before anything else is handed out, whether they are asked for or not.
    pub unchecked_bytes: u64,
    /// The size of a block in bytes.
    pub block_bytes: u32,
    /// CRC-32C of each block of the other bytes, the last block being the rest of the file.
    pub crc32c: Arc<[u32]>,
    /// The table, for errors.
    pub table: String,
    /// The object within the table's folder, for errors.
    pub object: String,
}

/// A place in another store.
#[derive(Debug, Clone)]
pub struct Elsewhere {
    /// The store.
    pub objects: Arc<dyn ObjectStore>,
    /// Where the file is in it.
    pub location: Path,
}

impl FileCheck {
    /// The blocks that hold `range`, which lies in the file and is not empty.
    fn blocks_around(&self, range: &Range<u64>) -> Range<u64> {
        let (block_bytes, first) = (u64::from(self.block_bytes).max(1), self.unchecked_bytes);
        let start = range.start.checked_sub(first).map_or(range.start, |start| first + start / block_bytes * block_bytes);
        let blocks = range.end.saturating_sub(first).div_ceil(block_bytes);
        let end = if blocks == 0 { range.end } else { blocks.saturating_mul(block_bytes).saturating_add(first) };
        start..end.min(self.size_bytes)
    }

    /// The bytes that have checksums.
    fn checked(&self) -> Range<u64> {
        self.unchecked_bytes..self.size_bytes
    }

    /// The fewest spans of whole blocks that hold all of `ranges`, in file order, none touching another.
    fn spans_of(&self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut blocks: Vec<Range<u64>> = ranges.iter().filter(|range| !range.is_empty()).map(|range| self.blocks_around(range)).collect();
        blocks.sort_unstable_by_key(|span| span.start);
        let mut spans: Vec<Range<u64>> = Vec::with_capacity(blocks.len());
        for next in blocks {
            match spans.last_mut() {
                Some(last) if next.start <= last.end => last.end = last.end.max(next.end),
                _ => spans.push(next),
            }
        }
        spans
    }

    /// Holds `bytes`, which should be the blocks of `span`, against their checksums.
    fn verify_blocks(&self, span: &Range<u64>, bytes: &[u8]) -> Result<()> {
        if bytes.len() as u64 != span.end - span.start {
            return Err(self.damaged(format!("only {} of its bytes {}..{} arrived", bytes.len(), span.start, span.end)));
        }
        let unchecked = usize::try_from(self.unchecked_bytes.saturating_sub(span.start)).unwrap_or(usize::MAX);
        let Some(bytes) = bytes.get(unchecked..) else { return Ok(()) };
        let start = span.start.max(self.unchecked_bytes);
        let block_bytes = u64::from(self.block_bytes).max(1);
        let first = usize::try_from((start - self.unchecked_bytes) / block_bytes).unwrap_or(usize::MAX);
        let blocks = bytes.chunks(block_bytes as usize);
        let expected = self.crc32c.get(first..).unwrap_or_default();
        if expected.len() < blocks.len() {
            return Err(self.damaged(format!("there are no checksums of its bytes {}..{}", span.start, span.end)));
        }
        for (index, (block, expected)) in blocks.zip(expected).enumerate() {
            if super::crc32c(block) != *expected {
                let at = start + index as u64 * block_bytes;
                return Err(self.damaged(format!("the checksum of its bytes {at}..{} does not match", at + block.len() as u64)));
            }
        }
        Ok(())
    }

    /// Whether the record itself adds up: one checksum for each block.
    fn verify_record(&self) -> Result<()> {
        let (count, block_bytes) = (self.crc32c.len(), u64::from(self.block_bytes));
        let checked_bytes = self.size_bytes.saturating_sub(self.unchecked_bytes);
        if block_bytes > 0 && checked_bytes.div_ceil(block_bytes) == count as u64 && (checked_bytes > 0 || self.size_bytes == 0) {
            return Ok(());
        }
        Err(self.damaged(format!("{count} checksums are recorded for {checked_bytes} bytes in blocks of {block_bytes}")))
    }

    fn verify_size(&self, found_bytes: u64) -> Result<()> {
        if found_bytes == self.size_bytes {
            return Ok(());
        }
        Err(self.damaged(format!("it has {found_bytes} bytes where {} were written", self.size_bytes)))
    }

    fn damaged(&self, reason: String) -> StoreError {
        refused(Error::damaged(&self.table, &self.object, reason))
    }
}

/// An [`ObjectStore`] that reads the files it was given, and checks what it reads.
#[derive(Debug)]
pub struct VerifiedStore {
    inner: Arc<dyn ObjectStore>,
    files: HashMap<Path, File>,
}

#[derive(Debug)]
struct File {
    check: FileCheck,
    /// Whether its length has been compared; once a file is enough, since its blocks are compared at every read.
    size_seen: AtomicBool,
    /// Whether the bytes that have checksums are known to be right, where others have none.
    checked_seen: AtomicBool,
}

impl VerifiedStore {
    /// Reads of `files` in `inner`.
    pub fn new(inner: Arc<dyn ObjectStore>, files: HashMap<Path, FileCheck>) -> Self {
        let file = |check: FileCheck| {
            let checked_seen = AtomicBool::new(check.unchecked_bytes == 0);
            File { check, size_seen: AtomicBool::new(false), checked_seen }
        };
        let files = files.into_iter().map(|(path, check)| (path, file(check))).collect();
        VerifiedStore { inner, files }
    }

    /// The store of a file, and where it is in it.
    fn place<'a>(&'a self, location: &'a Path, file: &'a File) -> (&'a Arc<dyn ObjectStore>, &'a Path) {
        match &file.check.elsewhere {
            Some(Elsewhere { objects, location }) => (objects, location),
            None => (&self.inner, location),
        }
    }

    /// Holds what has checksums of a file against them, unless that was done, where the rest of it has none.
    async fn check_first(&self, location: &Path, file: &File) -> Result<()> {
        if file.checked_seen.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.look_up(location, file).await?;
        let (objects, place) = self.place(location, file);
        let checked = file.check.checked();
        let bytes = match objects.get_range(place, checked.clone()).await {
            Ok(bytes) => bytes,
            Err(error) => return Err(self.why(error, location, file).await),
        };
        file.check.verify_blocks(&checked, &bytes)?;
        file.checked_seen.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn file(&self, location: &Path) -> Result<&File> {
        let unknown = || refused(Error::internal(format!("'{location}' is read without its checksums")));
        let file = self.files.get(location).ok_or_else(unknown)?;
        file.check.verify_record()?;
        Ok(file)
    }

    /// Compares the real length of a file with the recorded one.
    async fn look_up(&self, location: &Path, file: &File) -> Result<ObjectMeta> {
        let (objects, place) = self.place(location, file);
        let meta = objects.head(place).await.map_err(|error| match error {
            StoreError::NotFound { .. } => file.check.damaged("it does not exist".to_owned()),
            other => unreadable(location, other),
        })?;
        file.check.verify_size(meta.size)?;
        file.size_seen.store(true, Ordering::Relaxed);
        Ok(meta)
    }

    /// Why a read failed: a file of the wrong length is told as that, since stores tell it in many ways.
    async fn why(&self, error: StoreError, location: &Path, file: &File) -> StoreError {
        match self.look_up(location, file).await {
            Err(better) => better,
            Ok(_) => unreadable(location, error),
        }
    }
}

impl std::fmt::Display for VerifiedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VerifiedStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for VerifiedStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let file = self.file(location)?;
        let range = match &options.range {
            Some(range) => range.as_range(file.check.size_bytes).map_err(refused)?,
            None => 0..file.check.size_bytes,
        };
        if options.head || range.is_empty() {
            let meta = self.look_up(location, file).await?;
            options.check_preconditions(&meta)?;
            return Ok(GetResult {
                payload: GetResultPayload::Stream(stream::empty().boxed()),
                meta,
                range,
                attributes: Default::default(),
            });
        }
        let blocks = file.check.blocks_around(&range);
        let expanded = GetOptions { range: Some(GetRange::Bounded(blocks.clone())), ..options };
        self.check_first(location, file).await?;
        let (objects, place) = self.place(location, file);
        let found = match objects.get_opts(place, expanded).await {
            Ok(found) => found,
            // The caller's own conditions; nothing is wrong with the file.
            Err(error @ (StoreError::Precondition { .. } | StoreError::NotModified { .. })) => return Err(error),
            Err(error) => return Err(self.why(error, location, file).await),
        };
        let meta = found.meta.clone();
        file.check.verify_size(meta.size)?;
        file.size_seen.store(true, Ordering::Relaxed);
        let bytes = found.bytes().await.map_err(|error| unreadable(location, error))?;
        file.check.verify_blocks(&blocks, &bytes)?;
        let part = slice_of(&blocks, &bytes, &range)?;
        let payload = GetResultPayload::Stream(stream::once(async { Ok(part) }).boxed());
        Ok(GetResult { payload, meta, range, attributes: Default::default() })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let file = self.file(location)?;
        if let Some(range) = ranges.iter().find(|range| range.start > range.end || range.end > file.check.size_bytes) {
            return Err(refused(format!("bytes {range:?} were asked for of '{location}', which has {}", file.check.size_bytes)));
        }
        let spans = file.check.spans_of(ranges);
        if spans.is_empty() {
            return Ok(vec![Bytes::new(); ranges.len()]);
        }
        self.check_first(location, file).await?;
        let (objects, place) = self.place(location, file);
        let reading = objects.get_ranges(place, &spans);
        let read = if file.size_seen.load(Ordering::Relaxed) {
            reading.await
        } else if spans.iter().map(|span| span.end - span.start).sum::<u64>() > MAX_UNSEEN_BYTES {
            self.look_up(location, file).await?;
            reading.await
        } else {
            let (seen, read) = futures::join!(self.look_up(location, file), reading);
            seen?;
            read
        };
        let buffers = match read {
            Ok(buffers) => buffers,
            Err(error) => return Err(self.why(error, location, file).await),
        };
        for (span, bytes) in spans.iter().zip(&buffers) {
            file.check.verify_blocks(span, bytes)?;
        }
        let part = |range: &Range<u64>| {
            if range.is_empty() {
                return Ok(Bytes::new());
            }
            let index = spans.partition_point(|span| span.end <= range.start);
            match (spans.get(index), buffers.get(index)) {
                (Some(span), Some(bytes)) => slice_of(span, bytes, range),
                _ => Err(refused(format!("bytes {range:?} of '{location}' did not arrive"))),
            }
        };
        ranges.iter().map(part).collect()
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(reads_only())
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(reads_only())
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        locations.map(|_| Err(reads_only())).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::once(async { Err(reads_only()) }).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(reads_only())
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(reads_only())
    }
}

/// The part `range` of `bytes`, which are the file's bytes `span`.
fn slice_of(span: &Range<u64>, bytes: &Bytes, range: &Range<u64>) -> Result<Bytes> {
    let within = |at: u64| at.checked_sub(span.start).and_then(|at| usize::try_from(at).ok()).filter(|at| *at <= bytes.len());
    match (within(range.start), within(range.end)) {
        (Some(start), Some(end)) => Ok(bytes.slice(start..end)),
        _ => Err(refused(format!("bytes {range:?} are not among the bytes {span:?} that were read"))),
    }
}

/// The store's own fault, as ours: DataFusion's Parquet reader would have it look like damage.
fn unreadable(location: &Path, error: StoreError) -> StoreError {
    refused(Error::Store { operation: "read", object: location.to_string(), source: Box::new(error) })
}

fn refused(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::Generic { store: "VerifiedStore", source: source.into() }
}

fn reads_only() -> StoreError {
    StoreError::NotSupported { source: "files are only read through their checksums".into() }
}

#[cfg(test)]
mod tests;
