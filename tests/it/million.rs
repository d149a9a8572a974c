//! A table of a million fragments: what is read and written grows with what a statement looks for and changes, not with the table.
//!
//! Only the pages that statements need are there; the index names others, of which no object exists. So whoever reads one too many
//! fails, and all but a few numbers are asserted by that.

use crate::support::{change, lake_in, refused, rows, run, session_of};
use amend::Session;
use amend::manifest::encode::{encode_index, encode_manifest, encode_page};
use amend::manifest::fragments::FragmentSet;
use amend::manifest::log::VersionLog;
use amend::manifest::pages::{Page, PageRef};
use amend::manifest::snapshot::{Counters, Snapshot};
use amend::manifest::version::Version;
use amend::store::ObjectName;
use amend::store::faults::{FaultStore, OpKind};
use amend::table::fragment::{DataFile, FileColumn, Fragment};
use amend::table::row_address::FragmentId;
use amend::table::schema::FieldId;
use amend::table::stats::{ColumnStats, StatValue};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use std::collections::BTreeMap;
use std::sync::Arc;

const FRAGMENTS: u32 = 1_000_000;
const PER_PAGE: u32 = 1024;
const ROWS: i64 = 10;
/// The fragment whose rows are there; it has the keys from ten times its id on.
const THERE: u32 = 512_345;
const KEY: i64 = THERE as i64 * ROWS + 3;

/// The store, and where the table is in it.
struct Million {
    objects: Arc<InMemory>,
    folder: String,
}

fn stats(min: i64, max: i64) -> ColumnStats {
    ColumnStats { min: Some(StatValue::Int(min)), max: Some(StatValue::Int(max)), null_count: Some(0) }
}

fn keys_of(fragments: std::ops::Range<u32>) -> ColumnStats {
    stats(i64::from(fragments.start) * ROWS, i64::from(fragments.end) * ROWS - 1)
}

/// A fragment like `there` with another id. Its file does not exist.
fn like(there: &Fragment, id: u32) -> Arc<Fragment> {
    let file = &there.files[0];
    let columns = file.columns.iter().map(|column| FileColumn {
        stats: if column.field == Some(FieldId(1)) { keys_of(id..id + 1) } else { column.stats.clone() },
        ..column.clone()
    });
    let file = DataFile { path: format!("data/{id}.parquet"), inline: None, columns: columns.collect(), ..file.clone() };
    Arc::new(Fragment { id: FragmentId(id), files: vec![file], ..there.clone() })
}

/// Adds fragments while the tail has room for them and for one that is changed; the next id.
fn fill(fragments: &mut FragmentSet, there: &Arc<Fragment>) -> u32 {
    for id in FRAGMENTS.. {
        let mut more = fragments.clone();
        more.put(like(there, id)).unwrap();
        let mut most = more.clone();
        most.put(Arc::new(Fragment { id: FragmentId(id + 1), ..there.as_ref().clone() })).unwrap();
        if most.needs_fold() {
            return id;
        }
        *fragments = more;
    }
    unreachable!()
}

