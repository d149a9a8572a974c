//! ALTER TABLE .. ADD COLUMN: a change of the schema only; rows that are there read as NULL.

use super::create;
use crate::error::{Error, Result};
use crate::manifest::version::Version;
use crate::table::schema::{Field, FieldId, TableSchema};
use crate::txn::action::{Action, AddField};
use crate::txn::composite::Step;
use crate::txn::refs::{Ref, Token};
use datafusion::arrow::datatypes::Schema;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{AlterTable, AlterTableOperation, ColumnDef, ColumnOption, Statement};

/// The columns that a statement adds, or why it is not one that can be run.
pub fn added_columns(alter: &AlterTable) -> Result<Vec<(&ColumnDef, bool)>> {
    let mut columns = Vec::with_capacity(alter.operations.len());
    for operation in &alter.operations {
        match operation {
            AlterTableOperation::AddColumn { column_def, if_not_exists, column_position: None, .. } => {
                columns.push((column_def, *if_not_exists));
            }
            other => return Err(Error::unsupported(format!("ALTER TABLE .. {other}"), None)),
        }
    }
    Ok(columns)
}

/// The step that adds the columns to the table as it is in `base`.
pub async fn add_columns(state: &SessionState, table: &str, base: &Version, alter: &AlterTable, statement: &str) -> Result<Step> {
    let schema = &base.snapshot.schema;
    let mut actions = Vec::new();
    let mut next = 0;
    for (definition, if_not_exists) in added_columns(alter)? {
        let field = arrow_field(state, table, definition).await?;
        let name = field.field(0).name();
        let exists =
            schema.column(name).is_some() || actions.iter().any(|action| matches!(action, Action::AddField(add) if add.name == *name));
        match (exists, if_not_exists) {
            (false, _) => {}
            (true, true) => continue,
            (true, false) => return Err(Error::ColumnExists { table: table.to_owned(), column: name.clone() }),
        }
        if !field.field(0).is_nullable() {
            let what = format!("ADD COLUMN '{name}' NOT NULL on table '{table}'");
            return Err(Error::unsupported(what, Some("add it without NOT NULL: rows that are there read as NULL")));
        }
        let numbered =
            TableSchema::from_arrow(create::schema(table, &field)?.to_plain_arrow().as_ref(), FieldId(1)).map_err(Error::invalid)?;
        let token = |id: FieldId| Token(next + (id.0 - 1) as u32);
        actions.extend(numbered.fields().iter().map(|field| Action::AddField(action(field, token))));
        next += numbered.fields().len() as u32;
    }
    Ok(Step { operation: "ALTER TABLE".into(), statement: statement.to_owned(), actions, ..Step::default() })
}

fn action(field: &Field, token: impl Fn(FieldId) -> Token) -> AddField {
    AddField {
        token: token(field.id),
        parent: field.parent.map(|parent| Ref::Local(token(parent))),
        name: field.name.clone(),
        field_type: field.field_type.clone(),
        nullable: field.nullable,
        metadata: field.metadata.clone(),
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
