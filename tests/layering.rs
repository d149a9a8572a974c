//! The import rules of ARCHITECTURE.md, held against the `use` lines and paths of `src/`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A file of the crate: its module path (`txn::rebase`) and its text without comments and test modules.
struct Source {
    module: String,
    path: PathBuf,
    text: String,
}

/// All Rust files below `src/`.
fn files() -> Vec<PathBuf> {
    fn walk(dir: &Path, into: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                into.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut paths);
    paths
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    for path in files() {
        let relative = path.strip_prefix(&root).unwrap().with_extension("");
        let module = relative.to_string_lossy().replace(['/', '\\'], "::").trim_end_matches("::mod").to_owned();
        if module.split("::").any(is_test_module) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code: Vec<&str> = text.lines().take_while(|line| !line.starts_with("mod tests {")).collect();
        let code: Vec<&str> = code.into_iter().map(|line| line.split("//").next().unwrap_or("")).collect();
        sources.push(Source { module, path: path.clone(), text: code.join("\n") });
    }
    assert!(sources.len() > 40, "only {} files were found", sources.len());
    sources
}

fn is_test_module(part: &str) -> bool {
    ["tests", "simulation", "testbed", "contract", "pairs", "exploration", "properties", "behaviours"].contains(&part)
}

/// The modules of this crate that a file names after `crate::`.
fn imports(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in source.text.match_indices("crate::") {
        let rest = &source.text[at + "crate::".len()..];
        if rest.starts_with('{') {
            panic!("{}: write one `use crate::..` for each module, so that this test can read it", source.path.display());
        }
        let path: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':').collect();
        found.push(path);
    }
    found
}

fn is_in(module: &str, layer: &str) -> bool {
    module == layer || module.starts_with(&format!("{layer}::"))
}

/// What each layer may name of the crate, besides itself.
fn allowed() -> BTreeMap<&'static str, Vec<&'static str>> {
    BTreeMap::from([
        ("error", vec![]),
        ("faulty", vec![]),
        ("store", vec!["error"]),
        ("table", vec!["error"]),
        ("txn", vec!["table", "manifest"]),
        ("manifest", vec!["error", "table", "txn", "store"]),
        ("commit", vec!["error", "table", "txn", "manifest", "store"]),
        ("maintain", vec!["error", "table", "txn", "manifest", "store", "commit", "scan"]),
        ("scan", vec!["error", "table", "manifest", "store"]),
        ("stage", vec!["error", "table", "txn", "manifest", "store", "commit", "scan"]),
        ("plan", vec!["error", "table", "txn", "manifest", "store", "commit", "scan", "stage"]),
        ("statement", vec!["error", "table", "txn", "manifest", "store", "commit", "maintain", "scan", "stage", "plan"]),
        ("slt", vec!["error", "statement", "Lake", "Session", "Outcome", "Changed", "Rows", "Error", "Result"]),
    ])
}

#[test]
fn every_layer_imports_only_what_lies_below_it() {
    let allowed = allowed();
    let mut breaches = Vec::new();
    for source in sources().iter().filter(|source| !source.module.starts_with("bin::") && source.module != "lib") {
        let layer = source.module.split("::").next().unwrap();
        let may = allowed.get(layer).unwrap_or_else(|| panic!("{} is in no layer", source.path.display()));
        for import in imports(source) {
            let to = import.split("::").next().unwrap();
            // Defences that tests take away may lie anywhere.
            if to != layer && to != "faulty" && !may.contains(&to) {
                breaches.push(format!("{} imports {import}", source.module));
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

/// Layers that take values and give values.
const PURE: [&str; 12] = [
    "txn",
    "table",
    "manifest::snapshot",
    "manifest::apply",
    "manifest::version",
    "manifest::fragments",
    "manifest::pages",
    "manifest::frame",
    "manifest::decode",
    "manifest::encode",
    "manifest::catalog",
    "commit::invariants",
];

#[test]
fn pure_layers_do_no_io_and_know_no_engine() {
    let mut breaches = Vec::new();
    for source in sources().iter().filter(|source| PURE.iter().any(|layer| is_in(&source.module, layer))) {
        for word in ["datafusion", "tokio", "object_store", "async ", ".await", "std::fs", "std::time", "std::net", "crate::store"] {
            if source.text.contains(word) {
                breaches.push(format!("{} says `{word}`", source.module));
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn only_commit_creates_a_version() {
    let callers: Vec<String> = sources()
        .iter()
        .filter(|source| !is_in(&source.module, "store") && source.text.contains(".create(&"))
        .map(|source| source.module.clone())
        .collect();
    assert_eq!(callers, ["commit::attempt", "commit::catalog"], "versions of tables and of the catalog are created in one place each");
}

#[test]
fn only_store_path_makes_object_names() {
    for source in sources().iter().filter(|source| source.module != "store::path") {
        for folder in ["\"_versions/", "\"_pages/", "\"_deletions/", "\"_moves/", "\"_transactions/", "\"data/"] {
            assert!(!source.text.contains(folder), "{} spells an object name: {folder}", source.module);
        }
    }
}

#[test]
fn only_store_env_touches_clock_randomness_and_ids() {
    for source in sources().iter().filter(|source| source.module != "store::env") {
        for word in ["SystemTime::now", "Instant::now", "Uuid::now_v7", "Uuid::new_v4", "rand::"] {
            // How long a statement takes, for people at a terminal.
            let told = ["bin::amend::repl", "bin::amend::shell"].contains(&source.module.as_str()) && word == "Instant::now";
            assert!(told || !source.text.contains(word), "{} says {word}", source.module);
        }
    }
}

#[test]
fn prost_stops_at_the_wire() {
    for source in sources().iter().filter(|source| source.text.contains("use prost")) {
        let ok = ["manifest", "txn"].iter().any(|layer| is_in(&source.module, layer));
        assert!(ok, "{} imports prost", source.module);
    }
}

#[test]
fn no_match_over_actions_has_a_wildcard_arm() {
    let mut breaches = Vec::new();
    for source in sources() {
        let lines: Vec<&str> = source.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(depth) = line.find("Action::").map(|_| line.len() - line.trim_start().len()) else { continue };
            if !line.contains("=>") && !line.trim_start().starts_with('|') {
                continue;
            }
            // Arms of the same match start at the same depth.
            for other in &lines[at..] {
                let indent = other.len() - other.trim_start().len();
                if !other.trim().is_empty() && indent < depth {
                    break;
                }
                if indent == depth && other.trim_start().starts_with("_ =>") {
                    breaches.push(format!("{}: {}", source.module, other.trim()));
                }
            }
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

#[test]
fn every_file_says_what_it_is() {
    for path in files() {
        assert!(fs::read_to_string(&path).unwrap().starts_with("//!"), "{} does not open with //!", path.display());
    }
    for source in sources() {
        let text = fs::read_to_string(&source.path).unwrap();
        let before_tests = text.split("#[cfg(test)]").next().unwrap().lines().count();
        assert!(before_tests <= 600, "{} has {before_tests} lines before its tests", source.path.display());
    }
}
