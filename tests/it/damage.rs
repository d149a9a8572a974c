//! Stored objects that are missing, cut or changed: whoever needs them is told which object of which table is damaged, and
//! nobody gets wrong rows. Versions that do not need them can be read.

use crate::support::{Row, change, lake_in, named_by, refused, rows, run, session_of, try_rows};
use amend::manifest::log::VersionLog;
use amend::store::{ObjectName, Store};
use amend::{Error, ErrorKind, Lake};
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tempfile::TempDir;

/// A lake in memory with one table `t`, and what its versions hold.
pub struct Sample {
    pub objects: InMemory,
    /// The folder of the table.
    pub folder: String,
    /// The rows of each version, from the first.
    pub versions: Vec<Vec<Row>>,
    /// The objects that each version names, its manifest among them.
    pub named: Vec<BTreeSet<String>>,
}

impl Sample {
    async fn of(statements: &[&str]) -> Sample {
        let objects = Arc::new(InMemory::new());
        let lake = lake_in(objects.clone());
        let session = session_of(&lake, 1).await;
        // The rows are in files, but for where they are damaged as parts of a manifest.
        run(&session, "SET amend.max_inline_bytes = 0").await;
        for sql in statements {
            run(&session, sql).await;
        }
        let log = lake.table("t").await.unwrap();
        let (mut versions, mut named) = (Vec::new(), Vec::new());
        for version in 1..=log.newest_number().await.unwrap() {
            versions.push(rows(&session, &format!("SELECT k, v FROM t VERSION AS OF {version}")).await);
            named.push(named_by(&log, version).await);
        }
        let folder = log.store().label().strip_prefix("test:/").unwrap().to_owned();
        Sample { objects: objects.fork(), folder, versions, named }
    }

    /// A table of every kind of statement, small enough that every byte can be tried.
    pub async fn small() -> Sample {
        Sample::of(&[
            "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)",
            "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30), (4, 40)",
            "INSERT INTO t VALUES (5, 50), (6, 60)",
            "DELETE FROM t WHERE k IN (2, 5)",
            "UPDATE t SET v = v + 1 WHERE k = 3",
            "OPTIMIZE t FULL",
            "DELETE FROM t WHERE k = 1",
        ])
        .await
    }

    /// A table with a large deletion vector and a large map.
    pub async fn large() -> Sample {
        Sample::of(&[
            "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)",
            "INSERT INTO t SELECT value AS k, value * 7919 % 1000003 AS v FROM generate_series(1, 60000)",
            "DELETE FROM t WHERE v % 3 = 1",
            "OPTIMIZE t FULL",
            "DELETE FROM t WHERE v % 3 = 2 AND k % 2 = 0",
        ])
        .await
    }

    /// A table with a page of fragment records and with transactions beside a manifest.
    pub async fn many_fragments() -> Sample {
        Sample::of(&[
            "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)",
            "SET amend.rows_per_fragment = 1",
            "INSERT INTO t SELECT value AS k, value AS v FROM generate_series(1, 700)",
            "SET amend.rows_per_fragment = 1000000",
            "OPTIMIZE t FULL",
            "INSERT INTO t VALUES (701, 701)",
        ])
        .await
    }

    /// The table's objects in a folder.
    pub async fn objects_in(&self, folder: &str) -> Vec<String> {
        let store = Store::new(Arc::new(self.objects.fork()), Path::default(), "test:".into()).child(&self.folder);
        let mut found: Vec<String> = store.list(folder).await.unwrap().into_iter().map(|entry| entry.name).collect();
        found.sort();
        found
    }

    pub fn path(&self, object: &str) -> Path {
        Path::from(format!("{}/{object}", self.folder))
    }

    pub async fn bytes(&self, object: &str) -> Bytes {
        self.objects.get(&self.path(object)).await.unwrap().bytes().await.unwrap()
    }

    /// A copy of the store in which an object is another one, or missing.
    pub async fn with(&self, object: &str, bytes: Option<Vec<u8>>) -> Arc<InMemory> {
        let objects = self.objects.fork();
        match bytes {
            Some(bytes) => drop(objects.put(&self.path(object), bytes.into()).await.unwrap()),
            None => objects.delete(&self.path(object)).await.unwrap(),
        }
        Arc::new(objects)
    }

