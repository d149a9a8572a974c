//! The two forms of an UPDATE.
//!
//! ```text
//!   rows      new versions of the rows in new fragments, the old ones deleted     addresses change
//!   columns   for each fragment that has one of the rows a new file of the        addresses stay; all rows of the
//!             changed columns, which hold the old value where a row is not one    fragment are written, columns that
//!                                                                                 do not change are not
//! ```
//!
//! Goes in: the plan of an UPDATE and what is known of its table. Comes out: the columns that it changes, and its form.
//! Always holds: a column counts as unchanged only if the plan passes it on as it is.

use super::options::UpdateForm;
use crate::manifest::snapshot::Snapshot;
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// An UPDATE that changes fewer rows than this, to a fragment, writes rows: many small files are worse than small deletions.
const MIN_ROWS_PER_FRAGMENT: u64 = 10_000;

/// How an UPDATE writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// New versions of rows.
    Rows,
    /// New files of the changed columns.
    Columns,
}

/// The positions of the columns that an UPDATE gives new values. `input` yields the columns of the table, then the address.
pub fn changed_columns(input: &LogicalPlan, columns: usize) -> Vec<usize> {
    let all = || (0..columns).collect();
    // Of another plan it is not known which of its columns is whose.
    let LogicalPlan::Projection(projection) = input else { return all() };
    let Some(Expr::Column(Column { relation, .. })) = projection.expr.get(columns) else { return all() };
    let changes = |at: &usize| match projection.expr.get(*at).map(without_alias) {
        Some(Expr::Column(column)) => column.relation != *relation || column.name != *projection.schema.field(*at).name(),
        _ => true,
    };
    (0..columns).filter(changes).collect()
}

pub(super) fn without_alias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => without_alias(&alias.expr),
        other => other,
    }
}

/// The form of an UPDATE of `changed` of the `columns` of a table. `expected_rows` is how many rows the planner expects it to
/// change; `None` if it has no idea.
///
/// By itself it is columns if at least nine of ten rows are expected to change, at most half of the columns do, and fragments
/// have 10,000 rows or more on average.
pub fn form(wanted: UpdateForm, changed: usize, columns: usize, expected_rows: Option<usize>, snapshot: &Snapshot) -> Form {
    let by_itself = || {
        let (live, fragments) = (snapshot.live_rows(), snapshot.fragments.len() as u64);
        let nearly_all = expected_rows.is_some_and(|rows| (rows as u64).saturating_mul(10) >= live.saturating_mul(9));
        nearly_all && changed * 2 <= columns && live >= fragments.saturating_mul(MIN_ROWS_PER_FRAGMENT)
    };
    match wanted {
        _ if changed == 0 => Form::Rows,
        UpdateForm::Columns => Form::Columns,
        UpdateForm::Auto if by_itself() => Form::Columns,
        UpdateForm::Auto | UpdateForm::Rows => Form::Rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::fragment::Fragment;
    use crate::table::row_address::FragmentId;
    use std::sync::Arc;

    fn table(fragments: &[u32]) -> Snapshot {
        let mut snapshot = Snapshot::empty(1);
        for (id, rows) in (0..).map(FragmentId).zip(fragments) {
            let fragment = Fragment { id, physical_rows: *rows, files: vec![], deletions: None, created_at: 1, updated_at: 1 };
            snapshot.fragments.put(Arc::new(fragment)).unwrap();
        }
        snapshot
    }

    #[test]
    fn by_itself_only_few_columns_of_nearly_all_rows_of_large_fragments_are_columns() {
        let auto = |changed, rows, fragments: &[u32]| form(UpdateForm::Auto, changed, 4, rows, &table(fragments));
        assert_eq!(auto(2, Some(18_000), &[10_000, 10_000]), Form::Columns);
        assert_eq!(auto(2, Some(17_999), &[10_000, 10_000]), Form::Rows);
        assert_eq!(auto(2, None, &[10_000, 10_000]), Form::Rows);
        assert_eq!(auto(3, Some(20_000), &[10_000, 10_000]), Form::Rows);
        assert_eq!(auto(2, Some(19_999), &[10_000, 9_999]), Form::Rows);
    }

    #[test]
    fn what_the_setting_says_is_done_if_anything_changes() {
        let columns = |changed| form(UpdateForm::Columns, changed, 4, Some(1), &table(&[5]));
        assert_eq!((columns(4), columns(0)), (Form::Columns, Form::Rows));
        assert_eq!(form(UpdateForm::Rows, 1, 4, Some(20_000), &table(&[20_000])), Form::Rows);
    }
}
