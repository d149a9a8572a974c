//! Files outside of a lake: finding them by a pattern, and reading them. Nothing here writes, moves or deletes.
//!
//! Goes in: a pattern of paths, or the location of a base and a name in it. Comes out: files and their lengths, or the store
//! that reads one. A base of a local folder is `file://` and the folder's absolute path, with nothing escaped.
//! Always holds: a file that is found has the one path that leads to it without symbolic links.

use super::Store;
use super::verified::Elsewhere;
use crate::error::{Error, Result};
use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::ops::Range;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, LazyLock};

/// The base of all local files.
pub const LOCAL_FILES: &str = "file:///";
/// What local bases begin with.
const LOCAL: &str = "file://";
/// What the names of Parquet files end in, where a folder is named and not its files.
const SUFFIX: &str = "parquet";

static DISK: LazyLock<Arc<dyn ObjectStore>> = LazyLock::new(|| Arc::new(LocalFileSystem::new()));

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Its path within [`LOCAL_FILES`].
    pub path: String,
    /// The path by which it was found, which may begin anywhere and lead over symbolic links.
    pub found_as: String,
}

/// The store of a file in a base, and where it is in it.
pub fn open(base: &str, path: &str) -> Result<Elsewhere> {
    let full = full_name(base, path);
    if !base.starts_with(LOCAL) {
        let what = format!("reading '{full}'");
        return Err(Error::unsupported(what, Some("only files in local folders are read where they are")));
    }
    let location = Path::from_absolute_path(&full).map_err(|error| failed("read", &full, error))?;
    Ok(Elsewhere { objects: Arc::clone(&DISK), location })
}

/// What a file in a base is called: its path on disk, or its URL.
pub fn full_name(base: &str, path: &str) -> String {
    let base = base.strip_prefix(LOCAL).unwrap_or(base);
    format!("{}/{path}", base.trim_end_matches('/'))
}

/// The length of a file.
pub async fn size_bytes(file: &Elsewhere, name: &str) -> Result<u64> {
    Ok(file.objects.head(&file.location).await.map_err(|error| failed("look up", name, error))?.size)
}

/// The length of a file; `None` if there is none.
pub async fn size_if_present(file: &Elsewhere, name: &str) -> Result<Option<u64>> {
    match file.objects.head(&file.location).await {
        Ok(found) => Ok(Some(found.size)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(failed("look up", name, error)),
    }
}

/// The bytes `range` of a file, all of them.
pub async fn read(file: &Elsewhere, name: &str, range: Range<u64>) -> Result<Bytes> {
    file.objects.get_range(&file.location, range).await.map_err(|error| failed("read", name, error))
}

/// The first of the files that lies in a folder, or in a folder of it.
pub fn first_in<'a>(files: &'a [Found], folder: &str) -> Option<&'a Found> {
    let folder = std::fs::canonicalize(folder).ok()?;
    files.iter().find(|file| FilePath::new("/").join(&file.path).starts_with(&folder))
}

/// The location of a store's folder, for other tables to read files in it.
pub fn folder(store: &Store) -> Result<String> {
    if !store.is_local() {
        let what = format!("reading files of '{}' from another table", store.label());
        return Err(Error::unsupported(what, Some("only files in local folders are read where they are")));
    }
    let folder = std::fs::canonicalize(store.label()).map_err(|error| failed("look up", store.label(), error))?;
    match folder.to_str() {
        Some(folder) => Ok(format!("{LOCAL}{folder}")),
        None => Err(Error::unsupported(format!("reading files of '{}', whose path is no text,", folder.display()), None)),
    }
}

/// The files that match a pattern, sorted. A folder stands for the Parquet files in it and in
/// the folders in it, but for hidden ones (whose names begin with `.` or `_`).
pub async fn find(pattern: &str) -> Result<Vec<Found>> {
    let owned = pattern.to_owned();
    let found = tokio::task::spawn_blocking(move || find_blocking(&owned)).await;
    let found = found.map_err(|error| failed("list", pattern, error))??;
    match found.is_empty() {
        true => Err(Error::invalid(format!("no file matches '{pattern}'"))),
        false => Ok(found),
    }
}