/// A table `t (k, v)` of a million fragments, by SQL but for its third version; `constraint` may make `k` a key. Its tail holds as much
/// as it can without a fold, if `full`.
async fn million(constraint: &str, full: bool) -> Million {
    let objects = Arc::new(InMemory::new());
    let lake = lake_in(objects.clone());
    let session = session_of(&lake, 1).await;
    run(&session, &format!("CREATE TABLE t (k BIGINT {constraint}, v BIGINT)")).await;
    let first = i64::from(THERE) * ROWS;
    change(&session, &format!("INSERT INTO t SELECT value, 7 FROM generate_series({first}, {})", first + ROWS - 1)).await;
    let log = lake.table("t").await.unwrap();
    let before = log.newest().await.unwrap();
    let there = before.snapshot.fragments.iter().unwrap().next().unwrap();
    assert_eq!((there.physical_rows, there.files.len()), (ROWS as u32, 1));

    let there = Arc::new(Fragment { id: FragmentId(THERE), ..there.as_ref().clone() });
    let page_of_there: Vec<Arc<Fragment>> = {
        let first = THERE / PER_PAGE * PER_PAGE;
        (first..first + PER_PAGE).map(|id| if id == THERE { there.clone() } else { like(&there, id) }).collect()
    };
    let fields = [FieldId(1), FieldId(2)];
    let written = encode_page(&page_of_there, &fields).unwrap();
    let name = ObjectName::new_page();
    log.store().write(&name, written.bytes.clone()).await.unwrap();
    let written = written.reference(name.as_str());
    let pages = (0..FRAGMENTS).step_by(PER_PAGE as usize).map(|first| {
        let end = (first + PER_PAGE).min(FRAGMENTS);
        let rows = u64::from(end - first) * ROWS as u64;
        let (first_id, last_id) = (FragmentId(first), FragmentId(end - 1));
        let summaries = BTreeMap::from([(fields[0], keys_of(first..end)), (fields[1], stats(7, 7))]);
        if (first..end).contains(&THERE) {
            assert_eq!((written.summaries.clone(), written.rows, written.first), (summaries, rows, first_id));
            return Arc::new(written.clone());
        }
        let path = ObjectName::new_page().to_string();
        let fragments = end - first;
        Arc::new(PageRef { path, first: first_id, last: last_id, fragments, rows, live_rows: rows, summaries, ..written.clone() })
    });
    let pages: Vec<Arc<PageRef>> = pages.collect();
    assert_eq!(pages.len(), 977);
    let index = encode_index(&pages).unwrap();
    let name = ObjectName::new_page_index();
    log.store().write(&name, index.bytes.clone()).await.unwrap();

    let mut fragments = FragmentSet::listed(Some(index.reference(name.as_str())), pages.into_iter().map(Page::named).collect());
    let mut next = FRAGMENTS;
    if full {
        next = fill(&mut fragments, &there);
    }
    let counters = Counters { fragment: FragmentId(next), ..before.snapshot.counters };
    let snapshot = Snapshot { version: 3, fragments, counters, ..before.snapshot.clone() };
    let version = Version { snapshot, transactions: vec![], ..Version::clone(&before) };
    log.store().write(&ObjectName::version(3), encode_manifest(&version, None).unwrap().bytes).await.unwrap();
    let folder = log.store().location(&ObjectName::version(3)).to_string();
    Million { objects, folder: folder.split("/_versions").next().unwrap().to_owned() }
}

/// A process of its own, which remembers nothing.
struct Process<'a> {
    of: &'a Million,
    counted: FaultStore,
    session: Session,
    log: Arc<VersionLog>,
}

/// What a statement asked of the table's folder.
#[derive(Debug, Default)]
struct Asked {
    /// Reads of pages and indexes, by their endings.
    pages: Vec<String>,
    read_bytes: u64,
    written: Vec<String>,
    written_bytes: u64,
}

impl Million {
    async fn process(&self) -> Process<'_> {
        let counted = FaultStore::new(self.objects.clone());
        let lake = lake_in(Arc::new(counted.clone()));
        let session = session_of(&lake, 1).await;
        let log = lake.table("t").await.unwrap();
        Process { of: self, counted, session, log }
    }
}

