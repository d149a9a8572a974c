//! The sqllogictest files of this repository.

use amend::slt::{LakePlace, Rules, Runner, Skips, Table};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// All `.slt` files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            found.push(path);
        }
    }
}

async fn run_all(lakes: LakePlace) {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("slt"), &mut found);
    found.sort();
    assert!(!found.is_empty());
    let runner = Runner { lakes, keep_going: true, ..Runner::default() };
    let (mut failures, mut sqlstates) = (Vec::new(), BTreeSet::new());
    for path in found {
        let report = runner.run_file(&path).await;
        failures.extend(report.failure);
        sqlstates.extend(report.sqlstates);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    // Every error says what it is, by a SQLSTATE that the reference names.
    let reference = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sql.md")).unwrap();
    let named = &reference[reference.find("## Errors").unwrap()..];
    let is_named = |state: &str| named.contains(state) || (state.starts_with("22") && state != "22000");
    let unnamed: Vec<_> = sqlstates.iter().filter(|state| !is_named(state) || **state == "XX000").collect();
    assert!(sqlstates.len() > 20 && unnamed.is_empty(), "{unnamed:?} of {sqlstates:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn own_files_pass_in_memory() {
    run_all(LakePlace::Memory).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn own_files_pass_in_folders() {
    run_all(LakePlace::Temporary).await;
}

/// A suite of another product is run through rules and lists: what comes out is told in a table.
#[tokio::test]
async fn a_suite_with_rules_and_lists_gives_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let script = "# name: tiny\n\nload x\n\nstatement ok\nCREATE TABLE t (a INTEGER, s STRINGY)\n\n\
                  loop i 1 3\n\nquery I\nINSERT INTO t VALUES (${i}, 'v${i}')\n----\n1\n\nendloop\n\n\
                  query IT\nSELECT a + 0.0, s FROM t\n----\n2\tv2\n1.0\tv1\n\n\
                  statement error\nSELECT * FROM nothing\n----\ntheir words\n\n\
                  statement ok\nPRAGMA answer\n\nstatement ok\nCREATE INDEX i ON t (a)\n\n\
                  query I\nSELECT count(*) FROM t\n----\n3\n\nrequire icu\n\nstatement ok\nSELECT 1\n";
    let path = folder.path().join("tiny.test");
    std::fs::write(&path, script).unwrap();
    let rules = Rules::parse("dialect: duckdb\norder: any\n\\bSTRINGY\\b => VARCHAR\n^PRAGMA .* =>\n", "rules").unwrap();
    let skips = Skips::parse("tiny.test  /CREATE INDEX/  indexes are theirs\n", "skips").unwrap();
    let open = Skips::parse("*.test:34  counts are not done yet\n", "open").unwrap();
    let runner =
        Runner { lakes: LakePlace::Memory, rules, skips: skips.clone(), open: open.clone(), keep_going: true, ..Runner::default() };
    let report = runner.run_file(&path).await;
    let mut table = Table::new("Tiny");
    table.push("tiny.test", &report);
    let expected = "## Tiny\n\n1 files, 9 records: 5 passed, 0 failed, 1 open, 3 skipped.\n\n\
                    | open | because |\n|---:|---|\n| 1 | counts are not done yet |\n\n\
                    | skipped | because |\n|---:|---|\n| 1 | indexes are theirs |\n| 1 | require icu |\n| 1 | the rules leave nothing of it |\n\n\
                    <details><summary>Every file</summary>\n\n| file | records | passed | failed | open | skipped |\n\
                    |---|---:|---:|---:|---:|---:|\n| tiny.test | 9 | 5 | 0 | 1 | 3 |\n\n</details>\n";
    assert_eq!(table.to_markdown(), expected, "{:?}", report.failure);
    assert_eq!(skips.unused().chain(open.unused()).count(), 0);
}
