//! What every store promises, tried on each: memory, a durable folder, a folder without syncing, and a store that could
//! fail but does not. A new kind of store is added to `backends` and has to pass all of it.

use super::path::VERSIONS_FOLDER;
use super::{CreateAnswer, FaultStore, ObjectName, Store, Written};
use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// A store, and the folder it lies in if it lies in one.
struct Backend {
    store: Store,
    folder: Option<TempDir>,
}

fn backends() -> Vec<Backend> {
    let folder = |make: fn(&std::path::Path) -> crate::error::Result<Store>| {
        let folder = tempfile::tempdir().unwrap();
        Backend { store: make(&folder.path().join("not yet/there")).unwrap(), folder: Some(folder) }
    };
    let in_memory = |store| Backend { store, folder: None };
    let faulty = FaultStore::new(Arc::new(InMemory::new()));
    let below = tempfile::tempdir().unwrap();
    let faulty_folder = FaultStore::new(Arc::new(super::DurableLocal::new(below.path(), true).unwrap()));
    vec![
        in_memory(Store::memory()),
        in_memory(Store::memory().child("tables/x-1234")),
        folder(Store::local),
        folder(Store::local_not_durable),
        folder(|dir| Ok(Store::local(dir)?.child("tables/x-1234"))),
        in_memory(Store::new(Arc::new(faulty), Path::default(), "faulty memory".into())),
        Backend { store: Store::new(Arc::new(faulty_folder), Path::from("a/b"), "faulty folder".into()), folder: Some(below) },
    ]
}

/// The names of all files below `folder`.
fn files_below(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_below(&entry.path()));
        } else {
            found.push(entry.file_name().into_string().unwrap());
        }
    }
    found
}

