//! ALTER TABLE: changes of the schema and the constraints only, no row is rewritten. Rows that are there read as NULL in a new column; a dropped
//! column's values stay in their files, where only earlier versions find them.
//!
//! In goes the statement and the version that it reads, out comes a step. Operations of one statement follow one another: a
//! column may be dropped and another added under its name.

use super::constraints::{self, Asked};
use super::names::Names;
use super::parse::{FilesOf, UnsetProperties, fold};
use super::{adopt, create};
use crate::error::{Error, Result, nearest_name};
use crate::manifest::catalog::TableName;
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::Snapshot;
use crate::manifest::version::Version;
use crate::scan::address;
use crate::scan::expression;
use crate::scan::isolation::{ISOLATION, Isolation};
use crate::scan::provider::LakeTable;
use crate::table::constraint::{self, Constraint, Rule};
use crate::table::schema::{Field, FieldId, FieldType, TableSchema};
use crate::txn::action::{Action, AlterField, ConfigUpdate, DropField};
use crate::txn::composite::Step;
use crate::txn::refs::{FieldRef, Ref, Token};
use datafusion::arrow::datatypes::Schema;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ColumnOption, DropBehavior, Expr as SqlExpr, Ident, ObjectName,
    SqlOption, Statement, Value,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

mod validate;

/// How a column gets a type that is not wider.
const REWRITE: &str = "add a column of that type, UPDATE it from the old one, and drop the old one";
/// The property that says what a table is.
const COMMENT: &str = "comment";

/// What is altered.
#[derive(Debug, Clone, Copy)]
pub enum Alteration<'a> {
    /// As DataFusion parses it.
    Operations(&'a AlterTable),
    /// Properties go.
    Unset(&'a UnsetProperties),
    /// The table is said to be something: kept as its property `comment`.
    Comment {
        /// The table.
        table: &'a ObjectName,
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
            Alteration::Comment { table, .. } => names.table(table),
            Alteration::AddFiles { files, .. } => Ok(files.table.clone()),
        }
    }

    /// Whether it is no error that there is no such table.
    pub fn if_exists(&self) -> bool {
        match self {
            Alteration::Operations(alter) => alter.if_exists,
            Alteration::Unset(unset) => unset.if_exists,
            Alteration::Comment { if_exists, .. } => *if_exists,
            Alteration::AddFiles { files, .. } => files.lenient,
        }
    }
}

