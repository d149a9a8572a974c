//! Fragments of several files: their columns are read side by side, row by row.
//!
//! ```text
//!   file 0   a   number        file 1   c   number          row
//!            1   0                      x   0               1  x
//!            2   1                      y   1       =>      2  y
//!            3   2                      z   2               3  z
//! ```
//!
//! Each file is read by DataFusion's Parquet source, in full and in order, with the number of each row; rows that the manifest holds
//! itself are there already ([`inline`](super::inline)). Filters that were pushed into the scan are evaluated here, on whole rows.
//!
//! Goes in: files with [`Lanes`]. Comes out: the rows that the reader of a single file would yield.
//! Always holds: values of one row have one row number in all files, or the scan fails; every physical row is there once,
//! unless a filter took it; what a plan split by bytes is read by whoever got the beginning.

use super::address::{FRAGMENT_COLUMN, OFFSET_COLUMN};
use super::external;
use super::inline;
use super::reader::FileOf;
use crate::error::Error;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{FieldRef, Int64Type, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer, PendingMorselPlanner};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::ObjectStore;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

/// The files of a fragment that are read side by side: an extension of the `PartitionedFile` that stands for them.
#[derive(Debug, Clone)]
pub struct Lanes(pub Arc<Vec<LaneFile>>);

/// One of them.
#[derive(Debug, Clone)]
pub struct LaneFile {
    /// The file.
    pub file: PartitionedFile,
    /// The columns to take from it, by their positions in the table.
    pub columns: Vec<usize>,
}

/// What all fragments of a scan have in common.
pub struct Zipper {
    /// Reads a file in full: nothing was pushed into it.
    plain: ParquetSource,
    objects: Arc<dyn ObjectStore>,
    config: FileScanConfig,
    partition: usize,
    filter: Option<Arc<dyn PhysicalExpr>>,
    projection: ProjectionExprs,
    /// The columns of the scan that filter and projection need, and the row number, by position.
    needed: Vec<usize>,
    rows: SchemaRef,
}

impl Zipper {
    /// Reads through `plain`, and yields what `projection` makes of the rows that `filter` lets pass.
    pub fn new(
        plain: ParquetSource,
        objects: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
        filter: Option<Arc<dyn PhysicalExpr>>,
        projection: ProjectionExprs,
    ) -> Result<Self> {
        let schema = Arc::clone(plain.table_schema().table_schema());
        let exprs = filter.iter().cloned().chain(projection.expr_iter());
        let mut needed: BTreeSet<usize> = exprs.flat_map(|expr| collect_columns(&expr)).map(|column| column.index()).collect();
        needed.insert(schema.index_of(OFFSET_COLUMN)?);
        let needed: Vec<usize> = needed.into_iter().collect();
        let rows = Arc::new(schema.project(&needed)?);
        let here = |expr: Arc<dyn PhysicalExpr>| reassign_expr_columns(expr, &rows);
        let filter = filter.map(here).transpose()?;
        let projected = projection.iter().map(|p| Ok(ProjectionExpr::new(here(Arc::clone(&p.expr))?, p.alias.clone())));
        let projection = ProjectionExprs::new(projected.collect::<Result<Vec<_>>>()?);
        let config = config.clone();
        Ok(Zipper { plain, objects, config, partition, filter, projection, needed, rows })
    }

