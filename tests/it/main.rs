//! Promises that are kept across modules: one module a promise.

mod format_damage;
mod format_golden;
mod format_proto;
mod format_samples;
