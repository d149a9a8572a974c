//! What a scan's plan looks like: groups, pruned fragments, what EXPLAIN says.

use super::fixture::{Layout, Table, cause, config, lines, sorted_lines};
use crate::Error;
use crate::scan::plan::{ScanRequest, plan};
use crate::table::fragment::BaseId;
use crate::table::row_address::RowAddress;
use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, UInt32Type};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect_partitioned, displayable};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// Fragments 0, 1, .. of these numbers of rows; `id` counts through all of them. The first row of every second fragment is deleted.
async fn table(rows: &[i64]) -> Table {
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
    let mut table = Table::new(&schema);
    let mut next = 0;
    for (fragment, rows) in rows.iter().enumerate() {
        let ids = Int64Array::from_iter_values(next..next + rows);
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::new(ids)]).unwrap();
        table.add(&batch, Layout::groups_of(100), (fragment % 2 == 1).then_some(0)).await;
        next += rows;
    }
    table
}

fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> FileScanConfig {
    let source = plan.downcast_ref::<DataSourceExec>().unwrap().data_source();
    source.downcast_ref::<FileScanConfig>().unwrap().clone()
}

fn fragments_by_group(plan: &Arc<dyn ExecutionPlan>) -> Vec<Vec<u32>> {
    let id = |value: &datafusion::common::ScalarValue| value.to_string().parse().unwrap();
    scan_of(plan).file_groups.iter().map(|group| group.iter().map(|file| id(&file.partition_values[0])).collect()).collect()
}

#[tokio::test]
async fn files_are_spread_by_size_and_stay_in_order() {
    let table = table(&[10_000, 100, 200, 5_000, 4_000, 300]).await;
    let context = SessionContext::new();
    let planned = |partitions| plan(ScanRequest { target_partitions: partitions, ..table.request() }, &context.state()).unwrap();
    assert_eq!(fragments_by_group(&planned(1)), [vec![0, 1, 2, 3, 4, 5]]);
    assert_eq!(fragments_by_group(&planned(2)), [vec![0], vec![1, 2, 3, 4, 5]]);
    assert_eq!(fragments_by_group(&planned(100)).len(), 6);
    let sizes: Vec<u64> =
        scan_of(&planned(2)).file_groups.iter().map(|group| group.iter().map(|file| file.object_meta.size).sum()).collect();
    assert!(sizes[0].abs_diff(sizes[1]) < sizes[0] / 2, "{sizes:?}");
}

