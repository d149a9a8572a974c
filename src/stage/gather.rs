//! Gathers values of columns from several fragments into one file, for the commit layer.
//!
//! Goes in: fragments, and the rows of each that are wanted. Comes out: a file of their values, in that order.
//! Always holds: as many rows are written as were asked for; on an error nothing is left behind. Values are streamed, but for those
//! that go into another order than they lie in, which are held.

use super::writer::{FragmentWriter, NewFragment, discard};
use crate::commit::gather::{Gathered, WriteGathered};
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::scan::plan::{ScanRequest, plan_with};
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::{DataFile, Fragment};
use crate::table::row_address::FragmentId;
use async_trait::async_trait;
use datafusion::arrow::array::UInt32Array;
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::common::DataFusionError;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};
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
        // Several may have one id: what was staged for a fragment, and the fragment. A scan finds what it knows of a file by the id.
        let only = |(number, (fragment, rows)): (u32, &(Arc<Fragment>, RoaringBitmap))| {
            let mut others = RoaringBitmap::new();
            others.insert_range(0..fragment.physical_rows);
            others -= rows;
            let deletions = DeletionFile::inline(&others);
            let deleted = deletions.is_some().then(|| Arc::new(others));
            (Arc::new(Fragment { id: FragmentId(number), deletions, ..(**fragment).clone() }), deleted)
        };
        let request = ScanRequest {
            store: log.store().clone(),
            table: Arc::from(log.table()),
            bases: values.bases.clone(),
            schema: Arc::new(values.schema.with_nullable_columns()),
            fragments: (0..).zip(&values.runs).map(only).collect(),
            projection: Some(values.columns.clone()),
            predicate: None,
            limit: None,
            groups: Some(vec![(0..values.runs.len()).collect()]),
            pushdown_filters: Some(false),
            target_partitions: 1,
            held: None,
        };
        let plan = plan_with(request, &self.context.runtime_env(), self.context.session_config().options())?;
        Ok(plan.execute(0, self.context.clone())?)
    }
}

/// The same rows in another order; all of them are held.
fn in_order(mut rows: SendableRecordBatchStream, order: Vec<u32>, context: &Arc<TaskContext>) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let memory = MemoryConsumer::new("values in another order").register(context.memory_pool());
    let batch_rows = context.session_config().batch_size().max(1);
    let all = async move {
        let mut held = Vec::new();
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            // Once as they came, once put together.
            memory.try_grow(batch.get_array_memory_size() * 2)?;
            held.push(batch);
        }
        let all = concat_batches(&rows.schema(), &held)?;
        let pieces: Vec<UInt32Array> = order.chunks(batch_rows).map(|piece| UInt32Array::from(piece.to_vec())).collect();
        let taken = pieces.into_iter().map(move |piece| {
            let _held = &memory;
            Ok(take_record_batch(&all, &piece)?)
        });
        Ok::<_, DataFusionError>(futures::stream::iter(taken))
    };
    Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::once(all).try_flatten().boxed()))
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
        // Rows that were deleted since may be among them.
        let written = Arc::new(values.schema.only(&values.columns).with_nullable_columns());
        let mut rows = self.read(log, &values)?;
        if let Some(order) = values.order {
            rows = in_order(rows, order, &self.context);
        }
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
