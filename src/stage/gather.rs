//! Gathers values of columns from several fragments into one file, for the commit layer.
//!
//! Goes in: fragments, and the rows of each that are wanted. Comes out: a file of their values, in that order.
//! Always holds: as many rows are written as were asked for; on an error nothing is left behind.

use super::writer::{FragmentWriter, NewFragment, discard};
use crate::commit::gather::{Gathered, WriteGathered};
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::scan::plan::{ScanRequest, plan_with};
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::{DataFile, Fragment};
use async_trait::async_trait;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use futures::StreamExt;
use roaring::RoaringBitmap;
use std::fmt;
use std::sync::Arc;

/// Gathers values in the engine.
pub struct Gatherer {
    context: Arc<TaskContext>,
}

impl Gatherer {
    /// Gathers with the settings and the memory of `context`.
    pub fn new(context: Arc<TaskContext>) -> Self {
        Gatherer { context }
    }

    /// The rows that are wanted: a scan in which all others are deleted.
    fn read(&self, log: &VersionLog, values: &Gathered) -> Result<SendableRecordBatchStream> {
        let only = |(fragment, rows): &(Arc<Fragment>, RoaringBitmap)| {
            let mut others = RoaringBitmap::new();
            others.insert_range(0..fragment.physical_rows);
            others -= rows;
            let deletions = DeletionFile::inline(&others);
            let deleted = deletions.is_some().then(|| Arc::new(others));
            (Arc::new(Fragment { deletions, ..(**fragment).clone() }), deleted)
        };
        let request = ScanRequest {
            store: log.store().clone(),
            table: Arc::from(log.table()),
            schema: values.schema.clone(),
            fragments: values.runs.iter().map(only).collect(),
            projection: Some(values.columns.clone()),
            predicate: None,
            limit: None,
            groups: Some(vec![(0..values.runs.len()).collect()]),
            pushdown_filters: Some(false),
            target_partitions: 1,
        };
        let plan = plan_with(request, &self.context.runtime_env(), self.context.session_config().options())?;
        Ok(plan.execute(0, self.context.clone())?)
    }
}

impl fmt::Debug for Gatherer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gatherer")
    }
}

#[async_trait]
impl WriteGathered for Gatherer {
    async fn write(&self, log: &VersionLog, values: Gathered) -> Result<DataFile> {
        let wanted: u64 = values.runs.iter().map(|(_, rows)| rows.len()).sum();
        let written = Arc::new(values.schema.only(&values.columns));
        let mut rows = self.read(log, &values)?;
        let mut writer = FragmentWriter::new(log.store().clone(), log.table().to_owned(), written, u32::MAX);
        while let Some(batch) = rows.next().await {
            let result = match batch {
                Ok(batch) => writer.write(&batch).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = result {
                writer.abort().await;
                return Err(error);
            }
        }
        let mut files = writer.finish().await?;
        match (files.pop(), files.is_empty()) {
            (Some(NewFragment { physical_rows, file }), true) if u64::from(physical_rows) == wanted => Ok(file),
            (last, _) => {
                files.extend(last);
                discard(log.store(), &files).await;
                Err(Error::internal(format!("not all of {wanted} values of table '{}' were gathered", log.table())))
            }
        }
    }
}
