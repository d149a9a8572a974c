//! What is particular to a folder on disk: half-written files, folders that refuse, syncing that fails.

use super::*;
use crate::error::{Error, ErrorKind};
use crate::store::{CreateAnswer, ObjectName, Store};
use object_store::ObjectStoreExt;

fn location(name: &str) -> ObjectPath {
    ObjectPath::from(name)
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The operating system's error at the root of `error`.
fn io_error(error: &Error) -> &io::Error {
    let mut source: &dyn std::error::Error = error;
    while let Some(next) = source.source() {
        source = next;
    }
    source.downcast_ref().unwrap_or_else(|| panic!("{error} does not come from the operating system"))
}

#[tokio::test]
async fn half_written_files_are_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let store = DurableLocal::new(folder.path(), true).unwrap();
    store.put(&location("data/whole"), "bytes".into()).await.unwrap();
    let mut upload = store.put_multipart(&location("data/half")).await.unwrap();
    upload.put_part("part".into()).await.unwrap();

    let on_disk = names_in(&folder.path().join("data"));
    let half: Vec<&String> = on_disk.iter().filter(|name| name.as_str() != "whole").collect();
    assert_eq!((on_disk.len(), half.len()), (2, 1));
    assert!(half[0].strip_prefix('#').unwrap().bytes().all(|byte| byte.is_ascii_digit()), "{half:?}");

    let listed: Vec<ObjectMeta> = store.list(None).try_collect().await.unwrap();
    assert_eq!(listed.iter().map(|meta| meta.location.as_ref()).collect::<Vec<_>>(), ["data/whole"]);
    let listed = store.list_with_delimiter(Some(&location("data"))).await.unwrap().objects;
    assert_eq!(listed.iter().map(|meta| meta.location.as_ref()).collect::<Vec<_>>(), ["data/whole"]);
    assert!(store.get(&ObjectPath::parse(format!("data/{}", half[0])).unwrap()).await.is_err());

    upload.complete().await.unwrap();
    assert_eq!(names_in(&folder.path().join("data")), ["half", "whole"]);
    assert_eq!(store.get(&location("data/half")).await.unwrap().bytes().await.unwrap(), "part");
}

#[tokio::test]
async fn only_old_half_written_files_are_cleared_up() {
    let folder = tempfile::tempdir().unwrap();
    let table = Store::local(folder.path()).unwrap().child("tables/x");
    assert_eq!(table.remove_half_written("data", u64::MAX >> 10).await.unwrap(), 0);
    let whole = ObjectName::new_data();
    table.write(&whole, Bytes::from("x")).await.unwrap();
    let data = folder.path().join("tables/x/data");
    for name in ["#123", "#340282366920938463463374607431768211455", "#", "#12a", "12", "x#12"] {
        fs::write(data.join(name), "half").unwrap();
    }
    let now_ms = env::now_ms();
    assert_eq!(table.remove_half_written("data", now_ms - 60_000).await.unwrap(), 0);
    assert_eq!(table.remove_half_written("_pages", now_ms + 60_000).await.unwrap(), 0);
    assert_eq!(names_in(&data).len(), 7);
    assert_eq!(table.remove_half_written("data", now_ms + 60_000).await.unwrap(), 2);
    let mut left = ["#", "#12a", whole.file(), "12", "x#12"];
    left.sort();
    assert_eq!(names_in(&data), left);
    assert_eq!(Store::memory().remove_half_written("data", now_ms).await.unwrap(), 0);
}

#[tokio::test]
async fn folders_are_listed_and_the_empty_ones_removed() {
    let folder = tempfile::tempdir().unwrap();
    let lake = Store::local(folder.path()).unwrap();
    assert_eq!(lake.list_folders("tables").await.unwrap(), Vec::<String>::new());
    let (kept, emptied) = (lake.child("tables/kept"), lake.child("tables/emptied"));
    let (a, b) = (ObjectName::new_data(), ObjectName::new_data());
    kept.write(&a, Bytes::from("x")).await.unwrap();
    emptied.write(&b, Bytes::from("x")).await.unwrap();
    let mut found = lake.list_folders("tables").await.unwrap();
    found.sort();
    assert_eq!(found, ["emptied", "kept"]);
    emptied.delete(&b).await.unwrap();
    for table in [&kept, &emptied] {
        table.remove_empty_folders().await.unwrap();
    }
    assert_eq!(lake.list_folders("tables").await.unwrap(), ["kept"]);
    assert!(kept.exists(&a).await.unwrap());
    emptied.remove_empty_folders().await.unwrap();
}

#[tokio::test]
async fn parts_may_arrive_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = DurableLocal::new(folder.path(), true).unwrap();
    let mut upload = store.put_multipart(&location("data/x")).await.unwrap();
    let (first, second, third) = (upload.put_part("one,".into()), upload.put_part("two,".into()), upload.put_part("three".into()));
    third.await.unwrap();
    first.await.unwrap();
    second.await.unwrap();
    upload.complete().await.unwrap();
    assert_eq!(store.get(&location("data/x")).await.unwrap().bytes().await.unwrap(), "one,two,three");
}

