//! RETURNING: what a statement says of the rows that it changes.
//!
//! ```text
//!   statement layer   the expressions, over the names below        -> ReturningSource, in the place of the target
//!   rule              the plan of the rows, with a column for each -> WriteExec keeps them, CommitExec yields them
//! ```
//!
//! An expression knows a changed row by these names:
//!
//! ```text
//!   t.c           the new value, or the old one of a row that was deleted
//!   old.c new.c   the value before and after; NULL where there is no row before or after
//!   s.c           columns of the other tables: FROM, USING, a MERGE's source
//!   merge_action() INSERT, UPDATE or DELETE
//! ```
//!
//! Always holds: new values are computed once, and what is returned is what was written.

use crate::error::Error;
use crate::scan::provider::LakeTable;
use crate::stage::row_changes::RETURNED_COLUMN;
use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Constraints, DFSchema, DFSchemaRef, Result, ScalarValue, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, TableSource, TableType};
use std::collections::HashMap;
use std::sync::Arc;

/// What the old value of a column is called in expressions; the column's name follows.
pub const OLD_COLUMN: &str = "__amend_old.";
/// What the new value of a column is called in expressions; the column's name follows.
pub const NEW_COLUMN: &str = "__amend_new.";
/// What became of a row of a MERGE is called.
pub const MERGE_ACTION_COLUMN: &str = "__amend_merge_action";

/// One column that is returned.
#[derive(Debug, Clone)]
pub struct Item {
    /// The table that it is a column of, if it is no more than that.
    pub qualifier: Option<TableReference>,
    /// Its name.
    pub name: String,
    /// Its value, over the names that a row is known by.
    pub expr: Expr,
}

/// What is returned.
#[derive(Debug, Clone)]
pub struct Returning {
    /// What the target is called in the expressions.
    pub target: TableReference,
    /// The columns.
    pub items: Vec<Item>,
}

/// The target of a statement that returns rows.
pub struct ReturningSource {
    target: Arc<dyn TableSource>,
    returning: Arc<Returning>,
}

impl ReturningSource {
    /// The target, with what is to be returned.
    pub fn new(target: Arc<dyn TableSource>, returning: Arc<Returning>) -> Self {
        ReturningSource { target, returning }
    }
}

impl TableSource for ReturningSource {
    fn schema(&self) -> SchemaRef {
        self.target.schema()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.target.constraints()
    }

    fn table_type(&self) -> TableType {
        self.target.table_type()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.target.get_column_default(column)
    }
}

/// The target of an INSERT with ON CONFLICT, which is planned as a MERGE.
pub struct UpsertSource {
    target: Arc<dyn TableSource>,
    key: Option<String>,
}

impl UpsertSource {
    /// The target; `key` is the constraint of which two rows of one key mean that the INSERT brings them.
    pub fn new(target: Arc<dyn TableSource>, key: Option<String>) -> Self {
        UpsertSource { target, key }
    }
}

impl TableSource for UpsertSource {
    fn schema(&self) -> SchemaRef {
        self.target.schema()
    }

    fn table_type(&self) -> TableType {
        self.target.table_type()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.target.get_column_default(column)
    }
}

fn upsert(source: &Arc<dyn TableSource>) -> Option<&UpsertSource> {
    match source.downcast_ref::<ReturningSource>() {
        Some(returning) => returning.target.downcast_ref(),
        None => source.downcast_ref(),
    }
}

/// Whether the statement is an INSERT with ON CONFLICT.
pub fn is_upsert(source: &Arc<dyn TableSource>) -> bool {
    upsert(source).is_some()
}

/// The constraint of which a key that comes twice is brought twice by the INSERT.
pub fn key_brought_once(source: &Arc<dyn TableSource>) -> Option<String> {
    upsert(source)?.key.clone()
}

/// The table of a lake that a source stands for, and what a statement on it returns.
pub fn target_of(source: &Arc<dyn TableSource>) -> Option<(LakeTable, Option<Arc<Returning>>)> {
    let (source, returning) = match source.downcast_ref::<ReturningSource>() {
        Some(source) => (&source.target, Some(source.returning.clone())),
        None => (source, None),
    };
    let source = source.downcast_ref::<UpsertSource>().map_or(source, |source| &source.target);
    let table = source_as_provider(source).ok()?.downcast_ref::<LakeTable>().cloned()?;
    Some((table, returning))
}

