//! The sqllogictest files of this repository.

use amend::slt::{LakePlace, Runner};
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
    let mut failures = Vec::new();
    for path in found {
        let report = runner.run_file(&path).await;
        failures.extend(report.failure);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn own_files_pass_in_memory() {
    run_all(LakePlace::Memory).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn own_files_pass_in_folders() {
    run_all(LakePlace::Temporary).await;
}
