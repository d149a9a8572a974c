//! Faults on purpose, to test the tests: each takes one defence away, and the checks of `tests/it/histories` must notice.
//!
//! Always holds: without the feature `faulty-builds`, which only tests turn on, [`is`] is false at compile time and nothing
//! of this is in the program.

/// A defence that is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// What landed since a transaction read is not looked at before it is published.
    BlindRetry,
    /// A row that others gave a new version is taken for one that they only deleted.
    IgnoreReplaced,
    /// Deletion vectors of others are overwritten.
    LastVectorWins,
    /// What a transaction read is not held against what landed.
    SkipReadAssertions,
    /// Rows that others deleted while they were rewritten come back.
    DropForeignDeletions,
    /// Deletions of rows that others moved are forgotten.
    SkipMap,
    /// A transaction whose answer was lost is published again.
    ApplyTwice,
    /// A transaction whose answer was lost is said to have failed.
    FailThoughLanded,
    /// A transaction reads the newest version each time, until it writes.
    FracturedRead,
    /// A transaction does not see what it has written.
    ForgetOwnWrites,
    /// A transaction reads the version before the newest.
    StaleRead,
    /// The last statement of a transaction is left out when it commits.
    DropLastStep,
}

#[cfg(feature = "faulty-builds")]
mod chosen {
    use super::Fault;
    use std::sync::{Mutex, PoisonError};

    impl Fault {
        /// All of them.
        pub const ALL: [Fault; 12] = [
            Fault::BlindRetry,
            Fault::IgnoreReplaced,
            Fault::LastVectorWins,
            Fault::SkipReadAssertions,
            Fault::DropForeignDeletions,
            Fault::SkipMap,
            Fault::ApplyTwice,
            Fault::FailThoughLanded,
            Fault::FracturedRead,
            Fault::ForgetOwnWrites,
            Fault::StaleRead,
            Fault::DropLastStep,
        ];
    }

    static CHOSEN: Mutex<Option<Fault>> = Mutex::new(None);

    /// From now on the whole process has this fault, or none.
    pub fn choose(fault: Option<Fault>) {
        *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    pub(crate) fn is(fault: Fault) -> bool {
        *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) == Some(fault)
    }

    /// Whether there is a fault: what a commit checks of itself is left out then, so that others have to notice.
    pub(crate) fn any() -> bool {
        CHOSEN.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

#[cfg(feature = "faulty-builds")]
pub use chosen::choose;
#[cfg(feature = "faulty-builds")]
pub(crate) use chosen::{any, is};

#[cfg(not(feature = "faulty-builds"))]
pub(crate) const fn is(_: Fault) -> bool {
    false
}

#[cfg(not(feature = "faulty-builds"))]
pub(crate) const fn any() -> bool {
    false
}
