//! `table_history('t')`: one row for each statement of each version, newest version first.

use super::of_table::OfTable;
use crate::commit::staged::objects;
use crate::error::Result;
use crate::manifest::log::VersionLog;
use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::Session;
use std::sync::{Arc, LazyLock};

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let number = |name: &str| Field::new(name, DataType::UInt64, false);
    let small = |name: &str| Field::new(name, DataType::UInt32, false);
    Arc::new(Schema::new(vec![
        number("version"),
        Field::new("timestamp", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("operation", DataType::Utf8, false),
        Field::new("statement", DataType::Utf8, false),
        number("rows_inserted"),
        number("rows_updated"),
        number("rows_deleted"),
        number("rows_moved"),
        number("read_version"),
        small("attempts"),
        number("rebased_over"),
        number("rows_carried"),
        small("vectors_merged"),
        small("groups_dropped"),
        small("reran"),
        small("files_written"),
        Field::new("transaction_id", DataType::Utf8, false),
        Field::new("writer", DataType::Utf8, false),
    ]))
});

/// The history of a table.
pub async fn history(log: &VersionLog) -> Result<RecordBatch> {
    let newest = log.newest().await?;
    let mut rows = Rows::default();
    for number in (newest.snapshot.low_water_mark..=newest.snapshot.version).rev() {
        let Some(version) = log.read_if_present(number).await? else { break };
        for committed in &version.transactions {
            for step in &committed.transaction.steps {
                rows.version.push(number);
                rows.timestamp.push(version.time_ms as i64);
                rows.operation.push(step.operation.clone());
                rows.statement.push(step.statement.clone());
                rows.inserted.push(step.counts.inserted);
                rows.updated.push(step.counts.updated);
                rows.deleted.push(step.counts.deleted);
                rows.moved.push(step.counts.moved);
                rows.read_version.push(committed.transaction.read_version);
                rows.attempts.push(committed.facts.attempts);
                rows.rebased_over.push(committed.facts.rebased_over);
                rows.rows_carried.push(committed.facts.rows_carried);
                rows.vectors_merged.push(committed.facts.vectors_merged);
                rows.groups_dropped.push(committed.facts.groups_dropped);
                rows.reran.push(committed.facts.reran);
                rows.files_written.push(objects(step.actions.iter()).len() as u32);
                rows.transaction.push(committed.transaction.id.to_string());
                rows.writer.push(version.writer.clone());
            }
        }
    }
    rows.into_batch()
}

#[derive(Default)]
struct Rows {
    version: Vec<u64>,
    timestamp: Vec<i64>,
    operation: Vec<String>,
    statement: Vec<String>,
    inserted: Vec<u64>,
    updated: Vec<u64>,
    deleted: Vec<u64>,
    moved: Vec<u64>,
    read_version: Vec<u64>,
    attempts: Vec<u32>,
    rebased_over: Vec<u64>,
    rows_carried: Vec<u64>,
    vectors_merged: Vec<u32>,
    groups_dropped: Vec<u32>,
    reran: Vec<u32>,
    files_written: Vec<u32>,
    transaction: Vec<String>,
    writer: Vec<String>,
}

impl Rows {
    fn into_batch(self) -> Result<RecordBatch> {
        let number = |values| Arc::new(UInt64Array::from(values)) as ArrayRef;
        let small = |values| Arc::new(UInt32Array::from(values)) as ArrayRef;
        let text = |values| Arc::new(StringArray::from(values)) as ArrayRef;
        let columns = vec![
            number(self.version),
            Arc::new(TimestampMillisecondArray::from(self.timestamp)),
            text(self.operation),
            text(self.statement),
            number(self.inserted),
            number(self.updated),
            number(self.deleted),
            number(self.moved),
            number(self.read_version),
            small(self.attempts),
            number(self.rebased_over),
            number(self.rows_carried),
            small(self.vectors_merged),
            small(self.groups_dropped),
            small(self.reran),
            small(self.files_written),
            text(self.transaction),
            text(self.writer),
        ];
        RecordBatch::try_new(SCHEMA.clone(), columns).map_err(|e| crate::error::Error::internal(format!("history: {e}")))
    }
}

/// `table_history`.
#[derive(Debug)]
pub struct History;

#[async_trait]
impl OfTable for History {
    const NAME: &'static str = "table_history";

    fn schema() -> SchemaRef {
        SCHEMA.clone()
    }

    async fn rows(log: &VersionLog, _: &dyn Session) -> Result<RecordBatch> {
        history(log).await
    }
}
