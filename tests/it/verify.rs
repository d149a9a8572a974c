//! VERIFY: a table as it should be has no problem; whatever is damaged is named, and nothing else is.

use crate::damage::{Sample, flipped};
use crate::support::{lake_in, problems, run, session_of};
use amend::manifest::encode::encode_manifest;
use amend::manifest::version::Version;
use amend::store::ObjectName;
use amend::table::fragment::{DataFile, Fragment};
use amend::table::stats::StatValue;
use amend::txn::action::Action;
use amend::{Outcome, Session};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::UInt64Type;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use std::sync::Arc;

async fn session(objects: Arc<InMemory>) -> Session {
    session_of(&lake_in(objects), 2).await
}

/// The names of what is wrong.
async fn named(objects: Arc<InMemory>, sql: &str) -> Vec<String> {
    let mut named: Vec<String> = problems(&session(objects).await, sql).await.into_iter().map(|(object, _)| object).collect();
    named.sort();
    named.dedup();
    named
}

#[tokio::test]
async fn whatever_is_damaged_is_named_and_nothing_else() {
    for (sample, kinds) in [
        (Sample::small().await, vec!["_versions", "data"]),
        (Sample::large().await, vec!["_deletions", "_moves", "data"]),
        (Sample::many_fragments().await, vec!["_pages", "_transactions"]),
    ] {
        for all in ["VERIFY t", "VERIFY TABLE t ALL VERSIONS"] {
            assert_eq!(problems(&session(Arc::new(sample.objects.fork())).await, all).await, [], "{all}");
        }
        let newest = sample.named.last().unwrap();
        for object in kinds {
            let objects = sample.objects_in(object).await;
            assert!(!objects.is_empty(), "{object}");
            for object in objects.iter().step_by(1.max(objects.len() / 6)) {
                let whole = sample.bytes(object).await;
                let mut cases: Vec<(String, Option<Vec<u8>>)> = [9, whole.len() / 3, whole.len() * 2 / 3, whole.len() - 2]
                    .into_iter()
                    .map(|at| (format!("byte {at} of {}", whole.len()), Some(flipped(&whole, at, at % 8))))
                    .collect();
                cases.push(("cut".into(), Some(whole[..whole.len() - 1].to_vec())));
                cases.push(("longer".into(), Some([whole.as_ref(), &[0]].concat())));
                // That there was a newer version cannot be known.
                if *object != ObjectName::version(sample.versions.len() as u64).to_string() {
                    cases.push(("missing".into(), None));
                }
                for (case, bytes) in cases {
                    let damaged = sample.with(object, bytes).await;
                    let case = format!("{object}, {case}");
                    assert_eq!(named(damaged.clone(), "VERIFY TABLE t ALL VERSIONS").await, [object.as_str()], "{case}");
                    let expected: &[&str] = if newest.contains(object) { &[object.as_str()] } else { &[] };
                    assert_eq!(named(damaged, "VERIFY t").await, expected, "{case}");
                }
            }
        }
    }
}

#[tokio::test]
async fn it_says_what_it_looked_at() {
    let sample = Sample::small().await;
    let Outcome::Rows(answer) = run(&session(Arc::new(sample.objects.fork())).await, "VERIFY t ALL VERSIONS").await else { panic!() };
    let batch = &answer.batches[0];
    let (kinds, checked) = (batch.column(1).as_string::<i32>(), batch.column(3).as_primitive::<UInt64Type>());
    let found: Vec<(&str, u64)> = kinds.iter().flatten().zip(checked.values().iter().copied()).collect();
    // Fragments count once for each record that they had.
    assert_eq!(found, [("manifest", 7), ("map", 1), ("data file", 4), ("fragment", 8)]);
}

#[tokio::test]
async fn several_problems_are_all_told() {
    let sample = Sample::small().await;
    let objects = Arc::new(sample.objects.fork());
    let mut damaged = sample.objects_in("data").await;
    for object in &damaged {
        objects.delete(&sample.path(object)).await.unwrap();
    }
    let second = ObjectName::version(2).to_string();
    objects.put(&sample.path(&second), "nothing of the kind".into()).await.unwrap();
    damaged.push(second);
    damaged.sort();
    assert_eq!(named(objects, "VERIFY t ALL VERSIONS").await, damaged);
}

/// A table in which the manifest of the newest version says something else, consistently with its transactions.
async fn lying(lie: impl Fn(&mut DataFile)) -> Vec<(String, String)> {
    let objects = Arc::new(InMemory::new());
    let lake = lake_in(objects.clone());
    let writer = session_of(&lake, 1).await;
    run(&writer, "SET amend.max_inline_bytes = 0").await;
    run(&writer, "CREATE TABLE t (k BIGINT NOT NULL, v TEXT)").await;
    run(&writer, "INSERT INTO t SELECT value, CASE WHEN value % 10 = 0 THEN NULL ELSE 'x' || value END FROM generate_series(1, 100)").await;
    assert_eq!(problems(&writer, "VERIFY t").await, []);
    let log = lake.table("t").await.unwrap();
    let mut version: Version = log.read(2).await.unwrap().as_ref().clone();
    let fragment = version.snapshot.fragments.iter().unwrap().next().unwrap().clone();
    let mut files = fragment.files.clone();
    lie(&mut files[0]);
    version.snapshot.fragments.put(Arc::new(Fragment { files, ..fragment.as_ref().clone() })).unwrap();
    for action in version.transactions.iter_mut().flat_map(|committed| &mut committed.transaction.steps).flat_map(|step| &mut step.actions)
    {
        if let Action::AddDataFile(add) = action {
            lie(&mut add.file);
        }
    }
    let bytes = encode_manifest(&version, None).unwrap().bytes;
    objects.put(&log.store().location(&ObjectName::version(2)), bytes.into()).await.unwrap();
    problems(&session(objects).await, "VERIFY t").await
}

#[tokio::test]
async fn statistics_and_counts_are_held_against_the_values() {
    assert_eq!(lying(|_| {}).await, []);
    type Lie = fn(&mut DataFile);
    let lies: [(&str, &str, Lie); 5] = [
        ("fragment 0", "column 'k' has a value in row 0 that lies beyond the least one", |file| {
            file.columns[0].stats.min = Some(StatValue::Int(2))
        }),
        ("fragment 0", "column 'k' has a value in row 99 that lies beyond the greatest one", |file| {
            file.columns[0].stats.max = Some(StatValue::Int(99))
        }),
        ("fragment 0", "column 'v' has 10 NULLs, the manifest says 9", |file| file.columns[1].stats.null_count = Some(9)),
        ("fragment 0", "column 'v' has a value in row 98 that lies beyond", |file| {
            file.columns[1].stats.max = Some(StatValue::Utf8("x98".into()))
        }),
        ("data", "row groups", |file| file.row_groups = vec![50, 50]),
    ];
    for (object, problem, lie) in lies {
        let found = lying(lie).await;
        assert!(found.len() == 1 && found[0].0.contains(object) && found[0].1.contains(problem), "{problem}: {found:?}");
    }
}
