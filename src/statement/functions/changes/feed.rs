//! The changes of a range of versions, as a stream: version after version, transaction after transaction.
//!
//! ```text
//!   version n-1 ── transaction ──> (intermediate) ── transaction ──> version n
//!                       │
//!                  txn::net: which rows          rewritten: of which rows the values differ
//!                       └──── read from the files before (deleted, replaced) and after (inserted, renewed) ────> batches
//! ```
//!
//! Goes in: the range, and which columns are wanted. Comes out: rows with their kind of change.
//! Always holds: what is held is sets of rows of one version and a few batches; only files with rows that changed are read; several
//! transactions of one version are told one by one, in their order.

use super::columns::Columns;
use super::rewritten::{Batches, batches, differing};
use crate::error::{Error, Result};
use crate::manifest::log::VersionLog;
use crate::manifest::snapshot::Snapshot;
use crate::manifest::version::Version;
use crate::scan::held::Held;
use crate::scan::plan::{ScanRequest, plan_with};
use crate::scan::read::only;
use crate::table::fragment::{Base, BaseId, Fragment};
use crate::table::row_address::{FragmentId, RowAddress};
use crate::table::schema::TableSchema;
use crate::txn::composite::CommittedTransaction;
use crate::txn::net::{Moves, RowsOf, net, resets, touched, writes_in_place};
use datafusion::arrow::array::{
    ArrayRef, RecordBatch, RecordBatchOptions, StringArray, TimestampMillisecondArray, UInt32Array, UInt64Array,
};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::{StreamExt, TryStreamExt, stream};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many rows that moved are put in the order of their new addresses at a time.
const ROWS_IN_ORDER: usize = 64 * 1024;

/// What is to be told.
#[derive(Debug, Clone)]
pub struct Feed {
    /// The versions of the table.
    pub log: Arc<VersionLog>,
    /// The first version.
    pub from: u64,
    /// The last version.
    pub to: u64,
    /// The columns of the table that there are.
    pub shown: Arc<TableSchema>,
    /// The columns that are wanted: positions in those of the table, then `_change_type`, `_commit_version`, `_commit_timestamp`.
    pub projection: Vec<usize>,
    /// Their schema.
    pub schema: SchemaRef,
    /// What keeps the versions.
    pub held: Held,
}

/// A feed under way.
struct Telling {
    feed: Feed,
    /// The table's columns that are wanted, ascending.
    wanted: Vec<usize>,
    /// Versions that reset the table, and the columns of those before.
    resets: Vec<(u64, Arc<Columns>)>,
    /// The columns of the versions after.
    columns: Arc<Columns>,
    context: Arc<TaskContext>,
}

/// A version or an intermediate state, to read rows of.
#[derive(Clone)]
struct State {
    columns: Arc<Columns>,
    bases: Arc<BTreeMap<BaseId, Base>>,
}

/// Which version it was, and when.
#[derive(Clone, Copy)]
struct Commit {
    version: u64,
    time_ms: i64,
}

/// Rows that are told together.
enum Piece {
    /// Rows that came or went.
    Rows { change: &'static str, state: State, rows: Vec<(Arc<Fragment>, RoaringBitmap)> },
    /// Rows that stayed in a fragment where they are, of which columns were written anew.
    InPlace { before: (State, Arc<Fragment>), after: (State, Arc<Fragment>), rows: RoaringBitmap, written: Vec<usize> },
    /// Rows that stayed and moved to a fragment, by a transaction that wrote columns anew besides.
    Moved { before: (State, BTreeMap<FragmentId, Arc<Fragment>>), after: (State, Arc<Fragment>), rows: RoaringBitmap, moves: Arc<Moves> },
}

impl PartitionStream for Feed {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let feed = self.clone();
        let batches = stream::once(Telling::new(feed, context)).map_ok(|telling| {
            let versions = telling.feed.from..=telling.feed.to;
            stream::iter(versions.map(Ok)).and_then(move |version| telling.clone().version(version)).try_flatten()
        });
        let batches = batches.try_flatten().map_err(DataFusionError::from);
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches.boxed()))
    }
}

impl Telling {
    async fn new(feed: Feed, context: Arc<TaskContext>) -> Result<Arc<Self>> {
        let width = feed.shown.columns().count();
        let wanted: BTreeSet<usize> = feed.projection.iter().copied().filter(|position| *position < width).collect();
        let mut found = Vec::new();
        for version in feed.from.max(2)..=feed.to {
            if feed.read(version).await?.transactions.iter().any(resets) {
                let before = feed.read(version - 1).await?;
                let columns = Columns::before_reset(feed.log.table(), &feed.shown, &before.snapshot.schema)?;
                found.push((version, Arc::new(columns)));
            }
        }
        let columns = Arc::new(Columns::same(&feed.shown)?);
        Ok(Arc::new(Telling { feed, wanted: wanted.into_iter().collect(), resets: found, columns, context }))
    }

