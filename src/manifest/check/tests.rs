//! What is refused of nouns, one rule at a time.

use super::*;
use crate::table::fragment::{BaseId, BlockChecksums, FileColumn};
use std::collections::BTreeMap;
use std::sync::Arc;

fn file() -> DataFile {
    DataFile {
        inline: None,
        sorted_by: vec![],
        path: "data/a.parquet".into(),
        base: None,
        size_bytes: 1000,
        unchecked_bytes: 0,
        checksum: Arc::new(BlockChecksums { block_bytes: 512, crc32c: vec![1, 2] }),
        row_groups: vec![60, 40],
        columns: vec![FileColumn { field: Some(FieldId(1)), ..FileColumn::default() }],
    }
}

fn fragment() -> Fragment {
    let deletions = DeletionFile::inline(&[3, 99].into_iter().collect());
    Fragment { id: FragmentId(7), physical_rows: 100, files: vec![file()], deletions, created_at: 3, updated_at: 4 }
}

fn reason(result: Result<(), DecodeError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn names_stay_within_their_folder() {
    for path in ["data/0190-a_b.C.parquet", "_pages/x", "a/b.c.d"] {
        assert_eq!(check_path(path), Ok(()), "{path}");
    }
    let long = format!("data/{}", "x".repeat(129));
    for path in [
        "",
        "/",
        "a",
        "data/",
        "/data",
        "/etc/passwd",
        "../x",
        "data/..",
        "./x",
        "data/.",
        "data/.x",
        "data/a..b",
        "a/b/c",
        "data//x",
        "data/x y",
        "data\\x",
        "C:/x",
        "data/x\0",
        "data/é",
        "s3://bucket/x",
        "data/%2e%2e",
        "data/x\n",
        &long,
    ] {
        assert!(check_path(path).is_err(), "{path:?}");
    }
}

#[test]
fn a_fragment_adds_up() {
    assert_eq!(check_fragment(&fragment()), Ok(()));
    let empty = Fragment { files: vec![], deletions: None, physical_rows: 0, ..fragment() };
    assert_eq!(check_fragment(&empty), Ok(()));
    type Change = fn(&mut Fragment);
    let changes: [(&str, Change); 11] = [
        ("never used", |f| f.id = FragmentId(u32::MAX)),
        ("never used", |f| f.physical_rows = u32::MAX),
        ("updated in version 4 and created in 5", |f| f.created_at = 5),
        ("has 100 rows, its fragment 7 has 101", |f| f.physical_rows = 101),
        ("has 99 rows", |f| f.files[0].row_groups[0] = 59),
        ("holds field 1 twice", |f| f.files.push(file())),
        ("is not the name of an object", |f| f.files[0].path = "../secret".into()),
        ("of 101 rows for a fragment of 100", |f| f.deletions = DeletionFile::inline(&(0..101).collect())),
        ("names row 100 of a fragment", |f| f.deletions = DeletionFile::inline(&[100].into_iter().collect())),
        ("of 2 rows that says it has 3", |f| {
            if let Some(DeletionFile::Inline { cardinality, .. }) = &mut f.deletions {
                *cardinality = 3;
            }
        }),
        ("deletion vector is cut short", |f| f.deletions = Some(DeletionFile::Inline { blob: Default::default(), cardinality: 0 })),
    ];
    for (needle, change) in changes {
        let mut fragment = fragment();
        change(&mut fragment);
        let reason = reason(check_fragment(&fragment));
        assert!(reason.contains(needle), "{needle}: {reason}");
    }
}

#[test]
fn two_dead_slots_are_not_one_field() {
    let mut fragment = fragment();
    fragment.files.push(DataFile { path: "data/b.parquet".into(), ..file() });
    fragment.files.iter_mut().for_each(|file| file.columns[0].field = None);
    assert_eq!(check_fragment(&fragment), Ok(()));
}

#[test]
fn a_vector_in_a_file_fits_its_fragment() {
    let puffin =
        |path: &str, offset, length, cardinality| DeletionFile::Puffin { path: path.into(), offset, length, cardinality, crc32c: 0 };
    assert_eq!(check_vector(&puffin("_deletions/a", 4, 40, 100), 100), Ok(()));
    for vector in [
        puffin("_deletions/a", 4, 40, 101),
        puffin("_deletions/../a", 4, 40, 100),
        puffin("_deletions/a", u64::MAX, 40, 100),
        puffin("_deletions/a", 4, u64::MAX, 100),
    ] {
        assert!(matches!(check_vector(&vector, 100), Err(DecodeError::Damaged(_))), "{vector:?}");
    }
}

#[test]
fn a_file_adds_up() {
    assert_eq!(check_data_file(&file()), Ok(()));
    type Change = fn(&mut DataFile);
    let changes: [(&str, Change); 12] = [
        ("bytes without checksums", |f| f.unchecked_bytes = 1),
        ("after those that are not in it", |f| {
            f.columns.insert(0, FileColumn { constant: Some(StatValue::Int(1)), ..FileColumn::default() });
        }),
        ("no field", |f| f.columns[0].parts = vec![FieldId(0)]),
        ("no field", |f| f.columns[0].constant = Some(StatValue::Float(f64::NAN))),
        ("not a power of two", |f| f.checksum = Arc::new(BlockChecksums::default())),
        ("not a power of two", |f| Arc::make_mut(&mut f.checksum).block_bytes = 500),
        ("another number of checksums", |f| f.size_bytes = 1025),
        ("another number of checksums", |f| f.size_bytes = 512),
        ("too large", |f| f.size_bytes = u64::MAX),
        ("more rows", |f| f.row_groups = vec![u32::MAX; 2]),
        ("no field", |f| f.columns[0].field = Some(FieldId(0))),
        ("no field", |f| f.columns[0].field = Some(FieldId(-1))),
    ];
    for (needle, change) in changes {
        let mut file = file();
        change(&mut file);
        let reason = reason(check_data_file(&file));
        assert!(reason.contains(needle), "{needle}: {reason}");
    }
    let elsewhere = DataFile { base: Some(BaseId(1)), path: "k=v/größer 1.parquet".into(), unchecked_bytes: 10, ..file() };
    assert_eq!(check_data_file(&elsewhere), Ok(()));
    let none_checked = DataFile { unchecked_bytes: 1000, ..elsewhere };
    assert!(reason(check_data_file(&none_checked)).contains("another number of checksums"));
}

#[test]
fn bounds_hold_something() {
    use StatValue::{Binary, Boolean, Decimal, Float, Int, UInt, Utf8};
    let in_order = |min, max| bounds_in_order(&ColumnStats { min: Some(min), max: Some(max), null_count: None });
    assert!(in_order(Int(-1), Int(-1)) && in_order(UInt(1), UInt(2)) && in_order(Float(-0.0), Float(0.0)));
    assert!(in_order(Decimal(-5), Decimal(i128::MAX)) && in_order(Utf8("a".into()), Utf8("ab".into())));
    assert!(in_order(Boolean(false), Boolean(true)) && in_order(Binary(vec![2]), Binary(vec![1])));
    for (min, max) in [
        (Int(0), Int(-1)),
        (UInt(1), UInt(0)),
        (Float(1.0), Float(0.0)),
        (Float(f64::NAN), Float(1.0)),
        (Float(1.0), Float(f64::NAN)),
        (Decimal(1), Decimal(-1)),
        (Utf8("b".into()), Utf8("a".into())),
        (Boolean(true), Boolean(false)),
        (Int(1), UInt(2)),
        (Utf8("a".into()), Binary(vec![b'b'])),
    ] {
        assert!(!in_order(min.clone(), max.clone()), "{min:?} {max:?}");
    }
    assert!(!bounds_in_order(&ColumnStats { min: None, max: Some(Float(f64::NAN)), null_count: None }));
}

#[test]
fn fields_are_given_out_and_not_nested_without_end() {
    let field = |id: i32, field_type| Field {
        id: FieldId(id),
        parent: (id > 1).then_some(FieldId(id - 1)),
        name: "f".into(),
        field_type,
        nullable: true,
        metadata: BTreeMap::new(),
        initial: None,
    };
    let nested = |levels: i32, field_type: FieldType| (1..=levels).map(|id| field(id, field_type.clone())).collect::<Vec<_>>();
    let next = FieldId(1000);
    assert_eq!(check_fields(&nested(64, FieldType::Struct), next), Ok(()));
    assert!(check_fields(&nested(65, FieldType::Struct), next).unwrap_err().contains("nested"));
    assert_eq!(check_fields(&nested(2, FieldType::FixedSizeList(1024)), next), Ok(()));
    assert!(check_fields(&nested(3, FieldType::FixedSizeList(1024)), next).unwrap_err().contains("nested"));
    assert!(check_fields(&nested(1, FieldType::FixedSizeList(1 << 17)), next).unwrap_err().contains("fixed size"));
    assert!(check_fields(&nested(1, FieldType::Leaf(DataType::FixedSizeBinary(-1))), next).unwrap_err().contains("fixed size"));
    assert!(check_fields(&nested(1, FieldType::Struct), FieldId(1)).unwrap_err().contains("never given out"));
    assert!(check_fields(&[field(0, FieldType::Struct)], next).unwrap_err().contains("never given out"));
}

#[test]
fn names_in_a_base_stay_in_it() {
    for path in ["a", "a/b c/k=v/ü.parquet", "...", ".hidden", "a%20b"] {
        assert_eq!(check_path_in_base(path), Ok(()), "{path}");
    }
    for path in ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a\\b", "a\nb", &"x".repeat(4097)] {
        assert!(check_path_in_base(path).is_err(), "{path:?}");
    }
}
