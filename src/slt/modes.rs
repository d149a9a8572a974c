//! What is done besides running a record, so that a suite also tests what it knows nothing of.
//!
//! Goes in: a statement that has answered. Comes out: the answer, perhaps of another way to get it. Always holds: without modes
//! nothing is done; a table is rewritten by the session that changed it; what is read back is read at the version that was
//! current when the statement had ended.

use crate::error::{Error, Result};
use crate::statement::fold;
use crate::statement::outcome::Outcome;
use crate::statement::session::Session;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, SetExpr, Statement, TableAlias, TableFactor, VisitMut, VisitorMut, visit_expressions_mut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// After each so many statements that changed a table, OPTIMIZE .. FULL of that table.
    pub optimize_every: Option<u64>,
    /// Whether each query of tables of the lake is answered once more by time travel to the current version.
    pub read_back: bool,
}

/// What stands before the name of the table that a statement changes, and that.
static CHANGED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let verbs = r"INSERT\s+INTO|INSERT\s+OVERWRITE|UPDATE|DELETE\s+FROM|MERGE\s+INTO|TRUNCATE";
    Regex::new(&format!(r#"(?is)^(?:WITH\b.*?)?\b(?:{verbs})\s+(?:TABLE\s+)?((?:"[^"]+"|`[^`]+`|\w+)(?:\.(?:"[^"]+"|`[^`]+`|\w+))*)"#)).ok()
});

/// The table that a statement changes.
fn changed_table(sql: &str) -> Option<&str> {
    let found = CHANGED.as_ref()?.captures(sql.trim_start())?;
    found.get(1).map(|name| name.as_str())
}

impl Modes {
    /// What comes after a statement.
    pub(super) async fn after(self, session: &Session, sql: &str, answered: Outcome, changes: &AtomicU64) -> Result<Outcome> {
        match &answered {
            Outcome::Changed(_) => self.optimize(session, sql, changes).await?,
            Outcome::Rows(_) if self.read_back && !session.in_transaction() => {
                if let Some(travelled) = travelled(session, sql).await? {
                    return session.execute(&travelled).await.map_err(|error| Error::invalid(format!("{travelled}: {error}")));
                }
            }
            Outcome::Rows(_) | Outcome::Done(_) => {}
        }
        Ok(answered)
    }

    async fn optimize(self, session: &Session, sql: &str, changes: &AtomicU64) -> Result<()> {
        let (Some(every), Some(table)) = (self.optimize_every, changed_table(sql)) else { return Ok(()) };
        if !(changes.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(every.max(1)) {
            return Ok(());
        }
        let optimize = format!("OPTIMIZE {table} FULL");
        session.execute(&optimize).await.map(drop).map_err(|error| Error::invalid(format!("{optimize}: {error}")))
    }
}

/// The query with the current version of each table of the lake; `None` if there is none in it, or if it is no plain query.
async fn travelled(session: &Session, sql: &str) -> Result<Option<String>> {
    let Ok(mut statements) = Parser::parse_sql(&GenericDialect {}, sql) else { return Ok(None) };
    let [Statement::Query(query)] = statements.as_slice() else { return Ok(None) };
    if matches!(*query.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)) {
        return Ok(None);
    }
    let mut tables = Tables::default();
    let _: ControlFlow<()> = statements.visit(&mut tables);
    let mut versions = BTreeMap::new();
    for name in tables.found.difference(&tables.own) {
        if let Some(log) = session.lake().find(name).await? {
            versions.insert(name.clone(), log.newest().await?.snapshot.version);
        }
    }
    if versions.is_empty() {
        return Ok(None);
    }
    let _: ControlFlow<()> = statements.visit(&mut Travel { versions });
    // Two signs would be written as a comment.
    let _: ControlFlow<()> = visit_expressions_mut(&mut statements, |expr| {
        if let Expr::UnaryOp { expr: operand, .. } = expr
            && matches!(operand.as_ref(), Expr::UnaryOp { .. })
        {
            **operand = Expr::Nested(operand.clone());
        }
        ControlFlow::Continue(())
    });
    Ok(statements.pop().map(|statement| statement.to_string()))
}

/// The name of a table that is written in one part, folded.
fn plain(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [part] => part.as_ident().map(fold),
        _ => None,
    }
}

/// The tables of a query, and the names that it makes itself.
#[derive(Default)]
struct Tables {
    found: BTreeSet<String>,
    own: BTreeSet<String>,
}

impl VisitorMut for Tables {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let own = query.with.iter().flat_map(|with| &with.cte_tables).map(|table| fold(&table.alias.name));
        self.own.extend(own);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: None, version: None, .. } = factor {
            self.found.extend(plain(name));
        }
        ControlFlow::Continue(())
    }
}

/// Puts versions in place of tables.
struct Travel {
    versions: BTreeMap<String, u64>,
}

impl VisitorMut for Travel {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, version: None, .. } = factor
            && let Some(table) = plain(name)
            && let Some(version) = self.versions.get(&table)
        {
            *name = ObjectName::from(vec![Ident::with_quote('"', format!("{table}@v{version}"))]);
            alias.get_or_insert_with(|| TableAlias { explicit: true, name: Ident::with_quote('"', table), columns: vec![], at: None });
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::lake::Lake;

    #[test]
    fn the_changed_table_is_found() {
        assert_eq!(changed_table("INSERT INTO t VALUES (1)"), Some("t"));
        assert_eq!(changed_table("with q as (select 1)\n  delete from \"T x\" using q"), Some("\"T x\""));
        assert_eq!(changed_table("TRUNCATE TABLE t"), Some("t"));
        assert_eq!(changed_table("INSERT INTO TABLE `1_t` VALUES (1)"), Some("`1_t`"));
        assert_eq!(changed_table("DELETE FROM s.\"T x\" WHERE a > 1.5"), Some("s.\"T x\""));
        assert_eq!(changed_table("CREATE TABLE t (a INT)"), None);
    }

    #[tokio::test]
    async fn a_query_is_answered_by_time_travel_and_tables_are_rewritten() {
        let session = Session::new(&Lake::memory()).await.unwrap();
        let modes = Modes { optimize_every: Some(2), read_back: true };
        let changes = AtomicU64::new(0);
        for sql in ["CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3)"] {
            let outcome = session.execute(sql).await.unwrap();
            modes.after(&session, sql, outcome, &changes).await.unwrap();
        }
        let sql = "WITH u AS (SELECT a FROM T) SELECT u.a, x.a, t.a FROM u, t AS x, t";
        let expected = r#"WITH u AS (SELECT a FROM "t@v5" AS "t") SELECT u.a, x.a, t.a FROM u, "t@v5" AS x, "t@v5" AS "t""#;
        assert_eq!(travelled(&session, sql).await.unwrap().as_deref(), Some(expected));
        let negative = travelled(&session, "SELECT - - a FROM t").await.unwrap();
        assert_eq!(negative.as_deref(), Some(r#"SELECT -(-a) FROM "t@v5" AS "t""#));
        assert_eq!(travelled(&session, "SELECT * FROM (VALUES (1)) AS t").await.unwrap(), None);
        assert_eq!(travelled(&session, "WITH u AS (SELECT 1 AS a) DELETE FROM t USING u RETURNING t.a").await.unwrap(), None);
        let Outcome::Rows(rows) = session.execute("SELECT count(*) FROM table_fragments('t')").await.unwrap() else { panic!() };
        assert_eq!(super::super::values::rows(&rows.batches).unwrap(), [["2"]]);
    }
}
