//! The lake as DataFusion's catalog: its namespaces are schemas, names in them become table handles or views, `name@v3` and
//! `name@2026-01-01` old versions.
//!
//! Names that are no table's or view's of the lake are looked for in the catalog that was there before (external tables, views of the
//! session, tables of the host), so both live side by side.
//!
//! Always holds: the lake comes first, so a name means the same in every session unless only this one has it.

use super::functions::changes::TableChanges;
use super::functions::changes::spelled::MARK;
use super::lake::Lake;
use super::views::{self, Planner};
use crate::error::{Error, Result};
use crate::manifest::catalog::TableName;
use crate::manifest::log::VersionLog;
use crate::scan::pin::SessionView;
use crate::scan::provider::LakeTable;
use async_trait::async_trait;
use chrono::Utc;
use datafusion::arrow::compute::kernels::cast_utils::string_to_datetime;
use datafusion::catalog::{CatalogProvider, MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::Result as EngineResult;
use datafusion::logical_expr::TableType;
use futures::{FutureExt, StreamExt, TryStreamExt};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// How many versions are looked at at the same time.
const CONCURRENT_READS: usize = 16;

/// A lake's namespaces, and the schemas of another catalog.
pub struct LakeCatalog {
    lake: Lake,
    others: Arc<dyn CatalogProvider>,
    /// What a session keeps in namespaces that the other catalog does not have.
    beside: Mutex<HashMap<String, Arc<dyn SchemaProvider>>>,
    /// The versions that the session reads; without one always the newest.
    view: Option<Arc<SessionView>>,
    planner: Planner,
}

impl fmt::Debug for LakeCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LakeCatalog").field("lake", &self.lake.location()).finish_non_exhaustive()
    }
}

impl LakeCatalog {
    /// The namespaces of `lake`, before the schemas of `others`. Tables have the columns that they have in the session's `view`.
    pub fn new(lake: Lake, others: Arc<dyn CatalogProvider>, view: Option<Arc<SessionView>>, planner: Planner) -> Self {
        LakeCatalog { lake, others, beside: Mutex::default(), view, planner }
    }

    /// What the session has in a namespace of the lake.
    fn others_in(&self, namespace: &str) -> Arc<dyn SchemaProvider> {
        if let Some(others) = self.others.schema(namespace) {
            return others;
        }
        let mut beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        beside.entry(namespace.to_owned()).or_insert_with(|| Arc::new(MemorySchemaProvider::new())).clone()
    }
}

impl CatalogProvider for LakeCatalog {
    fn schema_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.lake.known_catalog().all_namespaces().map(str::to_owned).collect();
        names.extend(self.others.schema_names());
        names.sort();
        names.dedup();
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        // Nothing can be waited for here. A lake that nobody has looked at may have any namespace.
        if self.lake.was_read() && !self.lake.known_catalog().has_namespace(name) {
            return self.others.schema(name);
        }
        Some(Arc::new(LakeSchema {
            lake: self.lake.clone(),
            namespace: name.to_owned(),
            others: self.others_in(name),
            view: self.view.clone(),
            planner: self.planner.clone(),
        }))
    }

    fn register_schema(&self, name: &str, schema: Arc<dyn SchemaProvider>) -> EngineResult<Option<Arc<dyn SchemaProvider>>> {
        self.others.register_schema(name, schema)
    }

    fn deregister_schema(&self, name: &str, cascade: bool) -> EngineResult<Option<Arc<dyn SchemaProvider>>> {
        if self.lake.known_catalog().has_namespace(name) {
            let what = format!("dropping schema '{name}' of a lake here");
            return Err(Error::unsupported(what, Some("use amend::Session or Lake::drop_namespace")).into());
        }
        self.others.deregister_schema(name, cascade)
    }
}

/// The tables and views in a namespace of a lake, and those of another schema.
struct LakeSchema {
    lake: Lake,
    namespace: String,
    others: Arc<dyn SchemaProvider>,
    view: Option<Arc<SessionView>>,
    planner: Planner,
}

impl fmt::Debug for LakeSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LakeSchema").field("lake", &self.lake.location()).field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl LakeSchema {
    fn name(&self, name: &str) -> TableName {
        TableName::new(&self.namespace, name)
    }

    /// The handle of a table, or of an old version of it; a view.
    async fn open(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(log) = self.lake.find(self.name(name)).await? {
            let planned = match &self.view {
                Some(view) => view.0.view(&log).await?.0,
                None => log.newest().await?,
            };
            return Ok(Some(Arc::new(LakeTable::new(log, None, planned).with_defaults()?)));
        }
        if let Some(view) = self.lake.known_catalog().views.get(&self.name(name)) {
            return views::open(&self.lake, &self.planner, &self.name(name), view).await.map(Some);
        }
        let Some((name, at)) = name.rsplit_once('@') else { return Ok(None) };
        let Some(log) = self.lake.find(self.name(name)).await? else { return Ok(None) };
        if let Some(range) = at.strip_prefix(MARK) {
            return Ok(Some(Arc::new(TableChanges::open(log, range).await?)));
        }
        let number = version_of(&log, at, log.newest_number().await?).await?;
        let version = log.read_kept(number).await?;
        Ok(Some(Arc::new(LakeTable::new(log, Some(number), version))))
    }

    fn is_in_lake(&self, name: &str) -> bool {
        let (catalog, name) = (self.lake.known_catalog(), self.name(name));
        catalog.tables.contains_key(&name) || catalog.views.contains_key(&name)
    }
}

#[async_trait]
impl SchemaProvider for LakeSchema {
    fn table_names(&self) -> Vec<String> {
        let catalog = self.lake.known_catalog();
        let mut names: Vec<String> = catalog.names_in(&self.namespace).into_iter().map(|name| name.name.clone()).collect();
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

    async fn table_type(&self, name: &str) -> EngineResult<Option<TableType>> {
        let (catalog, in_lake) = (self.lake.known_catalog(), self.name(name));
        if catalog.tables.contains_key(&in_lake) {
            return Ok(Some(TableType::Base));
        }
        if catalog.views.contains_key(&in_lake) {
            return Ok(Some(TableType::View));
        }
        self.others.table_type(name).await
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> EngineResult<Option<Arc<dyn TableProvider>>> {
        if self.is_in_lake(&name) {
            return Err(Error::TableExists { table: self.name(&name).to_string() }.into());
        }
        self.others.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> EngineResult<Option<Arc<dyn TableProvider>>> {
        if self.is_in_lake(name) {
            let what = format!("dropping '{}' of a lake here", self.name(name));
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
    // Clocks of writers differ, so times need not ascend and cannot be searched: the newest version of those that are not later counts.
    let made = |number| async move { Ok::<_, Error>((number, log.time_ms(number).await?)) }.boxed();
    let mut versions = futures::stream::iter((oldest..=newest).rev().map(made)).buffered(CONCURRENT_READS);
    while let Some((number, made_ms)) = versions.try_next().await? {
        match made_ms {
            Some(made_ms) if made_ms <= time_ms => return Ok(number),
            Some(_) => {}
            None => break,
        }
    }
    Err(Error::invalid(format!("table '{}' has no version that is as old as {at}: the oldest that can be read is {oldest}", log.table())))
}
