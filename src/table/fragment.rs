//! Fragments: sets of rows, and the data files that hold their columns.
//!
//! Always holds: every file of a fragment has one value for each of the fragment's physical rows, in the same order;
//! a field has at most one live column in a fragment; a file named here has a length and a checksum.

use super::deletion_vector::DeletionFile;
use super::row_address::FragmentId;
use super::schema::FieldId;
use super::stats::{ColumnStats, StatValue};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The id of a named location outside the table folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BaseId(pub u32);

/// A location outside the table folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// Its name, if it has one; unique in the table.
    pub name: Option<String>,
    /// Where it is; unique in the table.
    pub location: String,
}

/// A set of rows with addresses `(id, 0 .. physical_rows)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Fragment {
    /// The id, unique in the table for ever.
    pub id: FragmentId,
    /// How many rows its files hold, deleted ones included.
    pub physical_rows: u32,
    /// The files that hold its columns.
    pub files: Vec<DataFile>,
    /// Which of its rows are deleted; `None` if none is.
    pub deletions: Option<DeletionFile>,
    /// The version that added it.
    pub created_at: u64,
    /// The version that last changed its rows or files.
    pub updated_at: u64,
}

impl Fragment {
    /// How many rows are deleted.
    pub fn deleted_rows(&self) -> u32 {
        self.deletions.as_ref().map_or(0, DeletionFile::cardinality)
    }

    /// How many rows a reader sees.
    pub fn live_rows(&self) -> u32 {
        self.physical_rows.saturating_sub(self.deleted_rows())
    }

    /// The live column of `field`: its file and its position in that file.
    pub fn backing(&self, field: FieldId) -> Option<(&DataFile, usize)> {
        self.files
            .iter()
            .find_map(|file| file.columns.iter().position(|column| column.field == Some(field)).map(|position| (file, position)))
    }

    /// The fields that its rows are known to be sorted by, with the key of each: those before the first one that no other column of the
    /// file says the order of any more.
    pub fn sorted_by(&self) -> Vec<(FieldId, SortKey)> {
        let Some(file) = self.files.iter().find(|file| !file.sorted_by.is_empty()) else { return vec![] };
        let field = |key: &SortKey| Some((file.columns.get(key.column as usize)?.field?, *key));
        file.sorted_by.iter().map_while(field).collect()
    }

    /// Makes the columns of these fields dead slots; the others keep their positions. Returns which fields had a column.
    pub fn tombstone(&mut self, fields: &BTreeSet<FieldId>) -> BTreeSet<FieldId> {
        let mut found = BTreeSet::new();
        for column in self.files.iter_mut().flat_map(|file| &mut file.columns) {
            if column.field.is_some_and(|field| fields.contains(&field)) {
                found.extend(column.field.take());
                column.stats = ColumnStats::default();
            }
        }
        found
    }

    /// The fragment without its files of which no column is live; `None` if there is nothing to leave out. One file stays
    /// in any case: readers count the rows of a fragment in it.
    pub fn without_dead_files(&self) -> Option<Fragment> {
        let dead = |file: &DataFile| !file.columns.is_empty() && file.columns.iter().all(|column| column.field.is_none());
        if self.files.len() < 2 || !self.files.iter().any(dead) {
            return None;
        }
        let mut files: Vec<DataFile> = self.files.iter().filter(|file| !dead(file)).cloned().collect();
        if files.is_empty() {
            files.extend(self.files.first().cloned());
        }
        Some(Fragment { files, ..self.clone() })
    }

    /// The bytes of its rows that the manifest holds itself.
    pub fn inline_bytes(&self) -> u64 {
        self.files.iter().filter_map(|file| file.inline.as_ref()).map(|rows| rows.len() as u64).sum()
    }

    /// The bytes of all its data files.
    pub fn size_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size_bytes).sum()
    }
}

/// How many bytes a file has at most that is kept in the manifest itself.
pub const MAX_INLINE_BYTES: usize = 64 * 1024;

/// A Parquet file that holds some columns of a fragment; or the same columns of a few rows within the manifest.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DataFile {
    /// Its name within the table folder (or within `base`), for example `data/0190….parquet`.
    pub path: String,
    /// The location that `path` is relative to; `None` for the table folder.
    pub base: Option<BaseId>,
    /// Its length in bytes.
    pub size_bytes: u64,
    /// How many bytes at its beginning have no checksums; those after them have. A file that amend did not write was never read
    /// as a whole, so only its footer has.
    pub unchecked_bytes: u64,
    /// Checksums of the blocks of the other bytes, which every read is held against.
    pub checksum: Arc<BlockChecksums>,
    /// The rows of each of its row groups, in order.
    pub row_groups: Vec<u32>,
    /// Its columns, in file order; then those that are not in the file, but have one value in all of its rows.
    pub columns: Vec<FileColumn>,
    /// The rows themselves, an Arrow IPC stream, where they are so few that no object is made for them: `path` is a name then that no
    /// object has.
    pub inline: Option<Bytes>,
    /// The order that its rows lie in, as far as it is known: by the first of these, then the next. Rows that are equal in all of them lie
    /// in any.
    pub sorted_by: Vec<SortKey>,
}

/// A column of a file, and how its rows are sorted by it, as in Parquet's `SortingColumn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SortKey {
    /// The position of the column in [`DataFile::columns`].
    pub column: u32,
    /// Whether the largest come first.
    pub descending: bool,
    /// Whether NULLs come first.
    pub nulls_first: bool,
}

impl DataFile {
    /// Whether it is an object in the table's folder.
    pub fn is_object_of_table(&self) -> bool {
        self.base.is_none() && self.inline.is_none()
    }
}

/// One column of a data file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FileColumn {
    /// The field it holds; `None` when the slot is dead (another file holds the field now, or it was dropped).
    pub field: Option<FieldId>,
    /// The fields that its parts hold, depth first, if it is nested. One that is no field of the table is not read.
    pub parts: Vec<FieldId>,
    /// The value of all its rows, if it is not in the file.
    pub constant: Option<StatValue>,
    /// What is known of its values.
    pub stats: ColumnStats,
}

/// CRC-32C of each block of a file: block `i` is the bytes `i * block_bytes .. (i + 1) * block_bytes`, counted from the first
/// byte that has a checksum.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockChecksums {
    /// The size of a block in bytes; a power of two.
    pub block_bytes: u32,
    /// One checksum a block, the last block being the rest of the file.
    pub crc32c: Vec<u32>,
}
