//! The catalog's versions: read, changed, and published like those of a table.
//!
//! A change is a function of the newest catalog; when another writer is first, it is applied again to theirs.
//!
//! Always holds: as for tables, an answer other than "created" proves nothing until the slot is read, and a change is never
//! reported as failed when it may have landed.

use crate::error::{Error, Result};
use crate::manifest::catalog::{Catalog, decode_catalog, encode_catalog};
use crate::manifest::decode::{DEFAULT_LIMITS, DecodeError};
use crate::store::{CreateAnswer, ObjectName, Store, env};
use crate::txn::composite::TransactionId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What errors call the catalog.
const CATALOG: &str = "catalog";
/// The folder of its versions.
const FOLDER: &str = "_catalog";
/// How many versions a change tries.
const MAX_ATTEMPTS: u32 = 200;
/// How many unclear answers of the store in a row a change bears.
const MAX_UNCLEAR_ANSWERS: u32 = 5;
/// The longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// The versions of a lake's catalog.
#[derive(Debug)]
pub struct CatalogLog {
    store: Store,
    known: Mutex<Arc<Catalog>>,
    /// Whether the newest version was looked for at all.
    looked: AtomicBool,
}

impl CatalogLog {
    /// The catalog in a lake's folder.
    pub fn new(store: Store) -> Self {
        let nothing = Catalog {
            version: 0,
            tables: BTreeMap::new(),
            namespaces: BTreeSet::new(),
            views: BTreeMap::new(),
            transaction: TransactionId(0),
            time_ms: 0,
            writer: String::new(),
        };
        CatalogLog { store, known: Mutex::new(Arc::new(nothing)), looked: AtomicBool::new(false) }
    }

    /// The newest version that was read so far; a lake that was not read yet looks empty.
    pub fn known(&self) -> Arc<Catalog> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a version was looked for; what is known of a lake that was not looked at is nothing.
    pub fn was_read(&self) -> bool {
        self.looked.load(Ordering::Acquire)
    }

    /// The newest version; an empty one if there is none.
    pub async fn newest(&self) -> Result<Arc<Catalog>> {
        let mut known = self.known();
        if known.version == 0 {
            if let Some(version) = self.store.newest_version(FOLDER).await? {
                known = self.read(version).await?.unwrap_or(known);
            }
            // Not before: until then nothing is known of what the lake has.
            self.looked.store(true, Ordering::Release);
            if known.version == 0 {
                return Ok(known);
            }
        }
        while let Some(next) = self.read(known.version + 1).await? {
            known = next;
        }
        Ok(known)
    }

    /// A version, if it is there.
    pub async fn version(&self, version: u64) -> Result<Option<Arc<Catalog>>> {
        self.read(version).await
    }

    async fn read(&self, version: u64) -> Result<Option<Arc<Catalog>>> {
        let name = ObjectName::catalog_version(version);
        let Some(bytes) = self.store.read_if_present(&name).await? else { return Ok(None) };
        let catalog = decode_catalog(&bytes, &DEFAULT_LIMITS).map_err(|error| match error {
            DecodeError::Damaged(reason) => Error::damaged(CATALOG, name.as_str(), reason),
            DecodeError::Unknown(reason) => Error::UnknownFormat { table: CATALOG.into(), object: name.as_str().to_owned(), reason },
        })?;
        if catalog.version != version {
            return Err(Error::damaged(CATALOG, name.as_str(), format!("it holds version {}", catalog.version)));
        }
        Ok(Some(self.remember(Arc::new(catalog))))
    }

    fn remember(&self, catalog: Arc<Catalog>) -> Arc<Catalog> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.version < catalog.version {
            *known = catalog.clone();
        }
        catalog
    }

    /// Publishes a change. `change` is applied to a copy of the newest catalog, perhaps several times; its error ends
    /// the attempt.
    pub async fn change(&self, change: impl Fn(&mut Catalog) -> Result<()>) -> Result<Arc<Catalog>> {
        let mut doubt = None;
        let outcome = self.attempt(change, &mut doubt).await;
        outcome.map_err(|error| match doubt {
            Some(version) => Error::OutcomeUnknown { table: CATALOG.into(), version, reason: error.to_string() },
            None => error,
        })
    }

    /// `doubt` is the version in which the change may still come to be, after an unclear answer.
    async fn attempt(&self, change: impl Fn(&mut Catalog) -> Result<()>, doubt: &mut Option<u64>) -> Result<Arc<Catalog>> {
        let id = TransactionId(env::new_uuid().as_u128());
        let mut unclear = 0;
        for attempt in 0..MAX_ATTEMPTS {
            if let Some(version) = *doubt
                && let Some(slot) = self.read(version).await?
            {
                if slot.transaction == id {
                    return Ok(slot);
                }
                *doubt = None;
            }
            let newest = self.newest().await?;
            if newest.transaction == id {
                return Ok(newest);
            }
            let mut next = newest.as_ref().clone();
            change(&mut next)?;
            next.version += 1;
            next.transaction = id;
            next.time_ms = env::now_ms();
            next.writer = super::WRITER.to_owned();
            let name = ObjectName::catalog_version(next.version);
            let bytes = encode_catalog(&next).map_err(|error| error.of(name.as_str()))?;
            let unclear_answer = match self.store.create(&name, bytes).await {
                CreateAnswer::Created => return Ok(self.remember(Arc::new(next))),
                CreateAnswer::Refused(error) => return Err(error),
                CreateAnswer::Exists => None,
                CreateAnswer::Unclear(error) => Some(error),
            };
            *doubt = Some(next.version);
            match (self.read(next.version).await?, unclear_answer) {
                (Some(slot), _) if slot.transaction == id => return Ok(slot),
                (Some(_), _) => {
                    *doubt = None;
                    unclear = 0;
                }
                (None, answer) => {
                    unclear += 1;
                    if unclear >= MAX_UNCLEAR_ANSWERS {
                        let odd = || Error::internal("the store says that a catalog version exists, and does not have it");
                        return Err(answer.unwrap_or_else(odd));
                    }
                }
            }
            tokio::time::sleep(env::jitter((Duration::from_millis(1) * 2u32.saturating_pow(attempt.min(8))).min(MAX_PAUSE))).await;
        }
        Err(Error::TooBusy { table: CATALOG.into(), attempts: MAX_ATTEMPTS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::faults::{Answer, Fault, FaultStore, OpKind};
    use object_store::memory::InMemory;

    /// A lake that has a namespace `s`, and the catalog of one who has not looked yet.
    async fn unread() -> (FaultStore, CatalogLog) {
        let objects = FaultStore::new(Arc::new(InMemory::new()));
        let log = || CatalogLog::new(Store::new(Arc::new(objects.clone()), object_store::path::Path::default(), "test:".to_owned()));
        let insert = |catalog: &mut Catalog| {
            catalog.namespaces.insert("s".to_owned());
            Ok(())
        };
        log().change(insert).await.unwrap();
        (objects.clone(), log())
    }

    #[tokio::test]
    async fn what_could_not_be_read_is_not_taken_for_read() {
        for (kind, path) in [(OpKind::List, "_catalog"), (OpKind::Get, "_catalog/")] {
            let (objects, log) = unread().await;
            objects.fail_on(kind, path, 0, Fault::Before(Answer::Generic));
            log.newest().await.unwrap_err();
            assert!(!log.was_read(), "{kind:?}");
            log.newest().await.unwrap();
            assert!(log.was_read() && log.known().has_namespace("s"), "{kind:?}");
        }
    }
}
