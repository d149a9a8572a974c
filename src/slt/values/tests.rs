//! Tests of the spelling of values and types.

use super::*;
use datafusion::arrow::array::{
    BooleanArray, Date32Array, Decimal128Array, DictionaryArray, DurationSecondArray, Float32Array, Float64Array, Int32Array, Int64Array,
    ListArray, NullArray, StringArray, TimestampSecondArray, UInt64Array,
};
use datafusion::arrow::datatypes::{Field, Int32Type, TimeUnit};
use sqllogictest::ColumnType as _;
use std::sync::Arc;

fn text(array: impl Array + 'static) -> Vec<String> {
    let array: ArrayRef = Arc::new(array);
    column_text(&array).unwrap()
}

#[test]
fn null_and_the_empty_string_differ() {
    assert_eq!(text(StringArray::from(vec![Some("a b"), None, Some(""), Some("x\n"), Some("\0")])), ["a b", "NULL", "(empty)", "x", "\\0"]);
    assert_eq!(text(NullArray::new(2)), ["NULL", "NULL"]);
    assert_eq!(text(Int64Array::from(vec![Some(i64::MIN), None])), ["-9223372036854775808", "NULL"]);
    assert_eq!(text(UInt64Array::from(vec![u64::MAX])), ["18446744073709551615"]);
    assert_eq!(text(BooleanArray::from(vec![Some(true), Some(false), None])), ["true", "false", "NULL"]);
}

#[test]
fn floats_are_rounded_and_have_no_exponent() {
    let values = vec![1.0, -0.0, 0.1, 1.0 / 3.0, 1e21, 1e-13, 0.999_999_999_999_9, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    let expected = ["1", "0", "0.1", "0.333333333333", "1000000000000000000000", "0", "1", "NaN", "Infinity", "-Infinity"];
    assert_eq!(text(Float64Array::from(values)), expected);
    assert_eq!(text(Float32Array::from(vec![0.1, -2.5, f32::NAN])), ["0.1", "-2.5", "NaN"]);
}

#[test]
fn a_half_is_rounded_to_the_even_digit() {
    assert_eq!(rounded("0.0000000000005"), "0");
    assert_eq!(rounded("0.0000000000015"), "0.000000000002");
    assert_eq!(rounded("0.00000000000050001"), "0.000000000001");
    assert_eq!(rounded("-9.9999999999999"), "-10");
    assert_eq!(rounded("-0.0000000000001"), "0");
    assert_eq!(rounded("120.500"), "120.5");
    assert_eq!(rounded("100"), "100");
}

#[test]
fn decimals_lose_the_zeros_that_say_nothing() {
    let decimals = Decimal128Array::from(vec![150, -100, 0]).with_precision_and_scale(10, 2).unwrap();
    assert_eq!(text(decimals), ["1.5", "-1", "0"]);
    let exact = Decimal128Array::from(vec![1]).with_precision_and_scale(20, 14).unwrap();
    assert_eq!(text(exact), ["0.00000000000001"]);
}

#[test]
fn other_values_read_as_the_engine_prints_them() {
    assert_eq!(text(Date32Array::from(vec![0])), ["1970-01-01"]);
    assert_eq!(text(TimestampSecondArray::from(vec![1])), ["1970-01-01T00:00:01"]);
    assert_eq!(text(DurationSecondArray::from(vec![3661])), ["0 days 1 hours 1 mins 1 secs"]);
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None])]);
    assert_eq!(text(list), ["[1, NULL]"]);
    let dictionary: DictionaryArray<Int32Type> = vec![Some("a"), None, Some("")].into_iter().collect();
    assert_eq!(text(dictionary), ["a", "NULL", "(empty)"]);
}

#[test]
fn a_last_value_of_several_lines_becomes_numbered_rows() {
    let batch = RecordBatch::try_from_iter([
        ("plan_type", Arc::new(StringArray::from(vec!["logical_plan", "note"])) as ArrayRef),
        ("plan", Arc::new(StringArray::from(vec!["Sort: a\n  Scan: t", "one"])) as ArrayRef),
    ])
    .unwrap();
    assert_eq!(rows(&[batch]).unwrap(), [vec!["logical_plan"], vec!["01)Sort: a"], vec!["02)--Scan: t"], vec!["note", "one"]]);
}

#[test]
fn types_have_the_letters_of_datafusion() {
    let types = [
        (DataType::Boolean, 'B'),
        (DataType::UInt8, 'I'),
        (DataType::Int64, 'I'),
        (DataType::Float32, 'R'),
        (DataType::Decimal128(10, 2), 'R'),
        (DataType::Utf8View, 'T'),
        (DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), 'T'),
        (DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Int64)), '?'),
        (DataType::Date32, 'D'),
        (DataType::Time64(TimeUnit::Nanosecond), 'D'),
        (DataType::Timestamp(TimeUnit::Microsecond, None), 'P'),
        (DataType::Binary, '?'),
        (DataType::Null, '?'),
    ];
    let schema = Schema::new(types.iter().map(|(data_type, _)| Field::new("c", data_type.clone(), true)).collect::<Vec<_>>());
    let letters: String = column_types(&schema).iter().map(|column| column.to_char()).collect();
    assert_eq!(letters, types.iter().map(|(_, letter)| letter).collect::<String>());
    for letter in ['B', 'D', 'I', 'R', 'T', 'P', '?'] {
        assert_eq!(ColumnType::from_char(letter).unwrap().to_char(), letter);
    }
}

#[test]
fn rows_of_several_batches_follow_one_another() {
    let batch = |values: Vec<i32>| RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(values)) as ArrayRef)]).unwrap();
    assert_eq!(rows(&[batch(vec![1, 2]), batch(vec![]), batch(vec![3])]).unwrap(), [["1"], ["2"], ["3"]]);
}

#[test]
fn a_dictionary_without_values_is_null() {
    let dictionary = DictionaryArray::<Int32Type>::from_iter([None::<&str>, None]);
    let column: ArrayRef = Arc::new(dictionary);
    assert_eq!(column_text(&column).unwrap(), ["NULL", "NULL"]);
}

#[test]
fn sqlite_gives_what_the_letter_asks_for() {
    let asked = |value: &str, letter| as_asked(value.to_owned(), letter);
    assert_eq!(asked("2.7", ColumnType::Integer), "2");
    assert_eq!(asked("true", ColumnType::Integer), "1");
    assert_eq!(asked("2", ColumnType::Number), "2.000");
    assert_eq!(asked("NULL", ColumnType::Number), "NULL");
    assert_eq!(asked("12345678901234567890", ColumnType::Integer), "12345678901234567890");
    assert_eq!(asked("a", ColumnType::Text), "a");
}
