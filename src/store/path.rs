//! The names of objects: the only place that makes them, and the only place that lets one in from outside.
//!
//! Goes in: version numbers, or a name that was met in a manifest (which may be hostile). Comes out: an [`ObjectName`].
//! Always holds: a name is relative to its table's folder and exactly one folder deep; the folder is one of
//! [`FOLDERS`]; the characters are `[A-Za-z0-9._-]`; so no name can leave the table's folder or hide in it.

use super::env;
use std::fmt;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// The folder of a table's manifests, one object a version.
pub const VERSIONS_FOLDER: &str = "_versions";
/// The folder of a lake's catalog, one object a version.
pub const CATALOG_FOLDER: &str = "_catalog";
/// The folder of a table's rows.
pub const DATA_FOLDER: &str = "data";

/// Every folder that an object can lie in.
pub const FOLDERS: [&str; 7] = [VERSIONS_FOLDER, "_pages", "_deletions", "_moves", "_transactions", DATA_FOLDER, CATALOG_FOLDER];

/// What the name of a manifest ends in.
const MANIFEST_SUFFIX: &str = ".manifest";
/// Digits of a version in a name: as many as `u64::MAX` has.
const VERSION_DIGITS: usize = 20;
/// The longest file name that is let in: more than twice the longest that is made here.
const MAX_FILE_NAME_BYTES: usize = 128;
/// How much of a table's name its folder repeats.
const MAX_TABLE_NAME_CHARS: usize = 60;

/// The name of an object, relative to the folder of its table (or lake): `<folder>/<file>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(String);

impl ObjectName {
    /// A name met in stored bytes; an error says what is wrong with it.
    pub fn parse(name: &str) -> Result<Self, String> {
        let refused = |reason: &str| Err(format!("{} is not the name of an object: {reason}", quoted(name)));
        let Some((folder, file)) = name.split_once('/') else {
            return refused("it is not in a folder");
        };
        if !FOLDERS.contains(&folder) {
            return refused("its folder is not one of a table's folders");
        }
        if file.is_empty() || file.len() > MAX_FILE_NAME_BYTES {
            return refused("its file name is empty or too long");
        }
        if !file.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
            return refused("its file name has a character other than letters, digits, '.', '_' and '-'");
        }
        if file.starts_with('.') || file.contains("..") {
            return refused("its file name starts with '.' or contains '..'");
        }
        Ok(ObjectName(name.to_owned()))
    }

    /// The manifest of `version` of a table. A newer version sorts before an older one.
    pub fn version(version: u64) -> Self {
        Self::versioned(VERSIONS_FOLDER, version)
    }

    /// The manifest of `version` of a lake's catalog.
    pub fn catalog_version(version: u64) -> Self {
        Self::versioned(CATALOG_FOLDER, version)
    }

    fn versioned(folder: &str, version: u64) -> Self {
        ObjectName(format!("{folder}/{:0VERSION_DIGITS$}{MANIFEST_SUFFIX}", u64::MAX - version))
    }

    /// The version whose manifest this is; `None` if it is no manifest.
    pub fn version_of(&self) -> Option<u64> {
        if !matches!(self.folder(), VERSIONS_FOLDER | CATALOG_FOLDER) {
            return None;
        }
        let digits = self.file().strip_suffix(MANIFEST_SUFFIX)?;
        if digits.len() != VERSION_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.parse::<u64>().ok().map(|inverted| u64::MAX - inverted)
    }

    /// Whether it is a name that amend gives: what else lies in the folders is not amend's to remove.
    pub fn is_made_here(&self) -> bool {
        self.version_of().is_some() || self.made_ms().is_some()
    }

    /// When the name was made, in milliseconds since 1970; `None` if it is no unique name that amend gives.
    pub fn made_ms(&self) -> Option<u64> {
        let extension = match self.folder() {
            DATA_FOLDER => ".parquet",
            "_pages" if self.file().ends_with(".index") => ".index",
            "_pages" => ".page",
            "_deletions" => ".puffin",
            "_moves" => ".moves",
            "_transactions" => ".txn",
            _ => return None,
        };
        let id = self.file().strip_suffix(extension).filter(|id| id.len() == Hyphenated::LENGTH)?;
        let (seconds, nanos) = Uuid::try_parse(id).ok()?.get_timestamp()?.to_unix();
        Some(seconds * 1000 + u64::from(nanos) / 1_000_000)
    }

    /// The object that may say which version is the newest.
    pub fn hint() -> Self {
        ObjectName(format!("{VERSIONS_FOLDER}/_hint"))
    }

    /// The object by which a store is asked what time it is.
    pub fn clock() -> Self {
        ObjectName(format!("{CATALOG_FOLDER}/_clock"))
    }

    /// A new name for rows.
    pub fn new_data() -> Self {
        Self::unique(DATA_FOLDER, "parquet")
    }

    /// A new name for rows that the manifest holds: no object ever has it.
    pub fn new_inline() -> Self {
        Self::unique(DATA_FOLDER, "arrow")
    }

    /// A new name for a page of fragment records.
    pub fn new_page() -> Self {
        Self::unique("_pages", "page")
    }

    /// A new name for a list of pages.
    pub fn new_page_index() -> Self {
        Self::unique("_pages", "index")
    }

    /// A new name for deletion vectors.
    pub fn new_deletions() -> Self {
        Self::unique("_deletions", "puffin")
    }

    /// A new name for a change-of-address map.
    pub fn new_moves() -> Self {
        Self::unique("_moves", "moves")
    }

    /// A new name for a transaction that is too large to be inline.
    pub fn new_transaction() -> Self {
        Self::unique("_transactions", "txn")
    }

    fn unique(folder: &str, extension: &str) -> Self {
        ObjectName(format!("{folder}/{}.{extension}", env::new_uuid()))
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The folder, for example `data`.
    pub fn folder(&self) -> &str {
        self.0.split_once('/').map_or("", |(folder, _)| folder)
    }

    /// The name within the folder.
    pub fn file(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, file)| file)
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<ObjectName> for String {
    fn from(name: ObjectName) -> String {
        name.0
    }
}

