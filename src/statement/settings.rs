//! `SHOW amend.x` and `RESET amend.x`, which DataFusion knows for its own settings only; and SET of one that there is not.

use super::outcome::{Outcome, Rows};
use crate::error::{Error, Result, nearest_name};
use crate::plan::options::{AmendOptions, options};
use crate::scan::expression::fold;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::execution::context::SessionContext;
use datafusion::sql::parser::{ResetStatement, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Set, Statement};
use std::sync::Arc;

/// How a setting that is not set is spelled.
const NONE: &str = "default";

/// Runs the statement, if it is about a setting of ours.
pub fn run(ctx: &SessionContext, statement: &DfStatement) -> Result<Option<Outcome>> {
    match statement {
        DfStatement::Statement(statement) => match statement.as_ref() {
            Statement::ShowVariable { variable } => name_of(variable).map(|name| show(ctx, &name)).transpose(),
            Statement::Set(Set::SingleAssignment { variable, .. }) => {
                name_of(&idents(variable)).map_or(Ok(None), |name| entry(&AmendOptions::default(), &name).map(|_| None))
            }
            _ => Ok(None),
        },
        DfStatement::Reset(ResetStatement::Variable(name)) => name_of(&idents(name)).map(|name| reset(ctx, &name)).transpose(),
        _ => Ok(None),
    }
}

fn idents(name: &ObjectName) -> Vec<Ident> {
    name.0.iter().filter_map(|part| part.as_ident()).cloned().collect()
}

/// What follows `amend.`.
fn name_of(parts: &[Ident]) -> Option<String> {
    match parts {
        [prefix, name] if fold(prefix) == AmendOptions::PREFIX => Some(fold(name)),
        _ => None,
    }
}

fn entry(of: &AmendOptions, name: &str) -> Result<ConfigEntry> {
    let entries = of.entries();
    let nearest = nearest_name(name, entries.iter().map(|entry| entry.key.as_str()));
    entries.into_iter().find(|entry| entry.key == name).ok_or_else(|| {
        let nearest = nearest.map(|nearest| format!("; did you mean '{}.{nearest}'?", AmendOptions::PREFIX)).unwrap_or_default();
        Error::Refused { reason: format!("there is no setting '{}.{name}'{nearest}", AmendOptions::PREFIX), sqlstate: "42704" }
    })
}

fn show(ctx: &SessionContext, name: &str) -> Result<Outcome> {
    let value = entry(&options(ctx.state_ref().read().config_options()), name)?.value;
    let columns: [(&str, ArrayRef); 2] = [
        ("name", Arc::new(StringArray::from_iter_values([format!("{}.{name}", AmendOptions::PREFIX)]))),
        ("value", Arc::new(StringArray::from_iter_values([value.as_deref().unwrap_or(NONE)]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).map_err(|e| Error::internal(format!("a setting as a row: {e}")))?;
    Ok(Outcome::Rows(Rows { schema: batch.schema(), batches: vec![batch] }))
}

fn reset(ctx: &SessionContext, name: &str) -> Result<Outcome> {
    let default = entry(&AmendOptions::default(), name)?.value.unwrap_or_else(|| NONE.to_owned());
    ctx.state_ref().write().config_mut().options_mut().set(&format!("{}.{name}", AmendOptions::PREFIX), &default)?;
    Ok(Outcome::Done("RESET".into()))
}
