//! `table_changes('t', from, to)`: the rows that came, went or got other values in some versions of a table.
//!
//! ```text
//!   columns of the table (of the last version)   _change_type       _commit_version   _commit_timestamp
//!                                                insert
//!                                                delete
//!                                                update_preimage    the row before, and ..
//!                                                update_postimage   .. the row after
//! ```
//!
//! Goes in: a table and a range of versions. Comes out: a table provider that reads them when it is scanned.
//! Always holds: whoever takes away the rows that are deleted or pre-images and adds the others, version by version, has the rows of
//! each version.

mod columns;
mod feed;
mod rewritten;
pub mod spelled;

use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::manifest::version::Version;
use crate::scan::held::Held;
use crate::statement::catalog::version_of;
use async_trait::async_trait;
use chrono::Utc;
use datafusion::arrow::compute::kernels::cast_utils::string_to_datetime;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result as EngineResult;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::streaming::StreamingTableExec;
use feed::Feed;
use std::sync::Arc;

/// The columns after those of the table.
const ADDED: [&str; 3] = ["_change_type", "_commit_version", "_commit_timestamp"];

/// The changes of a table in some versions.
#[derive(Debug)]
pub struct TableChanges {
    log: Arc<VersionLog>,
    from: u64,
    /// `None` for the newest version when they are read.
    to: Option<u64>,
    planned: Arc<Version>,
    schema: SchemaRef,
}

impl TableChanges {
    /// The changes in a range as [`spelled`] writes it.
    pub async fn open(log: Arc<VersionLog>, range: &str) -> Result<Self> {
        let newest = log.newest().await?;
        let (from, to) =
            range.split_once(spelled::TO).ok_or_else(|| Error::invalid(format!("'{range}' is no range of versions: write 3..5")))?;
        let last = newest.snapshot.version;
        let to = match to {
            "" => None,
            to => Some(version_of(&log, &number_or_time(to), last).await?),
        };
        let from = match number(from) {
            true => version_of(&log, &number_or_time(from), last).await?,
            false => not_before(&log, from, &newest).await?,
        };
        check(&log, from, to, &newest)?;
        let planned = match to {
            Some(to) => log.read_kept(to).await?,
            None => newest,
        };
        let columns = planned.snapshot.schema.to_plain_arrow();
        if let Some(name) = ADDED.iter().find(|name| columns.field_with_name(name).is_ok()) {
            let what = format!("table_changes of table '{}', which has a column {name} of its own,", log.table());
            return Err(Error::unsupported(what, Some("rename the column")));
        }
        let mut fields: Vec<_> = columns.fields().iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true))).collect();
        let types = [DataType::Utf8, DataType::UInt64, DataType::Timestamp(TimeUnit::Millisecond, None)];
        fields.extend(ADDED.iter().zip(types).map(|(name, data_type)| Arc::new(Field::new(*name, data_type, false))));
        Ok(TableChanges { log, from, to, planned, schema: Arc::new(Schema::new(Fields::from(fields))) })
    }
}

fn number(of: &str) -> bool {
    !of.is_empty() && of.bytes().all(|byte| byte.is_ascii_digit())
}

/// As time travel writes a version.
fn number_or_time(of: &str) -> String {
    if number(of) { format!("v{of}") } else { of.to_owned() }
}

/// The first version that is not older than a time; the one that is to come, if there is none.
async fn not_before(log: &VersionLog, time: &str, newest: &Version) -> Result<u64> {
    let at = string_to_datetime(&Utc, time).map_err(|_| {
        Error::invalid(format!(
            "'{time}' is no version of table '{}': write its number, or a time as in '2026-01-31 12:00:00'",
            log.table()
        ))
    })?;
    let time_ms = u64::try_from(at.timestamp_millis()).unwrap_or(0);
    let mut first = newest.snapshot.version + 1;
    // Clocks of writers differ, so times need not ascend: from the version found on none is older.
    for version in (newest.snapshot.low_water_mark..=newest.snapshot.version).rev() {
        match log.read_if_present(version).await? {
            Some(found) if found.time_ms >= time_ms => first = version,
            Some(_) | None => break,
        }
    }
    // The changes of the oldest version that is kept cannot be told, as the one before is gone.
    Ok(first.max(oldest(newest)))
}

/// The oldest version whose changes can be told: the one before it is needed, if there was one.
fn oldest(newest: &Version) -> u64 {
    match newest.snapshot.low_water_mark {
        0 | 1 => 1,
        mark => mark + 1,
    }
}

/// Refuses a range of which something is gone or not there yet. The version that is to come may be its beginning: nothing
/// has changed then.
fn check(log: &VersionLog, from: u64, to: Option<u64>, newest: &Version) -> Result<()> {
    let (oldest, last) = (oldest(newest), newest.snapshot.version);
    let unknown = |version| Err(Error::UnknownVersion { table: log.table().to_owned(), version, oldest, newest: last });
    match to {
        Some(to) if from > to => Err(Error::invalid(format!("table_changes from version {from} to version {to}, which is before it"))),
        Some(to) if to > last => unknown(to),
        _ if from < oldest || from > last + 1 => unknown(from),
        _ => Ok(()),
    }
}

#[async_trait]
impl TableProvider for TableChanges {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        // Taken first, so that nothing goes between the look and the reading.
        let lease = self.log.leases().take(self.from.saturating_sub(1));
        let newest = self.log.newest().await?;
        check(&self.log, self.from, self.to, &newest)?;
        if self.to.is_none() && !newest.snapshot.schema.extends(&self.planned.snapshot.schema) {
            let (planned, found) = (self.planned.snapshot.version, newest.snapshot.version);
            return Err(Error::SchemaChanged { table: self.log.table().to_owned(), planned, found }.into());
        }
        let projection = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&projection)?);
        let to = self.to.unwrap_or(newest.snapshot.version);
        if self.from > to {
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let shown = self.planned.snapshot.schema.clone();
        let held = Held::new(self.log.clone(), lease);
        let feed = Feed { log: self.log.clone(), from: self.from, to, shown, projection, schema: schema.clone(), held };
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![Arc::new(feed)], None, [], false, limit)?))
    }
}

/// The function, where nothing has spelled it as a name.
#[derive(Debug)]
pub struct NotSpelled;

impl TableFunctionImpl for NotSpelled {
    fn call_with_args(&self, _: TableFunctionArgs) -> EngineResult<Arc<dyn TableProvider>> {
        let instead = "write \"t@changes 3..5\" for the changes in versions 3 to 5 of t, or use amend::Session";
        Err(Error::unsupported("table_changes(..) in this SessionContext", Some(instead)).into())
    }
}
