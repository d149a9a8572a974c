//! What adopting files makes of a manifest, against a description of it that knows nothing of actions: the table before, one
//! base if there is none, and one fragment for each file, as its footer says.

use crate::support::{change, run, session_of};
use amend::manifest::snapshot::Snapshot;
use amend::store::Written;
use amend::table::fragment::{Base, BaseId, BlockChecksums, DataFile, FileColumn, Fragment};
use amend::table::row_address::FragmentId;
use amend::table::schema::FieldId;
use amend::table::stats::{ColumnStats, StatValue};
use amend::{Lake, Session};
use datafusion::parquet::file::reader::{FileReader, SerializedFileReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The newest version of a table.
async fn newest(lake: &Lake, table: &str) -> Snapshot {
    lake.table(table).await.unwrap().newest().await.unwrap().snapshot.clone()
}

fn fragments(snapshot: &Snapshot) -> Vec<Fragment> {
    snapshot.fragments.iter().map(|fragment| (**fragment).clone()).collect()
}

/// The record of a file, by reading it all: `fields` are those of its columns and their parts, in the order of the file.
fn described(path: &Path, id: u32, version: u64, base: BaseId, fields: &[(i32, &[i32])], constants: &[(i32, StatValue)]) -> Fragment {
    let bytes = std::fs::read(path).unwrap();
    let (length, _) = bytes[bytes.len() - 8..].split_first_chunk::<4>().unwrap();
    let footer_at = bytes.len() - 8 - u32::from_le_bytes(*length) as usize;
    let checksums = Written::of(&bytes[footer_at..]);
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let row_groups: Vec<u32> = reader.metadata().row_groups().iter().map(|group| group.num_rows() as u32).collect();
    let columns = fields.iter().enumerate().map(|(at, (field, parts))| FileColumn {
        field: Some(FieldId(*field)),
        parts: parts.iter().map(|part| FieldId(*part)).collect(),
        constant: None,
        stats: if parts.is_empty() { integers(&reader, at) } else { ColumnStats::default() },
    });
    let constants = constants.iter().map(|(field, value)| FileColumn {
        field: Some(FieldId(*field)),
        parts: vec![],
        constant: Some(value.clone()),
        stats: ColumnStats { min: Some(value.clone()), max: Some(value.clone()), null_count: Some(0) },
    });
    let file = DataFile {
        inline: None,
        sorted_by: vec![],
        path: path.canonicalize().unwrap().to_str().unwrap()[1..].to_owned(),
        base: Some(base),
        size_bytes: bytes.len() as u64,
        unchecked_bytes: footer_at as u64,
        checksum: Arc::new(BlockChecksums { block_bytes: checksums.block_bytes, crc32c: checksums.crc32c }),
        row_groups: row_groups.clone(),
        columns: columns.chain(constants).collect(),
    };
    Fragment {
        id: FragmentId(id),
        physical_rows: row_groups.iter().sum(),
        files: vec![file],
        deletions: None,
        created_at: version,
        updated_at: version,
    }
}

/// Bounds and NULLs of a column of whole numbers, by its rows.
fn integers(reader: &SerializedFileReader<std::fs::File>, column: usize) -> ColumnStats {
    use datafusion::parquet::record::Field;
    let values: Vec<Option<i64>> = reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| match row.unwrap().get_column_iter().nth(column).unwrap().1 {
            Field::Long(value) => Some(*value),
            Field::Null => None,
            other => panic!("{other:?}"),
        })
        .collect();
    ColumnStats {
        min: values.iter().flatten().min().map(|value| StatValue::Int(*value)),
        max: values.iter().flatten().max().map(|value| StatValue::Int(*value)),
        null_count: Some(values.iter().filter(|value| value.is_none()).count() as u64),
    }
}

