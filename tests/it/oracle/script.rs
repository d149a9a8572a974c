//! A script made of a seed: tables, and statements that change and read them, in the words of both engines.
//!
//! Always holds: only what the two agree on is said. So a row of the target meets one row of FROM at most, the values of SET read
//! other tables only (SQLite shows them rows that the statement has changed already), keys are not changed, a transaction changes
//! one table, and rows with LIMIT are in a total order.

use super::both::{Both, KINDS, Kind, Scope, Source, any, assigned, chance, column, constant, expression, join, predicate, put, value};
use super::merge;
use crate::schedules::plan::Dice;

/// One statement.
#[derive(Debug, Clone)]
pub struct Step {
    /// What is said here; for `does: Begin` and the like the word itself.
    pub here: String,
    /// What comes to the same there, all or nothing.
    pub there: Vec<String>,
    pub does: Does,
}

/// What a statement does, and what can be compared besides the tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Does {
    Begin,
    End,
    /// A table is made, or its columns change.
    Define,
    /// Rows change, as many as the statements there say.
    Change,
    /// Rows change, as many as this query says there before the change.
    ChangeCounted(String),
    /// Rows change and are returned; or rows are only read.
    Answer,
    /// Rows move, here only.
    Move,
}

#[derive(Debug, Clone)]
pub struct Table {
    pub name: String,
    pub columns: Vec<(String, Kind)>,
    pub defaults: Vec<Option<Both>>,
    /// The first column is the primary key.
    pub keyed: bool,
    /// Columns that constraints name.
    pub constrained: Vec<String>,
}

impl Table {
    pub fn source(&self) -> Source {
        Source { table: self.name.clone(), columns: self.columns.clone() }
    }

    /// The columns that statements give new values.
    pub fn free(&self) -> &[(String, Kind)] {
        &self.columns[usize::from(self.keyed)..]
    }
}

/// A script, with the settings it is run under.
#[derive(Debug, Clone)]
pub struct Script {
    pub settings: Vec<String>,
    /// How many partitions a plan has.
    pub partitions: usize,
    /// Which optimizer rules the second run goes without.
    pub without: Vec<&'static str>,
    pub steps: Vec<Step>,
}

/// Rules that make plans faster, and that no plan needs to be right.
const RULES: [&str; 10] = [
    "push_down_filter",
    "push_down_limit",
    "common_sub_expression_eliminate",
    "optimize_projections",
    "eliminate_outer_join",
    "eliminate_filter",
    "propagate_empty_relation",
    "eliminate_cross_join",
    "filter_null_join_keys",
    "single_distinct_aggregation_to_group_by",
];

pub struct Writer {
    pub dice: Dice,
    pub tables: Vec<Table>,
    /// The table that the open transaction changes.
    changing: Option<usize>,
    steps: Vec<Step>,
    columns_made: u64,
}

impl Script {
    pub fn of_seed(seed: u64) -> Script {
        let mut writer = Writer { dice: Dice::of(seed), tables: vec![], changing: None, steps: vec![], columns_made: 0 };
        let dice = &mut writer.dice;
        let form = any(dice, &["rows", "columns", "auto"]);
        let settings = vec![
            format!("SET amend.rows_per_fragment = {}", any(dice, &[2, 5, 1000])),
            format!("SET amend.update_form = '{form}'"),
            // With batches of one row a chain of DataFusion's joins multiplies the buffers of its texts until memory ends.
            format!("SET datafusion.execution.batch_size = {}", any(dice, &[2, 3, 8192])),
        ];
        let partitions = 1 + dice.below(3) as usize;
        let without = match dice.below(3) {
            0 => RULES.to_vec(),
            _ => RULES.into_iter().filter(|_| chance(dice, 30)).collect(),
        };
        for _ in 0..2 + writer.dice.below(2) {
            writer.create();
        }
        for _ in 0..8 + writer.dice.below(8) {
            writer.statement();
        }
        if writer.changing.is_some() {
            writer.end();
        }
        Script { settings, partitions, without, steps: writer.steps }
    }
}

impl Writer {
    fn push(&mut self, sql: Both, does: Does) {
        self.steps.push(Step { here: sql.here, there: vec![sql.there], does });
    }

    pub fn sources(&self) -> Vec<Source> {
        self.tables.iter().map(Table::source).collect()
    }

