//! Names: tables that are renamed, namespaces and views, where sessions, processes and hosts meet.

use crate::cancelled::Waiting;
use crate::shell::Pipe;
use crate::support::{lake_in, refused, rows, run, session_of, try_rows};
use amend::store::faults::{Answer, Fault, FaultStore, OpKind};
use amend::{Error, ErrorKind, Lake, Outcome, Session, TableName, install};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::execution::context::SessionContext;
use object_store::memory::InMemory;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn say(shell: &mut Pipe, sql: &str) -> Value {
    let answer = shell.ask(format!("{sql};"));
    assert_eq!(answer["ok"], json!(true), "{sql}: {answer}");
    answer
}

/// The SQLSTATE and the words of a statement that must fail.
fn fails(shell: &mut Pipe, sql: &str) -> (String, String) {
    let answer = shell.ask(format!("{sql};"));
    assert_eq!(answer["ok"], json!(false), "{sql}: {answer}");
    let text = |field: &str| answer["error"][field].as_str().unwrap().to_owned();
    (text("sqlstate"), text("message"))
}

#[test]
fn another_process_sees_new_names_at_once() {
    let folder = TempDir::new().unwrap();
    let (mut first, mut second) = (Pipe::open(&folder), Pipe::open(&folder));
    say(&mut first, "CREATE TABLE t (a BIGINT)");
    say(&mut first, "INSERT INTO t VALUES (1), (2)");
    say(&mut second, "PREPARE q AS SELECT sum(a) AS s FROM t");
    say(&mut second, "BEGIN");
    assert_eq!(say(&mut second, "DELETE FROM t WHERE a = 1")["count"], json!(1));

    say(&mut first, "ALTER TABLE t RENAME TO u");
    say(&mut first, "INSERT INTO u VALUES (3)");
    // The open transaction holds the table: by its new name it goes on, and lands there.
    assert_eq!(say(&mut second, "UPDATE u SET a = 20 WHERE a = 2")["count"], json!(1));
    say(&mut second, "COMMIT");
    for shell in [&mut first, &mut second] {
        assert_eq!(say(shell, "SELECT a FROM u ORDER BY a")["rows"], json!([[3], [20]]));
        assert_eq!(fails(shell, "SELECT a FROM t").0, "42P01");
    }
    assert_eq!(say(&mut second, "EXECUTE q")["rows"], json!([[23]]));

    say(&mut first, "CREATE SCHEMA s");
    say(&mut first, "ALTER TABLE u SET SCHEMA s");
    say(&mut first, "CREATE VIEW s.v AS SELECT a + 1 AS b FROM s.u");
    assert_eq!(say(&mut second, "SELECT b FROM s.v ORDER BY b")["rows"], json!([[4], [21]]));
    assert_eq!(say(&mut second, "UPDATE s.u SET a = 4 WHERE a = 3")["count"], json!(1));
    assert_eq!(say(&mut first, "SELECT b FROM s.v ORDER BY b")["rows"], json!([[5], [21]]));
    assert_eq!(say(&mut second, "SHOW TABLES")["rows"], json!([["datafusion", "s", "u", "BASE TABLE"], ["datafusion", "s", "v", "VIEW"]]));

    // A third one, that starts now, and plans the view before it has looked at anything.
    let mut third = Pipe::open(&folder);
    assert_eq!(say(&mut third, "SELECT b FROM s.v WHERE b = 5")["rows"], json!([[5]]));
    say(&mut third, "CREATE OR REPLACE VIEW s.v AS SELECT count(*) AS b FROM s.u");
    assert_eq!(say(&mut first, "SELECT b FROM s.v")["rows"], json!([[2]]));
    say(&mut third, "ALTER TABLE s.u RENAME TO gone");
    let (state, message) = fails(&mut first, "SELECT b FROM s.v");
    assert_eq!(state, "42P01");
    assert!(message.starts_with("view 's.v' cannot be read: table 's.u' does not exist"), "{message}");
    say(&mut third, "DROP SCHEMA s CASCADE");
    assert_eq!(fails(&mut first, "SELECT b FROM s.v").0, "42P01");
    for shell in [first, second, third] {
        assert_eq!(shell.end(), (vec![], Some(0)));
    }
}

