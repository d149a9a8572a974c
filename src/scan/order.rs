//! The order that the rows of a scan are known to lie in, told to the planner, so that it need not sort them.
//!
//! ```text
//!   fragment 2   day 1..3   ordered by day, k   \
//!   fragment 3   day 3..5   ordered by day, k    >   partition 0: 2, 7    partition 1: 3      each ordered by day, k
//!   fragment 7   day 6..9   ordered by day      /
//! ```
//!
//! Goes in: fragments, and the file that each is read from. Comes out: the files in groups, and the order of each group's rows.
//! Always holds: within a group no row of a file comes before one of a file that precedes it, NULLs included. Where that
//! takes more groups than there are partitions, nothing is said of an order.

use crate::table::fragment::Fragment;
use crate::table::schema::TableSchema;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use std::sync::Arc;

/// Groups of files, and the order of the rows of each.
pub struct Ordered {
    /// The files.
    pub groups: Vec<FileGroup>,
    /// The order.
    pub order: LexOrdering,
}

/// The files of these fragments (`None` for those that are not read) in at most `partitions` groups whose rows lie in one order;
/// `None` if there is no such order. It is one of the columns that are `seen`.
pub fn ordered(
    fragments: &[&Fragment],
    files: &[Option<PartitionedFile>],
    (schema, columns): (&TableSchema, &SchemaRef),
    seen: &[bool],
    partitions: usize,
) -> Option<Ordered> {
    let read: Vec<(&Fragment, &PartitionedFile)> =
        fragments.iter().zip(files).filter_map(|(fragment, file)| Some((*fragment, file.as_ref()?))).collect();
    let mut keys = shared(read.iter().map(|(fragment, _)| *fragment), schema, seen)?;
    let all = FileGroup::new(read.iter().map(|(_, file)| (*file).clone()).collect());
    while !keys.is_empty() {
        let key = |(at, options): &(usize, SortOptions)| {
            columns.fields().get(*at).map(|column| PhysicalSortExpr::new(Arc::new(Column::new(column.name(), *at)), *options))
        };
        let order = LexOrdering::new(keys.iter().map(key).collect::<Option<Vec<_>>>()?)?;
        if read.len() <= 1 {
            return Some(Ordered { groups: vec![all], order });
        }
        let has_no_nulls = |(at, _): &(usize, SortOptions)| read.iter().all(|(fragment, _)| is_never_null(fragment, schema, *at));
        if keys.iter().all(has_no_nulls) {
            let groups = FileScanConfig::split_groups_by_statistics(columns, std::slice::from_ref(&all), &order);
            if let Ok(fewest) = groups
                && fewest.len() <= partitions
            {
                // Fewer groups than there can be would leave partitions without work.
                let spread = FileScanConfig::split_groups_by_statistics_with_target_partitions(columns, &[all], &order, partitions);
                let groups = spread.ok().filter(|groups| groups.len() <= partitions).unwrap_or(fewest);
                return Some(Ordered { groups, order });
            }
        } else if read.len() <= partitions {
            let alone = read.iter().map(|(_, file)| FileGroup::new(vec![(*file).clone()])).collect();
            return Some(Ordered { groups: alone, order });
        }
        keys.pop();
    }
    None
}

/// The columns, by position, that the rows of all these fragments are sorted by.
fn shared<'a>(fragments: impl Iterator<Item = &'a Fragment>, schema: &TableSchema, seen: &[bool]) -> Option<Vec<(usize, SortOptions)>> {
    let mut shared: Option<Vec<(usize, SortOptions)>> = None;
    // One row lies in any order.
    for fragment in fragments.filter(|fragment| fragment.physical_rows > 1) {
        let keys = fragment.sorted_by().into_iter().map_while(|(field, key)| {
            let at = schema.columns().position(|column| column.id == field)?;
            let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
            seen.get(at).copied().unwrap_or(false).then_some((at, options))
        });
        let keys: Vec<_> = match &shared {
            None => keys.collect(),
            Some(shared) => keys.zip(shared).map_while(|(key, other)| (key == *other).then_some(key)).collect(),
        };
        if keys.is_empty() {
            return None;
        }
        shared = Some(keys);
    }
    shared
}

/// Whether a column has no NULL in a fragment.
fn is_never_null(fragment: &Fragment, schema: &TableSchema, at: usize) -> bool {
    let Some(field) = schema.columns().nth(at) else { return false };
    let backing = fragment.backing(field.id).and_then(|(file, at)| file.columns.get(at));
    backing.is_some_and(|column| column.stats.null_count == Some(0))
}
