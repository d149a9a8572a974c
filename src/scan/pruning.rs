//! Which fragments can hold a row that a predicate is true for, by summaries of pages and the statistics of fragments: no data file is
//! opened, and no page that cannot hold one.
//!
//! Goes in: fragments, and a predicate over the columns of their scan (the address included). Comes out: one answer a fragment.
//! Always holds: `false` means that no row of the fragment or page, live or deleted, matches. Counts here are of physical rows, since
//! that is what the statistics count.

use super::address::{FRAGMENT_COLUMN, OFFSET_COLUMN};
use super::statistics::{column_stats, to_scalar};
use crate::error::Result;
use crate::manifest::log::VersionLog;
use crate::manifest::pages::PageRef;
use crate::manifest::snapshot::Snapshot;
use crate::table::fragment::Fragment;
use crate::table::row_address::FragmentId;
use crate::table::schema::{Field, TableSchema};
use crate::table::stats::{ColumnStats, StatValue};
use datafusion::arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use std::collections::HashSet;
use std::sync::Arc;

/// The fragments of a version in which a scan may find its rows: those that may hold one for which `predicate` is true, or, without one, so
/// many that they have `limit` rows, or all. Only the pages that may hold one are loaded. `scan_schema` is the whole schema of the scan: the columns of `schema`, then the address.
pub async fn matching(
    log: &VersionLog,
    snapshot: &Snapshot,
    schema: &TableSchema,
    scan_schema: &SchemaRef,
    predicate: Option<&Arc<dyn PhysicalExpr>>,
    limit: Option<usize>,
) -> Result<Vec<Arc<Fragment>>> {
    let Some(predicate) = predicate else { return log.matching(snapshot, |pages| enough(snapshot, pages, limit)).await };
    let predicate = PruningPredicateBuilder::new().with_file_schema(Arc::clone(scan_schema)).build(Arc::clone(predicate));
    let fragments = log.matching(snapshot, |pages| answers(predicate.as_deref(), pages, schema, scan_schema)).await?;
    let may_match = answers(predicate.as_deref(), &fragments, schema, scan_schema);
    Ok(fragments.into_iter().zip(may_match).filter(|(_, may_match)| *may_match).map(|(fragment, _)| fragment).collect())
}

/// The first pages that have so many rows that are not deleted by now.
fn enough(snapshot: &Snapshot, pages: &[Arc<PageRef>], limit: Option<usize>) -> Vec<bool> {
    // Some that the pages count may be deleted or replaced since.
    let hidden: u64 = snapshot.fragments.tail().values().map(|record| u64::from(record.hidden.unwrap_or(0))).sum();
    let wanted = limit.map_or(u64::MAX, |limit| hidden.saturating_add(limit as u64));
    let mut rows = 0u64;
    let first = |page: &Arc<PageRef>| {
        let is_wanted = rows < wanted;
        rows = rows.saturating_add(page.live_rows);
        is_wanted
    };
    pages.iter().map(first).collect()
}

/// Whether each fragment may hold a row for which `predicate` is true. `scan_schema` is the whole schema of the scan: the
/// columns of `schema`, then the address.
pub fn prune(fragments: &[Arc<Fragment>], schema: &TableSchema, scan_schema: &SchemaRef, predicate: &Arc<dyn PhysicalExpr>) -> Vec<bool> {
    let predicate = PruningPredicateBuilder::new().with_file_schema(Arc::clone(scan_schema)).build(Arc::clone(predicate));
    answers(predicate.as_deref(), fragments, schema, scan_schema)
}

/// Whether each may hold a row that matches; `None` is a predicate of which bounds say nothing.
fn answers<C: Container>(predicate: Option<&PruningPredicate>, of: &[Arc<C>], schema: &TableSchema, scan_schema: &SchemaRef) -> Vec<bool> {
    let keep_all = vec![true; of.len()];
    let Some(predicate) = predicate else { return keep_all };
    // A predicate that cannot be evaluated on bounds prunes nothing; the scan evaluates it on rows.
    predicate.prune(&Bounds { of, schema, scan_schema }).unwrap_or(keep_all)
}

/// Rows of which bounds are known.
trait Container {
    /// How many there are, deleted ones included.
    fn rows(&self) -> u64;
    /// The smallest and the largest id of their fragments.
    fn ids(&self) -> (FragmentId, FragmentId);
    /// The largest offset in a fragment that there may be.
    fn last_offset(&self) -> i64;
    /// What is known of the values of a field.
    fn stats(&self, field: &Field) -> ColumnStats;
}

impl Container for Fragment {
    fn rows(&self) -> u64 {
        u64::from(self.physical_rows)
    }

    fn ids(&self) -> (FragmentId, FragmentId) {
        (self.id, self.id)
    }

    fn last_offset(&self) -> i64 {
        i64::from(self.physical_rows) - 1
    }

    fn stats(&self, field: &Field) -> ColumnStats {
        column_stats(self, field)
    }
}

impl Container for PageRef {
    fn rows(&self) -> u64 {
        self.rows
    }

    fn ids(&self) -> (FragmentId, FragmentId) {
        (self.first, self.last)
    }

    fn last_offset(&self) -> i64 {
        i64::try_from(self.rows).unwrap_or(i64::MAX) - 1
    }

    fn stats(&self, field: &Field) -> ColumnStats {
        self.summaries.get(&field.id).cloned().unwrap_or_default()
    }
}

/// The statistics of fragments or pages, as arrays.
struct Bounds<'a, C> {
    of: &'a [Arc<C>],
    schema: &'a TableSchema,
    scan_schema: &'a SchemaRef,
}

impl<C: Container> Bounds<'_, C> {
    fn stats(&self, of: &C, column: &str) -> Option<ColumnStats> {
        let without_nulls = |min, max| Some(ColumnStats { min: Some(min), max: Some(max), null_count: Some(0) });
        match column {
            FRAGMENT_COLUMN => {
                let (first, last) = of.ids();
                without_nulls(StatValue::UInt(u64::from(first.0)), StatValue::UInt(u64::from(last.0)))
            }
            OFFSET_COLUMN => without_nulls(StatValue::Int(0), StatValue::Int(of.last_offset())),
            name => Some(of.stats(self.schema.column(name)?)),
        }
    }

    fn bounds(&self, column: &Column, bound: impl Fn(ColumnStats) -> Option<StatValue>) -> Option<ArrayRef> {
        let data_type = self.scan_schema.field_with_name(column.name()).ok()?.data_type();
        let null = ScalarValue::try_from(data_type).ok()?;
        let values = self.of.iter().map(|of| {
            let stats = self.stats(of, column.name())?;
            bound(stats).and_then(|bound| to_scalar(&bound, data_type))
        });
        ScalarValue::iter_to_array(values.map(|value| value.unwrap_or_else(|| null.clone()))).ok()
    }
}

impl<C: Container> PruningStatistics for Bounds<'_, C> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |stats| stats.min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |stats| stats.max)
    }

    fn num_containers(&self) -> usize {
        self.of.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let counts = self.of.iter().map(|of| self.stats(of, column.name()).and_then(|stats| stats.null_count));
        Some(Arc::new(counts.collect::<UInt64Array>()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(self.of.iter().map(|of| Some(of.rows())).collect::<UInt64Array>()))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

#[cfg(test)]
mod tests;
