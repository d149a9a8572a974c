//! Several processes on one lake: compactions and changes that meet, a stress of sessions that all change, compact and vacuum at
//! once, and processes that are killed. `AMEND_STRESS_SECONDS=600` is how long the stress lasts.

use crate::shell::Pipe;
use crate::support::{Row, assert_exact, assert_nothing_left_behind, change, rows, run, session_of};
use amend::{Changed, Lake, Outcome, Session};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Says a statement that must succeed, and gives the answer.
fn say(shell: &mut Pipe, sql: &str) -> Value {
    let answer = shell.ask(format!("{sql};"));
    assert_eq!(answer["ok"], json!(true), "{sql}: {answer}");
    answer
}

/// A shell with a table of so many fragments of three rows, and another shell on the same lake.
fn shells(lake: &TempDir, fragments: i64) -> (Pipe, Pipe) {
    let (mut first, mut second) = (Pipe::open(lake), Pipe::open(lake));
    say(&mut first, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)");
    say(&mut first, "SET amend.rows_per_fragment = 3");
    say(&mut first, &format!("INSERT INTO t SELECT value AS k, value * 10 AS v FROM generate_series(0, {})", fragments * 3 - 1));
    say(&mut first, "SET amend.rows_per_fragment = 1000000");
    assert_eq!(say(&mut second, "SELECT count(*) AS n FROM t")["rows"], json!([[fragments * 3]]));
    (first, second)
}

fn expected(fragments: i64, updated: i64, deleted: i64) -> Value {
    let rows = (0..fragments * 3).filter(|k| *k != deleted).map(|k| json!([k, if k == updated { -1 } else { k * 10 }]));
    Value::Array(rows.collect())
}

#[test]
fn a_compaction_of_one_process_carries_the_changes_of_another() {
    for fragments in [1, 3, 40] {
        let last = fragments * 3 - 1;
        for (updated, deleted) in [(0, last), (last, 0), (1, 2)] {
            let lake = TempDir::new().unwrap();
            let (mut first, mut second) = shells(&lake, fragments);
            say(&mut first, "BEGIN");
            assert_eq!(say(&mut first, "OPTIMIZE t FULL")["count"], json!(fragments * 3));
            assert_eq!(say(&mut second, &format!("UPDATE t SET v = -1 WHERE k = {updated}"))["count"], json!(1));
            assert_eq!(say(&mut second, &format!("DELETE FROM t WHERE k = {deleted}"))["count"], json!(1));
            let committed = say(&mut first, "COMMIT");
            assert_eq!((&committed["version"], &committed["rebased_over"]), (&json!(5), &json!(2)), "{committed}");
            assert_eq!(committed["rows_carried"], json!(2), "{committed}");
            for shell in [&mut first, &mut second] {
                let found = say(shell, "SELECT k, v FROM t ORDER BY k");
                assert_eq!(found["rows"], expected(fragments, updated, deleted), "{fragments} fragments");
            }
            assert_eq!((first.end(), second.end()), ((vec![], Some(0)), (vec![], Some(0))));
        }
    }
}

#[test]
fn changes_of_one_process_follow_the_compactions_of_another() {
    for fragments in [1, 3, 40] {
        let last = fragments * 3 - 1;
        for (updated, deleted) in [(0, last), (last, 0), (1, 2)] {
            let lake = TempDir::new().unwrap();
            let (mut first, mut second) = shells(&lake, fragments);
            say(&mut first, "BEGIN");
            say(&mut first, &format!("UPDATE t SET v = -1 WHERE k = {updated}"));
            say(&mut first, &format!("DELETE FROM t WHERE k = {deleted}"));
            say(&mut second, "OPTIMIZE t FULL");
            say(&mut second, "OPTIMIZE t FULL");
            let committed = say(&mut first, "COMMIT");
            assert_eq!((&committed["version"], &committed["rebased_over"]), (&json!(5), &json!(2)), "{committed}");
            assert_eq!(committed["rows_carried"], json!(4), "{committed}");
            for shell in [&mut first, &mut second] {
                let found = say(shell, "SELECT k, v FROM t ORDER BY k");
                assert_eq!(found["rows"], expected(fragments, updated, deleted), "{fragments} fragments");
            }
        }
    }
}

