//! ALTER TABLE: changes of the schema and the constraints. Rows that are there have the initial value of a new column; a dropped
//! column's values stay in their files, where only earlier versions find them. Values are written only for a type that is not wider, and
//! for USING.
//!
//! In goes the statement and the version that it reads, out comes a step. Operations of one statement follow one another: a
//! column may be dropped and another added under its name, and USING sees the values that those before it have left. What a failed one
//! has written is removed.

use super::adopt;
use super::constraints::{Asked, generated_as};
use super::names::Names;
use super::parse::{AlterParts, FilesOf, PartOperation, UnsetProperties};
use super::properties::{COMMENT, columns_to_cluster_by, property};
use crate::commit::staged::{objects, remove};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::catalog::TableName;
use crate::manifest::log::VersionLog;
use crate::manifest::version::Version;
use crate::scan::expression;
use crate::scan::expression::fold;
use crate::scan::generated;
use crate::scan::provider::LakeTable;
use crate::table::constraint::Rule;
use crate::table::schema::{FieldId, TableSchema};
use crate::txn::composite::Step;
use altering::Altering;
use datafusion::arrow::datatypes::Schema;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ColumnOption, DropBehavior, Ident, ObjectName, Statement,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

mod altering;
mod initial;
mod retype;
mod validate;

