//! What a version says as a whole: its parts fit together, and it is what its transactions make of the version before.
//!
//! Goes in: a version of which manifest, pages and transactions could be read. Comes out: problems of its manifest.

use super::{Kind, Verifying};
use crate::commit::invariants;
use crate::manifest::apply::apply;
use crate::manifest::snapshot::Snapshot;
use crate::store::ObjectName;
use crate::table::fragment::Fragment;
use crate::table::schema::FieldId;
use crate::txn::composite::CommittedTransaction;
use std::collections::BTreeSet;

impl Verifying {
    /// Looks at a version as a whole.
    pub(super) async fn whole(&mut self, name: &ObjectName, number: u64, transactions: &[CommittedTransaction]) {
        let version = match self.log.read_if_present(number).await {
            Ok(Some(version)) => version,
            Ok(None) => return self.problem(Kind::Manifest, name.as_str(), "the manifest is missing"),
            Err(error) => return self.error(Kind::Manifest, name.as_str(), error),
        };
        let loaded = match self.log.load_all(&version.snapshot).await {
            Ok(loaded) => loaded,
            Err(error) => return self.error(Kind::Manifest, name.as_str(), error),
        };
        let snapshot = &loaded;
        for fragment in snapshot.fragments.iter().into_iter().flatten() {
            if let Err(problem) = fits(fragment, snapshot) {
                self.problem(Kind::Fragment, &format!("fragment {}", fragment.id), problem);
            }
        }
        let before = match number {
            0 | 1 => Snapshot::empty(snapshot.table_id),
            // That one is not needed by this.
            later => match self.log.read_if_present(later - 1).await {
                Ok(Some(before)) => match self.log.load_all(&before.snapshot).await {
                    Ok(before) => before,
                    Err(_) => return,
                },
                Ok(None) | Err(_) => return,
            },
        };
        if let Err(problem) = follows(before, snapshot, transactions) {
            self.problem(Kind::Manifest, name.as_str(), problem);
        }
    }
}

/// Whether a fragment's record adds up.
fn fits(fragment: &Fragment, snapshot: &Snapshot) -> Result<(), String> {
    if fragment.live_rows() == 0 {
        return Err("it has no live row".into());
    }
    let mut live: BTreeSet<FieldId> = BTreeSet::new();
    let columns: BTreeSet<FieldId> = snapshot.schema.columns().map(|column| column.id).collect();
    for file in &fragment.files {
        let rows: u64 = file.row_groups.iter().map(|rows| u64::from(*rows)).sum();
        if rows != u64::from(fragment.physical_rows) {
            return Err(format!("the row groups of '{}' have {rows} rows, the fragment has {}", file.path, fragment.physical_rows));
        }
        for column in &file.columns {
            let Some(field) = column.field else { continue };
            if !live.insert(field) {
                return Err(format!("two of its columns hold field {field}"));
            }
            if !columns.contains(&field) {
                return Err(format!("a column of '{}' is of field {field}, which is no column of the table", file.path));
            }
            if column.stats.null_count.is_some_and(|nulls| nulls > u64::from(fragment.physical_rows)) {
                return Err(format!("more values of field {field} are NULL than it has rows"));
            }
        }
    }
    match fragment.files.is_empty() {
        true => Err("it has no file".into()),
        false => Ok(()),
    }
}

/// Whether a version is what its transactions make of the one before.
fn follows(mut before: Snapshot, after: &Snapshot, transactions: &[CommittedTransaction]) -> Result<(), String> {
    for committed in transactions {
        let (made, minted) = apply(&before, &committed.transaction, after.version).map_err(|error| error.to_string())?;
        invariants::check(&before, &made, &committed.transaction)?;
        if minted != committed.minted {
            return Err(format!("transaction {} has other ids than it would get", committed.transaction.id));
        }
        before = made;
    }
    let (before_now, after_now) = (before.fragments.iter(), after.fragments.iter());
    let same_fragments = before_now.map_err(|error| error.to_string())?.eq(after_now.map_err(|error| error.to_string())?);
    if !same_fragments {
        return Err("its fragments are others than its transactions make of the version before".into());
    }
    match (&before.schema, &before.config, &before.bases, before.counters) == (&after.schema, &after.config, &after.bases, after.counters) {
        true => Ok(()),
        false => Err("its fields, properties, bases or counters are others than its transactions make of the version before".into()),
    }
}
