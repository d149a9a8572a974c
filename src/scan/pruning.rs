//! Which fragments can hold a row that a predicate is true for, by the statistics of the manifest: no file is opened.
//!
//! Goes in: fragments, and a predicate over the columns of their scan (the address included). Comes out: one answer a fragment.
//! Always holds: `false` means that no row of the fragment, live or deleted, matches. Counts here are of physical rows, since
//! that is what the statistics count.

use super::address::{FRAGMENT_COLUMN, OFFSET_COLUMN};
use super::statistics::{column_stats, to_scalar};
use crate::table::fragment::Fragment;
use crate::table::schema::TableSchema;
use crate::table::stats::{ColumnStats, StatValue};
use datafusion::arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use std::collections::HashSet;
use std::sync::Arc;

/// Whether each fragment may hold a row for which `predicate` is true. `scan_schema` is the whole schema of the scan: the
/// columns of `schema`, then the address.
pub fn prune(fragments: &[Arc<Fragment>], schema: &TableSchema, scan_schema: &SchemaRef, predicate: &Arc<dyn PhysicalExpr>) -> Vec<bool> {
    let keep_all = vec![true; fragments.len()];
    let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(scan_schema));
    let Some(predicate) = builder.build(Arc::clone(predicate)) else { return keep_all };
    // A predicate that cannot be evaluated on bounds prunes nothing; the scan evaluates it on rows.
    predicate.prune(&Bounds { fragments, schema, scan_schema }).unwrap_or(keep_all)
}

/// The statistics of fragments, as arrays.
struct Bounds<'a> {
    fragments: &'a [Arc<Fragment>],
    schema: &'a TableSchema,
    scan_schema: &'a SchemaRef,
}

impl Bounds<'_> {
    fn stats(&self, fragment: &Fragment, column: &str) -> Option<ColumnStats> {
        let without_nulls = |min, max| Some(ColumnStats { min: Some(min), max: Some(max), null_count: Some(0) });
        match column {
            FRAGMENT_COLUMN => {
                let id = StatValue::UInt(u64::from(fragment.id.0));
                without_nulls(id.clone(), id)
            }
            OFFSET_COLUMN => without_nulls(StatValue::Int(0), StatValue::Int(i64::from(fragment.physical_rows) - 1)),
            name => Some(column_stats(fragment, self.schema.column(name)?)),
        }
    }

    fn bounds(&self, column: &Column, bound: impl Fn(ColumnStats) -> Option<StatValue>) -> Option<ArrayRef> {
        let data_type = self.scan_schema.field_with_name(column.name()).ok()?.data_type();
        let null = ScalarValue::try_from(data_type).ok()?;
        let values = self.fragments.iter().map(|fragment| {
            let stats = self.stats(fragment, column.name())?;
            bound(stats).and_then(|bound| to_scalar(&bound, data_type))
        });
        ScalarValue::iter_to_array(values.map(|value| value.unwrap_or_else(|| null.clone()))).ok()
    }
}

impl PruningStatistics for Bounds<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |stats| stats.min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |stats| stats.max)
    }

    fn num_containers(&self) -> usize {
        self.fragments.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let counts = self.fragments.iter().map(|fragment| self.stats(fragment, column.name()).and_then(|stats| stats.null_count));
        Some(Arc::new(counts.collect::<UInt64Array>()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let counts = self.fragments.iter().map(|fragment| Some(u64::from(fragment.physical_rows)));
        Some(Arc::new(counts.collect::<UInt64Array>()))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

#[cfg(test)]
mod tests;
