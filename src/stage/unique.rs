//! Keys: no two rows of a table have the same.
//!
//! ```text
//!   new fragments of the statement ──> their keys: hashed for the commit, noted as a condition
//!                                        │
//!                                        │ fragments that may hold one of them, by their statistics
//!                                        v
//!   new rows UNION ALL rows that stay, of those keys ── GROUP BY key HAVING count(*) > 1     it spills
//! ```
//!
//! Goes in: what a statement staged, and the version that it read. Comes out: `AssertUniqueKeys` for each key, by which the commit
//! knows of two that insert one key at the same time.
//! Always holds: the table is looked at as it is when the statement has ended, so rows may change their keys among themselves; a
//! key with NULL in it is nobody else's.

use super::transaction::preview;
use crate::error::{Error, Result};
use crate::manifest::leases::Lease;
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::{Counters, Snapshot};
use crate::manifest::version::Version;
use crate::scan::keys::Keys;
use crate::scan::pruning::matching;
use crate::scan::read::Read;
use crate::scan::some_rows::{self, SomeRows};
use crate::store::env;
use crate::table::constraint::{Constraint, Rule};
use crate::table::fragment::Fragment;
use crate::table::row_address::FragmentId;
use crate::table::schema::{FieldId, TableSchema};
use crate::txn::action::{Action, AssertUniqueKeys};
use crate::txn::address_map::AddressMap;
use crate::txn::composite::{Step, Transaction, TransactionId};
use crate::txn::footprint::UNLISTED_KEYS;
use crate::txn::refs::Ref;
use datafusion::arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{Column, DataFusionError, Result as EngineResult};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::provider_as_source;
use datafusion::execution::context::SessionConfig;
use datafusion::execution::{SessionState, SessionStateBuilder, TaskContext};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column as PhysicalColumn};
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How keys are hashed: the bytes that arrow's row format has for them, ascending, NULLs first.
const SCHEME: u32 = 1;
/// How many keys a transaction lists.
const MAX_LISTED: usize = 65_536;
/// The number of rows of a key.
const COUNT_COLUMN: &str = "__amend_count";

/// A key that rows are held to.
#[derive(Debug, Clone)]
pub struct Key {
    /// The name of the constraint.
    pub name: String,
    /// PRIMARY KEY or UNIQUE.
    pub kind: &'static str,
    /// Its fields.
    pub fields: Vec<FieldId>,
    /// The positions of its columns.
    pub positions: Vec<usize>,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// Whether the statement may bring new values of it.
    pub may_change: bool,
    /// Whether rows that have it in common were all brought by the source of the statement, which would change one row twice.
    pub brought_once: bool,
}

/// Holds what a statement staged to the keys of its table, and adds the assertions. Returns what the commit has to hold against rows of
/// others whose keys are not listed.
pub async fn hold(
    (log, lease): (&Arc<VersionLog>, &Arc<Lease>),
    base: &Version,
    keys: &[Key],
    step: &mut Step,
    maps: &[Arc<AddressMap>],
    context: &TaskContext,
) -> Result<Vec<Arc<Read>>> {
    let inserts = step.actions.iter().any(|action| matches!(action, Action::AddFragment(add) if add.data_change));
    if keys.is_empty() || !inserts {
        return Ok(vec![]);
    }
    let mut after = None;
    let (mut asserted, mut reads) = (Vec::new(), Vec::new());
    for key in keys {
        let (scheme, hashes) = match key.may_change {
            false => (SCHEME, BTreeSet::new()),
            true => {
                let looking = match &mut after {
                    Some(looking) => looking,
                    after => after.insert(Looking::new((log, lease), base, step, maps, context).await?),
                };
                let new = looking.hold(key).await?;
                reads.push(Arc::new(looking.read(key, new.condition)));
                new.hashes.map_or((UNLISTED_KEYS, BTreeSet::new()), |hashes| (SCHEME, hashes))
            }
        };
        let fields = key.fields.iter().map(|field| Ref::Committed(*field)).collect();
        asserted.push(Action::AssertUniqueKeys(AssertUniqueKeys { fields, scheme, hashes: Arc::new(hashes) }));
    }
    step.actions.extend(asserted);
    Ok(reads)
}

/// Holds the rows of a table that a step makes of nothing to its keys. Its fields are numbered from `first` on.
pub async fn hold_first(
    (log, lease): (&Arc<VersionLog>, &Arc<Lease>),
    first: FieldId,
    keys: &[Key],
    step: &Step,
    context: &TaskContext,
) -> Result<()> {
    let nothing = Snapshot::empty(0);
    let counters = Counters { field: first, ..nothing.counters };
    let nothing = Version { snapshot: Snapshot { counters, ..nothing }, transactions: vec![], time_ms: 0, writer: String::new() };
    let looking = Looking::new((log, lease), &nothing, step, &[], context).await?;
    for key in keys {
        looking.hold(key).await?;
    }
    Ok(())
}