fn sample(length: usize) -> Bytes {
    (0..length as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

#[tokio::test]
async fn nothing_is_there_at_first() {
    for Backend { store, folder } in backends() {
        let name = ObjectName::version(1);
        assert_eq!(store.read_if_present(&name).await.unwrap(), None, "{}", store.label());
        assert_eq!(store.read_at_most(&name, 0).await.unwrap(), None);
        assert!(!store.exists(&name).await.unwrap());
        assert!(store.list("data").await.unwrap().is_empty());
        assert_eq!(store.newest_version(VERSIONS_FOLDER).await.unwrap(), None);
        store.delete(&name).await.unwrap();
        for message in [store.read(&name).await.unwrap_err(), store.read_range(&name, 0..1).await.unwrap_err()].map(|e| e.to_string()) {
            assert!(message.starts_with(&format!("cannot read '{}/{name}'", store.label())), "{message}");
            assert!(message.contains("not found"), "{message}");
        }
        assert!(store.size(&name).await.unwrap_err().to_string().contains("not found"));
        // Reading does not create the folder.
        if let Some(folder) = folder {
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{}", store.label());
        }
    }
}

#[tokio::test]
async fn written_objects_are_read_back() {
    for Backend { store, .. } in backends() {
        let (name, bytes) = (ObjectName::new_page(), sample(1000));
        store.write(&name, bytes.clone()).await.unwrap();
        assert_eq!(store.read(&name).await.unwrap(), bytes, "{}", store.label());
        assert_eq!(store.read_if_present(&name).await.unwrap(), Some(bytes.clone()));
        assert!(store.exists(&name).await.unwrap());
        assert_eq!(store.size(&name).await.unwrap(), 1000);
        for range in [0..1000, 0..1, 999..1000, 10..20, 0..0, 500..500] {
            let expected = bytes.slice(range.start as usize..range.end as usize);
            assert_eq!(store.read_range(&name, range).await.unwrap(), expected);
        }
        for range in [999..1001, 1000..1001, 2000..3000] {
            let message = store.read_range(&name, range).await.unwrap_err().to_string();
            assert!(message.starts_with("cannot read '"), "{message}");
        }
        assert_eq!(store.read_at_most(&name, 1000).await.unwrap(), Some(bytes));
        let message = store.read_at_most(&name, 999).await.unwrap_err().to_string();
        assert!(message.contains("it has 1000 bytes, more than the limit of 999"), "{message}");

        let empty = ObjectName::new_page();
        store.write(&empty, Bytes::new()).await.unwrap();
        assert_eq!((store.read(&empty).await.unwrap(), store.size(&empty).await.unwrap()), (Bytes::new(), 0));
    }
}

#[tokio::test]
async fn a_hint_is_replaced() {
    for Backend { store, .. } in backends() {
        for text in ["1", "27", "3"] {
            store.write_not_durable(&ObjectName::hint(), Bytes::from(text)).await.unwrap();
            assert_eq!(store.read(&ObjectName::hint()).await.unwrap(), text, "{}", store.label());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_racing_creators_exactly_one_wins() {
    for Backend { store, folder } in backends() {
        for version in 0..20 {
            let name = ObjectName::version(version);
            let racers = (0..8u8).map(|racer| {
                let (store, name) = (store.clone(), name.clone());
                tokio::spawn(async move { store.create(&name, Bytes::from(vec![racer; 1000 + racer as usize])).await })
            });
            let mut winners = Vec::new();
            for (racer, answer) in futures::future::join_all(racers).await.into_iter().enumerate() {
                match answer.unwrap() {
                    CreateAnswer::Created => winners.push(racer),
                    CreateAnswer::Exists => {}
                    CreateAnswer::Unclear(error) | CreateAnswer::Refused(error) => panic!("{}: {error}", store.label()),
                }
            }
            assert_eq!(winners.len(), 1, "{}: {winners:?}", store.label());
            assert_eq!(store.read(&name).await.unwrap(), vec![winners[0] as u8; 1000 + winners[0]]);
        }
        assert_eq!(store.newest_version(VERSIONS_FOLDER).await.unwrap(), Some(19));
        if let Some(folder) = folder {
            assert_eq!(files_below(folder.path()).len(), 20, "{}", store.label());
        }
    }
}

#[tokio::test]
async fn what_was_created_is_never_replaced() {
    for Backend { store, .. } in backends() {
        let name = ObjectName::version(1);
        assert!(matches!(store.create(&name, Bytes::from("first")).await, CreateAnswer::Created), "{}", store.label());
        assert!(matches!(store.create(&name, Bytes::from("second")).await, CreateAnswer::Exists));
        assert_eq!(store.read(&name).await.unwrap(), "first");
        store.delete(&name).await.unwrap();
        assert!(matches!(store.create(&name, Bytes::from("third")).await, CreateAnswer::Created));
        assert_eq!(store.read(&name).await.unwrap(), "third");
    }
}

#[tokio::test]
async fn listing_shows_one_folder() {
    for Backend { store, folder } in backends() {
        let before_ms = super::env::now_ms() - 1000;
        let mut expected = Vec::new();
        for length in [0, 1, 77] {
            let name = ObjectName::new_data();
            store.write(&name, sample(length)).await.unwrap();
            expected.push((name.to_string(), length as u64));
        }
        store.write(&ObjectName::new_page(), sample(5)).await.unwrap();
        store.child("data").write(&ObjectName::new_page(), sample(5)).await.unwrap();
        let entries = store.list("data").await.unwrap();
        let mut found: Vec<(String, u64)> = entries.iter().map(|entry| (entry.name.clone(), entry.size_bytes)).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{}", store.label());
        assert!(entries.iter().all(|entry| (before_ms..before_ms + 60_000).contains(&entry.modified_ms)), "{entries:?}");

        let (first, _) = &expected[0];
        store.delete(&ObjectName::parse(first).unwrap()).await.unwrap();
        store.delete(&ObjectName::parse(first).unwrap()).await.unwrap();
        let left: Vec<String> = store.list("data").await.unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(left.len(), 2);
        assert!(!left.contains(first));
        if let Some(folder) = folder {
            assert_eq!(files_below(folder.path()).len(), 4, "{}", store.label());
        }
    }
}

#[tokio::test]
async fn the_newest_version_is_found_among_other_files() {
    for Backend { store, .. } in backends() {
        for version in [3, 11, 7] {
            store.create(&ObjectName::version(version), Bytes::new()).await;
        }
        store.create(&ObjectName::catalog_version(99), Bytes::new()).await;
        store.write(&ObjectName::hint(), Bytes::from("50")).await.unwrap();
        store.write(&ObjectName::parse("_versions/00000000000000000000.manifest.bak").unwrap(), Bytes::new()).await.unwrap();
        assert_eq!(store.newest_version("_versions").await.unwrap(), Some(11), "{}", store.label());
        assert_eq!(store.newest_version("_catalog").await.unwrap(), Some(99));
    }
}

#[tokio::test]
async fn children_are_apart() {
    for Backend { store, folder } in backends() {
        let name = ObjectName::new_data();
        let (one, other) = (store.child("tables/one"), store.child("tables").child("other"));
        one.write(&name, Bytes::from("one")).await.unwrap();
        assert_eq!(other.read_if_present(&name).await.unwrap(), None, "{}", store.label());
        assert_eq!(store.child("tables").child("one").read(&name).await.unwrap(), "one");
        assert_eq!((one.url_key(), one.label().to_owned()), (store.url_key(), format!("{}/tables/one", store.label())));
        let (above, below) = (store.location(&name).to_string(), one.location(&name).to_string());
        assert_eq!(below, above.replace("data/", "tables/one/data/"));

        // A hostile folder name stays inside.
        let outside = store.child("../../outside");
        outside.write(&name, Bytes::from("inside")).await.unwrap();
        assert_eq!(outside.read(&name).await.unwrap(), "inside");
        if let Some(folder) = folder {
            assert!(!folder.path().parent().unwrap().join("outside").exists());
            assert!(!folder.path().join("outside").exists());
        }
    }
}

#[tokio::test]
async fn a_writer_says_what_it_wrote() {
    let part = 8 * 1024 * 1024;
    let all = sample(3 * part + 1);
    for Backend { store, folder } in backends() {
        for length in [0, 1, 100_000, part, part + 1, 2 * part + 12_345] {
            let (name, bytes) = (ObjectName::new_data(), all.slice(..length));
            let mut writer = store.writer(&name);
            for piece in bytes.chunks(1_000_003) {
                writer.write(Bytes::copy_from_slice(piece)).await.unwrap();
                assert!(!store.exists(&name).await.unwrap());
            }
            assert_eq!(writer.size_bytes(), length as u64);
            assert_eq!(writer.finish().await.unwrap(), Written::of(&bytes), "{} {length}", store.label());
            assert!(store.read(&name).await.unwrap() == bytes, "{} {length}", store.label());
        }
        // All at once.
        let name = ObjectName::new_data();
        let mut writer = store.writer(&name);
        writer.write(all.clone()).await.unwrap();
        assert_eq!(writer.finish().await.unwrap(), Written::of(&all));
        assert!(store.read(&name).await.unwrap() == all, "{}", store.label());
        if let Some(folder) = folder {
            assert_eq!(files_below(folder.path()).len(), 7, "{}", store.label());
        }
    }
}

#[tokio::test]
async fn a_writer_that_gives_up_leaves_nothing() {
    let all = sample(9_000_000);
    for Backend { store, folder } in backends() {
        for length in [10, all.len()] {
            let mut writer = store.writer(&ObjectName::new_data());
            writer.write(all.slice(..length)).await.unwrap();
            writer.abort().await.unwrap();
            let mut writer = store.writer(&ObjectName::new_data());
            writer.write(all.slice(..length)).await.unwrap();
            drop(writer);
        }
        assert!(store.list("data").await.unwrap().is_empty(), "{}", store.label());
        if let Some(folder) = folder {
            // Parts that were on their way when the writer was dropped end by themselves.
            for _ in 0..100 {
                if files_below(folder.path()).is_empty() {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            assert_eq!(files_below(folder.path()), Vec::<String>::new(), "{}", store.label());
        }
    }
}
