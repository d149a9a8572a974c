//! amend in a host's own `SessionContext`: what planning must not do, what a host can forbid, and what happens where the
//! rule is missing. And statements that collide, made to do so by a function that waits.

use amend::scan::provider::LakeTable;
use amend::{Changed, Error, ErrorKind, Lake, Outcome, Session, install};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::Result as EngineResult;
use datafusion::execution::context::{SQLOptions, SessionContext};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::prelude::SessionConfig;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// A lake with a table `t` of three rows at version 2, and `s` of one.
async fn lake() -> Lake {
    let lake = Lake::memory();
    let session = Session::new(&lake).await.unwrap();
    for sql in [
        "CREATE TABLE t (k INT, v INT)",
        "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)",
        "CREATE TABLE s (k INT)",
        "INSERT INTO s VALUES (2)",
    ] {
        session.execute(sql).await.unwrap();
    }
    lake
}

fn host(lake: &Lake) -> SessionContext {
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    install(&ctx, lake).unwrap();
    ctx
}

async fn run(ctx: &SessionContext, sql: &str) -> EngineResult<Vec<RecordBatch>> {
    ctx.sql(sql).await?.collect().await
}

async fn text(ctx: &SessionContext, sql: &str) -> String {
    let rows = run(ctx, sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let table = pretty_format_batches(&rows).unwrap().to_string();
    let cells = table.lines().filter(|line| line.starts_with('|')).skip(1);
    cells.map(|line| line.replace(['|', ' '], " ").split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(", ")
}

async fn count(ctx: &SessionContext, sql: &str) -> u64 {
    let rows = run(ctx, sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    rows[0].column(0).as_primitive::<datafusion::arrow::datatypes::UInt64Type>().value(0)
}

async fn newest(lake: &Lake, table: &str) -> u64 {
    lake.table(table).await.unwrap().newest_number().await.unwrap()
}

async fn error(ctx: &SessionContext, sql: &str) -> Error {
    match run(ctx, sql).await {
        Ok(_) => panic!("{sql}: it succeeded"),
        Err(error) => error.into(),
    }
}

const CHANGES: [&str; 6] = [
    "INSERT INTO t VALUES (4, 40)",
    "UPDATE t SET v = v + 1",
    "UPDATE t SET v = (SELECT max(k) FROM s) WHERE k IN (SELECT k FROM s)",
    "DELETE FROM t",
    "TRUNCATE TABLE t",
    "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 0",
];

#[tokio::test]
async fn statements_that_only_explain_or_prepare_change_nothing() {
    let lake = lake().await;
    let ctx = host(&lake);
    for (number, sql) in CHANGES.into_iter().enumerate() {
        let plan = text(&ctx, &format!("EXPLAIN {sql}")).await;
        assert!(plan.contains("CommitExec"), "{plan}");
        run(&ctx, &format!("EXPLAIN VERBOSE {sql}")).await.unwrap();
        run(&ctx, &format!("PREPARE p{number} AS {sql}")).await.unwrap();
        // Planned and never run.
        ctx.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    }
    assert_eq!(newest(&lake, "t").await, 2);
    assert_eq!(text(&ctx, "SELECT * FROM t ORDER BY k").await, "1 10, 2 20, 3 30");
    // Each of them does change something when it runs.
    for sql in CHANGES {
        let lake = self::lake().await;
        let ctx = host(&lake);
        run(&ctx, &format!("PREPARE p AS {sql}")).await.unwrap();
        assert!(count(&ctx, "EXECUTE p").await > 0, "{sql}");
        assert_eq!(newest(&lake, "t").await, 3, "{sql}");
    }
    run(&ctx, "EXPLAIN ANALYZE DELETE FROM t WHERE k = 1").await.unwrap();
    assert_eq!(text(&ctx, "SELECT k FROM t ORDER BY k").await, "2, 3");
}

#[tokio::test]
async fn a_host_can_forbid_changes() {
    let lake = lake().await;
    let ctx = host(&lake);
    let read_only = SQLOptions::new().with_allow_dml(false).with_allow_ddl(false).with_allow_statements(false);
    for sql in CHANGES {
        let refused = ctx.sql_with_options(sql, read_only).await.unwrap_err().to_string();
        assert!(refused.contains("DML not supported"), "{sql}: {refused}");
        let refused = ctx.sql_with_options(&format!("EXPLAIN ANALYZE {sql}"), read_only).await.unwrap_err().to_string();
        assert!(refused.contains("DML not supported"), "{sql}: {refused}");
    }
    // What a prepared statement does is not looked at: EXECUTE is a statement, and forbidden as such.
    run(&ctx, "PREPARE d AS DELETE FROM t").await.unwrap();
    let refused = ctx.sql_with_options("EXECUTE d", read_only).await.unwrap_err().to_string();
    assert!(refused.contains("Statement not supported"), "{refused}");
    let rows = ctx.sql_with_options("SELECT * FROM t", read_only).await.unwrap().collect().await.unwrap();
    assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
    assert_eq!(newest(&lake, "t").await, 2);
}

#[tokio::test]
async fn views_and_prepared_statements_read_the_newest_version() {
    let lake = lake().await;
    let ctx = host(&lake);
    run(&ctx, "CREATE VIEW w AS SELECT k, v FROM t WHERE v > 10").await.unwrap();
    run(&ctx, "PREPARE q AS SELECT v FROM t WHERE k = $1").await.unwrap();
    run(&ctx, "PREPARE d AS DELETE FROM t WHERE k IN (SELECT k FROM s) OR k = $1").await.unwrap();
    run(&ctx, "PREPARE u AS UPDATE t SET v = v + $1").await.unwrap();
    assert_eq!(text(&ctx, "SELECT * FROM w ORDER BY k").await, "2 20, 3 30");
    // Others change the table, and rewrite it.
    let other = Session::new(&lake).await.unwrap();
    for sql in ["UPDATE t SET v = 11 WHERE k = 1", "DELETE FROM t WHERE k = 3", "OPTIMIZE t FULL", "INSERT INTO t VALUES (5, 50)"] {
        other.execute(sql).await.unwrap();
    }
    assert_eq!(text(&ctx, "SELECT * FROM w ORDER BY k").await, "1 11, 2 20, 5 50");
    assert_eq!(text(&ctx, "EXECUTE q(1)").await, "11");
    assert_eq!(count(&ctx, "EXECUTE u(100)").await, 3);
    assert_eq!(text(&ctx, "SELECT * FROM w ORDER BY k").await, "1 111, 2 120, 5 150");
    // With other columns they go on with theirs; but whole rows cannot be written without knowing all columns.
    other.execute("ALTER TABLE t ADD COLUMN x INT").await.unwrap();
    other.execute("INSERT INTO t VALUES (6, 60, 600)").await.unwrap();
    assert_eq!(text(&ctx, "SELECT * FROM w ORDER BY k").await, "1 111, 2 120, 5 150, 6 60");
    assert_eq!(error(&ctx, "EXECUTE u(100)").await.sqlstate(), "40001");
    let refused = error(&ctx, "EXECUTE d(6)").await;
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert_eq!(text(&ctx, "SELECT k, x FROM t ORDER BY k").await, "1, 2, 5, 6 600");
}

#[tokio::test]
async fn without_the_rule_tables_can_only_be_read() {
    let lake = lake().await;
    let log = lake.table("t").await.unwrap();
    let version = log.newest().await.unwrap();
    let ctx = SessionContext::new();
    ctx.register_table("t", Arc::new(LakeTable::new(log, None, version))).unwrap();
    run(&ctx, "CREATE TABLE s AS SELECT 2 AS k").await.unwrap();
    assert_eq!(text(&ctx, "SELECT v FROM t ORDER BY v").await, "10, 20, 30");
    for sql in CHANGES {
        let refused = error(&ctx, sql).await;
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{sql}: {refused}");
        assert!(refused.to_string().contains("call amend::install on this SessionContext"), "{sql}: {refused}");
    }
    for sql in ["DELETE FROM t WHERE k = 1", "UPDATE t SET v = 0 WHERE false", "DELETE FROM t WHERE k IN (SELECT k FROM s)"] {
        assert_eq!(error(&ctx, sql).await.kind(), ErrorKind::Unsupported, "{sql}");
    }
    assert_eq!(newest(&lake, "t").await, 2);
}

#[tokio::test]
async fn a_host_has_old_versions_by_name_and_never_the_newest_in_their_place() {
    let lake = lake().await;
    let ctx = host(&lake);
    run(&ctx, "DELETE FROM t WHERE k = 1").await.unwrap();
    assert_eq!(text(&ctx, r#"SELECT old.k, t.v FROM "t@v2" AS old LEFT JOIN t ON old.k = t.k ORDER BY 1"#).await, "1, 2 20, 3 30");
    assert_eq!(error(&ctx, r#"DELETE FROM "t@v2""#).await.kind(), ErrorKind::Invalid);
    assert_eq!(error(&ctx, r#"SELECT * FROM "t@v9""#).await.sqlstate(), "22023");
    // Dialects that know the words would ignore them.
    run(&ctx, "SET datafusion.sql_parser.dialect = 'databricks'").await.unwrap();
    let refused = error(&ctx, "SELECT * FROM t VERSION AS OF 2").await;
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
}

#[tokio::test]
async fn a_prepared_predicate_that_would_forget_null_is_refused() {
    let lake = lake().await;
    let ctx = host(&lake);
    run(&ctx, "INSERT INTO s VALUES (NULL)").await.unwrap();
    let sql = "DELETE FROM t WHERE k NOT IN (SELECT k FROM s) OR k = 99";
    run(&ctx, &format!("PREPARE d AS {sql}")).await.unwrap();
    let refused = error(&ctx, "EXECUTE d").await;
    assert!(refused.to_string().contains("PREPARE it in an amend::Session"), "{refused}");
    // Not prepared, or prepared in a session, it finds what SQL says: nothing.
    assert_eq!(count(&ctx, sql).await, 0);
    let session = Session::new(&lake).await.unwrap();
    session.execute(&format!("PREPARE d AS {sql}")).await.unwrap();
    assert_eq!(changed(session.execute("EXECUTE d").await).counts.deleted, 0);
    assert_eq!(newest(&lake, "t").await, 2);
}

fn changed(outcome: amend::Result<Outcome>) -> Changed {
    match outcome {
        Ok(Outcome::Changed(changed)) => changed,
        other => panic!("it changed nothing: {other:?}"),
    }
}

/// `gate(x)` is x. Its first call waits until it is let through.
#[derive(Debug)]
struct Gate {
    signature: Signature,
    calls: AtomicUsize,
    reached: Mutex<Sender<()>>,
    open: Mutex<Receiver<()>>,
}

impl PartialEq for Gate {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Gate {}

impl std::hash::Hash for Gate {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl ScalarUDFImpl for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> EngineResult<DataType> {
        Ok(types[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        if args.number_rows > 0 && self.calls.fetch_add(1, Ordering::SeqCst) == 0 {
            self.reached.lock().unwrap().send(()).unwrap();
            self.open.lock().unwrap().recv().unwrap();
        }
        Ok(args.args[0].clone())
    }
}

/// Runs `late` on `ctx`, and `early` on another session once `late` has read its rows and waits.
async fn collide<F, T>(lake: &Lake, ctx: &SessionContext, early: &[&str], late: F) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let (reached, has_reached) = channel();
    let (open, is_open) = channel();
    let signature = Signature::any(1, Volatility::Volatile);
    let gate = Gate { signature, calls: AtomicUsize::new(0), reached: Mutex::new(reached), open: Mutex::new(is_open) };
    ctx.register_udf(ScalarUDF::from(gate));
    let late = tokio::spawn(late);
    tokio::task::spawn_blocking(move || has_reached.recv().unwrap()).await.unwrap();
    let other = Session::new(lake).await.unwrap();
    for sql in early {
        other.execute(sql).await.unwrap();
    }
    open.send(()).unwrap();
    late.await.unwrap()
}

async fn history(lake: &Lake) -> String {
    text(&host(lake), "SELECT version, read_version, rebased_over, reran FROM table_history('t') WHERE version > 2 ORDER BY version").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_statement_that_collides_is_run_again() {
    for late in [
        "UPDATE t SET v = gate(v) + 1 WHERE k = 1",
        "UPDATE t SET v = gate(v) + (SELECT count(*) FROM s) WHERE k = 1",
        "UPDATE t SET v = gate(v) + 1 WHERE k IN (SELECT k - 1 FROM s)",
        "UPDATE t AS x SET v = gate(x.v) + 1 WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = x.k) AND x.k <> 3",
        "MERGE INTO t USING (SELECT 1 AS k) AS q ON t.k = q.k WHEN MATCHED THEN UPDATE SET v = gate(v) + 1",
    ] {
        let lake = lake().await;
        let session = Arc::new(Session::new(&lake).await.unwrap());
        let ctx = session.context().clone();
        let run = async move { session.execute(late).await };
        let done = changed(collide(&lake, &ctx, &["UPDATE t SET v = 100 WHERE k = 1"], run).await);
        assert_eq!((done.counts.updated, done.facts.reran, done.version), (1, 1, Some(4)), "{late}");
        assert_eq!(text(&host(&lake), "SELECT * FROM t ORDER BY k").await, "1 101, 2 20, 3 30", "{late}");
        assert_eq!(history(&lake).await, "3 2 0 0, 4 3 0 1", "{late}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_statement_that_only_met_others_is_not_run_again() {
    let lake = lake().await;
    let session = Arc::new(Session::new(&lake).await.unwrap());
    let ctx = session.context().clone();
    let run = async move { session.execute("UPDATE t SET v = gate(v) + 1 WHERE k = 1").await };
    let early = ["UPDATE t SET v = 200 WHERE k = 2", "OPTIMIZE t FULL", "DELETE FROM t WHERE k = 3", "OPTIMIZE t FULL"];
    let done = changed(collide(&lake, &ctx, &early, run).await);
    assert_eq!((done.facts.reran, done.facts.rebased_over, done.facts.rows_carried, done.version), (0, 4, 2, Some(7)));
    assert_eq!(text(&host(&lake), "SELECT * FROM t ORDER BY k").await, "1 11, 2 200");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_row_that_is_gone_when_the_statement_runs_again_is_not_updated() {
    let lake = lake().await;
    let session = Arc::new(Session::new(&lake).await.unwrap());
    let ctx = session.context().clone();
    let run = async move { session.execute("UPDATE t SET v = gate(v) + 1 WHERE k <= 2").await };
    let done = changed(collide(&lake, &ctx, &["DELETE FROM t WHERE k = 1"], run).await);
    assert_eq!((done.counts.updated, done.facts.reran), (1, 1));
    assert_eq!(text(&host(&lake), "SELECT * FROM t ORDER BY k").await, "2 21, 3 30");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hosts_own_context_runs_again_too() {
    let lake = lake().await;
    let ctx = host(&lake);
    let late = ctx.clone();
    let run = async move { count(&late, "UPDATE t SET v = gate(v) + (SELECT count(*) FROM s) WHERE k = 1").await };
    assert_eq!(collide(&lake, &ctx, &["UPDATE t SET v = 100 WHERE k = 1"], run).await, 1);
    assert_eq!(text(&ctx, "SELECT * FROM t ORDER BY k").await, "1 101, 2 20, 3 30");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn how_often_is_bounded() {
    let lake = lake().await;
    let session = Arc::new(Session::new(&lake).await.unwrap());
    session.execute("SET amend.max_statement_attempts = 1").await.unwrap();
    let ctx = session.context().clone();
    let run = async move { session.execute("UPDATE t SET v = gate(v) + 1 WHERE k = 1").await };
    let error = collide(&lake, &ctx, &["UPDATE t SET v = 100 WHERE k = 1"], run).await.unwrap_err();
    assert_eq!(error.sqlstate(), "40001");
    let Error::Conflict(report) = error else { panic!("{error}") };
    assert_eq!((report.read_version, report.other_version), (2, 3));
    assert_eq!(report.other_statement, "UPDATE t SET v = 100 WHERE k = 1");
    assert_eq!(report.rows.len(), 1);
    assert_eq!(text(&host(&lake), "SELECT v FROM t WHERE k = 1").await, "100");
}

/// B20 at its full size: a thousand fragments of one row, updated a hundred times by eight threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn an_update_with_a_subquery_keeps_the_number_of_rows() {
    let lake = Lake::memory();
    let session = Session::with_config(&lake, SessionConfig::new().with_target_partitions(8)).await.unwrap();
    session.execute("SET amend.rows_per_fragment = 1").await.unwrap();
    session.execute("CREATE TABLE t AS SELECT value AS k, 0 AS v FROM generate_series(1, 1000)").await.unwrap();
    session.execute("CREATE TABLE m AS SELECT 42 AS k").await.unwrap();
    for _ in 0..100 {
        let done = changed(session.execute("UPDATE t SET v = v + 1 WHERE EXISTS (SELECT 1 FROM m WHERE m.k = t.k)").await);
        assert_eq!(done.counts.updated, 1);
    }
    let ctx = session.context();
    let rows = run(ctx, "SELECT count(*), count(DISTINCT k), sum(v) FROM t").await.unwrap();
    let values: Vec<i64> = rows[0].columns().iter().map(|column| column.as_primitive::<Int64Type>().value(0)).collect();
    assert_eq!(values, [1000, 1000, 100]);
}

#[tokio::test]
async fn changes_are_read_by_a_name_in_any_context() {
    let lake = lake().await;
    let ctx = host(&lake);
    assert_eq!(count(&ctx, "UPDATE t SET v = 21 WHERE k = 2").await, 1);
    let sql = r#"SELECT k, v, _change_type FROM "t@changes 3..3" ORDER BY v"#;
    assert_eq!(text(&ctx, sql).await, "2 20 update_preimage, 2 21 update_postimage");
    let refused = error(&ctx, "SELECT * FROM table_changes('t', 3, 3)").await;
    assert_eq!((refused.kind(), refused.sqlstate()), (ErrorKind::Unsupported, "0A000"));
    assert!(refused.to_string().contains("t@changes 3..5"), "{refused}");
    for (name, sqlstate) in [("t@changes 3", "42601"), ("t@changes x..", "42601"), ("t@changes 9..", "22023"), ("t@changes ..", "42601")] {
        assert_eq!(error(&ctx, &format!("SELECT * FROM \"{name}\"")).await.sqlstate(), sqlstate, "{name}");
    }
}
