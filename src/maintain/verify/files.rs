//! Data files as bytes: each is read from end to end through its checksums.
//!
//! Goes in: the fragments of a version. Comes out: problems of files; fragments whose files are whole have their values looked at.
//! Always holds: a few megabytes of a file are held at a time. Of a file of others only the footer has checksums.

use super::{Kind, Parts, Verifying};
use crate::error::{Error, Result};
use crate::scan::inline;
use crate::store::{FileCheck, ObjectName, VerifiedStore, base};
use crate::table::fragment::{Base, BaseId, DataFile};
use object_store::ObjectStore;
use object_store::path::Path;
use std::collections::{BTreeMap, HashMap};

/// How much of a file is read at a time, at least.
const BYTES_AT_A_TIME: u64 = 8 * 1024 * 1024;

impl Verifying {
    /// Looks at the data files of a version, and at what is in them.
    pub(super) async fn files(&mut self, parts: &Parts) {
        for fragment in &parts.fragments {
            let mut whole = true;
            for file in &fragment.files {
                if file.inline.is_some() {
                    self.first(Kind::DataFile, &file.path, file.size_bytes);
                    if let Err(reason) = inline::decode(file) {
                        self.problem(Kind::DataFile, &file.path, reason);
                        whole = false;
                    }
                    continue;
                }
                let (name, check) = match self.check(file, &parts.bases) {
                    Ok(found) => found,
                    Err(error) => {
                        self.error(Kind::DataFile, &file.path, error);
                        whole = false;
                        continue;
                    }
                };
                if self.first(Kind::DataFile, &name, file.size_bytes)
                    && let Err(error) = self.read(file, &name, check).await
                {
                    self.error(Kind::DataFile, &name, error);
                }
                whole &= !self.damaged.contains(&name);
            }
            // In another version it may have other files, other rows or other columns.
            let files: Vec<_> = fragment.files.iter().map(|file| (&file.path, file.columns.iter().map(|column| column.field))).collect();
            let files: Vec<_> = files.into_iter().map(|(path, fields)| (path, fields.collect::<Vec<_>>())).collect();
            let columns: Vec<_> = parts.schema.columns().map(|column| (column.id, column.nullable)).collect();
            let rows = format!("{} {} {files:?} {columns:?}", fragment.id, fragment.updated_at);
            if whole && !fragment.files.is_empty() && self.seen.insert((Kind::Fragment, rows)) {
                self.found.checked.entry(Kind::Fragment).or_default().number += 1;
                self.values(parts, fragment).await;
            }
        }
    }

    /// A file's name, and what its bytes are held against.
    fn check(&self, file: &DataFile, bases: &BTreeMap<BaseId, Base>) -> Result<(String, FileCheck)> {
        let (object, elsewhere) = match file.base {
            None => (file.path.clone(), None),
            Some(id) => {
                let none =
                    || Error::damaged(self.log.table(), &file.path, format!("it lies in base {}, which the table does not have", id.0));
                let base = bases.get(&id).ok_or_else(none)?;
                (base::full_name(&base.location, &file.path), Some(base::open(&base.location, &file.path)?))
            }
        };
        let check = FileCheck {
            elsewhere,
            size_bytes: file.size_bytes,
            unchecked_bytes: file.unchecked_bytes,
            block_bytes: file.checksum.block_bytes,
            crc32c: file.checksum.crc32c.as_slice().into(),
            table: self.log.table().to_owned(),
            object: object.clone(),
        };
        Ok((object, check))
    }

    async fn read(&self, file: &DataFile, name: &str, check: FileCheck) -> Result<()> {
        let store = self.log.store();
        let location = match &check.elsewhere {
            None => {
                let name = ObjectName::parse(&file.path).map_err(|reason| Error::damaged(self.log.table(), &file.path, reason))?;
                store.location(&name)
            }
            Some(elsewhere) => elsewhere.location.clone(),
        };
        let files: HashMap<Path, FileCheck> = HashMap::from([(location.clone(), check)]);
        let verified = VerifiedStore::new(store.objects().clone(), files);
        // Whole blocks, so that none is read twice.
        let step = BYTES_AT_A_TIME.max(u64::from(file.checksum.block_bytes));
        let mut start = 0;
        while start < file.size_bytes {
            let end = (start + step).min(file.size_bytes);
            let read = verified.get_ranges(&location, std::slice::from_ref(&(start..end))).await;
            read.map_err(|error| self.said(name, error))?;
            start = end;
        }
        Ok(())
    }

    /// What the store said of a file.
    fn said(&self, name: &str, error: object_store::Error) -> Error {
        match error {
            object_store::Error::NotFound { .. } => Error::damaged(self.log.table(), name, "the object is missing"),
            object_store::Error::Generic { source, .. } => match source.downcast::<Error>() {
                Ok(ours) => *ours,
                Err(source) => Error::Store { operation: "read", object: name.to_owned(), source },
            },
            other => Error::Store { operation: "read", object: name.to_owned(), source: Box::new(other) },
        }
    }
}
