//! Tests of the formats, against the exact bytes.

use super::*;
use amend::Error as AmendError;
use amend::error::ConflictReport;
use amend::txn::composite::{CommitFacts, RowCounts};
use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int64Array, ListArray, NullArray,
    RecordBatch, StringArray, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema};
use std::sync::Arc;

/// What is on the two streams after an action.
fn printed(format: Format, quiet: bool, act: impl FnOnce(&mut Printer<&mut Vec<u8>, &mut Vec<u8>>)) -> (String, String) {
    let (mut answers, mut errors) = (Vec::new(), Vec::new());
    act(&mut Printer::new(&mut answers, &mut errors, format, quiet));
    (String::from_utf8(answers).unwrap(), String::from_utf8(errors).unwrap())
}

fn answer(format: Format, outcome: &Outcome) -> String {
    printed(format, false, |printer| printer.outcome(outcome).unwrap()).0
}

fn rows(columns: Vec<(&str, ArrayRef)>) -> Outcome {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap();
    // Two batches, to see that they are joined.
    let cut = batch.num_rows().min(1);
    let batches = vec![batch.slice(0, cut), batch.slice(cut, batch.num_rows() - cut)];
    Outcome::Rows(Rows { schema: batch.schema(), batches })
}

fn people() -> Outcome {
    rows(vec![
        ("a", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
        ("b,c", Arc::new(StringArray::from(vec![Some("x \"y\", z"), None, Some("")]))),
    ])
}

fn nothing() -> Outcome {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
    Outcome::Rows(Rows { schema, batches: vec![] })
}

fn changed(version: Option<u64>, facts: CommitFacts) -> Outcome {
    let counts = RowCounts { updated: 3, ..RowCounts::default() };
    Outcome::Changed(Changed { operation: "UPDATE".to_owned(), counts, version, facts, files_written: 1, conflicts: vec![] })
}

fn rebased() -> Outcome {
    changed(Some(17), CommitFacts { attempts: 2, rebased_over: 2, rows_carried: 3, reran: 1, ..CommitFacts::default() })
}

#[test]
fn jsonl_gives_one_line_per_statement() {
    assert_eq!(
        answer(Format::Jsonl, &people()),
        "{\"ok\":true,\"columns\":[\"a\",\"b,c\"],\"rows\":[[1,\"x \\\"y\\\", z\"],[null,null],[3,\"\"]]}\n"
    );
    assert_eq!(answer(Format::Jsonl, &nothing()), "{\"ok\":true,\"columns\":[\"a\"],\"rows\":[]}\n");
    assert_eq!(
        answer(Format::Jsonl, &rebased()),
        concat!(
            "{\"ok\":true,\"count\":3,\"version\":17,\"attempts\":2,\"rebased_over\":2,\"rows_carried\":3,\"vectors_merged\":0,",
            "\"groups_dropped\":0,\"reran\":1,\"files_written\":1}\n"
        )
    );
    assert_eq!(
        answer(Format::Jsonl, &changed(None, CommitFacts::default())),
        concat!(
            "{\"ok\":true,\"count\":3,\"version\":null,\"attempts\":0,\"rebased_over\":0,\"rows_carried\":0,\"vectors_merged\":0,",
            "\"groups_dropped\":0,\"reran\":0,\"files_written\":1}\n"
        )
    );
    let done = Outcome::Done("began \"it\"\nall".to_owned());
    assert_eq!(answer(Format::Jsonl, &done), "{\"ok\":true,\"message\":\"began \\\"it\\\"\\nall\"}\n");
    let error = AmendError::invalid("near 'a\tb'");
    let (answers, errors) = printed(Format::Jsonl, false, |printer| printer.error(&error, None).unwrap());
    assert_eq!(answers, "{\"ok\":false,\"error\":{\"kind\":\"invalid\",\"sqlstate\":\"42601\",\"message\":\"near 'a\\tb'\"}}\n");
    assert_eq!(errors, "");
}

fn report() -> ConflictReport {
    ConflictReport {
        table: "t".into(),
        coordinate: "rows where k = 'a\"b'".into(),
        rows: vec!["3/0".into(), "3/7".into()],
        transaction: "one".into(),
        statement: "UPDATE t SET v = 1".into(),
        read_version: 4,
        other_version: 5,
        other_transaction: "two".into(),
        other_statement: "DELETE FROM t".into(),
    }
}

const REPORT: &str = concat!(
    r#"{"table":"t","coordinate":"rows where k = 'a\"b'","rows":["3/0","3/7"],"transaction":"one","#,
    r#""statement":"UPDATE t SET v = 1","read_version":4,"other_version":5,"other_transaction":"two","other_statement":"DELETE FROM t"}"#
);

#[test]
fn a_conflict_is_data_of_the_error_and_of_the_statement_that_ran_again() {
    let error = AmendError::Conflict(Box::new(report()));
    let (answers, _) = printed(Format::Jsonl, false, |printer| printer.error(&error, None).unwrap());
    let (kind, conflict) = answers.split_once(r#","conflict":"#).unwrap();
    assert!(kind.starts_with(r#"{"ok":false,"error":{"kind":"conflict","sqlstate":"40001","message":"#), "{kind}");
    assert_eq!(conflict, format!("{REPORT}}}}}\n"));
    let Outcome::Changed(mut changed) = rebased() else { panic!() };
    changed.conflicts = vec![report()];
    let line = answer(Format::Jsonl, &Outcome::Changed(changed));
    assert!(line.ends_with(&format!(r#""files_written":1,"conflicts":[{REPORT}]}}{}"#, "\n")), "{line}");
    serde_json::from_str::<serde_json::Value>(&line).unwrap();
}

#[test]
fn json_values_are_exact_numbers_or_the_text_of_the_table() {
    let dictionary: DictionaryArray<Int32Type> = vec![Some("k")].into_iter().collect();
    let outcome = rows(vec![
        ("i", Arc::new(Int64Array::from(vec![i64::MIN]))),
        ("u", Arc::new(UInt64Array::from(vec![u64::MAX]))),
        ("f", Arc::new(Float64Array::from(vec![0.1]))),
        ("g", Arc::new(Float32Array::from(vec![0.1]))),
        ("h", Arc::new(Float64Array::from(vec![1e300]))),
        ("n", Arc::new(Float64Array::from(vec![f64::NAN]))),
        ("o", Arc::new(Float64Array::from(vec![f64::NEG_INFINITY]))),
        ("t", Arc::new(BooleanArray::from(vec![true]))),
        ("z", Arc::new(NullArray::new(1))),
        ("d", Arc::new(Decimal128Array::from(vec![150]).with_precision_and_scale(10, 2).unwrap())),
        ("y", Arc::new(Date32Array::from(vec![1]))),
        ("k", Arc::new(dictionary)),
        ("l", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None])]))),
    ]);
    let line = answer(Format::Jsonl, &outcome);
    let values =
        "[-9223372036854775808,18446744073709551615,0.1,0.1,1e300,\"NaN\",\"-inf\",true,null,\"1.50\",\"1970-01-02\",\"k\",\"[1, NULL]\"]";
    assert_eq!(line.split_once("\"rows\":").unwrap().1, format!("[{values}]}}\n"));
    serde_json::from_str::<serde_json::Value>(&line).unwrap();
}

#[test]
fn json_gives_one_array_per_query() {
    let expected = "[{\"a\":1,\"b,c\":\"x \\\"y\\\", z\"},\n{\"a\":null,\"b,c\":null},\n{\"a\":3,\"b,c\":\"\"}]\n";
    assert_eq!(answer(Format::Json, &people()), expected);
    assert_eq!(answer(Format::Json, &nothing()), "[]\n");
}

#[test]
fn csv_quotes_what_needs_it() {
    assert_eq!(answer(Format::Csv, &people()), "a,\"b,c\"\n1,\"x \"\"y\"\", z\"\n,\n3,\"\"\n");
    let lines = rows(vec![("a", Arc::new(StringArray::from(vec!["one\ntwo", "plain", "cr\r"])) as ArrayRef)]);
    assert_eq!(answer(Format::Csv, &lines), "a\n\"one\ntwo\"\nplain\n\"cr\r\"\n");
    assert_eq!(answer(Format::Csv, &nothing()), "a\n");
}

#[test]
fn a_table_has_its_number_of_rows() {
    let expected = concat!(
        "+------+----------+\n",
        "| a    | b,c      |\n",
        "+------+----------+\n",
        "| 1    | x \"y\", z |\n",
        "| NULL | NULL     |\n",
        "| 3    |          |\n",
        "+------+----------+\n",
        "(3 rows)\n",
    );
    assert_eq!(answer(Format::Table, &people()), expected);
    assert_eq!(answer(Format::Table, &nothing()), "+---+\n| a |\n+---+\n+---+\n(0 rows)\n");
}

#[test]
fn changes_are_told_in_words() {
    assert_eq!(answer(Format::Table, &changed(None, CommitFacts::default())), "UPDATE 3\n");
    assert_eq!(answer(Format::Table, &changed(Some(17), CommitFacts { attempts: 1, ..CommitFacts::default() })), "UPDATE 3 (version 17)\n");
    assert_eq!(answer(Format::Table, &rebased()), "UPDATE 3 (version 17) rebased over 2 versions, 3 rows carried, run again 1 time\n");
    assert_eq!(answer(Format::Table, &Outcome::Done("BEGIN".to_owned())), "BEGIN\n");
}

#[test]
fn messages_do_not_mix_with_rows_that_programs_read() {
    for format in [Format::Csv, Format::Json] {
        let (answers, errors) = printed(format, false, |printer| printer.outcome(&rebased()).unwrap());
        assert_eq!((answers.as_str(), errors.starts_with("UPDATE 3 (version 17)")), ("", true));
    }
    for format in [Format::Table, Format::Csv, Format::Json] {
        let quiet = printed(format, true, |printer| printer.outcome(&rebased()).unwrap());
        assert_eq!(quiet, (String::new(), String::new()));
    }
}

#[test]
fn an_error_names_its_state_and_the_statement() {
    let error = AmendError::UnknownTable { table: "x".to_owned(), nearest: None };
    let expected = "error: table 'x' does not exist (SQLSTATE 42P01)\n";
    let (answers, errors) = printed(Format::Table, true, |printer| printer.error(&error, None).unwrap());
    assert_eq!((answers.as_str(), errors.as_str()), ("", expected));
    let (answers, errors) = printed(Format::Jsonl, true, |printer| printer.error(&error, Some("a.sql:2: DROP TABLE x")).unwrap());
    assert_eq!(
        answers,
        "{\"ok\":false,\"error\":{\"kind\":\"not_found\",\"sqlstate\":\"42P01\",\"message\":\"table 'x' does not exist\"}}\n"
    );
    assert_eq!(errors, format!("{expected}a.sql:2: DROP TABLE x\n"));
}
