//! A compaction is planned and run here, and committed later: what others change in the meantime is carried through its
//! change-of-address map.
//!
//!     cargo run --example stage_and_commit

use amend::{Lake, Outcome, Session};
use datafusion::arrow::util::pretty::pretty_format_batches;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let lake = Lake::open(folder.path())?;
    let (maintenance, user) = (Session::new(&lake).await?, Session::new(&lake).await?);
    user.execute("CREATE TABLE t (id INT, value VARCHAR)").await?;
    for row in ["(1, 'one')", "(2, 'two')", "(3, 'three')"] {
        user.execute(&format!("INSERT INTO t VALUES {row}")).await?;
    }

    // Plan and run: three fragments of one row become one of three rows. Nobody sees it yet.
    let compaction = maintenance.stage("OPTIMIZE t").await?;
    println!("staged a rewrite of {} rows, read at version {}", compaction.changed().count(), compaction.read_version());

    // Meanwhile the rows are changed where they were.
    user.execute("UPDATE t SET value = 'TWO' WHERE id = 2").await?;
    user.execute("DELETE FROM t WHERE id = 3").await?;

    // Commit: the two rows are followed to their new addresses.
    let committed = compaction.commit().await?;
    println!(
        "committed as version {:?}: rebased over {} versions, {} rows carried",
        committed.version, committed.facts.rebased_over, committed.facts.rows_carried
    );
    assert_eq!((committed.facts.rebased_over, committed.facts.rows_carried), (2, 2));

    let Outcome::Rows(rows) = user.execute("SELECT * FROM t ORDER BY id").await? else { return Err("a query gives rows".into()) };
    let rows = pretty_format_batches(&rows.batches)?.to_string();
    println!("{rows}");
    assert!(rows.contains("| 1  | one   |") && rows.contains("| 2  | TWO   |") && !rows.contains("two") && !rows.contains("three"));
    Ok(())
}
