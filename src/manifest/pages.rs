//! Pages of fragment records, and what is known of them without reading them.
//!
//! ```text
//!   manifest ── IndexRef: counts of all ──> index ── PageRef: counts and bounds of one ──> page: the records
//! ```
//!
//! A commit names the index, so its bytes do not grow with the number of pages; a fold writes the index anew.
//!
//! Goes in: the fragments of a page. Comes out: what the index says of it.
//! Always holds: a summary is a bound of every row of the page, deleted ones included; of a field that one of its fragments does not
//! hold nothing is said; text and bytes in it are short.

use crate::table::constraint::{self, Constraint};
use crate::table::fragment::Fragment;
use crate::table::row_address::FragmentId;
use crate::table::schema::{FieldId, TableSchema};
use crate::table::stats::{ColumnStats, StatValue};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many fields a page has summaries of at most.
pub const MAX_SUMMARIES: usize = 16;
/// How many of them are there because they are the first ones of the table.
const FIRST_COLUMNS: usize = 8;
/// The longest text or bytes in a summary; of longer ones the bound is not kept.
const MAX_BOUND_BYTES: usize = 64;

/// The page index as a manifest names it, and what its pages hold together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRef {
    /// The object's name within the table folder.
    pub path: String,
    /// Its length.
    pub size_bytes: u64,
    /// Its CRC-32C.
    pub crc32c: u32,
    /// How many pages it lists.
    pub pages: u32,
    /// The largest fragment id in them.
    pub last: FragmentId,
    /// How many fragments they hold.
    pub fragments: u32,
    /// How many rows those have, deleted ones not counted.
    pub live_rows: u64,
}

/// A page as the index names it.
#[derive(Debug, Clone, PartialEq)]
pub struct PageRef {
    /// The object's name within the table folder.
    pub path: String,
    /// Its length.
    pub size_bytes: u64,
    /// Its CRC-32C.
    pub crc32c: u32,
    /// The smallest fragment id in it.
    pub first: FragmentId,
    /// The largest fragment id in it.
    pub last: FragmentId,
    /// How many fragments it holds.
    pub fragments: u32,
    /// How many rows they have, deleted ones included.
    pub rows: u64,
    /// How many rows they have, deleted ones not counted.
    pub live_rows: u64,
    /// What is known of the values of some fields in all of its rows, by rising ids.
    pub summaries: BTreeMap<FieldId, ColumnStats>,
}

/// The records of a page, sorted by id.
pub type Records = Arc<Vec<Arc<Fragment>>>;

/// A page.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Its name and summary; `None` for a page that is still to be written.
    pub reference: Option<Arc<PageRef>>,
    /// Its records; `None` if they are not in memory. A page without a name always has them.
    pub records: Option<Records>,
}

impl Page {
    /// A page that is not in memory.
    pub fn named(reference: Arc<PageRef>) -> Self {
        Page { reference: Some(reference), records: None }
    }

    /// A page that is still to be written.
    pub fn unnamed(records: Vec<Arc<Fragment>>) -> Self {
        Page { reference: None, records: Some(Arc::new(records)) }
    }

    /// The smallest fragment id in it.
    pub fn first(&self) -> Option<FragmentId> {
        match (&self.reference, &self.records) {
            (Some(reference), _) => Some(reference.first),
            (None, records) => records.as_ref()?.first().map(|fragment| fragment.id),
        }
    }

    /// How many fragments it holds, and their live rows.
    pub fn counts(&self) -> (u64, u64) {
        match (&self.reference, &self.records) {
            (Some(reference), _) => (u64::from(reference.fragments), reference.live_rows),
            (None, records) => {
                let records = records.iter().flat_map(|records| records.iter());
                records.fold((0, 0), |(count, rows), fragment| (count + 1, rows + u64::from(fragment.live_rows())))
            }
        }
    }
}

/// The fields of a table that pages have summaries of: those of keys, those that it is clustered by, and the first columns.
pub fn summarised(schema: &TableSchema, config: &BTreeMap<String, String>) -> Vec<FieldId> {
    let mut fields: Vec<FieldId> = constraint::cluster_by(config).unwrap_or_default();
    let keys = constraint::constraints(config).unwrap_or_default().into_iter().filter(Constraint::is_key);
    fields.extend(keys.flat_map(|constraint| constraint.fields));
    fields.extend(schema.columns().take(FIRST_COLUMNS).map(|column| column.id));
    let mut kept = Vec::new();
    for field in fields {
        if kept.len() < MAX_SUMMARIES && !kept.contains(&field) {
            kept.push(field);
        }
    }
    kept
}

/// What is known of the values of `fields` in all rows of some fragments. What nothing is known of is left out.
pub fn summaries(fragments: &[Arc<Fragment>], fields: impl IntoIterator<Item = FieldId>) -> BTreeMap<FieldId, ColumnStats> {
    let known = fields.into_iter().map(|field| (field, summary(fragments, field)));
    known.filter(|(_, summary)| *summary != ColumnStats::default()).collect()
}

fn summary(fragments: &[Arc<Fragment>], field: FieldId) -> ColumnStats {
    let mut each = Vec::with_capacity(fragments.len());
    for fragment in fragments {
        let column = fragment.backing(field).and_then(|(file, position)| file.columns.get(position));
        let Some(column) = column else { return ColumnStats::default() };
        each.push((&column.stats, u64::from(fragment.physical_rows)));
    }
    let null_count = each.iter().try_fold(0u64, |sum, (stats, _)| sum.checked_add(stats.null_count?));
    // Where all values are NULL there is nothing to bound.
    let with_values = || each.iter().filter(|(stats, rows)| stats.null_count != Some(*rows)).map(|(stats, _)| *stats);
    ColumnStats {
        min: extreme(with_values().map(|stats| stats.min.as_ref()), Ordering::Less),
        max: extreme(with_values().map(|stats| stats.max.as_ref()), Ordering::Greater),
        null_count,
    }
}

