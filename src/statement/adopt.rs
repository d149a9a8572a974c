//! Files of others become part of a table where they are: `ALTER TABLE .. ADD FILES` and `CREATE TABLE .. FROM`.
//!
//! ```text
//!   pattern ─ files ─ footers ─┬─ each column is held against the table's of its name (`matching`)
//!                              └─ folders k=v: column k has the value v in all rows (`hive`)
//! ```
//!
//! Goes in: a pattern of paths, and the version that the statement reads. Comes out: a step that adds a fragment for each file.
//! Always holds: only footers are read, and no file is changed; one that does not fit refuses all of them; a file is
//! part of a table once.

mod hive;
mod matching;

use super::create::{self, Made};
use super::lake::Lake;
use super::parse::FilesOf;
use crate::error::{Error, Result};
use crate::manifest::snapshot::Snapshot;
use crate::manifest::version::Version;
use crate::scan::generated;
use crate::scan::statistics::{from_parquet, from_scalar};
use crate::stage::commit_exec::staged;
use crate::stage::foreign::{ForeignFile, read_footers};
use crate::stage::scope::{Done, SessionScope};
use crate::stage::write_exec::take_fields;
use crate::store::base::{self, LOCAL_FILES};
use crate::table::constraint;
use crate::table::fragment::{Base, DataFile, FileColumn};
use crate::table::schema::{FieldId, TableSchema};
use crate::table::stats::ColumnStats;
use crate::txn::action::{Action, AddBase, AddDataFile, AddFragment};
use crate::txn::composite::{RowCounts, Step};
use crate::txn::refs::{BaseRef, Ref, Token};
use datafusion::arrow::datatypes::{Field, Schema};
use hive::Folders;
use roaring::RoaringBitmap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The step that adds files to a table as it is in `version`. `lake` is the lake's folder.
pub async fn add_files(table: &str, version: &Version, pattern: &str, lake: &str, statement: &str) -> Result<Step> {
    let snapshot = &version.snapshot;
    let constraints = constraint::constraints(&snapshot.config).map_err(|reason| Error::damaged(table, "its properties", reason))?;
    let generated = generated::of(table, snapshot)?;
    if let Some(column) = generated.first() {
        let what = format!("ADD FILES on table '{table}', whose column '{}' is generated,", column.name);
        return Err(Error::unsupported(what, Some("INSERT the files' rows")));
    }
    if let Some(constraint) = constraints.first() {
        let what = format!("ADD FILES on table '{table}', whose constraint '{}' their rows would be held to,", constraint.name);
        return Err(Error::unsupported(what, Some("INSERT .. SELECT from the files")));
    }
    let files = read(table, pattern, lake).await?;
    let present = present(snapshot);
    if let Some(file) = files.iter().find(|file| present.contains(&base::full_name(LOCAL_FILES, &file.found.path))) {
        return Err(Error::invalid(format!("file '{}' is part of table '{table}' already", file.found.found_as)));
    }
    let known = snapshot.bases.iter().find(|(_, base)| base.location == LOCAL_FILES).map(|(id, _)| Ref::Committed(*id));
    step(table, &snapshot.schema, files, known, statement)
}

/// Creates a table of files. The first of them says which columns it has.
pub async fn create_table(lake: &Lake, scope: &SessionScope, files: &FilesOf, statement: &str) -> Result<Done> {
    let name = &files.table;
    create::check_name(name)?;
    if lake.is_taken(name).await? {
        return match files.lenient {
            true => Ok(create::done(0, None, 0)),
            false => Err(Error::TableExists { table: name.to_string() }),
        };
    }
    let shown = name.to_string();
    let found = read(&shown, &files.pattern, lake.location()).await?;
    let schema = create::schema(&shown, &columns_of(&found)?, FieldId(1))?;
    let rows = step(&shown, &schema, found, None, statement)?;
    let inserted = rows.counts.inserted;
    let Made { step, objects } = create::of_nothing(Step { operation: "CREATE TABLE".into(), ..rows }, &schema, FieldId(1), statement);
    scope.commits()?;
    let first = staged(0, step, vec![], objects);
    match lake.create_table(lake.new_table(name), first).await {
        Ok(version) => Ok(create::done(inserted, Some(version), 0)),
        Err(Error::TableExists { .. }) if files.lenient => Ok(create::done(0, None, 0)),
        Err(error) => Err(error),
    }
}

/// The footers of the files that match a pattern.
async fn read(table: &str, pattern: &str, lake: &str) -> Result<Vec<ForeignFile>> {
    let found = base::find(pattern).await?;
    if let Some(own) = base::first_in(&found, lake) {
        let what = format!("adopting '{}' in table '{table}', which is a file of this lake,", own.found_as);
        return Err(Error::unsupported(what, Some("its table may remove it; INSERT .. SELECT copies rows")));
    }
    read_footers(found).await
}

/// The files of others that are part of a table.
fn present(snapshot: &Snapshot) -> BTreeSet<String> {
    let files = snapshot.fragments.iter().flat_map(|fragment| &fragment.files);
    files.filter_map(|file| Some(base::full_name(&snapshot.bases.get(&file.base?)?.location, &file.path))).collect()
}

