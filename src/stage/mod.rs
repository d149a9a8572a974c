//! Run the plan; write files that nobody can see yet; collect actions.
//!
//! ```text
//!   relational plan ──> WriteExec (n partitions)              ──> CommitExec (1 partition)
//!     rows carry          writer: new fragments                     parts -> actions -> Staged
//!     their address     or UpdateColumnsExec (an UPDATE in column form)
//!                         marks: deleted and replaced rows          ├─ in a transaction: kept in the session's scope
//!                         one description per partition             └─ else: committed; run again if it collides
//! ```
//!
//! Always holds: what is staged is named by nothing; a statement that fails removes what it staged.

mod alone;
pub mod checks;
pub mod commit_exec;
pub mod convert;
pub mod course;
mod deletions;
pub mod engine_error;
pub mod foreign;
pub mod gather;
mod intent;
pub mod marks;
mod old_values;
pub mod parts;
mod places;
pub mod progress;
mod reads;
mod replacing;
mod returning;
pub mod rewrite_exec;
pub mod row_changes;
pub mod runs;
pub mod scope;
pub mod stop;
mod together;
mod transaction;
pub mod unique;
pub mod update_columns;
pub mod write_exec;
pub mod writer;
pub mod zorder;
pub mod zorder_exec;
