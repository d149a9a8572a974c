//! A read: which rows of a table a scan was after, so that others' changes can be held against it.
//!
//! ```text
//!   a scan ──> Read { predicate, keys, columns }      kept by the transaction, in memory only
//!                │
//!                │  may_match   by the statistics of the manifest: no file is opened
//!                v
//!   rows that others changed ──> matching   the predicate, evaluated on just those rows
//! ```
//!
//! Goes in: the filters that the scan was given, or none, and the keys that a join brought. Comes out: which rows of some
//! fragments the scan would have yielded.
//!
//! Always holds: a row that could have made a difference to the statement matches. What cannot be evaluated later, such as a
//! subquery, is no part of the predicate, so more rows match; dynamic filters and limits are no part of it either.

use super::address::{OFFSET_COLUMN, scan_schema};
use super::keys::Keys;
use super::plan::{self, ScanRequest};
use super::pruning::prune;
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::Fragment;
use crate::table::row_address::{FragmentId, RowAddress};
use crate::table::schema::{FieldId, TableSchema};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::context::SessionConfig;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// How many rows an answer names.
const NAMED_ROWS: usize = 5;

/// What a scan was after.
#[derive(Clone)]
pub struct Read {
    /// The table's columns as the statement knew them.
    pub schema: Arc<TableSchema>,
    /// The columns that it read, their parts included.
    pub fields: BTreeSet<FieldId>,
    /// What it asked of a row, over the columns of a scan; `None` if it was after all rows.
    pub predicate: Option<Arc<dyn PhysicalExpr>>,
    /// What a join asked of a row besides.
    pub keys: Option<JoinKeys>,
    /// Whether it matters too that a row that matches is gone. (To a DELETE it does not: it would have done the same.)
    pub minds_deletions: bool,
    /// The settings of the session.
    pub options: Arc<ConfigOptions>,
    /// What the session runs on.
    pub runtime: Arc<RuntimeEnv>,
}

/// The keys that a join brought to a scan: rows of other keys found no partner.
#[derive(Clone, Debug)]
pub struct JoinKeys {
    /// The key of a row, over the columns of a scan.
    pub of_row: Arc<dyn PhysicalExpr>,
    /// The keys of the other side.
    pub brought: Arc<Keys>,
}

impl fmt::Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Read").field("rows", &self.describe()).field("minds_deletions", &self.minds_deletions).finish_non_exhaustive()
    }
}

impl Read {
    /// The same columns of all rows.
    pub fn of_all_rows(&self) -> Self {
        Read { predicate: None, keys: None, ..self.clone() }
    }

    /// The rows in words.
    pub fn describe(&self) -> String {
        let predicate = self.predicate.as_ref().map(|predicate| fmt_sql(predicate.as_ref()).to_string());
        let keys = self.keys.as_ref().map(|keys| format!("{} is {}", fmt_sql(keys.of_row.as_ref()), keys.brought.describe()));
        match predicate.into_iter().chain(keys).collect::<Vec<_>>().join(" AND ") {
            all if all.is_empty() => "any row".to_owned(),
            rows => format!("rows where {rows}"),
        }
    }

