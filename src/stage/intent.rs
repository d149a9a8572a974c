//! What a statement would stage, before it runs: for EXPLAIN VERBOSE.
//!
//! Goes in: the plan of a writer. Comes out: the kinds of actions, the fragments that are left after pruning, and the
//! footprint that a transaction of them has. Which rows match is only known to who runs it.

use super::row_changes::RowChanges;
use crate::scan::address::FRAGMENT_COLUMN;
use crate::scan::plan::fragments_read;
use crate::table::fragment::{DataFile, FileColumn};
use crate::table::row_address::FragmentId;
use crate::table::schema::TableSchema;
use crate::txn::action::{
    Action, AddDataFile, AddFragment, ChangeOfAddress, MapLocation, RemoveFragment, SetDeletionFile, TombstoneFieldData,
};
use crate::txn::composite::{Step, Transaction, TransactionId};
use crate::txn::footprint::Footprint;
use crate::txn::refs::{Ref, Token};
use bytes::Bytes;
use datafusion::physical_plan::ExecutionPlan;
use roaring::RoaringBitmap;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// What a writer of rows would stage.
pub(super) fn of_rows(input: &Arc<dyn ExecutionPlan>, changes: RowChanges, schema: &TableSchema) -> Intent {
    let mut fragments = BTreeSet::new();
    candidates(input, &mut fragments);
    let mut actions = Vec::new();
    if changes.marks_rows() {
        actions.extend(fragments.iter().map(|fragment| deletion(*fragment)));
    } else {
        fragments.clear();
    }
    if changes.row_columns(schema.columns().count()) > 0 {
        actions.extend(new_fragment(schema, true));
    }
    Intent::new(actions, fragments, "matching rows of")
}

/// What a statement stages that clears these fragments.
pub(super) fn of_clearing(fragments: impl Iterator<Item = FragmentId>) -> Intent {
    let fragments: BTreeSet<FragmentId> = fragments.collect();
    Intent::new(fragments.iter().map(|fragment| deletion(*fragment)).collect(), fragments, "all rows of")
}

fn deletion(fragment: FragmentId) -> Action {
    let (added, replaced) = (RoaringBitmap::new(), RoaringBitmap::new());
    Action::SetDeletionFile(SetDeletionFile { fragment: Ref::Committed(fragment), vector: None, added, replaced })
}

/// What a rewrite of these fragments would stage.
pub(super) fn of_rewrite(sources: impl Iterator<Item = FragmentId>, schema: &TableSchema) -> Intent {
    let fragments: BTreeSet<FragmentId> = sources.collect();
    let mut actions = Vec::new();
    if !fragments.is_empty() {
        actions.extend(new_fragment(schema, false));
        actions.push(Action::ChangeOfAddress(ChangeOfAddress {
            sources: fragments.iter().map(|fragment| Ref::Committed(*fragment)).collect(),
            targets: vec![Ref::Local(Token(0))],
            map: MapLocation::Inline(Bytes::new()),
            order: None,
        }));
        let remove = |fragment: &FragmentId| RemoveFragment { fragment: Ref::Committed(*fragment), data_change: false };
        actions.extend(fragments.iter().map(|fragment| Action::RemoveFragment(remove(fragment))));
    }
    Intent::new(actions, fragments, "the rows of")
}

/// What a writer of the columns of `written` would stage, where its fragments hold them already.
pub(super) fn of_columns(input: &Arc<dyn ExecutionPlan>, written: &TableSchema) -> Intent {
    let mut fragments = BTreeSet::new();
    candidates(input, &mut fragments);
    let fields: Vec<_> = written.columns().map(|column| Ref::Committed(column.id)).collect();
    let replace = |id: &FragmentId| {
        let (fragment, fields) = (Ref::Committed(*id), fields.clone());
        [
            Action::TombstoneFieldData(TombstoneFieldData { fragment, fields: fields.clone(), data_change: true }),
            Action::AddDataFile(AddDataFile {
                fragment,
                file: file_of(fields.len()),
                base: None,
                fields: fields.into_iter().map(Some).collect(),
                data_change: true,
            }),
        ]
    };
    let actions = fragments.iter().flat_map(replace).collect();
    Intent::new(actions, fragments, "columns of")
}

/// A new fragment with a file of all columns.
fn new_fragment(schema: &TableSchema, data_change: bool) -> [Action; 2] {
    let fields: Vec<_> = schema.columns().map(|column| Some(Ref::Committed(column.id))).collect();
    let file = file_of(fields.len());
    let fragment = Ref::Local(Token(0));
    [
        Action::AddFragment(AddFragment { id: fragment, physical_rows: 0, data_change, replacing: RoaringBitmap::new() }),
        Action::AddDataFile(AddDataFile { fragment, file, base: None, fields, data_change }),
    ]
}

fn file_of(columns: usize) -> DataFile {
    DataFile {
        inline: None,
        sorted_by: vec![],
        path: String::new(),
        base: None,
        size_bytes: 0,
        unchecked_bytes: 0,
        checksum: Default::default(),
        row_groups: vec![],
        columns: (0..columns).map(|_| FileColumn::default()).collect(),
    }
}

/// How many fragments are left in the scan with addresses; `None` if there is none.
pub(super) fn fragments_left(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let mut fragments = BTreeSet::new();
    candidates(plan, &mut fragments).then_some(fragments.len())
}

/// The fragments that the scan with addresses reads, and whether there is such a scan.
fn candidates(plan: &Arc<dyn ExecutionPlan>, into: &mut BTreeSet<FragmentId>) -> bool {
    let mut any = plan.children().is_empty() && plan.schema().column_with_name(FRAGMENT_COLUMN).is_some();
    if any {
        into.extend(fragments_read(plan.as_ref()));
    }
    for child in plan.children() {
        any |= candidates(child, into);
    }
    any
}

/// What would be staged, as EXPLAIN VERBOSE shows it.
pub(super) struct Intent {
    actions: Vec<Action>,
    fragments: BTreeSet<FragmentId>,
    /// Which of their rows.
    rows: &'static str,
}

impl Intent {
    fn new(actions: Vec<Action>, fragments: BTreeSet<FragmentId>, rows: &'static str) -> Self {
        Intent { actions, fragments, rows }
    }
}

impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: Vec<&str> = Vec::new();
        for action in &self.actions {
            if !kinds.contains(&action.name()) {
                kinds.push(action.name());
            }
        }
        let step = Step { actions: self.actions.clone(), ..Step::default() };
        let footprint = Footprint::of(&Transaction { id: TransactionId(0), read_version: 0, steps: vec![step] });
        let mut claims = footprint.in_words();
        if !self.fragments.is_empty() {
            let fragments: Vec<String> = self.fragments.iter().map(ToString::to_string).collect();
            claims.push(format!("claims {} fragments {}", self.rows, fragments.join(", ")));
        }
        write!(f, ", actions=[{}], footprint=[{}]", kinds.join(", "), claims.join("; "))
    }
}
