//! What a table is called, for messages: a table may be renamed while handles on it are held.
//!
//! Always holds: a name that was lent out stays what it is, so names are only added, each of them once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The name of a table, which may change.
#[derive(Debug)]
pub struct Called {
    first: Name,
    /// Which of the names counts.
    current: AtomicUsize,
}

#[derive(Debug)]
struct Name {
    text: String,
    next: OnceLock<Box<Name>>,
}

impl Name {
    fn new(text: String) -> Self {
        Name { text, next: OnceLock::new() }
    }
}

impl Called {
    /// A table of this name.
    pub fn new(name: String) -> Self {
        Called { first: Name::new(name), current: AtomicUsize::new(0) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        let mut name = &self.first;
        for _ in 0..self.current.load(Ordering::Acquire) {
            let Some(next) = name.next.get() else { break };
            name = next;
        }
        &name.text
    }

    /// It is called so from now on.
    pub fn rename(&self, to: &str) {
        let (mut name, mut at) = (&self.first, 0);
        while name.text != to {
            name = name.next.get_or_init(|| Box::new(Name::new(to.to_owned())));
            at += 1;
        }
        self.current.store(at, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_counts_and_lent_names_stay() {
        let called = Called::new("a".into());
        let lent = called.name();
        for name in ["b", "c", "a", "c", "d", "b"] {
            called.rename(name);
            assert_eq!((called.name(), lent), (name, "a"));
        }
        // Each name once.
        let mut names = vec![];
        let mut next = Some(&called.first);
        while let Some(name) = next {
            names.push(name.text.as_str());
            next = name.next.get().map(Box::as_ref);
        }
        assert_eq!(names, ["a", "b", "c", "d"]);
    }
}
