//! The file source of a scan: DataFusion's Parquet source, and the mask over it.
//!
//! The optimizer talks to a `FileSource` while it plans (projections, filters, sort orders are pushed into it); each partition
//! then asks it for what reads its files. All of the first is left to [`ParquetSource`], but for the projection, which is kept
//! here: only this source knows whether the reader has to yield row numbers as well.
//!
//! Goes in: what the optimizer pushes down, and files with their `Deletions`. Comes out: what reads them.
//! Always holds: a scan of files without deletions that are read one by one is read by `ParquetSource` itself; in the other case the reader below the mask has no
//! limit, because it would count deleted rows.

use super::address::OFFSET_COLUMN;
use super::external;
use super::infallible::cannot_fail;
use super::mask::{Deletions, MaskMorselizer, RowNumbers};
use super::zip::{Lanes, ZipMorselizer, Zipper};
use crate::error::Error;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::table_schema::TableSchema as ScanSchema;
use datafusion::physical_expr::expressions::{Column, LambdaExpr};
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult, apply_expression_roots};
use datafusion_datasource::morsel::Morselizer;
use object_store::ObjectStore;
use std::fmt;
use std::sync::Arc;

/// Reads the data files of fragments.
#[derive(Debug, Clone)]
pub struct FragmentSource {
    /// What reads the files. Its projection is always all columns: predicates and sort orders are pushed into it, projections
    /// are not.
    base: ParquetSource,
    /// The columns as the plan knows them. Below the mask they may be NULL where the plan knows that they are not.
    columns: ScanSchema,
    /// What is read of the columns.
    projection: ProjectionExprs,
    /// Whether filters are evaluated row by row within the scan; `None` leaves it to the session.
    pushdown_filters: Option<bool>,
    /// Reads files in full, for those that are read side by side: nothing is pushed into it.
    plain: ParquetSource,
    /// How many files have deletions, for EXPLAIN.
    files_with_deletions: usize,
    /// How many fragments are read from several files side by side, for EXPLAIN.
    zipped: usize,
}

impl FragmentSource {
    /// Reads through `base`, whose schema is that of [`scan_schema`](super::address::scan_schema), and whose projection is as it
    /// was made; `columns` is the same, but for what may be NULL.
    pub fn new(
        base: ParquetSource,
        columns: ScanSchema,
        pushdown_filters: Option<bool>,
        files_with_deletions: usize,
        zipped: usize,
    ) -> Self {
        let schema = base.table_schema().table_schema();
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        let projection = ProjectionExprs::from_indices(&all, schema);
        let plain = base.clone();
        let base = match pushdown_filters {
            Some(pushdown_filters) => base.with_pushdown_filters(pushdown_filters),
            None => base,
        };
        FragmentSource { base, columns, projection, pushdown_filters, plain, files_with_deletions, zipped }
    }

    /// This source with what `ParquetSource` made of itself.
    fn with_base(&self, source: &Arc<dyn FileSource>) -> Result<Arc<dyn FileSource>> {
        match source.downcast_ref::<ParquetSource>() {
            Some(base) => Ok(Arc::new(FragmentSource { base: base.clone(), ..self.clone() })),
            None => internal_err!("the Parquet source became a source of another kind"),
        }
    }

    /// Whether an expression may fail on a row that is deleted, and so must not be evaluated before the mask.
    fn may_fail(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        self.files_with_deletions > 0 && !cannot_fail(expr, self.base.table_schema().table_schema())
    }

    /// The Parquet source with a projection.
    fn projected(&self, projection: &ProjectionExprs) -> Result<Arc<dyn FileSource>> {
        let projected = self.base.try_pushdown_projection(projection)?;
        projected.ok_or_else(|| external(Error::internal("the Parquet source took no projection")))
    }

    /// The projection with the row number, and where that is.
    fn projection_with_row_numbers(&self) -> Result<(ProjectionExprs, RowNumbers)> {
        let schema = self.base.table_schema().table_schema();
        let offset = schema.index_of(OFFSET_COLUMN)?;
        let is_offset = |projected: &ProjectionExpr| projected.expr.downcast_ref::<Column>().is_some_and(|column| column.index() == offset);
        if let Some(column) = self.projection.iter().position(is_offset) {
            return Ok((self.projection.clone(), RowNumbers::Wanted(column)));
        }
        let column = self.projection.iter().count();
        let appended = ProjectionExpr::new(Arc::new(Column::new(OFFSET_COLUMN, offset)), OFFSET_COLUMN);
        let projection = self.projection.iter().cloned().chain([appended]).collect::<Vec<_>>();
        Ok((ProjectionExprs::new(projection), RowNumbers::Appended(column)))
    }
}

/// Whether an expression holds a lambda. That counts the columns of the plan's batches to find its own variables, and the batches
/// of the reader have others.
fn has_lambda(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.is::<LambdaExpr>() || expr.children().into_iter().any(has_lambda)
}

impl FileSource for FragmentSource {
    fn create_file_opener(&self, _: Arc<dyn ObjectStore>, _: &FileScanConfig, _: usize) -> Result<Arc<dyn FileOpener>> {
        internal_err!("fragments are read by morsels")
    }

