//! The footers of files that others wrote: all that is read of a file before it becomes part of a table.
//!
//! Goes in: files that were found. Comes out: for each its length, its schema, its row groups, and the checksums of its footer.
//! Always holds: nothing but the end of a file is read; a file that is not Parquet, or that has more rows than a fragment can
//! have, is an error that names it.

use crate::error::{Error, Result};
use crate::store::base::{self, Found, LOCAL_FILES};
use crate::store::{Elsewhere, Written};
use crate::table::fragment::BlockChecksums;
use crate::table::row_address::MAX_ROWS_PER_FRAGMENT;
use bytes::Bytes;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::parquet::arrow::parquet_to_arrow_schema;
use datafusion::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use futures::{StreamExt, TryStreamExt, stream};
use std::ops::Range;
use std::sync::Arc;

/// What ends a Parquet file: the length of the footer's metadata, and the magic.
const TRAILER_BYTES: u64 = 8;
const MAGIC: &[u8] = b"PAR1";
const ENCRYPTED_MAGIC: &[u8] = b"PARE";
/// How much of the end of a file is read at first.
const FIRST_READ_BYTES: u64 = 64 * 1024;
/// How many files are read at a time.
const CONCURRENT_READS: usize = 16;

/// A file of others, by its footer.
#[derive(Debug)]
pub struct ForeignFile {
    /// The file.
    pub found: Found,
    /// Its length in bytes.
    pub size_bytes: u64,
    /// Where its footer starts.
    pub footer_at: u64,
    /// The checksums of the footer's blocks.
    pub checksum: BlockChecksums,
    /// Its footer.
    pub footer: ParquetMetaData,
    /// Its columns as Arrow has them.
    pub schema: SchemaRef,
    /// The rows of each of its row groups.
    pub row_groups: Vec<u32>,
    /// The rows of all of them.
    pub rows: u32,
}

/// Reads the footers of files.
pub async fn read_footers(found: Vec<Found>) -> Result<Vec<ForeignFile>> {
    stream::iter(found).map(read_footer).buffered(CONCURRENT_READS).try_collect().await
}

async fn read_footer(found: Found) -> Result<ForeignFile> {
    let file = base::open(LOCAL_FILES, &found.path)?;
    let name = found.found_as.clone();
    let size_bytes = base::size_bytes(&file, &name).await?;
    let bytes = footer_bytes(&file, &name, size_bytes).await?;
    let refuse = |error: &dyn std::fmt::Display| not_parquet(&name, error);
    let metadata = bytes.get(..bytes.len().saturating_sub(TRAILER_BYTES as usize)).unwrap_or_default();
    let footer = ParquetMetaDataReader::decode_metadata(metadata).map_err(|error| refuse(&error))?;
    let columns = footer.file_metadata();
    let schema = parquet_to_arrow_schema(columns.schema_descr(), columns.key_value_metadata()).map_err(|error| refuse(&error))?;
    // Arrow leaves out groups without parts, and positions would no longer be those of the file.
    if schema.fields().len() != columns.schema_descr().root_schema().get_fields().len() {
        return Err(Error::unsupported(format!("adopting '{name}', which has a column without parts,"), None));
    }
    let row_groups: Option<Vec<u32>> = footer.row_groups().iter().map(|group| u32::try_from(group.num_rows()).ok()).collect();
    let rows = row_groups.as_ref().map(|groups| groups.iter().map(|rows| u64::from(*rows)).sum::<u64>());
    let (Some(row_groups), Some(rows)) = (row_groups, rows.filter(|rows| *rows <= MAX_ROWS_PER_FRAGMENT)) else {
        let what = format!("adopting '{name}', which has more rows than a fragment can have ({MAX_ROWS_PER_FRAGMENT}),");
        return Err(Error::unsupported(what, Some("INSERT .. SELECT copies its rows")));
    };
    let footer_at = size_bytes - bytes.len() as u64;
    let Written { block_bytes, crc32c, .. } = Written::of(&bytes);
    let checksum = BlockChecksums { block_bytes, crc32c };
    let rows = u32::try_from(rows).map_err(|error| Error::internal(format!("rows of '{name}': {error}")))?;
    Ok(ForeignFile { found, size_bytes, footer_at, checksum, footer, schema: Arc::new(schema), row_groups, rows })
}

/// The bytes of a footer, trailer included.
async fn footer_bytes(file: &Elsewhere, name: &str, size_bytes: u64) -> Result<Bytes> {
    let last: Range<u64> = size_bytes.saturating_sub(FIRST_READ_BYTES)..size_bytes;
    let end = base::read(file, name, last.clone()).await?;
    let trailer = end.last_chunk::<{ TRAILER_BYTES as usize }>().ok_or_else(|| not_parquet(name, &"it is too short"))?;
    let [l0, l1, l2, l3, magic @ ..] = trailer;
    if magic == ENCRYPTED_MAGIC {
        return Err(Error::unsupported(format!("adopting '{name}', which is encrypted,"), None));
    }
    if magic != MAGIC {
        return Err(not_parquet(name, &"it does not end like one"));
    }
    let footer = u64::from(u32::from_le_bytes([*l0, *l1, *l2, *l3])) + TRAILER_BYTES;
    // In front of the footer there is at least the magic.
    let start = size_bytes.checked_sub(footer).filter(|start| *start >= MAGIC.len() as u64);
    let start = start.ok_or_else(|| not_parquet(name, &"its footer is longer than the file"))?;
    match start.checked_sub(last.start).and_then(|at| usize::try_from(at).ok()) {
        Some(at) => Ok(end.slice(at..)),
        None => base::read(file, name, start..size_bytes).await,
    }
}

fn not_parquet(name: &str, reason: &dyn std::fmt::Display) -> Error {
    Error::invalid(format!("'{name}' is no Parquet file: {reason}"))
}