    fn versions(&self) -> impl Iterator<Item = (u64, &Vec<Row>, &BTreeSet<String>)> {
        (1..).zip(&self.versions).zip(&self.named).map(|((version, rows), named)| (version, rows, named))
    }

    /// Reads every version with SQL; those that name the damaged object may be refused, or must be if `always`.
    async fn check_rows(&self, objects: Arc<InMemory>, object: &str, always: bool, case: &str) {
        let lake = lake_in(objects);
        for (version, expected, named) in self.versions() {
            let session = session_of(&lake, 1).await;
            let found = try_rows(&session, &format!("SELECT k, v FROM t VERSION AS OF {version}")).await;
            let needed = named.contains(object);
            match found {
                Ok(found) => {
                    assert!(&found == expected, "{case}: version {version} has wrong rows");
                    assert!(!(needed && always), "{case}: version {version} was read");
                }
                Err(error) => {
                    assert!(needed, "{case}: version {version} needs no {object}: {error}");
                    assert_damaged(&error, object, case);
                }
            }
        }
    }

    /// Reads every version without SQL; those that name the damaged object must be refused.
    async fn check_log(&self, objects: Arc<InMemory>, object: &str, case: &str) {
        let log = VersionLog::new("t", Store::new(objects, Path::default(), "test:".into()).child(&self.folder));
        for (version, _, named) in self.versions() {
            let read = match log.read_if_present(version).await {
                Ok(Some(version)) => log.load_all(&version.snapshot).await.map(Some),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            match read {
                Ok(_) => assert!(!named.contains(object), "{case}: version {version} was read"),
                Err(error) => {
                    assert!(named.contains(object), "{case}: version {version} needs no {object}: {error}");
                    assert_damaged(&error, object, case);
                }
            }
        }
    }
}

/// The error is of the right kind, and names the table and the object.
fn assert_damaged(error: &Error, object: &str, case: &str) {
    let text = error.to_string();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Data, "XX001"), "{case}: {text}");
    assert!(text.contains(object) && text.contains("'t'"), "{case}: {text}");
}

pub fn flipped(whole: &[u8], at: usize, bit: usize) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    bytes[at] ^= 1 << bit;
    bytes
}

/// What can happen to an object other than a changed byte.
fn cut(whole: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let mut cases = vec![("missing".to_owned(), None), ("one byte longer".to_owned(), Some([whole, &[0]].concat()))];
    for length in [0, 1, 4, 8, 19, 20, 24, whole.len() / 2, whole.len() - 8, whole.len() - 4, whole.len() - 1] {
        if length < whole.len() {
            cases.push((format!("cut at {length} of {}", whole.len()), Some(whole[..length].to_vec())));
        }
    }
    cases
}

/// Objects with a checksum over all of their bytes: every byte counts for every version that names them.
async fn every_byte_counts(sample: &Sample, object: &str) {
    let whole = sample.bytes(object).await;
    let newest = ObjectName::version(sample.versions.len() as u64);
    for (what, bytes) in cut(&whole) {
        // That there was a newer version cannot be known; see below.
        if object == newest.as_str() && bytes.is_none() {
            continue;
        }
        let case = format!("{object} {what}");
        sample.check_rows(sample.with(object, bytes).await, object, true, &case).await;
    }
    for at in 0..whole.len() {
        let case = format!("{object}, byte {at} of {}", whole.len());
        let objects = sample.with(object, Some(flipped(&whole, at, at % 8))).await;
        sample.check_log(objects.clone(), object, &case).await;
        if at % 101 == 0 {
            sample.check_rows(objects, object, true, &case).await;
        }
    }
}

#[tokio::test]
async fn damaged_manifests_are_told_and_other_versions_can_be_read() {
    let sample = Sample::small().await;
    let manifests = sample.objects_in("_versions").await;
    assert_eq!(manifests.len(), 7);
    for object in manifests {
        every_byte_counts(&sample, &object).await;
    }
}