#[tokio::test]
async fn an_upload_with_a_missing_part_is_not_completed() {
    let folder = tempfile::tempdir().unwrap();
    let store = DurableLocal::new(folder.path(), true).unwrap();
    let mut upload = store.put_multipart(&location("data/x")).await.unwrap();
    drop(upload.put_part("never sent".into()));
    upload.put_part("sent".into()).await.unwrap();
    let message = upload.complete().await.unwrap_err().to_string();
    assert!(message.contains("only 4 of 14 bytes were written"), "{message}");
    assert!(upload.put_part("late".into()).await.unwrap_err().to_string().contains("has ended"));
    assert!(upload.complete().await.is_err());
    assert_eq!(names_in(&folder.path().join("data")), Vec::<String>::new());
}

#[tokio::test]
async fn a_file_where_a_folder_should_be_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("_versions"), "in the way").unwrap();
    fs::write(folder.path().join("root"), "in the way").unwrap();
    let stores = [(Store::local(folder.path()), "_versions"), (Store::local(&folder.path().join("root")), "root")];
    for (store, in_the_way) in stores {
        let store = store.unwrap();
        let name = ObjectName::version(1);
        let CreateAnswer::Refused(create) = store.create(&name, Bytes::from("x")).await else {
            panic!("a file was created below a file");
        };
        let write = store.write(&name, Bytes::from("x")).await.unwrap_err();
        let read = store.read_if_present(&name).await.unwrap_err();
        for error in [&create, &write, &read] {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            let in_the_way = folder.path().join(in_the_way).display().to_string();
            assert!(error.to_string().contains(&in_the_way), "{error}");
            assert!(matches!(io_error(error).kind(), io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists), "{error}");
        }
    }
    assert_eq!(names_in(folder.path()), ["_versions", "root"]);
}

#[tokio::test]
async fn a_folder_that_was_removed_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::local(folder.path()).unwrap();
    let (first, second) = (ObjectName::new_data(), ObjectName::new_data());
    store.write(&first, Bytes::from("first")).await.unwrap();
    fs::remove_dir_all(folder.path().join("data")).unwrap();
    store.write(&second, Bytes::from("second")).await.unwrap();
    assert_eq!(store.read(&second).await.unwrap(), "second");
    assert_eq!(names_in(&folder.path().join("data")), [second.file()]);
}

#[tokio::test]
async fn odd_folder_names_work() {
    let folder = tempfile::tempdir().unwrap();
    for odd in ["with space", "with#hash", "per%25cent", "ünïcode", "a~b[c]"] {
        let store = Store::local(&folder.path().join(odd).join("lake")).unwrap();
        let name = ObjectName::new_data();
        store.write(&name, Bytes::from("x")).await.unwrap();
        assert_eq!(store.read(&name).await.unwrap(), "x");
        assert_eq!(store.list("data").await.unwrap()[0].name, name.as_str());
        assert!(folder.path().join(odd).join("lake").join(name.as_str()).is_file(), "{odd}");
    }
}

#[tokio::test]
async fn nothing_is_read_or_written_over_a_folder_that_cannot_be_synced() {
    let folder = tempfile::tempdir().unwrap();
    let store = DurableLocal::new(folder.path(), true).unwrap();
    store.put(&location("_versions/v"), "bytes".into()).await.unwrap();
    // A path below a file cannot be opened, so it cannot be synced.
    let blocker = folder.path().join("blocker");
    fs::write(&blocker, "").unwrap();
    assert!(store.disk.sync_folder(&blocker.join("folder")).is_err());

    let read = store.get(&location("_versions/v")).await.unwrap_err().to_string();
    let write = store.put(&location("_versions/w"), "bytes".into()).await.unwrap_err().to_string();
    for message in [read, write] {
        assert!(message.contains("cannot sync folder") && message.contains("blocker/folder"), "{message}");
    }
    assert_eq!(names_in(&folder.path().join("_versions")), ["v"]);

    fs::remove_file(&blocker).unwrap();
    fs::create_dir_all(blocker.join("folder")).unwrap();
    assert_eq!(store.get(&location("_versions/v")).await.unwrap().bytes().await.unwrap(), "bytes");
    store.put(&location("_versions/w"), "bytes".into()).await.unwrap();
}

#[tokio::test]
async fn what_is_not_offered_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let store = DurableLocal::new(folder.path(), true).unwrap();
    store.put(&location("data/x"), "bytes".into()).await.unwrap();
    let update = PutMode::Update(object_store::UpdateVersion { e_tag: None, version: None });
    assert!(matches!(store.put_opts(&location("data/x"), "y".into(), update.into()).await, Err(StoreError::NotImplemented { .. })));
    assert!(matches!(store.copy(&location("data/x"), &location("data/y")).await, Err(StoreError::NotImplemented { .. })));
    assert!(matches!(store.rename(&location("data/x"), &location("data/y")).await, Err(StoreError::NotImplemented { .. })));
    assert_eq!(names_in(&folder.path().join("data")), ["x"]);
}
