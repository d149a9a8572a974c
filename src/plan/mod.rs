//! Which rows, which new values: statements become ordinary relational plans that carry row addresses.
//!
//! ```text
//!   Dml(Delete)     Filter <- Scan(t)              =>  addresses         <- Filter <- Scan(t + address)
//!   Dml(Update)     Projection <- Filter <- Scan   =>  rows + addresses  <- Filter <- Scan(t + address)
//!   Dml(MergeInto)  source                         =>  rows + addresses + action <- Join(Scan(t + address), source)
//!   Dml(Insert)     rows                           =>  rows
//!                   rows, all within a predicate   =>  rows + addresses + action <- Union(rows, Filter <- Scan(t + address))
//!   Dml(Truncate)                                  =>  nothing: the commit lists the rows
//!                                                      under Dml(Insert) into a RowSink, whose plan is
//!                                                      CommitExec <- WriteExec, or <- UpdateColumnsExec (`update`)
//! ```
//!
//! The rewrite is an analyzer rule: it sees the whole statement, coerced and not yet optimised, in any `SessionContext`
//! that it is added to, and EXPLAIN and PREPARE go the same way.
//!
//! Always holds: nothing is read or written during planning but metadata; all scans of a table in one statement have one
//! pin; a plan that the rule does not understand is refused, never run in part.

pub mod constraints;
pub mod flush;
pub mod generated;
pub mod layout;
mod maybe_absent;
pub mod merge;
mod narrow;
mod only_row;
pub mod optimize;
pub mod options;
pub mod proposed;
pub mod pushdown;
mod reads;
pub mod replace_where;
pub mod returning;
pub mod rule;
pub mod sink;
mod source_keys;
pub mod subqueries;
pub mod target;
pub mod update;