/// The table as a statement leaves it.
struct Looking<'a> {
    log: &'a Arc<VersionLog>,
    lease: &'a Arc<Lease>,
    after: Snapshot,
    /// The fragments that are new.
    new: Vec<Arc<Fragment>>,
    state: SessionState,
}

/// The keys of new rows.
struct NewKeys {
    /// Their hashes; `None` if they are too many.
    hashes: Option<BTreeSet<u64>>,
    /// How many rows have a key.
    rows: u64,
    /// That a row has one of them, over the columns of a scan; `None` if nothing can be said.
    condition: Option<Arc<dyn PhysicalExpr>>,
}

impl<'a> Looking<'a> {
    async fn new(
        (log, lease): (&'a Arc<VersionLog>, &'a Arc<Lease>),
        base: &Version,
        step: &Step,
        maps: &[Arc<AddressMap>],
        context: &TaskContext,
    ) -> Result<Self> {
        let id = TransactionId(env::new_uuid().as_u128());
        let transaction = Transaction { id, read_version: base.snapshot.version, steps: vec![step.clone()] };
        let (Version { snapshot: after, .. }, _) = preview(log, base, &transaction, maps).await?;
        let new = after.fragments.added_since(&base.snapshot.fragments).cloned().collect();
        let config = SessionConfig::from(context.session_config().options().as_ref().clone());
        let state = SessionStateBuilder::new().with_config(config).with_runtime_env(context.runtime_env()).build();
        Ok(Looking { log, lease, after, new, state })
    }

    /// Refuses a key that a new row shares with another row.
    async fn hold(&self, key: &Key) -> Result<NewKeys> {
        let new = self.new_keys(key).await?;
        let schema = &self.after.schema;
        let mut others = matching(self.log, &self.after, schema, &some_rows::scan_columns(schema), new.condition.as_ref(), None).await?;
        let is_new: BTreeSet<FragmentId> = self.new.iter().map(|fragment| fragment.id).collect();
        others.retain(|fragment| !is_new.contains(&fragment.id));
        let distinct = new.hashes.as_ref().is_some_and(|hashes| hashes.len() as u64 == new.rows);
        if distinct && others.is_empty() {
            return Ok(new);
        }
        let mut rows = self.scan(key, self.new.clone(), None).await?;
        if !others.is_empty() {
            rows = rows.union(self.scan(key, others, new.condition.clone()).await?.build()?)?;
        }
        let answer = DataFrame::new(self.state.clone(), repeated(rows, key)?).collect().await?;
        refuse_any(self.log.table(), key, &answer)?;
        Ok(new)
    }

    async fn rows(&self, key: &Key, fragments: Vec<Arc<Fragment>>, condition: Option<Arc<dyn PhysicalExpr>>) -> Result<SomeRows> {
        SomeRows::new((self.log.clone(), self.lease.clone()), &self.after, fragments, key.positions.clone(), condition).await
    }

    async fn scan(&self, key: &Key, fragments: Vec<Arc<Fragment>>, condition: Option<Arc<dyn PhysicalExpr>>) -> Result<LogicalPlanBuilder> {
        let rows = self.rows(key, fragments, condition).await?;
        Ok(LogicalPlanBuilder::scan(self.log.table(), provider_as_source(Arc::new(rows)), None)?)
    }

    /// The keys of the new rows, as they stream by.
    async fn new_keys(&self, key: &Key) -> Result<NewKeys> {
        let plan = self.rows(key, self.new.clone(), None).await?.plan(&self.state)?;
        let converter = plan.schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
        let converter = RowConverter::new(converter).map_err(DataFusionError::from)?;
        let noted: Vec<Keys> = key.positions.iter().map(|_| Keys::default()).collect();
        let mut hashes = Some(BTreeSet::new());
        let mut rows = 0;
        let mut batches = execute_stream(plan, self.state.task_ctx())?;
        while let Some(batch) = batches.next().await {
            let batch = without_nulls(&batch?)?;
            rows += batch.num_rows() as u64;
            noted.iter().zip(batch.columns()).try_for_each(|(noted, column)| noted.note(column))?;
            if let Some(listed) = &mut hashes {
                let bytes = converter.convert_columns(batch.columns()).map_err(DataFusionError::from)?;
                listed.extend(bytes.iter().map(|row| hash(row.as_ref())));
                if listed.len() > MAX_LISTED {
                    hashes = None;
                }
            }
        }
        let columns = some_rows::scan_columns(&self.after.schema);
        let mut condition: Option<Arc<dyn PhysicalExpr>> = None;
        for (noted, position) in noted.iter().zip(&key.positions) {
            let name = columns.fields().get(*position).map(|field| field.name().clone()).unwrap_or_default();
            let column: Arc<dyn PhysicalExpr> = Arc::new(PhysicalColumn::new(&name, *position));
            if let Some(one) = noted.condition(&column, &columns)? {
                condition = Some(match condition {
                    Some(others) => Arc::new(BinaryExpr::new(others, Operator::And, one)),
                    None => one,
                });
            }
        }
        Ok(NewKeys { hashes, rows, condition })
    }

