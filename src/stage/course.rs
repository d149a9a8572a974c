//! How far a statement is: until it begins to commit it can be stopped, and nothing comes of it.
//!
//! Goes in: who runs it says that it begins, commits, runs again, has ended; who waits for it says that it is to stop. Always holds: a
//! statement that was stopped never begins to commit, wherever its parts run.

use crate::error::{Error, Result};

/// How far a statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Course {
    /// None runs.
    #[default]
    Ended,
    /// It runs, and has changed nothing that others see.
    Running,
    /// It commits: what comes of it is decided now.
    Committing,
    /// It was stopped while it ran.
    Stopped,
}

impl Course {
    /// A statement begins, perhaps once more.
    pub fn begin(&mut self) {
        if *self != Course::Stopped {
            *self = Course::Running;
        }
    }

    /// It begins to commit, unless it was stopped.
    pub fn commit(&mut self) -> Result<()> {
        match self {
            Course::Stopped => Err(Error::refused("57014", "the statement was cancelled")),
            // What runs by itself on the context of a session is no statement of the session.
            Course::Ended => Ok(()),
            Course::Running | Course::Committing => {
                *self = Course::Committing;
                Ok(())
            }
        }
    }

    /// It is to stop. How far it was.
    pub fn stop(&mut self) -> Course {
        let before = *self;
        if before == Course::Running {
            *self = Course::Stopped;
        }
        before
    }

    /// It has ended.
    pub fn end(&mut self) {
        *self = Course::Ended;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stopped_does_not_commit_and_what_commits_is_not_stopped() {
        let mut course = Course::default();
        assert_eq!(course.stop(), Course::Ended);
        assert!(course.commit().is_ok());
        course.begin();
        assert!(course.commit().is_ok());
        assert_eq!(course.stop(), Course::Committing);
        assert!(course.commit().is_ok());
        // It collided, and runs again.
        course.begin();
        assert_eq!(course.stop(), Course::Running);
        assert_eq!(course.commit().unwrap_err().sqlstate(), "57014");
        course.begin();
        assert_eq!(course.commit().unwrap_err().sqlstate(), "57014");
        course.end();
        course.begin();
        assert!(course.commit().is_ok());
    }
}