    /// The rows of a fragment.
    fn read(self: Arc<Self>, file: &PartitionedFile, lanes: &Lanes) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let of = file.extension::<FileOf>().cloned();
        let of = of.ok_or_else(|| external(Error::internal(format!("'{}' is of no fragment", file.path()))))?;
        let columns_of = |lane: &LaneFile| lane.columns.iter().copied().filter(|column| self.needed.contains(column)).collect::<Vec<_>>();
        let mut open = lanes.0.iter().map(|lane| (lane, columns_of(lane))).collect::<Vec<_>>();
        // The rows of a fragment can be counted in any of its files.
        let some = open.iter().any(|(_, columns)| !columns.is_empty());
        open.retain(|(_, columns)| !some || !columns.is_empty());
        if !some {
            open.truncate(1);
        }
        let lanes = open.into_iter().map(|(lane, columns)| self.open(lane, columns)).collect::<Result<Vec<_>>>()?;
        let rows = Rows { zipper: self, of, lanes, next: 0 };
        Ok(stream::try_unfold(rows, Rows::step).filter_map(|rows| std::future::ready(rows.transpose())).boxed())
    }

    /// One file, from its first row to its last.
    fn open(&self, lane: &LaneFile, columns: Vec<usize>) -> Result<OpenLane> {
        let schema = self.plain.table_schema().table_schema();
        if let Some(of) = lane.file.extension::<FileOf>().filter(|of| of.record().is_some_and(|file| file.inline.is_some())) {
            let adapters = self.config.expr_adapter_factory.as_deref();
            let adapters = adapters.ok_or_else(|| external(Error::internal("a scan without an adapter of columns")))?;
            let rows = inline::read(of, schema, adapters, &columns)?;
            return Ok(OpenLane { rows: stream::iter([Ok(rows)]).boxed(), columns, held: None });
        }
        let offset = schema.index_of(OFFSET_COLUMN)?;
        let wanted: Vec<usize> = columns.iter().copied().chain([offset]).collect();
        let source = self.plain.try_pushdown_projection(&ProjectionExprs::from_indices(&wanted, schema))?;
        let source = source.ok_or_else(|| external(Error::internal("the Parquet source took no projection")))?;
        let mut config = FileScanConfigBuilder::new(self.config.object_store_url.clone(), Arc::clone(&source))
            .with_expr_adapter(self.config.expr_adapter_factory.clone())
            .build();
        config.preserve_order = true;
        let planner = source.create_morselizer(Arc::clone(&self.objects), &config, self.partition)?.plan_file(lane.file.clone())?;
        Ok(OpenLane { rows: in_order(planner), columns, held: None })
    }

    /// Rows of the scan from what the files gave: the columns of each, then its row numbers.
    fn assemble(&self, of: &FileOf, pieces: &[(&[usize], RecordBatch)]) -> Result<RecordBatch> {
        let rows = pieces.first().map_or(0, |(_, piece)| piece.num_rows());
        let find = |wanted: usize| {
            pieces.iter().find_map(|(columns, piece)| {
                let at = columns.iter().position(|column| *column == wanted)?;
                piece.columns().get(at).cloned()
            })
        };
        let column = |(position, field): (&usize, &FieldRef)| -> ArrayRef {
            let found = match field.name().as_str() {
                FRAGMENT_COLUMN => Some(Arc::new(UInt32Array::from_value(of.fragment.id.0, rows)) as ArrayRef),
                OFFSET_COLUMN => pieces.first().and_then(|(_, piece)| piece.columns().last().cloned()),
                _ => find(*position),
            };
            found.unwrap_or_else(|| new_null_array(field.data_type(), rows))
        };
        let columns = self.needed.iter().zip(self.rows.fields()).map(column).collect();
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.rows), columns, &RecordBatchOptions::new().with_row_count(Some(rows)))?)
    }

    /// What goes on of some rows; `None` if nothing does.
    fn finish(&self, rows: RecordBatch) -> Result<Option<RecordBatch>> {
        let rows = match &self.filter {
            None => rows,
            Some(filter) => {
                let passes = filter.evaluate(&rows)?.into_array(rows.num_rows())?;
                filter_record_batch(&rows, as_boolean_array(&passes)?)?
            }
        };
        if rows.num_rows() == 0 {
            return Ok(None);
        }
        self.projection.make_projector(&self.rows)?.project_batch(&rows).map(Some)
    }
}

impl fmt::Debug for Zipper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zipper").field("needed", &self.needed).finish_non_exhaustive()
    }
}

/// A file that is being read.
struct OpenLane {
    rows: BoxStream<'static, Result<RecordBatch>>,
    /// What its batches hold, but for the row number, which comes last.
    columns: Vec<usize>,
    held: Option<RecordBatch>,
}

impl OpenLane {
    /// The rows that come next; `None` at the end of the file.
    async fn peek(&mut self) -> Result<Option<&RecordBatch>> {
        while self.held.as_ref().is_none_or(|held| held.num_rows() == 0) {
            match self.rows.next().await {
                None => return Ok(None),
                Some(rows) => self.held = Some(rows?),
            }
        }
        Ok(self.held.as_ref())
    }

    /// The next so many rows of those that [`OpenLane::peek`] found.
    fn take(&mut self, rows: usize) -> Option<RecordBatch> {
        let held = self.held.take()?;
        self.held = Some(held.slice(rows, held.num_rows() - rows));
        Some(held.slice(0, rows))
    }
}

/// The rows of a fragment as they are read.
struct Rows {
    zipper: Arc<Zipper>,
    of: FileOf,
    lanes: Vec<OpenLane>,
    /// The number of the next row.
    next: u32,
}