/// A new folder for a table called `name`: what is safe of the name, and eight digits that no other folder has.
pub fn new_table_folder(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let readable: String = name.chars().take(MAX_TABLE_NAME_CHARS).map(safe).collect();
    // The front of a version 7 id is the time, the same for tables of one minute; its end is random.
    let random = env::new_uuid().as_u128() as u32;
    format!("{readable}-{random:08x}")
}

/// `name` for a message: escaped and cut, since it may be anything.
fn quoted(name: &str) -> String {
    let start: String = name.chars().take(80).collect();
    format!("{start:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_sort_first_and_come_back() {
        assert_eq!(ObjectName::version(0).as_str(), "_versions/18446744073709551615.manifest");
        assert_eq!(ObjectName::version(1).as_str(), "_versions/18446744073709551614.manifest");
        assert_eq!(ObjectName::version(u64::MAX).as_str(), "_versions/00000000000000000000.manifest");
        assert_eq!(ObjectName::catalog_version(7).as_str(), "_catalog/18446744073709551608.manifest");
        for version in [0, 1, 2, 99, 1 << 40, u64::MAX - 1] {
            assert!(ObjectName::version(version + 1) < ObjectName::version(version));
            for name in [ObjectName::version(version), ObjectName::catalog_version(version)] {
                assert_eq!(name.version_of(), Some(version));
                assert_eq!(ObjectName::parse(name.as_str()), Ok(name));
            }
        }
    }

    #[test]
    fn only_manifests_have_a_version() {
        for name in [
            "_versions/_hint",
            "_versions/1.manifest",
            "_versions/018446744073709551614.manifest",
            "_versions/18446744073709551616.manifest",
            "_versions/1844674407370955161a.manifest",
            "_versions/18446744073709551614",
            "_versions/18446744073709551614.manifest.bak",
            "_pages/18446744073709551614.manifest",
        ] {
            assert_eq!(ObjectName::parse(name).unwrap().version_of(), None, "{name}");
        }
    }

    #[test]
    fn names_of_others_are_not_taken_for_ones_own() {
        for name in [
            "data/a.parquet",
            "data/0190a1f0-0000-7000-8000-00000000000.parquet",
            "_pages/x.page",
            "_versions/_hint",
            "_versions/1.manifest",
        ] {
            assert!(!ObjectName::parse(name).unwrap().is_made_here(), "{name}");
        }
        let (before_ms, data) = (env::now_ms(), ObjectName::new_data());
        assert!((before_ms..=env::now_ms()).contains(&data.made_ms().unwrap()));
        assert!(data.is_made_here() && ObjectName::version(7).is_made_here());
        assert_eq!((ObjectName::version(7).made_ms(), ObjectName::hint().made_ms()), (None, None));
        assert!(!ObjectName::parse(&data.as_str().replace("data/", "_pages/")).unwrap().is_made_here());
    }

    #[test]
    fn new_names_are_let_in_again_and_differ() {
        let makers = [
            (ObjectName::new_data as fn() -> ObjectName, "data", ".parquet"),
            (ObjectName::new_page, "_pages", ".page"),
            (ObjectName::new_page_index, "_pages", ".index"),
            (ObjectName::new_deletions, "_deletions", ".puffin"),
            (ObjectName::new_moves, "_moves", ".moves"),
            (ObjectName::new_transaction, "_transactions", ".txn"),
        ];
        for (make, folder, suffix) in makers {
            let (first, second) = (make(), make());
            assert_ne!(first, second);
            assert_eq!(first.folder(), folder);
            assert!(first.file().ends_with(suffix) && first.file().len() == 36 + suffix.len());
            assert!(first.is_made_here());
            assert_eq!(ObjectName::parse(first.as_str()), Ok(first));
        }
        assert_eq!(ObjectName::parse("_versions/_hint"), Ok(ObjectName::hint()));
    }

    #[test]
    fn hostile_names_are_refused() {
        let long = format!("data/{}", "a".repeat(MAX_FILE_NAME_BYTES + 1));
        for name in [
            "",
            "/",
            "data",
            "data/",
            "/data/x",
            "data/../x",
            "data/..",
            "data/.",
            "data/.hidden",
            "data/a..b",
            "data/a/b",
            "data//b",
            "../data/x",
            "tables/x",
            "DATA/x",
            "data /x",
            "data/a b",
            "data/a\0",
            "data/a\n",
            "data/a%2Fb",
            "data/a\\b",
            "data/a#1",
            "data/C:",
            "data/é",
            "data/a/../../../etc/passwd",
            "file:///etc/passwd",
            long.as_str(),
        ] {
            let reason = ObjectName::parse(name).expect_err(name);
            assert!(reason.contains("is not the name of an object") && reason.len() < 400, "{reason}");
        }
        let hostile = format!("\u{1b}[2J{}", "x".repeat(10_000));
        let reason = ObjectName::parse(&hostile).unwrap_err();
        assert!(!reason.contains('\u{1b}') && reason.len() < 400, "{reason}");
    }

    #[test]
    fn table_folders_are_readable_and_differ() {
        let folder = new_table_folder("orders");
        let (name, id) = folder.rsplit_once('-').unwrap();
        assert_eq!((name, id.len()), ("orders", 8));
        assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let all: std::collections::HashSet<String> = (0..200).map(|_| new_table_folder("t")).collect();
        assert_eq!(all.len(), 200);
        assert!(new_table_folder("../a/b c").starts_with("___a_b_c-"));
        assert!(new_table_folder("日本").starts_with("__-"));
        assert_eq!(new_table_folder(&"x".repeat(1000)).len(), 60 + 9);
    }
}