/// Refuses a statement that cannot be run, whatever the table.
pub fn check(alteration: Alteration<'_>) -> Result<()> {
    let Alteration::Operations(alter) = alteration else { return Ok(()) };
    for operation in &alter.operations {
        let instead = match operation {
            AlterTableOperation::AddColumn { column_position: None, .. }
            | AlterTableOperation::DropColumn { .. }
            | AlterTableOperation::RenameColumn { .. }
            | AlterTableOperation::SetTblProperties { .. }
            | AlterTableOperation::AddConstraint { not_valid: false, .. }
            | AlterTableOperation::DropConstraint { .. }
            | AlterTableOperation::AlterColumn {
                op:
                    AlterColumnOperation::DropNotNull
                    | AlterColumnOperation::SetNotNull
                    | AlterColumnOperation::SetDefault { .. }
                    | AlterColumnOperation::DropDefault
                    | AlterColumnOperation::SetDataType { using: None, .. },
                ..
            } => continue,
            AlterTableOperation::AlterColumn { op: AlterColumnOperation::SetDataType { .. }, .. } => Some(REWRITE),
            _ => None,
        };
        return Err(Error::unsupported(format!("ALTER TABLE .. {operation}"), instead));
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
) -> Result<Step> {
    check(alteration)?;
    let table = log.table();
    let mut altering = Altering::new(table, &base.snapshot)?;
    let operations = match alteration {
        Alteration::Operations(alter) => alter.operations.as_slice(),
        Alteration::Unset(unset) => {
            altering.set(unset.keys.iter().map(|key| (key.clone(), None)).collect())?;
            &[]
        }
        Alteration::Comment { comment, .. } => {
            altering.set([(COMMENT.to_owned(), comment.map(str::to_owned))].into())?;
            &[]
        }
        Alteration::AddFiles { files, lake } => return adopt::add_files(table, base.as_ref(), &files.pattern, lake, statement).await,
    };
    for operation in operations {
        match operation {
            AlterTableOperation::AddColumn { column_def, if_not_exists, .. } => {
                let mut plain = column_def.clone();
                plain.options.retain(|option| !matches!(option.option, ColumnOption::Check(_) | ColumnOption::Unique(_)));
                if altering.add(&arrow_field(state, table, &plain).await?, *if_not_exists)? {
                    for option in column_def.options.iter().filter(|option| !plain.options.contains(option)) {
                        Asked::of_column(&column_def.name, option)?.iter().try_for_each(|asked| altering.constrain(asked))?;
                    }
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
            AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::DropNotNull } => {
                altering.drop_not_null(column_name)?
            }
            AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::SetNotNull } => altering.set_not_null(column_name)?,
            AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::SetDataType { data_type, .. } } => {
                let definition = ColumnDef { name: column_name.clone(), data_type: data_type.clone(), options: vec![] };
                altering.widen(column_name, &arrow_field(state, table, &definition).await?)?;
            }
            other => return Err(Error::unsupported(format!("ALTER TABLE .. {other}"), None)),
        }
    }
    for field in &altering.to_look_at {
        look_for_nulls(state, log, base, *field).await?;
    }
    let schema = altering.schema()?;
    for constraint in &altering.constraints {
        // Types may be others than they were.
        if let Rule::Check(kept) = &constraint.rule {
            expression::condition(table, kept, &schema)?;
        }
    }
    for constraint in altering.constraints.iter().filter(|constraint| altering.added.contains(&constraint.name)) {
        validate::hold(state, log, base, &schema, constraint).await?;
    }
    Ok(Step { operation: "ALTER TABLE".into(), statement: statement.to_owned(), actions: altering.actions, ..Step::default() })
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

/// A column as the operations so far have left it.
struct Column {
    name: String,
    field: FieldRef,
    field_type: FieldType,
    nullable: bool,
}

/// A table on its way to another schema.
struct Altering<'a> {
    table: &'a str,
    columns: Vec<Column>,
    actions: Vec<Action>,
    next_token: u32,
    /// Fields of which no row may be NULL.
    to_look_at: Vec<FieldId>,
    /// All fields, under the ids that they will have if nobody else adds one.
    fields: Vec<Field>,
    /// The id of the first field that is new.
    next_field: FieldId,
    /// The constraints.
    constraints: Vec<Constraint>,
    /// The names of those that are new.
    added: Vec<String>,
    /// The fields that have a default.
    defaults: BTreeSet<FieldId>,
}

impl<'a> Altering<'a> {
    fn new(table: &'a str, snapshot: &Snapshot) -> Result<Self> {
        let schema = &snapshot.schema;
        let constraints = constraint::constraints(&snapshot.config).map_err(|reason| Error::damaged(table, "its properties", reason))?;
        let column = |field: &Field| Column {
            name: field.name.clone(),
            field: Ref::Committed(field.id),
            field_type: field.field_type.clone(),
            nullable: field.nullable,
        };
        let columns = schema.columns().map(column).collect();
        Ok(Altering {
            table,
            columns,
            actions: Vec::new(),
            next_token: 0,
            to_look_at: Vec::new(),
            fields: schema.fields().to_vec(),
            next_field: snapshot.counters.field,
            constraints,
            added: Vec::new(),
            defaults: constraint::defaults(&snapshot.config).into_keys().collect(),
        })
    }

