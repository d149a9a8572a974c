//! Reading: a snapshot becomes a scan of DataFusion.
//!
//! ```text
//!   ScanRequest { fragments, deleted rows, projection, predicate, .. }
//!      |  pruning     which fragments can hold a row that matches, by the statistics of the manifest
//!      |  statistics  what the planner may believe of those that are left
//!      |  backing     which of a fragment's files hold the columns that are wanted
//!      v
//!   plan            DataSourceExec( file groups, FragmentSource )
//!      |                                |
//!      | executed                       |- ParquetSource   DataFusion's reader: ranges, row groups, pages, filters
//!      v                                |- evolve          columns by field id, not by name
//!   mask            every batch without the deleted rows   |- reader  footers cached, every block checked
//!                                                                         `- nan   bounds that pass over NaN are dropped
//! ```
//!
//! Beside it `read` keeps what a scan was after, for isolation; `keys` what a join asked besides; `held` keeps the version;
//! `expression` plans what a table keeps, CHECK and DEFAULT; `some_rows` answers questions about keys.
//!
//! Every scan can yield two more columns, the address of a row: `address` names them. A plain SELECT never asks for them.
//!
//! Goes in: fragments of one version. Comes out: an execution plan whose rows are the live rows of those fragments.
//! Always holds: a deleted row is never seen, whatever was pruned, split, limited or pushed down; a column is found by its
//! field id alone; what the planner is told to be exact is exact for the *live* rows.

pub mod address;
mod backing;
pub mod evolve;
pub mod expression;
pub mod generated;
pub mod held;
mod infallible;
pub mod inline;
pub mod isolation;
pub mod keys;
mod mask;
mod nan;
mod order;
mod parts;
pub mod pin;
pub mod plan;
pub mod provider;
pub mod pruning;
pub mod read;
mod reader;
pub mod some_rows;
pub mod source;
pub mod statistics;
mod zip;

#[cfg(test)]
mod tests;

use crate::error::Error;
use datafusion::common::DataFusionError;

/// Our error on its way through DataFusion.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
