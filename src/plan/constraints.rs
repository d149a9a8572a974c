//! The constraints that a statement is held to: of those of the version that it reads the ones that its new values can break.
//!
//! Goes in: the version, and the columns that the statement gives new values. Comes out: conditions for the rows that are
//! written, and keys for the commit.
//! Always holds: a constraint of which no column gets a new value is left out: it holds of the rows as they are; whatever
//! a condition reads of a row the statement has read, so that others who change it collide.

use crate::error::Result;
use crate::manifest::version::Version;
use crate::scan::expression;
use crate::stage::checks::Check;
use crate::stage::unique::Key;
use crate::table::constraint::{self, Constraint, Rule};
use crate::table::schema::{FieldId, TableSchema};
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use std::collections::BTreeSet;

/// What a statement is held to.
#[derive(Debug, Default)]
pub struct Held {
    /// The CHECK constraints.
    pub checks: Vec<Constraint>,
    /// The keys, all of them.
    pub keys: Vec<Constraint>,
    /// Of which columns new values come.
    brings: BTreeSet<FieldId>,
}

impl Held {
    /// The constraints of `base` for a statement that gives values to these columns of `schema`, by position.
    pub fn of(table: &str, base: &Version, schema: &TableSchema, brings: &[usize]) -> Result<Self> {
        let all = constraint::constraints(&base.snapshot.config)
            .map_err(|reason| crate::error::Error::damaged(table, "its properties", reason))?;
        if all.is_empty() {
            return Ok(Held::default());
        }
        let columns = schema.columns().enumerate().filter(|(at, _)| brings.contains(at));
        let brings: BTreeSet<FieldId> = columns.map(|(_, column)| column.id).collect();
        let (keys, checks): (Vec<_>, Vec<_>) = all.into_iter().partition(Constraint::is_key);
        // One without columns is a constant, which only a new row can break.
        let checks = checks.into_iter().filter(|check| check.is_about(&brings) || check.fields.is_empty()).collect();
        Ok(Held { checks, keys, brings })
    }

    /// All of these, for rows that are new.
    pub fn all(constraints: Vec<Constraint>) -> Self {
        let (keys, checks) = constraints.into_iter().partition(Constraint::is_key);
        Held { checks, keys, brings: BTreeSet::new() }
    }

    /// The fields that the conditions read.
    pub fn fields(&self) -> impl Iterator<Item = FieldId> + '_ {
        self.checks.iter().flat_map(|check| check.fields.iter().copied())
    }

    /// Whether an UPDATE has to write whole rows: a condition reads a column beside those that are written, or a key changes.
    pub fn wants_rows(&self) -> bool {
        self.fields().any(|field| !self.brings.contains(&field)) || self.keys.iter().any(|key| self.may_change(key))
    }

    /// Whether the statement may bring new values of a key.
    pub fn may_change(&self, key: &Constraint) -> bool {
        key.is_about(&self.brings)
    }

    /// The keys in a table of that schema; one of them may be such that who has it twice was brought twice.
    pub fn unique(&self, schema: &TableSchema, brought_once: Option<&str>) -> Result<Vec<Key>> {
        let key = |constraint: &Constraint| {
            let brought_once = brought_once == Some(constraint.name.as_str());
            Ok(Key { may_change: self.may_change(constraint), brought_once, ..Key::new(constraint, schema)? })
        };
        self.keys.iter().map(key).collect()
    }

    /// The conditions over the columns of `written`, which is the table's schema or a part of it.
    pub fn conditions(&self, session: &dyn Session, table: &str, schema: &TableSchema, written: &TableSchema) -> Result<Vec<Check>> {
        let columns = DFSchema::try_from(written.to_plain_arrow().as_ref().clone())?;
        let condition = |check: &Constraint| {
            let Rule::Check(kept) = &check.rule else { return Ok(None) };
            let condition = expression::physical(session, expression::condition(table, kept, schema)?, &columns)?;
            let shown = format!("({})", expression::named(table, kept, schema)?);
            Ok(Some(Check { name: check.name.clone(), shown, condition }))
        };
        self.checks.iter().filter_map(|check| condition(check).transpose()).collect()
    }
}
