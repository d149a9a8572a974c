//! `table_columns('t')`: the columns of a table, as the session sees it, with what the table keeps of them.

use super::of_table::{OfTable, version_of};
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::scan::expression;
use crate::table::constraint;
use crate::table::schema::FieldId;
use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    let nullable = Field::new("nullable", DataType::Boolean, false);
    let more = ["default", "generated", "comment"].map(|name| text(name, true));
    Arc::new(Schema::new([vec![text("name", false), text("type", false), nullable], more.to_vec()].concat()))
});

/// `table_columns`.
#[derive(Debug)]
pub struct TableColumns;

#[async_trait]
impl OfTable for TableColumns {
    const NAME: &'static str = "table_columns";

    fn schema() -> SchemaRef {
        SCHEMA.clone()
    }

    async fn rows(log: &VersionLog, session: &dyn Session) -> Result<RecordBatch> {
        let version = version_of(log, session).await?;
        let (table, snapshot) = (log.table(), &version.snapshot);
        let schema = &snapshot.schema;
        let damaged = |reason| Error::damaged(table, "its properties", reason);
        let generated = constraint::generated(&snapshot.config).map_err(damaged)?;
        let generated: BTreeMap<FieldId, &str> = generated.iter().map(|kept| (kept.field, kept.expression.as_str())).collect();
        let defaults = constraint::defaults(&snapshot.config);
        let comments = constraint::comments(&snapshot.config);
        let in_words = |kept: &BTreeMap<FieldId, &str>| {
            let words = schema.columns().map(|column| {
                let named = kept.get(&column.id).map(|kept| expression::named(table, kept, schema));
                Ok(named.transpose()?.map(|expr| expr.to_string()))
            });
            Ok::<ArrayRef, Error>(Arc::new(words.collect::<Result<StringArray>>()?))
        };
        let plain = schema.to_plain_arrow();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(schema.columns().map(|column| column.name.as_str()))),
            Arc::new(StringArray::from_iter_values(plain.fields().iter().map(|field| field.data_type().to_string()))),
            Arc::new(BooleanArray::from(schema.columns().map(|column| column.nullable).collect::<Vec<_>>())),
            in_words(&defaults)?,
            in_words(&generated)?,
            Arc::new(schema.columns().map(|column| comments.get(&column.id).copied()).collect::<StringArray>()),
        ];
        RecordBatch::try_new(SCHEMA.clone(), columns).map_err(|e| Error::internal(format!("columns: {e}")))
    }
}
