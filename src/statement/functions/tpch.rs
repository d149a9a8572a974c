//! `tpch('lineitem', 0.01)`: a table of the TPC-H benchmark at a scale factor, generated as it is read.
//!
//! The rows are those of the reference generator (crate `tpchgen`); scale factor 1 is 6,001,215 rows of lineitem.

use super::{number, text};
use crate::error::{Error, nearest_name};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchReader};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use std::fmt;
use std::sync::Arc;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator, RegionGenerator,
    SupplierGenerator,
};
use tpchgen_arrow::{CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow};

/// The tables of TPC-H.
const TABLES: [&str; 8] = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"];
/// The largest scale factor that is taken.
const MAX_SCALE_FACTOR: f64 = 1000.0;
/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

type Batches = Box<dyn RecordBatchReader<Item = Result<RecordBatch, ArrowError>> + Send>;

/// The function.
#[derive(Debug)]
pub struct TpchFunction;

impl TableFunctionImpl for TpchFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let table = text("tpch", args.exprs().first())?;
        let scale_factor = number("tpch", args.exprs().get(1))?;
        if !(scale_factor > 0.0 && scale_factor <= MAX_SCALE_FACTOR) {
            return Err(
                Error::invalid(format!("tpch: the scale factor lies between 0 and {MAX_SCALE_FACTOR}, not at {scale_factor}")).into()
            );
        }
        let part = Part { table, scale_factor };
        let schema = part.batches()?.schema();
        Ok(Arc::new(StreamingTable::try_new(schema.clone(), vec![Arc::new(Generated { part, schema })])?))
    }
}

/// A generated table.
#[derive(Debug, Clone)]
struct Part {
    table: String,
    scale_factor: f64,
}

impl Part {
    fn batches(&self) -> Result<Batches> {
        let scale = self.scale_factor;
        Ok(match self.table.as_str() {
            "customer" => Box::new(CustomerArrow::new(CustomerGenerator::new(scale, 1, 1)).with_batch_size(BATCH_ROWS)),
            "lineitem" => Box::new(LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)).with_batch_size(BATCH_ROWS)),
            "nation" => Box::new(NationArrow::new(NationGenerator::new(scale, 1, 1)).with_batch_size(BATCH_ROWS)),
            "orders" => Box::new(OrderArrow::new(OrderGenerator::new(scale, 1, 1)).with_batch_size(BATCH_ROWS)),
            "part" => Box::new(PartArrow::new(PartGenerator::new(scale, 1, 1)).with_batch_size(BATCH_ROWS)),
            "partsupp" => Box::new(PartSuppArrow::new(PartSuppGenerator::new(scale, 1, 1)).with_batch_size(BATCH_ROWS)),
            "region" => Box::new(RegionArrow::new(RegionGenerator::new(scale, 1, 1)).with_batch_size(BATCH_ROWS)),
            "supplier" => Box::new(SupplierArrow::new(SupplierGenerator::new(scale, 1, 1)).with_batch_size(BATCH_ROWS)),
            other => {
                let nearest = nearest_name(other, TABLES);
                return Err(DataFusionError::from(Error::UnknownTable { table: format!("tpch {other}"), nearest }));
            }
        })
    }
}

/// The stream of a generated table.
struct Generated {
    part: Part,
    schema: SchemaRef,
}

impl fmt::Debug for Generated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.part.fmt(f)
    }
}

impl PartitionStream for Generated {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let stream: futures::stream::BoxStream<'static, Result<RecordBatch>> = match self.part.batches() {
            Ok(batches) => Box::pin(futures::stream::iter(batches.map(|batch| batch.map_err(DataFusionError::from)))),
            Err(error) => Box::pin(futures::stream::once(async { Err(error) })),
        };
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), stream))
    }
}
