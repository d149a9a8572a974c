//! Helpers: statements that must succeed, the rows of a table of two numbers, and what a table's folder should hold.

use amend::manifest::decode::{DEFAULT_LIMITS, Transactions, decode_manifest};
use amend::manifest::log::VersionLog;
use amend::manifest::snapshot::Snapshot;
use amend::store::{ObjectName, Store, path};
use amend::table::deletion_vector::DeletionFile;
use amend::txn::action::{Action, MapLocation};
use amend::{Changed, Error, Lake, Outcome, Session};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::execution::context::SessionConfig;
use object_store::ObjectStore;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// A key and a value.
pub type Row = (i64, i64);

/// The lake in an object store.
pub fn lake_in(objects: Arc<dyn ObjectStore>) -> Lake {
    Lake::new(Store::new(objects, object_store::path::Path::default(), "test:".to_owned()))
}

/// A session whose plans have as many partitions.
pub async fn session_of(lake: &Lake, partitions: usize) -> Session {
    Session::with_config(lake, SessionConfig::new().with_target_partitions(partitions)).await.unwrap()
}

/// Runs a statement.
pub async fn run(session: &Session, sql: &str) -> Outcome {
    session.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Runs a statement that changes a table.
pub async fn change(session: &Session, sql: &str) -> Changed {
    match run(session, sql).await {
        Outcome::Changed(changed) => changed,
        other => panic!("{sql}: {other:?}"),
    }
}

/// Runs a statement that must fail.
pub async fn refused(session: &Session, sql: &str) -> Error {
    match session.execute(sql).await {
        Ok(outcome) => panic!("{sql}: {outcome:?}"),
        Err(error) => error,
    }
}

/// A number that a variable of the environment sets.
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The rows of a query that yields two numbers, sorted.
pub async fn try_rows(session: &Session, sql: &str) -> amend::Result<Vec<Row>> {
    let Outcome::Rows(answer) = session.execute(sql).await? else { panic!("{sql} yields no rows") };
    let mut rows = Vec::new();
    for batch in answer.batches {
        let (keys, values) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_primitive::<Int64Type>());
        rows.extend(keys.values().iter().copied().zip(values.values().iter().copied()));
    }
    rows.sort_unstable();
    Ok(rows)
}

/// The rows of a query that must succeed.
pub async fn rows(session: &Session, sql: &str) -> Vec<Row> {
    try_rows(session, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// What a VERIFY finds wrong: objects, and what is wrong with each.
pub async fn problems(session: &Session, sql: &str) -> Vec<(String, String)> {
    let Outcome::Rows(answer) = run(session, sql).await else { panic!("{sql} yields no rows") };
    let mut problems = Vec::new();
    for batch in answer.batches {
        let text = |name: &str| batch.column_by_name(name).unwrap().as_string::<i32>().clone();
        let (objects, found) = (text("object"), text("problem"));
        let all = objects.iter().zip(&found).filter(|(_, problem)| problem.is_some());
        problems.extend(all.map(|(object, problem)| (object.unwrap().to_owned(), problem.unwrap().to_owned())));
    }
    problems
}

/// Every object that some version of a table names, from the low-water mark on, and their manifests.
pub async fn named_objects(log: &VersionLog) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    let newest = log.newest().await.unwrap();
    for number in newest.snapshot.low_water_mark.max(1)..=newest.snapshot.version {
        named.extend(named_by(log, number).await);
        for action in log.read(number).await.unwrap().transactions.iter().flat_map(|committed| committed.transaction.actions()) {
            match action {
                // A file of a fragment that came and went in one transaction, a vector of one that it emptied.
                Action::AddDataFile(_) => named.extend(action.object().map(str::to_owned)),
                Action::SetDeletionFile(set) => named.extend(vector_object(&set.vector)),
                Action::ChangeOfAddress(change) => {
                    if let MapLocation::Object { path, .. } = &change.map {
                        named.insert(path.clone());
                    }
                }
                Action::AddFragment(_)
                | Action::RemoveFragment(_)
                | Action::AddField(_)
                | Action::AlterField(_)
                | Action::DropField(_)
                | Action::TombstoneFieldData(_)
                | Action::ConfigUpdate(_)
                | Action::ReserveFragmentIds(_)
                | Action::ResetTable(_)
                | Action::AddBase(_)
                | Action::AssertUniqueKeys(_) => {}
            }
        }
    }
    named
}

/// The objects that are needed to read a version of a table: its manifest and what it names.
pub async fn named_by(log: &VersionLog, version: u64) -> BTreeSet<String> {
    let name = ObjectName::version(version);
    let manifest = decode_manifest(&log.store().read(&name).await.unwrap(), &DEFAULT_LIMITS).unwrap();
    let mut named = BTreeSet::from([name.to_string()]);
    named.extend(manifest.pages.iter().map(|index| index.path.clone()));
    named.extend(log.pages_named(&manifest).await.unwrap().iter().map(|page| page.path.clone()));
    if let Transactions::Object(reference) = &manifest.transactions {
        named.insert(reference.path.clone());
    }
    for fragment in whole(log, version).await.fragments.iter().unwrap() {
        named.extend(fragment.files.iter().filter(|file| file.is_object_of_table()).map(|file| file.path.clone()));
        named.extend(vector_object(&fragment.deletions));
    }
    named
}

/// A version with all its pages in memory.
pub async fn whole(log: &VersionLog, version: u64) -> Snapshot {
    log.load_all(&log.read(version).await.unwrap().snapshot).await.unwrap()
}

fn vector_object(vector: &Option<DeletionFile>) -> Option<String> {
    match vector {
        Some(DeletionFile::Puffin { path, .. }) => Some(path.clone()),
        Some(DeletionFile::Inline { .. }) | None => None,
    }
}

/// Every object in a table's folder, but for the hint.
pub async fn stored_objects(store: &Store) -> BTreeSet<String> {
    let mut stored = BTreeSet::new();
    for folder in path::FOLDERS {
        stored.extend(store.list(folder).await.unwrap().into_iter().map(|entry| entry.name));
    }
    stored.remove(ObjectName::hint().as_str());
    stored
}

/// The folder of a table holds what its versions name, and nothing else.
pub async fn assert_nothing_left_behind(lake: &Lake, table: &str, after: &str) {
    assert_exact(&lake.table(table).await.unwrap(), after).await;
}

/// The same, of a table that is at hand.
pub async fn assert_exact(log: &VersionLog, after: &str) {
    let (named, stored) = (named_objects(log).await, stored_objects(log.store()).await);
    let unnamed: Vec<_> = stored.difference(&named).collect();
    assert!(unnamed.is_empty(), "left behind after {after}: {unnamed:?}");
    let missing: Vec<_> = named.difference(&stored).collect();
    assert!(missing.is_empty(), "missing after {after}: {missing:?}");
}

/// Every file below a folder, relative to it.
pub fn files_below(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found
}