#[tokio::test]
async fn a_renamed_table_keeps_its_folder_when_all_is_vacuumed() {
    let folder = TempDir::new().unwrap();
    let lake = Lake::open(folder.path()).unwrap();
    let session = Session::new(&lake).await.unwrap();
    for sql in [
        "CREATE TABLE t AS SELECT 1::BIGINT AS k, 2::BIGINT AS v",
        "CREATE SCHEMA s",
        "CREATE TABLE s.t CLONE t",
        "CREATE TABLE s.gone AS SELECT 1::BIGINT AS k",
        "ALTER TABLE t RENAME TO u",
        "ALTER TABLE s.t SET SCHEMA public",
        "DROP SCHEMA s CASCADE",
        "SET amend.allow_short_retention = true",
    ] {
        run(&session, sql).await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let Outcome::Rows(removed) = run(&session, "VACUUM RETAIN 0 HOURS").await else { panic!() };
    let paths: Vec<String> = removed
        .batches
        .iter()
        .flat_map(|batch| batch.column(0).as_string::<i32>().iter().flatten().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(!paths.is_empty() && paths.iter().all(|path| path.starts_with("tables/gone-")), "{paths:?}");
    let again = Session::new(&Lake::open(folder.path()).unwrap()).await.unwrap();
    for table in ["u", "t"] {
        assert_eq!(rows(&again, &format!("SELECT k, v FROM {table}")).await, [(1, 2)]);
    }
    // The folder has the name of the day on which the table was made.
    let folders: Vec<String> = std::fs::read_dir(folder.path().join("tables")).unwrap().map(|f| name_of(&f.unwrap().path())).collect();
    assert!(folders.len() == 2 && folders.iter().all(|name| name.starts_with("t-")), "{folders:?}");
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// Two handles on one lake that share nothing, as processes do, and that meet at every operation of the store.
async fn two_sessions() -> (Arc<InMemory>, Session, Session) {
    let objects = Arc::new(InMemory::new());
    let waiting = || lake_in(Arc::new(Waiting(objects.clone())));
    let (first, second) = (session_of(&waiting(), 1).await, session_of(&waiting(), 1).await);
    (objects, first, second)
}

#[tokio::test]
async fn changes_of_a_table_that_is_renamed_all_the_while_are_not_lost() {
    let (_objects, first, second) = two_sessions().await;
    run(&first, "CREATE TABLE a AS SELECT value AS k, value * 0 AS v FROM generate_series(1, 10)").await;
    let changes = async {
        let mut landed = 0;
        while landed < 30 {
            for name in ["a", "b"] {
                match second.execute(&format!("UPDATE {name} SET v = v + 1")).await {
                    Ok(_) => landed += 1,
                    Err(error) => assert_eq!(error.sqlstate(), "42P01", "{error}"),
                }
            }
        }
        landed
    };
    let renames = async {
        for (from, to) in [("a", "b"), ("b", "a")].into_iter().cycle().take(30) {
            run(&first, &format!("ALTER TABLE {from} RENAME TO {to}")).await;
            tokio::task::yield_now().await;
        }
    };
    let (landed, ()) = tokio::join!(changes, renames);
    assert_eq!(rows(&first, "SELECT k, v FROM a").await, (1..=10).map(|k| (k, landed)).collect::<Vec<_>>());
}

#[tokio::test]
async fn of_views_that_replace_one_another_the_last_one_counts() {
    let (objects, first, second) = two_sessions().await;
    let replace = async |session: &Session, from: i64| {
        for n in from..from + 20 {
            run(session, &format!("CREATE OR REPLACE VIEW v AS SELECT {n}::BIGINT AS k, {n}::BIGINT AS v")).await;
            let seen = rows(session, "SELECT k, v FROM v").await;
            assert!(seen.len() == 1 && seen[0].0 == seen[0].1, "{seen:?}");
            run(session, &format!("CREATE VIEW v{n} AS SELECT k, v FROM v")).await;
        }
    };
    tokio::join!(replace(&first, 100), replace(&second, 200));
    let last = rows(&first, "SELECT k, v FROM v").await;
    assert!(last == [(119, 119)] || last == [(219, 219)], "{last:?}");
    let third = session_of(&lake_in(objects), 1).await;
    for n in (100..120).chain(200..220) {
        assert_eq!(rows(&third, &format!("SELECT k, v FROM v{n}")).await, last);
    }
}

#[tokio::test]
async fn a_table_is_never_left_in_a_schema_that_was_dropped() {
    let (objects, first, second) = two_sessions().await;
    for round in 0..60 {
        run(&first, "CREATE SCHEMA IF NOT EXISTS s").await;
        let drop_later = async {
            for _ in 0..round {
                tokio::task::yield_now().await;
            }
            first.execute("DROP SCHEMA s").await
        };
        let (made, dropped) = tokio::join!(second.execute("CREATE TABLE s.t AS SELECT 1::BIGINT AS k, 1::BIGINT AS v"), drop_later);
        let fresh = session_of(&lake_in(objects.clone()), 1).await;
        match (made, dropped) {
            (Ok(_), Err(error)) => {
                assert_eq!(error.sqlstate(), "2BP01", "{round}");
                assert_eq!(rows(&fresh, "SELECT k, v FROM s.t").await, [(1, 1)]);
                run(&first, "DROP SCHEMA s CASCADE").await;
            }
            (Err(error), Ok(_)) => {
                assert_eq!(error.sqlstate(), "3F000", "{round}");
                assert_eq!(try_rows(&fresh, "SELECT k, v FROM s.t").await.unwrap_err().sqlstate(), "42P01");
            }
            other => panic!("{other:?}"),
        }
    }
    // Whoever says IF NOT EXISTS does not mind being second.
    let (one, two) = tokio::join!(first.execute("CREATE SCHEMA IF NOT EXISTS x"), second.execute("CREATE SCHEMA IF NOT EXISTS x"));
    assert!(one.is_ok() && two.is_ok(), "{one:?} {two:?}");
}

#[tokio::test]
async fn whoever_says_if_exists_does_not_mind_that_another_drops_first() {
    let (_objects, first, second) = two_sessions().await;
    let mut met = 0;
    for round in 0..40 {
        for sql in ["CREATE TABLE t (k BIGINT)", "CREATE TABLE u (k BIGINT)", "CREATE VIEW v AS SELECT 1 AS one"] {
            run(&first, sql).await;
        }
        for (one, two) in [("DROP TABLE t", "DROP TABLE IF EXISTS t, u"), ("DROP VIEW v", "DROP VIEW IF EXISTS v")] {
            let drop_later = async {
                for _ in 0..round {
                    tokio::task::yield_now().await;
                }
                second.execute(two).await
            };
            let (one, two) = tokio::join!(first.execute(one), drop_later);
            assert!(two.is_ok(), "{round}: {two:?}");
            // Without IF EXISTS it may be told that there is none.
            met += usize::from(one.is_err_and(|error| error.sqlstate() == "42P01"));
        }
        for table in ["t", "u", "v"] {
            assert_eq!(refused(&first, &format!("SELECT * FROM {table}")).await.sqlstate(), "42P01", "{round}");
        }
    }
    assert!(met > 0);
    let names = |names: &[&str]| names.iter().map(|name| TableName::from(*name)).collect();
    run(&first, "CREATE TABLE t (k BIGINT)").await;
    assert_eq!(first.lake().drop_tables(&names(&["gone", "t"]), false).await.unwrap_err().sqlstate(), "42P01");
    first.lake().drop_tables(&names(&["gone", "t"]), true).await.unwrap();
    assert_eq!(refused(&first, "DROP TABLE t").await.sqlstate(), "42P01");
}

#[tokio::test]
async fn a_view_of_the_session_stays_until_one_of_the_lake_is_there() {
    let objects = FaultStore::new(Arc::new(InMemory::new()));
    let session = session_of(&lake_in(Arc::new(objects.clone())), 1).await;
    run(&session, "CREATE TABLE t AS SELECT 1::BIGINT AS k, 2::BIGINT AS v").await;
    run(&session, "CREATE TEMPORARY VIEW w AS SELECT v AS k, k AS v FROM t").await;
    let replace = "CREATE OR REPLACE VIEW w AS SELECT k, v FROM t";
    // As often as a change of the catalog tries.
    for n in 0..5 {
        objects.fail_on(OpKind::Create, "_catalog/", n, Fault::Before(Answer::Generic));
    }
    refused(&session, replace).await;
    assert_eq!(rows(&session, "SELECT k, v FROM w").await, [(2, 1)]);
    run(&session, replace).await;
    assert_eq!(rows(&session, "SELECT k, v FROM w").await, [(1, 2)]);
    // The other one is gone.
    run(&session, "DROP VIEW w").await;
    assert_eq!(refused(&session, "SELECT k, v FROM w").await.sqlstate(), "42P01");
}

#[tokio::test]
async fn views_may_read_one_another_32_deep() {
    let objects = Arc::new(InMemory::new());
    let session = session_of(&lake_in(objects.clone()), 1).await;
    run(&session, "CREATE TABLE t AS SELECT value AS k, value AS v FROM generate_series(1, 40)").await;
    for level in 1..=32 {
        let below = if level == 1 { "t".to_owned() } else { format!("v{}", level - 1) };
        run(&session, &format!("CREATE VIEW v{level} AS SELECT k, v FROM {below} WHERE k <> {level}")).await;
    }
    let expected: Vec<_> = (33..=40).map(|k| (k, k)).collect();
    assert_eq!(rows(&session, "SELECT k, v FROM v32").await, expected);
    assert_eq!(numbers(&host(&lake_in(objects)), "SELECT k FROM v32 ORDER BY k").await.len(), expected.len());
    assert_eq!(refused(&session, "CREATE VIEW v33 AS SELECT k, v FROM v32").await.sqlstate(), "42P17");
    run(&session, "CREATE VIEW v33 AS SELECT k, v FROM v31").await;
}

/// A host that only has a lake and a `SessionContext`.
fn host(lake: &Lake) -> SessionContext {
    let ctx = SessionContext::new_with_config(datafusion::prelude::SessionConfig::new().with_information_schema(true));
    install(&ctx, lake).unwrap();
    ctx
}

async fn numbers(ctx: &SessionContext, sql: &str) -> Vec<i64> {
    let batches = ctx.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}")).collect().await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

async fn texts(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
    let text = |batch: &datafusion::arrow::array::RecordBatch| {
        let column = datafusion::arrow::compute::cast(batch.column(0), &datafusion::arrow::datatypes::DataType::Utf8).unwrap();
        column.as_string::<i32>().iter().map(|text| text.unwrap().to_owned()).collect::<Vec<_>>()
    };
    batches.iter().flat_map(text).collect()
}

async fn error_of(ctx: &SessionContext, sql: &str) -> Error {
    match ctx.sql(sql).await {
        Err(error) => error.into(),
        Ok(frame) => frame.collect().await.unwrap_err().into(),
    }
}

#[tokio::test]
async fn a_host_reads_and_changes_what_is_in_namespaces_and_reads_views() {
    let objects = Arc::new(InMemory::new());
    let session = session_of(&lake_in(objects.clone()), 1).await;
    for sql in [
        "CREATE SCHEMA s",
        "CREATE TABLE s.t AS SELECT value AS k FROM generate_series(1, 3)",
        "CREATE VIEW s.v AS SELECT k * 10 AS k FROM s.t",
        "CREATE VIEW v AS SELECT k FROM s.v WHERE k > 10",
    ] {
        run(&session, sql).await;
    }
    // Nothing was looked at before.
    for sql in ["SELECT k FROM s.t ORDER BY k", "SELECT k / 10 FROM s.v ORDER BY k"] {
        assert_eq!(numbers(&host(&lake_in(objects.clone())), sql).await, [1, 2, 3], "{sql}");
    }
    let ctx = host(&lake_in(objects.clone()));
    assert_eq!(numbers(&ctx, "SELECT k FROM v ORDER BY k").await, [20, 30]);
    ctx.sql("UPDATE s.t SET k = k + 1 WHERE k = 3").await.unwrap().collect().await.unwrap();
    ctx.sql("INSERT INTO s.t VALUES (7)").await.unwrap().collect().await.unwrap();
    assert_eq!(numbers(&ctx, "SELECT k FROM v ORDER BY k").await, [20, 40, 70]);
    assert_eq!(numbers(&ctx, "SELECT count(*) FROM table_history('s.t')").await, [3]);
    assert_eq!(numbers(&ctx, r#"SELECT count(*) FROM s."t@v1""#).await, [3]);
    let names =
        "SELECT table_schema || '.' || table_name FROM information_schema.tables WHERE table_schema <> 'information_schema' ORDER BY 1";
    assert_eq!(texts(&ctx, names).await, ["public.v", "s.t", "s.v"]);

    // Tables and schemas of the host live beside.
    ctx.sql("CREATE SCHEMA own").await.unwrap();
    ctx.sql("CREATE TABLE own.t AS SELECT 5::BIGINT AS k").await.unwrap().collect().await.unwrap();
    ctx.sql("CREATE VIEW s.w AS SELECT k FROM own.t").await.unwrap().collect().await.unwrap();
    assert_eq!(numbers(&ctx, "SELECT own.t.k FROM own.t JOIN s.w ON own.t.k = s.w.k").await, [5]);
    assert!(error_of(&ctx, "DROP SCHEMA s CASCADE").await.to_string().contains("dropping schema 's' of a lake here"));
    error_of(&ctx, "DROP VIEW v").await;
    assert_eq!(numbers(&ctx, "SELECT count(*) FROM v").await, [3]);
    assert_eq!(error_of(&ctx, "DELETE FROM v").await.kind(), ErrorKind::Unsupported);

    // A view whose table is gone is still listed, and an error where it is read.
    run(&session, "DROP TABLE s.t").await;
    assert_eq!(
        texts(&ctx, "SELECT table_name FROM information_schema.views WHERE definition IS NOT NULL AND table_schema = 's' ORDER BY 1").await,
        ["v", "w"]
    );
    let error = error_of(&ctx, "SELECT * FROM v").await.to_string();
    assert!(error.contains("view 'v' cannot be read: view 's.v' cannot be read: table 's.t' does not exist"), "{error}");
    assert_eq!(session.lake().namespaces().await.unwrap(), ["public", "s"]);
    assert_eq!(session.lake().table(TableName::new("s", "t")).await.unwrap_err().sqlstate(), "42P01");
    assert_eq!(refused(&session, "SELECT k FROM own.t").await.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn settings_of_names_and_of_the_parser_travel_with_a_view() {
    let objects = Arc::new(InMemory::new());
    let config = || datafusion::prelude::SessionConfig::new().with_default_catalog_and_schema("here", "s");
    let other = Session::with_config(&lake_in(objects.clone()), config()).await.unwrap();
    run(&other, "CREATE SCHEMA s").await;
    run(&other, "CREATE TABLE t AS SELECT 1::BIGINT AS k, 2::BIGINT AS v").await;
    run(&other, "CREATE VIEW v AS SELECT k, v FROM t").await;
    assert_eq!(rows(&other, "SELECT k, v FROM here.s.v").await, [(1, 2)]);
    // In another session the catalog has another name.
    let session = session_of(&lake_in(objects), 1).await;
    assert_eq!(rows(&session, "SELECT k, v FROM s.v").await, [(1, 2)]);
    run(&session, "DROP TABLE s.t").await;
    assert_eq!(refused(&other, "SELECT k, v FROM v").await.sqlstate(), "42P01");
}
