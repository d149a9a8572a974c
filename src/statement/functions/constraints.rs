//! `table_constraints('t')`: the constraints and defaults of a table, as the session sees it, with the names that columns have now.

use super::of_table::{OfTable, version_of};
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::scan::expression;
use crate::statement::constraints::definition;
use crate::table::constraint;
use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use std::sync::{Arc, LazyLock};

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    Arc::new(Schema::new(vec![text("name"), text("type"), text("definition")]))
});

/// `table_constraints`.
#[derive(Debug)]
pub struct TableConstraints;

#[async_trait]
impl OfTable for TableConstraints {
    const NAME: &'static str = "table_constraints";

    fn schema() -> SchemaRef {
        SCHEMA.clone()
    }

    async fn rows(log: &VersionLog, session: &dyn Session) -> Result<RecordBatch> {
        let version = version_of(log, session).await?;
        let (table, snapshot) = (log.table(), &version.snapshot);
        let mut rows: Vec<[String; 3]> = Vec::new();
        let constraints = constraint::constraints(&snapshot.config).map_err(|reason| Error::damaged(table, "its properties", reason))?;
        for constraint in constraints {
            let (kind, words) = definition(table, &snapshot.schema, &constraint)?;
            rows.push([constraint.name, kind.to_owned(), words]);
        }
        for (field, kept) in constraint::defaults(&snapshot.config) {
            if let Some(field) = snapshot.schema.field(field) {
                let value = expression::named(table, kept, &snapshot.schema)?;
                rows.push([field.name.clone(), "DEFAULT".to_owned(), value.to_string()]);
            }
        }
        let column = |at: usize| -> ArrayRef { Arc::new(StringArray::from_iter_values(rows.iter().filter_map(|row| row.get(at)))) };
        let columns = vec![column(0), column(1), column(2)];
        RecordBatch::try_new(SCHEMA.clone(), columns).map_err(|e| Error::internal(format!("constraints: {e}")))
    }
}
