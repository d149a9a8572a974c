//! A host's own `SessionContext` becomes able to write: one call, and `ctx.sql` takes INSERT, UPDATE, DELETE and MERGE.
//!
//!     cargo run --example embed

use amend::{Lake, Session, install};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{SessionConfig, SessionContext};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let lake = Lake::open(folder.path())?;

    // DDL on the lake goes through a session of ours.
    let session = Session::new(&lake).await?;
    session.execute("CREATE TABLE account (id INT NOT NULL, owner VARCHAR, balance DOUBLE)").await?;

    // The host's context, with whatever it has registered already.
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    ctx.sql("CREATE TABLE bonus AS VALUES (1, 5.0), (3, 7.5)").await?.collect().await?;
    install(&ctx, &lake)?;

    for sql in [
        "INSERT INTO account VALUES (1, 'ada', 10.0), (2, 'bob', 20.0), (3, 'eve', 30.0)",
        "UPDATE account SET balance = balance + (SELECT sum(column2) FROM bonus WHERE column1 = account.id) WHERE id IN (SELECT column1 FROM bonus)",
        "DELETE FROM account WHERE owner = 'bob'",
    ] {
        let count = ctx.sql(sql).await?.collect().await?;
        println!("{sql}\n{}\n", pretty_format_batches(&count)?);
    }
    let rows = ctx.sql("SELECT * FROM account ORDER BY id").await?.collect().await?;
    let rows = pretty_format_batches(&rows)?.to_string();
    println!("{rows}");
    assert!(rows.contains("| 1  | ada   | 15.0    |") && rows.contains("| 3  | eve   | 37.5    |") && !rows.contains("bob"));

    // Old versions are there for any client, by name.
    let before = ctx.sql(r#"SELECT count(*) FROM "account@v2""#).await?.collect().await?;
    println!("version 2:\n{}", pretty_format_batches(&before)?);
    Ok(())
}
