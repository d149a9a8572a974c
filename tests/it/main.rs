//! What amend promises, tested from outside. One binary, so that it is linked once; every module is one subject.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

mod adopt;
mod cancelled;
mod change_of_address;
mod clone;
mod damage;
mod embed;
mod examples;
mod faults;
mod format_damage;
mod format_golden;
mod format_proto;
mod format_samples;
mod full_disk;
mod fuzz;
mod group_commit;
mod histories;
mod inline;
mod keys;
mod layout;
mod leftovers;
mod lying_store;
mod matrix;
mod million;
mod names;
mod oracle;
mod pages;
mod parity;
mod parity_adopt;
mod processes;
mod progress;
mod reads;
mod replace;
mod schedules;
mod shell;
mod slt;
mod support;
mod terminal;
mod vacuum;
mod verify;
