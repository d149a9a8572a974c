//! Making it happen once: the newest version plus a transaction becomes the next version.

pub mod invariants;
