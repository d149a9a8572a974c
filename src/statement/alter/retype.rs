//! ALTER COLUMN .. TYPE to a type that is not wider, or with USING, and ADD COLUMN of a generated one: what the new values are, and the actions
//! that bring them.
//!
//! Goes in: the conversions of a statement, and the version that it reads. Comes out: for each the new values as an expression over
//! the columns of that version, although USING names columns as the operations before have left them; then files of them, and the
//! actions that name these.
//! Always holds: a value that has no place in the new type is an error that names the column, and nothing is left of the statement.

use super::refused;
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::manifest::version::Version;
use crate::plan::options::options;
use crate::scan::expression::{check_one_row, physical};
use crate::scan::statistics::initial;
use crate::stage::convert::{self, Converting};
use crate::table::schema::{FieldId, TableSchema};
use crate::txn::action::Action;
use crate::txn::refs::FieldRef;
use datafusion::arrow::compute::can_cast_types;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, ExprWithAlias};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A column whose values are written in another type.
#[derive(Debug, Clone)]
pub(super) struct Conversion {
    /// Its name.
    pub column: String,
    /// The field that it was; `None` for a new column, which is made of others.
    pub from: Option<FieldId>,
    /// The id that it will have.
    pub to: FieldId,
    /// The field that it will be.
    pub field: FieldRef,
    /// The column alone, as it will be.
    pub schema: TableSchema,
    /// What its values are made of; `None`: the values that it has.
    pub using: Option<SqlExpr>,
    /// The table as the operations before have left it: what `using` sees.
    pub before: TableSchema,
    /// Where its files belong among the actions.
    pub at: usize,
}

/// A conversion, planned.
pub(super) struct Planned {
    pub conversion: Conversion,
    /// The new values, over the columns of the version.
    pub value: Expr,
    /// The fields of those that it reads.
    pub reads: BTreeSet<FieldId>,
}

/// Plans a conversion, after those before it.
pub(super) fn planned(state: &SessionState, table: &str, base: &Version, conversion: Conversion, earlier: &[Planned]) -> Result<Planned> {
    let schema = &base.snapshot.schema;
    let columns = DFSchema::try_from(schema.to_plain_arrow().as_ref().clone())?;
    let value = match &conversion.using {
        Some(using) => {
            let seen = DFSchema::try_from(conversion.before.to_plain_arrow().as_ref().clone())?;
            let value = state.create_logical_expr_from_sql_expr(ExprWithAlias { expr: using.clone(), alias: None }, &seen)?;
            of_version(value, &conversion.before, (schema, &columns), earlier)?
        }
        None => {
            let was = conversion.from.and_then(|from| schema.field(from));
            Expr::Column(Column::from_name(was.map_or(conversion.column.as_str(), |field| &field.name)))
        }
    };
    check_one_row("USING", &value)?;
    if value.is_volatile() {
        // Later conversions and constraints compute it again, and would see another value than is written.
        let what = format!("USING for column '{}' of table '{table}' with a value that is another each time", conversion.column);
        return Err(Error::unsupported(what, Some("say another, then UPDATE it")));
    }
    let reads = value.column_refs().into_iter().filter_map(|column| schema.column(&column.name)).map(|column| column.id).collect();
    let (is, wanted) = (value.get_type(&columns)?, conversion.schema.to_plain_arrow().field(0).data_type().clone());
    if !can_cast_types(&is, &wanted) {
        let reason =
            format!("column '{}' of table '{table}' cannot become {wanted}: there is no cast from {is}; say USING", conversion.column);
        return Err(refused(reason, "42846"));
    }
    Ok(Planned { value: if is == wanted { value } else { cast(value, wanted) }, reads, conversion })
}

/// An expression over the columns that the operations before have left, over those of the version.
fn of_version(value: Expr, before: &TableSchema, (schema, columns): (&TableSchema, &DFSchema), earlier: &[Planned]) -> Result<Expr> {
    let value = value.transform(|part| {
        let Expr::Column(column) = &part else { return Ok(Transformed::no(part)) };
        let Some(field) = before.column(&column.name) else { return Ok(Transformed::no(part)) };
        let wanted = before.to_plain_arrow().field_with_name(&field.name)?.data_type().clone();
        let converted = earlier.iter().find(|planned| planned.conversion.to == field.id);
        let there = match (schema.field(field.id), converted) {
            (Some(there), _) => Expr::Column(Column::from_name(&there.name)).cast_to(&wanted, columns)?,
            (None, Some(converted)) => converted.value.clone(),
            (None, None) => Expr::Literal(initial(field, &wanted)?, None),
        };
        Ok(Transformed::yes(there))
    })?;
    Ok(value.data)
}

/// Writes the new values of all rows; the actions that name the files go between the others.
pub(super) async fn write(
    state: &SessionState,
    log: &Arc<VersionLog>,
    base: &Arc<Version>,
    planned: &[Planned],
    actions: &mut Vec<Action>,
) -> Result<()> {
    let columns = DFSchema::try_from(base.snapshot.schema.to_plain_arrow().as_ref().clone())?;
    // From the last on, so that places stay what they are.
    for Planned { conversion, value, .. } in planned.iter().rev() {
        let converting = Converting {
            log: log.clone(),
            base: base.clone(),
            value: physical(state, value.clone(), &columns)?,
            schema: Arc::new(conversion.schema.clone()),
            field: conversion.field,
            max_inline_bytes: options(state.config_options()).max_inline_bytes,
            context: state.task_ctx(),
        };
        let files = convert::convert(&converting).await?;
        actions.splice(conversion.at..conversion.at, files);
    }
    Ok(())
}
