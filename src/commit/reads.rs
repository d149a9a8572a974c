//! Reads: whether what others committed would have been read by a transaction that is to be serializable.
//!
//! ```text
//!   their transaction ──> Changes: rows that are new, rows that are gone, columns written over
//!                            │
//!                            │  statistics of their fragments: no file is opened
//!                            v
//!                         the rows that are left ──> the predicate of the read, evaluated on them
//!                                                      └── one matches: a collision that names the read and the rows
//! ```
//!
//! A transaction is held against the writes that landed since the version that it read, which is enough: it takes its place
//! in the order where it commits. So its reads stay in memory and are part of no version.
//!
//! Always holds: rows that only moved are nobody's affair; what cannot be told any more is taken for a collision.

use crate::error::{Error, Result};
use crate::faulty::{self, Fault};
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::Snapshot;
use crate::table::fragment::Fragment;
use crate::table::row_address::{FragmentId, RowAddress};
use crate::table::schema::FieldId;
use crate::txn::changes::Changes;
use crate::txn::composite::CommittedTransaction;
use crate::txn::rebase::Collision;
use async_trait::async_trait;
use roaring::RoaringBitmap;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Rows of a fragment.
pub type RowsOf = (Arc<Fragment>, RoaringBitmap);

/// Something that a transaction read.
#[async_trait]
pub trait ReadAssertion: fmt::Debug + Send + Sync {
    /// The rows that it was after, in words, as in "rows where k = 5".
    fn describe(&self) -> String;

    /// Whether it matters that a row that matched is gone.
    fn minds_deletions(&self) -> bool;

    /// Whether it read the values of a field.
    fn reads_field(&self, field: FieldId) -> bool;

    /// Whether each fragment may hold a row that matches, by its statistics.
    fn may_match(&self, fragments: &[Arc<Fragment>]) -> Result<Vec<bool>>;

    /// The addresses of some of the rows that match; none if none does. The rows may be deleted by now.
    async fn matching(&self, log: &VersionLog, rows: &[RowsOf]) -> Result<Vec<RowAddress>>;
}

/// A transaction that landed, or that is about to land in the same version.
pub(super) struct Landed<'a> {
    /// Its version.
    pub number: u64,
    /// What it did.
    pub committed: &'a CommittedTransaction,
    /// The table before it; `None` if that is the version before, which is read if it is needed.
    pub before: Option<&'a Snapshot>,
    /// The table after it.
    pub after: &'a Snapshot,
}

/// The first of `reads` that a transaction would have read otherwise, had it come after `landed`.
pub(super) async fn collision(reads: &[Arc<dyn ReadAssertion>], log: &VersionLog, landed: &Landed<'_>) -> Result<Option<Collision>> {
    let changes =
        if reads.is_empty() || faulty::is(Fault::SkipReadAssertions) { Changes::default() } else { Changes::of(landed.committed) };
    if changes.is_empty() {
        return Ok(None);
    }
    let seen = Seen::of(&changes, log, landed, reads.iter().any(|read| read.minds_deletions())).await?;
    for read in reads {
        let found = match seen.by(read.as_ref(), log).await {
            // Files that are gone, for example.
            Err(error @ (Error::Damaged { .. } | Error::Unsupported { .. })) => Some((format!("what is left of them ({error})"), vec![])),
            other => other?,
        };
        if let Some((what, rows)) = found {
            let transaction = &landed.committed.transaction;
            return Ok(Some(Collision {
                coordinate: format!("{} ({what})", read.describe()),
                rows,
                version: landed.number,
                transaction: transaction.id.to_string(),
                statement: transaction.describe(),
            }));
        }
    }
    Ok(None)
}

/// The rows that a transaction changed.
struct Seen {
    added: Vec<RowsOf>,
    gone: Vec<RowsOf>,
    /// Fragments with columns that were written over, as they were and as they are.
    columns: Vec<(Arc<Fragment>, Vec<FieldId>)>,
    /// Rows are gone, and it cannot be told which.
    untold: bool,
}