    /// How rows of `snapshot`, which is `version` or on the way to it, are read.
    fn state(&self, version: u64, snapshot: &Snapshot) -> State {
        let columns = self.resets.iter().find(|(reset, _)| *reset > version).map_or(&self.columns, |(_, columns)| columns);
        State { columns: columns.clone(), bases: Arc::new(snapshot.bases.clone()) }
    }

    /// The changes of one version.
    async fn version(self: Arc<Self>, number: u64) -> Result<Batches> {
        let version = self.feed.read(number).await?;
        let before = match number {
            0 | 1 => None,
            later => Some(self.feed.read(later - 1).await?),
        };
        let mut before = before.map_or_else(|| Snapshot::empty(version.snapshot.table_id), |before| before.snapshot.clone());
        let mut pieces = Vec::new();
        let mut left = version.transactions.len();
        for landed in &version.transactions {
            left -= 1;
            let after = match left {
                0 => version.snapshot.clone(),
                _ => {
                    let applied = self.feed.held.explained(self.feed.log.apply(&mut before, &landed.transaction, number).await).await?;
                    let (after, _) = applied.map_err(|error| {
                        let what = format!("version {number} of table '{}' cannot be made again: {error}", self.feed.log.table());
                        Error::internal(what)
                    })?;
                    after
                }
            };
            self.pieces(landed, number, (&before, &after), &mut pieces).await?;
            before = after;
        }
        let commit = Commit { version: number, time_ms: version.time_ms as i64 };
        Ok(stream::iter(pieces.into_iter().map(Ok))
            .and_then(move |piece| std::future::ready(self.clone().tell(piece, commit)))
            .try_flatten()
            .boxed())
    }

