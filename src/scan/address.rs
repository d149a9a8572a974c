//! The address of a row as columns of a scan: the fragment, and the offset of the row in it.
//!
//! Goes in: a table's Arrow schema. Comes out: the schema of its scans, which is the columns, then the two halves of the address.
//! Always holds: the fragment is one value a file, the offset is the row's number in its file (so both survive whatever a
//! scan skips); a table's own columns never have these names.

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, SchemaRef};
use datafusion::datasource::table_schema::TableSchema as ScanSchema;
use parquet::arrow::RowNumber;
use std::sync::Arc;

/// The column of a scan that holds the row's fragment (UInt32).
pub const FRAGMENT_COLUMN: &str = "__amend_fragment";
/// The column of a scan that holds the row's offset in its fragment (Int64).
pub const OFFSET_COLUMN: &str = "__amend_offset";

/// Whether a table's own column must not have this name.
pub fn is_reserved(name: &str) -> bool {
    name == FRAGMENT_COLUMN || name == OFFSET_COLUMN
}

/// The field of [`FRAGMENT_COLUMN`].
pub fn fragment_field() -> FieldRef {
    Arc::new(Field::new(FRAGMENT_COLUMN, DataType::UInt32, false))
}

/// The field of [`OFFSET_COLUMN`]: Parquet's row number.
pub fn offset_field() -> FieldRef {
    Arc::new(Field::new(OFFSET_COLUMN, DataType::Int64, false).with_extension_type(RowNumber))
}

/// The schema of the scans of a table with these columns: the columns, then [`FRAGMENT_COLUMN`], then [`OFFSET_COLUMN`].
pub fn scan_schema(columns: SchemaRef) -> ScanSchema {
    ScanSchema::builder(columns).with_table_partition_cols(vec![fragment_field()]).with_virtual_columns(vec![offset_field()]).build()
}

/// Both fields of the address.
pub fn fields() -> [FieldRef; 2] {
    [fragment_field(), offset_field()]
}
