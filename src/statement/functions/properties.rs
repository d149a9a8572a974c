//! `table_properties('t')`: the properties of a table, by name, as the session sees it.

use super::of_table::{OfTable, version_of};
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::scan::expression;
use crate::table::constraint;
use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use std::sync::{Arc, LazyLock};

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    Arc::new(Schema::new(vec![text("name"), text("value")]))
});

/// `table_properties`.
#[derive(Debug)]
pub struct Properties;

#[async_trait]
impl OfTable for Properties {
    const NAME: &'static str = "table_properties";

    fn schema() -> SchemaRef {
        SCHEMA.clone()
    }

    async fn rows(log: &VersionLog, session: &dyn Session) -> Result<RecordBatch> {
        let version = version_of(log, session).await?;
        // Constraints and defaults are shown by `table_constraints`.
        let mut config = version.snapshot.config.clone();
        config.retain(|key, _| !constraint::is_reserved(key));
        let clustered_by =
            constraint::cluster_by(&version.snapshot.config).map_err(|reason| Error::damaged(log.table(), "its properties", reason))?;
        let columns = clustered_by.iter().filter_map(|id| version.snapshot.schema.field(*id));
        let columns: Vec<String> = columns.map(|column| expression::ident(&column.name).to_string()).collect();
        if !columns.is_empty() {
            config.insert(constraint::CLUSTER_KEY.to_owned(), columns.join(", "));
        }
        let keys = StringArray::from_iter_values(config.keys());
        let values = StringArray::from_iter_values(config.values());
        let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(values)];
        RecordBatch::try_new(SCHEMA.clone(), columns).map_err(|e| Error::internal(format!("properties: {e}")))
    }
}