#[tokio::test]
async fn damaged_pages_and_transactions_are_told_and_other_versions_can_be_read() {
    let sample = Sample::many_fragments().await;
    for folder in ["_pages", "_transactions"] {
        let objects = sample.objects_in(folder).await;
        assert!(!objects.is_empty(), "{folder}");
        for object in objects {
            let whole = sample.bytes(&object).await;
            for (what, bytes) in cut(&whole) {
                sample.check_rows(sample.with(&object, bytes).await, &object, true, &format!("{object} {what}")).await;
            }
            for at in (0..whole.len()).step_by(97).chain(whole.len() - 24..whole.len()) {
                let case = format!("{object}, byte {at} of {}", whole.len());
                sample.check_log(sample.with(&object, Some(flipped(&whole, at, at % 8))).await, &object, &case).await;
            }
        }
    }
    // A page in place of another, and one of another table's.
    let pages = sample.objects_in("_pages").await;
    let other = sample.bytes(&sample.objects_in("_transactions").await[0]).await;
    sample.check_rows(sample.with(&pages[0], Some(other.to_vec())).await, &pages[0], true, "transactions in place of a page").await;
}

#[tokio::test]
async fn damaged_deletion_vectors_are_told_and_other_versions_can_be_read() {
    let sample = Sample::large().await;
    let objects = sample.objects_in("_deletions").await;
    assert_eq!(objects.len(), 2);
    for object in objects {
        let whole = sample.bytes(&object).await;
        for (what, bytes) in cut(&whole) {
            // The end of a Puffin file is for other readers.
            let always = bytes.as_ref().is_none_or(|bytes| bytes.len() < whole.len() / 2);
            sample.check_rows(sample.with(&object, bytes).await, &object, always, &format!("{object} {what}")).await;
        }
        for at in (0..whole.len()).step_by(whole.len() / 150).chain(whole.len() - 24..whole.len()) {
            let case = format!("{object}, byte {at} of {}", whole.len());
            sample.check_rows(sample.with(&object, Some(flipped(&whole, at, at % 8))).await, &object, false, &case).await;
        }
    }
}

#[tokio::test]
async fn damaged_data_files_are_told_and_never_read_wrongly() {
    let sample = Sample::small().await;
    let objects = sample.objects_in("data").await;
    assert_eq!(objects.len(), 4);
    for object in objects {
        let whole = sample.bytes(&object).await;
        for (what, bytes) in cut(&whole) {
            sample.check_rows(sample.with(&object, bytes).await, &object, true, &format!("{object} {what}")).await;
        }
        // One block holds all of it.
        for at in (0..whole.len()).step_by(7) {
            let case = format!("{object}, byte {at} of {}", whole.len());
            sample.check_rows(sample.with(&object, Some(flipped(&whole, at, at % 8))).await, &object, true, &case).await;
        }
    }
}

#[tokio::test]
async fn a_damaged_block_of_a_large_data_file_is_told_by_those_who_read_it() {
    let sample = Sample::large().await;
    let object = &sample.objects_in("data").await[0];
    let whole = sample.bytes(object).await;
    assert!(whole.len() > 3 * 64 * 1024, "{}", whole.len());
    let footer = whole.len() - 400..whole.len();
    let queries = [
        "SELECT k, v FROM t VERSION AS OF 2",
        "SELECT k, k AS v FROM t VERSION AS OF 2 WHERE k BETWEEN 100 AND 200",
        "SELECT v AS k, v FROM t VERSION AS OF 3 WHERE v > 999000",
        "SELECT count(*) AS k, sum(v) AS v FROM t VERSION AS OF 2",
        "SELECT min(k) AS k, max(k) AS v FROM t VERSION AS OF 3",
        "SELECT count(*) AS k, count(v) AS v FROM t VERSION AS OF 2",
        "SELECT k, v FROM t",
    ];
    let session = session_of(&lake_in(Arc::new(sample.objects.fork())), 1).await;
    let mut expected = Vec::new();
    for query in queries {
        expected.push(rows(&session, query).await);
    }
    let (mut refusals, mut answers) = (0, 0);
    for at in (0..whole.len()).step_by(whole.len() / 60).chain(footer.step_by(23)) {
        let objects = sample.with(object, Some(flipped(&whole, at, at % 8))).await;
        for (query, expected) in queries.iter().zip(&expected) {
            let session = session_of(&lake_in(objects.clone()), 2).await;
            match try_rows(&session, query).await {
                Ok(found) => {
                    answers += 1;
                    assert!(&found == expected, "byte {at}: {query}");
                }
                Err(error) => {
                    refusals += 1;
                    assert_damaged(&error, object, &format!("byte {at}: {query}"));
                }
            }
        }
    }
    assert!(refusals > 100 && answers > 100, "{refusals} refusals, {answers} answers");
}

