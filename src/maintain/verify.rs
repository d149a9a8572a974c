//! VERIFY: everything that a version of a table needs is read again, and held against what is known of it.
//!
//! ```text
//!   manifest ──> pages, transactions ──> maps, deletion vectors ──> data files, every byte ──> values
//!      │              │                      │                         │                        │
//!      checksums, and that all parts say the same of fragments, rows and fields          statistics, NOT NULL
//! ```
//!
//! Goes in: the versions of a table, and whether the newest is enough. Comes out: what was read, and what is wrong, by object.
//! Always holds: nothing is taken from memory, nothing is changed, and damage of one object does not keep others from being looked at.

mod files;
mod structure;
mod values;

use crate::error::{Error, Result};
use crate::manifest::decode::{DEFAULT_LIMITS, DecodeError, DecodedManifest, Transactions, decode_index, decode_page, decode_transactions};
use crate::manifest::leases::Lease;
use crate::manifest::log::VersionLog;
use crate::store::ObjectName;
use crate::store::path::FOLDERS;
use crate::table::deletion_vector::DeletionFile;
use crate::table::fragment::{Base, BaseId, Fragment};
use crate::table::puffin;
use crate::table::schema::TableSchema;
use crate::txn::action::{Action, MapLocation};
use crate::txn::composite::CommittedTransaction;
use bytes::Bytes;
use datafusion::execution::TaskContext;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// What kind of thing was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The manifest of a version.
    Manifest,
    /// The list of a version's pages.
    PageIndex,
    /// A page of fragment records.
    Page,
    /// Transactions beside their manifest.
    Transactions,
    /// A change-of-address map.
    Map,
    /// A file of deletion vectors, or a vector in a manifest.
    DeletionVector,
    /// A data file.
    DataFile,
    /// A fragment: what its record and its files say together.
    Fragment,
}

impl Kind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Manifest => "manifest",
            Kind::PageIndex => "page index",
            Kind::Page => "page",
            Kind::Transactions => "transactions",
            Kind::Map => "map",
            Kind::DeletionVector => "deletion vector",
            Kind::DataFile => "data file",
            Kind::Fragment => "fragment",
        }
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The object, or the fragment.
    pub object: String,
    /// What it is.
    pub kind: Kind,
    /// How long it is, if it is there.
    pub size_bytes: Option<u64>,
    /// What is wrong.
    pub problem: String,
}

/// How much of a kind was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checked {
    /// How many.
    pub number: u64,
    /// Their bytes.
    pub size_bytes: u64,
}

/// What a VERIFY found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verified {
    /// What was looked at.
    pub checked: BTreeMap<Kind, Checked>,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

/// Looks at the newest version of a table, or at all that are kept.
pub async fn verify(log: &VersionLog, all_versions: bool, context: &Arc<TaskContext>) -> Result<Verified> {
    // Taken first, so that nothing is removed meanwhile that is to be looked at.
    let lease = log.leases().take(1);
    let newest = log.newest_number().await?;
    if !all_versions {
        lease.move_to(newest);
    }
    let mut verifying = Verifying::new(log, lease, context).await?;
    let mut oldest = newest;
    if let Some(manifest) = verifying.version(newest).await?
        && all_versions
    {
        oldest = manifest.low_water_mark;
    }
    for number in (oldest..newest).rev() {
        verifying.version(number).await?;
    }
    Ok(verifying.found)
}

/// A VERIFY under way.
struct Verifying {
    /// The table anew, with nothing in memory.
    log: VersionLog,
    context: Arc<TaskContext>,
    /// The objects that there are.
    sizes: HashMap<String, u64>,
    /// What was looked at.
    seen: BTreeSet<(Kind, String)>,
    damaged: BTreeSet<String>,
    found: Verified,
    _lease: Arc<Lease>,
}

/// What the parts of a version say.
struct Parts {
    number: u64,
    schema: Arc<TableSchema>,
    bases: BTreeMap<BaseId, Base>,
    fragments: Vec<Arc<Fragment>>,
    transactions: Vec<CommittedTransaction>,
}

