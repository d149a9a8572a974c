//! The keys that one side of a join brings to the other, noted while the statement runs.
//!
//! Goes in: arrays of keys. Comes out: a condition that holds for rows of those keys.
//! Always holds: a key that was noted fulfils the condition; up to `MAX_KEYS` are kept one by one, more as a range.

use crate::error::Result;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{Result as EngineResult, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, in_list, lit};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many keys are kept one by one.
const MAX_KEYS: usize = 1000;

/// Keys that were noted.
#[derive(Debug, Default)]
pub struct Keys(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    each: HashSet<ScalarValue>,
    /// The smallest and the largest; `None` if there is none yet.
    range: Option<(ScalarValue, ScalarValue)>,
    /// There were more than are kept one by one.
    many: bool,
    /// There may be others: nothing can be said.
    any: bool,
}

impl Keys {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the keys of an array. NULL is none: it equals nothing. Nothing is made of floats, whose zeros are equal and not the
    /// same.
    pub fn note(&self, keys: &ArrayRef) -> EngineResult<()> {
        if keys.data_type().is_floating() {
            self.forgo();
        }
        let mut noted = self.noted();
        for row in (0..keys.len()).filter(|row| keys.is_valid(*row)) {
            if noted.any {
                break;
            }
            noted.add(ScalarValue::try_from_array(keys, row)?);
        }
        Ok(())
    }

    /// Not all keys can be counted on to be noted.
    pub fn forgo(&self) {
        *self.noted() = Noted { any: true, ..Noted::default() };
    }

    /// The condition that the key of a row is one of these; `None` if nothing can be said.
    pub fn condition(&self, of_row: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let noted = self.noted();
        if noted.any {
            return Ok(None);
        }
        let Some((min, max)) = &noted.range else { return Ok(Some(lit(false))) };
        let bound = |operator, value: &ScalarValue| -> Arc<dyn PhysicalExpr> {
            Arc::new(BinaryExpr::new(Arc::clone(of_row), operator, lit(value.clone())))
        };
        let range = BinaryExpr::new(bound(Operator::GtEq, min), Operator::And, bound(Operator::LtEq, max));
        if noted.many {
            return Ok(Some(Arc::new(range)));
        }
        let each = noted.each.iter().map(|key| lit(key.clone())).collect();
        // The range is for statistics, which long lists are not held against.
        let each = in_list(Arc::clone(of_row), each, &false, schema)?;
        Ok(Some(Arc::new(BinaryExpr::new(Arc::new(range), Operator::And, each))))
    }

    /// The keys in words.
    pub fn describe(&self) -> String {
        let noted = self.noted();
        match &noted.range {
            _ if noted.any => "any".to_owned(),
            None => "none".to_owned(),
            Some((min, max)) if min == max => min.to_string(),
            Some((min, max)) if noted.many => format!("from {min} to {max}"),
            Some((min, max)) => format!("one of {} keys from {min} to {max}", noted.each.len()),
        }
    }
}

impl Noted {
    fn add(&mut self, key: ScalarValue) {
        if !self.many && self.each.contains(&key) {
            return;
        }
        let range = match self.range.take() {
            None => Some((key.clone(), key.clone())),
            Some((min, max)) => match (key.partial_cmp(&min), key.partial_cmp(&max)) {
                (Some(Ordering::Less), _) => Some((key.clone(), max)),
                (_, Some(Ordering::Greater)) => Some((min, key.clone())),
                (Some(_), Some(_)) => Some((min, max)),
                _ => None,
            },
        };
        let Some(range) = range else {
            *self = Noted { any: true, ..Noted::default() };
            return;
        };
        self.range = Some(range);
        if self.each.len() >= MAX_KEYS {
            (self.each, self.many) = (HashSet::new(), true);
        }
        if !self.many {
            self.each.insert(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{BooleanArray, Float64Array, Int64Array, RecordBatch};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::col;

    /// Which of `rows` have a key that was noted.
    fn having(keys: &Keys, rows: &[i64]) -> Vec<i64> {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true)]));
        let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(rows.to_vec()))]).unwrap();
        let Some(condition) = keys.condition(&col("k", &schema).unwrap(), &schema).unwrap() else { return rows.to_vec() };
        let matches = condition.evaluate(&batch).unwrap().into_array(rows.len()).unwrap();
        let matches = matches.as_any().downcast_ref::<BooleanArray>().unwrap().clone();
        rows.iter().copied().zip(&matches).filter(|(_, matches)| *matches == Some(true)).map(|(row, _)| row).collect()
    }

    fn note(keys: &Keys, values: impl IntoIterator<Item = Option<i64>>) {
        let array: ArrayRef = Arc::new(values.into_iter().collect::<Int64Array>());
        keys.note(&array).unwrap();
    }

    #[test]
    fn a_few_keys_are_kept_one_by_one_and_many_as_a_range() {
        let keys = Keys::default();
        assert!(having(&keys, &[1, 2, 3]).is_empty());
        note(&keys, [None]);
        assert!(having(&keys, &[1, 2, 3]).is_empty());
        note(&keys, [Some(1), None, Some(5), Some(5)]);
        note(&keys, [Some(3)]);
        assert_eq!(having(&keys, &[0, 1, 2, 3, 4, 5, 6]), [1, 3, 5]);
        assert_eq!(keys.describe(), "one of 3 keys from 1 to 5");
        note(&keys, (0..MAX_KEYS as i64).map(|key| Some(key * 2)));
        assert_eq!(having(&keys, &[-1, 0, 1, 2, 1998, 1999]), [0, 1, 2, 1998]);
        assert_eq!(keys.describe(), "from 0 to 1998");
        note(&keys, [Some(-7)]);
        assert_eq!(having(&keys, &[-8, -7, 2]), [-7, 2]);
    }

    #[test]
    fn exactly_as_many_keys_as_are_kept_leave_out_the_others() {
        let keys = Keys::default();
        note(&keys, (0..MAX_KEYS as i64).map(|key| Some(key * 2)));
        assert_eq!(having(&keys, &[0, 1, 1998, 1999]), [0, 1998]);
    }

    #[test]
    fn nothing_is_said_of_floats() {
        let keys = Keys::default();
        keys.note(&(Arc::new(Float64Array::from(vec![0.0])) as ArrayRef)).unwrap();
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Float64, true)]));
        assert!(keys.condition(&col("k", &schema).unwrap(), &schema).unwrap().is_none());
        assert_eq!(keys.describe(), "any");
    }
}
