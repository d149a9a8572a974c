//! `table_transactions('t')`: one row for each action of each transaction, newest version first.
//!
//! Fragments and fields are named by the ids that they got. A step without an action has no row here; it has one in
//! `table_history`.

use super::of_table::OfTable;
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::txn::composite::{CommittedTransaction, Step};
use crate::txn::describe::{Description, describe};
use async_trait::async_trait;
use datafusion::arrow::array::{
    ArrayRef, BooleanBuilder, Int32Builder, ListBuilder, RecordBatch, StringBuilder, UInt32Builder, UInt64Builder,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use std::sync::{Arc, LazyLock};

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let column = |name: &str, data_type, nullable| Field::new(name, data_type, nullable);
    Arc::new(Schema::new(vec![
        column("version", DataType::UInt64, false),
        column("transaction_id", DataType::Utf8, false),
        column("read_version", DataType::UInt64, false),
        column("rebased_over", DataType::UInt64, false),
        column("step", DataType::UInt32, false),
        column("operation", DataType::Utf8, false),
        column("ordinal", DataType::UInt32, false),
        column("action", DataType::Utf8, false),
        column("fragment", DataType::UInt32, true),
        column("fields", DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true))), false),
        column("rows", DataType::UInt64, true),
        column("data_change", DataType::Boolean, false),
        column("detail", DataType::Utf8, false),
    ]))
});

/// `table_transactions`.
#[derive(Debug)]
pub struct Transactions;

#[async_trait]
impl OfTable for Transactions {
    const NAME: &'static str = "table_transactions";

    fn schema() -> SchemaRef {
        SCHEMA.clone()
    }

    async fn rows(log: &VersionLog, _: &dyn Session) -> Result<RecordBatch> {
        let newest = log.newest().await?;
        let mut rows = Rows::default();
        for number in (newest.snapshot.low_water_mark..=newest.snapshot.version).rev() {
            let Some(version) = log.read_if_present(number).await? else { break };
            for committed in &version.transactions {
                let mut ordinal = 0;
                for (at, step) in (1..).zip(&committed.transaction.steps) {
                    for action in &step.actions {
                        ordinal += 1;
                        rows.push(number, committed, at, step, ordinal, action.name(), describe(action, committed));
                    }
                }
            }
        }
        rows.into_batch()
    }
}

#[derive(Default)]
struct Rows {
    version: UInt64Builder,
    transaction: StringBuilder,
    read_version: UInt64Builder,
    rebased_over: UInt64Builder,
    step: UInt32Builder,
    operation: StringBuilder,
    ordinal: UInt32Builder,
    action: StringBuilder,
    fragment: UInt32Builder,
    fields: ListBuilder<Int32Builder>,
    rows: UInt64Builder,
    data_change: BooleanBuilder,
    detail: StringBuilder,
}

impl Rows {
    #[expect(clippy::too_many_arguments, reason = "one argument a column, or a group of them")]
    fn push(&mut self, version: u64, committed: &CommittedTransaction, at: u32, step: &Step, ordinal: u32, name: &str, of: Description) {
        self.version.append_value(version);
        self.transaction.append_value(committed.transaction.id.to_string());
        self.read_version.append_value(committed.transaction.read_version);
        self.rebased_over.append_value(committed.facts.rebased_over);
        self.step.append_value(at);
        self.operation.append_value(&step.operation);
        self.ordinal.append_value(ordinal);
        self.action.append_value(name);
        self.fragment.append_option(of.fragment.map(|fragment| fragment.0));
        self.fields.append_value(of.fields.iter().map(|field| Some(field.0)));
        self.rows.append_option(of.rows);
        self.data_change.append_value(of.data_change);
        self.detail.append_value(of.detail);
    }

    fn into_batch(mut self) -> Result<RecordBatch> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.version.finish()),
            Arc::new(self.transaction.finish()),
            Arc::new(self.read_version.finish()),
            Arc::new(self.rebased_over.finish()),
            Arc::new(self.step.finish()),
            Arc::new(self.operation.finish()),
            Arc::new(self.ordinal.finish()),
            Arc::new(self.action.finish()),
            Arc::new(self.fragment.finish()),
            Arc::new(self.fields.finish()),
            Arc::new(self.rows.finish()),
            Arc::new(self.data_change.finish()),
            Arc::new(self.detail.finish()),
        ];
        RecordBatch::try_new(SCHEMA.clone(), columns).map_err(|e| Error::internal(format!("transactions: {e}")))
    }
}
