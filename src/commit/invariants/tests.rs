//! Each invariant where it fails, and all of them along the schedules of the simulation.

use super::*;
use crate::manifest::apply::apply;
use crate::table::fragment::BlockChecksums;
use crate::table::schema::TableSchema;
use crate::txn::simulation;
use crate::txn::testbed::Testbed;

/// Something wrong with a version.
type Fault = fn(&mut Snapshot, &mut Snapshot, &mut Transaction);

/// How many schedules of the simulation are held against the invariants.
const CASES: u32 = 1_000;

/// A table of three fragments of three rows, before and after a DELETE of a row of each of two, and an INSERT of one row.
fn sound() -> (Snapshot, Snapshot, Transaction) {
    let mut bed = Testbed::of(&[&[0, 1, 2], &[3, 4, 5], &[6, 7, 8]]);
    let mut draft = bed.draft();
    draft.delete(&[1, 3]);
    draft.insert(&[(9, 0)]);
    let (after, _) = apply(bed.newest(), &draft.transaction, 3).unwrap();
    (bed.newest().clone(), after, draft.transaction)
}

/// The same table before and after an OPTIMIZE of two fragments.
fn rewritten() -> (Snapshot, Snapshot, Transaction) {
    let mut bed = Testbed::of(&[&[0, 1, 2], &[3, 4, 5], &[6, 7, 8]]);
    let mut draft = bed.draft();
    draft.optimize(&[(vec![Ref::Committed(FragmentId(0)), Ref::Committed(FragmentId(1))], vec![])], true);
    let (after, _) = apply(bed.newest(), &draft.transaction, 3).unwrap();
    (bed.newest().clone(), after, draft.transaction)
}

fn change(after: &mut Snapshot, id: u32, how: impl FnOnce(&mut Fragment)) {
    let mut fragment = (**after.fragments.get(FragmentId(id)).unwrap().unwrap()).clone();
    how(&mut fragment);
    after.fragments.put(Arc::new(fragment)).unwrap();
}

fn change_file(after: &mut Snapshot, id: u32, how: impl FnOnce(&mut DataFile)) {
    change(after, id, |fragment| how(&mut fragment.files[0]));
}

#[test]
fn sound_versions_pass() {
    let (before, after, transaction) = sound();
    check(&before, &after, &transaction).unwrap();
    assert_eq!(after.live_rows(), 9 - 2 + 1);
    let (before, after, transaction) = rewritten();
    check(&before, &after, &transaction).unwrap();
    assert_eq!((after.fragments.len(), after.live_rows()), (2, 9));
}

#[test]
fn a_folded_version_passes() {
    let (mut before, mut after, transaction) = sound();
    after.fragments = after.fragments.fold().unwrap();
    check(&before, &after, &transaction).unwrap();
    before.fragments = before.fragments.fold().unwrap();
    check(&before, &after, &transaction).unwrap();
}

#[test]
fn every_version_of_the_simulation_passes() {
    simulation::run(simulation::cases(CASES), check);
}

