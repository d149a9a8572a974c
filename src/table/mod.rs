//! The nouns: what a table is made of. Pure values, no I/O.
//!
//! ```text
//!  schema           fields with ids that never change meaning
//!  fragment         a set of rows, addressed (fragment, offset); its columns lie in data files
//!  row_address      the 64-bit name of one row in one fragment
//!  deletion_vector  which offsets of a fragment are no longer rows; puffin is its file format
//!  type_name        types as text
//!  constraint       rules for rows, and defaults, as properties hold them
//!  stats            what is known about a column of a data file without reading it
//! ```

pub mod constraint;
pub mod deletion_vector;
pub mod fragment;
pub mod puffin;
pub mod row_address;
pub mod schema;
pub mod stats;
pub mod type_name;