/// What is altered.
#[derive(Debug, Clone, Copy)]
pub enum Alteration<'a> {
    /// As DataFusion parses it.
    Operations(&'a AlterTable),
    /// Properties go.
    Unset(&'a UnsetProperties),
    /// Parts of columns come, go, or are called otherwise.
    Parts(&'a AlterParts),
    /// The table is said to be something: kept as its property `comment`.
    Comment {
        /// The table.
        table: &'a ObjectName,
        /// Whether it is no error that there is no such table.
        if_exists: bool,
        /// What it is; `None` if nothing is said any more.
        comment: Option<&'a str>,
    },
    /// A column is said to be something.
    ColumnComment {
        /// The column, after its table.
        column: &'a ObjectName,
        /// Whether it is no error that there is no such table.
        if_exists: bool,
        /// What it is; `None` if nothing is said any more.
        comment: Option<&'a str>,
    },
    /// Files of others become part of the table.
    AddFiles {
        /// Which, and the table.
        files: &'a FilesOf,
        /// The lake's folder, whose own files are none of others.
        lake: &'a str,
    },
}

impl Alteration<'_> {
    /// The table.
    pub fn table(&self, names: &Names) -> Result<TableName> {
        match self {
            Alteration::Operations(alter) => names.table(&alter.name),
            Alteration::Unset(unset) => Ok(unset.table.clone()),
            Alteration::Parts(parts) => Ok(parts.table.clone()),
            Alteration::Comment { table, .. } => names.table(table),
            Alteration::ColumnComment { column, .. } => {
                let (table, _) = column_in_table(column)?;
                names.table(&table)
            }
            Alteration::AddFiles { files, .. } => Ok(files.table.clone()),
        }
    }

    /// Whether it is no error that there is no such table.
    pub fn if_exists(&self) -> bool {
        match self {
            Alteration::Operations(alter) => alter.if_exists,
            Alteration::Unset(unset) => unset.if_exists,
            Alteration::Parts(parts) => parts.if_exists,
            Alteration::Comment { if_exists, .. } | Alteration::ColumnComment { if_exists, .. } => *if_exists,
            Alteration::AddFiles { files, .. } => files.lenient,
        }
    }
}

/// Refuses a statement that cannot be run, whatever the table.
pub fn check(alteration: Alteration<'_>) -> Result<()> {
    let Alteration::Operations(alter) = alteration else { return Ok(()) };
    for operation in &alter.operations {
        let what = match operation {
            AlterTableOperation::AddColumn { column_position: None, .. }
            | AlterTableOperation::DropColumn { .. }
            | AlterTableOperation::RenameColumn { .. }
            | AlterTableOperation::SetTblProperties { .. }
            | AlterTableOperation::ClusterBy { .. }
            | AlterTableOperation::DropClusteringKey
            | AlterTableOperation::AddConstraint { not_valid: false, .. }
            | AlterTableOperation::DropConstraint { .. }
            | AlterTableOperation::AlterColumn {
                op:
                    AlterColumnOperation::DropNotNull
                    | AlterColumnOperation::SetNotNull
                    | AlterColumnOperation::SetDefault { .. }
                    | AlterColumnOperation::DropDefault
                    | AlterColumnOperation::SetDataType { .. },
                ..
            } => continue,
            _ => format!("ALTER TABLE .. {operation}"),
        };
        return Err(Error::unsupported(what, None));
    }
    Ok(())
}

/// The step that alters a table as it is in `base`.
pub async fn step(
    state: &SessionState,
    log: &Arc<VersionLog>,
    base: &Arc<Version>,
    alteration: Alteration<'_>,
    statement: &str,
) -> Result<Altered> {
    check(alteration)?;
    let table = log.table();
    let mut altering = Altering::new(table, &base.snapshot)?;
    let operations = match alteration {
        Alteration::Operations(alter) => alter.operations.as_slice(),
        Alteration::Unset(unset) => {
            altering.set(unset.keys.iter().map(|key| (key.clone(), None)).collect())?;
            &[]
        }
        Alteration::Parts(parts) => {
            for operation in &parts.operations {
                match operation {
                    PartOperation::Add { path, data_type, if_not_exists } => {
                        let Some(name) = path.last().cloned() else { continue };
                        let definition = ColumnDef { name, data_type: data_type.clone(), options: vec![] };
                        altering.add_part(path, &arrow_field(state, table, &definition).await?, *if_not_exists)?;
                    }
                    PartOperation::Drop { path, if_exists, cascade } => altering.drop_part(path, *if_exists, *cascade)?,
                    PartOperation::Rename { path, to } => altering.rename_part(path, to)?,
                    PartOperation::DropExpression { column, if_exists } => altering.drop_expression(column, *if_exists)?,
                }
            }
            &[]
        }
        Alteration::Comment { comment, .. } => {
            altering.set([(COMMENT.to_owned(), comment.map(str::to_owned))].into())?;
            &[]
        }
        Alteration::ColumnComment { column, comment, .. } => {
            let (_, column) = column_in_table(column)?;
            altering.comment(&column, comment)?;
            &[]
        }
        Alteration::AddFiles { files, lake } => {
            let step = adopt::add_files(log, base.as_ref(), &files.pattern, lake, statement).await?;
            return Ok(Altered { step, reads: BTreeSet::new() });
        }
    };
    for operation in operations {
        match operation {
            AlterTableOperation::AddColumn { column_def, if_not_exists, .. } => {
                let mut plain = column_def.clone();
                let made_of = column_def.options.iter().find_map(|option| generated_as(&option.option));
                plain.options.retain(|option| {
                    let own = matches!(option.option, ColumnOption::Check(_) | ColumnOption::Unique(_) | ColumnOption::Default(_));
                    !own && generated_as(&option.option).is_none()
                });
                let definition = arrow_field(state, table, &plain).await?;
                if !altering.is_new(&definition, *if_not_exists)? {
                    continue;
                }
                let default = column_def.options.iter().find_map(|option| match &option.option {
                    ColumnOption::Default(value) => Some(value),
                    _ => None,
                });
                let initial = match default {
                    Some(value) => initial::value(state, table, definition.field(0), value).await?,
                    None => None,
                };
                match made_of {
                    Some(_) if default.is_some() => {
                        let reason =
                            format!("column {} of table '{table}' has a DEFAULT and is generated; say one of them", column_def.name);
                        return Err(Error::invalid(reason));
                    }
                    Some(value) => altering.add_generated(&definition, value)?,
                    None => altering.add(&definition, initial)?,
                }
                if let Some(value) = default {
                    altering.set_default(&column_def.name, Some(value))?;
                }
                for option in &column_def.options {
                    Asked::of_column(&column_def.name, option)?.iter().try_for_each(|asked| altering.constrain(asked))?;
                }
            }
            AlterTableOperation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                let cascade = *drop_behavior == Some(DropBehavior::Cascade);
                column_names.iter().try_for_each(|name| altering.drop(name, *if_exists, cascade))?;
            }
            AlterTableOperation::AddConstraint { constraint, .. } => altering.constrain(&Asked::of_table(constraint)?)?,
            AlterTableOperation::DropConstraint { if_exists, name, .. } => altering.drop_constraint(&fold(name), *if_exists)?,
            AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::SetDefault { value } } => {
                altering.set_default(column_name, Some(value))?
            }
            AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::DropDefault } => {
                altering.set_default(column_name, None)?
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => altering.rename(old_column_name, new_column_name)?,
            AlterTableOperation::SetTblProperties { table_properties } => {
                altering.set(table_properties.iter().map(|option| property(table, option)).collect::<Result<_>>()?)?;
            }
            AlterTableOperation::ClusterBy { exprs } => altering.cluster_by(&columns_to_cluster_by(table, exprs)?)?,
            AlterTableOperation::DropClusteringKey => altering.cluster_by(&[])?,
            AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::DropNotNull } => {
                altering.drop_not_null(column_name)?
            }
            AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::SetNotNull } => altering.set_not_null(column_name)?,
            AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::SetDataType { data_type, using, .. } } => {
                let definition = ColumnDef { name: column_name.clone(), data_type: data_type.clone(), options: vec![] };
                altering.retype(column_name, &arrow_field(state, table, &definition).await?, using.as_ref())?;
            }
            other => return Err(Error::unsupported(format!("ALTER TABLE .. {other}"), None)),
        }
    }
    let schema = altering.schema()?;
    for constraint in &altering.constraints {
        // Types may be others than they were.
        if let Rule::Check(kept) = &constraint.rule {
            expression::condition(table, kept, &schema).map_err(|error| unfit(table, &constraint.name, error))?;
        }
    }
    for of in &altering.generated {
        // Names may be others: one that is not planned could not be read again.
        let Some(field) = schema.field(of.field) else { continue };
        generated::check(table, &of.expression, &schema, field).map_err(|error| unfit_generated(table, &field.name, error))?;
    }
    let mut planned = Vec::new();
    for conversion in std::mem::take(&mut altering.conversions) {
        planned.push(retype::planned(state, table, base, conversion, &planned)?);
    }
    let done = match retype::write(state, log, base, &planned, &mut altering.actions).await {
        Ok(()) => hold(state, log, base, &altering, &schema, &planned).await,
        failed => failed,
    };
    if let Err(error) = done {
        remove(log.store(), &objects(altering.actions.iter())).await;
        return Err(error);
    }
    let step = Step { operation: "ALTER TABLE".into(), statement: statement.to_owned(), actions: altering.actions, ..Step::default() };
    Ok(Altered { step, reads: planned.into_iter().flat_map(|planned| planned.reads).collect() })
}