#[test]
fn each_fault_breaks_its_invariant() {
    let faults: &[(&str, &str, Fault)] = &[
        ("another table", "same table", |_, after, _| after.table_id = 8),
        ("an older version", "same table", |_, after, _| after.version = 1),
        ("fragment counter", "counters", |_, after, _| after.counters.fragment = FragmentId(0)),
        ("field counter", "counters", |before, _, _| before.counters.field = FieldId(90)),
        ("fragment beyond the counter", "counters", |_, after, _| change(after, 3, |fragment| fragment.id = FragmentId(70))),
        ("fragment comes back", "counters", |before, _, _| before.fragments.remove(FragmentId(0)).unwrap()),
        ("unknown field in a file", "counters", |_, after, _| change_file(after, 3, |file| file.columns[0].field = Some(FieldId(50)))),
        ("schema beyond the counter", "counters", |_, after, _| {
            let mut fields = after.schema.fields().to_vec();
            fields[1].id = FieldId(50);
            after.schema = Arc::new(TableSchema::new(fields).unwrap());
        }),
        ("a field comes back that nobody claims", "counters", |before, _, _| {
            before.schema = Arc::new(TableSchema::new(before.schema.fields()[..1].to_vec()).unwrap());
        }),
        ("low water mark", "low-water mark", |before, _, _| before.low_water_mark = 2),
        ("swept", "swept", |before, _, _| before.swept_ms = 1),
        ("a row comes back", "live rows", |_, after, _| change(after, 0, |fragment| fragment.deletions = None)),
        ("a row too many is deleted", "live rows", |_, after, _| {
            change(after, 0, |fragment| fragment.deletions = DeletionFile::inline(&[0, 1].into_iter().collect()));
        }),
        ("a claim of rows that stay", "live rows", |_, _, transaction| {
            let Action::SetDeletionFile(set) = &mut transaction.steps[0].actions[0] else { panic!("not a deletion") };
            set.added.insert(2);
        }),
        ("new rows that do not arrive", "live rows", |_, after, _| after.fragments.remove(FragmentId(3)).unwrap()),
        ("a fragment that no action names goes", "live rows", |_, after, _| after.fragments.remove(FragmentId(2)).unwrap()),
        ("two columns of a field", "one live column", |_, after, _| {
            change(after, 0, |fragment| fragment.files.push(fragment.files[0].clone()))
        }),
        ("two columns of a field in a file", "one live column", |_, after, _| {
            change_file(after, 0, |file| file.columns[1].field = file.columns[0].field);
        }),
        ("no length", "length, checksums", |_, after, _| change_file(after, 3, |file| file.size_bytes = 0)),
        ("no name", "length, checksums", |_, after, _| change_file(after, 3, |file| file.path.clear())),
        ("a checksum is missing", "length, checksums", |_, after, _| change_file(after, 3, |file| file.size_bytes = 4097)),
        ("a checksum too many", "length, checksums", |_, after, _| {
            change_file(after, 3, |file| file.checksum = Arc::new(BlockChecksums { block_bytes: 4096, crc32c: vec![0, 0] }));
        }),
        ("blocks of no bytes", "length, checksums", |_, after, _| change_file(after, 3, |file| file.checksum = Arc::default())),
        ("rows of a file", "length, checksums", |_, after, _| change_file(after, 3, |file| file.row_groups = vec![1, 1])),
        ("a vector beyond its fragment", "deletion vector", |_, after, _| {
            change(after, 0, |fragment| fragment.deletions = DeletionFile::inline(&[3].into_iter().collect()));
        }),
        ("a vector of other rows", "deletion vector", |_, after, _| {
            change(after, 0, |fragment| fragment.deletions = DeletionFile::inline(&[0].into_iter().collect()));
        }),
        ("a vector that counts wrong", "deletion vector", |_, after, _| {
            change(after, 0, |fragment| {
                let Some(DeletionFile::Inline { cardinality, .. }) = &mut fragment.deletions else { panic!("no vector") };
                *cardinality = 2;
            })
        }),
        ("more deleted than there are", "deletion vector", |_, after, _| {
            change(after, 0, |fragment| {
                fragment.deletions =
                    Some(DeletionFile::Puffin { path: "_deletions/a.puffin".into(), offset: 4, length: 10, cardinality: 4, crc32c: 0 });
            })
        }),
        ("a vector without rows", "deletion vector", |_, after, _| {
            change(after, 2, |fragment| {
                fragment.deletions = Some(DeletionFile::Inline { blob: deletion_vector::encode(&RoaringBitmap::new()), cardinality: 0 });
            })
        }),
        ("an empty fragment", "live rows", |_, after, _| {
            change(after, 0, |fragment| fragment.deletions = DeletionFile::inline(&(0..3).collect()));
        }),
    ];
    for (what, name, fault) in faults {
        let (mut before, mut after, mut transaction) = sound();
        fault(&mut before, &mut after, &mut transaction);
        let broken = INVARIANTS.iter().filter(|(_, invariant)| invariant(&before, &after, &transaction).is_err());
        let broken: Vec<&str> = broken.map(|(name, _)| *name).collect();
        assert!(broken.iter().any(|broken| broken.contains(name)), "{what}: '{name}' is not among {broken:?}");
        assert!(check(&before, &after, &transaction).is_err(), "{what}");
    }
}

#[test]
fn a_rewrite_that_does_not_add_up_breaks_the_count_of_rows() {
    let faults: &[(&str, Fault)] = &[
        ("a target is missing", |_, after, _| after.fragments.remove(FragmentId(3)).unwrap()),
        ("a source stays", |before, after, _| after.fragments.put(before.fragments.get(FragmentId(0)).unwrap().unwrap().clone()).unwrap()),
        ("a target that says it is new", |_, _, transaction| {
            for action in &mut transaction.steps[0].actions {
                if let Action::AddFragment(add) = action {
                    add.data_change = true;
                }
            }
        }),
        ("a source that says it is deleted", |_, _, transaction| {
            for action in &mut transaction.steps[0].actions {
                if let Action::RemoveFragment(remove) = action {
                    remove.data_change = true;
                }
            }
        }),
    ];
    for (what, fault) in faults {
        let (mut before, mut after, mut transaction) = rewritten();
        fault(&mut before, &mut after, &mut transaction);
        assert!(live_rows(&before, &after, &transaction).is_err(), "{what}");
    }
}

#[test]
fn an_emptied_fragment_that_stays_is_noticed() {
    let mut bed = Testbed::of(&[&[0, 1], &[2]]);
    let mut draft = bed.draft();
    draft.delete(&[2]);
    let (mut after, _) = apply(bed.newest(), &draft.transaction, 3).unwrap();
    check(bed.newest(), &after, &draft.transaction).unwrap();
    let mut fragment = (**bed.newest().fragments.get(FragmentId(1)).unwrap().unwrap()).clone();
    fragment.deletions = DeletionFile::inline(&[0].into_iter().collect());
    after.fragments.put(Arc::new(fragment)).unwrap();
    assert_eq!(no_empty_fragments(bed.newest(), &after, &draft.transaction).unwrap_err(), "fragment 1 has none");
    assert!(check(bed.newest(), &after, &draft.transaction).unwrap_err().contains("breaks 'a fragment has live rows'"));
}

#[test]
fn rows_of_a_removed_fragment_count_as_deleted_once() {
    let mut bed = Testbed::of(&[&[0, 1, 2], &[3]]);
    let mut draft = bed.draft();
    draft.delete(&[1]);
    draft.remove(&[Ref::Committed(FragmentId(0))]);
    let (after, _) = apply(bed.newest(), &draft.transaction, 3).unwrap();
    assert_eq!(after.live_rows(), 1);
    check(bed.newest(), &after, &draft.transaction).unwrap();
}
