//! The target's rows, with their addresses.
//!
//! Goes in: the input of a DELETE or UPDATE, whose only scan of the target as *target* is the leftmost one (others are in
//! subqueries, or on the right of joins that the optimizer made of them). Comes out: the same plan, which also yields
//! the two columns of the address.

use crate::error::Error;
use crate::scan::address::{FRAGMENT_COLUMN, OFFSET_COLUMN};
use crate::scan::keys::Keys;
use crate::scan::pin::Pin;
use crate::scan::provider::{Access, LakeTable, PinnedTable};
use datafusion::common::{Column, DFSchema, Result, TableReference};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::logical_plan::{EmptyRelation, Filter, Projection, Sort, SubqueryAlias, TableScanBuilder};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, TableSource};
use std::sync::Arc;

/// A statement's target.
pub struct Target<'a> {
    /// The table.
    pub table: &'a LakeTable,
    /// The version that the statement reads.
    pub pin: &'a Arc<Pin>,
    /// What its rows are read for.
    pub access: Access,
    /// The word for the statement.
    pub statement: &'static str,
}

impl Target<'_> {
    /// What a scan of the target with addresses reads.
    pub fn source(&self) -> Arc<dyn TableSource> {
        provider_as_source(Arc::new(self.table.pinned(self.pin.clone(), self.access)))
    }

    /// Likewise, for a join that looks only for rows whose `key` is among those that `keys` will hold.
    pub fn joined_source(&self, key: Expr, keys: Arc<Keys>) -> Arc<dyn TableSource> {
        provider_as_source(Arc::new(self.table.pinned(self.pin.clone(), self.access).joined_on(key, keys)))
    }

    /// The plan with addresses.
    pub fn with_address(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                if !self.is_target(&scan.source) {
                    return self.not_understood("a plan that does not start at its target");
                }
                let columns = self.table.planned().snapshot.schema.columns().count();
                let projection = scan.projection.as_ref().map(|projection| [projection.as_slice(), &[columns, columns + 1]].concat());
                let mut scan_with =
                    TableScanBuilder::new(scan.table_name.clone(), self.source()).with_filters(scan.filters.clone()).with_fetch(scan.fetch);
                if let Some(projection) = projection {
                    scan_with = scan_with.with_projection(Some(projection));
                }
                Ok(LogicalPlan::TableScan(scan_with.build()?))
            }
            LogicalPlan::Filter(filter) => {
                let input = Arc::new(self.with_address(&filter.input)?);
                Ok(LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), input)?))
            }
            LogicalPlan::Projection(projection) => {
                let input = self.with_address(&projection.input)?;
                let mut exprs = projection.expr.clone();
                exprs.extend(address_columns(input.schema())?);
                Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let input = Arc::new(self.with_address(&alias.input)?);
                Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias.alias.clone())?))
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                let input = Arc::new(self.with_address(&sort.input)?);
                Ok(LogicalPlan::Sort(Sort { expr: sort.expr.clone(), input, fetch: None }))
            }
            LogicalPlan::Join(join) => {
                if join.join_type == JoinType::LeftMark {
                    // The mark may stand for a NOT IN, and would forget NULL.
                    let what = format!("a prepared {} with IN or EXISTS under OR, NOT or CASE", self.statement);
                    return Err(Error::unsupported(what, Some("PREPARE it in an amend::Session, or run it directly")).into());
                }
                // What the optimizer made of subqueries keeps each row of the left at most once.
                let keeps_left = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::Left | JoinType::Inner);
                if !keeps_left {
                    return self.not_understood(&format!("a {} join", join.join_type));
                }
                let left = self.with_address(&join.left)?;
                plan.with_new_exprs(plan.expressions(), vec![left, join.right.as_ref().clone()])?.recompute_schema()
            }
            LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row => {
                let mut fields: Vec<_> = empty.schema.iter().map(|(qualifier, field)| (qualifier.cloned(), field.clone())).collect();
                let address = crate::scan::address::fields();
                let qualifier: Option<TableReference> = empty.schema.iter().find_map(|(qualifier, _)| qualifier.cloned());
                fields.extend(address.into_iter().map(|field| (qualifier.clone(), field)));
                let schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
                Ok(LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema }))
            }
            LogicalPlan::Limit(_) => {
                let what = format!("{} with LIMIT", self.statement);
                Err(Error::unsupported(what, Some("name the rows in WHERE, for example by a subquery with ORDER BY and LIMIT")).into())
            }
            other => self.not_understood(&format!("a plan with {}", other.display())),
        }
    }

    fn is_target(&self, source: &Arc<dyn TableSource>) -> bool {
        let Ok(provider) = source_as_provider(source) else { return false };
        if let Some(table) = provider.downcast_ref::<LakeTable>() {
            return Arc::ptr_eq(table.log(), self.table.log()) && table.at().is_none();
        }
        provider.downcast_ref::<PinnedTable>().is_some_and(|pinned| Arc::ptr_eq(pinned.pin(), self.pin))
    }

    fn not_understood<T>(&self, what: &str) -> Result<T> {
        Err(Error::unsupported(format!("{} of table '{}' by {what}", self.statement, self.table.log().table()), None).into())
    }
}

/// The two columns of the address in a plan that yields them.
pub fn address_columns(schema: &DFSchema) -> Result<[Expr; 2]> {
    Ok([address_column(schema, FRAGMENT_COLUMN)?, address_column(schema, OFFSET_COLUMN)?])
}

fn address_column(schema: &DFSchema, name: &str) -> Result<Expr> {
    let found = schema.iter().find(|(_, field)| field.name() == name);
    let (qualifier, field) = found.ok_or_else(|| Error::internal(format!("the plan carries no {name}")))?;
    Ok(Expr::Column(Column::new(qualifier.cloned(), field.name())))
}