impl Verifying {
    async fn new(log: &VersionLog, lease: Arc<Lease>, context: &Arc<TaskContext>) -> Result<Self> {
        let mut sizes = HashMap::new();
        for folder in FOLDERS {
            sizes.extend(log.store().list(folder).await?.into_iter().map(|entry| (entry.name, entry.size_bytes)));
        }
        Ok(Verifying {
            log: VersionLog::new(log.table(), log.store().clone()),
            context: context.clone(),
            sizes,
            seen: BTreeSet::new(),
            damaged: BTreeSet::new(),
            found: Verified::default(),
            _lease: lease,
        })
    }

    /// Whether something is looked at for the first time; it counts then.
    fn first(&mut self, kind: Kind, object: &str, size_bytes: u64) -> bool {
        let first = self.seen.insert((kind, object.to_owned()));
        if first {
            let checked = self.found.checked.entry(kind).or_default();
            checked.number += 1;
            checked.size_bytes += size_bytes;
        }
        first
    }

    fn problem(&mut self, kind: Kind, object: &str, problem: impl Into<String>) {
        self.damaged.insert(object.to_owned());
        let problem = Problem { object: object.to_owned(), kind, size_bytes: self.sizes.get(object).copied(), problem: problem.into() };
        if !self.found.problems.contains(&problem) {
            self.found.problems.push(problem);
        }
    }

    /// What an error says of an object.
    fn error(&mut self, kind: Kind, object: &str, error: Error) {
        match error {
            Error::Damaged { object, reason, .. } => self.problem(kind, &object, reason),
            other => self.problem(kind, object, other.to_string()),
        }
    }

    /// Looks at a version. Its manifest, if that can be read.
    async fn version(&mut self, number: u64) -> Result<Option<DecodedManifest>> {
        let name = ObjectName::version(number);
        let size_bytes = self.sizes.get(name.as_str()).copied().unwrap_or(0);
        self.first(Kind::Manifest, name.as_str(), size_bytes);
        let manifest = match self.log.manifest(number).await {
            Ok(Some(manifest)) => manifest,
            Ok(None) => {
                self.problem(Kind::Manifest, name.as_str(), "the manifest is missing");
                return Ok(None);
            }
            Err(error) => {
                self.error(Kind::Manifest, name.as_str(), error);
                return Ok(None);
            }
        };
        let (fragments, whole) = self.pages(&manifest).await;
        let transactions = self.transactions(&manifest).await;
        if whole && let Some(transactions) = &transactions {
            self.whole(&name, number, transactions).await;
        }
        let parts = Parts {
            number,
            schema: manifest.schema.clone(),
            bases: manifest.bases.clone(),
            fragments,
            transactions: transactions.unwrap_or_default(),
        };
        self.maps(&parts).await;
        self.vectors(&parts).await;
        self.files(&parts).await;
        Ok(Some(manifest))
    }

    /// The fragments of a version, and whether all pages could be read.
    async fn pages(&mut self, manifest: &DecodedManifest) -> (Vec<Arc<Fragment>>, bool) {
        let mut fragments: BTreeMap<_, Arc<Fragment>> = BTreeMap::new();
        let mut whole = true;
        let references = match &manifest.pages {
            None => vec![],
            Some(index) => {
                self.first(Kind::PageIndex, &index.path, index.size_bytes);
                let decoded = match self.object(&index.path).await {
                    Ok(bytes) => decode_index(&bytes, index, &DEFAULT_LIMITS).map_err(said),
                    Err(error) => Err(error),
                };
                decoded.unwrap_or_else(|problem| {
                    whole = false;
                    self.problem(Kind::PageIndex, &index.path, problem);
                    vec![]
                })
            }
        };
        for reference in &references {
            self.first(Kind::Page, &reference.path, reference.size_bytes);
            let decoded = match self.object(&reference.path).await {
                Ok(bytes) => decode_page(&bytes, reference, &DEFAULT_LIMITS).map_err(said),
                Err(error) => Err(error),
            };
            match decoded {
                Ok(page) => fragments.extend(page.into_iter().map(|fragment| (fragment.id, fragment))),
                Err(problem) => {
                    whole = false;
                    self.problem(Kind::Page, &reference.path, problem);
                }
            }
        }
        for (id, record) in &manifest.tail {
            match &record.fragment {
                Some(fragment) => drop(fragments.insert(*id, fragment.clone())),
                None => drop(fragments.remove(id)),
            }
        }
        (fragments.into_values().collect(), whole)
    }

