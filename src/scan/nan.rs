//! Footers without bounds that mislead.
//!
//! Parquet's bounds of a float column pass over NaN, while DataFusion orders NaN above all other numbers: `f > 100` holds for
//! NaN, yet a row group of 1 and NaN with the bounds 1 and 1 would be skipped, and a TopK would miss its largest value.
//!
//! Goes in: a footer, and the manifest's record of the file. Comes out: the footer that pruning may believe.
//! Always holds: a float column keeps its bounds only if the manifest has bounds of it, which it has only where no NaN was written
//! (see [`from_parquet`](super::statistics::from_parquet)); so does a column of text or bytes in a file of others, whose writer may
//! have compared them in another way.

use crate::table::fragment::DataFile;
use parquet::basic::{LogicalType, Type};
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::schema::types::SchemaDescriptor;
use std::sync::Arc;

/// The footer without statistics and column index of the float columns that may hold NaN.
pub fn without_misleading_bounds(footer: Arc<ParquetMetaData>, file: &DataFile) -> Result<Arc<ParquetMetaData>> {
    let schema = footer.file_metadata().schema_descr();
    let misleading: Vec<bool> = (0..schema.num_columns()).map(|leaf| may_mislead(schema, leaf, file)).collect();
    if !misleading.contains(&true) {
        return Ok(footer);
    }
    let groups = footer.row_groups().iter().map(|group| without_bounds(group, &misleading)).collect::<Result<Vec<_>>>()?;
    // Pages' bounds that were read already are read again, without those that are gone now.
    let footer = footer.as_ref().clone().into_builder().set_column_index(None).set_offset_index(None);
    Ok(Arc::new(footer.set_row_groups(groups).build()))
}

fn may_mislead(schema: &SchemaDescriptor, leaf: usize, file: &DataFile) -> bool {
    let column = schema.column(leaf);
    let is_float =
        matches!(column.physical_type(), Type::FLOAT | Type::DOUBLE) || matches!(column.logical_type_ref(), Some(LogicalType::Float16));
    // The manifest has no bounds of nested columns, so floats within them are among these.
    let recorded = file.columns.get(schema.get_column_root_idx(leaf));
    let is_others_text = file.base.is_some() && matches!(column.physical_type(), Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY);
    (is_float || is_others_text) && !recorded.is_some_and(|column| column.stats.min.is_some() && column.stats.max.is_some())
}

fn without_bounds(group: &RowGroupMetaData, misleading: &[bool]) -> Result<RowGroupMetaData> {
    let columns = group.columns().iter().zip(misleading).map(|(column, misleading)| match misleading {
        true => without_bounds_of_column(column),
        false => Ok(column.clone()),
    });
    group.clone().into_builder().set_column_metadata(columns.collect::<Result<Vec<_>>>()?).build()
}

fn without_bounds_of_column(column: &ColumnChunkMetaData) -> Result<ColumnChunkMetaData> {
    column.clone().into_builder().clear_statistics().set_column_index_offset(None).set_column_index_length(None).build()
}