    fn create_morselizer(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        // Partitions take each other's files, so one file with deletions in any group counts for all.
        let any = |has: fn(&PartitionedFile) -> bool| base_config.file_groups.iter().any(|group| group.iter().any(has));
        let masked = any(|file| file.extension::<Deletions>().is_some());
        let zipped = any(|file| file.extension::<Lanes>().is_some());
        let zip = |single, projection, config: &FileScanConfig| -> Result<Box<dyn Morselizer>> {
            if !zipped {
                return Ok(single);
            }
            let filter = self.base.filter().filter(|filter| !self.may_fail(filter));
            let zipper = Zipper::new(self.plain.clone(), Arc::clone(&object_store), config, partition, filter, projection)?;
            Ok(Box::new(ZipMorselizer::new(single, zipper)))
        };
        if !masked {
            let single = self.projected(&self.projection)?.create_morselizer(Arc::clone(&object_store), base_config, partition)?;
            return zip(single, self.projection.clone(), base_config);
        }
        let (projection, numbers) = self.projection_with_row_numbers()?;
        let reader = self.projected(&projection)?;
        // All that the reader takes of the configuration, but for the limit: that counts live rows, and is applied above.
        let mut config = FileScanConfigBuilder::new(base_config.object_store_url.clone(), Arc::clone(&reader))
            .with_expr_adapter(base_config.expr_adapter_factory.clone())
            .build();
        config.preserve_order = base_config.preserve_order;
        let masked_rows = MetricBuilder::new(self.base.metrics()).counter("masked_rows", partition);
        let single = reader.create_morselizer(Arc::clone(&object_store), &config, partition)?;
        let inner = zip(single, projection, &config)?;
        let rows = self.projection.project_schema(self.columns.table_schema())?;
        Ok(Box::new(MaskMorselizer::new(inner, numbers, Arc::new(rows), masked_rows)))
    }

    fn table_schema(&self) -> &ScanSchema {
        &self.columns
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        // `ParquetSource` gives a `ParquetSource`; if it ever does not, the batches are of the size it had.
        let sized = |source: &ParquetSource| source.with_batch_size(batch_size).downcast_ref::<ParquetSource>().cloned();
        let base = sized(&self.base).unwrap_or_else(|| self.base.clone());
        let plain = sized(&self.plain).unwrap_or_else(|| self.plain.clone());
        Arc::new(FragmentSource { base, plain, ..self.clone() })
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.base.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.base.metrics()
    }

    fn file_type(&self) -> &str {
        "amend"
    }

    fn fmt_extra(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.base.fmt_extra(format, f)?;
        for (count, name, what) in [(self.files_with_deletions, "deletions", "files"), (self.zipped, "side_by_side", "fragments")] {
            match (count, format) {
                (0, _) => {}
                (count, DisplayFormatType::TreeRender) => writeln!(f, "{name}={count} {what}")?,
                (count, _) => write!(f, ", {name}={count} {what}")?,
            }
        }
        Ok(())
    }

    fn supports_repartitioning(&self) -> bool {
        self.base.supports_repartitioning()
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        // What may fail on deleted rows only prunes, and is evaluated above the mask; so is what the reader cannot evaluate.
        let only_prunes = filters.iter().any(|filter| self.may_fail(filter) || has_lambda(filter));
        // `ParquetSource` also obeys the session, whatever it was told itself.
        let mut own_choice = None;
        if (self.pushdown_filters == Some(false) || only_prunes) && config.execution.parquet.pushdown_filters {
            own_choice.insert(config.clone()).execution.parquet.pushdown_filters = false;
        }
        let base = if only_prunes { self.base.clone().with_pushdown_filters(false) } else { self.base.clone() };
        let pushed = base.try_pushdown_filters(filters, own_choice.as_ref().unwrap_or(config))?;
        let updated_node = pushed.updated_node.map(|source| self.with_base(&source)).transpose()?;
        Ok(FilterPushdownPropagation { filters: pushed.filters, updated_node })
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        eq_properties: &EquivalenceProperties,
    ) -> Result<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        Ok(match self.base.try_pushdown_sort(order, eq_properties)? {
            SortOrderPushdownResult::Exact { inner } => SortOrderPushdownResult::Exact { inner: self.with_base(&inner)? },
            SortOrderPushdownResult::Inexact { inner } => SortOrderPushdownResult::Inexact { inner: self.with_base(&inner)? },
            SortOrderPushdownResult::Unsupported => SortOrderPushdownResult::Unsupported,
        })
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.base.reorder_files(files)
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let projection = self.projection.try_merge(projection)?;
        if projection.iter().any(|projected| self.may_fail(&projected.expr) || has_lambda(&projected.expr)) {
            return Ok(None);
        }
        Ok(Some(Arc::new(FragmentSource { projection, ..self.clone() })))
    }

    fn apply_expressions(&self, f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        let filter = self.base.filter();
        apply_expression_roots(filter.iter().chain(self.projection.iter().map(|projected| &projected.expr)), f)
    }
}
