//! Rows without what they share with others: a batch that was read or cut out may hold on to the bytes of whole pages.
//!
//! ```text
//!   a row of a list of texts     | offsets 70 .. 72 | elements 0 .. 900 | bytes of 900 texts |
//!   alone                        | offsets  0 ..  2 | elements 0 .. 2   | bytes of 2 texts   |
//! ```
//!
//! Goes in: a batch. Comes out: the same rows, with bytes of their own; and about how many bytes a batch is.
//! Always holds: values stay what they are; parts of nested columns, however deep, are cut like columns.

use datafusion::arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions,
    StructArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use std::sync::Arc;

/// The batch without the bytes of rows that are not in it.
pub fn alone(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().map(column).collect::<Result<_, _>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &rows)
}

fn column(values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match values.data_type() {
        DataType::Utf8View => Arc::new(values.as_string_view().gc()),
        DataType::BinaryView => Arc::new(values.as_binary_view().gc()),
        DataType::Struct(fields) => {
            let whole = values.as_struct();
            let parts = whole.columns().iter().map(column).collect::<Result<_, _>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), parts, whole.nulls().cloned(), whole.len())?)
        }
        DataType::List(_) => list::<i32>(values)?,
        DataType::LargeList(_) => list::<i64>(values)?,
        DataType::FixedSizeList(field, size) => {
            let lists = values.as_fixed_size_list();
            let elements = column(lists.values())?;
            Arc::new(FixedSizeListArray::try_new_with_length(field.clone(), *size, elements, lists.nulls().cloned(), lists.len())?)
        }
        DataType::Map(field, sorted) => {
            let maps = values.as_map();
            let (offsets, first, length) = from_zero(maps.offsets());
            let entries: ArrayRef = Arc::new(maps.entries().slice(first, length));
            let entries = column(&entries)?.as_struct().clone();
            Arc::new(MapArray::try_new(field.clone(), offsets, entries, maps.nulls().cloned(), *sorted)?)
        }
        // Made anew, a dictionary has the words that are used; of types of which none can be made it stays.
        DataType::Dictionary(_, words) => {
            cast(values, words).and_then(|words| cast(&words, values.data_type())).unwrap_or_else(|_| Arc::clone(values))
        }
        _ => Arc::clone(values),
    })
}

fn list<O: OffsetSizeTrait>(values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let lists = values.as_list::<O>();
    let (DataType::List(field) | DataType::LargeList(field)) = lists.data_type() else { return Ok(Arc::clone(values)) };
    let (offsets, first, length) = from_zero(lists.offsets());
    let elements = column(&lists.values().slice(first, length))?;
    Ok(Arc::new(GenericListArray::<O>::try_new(field.clone(), offsets, elements, lists.nulls().cloned())?))
}

/// Offsets that begin with 0, and which elements they are about: the first, and how many.
fn from_zero<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (OffsetBuffer<O>, usize, usize) {
    let (first, end) = (offsets.first().copied().unwrap_or_default(), offsets.last().copied().unwrap_or_default());
    let cut = OffsetBuffer::new(offsets.iter().map(|offset| *offset - first).collect());
    (cut, first.as_usize(), (end - first).as_usize())
}

/// Roughly the bytes of a batch that is alone.
pub fn size_bytes(batch: &RecordBatch) -> usize {
    let column = |column: &ArrayRef| {
        let column = column.to_data();
        column.get_slice_memory_size().unwrap_or(usize::MAX / 2).saturating_add(texts(&column))
    };
    batch.columns().iter().map(column).fold(0, usize::saturating_add)
}

/// The bytes of texts that lie besides their views.
fn texts(data: &ArrayData) -> usize {
    let own = match data.data_type() {
        DataType::Utf8View | DataType::BinaryView => data.buffers().iter().skip(1).map(|buffer| buffer.len()).sum(),
        _ => 0,
    };
    data.child_data().iter().map(texts).fold(own, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::inline;
    use datafusion::arrow::array::{DictionaryArray, LargeListArray, ListArray, StringArray, StringViewArray, UInt64Array};
    use datafusion::arrow::compute::take;
    use datafusion::arrow::datatypes::{Field, Int32Type};

    fn texts_of(rows: usize) -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values((0..rows).map(|row| format!("{row} {}", "x".repeat(100)))))
    }

    fn element(of: &ArrayRef) -> Arc<Field> {
        Arc::new(Field::new("element", of.data_type().clone(), true))
    }

    /// Every kind of column, of 1,000 rows.
    fn kinds() -> Vec<ArrayRef> {
        let rows = 1000;
        let texts = texts_of(rows);
        let part = Arc::new(Field::new("x", DataType::Utf8View, true));
        let of_struct: ArrayRef = Arc::new(StructArray::from(vec![(part, texts.clone())]));
        let two = || OffsetBuffer::from_lengths(vec![2; rows]);
        let twice = texts_of(2 * rows);
        let list: ArrayRef = Arc::new(ListArray::new(element(&twice), two(), twice.clone(), None));
        let large: ArrayRef =
            Arc::new(LargeListArray::new(element(&twice), OffsetBuffer::from_lengths(vec![2; rows]), twice.clone(), None));
        let fixed: ArrayRef = Arc::new(FixedSizeListArray::new(element(&twice), 2, twice.clone(), None));
        let entries = StructArray::from(vec![
            (Arc::new(Field::new("key", DataType::Utf8View, false)), twice.clone()),
            (Arc::new(Field::new("value", DataType::Utf8View, true)), twice.clone()),
        ]);
        let entry = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        let map: ArrayRef = Arc::new(MapArray::new(entry, two(), entries, None, false));
        let of_lists: ArrayRef =
            Arc::new(StructArray::from(vec![(Arc::new(Field::new("l", list.data_type().clone(), true)), list.clone())]));
        let lists: ArrayRef = Arc::new(ListArray::new(element(&list), OffsetBuffer::from_lengths(vec![1; rows]), list.clone(), None));
        let words: DictionaryArray<Int32Type> =
            (0..rows).map(|row| format!("{row} {}", "x".repeat(100))).collect::<Vec<_>>().iter().map(|s| Some(s.as_str())).collect();
        let plain: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("{row} {}", "x".repeat(100)))));
        let plains: ArrayRef = Arc::new(ListArray::new(element(&plain), OffsetBuffer::from_lengths(vec![1; rows]), plain.clone(), None));
        vec![texts, of_struct, list, large, fixed, map, of_lists, lists, Arc::new(words), plain, plains]
    }

    #[test]
    fn a_row_has_its_own_bytes_however_nested() {
        for column in kinds() {
            let data_type = column.data_type().clone();
            let batch = RecordBatch::try_from_iter_with_nullable([("c", column, true)]).unwrap();
            let taken = take(batch.column(0), &UInt64Array::from(vec![Some(500), None, Some(7)]), None).unwrap();
            let taken = RecordBatch::try_from_iter_with_nullable([("c", taken, true)]).unwrap();
            for few in [batch.slice(500, 2), taken] {
                let cut = alone(&few).unwrap();
                assert_eq!(cut, few, "{data_type}");
                let (bytes, about) = (inline::encode(&cut).unwrap().len(), size_bytes(&cut));
                assert!((100..4000).contains(&bytes), "{data_type}: {bytes} bytes");
                assert!((100..4000).contains(&about), "{data_type}: about {about} bytes");
            }
            assert_eq!(alone(&batch.slice(0, 0)).unwrap().num_rows(), 0);
        }
    }
}