    /// What one transaction changed.
    async fn pieces(
        &self,
        landed: &CommittedTransaction,
        number: u64,
        (before, after): (&Snapshot, &Snapshot),
        pieces: &mut Vec<Piece>,
    ) -> Result<()> {
        let whole = resets(landed);
        let (before, after) = (&self.feed.with_all(before, whole).await?, &self.feed.with_all(after, whole).await?);
        let touched = touched(landed, before, after)?;
        if touched.is_empty() {
            return Ok(());
        }
        let (before, after) = (&self.feed.with(before, &touched).await?, &self.feed.with(after, &touched).await?);
        let (live_before, live_after) = (self.feed.live(before, &touched).await?, self.feed.live(after, &touched).await?);
        let needed = vec![true; landed.transaction.actions().filter(|action| action.change_of_address().is_some()).count()];
        let maps = self.feed.held.explained(self.feed.log.maps(landed, &needed).await).await?;
        let moves = Arc::new(Moves::of(landed, maps.into_iter().flatten().collect()));
        let contradicts = |reason: &dyn std::fmt::Display| {
            Error::damaged(self.feed.log.table(), format!("version {number}"), format!("its transactions do not add up: {reason}"))
        };
        let net = net(landed, &live_before, &live_after, &moves).map_err(|error| contradicts(&error))?;
        let (old, new) = (self.state(number - 1, before), self.state(number, after));
        let in_place = writes_in_place(landed);
        let records = |snapshot: &Snapshot, rows: RowsOf| {
            let record = |(id, rows): (FragmentId, RoaringBitmap)| {
                snapshot.fragments.get(id).map(|fragment| Some((fragment?.clone(), rows))).transpose()
            };
            rows.into_iter().filter_map(record).collect::<std::result::Result<Vec<_>, _>>()
        };
        let changes: [(&'static str, &State, &Snapshot, RowsOf); 4] = [
            ("delete", &old, before, net.deleted),
            ("update_preimage", &old, before, net.replaced),
            ("update_postimage", &new, after, net.renewed),
            ("insert", &new, after, net.inserted),
        ];
        for (change, state, snapshot, rows) in changes {
            if !rows.is_empty() {
                pieces.push(Piece::Rows { change, state: state.clone(), rows: records(snapshot, rows)? });
            }
        }
        for (id, rows) in net.stayed {
            let Some(now) = after.fragments.get(id)?.cloned() else { continue };
            match before.fragments.get(id)? {
                Some(then) => {
                    let written = written((&old, then), (&new, &now));
                    if !written.is_empty() {
                        pieces.push(Piece::InPlace { before: (old.clone(), then.clone()), after: (new.clone(), now), rows, written });
                    }
                }
                None if in_place && moves.moved_to(id) => {
                    let then = touched
                        .iter()
                        .filter_map(|id| before.fragments.get(*id).map(|fragment| Some((*id, fragment?.clone()))).transpose());
                    let then = then.collect::<std::result::Result<_, _>>()?;
                    pieces.push(Piece::Moved { before: (old.clone(), then), after: (new.clone(), now), rows, moves: moves.clone() });
                }
                None => {}
            }
        }
        Ok(())
    }

    /// The rows of a piece, as they are shown.
    fn tell(self: Arc<Self>, piece: Piece, commit: Commit) -> Result<Batches> {
        match piece {
            Piece::Rows { change, rows, .. } if self.wanted.is_empty() => {
                let all: u64 = rows.iter().map(|(_, rows)| rows.len()).sum();
                let size = self.context.session_config().batch_size().max(1) as u64;
                let sizes = (0..all.div_ceil(size)).map(move |batch| size.min(all - batch * size) as usize);
                Ok(stream::iter(sizes).map(move |rows| self.shown(vec![], rows, change, commit)).boxed())
            }
            Piece::Rows { change, state, rows } => {
                let read = self.read(&state, rows, &self.wanted)?;
                let shown = read.map(move |batch| {
                    let batch = batch?;
                    self.shown(state.columns.shown(&batch, &self.wanted)?, batch.num_rows(), change, commit)
                });
                Ok(shown.boxed())
            }
            Piece::InPlace { before: (old, then), after: (new, now), rows, written } => {
                let positions = self.with_wanted(&written);
                let before = self.read(&old, vec![(then, rows.clone())], &positions)?;
                let after = self.read(&new, vec![(now, rows)], &positions)?;
                Ok(self.updates(before, after, (old, new), positions, &written, commit))
            }
            Piece::Moved { before: (old, then), after: (new, now), rows, moves } => {
                let written: Vec<usize> = (0..new.columns.schema.columns().count()).collect();
                let origins = moves.origins(now.id, &rows).map_err(|error| Error::internal(error.to_string()))?;
                let after = self.read(&new, vec![(now, rows)], &written)?;
                let chunks: Vec<Vec<RowAddress>> = origins.chunks(ROWS_IN_ORDER).map(<[RowAddress]>::to_vec).collect();
                let (telling, state, positions) = (self.clone(), old.clone(), written.clone());
                let before = stream::iter(chunks.into_iter().map(Ok))
                    .and_then(move |chunk| telling.clone().in_order(state.clone(), then.clone(), chunk, positions.clone()));
                Ok(self.updates(before.boxed(), after, (old, new), written.clone(), &written, commit))
            }
        }
    }

    fn with_wanted(&self, written: &[usize]) -> Vec<usize> {
        self.wanted.iter().chain(written).copied().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Rows of which both versions are known, and which differ in the columns that were written.
    fn updates(
        self: Arc<Self>,
        before: Batches,
        after: Batches,
        (old, new): (State, State),
        positions: Vec<usize>,
        written: &[usize],
        commit: Commit,
    ) -> Batches {
        let among = |wanted: &[usize]| -> Vec<usize> {
            wanted.iter().filter_map(|wanted| positions.iter().position(|position| position == wanted)).collect()
        };
        let (written, wanted) = (among(written), among(&self.wanted));
        let updates = differing(before, after, written).map(move |differing| {
            let (before, after) = differing?;
            let shown = |batch: RecordBatch, state: &State, change| {
                let rows = batch.num_rows();
                let wanted = batch.project(&wanted).map_err(|error| Error::internal(format!("columns of changes: {error}")))?;
                self.shown(state.columns.shown(&wanted, &self.wanted)?, rows, change, commit)
            };
            let both = [shown(before, &old, "update_preimage")?, shown(after, &new, "update_postimage")?];
            Ok::<_, Error>(stream::iter(both.map(Ok)))
        });
        updates.try_flatten().boxed()
    }

    /// These rows of a state, fragment by fragment in ascending order; of the columns at `positions`.
    fn read(&self, state: &State, rows: Vec<(Arc<Fragment>, RoaringBitmap)>, positions: &[usize]) -> Result<Batches> {
        let fragments = rows.iter().map(|(fragment, rows)| {
            let (fragment, others) = only(fragment, rows);
            let others = fragment.deletions.is_some().then(|| Arc::new(others));
            (Arc::new(fragment), others)
        });
        let request = ScanRequest {
            store: self.feed.log.store().clone(),
            table: Arc::from(self.feed.log.table()),
            schema: state.columns.schema.clone(),
            bases: state.bases.as_ref().clone(),
            fragments: fragments.collect(),
            projection: Some(positions.to_vec()),
            predicate: None,
            limit: None,
            groups: Some(vec![(0..rows.len()).collect()]),
            pushdown_filters: Some(false),
            target_partitions: 1,
            held: Some(self.feed.held.clone()),
        };
        let plan = plan_with(request, &self.context.runtime_env(), self.context.session_config().options())?;
        Ok(batches(plan.execute(0, self.context.clone())?))
    }

    /// The rows at these addresses, in this order.
    async fn in_order(
        self: Arc<Self>,
        state: State,
        fragments: BTreeMap<FragmentId, Arc<Fragment>>,
        addresses: Vec<RowAddress>,
        positions: Vec<usize>,
    ) -> Result<RecordBatch> {
        let mut sorted = addresses.clone();
        sorted.sort_unstable();
        let mut rows = RowsOf::new();
        for address in &sorted {
            rows.entry(address.fragment()).or_default().insert(address.offset());
        }
        let rows = rows.into_iter().filter_map(|(id, rows)| Some((fragments.get(&id)?.clone(), rows))).collect();
        let held: Vec<RecordBatch> = self.read(&state, rows, &positions)?.try_collect().await?;
        let wrong = |reason: &dyn std::fmt::Display| Error::internal(format!("rows that moved: {reason}"));
        let Some(first) = held.first() else { return Err(wrong(&"none was read")) };
        let all = concat_batches(&first.schema(), &held).map_err(|error| wrong(&error))?;
        let order: Option<UInt32Array> =
            addresses.iter().map(|address| sorted.binary_search(address).ok().map(|at| Some(at as u32))).collect();
        let order = order.ok_or_else(|| wrong(&"one is missing"))?;
        take_record_batch(&all, &order).map_err(|error| wrong(&error))
    }

    /// Rows of the wanted columns with what else is asked of them.
    fn shown(&self, wanted: Vec<ArrayRef>, rows: usize, change: &str, commit: Commit) -> Result<RecordBatch> {
        let width = self.feed.shown.columns().count();
        let column = |position: &usize| -> Option<ArrayRef> {
            match position.checked_sub(width) {
                None => wanted.get(self.wanted.binary_search(position).ok()?).cloned(),
                Some(0) => Some(Arc::new(StringArray::from_iter_values(std::iter::repeat_n(change, rows)))),
                Some(1) => Some(Arc::new(UInt64Array::from_value(commit.version, rows))),
                Some(_) => Some(Arc::new(TimestampMillisecondArray::from_value(commit.time_ms, rows))),
            }
        };
        let wrong = |reason: &dyn std::fmt::Display| Error::internal(format!("changes as rows: {reason}"));
        let columns: Option<Vec<ArrayRef>> = self.feed.projection.iter().map(column).collect();
        let columns = columns.ok_or_else(|| wrong(&"a column is missing"))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.feed.schema.clone(), columns, &options).map_err(|error| wrong(&error))
    }
}

impl Feed {
    async fn read(&self, version: u64) -> Result<Arc<Version>> {
        self.held.explained(self.log.read(version).await).await
    }