#[tokio::test]
async fn statements_that_need_a_damaged_object_change_nothing() {
    let sample = Sample::small().await;
    let log = lake_in(Arc::new(sample.objects.fork())).table("t").await.unwrap();
    let newest = log.newest().await.unwrap();
    let file = newest.snapshot.fragments.iter().unwrap().next().unwrap().files[0].path.clone();
    let whole = sample.bytes(&file).await;
    for bytes in [None, Some(flipped(&whole, 20, 0)), Some(whole[..whole.len() - 9].to_vec())] {
        let objects = sample.with(&file, bytes).await;
        let lake = lake_in(objects.clone());
        for sql in [
            "UPDATE t SET v = v + 1",
            "DELETE FROM t WHERE v > 0",
            "OPTIMIZE t FULL",
            "MERGE INTO t USING (VALUES (3, 0)) AS s (k, v) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v",
            "INSERT INTO t SELECT k, v FROM t",
            "CREATE TABLE u AS SELECT k, v FROM t",
        ] {
            let before: Vec<_> = objects.list(None).map_ok(|meta| meta.location).try_collect().await.unwrap();
            assert_damaged(&refused(&session_of(&lake, 1).await, sql).await, &file, sql);
            let after: Vec<_> = objects.list(None).map_ok(|meta| meta.location).try_collect().await.unwrap();
            assert_eq!(before, after, "{sql}");
        }
        // What needs no rows of it goes on.
        let session = session_of(&lake, 1).await;
        change(&session, "INSERT INTO t VALUES (100, 100)").await;
        run(&session, "CREATE TABLE u (k BIGINT)").await;
    }
}

#[tokio::test]
async fn a_damaged_map_is_told_by_those_who_have_to_follow_it() {
    let sample = Sample::large().await;
    let object = &sample.objects_in("_moves").await[0];
    let whole = sample.bytes(object).await;
    let statements = ["DELETE FROM t WHERE k IN (5, 6, 60000)", "UPDATE t SET v = 0 WHERE k IN (5, 6, 60000)"];
    let sampled = (0..whole.len()).step_by(whole.len() / 40).chain(whole.len() - 5..whole.len());
    let flips = sampled.map(|at| (format!("byte {at}"), Some(flipped(&whole, at, at % 8))));
    // The table as it was before it was compacted.
    let newest = [4, 5].map(|version| sample.path(ObjectName::version(version).as_str()));
    let manifests = [sample.bytes(ObjectName::version(4).as_str()).await, sample.bytes(ObjectName::version(5).as_str()).await];
    for (number, (what, bytes)) in cut(&whole).into_iter().chain(flips).enumerate() {
        let objects = sample.with(object, bytes).await;
        for manifest in &newest {
            objects.delete(manifest).await.unwrap();
        }
        let session = session_of(&lake_in(objects.clone()), 1).await;
        let sql = statements[number % 2];
        let staged = session.stage(sql).await.unwrap();
        assert_eq!(staged.read_version(), 3);
        for (manifest, bytes) in newest.iter().zip(&manifests) {
            objects.put(manifest, bytes.clone().into()).await.unwrap();
        }
        let error = staged.commit().await.unwrap_err();
        assert_damaged(&error, object, &format!("{object} {what}, {sql}"));
        let session = session_of(&lake_in(objects.clone()), 1).await;
        assert!(rows(&session, "SELECT k, v FROM t").await == sample.versions[4], "{what}");
        // Nobody else needs it.
        change(&session, sql).await;
    }
}

