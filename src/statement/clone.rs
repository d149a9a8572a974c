//! CREATE TABLE .. CLONE: a table of the rows of another, whose files it reads where they are.
//!
//! ```text
//!   version of the source                    actions
//!   fields                                   AddField, with new ids
//!   the table's folder, and its bases        AddBase
//!   fragments                                AddFragment
//!     files                                  AddDataFile: in the base of the source's folder, or in one of its bases
//!     deletion vectors                       SetDeletionFile of the same rows
//!   properties                               ConfigUpdate
//! ```
//!
//! Goes in: a table, and which version of it. Comes out: a new table; no row is read or written.
//! Always holds: what is done to either table afterwards is not seen in the other; but the clone's old rows lie in the source's folder, and
//! are gone when that is vacuumed after it has no use for them.

use super::catalog::version_of;
use super::create;
use super::lake::Lake;
use super::restore::rows_again;
use super::tokens::cut;
use crate::error::{Error, Result};
use crate::manifest::catalog::TableName;
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::Snapshot;
use crate::stage::commit_exec::staged;
use crate::stage::scope::{Done, SessionScope};
use crate::stage::write_exec::take_fields;
use crate::store::base;
use crate::table::constraint::{self, Constraint, Generated, Rule};
use crate::table::fragment::{Base, DataFile};
use crate::table::schema::FieldId;
use crate::txn::action::{Action, AddBase, AddDataFile, ConfigUpdate};
use crate::txn::composite::{RowCounts, Step};
use crate::txn::refs::{FieldRef, Ref, Token};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::Token::Word;
use std::collections::BTreeMap;

/// CREATE TABLE [IF NOT EXISTS] c [SHALLOW] CLONE t [VERSION AS OF n | TIMESTAMP AS OF 'time'].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloneOf {
    /// The table that comes to be.
    pub table: TableName,
    /// Whether it is no error that there is one of that name.
    pub lenient: bool,
    /// The table that is cloned, or a version of it: `t@v3`.
    pub source: TableName,
}

/// Creates a clone.
pub async fn create_clone(lake: &Lake, scope: &SessionScope, clone: &CloneOf, statement: &str) -> Result<Done> {
    let name = &clone.table;
    create::check_name(name)?;
    if lake.is_taken(name).await? {
        return match clone.lenient {
            true => Ok(create::done(0, None, 0)),
            false => Err(Error::TableExists { table: name.to_string() }),
        };
    }
    let (source, at) = match (lake.find(&clone.source).await?, clone.source.name.rsplit_once('@')) {
        (Some(log), _) => (log, None),
        (None, Some((source, at))) => (lake.table(clone.source.sibling(source)).await?, Some(at)),
        (None, None) => return Err(lake.no_table(&clone.source)),
    };
    // Held until the clone is there, so that its files are when it comes to be.
    let (newest, lease) = source.newest_leased().await?;
    let version = match at {
        None => newest,
        Some(at) => {
            let number = version_of(&source, at, newest.snapshot.version).await?;
            lease.reach_back_to(number);
            source.read_kept(number).await?
        }
    };
    let step = step(&source, &version.snapshot, statement).await?;
    let inserted = step.counts.inserted;
    scope.commits()?;
    match lake.create_table(lake.new_table(name), staged(0, step, vec![], vec![])).await {
        Ok(version) => Ok(create::done(inserted, Some(version), 0)),
        Err(Error::TableExists { .. }) if clone.lenient => Ok(create::done(0, None, 0)),
        Err(error) => Err(error),
    }
}

/// What makes of nothing a table like `source`.
async fn step(log: &VersionLog, source: &Snapshot, statement: &str) -> Result<Step> {
    let tokens: BTreeMap<FieldId, Token> = source.schema.fields().iter().map(|field| field.id).zip((0..).map(Token)).collect();
    let mut actions = Vec::new();
    for field in source.schema.fields() {
        let token = |id: FieldId| tokens.get(&id).copied().unwrap_or(Token(u32::MAX));
        actions.push(Action::AddField(create::add_field(field, token)));
    }
    let mut bases: BTreeMap<String, Token> = BTreeMap::new();
    let folder = base::folder(log.store())?;
    let mut rows = Vec::new();
    for (fragment, token) in source.fragments.iter().zip((0..).map(Token)) {
        let id = Ref::Local(token);
        let (add, delete) = rows_again(log, fragment, id).await?;
        rows.push(add);
        for file in &fragment.files {
            if file.inline.is_some() {
                let (file, fields) = of_clone(log.table(), file, &tokens)?;
                rows.push(Action::AddDataFile(AddDataFile { fragment: id, file, base: None, fields, data_change: true }));
                continue;
            }
            let location = match file.base {
                None => &folder,
                Some(id) => {
                    let none = || Error::internal(format!("'{}' lies in base {}, which is none", file.path, id.0));
                    &source.bases.get(&id).ok_or_else(none)?.location
                }
            };
            let next = Token(bases.len() as u32);
            let base = *bases.entry(location.clone()).or_insert(next);
            let (file, fields) = of_clone(log.table(), file, &tokens)?;
            rows.push(Action::AddDataFile(AddDataFile { fragment: id, file, base: Some(Ref::Local(base)), fields, data_change: true }));
        }
        rows.extend(delete);
    }
    let base = |(location, token)| Action::AddBase(AddBase { token, base: Base { name: None, location } });
    actions.extend(bases.into_iter().map(base));
    actions.extend(rows);
    if !source.config.is_empty() {
        let again = |(key, value): (&String, &String)| {
            let anew = property(key, value, &tokens).map_err(|reason| Error::internal(format!("cloning '{}': {reason}", log.table())))?;
            Ok::<_, Error>(anew.map(|(key, value)| (key, Some(value))))
        };
        let entries = source.config.iter().filter_map(|entry| again(entry).transpose()).collect::<Result<_>>()?;
        actions.push(Action::ConfigUpdate(ConfigUpdate { entries, replace: false }));
    }
    let counts = RowCounts { inserted: source.live_rows(), ..RowCounts::default() };
    Ok(Step { operation: "CREATE TABLE CLONE".into(), statement: statement.to_owned(), actions, counts })
}