#[test]
fn transactions_of_two_processes_that_change_one_row_do_not_both_land() {
    let lake = TempDir::new().unwrap();
    let (mut first, mut second) = shells(&lake, 3);
    for shell in [&mut first, &mut second] {
        say(shell, "BEGIN");
        say(shell, "UPDATE t SET v = v + 1 WHERE k = 4");
    }
    say(&mut first, "COMMIT");
    let refused = second.ask("COMMIT;");
    assert_eq!((&refused["ok"], &refused["error"]["sqlstate"]), (&json!(false), &json!("40001")), "{refused}");
    // A statement by itself is run again instead.
    say(&mut second, "BEGIN");
    say(&mut second, "UPDATE t SET v = v + 1 WHERE k = 4");
    say(&mut second, "COMMIT");
    assert_eq!(say(&mut first, "SELECT v FROM t WHERE k = 4")["rows"], json!([[42]]));
}

/// Sessions of each process.
const SESSIONS: u64 = 4;
const PROCESSES: u64 = 4;
/// How long they go on, unless `AMEND_STRESS_SECONDS` says otherwise, and how many statements each says at least.
const SECONDS: u64 = 8;
const ROUNDS: i64 = 8;
/// How much VACUUM keeps meanwhile, in hours: 36 seconds.
const KEPT_HOURS: &str = "0.01";
/// Rows of each session at the beginning.
const ROWS: i64 = 60;

/// One of the processes of the stress. Each session changes only rows whose key, divided by the number of all sessions,
/// leaves its own number, so that what it holds to be true of them must be true whatever the others do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a part of the stress, which starts it as a process of its own"]
async fn stress_worker() {
    let Ok(folder) = std::env::var("AMEND_STRESS_LAKE") else { return };
    let lake = Lake::open(folder).unwrap();
    let worker: u64 = std::env::var("AMEND_STRESS_WORKER").unwrap().parse().unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let compacting = tokio::spawn(compact(lake.clone(), done.clone()));
    let vacuuming = tokio::spawn(vacuum(lake.clone(), done.clone()));
    let sessions = (0..SESSIONS).map(|session| tokio::spawn(work(lake.clone(), worker * SESSIONS + session)));
    let mut reports = Vec::new();
    for session in sessions.collect::<Vec<_>>() {
        reports.push(session.await.unwrap());
    }
    done.store(true, Ordering::Release);
    let (compactions, removed) = (compacting.await.unwrap(), vacuuming.await.unwrap());
    println!("REPORT {}", json!({ "sessions": reports, "compactions": compactions, "removed": removed }));
}

