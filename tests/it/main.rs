//! What amend promises, tested from outside. One binary, so that it is linked once; every module is one subject.

mod embed;
mod format_damage;
mod format_golden;
mod format_proto;
mod format_samples;
mod shell;
mod slt;