/// A file as the clone names it, and the fields of its columns and of their parts.
fn of_clone(table: &str, file: &DataFile, tokens: &BTreeMap<FieldId, Token>) -> Result<(DataFile, Vec<Option<FieldRef>>)> {
    let mut file = file.clone();
    file.base = None;
    let fields = take_fields(&mut file).into_iter().map(|field| match field.and_then(FieldRef::committed) {
        None => Ok(None),
        Some(id) => match tokens.get(&id) {
            Some(token) => Ok(Some(Ref::Local(*token))),
            None => Err(Error::unsupported(
                format!("cloning table '{table}', whose file '{}' still has a part of a column that was dropped,", file.path),
                Some(&format!("OPTIMIZE {table} FULL, then clone the version that it makes")),
            )),
        },
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    Ok((file, fields))
}

/// The id that a field gets in the clone: they are given out from 1 on, in the order of the fields.
fn id_in_clone(field: FieldId, tokens: &BTreeMap<FieldId, Token>) -> Result<FieldId, String> {
    let id = tokens.get(&field).and_then(|token| i32::try_from(token.0).ok()?.checked_add(1));
    id.map(FieldId).ok_or_else(|| format!("there is no field {field}"))
}

/// A property as the clone has it: constraints and defaults name fields by their ids. `None` for what somebody said of a column that
/// another dropped meanwhile.
fn property(key: &str, value: &str, tokens: &BTreeMap<FieldId, Token>) -> Result<Option<(String, String)>, String> {
    if let Some(constraint) = constraint::of_property(key, value) {
        let constraint = constraint?;
        let fields = constraint.fields.iter().map(|field| id_in_clone(*field, tokens)).collect::<Result<_, _>>()?;
        let rule = match constraint.rule {
            Rule::Check(condition) => Rule::Check(renumbered(&condition, tokens)?),
            Rule::Unique => Rule::Unique,
            Rule::PrimaryKey => Rule::PrimaryKey,
        };
        return Ok(Some((key.to_owned(), Constraint { name: constraint.name, fields, rule }.value())));
    }
    if key == constraint::CLUSTER_KEY {
        let fields =
            constraint::parse_cluster_value(value)?.into_iter().map(|field| id_in_clone(field, tokens)).collect::<Result<Vec<_>, _>>()?;
        return Ok(Some((key.to_owned(), constraint::cluster_value(&fields))));
    }
    let of_field = |prefix: &str| key.strip_prefix(prefix).map(|id| id.parse().map_err(|_| format!("'{key}' is of no field")));
    if let Some(field) = of_field(constraint::GENERATED_PREFIX) {
        let Generated { field, inputs, expression } = Generated::parse(FieldId(field?), value)?;
        let inputs = inputs.into_iter().map(|input| id_in_clone(input, tokens)).collect::<Result<_, _>>()?;
        let generated = Generated { field: id_in_clone(field, tokens)?, inputs, expression: renumbered(&expression, tokens)? };
        return Ok(Some((generated.key(), generated.value())));
    }
    for prefix in [constraint::DEFAULT_PREFIX, constraint::COMMENT_PREFIX] {
        if let Some(field) = of_field(prefix) {
            let there = Some(FieldId(field?)).filter(|field| tokens.contains_key(field));
            let in_clone = there.map(|field| id_in_clone(field, tokens)).transpose()?;
            return Ok(in_clone.map(|id| (format!("{prefix}{id}"), value.to_owned())));
        }
    }
    Ok(Some((key.to_owned(), value.to_owned())))
}

/// A condition with its columns, `"#<id>"`, under their ids in the clone.
fn renumbered(condition: &str, tokens: &BTreeMap<FieldId, Token>) -> Result<String, String> {
    let wrong = || format!("the condition {condition} cannot be read");
    let (words, offsets) = cut(condition, &GenericDialect {}).ok_or_else(wrong)?;
    let (mut anew, mut copied) = (String::with_capacity(condition.len()), 0);
    for (at, (word, from)) in words.iter().zip(&offsets).enumerate() {
        let Word(word) = word else { continue };
        let Some(id) = word.value.strip_prefix('#').filter(|_| word.quote_style == Some('"')) else { continue };
        let id = id_in_clone(FieldId(id.parse().map_err(|_| wrong())?), tokens)?;
        anew.push_str(condition.get(copied..*from).ok_or_else(wrong)?);
        anew.push_str(&format!("\"#{id}\""));
        copied = offsets.get(at + 1).copied().unwrap_or(condition.len());
    }
    anew.push_str(condition.get(copied..).ok_or_else(wrong)?);
    Ok(anew)
}