    /// Tables that subqueries of new values may read while another is changed.
    pub fn others(&self, target: usize) -> Vec<Source> {
        self.tables.iter().enumerate().filter(|(at, _)| *at != target).map(|(_, table)| table.source()).collect()
    }

    fn create(&mut self) {
        let name = format!("t{}", self.tables.len());
        let dice = &mut self.dice;
        let keyed = chance(dice, 30);
        let mut columns: Vec<(String, Kind)> = vec![("k".into(), *any(dice, &[Kind::Int, Kind::Big, Kind::Int, Kind::Text, Kind::Date]))];
        for at in 0..2 + dice.below(4) {
            columns.push((format!("c{at}"), *any(dice, &KINDS)));
        }
        let (mut constrained, mut defaults, mut definitions) = (vec![], vec![], vec![]);
        for (at, (name, kind)) in columns.iter().enumerate() {
            let mut definition = put(&format!("{name} {{}}"), &[&kind.name()]);
            let default = (at > 0 && chance(dice, 20)).then(|| constant(dice, *kind));
            if let Some(default) = &default {
                definition = put("{} DEFAULT {}", &[&definition, default]);
            }
            match (at, keyed) {
                (0, true) => definition = put("{} NOT NULL PRIMARY KEY", &[&definition]),
                (0, false) => {}
                _ if chance(dice, 8) => definition = put("{} NOT NULL", &[&definition]),
                _ => {}
            }
            defaults.push(default);
            definitions.push(definition);
        }
        if chance(dice, 15) {
            let (column, kind) = any(dice, &columns[1..]).clone();
            let bound = constant(dice, kind);
            definitions.push(put(&format!("CHECK ({column} <= {{}} OR {column} > {{}})"), &[&bound, &bound]));
            constrained.push(column);
        }
        if chance(dice, 10) {
            let column = any(dice, &columns[1..]).clone();
            if column.1 != Kind::Double {
                definitions.push(format!("UNIQUE (k, {})", column.0).into());
                constrained.extend(["k".to_owned(), column.0]);
            }
        }
        let definitions = join(&definitions, ", ");
        let strict = Both { here: String::new(), there: " STRICT".into() };
        self.push(put(&format!("CREATE TABLE {name} ({{}}){{}}"), &[&definitions, &strict]), Does::Define);
        self.tables.push(Table { name, columns, defaults, keyed, constrained });
        let target = self.tables.len() - 1;
        self.insert_values(target);
    }

    /// The table that the next statement changes.
    fn target(&mut self) -> usize {
        self.changing.unwrap_or_else(|| self.dice.below(self.tables.len() as u64) as usize)
    }

    fn statement(&mut self) {
        let target = self.target();
        match self.dice.below(100) {
            0..6 if self.changing.is_none() => {
                self.push("BEGIN".into(), Does::Begin);
                self.changing = Some(target);
            }
            0..14 if self.changing.is_some() => self.end(),
            0..10 if self.changing.is_none() => self.alter(target),
            0..22 => self.insert_values(target),
            22..28 => self.insert_query(target),
            28..45 => self.update(target),
            45..52 => self.update_from(target),
            52..64 => self.delete(target),
            64..70 => self.delete_using(target),
            70..82 => self.merge(target),
            82..84 => {
                let name = &self.tables[target].name;
                self.push(Both { here: format!("TRUNCATE TABLE {name}"), there: format!("DELETE FROM {name}") }, Does::Change);
            }
            84..92 => self.optimize(target),
            _ => self.query(),
        }
    }

    fn end(&mut self) {
        let word = if chance(&mut self.dice, 70) { "COMMIT" } else { "ROLLBACK" };
        self.push(word.into(), Does::End);
        self.changing = None;
    }

