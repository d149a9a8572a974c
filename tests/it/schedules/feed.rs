//! The changes of a table, applied one version after another to an empty list: after each version the list is what the model holds.
//!
//! Always holds: a row that is said to be updated was there before and is there after; in a version of one statement every row
//! that was and is there is said so. (Keys are never used again.)

use super::model::Model;
use crate::support::{Row, try_rows};
use amend::{Outcome, Session};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use std::collections::{BTreeMap, BTreeSet};

/// How updates were told.
#[derive(Debug, Default)]
pub struct Told {
    pub updates: u64,
    /// Updates that are told as two changes.
    pub deletions_and_insertions: u64,
}

const DELETE: i64 = 0;
const INSERT: i64 = 1;
const BEFORE: i64 = 2;
const AFTER: i64 = 3;

const FEED: &str = "SELECT _commit_version::BIGINT, CASE _change_type WHEN 'delete' THEN 0 WHEN 'insert' THEN 1 WHEN 'update_preimage' THEN 2 \
                    WHEN 'update_postimage' THEN 3 END, k, v FROM table_changes('t', 1)";
const ONE_STATEMENT: &str = "SELECT version::BIGINT, 0::BIGINT FROM table_history('t') GROUP BY version HAVING count(*) = 1";

/// Applies the changes.
pub async fn check(reader: &Session, model: &Model) -> Result<Told, String> {
    let mut told = Told::default();
    let changes = changes(reader).await?;
    let simple: BTreeSet<u64> =
        try_rows(reader, ONE_STATEMENT).await.map_err(|error| error.to_string())?.into_iter().map(|(version, _)| version as u64).collect();
    if changes.keys().any(|version| *version > model.newest() as u64) {
        return Err(format!("they go on after version {}", model.newest()));
    }
    let mut list: Vec<Row> = Vec::new();
    for version in 1..=model.newest() {
        let of_version = changes.get(&(version as u64)).map(Vec::as_slice).unwrap_or_default();
        let before: BTreeSet<i64> = list.iter().map(|(key, _)| *key).collect();
        for (_, row) in of_version.iter().filter(|(kind, _)| matches!(*kind, DELETE | BEFORE)) {
            let at = list.iter().position(|there| there == row);
            list.remove(at.ok_or_else(|| format!("version {version} takes away {row:?}, which is not there"))?);
        }
        list.extend(of_version.iter().filter(|(kind, _)| matches!(*kind, INSERT | AFTER)).map(|(_, row)| *row));
        list.sort_unstable();
        if list != model.rows_of(version) {
            return Err(format!("after version {version} they come to {list:?}, the model has {:?}", model.rows_of(version)));
        }
        let after: BTreeSet<i64> = list.iter().map(|(key, _)| *key).collect();
        let of = |kind: i64| of_version.iter().filter(move |(of, _)| *of == kind).map(|(_, (key, _))| *key).collect::<BTreeSet<i64>>();
        let (old, new) = (of(BEFORE), of(AFTER));
        if old != new || !old.is_subset(&before) || !old.is_subset(&after) {
            return Err(format!("version {version} updates {old:?} to {new:?}"));
        }
        let both = of(DELETE).intersection(&of(INSERT)).count() as u64;
        if both > 0 && simple.contains(&(version as u64)) {
            return Err(format!("version {version}, of one statement, tells {both} updates as deletions and insertions"));
        }
        told.updates += old.len() as u64;
        told.deletions_and_insertions += both;
    }
    Ok(told)
}

async fn changes(reader: &Session) -> Result<BTreeMap<u64, Vec<(i64, Row)>>, String> {
    let Outcome::Rows(answer) = reader.execute(FEED).await.map_err(|error| error.to_string())? else { return Err("no rows".into()) };
    let mut changes: BTreeMap<u64, Vec<(i64, Row)>> = BTreeMap::new();
    for batch in answer.batches {
        let column = |at: usize| batch.column(at).as_primitive::<Int64Type>().values();
        for at in 0..batch.num_rows() {
            changes.entry(column(0)[at] as u64).or_default().push((column(1)[at], (column(2)[at], column(3)[at])));
        }
    }
    Ok(changes)
}
