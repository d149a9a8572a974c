//! The examples of docs/sql.md: each block of SQL is run, in their order, and answers what is written behind each statement.
//!
//! `files/` at the beginning of a text in quotes stands for a folder of the test.

use amend::statement::split::Splitter;
use amend::{Lake, Outcome, Session};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/sql.md");

/// A statement with its line in the document, and what it is to answer.
struct Example {
    line: usize,
    sql: String,
    answer: Vec<String>,
}

/// The statements in the blocks of SQL.
fn examples(text: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = vec![];
    let (mut within, mut splitter) = (false, Splitter::new());
    let mut first = 0;
    for (at, line) in text.lines().enumerate() {
        match line {
            "```sql" => (within, first) = (true, at + 2),
            "```" if within => {
                assert!(std::mem::replace(&mut splitter, Splitter::new()).finish().is_none(), "line {at}: a statement without a semicolon");
                within = false;
            }
            _ if within => match line.strip_prefix("-- ") {
                Some(answer) => examples.last_mut().unwrap().answer.push(answer.to_owned()),
                None => {
                    splitter.push(line);
                    splitter.push("\n");
                    while let Some(statement) = splitter.next_statement() {
                        examples.push(Example { line: first, sql: statement.text, answer: vec![] });
                        first = at + 2;
                    }
                }
            },
            _ => {}
        }
    }
    examples
}

/// What a statement answers, as it is written in the document.
async fn answer(session: &Session, sql: &str) -> Vec<String> {
    match session.execute(sql).await {
        Ok(Outcome::Changed(changed)) => vec![format!("{} rows", changed.count())],
        Ok(Outcome::Done(_)) => vec![],
        Ok(Outcome::Rows(rows)) => {
            let options = FormatOptions::default().with_null("NULL");
            let mut lines = vec![];
            for batch in &rows.batches {
                let columns: Vec<_> = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
                let row = |at| columns.iter().map(|column| column.value(at).to_string()).collect::<Vec<_>>().join(" | ");
                lines.extend((0..batch.num_rows()).map(row));
            }
            lines
        }
        Err(error) => vec![format!("error {}: {error}", error.sqlstate())],
    }
}

/// Whether the answer is the one that is written; without one, any is but an error.
fn fits(sql: &str, found: &[String], written: &[String]) -> bool {
    match (found, written) {
        ([error], _) if error.starts_with("error ") => matches!(written, [code] if error.split(':').next() == Some(code)),
        (_, []) => true,
        _ if sql.contains("ORDER BY") => found == written,
        _ => sorted(found) == sorted(written),
    }
}

fn sorted(rows: &[String]) -> Vec<&String> {
    let mut rows: Vec<&String> = rows.iter().collect();
    rows.sort();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_answers_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    std::fs::create_dir(&files).unwrap();
    let lake = Lake::open(folder.path().join("lake")).unwrap();
    let session = Session::new(&lake).await.unwrap();
    let examples = examples(&std::fs::read_to_string(DOCUMENT).unwrap());
    assert!(examples.len() > 90, "{} examples", examples.len());
    let mut wrong = vec![];
    for Example { line, sql, answer: written } in examples {
        let found = answer(&session, &sql.replace("'files/", &format!("'{}/", files.display()))).await;
        if !fits(&sql, &found, &written) {
            wrong.push(format!("docs/sql.md:{line}: {sql}\n-- {}\ninstead of\n-- {}", found.join("\n-- "), written.join("\n-- ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
