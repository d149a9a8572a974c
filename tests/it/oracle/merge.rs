//! MERGE, and what comes to the same in an engine that has none: the rows of the table after it, as a query.

use super::both::{Both, Kind, Scope, any, assigned, chance, column, join, predicate, put};
use super::script::{Does, Step, Writer};

/// A query, its columns, and the condition of its rows.
type UniqueSource = (Both, Vec<(String, Kind)>, Both);

/// A query with at most one row for each value of its column `k`, in parentheses; its columns; and the condition that such a
/// row and one of the target, which is known as `x`, belong together.
pub fn unique_source(writer: &mut Writer, target: usize, x: &str) -> Option<UniqueSource> {
    let from = any(&mut writer.dice, &writer.tables).clone();
    let kind = from.columns[0].1;
    let target = Scope::of(x, &writer.tables[target].columns, &[]);
    let partner = column(&mut writer.dice, &target, kind)?;
    let scope = Scope::of("s", &from.columns, &writer.sources());
    let columns: Vec<(String, Kind)> = from.columns.iter().filter(|(_, kind)| *kind != Kind::Bool).cloned().collect();
    let values: Vec<String> = columns[1..].iter().map(|(name, _)| format!(", max(s.{name}) AS {name}")).collect();
    let condition = predicate(&mut writer.dice, &scope, 1);
    let query = format!("(SELECT s.k AS k{} FROM {} AS s WHERE {{}} GROUP BY s.k)", values.concat(), from.name);
    Some((put(&query, &[&condition]), columns, put("{} = y.k", &[&partner])))
}

/// One WHEN.
struct Clause {
    condition: Both,
    then: Then,
}

enum Then {
    /// The new value of some columns.
    Update(Vec<(String, Both)>),
    Delete,
    /// A value for every column.
    Insert(Vec<Both>),
}

/// A MERGE into the table; `None` if no source has a key that fits.
pub fn merge(writer: &mut Writer, target: usize) -> Option<Step> {
    let table = writer.tables[target].clone();
    // Under an alias, the target cannot be named in subqueries.
    let aliased = chance(&mut writer.dice, 30);
    let (name, known) = if aliased { ("x".to_owned(), " AS x") } else { (table.name.clone(), "") };
    let (source, columns, mut on) = unique_source(writer, target, &name)?;
    let sources = if aliased { vec![] } else { writer.sources() };
    let (x, y) = (Scope::of(&name, &table.columns, &sources), Scope::of("y", &columns, &sources));
    if chance(&mut writer.dice, 20) {
        on = put("{} AND {}", &[&on, &predicate(&mut writer.dice, &x.plain().with(&y.plain()), 1)]);
    }
    let both = x.with(&y);
    let (matched, missing, orphaned) = (clauses(writer, &both, target), inserts(writer, &y, target), clauses(writer, &x, target));
    let (matched, missing, orphaned) = match writer.dice.below(6) {
        0 => (matched, missing, vec![]),
        1 => (matched, vec![], vec![]),
        2 => (vec![], missing, vec![]),
        3 => (vec![], missing, orphaned),
        _ => (matched, missing, orphaned),
    };
    let mut said = put(&format!("MERGE INTO {}{known} USING {{}} AS y ON {{}}", table.name), &[&source, &on]);
    for (when, clauses) in [("MATCHED", &matched), ("NOT MATCHED", &missing), ("NOT MATCHED BY SOURCE", &orphaned)] {
        for clause in clauses {
            said = put(&format!("{{}} WHEN {when} AND {{}} THEN {{}}"), &[&said, &clause.condition, &clause.then.said()]);
        }
    }
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
    let (on, source) = (&on.there, &source.there);
    // Which clause a row of the table has, from 1 on.
    let actions =
        format!("CASE WHEN y.hit IS NOT NULL THEN {} ELSE {} END", number_of(&matched, 1), number_of(&orphaned, 1 + matched.len()));
    let of_target = || matched.iter().chain(&orphaned).enumerate();
    let known_as = &name;
    let values = names.iter().map(|name| {
        let value = |(at, clause): (usize, &Clause)| match &clause.then {
            Then::Update(values) => {
                let value = values.iter().find(|(column, _)| column == name)?;
                Some(format!("WHEN {} THEN {}", at + 1, value.1.there))
            }
            Then::Delete | Then::Insert(_) => None,
        };
        let changed: Vec<String> = of_target().filter_map(value).collect();
        if changed.is_empty() {
            format!("{known_as}.{name}")
        } else {
            format!("CASE {actions} {} ELSE {known_as}.{name} END", changed.join(" "))
        }
    });
    let deletes: Vec<String> =
        of_target().filter(|(_, clause)| matches!(clause.then, Then::Delete)).map(|(at, _)| (at + 1).to_string()).collect();
    let sides = format!("{}{known} LEFT JOIN (SELECT 1 AS hit, q.* FROM {source} AS q) AS y ON {on}", table.name);
    // Those that nothing happens to stay.
    let gone = if deletes.is_empty() { "-1".to_owned() } else { deletes.join(", ") };
    let values = values.collect::<Vec<_>>().join(", ");
    let mut rows = format!("SELECT {values} FROM {sides} WHERE {actions} NOT IN ({gone})");
    let alone = format!("{source} AS y WHERE NOT EXISTS (SELECT 1 FROM {}{known} WHERE {on})", table.name);
    let number = number_of(&missing, 1);
    for (at, clause) in missing.iter().enumerate() {
        let Then::Insert(values) = &clause.then else { continue };
        rows.push_str(&format!(" UNION ALL SELECT {} FROM {alone} AND {number} = {}", join(values, ", ").there, at + 1));
    }
    let count = format!("SELECT (SELECT count(*) FROM {sides} WHERE {actions} > 0) + (SELECT count(*) FROM {alone} AND {number} > 0)");
    let name = &table.name;
    let there = vec![
        format!("CREATE TEMP TABLE merged AS {rows}"),
        format!("DELETE FROM {name}"),
        format!("INSERT INTO {name} SELECT * FROM merged"),
        "DROP TABLE merged".to_owned(),
    ];
    Some(Step { here: said.here, there, does: Does::ChangeCounted(count) })
}

