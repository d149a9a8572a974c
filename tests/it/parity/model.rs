//! A table as plain data, and statements as plain changes of it.
//!
//! Goes in: a version, or what a statement does in words of rows and columns. Comes out: the same table as numbers, names and
//! sets. Nothing here applies actions: it says what a version should hold, from the meaning of the statement alone.

use amend::manifest::log::VersionLog;
use amend::manifest::snapshot::Snapshot;
use amend::table::fragment::{DataFile, Fragment};
use std::collections::{BTreeMap, BTreeSet};

/// A version of a table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    pub version: u64,
    pub columns: Vec<Column>,
    pub fragments: BTreeMap<u32, Rows>,
    pub properties: BTreeMap<String, String>,
    pub next_fragment: u32,
    pub next_field: i32,
    pub next_base: u32,
    pub bases: usize,
    pub low_water_mark: u64,
}

/// A column, or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub id: i32,
    pub parent: Option<i32>,
    pub name: String,
    pub data_type: String,
    pub nullable: bool,
}

/// A fragment.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    pub physical: u32,
    pub files: Vec<File>,
    pub deleted: BTreeSet<u32>,
    pub created_at: u64,
    pub updated_at: u64,
}

/// A data file: one that was there before the statement, or a new one, of which nobody can know name and bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    pub known: Option<(String, u64, Vec<u32>)>,
    pub row_groups: Vec<u32>,
    /// The field of each column; `None` where nobody reads it.
    pub columns: Vec<Option<i32>>,
}

impl Table {
    /// Nothing yet.
    pub fn before_the_first() -> Table {
        Table { next_field: 1, low_water_mark: 1, ..Table::default() }
    }

    /// A version; `known` are the data files that were there before its statement.
    pub async fn of(log: &VersionLog, snapshot: &Snapshot, known: &BTreeSet<String>) -> Table {
        let mut fragments = BTreeMap::new();
        for fragment in snapshot.fragments.iter().unwrap() {
            fragments.insert(fragment.id.0, rows_of(log, fragment, known).await);
        }
        Table {
            version: snapshot.version,
            columns: snapshot.schema.fields().iter().map(column_of).collect(),
            fragments,
            properties: snapshot.config.clone(),
            next_fragment: snapshot.counters.fragment.0,
            next_field: snapshot.counters.field.0,
            next_base: snapshot.counters.base.0,
            bases: snapshot.bases.len(),
            low_water_mark: snapshot.low_water_mark,
        }
    }

    /// How many rows a reader sees.
    pub fn live(&self) -> usize {
        self.fragments.values().map(Rows::live).sum()
    }

    /// The columns that are no parts.
    fn top(&self) -> Vec<i32> {
        self.columns.iter().filter(|column| column.parent.is_none()).map(|column| column.id).collect()
    }

    /// A new column with the next id.
    pub fn add_column(&mut self, name: &str, data_type: &str, nullable: bool, parent: Option<i32>) -> i32 {
        let id = self.next_field;
        self.next_field += 1;
        self.columns.push(Column { id, parent, name: name.into(), data_type: data_type.into(), nullable });
        id
    }

    /// The column of that name.
    pub fn column(&mut self, name: &str) -> &mut Column {
        self.columns.iter_mut().find(|column| column.name == name).unwrap()
    }

    /// A column goes with its parts, and nobody reads its values any more.
    pub fn drop_column(&mut self, name: &str) {
        let id = self.column(name).id;
        self.columns.retain(|column| column.id != id && column.parent != Some(id));
        let version = self.version;
        for rows in self.fragments.values_mut().filter(|rows| rows.files.iter().any(|file| file.columns.contains(&Some(id)))) {
            rows.updated_at = version;
            rows.files
                .iter_mut()
                .flat_map(|file| &mut file.columns)
                .filter(|column| **column == Some(id))
                .for_each(|column| *column = None);
        }
    }

    /// New rows: a fragment with one file of all columns.
    pub fn insert(&mut self, rows: u32) {
        let file = File { known: None, row_groups: vec![rows], columns: self.top().into_iter().map(Some).collect() };
        self.put(Rows { physical: rows, files: vec![file], deleted: BTreeSet::new(), created_at: self.version, updated_at: self.version });
    }

    fn put(&mut self, rows: Rows) {
        self.fragments.insert(self.next_fragment, rows);
        self.next_fragment += 1;
    }

    /// Rows of a fragment go; a fragment without rows goes with them.
    pub fn delete(&mut self, fragment: u32, rows: &[u32]) {
        let held = self.fragments.get_mut(&fragment).unwrap();
        for row in rows {
            assert!(held.deleted.insert(*row), "row {row} of fragment {fragment} is deleted already");
        }
        held.updated_at = self.version;
        if held.live() == 0 {
            self.fragments.remove(&fragment);
        }
    }

    /// A column of a fragment gets a file of its own, for all of its rows, deleted ones too. A file of which nobody reads a column
    /// any more goes.
    pub fn update_column(&mut self, fragment: u32, name: &str) {
        let id = self.column(name).id;
        let version = self.version;
        let held = self.fragments.get_mut(&fragment).unwrap();
        held.files.iter_mut().flat_map(|file| &mut file.columns).filter(|column| **column == Some(id)).for_each(|column| *column = None);
        held.files.push(File { known: None, row_groups: vec![held.physical], columns: vec![Some(id)] });
        held.files.retain(|file| file.columns.iter().any(Option::is_some));
        held.updated_at = version;
    }

    /// All live rows of these fragments are put together in a new one.
    pub fn rewrite(&mut self, fragments: &[u32]) {
        let gone: Vec<Rows> = fragments.iter().map(|fragment| self.fragments.remove(fragment).unwrap()).collect();
        self.insert(gone.iter().map(Rows::live).sum::<usize>() as u32);
    }

    /// The rows, the columns and the properties of another version, its fragments under new ids.
    pub fn restore(&mut self, old: &Table) {
        self.columns = old.columns.clone();
        self.properties = old.properties.clone();
        self.fragments.clear();
        for rows in old.fragments.values() {
            self.put(Rows { created_at: self.version, updated_at: self.version, ..rows.clone() });
        }
    }
}

impl Rows {
    fn live(&self) -> usize {
        self.physical as usize - self.deleted.len()
    }
}

fn column_of(field: &amend::table::schema::Field) -> Column {
    Column {
        id: field.id.0,
        parent: field.parent.map(|parent| parent.0),
        name: field.name.clone(),
        data_type: format!("{:?}", field.field_type),
        nullable: field.nullable,
    }
}

async fn rows_of(log: &VersionLog, fragment: &Fragment, known: &BTreeSet<String>) -> Rows {
    Rows {
        physical: fragment.physical_rows,
        files: fragment.files.iter().map(|file| file_of(file, known)).collect(),
        deleted: log.deleted_rows(fragment).await.unwrap().iter().collect(),
        created_at: fragment.created_at,
        updated_at: fragment.updated_at,
    }
}

fn file_of(file: &DataFile, known: &BTreeSet<String>) -> File {
    let known = known.contains(&file.path).then(|| (file.path.clone(), file.size_bytes, file.checksum.crc32c.clone()));
    File { known, row_groups: file.row_groups.clone(), columns: file.columns.iter().map(|column| column.field.map(|id| id.0)).collect() }
}
