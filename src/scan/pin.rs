//! Pins: which version of a table a statement reads.
//!
//! A provider is a handle on a table, not on a version of it: views and prepared statements keep providers for long. The
//! planner gives all scans of one statement the same pin, and the pin finds its version when the first of them is
//! planned, so that a statement reads one version of each table. The statement knows the columns that it was planned with;
//! columns that were added since are none of its business. The pin also keeps what the scans read, if the statement is to be
//! serializable.

use super::held::Held;
use super::isolation::{Isolation, SessionIsolation};
use super::read::Read;
use crate::error::{Error, Result};
use crate::manifest::leases::Lease;
use crate::manifest::log::VersionLog;
use crate::manifest::version::Version;
use async_trait::async_trait;
use datafusion::catalog::Session;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// What decides which version a session reads: its transaction, if it has one open. An extension of the session's
/// configuration.
pub struct SessionView(pub Arc<dyn ReadView>);

impl fmt::Debug for SessionView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionView")
    }
}

/// Decides which version of a table is read.
#[async_trait]
pub trait ReadView: Send + Sync {
    /// The version of a table that is read now, and what keeps it.
    async fn view(&self, log: &VersionLog) -> Result<(Arc<Version>, Arc<Lease>)>;

    /// A statement read that version, as it had to be serializable.
    fn note(&self, log: &VersionLog, read: &Arc<Read>);
}

/// The version of a table that one statement reads.
pub struct Pin {
    log: Arc<VersionLog>,
    /// A version that was asked for; `None` for the newest.
    at: Option<u64>,
    isolation: SessionIsolation,
    version: OnceCell<(Arc<Version>, Arc<Lease>)>,
    reads: Mutex<Vec<Arc<Read>>>,
}

impl Pin {
    /// A pin of the newest version, or of `at`, for a statement of a session that wants this isolation.
    pub fn new(log: Arc<VersionLog>, at: Option<u64>, isolation: SessionIsolation) -> Self {
        Pin { log, at, isolation, version: OnceCell::new(), reads: Mutex::default() }
    }

    /// The versions of the table.
    pub fn log(&self) -> &Arc<VersionLog> {
        &self.log
    }

    /// The version that was asked for, if one was.
    pub fn at(&self) -> Option<u64> {
        self.at
    }

    /// The version, found on the first call. It has the columns of `planned`, the version that this part of the statement was
    /// planned with, or this is an error; it may have more. (A view in the statement was planned earlier than the rest.)
    pub async fn resolve(&self, session: &dyn Session, planned: &Version) -> Result<Arc<Version>> {
        let version = self.version.get_or_try_init(|| async {
            match (self.at, session.config().get_extension::<SessionView>()) {
                (Some(number), _) => {
                    let lease = self.log.leases().take(number);
                    self.log.read_kept(number).await.map(|version| (version, lease))
                }
                (None, Some(view)) => view.0.view(&self.log).await,
                (None, None) => self.log.newest_leased().await,
            }
        });
        let (version, _) = version.await?;
        match version.snapshot.schema.extends(&planned.snapshot.schema) {
            true => Ok(version.clone()),
            false => Err(self.schema_changed(planned, version)),
        }
    }

    /// What keeps the version, once that is found: whoever goes on reading it holds on to it.
    pub fn held(&self) -> Option<Held> {
        self.version.get().map(|(_, lease)| Held::new(self.log.clone(), lease.clone()))
    }

    /// Keeps what a scan of `version` reads, if it matters. An old version stays what it is.
    pub fn note(&self, session: &dyn Session, version: &Version, read: Read) {
        if self.at.is_some() || self.isolation.on(&version.snapshot.config) == Isolation::Snapshot {
            return;
        }
        let read = Arc::new(read);
        if let Some(view) = session.config().get_extension::<SessionView>() {
            view.0.note(&self.log, &read);
        }
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).push(read);
    }

    /// What the statement read of the table.
    pub fn reads(&self) -> Vec<Arc<Read>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The error for a version whose columns are not those that were planned with.
    pub fn schema_changed(&self, planned: &Version, found: &Version) -> Error {
        let (planned, found) = (planned.snapshot.version, found.snapshot.version);
        Error::SchemaChanged { table: self.log.table().to_owned(), planned, found }
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin").field("table", &self.log.table()).field("at", &self.at).finish_non_exhaustive()
    }
}
