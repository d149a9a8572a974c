//! Random tables, random deletions, and every kind of query, against a loop over the rows.

use super::fixture::{Layout, Table, config, lines, sorted_lines};
use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::prelude::SessionContext;
use proptest::prelude::*;
use roaring::RoaringBitmap;
use std::sync::Arc;

#[derive(Debug, Clone)]
struct Row {
    fragment: u32,
    offset: i64,
    id: i64,
    key: Option<i32>,
    text: Option<String>,
}

/// A fragment to be: its rows, how they are stored, and runs of deleted rows (as parts of 1,000, and lengths).
#[derive(Debug, Clone)]
struct Shape {
    rows: usize,
    layout: Layout,
    deleted: Deleted,
    /// Columns that lie in a file of their own, and how that is stored.
    moved: Vec<(Vec<&'static str>, Layout)>,
    seed: u64,
}

#[derive(Debug, Clone)]
enum Deleted {
    Nothing,
    Everything,
    AllOfSomeRowGroups(u32),
    Runs(Vec<(u32, u32)>),
}

#[derive(Debug, Clone)]
struct Settings {
    partitions: usize,
    batch_rows: usize,
    work_stealing: bool,
    page_index: bool,
}

fn shape() -> impl Strategy<Value = Shape> {
    let rows = prop_oneof![1 => 1usize..50, 3 => 50usize..6_000];
    let moved = prop_oneof![
        3 => Just(vec![]),
        1 => layout().prop_map(|layout| vec![(vec!["k"], layout)]),
        1 => layout().prop_map(|layout| vec![(vec!["s", "id"], layout)]),
        1 => (layout(), layout()).prop_map(|(one, other)| vec![(vec!["k"], one), (vec!["s"], other)]),
    ];
    let runs = prop::collection::vec((0u32..1_000, prop_oneof![1u32..4, 1u32..2_000]), 1..40);
    let deleted = prop_oneof![
        2 => Just(Deleted::Nothing),
        1 => Just(Deleted::Everything),
        2 => any::<u32>().prop_map(Deleted::AllOfSomeRowGroups),
        5 => runs.prop_map(Deleted::Runs),
    ];
    (rows, layout(), moved, deleted, any::<u64>()).prop_map(|(rows, layout, moved, deleted, seed)| Shape {
        rows,
        layout,
        deleted,
        moved,
        seed,
    })
}

fn layout() -> impl Strategy<Value = Layout> {
    let group_rows = prop_oneof![100usize..5_000, Just(1 << 20)];
    let page_rows = prop_oneof![50usize..1_000, Just(20_000)];
    (group_rows, page_rows, any::<bool>()).prop_map(|(group_rows, page_rows, page_index)| Layout { group_rows, page_rows, page_index })
}

fn settings() -> impl Strategy<Value = Settings> {
    (1usize..5, prop_oneof![Just(64usize), Just(1_000), Just(8_192)], any::<bool>(), any::<bool>())
        .prop_map(|(partitions, batch_rows, work_stealing, page_index)| Settings { partitions, batch_rows, work_stealing, page_index })
}

impl Shape {
    fn deleted_rows(&self) -> RoaringBitmap {
        let rows = self.rows as u32;
        match &self.deleted {
            Deleted::Nothing => RoaringBitmap::new(),
            Deleted::Everything => (0..rows).collect(),
            Deleted::AllOfSomeRowGroups(which) => {
                (0..rows).filter(|row| which & (1 << (*row as usize / self.layout.group_rows % 32)) != 0 || row % 97 == 5).collect()
            }
            Deleted::Runs(runs) => runs
                .iter()
                .flat_map(|(start, length)| (start * rows / 1_000..start * rows / 1_000 + length).filter(|row| *row < rows))
                .collect(),
        }
    }