    /// What is asked of a row, the keys included.
    fn condition(&self, scan_schema: &SchemaRef) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let keys = match &self.keys {
            Some(keys) => keys.brought.condition(&keys.of_row, scan_schema)?,
            None => None,
        };
        Ok(match (self.predicate.clone(), keys) {
            (Some(predicate), Some(keys)) => Some(Arc::new(BinaryExpr::new(predicate, Operator::And, keys))),
            (predicate, keys) => predicate.or(keys),
        })
    }

    /// Whether each fragment may hold a row that matches, by its statistics.
    pub fn may_match(&self, fragments: &[Arc<Fragment>]) -> Result<Vec<bool>> {
        let columns = scan_schema(self.schema.to_plain_arrow());
        Ok(match self.condition(columns.table_schema())? {
            Some(condition) => prune(fragments, &self.schema, columns.table_schema(), &condition),
            None => vec![true; fragments.len()],
        })
    }

    /// The addresses of some of those of `rows` that match; none if none does. The rows may be deleted by now.
    pub async fn matching(&self, log: &VersionLog, rows: &[(Arc<Fragment>, RoaringBitmap)]) -> Result<Vec<RowAddress>> {
        let columns = scan_schema(self.schema.to_plain_arrow());
        let Some(condition) = self.condition(columns.table_schema())? else {
            let all = rows.iter().flat_map(|(fragment, rows)| rows.iter().map(|row| RowAddress::new(fragment.id, row)));
            return Ok(all.take(NAMED_ROWS).collect());
        };
        let state = self.session();
        let mut found = Vec::new();
        for (fragment, rows) in rows {
            self.matching_in(log, fragment, rows, &condition, &state, &mut found).await?;
            if found.len() >= NAMED_ROWS {
                break;
            }
        }
        Ok(found)
    }

    /// A session with the settings of the one that read, and nothing else of it.
    fn session(&self) -> SessionState {
        let config = SessionConfig::from(self.options.as_ref().clone());
        SessionStateBuilder::new().with_config(config).with_runtime_env(self.runtime.clone()).build()
    }

    async fn matching_in(
        &self,
        log: &VersionLog,
        fragment: &Arc<Fragment>,
        rows: &RoaringBitmap,
        condition: &Arc<dyn PhysicalExpr>,
        state: &SessionState,
        found: &mut Vec<RowAddress>,
    ) -> Result<()> {
        let (fragment, others) = only(fragment, rows);
        let columns = scan_schema(self.schema.to_plain_arrow());
        let offset = columns.table_schema().index_of(OFFSET_COLUMN).map_err(|e| Error::internal(e.to_string()))?;
        let mut projection: BTreeSet<usize> = collect_columns(condition).iter().map(|column| column.index()).collect();
        projection.insert(offset);
        let id = fragment.id;
        let bases = match fragment.files.iter().any(|file| file.base.is_some()) {
            true => log.newest().await?.snapshot.bases.clone(),
            false => BTreeMap::new(),
        };
        let request = ScanRequest {
            bases,
            store: log.store().clone(),
            table: Arc::from(log.table()),
            schema: Arc::new(self.schema.with_nullable_columns()),
            fragments: vec![(Arc::new(fragment), Some(Arc::new(others)))],
            projection: Some(projection.into_iter().collect()),
            predicate: None,
            limit: None,
            groups: None,
            pushdown_filters: Some(false),
            target_partitions: 1,
            held: None,
        };
        let mut batches = execute_stream(plan::plan(request, state)?, state.task_ctx())?;
        let condition = reassign_expr_columns(Arc::clone(condition), &batches.schema())?;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            let matches = condition.evaluate(&batch)?.into_array(batch.num_rows())?;
            let matches = as_boolean_array(&matches)?;
            let offsets = batch.column_by_name(OFFSET_COLUMN).and_then(|offsets| offsets.as_primitive_opt::<Int64Type>());
            let offsets = offsets.ok_or_else(|| Error::internal("a scan without the address that it was asked for"))?;
            let matching = offsets.values().iter().zip(matches).filter(|(_, matches)| *matches == Some(true));
            found.extend(matching.filter_map(|(offset, _)| address(id, *offset)).take(NAMED_ROWS.saturating_sub(found.len())));
            if found.len() >= NAMED_ROWS {
                break;
            }
        }
        Ok(())
    }
}

fn address(fragment: FragmentId, offset: i64) -> Option<RowAddress> {
    u32::try_from(offset).ok().map(|offset| RowAddress::new(fragment, offset))
}

/// A fragment of which only these rows are live, whether they were or not, and the others.
pub fn only(fragment: &Fragment, rows: &RoaringBitmap) -> (Fragment, RoaringBitmap) {
    let mut others = RoaringBitmap::new();
    others.insert_range(0..fragment.physical_rows);
    others -= rows;
    (Fragment { deletions: DeletionFile::inline(&others), ..fragment.clone() }, others)
}