/// Removes what is older than any statement of the other processes lasts, until the others are done.
async fn vacuum(lake: Lake, done: Arc<AtomicBool>) -> usize {
    let session = session_of(&lake, 1).await;
    run(&session, "SET amend.allow_short_retention = true").await;
    let mut removed = 0;
    while !done.load(Ordering::Acquire) {
        removed += removed_by(&session, &format!("VACUUM t RETAIN {KEPT_HOURS} HOURS")).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    removed
}

/// How many objects a VACUUM removes.
async fn removed_by(session: &Session, sql: &str) -> usize {
    match run(session, sql).await {
        Outcome::Rows(rows) => rows.batches.iter().map(|batch| batch.num_rows()).sum(),
        other => panic!("{sql}: {other:?}"),
    }
}

/// Compacts until the others are done; nobody is in its way for good.
async fn compact(lake: Lake, done: Arc<AtomicBool>) -> Value {
    let session = session_of(&lake, 2).await;
    let (mut landed, mut dropped, mut carried) = (0, 0, 0);
    for round in 0.. {
        if done.load(Ordering::Acquire) {
            break;
        }
        run(&session, &format!("SET amend.rows_per_fragment = {}", [1_000_000, 50, 200][round % 3])).await;
        let sql = ["OPTIMIZE t", "OPTIMIZE t FULL", "OPTIMIZE t FULL ORDER BY (v DESC)", "OPTIMIZE t", "OPTIMIZE t FULL ZORDER BY (k, v)"];
        let compacted = change(&session, sql[round % sql.len()]).await;
        landed += u64::from(compacted.version.is_some());
        dropped += u64::from(compacted.facts.groups_dropped);
        carried += compacted.facts.rows_carried;
    }
    json!({ "landed": landed, "dropped": dropped, "carried": carried })
}

/// One session's statements; returns what its rows must be, and the versions that it made.
async fn work(lake: Lake, own: u64) -> Value {
    let all = PROCESSES * SESSIONS;
    let session = session_of(&lake, 1 + (own % 2) as usize).await;
    let mut model: BTreeMap<i64, i64> = (0..ROWS).map(|row| (row * all as i64 + own as i64, 0)).collect();
    let mut next = ROWS;
    let mut versions = Vec::new();
    let (mut carried, mut over) = (0, 0);
    let seconds = std::env::var("AMEND_STRESS_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(SECONDS);
    let begun = Instant::now();
    for round in 0.. {
        if round >= ROUNDS && begun.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        let mine = format!("k % {all} = {own}");
        let part = format!("{mine} AND k / {all} % 5 = {}", round % 5);
        let in_part = |k: i64| k / all as i64 % 5 == round % 5;
        let mut note = |changed: Changed| {
            assert_eq!(changed.facts.reran, 0, "nobody else changes these rows: {changed:?}");
            carried += changed.facts.rows_carried;
            over += changed.facts.rebased_over;
            versions.extend(changed.version);
            changed.counts
        };
        match round % 8 {
            0 | 3 | 6 => {
                let counts = note(change(&session, &format!("UPDATE t SET v = v + {round} WHERE {part}")).await);
                let rows = model.iter_mut().filter(|(k, _)| in_part(**k));
                assert_eq!(counts.updated, rows.map(|(_, v)| *v += round).count() as u64);
            }
            1 | 5 => {
                let victim = *model.keys().nth(round as usize % model.len()).unwrap();
                assert_eq!(note(change(&session, &format!("DELETE FROM t WHERE k = {victim}")).await).deleted, 1);
                model.remove(&victim);
            }
            2 => {
                let (first, second) = (next * all as i64 + own as i64, (next + 1) * all as i64 + own as i64);
                next += 2;
                note(change(&session, &format!("INSERT INTO t VALUES ({first}, {round}), ({second}, {round})")).await);
                model.extend([(first, round), (second, round)]);
            }
            4 => {
                let known = *model.keys().next_back().unwrap();
                let new = next * all as i64 + own as i64;
                next += 1;
                let merge = format!(
                    "MERGE INTO t USING (VALUES ({known}, 1000), ({new}, {round})) AS s (k, v) ON t.k = s.k \
                     WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)"
                );
                let counts = note(change(&session, &merge).await);
                assert_eq!((counts.updated, counts.inserted), (1, 1));
                *model.get_mut(&known).unwrap() += 1000;
                model.insert(new, round);
            }
            _ => {
                let victim = *model.keys().next().unwrap();
                run(&session, "BEGIN").await;
                change(&session, &format!("DELETE FROM t WHERE k = {victim}")).await;
                change(&session, &format!("UPDATE t SET v = 1 - v WHERE {part}")).await;
                note(change(&session, "COMMIT").await);
                model.remove(&victim);
                model.iter_mut().filter(|(k, _)| in_part(**k)).for_each(|(_, v)| *v = 1 - *v);
            }
        }
        let found = rows(&session, &format!("SELECT k, v FROM t WHERE {mine}")).await;
        assert!(found == model.iter().map(|(k, v)| (*k, *v)).collect::<Vec<Row>>(), "session {own}, round {round}");
    }
    let rows: Vec<Row> = model.into_iter().collect();
    json!({ "rows": rows, "versions": versions, "carried": carried, "over": over })
}

/// Runs an ignored test of this file as so many processes at once, and gives what each reports.
fn in_processes(test: &str, lake: &Path) -> Vec<Value> {
    let start = |worker: u64| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("processes::{test}"), "--ignored", "--nocapture"]).stdout(Stdio::piped());
        command.env("AMEND_STRESS_LAKE", lake).env("AMEND_STRESS_WORKER", worker.to_string()).spawn().unwrap()
    };
    let workers: Vec<_> = (0..PROCESSES).map(start).collect();
    let report = |worker: std::process::Child| {
        let output = worker.wait_with_output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{told}");
        let report = told.lines().find_map(|line| line.split_once("REPORT ")).unwrap_or_else(|| panic!("{told}")).1;
        serde_json::from_str(report).unwrap()
    };
    workers.into_iter().map(report).collect()
}