    /// The schema so far.
    fn schema(&self) -> Result<TableSchema> {
        TableSchema::new(self.fields.clone()).map_err(|reason| Error::internal(format!("table '{}': {reason}", self.table)))
    }

    /// The id that a field has, or will have.
    fn id(&self, field: FieldRef) -> FieldId {
        match field {
            Ref::Committed(id) => id,
            Ref::Local(token) => FieldId(self.next_field.0 + token.0 as i32),
        }
    }

    /// A column's field so far.
    fn field_mut(&mut self, field: FieldRef) -> Result<&mut Field> {
        let id = self.id(field);
        let missing = || Error::internal(format!("table '{}' has no field {id}", self.table));
        self.fields.iter_mut().find(|field| field.id == id).ok_or_else(missing)
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    fn column(&mut self, name: &Ident) -> Result<&mut Column> {
        let name = fold(name);
        let nearest = nearest_name(&name, self.columns.iter().map(|column| column.name.as_str()));
        match self.columns.iter_mut().find(|column| column.name == name) {
            Some(column) => Ok(column),
            None => Err(Error::UnknownColumn { table: self.table.to_owned(), column: name, nearest }),
        }
    }

    /// Adds a column, unless it is there and may be.
    fn add(&mut self, definition: &Schema, if_not_exists: bool) -> Result<bool> {
        let table = self.table;
        let column = definition.field(0);
        let name = column.name();
        match (self.position(name), if_not_exists) {
            (None, _) => {}
            (Some(_), true) => return Ok(false),
            (Some(_), false) => return Err(Error::ColumnExists { table: table.to_owned(), column: name.clone() }),
        }
        if !column.is_nullable() {
            let what = format!("ADD COLUMN '{name}' NOT NULL on table '{table}'");
            return Err(Error::unsupported(what, Some("add it without NOT NULL: rows that are there read as NULL")));
        }
        let plain = create::schema(table, definition, FieldId(1))?.to_plain_arrow();
        let numbered = TableSchema::from_arrow(plain.as_ref(), FieldId(1)).map_err(Error::invalid)?;
        let first = self.next_token;
        let token = |id: FieldId| Token(first + (id.0 - 1) as u32);
        self.actions.extend(numbered.fields().iter().map(|field| Action::AddField(create::add_field(field, token))));
        let field_type = numbered.fields().first().map_or(FieldType::Struct, |field| field.field_type.clone());
        self.columns.push(Column { name: name.clone(), field: Ref::Local(Token(first)), field_type, nullable: true });
        self.next_token += numbered.fields().len() as u32;
        let of_table = |id: FieldId| FieldId(self.next_field.0 + first as i32 + id.0 - 1);
        let fields =
            numbered.fields().iter().map(|field| Field { id: of_table(field.id), parent: field.parent.map(of_table), ..field.clone() });
        self.fields.extend(fields);
        Ok(true)
    }

    fn drop(&mut self, name: &Ident, if_exists: bool, cascade: bool) -> Result<()> {
        let at = match self.position(&fold(name)) {
            None if if_exists => return Ok(()),
            None => return self.column(name).map(|_| ()),
            Some(at) => at,
        };
        if self.columns.len() == 1 {
            return Err(Error::invalid(format!("column {name} is the last one of table '{}'; DROP TABLE drops it", self.table)));
        }
        let Column { field, .. } = self.columns.remove(at);
        let id = self.id(field);
        let about: Vec<String> = self
            .constraints
            .iter()
            .filter(|constraint| constraint.fields.contains(&id))
            .map(|constraint| constraint.name.clone())
            .collect();
        match about.first() {
            Some(constraint) if !cascade => {
                let reason = format!(
                    "column {name} of table '{}' cannot be dropped: the constraint '{constraint}' is about it; DROP COLUMN .. CASCADE drops both",
                    self.table
                );
                return Err(refused(reason, "2BP01"));
            }
            _ => about.iter().try_for_each(|constraint| self.drop_constraint(constraint, false))?,
        }
        let mut gone = BTreeSet::from([id]);
        self.fields.retain(|field| {
            // Parts follow their column.
            let goes = gone.contains(&field.id) || field.parent.is_some_and(|parent| gone.contains(&parent));
            if goes {
                gone.insert(field.id);
            }
            !goes
        });
        self.actions.push(Action::DropField(DropField { field }));
        if self.defaults.contains(&id) {
            self.configure([(constraint::default_key(id), None)].into());
        }
        Ok(())
    }

    /// Adds a constraint; the rows are held against it later.
    fn constrain(&mut self, asked: &Asked) -> Result<()> {
        let constraint = asked.constraint(self.table, &self.schema()?, &self.constraints)?;
        for column in asked.primary_key().unwrap_or_default() {
            self.set_not_null(column)?;
            // So that nobody else makes it nullable meanwhile.
            let field = self.column(column)?.field;
            self.actions.push(Action::AlterField(AlterField { field, parent: None, name: None, field_type: None, nullable: Some(false) }));
        }
        self.configure([(constraint.key(), Some(constraint.value()))].into());
        self.added.push(constraint.name.clone());
        self.constraints.push(constraint);
        Ok(())
    }

    fn drop_constraint(&mut self, name: &str, if_exists: bool) -> Result<()> {
        let Some(at) = self.constraints.iter().position(|constraint| constraint.name == name) else {
            let nearest = nearest_name(name, self.constraints.iter().map(|constraint| constraint.name.as_str()));
            let nearest = nearest.map(|nearest| format!("; did you mean '{nearest}'?")).unwrap_or_default();
            let reason = format!("constraint '{name}' does not exist in table '{}'{nearest}", self.table);
            return if if_exists { Ok(()) } else { Err(refused(reason, "42704")) };
        };
        let constraint = self.constraints.remove(at);
        self.added.retain(|added| *added != constraint.name);
        self.configure([(constraint.key(), None)].into());
        Ok(())
    }

    fn set_default(&mut self, column: &Ident, value: Option<&SqlExpr>) -> Result<()> {
        let field = self.column(column)?.field;
        let id = self.id(field);
        let schema = self.schema()?;
        let kept = match (value, schema.field(id)) {
            (Some(value), Some(field)) => Some(constraints::default(self.table, &schema, field, value)?),
            _ => None,
        };
        let had = match &kept {
            Some(_) => !self.defaults.insert(id),
            None => self.defaults.remove(&id),
        };
        if kept.is_some() || had {
            self.configure([(constraint::default_key(id), kept)].into());
        }
        Ok(())
    }

    /// Sets and removes properties that are users'.
    fn set(&mut self, entries: BTreeMap<String, Option<String>>) -> Result<()> {
        if let Some(reserved) = entries.keys().find(|key| constraint::is_reserved(key)) {
            let what = format!("setting the property '{reserved}' of table '{}'", self.table);
            return Err(Error::unsupported(what, Some("say ADD CONSTRAINT, DROP CONSTRAINT, SET DEFAULT or DROP DEFAULT")));
        }
        self.configure(entries);
        Ok(())
    }

    fn rename(&mut self, from: &Ident, to: &Ident) -> Result<()> {
        let name = fold(to);
        let field = self.column(from)?.field;
        if self.position(&name).is_some() {
            return Err(Error::ColumnExists { table: self.table.to_owned(), column: name });
        }
        if address::is_reserved(&name) {
            return Err(Error::invalid(format!("table '{}': the column name '{name}' is reserved", self.table)));
        }
        self.column(from)?.name.clone_from(&name);
        self.field_mut(field)?.name.clone_from(&name);
        self.actions.push(Action::AlterField(AlterField { field, parent: None, name: Some(name), field_type: None, nullable: None }));
        Ok(())
    }

    fn configure(&mut self, entries: BTreeMap<String, Option<String>>) {
        self.actions.push(Action::ConfigUpdate(ConfigUpdate { entries, replace: false }));
    }

    fn drop_not_null(&mut self, name: &Ident) -> Result<()> {
        let table = self.table;
        let column = self.column(name)?;
        if column.nullable {
            return Ok(());
        }
        column.nullable = true;
        let field = column.field;
        let id = self.id(field);
        if let Some(key) = self.constraints.iter().find(|key| key.rule == Rule::PrimaryKey && key.fields.contains(&id)) {
            return Err(refused(format!("column {name} of table '{table}' is in its primary key, '{}'", key.name), "42P16"));
        }
        self.field_mut(field)?.nullable = true;
        self.actions.push(Action::AlterField(AlterField { field, parent: None, name: None, field_type: None, nullable: Some(true) }));
        Ok(())
    }

    fn set_not_null(&mut self, name: &Ident) -> Result<()> {
        let table = self.table;
        let column = self.column(name)?;
        if !column.nullable {
            return Ok(());
        }
        let Ref::Committed(id) = column.field else {
            let what = format!("SET NOT NULL of column '{}' of table '{table}', which the same statement adds,", column.name);
            return Err(Error::unsupported(what, Some("add it, UPDATE it, then set it NOT NULL")));
        };
        column.nullable = false;
        let field = column.field;
        self.field_mut(field)?.nullable = false;
        self.to_look_at.push(id);
        self.actions.push(Action::AlterField(AlterField { field, parent: None, name: None, field_type: None, nullable: Some(false) }));
        Ok(())
    }

    fn widen(&mut self, name: &Ident, definition: &Schema) -> Result<()> {
        let table = self.table;
        let column = self.column(name)?;
        let arrow = definition.field(0).data_type();
        let wider = if arrow.is_nested() { None } else { Some(FieldType::Leaf(arrow.clone())) };
        let Some(wider) = wider.filter(|wider| column.field_type.widens_to(wider)) else {
            let from = match &column.field_type {
                FieldType::Leaf(from) => from.to_string(),
                nested => format!("{nested:?}"),
            };
            let what = format!("ALTER COLUMN '{}' of table '{table}' from type {from} to {arrow}", column.name);
            return Err(Error::unsupported(what, Some(REWRITE)));
        };
        if wider == column.field_type {
            return Ok(());
        }
        column.field_type = wider.clone();
        let field = column.field;
        self.field_mut(field)?.field_type = wider.clone();
        self.actions.push(Action::AlterField(AlterField { field, parent: None, name: None, field_type: Some(wider), nullable: None }));
        Ok(())
    }
}

/// A property and its value: a text or a number.
fn property(table: &str, option: &SqlOption) -> Result<(String, Option<String>)> {
    let wrong = || Error::invalid(format!("table '{table}': properties are written as ('name' = 'value', ..), not {option}"));
    let SqlOption::KeyValue { key, value: SqlExpr::Value(value) } = option else { return Err(wrong()) };
    let value = match &value.value {
        Value::SingleQuotedString(text) => text.clone(),
        Value::Number(number, _) => number.clone(),
        Value::Boolean(flag) => flag.to_string(),
        _ => return Err(wrong()),
    };
    if key.value == ISOLATION {
        value.parse::<Isolation>()?;
    }
    Ok((key.value.clone(), Some(value)))
}

/// The Arrow field of a column definition, as DataFusion plans it in a CREATE TABLE.
async fn arrow_field(state: &SessionState, table: &str, definition: &ColumnDef) -> Result<Schema> {
    for option in &definition.options {
        match option.option {
            ColumnOption::Null | ColumnOption::NotNull => {}
            ColumnOption::Default(_) => {
                let what = format!("ADD COLUMN with {} on table '{table}'", option.option);
                return Err(Error::unsupported(what, Some("add it, UPDATE the rows that are there, then ALTER COLUMN .. SET DEFAULT")));
            }
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
