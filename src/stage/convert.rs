//! The values of one column, computed anew for all rows of a table: a file for each fragment.
//!
//! ```text
//!   fragment 7     d        CAST(d AS INT)
//!     7/0          '1'      1
//!     7/1 deleted  'x'      3               (that of the next live row: nobody reads it)
//!     7/2          '3'      3
//! ```
//!
//! Goes in: a version, and an expression over its columns. Comes out: `AddDataFile` for each fragment; of a fragment without files
//! the values are in the manifest too.
//! Always holds: the expression sees live rows only; a file has as many rows as its fragment; on an error no file is left.

use super::write_exec::take_fields;
use super::writer::{FragmentWriter, NewFragment, discard};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::log::VersionLog;
use crate::manifest::version::Version;
use crate::scan::address::OFFSET_COLUMN;
use crate::scan::plan::{ScanRequest, plan_with};
use crate::table::fragment::Fragment;
use crate::table::schema::TableSchema;
use crate::txn::action::{Action, AddDataFile};
use crate::txn::refs::{FieldRef, Ref, Token};
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use futures::StreamExt;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is computed, and of what.
pub struct Converting {
    /// The versions of the table.
    pub log: Arc<VersionLog>,
    /// The version whose rows there are.
    pub base: Arc<Version>,
    /// The values, over the columns of the table.
    pub value: Arc<dyn PhysicalExpr>,
    /// The column that gets them.
    pub schema: Arc<TableSchema>,
    /// Its field; those of its parts follow it.
    pub field: FieldRef,
    /// Values of a fragment that has no file become none up to so many bytes.
    pub max_inline_bytes: u32,
    /// What it runs in.
    pub context: Arc<TaskContext>,
}

/// Computes the values of all rows.
pub async fn convert(converting: &Converting) -> Result<Vec<Action>> {
    let mut done: Vec<(Arc<Fragment>, NewFragment)> = Vec::new();
    for fragment in converting.base.snapshot.fragments.iter() {
        match converting.fragment(fragment).await {
            Ok(file) => done.push((fragment.clone(), file)),
            Err(error) => {
                let files: Vec<NewFragment> = done.into_iter().map(|(_, file)| file).collect();
                discard(converting.log.store(), &files).await;
                return Err(error);
            }
        }
    }
    Ok(done.into_iter().map(|(fragment, new)| converting.action(&fragment, new)).collect())
}

impl Converting {
    /// The file of a fragment.
    async fn fragment(&self, fragment: &Arc<Fragment>) -> Result<NewFragment> {
        let table = self.log.table();
        let writer = FragmentWriter::new(self.log.store().clone(), table.to_owned(), self.schema.clone(), fragment.physical_rows);
        let mut writer = writer.inline_like(fragment, self.max_inline_bytes);
        if let Err(error) = self.rows(fragment, &mut writer).await {
            writer.abort().await;
            return Err(error);
        }
        let mut files = writer.finish().await?;
        match (files.pop(), files.is_empty()) {
            (Some(file), true) if file.physical_rows == fragment.physical_rows => Ok(file),
            (last, _) => {
                files.extend(last);
                discard(self.log.store(), &files).await;
                Err(Error::internal(format!("values of fragment {} of table '{table}' were written in part", fragment.id)))
            }
        }
    }