impl Process<'_> {
    /// What was asked since the first `operations`.
    async fn asked(&self, operations: usize) -> Asked {
        let mut asked = Asked::default();
        for (kind, path) in self.counted.operations().split_off(operations) {
            let Some(name) = path.strip_prefix(&self.of.folder).map(|name| name.trim_start_matches('/')) else { continue };
            let size_bytes = self.of.objects.head(&Path::from(path.as_str())).await.map_or(0, |meta| meta.size);
            match kind {
                OpKind::Get => {
                    asked.read_bytes += size_bytes;
                    asked.pages.extend(name.strip_prefix("_pages/").and_then(|name| name.split_once('.')).map(|(_, kind)| kind.to_owned()));
                }
                OpKind::Put | OpKind::Create => {
                    asked.written.extend(name.split('/').next().map(str::to_owned));
                    asked.written_bytes += size_bytes;
                }
                OpKind::List | OpKind::Delete => {}
            }
        }
        asked.pages.sort();
        asked
    }

    async fn query(&self, sql: &str, expected: &[(i64, i64)]) -> Asked {
        let before = self.counted.operations().len();
        assert_eq!(rows(&self.session, sql).await, expected, "{sql}");
        self.asked(before).await
    }

    async fn change(&self, sql: &str, count: u64) -> Asked {
        let before = self.counted.operations().len();
        assert_eq!(change(&self.session, sql).await.count(), count, "{sql}");
        self.asked(before).await
    }
}

const ALL: i64 = FRAGMENTS as i64 * ROWS;

#[tokio::test]
async fn a_million_fragments_are_opened_counted_and_searched_without_reading_them() {
    let table = million("", false).await;
    let process = table.process().await;
    let before = process.counted.operations().len();
    let newest = process.log.newest().await.unwrap();
    assert_eq!((newest.snapshot.fragments.len(), newest.snapshot.live_rows()), (FRAGMENTS as usize, ALL as u64));
    let opened = process.asked(before).await;
    assert!(opened.pages.is_empty() && opened.read_bytes < 4096, "{opened:?}");

    let process = table.process().await;
    for sql in ["SELECT count(*), 0 FROM t", "SELECT sum(1), 0 FROM t WHERE true", "SELECT count(1), 0 FROM (SELECT k FROM t)"] {
        let counted = process.query(sql, &[(ALL, 0)]).await;
        assert!(counted.pages.is_empty() && counted.read_bytes < 4096, "{sql}: {counted:?}");
    }

    let process = table.process().await;
    let sql = format!("SELECT k, v FROM t WHERE k = {KEY}");
    let searched = process.query(&sql, &[(KEY, 7)]).await;
    assert_eq!(searched.pages, ["index", "page"]);
    assert!(searched.read_bytes < 2 << 20, "{searched:?}");
    // By its address too, and by nothing that summaries say.
    let again =
        process.query(&format!("SELECT k, v FROM t WHERE k BETWEEN {KEY} AND {} AND v > 6", KEY + 1), &[(KEY, 7), (KEY + 1, 7)]).await;
    assert!(again.pages.is_empty(), "kept in memory: {again:?}");
    assert!(process.query("SELECT k, v FROM t WHERE v = 8", &[]).await.pages.is_empty());
    assert!(process.query(&format!("SELECT k, v FROM t WHERE k >= {ALL}"), &[]).await.pages.is_empty());

    // So many rows are in the first page; which is not there.
    let before = process.counted.operations().len();
    let error = refused(&process.session, &format!("SELECT k, v FROM t LIMIT {}", i64::from(PER_PAGE) * ROWS)).await;
    assert!(error.sqlstate() == "XX001" && error.to_string().contains(".page"), "{error}");
    assert_eq!(process.asked(before).await.pages, ["page"]);

    // What needs all pages says which one is missing: it never leaves one out.
    for sql in
        ["SELECT sum(k), 0 FROM t", "SELECT k, v FROM t WHERE k + v = 12", "OPTIMIZE t", "TRUNCATE t", "SELECT * FROM table_files('t')"]
    {
        let error = refused(&process.session, sql).await;
        assert!(error.sqlstate() == "XX001" && error.to_string().contains(".page"), "{sql}: {error}");
    }
}