/// A changed row in a plan: how its values are written there.
#[derive(Debug, Default)]
pub struct ChangedRow {
    /// The values of the target's columns by name, as `t.c` means them.
    pub values: HashMap<String, Expr>,
    /// The values before; a column that is missing is NULL.
    pub old: HashMap<String, Expr>,
    /// The values after; a column that is missing is NULL.
    pub new: HashMap<String, Expr>,
    /// What became of the row.
    pub action: Option<Expr>,
}

impl Returning {
    /// The returned columns of `row`, over a plan in which other tables' columns are what they are in the expressions. `types`
    /// are the target's columns.
    pub fn columns(&self, row: &ChangedRow, types: &SchemaRef) -> Result<Vec<Expr>> {
        let column = |(at, item): (usize, &Item)| {
            let expr = item.expr.clone().transform(|expr| match expr {
                Expr::Column(column) => Ok(match self.value(row, types, &column)? {
                    Some(value) => Transformed::yes(value),
                    None => Transformed::no(Expr::Column(column)),
                }),
                other => Ok(Transformed::no(other)),
            });
            Ok(expr.data()?.alias(format!("{RETURNED_COLUMN}{at}")))
        };
        self.items.iter().enumerate().map(column).collect()
    }

    fn value(&self, row: &ChangedRow, types: &SchemaRef, column: &Column) -> Result<Option<Expr>> {
        let null = |name: &str| Ok(Expr::Literal(ScalarValue::try_from(types.field_with_name(name)?.data_type())?, None));
        let or_null = |values: &HashMap<String, Expr>, name: &str| values.get(name).cloned().map_or_else(|| null(name), Ok);
        match &column.relation {
            Some(relation) if *relation == self.target => match row.values.get(&column.name) {
                Some(value) => Ok(Some(value.clone())),
                None => Err(Error::internal(format!("RETURNING knows no value of '{column}'")).into()),
            },
            Some(_) => Ok(None),
            None => {
                if let Some(name) = column.name.strip_prefix(OLD_COLUMN) {
                    return or_null(&row.old, name).map(Some);
                }
                if let Some(name) = column.name.strip_prefix(NEW_COLUMN) {
                    return or_null(&row.new, name).map(Some);
                }
                match (&row.action, column.name.as_str()) {
                    (Some(action), MERGE_ACTION_COLUMN) => Ok(Some(action.clone())),
                    _ => Ok(None),
                }
            }
        }
    }

    /// The names by which an expression knows a changed row. `others` are the columns of the other tables.
    pub fn names(target: &TableReference, columns: &SchemaRef, others: &DFSchema, merges: bool) -> Result<DFSchema> {
        let mut fields = Vec::new();
        for field in columns.fields() {
            let field = Arc::new(field.as_ref().clone().with_nullable(true));
            let renamed = |prefix: &str| Arc::new(field.as_ref().clone().with_name(format!("{prefix}{}", field.name())));
            fields.push((None, renamed(OLD_COLUMN)));
            fields.push((None, renamed(NEW_COLUMN)));
            fields.push((Some(target.clone()), field));
        }
        if merges {
            fields.push((None, Arc::new(Field::new(MERGE_ACTION_COLUMN, DataType::Utf8, false))));
        }
        let others = others.iter().filter(|(qualifier, _)| *qualifier != Some(target));
        fields.extend(others.map(|(qualifier, field)| (qualifier.cloned(), field.clone())));
        DFSchema::new_with_metadata(fields, HashMap::new())
    }

    /// The columns that the statement yields, given those of the plan of its rows.
    pub fn output(&self, rows: &DFSchema) -> Result<DFSchemaRef> {
        let of_item = |(at, item): (usize, &Item)| {
            let field = rows.field_with_unqualified_name(&format!("{RETURNED_COLUMN}{at}"))?;
            let field = field.as_ref().clone().with_name(item.name.clone()).with_nullable(true);
            Ok((item.qualifier.clone(), Arc::new(field)))
        };
        let fields = self.items.iter().enumerate().map(of_item).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(DFSchema::new_with_metadata(fields, HashMap::new())?))
    }
}
