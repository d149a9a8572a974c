//! The statements of the matrix. A new one is a line here.

/// Whose statement it is, and whether it acts on the same rows and columns as theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Theirs,
    /// Ours, on another row of the same fragment, or on another column.
    Apart,
    /// Ours, on the same.
    Same,
}

/// A statement. In its text `{k}` is a key that it acts on, `{new}` one that it brings, `{d}` a number that is its own, `{c}`
/// a column that it acts on, `{u}` one that it gives new values, `{o}` one that may be NULL, and `{n}` a name that it gives.
pub struct Statement {
    pub name: &'static str,
    /// What its session says first.
    pub settings: &'static [&'static str],
    pub text: &'static str,
}

const fn said(name: &'static str, text: &'static str) -> Statement {
    Statement { name, settings: &[], text }
}

/// All of them.
pub const STATEMENTS: &[Statement] = &[
    said("INSERT", "INSERT INTO t (k, v, w, x) VALUES ({new}, 0, 0, 0)"),
    said("DELETE", "DELETE FROM t WHERE k = {k}"),
    Statement { name: "UPDATE", settings: &["SET amend.update_form = 'rows'"], text: "UPDATE t SET v = v + {d} WHERE k = {k}" },
    Statement { name: "UPDATE of columns", settings: &["SET amend.update_form = 'columns'"], text: "UPDATE t SET {u} = {u} + {d}" },
    said(
        "MERGE",
        "MERGE INTO t USING (VALUES ({k}), ({new})) AS s (k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = t.v + {d} \
         WHEN NOT MATCHED THEN INSERT (k, v, w, x) VALUES (s.k, 0, 0, 0)",
    ),
    said("OPTIMIZE", "OPTIMIZE t FULL"),
    said("OPTIMIZE ORDER BY", "OPTIMIZE t ORDER BY (x DESC)"),
    said("OPTIMIZE ZORDER BY", "OPTIMIZE t ZORDER BY (v, x)"),
    said("ADD COLUMN", "ALTER TABLE t ADD COLUMN {n} BIGINT"),
    said("DROP COLUMN", "ALTER TABLE t DROP COLUMN {c}"),
    said("RENAME COLUMN", "ALTER TABLE t RENAME COLUMN {c} TO {n}"),
    said("DROP NOT NULL", "ALTER TABLE t ALTER COLUMN {c} DROP NOT NULL"),
    said("SET NOT NULL", "ALTER TABLE t ALTER COLUMN {o} SET NOT NULL"),
    said("ALTER TYPE", "ALTER TABLE t ALTER COLUMN {u} TYPE BIGINT"),
    said("ALTER TYPE of values", "ALTER TABLE t ALTER COLUMN {u} TYPE SMALLINT"),
    said("SET property", "ALTER TABLE t SET TBLPROPERTIES ('{n}' = '{d}')"),
    said("ADD CONSTRAINT", "ALTER TABLE t ADD CONSTRAINT {n} CHECK ({c} < 1000)"),
    said("TRUNCATE", "TRUNCATE TABLE t"),
    said("INSERT OVERWRITE", "INSERT OVERWRITE t SELECT k + {d}, v, w, x, y, z FROM t WHERE k = {k}"),
    said("REPLACE WHERE", "INSERT INTO t (k, v, w, x) REPLACE WHERE k = {k} OR k > 20 VALUES ({new}, 1, 2, 3)"),
    said("RESTORE", "RESTORE TABLE t TO VERSION AS OF 2"),
    said(
        "CREATE OR REPLACE",
        "CREATE OR REPLACE TABLE t (k BIGINT NOT NULL, v INT NOT NULL, w INT NOT NULL, x INT NOT NULL, y INT, z INT) \
         AS VALUES ({new}, 1, 2, 3, 4, 5)",
    ),
];

impl Statement {
    pub fn sql(&self, side: Side) -> String {
        let (key, new, own, column, updated, open, name) = match side {
            Side::Theirs => ("2", "21", "10", "w", "v", "y", "one"),
            Side::Apart => ("3", "51", "100", "x", "z", "z", "two"),
            Side::Same => ("2", "51", "100", "w", "v", "y", "one"),
        };
        let text = self.text.replace("{k}", key).replace("{new}", new).replace("{d}", own);
        text.replace("{u}", updated).replace("{c}", column).replace("{o}", open).replace("{n}", name)
    }
}