#[tokio::test]
async fn four_processes_of_four_sessions_change_and_compact_one_table_at_once() {
    let folder = TempDir::new().unwrap();
    let lake = Lake::open(folder.path()).unwrap();
    let session = session_of(&lake, 1).await;
    let all = (PROCESSES * SESSIONS) as i64;
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
    run(&session, "SET amend.rows_per_fragment = 100").await;
    change(&session, &format!("INSERT INTO t SELECT value AS k, 0 AS v FROM generate_series(0, {})", ROWS * all - 1)).await;

    let begun = Instant::now();
    let (mut expected, mut versions, mut totals) = (Vec::<Row>::new(), Vec::<u64>::new(), Vec::new());
    for report in in_processes("stress_worker", folder.path()) {
        for session in report["sessions"].as_array().unwrap() {
            expected.extend(serde_json::from_value::<Vec<Row>>(session["rows"].clone()).unwrap());
            versions.extend(serde_json::from_value::<Vec<u64>>(session["versions"].clone()).unwrap());
            totals.push(json!([session["carried"], session["over"]]));
        }
        assert!(report["compactions"]["landed"].as_u64().unwrap() > 0, "{report}");
        totals.push(report["compactions"].clone());
    }
    let took = begun.elapsed();
    expected.sort_unstable();

    let lake = Lake::open(folder.path()).unwrap();
    let session = session_of(&lake, 1).await;
    assert!(rows(&session, "SELECT k, v FROM t").await == expected);
    // Each statement is in one version, and none is in two.
    let log = lake.table("t").await.unwrap();
    let newest = log.newest_number().await.unwrap();
    let mark = log.read(newest).await.unwrap().snapshot.low_water_mark.max(1);
    let (mut ids, mut by_others) = (BTreeSet::new(), 0);
    for number in mark..=newest {
        let version = log.read(number).await.unwrap();
        for committed in &version.transactions {
            assert!(ids.insert(committed.transaction.id), "version {number}");
            by_others +=
                u64::from(committed.transaction.steps.iter().any(|step| ["OPTIMIZE", "VACUUM"].contains(&step.operation.as_str())));
        }
    }
    let kept = versions.iter().filter(|version| **version >= mark).count() as u64;
    assert_eq!(ids.len() as u64, kept + by_others + if mark == 1 { 2 } else { u64::from(mark == 2) });
    assert!(versions.iter().all(|version| (3..=newest).contains(version)));
    println!("{newest} versions, {by_others} of them compactions or by VACUUM, in {took:?}: {totals:?}");
    // What only versions named that are gone may not have been old enough.
    if mark == 1 {
        assert_nothing_left_behind(&lake, "t", "the stress").await;
    }
    // Afterwards there are the files of the newest version, and of the one before it, of which the mark is.
    run(&session, "SET amend.allow_short_retention = true").await;
    assert!(removed_by(&session, "VACUUM t RETAIN 0 HOURS").await > 0);
    assert_exact(&log, "a VACUUM after the stress").await;
    assert!(rows(&session, "SELECT k, v FROM t").await == expected);
    assert_eq!(removed_by(&session, "VACUUM t RETAIN 0 HOURS").await, 0);
}

