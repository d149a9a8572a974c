//! Predicates against the statistics of fragments made by hand.

use super::*;
use crate::scan::address::scan_schema;
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::{BlockChecksums, DataFile, FileColumn};
use crate::table::row_address::FragmentId;
use crate::table::schema::FieldId;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::logical_expr::{Expr, col, lit};
use datafusion::physical_expr::planner::logical2physical;

fn bounds(min: i64, max: i64, nulls: u64) -> ColumnStats {
    ColumnStats { min: Some(StatValue::Int(min)), max: Some(StatValue::Int(max)), null_count: Some(nulls) }
}

/// A fragment of 100 rows that holds fields 1 to 3.
fn fragment(id: u32, a: ColumnStats, text: ColumnStats, float: ColumnStats, deleted: u32) -> Arc<Fragment> {
    let column = |(stats, id): (ColumnStats, i32)| FileColumn { field: Some(FieldId(id)), stats, ..FileColumn::default() };
    let file = DataFile {
        inline: None,
        sorted_by: vec![],
        path: "data/x.parquet".into(),
        base: None,
        size_bytes: 1,
        unchecked_bytes: 0,
        checksum: Arc::new(BlockChecksums::default()),
        row_groups: vec![100],
        columns: [a, text, float].into_iter().zip(1..).map(column).collect(),
    };
    let deletions = DeletionFile::inline(&(0..deleted).collect());
    Arc::new(Fragment { id: FragmentId(id), physical_rows: 100, files: vec![file], deletions, created_at: 1, updated_at: 1 })
}

/// Columns `a` (Int64), `s` (Utf8), `f` (Float64), and `new`, which no fragment holds.
fn pruned(predicate: Expr) -> Vec<bool> {
    let columns = Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("f", DataType::Float64, true),
        Field::new("new", DataType::Int32, true),
    ]);
    let schema = TableSchema::from_arrow(&columns, FieldId(1)).unwrap();
    let scan = scan_schema(schema.to_arrow());
    let text = |min: &str, max: &str| ColumnStats {
        min: Some(StatValue::Utf8(min.into())),
        max: Some(StatValue::Utf8(max.into())),
        null_count: Some(0),
    };
    let no_values = ColumnStats { min: None, max: None, null_count: Some(100) };
    let fragments = [
        fragment(4, bounds(0, 9, 0), text("a", "f"), ColumnStats::default(), 0),
        fragment(7, bounds(10, 19, 40), text("g", "p"), ColumnStats::default(), 60),
        fragment(9, no_values, ColumnStats::default(), ColumnStats::default(), 0),
    ];
    prune(&fragments, &schema, scan.table_schema(), &logical2physical(&predicate, scan.table_schema()))
}

#[test]
fn bounds_and_null_counts_leave_fragments_out() {
    for (predicate, expected) in [
        (col("a").eq(lit(5i64)), [true, false, false]),
        (col("a").gt_eq(lit(9i64)), [true, true, false]),
        (col("a").gt(lit(19i64)), [false, false, false]),
        (col("a").in_list(vec![lit(3i64), lit(12i64)], false), [true, true, false]),
        (col("a").is_null(), [false, true, true]),
        (col("a").is_not_null(), [true, true, false]),
        (col("s").gt(lit("m")), [false, true, true]),
        (col("s").like(lit("b%")), [true, false, true]),
        (col("a").lt(lit(3i64)).or(col("s").eq(lit("h"))), [true, true, true]),
        (col("a").lt(lit(3i64)).and(col("s").eq(lit("h"))), [false, false, false]),
    ] {
        assert_eq!(pruned(predicate.clone()), expected, "{predicate}");
    }
}

#[test]
fn nulls_are_compared_with_physical_rows() {
    // Fragment 7 has 40 NULLs and 40 live rows: they need not be the same.
    assert!(pruned(col("a").is_not_null())[1]);
    assert!(pruned(col("a").eq(lit(15i64)))[1]);
}

#[test]
fn what_is_not_known_is_kept() {
    assert_eq!(pruned(col("f").gt(lit(1e300))), [true; 3]);
    assert_eq!(pruned((col("a") % lit(2i64)).eq(lit(7i64))), [true, true, true]);
    assert_eq!(pruned(lit(true)), [true; 3]);
}

#[test]
fn a_field_that_no_fragment_holds_is_null() {
    assert_eq!(pruned(col("new").eq(lit(1i32))), [false; 3]);
    assert_eq!(pruned(col("new").is_not_null()), [false; 3]);
    assert_eq!(pruned(col("new").is_null()), [true; 3]);
}

#[test]
fn addresses_name_their_fragment() {
    assert_eq!(pruned(col(FRAGMENT_COLUMN).eq(lit(7u32))), [false, true, false]);
    assert_eq!(pruned(col(FRAGMENT_COLUMN).gt(lit(4u32))), [false, true, true]);
    assert_eq!(pruned(col(OFFSET_COLUMN).gt(lit(99i64))), [false; 3]);
    assert_eq!(pruned(col(OFFSET_COLUMN).eq(lit(99i64))), [true; 3]);
}