#[tokio::test]
async fn groups_are_read_each_by_its_partition_in_order() {
    let table = table(&[250, 130, 70, 333]).await;
    let context = SessionContext::new_with_config(config(4));
    let groups = vec![vec![3, 0], vec![], vec![2, 1]];
    let request = ScanRequest { groups: Some(groups.clone()), projection: Some(vec![0, 1, 2]), ..table.request() };
    let planned = plan(request, &context.state()).unwrap();
    // What the optimizer would do to split or mix the files.
    assert!(planned.repartitioned(8, context.state().config_options()).unwrap().is_none());
    assert_eq!(planned.output_partitioning().partition_count(), 3);
    let partitions = collect_partitioned(planned, context.task_ctx()).await.unwrap();
    let first_id = [0, 250, 380, 450];
    for (group, batches) in groups.iter().zip(partitions) {
        let mut found = Vec::new();
        for batch in &batches {
            let [ids, fragments, offsets] = batch.columns() else { panic!("{batch:?}") };
            let (ids, offsets) = (ids.as_primitive::<Int64Type>(), offsets.as_primitive::<Int64Type>());
            let fragments = fragments.as_primitive::<UInt32Type>();
            for row in 0..batch.num_rows() {
                assert_eq!(ids.value(row), first_id[fragments.value(row) as usize] + offsets.value(row));
                found.push((fragments.value(row), offsets.value(row) as u32));
            }
        }
        let mut expected = Vec::new();
        for position in group {
            let (fragment, deleted) = &table.fragments[*position];
            let is_live = |offset: &u32| deleted.as_ref().is_none_or(|deleted| !deleted.contains(*offset));
            expected.extend((0..fragment.physical_rows).filter(is_live).map(|offset| (fragment.id.0, offset)));
        }
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn fragments_that_cannot_match_are_not_opened() {
    let mut table = table(&[100, 100, 100]).await;
    // A fragment that is pruned may as well be missing.
    table.store = crate::store::Store::memory();
    assert_eq!(table.rows("SELECT id FROM t WHERE id > 1000").await, Vec::<String>::new());
    assert_eq!(table.rows("SELECT count(*) FROM t WHERE __amend_fragment = 7").await, ["0"]);
    assert_eq!(table.rows("SELECT count(*) FROM t WHERE __amend_offset >= 100").await, ["0"]);
    assert_eq!(table.rows("SELECT count(*) FROM t WHERE id IS NULL").await, ["0"]);
    assert!(table.query("SELECT id FROM t WHERE id > 250").await.is_err());
}

#[tokio::test]
async fn addresses_find_their_rows() {
    let table = table(&[100, 100, 100]).await;
    assert_eq!(table.rows("SELECT id FROM t WHERE __amend_fragment = 1 AND __amend_offset IN (0, 5, 99)").await, ["105", "199"]);
    assert_eq!(table.rows("SELECT id FROM t WHERE __amend_offset = 0").await, ["0", "200"]);
    assert_eq!(table.rows("SELECT max(__amend_fragment), max(__amend_offset), count(*) FROM t").await, ["2,99,299"]);
    let address = table.query("SELECT __amend_offset + 1, __amend_fragment, id FROM t WHERE id = 142").await.unwrap();
    assert_eq!(lines(&address), ["43,1,142"]);
    assert_eq!(RowAddress::new(table.fragments[1].0.id, 42).to_string(), "1/42");
    let ordered = table.query("SELECT id FROM t ORDER BY __amend_offset DESC, __amend_fragment LIMIT 4").await.unwrap();
    assert_eq!(lines(&ordered), ["99", "199", "299", "98"]);
}

#[tokio::test]
async fn nothing_to_read_is_an_empty_plan() {
    let table = table(&[]).await;
    assert_eq!(table.rows("SELECT count(*), max(id) FROM t").await, ["0,"]);
    let context = SessionContext::new();
    let grouped = ScanRequest { groups: Some(vec![vec![], vec![]]), projection: Some(vec![2]), ..table.request() };
    let planned = plan(grouped, &context.state()).unwrap();
    assert_eq!((planned.output_partitioning().partition_count(), planned.schema().field(0).name().as_str()), (2, "__amend_offset"));
}

#[tokio::test]
async fn explain_tells_of_deletions() {
    let table = table(&[10, 10, 10, 10]).await;
    let context = SessionContext::new();
    let planned = plan(table.request(), &context.state()).unwrap();
    let text = displayable(planned.as_ref()).one_line().to_string();
    assert!(text.contains("projection=[id], file_type=amend, deletions=2 files"), "{text}");
    let clean = ScanRequest { fragments: vec![table.fragments[0].clone()], ..table.request() };
    let text = displayable(plan(clean, &context.state()).unwrap().as_ref()).one_line().to_string();
    assert!(text.contains("file_type=amend") && !text.contains("deletions"), "{text}");
}

#[tokio::test]
async fn pushdown_is_a_choice_of_the_scan() {
    let mut table = table(&[10, 10]).await;
    for (own, session, pushed) in [(None, false, false), (None, true, true), (Some(true), false, true), (Some(false), true, false)] {
        table.pushdown_filters = own;
        let mut config = config(1);
        config.options_mut().execution.parquet.pushdown_filters = session;
        let context = table.context(config);
        let planned = context.sql("SELECT id FROM t WHERE id > 3").await.unwrap().create_physical_plan().await.unwrap();
        let text = displayable(planned.as_ref()).indent(false).to_string();
        assert_eq!(!text.contains("FilterExec"), pushed, "own {own:?}, session {session}: {text}");
        assert!(text.contains("predicate=id@0 > 3"), "{text}");
        let rows = sorted_lines(&context.sql("SELECT id FROM t WHERE id > 3").await.unwrap().collect().await.unwrap());
        assert_eq!(rows.len(), 15);
    }
}

#[tokio::test]
async fn a_file_in_a_base_that_the_table_does_not_have_is_refused() {
    let mut table = table(&[10]).await;
    Arc::make_mut(&mut table.fragments[0].0).files[0].base = Some(BaseId(0));
    let error = table.query("SELECT id FROM t").await.unwrap_err();
    assert!(matches!(cause(&error), Some(Error::Damaged { .. })), "{error:?}");
    assert!(error.to_string().contains("base 0, which the table does not have"), "{error}");
}

#[tokio::test]
async fn a_limit_is_not_obeyed_with_a_predicate() {
    let table = table(&[100]).await;
    let context = SessionContext::new();
    let limited = ScanRequest { limit: Some(3), ..table.request() };
    assert_eq!(scan_of(&plan(limited, &context.state()).unwrap()).limit, Some(3));
    let predicate = datafusion::physical_expr::expressions::lit(true);
    let both = ScanRequest { limit: Some(3), predicate: Some(predicate), ..table.request() };
    assert_eq!(scan_of(&plan(both, &context.state()).unwrap()).limit, None);
}

#[tokio::test]
async fn columns_with_reserved_names_are_refused() {
    let schema = Schema::new(vec![Field::new("__amend_fragment", DataType::Int64, false)]);
    let error = plan(Table::new(&schema).request(), &SessionContext::new().state()).unwrap_err();
    assert!(matches!(cause(&error), Some(Error::Invalid { .. })), "{error:?}");
}
