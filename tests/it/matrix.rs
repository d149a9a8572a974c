//! Every statement against every other: ours read the table, theirs lands, then ours does. What it comes to is the table in
//! `docs/concurrency.md`, which is made here and held against the document, and the files of `slt/concurrency/matrix`;
//! `AMEND_WRITE_MATRIX=1` writes both.
//!
//! ```text
//!   for each pair, on rows (or columns) apart and on the same:
//!     theirs; ours   and   ours; theirs      one after the other: what may come of both
//!     ours by itself, held just before it creates its version, while theirs lands
//!     ours in a transaction, BEGIN before theirs and COMMIT after it
//! ```
//!
//! Always holds: what is in the table afterwards is what one of the two orders comes to; a statement by itself fails only
//! where it would fail after theirs; a transaction fails only where a statement by itself is run again.

mod gate;
mod readable;
mod statements;

use crate::support::{lake_in, session_of};
use amend::{Error, Lake, Outcome, Session};
use datafusion::arrow::util::pretty::pretty_format_batches;
use gate::Gate;
use object_store::memory::InMemory;
use statements::{STATEMENTS, Side, Statement};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/concurrency.md");
const BEGIN: &str = "<!-- matrix: written by tests/it/matrix.rs -->\n";
const END: &str = "<!-- end of matrix -->\n";

/// What became of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    /// Nothing had to be done.
    Commutes,
    /// Rows were followed through a map, or vectors united.
    Carried,
    /// Groups of a rewrite were given up.
    Dropped,
    /// Run again; in a transaction 40001.
    Again,
    /// An error, as it would be after theirs.
    Refused,
}

impl Cell {
    fn word(self) -> &'static str {
        match self {
            Cell::Commutes => "commutes",
            Cell::Carried => "carried",
            Cell::Dropped => "dropped",
            Cell::Again => "again",
            Cell::Refused => "refused",
        }
    }
}

/// The table that pairs meet on.
async fn prepared() -> Arc<InMemory> {
    let objects = Arc::new(InMemory::new());
    let session = session_of(&lake_in(objects.clone()), 1).await;
    for sql in [readable::ROWS_PER_FRAGMENT].iter().chain(&readable::PREPARATION) {
        session.execute(sql).await.unwrap();
    }
    objects
}

async fn session_for(lake: &Lake, statement: &Statement) -> Session {
    let session = session_of(lake, 1).await;
    for setting in statement.settings {
        session.execute(setting).await.unwrap();
    }
    session
}

/// The columns and rows of the table.
async fn contents(objects: &Arc<InMemory>) -> String {
    let session = session_of(&lake_in(objects.clone()), 1).await;
    let Outcome::Rows(rows) = session.execute("SELECT * FROM t ORDER BY k, v").await.unwrap() else { panic!("no rows") };
    let names: Vec<&String> = rows.schema.fields().iter().map(|field| field.name()).collect();
    let properties = session.execute("SELECT * FROM table_properties('t') ORDER BY name").await.unwrap();
    let Outcome::Rows(properties) = properties else { panic!("no rows") };
    let constraints = session.execute("SELECT * FROM table_constraints('t') ORDER BY name").await.unwrap();
    let Outcome::Rows(constraints) = constraints else { panic!("no rows") };
    let text = |batches| pretty_format_batches(batches).unwrap().to_string();
    format!("{names:?}\n{}\n{}\n{}", text(&rows.batches), text(&properties.batches), text(&constraints.batches))
}

/// Both one after the other: what the table is then, and whether the second failed.
async fn serially(first: (&Statement, Side), second: (&Statement, Side)) -> (String, bool) {
    let objects = prepared().await;
    let lake = lake_in(objects.clone());
    let mut failed = false;
    for (at, (statement, side)) in [first, second].into_iter().enumerate() {
        let outcome = session_for(&lake, statement).await.execute(&statement.sql(side)).await;
        assert!(at == 1 || outcome.is_ok(), "{}: {outcome:?}", statement.sql(side));
        failed |= outcome.is_err();
    }
    (contents(&objects).await, failed)
}

/// Ours by itself, theirs landing just before it creates its version.
async fn by_itself(ours: &Statement, side: Side, theirs: &Statement) -> (Result<Outcome, Error>, String) {
    let objects = prepared().await;
    let gate = Arc::new(Gate::new(objects.clone()));
    let session = session_for(&lake_in(gate.clone()), ours).await;
    let sql = ours.sql(side);
    let mut running = tokio::spawn(async move { session.execute(&sql).await });
    let early = tokio::select! {
        () = gate.reached() => None,
        // It had nothing to change.
        outcome = &mut running => Some(outcome.unwrap()),
    };
    session_for(&lake_in(objects.clone()), theirs).await.execute(&theirs.sql(Side::Theirs)).await.unwrap();
    gate.open();
    let outcome = match early {
        Some(outcome) => outcome,
        None => running.await.unwrap(),
    };
    (outcome, contents(&objects).await)
}

/// Ours in a transaction around theirs, what the table is then, and all of it as records; `None` if it cannot be in one.
async fn in_a_transaction(
    ours: &Statement,
    side: Side,
    theirs: &Statement,
    number: usize,
) -> Option<(Result<Outcome, Error>, String, String)> {
    let objects = prepared().await;
    let lake = lake_in(objects.clone());
    let session = session_for(&lake, ours).await;
    session.execute("BEGIN").await.unwrap();
    match session.execute(&ours.sql(side)).await {
        Err(error) if error.sqlstate() == "0A000" => return None,
        outcome => outcome.unwrap(),
    };
    session_for(&lake, theirs).await.execute(&theirs.sql(Side::Theirs)).await.unwrap();
    let outcome = session.execute("COMMIT").await;
    let after = session_of(&lake_in(objects.clone()), 1).await;
    let records = readable::cell(number, (ours, side), theirs, &outcome, &after).await;
    Some((outcome, contents(&objects).await, records))
}

