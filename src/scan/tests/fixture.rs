//! Tables for the tests of scans: files in memory, fragments made by hand, and a provider that does what a real one does.

use crate::Error;
use crate::scan::address::scan_schema;
use crate::scan::plan::{ScanRequest, plan};
use crate::scan::statistics::from_parquet;
use crate::store::{ObjectName, Store, Written};
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::{Base, BaseId, BlockChecksums, DataFile, FileColumn, Fragment};
use crate::table::row_address::FragmentId;
use crate::table::schema::{FieldId, PARQUET_FIELD_ID, TableSchema};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType, utils::conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How files are written.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    pub group_rows: usize,
    pub page_rows: usize,
    pub page_index: bool,
}

impl Layout {
    pub fn groups_of(group_rows: usize) -> Self {
        Layout { group_rows, page_rows: 20_000, page_index: true }
    }
}

/// A table with addresses.
#[derive(Debug, Clone)]
pub struct Table {
    pub store: Store,
    pub schema: Arc<TableSchema>,
    pub bases: BTreeMap<BaseId, Base>,
    pub fragments: Vec<(Arc<Fragment>, Option<Arc<RoaringBitmap>>)>,
    pub pushdown_filters: Option<bool>,
}

impl Table {
    pub fn new(arrow: &Schema) -> Self {
        let schema = Arc::new(TableSchema::from_arrow(arrow, FieldId(1)).unwrap());
        Table { store: Store::memory(), schema, bases: BTreeMap::new(), fragments: Vec::new(), pushdown_filters: None }
    }

    /// Adds a fragment whose id is the next after the last. The columns of `batch` are the table's, in order.
    pub async fn add(&mut self, batch: &RecordBatch, layout: Layout, deleted: impl IntoIterator<Item = u32>) {
        let batch = batch.clone().with_schema(self.schema.to_arrow()).unwrap();
        let file = write(&self.store, &batch, layout).await;
        let id = FragmentId(self.fragments.last().map_or(0, |(fragment, _)| fragment.id.0 + 1));
        self.fragments.push(fragment(id, file, deleted.into_iter().collect()));
    }

    /// Moves columns of the last fragment to a file of their own, with the values of `batch`; the others of `batch` are not
    /// looked at.
    pub async fn move_columns(&mut self, names: &[&str], batch: &RecordBatch, layout: Layout) {
        let batch = batch.clone().with_schema(self.schema.to_arrow()).unwrap();
        let columns: Vec<usize> = names.iter().map(|name| batch.schema().index_of(name).unwrap()).collect();
        let file = write(&self.store, &batch.project(&columns).unwrap(), layout).await;
        let fields = file.columns.iter().filter_map(|column| column.field).collect();
        let fragment = Arc::make_mut(&mut self.fragments.last_mut().unwrap().0);
        fragment.tombstone(&fields);
        fragment.files.push(file);
    }

    pub fn context(&self, config: SessionConfig) -> SessionContext {
        let context = SessionContext::new_with_config(config);
        context.register_table("t", Arc::new(self.clone())).unwrap();
        context
    }

    pub async fn query(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        self.context(config(2)).sql(sql).await?.collect().await
    }

    /// The rows of a query, each as one line with its values between commas, sorted.
    pub async fn rows(&self, sql: &str) -> Vec<String> {
        sorted_lines(&self.query(sql).await.unwrap())
    }

    pub fn request(&self) -> ScanRequest {
        ScanRequest {
            store: self.store.clone(),
            table: "t".into(),
            schema: Arc::clone(&self.schema),
            bases: self.bases.clone(),
            fragments: self.fragments.clone(),
            projection: None,
            predicate: None,
            limit: None,
            groups: None,
            pushdown_filters: self.pushdown_filters,
            target_partitions: 2,
            held: None,
        }
    }
}

/// Small batches, and files are split whatever their size.
pub fn config(target_partitions: usize) -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(target_partitions);
    config.options_mut().optimizer.repartition_file_min_size = 1;
    config
}

fn id_of(field: &Field) -> Option<FieldId> {
    field.metadata().get(PARQUET_FIELD_ID).map(|id| FieldId(id.parse().unwrap()))
}

fn parts_of(data_type: &DataType) -> Vec<FieldId> {
    let parts: Vec<&FieldRef> = match data_type {
        DataType::Struct(parts) => parts.iter().collect(),
        DataType::List(part) | DataType::LargeList(part) | DataType::FixedSizeList(part, _) | DataType::Map(part, _) => vec![part],
        _ => vec![],
    };
    parts.into_iter().flat_map(|part| id_of(part).into_iter().chain(parts_of(part.data_type())).collect::<Vec<_>>()).collect()
}

/// Writes a file whose fields have the ids that are in the schema of `batch`.
pub async fn write(store: &Store, batch: &RecordBatch, layout: Layout) -> DataFile {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(layout.group_rows))
        .set_data_page_row_count_limit(layout.page_rows)
        .set_write_batch_size(layout.page_rows.min(1024))
        .set_statistics_enabled(if layout.page_index { EnabledStatistics::Page } else { EnabledStatistics::Chunk })
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    let footer = writer.close().unwrap();

    let written = Written::of(&bytes);
    let name = ObjectName::new_data();
    store.write(&name, Bytes::from(bytes)).await.unwrap();
    let schema = batch.schema();
    let columns = schema.fields().iter().enumerate().map(|(position, field)| FileColumn {
        field: id_of(field),
        parts: parts_of(field.data_type()),
        stats: from_parquet(&footer, position, field.data_type(), false),
        ..FileColumn::default()
    });
    DataFile {
        inline: None,
        sorted_by: vec![],
        path: name.into(),
        base: None,
        size_bytes: written.size_bytes,
        unchecked_bytes: 0,
        checksum: Arc::new(BlockChecksums { block_bytes: written.block_bytes, crc32c: written.crc32c }),
        row_groups: footer.row_groups().iter().map(|group| group.num_rows() as u32).collect(),
        columns: columns.collect(),
    }
}

pub fn fragment(id: FragmentId, file: DataFile, deleted: RoaringBitmap) -> (Arc<Fragment>, Option<Arc<RoaringBitmap>>) {
    let physical_rows = file.row_groups.iter().sum();
    let deletions = DeletionFile::inline(&deleted);
    let deleted = deletions.is_some().then(|| Arc::new(deleted));
    (Arc::new(Fragment { id, physical_rows, files: vec![file], deletions, created_at: 1, updated_at: 1 }), deleted)
}

pub fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| datafusion::arrow::util::display::array_value_to_string(column, row).unwrap());
            lines.push(values.collect::<Vec<_>>().join(","));
        }
    }
    lines
}

pub fn sorted_lines(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines = lines(batches);
    lines.sort();
    lines
}

/// Our own error within what DataFusion made of it.
pub fn cause(error: &DataFusionError) -> Option<&Error> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(ours) = error.downcast_ref::<Error>() {
            return Some(ours);
        }
        next = error.source();
    }
    None
}

#[async_trait]
impl TableProvider for Table {
    fn schema(&self) -> SchemaRef {
        Arc::clone(scan_schema(self.schema.to_plain_arrow()).table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = DFSchema::try_from(self.schema())?;
        let predicate = conjunction(filters.to_vec()).map(|filter| session.create_physical_expr(filter, &schema)).transpose()?;
        let target_partitions = session.config().target_partitions();
        let mut request = ScanRequest { projection: projection.cloned(), predicate, limit, target_partitions, ..self.request() };
        request.prune();
        plan(request, session)
    }
}
