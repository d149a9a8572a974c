//! The contents of a table as plain lists, and what statements mean on them.
//!
//! Always holds: it knows of keys, names and values only; nothing of fragments, ids, vectors or maps.

use crate::table::schema::FieldId;
use crate::table::type_name;
use crate::txn::testbed::{Row, Testbed};

use super::statements::FIRST_COLUMNS;
use std::collections::{BTreeMap, BTreeSet};

/// A column by the name that it had at first; it may be called otherwise by now.
pub(super) type Column = String;

/// What a reader can tell of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Content {
    /// Rows by key: the value, and which file the other columns are from; NULLs are left out.
    pub rows: BTreeMap<u32, (i64, BTreeMap<Column, String>)>,
    /// Name, type, and whether it may be NULL.
    pub columns: BTreeMap<Column, (String, String, bool)>,
    pub settings: BTreeMap<String, String>,
    pub locations: BTreeSet<String>,
}

/// What a statement means.
#[derive(Debug, Clone)]
pub(super) enum Effect {
    Insert(Vec<Row>),
    Delete(Vec<u32>),
    /// A row with a new value holds nothing in other columns: updates here write the first two only.
    Update(Vec<u32>, i64),
    /// A column of these rows holds what is in that file, or NULL.
    Fill(Vec<u32>, Column, Option<String>),
    AddColumn(String),
    Rename(Column, String),
    Nullable(Column),
    Widen(Column),
    Drop(Column),
    Set(BTreeMap<String, Option<String>>, bool),
    AddBase(String),
    Reset,
    /// Nothing that can be read.
    Nothing,
}

impl Content {
    /// The contents after these statements.
    pub fn then(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Insert(rows) => self.rows.extend(rows.iter().map(|(key, value)| (*key, (*value, BTreeMap::new())))),
                Effect::Delete(keys) => self.rows.retain(|key, _| !keys.contains(key)),
                Effect::Update(keys, delta) => {
                    for key in keys {
                        let (value, others) = self.rows.get_mut(key).unwrap_or_else(|| panic!("key {key} was updated, and is gone"));
                        *value += delta;
                        others.clear();
                    }
                }
                Effect::Fill(keys, column, file) => {
                    for (_, (_, others)) in self.rows.iter_mut().filter(|(key, _)| keys.contains(key)) {
                        match file {
                            Some(file) => others.insert(column.clone(), file.clone()),
                            None => others.remove(column),
                        };
                    }
                }
                Effect::AddColumn(name) => {
                    let before = self.columns.insert(name.clone(), (name.clone(), "Int64".into(), true));
                    assert_eq!(before, None, "two columns '{name}'");
                }
                Effect::Rename(column, name) => {
                    assert!(self.columns.values().all(|(other, ..)| other != name), "two columns '{name}'");
                    self.column(column).0 = name.clone();
                }
                Effect::Widen(column) => self.column(column).1 = "Int64".into(),
                Effect::Nullable(column) => self.column(column).2 = true,
                Effect::Drop(column) => {
                    self.columns.remove(column).expect("a column that was dropped");
                    self.rows.values_mut().for_each(|(_, others)| drop(others.remove(column)));
                }
                Effect::Set(entries, replace) => {
                    if *replace {
                        self.settings.clear();
                    }
                    for (key, value) in entries {
                        match value {
                            Some(value) => self.settings.insert(key.clone(), value.clone()),
                            None => self.settings.remove(key),
                        };
                    }
                }
                Effect::AddBase(location) => assert!(self.locations.insert(location.clone()), "two bases at '{location}'"),
                Effect::Reset => {
                    self.rows.clear();
                    self.columns.clear();
                }
                Effect::Nothing => {}
            }
        }
    }

    fn column(&mut self, column: &Column) -> &mut (String, String, bool) {
        self.columns.get_mut(column).unwrap_or_else(|| panic!("column '{column}' was altered, and is gone"))
    }
}

/// The contents of the newest version; its first columns are those of [`FIRST_COLUMNS`].
pub(super) fn content(bed: &Testbed) -> Content {
    let newest = bed.newest();
    let first = |id: FieldId| FIRST_COLUMNS.get(id.0 as usize - 1).map(|name| (*name).to_owned());
    let mut content =
        Content { rows: BTreeMap::new(), columns: BTreeMap::new(), settings: newest.config.clone(), locations: BTreeSet::new() };
    for column in newest.schema.columns() {
        let was = first(column.id).unwrap_or_else(|| column.name.clone());
        let is = (column.name.clone(), type_name::name(&column.field_type).expect("a name"), column.nullable);
        assert_eq!(content.columns.insert(was, is), None);
    }
    for seen in bed.fragments_of(newest, &BTreeMap::new()) {
        let fragment = newest.fragments.get(seen.fragment.committed().expect("an id")).unwrap().expect("a fragment that was read");
        let others = newest.schema.columns().filter(|column| column.id > FieldId(2));
        let held: Vec<(Column, FieldId, String)> = others
            .filter_map(|column| {
                let (file, _) = fragment.backing(column.id)?;
                Some((first(column.id).unwrap_or_else(|| column.name.clone()), column.id, file.path.clone()))
            })
            .collect();
        for (offset, (key, value)) in seen.live() {
            // A value that was gathered is the one that it was.
            let of_row = |(name, id, path): &(Column, FieldId, String)| {
                let origin = match bed.origins.get(&(path.clone(), *id)) {
                    Some(origins) => origins[offset as usize].clone(),
                    None => Some(path.clone()),
                };
                Some((name.clone(), origin?))
            };
            let columns: BTreeMap<Column, String> = held.iter().filter_map(of_row).collect();
            assert_eq!(content.rows.insert(key, (value, columns)), None, "two rows of key {key}");
        }
    }
    content.locations.extend(newest.bases.values().map(|base| base.location.clone()));
    content
}
