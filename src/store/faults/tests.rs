//! The faults strike where they should, and do what they say.

use super::*;
use object_store::memory::InMemory;

fn store() -> (FaultStore, Arc<dyn ObjectStore>) {
    let inner: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    (FaultStore::new(Arc::clone(&inner)), inner)
}

async fn content(store: &dyn ObjectStore, path: &str) -> Option<Bytes> {
    match store.get(&Path::from(path)).await {
        Ok(found) => Some(found.bytes().await.unwrap()),
        Err(StoreError::NotFound { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

/// One of each kind of operation.
async fn run(store: &FaultStore) -> Vec<bool> {
    let (x, y) = (Path::from("data/x"), Path::from("data/y"));
    vec![
        store.put(&x, "0123456789".into()).await.is_ok(),
        store.put_opts(&y, "0123456789".into(), PutMode::Create.into()).await.is_ok(),
        store.get(&x).await.is_ok(),
        store.get_ranges(&x, &[0..3, 5..6]).await.is_ok(),
        store.list_with_delimiter(Some(&Path::from("data"))).await.is_ok(),
        store.list(None).try_collect::<Vec<_>>().await.is_ok(),
        store.delete(&x).await.is_ok(),
    ]
}

#[tokio::test]
async fn operations_are_recorded_in_order() {
    let (faults, _) = store();
    assert_eq!(run(&faults).await, [true; 7]);
    let expected = [
        (OpKind::Put, "data/x"),
        (OpKind::Create, "data/y"),
        (OpKind::Get, "data/x"),
        (OpKind::Get, "data/x"),
        (OpKind::List, "data"),
        (OpKind::List, ""),
        (OpKind::Delete, "data/x"),
    ];
    assert_eq!(faults.operations(), expected.map(|(kind, path)| (kind, path.to_owned())));
}

#[tokio::test]
async fn each_operation_can_fail_alone() {
    for n in 0..7 {
        for fault in [Fault::Before(Answer::Generic), Fault::After(Answer::Timeout), Fault::ShortWrite] {
            let (faults, _) = store();
            faults.fail_at(n, fault);
            let done = run(&faults).await;
            let failed: Vec<usize> = (0..7).filter(|i| !done[*i]).collect();
            // What was not written cannot be read, nor are ten bytes there when five were written.
            let expected = match (n, fault) {
                (0, Fault::Before(_)) => vec![0, 2, 3],
                (0, Fault::ShortWrite) => vec![0, 3],
                _ => vec![n],
            };
            assert_eq!(failed, expected, "{n} {fault:?}");
        }
    }
}

#[tokio::test]
async fn nothing_works_after_a_crash() {
    for n in 0..7 {
        for fault in [Fault::CrashBefore, Fault::CrashAfter] {
            let (faults, _) = store();
            faults.fail_at(n, fault);
            let expected: Vec<bool> = (0..7).map(|i| i < n).collect();
            assert_eq!(run(&faults).await, expected, "{n} {fault:?}");
            assert!(faults.crashed());
            assert_eq!(faults.operations().len(), n + 1);
        }
    }
}

#[tokio::test]
async fn what_stays_below_after_each_fault() {
    for (fault, put, deleted) in [
        (Fault::Before(Answer::Generic), None, false),
        (Fault::After(Answer::Generic), Some("0123456789"), true),
        (Fault::CrashBefore, None, false),
        (Fault::CrashAfter, Some("0123456789"), true),
        (Fault::ShortWrite, Some("01234"), false),
    ] {
        for mode in [PutMode::Overwrite, PutMode::Create] {
            let (faults, inner) = store();
            faults.fail_at(0, fault);
            assert!(faults.put_opts(&Path::from("a"), "0123456789".into(), mode.into()).await.is_err());
            assert_eq!(content(&inner, "a").await, put.map(Bytes::from), "{fault:?}");
        }
        let (faults, inner) = store();
        inner.put(&Path::from("a"), "x".into()).await.unwrap();
        faults.fail_at(0, fault);
        assert!(faults.delete(&Path::from("a")).await.is_err());
        assert_eq!(content(&inner, "a").await.is_none(), deleted, "{fault:?}");
    }
}

#[tokio::test]
async fn a_rule_strikes_the_nth_of_its_kind_and_path_once() {
    let (faults, inner) = store();
    faults.fail_on(OpKind::Put, "data/", 1, Fault::Before(Answer::Precondition));
    let mut answers = Vec::new();
    for path in ["data/a", "pages/b", "data/c", "data/d"] {
        answers.push(faults.put(&Path::from(path), "x".into()).await);
    }
    assert!(matches!(&answers[..], [Ok(_), Ok(_), Err(StoreError::Precondition { path, .. }), Ok(_)] if path == "data/c"), "{answers:?}");
    assert_eq!(content(&inner, "data/c").await, None);
}

#[tokio::test]
async fn answers_are_of_their_kind() {
    let (faults, _) = store();
    let answers = [Answer::AlreadyExists, Answer::Precondition, Answer::NotModified, Answer::Generic, Answer::Timeout];
    answers.iter().enumerate().for_each(|(n, answer)| faults.fail_at(n, Fault::Before(*answer)));
    let mut found = Vec::new();
    for _ in answers {
        found.push(faults.get(&Path::from("x")).await.unwrap_err());
    }
    assert!(matches!(
        &found[..],
        [
            StoreError::AlreadyExists { .. },
            StoreError::Precondition { .. },
            StoreError::NotModified { .. },
            StoreError::Generic { .. },
            StoreError::Generic { .. }
        ]
    ));
}

#[tokio::test]
async fn the_true_error_is_not_hidden_by_a_lost_answer() {
    let (faults, _) = store();
    faults.fail_at(0, Fault::After(Answer::Generic));
    assert!(matches!(faults.get(&Path::from("absent")).await, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn uploads_fail_at_each_step() {
    // Operations: 0 start, 1 and 2 parts, 3 end.
    for n in 0..4 {
        for (fault, appears) in [(Fault::Before(Answer::Generic), false), (Fault::CrashBefore, false), (Fault::CrashAfter, n == 3)] {
            let (faults, inner) = store();
            faults.fail_at(n, fault);
            let path = Path::from("data/x");
            let upload = async {
                let mut upload = faults.put_multipart(&path).await?;
                upload.put_part("01234".into()).await?;
                upload.put_part("56789".into()).await?;
                upload.complete().await
            };
            assert!(upload.await.is_err(), "{n} {fault:?}");
            assert_eq!(content(&inner, "data/x").await.is_some(), appears, "{n} {fault:?}");
            assert_eq!(faults.operations().len(), n + 1);
        }
    }
}