    fn alter(&mut self, target: usize) {
        self.columns_made += 1;
        let (number, table) = (self.columns_made, &mut self.tables[target]);
        let name = table.name.clone();
        let dice = &mut self.dice;
        let free: Vec<usize> = (1..table.columns.len()).filter(|at| !table.constrained.contains(&table.columns[*at].0)).collect();
        let sql = match dice.below(3) {
            1 if free.len() > 1 => {
                let at = *any(dice, &free);
                table.defaults.remove(at);
                let there = format!("ALTER TABLE {name} DROP COLUMN {}", table.columns.remove(at).0);
                // The table may be clustered by it.
                Both { here: format!("{there} CASCADE"), there }
            }
            2 if !free.is_empty() => {
                let at = *any(dice, &free);
                let old = std::mem::replace(&mut table.columns[at].0, format!("r{number}"));
                format!("ALTER TABLE {name} RENAME COLUMN {old} TO r{number}").into()
            }
            _ => {
                let kind = *any(dice, &KINDS);
                table.columns.push((format!("a{number}"), kind));
                table.defaults.push(None);
                put(&format!("ALTER TABLE {name} ADD COLUMN a{number} {{}}"), &[&kind.name()])
            }
        };
        self.push(sql, Does::Define);
    }

    /// Some of the table's columns, the first among them.
    fn some_columns(&mut self, target: usize) -> Vec<usize> {
        let all = self.tables[target].columns.len();
        if chance(&mut self.dice, 60) {
            return (0..all).collect();
        }
        (0..all).filter(|at| *at == 0 || chance(&mut self.dice, 60)).collect()
    }

    fn names(&self, target: usize, columns: &[usize]) -> String {
        columns.iter().map(|at| self.tables[target].columns[*at].0.clone()).collect::<Vec<_>>().join(", ")
    }

    fn insert_values(&mut self, target: usize) {
        let table = self.tables[target].clone();
        if chance(&mut self.dice, 4) && !table.keyed {
            return self.push(format!("INSERT INTO {} DEFAULT VALUES", table.name).into(), Does::Change);
        }
        let chosen = self.some_columns(target);
        let lets_conflicts = table.keyed && chance(&mut self.dice, 60);
        let mut keys: Vec<Both> = vec![];
        let mut rows = vec![];
        for _ in 0..1 + self.dice.below(7) {
            let mut row = vec![];
            for at in &chosen {
                let kind = table.columns[*at].1;
                row.push(match (&table.defaults[*at], *at) {
                    (_, 0) if table.keyed => constant(&mut self.dice, kind),
                    (Some(default), _) if chance(&mut self.dice, 15) => Both { here: "DEFAULT".into(), there: default.there.clone() },
                    _ => value(&mut self.dice, kind),
                });
            }
            if table.keyed {
                if keys.contains(&row[0]) && (lets_conflicts || chance(&mut self.dice, 80)) {
                    continue;
                }
                keys.push(row[0].clone());
            }
            rows.push(put("({})", &[&join(&row, ", ")]));
        }
        let names = self.names(target, &chosen);
        let mut sql = put(&format!("INSERT INTO {} ({names}) VALUES {{}}", table.name), &[&join(&rows, ", ")]);
        if lets_conflicts {
            sql = match self.dice.below(3) {
                0 => put("{} ON CONFLICT (k) DO NOTHING", &[&sql]),
                _ => {
                    let scope = Scope::of(&table.name, &table.columns, &[]).with(&Scope::of("excluded", &table.columns, &[]));
                    let assignments = self.assignments(&table, &scope);
                    let condition = self.perhaps("WHERE", &scope);
                    put("{} ON CONFLICT (k) DO UPDATE SET {} {}", &[&sql, &assignments, &condition])
                }
            };
        }
        self.changed(sql, &table.columns);
    }

    /// A statement that changes rows; now and then it returns some of them.
    fn changed(&mut self, sql: Both, columns: &[(String, Kind)]) {
        if !chance(&mut self.dice, 20) {
            return self.push(sql, Does::Change);
        }
        let scope = Scope { columns: columns.to_vec(), sources: vec![] };
        let kind = any(&mut self.dice, columns).1;
        let returned = expression(&mut self.dice, &scope, kind, 1);
        self.push(put("{} RETURNING {} AS returned, *", &[&sql, &returned]), Does::Answer);
    }

    /// A clause with a condition, or nothing.
    fn perhaps(&mut self, word: &str, scope: &Scope) -> Both {
        if chance(&mut self.dice, 20) {
            return "".into();
        }
        put(&format!("{word} {{}}"), &[&predicate(&mut self.dice, scope, 2)])
    }

