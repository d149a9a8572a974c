//! CREATE TABLE and CREATE TABLE AS SELECT on the lake, with OR REPLACE too.
//!
//! DataFusion plans the statement (types, casts, the query); what it would put in memory becomes the first version of a
//! table, or the next one of a table that is replaced: its fields and its rows in one transaction.

use super::constraints::Definition;
use super::lake::Lake;
use crate::commit::staged::objects;
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::Snapshot;
use crate::plan::options::options;
use crate::scan::address;
use crate::stage::commit_exec::{collect_step, staged};
use crate::stage::row_changes::RowChanges;
use crate::stage::scope::Done;
use crate::stage::stop::Stop;
use crate::stage::write_exec::{WriteExec, WriteSpec};
use crate::store::ObjectName;
use crate::table::schema::{Field, FieldId, TableSchema};
use crate::txn::action::{Action, AddField, ConfigUpdate, ResetTable};
use crate::txn::composite::{CommitFacts, RowCounts, Step};
use crate::txn::refs::{Ref, Token};
use datafusion::arrow::datatypes::{FieldRef, Fields, Schema};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{CreateMemoryTable, LogicalPlan};
use datafusion::parquet::arrow::ArrowSchemaConverter;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Creates a table. What `definition` says of its rows DataFusion's plan has forgotten.
pub async fn create_table(
    lake: &Lake,
    state: &SessionState,
    create: &CreateMemoryTable,
    definition: &Definition,
    statement: &str,
) -> Result<Done> {
    let name = create.name.table().to_owned();
    check(create, &name)?;
    if lake.find(&name).await?.is_some() {
        if create.if_not_exists {
            return Ok(done(0, None, 0));
        }
        return Err(Error::TableExists { table: name });
    }
    let table = lake.new_table(&name);
    let made = make(state, &table.log, create, definition, FieldId(1), statement).await?;
    let inserted = made.step.counts.inserted;
    let files_written = made.objects.len();
    let first = staged(0, made.step, vec![], made.objects);
    match lake.create_table(table, first).await {
        Ok(version) => Ok(done(inserted, Some(version), files_written)),
        Err(Error::TableExists { .. }) if create.if_not_exists => Ok(done(0, None, 0)),
        Err(error) => Err(error),
    }
}

/// What a statement makes of a table by itself.
pub struct Made {
    /// Its actions.
    pub step: Step,
    /// The objects that were written for it.
    pub objects: Vec<ObjectName>,
}

/// The table anew: all that was in `base` goes, properties too.
pub async fn replacement(
    state: &SessionState,
    log: &VersionLog,
    base: &Snapshot,
    create: &CreateMemoryTable,
    definition: &Definition,
    statement: &str,
) -> Result<Made> {
    let mut made = make(state, log, create, definition, base.counters.field, statement).await?;
    let mut before = vec![Action::ResetTable(ResetTable)];
    if !base.config.is_empty() {
        before.push(Action::ConfigUpdate(ConfigUpdate { entries: BTreeMap::new(), replace: true }));
    }
    made.step.actions.splice(0..0, before);
    made.step.counts.deleted = base.fragments.live_rows();
    Ok(made)
}

/// The fields, numbered from `first` on, and the rows of a table.
async fn make(
    state: &SessionState,
    log: &VersionLog,
    create: &CreateMemoryTable,
    definition: &Definition,
    first: FieldId,
    statement: &str,
) -> Result<Made> {
    let name = create.name.table().to_owned();
    let (schema, query) = match create.input.as_ref() {
        LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row => (schema(&name, create.input.schema().as_arrow(), first)?, None),
        query => {
            // Only now it is known of which types the columns are: CASE and UNION are coerced.
            let query = state.optimize(query)?;
            let columns = columns_of_query(query.schema().as_arrow(), &definition.not_null);
            (schema(&name, &columns, first)?, Some(query))
        }
    };
    let entries = definition.properties(&name, &schema)?;
    let schema = Arc::new(schema);
    let operation = if create.or_replace { "CREATE OR REPLACE TABLE" } else { "CREATE TABLE" };
    let step = match query {
        None => Step { operation: operation.into(), ..Step::default() },
        Some(query) => {
            let operation = if create.or_replace { "CREATE OR REPLACE TABLE AS" } else { "CREATE TABLE AS" };
            let stop = Arc::<Stop>::default();
            let spec = WriteSpec {
                table: name.clone(),
                store: log.store().clone(),
                schema: schema.clone(),
                changes: RowChanges::Insert,
                rows_per_fragment: options(state.config_options()).rows_per_fragment,
                max_inline_bytes: options(state.config_options()).max_inline_bytes,
                checks: vec![],
                returned: None,
                stop: stop.clone(),
            };
            let plan = state.create_physical_plan(&query).await?;
            let write = Arc::new(CoalescePartitionsExec::new(Arc::new(WriteExec::new(plan, Arc::new(spec)))));
            collect_step(write, operation, statement.to_owned(), log, &stop, state.task_ctx()).await?
        }
    };
    let mut made = of_nothing(step, &schema, first, statement);
    if !entries.is_empty() {
        made.step.actions.push(Action::ConfigUpdate(ConfigUpdate { entries, replace: false }));
    }
    Ok(made)
}

