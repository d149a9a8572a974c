//! The engines: each runs a step, and tells rows in one spelling.
//!
//! Always holds: rows are sorted, since neither says an order; a statement that fails has changed nothing there either.

use super::script::{Does, Script, Step};
use amend::{Lake, Outcome, Session};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Date32Type, Decimal128Type, Float64Type, Int64Type};
use datafusion::execution::context::SessionConfig;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

/// Values as text, sorted.
pub type Rows = Vec<Vec<String>>;

/// What a statement answered.
#[derive(Debug, Default)]
pub struct Answer {
    pub count: u64,
    pub rows: Rows,
}

/// Why it was refused.
#[derive(Debug)]
pub struct Failure {
    pub state: String,
    /// Whether a row did not fit a constraint.
    pub constraint: bool,
    pub reason: String,
}

/// amend, on a lake in memory.
pub struct Here {
    session: Session,
    /// The contents of tables when they were last looked at outside of a transaction.
    seen: Vec<(String, u64, Rows)>,
}

impl Here {
    pub async fn new(script: &Script, without: &[&str]) -> Here {
        let config = SessionConfig::new().with_target_partitions(script.partitions);
        let session = Session::with_config(&Lake::memory(), config).await.unwrap();
        for setting in &script.settings {
            session.execute(setting).await.unwrap();
        }
        // DataFusion's own check of its plans needs all of its rules.
        session.execute("SET datafusion.execution.skip_physical_aggregate_schema_check = true").await.unwrap();
        for rule in without {
            assert!(session.context().remove_optimizer_rule(rule), "there is no rule {rule}");
        }
        Here { session, seen: vec![] }
    }

    pub async fn run(&mut self, step: &Step) -> Result<Answer, Failure> {
        match self.session.execute(&step.here).await {
            Ok(Outcome::Rows(rows)) => Ok(Answer { count: 0, rows: spelled(&rows.batches) }),
            Ok(Outcome::Changed(changed)) => Ok(Answer { count: changed.count(), rows: vec![] }),
            Ok(Outcome::Done(_)) => Ok(Answer::default()),
            Err(error) => {
                let state = error.sqlstate().to_owned();
                Err(Failure { constraint: state.starts_with("23"), state, reason: error.to_string() })
            }
        }
    }

    pub async fn contents(&mut self, table: &str, open: bool) -> Result<Rows, Failure> {
        let read = Step { here: format!("SELECT * FROM {table}"), there: vec![], does: Does::Answer };
        let rows = self.run(&read).await?.rows;
        if !open {
            let version = self.session.lake().table(table).await.unwrap().newest().await.unwrap().snapshot.version;
            if !self.seen.iter().any(|(name, seen, _)| name == table && *seen == version) {
                self.seen.push((table.to_owned(), version, rows.clone()));
            }
        }
        Ok(rows)
    }

    /// Every third version still has the rows that were seen then: how many were looked at.
    pub async fn check_old_versions(&mut self) -> Result<u64, Failure> {
        let mut looked = 0;
        for (table, version, rows) in self.seen.clone().iter().step_by(3) {
            let read = Step { here: format!("SELECT * FROM {table} VERSION AS OF {version}"), there: vec![], does: Does::Answer };
            let found = self.run(&read).await?.rows;
            if found != *rows {
                let reason = format!("{} yields {found:?}, and did {rows:?}", read.here);
                return Err(Failure { state: String::new(), constraint: false, reason });
            }
            looked += 1;
        }
        Ok(looked)
    }
}

fn spelled(batches: &[RecordBatch]) -> Rows {
    let mut rows = vec![];
    for batch in batches {
        let columns: Vec<Vec<String>> = batch.columns().iter().map(column).collect();
        rows.extend((0..batch.num_rows()).map(|at| columns.iter().map(|values| values[at].clone()).collect::<Vec<_>>()));
    }
    rows.sort();
    rows
}