    /// `a = .., b = ..`, each column once.
    pub fn assignments(&mut self, table: &Table, scope: &Scope) -> Both {
        let mut chosen: Vec<&(String, Kind)> = table.free().iter().filter(|_| chance(&mut self.dice, 40)).collect();
        if chosen.is_empty() {
            chosen.push(any(&mut self.dice, table.free()));
        }
        let given: Vec<(Both, Both)> =
            chosen.into_iter().map(|(name, kind)| (name.as_str().into(), assigned(&mut self.dice, scope, *kind))).collect();
        let (names, values): (Vec<Both>, Vec<Both>) = given.iter().cloned().unzip();
        if given.len() > 1 && chance(&mut self.dice, 20) {
            return put("({}) = ({})", &[&join(&names, ", "), &join(&values, ", ")]);
        }
        let each: Vec<Both> = given.iter().map(|(name, value)| put("{} = {}", &[name, value])).collect();
        join(&each, ", ")
    }

    fn insert_query(&mut self, target: usize) {
        let table = self.tables[target].clone();
        let from = any(&mut self.dice, &self.tables).clone();
        let chosen = self.some_columns(target);
        let scope = Scope::of("x", &from.columns, &self.sources());
        let values: Vec<Both> = chosen.iter().map(|at| assigned(&mut self.dice, &scope, table.columns[*at].1)).collect();
        let condition = self.perhaps("WHERE", &scope);
        let names = self.names(target, &chosen);
        let named = chance(&mut self.dice, 25);
        let of_query = |(at, value): (usize, Both)| if named { put(&format!("{{}} AS v{at}"), &[&value]) } else { value };
        let values: Vec<Both> = values.into_iter().enumerate().map(of_query).collect();
        let query = put(&format!("SELECT {{}} FROM {} AS x {{}}", from.name), &[&join(&values, ", "), &condition]);
        let sql = match named {
            true => put(&format!("WITH q AS ({{}}) INSERT INTO {} ({names}) SELECT * FROM q", table.name), &[&query]),
            false => put(&format!("INSERT INTO {} ({names}) {{}}", table.name), &[&query]),
        };
        self.changed(sql, &table.columns);
    }

    fn update(&mut self, target: usize) {
        let table = self.tables[target].clone();
        let (alias, relation) = match self.dice.below(3) {
            0 => (" AS x".to_owned(), "x".to_owned()),
            _ => (String::new(), table.name.clone()),
        };
        let scope = Scope::of(&relation, &table.columns, &self.others(target));
        let assignments = self.assignments(&table, &scope);
        let condition = self.perhaps("WHERE", &Scope { sources: self.sources(), ..scope });
        let sql = put(&format!("UPDATE {}{alias} SET {{}} {{}}", table.name), &[&assignments, &condition]);
        self.changed(sql, &table.columns);
    }

    fn update_from(&mut self, target: usize) {
        let table = self.tables[target].clone();
        let Some((source, columns, on)) = merge::unique_source(self, target, "x") else { return self.update(target) };
        let scope = Scope::of("x", &table.columns, &self.others(target)).with(&Scope::of("y", &columns, &[]));
        let assignments = self.assignments(&table, &scope);
        let condition = self.perhaps("AND", &scope);
        let (name, parts) = (&table.name, [&source, &assignments, &on, &condition]);
        let sql = match self.dice.below(3) {
            0 => put(&format!("WITH y AS {{}} UPDATE {name} AS x SET {{}} FROM y WHERE {{}} {{}}"), &parts),
            _ => put(&format!("UPDATE {name} AS x SET {{}} FROM {{}} AS y WHERE {{}} {{}}"), &[&assignments, &source, &on, &condition]),
        };
        self.push(sql, Does::Change);
    }

    fn delete(&mut self, target: usize) {
        let table = self.tables[target].clone();
        let scope = Scope::of(&table.name, &table.columns, &self.sources());
        let condition = predicate(&mut self.dice, &scope, 2);
        // Some rows should be left for what follows.
        let sql = put(&format!("DELETE FROM {} WHERE {{}}", table.name), &[&condition]);
        self.changed(sql, &table.columns);
    }