/// The columns of a table of these files: those of the first, then those that folders give. All may be NULL.
fn columns_of(files: &[ForeignFile]) -> Result<Schema> {
    let Some(first) = files.first() else { return Err(Error::internal("no files")) };
    let mut columns: Vec<Field> = first.schema.fields().iter().map(|field| matching::table_column(field)).collect();
    let folders = files.iter().map(|file| Folders::of(&file.found.found_as)).collect::<Result<Vec<_>>>()?;
    columns.extend(hive::columns(&folders));
    Ok(Schema::new(columns))
}

/// The step that adds files to a table with that schema.
fn step(table: &str, schema: &TableSchema, files: Vec<ForeignFile>, known: Option<BaseRef>, statement: &str) -> Result<Step> {
    let mut actions = Vec::with_capacity(files.len() * 2 + 1);
    let base = known.unwrap_or_else(|| {
        let base = Base { name: None, location: LOCAL_FILES.to_owned() };
        actions.push(Action::AddBase(AddBase { token: Token(0), base }));
        Ref::Local(Token(0))
    });
    let mut inserted = 0;
    for (file, token) in files.into_iter().zip((0..).map(Token)) {
        let columns = columns(table, schema, &file)?;
        // A file without rows has nothing to add, but must fit nevertheless.
        if file.rows == 0 {
            continue;
        }
        inserted += u64::from(file.rows);
        actions.push(Action::AddFragment(AddFragment {
            id: Ref::Local(token),
            physical_rows: file.rows,
            data_change: true,
            replacing: RoaringBitmap::new(),
        }));
        let mut file = DataFile {
            inline: None,
            sorted_by: vec![],
            path: file.found.path,
            base: None,
            size_bytes: file.size_bytes,
            unchecked_bytes: file.footer_at,
            checksum: Arc::new(file.checksum),
            row_groups: file.row_groups,
            columns,
        };
        let fields = take_fields(&mut file);
        actions.push(Action::AddDataFile(AddDataFile { fragment: Ref::Local(token), file, base: Some(base), fields, data_change: true }));
    }
    if inserted == 0 {
        actions.clear();
    }
    let counts = RowCounts { inserted, ..RowCounts::default() };
    Ok(Step { operation: "ADD FILES".into(), statement: statement.to_owned(), actions, counts })
}

/// The record of a file's columns: in the order of the file, then those of its folders.
fn columns(table: &str, schema: &TableSchema, file: &ForeignFile) -> Result<Vec<FileColumn>> {
    let name = &file.found.found_as;
    let refuse = |reason: String| Error::invalid(format!("file '{name}' does not fit table '{table}': {reason}"));
    let mut columns = Vec::with_capacity(file.schema.fields().len());
    for (position, found) in file.schema.fields().iter().enumerate() {
        let field = schema.column(found.name()).ok_or_else(|| refuse(format!("column '{}' is none of the table's", found.name())))?;
        let parts = matching::parts(schema, field, found).map_err(refuse)?;
        if columns.iter().any(|column: &FileColumn| column.field == Some(field.id)) {
            return Err(refuse(format!("it has two columns '{}'", found.name())));
        }
        // Whether there is a NaN nobody has looked.
        let stats = from_parquet(&file.footer, position, found.data_type(), true);
        if !field.nullable && found.is_nullable() && stats.null_count != Some(0) {
            return Err(refuse(format!("column '{}' may hold NULL, and is NOT NULL in the table", found.name())));
        }
        columns.push(FileColumn { field: Some(field.id), parts, constant: None, stats });
    }
    let mut nulls = BTreeSet::new();
    for (key, value) in Folders::of(name)?.values {
        let field = schema.column(&key).ok_or_else(|| refuse(format!("the folder '{key}=..' names none of the table's columns")))?;
        if columns.iter().any(|column| column.field == Some(field.id)) {
            return Err(refuse(format!("column '{key}' is in the file and in the name of a folder")));
        }
        let Some(text) = value else {
            if !field.nullable {
                return Err(refuse(format!("column '{key}' is NULL by the name of a folder, and NOT NULL in the table")));
            }
            // A column that no file holds is NULL.
            nulls.insert(field.id);
            continue;
        };
        let data_type = schema.arrow_field(field).data_type().clone();
        let value = hive::value(&text, &data_type).and_then(|value| from_scalar(&value));
        let value = value.ok_or_else(|| refuse(format!("'{text}' of the folder '{key}={text}' is no value of type {data_type}")))?;
        let stats = ColumnStats { min: Some(value.clone()), max: Some(value.clone()), null_count: Some(0) };
        columns.push(FileColumn { field: Some(field.id), parts: vec![], constant: Some(value), stats });
    }
    let missing = schema.columns().find(|field| !nulls.contains(&field.id) && !columns.iter().any(|column| column.field == Some(field.id)));
    match missing {
        Some(field) => Err(refuse(format!("it has no column '{}'", field.name))),
        None => Ok(columns),
    }
}
