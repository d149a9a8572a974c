//! A version that is read: kept meanwhile, as far as this process can.
//!
//! Goes in: an error met while it was read. Comes out: that error, or the collision that it comes of: a VACUUM of another process, which
//! knows nothing of leases here, may remove the version when it is older than what that VACUUM retains.

use crate::error::{ConflictReport, Error, Result};
use crate::manifest::leases::Lease;
use crate::manifest::log::VersionLog;
use parquet::errors::ParquetError;
use std::sync::Arc;

/// A version of a table, and what keeps it.
#[derive(Debug, Clone)]
pub struct Held {
    log: Arc<VersionLog>,
    lease: Arc<Lease>,
}

impl Held {
    /// The version that is leased.
    pub fn new(log: Arc<VersionLog>, lease: Arc<Lease>) -> Self {
        Held { log, lease }
    }

    /// What keeps it.
    pub fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// What was read, or why it could not be.
    pub async fn explained<T>(&self, found: Result<T>) -> Result<T> {
        match found {
            Ok(found) => Ok(found),
            Err(error) => Err(self.removed().await.unwrap_or(error)),
        }
    }

    /// The same, of a data file.
    pub(super) async fn explained_file<T>(held: Option<Self>, found: parquet::errors::Result<T>) -> parquet::errors::Result<T> {
        match (found, held) {
            (Err(error), Some(held)) => Err(held.removed().await.map_or(error, |removed| ParquetError::External(Box::new(removed)))),
            (found, _) => found,
        }
    }

    /// The collision with a VACUUM that removed the version, if one did.
    async fn removed(&self) -> Option<Error> {
        let (version, newest) = (self.lease.version(), self.log.newest().await.ok()?);
        let mark = newest.snapshot.low_water_mark;
        (version < mark).then(|| {
            Error::Conflict(Box::new(ConflictReport {
                table: self.log.table().to_owned(),
                coordinate: format!("the versions from {version} to {}, which VACUUM has removed,", mark - 1),
                rows: vec![],
                transaction: String::new(),
                statement: String::new(),
                read_version: version,
                other_version: newest.snapshot.version,
                other_transaction: String::new(),
                other_statement: "VACUUM".to_owned(),
            }))
        })
    }
}
