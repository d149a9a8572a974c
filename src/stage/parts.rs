//! Parts: what each writer staged, and the step that they make together.
//!
//! A writer answers with one row of one binary column: its actions and counts, in the wire form of a step. So a part
//! crosses threads and processes alike, and only the last node of a plan needs to see all of them.
//!
//! Rewrites come in the order of what they rewrote, whichever was ready first, so that fragments get their ids in it.
//!
//! Always holds: a row that two writers met, where one of them replaced it, is an error; fragments get tokens that are
//! unique in the step.

use super::marks::MarkError;
use crate::error::{Error, Result};
use crate::table::deletion_vector::DeletionFile;
use crate::table::row_address::{FragmentId, RowAddress};
use crate::txn::action::{Action, SetDeletionFile};
use crate::txn::composite::{RowCounts, Step};
use crate::txn::refs::{FragmentRef, Ref, Token};
use crate::txn::wire;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, new_null_array};
use datafusion::arrow::compute::{filter_record_batch, is_null};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The schema of what a writer answers.
pub static PART_SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| Arc::new(Schema::new(vec![Field::new("staged", DataType::Binary, false)])));

/// What writers answer of whose rows these columns are returned: a row with a part in the first column, or rows with NULL there.
pub fn schema(returned: Option<&SchemaRef>) -> SchemaRef {
    let Some(returned) = returned else { return PART_SCHEMA.clone() };
    let staged = PART_SCHEMA.fields().iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true)));
    Arc::new(Schema::new(staged.chain(returned.fields().iter().cloned()).collect::<Vec<_>>()))
}

/// The answer of a writer that staged `step`.
pub fn to_batch(step: &Step, schema: &SchemaRef) -> Result<RecordBatch> {
    let bytes = wire::encode_step(step);
    let staged: ArrayRef = Arc::new(BinaryArray::from_iter_values([bytes]));
    let nothing = schema.fields().iter().skip(1).map(|field| new_null_array(field.data_type(), 1));
    answer(schema, [staged].into_iter().chain(nothing).collect())
}

/// The answer of a writer that returns `rows`.
pub fn returned_to_batch(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let staged = new_null_array(&DataType::Binary, rows.num_rows());
    answer(schema, [staged].into_iter().chain(rows.columns().iter().cloned()).collect())
}

fn answer(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    RecordBatch::try_new(schema.clone(), columns).map_err(|e| Error::internal(format!("a writer's answer: {e}")))
}

/// The steps in a writer's answer, and the rows that it returns if there are columns for them.
pub fn from_batch(batch: &RecordBatch, returned: Option<&SchemaRef>) -> Result<(Vec<Step>, Option<RecordBatch>)> {
    let column = batch.columns().first().and_then(|column| column.as_binary_opt::<i32>());
    let column = column.ok_or_else(|| Error::internal("a staged part has another shape"))?;
    let unreadable = |e| Error::internal(format!("a staged part cannot be read: {e}"));
    let steps = column.iter().flatten().map(wire::decode_step).collect::<Result<_, _>>().map_err(unreadable)?;
    let Some(returned) = returned.filter(|_| column.null_count() > 0) else { return Ok((steps, None)) };
    let rows = filter_record_batch(batch, &is_null(column).map_err(|e| Error::internal(format!("returned rows: {e}")))?);
    let rows = rows.and_then(|rows| RecordBatch::try_new(returned.clone(), rows.columns().get(1..).unwrap_or_default().to_vec()));
    Ok((steps, Some(rows.map_err(|e| Error::internal(format!("returned rows: {e}")))?)))
}

/// The one step of all parts of a statement.
pub fn merge(mut parts: Vec<Step>, operation: &'static str, statement: String, table: &str) -> Result<Step> {
    let mut step = Step { operation: operation.to_owned(), statement, ..Step::default() };
    let mut deletions: BTreeMap<FragmentId, SetDeletionFile> = BTreeMap::new();
    let mut next = 0;
    parts.sort_by_key(|part| part.actions.iter().find_map(Action::change_of_address).and_then(|change| change.sources.first().copied()));
    for part in parts {
        let (first, mut last) = (next, next);
        let renumber = |fragment: FragmentRef| match fragment {
            Ref::Local(token) => Ref::Local(Token(token.0 + first)),
            committed @ Ref::Committed(_) => committed,
        };
        let mut counts = part.counts;
        for action in part.actions {
            match action {
                Action::AddFragment(mut add) => {
                    add.id = renumber(add.id);
                    if let Ref::Local(token) = add.id {
                        last = last.max(token.0 + 1);
                    }
                    step.actions.push(Action::AddFragment(add));
                }
                Action::AddDataFile(mut add) => {
                    add.fragment = renumber(add.fragment);
                    step.actions.push(Action::AddDataFile(add));
                }
                Action::ChangeOfAddress(mut change) => {
                    change.targets = change.targets.into_iter().map(renumber).collect();
                    step.actions.push(Action::ChangeOfAddress(change));
                }
                Action::SetDeletionFile(set) => {
                    let twice = unite(&mut deletions, set).map_err(|e| e.into_error(table, operation))?;
                    // A row that two writers deleted is one row.
                    counts.deleted = counts.deleted.saturating_sub(twice);
                }
                Action::RemoveFragment(_)
                | Action::AddField(_)
                | Action::AlterField(_)
                | Action::DropField(_)
                | Action::TombstoneFieldData(_)
                | Action::ConfigUpdate(_)
                | Action::ReserveFragmentIds(_)
                | Action::ResetTable(_)
                | Action::AddBase(_)
                | Action::AssertUniqueKeys(_) => step.actions.push(action),
            }
        }
        next = last;
        add(&mut step.counts, counts);
    }
    step.actions.extend(deletions.into_values().map(Action::SetDeletionFile));
    Ok(step)
}

/// Adds a writer's deletions of a fragment to those of the others; returns how many rows they had met already.
fn unite(deletions: &mut BTreeMap<FragmentId, SetDeletionFile>, set: SetDeletionFile) -> Result<u64, MarkError> {
    let Ref::Committed(fragment) = set.fragment else { return Err(MarkError::NoAddress) };
    let Some(held) = deletions.get_mut(&fragment) else {
        deletions.insert(fragment, set);
        return Ok(0);
    };
    let both: RoaringBitmap = &held.added & &set.added;
    let replaced = &both & (&held.replaced | &set.replaced);
    if let Some(offset) = replaced.min() {
        return Err(MarkError::Twice(RowAddress::new(fragment, offset)));
    }
    held.added |= set.added;
    held.replaced |= set.replaced;
    held.vector = DeletionFile::inline(&held.added);
    Ok(both.len())
}

fn add(to: &mut RowCounts, counts: RowCounts) {
    to.inserted += counts.inserted;
    to.updated += counts.updated;
    to.deleted += counts.deleted;
    to.moved += counts.moved;
}