    /// Keys that grow with the offset, but for some noise, so that row groups and pages can be pruned.
    fn rows(&self, fragment: u32) -> Vec<Row> {
        let mut state = self.seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let row = |offset: usize| Row {
            fragment,
            offset: offset as i64,
            id: i64::from(fragment) * 100_000 + offset as i64,
            key: (random(11) != 0).then(|| (offset as i32 / 10) + random(7) as i32),
            text: (random(5) != 0).then(|| format!("text {}", random(30))),
        };
        (0..self.rows).map(row).collect()
    }
}

async fn build(shapes: &[Shape]) -> (Table, Vec<Row>) {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("k", DataType::Int32, true),
        Field::new("s", DataType::Utf8, true),
    ]);
    let mut table = Table::new(&schema);
    let mut live = Vec::new();
    for (fragment, shape) in shapes.iter().enumerate() {
        let rows = shape.rows(fragment as u32);
        let batch = |rows: &[Row]| {
            let columns: Vec<ArrayRef> = vec![
                Arc::new(rows.iter().map(|row| Some(row.id)).collect::<Int64Array>()),
                Arc::new(rows.iter().map(|row| row.key).collect::<Int32Array>()),
                Arc::new(rows.iter().map(|row| row.text.as_deref()).collect::<StringArray>()),
            ];
            RecordBatch::try_new(Arc::new(schema.clone()), columns).unwrap()
        };
        let deleted = shape.deleted_rows();
        let has_moved = |name| shape.moved.iter().any(|(names, _)| names.contains(&name));
        // What the first file holds of columns that moved are other values than today's.
        let first = rows.iter().map(|row| Row {
            id: if has_moved("id") { -row.id } else { row.id },
            key: if has_moved("k") { Some(7) } else { row.key },
            text: if has_moved("s") { Some("text 7".into()) } else { row.text.clone() },
            ..*row
        });
        table.add(&batch(&first.collect::<Vec<_>>()), shape.layout, deleted.iter()).await;
        for (names, layout) in &shape.moved {
            table.move_columns(names, &batch(&rows), *layout).await;
        }
        live.extend(rows.into_iter().filter(|row| !deleted.contains(row.offset as u32)));
    }
    (table, live)
}

type Condition = (String, Box<dyn Fn(&Row) -> bool>);

/// Conditions with and without effect on row groups, on NULLs, on the address.
fn conditions(key: i32, offset: i64) -> Vec<Condition> {
    vec![
        ("true".into(), Box::new(|_| true)),
        (format!("k >= {key} AND k < {}", key + 40), Box::new(move |row| row.key.is_some_and(|k| k >= key && k < key + 40))),
        (format!("k = {key}"), Box::new(move |row| row.key == Some(key))),
        ("id % 7 = 3".into(), Box::new(|row| row.id % 7 == 3)),
        ("s = 'text 7' OR k IS NULL".into(), Box::new(|row| row.text.as_deref() == Some("text 7") || row.key.is_none())),
        ("s IS NULL".into(), Box::new(|row| row.text.is_none())),
        (format!("id > {}", 100_000 + offset), Box::new(move |row| row.id > 100_000 + offset)),
        (
            format!("__amend_offset >= {offset} AND k > {key}"),
            Box::new(move |row| row.offset >= offset && row.key.is_some_and(|k| k > key)),
        ),
        (format!("__amend_fragment = 1 AND __amend_offset < {offset}"), Box::new(move |row| row.fragment == 1 && row.offset < offset)),
        (format!("__amend_fragment <> 0 OR id < {offset}"), Box::new(move |row| row.fragment != 0 || row.id < offset)),
        ("id < 0".into(), Box::new(|row| row.id < 0)),
    ]
}