    async fn rows(&self, fragment: &Arc<Fragment>, writer: &mut FragmentWriter) -> Result<()> {
        let snapshot = &self.base.snapshot;
        let deleted = match fragment.deletions {
            Some(_) => Some(self.log.deleted_rows(fragment).await?),
            None => None,
        };
        let width = snapshot.schema.columns().count();
        // The number of the row comes after the columns and the fragment.
        let needed: BTreeSet<usize> = collect_columns(&self.value).iter().map(|column| column.index()).chain([width + 1]).collect();
        let request = ScanRequest {
            store: self.log.store().clone(),
            table: Arc::from(self.log.table()),
            bases: snapshot.bases.clone(),
            schema: snapshot.schema.clone(),
            fragments: vec![(fragment.clone(), deleted)],
            projection: Some(needed.into_iter().collect()),
            predicate: None,
            limit: None,
            groups: Some(vec![vec![0]]),
            pushdown_filters: Some(false),
            target_partitions: 1,
            held: None,
        };
        let plan = plan_with(request, &self.context.runtime_env(), self.context.session_config().options())?;
        let value = reassign_expr_columns(self.value.clone(), &plan.schema())?;
        let batch_rows = self.context.session_config().batch_size().max(1);
        let mut rows = plan.execute(0, self.context.clone())?;
        let mut filling = Filling { next: 0, batch_rows, last: None };
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            let values = value.evaluate(&batch).and_then(|values| values.into_array(batch.num_rows())).map_err(|e| self.no_place(e))?;
            let numbers = batch.column_by_name(OFFSET_COLUMN).and_then(|numbers| numbers.as_primitive_opt::<Int64Type>());
            let numbers = numbers.ok_or_else(|| Error::internal("a scan yields no row numbers"))?;
            let number = |number: &i64| u32::try_from(*number).ok().filter(|number| *number < fragment.physical_rows);
            let numbers = numbers.values().iter().map(number).collect::<Option<Vec<u32>>>();
            let numbers = numbers.ok_or_else(|| Error::internal(format!("fragment {} yields rows that it does not have", fragment.id)))?;
            filling.live(&one_column(values)?, numbers, writer).await?;
        }
        filling.end(fragment.physical_rows, writer).await
    }

    /// The error for a value that has no place in the new type.
    fn no_place(&self, error: DataFusionError) -> Error {
        let column = self.schema.columns().next();
        let name = column.map(|column| column.name.as_str()).unwrap_or_default();
        let wanted = column.map(|column| self.schema.arrow_field(column).data_type().to_string()).unwrap_or_default();
        let error = Error::from(error);
        if error.kind() != ErrorKind::Invalid {
            return error;
        }
        let text = error.to_string();
        let too_large = ["Can't cast value", "too large", "overflow"].iter().any(|words| text.contains(words));
        let sqlstate = if too_large { "22003" } else { error.sqlstate() };
        let message = format!("column '{name}' of table '{}' cannot become {wanted}: {text}", self.log.table());
        Error::Engine { message, kind: ErrorKind::Invalid, sqlstate }
    }

    fn action(&self, fragment: &Fragment, new: NewFragment) -> Action {
        let mut file = new.file;
        let first = match self.field {
            Ref::Local(Token(first)) => first,
            Ref::Committed(_) => 0,
        };
        let held = take_fields(&mut file).len() as u32;
        let fields = (0..held).map(|part| if part == 0 { self.field } else { Ref::Local(Token(first + part)) }).map(Some).collect();
        Action::AddDataFile(AddDataFile { fragment: Ref::Committed(fragment.id), file, base: None, fields, data_change: true })
    }
}

fn one_column(values: ArrayRef) -> Result<RecordBatch> {
    RecordBatch::try_from_iter_with_nullable([("value", values, true)]).map_err(|e| Error::internal(format!("new values: {e}")))
}

/// Values of live rows on their way to a file of all rows.
struct Filling {
    /// The number of the next row.
    next: u32,
    batch_rows: usize,
    /// The value of the last live row.
    last: Option<RecordBatch>,
}

impl Filling {
    /// Writes the values of these rows, and something for the deleted ones before each.
    async fn live(&mut self, values: &RecordBatch, numbers: Vec<u32>, writer: &mut FragmentWriter) -> Result<()> {
        let mut sources: Vec<u32> = Vec::with_capacity(values.num_rows());
        for (at, number) in (0u32..).zip(numbers) {
            while self.next <= number {
                sources.push(at);
                self.next += 1;
                if sources.len() >= self.batch_rows {
                    write(values, &mut sources, writer).await?;
                }
            }
        }
        write(values, &mut sources, writer).await?;
        if let Some(last) = values.num_rows().checked_sub(1) {
            self.last = Some(values.slice(last, 1));
        }
        Ok(())
    }

    /// Writes something for the deleted rows at the end.
    async fn end(mut self, physical_rows: u32, writer: &mut FragmentWriter) -> Result<()> {
        let Some(last) = self.last.take() else { return Err(Error::internal("a fragment without live rows")) };
        let mut sources = Vec::new();
        while self.next < physical_rows {
            sources.push(0);
            self.next += 1;
            if sources.len() >= self.batch_rows {
                write(&last, &mut sources, writer).await?;
            }
        }
        write(&last, &mut sources, writer).await
    }
}

/// Writes these of some values.
async fn write(values: &RecordBatch, sources: &mut Vec<u32>, writer: &mut FragmentWriter) -> Result<()> {
    let sources = UInt32Array::from(std::mem::take(sources));
    if sources.is_empty() {
        return Ok(());
    }
    let rows = take_record_batch(values, &sources).map_err(DataFusionError::from)?;
    writer.write(&rows).await
}
