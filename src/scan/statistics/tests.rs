//! Bounds there and back, and what footers give.

use super::*;
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::{BlockChecksums, DataFile, FileColumn};
use crate::table::row_address::FragmentId;
use crate::table::schema::FieldId;
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{Schema, i256};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use std::sync::Arc;

#[test]
fn bounds_come_back() {
    let zone = Some(Arc::from("Europe/Zurich"));
    for scalar in [
        ScalarValue::Boolean(Some(true)),
        ScalarValue::Int8(Some(-128)),
        ScalarValue::Int16(Some(i16::MIN)),
        ScalarValue::Int32(Some(i32::MAX)),
        ScalarValue::Int64(Some(i64::MIN)),
        ScalarValue::UInt8(Some(255)),
        ScalarValue::UInt16(Some(u16::MAX)),
        ScalarValue::UInt32(Some(u32::MAX)),
        ScalarValue::UInt64(Some(u64::MAX)),
        ScalarValue::from(-0.0f64).cast_to(&DataType::Float16).unwrap(),
        ScalarValue::Float32(Some(0.1)),
        ScalarValue::Float64(Some(f64::NEG_INFINITY)),
        ScalarValue::Decimal32(Some(-7), 5, 2),
        ScalarValue::Decimal64(Some(1 << 40), 18, 3),
        ScalarValue::Decimal128(Some(i128::MAX / 2), 38, -2),
        ScalarValue::Date32(Some(-1)),
        ScalarValue::Date64(Some(86_400_000)),
        ScalarValue::Time32Second(Some(1)),
        ScalarValue::Time32Millisecond(Some(2)),
        ScalarValue::Time64Microsecond(Some(3)),
        ScalarValue::Time64Nanosecond(Some(4)),
        ScalarValue::TimestampSecond(Some(1), None),
        ScalarValue::TimestampMillisecond(Some(2), zone.clone()),
        ScalarValue::TimestampMicrosecond(Some(3), zone),
        ScalarValue::TimestampNanosecond(Some(i64::MAX), None),
        ScalarValue::DurationMillisecond(Some(5)),
        ScalarValue::Utf8(Some("é".into())),
        ScalarValue::LargeUtf8(Some(String::new())),
        ScalarValue::Utf8View(Some("x".into())),
        ScalarValue::Binary(Some(vec![0, 255])),
        ScalarValue::LargeBinary(Some(vec![])),
        ScalarValue::BinaryView(Some(vec![1])),
        ScalarValue::FixedSizeBinary(2, Some(vec![1, 2])),
        ScalarValue::Dictionary(Box::new(DataType::Int8), Box::new(ScalarValue::Utf8(Some("d".into())))),
    ] {
        let bound = from_scalar(&scalar).unwrap();
        assert_eq!(to_scalar(&bound, &scalar.data_type()), Some(scalar));
    }
}

#[test]
fn what_cannot_be_a_value_is_no_bound() {
    for (value, data_type) in [
        (StatValue::Int(128), DataType::Int8),
        (StatValue::Int(1 << 40), DataType::Date32),
        (StatValue::UInt(256), DataType::UInt8),
        (StatValue::Int(1), DataType::UInt8),
        (StatValue::Int(1), DataType::Float64),
        (StatValue::Float(0.1), DataType::Float32),
        (StatValue::Float(f64::NAN), DataType::Float64),
        (StatValue::Decimal(1 << 40), DataType::Decimal32(9, 0)),
        (StatValue::Utf8("x".into()), DataType::Int64),
        (StatValue::Binary(vec![1]), DataType::FixedSizeBinary(2)),
        (StatValue::Binary(vec![1]), DataType::Utf8),
    ] {
        assert_eq!(to_scalar(&value, &data_type), None, "{value:?} as {data_type}");
    }
    for scalar in
        [ScalarValue::Int32(None), ScalarValue::Float64(Some(f64::NAN)), ScalarValue::Decimal256(Some(i256::ONE), 60, 0), ScalarValue::Null]
    {
        assert_eq!(from_scalar(&scalar), None, "{scalar:?}");
    }
}

fn footer(columns: Vec<(&str, ArrayRef)>, group_rows: usize) -> ParquetMetaData {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap()
}

fn stats(column: ArrayRef, group_rows: usize) -> ColumnStats {
    let data_type = column.data_type().clone();
    from_parquet(&footer(vec![("c", column)], group_rows), 0, &data_type, false)
}

