//! Tests of the runner: counting, skipping, and what stops a file. Records that reach a session are tested by `slt/own/`.

use super::*;

fn write(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn in_memory() -> Runner {
    Runner { lakes: LakePlace::Memory, ..Runner::default() }
}

#[tokio::test]
async fn records_are_skipped_by_their_conditions_and_by_halt() {
    let folder = TempDir::new().unwrap();
    let text = "system ok\ntrue\n\nonlyif sqlite\nsystem ok\nfalse\n\nskipif datafusion\nquery I\nSELECT 1\n----\n2\n\n\
                onlyif amend\nskipif postgres\nsystem ok\necho hi\n----\nhi\n\n\nhalt\n\nstatement ok\nnonsense\n";
    let report = in_memory().run_file(&write(&folder, "a.slt", text)).await;
    let skipped = vec![("halt".to_owned(), 1), ("onlyif sqlite".to_owned(), 1), ("skipif datafusion".to_owned(), 1)];
    assert_eq!(report, FileReport { records: 5, passed: 2, failed: 0, skipped, ..FileReport::default() });
}

#[tokio::test]
async fn a_failure_stops_the_file_unless_told_otherwise() {
    let folder = TempDir::new().unwrap();
    let path = write(&folder, "a.slt", "system ok\ntrue\n\nsystem ok\nfalse\n\nsystem ok\nexit 3\n\nsystem ok\ntrue\n");
    let stopped = in_memory().run_file(&path).await;
    assert_eq!((stopped.records, stopped.passed, stopped.failed), (4, 1, 1));
    assert_eq!(stopped.skipped, [("a record before it failed".to_owned(), 2)]);
    let failure = stopped.failure.unwrap();
    assert!(failure.starts_with("system command failed: "), "{failure}");
    assert!(failure.ends_with(&format!("at {}:4", path.display())), "{failure}");

    let all = Runner { keep_going: true, ..in_memory() }.run_file(&path).await;
    assert_eq!((all.records, all.passed, all.failed, all.skipped), (4, 2, 2, vec![]));
    assert!(all.failure.unwrap().contains("a.slt:4\n\nsystem command failed: "));
}

#[tokio::test]
async fn a_file_on_the_skip_list_is_not_run() {
    let folder = TempDir::new().unwrap();
    let path = write(&folder, "a.slt", "system ok\nfalse\n\nsystem ok\nfalse\n");
    let skips = Skips::parse("a.slt  not now", "s").unwrap();
    let report = Runner { skips, ..in_memory() }.run_file(&path).await;
    assert_eq!(report, FileReport { records: 2, skipped: vec![("not now".to_owned(), 2)], ..FileReport::default() });
}

#[tokio::test]
async fn a_file_that_cannot_be_read_has_failed() {
    let folder = TempDir::new().unwrap();
    let missing = in_memory().run_file(Path::new("no/such.slt")).await;
    assert!(missing.failure.unwrap().starts_with("cannot read 'no/such.slt': "));
    let path = write(&folder, "a.slt", "statement maybe\nSELECT 1\n");
    let failure = in_memory().run_file(&path).await.failure.unwrap();
    assert_eq!(failure, format!("parse error at {}:1: invalid line: \"statement maybe\"", path.display()));
    let path = folder.path().join("b.slt");
    std::fs::write(&path, b"# \xff\n").unwrap();
    assert!(in_memory().run_file(&path).await.failure.is_some());
}

#[tokio::test]
async fn a_lake_that_is_there_already_is_not_reused() {
    let folder = TempDir::new().unwrap();
    let path = write(&folder, "a.slt", "system ok\ntrue\n");
    let place = folder.path().join("lakes");
    std::fs::create_dir_all(place.join(folder_name(&path))).unwrap();
    let report = Runner { lakes: LakePlace::Folder(place), ..Runner::default() }.run_file(&path).await;
    assert_eq!(report.skipped, [("the file could not be run".to_owned(), 1)]);
    assert!(report.failure.unwrap().ends_with("exists already; every file needs a new lake"));
}

#[test]
fn rules_reach_the_sql_of_a_record() {
    let runner = Runner { rules: Rules::parse("TEXT => VARCHAR", "r").unwrap(), ..Runner::default() };
    let mut records = sqllogictest::parse::<ColumnType>("statement ok\nCREATE TABLE t (a TEXT)\n").unwrap();
    assert_eq!(runner.adapt(&mut records[0]), None);
    assert!(matches!(&records[0], Record::Statement { sql, .. } if sql == "CREATE TABLE t (a VARCHAR)"));
}

#[tokio::test]
async fn records_are_skipped_and_known_to_fail_by_their_lines() {
    let folder = TempDir::new().unwrap();
    let path = write(&folder, "a.slt", "system ok\nfalse\n\nsystem ok\nexit 1\n\nsystem ok\ntrue\n\nstatement ok\nDROP INDEX i\n");
    let skips = Skips::parse("a.slt:1  another product's", "s").unwrap();
    let open = Skips::parse("a.slt  /exit/  not yet\na.slt:7  it passes", "o").unwrap();
    let rules = Rules::parse("DROP INDEX .* =>", "r").unwrap();
    let report = Runner { skips, open: open.clone(), rules, ..in_memory() }.run_file(&path).await;
    let skipped = vec![("another product's".to_owned(), 1), ("the rules leave nothing of it".to_owned(), 1)];
    assert_eq!(report, FileReport { records: 4, passed: 1, open: vec![("not yet".to_owned(), 1)], skipped, ..FileReport::default() });
    assert_eq!(open.unused().collect::<Vec<_>>(), ["a.slt:7  it passes"]);
}

#[tokio::test]
async fn records_that_answer_otherwise_are_run_all_the_same() {
    let folder = TempDir::new().unwrap();
    let made = folder.path().join("made");
    let text = format!("system ok\ntouch {0} && false\n\nsystem ok\ntest -e {0}\n\nsystem ok\nfalse\n", made.display());
    let path = write(&folder, "a.slt", &text);
    let skips = Skips::parse("a.slt:1,4  run: fails there", "s").unwrap();
    let report = Runner { skips, keep_going: true, ..in_memory() }.run_file(&path).await;
    assert_eq!((report.passed, report.failed, report.skipped), (1, 1, vec![("fails there".to_owned(), 1)]));
    // The second record can pass only if the first was run.
    assert!(made.exists());
}

#[test]
fn a_path_becomes_one_folder_name() {
    assert_eq!(folder_name(Path::new("./slt/../slt/own/smoke.slt")), "slt-slt-own-smoke.slt");
}
