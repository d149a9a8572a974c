//! What a store makes of the answers of the object store below.

use super::super::faults::{Answer, Fault, FaultStore, OpKind};
use super::*;
use crate::error::ErrorKind;

fn faulty() -> (FaultStore, Store) {
    let faults = FaultStore::new(Arc::new(InMemory::new()));
    let store = Store::new(Arc::new(faults.clone()), Path::from("t"), "mem".into());
    (faults, store)
}

#[tokio::test]
async fn only_already_exists_means_exists() {
    let name = ObjectName::version(1);
    for (answer, exists) in [
        (Answer::AlreadyExists, true),
        (Answer::Precondition, false),
        (Answer::NotModified, false),
        (Answer::Generic, false),
        (Answer::Timeout, false),
    ] {
        for (fault, applied) in [(Fault::Before(answer), false), (Fault::After(answer), true)] {
            let (faults, store) = faulty();
            faults.fail_on(OpKind::Create, "_versions", 0, fault);
            match store.create(&name, Bytes::from("x")).await {
                CreateAnswer::Exists => assert!(exists, "{fault:?}"),
                CreateAnswer::Unclear(error) => {
                    assert!(!exists, "{fault:?}");
                    assert_eq!(error.kind(), ErrorKind::Unavailable);
                    assert!(error.to_string().starts_with("cannot create 'mem/_versions/18446744073709551614.manifest': "), "{error}");
                }
                CreateAnswer::Created | CreateAnswer::Refused(_) => panic!("{fault:?}"),
            }
            assert_eq!(store.exists(&name).await.unwrap(), applied, "{fault:?}");
        }
    }
}

#[tokio::test]
async fn errors_name_the_operation_and_the_object() {
    let (faults, store) = faulty();
    let name = ObjectName::parse("data/x").unwrap();
    for kind in [OpKind::Get, OpKind::Put, OpKind::Delete] {
        for n in [0, 1, 2, 3] {
            faults.fail_on(kind, "data", n, Fault::Before(Answer::Generic));
        }
    }
    faults.fail_on(OpKind::List, "data", 0, Fault::Before(Answer::Generic));
    let mut writer = store.writer(&name);
    writer.write(Bytes::from("x")).await.unwrap();
    let failures = [
        ("read", store.read(&name).await.unwrap_err(), "data/x"),
        ("read", store.read_if_present(&name).await.unwrap_err(), "data/x"),
        ("look up", store.exists(&name).await.unwrap_err(), "data/x"),
        ("look up", store.size(&name).await.unwrap_err(), "data/x"),
        ("write", store.write(&name, Bytes::new()).await.unwrap_err(), "data/x"),
        ("write", writer.finish().await.unwrap_err(), "data/x"),
        ("delete", store.delete(&name).await.unwrap_err(), "data/x"),
        ("list", store.list("data").await.unwrap_err(), "data"),
    ];
    for (operation, error, object) in failures {
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.to_string(), format!("cannot {operation} 'mem/{object}': Generic FaultStore error: injected fault"));
    }
}

#[tokio::test]
async fn a_writer_that_failed_goes_on_failing() {
    let (faults, store) = faulty();
    let name = ObjectName::new_data();
    // The first part fails; the start of the upload is operation 0.
    faults.fail_at(1, Fault::Before(Answer::Generic));
    let mut writer = store.writer(&name);
    let piece = Bytes::from(vec![1; 9 * 1024 * 1024]);
    let mut failed = 0;
    for _ in 0..8 {
        failed += usize::from(writer.write(piece.clone()).await.is_err());
    }
    assert!(failed > 0);
    let message = writer.finish().await.unwrap_err().to_string();
    assert!(message.contains("an earlier part of it could not be written"), "{message}");
    assert!(!store.exists(&name).await.unwrap());
}

#[test]
fn url_keys_tell_stores_apart() {
    let (one, other) = (Store::memory(), Store::memory());
    assert_ne!(one.url_key(), other.url_key());
    assert_eq!(one.url_key(), one.clone().child("tables").url_key());
    let number = one.url_key().strip_prefix("amend-").unwrap();
    assert!(number.bytes().all(|byte| byte.is_ascii_digit()));
}

#[test]
fn children_cannot_lead_outside() {
    let store = Store::new(Arc::new(InMemory::new()), Path::from("root"), "mem".into());
    let name = ObjectName::parse("data/x").unwrap();
    for (folder, location) in [
        ("tables/a", "root/tables/a/data/x"),
        ("/tables//a/", "root/tables/a/data/x"),
        ("../a", "root/%2E%2E/a/data/x"),
        ("./a", "root/%2E/a/data/x"),
        ("", "root/data/x"),
        ("a%2Fb", "root/a%252Fb/data/x"),
    ] {
        assert_eq!(store.child(folder).location(&name).as_ref(), location);
    }
    assert_eq!(store.child("a\u{1b}b").label(), "mem/a%1Bb");
}
