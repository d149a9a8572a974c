//! `table_files('t')`: a row for each data file of each fragment of the newest version; `table_fragments('t')`: a row for each fragment.
//!
//! Rows are in the order of fragments, and of files within them. In a transaction they are those of the version that it reads, with its
//! own changes.

use super::of_table::{OfTable, version_of};
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::Snapshot;
use crate::store::base;
use crate::table::fragment::{DataFile, Fragment};
use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, ListBuilder, RecordBatch, StringArray, StringBuilder, UInt32Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use std::sync::{Arc, LazyLock};

static FILES: LazyLock<SchemaRef> = LazyLock::new(|| {
    let mut columns = vec![
        Field::new("path", DataType::Utf8, false),
        Field::new("fragment", DataType::UInt32, false),
        Field::new("rows", DataType::UInt32, false),
        Field::new("deleted_rows", DataType::UInt32, false),
        Field::new("size_bytes", DataType::UInt64, false),
        Field::new("row_groups", DataType::UInt32, false),
        Field::new("columns", DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))), false),
    ];
    columns.extend(versions());
    Arc::new(Schema::new(columns))
});

static FRAGMENTS: LazyLock<SchemaRef> = LazyLock::new(|| {
    let mut columns = vec![
        Field::new("fragment", DataType::UInt32, false),
        Field::new("rows", DataType::UInt32, false),
        Field::new("deleted_rows", DataType::UInt32, false),
        Field::new("files", DataType::UInt32, false),
        Field::new("size_bytes", DataType::UInt64, false),
    ];
    columns.extend(versions());
    Arc::new(Schema::new(columns))
});

fn versions() -> [Field; 2] {
    [Field::new("created_version", DataType::UInt64, false), Field::new("updated_version", DataType::UInt64, false)]
}

/// `table_files`.
#[derive(Debug)]
pub struct Files;

#[async_trait]
impl OfTable for Files {
    const NAME: &'static str = "table_files";

    fn schema() -> SchemaRef {
        FILES.clone()
    }

    async fn rows(log: &VersionLog, session: &dyn Session) -> Result<RecordBatch> {
        let version = version_of(log, session).await?;
        let snapshot = &log.load_all(&version.snapshot).await?;
        let files: Vec<(&Fragment, &DataFile)> =
            snapshot.fragments.iter()?.flat_map(|fragment| fragment.files.iter().map(|file| (fragment.as_ref(), file))).collect();
        let mut columns = ListBuilder::new(StringBuilder::new());
        for (_, file) in &files {
            columns.append_value(names(snapshot, file).into_iter().map(Some));
        }
        let small =
            |of: fn(&Fragment) -> u32| Arc::new(UInt32Array::from_iter_values(files.iter().map(|(fragment, _)| of(fragment)))) as ArrayRef;
        let number =
            |of: fn(&Fragment) -> u64| Arc::new(UInt64Array::from_iter_values(files.iter().map(|(fragment, _)| of(fragment)))) as ArrayRef;
        let all: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(files.iter().map(|(_, file)| path(snapshot, file)))),
            small(|fragment| fragment.id.0),
            small(|fragment| fragment.physical_rows),
            small(Fragment::deleted_rows),
            Arc::new(UInt64Array::from_iter_values(files.iter().map(|(_, file)| file.size_bytes))),
            Arc::new(UInt32Array::from_iter_values(files.iter().map(|(_, file)| file.row_groups.len() as u32))),
            Arc::new(columns.finish()),
            number(|fragment| fragment.created_at),
            number(|fragment| fragment.updated_at),
        ];
        RecordBatch::try_new(FILES.clone(), all).map_err(|error| Error::internal(format!("files: {error}")))
    }
}

/// The name of a file within the table's folder, or where it is elsewhere.
fn path(snapshot: &Snapshot, file: &DataFile) -> String {
    match file.base.and_then(|base| snapshot.bases.get(&base)) {
        Some(base) => base::full_name(&base.location, &file.path),
        None => file.path.clone(),
    }
}

/// The columns that are read from a file, by today's names.
fn names<'a>(snapshot: &'a Snapshot, file: &DataFile) -> Vec<&'a str> {
    let fields = file.columns.iter().filter_map(|column| column.field);
    fields.filter_map(|field| snapshot.schema.field(field)).map(|field| field.name.as_str()).collect()
}

/// `table_fragments`.
#[derive(Debug)]
pub struct Fragments;

#[async_trait]
impl OfTable for Fragments {
    const NAME: &'static str = "table_fragments";

    fn schema() -> SchemaRef {
        FRAGMENTS.clone()
    }

    async fn rows(log: &VersionLog, session: &dyn Session) -> Result<RecordBatch> {
        let version = version_of(log, session).await?;
        let snapshot = log.load_all(&version.snapshot).await?;
        let fragments: Vec<&Arc<Fragment>> = snapshot.fragments.iter()?.collect();
        let small =
            |of: fn(&Fragment) -> u32| Arc::new(UInt32Array::from_iter_values(fragments.iter().map(|fragment| of(fragment)))) as ArrayRef;
        let number =
            |of: fn(&Fragment) -> u64| Arc::new(UInt64Array::from_iter_values(fragments.iter().map(|fragment| of(fragment)))) as ArrayRef;
        let all = vec![
            small(|fragment| fragment.id.0),
            small(|fragment| fragment.physical_rows),
            small(Fragment::deleted_rows),
            small(|fragment| fragment.files.len() as u32),
            number(Fragment::size_bytes),
            number(|fragment| fragment.created_at),
            number(|fragment| fragment.updated_at),
        ];
        RecordBatch::try_new(FRAGMENTS.clone(), all).map_err(|error| Error::internal(format!("fragments: {error}")))
    }
}
