//! Clock, randomness and ids: the only place that asks the outside world for something that differs from run to run.
//!
//! Always holds: nothing is ever ordered by what this file returns; versions are ordered by their numbers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// Milliseconds since 1970-01-01T00:00:00Z; 0 if the clock stands before that.
#[expect(clippy::disallowed_methods, reason = "the one place where the clock is read")]
pub fn now_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

/// A new id, never given out before (UUID version 7).
#[expect(clippy::disallowed_methods, reason = "the one place where ids are made")]
pub fn new_uuid() -> Uuid {
    Uuid::now_v7()
}

/// A random duration from zero up to and including `max`.
pub fn jitter(max: Duration) -> Duration {
    let max_ns = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(rand::random_range(0..=max_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_in_milliseconds() {
        // 2024-01-01 and 2100-01-01: seconds or microseconds would lie outside.
        assert!((1_704_067_200_000..4_102_444_800_000).contains(&now_ms()));
    }

    #[test]
    fn ids_are_version_7_and_differ() {
        let ids: std::collections::HashSet<Uuid> = (0..1000).map(|_| new_uuid()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
    }

    #[test]
    fn jitter_stays_within_its_bound_and_varies() {
        let max = Duration::from_millis(20);
        let drawn: std::collections::HashSet<Duration> = (0..100).map(|_| jitter(max)).collect();
        assert!(drawn.iter().all(|duration| *duration <= max));
        assert!(drawn.len() > 50);
        assert_eq!(jitter(Duration::ZERO), Duration::ZERO);
    }
}