    /// What the statement read of the table: rows of its new keys.
    fn read(&self, key: &Key, condition: Option<Arc<dyn PhysicalExpr>>) -> Read {
        Read {
            schema: self.after.schema.clone(),
            fields: key.fields.iter().copied().collect(),
            predicate: condition,
            keys: None,
            minds_deletions: false,
            options: self.state.config().options().clone(),
            runtime: self.state.runtime_env().clone(),
        }
    }
}

/// The rows that have a value in every column.
fn without_nulls(batch: &RecordBatch) -> Result<RecordBatch> {
    if batch.columns().iter().all(|column| column.null_count() == 0) {
        return Ok(batch.clone());
    }
    let present = (0..batch.num_rows()).map(|row| Some(batch.columns().iter().all(|column| column.is_valid(row))));
    let present: BooleanArray = present.collect();
    Ok(filter_record_batch(batch, &present).map_err(DataFusionError::from)?)
}

/// The hash of a key, given the bytes of its row: FNV-1a, and then mixed, as its low bits and high bits are not alike.
fn hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

impl Key {
    /// The key that a constraint is, in a table of that schema.
    pub fn new(constraint: &Constraint, schema: &TableSchema) -> Result<Self> {
        let kind = match constraint.rule {
            Rule::PrimaryKey => "PRIMARY KEY",
            Rule::Unique => "UNIQUE",
            Rule::Check(_) => return Err(Error::internal(format!("the constraint '{}' is no key", constraint.name))),
        };
        let columns = constraint.fields.iter().map(|id| {
            let found = schema.columns().enumerate().find(|(_, column)| column.id == *id);
            found.ok_or_else(|| Error::internal(format!("the key '{}' is of field {id}, which is no column", constraint.name)))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(Key {
            name: constraint.name.clone(),
            kind,
            fields: constraint.fields.clone(),
            positions: columns.iter().map(|(position, _)| *position).collect(),
            columns: columns.iter().map(|(_, column)| column.name.clone()).collect(),
            may_change: true,
            brought_once: false,
        })
    }
}

/// One key of `rows` that several have, and how many.
pub fn repeated(rows: LogicalPlanBuilder, key: &Key) -> EngineResult<LogicalPlan> {
    let columns: Vec<Expr> = key.columns.iter().map(|name| Expr::Column(Column::from_name(name))).collect();
    let present = conjunction(columns.iter().map(|column| column.clone().is_not_null())).unwrap_or_else(|| lit(true));
    let rows = rows.filter(present)?.aggregate(columns, [count(lit(1i64)).alias(COUNT_COLUMN)])?;
    rows.filter(Expr::Column(Column::from_name(COUNT_COLUMN)).gt(lit(1i64)))?.limit(0, Some(1))?.build()
}

/// Refuses the first key of an answer.
pub fn refuse_any(table: &str, key: &Key, answer: &[RecordBatch]) -> Result<()> {
    let Some(batch) = answer.iter().find(|batch| batch.num_rows() > 0) else { return Ok(()) };
    let rows = batch.column_by_name(COUNT_COLUMN).and_then(|counts| counts.as_primitive_opt::<Int64Type>()).map(|counts| counts.value(0));
    let of_key: Vec<usize> = (0..key.columns.len()).collect();
    let values = batch.project(&of_key).map_err(|e| Error::internal(format!("a key: {e}")))?;
    if key.brought_once {
        let reason = format!(
            "ON CONFLICT DO UPDATE on table '{table}' would change one row more than once: {} rows to insert have the key {}; make them unique",
            rows.unwrap_or_default(),
            super::checks::shown(&values, 0)
        );
        return Err(Error::Refused { reason, sqlstate: "21000" });
    }
    Err(Error::DuplicateKey {
        table: table.to_owned(),
        constraint: key.name.clone(),
        kind: key.kind,
        rows: rows.unwrap_or_default().unsigned_abs(),
        key: super::checks::shown(&values, 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int64Array, StringArray};
    use datafusion::arrow::datatypes::DataType;

    /// Hashes of two builds are compared, so they may not change under one scheme.
    #[test]
    fn the_hashes_of_a_scheme_stay_what_they_are() {
        let converter = RowConverter::new(vec![SortField::new(DataType::Int64), SortField::new(DataType::Utf8)]).unwrap();
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![1, -1])), Arc::new(StringArray::from(vec!["a", ""]))];
        let hashes: Vec<u64> = converter.convert_columns(&columns).unwrap().iter().map(|row| hash(row.as_ref())).collect();
        assert_eq!(hashes, [9_617_460_708_802_284_184, 5_345_134_417_461_269_411]);
    }
}