/// Writes files with three columns, in two orders, in folders `part=..`.
async fn files(session: &Session, folder: &Path) -> [PathBuf; 2] {
    let paths = ["in/part=7/a.parquet", "in/part=8/b.parquet"].map(|path| folder.join(path));
    let query = "FROM (VALUES (1, 5), (2, NULL), (3, -5)) AS v (k, v)";
    run(session, &format!("COPY (SELECT k, v, {{'x': k, 'y': [v]}} AS s {query}) TO '{}'", paths[0].display())).await;
    let query = "FROM (VALUES (4, 6), (5, 7)) AS v (k, v)";
    run(session, &format!("COPY (SELECT v, {{'x': k, 'y': [v]}} AS s, k {query}) TO '{}'", paths[1].display())).await;
    paths
}

#[tokio::test]
async fn create_table_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let lake = Lake::open(folder.path().join("lake")).unwrap();
    let session = session_of(&lake, 1).await;
    let [a, b] = files(&session, folder.path()).await;
    run(&session, &format!("CREATE TABLE t FROM '{}/in'", folder.path().display())).await;
    let found = newest(&lake, "t").await;
    let names: Vec<(i32, &str)> = found.schema.fields().iter().map(|field| (field.id.0, field.name.as_str())).collect();
    let [element] = found.schema.children(Some(FieldId(5))).collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!(names, [(1, "k"), (2, "v"), (3, "s"), (4, "x"), (5, "y"), (6, element.name.as_str()), (7, "part")]);
    assert_eq!(found.bases.values().collect::<Vec<_>>(), [&Base { name: None, location: "file:///".into() }]);
    let base = *found.bases.keys().next().unwrap();
    let k: (i32, &[i32]) = (1, &[]);
    let v: (i32, &[i32]) = (2, &[]);
    let s: (i32, &[i32]) = (3, &[4, 5, 6]);
    let first = found.fragments.iter().next().unwrap().id.0;
    let expected = vec![
        described(&a, first, 1, base, &[k, v, s], &[(7, StatValue::Int(7))]),
        described(&b, first + 1, 1, base, &[v, s, k], &[(7, StatValue::Int(8))]),
    ];
    assert_eq!(fragments(&found), expected);
    assert_eq!((found.version, found.counters.fragment, found.counters.field), (1, FragmentId(first + 2), FieldId(8)));
}

#[tokio::test]
async fn add_files() {
    let folder = tempfile::tempdir().unwrap();
    let lake = Lake::open(folder.path().join("lake")).unwrap();
    let session = session_of(&lake, 1).await;
    let [a, b] = files(&session, folder.path()).await;
    run(&session, "CREATE TABLE t (part VARCHAR, v BIGINT, gone INT, k BIGINT, s STRUCT<y BIGINT[], x BIGINT>)").await;
    change(&session, "INSERT INTO t VALUES ('own', 0, 1, 0, NULL)").await;
    run(&session, "ALTER TABLE t DROP COLUMN gone").await;
    // The second statement finds the base that the first has made.
    let mut before = newest(&lake, "t").await;
    for (path, order, part) in [(&b, ["v", "s", "k"], "8"), (&a, ["k", "v", "s"], "7")] {
        change(&session, &format!("ALTER TABLE t ADD FILES '{}'", path.display())).await;
        let found = newest(&lake, "t").await;
        let id = |name: &str| found.schema.fields().iter().find(|field| field.name == name).unwrap().id;
        let element = found.schema.children(Some(id("y"))).next().unwrap().id.0;
        // The file has the parts in another order than the table.
        let nested = [id("x").0, id("y").0, element];
        let fields: Vec<(i32, &[i32])> =
            order.iter().map(|name| (id(name).0, if *name == "s" { nested.as_slice() } else { &[] })).collect();
        let base = *found.bases.keys().next().unwrap();
        let next = before.counters.fragment.0;
        let constant = [(id("part").0, StatValue::Utf8(part.into()))];
        let mut expected = fragments(&before);
        expected.push(described(path, next, before.version + 1, base, &fields, &constant));
        assert_eq!(fragments(&found), expected);
        assert_eq!(found.bases.len(), 1);
        assert_eq!((found.version, found.counters.fragment.0), (before.version + 1, next + 1));
        assert_eq!((&found.schema, &found.config, found.counters.field), (&before.schema, &before.config, before.counters.field));
        before = found;
    }
}