fn find_blocking(pattern: &str) -> Result<Vec<Found>> {
    if let Some((scheme, _)) = pattern.split_once("://").filter(|(scheme, _)| *scheme != "file") {
        let what = format!("adopting files of '{scheme}://'");
        return Err(Error::unsupported(what, Some("only files in local folders are adopted; INSERT .. SELECT copies others")));
    }
    let pattern = pattern.strip_prefix(LOCAL).unwrap_or(pattern);
    let mut found = Vec::new();
    if FilePath::new(pattern).is_dir() {
        walk(FilePath::new(pattern), &mut found)?;
    } else {
        let options = glob::MatchOptions { require_literal_separator: true, require_literal_leading_dot: true, ..Default::default() };
        let paths = glob::glob_with(pattern, options).map_err(|error| Error::invalid(format!("'{pattern}' is no pattern: {error}")))?;
        for path in paths {
            let path = path.map_err(|error| failed("list", pattern, error))?;
            if path.is_file() {
                found.push(path);
            }
        }
    }
    let mut found = found.iter().map(|path| real(path)).collect::<Result<Vec<_>>>()?;
    found.sort_unstable();
    found.dedup_by(|a, b| a.path == b.path);
    Ok(found)
}

fn walk(folder: &FilePath, into: &mut Vec<PathBuf>) -> Result<()> {
    let listing = |error| failed("list", &folder.display().to_string(), error);
    for entry in std::fs::read_dir(folder).map_err(listing)? {
        let path = entry.map_err(listing)?.path();
        if path.file_name().is_none_or(|name| name.to_string_lossy().starts_with(['.', '_'])) {
            continue;
        }
        if path.is_dir() {
            walk(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == SUFFIX) {
            into.push(path);
        }
    }
    Ok(())
}

/// A file by the one path that leads to it without symbolic links.
fn real(path: &FilePath) -> Result<Found> {
    let found_as = path.display().to_string();
    let real = std::fs::canonicalize(path).map_err(|error| failed("find", &found_as, error))?;
    match real.to_str().and_then(|path| path.strip_prefix('/')) {
        Some(path) => Ok(Found { path: path.to_owned(), found_as }),
        None => Err(Error::invalid(format!("'{found_as}' has a name that cannot be written in a table's records"))),
    }
}

fn failed(operation: &'static str, object: &str, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Store { operation, object: object.to_owned(), source: Box::new(source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_are_found_by_pattern_and_by_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["b.parquet", "a.parquet", "k=v/c.parquet", "k=v/x y/d.parquet", "a.csv", ".e.parquet", "_f/g.parquet", "_h.parquet"] {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"").unwrap();
        }
        let names = async |pattern: &str| {
            let found = find(&root.join(pattern).display().to_string()).await.unwrap();
            let prefix = format!("{}/", &root.to_str().unwrap()[1..]);
            found.into_iter().map(|file| file.path.strip_prefix(&prefix).unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names("*.parquet").await, ["_h.parquet", "a.parquet", "b.parquet"]);
        assert_eq!(names("k=v/**/*.parquet").await, ["k=v/c.parquet", "k=v/x y/d.parquet"]);
        assert_eq!(names("").await, ["a.parquet", "b.parquet", "k=v/c.parquet", "k=v/x y/d.parquet"]);
        assert_eq!(names("k=v").await, ["k=v/c.parquet", "k=v/x y/d.parquet"]);
        assert_eq!(names("a.parquet").await, ["a.parquet"]);
        let error = find(&root.join("*.orc").display().to_string()).await.unwrap_err();
        assert!(error.to_string().starts_with("no file matches '"), "{error}");
        assert_eq!(find("s3://bucket/*").await.unwrap_err().sqlstate(), "0A000");
        assert!(find("a/***").await.unwrap_err().to_string().contains("is no pattern"));
        let found = find(&root.join("*.csv").display().to_string()).await.unwrap();
        assert_eq!(first_in(&found, root.to_str().unwrap()), found.first());
        assert_eq!(first_in(&found, root.join("k=v").to_str().unwrap()), None);
    }

    #[tokio::test]
    async fn a_file_is_read_where_its_base_says() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display().to_string();
        std::fs::write(folder.path().join("a%20b ü.parquet"), b"0123456789").unwrap();
        for (base, path) in [
            (format!("file://{root}"), "a%20b ü.parquet".to_owned()),
            (format!("file://{root}/"), "a%20b ü.parquet".to_owned()),
            (LOCAL_FILES.to_owned(), format!("{}/a%20b ü.parquet", &root[1..])),
        ] {
            let name = full_name(&base, &path);
            assert_eq!(name, format!("{root}/a%20b ü.parquet"));
            let file = open(&base, &path).unwrap();
            assert_eq!(size_bytes(&file, &name).await.unwrap(), 10);
            assert_eq!(read(&file, &name, 3..5).await.unwrap().as_ref(), b"34");
        }
        assert_eq!(open("s3://bucket", "a").unwrap_err().sqlstate(), "0A000");
    }
}
