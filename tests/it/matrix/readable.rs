//! The cells of the matrix as sqllogictest files, one for each statement that lands second: staged by BEGIN, with what is in the
//! table afterwards. The matrix has held it against both orders before it is written.

use super::statements::{STATEMENTS, Side, Statement};
use amend::{Error, Outcome, Session};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use std::fmt::Write;

/// What makes the table that pairs meet on: six rows in two fragments, and a version after the one that a RESTORE asks for.
pub const PREPARATION: [&str; 3] = [
    "CREATE TABLE t (k BIGINT NOT NULL, v INT NOT NULL, w INT NOT NULL, x INT NOT NULL, y INT, z INT)",
    "INSERT INTO t SELECT value AS k, 0 AS v, value * 10 AS w, value * 100 AS x, 7 AS y, 8 AS z FROM generate_series(1, 6)",
    "ALTER TABLE t SET TBLPROPERTIES ('prepared' = 'yes')",
];

/// What its session says first.
pub const ROWS_PER_FRAGMENT: &str = "SET amend.rows_per_fragment = 3";

/// What a file begins with.
pub fn heading(ours: &Statement) -> String {
    let mut text = format!(
        "# {} after each statement of the matrix in docs/concurrency.md: ours reads the table, theirs lands, ours commits.\n\
         # Written by tests/it/matrix.rs, which has held every outcome against both orders.\n\nstatement ok\n{ROWS_PER_FRAGMENT}\n",
        ours.name
    );
    let sessions = STATEMENTS.iter().map(|theirs| (theirs_session(theirs), theirs.settings));
    for (session, settings) in sessions.chain([("ours".to_owned(), ours.settings)]) {
        for setting in settings {
            write!(text, "\nconnection {session}\nstatement ok\n{setting}\n").unwrap();
        }
    }
    text
}

/// One cell. `number` tells its table from those of the other cells of the file.
pub async fn cell(
    number: usize,
    (ours, side): (&Statement, Side),
    theirs: &Statement,
    commit: &Result<Outcome, Error>,
    after: &Session,
) -> String {
    let same = match side {
        Side::Same if ours.sql(Side::Same) != ours.sql(Side::Apart) => ", on the same",
        _ => "",
    };
    let mut text = format!("\n# ---- {} landed first{same} ----\n", theirs.name);
    let mut say = |connection: &str, expected: &str, sql: &str| {
        let connection = if connection.is_empty() { String::new() } else { format!("connection {connection}\n") };
        write!(text, "\n{connection}statement {expected}\n{}\n", of_table(sql, number)).unwrap();
    };
    PREPARATION.iter().for_each(|sql| say("", "ok", sql));
    say("ours", "ok", "BEGIN");
    say("ours", "ok", &ours.sql(side));
    say(&theirs_session(theirs), "ok", &theirs.sql(Side::Theirs));
    match commit {
        Ok(_) => say("ours", "ok", "COMMIT"),
        Err(error) => say("ours", &format!("error ({})", error.sqlstate()), "COMMIT"),
    }
    let Outcome::Rows(rows) = after.execute("SELECT * FROM t ORDER BY k, v").await.unwrap() else { panic!("no rows") };
    let names: Vec<&str> = rows.schema.fields().iter().map(|field| field.name().as_str()).collect();
    let query = format!("SELECT {} FROM t ORDER BY k, v", names.join(", "));
    write!(text, "\nquery {}\n{}\n----\n", "I".repeat(names.len()), of_table(&query, number)).unwrap();
    let options = FormatOptions::new().with_null("NULL");
    for batch in &rows.batches {
        let columns: Vec<_> = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let values: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            writeln!(text, "{}", values.join(" ")).unwrap();
        }
    }
    text
}

/// The file of a statement.
pub fn file(ours: &Statement) -> String {
    format!("slt/concurrency/matrix/{}.slt", ours.name.to_lowercase().replace(' ', "_"))
}

fn theirs_session(theirs: &Statement) -> String {
    match theirs.settings {
        [] => "theirs".to_owned(),
        _ => format!("theirs_{}", theirs.name.to_lowercase().replace(' ', "_")),
    }
}

/// The statement on another table than `t`.
fn of_table(sql: &str, number: usize) -> String {
    let mut text = String::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
    let mut before = ' ';
    let mut rest = sql.chars().peekable();
    while let Some(c) = rest.next() {
        let alone = c == 't' && !is_word(before) && !rest.peek().is_some_and(|next| is_word(*next));
        text.push(c);
        if alone {
            write!(text, "{number}").unwrap();
        }
        before = c;
    }
    text
}