/// The error for a constraint that means nothing of the new types, or of their parts.
fn unfit(table: &str, constraint: &str, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Invalid | ErrorKind::NotFound => {
            refused(format!("the constraint '{constraint}' of table '{table}' does not fit its columns: {error}"), "42804")
        }
        _ => error,
    }
}

/// The error for a generated column that cannot be computed of the new columns.
fn unfit_generated(table: &str, column: &str, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Invalid => {
            refused(format!("column '{column}' of table '{table}' cannot be generated of the new columns: {error}"), "42804")
        }
        _ => error,
    }
}

/// What an ALTER TABLE does.
pub struct Altered {
    /// Its actions.
    pub step: Step,
    /// The fields whose values decided what it writes.
    pub reads: BTreeSet<FieldId>,
}

/// Holds the rows to what is new: NOT NULL, and constraints.
async fn hold(
    state: &SessionState,
    log: &Arc<VersionLog>,
    base: &Arc<Version>,
    altering: &Altering<'_>,
    schema: &TableSchema,
    converted: &[retype::Planned],
) -> Result<()> {
    for field in &altering.to_look_at {
        look_for_nulls(state, log, base, *field).await?;
    }
    let values: BTreeMap<FieldId, Expr> = converted.iter().map(|planned| (planned.conversion.to, planned.value.clone())).collect();
    for constraint in altering.constraints.iter().filter(|constraint| altering.added.contains(&constraint.name)) {
        validate::hold(state, log, base, (schema, &values), constraint).await?;
    }
    Ok(())
}

/// Refuses a field that is NULL in a row that the session sees.
async fn look_for_nulls(state: &SessionState, log: &Arc<VersionLog>, base: &Arc<Version>, field: FieldId) -> Result<()> {
    let Some(column) = base.snapshot.schema.field(field) else { return Ok(()) };
    let table = Arc::new(LakeTable::new(log.clone(), None, base.clone()));
    let is_null = Expr::Column(datafusion::common::Column::from_name(&column.name)).is_null();
    let nulls = LogicalPlanBuilder::scan(log.table(), provider_as_source(table), None)?.filter(is_null)?.limit(0, Some(1))?.build()?;
    match DataFrame::new(state.clone(), nulls).count().await? {
        0 => Ok(()),
        _ => Err(Error::NotNull { table: log.table().to_owned(), column: column.name.clone() }),
    }
}

/// The error for a rule that does not fit others.
fn refused(reason: String, sqlstate: &'static str) -> Error {
    Error::Refused { reason, sqlstate }
}

/// A column's name, and that of its table.
fn column_in_table(name: &ObjectName) -> Result<(ObjectName, Ident)> {
    let wrong = || Error::invalid(format!("COMMENT ON COLUMN takes a column as in t.c, not {name}"));
    match name.0.split_last() {
        Some((column, table)) if !table.is_empty() => Ok((ObjectName(table.to_vec()), column.as_ident().cloned().ok_or_else(wrong)?)),
        _ => Err(wrong()),
    }
}

/// The Arrow field of a column definition, as DataFusion plans it in a CREATE TABLE.
async fn arrow_field(state: &SessionState, table: &str, definition: &ColumnDef) -> Result<Schema> {
    for option in &definition.options {
        match option.option {
            ColumnOption::Null | ColumnOption::NotNull => {}
            ref other => return Err(Error::unsupported(format!("ADD COLUMN with {other} on table '{table}'"), None)),
        }
    }
    let create = format!("CREATE TABLE amend_new_column ({definition})");
    let parsed = super::parse::parse(&create, &super::parse::Syntax::of(&state.config_options().sql_parser, Names::default())?)?;
    let super::parse::Command::Sql(parsed) = parsed else { return Err(Error::internal("a column definition is no SQL")) };
    match *parsed {
        DfStatement::Statement(parsed) if matches!(*parsed, Statement::CreateTable(_)) => {
            match state.statement_to_plan(DfStatement::Statement(parsed)).await? {
                LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => Ok(create.input.schema().as_arrow().clone()),
                other => Err(Error::internal(format!("a column definition is planned as {}", other.display()))),
            }
        }
        _ => Err(Error::internal("a column definition is no CREATE TABLE")),
    }
}