    /// The snapshot with the pages of these fragments in memory.
    async fn with(&self, snapshot: &Snapshot, fragments: &BTreeSet<FragmentId>) -> Result<Snapshot> {
        self.held.explained(self.log.load_fragments(snapshot, fragments).await).await
    }

    /// The snapshot with all pages in memory, if `all`.
    async fn with_all(&self, snapshot: &Snapshot, all: bool) -> Result<Snapshot> {
        match all {
            true => self.held.explained(self.log.load_all(snapshot).await).await,
            false => Ok(snapshot.clone()),
        }
    }

    /// The live rows of some fragments.
    async fn live(&self, snapshot: &Snapshot, of: &BTreeSet<FragmentId>) -> Result<RowsOf> {
        let mut live = RowsOf::new();
        for id in of {
            let Some(fragment) = snapshot.fragments.get(*id)? else { continue };
            let mut rows = RoaringBitmap::new();
            rows.insert_range(0..fragment.physical_rows);
            rows -= self.held.explained(self.log.deleted_rows(fragment).await).await?.as_ref();
            live.insert(fragment.id, rows);
        }
        Ok(live)
    }
}

/// The columns of a fragment, by position, whose values lie elsewhere than before.
fn written((old, then): (&State, &Fragment), (new, now): (&State, &Fragment)) -> Vec<usize> {
    let columns = old.columns.schema.columns().zip(new.columns.schema.columns()).enumerate();
    let elsewhere = columns.filter(|(_, (before, after))| {
        let place = |(file, position): (&crate::table::fragment::DataFile, usize)| (file.path.clone(), file.base, position);
        then.backing(before.id).map(place) != now.backing(after.id).map(place)
    });
    elsewhere.map(|(position, _)| position).collect()
}
