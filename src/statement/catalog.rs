//! The lake as DataFusion's schema provider: names become table handles, `name@v3` and `name@2026-01-01` old versions.
//!
//! Names that are no table's of the lake are looked for in the schema that was there before (external tables, views,
//! tables of the host), so both live side by side.

use super::functions::changes::TableChanges;
use super::functions::changes::spelled::MARK;
use super::lake::Lake;
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::scan::pin::SessionView;
use crate::scan::provider::LakeTable;
use async_trait::async_trait;
use chrono::Utc;
use datafusion::arrow::compute::kernels::cast_utils::string_to_datetime;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result as EngineResult;
use std::fmt;
use std::sync::Arc;

/// A lake's tables, and those of another schema.
pub struct LakeSchema {
    lake: Lake,
    others: Arc<dyn SchemaProvider>,
    /// The versions that the session reads; without one always the newest.
    view: Option<Arc<SessionView>>,
}

impl fmt::Debug for LakeSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LakeSchema").field("lake", &self.lake.location()).finish_non_exhaustive()
    }
}

impl LakeSchema {
    /// The tables of `lake`, before those of `others`, with the columns that they have in the session's `view`.
    pub fn new(lake: Lake, others: Arc<dyn SchemaProvider>, view: Option<Arc<SessionView>>) -> Self {
        LakeSchema { lake, others, view }
    }

    /// The handle of a table, or of an old version of it.
    async fn open(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(log) = self.lake.find(name).await? {
            let planned = match &self.view {
                Some(view) => view.0.view(&log).await?.0,
                None => log.newest().await?,
            };
            return Ok(Some(Arc::new(LakeTable::new(log, None, planned).with_defaults()?)));
        }
        let Some((name, at)) = name.rsplit_once('@') else { return Ok(None) };
        let Some(log) = self.lake.find(name).await? else { return Ok(None) };
        if let Some(range) = at.strip_prefix(MARK) {
            return Ok(Some(Arc::new(TableChanges::open(log, range).await?)));
        }
        let number = version_of(&log, at, log.newest_number().await?).await?;
        let version = log.read_kept(number).await?;
        Ok(Some(Arc::new(LakeTable::new(log, Some(number), version))))
    }

    fn is_in_lake(&self, name: &str) -> bool {
        self.lake.known_table_names().iter().any(|table| table == name)
    }
}

#[async_trait]
impl SchemaProvider for LakeSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.lake.known_table_names();
        names.extend(self.others.table_names());
        names.sort();
        names.dedup();
        names
    }

    async fn table(&self, name: &str) -> EngineResult<Option<Arc<dyn TableProvider>>> {
        match self.open(name).await? {
            Some(table) => Ok(Some(table)),
            None => self.others.table(name).await,
        }
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> EngineResult<Option<Arc<dyn TableProvider>>> {
        if self.is_in_lake(&name) {
            return Err(Error::TableExists { table: name }.into());
        }
        self.others.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> EngineResult<Option<Arc<dyn TableProvider>>> {
        if self.is_in_lake(name) {
            let what = format!("dropping table '{name}' of a lake here");
            return Err(Error::unsupported(what, Some("use amend::Session or Lake::drop_table")).into());
        }
        self.others.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.is_in_lake(name) || self.others.table_exist(name)
    }
}

/// The version that `v3` or a time names, of those up to `newest`.
pub(super) async fn version_of(log: &VersionLog, at: &str, newest: u64) -> Result<u64> {
    if let Some(number) = at.strip_prefix('v').filter(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())) {
        return number.parse().map_err(|_| Error::invalid(format!("'{number}' is no version number")));
    }
    let time = string_to_datetime(&Utc, at)
        .map_err(|_| Error::invalid(format!("'@{at}' names no version of '{}': write @v3 or @2026-01-31T12:00:00", log.table())))?;
    let time_ms = u64::try_from(time.timestamp_millis()).unwrap_or(0);
    let oldest = log.newest().await?.snapshot.low_water_mark;
    // Clocks of writers differ, so times need not ascend: the newest version of those that are not later counts.
    for number in (oldest..=newest).rev() {
        match log.read_if_present(number).await? {
            Some(version) if version.time_ms <= time_ms => return Ok(number),
            Some(_) => {}
            None => break,
        }
    }
    Err(Error::invalid(format!("table '{}' has no version that is as old as {at}: the oldest that can be read is {oldest}", log.table())))
}