pub(super) fn done(inserted: u64, version: Option<u64>, files_written: usize) -> Done {
    let counts = RowCounts { inserted, ..RowCounts::default() };
    let facts = CommitFacts { attempts: u32::from(version.is_some()), ..CommitFacts::default() };
    Done { operation: "CREATE TABLE".into(), counts, version, facts, files_written, conflicts: vec![] }
}

/// Refuses what a table cannot have yet.
pub fn check(create: &CreateMemoryTable, name: &str) -> Result<()> {
    let refuse = |what: &str, instead: Option<&str>| Err(Error::unsupported(format!("CREATE TABLE '{name}' with {what}"), instead));
    if create.or_replace && create.if_not_exists {
        return refuse("OR REPLACE and IF NOT EXISTS", Some("say one of them"));
    }
    if create.temporary {
        return refuse("TEMPORARY", None);
    }
    check_name(name)?;
    match create.name.schema() {
        None | Some(super::lake::DEFAULT_NAMESPACE) => Ok(()),
        Some(namespace) => refuse(&format!("the namespace '{namespace}'"), Some("tables live in the namespace public")),
    }
}

/// Refuses a name that would be read as something else.
pub(super) fn check_name(name: &str) -> Result<()> {
    match name.contains('@') {
        true => Err(Error::unsupported(format!("CREATE TABLE '{name}' with '@' in its name"), Some("t@v3 means version 3 of t"))),
        false => Ok(()),
    }
}

/// A query's columns as a table's: that a query happens to yield no NULL in a column is not a rule that anybody has set.
fn columns_of_query(columns: &Schema, not_null: &[usize]) -> Schema {
    let column = |(position, column): (usize, &FieldRef)| column.as_ref().clone().with_nullable(!not_null.contains(&position));
    Schema::new(columns.fields().iter().enumerate().map(column).collect::<Fields>())
}

/// The table's schema: fields numbered from `first` on, and all of types that Parquet can hold.
pub fn schema(table: &str, arrow: &Schema, first: FieldId) -> Result<TableSchema> {
    if arrow.fields().is_empty() {
        return Err(Error::invalid(format!("table '{table}' needs a column")));
    }
    for field in arrow.fields() {
        if address::is_reserved(field.name()) {
            return Err(Error::invalid(format!("table '{table}': the column name '{}' is reserved", field.name())));
        }
        let alone = Schema::new(vec![field.as_ref().clone()]);
        if let Err(error) = ArrowSchemaConverter::new().convert(&alone) {
            let what = format!("column '{}' of table '{table}' of type {}", field.name(), field.data_type());
            return Err(Error::unsupported(what, Some(&error.to_string())));
        }
    }
    TableSchema::from_arrow(arrow, first).map_err(|reason| Error::invalid(format!("table '{table}': {reason}")))
}

/// What makes a table of nothing: fields, then rows that refer to them by token.
pub(super) fn of_nothing(rows: Step, schema: &TableSchema, first: FieldId, statement: &str) -> Made {
    let objects = objects(rows.actions.iter());
    let token = |id: FieldId| Token((id.0 - first.0) as u32);
    let mut actions: Vec<Action> = schema.fields().iter().map(|field| Action::AddField(add_field(field, token))).collect();
    for mut action in rows.actions {
        if let Action::AddDataFile(add) = &mut action {
            for field in add.fields.iter_mut().flatten() {
                if let Ref::Committed(id) = *field {
                    *field = Ref::Local(token(id));
                }
            }
        }
        actions.push(action);
    }
    let step = Step { actions, statement: statement.to_owned(), ..rows };
    Made { step, objects }
}

/// The action that adds a field of a schema; `token` names fields by their ids in it.
pub fn add_field(field: &Field, token: impl Fn(FieldId) -> Token) -> AddField {
    AddField {
        id: Ref::Local(token(field.id)),
        parent: field.parent.map(|parent| Ref::Local(token(parent))),
        name: field.name.clone(),
        field_type: field.field_type.clone(),
        nullable: field.nullable,
        metadata: field.metadata.clone(),
    }
}