#[tokio::test]
async fn a_damaged_catalog_is_told() {
    let objects = Arc::new(InMemory::new());
    let session = session_of(&lake_in(objects.clone()), 1).await;
    for name in ["a", "b", "c"] {
        run(&session, &format!("CREATE TABLE {name} AS SELECT value AS k, value AS v FROM generate_series(1, 2)")).await;
    }
    let object = ObjectName::catalog_version(3).to_string();
    let whole = objects.get(&Path::from(object.as_str())).await.unwrap().bytes().await.unwrap();
    let flips = (0..whole.len()).map(|at| (format!("byte {at}"), Some(flipped(&whole, at, at % 8))));
    for (what, bytes) in cut(&whole).into_iter().chain(flips) {
        let Some(bytes) = bytes else { continue };
        let damaged = Arc::new(objects.fork());
        damaged.put(&Path::from(object.as_str()), bytes.into()).await.unwrap();
        let session = session_of(&lake_in(damaged.clone()), 1).await;
        for sql in ["SELECT k, v FROM a", "CREATE TABLE d (k BIGINT)", "DROP TABLE c", "INSERT INTO b VALUES (3, 3)", "SHOW TABLES"] {
            let error = refused(&session, sql).await;
            assert_eq!(error.kind(), ErrorKind::Data, "{what}, {sql}: {error}");
            let text = error.to_string();
            assert!(text.contains(&object) && text.contains("catalog"), "{what}, {sql}: {error}");
        }
        // It was not written over, and no older one was taken for the newest.
        assert_eq!(lake_in(damaged).table_names().await.unwrap_err().kind(), ErrorKind::Data, "{what}");
    }
    // Older ones are not needed.
    let path = |version| Path::from(ObjectName::catalog_version(version).as_str());
    objects.delete(&path(1)).await.unwrap();
    objects.put(&path(2), "nonsense".into()).await.unwrap();
    assert_eq!(lake_in(objects.clone()).table_names().await.unwrap(), ["a", "b", "c"].map(Into::into));
}

#[tokio::test]
async fn a_missing_manifest_is_not_a_shorter_history() {
    // Long enough that the hint is written.
    let objects = Arc::new(InMemory::new());
    let lake = lake_in(objects.clone());
    let session = session_of(&lake, 1).await;
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
    for k in 2..=22 {
        change(&session, &format!("INSERT INTO t VALUES ({k}, {k})")).await;
    }
    let store = lake.table("t").await.unwrap().store().clone();
    assert_eq!(store.read(&ObjectName::hint()).await.unwrap(), "16");
    let all: Vec<Row> = (2..=22).map(|k| (k, k)).collect();
    for version in 1..22 {
        let damaged = Arc::new(objects.fork());
        damaged.delete(&store.location(&ObjectName::version(version))).await.unwrap();
        let session = session_of(&lake_in(damaged.clone()), 1).await;
        let object = ObjectName::version(version).to_string();
        match try_rows(&session, "SELECT k, v FROM t").await {
            Ok(found) => assert_eq!(found, all, "without version {version}"),
            Err(error) => assert_damaged(&error, &object, &format!("without version {version}")),
        }
        let error = refused(&session, &format!("SELECT k, v FROM t VERSION AS OF {version}")).await;
        assert_damaged(&error, &object, &format!("version {version}"));
        // Its number is not given away again.
        match session.execute("INSERT INTO t VALUES (23, 23)").await {
            Ok(_) => assert_eq!(rows(&session, "SELECT k, v FROM t").await.len(), 22),
            Err(error) => assert_damaged(&error, &object, &format!("INSERT without version {version}")),
        }
        assert!(damaged.head(&store.location(&ObjectName::version(version))).await.is_err(), "{version}");
    }
    // The hint is no more than that.
    for hint in ["", "0", "1", "15", "17", "22", "23", "99", "-1", "1e3", "18446744073709551615", "18446744073709551616", "\u{fffd}"] {
        let damaged = Arc::new(objects.fork());
        damaged.put(&store.location(&ObjectName::hint()), hint.to_owned().into()).await.unwrap();
        assert_eq!(rows(&session_of(&lake_in(damaged), 1).await, "SELECT k, v FROM t").await, all, "hint {hint:?}");
    }
    objects.delete(&store.location(&ObjectName::hint())).await.unwrap();
    assert_eq!(rows(&session_of(&lake_in(objects.clone()), 1).await, "SELECT k, v FROM t").await, all);
}

