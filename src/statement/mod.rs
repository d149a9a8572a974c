//! What the user said: parse, bind, session, catalog.
//!
//! ```text
//!   text ─ split ─ time_travel ─ forms::stars ─ parse ─┬─ our own verbs: BEGIN, COMMIT, OPTIMIZE, CREATE TABLE, ALTER TABLE, ...
//!                                                      └─ everything else: DataFusion's planner, with amend's rule installed
//!   install   the same rule and tables for a host's own SessionContext
//!   lake      a folder of tables, and the catalog that names them
//!   catalog   the same as DataFusion's catalog; `names` says what a name means, `views` plans those that are kept as text
//! ```

mod adopt;
mod alter;
mod catalog;
mod clauses;
mod clone;
mod constraints;
mod create;
mod distinct;
mod forms;
pub mod functions;
pub mod install;
pub mod lake;
mod names;
pub mod outcome;
mod parse;
pub mod position;
mod properties;
mod replace;
mod restore;
pub mod session;
mod settings;
pub mod split;
mod time_travel;
mod tokens;
mod views;

pub(crate) use crate::scan::expression::fold;
