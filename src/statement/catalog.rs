//! The lake as DataFusion's schema provider: names become table handles, `name@v3` and `name@2026-01-01` old versions.
//!
//! Names that are no table's of the lake are looked for in the schema that was there before (external tables, views,
//! tables of the host), so both live side by side.

use super::lake::Lake;
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::scan::pin::SessionView;
use crate::scan::provider::LakeTable;
use async_trait::async_trait;
use datafusion::arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::{DataFusionError, Result as EngineResult};
use std::sync::Arc;

/// A lake's tables, and those of another schema.
#[derive(Debug)]
pub struct LakeSchema {
    lake: Lake,
    /// Decides which version a name means, if the session has open transactions.
    view: Option<Arc<SessionView>>,
    others: Arc<dyn SchemaProvider>,
}

impl LakeSchema {
    /// The tables of `lake`, before those of `others`.
    pub fn new(lake: Lake, view: Option<Arc<SessionView>>, others: Arc<dyn SchemaProvider>) -> Self {
        LakeSchema { lake, view, others }
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
        if let Some(table) = open(&self.lake, name, self.view.as_deref()).await? {
            return Ok(Some(Arc::new(table)));
        }
        self.others.table(name).await
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

/// The handle of a table, or of an old version of it.
async fn open(lake: &Lake, name: &str, view: Option<&SessionView>) -> Result<Option<LakeTable>, DataFusionError> {
    if let Some(log) = lake.find(name).await? {
        let version = match view {
            Some(view) => view.0.view(&log).await?,
            None => log.newest().await?,
        };
        return Ok(Some(LakeTable::new(log, None, version)));
    }
    let Some((name, at)) = name.rsplit_once('@') else { return Ok(None) };
    let Some(log) = lake.find(name).await? else { return Ok(None) };
    let number = version_of(&log, at).await?;
    let version = log.read(number).await?;
    Ok(Some(LakeTable::new(log, Some(number), version)))
}

/// The version that `v3` or a time names.
async fn version_of(log: &VersionLog, at: &str) -> Result<u64> {
    if let Some(number) = at.strip_prefix('v').filter(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())) {
        return number.parse().map_err(|_| Error::invalid(format!("'{number}' is no version number")));
    }
    let time = string_to_timestamp_nanos(at)
        .map_err(|_| Error::invalid(format!("'@{at}' names no version of '{}': write @v3 or @2026-01-31T12:00:00", log.table())))?;
    let time_ms = u64::try_from(time / 1_000_000).unwrap_or(0);
    let newest = log.newest_number().await?;
    // Clocks of writers differ, so times need not ascend: the newest version of those that are not later counts.
    for number in (1..=newest).rev() {
        match log.read_if_present(number).await? {
            Some(version) if version.time_ms <= time_ms => return Ok(number),
            Some(_) => {}
            None => break,
        }
    }
    Err(Error::invalid(format!("table '{}' has no version that is as old as {at}", log.table())))
}