fn column(values: &ArrayRef) -> Vec<String> {
    let spell =
        |one: &dyn Fn(usize) -> String| (0..values.len()).map(|at| if values.is_null(at) { "NULL".to_owned() } else { one(at) }).collect();
    match values.data_type() {
        DataType::Boolean => spell(&|at| u8::from(values.as_boolean().value(at)).to_string()),
        DataType::Float64 => spell(&|at| double(values.as_primitive::<Float64Type>().value(at))),
        DataType::Date32 => spell(&|at| {
            let date = values.as_primitive::<Date32Type>().value_as_date(at).unwrap();
            text(&date.to_string())
        }),
        DataType::Decimal128(_, scale) => {
            assert_eq!(*scale, 2, "a decimal of other than cents");
            spell(&|at| values.as_primitive::<Decimal128Type>().value(at).to_string())
        }
        DataType::Null => vec!["NULL".to_owned(); values.len()],
        whole if whole.is_integer() => {
            let values = cast(values, &DataType::Int64).unwrap();
            spell(&|at| values.as_primitive::<Int64Type>().value(at).to_string())
        }
        _ => {
            let values = cast(values, &DataType::Utf8).unwrap();
            spell(&|at| text(values.as_string::<i32>().value(at)))
        }
    }
}

fn double(value: f64) -> String {
    // No negative zero; and RETURNING yields whole numbers of a REAL column as integers there.
    format!("{}", value + 0.0)
}

fn text(value: &str) -> String {
    format!("'{value}'")
}

/// SQLite, in memory.
pub struct There {
    connection: Connection,
}

impl There {
    pub fn new() -> There {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("PRAGMA case_sensitive_like = ON").unwrap();
        There { connection }
    }

    pub fn run(&mut self, step: &Step) -> Result<Answer, Failure> {
        match &step.does {
            Does::Begin | Does::End => self.connection.execute_batch(&step.here).map(|()| Answer::default()).map_err(failure),
            Does::Move => Ok(Answer::default()),
            Does::Define | Does::Change | Does::ChangeCounted(_) | Does::Answer => {
                self.connection.execute_batch("SAVEPOINT step").unwrap();
                let answer = self.all(step);
                let end = if answer.is_ok() { "RELEASE step" } else { "ROLLBACK TO step; RELEASE step" };
                self.connection.execute_batch(end).unwrap();
                answer.map_err(failure)
            }
        }
    }

    fn all(&self, step: &Step) -> rusqlite::Result<Answer> {
        let mut answer = Answer::default();
        if let Does::ChangeCounted(query) = &step.does {
            answer.count = self.connection.query_row(query, [], |row| row.get::<_, i64>(0))? as u64;
        }
        for sql in &step.there {
            match &step.does {
                Does::Answer => answer.rows = self.rows(sql)?,
                Does::Change => answer.count += self.connection.execute(sql, [])? as u64,
                _ => self.connection.execute_batch(sql)?,
            }
        }
        Ok(answer)
    }

    fn rows(&self, sql: &str) -> rusqlite::Result<Rows> {
        let mut statement = self.connection.prepare(sql)?;
        let columns = statement.column_count();
        let mut found = vec![];
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let value = |at| {
                Ok(match row.get_ref(at)? {
                    ValueRef::Null => "NULL".to_owned(),
                    ValueRef::Integer(whole) => whole.to_string(),
                    ValueRef::Real(value) => double(value),
                    ValueRef::Text(value) => text(std::str::from_utf8(value).unwrap()),
                    ValueRef::Blob(_) => unreachable!("no column holds bytes"),
                })
            };
            found.push((0..columns).map(value).collect::<rusqlite::Result<Vec<_>>>()?);
        }
        found.sort();
        Ok(found)
    }

    /// Every table with its rows.
    pub fn tables(&self) -> Vec<(String, Rows)> {
        let names = self.rows("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
        let rows = |name: &Vec<String>| {
            let name = name[0].trim_matches('\'').to_owned();
            let rows = self.rows(&format!("SELECT * FROM {name}")).unwrap();
            (name, rows)
        };
        names.iter().map(rows).collect()
    }
}

fn failure(error: rusqlite::Error) -> Failure {
    let constraint = error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation);
    Failure { state: String::new(), constraint, reason: error.to_string() }
}
