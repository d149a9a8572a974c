//! ALTER TABLE: changes of the schema only, no row is rewritten. Rows that are there read as NULL in a new column; a dropped
//! column's values stay in their files, where only earlier versions find them.
//!
//! In goes the statement and the version that it reads, out comes a step. Operations of one statement follow one another: a
//! column may be dropped and another added under its name.

use super::create;
use super::parse::{UnsetProperties, fold, plain_name};
use crate::error::{Error, Result, nearest_name};
use crate::manifest::version::Version;
use crate::scan::address;
use crate::table::schema::{Field, FieldId, TableSchema};
use crate::txn::action::{Action, AlterField, ConfigUpdate, DropField};
use crate::txn::composite::Step;
use crate::txn::refs::{FieldRef, Ref, Token};
use datafusion::arrow::datatypes::Schema;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ColumnOption, Expr, Ident, SqlOption, Statement, Value,
};
use std::collections::BTreeMap;

/// What is altered.
#[derive(Debug, Clone, Copy)]
pub enum Alteration<'a> {
    /// As DataFusion parses it.
    Operations(&'a AlterTable),
    /// Properties go.
    Unset(&'a UnsetProperties),
}

impl Alteration<'_> {
    /// The table.
    pub fn table(&self) -> Result<String> {
        match self {
            Alteration::Operations(alter) => plain_name(&alter.name),
            Alteration::Unset(unset) => Ok(unset.table.clone()),
        }
    }

    /// Whether it is no error that there is no such table.
    pub fn if_exists(&self) -> bool {
        match self {
            Alteration::Operations(alter) => alter.if_exists,
            Alteration::Unset(unset) => unset.if_exists,
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
            | AlterTableOperation::AlterColumn { op: AlterColumnOperation::DropNotNull, .. } => continue,
            AlterTableOperation::AlterColumn { op: AlterColumnOperation::SetNotNull, .. } => Some("a new table can have NOT NULL columns"),
            AlterTableOperation::AlterColumn { op: AlterColumnOperation::SetDataType { .. }, .. } => {
                Some("add a column of that type, UPDATE it from the old one, and drop the old one")
            }
            _ => None,
        };
        return Err(Error::unsupported(format!("ALTER TABLE .. {operation}"), instead));
    }
    Ok(())
}

/// The step that alters the table as it is in `base`.
pub async fn step(state: &SessionState, table: &str, base: &Version, alteration: Alteration<'_>, statement: &str) -> Result<Step> {
    check(alteration)?;
    let mut altering = Altering::new(table, &base.snapshot.schema);
    let operations = match alteration {
        Alteration::Operations(alter) => alter.operations.as_slice(),
        Alteration::Unset(unset) => {
            altering.configure(unset.keys.iter().map(|key| (key.clone(), None)).collect());
            &[]
        }
    };
    for operation in operations {
        match operation {
            AlterTableOperation::AddColumn { column_def, if_not_exists, .. } => {
                altering.add(&arrow_field(state, table, column_def).await?, *if_not_exists)?;
            }
            AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
                column_names.iter().try_for_each(|name| altering.drop(name, *if_exists))?;
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => altering.rename(old_column_name, new_column_name)?,
            AlterTableOperation::SetTblProperties { table_properties } => {
                altering.configure(table_properties.iter().map(|option| property(table, option)).collect::<Result<_>>()?);
            }
            AlterTableOperation::AlterColumn { column_name, .. } => altering.drop_not_null(column_name)?,
            other => return Err(Error::unsupported(format!("ALTER TABLE .. {other}"), None)),
        }
    }
    Ok(Step { operation: "ALTER TABLE".into(), statement: statement.to_owned(), actions: altering.actions, ..Step::default() })
}

/// A column as the operations so far have left it.
struct Column {
    name: String,
    field: FieldRef,
    nullable: bool,
}

/// A table on its way to another schema.
struct Altering<'a> {
    table: &'a str,
    columns: Vec<Column>,
    actions: Vec<Action>,
    next_token: u32,
}

impl<'a> Altering<'a> {
    fn new(table: &'a str, schema: &TableSchema) -> Self {
        let column = |field: &Field| Column { name: field.name.clone(), field: Ref::Committed(field.id), nullable: field.nullable };
        Altering { table, columns: schema.columns().map(column).collect(), actions: Vec::new(), next_token: 0 }
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

    fn add(&mut self, definition: &Schema, if_not_exists: bool) -> Result<()> {
        let table = self.table;
        let column = definition.field(0);
        let name = column.name();
        match (self.position(name), if_not_exists) {
            (None, _) => {}
            (Some(_), true) => return Ok(()),
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
        self.columns.push(Column { name: name.clone(), field: Ref::Local(Token(first)), nullable: true });
        self.next_token += numbered.fields().len() as u32;
        Ok(())
    }

    fn drop(&mut self, name: &Ident, if_exists: bool) -> Result<()> {
        let at = match self.position(&fold(name)) {
            None if if_exists => return Ok(()),
            None => return self.column(name).map(|_| ()),
            Some(at) => at,
        };
        if self.columns.len() == 1 {
            return Err(Error::invalid(format!("column {name} is the last one of table '{}'; DROP TABLE drops it", self.table)));
        }
        let Column { field, .. } = self.columns.remove(at);
        self.actions.push(Action::DropField(DropField { field }));
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
        self.actions.push(Action::AlterField(AlterField { field, parent: None, name: Some(name), field_type: None, nullable: None }));
        Ok(())
    }

    fn configure(&mut self, entries: BTreeMap<String, Option<String>>) {
        self.actions.push(Action::ConfigUpdate(ConfigUpdate { entries, replace: false }));
    }

    fn drop_not_null(&mut self, name: &Ident) -> Result<()> {
        let column = self.column(name)?;
        if column.nullable {
            return Ok(());
        }
        column.nullable = true;
        let field = column.field;
        self.actions.push(Action::AlterField(AlterField { field, parent: None, name: None, field_type: None, nullable: Some(true) }));
        Ok(())
    }
}

/// A property and its value: a text or a number.
fn property(table: &str, option: &SqlOption) -> Result<(String, Option<String>)> {
    let wrong = || Error::invalid(format!("table '{table}': properties are written as ('name' = 'value', ..), not {option}"));
    let SqlOption::KeyValue { key, value: Expr::Value(value) } = option else { return Err(wrong()) };
    let value = match &value.value {
        Value::SingleQuotedString(text) => text.clone(),
        Value::Number(number, _) => number.clone(),
        Value::Boolean(flag) => flag.to_string(),
        _ => return Err(wrong()),
    };
    Ok((key.value.clone(), Some(value)))
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
    let parsed = super::parse::parse(&create)?;
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