    fn delete_using(&mut self, target: usize) {
        let table = self.tables[target].clone();
        let from = any(&mut self.dice, &self.tables).clone();
        let scope = Scope::of("x", &table.columns, &[]).with(&Scope::of("y", &from.columns, &[]));
        let (kind, left) = (from.columns[0].1, put("y.k", &[]));
        let condition = match column(&mut self.dice, &Scope::of("x", &table.columns, &[]), kind) {
            Some(right) => put("{} = {} AND ({})", &[&left, &right, &predicate(&mut self.dice, &scope, 1)]),
            None => predicate(&mut self.dice, &scope, 1),
        };
        let here = format!("DELETE FROM {} AS x USING {} AS y WHERE {}", table.name, from.name, condition.here);
        let there = format!("DELETE FROM {} AS x WHERE EXISTS (SELECT 1 FROM {} AS y WHERE {})", table.name, from.name, condition.there);
        self.push(Both { here, there }, Does::Change);
    }

    fn merge(&mut self, target: usize) {
        match merge::merge(self, target) {
            Some(step) => self.steps.push(step),
            None => self.delete(target),
        }
    }

    fn optimize(&mut self, target: usize) {
        let table = &self.tables[target];
        let name = &table.name;
        let columns: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
        let column = *any(&mut self.dice, &columns);
        let here = match self.dice.below(6) {
            0 => format!("OPTIMIZE {name}"),
            3 if column != "k" => format!("ALTER TABLE {name} CLUSTER BY ({column}, k)"),
            4 => format!("ALTER TABLE {name} CLUSTER BY (k)"),
            1 => format!("OPTIMIZE {name} ORDER BY ({column} DESC)"),
            2 if column != "k" => format!("OPTIMIZE {name} ZORDER BY ({column}, k)"),
            _ => format!("OPTIMIZE {name} FULL"),
        };
        self.steps.push(Step { here, there: vec![], does: Does::Move });
    }

    fn query(&mut self) {
        let (left, right) = (any(&mut self.dice, &self.tables).clone(), any(&mut self.dice, &self.tables).clone());
        let sources = self.sources();
        let (x, y) = (Scope::of("x", &left.columns, &sources), Scope::of("y", &right.columns, &sources));
        let dice = &mut self.dice;
        let mut some = |scope: &Scope| {
            let kind = any(dice, &scope.columns).1;
            expression(dice, scope, kind, 2)
        };
        let (one, two) = (some(&x), some(&x));
        let condition = predicate(&mut self.dice, &x, 2);
        let name = &left.name;
        let sql = match self.dice.below(7) {
            6 => {
                // The order that a table may be clustered by.
                let kind = any(&mut self.dice, &left.columns).1;
                let by = column(&mut self.dice, &x, kind).unwrap();
                put(
                    &format!("SELECT {{}} AS a, x.k AS b FROM {name} AS x WHERE {{}} ORDER BY {{}} NULLS LAST, x.k NULLS LAST LIMIT 3"),
                    &[&by, &condition, &by],
                )
            }
            0 => {
                let key = column(&mut self.dice, &x, left.columns[1].1).unwrap();
                put(
                    &format!("SELECT {{}}, count(*), min(x.k) FROM {name} AS x WHERE {{}} GROUP BY {{}} HAVING count(*) < 5"),
                    &[&key, &condition, &key],
                )
            }
            1 => put(
                &format!("SELECT {{}} AS a, {{}} AS b FROM {name} AS x WHERE {{}} ORDER BY 1 NULLS FIRST, 2 NULLS LAST LIMIT 3"),
                &[&one, &two, &condition],
            ),
            2 => put(&format!("SELECT DISTINCT {{}} FROM {name} AS x WHERE {{}}"), &[&one, &condition]),
            3 => {
                let word = any(&mut self.dice, &["UNION", "UNION ALL", "EXCEPT", "INTERSECT"]);
                put(
                    &format!("SELECT x.k FROM {name} AS x WHERE {{}} {word} SELECT x.k FROM {name} AS x WHERE {{}}"),
                    &[&condition, &predicate(&mut self.dice, &x, 1)],
                )
            }
            _ => {
                let Some(key) = column(&mut self.dice, &x, right.columns[0].1) else { return };
                let word = any(&mut self.dice, &["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
                let both = x.plain().with(&y.plain());
                let on = predicate(&mut self.dice, &both, 1);
                let condition = predicate(&mut self.dice, &x.with(&y), 1);
                let sql = format!("SELECT x.*, y.* FROM {name} AS x {word} {} AS y ON {{}} = y.k AND {{}} WHERE {{}}", right.name);
                put(&sql, &[&key, &on, &condition])
            }
        };
        self.push(sql, Does::Answer);
    }
}