fn bounded(min: StatValue, max: StatValue, nulls: u64) -> ColumnStats {
    ColumnStats { min: Some(min), max: Some(max), null_count: Some(nulls) }
}

#[test]
fn footers_give_bounds_over_all_row_groups() {
    let ints = Int32Array::from(vec![Some(5), None, Some(-3), Some(9), None, None]);
    assert_eq!(stats(Arc::new(ints), 2), bounded(StatValue::Int(-3), StatValue::Int(9), 3));
    let unsigned = UInt32Array::from(vec![u32::MAX, 1, 2]);
    assert_eq!(stats(Arc::new(unsigned), 1), bounded(StatValue::UInt(1), StatValue::UInt(u64::from(u32::MAX)), 0));
    let decimals = Decimal128Array::from(vec![-100i128, 1 << 90]).with_precision_and_scale(38, 2).unwrap();
    assert_eq!(stats(Arc::new(decimals), 10), bounded(StatValue::Decimal(-100), StatValue::Decimal(1 << 90), 0));
    let times = TimestampMicrosecondArray::from(vec![7, -8]).with_timezone("UTC");
    assert_eq!(stats(Arc::new(times), 10), bounded(StatValue::Int(-8), StatValue::Int(7), 0));
    let flags = BooleanArray::from(vec![false, true]);
    assert_eq!(stats(Arc::new(flags), 10), bounded(StatValue::Boolean(false), StatValue::Boolean(true), 0));
    let views = StringViewArray::from(vec!["b", "a"]);
    assert_eq!(stats(Arc::new(views), 10), bounded(StatValue::Utf8("a".into()), StatValue::Utf8("b".into()), 0));
}

#[test]
fn a_column_without_values_has_only_nulls() {
    let all_null = ColumnStats { min: None, max: None, null_count: Some(3) };
    assert_eq!(stats(Arc::new(Int64Array::from(vec![None, None, None])), 2), all_null);
}

#[test]
fn floats_have_bounds_only_without_nan() {
    let data_type = DataType::Float64;
    let footer = footer(vec![("f", Arc::new(Float64Array::from(vec![Some(1.0), Some(f64::NAN), None])) as ArrayRef)], 10);
    assert_eq!(from_parquet(&footer, 0, &data_type, true), ColumnStats { min: None, max: None, null_count: Some(1) });
    assert_eq!(stats(Arc::new(Float64Array::from(vec![1.5, -2.0])), 1), bounded(StatValue::Float(-2.0), StatValue::Float(1.5), 0));
}

#[test]
fn nested_columns_have_none_and_do_not_shift_the_others() {
    let list = ListArray::from_iter_primitive::<datafusion::arrow::datatypes::Int32Type, _, _>(vec![Some(vec![Some(1)]), None]);
    let parts: ArrayRef = Arc::new(StructArray::from(vec![
        (Arc::new(ArrowField::new("x", DataType::Int32, false)), Arc::new(Int32Array::from(vec![70, 71])) as ArrayRef),
        (Arc::new(ArrowField::new("y", DataType::Int32, false)), Arc::new(Int32Array::from(vec![80, 81])) as ArrayRef),
    ]));
    let plain: ArrayRef = Arc::new(Int32Array::from(vec![3, 4]));
    let types = [list.data_type().clone(), parts.data_type().clone(), DataType::Int32];
    let footer = footer(vec![("l", Arc::new(list)), ("s", parts), ("p", plain)], 10);
    let found: Vec<ColumnStats> =
        types.iter().enumerate().map(|(column, data_type)| from_parquet(&footer, column, data_type, false)).collect();
    assert_eq!(found, [ColumnStats::default(), ColumnStats::default(), bounded(StatValue::Int(3), StatValue::Int(4), 0)]);
    assert_eq!(from_parquet(&footer, 3, &DataType::Int32, false), ColumnStats::default());
}

#[test]
fn long_bounds_are_cut_outwards() {
    let text = |text: &str| StatValue::Utf8(text.to_owned());
    let long = "é".repeat(40);
    assert_eq!(cut_min(text(&long)), Some(text(&"é".repeat(32))));
    assert_eq!(cut_max(text(&long)), Some(text(&format!("{}ê", "é".repeat(31)))));
    assert_eq!(cut_max(text("short")), Some(text("short")));
    let highest = char::MAX.to_string();
    assert_eq!(cut_max(text(&highest.repeat(17))), None);
    assert_eq!(cut_max(text(&format!("a{}", highest.repeat(17)))), Some(text("b")));
    assert_eq!(cut_max(text(&format!("{}\u{D7FF}x", "a".repeat(61)))), Some(text(&format!("{}\u{E000}", "a".repeat(61)))));
    assert_eq!(cut_max(StatValue::Binary(vec![255; 65])), None);
    assert_eq!(cut_max(StatValue::Binary([vec![1], vec![255; 65]].concat())), Some(StatValue::Binary(vec![2])));
    assert_eq!(cut_min(StatValue::Binary(vec![9; 65])), Some(StatValue::Binary(vec![9; 64])));
}