impl Seen {
    async fn of(changes: &Changes, log: &VersionLog, landed: &Landed<'_>, with_gone: bool) -> Result<Self> {
        let mut seen = Seen { added: vec![], gone: vec![], columns: vec![], untold: false };
        let written = changes.deleted.keys().chain(changes.columns.keys()).copied();
        let ids: BTreeSet<FragmentId> = written.chain(changes.added.iter().chain(&changes.removed).copied()).collect();
        let after = log.load_fragments(landed.after, &ids).await?;
        for id in &changes.added {
            // Without a live row it is not there.
            if let Some(fragment) = after.fragments.get(*id)? {
                let rows = live_rows(log, fragment).await?;
                seen.added.push((fragment.clone(), rows));
            }
        }
        let version_before = match landed.before {
            None if with_gone || !changes.columns.is_empty() => Some(log.read(landed.number.saturating_sub(1)).await?),
            _ => None,
        };
        let before = match landed.before.or(version_before.as_deref().map(|version| &version.snapshot)) {
            Some(before) => Some(log.load_fragments(before, &ids).await?),
            None => None,
        };
        let old = |id: FragmentId| match &before {
            Some(snapshot) => snapshot.fragments.get(id).map(Option::<&Arc<Fragment>>::cloned),
            None => Ok(None),
        };
        let new = |id: FragmentId| after.fragments.get(id).map(Option::<&Arc<Fragment>>::cloned);
        if with_gone {
            for (id, rows) in &changes.deleted {
                match old(*id)?.or(new(*id)?) {
                    Some(fragment) => seen.gone.push((fragment, rows.clone())),
                    None => seen.untold = true,
                }
            }
            for id in &changes.removed {
                match old(*id)? {
                    Some(fragment) => {
                        let rows = live_rows(log, &fragment).await?;
                        seen.gone.push((fragment, rows));
                    }
                    None => seen.untold = true,
                }
            }
        }
        for (id, fields) in &changes.columns {
            let fields: Vec<FieldId> = fields.iter().copied().collect();
            seen.columns.extend([old(*id)?, new(*id)?].into_iter().flatten().map(|fragment| (fragment, fields.clone())));
        }
        Ok(seen)
    }

    /// What a read would have seen of it: in words, and rows.
    async fn by(&self, read: &dyn ReadAssertion, log: &VersionLog) -> Result<Option<(String, Vec<RowAddress>)>> {
        let added = read.matching(log, &candidates(read, &self.added)?).await?;
        if !added.is_empty() {
            return Ok(Some(("new rows".to_owned(), added)));
        }
        if read.minds_deletions() {
            if self.untold {
                return Ok(Some(("rows that are gone".to_owned(), vec![])));
            }
            let gone = read.matching(log, &candidates(read, &self.gone)?).await?;
            if !gone.is_empty() {
                return Ok(Some(("rows that are gone".to_owned(), gone)));
            }
        }
        let written: Vec<Arc<Fragment>> = self
            .columns
            .iter()
            .filter(|(_, fields)| fields.iter().any(|field| read.reads_field(*field)))
            .map(|(fragment, _)| fragment.clone())
            .collect();
        match read.may_match(&written)?.contains(&true) {
            true => Ok(Some(("columns that were written over".to_owned(), vec![]))),
            false => Ok(None),
        }
    }
}

/// The rows of fragments that may hold one that matches.
fn candidates(read: &dyn ReadAssertion, rows: &[RowsOf]) -> Result<Vec<RowsOf>> {
    let fragments: Vec<Arc<Fragment>> = rows.iter().map(|(fragment, _)| fragment.clone()).collect();
    let may_match = read.may_match(&fragments)?;
    Ok(rows.iter().zip(may_match).filter(|(_, may_match)| *may_match).map(|(rows, _)| rows.clone()).collect())
}

async fn live_rows(log: &VersionLog, fragment: &Fragment) -> Result<RoaringBitmap> {
    let mut rows = RoaringBitmap::new();
    rows.insert_range(0..fragment.physical_rows);
    rows -= log.deleted_rows(fragment).await?.as_ref();
    Ok(rows)
}