impl Then {
    fn said(&self) -> Both {
        match self {
            Then::Update(values) => {
                let each: Vec<Both> = values.iter().map(|(name, value)| put("{} = {}", &[&name.as_str().into(), value])).collect();
                put("UPDATE SET {}", &[&join(&each, ", ")])
            }
            Then::Delete => "DELETE".into(),
            Then::Insert(values) => put("INSERT VALUES ({})", &[&join(values, ", ")]),
        }
    }
}

/// The number of the first clause whose condition is true, or 0.
fn number_of(clauses: &[Clause], first: usize) -> String {
    if clauses.is_empty() {
        return "0".to_owned();
    }
    let whens = clauses.iter().enumerate().map(|(at, clause)| format!("WHEN {} THEN {} ", clause.condition.there, first + at));
    format!("(CASE {}ELSE 0 END)", whens.collect::<String>())
}

/// Clauses that update and delete.
fn clauses(writer: &mut Writer, scope: &Scope, target: usize) -> Vec<Clause> {
    let table = writer.tables[target].clone();
    let mut clauses = vec![];
    for _ in 0..1 + writer.dice.below(2) {
        let condition = condition(writer, scope);
        let then = match chance(&mut writer.dice, 30) {
            true => Then::Delete,
            false => {
                let chosen: Vec<_> = table.free().iter().filter(|_| chance(&mut writer.dice, 40)).cloned().collect();
                let chosen = if chosen.is_empty() { vec![any(&mut writer.dice, table.free()).clone()] } else { chosen };
                Then::Update(chosen.into_iter().map(|(name, kind)| (name, assigned(&mut writer.dice, scope, kind))).collect())
            }
        };
        clauses.push(Clause { condition, then });
    }
    clauses
}

/// Clauses that insert.
fn inserts(writer: &mut Writer, scope: &Scope, target: usize) -> Vec<Clause> {
    let table = writer.tables[target].clone();
    let mut clauses = vec![];
    for _ in 0..1 + writer.dice.below(2) {
        let condition = condition(writer, scope);
        let value = |(at, (_, kind)): (usize, &(String, Kind))| match at {
            0 if kind.like(scope.columns[0].1) => "y.k".into(),
            _ => assigned(&mut writer.dice, scope, *kind),
        };
        let values = table.columns.iter().enumerate().map(value).collect();
        clauses.push(Clause { condition, then: Then::Insert(values) });
    }
    clauses
}

fn condition(writer: &mut Writer, scope: &Scope) -> Both {
    if chance(&mut writer.dice, 30) { "1 = 1".into() } else { predicate(&mut writer.dice, scope, 1) }
}