#[test]
fn long_text_in_a_footer_is_bounded_from_both_sides() {
    let values = StringArray::from(vec!["m".repeat(300), "z".repeat(300)]);
    let ColumnStats { min: Some(StatValue::Utf8(min)), max: Some(StatValue::Utf8(max)), .. } = stats(Arc::new(values), 10) else {
        panic!()
    };
    assert!(min.len() <= 64 && max.len() <= 64);
    assert!(*min <= *"m".repeat(300) && *max >= *"z".repeat(300));
}

fn fragment(stats: ColumnStats, deleted: u32) -> Fragment {
    let file = DataFile {
        inline: None,
        sorted_by: vec![],
        path: "data/x.parquet".into(),
        base: None,
        size_bytes: 1,
        unchecked_bytes: 0,
        checksum: Arc::new(BlockChecksums::default()),
        row_groups: vec![10],
        columns: vec![
            FileColumn { field: None, ..FileColumn::default() },
            FileColumn { field: Some(FieldId(1)), stats, ..FileColumn::default() },
        ],
    };
    let deletions = DeletionFile::inline(&(0..deleted).collect());
    Fragment { id: FragmentId(3), physical_rows: 10, files: vec![file], deletions, created_at: 1, updated_at: 1 }
}

#[test]
fn only_a_fragment_without_deletions_is_exact() {
    let arrow = Schema::new(vec![
        ArrowField::new("a", DataType::Int64, true),
        ArrowField::new("b", DataType::Utf8, true),
        ArrowField::new("c", DataType::Int64, true),
    ]);
    let schema = TableSchema::from_arrow(&arrow, FieldId(1)).unwrap();
    let arrow = schema.to_arrow();
    let stats = bounded(StatValue::Int(2), StatValue::Int(8), 1);
    let (two, eight) = (ScalarValue::from(2i64), ScalarValue::from(8i64));

    let whole = of_fragment(&fragment(stats.clone(), 0), &schema, &arrow, &[true, true, false]);
    assert_eq!(whole.num_rows, Precision::Exact(10));
    let [a, b, c] = whole.column_statistics.as_slice() else { panic!() };
    assert_eq!(
        (&a.min_value, &a.max_value, &a.null_count),
        (&Precision::Exact(two.clone()), &Precision::Exact(eight.clone()), &Precision::Exact(1))
    );
    // The fragment does not hold `b`: it reads as NULL.
    assert_eq!((&b.min_value, &b.null_count), (&Precision::Absent, &Precision::Exact(10)));
    assert_eq!(c, &ColumnStatistics::new_unknown());

    let holed = of_fragment(&fragment(stats, 4), &schema, &arrow, &[true, true, true]);
    assert_eq!(holed.num_rows, Precision::Exact(6));
    let [a, b, _] = holed.column_statistics.as_slice() else { panic!() };
    assert_eq!((&a.min_value, &a.max_value, &a.null_count), (&Precision::Inexact(two), &Precision::Inexact(eight), &Precision::Inexact(1)));
    assert_eq!(b.null_count, Precision::Inexact(10));

    let both = of_fragments(&[whole, holed], &arrow).unwrap();
    assert_eq!(both.num_rows, Precision::Exact(16));
    assert_eq!(both.column_statistics[0].min_value, Precision::Inexact(ScalarValue::from(2i64)));
    assert_eq!(of_fragments(&[], &arrow).unwrap().num_rows, Precision::Exact(0));
}

#[test]
fn text_is_never_exact() {
    let schema = TableSchema::from_arrow(&Schema::new(vec![ArrowField::new("a", DataType::Utf8, true)]), FieldId(1)).unwrap();
    let stats = bounded(StatValue::Utf8("a".into()), StatValue::Utf8("b".into()), 0);
    let known = of_fragment(&fragment(stats, 0), &schema, &schema.to_arrow(), &[true]);
    assert_eq!(known.column_statistics[0].min_value, Precision::Inexact(ScalarValue::from("a")));
}
