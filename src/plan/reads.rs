//! Which columns a statement reads: their values decide what it deletes or writes, so if others give them new values in the
//! same fragments, it runs again.
//!
//! Goes in: the plan of a DELETE or UPDATE before addresses are added. Comes out: fields of its target.
//! Always holds: no column that is read is missing; one too many is named where another table has a column of that name.

use super::update::without_alias;
use crate::table::schema::{FieldId, TableSchema};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::collections::BTreeSet;

/// The fields of the columns that `plan` reads. What it only passes on at its root is not among them.
pub fn columns_read(plan: &LogicalPlan, schema: &TableSchema) -> Result<BTreeSet<FieldId>> {
    let mut names = BTreeSet::new();
    let root = match plan {
        LogicalPlan::Projection(projection) => {
            let computed = projection.expr.iter().filter(|expr| !matches!(without_alias(expr), Expr::Column(_)));
            computed.for_each(|expr| name_columns(expr, &mut names));
            // A column under another name is a new value of that one.
            let renamed = projection.expr.iter().zip(projection.schema.fields()).filter_map(|(expr, field)| match without_alias(expr) {
                Expr::Column(column) if column.name != *field.name() => Some(column.name.clone()),
                _ => None,
            });
            names.extend(renamed);
            projection.input.as_ref()
        }
        other => other,
    };
    root.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            name_columns(expr, &mut names);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    for expr in plan.expressions() {
        // Subqueries among the new values.
        expr.apply(|expr| {
            let subquery = match expr {
                Expr::ScalarSubquery(subquery) => Some(subquery),
                Expr::InSubquery(subquery) => Some(&subquery.subquery),
                Expr::Exists(exists) => Some(&exists.subquery),
                _ => None,
            };
            if let Some(subquery) = subquery {
                subquery.subquery.apply_with_subqueries(|node| {
                    node.apply_expressions(|expr| {
                        name_columns(expr, &mut names);
                        Ok(TreeNodeRecursion::Continue)
                    })
                })?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(schema.columns().filter(|column| names.contains(&column.name)).map(|column| column.id).collect())
}

fn name_columns(expr: &Expr, names: &mut BTreeSet<String>) {
    // Nothing in it fails.
    let _ = expr.apply(|expr| {
        match expr {
            Expr::Column(column) | Expr::OuterReferenceColumn(_, column) => {
                names.insert(column.name.clone());
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
}