#[tokio::test]
async fn a_process_that_is_killed_has_done_what_it_told_and_nothing_by_halves() {
    let folder = TempDir::new().unwrap();
    let mut other = Pipe::open(&folder);
    say(&mut other, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)");
    let mut acknowledged = 0;
    for round in 0..12 {
        let from = (round + 1) * 1000;
        let mut victim = Pipe::open(&folder);
        say(&mut victim, "SELECT count(*) AS n FROM t");
        for k in 0..200 {
            victim.send(format!("INSERT INTO t VALUES ({}, {k});", from + k));
            if k % 5 == 4 {
                victim.send("OPTIMIZE t;");
            }
        }
        tokio::time::sleep(Duration::from_millis(20 + 37 * round as u64)).await;
        let answers = victim.kill();
        assert!(answers.iter().all(|answer| answer.starts_with("{\"ok\":true,")), "{answers:?}");
        // Every sixth answer is that of a compaction.
        let told = answers.len() as i64 - answers.len() as i64 / 6;
        acknowledged += told;
        let session = session_of(&Lake::open(folder.path().join("lake")).unwrap(), 1).await;
        let rows = rows(&session, &format!("SELECT k, v FROM t WHERE k >= {from} AND k < {}", from + 1000)).await;
        let found = rows.len() as i64;
        assert_eq!(rows, (0..found).map(|k| (from + k, k)).collect::<Vec<Row>>());
        assert!(found == told || found == told + 1, "{told} were told, {found} are there: {answers:?}");
        // The others go on as if nothing had happened.
        assert_eq!(say(&mut other, &format!("INSERT INTO t VALUES ({round}, 0)"))["count"], json!(1));
    }
    assert!(acknowledged > 20, "{acknowledged}");
    say(&mut other, "OPTIMIZE t FULL");
    assert_eq!(say(&mut other, "SELECT count(*) AS n FROM t WHERE k < 1000")["rows"], json!([[12]]));
}

/// One of the processes that all change the same two rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a part of a test, which starts it as a process of its own"]
async fn counting_worker() {
    let Ok(folder) = std::env::var("AMEND_STRESS_LAKE") else { return };
    let lake = Lake::open(folder).unwrap();
    let count = |lake: Lake, session: u64| async move {
        let session_context = session_of(&lake, 1).await;
        run(&session_context, "SET amend.max_statement_attempts = 1000").await;
        let mut reran = 0;
        for round in 0..10 {
            let sql = match (session + round) % 3 {
                0 => "UPDATE t SET v = v + 1 WHERE k = 0",
                1 => "UPDATE t SET v = v + 1 WHERE v = (SELECT max(v) FROM t)",
                _ => "MERGE INTO t USING (VALUES (0)) AS s (k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = t.v + 1",
            };
            let changed = change(&session_context, sql).await;
            assert_eq!(changed.counts.updated, 1, "{sql}");
            reran += changed.facts.reran;
            if round % 7 == session {
                run(&session_context, "OPTIMIZE t FULL").await;
            }
        }
        reran
    };
    let sessions: Vec<_> = (0..SESSIONS).map(|session| tokio::spawn(count(lake.clone(), session))).collect();
    let mut reran = 0;
    for session in sessions {
        reran += session.await.unwrap();
    }
    println!("REPORT {}", json!({ "reran": reran }));
}

#[tokio::test]
async fn no_update_of_a_row_that_all_want_is_lost() {
    let folder = TempDir::new().unwrap();
    let lake = Lake::open(folder.path()).unwrap();
    let session = session_of(&lake, 1).await;
    run(&session, "CREATE TABLE t (k BIGINT NOT NULL, v BIGINT NOT NULL)").await;
    change(&session, "INSERT INTO t VALUES (0, 0), (1, -1000000), (2, -1000000)").await;
    let reports = in_processes("counting_worker", folder.path());
    let total = (PROCESSES * SESSIONS * 10) as i64;
    assert_eq!(rows(&session, "SELECT k, v FROM t").await, [(0, total), (1, -1_000_000), (2, -1_000_000)]);
    let reran: u64 = reports.iter().map(|report| report["reran"].as_u64().unwrap()).sum();
    assert!(reran > 0, "the processes never met");
    println!("{total} updates of one row, run again {reran} times");
    assert_nothing_left_behind(&lake, "t", "updates of one row").await;
}
