//! Writing one new object piece by piece.
//!
//! Goes in: pieces of bytes, in order. Comes out: what was written, with the checksums of its blocks.
//! Always holds: the object does not exist before `finish` answers; an object of up to [`PART_BYTES`] is one request; no more
//! than [`PARTS_IN_FLIGHT`] + 1 parts are held in memory.

use super::checksum::{BlockHasher, Written};
use crate::error::{Error, Result};
use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart};
use std::sync::Arc;

/// The size of a part; object stores want at least 5 MiB.
const PART_BYTES: usize = 8 * 1024 * 1024;
/// How many parts may be on their way at once.
const PARTS_IN_FLIGHT: usize = 4;

/// Writes one object. Dropped before `finish`, it leaves no object (some stores keep orphaned parts until they expire).
#[derive(Debug)]
pub struct ObjectWriter {
    objects: Arc<dyn ObjectStore>,
    location: Path,
    /// The printable name, for errors.
    object: String,
    hasher: BlockHasher,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    /// Small as yet: everything is here.
    Held(Vec<Bytes>),
    /// Large: parts are on their way.
    Parts(WriteMultipart),
    /// A piece could not be written.
    Failed,
}

impl ObjectWriter {
    pub(super) fn new(objects: Arc<dyn ObjectStore>, location: Path, object: String) -> Self {
        ObjectWriter { objects, location, object, hasher: BlockHasher::new(), sink: Sink::Held(Vec::new()) }
    }

    /// How many bytes were given so far.
    pub fn size_bytes(&self) -> u64 {
        self.hasher.size_bytes()
    }

    /// The next bytes.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.hasher.update(&bytes);
        // What is not put back is given up: after a failed piece there is no object to finish.
        self.sink = match std::mem::replace(&mut self.sink, Sink::Failed) {
            Sink::Held(mut pieces) => {
                pieces.push(bytes);
                if self.hasher.size_bytes() <= PART_BYTES as u64 {
                    Sink::Held(pieces)
                } else {
                    let upload = self.objects.put_multipart(&self.location).await.map_err(|error| self.failed(error))?;
                    let parts = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
                    Sink::Parts(self.send(parts, pieces).await?)
                }
            }
            Sink::Parts(parts) => Sink::Parts(self.send(parts, vec![bytes]).await?),
            Sink::Failed => return Err(self.failed(FailedBefore)),
        };
        Ok(())
    }

    /// Sends `pieces`, waiting while too many parts are on their way.
    async fn send(&mut self, mut parts: WriteMultipart, pieces: Vec<Bytes>) -> Result<WriteMultipart> {
        for mut piece in pieces {
            while !piece.is_empty() {
                if let Err(error) = parts.wait_for_capacity(PARTS_IN_FLIGHT).await {
                    // The first error is the one that matters.
                    let _ = parts.abort().await;
                    return Err(self.failed(error));
                }
                parts.put(piece.split_to(piece.len().min(PART_BYTES)));
            }
        }
        Ok(parts)
    }

    /// Makes the object, durably.
    pub async fn finish(mut self) -> Result<Written> {
        let answer = match std::mem::replace(&mut self.sink, Sink::Failed) {
            Sink::Held(pieces) => self.objects.put(&self.location, PutPayload::from_iter(pieces)).await,
            Sink::Parts(parts) => parts.finish().await,
            Sink::Failed => return Err(self.failed(FailedBefore)),
        };
        answer.map_err(|error| self.failed(error))?;
        Ok(self.hasher.finish())
    }

    /// Gives up: no object comes to be.
    pub async fn abort(mut self) -> Result<()> {
        match std::mem::replace(&mut self.sink, Sink::Failed) {
            Sink::Parts(parts) => parts.abort().await.map_err(|error| self.failed(error)),
            Sink::Held(_) | Sink::Failed => Ok(()),
        }
    }

    fn failed(&self, source: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Store { operation: "write", object: self.object.clone(), source: Box::new(source) }
    }
}

/// Why a writer that failed once goes on failing.
#[derive(Debug, thiserror::Error)]
#[error("an earlier part of it could not be written")]
struct FailedBefore;
