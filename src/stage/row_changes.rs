//! The rows that reach a writer: which columns hold what.
//!
//! ```text
//!   INSERT            row columns
//!   INSERT OVERWRITE  row columns
//!   DELETE                         __amend_fragment  __amend_offset
//!   UPDATE            row columns  __amend_fragment  __amend_offset
//!   MERGE             row columns  __amend_fragment  __amend_offset  __amend_action
//!   REPLACE WHERE     row columns  __amend_fragment  __amend_offset  __amend_action
//!   TRUNCATE          nothing: no row reaches the writer
//! ```
//!
//! Columns that the statement returns follow: `__amend_returned_0`, `__amend_returned_1`, ..

/// The column that says what a row of a MERGE is for.
pub const ACTION_COLUMN: &str = "__amend_action";
/// A row of a MERGE that is new; its address is NULL.
pub const ACTION_INSERT: i32 = 1;
/// A row of a MERGE that gets new values.
pub const ACTION_UPDATE: i32 = 2;
/// A row of a MERGE that goes; its values mean nothing.
pub const ACTION_DELETE: i32 = 3;
/// A row of a REPLACE WHERE that goes, and of which new rows may be made; its values mean nothing.
pub const ACTION_REPLACE: i32 = 4;

/// What a column is called that the statement returns; its number follows.
pub const RETURNED_COLUMN: &str = "__amend_returned_";

/// The statement whose rows a writer gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowChanges {
    /// New rows.
    Insert,
    /// Addresses of rows that go.
    Delete,
    /// Addresses of rows and their new values.
    Update,
    /// Each row says which.
    Merge,
    /// Each row says which: it goes because it matches a predicate, or is new and matches it.
    ReplaceWhere,
    /// New rows in place of all that there are.
    Overwrite {
        /// Whether the new rows may be made of those that go.
        reads_target: bool,
    },
    /// All rows go.
    Truncate,
}

impl RowChanges {
    /// The word for the statement.
    pub fn operation(self) -> &'static str {
        match self {
            RowChanges::Insert => "INSERT",
            RowChanges::Delete => "DELETE",
            RowChanges::Update => "UPDATE",
            RowChanges::Merge => "MERGE",
            RowChanges::ReplaceWhere => "REPLACE WHERE",
            RowChanges::Overwrite { .. } => "INSERT OVERWRITE",
            RowChanges::Truncate => "TRUNCATE",
        }
    }

    /// Whether the writer marks rows that go or get new values.
    pub fn marks_rows(self) -> bool {
        match self {
            RowChanges::Insert | RowChanges::Overwrite { .. } | RowChanges::Truncate => false,
            RowChanges::Delete | RowChanges::Update | RowChanges::Merge | RowChanges::ReplaceWhere => true,
        }
    }

    /// Whether it brings rows that were not there, which take defaults.
    pub fn inserts(self) -> bool {
        match self {
            RowChanges::Insert | RowChanges::Overwrite { .. } | RowChanges::Merge | RowChanges::ReplaceWhere => true,
            RowChanges::Update | RowChanges::Delete | RowChanges::Truncate => false,
        }
    }

    /// How many of the columns that reach the writer are the table's own, given how many the table has.
    pub fn row_columns(self, table_columns: usize) -> usize {
        match self {
            RowChanges::Delete | RowChanges::Truncate => 0,
            RowChanges::Insert | RowChanges::Update | RowChanges::Merge | RowChanges::ReplaceWhere | RowChanges::Overwrite { .. } => {
                table_columns
            }
        }
    }

    /// Whether a new version of a row is written, for which all its columns have to be known.
    pub fn rewrites_rows(self) -> bool {
        match self {
            RowChanges::Update | RowChanges::Merge => true,
            RowChanges::Insert | RowChanges::Delete | RowChanges::ReplaceWhere | RowChanges::Overwrite { .. } | RowChanges::Truncate => {
                false
            }
        }
    }

    /// What becomes of all the rows that the table has, wherever they are, apart from those that the writer marks.
    pub fn clears(self) -> Option<Cleared> {
        match self {
            RowChanges::Overwrite { reads_target: true } => Some(Cleared::Replaced),
            RowChanges::Overwrite { reads_target: false } | RowChanges::Truncate => Some(Cleared::Deleted),
            RowChanges::Insert | RowChanges::Delete | RowChanges::Update | RowChanges::Merge | RowChanges::ReplaceWhere => None,
        }
    }
}

/// What becomes of rows that go all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cleared {
    /// They go.
    Deleted,
    /// New rows may be made of them: who deletes one of them meanwhile means the new ones too.
    Replaced,
}