fn show<T: ToString>(value: &Option<T>) -> String {
    value.as_ref().map(T::to_string).unwrap_or_default()
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

async fn run(context: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    context.sql(sql).await.unwrap().collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

async fn check(context: &SessionContext, live: &[Row], (sql, holds): &Condition, limit: usize) {
    let matching: Vec<&Row> = live.iter().filter(|row| holds(row)).collect();

    let found = sorted_lines(&run(context, &format!("SELECT id, k, s, __amend_fragment, __amend_offset FROM t WHERE {sql}")).await);
    let line = |row: &&Row| format!("{},{},{},{},{}", row.id, show(&row.key), show(&row.text), row.fragment, row.offset);
    assert_eq!(found, sorted(matching.iter().map(line).collect()), "rows where {sql}");

    let found = sorted_lines(&run(context, &format!("SELECT s FROM t WHERE {sql}")).await);
    assert_eq!(found, sorted(matching.iter().map(|row| show(&row.text)).collect()), "one column where {sql}");

    let found = lines(&run(context, &format!("SELECT count(*), count(k), min(id), max(id), max(k), max(s) FROM t WHERE {sql}")).await);
    let ids = || matching.iter().map(|row| row.id);
    let max_key = matching.iter().filter_map(|row| row.key).max();
    let max_text = matching.iter().filter_map(|row| row.text.clone()).max();
    let keys = matching.iter().filter(|row| row.key.is_some()).count();
    let expected =
        format!("{},{keys},{},{},{},{}", matching.len(), show(&ids().min()), show(&ids().max()), show(&max_key), show(&max_text));
    assert_eq!(found, [expected], "aggregates where {sql}");

    let found = lines(&run(context, &format!("SELECT id FROM t WHERE {sql} LIMIT {limit}")).await);
    let mut distinct = found.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!((found.len(), distinct.len()), (limit.min(matching.len()), found.len()), "limit {limit} where {sql}");
    let all: std::collections::HashSet<String> = ids().map(|id| id.to_string()).collect();
    assert!(found.iter().all(|id| all.contains(id)), "limit {limit} where {sql}");

    let mut ascending: Vec<i64> = ids().collect();
    ascending.sort_unstable();
    let text = |ids: Vec<i64>| ids.iter().map(i64::to_string).collect::<Vec<_>>();
    let found = lines(&run(context, &format!("SELECT id FROM t WHERE {sql} ORDER BY id LIMIT {limit}")).await);
    assert_eq!(found, text(ascending.iter().copied().take(limit).collect()), "first {limit} where {sql}");
    let found = lines(&run(context, &format!("SELECT id FROM t WHERE {sql} ORDER BY id DESC LIMIT {limit} OFFSET 3")).await);
    assert_eq!(found, text(ascending.iter().rev().copied().skip(3).take(limit).collect()), "last {limit} where {sql}");

    let found = lines(&run(context, &format!("SELECT k, id FROM t WHERE {sql} ORDER BY k DESC NULLS LAST, id LIMIT {limit}")).await);
    let mut by_key: Vec<(std::cmp::Reverse<Option<i32>>, i64)> = matching.iter().map(|row| (std::cmp::Reverse(row.key), row.id)).collect();
    by_key.sort_unstable();
    let expected: Vec<String> = by_key.into_iter().take(limit).map(|(key, id)| format!("{},{id}", show(&key.0))).collect();
    assert_eq!(found, expected, "largest {limit} keys where {sql}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn scans_answer_as_the_loop_does(
        shapes in prop::collection::vec(shape(), 1..4),
        settings in settings(),
        key in 0i32..600,
        offset in 0i64..6_000,
        limit in prop_oneof![1usize..20, 1usize..10_000],
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let (mut table, live) = build(&shapes).await;
            for pushdown in [false, true] {
                table.pushdown_filters = Some(pushdown);
                let mut config = config(settings.partitions).with_batch_size(settings.batch_rows);
                config.options_mut().execution.enable_file_stream_work_stealing = settings.work_stealing;
                config.options_mut().execution.parquet.enable_page_index = settings.page_index;
                let context = table.context(config);
                for condition in conditions(key, offset) {
                    check(&context, &live, &condition, limit).await;
                }
            }
        });
    }
}