    async fn transactions(&mut self, manifest: &DecodedManifest) -> Option<Vec<CommittedTransaction>> {
        let reference = match &manifest.transactions {
            Transactions::Inline(transactions) => return Some(transactions.clone()),
            Transactions::Object(reference) => reference,
        };
        self.first(Kind::Transactions, &reference.path, reference.size_bytes);
        let decoded = match self.object(&reference.path).await {
            Ok(bytes) => decode_transactions(&bytes, reference, &DEFAULT_LIMITS).map_err(said),
            Err(error) => Err(error),
        };
        decoded.map_err(|problem| self.problem(Kind::Transactions, &reference.path, problem)).ok()
    }

    /// The maps of a version's transactions.
    async fn maps(&mut self, parts: &Parts) {
        for change in parts.transactions.iter().flat_map(|committed| committed.transaction.actions()).filter_map(Action::change_of_address)
        {
            let object = match &change.map {
                MapLocation::Object { path, size_bytes, .. } => {
                    self.first(Kind::Map, path, *size_bytes);
                    path.clone()
                }
                MapLocation::Inline(bytes) => {
                    let object = ObjectName::version(parts.number).to_string();
                    self.first(Kind::Map, &format!("{object} {:?}", change.sources), bytes.len() as u64);
                    object
                }
            };
            match self.log.map(&change.map).await {
                Ok(map) if (map.sources().len(), map.targets().len()) == (change.sources.len(), change.targets.len()) => {}
                Ok(map) => {
                    let (sources, targets) = (map.sources().len(), map.targets().len());
                    self.problem(Kind::Map, &object, format!("it is of {sources} fragments to {targets}, its transaction of others"));
                }
                Err(error) => self.error(Kind::Map, &object, error),
            }
        }
    }

    /// The deletion vectors of a version's fragments, and those that its transactions name.
    async fn vectors(&mut self, parts: &Parts) {
        let of_transactions = parts.transactions.iter().flat_map(|committed| committed.transaction.actions()).filter_map(Action::deletion);
        let vectors = parts.fragments.iter().filter_map(|fragment| fragment.deletions.as_ref());
        let named: BTreeSet<String> = vectors.chain(of_transactions.filter_map(|set| set.vector.as_ref())).filter_map(place).collect();
        for path in named {
            let size_bytes = self.sizes.get(&path).copied().unwrap_or(0);
            if !self.first(Kind::DeletionVector, &path, size_bytes) {
                continue;
            }
            let checked = match self.object(&path).await {
                Ok(bytes) => puffin::check(&bytes),
                Err(error) => Err(error),
            };
            if let Err(problem) = checked {
                self.problem(Kind::DeletionVector, &path, problem);
            }
        }
        for fragment in &parts.fragments {
            let object = fragment.deletions.as_ref().and_then(place);
            if object.as_ref().is_some_and(|object| self.damaged.contains(object)) {
                continue;
            }
            if let Err(error) = self.log.deleted_rows(fragment).await {
                let object = object.unwrap_or_else(|| ObjectName::version(parts.number).to_string());
                self.error(Kind::DeletionVector, &object, error);
            }
        }
    }

    /// The bytes of an object, or why they cannot be had.
    async fn object(&self, path: &str) -> Result<Bytes, String> {
        let name = ObjectName::parse(path)?;
        match self.log.store().read_if_present(&name).await {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err("the object is missing".into()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Where a vector is, if not in the manifest.
fn place(vector: &DeletionFile) -> Option<String> {
    match vector {
        DeletionFile::Puffin { path, .. } => Some(path.clone()),
        DeletionFile::Inline { .. } => None,
    }
}

fn said(error: DecodeError) -> String {
    error.to_string()
}
