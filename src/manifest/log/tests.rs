//! How the newest version is found.

use super::*;
use crate::store::CreateAnswer;

async fn log_of(versions: &[u64]) -> VersionLog {
    let log = VersionLog::new("t", Store::memory());
    for version in versions {
        let created = log.store.create(&ObjectName::version(*version), Bytes::from("x")).await;
        assert!(matches!(created, CreateAnswer::Created));
    }
    log
}

#[tokio::test]
async fn what_was_the_newest_long_ago_is_no_place_to_look_on_from() {
    // Version 5 was freed, and is there again for a moment.
    let log = log_of(&[5, 19, 20]).await;
    log.newest_known.store(5, Ordering::Release);
    log.looked_ms.store(env::now_ms() - TRUSTED_MS - 1, Ordering::Release);
    assert_eq!(log.newest_number().await.unwrap(), 20);
    assert_eq!(log.newest_known.load(Ordering::Acquire), 20);
    // What was found just now is.
    let log = log_of(&[5, 6, 7]).await;
    log.newest_known.store(6, Ordering::Release);
    log.looked_ms.store(env::now_ms() - TRUSTED_MS + 60_000, Ordering::Release);
    assert_eq!(log.newest_number().await.unwrap(), 7);
}

#[tokio::test]
async fn a_version_that_is_gone_or_a_hint_at_one_leads_to_the_listing() {
    let log = log_of(&[19, 20]).await;
    log.write_hint(3).await;
    assert_eq!(log.newest_number().await.unwrap(), 20);
    log.newest_known.store(4, Ordering::Release);
    assert_eq!(log.newest_number().await.unwrap(), 20);
}
