//! Which statements are ours, and what of.

use super::*;

fn parse(sql: &str) -> Result<Command> {
    super::parse(sql, &Syntax::default())
}

#[test]
fn own_verbs_are_known_by_their_first_words() {
    assert!(matches!(parse("begin").unwrap(), Command::Begin));
    assert!(matches!(parse("START TRANSACTION").unwrap(), Command::Begin));
    assert!(matches!(parse("COMMIT WORK;").unwrap(), Command::Commit));
    assert!(matches!(parse("rollback").unwrap(), Command::Rollback));
    assert!(matches!(parse("DESCRIBE HISTORY public.T").unwrap(), Command::History(table) if table == "t".into()));
    assert!(matches!(parse("DESCRIBE history").unwrap(), Command::Sql(_)));
    let Command::Optimize(optimize) = parse("OPTIMIZE TABLE \"T\" FULL").unwrap() else { panic!() };
    assert_eq!(optimize, Optimize { table: "T".into(), wanted: Wanted { full: true, ..Wanted::default() } });
    assert!(matches!(parse("SELECT 1").unwrap(), Command::Sql(_)));
    let Command::UnsetProperties(unset) = parse("ALTER TABLE IF EXISTS T UNSET TBLPROPERTIES ('a.b', c)").unwrap() else { panic!() };
    assert_eq!(unset, UnsetProperties { table: "t".into(), if_exists: true, keys: vec!["a.b".into(), "c".into()] });
    assert!(matches!(parse("ALTER TABLE t DROP COLUMN unset").unwrap(), Command::Sql(_)));
    let files = |table: &str, lenient| FilesOf { table: table.into(), lenient, pattern: "a/*.parquet".into() };
    let Command::AddFiles(found) = parse("ALTER TABLE IF EXISTS public.T add files 'a/*.parquet';").unwrap() else { panic!() };
    assert_eq!(found, files("t", true));
    assert!(matches!(parse("ALTER TABLE t ADD files INT").unwrap(), Command::Sql(_)));
    let Command::CreateFromFiles(found) = parse("CREATE TABLE \"T\" FROM 'a/*.parquet'").unwrap() else { panic!() };
    assert_eq!(found, files("T", false));
    assert!(parse("CREATE TABLE t FROM u").unwrap_err().to_string().contains("takes files in quotes"));
    assert!(parse("CREATE TABLE t FROM 'a' WHERE b").unwrap_err().to_string().contains("nothing may follow"));
}

#[test]
fn tables_and_views_get_other_names() {
    let renamed = |sql: &str| match parse(sql).unwrap() {
        Command::Rename(rename) => rename,
        other => panic!("{other:?}"),
    };
    let rename = |table: (&str, &str), to: (&str, &str), if_exists, of_view| {
        let name = |(namespace, name): (&str, &str)| TableName::new(namespace, name);
        Rename { table: name(table), to: name(to), if_exists, of_view }
    };
    assert_eq!(renamed("ALTER TABLE T RENAME TO \"U\";"), rename(("public", "t"), ("public", "U"), false, false));
    assert_eq!(renamed("alter table if exists s.t rename to u"), rename(("s", "t"), ("s", "u"), true, false));
    assert_eq!(renamed("ALTER TABLE s.t RENAME TO s.u"), rename(("s", "t"), ("s", "u"), false, false));
    assert_eq!(renamed("ALTER TABLE s.t SET SCHEMA public"), rename(("s", "t"), ("public", "t"), false, false));
    assert_eq!(renamed("ALTER VIEW v RENAME TO w"), rename(("public", "v"), ("public", "w"), false, true));
    for sql in ["ALTER TABLE t RENAME TO s.u", "ALTER TABLE t SET SCHEMA other.s", "ALTER VIEW v AS SELECT 1"] {
        assert_eq!(parse(sql).unwrap_err().sqlstate(), "0A000", "{sql}");
    }
    assert!(matches!(parse("ALTER TABLE t RENAME COLUMN a TO b").unwrap(), Command::Sql(_)));
    assert_eq!(parse("ALTER TABLE t RENAME TO u, ADD a INT").unwrap_err().sqlstate(), "42601");
}