impl Rows {
    /// Some more rows, and what is left.
    async fn step(mut self) -> Result<Option<(Option<RecordBatch>, Self)>> {
        let mut length = usize::MAX;
        let mut ended = 0;
        for lane in &mut self.lanes {
            match lane.peek().await? {
                Some(rows) => length = length.min(rows.num_rows()),
                None => ended += 1,
            }
        }
        if ended > 0 {
            let all = ended == self.lanes.len() && self.next == self.of.fragment.physical_rows;
            return if all { Ok(None) } else { Err(self.out_of_step()) };
        }
        let mut pieces = Vec::with_capacity(self.lanes.len());
        let mut aligned = true;
        for lane in &mut self.lanes {
            let Some(piece) = lane.take(length) else { continue };
            let numbers = piece.columns().last().and_then(|numbers| numbers.as_primitive_opt::<Int64Type>());
            let expected = i64::from(self.next)..;
            aligned &= numbers.is_some_and(|n| n.null_count() == 0 && n.values().iter().copied().zip(expected).all(|(n, at)| n == at));
            pieces.push((lane.columns.as_slice(), piece));
        }
        let next = u32::try_from(length).ok().and_then(|length| self.next.checked_add(length));
        let (true, Some(next)) = (aligned, next) else { return Err(self.out_of_step()) };
        let rows = self.zipper.assemble(&self.of, &pieces)?;
        drop(pieces);
        self.next = next;
        Ok(Some((self.zipper.finish(rows)?, self)))
    }

    fn out_of_step(&self) -> DataFusionError {
        let (fragment, row) = (self.of.fragment.id, self.next);
        external(Error::internal(format!("the files of fragment {fragment} of table '{}' part at row {row}", self.of.table)))
    }
}

/// What is left to do of a file.
enum Left {
    Plan(Box<dyn MorselPlanner>),
    Wait(PendingMorselPlanner),
    Read(BoxStream<'static, Result<RecordBatch>>),
}

/// The rows of a file in the order in which its planner gives them.
fn in_order(planner: Box<dyn MorselPlanner>) -> BoxStream<'static, Result<RecordBatch>> {
    let next = |mut left: VecDeque<Left>| async move {
        while let Some(first) = left.pop_front() {
            match first {
                Left::Read(mut rows) => {
                    if let Some(batch) = rows.next().await {
                        left.push_front(Left::Read(rows));
                        return Ok(Some((batch?, left)));
                    }
                }
                Left::Wait(pending) => left.push_front(Left::Plan(pending.await?)),
                Left::Plan(planner) => {
                    let Some(mut plan) = planner.plan()? else { continue };
                    let morsels = plan.take_morsels().into_iter().map(|morsel| Left::Read(morsel.into_stream()));
                    let mut then: VecDeque<Left> = morsels.collect();
                    then.extend(plan.take_ready_planners().into_iter().map(Left::Plan));
                    then.extend(plan.take_pending_planner().map(Left::Wait));
                    then.append(&mut left);
                    left = then;
                }
            }
        }
        Ok(None)
    };
    stream::try_unfold(VecDeque::from([Left::Plan(planner)]), next).boxed()
}

/// Reads files with [`Lanes`] side by side, and leaves the others to `single`.
#[derive(Debug)]
pub struct ZipMorselizer {
    single: Box<dyn Morselizer>,
    zipper: Arc<Zipper>,
}

impl ZipMorselizer {
    /// `single` and `zipper` yield the same columns.
    pub fn new(single: Box<dyn Morselizer>, zipper: Zipper) -> Self {
        ZipMorselizer { single, zipper: Arc::new(zipper) }
    }
}

impl Morselizer for ZipMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        match file.extension::<Lanes>().cloned() {
            None => self.single.plan_file(file),
            Some(lanes) => Ok(Box::new(ZipPlanner { zipper: Arc::clone(&self.zipper), file, lanes })),
        }
    }
}

#[derive(Debug)]
struct ZipPlanner {
    zipper: Arc<Zipper>,
    file: PartitionedFile,
    lanes: Lanes,
}

impl MorselPlanner for ZipPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        if self.file.range.as_ref().is_some_and(|range| range.start > 0) {
            return Ok(None);
        }
        let rows = Arc::clone(&self.zipper).read(&self.file, &self.lanes)?;
        Ok(Some(MorselPlan::new().with_morsels(vec![Box::new(ZipMorsel { rows })])))
    }
}

struct ZipMorsel {
    rows: BoxStream<'static, Result<RecordBatch>>,
}

impl fmt::Debug for ZipMorsel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ZipMorsel")
    }
}

impl Morsel for ZipMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        self.rows
    }
}
