//! The rows that reach a writer: which columns hold what.
//!
//! ```text
//!   INSERT   row columns
//!   DELETE                __amend_fragment  __amend_offset
//!   UPDATE   row columns  __amend_fragment  __amend_offset
//!   MERGE    row columns  __amend_fragment  __amend_offset  __amend_action
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
}

impl RowChanges {
    /// The word for the statement.
    pub fn operation(self) -> &'static str {
        match self {
            RowChanges::Insert => "INSERT",
            RowChanges::Delete => "DELETE",
            RowChanges::Update => "UPDATE",
            RowChanges::Merge => "MERGE",
        }
    }

    /// Whether rows that are there go or get new values.
    pub fn marks_rows(self) -> bool {
        match self {
            RowChanges::Insert => false,
            RowChanges::Delete | RowChanges::Update | RowChanges::Merge => true,
        }
    }

    /// How many of the columns that reach the writer are the table's own, given how many the table has.
    pub fn row_columns(self, table_columns: usize) -> usize {
        match self {
            RowChanges::Delete => 0,
            RowChanges::Insert | RowChanges::Update | RowChanges::Merge => table_columns,
        }
    }
}
