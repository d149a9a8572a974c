//! The values of a fragment: every one is decoded, and held against what the manifest says of its column.
//!
//! Goes in: a fragment whose files are whole. Comes out: problems: another number of rows, a value beyond its bounds, another number of
//! NULLs, a NULL in a live row of a column that may have none.
//! Always holds: rows stream; deleted rows are looked at too, since bounds and counts are of all rows.

use super::{Kind, Parts, Verifying};
use crate::error::{Error, Result};
use crate::scan::plan::{ScanRequest, plan_with};
use crate::scan::statistics::{column_stats, to_scalar};
use crate::table::fragment::Fragment;
use crate::table::schema::{Field, TableSchema};
use crate::table::stats::ColumnStats;
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use datafusion::arrow::compute::kernels::cmp::{gt, lt};
use futures::TryStreamExt;
use roaring::RoaringBitmap;
use std::sync::Arc;

/// What is to be found in a column.
struct Expected {
    name: String,
    stats: ColumnStats,
    below: Option<ArrayRef>,
    above: Option<ArrayRef>,
    nullable: bool,
    nulls: u64,
}

impl Verifying {
    /// Looks at the values of a fragment.
    pub(super) async fn values(&mut self, parts: &Parts, fragment: &Arc<Fragment>) {
        match self.wrong(parts, fragment).await {
            Ok(None) => {}
            Ok(Some(problem)) => self.problem(Kind::Fragment, &format!("fragment {}", fragment.id), problem),
            Err(Error::Damaged { object, reason, .. }) => self.problem(Kind::DataFile, &object, reason),
            Err(error) => {
                let file = fragment.files.first().map(|file| file.path.clone()).unwrap_or_default();
                self.problem(Kind::DataFile, &file, format!("it cannot be read: {error}"));
            }
        }
    }

    async fn wrong(&self, parts: &Parts, fragment: &Arc<Fragment>) -> Result<Option<String>> {
        let deleted = match self.log.deleted_rows(fragment).await {
            Ok(deleted) => deleted,
            // That was told.
            Err(_) => Arc::new((0..fragment.physical_rows).collect()),
        };
        // A deleted row may be NULL where no live one is.
        let schema = parts.schema.with_nullable_columns();
        let mut expected = expected(&parts.schema, fragment);
        let request = ScanRequest {
            store: self.log.store().clone(),
            table: Arc::from(self.log.table()),
            schema: Arc::new(schema),
            bases: parts.bases.clone(),
            fragments: vec![(Arc::new(Fragment { deletions: None, ..fragment.as_ref().clone() }), None)],
            projection: None,
            predicate: None,
            limit: None,
            groups: Some(vec![vec![0]]),
            pushdown_filters: Some(false),
            target_partitions: 1,
            held: None,
        };
        let plan = plan_with(request, &self.context.runtime_env(), self.context.session_config().options())?;
        let mut batches = plan.execute(0, self.context.clone())?;
        let mut rows = 0;
        while let Some(batch) = batches.try_next().await? {
            if let Some(problem) = look(&batch, rows, &deleted, &mut expected) {
                return Ok(Some(problem));
            }
            rows += batch.num_rows() as u64;
        }
        if rows != u64::from(fragment.physical_rows) {
            return Ok(Some(format!("its files hold {rows} rows, the manifest says {}", fragment.physical_rows)));
        }
        let miscounted = expected.iter().find(|column| column.stats.null_count.is_some_and(|nulls| nulls != column.nulls));
        Ok(miscounted.map(|Expected { name, stats, nulls, .. }| {
            format!("column '{name}' has {nulls} NULLs, the manifest says {}", stats.null_count.unwrap_or_default())
        }))
    }
}

fn expected(schema: &TableSchema, fragment: &Fragment) -> Vec<Expected> {
    let column = |field: &Field| {
        let stats = column_stats(fragment, field.id);
        let arrow = schema.arrow_field(field);
        let bound = |bound: &Option<_>| to_scalar(bound.as_ref()?, arrow.data_type())?.to_array_of_size(1).ok();
        let (below, above) = (bound(&stats.min), bound(&stats.max));
        Expected { name: field.name.clone(), below, above, stats, nullable: field.nullable, nulls: 0 }
    };
    schema.columns().map(column).collect()
}

/// What is wrong with rows from number `first` on.
fn look(batch: &RecordBatch, first: u64, deleted: &RoaringBitmap, expected: &mut [Expected]) -> Option<String> {
    for (values, expected) in batch.columns().iter().zip(expected) {
        let nulls = values.logical_nulls();
        expected.nulls += nulls.as_ref().map_or(0, |nulls| nulls.null_count() as u64);
        if !expected.nullable
            && let Some(nulls) = &nulls
            && let Some(row) = (0..nulls.len())
                .find(|row| nulls.is_null(*row) && u32::try_from(first + *row as u64).is_ok_and(|row| !deleted.contains(row)))
        {
            return Some(format!("column '{}', which is NOT NULL, is NULL in row {}", expected.name, first + row as u64));
        }
        type Compare = fn(
            &dyn datafusion::arrow::array::Datum,
            &dyn datafusion::arrow::array::Datum,
        ) -> Result<BooleanArray, datafusion::arrow::error::ArrowError>;
        let bounds: [(&Option<ArrayRef>, Compare, &str); 2] = [(&expected.below, lt, "least"), (&expected.above, gt, "greatest")];
        for (bound, beyond, word) in bounds {
            let Some(bound) = bound else { continue };
            // A type that has bounds and no order is not compared.
            let Ok(beyond) = beyond(values, &datafusion::arrow::array::Scalar::new(bound)) else { continue };
            if let Some(row) = beyond.iter().position(|beyond| beyond == Some(true)) {
                let row = first + row as u64;
                return Some(format!(
                    "column '{}' has a value in row {row} that lies beyond the {word} one of the manifest",
                    expected.name
                ));
            }
        }
    }
    None
}