fn cell_of(outcome: &Result<Outcome, Error>) -> Cell {
    match outcome {
        Ok(Outcome::Changed(changed)) if changed.facts.reran > 0 => Cell::Again,
        Ok(Outcome::Changed(changed)) if changed.facts.groups_dropped > 0 => Cell::Dropped,
        Ok(Outcome::Changed(changed)) if changed.facts.rows_carried > 0 || changed.facts.vectors_merged > 0 => Cell::Carried,
        Ok(_) => Cell::Commutes,
        Err(_) => Cell::Refused,
    }
}

/// One pair.
async fn meet(ours: &'static Statement, side: Side, theirs: &'static Statement, number: usize) -> Result<(Cell, String), String> {
    let (after_theirs, refused) = serially((theirs, Side::Theirs), (ours, side)).await;
    let (before_theirs, theirs_refused) = serially((ours, side), (theirs, Side::Theirs)).await;
    let what = format!("theirs: {}; ours: {}", theirs.sql(Side::Theirs), ours.sql(side));
    // What failed did nothing: what is there after a refusal is theirs alone.
    let is_right = |outcome: &Result<Outcome, Error>, found: &String| match outcome {
        Ok(_) => !refused && *found == after_theirs || !theirs_refused && *found == before_theirs,
        Err(_) => !refused || *found == after_theirs,
    };
    let wrong = |how: &str, outcome: &Result<Outcome, Error>, found: &String| {
        format!("{what}, {how}: {outcome:?}\n{found}\nand not\n{after_theirs}\nnor\n{before_theirs}")
    };

    let (alone, found) = by_itself(ours, side, theirs).await;
    let cell = cell_of(&alone);
    if !is_right(&alone, &found) || cell == Cell::Refused && !refused {
        return Err(wrong("by itself", &alone, &found));
    }
    let Some((together, found, records)) = in_a_transaction(ours, side, theirs, number).await else { return Ok((cell, String::new())) };
    let cell = match &together {
        Err(error) if error.sqlstate() != "40001" => return Err(wrong("in a transaction", &together, &found)),
        Err(_) if cell == Cell::Refused => cell,
        Err(_) => Cell::Again,
        // A rewrite of which nothing is left is planned again, if it stands by itself.
        Ok(_) if cell == Cell::Again && cell_of(&together) == Cell::Dropped && is_right(&together, &found) => Cell::Dropped,
        Ok(_) if !is_right(&together, &found) || matches!(cell, Cell::Again | Cell::Refused) => {
            return Err(format!("by itself {cell:?}: {}", wrong("in a transaction", &together, &found)));
        }
        Ok(_) => cell,
    };
    Ok((cell, records))
}

/// A row of the matrix: ours after each of theirs, apart and on the same; and the same as a sqllogictest file.
async fn row(ours: &'static Statement) -> Result<(String, String), String> {
    let mut line = format!("| {} |", ours.name);
    let mut file = readable::heading(ours);
    for (number, theirs) in STATEMENTS.iter().enumerate() {
        let (apart, records) = meet(ours, Side::Apart, theirs, 2 * number + 1).await?;
        file.push_str(&records);
        let (same, records) = meet(ours, Side::Same, theirs, 2 * number + 2).await?;
        if ours.sql(Side::Same) != ours.sql(Side::Apart) {
            file.push_str(&records);
        }
        match apart == same {
            true => write!(line, " {} |", same.word()).unwrap(),
            false => write!(line, " {}, same: {} |", apart.word(), same.word()).unwrap(),
        }
    }
    Ok((line + "\n", file))
}

/// What was run again says so: here it is the session that resolves names anew, not the statement's last node.
#[tokio::test]
async fn a_statement_that_was_run_again_for_its_schema_says_so() {
    let named = |name: &str| STATEMENTS.iter().find(|statement| statement.name == name).unwrap();
    let (outcome, _) = by_itself(named("UPDATE"), Side::Same, named("DROP COLUMN")).await;
    let Ok(Outcome::Changed(changed)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(changed.facts.reran, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_pair_comes_to_what_the_document_says() {
    let rows: Vec<_> = STATEMENTS.iter().map(|ours| tokio::spawn(tokio::time::timeout(Duration::from_secs(600), row(ours)))).collect();
    let mut table = String::from("| ours ↓, theirs landed first → |");
    STATEMENTS.iter().for_each(|theirs| write!(table, " {} |", theirs.name).unwrap());
    table.push_str("\n|---|");
    STATEMENTS.iter().for_each(|_| table.push_str("---|"));
    table.push('\n');
    let (mut wrong, mut files) = (Vec::new(), Vec::new());
    for (row, ours) in rows.into_iter().zip(STATEMENTS) {
        match row.await.unwrap().expect("a pair that does not end") {
            Ok((row, records)) => {
                table.push_str(&row);
                files.push((Path::new(env!("CARGO_MANIFEST_DIR")).join(readable::file(ours)), records));
            }
            Err(reason) => wrong.push(reason),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let (before, rest) = document.split_once(BEGIN).expect("the document has a place for the matrix");
    let (written, after) = rest.split_once(END).expect("the matrix has an end");
    if std::env::var_os("AMEND_WRITE_MATRIX").is_some() {
        std::fs::write(DOCUMENT, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        for (path, records) in files {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, records).unwrap();
        }
        return;
    }
    for (path, records) in files {
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == records, "{} is not what the matrix says; AMEND_WRITE_MATRIX=1 writes it", path.display());
    }
    assert!(written == table, "docs/concurrency.md says something else; it must say\n{table}");
}