#[tokio::test]
async fn a_change_of_one_row_of_a_million_fragments_is_small() {
    for full in [false, true] {
        let table = million("", full).await;
        let all = table.process().await.log.newest().await.unwrap().snapshot.live_rows() as i64;
        assert_eq!(all > ALL, full);
        let deleting = table.process().await;
        let deleted = deleting.change(&format!("DELETE FROM t WHERE k = {KEY}"), 1).await;
        assert_eq!((deleted.pages, deleted.written), (vec!["index".to_owned(), "page".to_owned()], vec!["_versions".to_owned()]));
        let most = if full { 128 << 10 } else { 8 << 10 };
        assert!(
            deleted.written_bytes < most && deleted.read_bytes < 2 << 20,
            "{} written, {} read",
            deleted.written_bytes,
            deleted.read_bytes
        );
        assert!(deleting.query("SELECT count(*), 0 FROM t", &[(all - 1, 0)]).await.pages.is_empty());
        if full {
            continue;
        }

        // The next one knows the page.
        let deleted = deleting.change(&format!("DELETE FROM t WHERE k = {}", KEY + 1), 1).await;
        assert!(deleted.pages.is_empty() && deleted.written_bytes < 8 << 10, "{deleted:?}");

        // In a transaction of an older version, beside others, rebased over what landed.
        let (one, other) = (table.process().await, table.process().await);
        run(&one.session, "BEGIN").await;
        change(&one.session, &format!("UPDATE t SET v = 8 WHERE k = {}", KEY + 2)).await;
        change(&other.session, &format!("DELETE FROM t WHERE k = {}", KEY + 3)).await;
        let before = one.counted.operations().len();
        assert_eq!(change(&one.session, "COMMIT").await.facts.rebased_over, 1);
        let committed = one.asked(before).await;
        assert!(committed.pages.is_empty() && committed.written_bytes < 16 << 10, "{committed:?}");
        let first = i64::from(THERE) * ROWS;
        let left: Vec<(i64, i64)> = [(0, 7), (1, 7), (2, 7), (5, 8), (7, 7), (8, 7), (9, 7)].map(|(k, v)| (first + k, v)).to_vec();
        let sql = format!("SELECT k, v FROM t WHERE k BETWEEN {first} AND {}", first + ROWS - 1);
        assert!(one.query(&sql, &left).await.pages.is_empty());
        assert_eq!(table.process().await.query(&sql, &left).await.pages, ["index", "page"]);
        assert!(one.query("SELECT count(*), 0 FROM t", &[(all - 3, 0)]).await.pages.is_empty());

        // New rows need no page at all.
        let inserting = table.process().await;
        let inserted = inserting.change("INSERT INTO t VALUES (-1, 1)", 1).await;
        assert!(inserted.pages.is_empty() && inserted.written_bytes < 16 << 10, "{inserted:?}");
    }
}

#[tokio::test]
async fn a_key_is_looked_for_in_the_pages_that_may_hold_it() {
    let table = million("PRIMARY KEY", false).await;
    let process = table.process().await;
    let inserted = process.change("INSERT INTO t VALUES (-1, 1)", 1).await;
    assert_eq!(inserted.pages, ["index"]);
    let error = refused(&process.session, &format!("INSERT INTO t VALUES ({KEY}, 1)")).await;
    assert_eq!(error.sqlstate(), "23505", "{error}");
    let merge = format!(
        "MERGE INTO t USING (VALUES ({KEY}, 9), (-2, 2)) AS s (k, v) ON t.k = s.k AND t.k <= {KEY} AND t.k >= {KEY} \
         WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.v)"
    );
    let merged = process.change(&merge, 2).await;
    assert!(merged.pages.is_empty() && merged.written_bytes < 16 << 10, "{merged:?}");
    let asked = process.query(&format!("SELECT k, v FROM t WHERE k IN (-1, -2, {KEY})"), &[(-2, 2), (-1, 1), (KEY, 9)]).await;
    assert!(asked.pages.is_empty(), "{asked:?}");
}