/// The least or the greatest of some bounds; `None` if one is not known, or if they cannot be compared.
fn extreme<'a>(bounds: impl Iterator<Item = Option<&'a StatValue>>, wanted: Ordering) -> Option<StatValue> {
    let mut extreme: Option<&StatValue> = None;
    for bound in bounds {
        let bound = bound?;
        match extreme {
            Some(so_far) if compare(bound, so_far)? != wanted => {}
            _ => extreme = Some(bound),
        }
    }
    extreme.filter(|bound| is_short(bound)).cloned()
}

fn is_short(bound: &StatValue) -> bool {
    match bound {
        StatValue::Utf8(text) => text.len() <= MAX_BOUND_BYTES,
        StatValue::Binary(bytes) => bytes.len() <= MAX_BOUND_BYTES,
        StatValue::Boolean(_) | StatValue::Int(_) | StatValue::UInt(_) | StatValue::Float(_) | StatValue::Decimal(_) => true,
    }
}

/// Which of two bounds of one field is less; `None` if they are of different kinds.
fn compare(one: &StatValue, other: &StatValue) -> Option<Ordering> {
    Some(match (one, other) {
        (StatValue::Boolean(one), StatValue::Boolean(other)) => one.cmp(other),
        (StatValue::Int(one), StatValue::Int(other)) => one.cmp(other),
        (StatValue::UInt(one), StatValue::UInt(other)) => one.cmp(other),
        // The negative zero is the less of both, so that either is within bounds.
        (StatValue::Float(one), StatValue::Float(other)) => one.total_cmp(other),
        (StatValue::Decimal(one), StatValue::Decimal(other)) => one.cmp(other),
        (StatValue::Utf8(one), StatValue::Utf8(other)) => one.cmp(other),
        // Bytes may stand for types with an order of their own.
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::fragment::{DataFile, FileColumn};

    fn fragment(rows: u32, stats: &[(i32, ColumnStats)]) -> Arc<Fragment> {
        let column =
            |(field, stats): &(i32, ColumnStats)| FileColumn { field: Some(FieldId(*field)), stats: stats.clone(), ..Default::default() };
        let file = DataFile { columns: stats.iter().map(column).collect(), ..DataFile::default() };
        Arc::new(Fragment { id: FragmentId(0), physical_rows: rows, files: vec![file], deletions: None, created_at: 1, updated_at: 1 })
    }

    fn stats(min: Option<StatValue>, max: Option<StatValue>, null_count: Option<u64>) -> ColumnStats {
        ColumnStats { min, max, null_count }
    }

    fn of(fragments: &[Arc<Fragment>], field: i32) -> Option<ColumnStats> {
        summaries(fragments, [FieldId(field)]).remove(&FieldId(field))
    }

    #[test]
    fn a_summary_bounds_every_fragment() {
        use StatValue::{Float, Int, Utf8};
        let both = |value: StatValue| (Some(value.clone()), Some(value));
        let int = |value, nulls| {
            let (min, max) = both(Int(value));
            stats(min, max, Some(nulls))
        };
        let page = |columns: &[ColumnStats]| columns.iter().map(|column| fragment(10, &[(1, column.clone())])).collect::<Vec<_>>();
        assert_eq!(of(&page(&[int(3, 1), int(-5, 0), int(9, 2)]), 1), Some(stats(Some(Int(-5)), Some(Int(9)), Some(3))));
        let nulls = stats(None, None, Some(10));
        assert_eq!(of(&page(&[nulls.clone(), int(4, 0)]), 1), Some(stats(Some(Int(4)), Some(Int(4)), Some(10))), "NULLs bound nothing");
        assert_eq!(of(&page(&[nulls.clone(), nulls]), 1), Some(stats(None, None, Some(20))));
        let unknown = stats(None, Some(Int(7)), None);
        assert_eq!(of(&page(&[unknown, int(4, 0)]), 1), Some(stats(None, Some(Int(7)), None)), "one bound is not known");
        let zeros = [0.0, -0.0].map(|zero| stats(Some(Float(zero)), Some(Float(zero)), Some(0)));
        let zeros = of(&page(&zeros), 1).unwrap();
        assert!(matches!((zeros.min, zeros.max), (Some(Float(min)), Some(Float(max))) if min.is_sign_negative() && max.is_sign_positive()));
        let mixed = [int(1, 0), stats(Some(Float(2.0)), Some(Float(2.0)), Some(0))];
        assert_eq!(of(&page(&mixed), 1), Some(stats(None, None, Some(0))), "kinds that cannot be compared");
        let long = "x".repeat(MAX_BOUND_BYTES + 1);
        let texts = [stats(Some(Utf8("a".into())), Some(Utf8(long)), Some(0))];
        assert_eq!(of(&page(&texts), 1), Some(stats(Some(Utf8("a".into())), None, Some(0))));
    }

    #[test]
    fn nothing_is_said_of_a_field_that_one_fragment_does_not_hold() {
        let one = stats(Some(StatValue::Int(1)), Some(StatValue::Int(1)), Some(0));
        let fragments = [fragment(1, &[(1, one.clone()), (2, one.clone())]), fragment(1, &[(1, one.clone())])];
        assert_eq!(summaries(&fragments, [1, 2, 3].map(FieldId)), BTreeMap::from([(FieldId(1), one)]));
    }
}