#[tokio::test]
async fn a_manifest_of_a_version_that_cannot_be_is_told() {
    let sample = Sample::small().await;
    let good = sample.bytes(ObjectName::version(7).as_str()).await;
    for version in [0, 9, 1000, u64::MAX - 1, u64::MAX] {
        for bytes in [good.to_vec(), b"nonsense".to_vec(), vec![]] {
            let name = ObjectName::version(version);
            let objects = sample.with(name.as_str(), Some(bytes)).await;
            let session = session_of(&lake_in(objects), 1).await;
            for sql in ["SELECT k, v FROM t", "INSERT INTO t VALUES (9, 9)", "OPTIMIZE t FULL"] {
                match session.execute(sql).await {
                    // Nobody looks for version 0.
                    Ok(_) => assert_eq!(version, 0, "{sql}"),
                    Err(error) => assert_damaged(&error, name.as_str(), sql),
                }
            }
        }
    }
}

#[tokio::test]
async fn a_catalog_of_a_version_that_cannot_be_is_told() {
    let objects = Arc::new(InMemory::new());
    run(&session_of(&lake_in(objects.clone()), 1).await, "CREATE TABLE a (k BIGINT, v BIGINT)").await;
    let first = objects.get(&Path::from(ObjectName::catalog_version(1).as_str())).await.unwrap().bytes().await.unwrap();
    for version in [5, u64::MAX - 1, u64::MAX] {
        let name = ObjectName::catalog_version(version);
        for bytes in [Bytes::from("nonsense"), first.clone()] {
            let damaged = Arc::new(objects.fork());
            damaged.put(&Path::from(name.as_str()), bytes.into()).await.unwrap();
            let session = session_of(&lake_in(damaged), 1).await;
            for sql in ["SELECT k, v FROM a", "CREATE TABLE b (k BIGINT)", "DROP TABLE a"] {
                let error = refused(&session, sql).await;
                assert_eq!(error.kind(), ErrorKind::Data, "{version}: {sql}: {error}");
                assert!(error.to_string().contains(name.as_str()), "{version}: {sql}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn missing_and_cut_files_of_a_folder_are_told() {
    let folder = TempDir::new().unwrap();
    let lake = Lake::open(folder.path()).unwrap();
    let session = session_of(&lake, 1).await;
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
    change(&session, "INSERT INTO t SELECT value AS k, value * 7919 % 1000003 AS v FROM generate_series(1, 60000)").await;
    change(&session, "DELETE FROM t WHERE v % 3 = 1").await;
    let log = lake.table("t").await.unwrap();
    let expected = rows(&session, "SELECT k, v FROM t").await;
    let mut tried = BTreeMap::new();
    for object in named_by(&log, 3).await {
        let path = std::path::Path::new(log.store().label()).join(&object);
        let whole = std::fs::read(&path).unwrap();
        for (what, bytes) in cut(&whole) {
            match bytes {
                None => std::fs::remove_file(&path).unwrap(),
                Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            }
            let session = session_of(&Lake::open(folder.path()).unwrap(), 2).await;
            match try_rows(&session, "SELECT k, v FROM t").await {
                Ok(found) => {
                    // The end of a Puffin file is for other readers; a version that is not there was never there.
                    let newest_is_gone = object.starts_with("_versions/") && what == "missing";
                    assert!(
                        newest_is_gone && found.len() == 60_000 || object.starts_with("_deletions/") && found == expected,
                        "{object} {what}"
                    );
                }
                Err(error) => {
                    *tried.entry(object.split('/').next().unwrap().to_owned()).or_insert(0) += 1;
                    assert_damaged(&error, &object, &format!("{object} {what}"));
                }
            }
            std::fs::write(&path, &whole).unwrap();
        }
    }
    assert_eq!(tried.keys().map(String::as_str).collect::<Vec<_>>(), ["_deletions", "_versions", "data"]);
    std::fs::remove_dir_all(log.store().label()).unwrap();
    let session = session_of(&Lake::open(folder.path()).unwrap(), 1).await;
    assert_damaged(&refused(&session, "SELECT k, v FROM t").await, "_versions", "no folder");
}