#[test]
fn restore_names_a_version_or_a_time() {
    for (sql, table, at) in [
        ("RESTORE TABLE t TO VERSION AS OF 3", "t", "v3"),
        ("restore T version as of 12;", "t", "v12"),
        (r#"RESTORE TABLE public."to" TO TIMESTAMP AS OF '2026-01-31'"#, "to", "2026-01-31"),
    ] {
        let Command::Restore(restore) = parse(sql).unwrap() else { panic!("{sql}") };
        assert_eq!(restore, Restore { table: table.into(), at: at.into() });
    }
    for sql in ["RESTORE t", "RESTORE t TO VERSION AS OF '3'", "RESTORE t TO VERSION AS OF 1.5", "RESTORE t TO TIMESTAMP AS OF 3"] {
        assert!(parse(sql).unwrap_err().to_string().contains("write RESTORE TABLE t TO VERSION AS OF 3"), "{sql}");
    }
}

#[test]
fn replace_where_is_an_insert_and_a_delete() {
    for (sql, insert, delete) in [
        ("INSERT INTO t REPLACE WHERE a = 1 AND b SELECT 1, true", "INSERT INTO t SELECT 1, true", "DELETE FROM t WHERE a = 1 AND b"),
        (
            r#"insert into table public."T" (b, "A") replace where x > 5 values (1, 2)"#,
            r#"INSERT INTO public."T" (b, "A") VALUES (1, 2)"#,
            r#"DELETE FROM public."T" WHERE x > 5"#,
        ),
        (
            "INSERT INTO t REPLACE WHERE a WITH q AS (SELECT 1) SELECT * FROM q",
            "INSERT INTO t WITH q AS (SELECT 1) SELECT * FROM q",
            "DELETE FROM t WHERE a",
        ),
    ] {
        let command = parse(sql).unwrap();
        assert!(command.changes_rows());
        let Command::ReplaceWhere(replace) = command else { panic!("{sql}") };
        assert_eq!((replace.insert.to_string(), replace.delete.to_string()), (insert.to_owned(), delete.to_owned()));
    }
    for sql in ["INSERT INTO t (a) VALUES (1)", "INSERT INTO t SELECT replace FROM u", "INSERT INTO t (SELECT 1)"] {
        assert!(matches!(parse(sql).unwrap(), Command::Sql(_)), "{sql}");
    }
}

#[test]
fn an_optimize_may_choose_fragments_and_order_rows() {
    let wanted = |sql: &str| match parse(sql).unwrap() {
        Command::Optimize(optimize) => optimize.wanted,
        other => panic!("{other:?}"),
    };
    let key = |column: &str, descending, nulls_first| OrderKey { column: column.into(), descending, nulls_first };
    let order = Order::By(vec![key("a", false, false), key("B", true, true), key("c", true, false)]);
    assert_eq!(wanted("OPTIMIZE t ORDER BY (A, \"B\" DESC, c DESC NULLS LAST)").order, Some(order));
    assert_eq!(wanted("optimize t order by a asc nulls first;").order, Some(Order::By(vec![key("a", false, true)])));
    let z = wanted("OPTIMIZE t FULL WHERE a > 1 AND b < 2 ZORDER BY (a, b)");
    assert_eq!((z.full, z.order), (true, Some(Order::Z(vec!["a".into(), "b".into()]))));
    assert_eq!(z.filter.unwrap().to_string(), "a > 1 AND b < 2");
    assert!(wanted("OPTIMIZE t ZORDER BY a FULL").full);
    for sql in [
        "OPTIMIZE t ORDER BY ()",
        "OPTIMIZE t ORDER BY (a",
        "OPTIMIZE t ORDER BY lower(a)",
        "OPTIMIZE t ZORDER BY (a DESC)",
        "OPTIMIZE t WHERE",
        "OPTIMIZE t a",
    ] {
        assert_eq!(parse(sql).unwrap_err().sqlstate(), "42601", "{sql}");
    }
}

#[test]
fn a_vacuum_is_of_a_table_or_of_all() {
    let vacuum = |sql: &str| match parse(sql).unwrap() {
        Command::Vacuum(Vacuum { table, retain_ms, dry_run }) => (table, retain_ms, dry_run),
        other => panic!("{other:?}"),
    };
    assert_eq!(vacuum("VACUUM"), (None, None, false));
    assert_eq!(vacuum("vacuum table \"T\";"), (Some("T".into()), None, false));
    assert_eq!(vacuum("VACUUM t RETAIN 168 HOURS DRY RUN"), (Some("t".into()), Some(168 * 3_600_000), true));
    assert_eq!(vacuum("VACUUM RETAIN 0.5 hours"), (None, Some(1_800_000), false));
    assert_eq!(vacuum("VACUUM DRY RUN"), (None, None, true));
    assert_eq!(vacuum("VACUUM dry"), (Some("dry".into()), None, false));
    for sql in ["VACUUM t RETAIN x HOURS", "VACUUM t RETAIN 3 DAYS", "VACUUM t RETAIN -1 HOURS", "VACUUM t DRY", "VACUUM t, u"] {
        assert_eq!(parse(sql).unwrap_err().sqlstate(), "42601", "{sql}");
    }
}

#[test]
fn what_is_not_offered_says_so() {
    for sql in ["ROLLBACK TO x", "SAVEPOINT x"] {
        let error = parse(sql).unwrap_err();
        assert_eq!(error.sqlstate(), "0A000", "{sql}: {error}");
    }
    assert_eq!(parse("COMMIT AND CHAIN").unwrap_err().sqlstate(), "0A000");
    assert_eq!(parse("BEGIN ISOLATION LEVEL SERIALIZABLE").unwrap_err().sqlstate(), "0A000");
    assert!(parse("COMMIT x").unwrap_err().to_string().contains("nothing may follow"));
    assert!(parse("BEGIN; DELETE FROM t").unwrap_err().to_string().contains("nothing may follow"));
    assert!(parse("SELECT 1; SELECT 2").unwrap_err().to_string().contains("one statement"));
}
