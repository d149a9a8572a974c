//! The model: a table is rows by key, a transaction is what it did to keys.
//!
//! Always holds: nothing here knows of fragments, addresses or files.

use super::plan::{Condition, Merge, Set, Statement};
use crate::support::Row;
use amend::txn::composite::RowCounts;
use std::collections::{BTreeMap, BTreeSet};

/// Rows by key.
pub type Contents = BTreeMap<i64, i64>;

/// The versions of the table.
#[derive(Debug)]
pub struct Model {
    /// What each version holds; version 0 is nothing.
    versions: Vec<Contents>,
    /// What the transaction of each version did.
    landed: Vec<Landed>,
    /// Keys begin at 1.
    keys: i64,
}

#[derive(Debug, Clone, Default)]
struct Landed {
    touched: BTreeMap<i64, Touch>,
    moved: bool,
    in_place: bool,
}

/// What a transaction did to a row; the last counts for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Touch {
    Deleted,
    /// It has new values where it is.
    InPlace,
    /// A new one was made of it.
    Replaced,
}

impl Touch {
    fn collides(self, other: Touch) -> bool {
        self == Touch::Replaced || other == Touch::Replaced || (self, other) == (Touch::InPlace, Touch::InPlace)
    }
}

/// A transaction that is under way.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    /// The version that it reads, once it has read one.
    base: Option<usize>,
    /// That version with its own changes.
    view: Contents,
    /// Rows of that version that it changed.
    touched: BTreeMap<i64, Touch>,
    /// Keys of rows that it inserted.
    inserted: BTreeSet<i64>,
    pub counts: RowCounts,
    /// Those of its last statement.
    pub last: RowCounts,
    /// Whether it moved rows.
    pub moves: bool,
    /// Whether it changed or moved rows after it had moved some.
    built_upon: bool,
    /// Whether it gave rows new values in place.
    pub in_place: bool,
}

/// What has to become of a transaction.
pub enum Landing {
    /// It lands: the rows then, its counts, and what it did.
    Lands { contents: Contents, counts: RowCounts, touched: BTreeMap<i64, Touch> },
    /// Others changed rows that it changed.
    Collides,
}

impl Model {
    /// The table at its first version.
    pub fn of_an_empty_table() -> Model {
        Model { versions: vec![Contents::new(); 2], landed: vec![Landed::default(); 2], keys: 0 }
    }

    /// What the newest version holds.
    pub fn contents(&self) -> &Contents {
        &self.versions[self.newest()]
    }

    pub fn newest(&self) -> usize {
        self.versions.len() - 1
    }

    pub fn rows_of(&self, version: usize) -> Vec<Row> {
        rows(&self.versions[version])
    }

    /// What a transaction, or one statement by itself, reads now.
    pub fn view(&self, transaction: Option<&mut Transaction>) -> Vec<Row> {
        match transaction {
            Some(transaction) => {
                self.pin(transaction);
                rows(&transaction.view)
            }
            None => self.rows_of(self.newest()),
        }
    }

    fn pin(&self, transaction: &mut Transaction) {
        if transaction.base.is_none() {
            transaction.base = Some(self.newest());
            transaction.view = self.versions[self.newest()].clone();
        }
    }

    /// Does what a statement does in a transaction, and says it as SQL. `columns`: an UPDATE is in column form.
    pub fn run(&mut self, statement: &Statement, columns: bool, transaction: &mut Transaction) -> String {
        self.pin(transaction);
        transaction.last = RowCounts::default();
        let sql = match statement {
            Statement::Insert(values) => {
                let mut rows = Vec::new();
                for value in values {
                    self.keys += 1;
                    transaction.insert(self.keys, *value);
                    rows.push(format!("({}, {value})", self.keys));
                }
                format!("INSERT INTO t VALUES {}", rows.join(", "))
            }
            Statement::Update(set, condition) => {
                let touch = if columns { Touch::InPlace } else { Touch::Replaced };
                for (key, value) in transaction.found(*condition) {
                    transaction.update(key, set.of(value), touch);
                    transaction.in_place |= columns;
                }
                format!("UPDATE t SET v = {}{}", set.sql(), condition.sql())
            }
            Statement::Delete(condition) => {
                for (key, _) in transaction.found(*condition) {
                    transaction.delete(key);
                }
                format!("DELETE FROM t{}", condition.sql())
            }
            Statement::Merge(merge, source) => self.merge(*merge, source, transaction),
            Statement::Optimize { full } => {
                transaction.built_upon |= transaction.moves;
                transaction.moves = true;
                format!("OPTIMIZE t{}", if *full { " FULL" } else { "" })
            }
        };
        let RowCounts { inserted, updated, deleted, .. } = transaction.last;
        transaction.counts.inserted += inserted;
        transaction.counts.updated += updated;
        transaction.counts.deleted += deleted;
        transaction.built_upon |= transaction.moves && updated + deleted > 0;
        sql
    }

    fn merge(&mut self, merge: Merge, source: &[(usize, i64)], transaction: &mut Transaction) -> String {
        // Each key once; a row that is not there is inserted under a new key.
        let mut rows = BTreeMap::new();
        for (pick, value) in source {
            rows.insert(1 + *pick as i64 % self.keys.max(1), (*value, 0));
        }
        for (_, new) in rows.values_mut() {
            self.keys += 1;
            *new = self.keys;
        }
        let target = transaction.view.clone();
        for (key, (value, new)) in &rows {
            match (target.get(key), merge) {
                (Some(old), Merge::AddOrInsert) => transaction.update(*key, old + value, Touch::Replaced),
                (Some(old), Merge::DeleteOrSet) if old % 2 != 0 => transaction.update(*key, *value, Touch::Replaced),
                (Some(_), Merge::DeleteOrSet | Merge::DeleteTouchOrInsert) => transaction.delete(*key),
                (None, Merge::AddOrInsert | Merge::DeleteTouchOrInsert) => transaction.insert(*new, *value),
                (None, Merge::DeleteOrSet) => {}
            }
        }
        if let Merge::DeleteTouchOrInsert = merge {
            for (key, old) in target.iter().filter(|(key, old)| *old % 5 == 0 && !rows.contains_key(key)) {
                transaction.update(*key, old + 1, Touch::Replaced);
            }
        }
        let values: Vec<String> = rows.iter().map(|(key, (value, new))| format!("({key}, {value}, {new})")).collect();
        let clauses = match merge {
            Merge::AddOrInsert => "WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.n, s.v)",
            Merge::DeleteOrSet => "WHEN MATCHED AND t.v % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v",
            Merge::DeleteTouchOrInsert => {
                "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.v % 5 = 0 THEN UPDATE SET v = t.v + 1 \
                 WHEN NOT MATCHED BY TARGET THEN INSERT (k, v) VALUES (s.n, s.v)"
            }
        };
        format!("MERGE INTO t USING (VALUES {}) AS s (k, v, n) ON t.k = s.k {clauses}", values.join(", "))
    }

    /// What has to become of a transaction that commits now.
    pub fn land(&self, transaction: &Transaction) -> Landing {
        let mut touched = transaction.touched.clone();
        let mut counts = transaction.counts;
        for theirs in self.since(transaction) {
            if touched.iter().any(|(key, ours)| theirs.touched.get(key).is_some_and(|theirs| ours.collides(*theirs))) {
                return Landing::Collides;
            }
        }
        let mut contents = self.versions[self.newest()].clone();
        // What others deleted is gone.
        touched.retain(|key, _| {
            let gone = !contents.contains_key(key);
            counts.deleted -= u64::from(gone && !transaction.view.contains_key(key));
            !gone
        });
        contents.retain(|key, _| !touched.contains_key(key));
        let new = |key: &i64| touched.contains_key(key) || transaction.inserted.contains(key);
        contents.extend(transaction.view.iter().filter(|(key, _)| new(key)).map(|(key, value)| (*key, *value)));
        Landing::Lands { contents, counts, touched }
    }

    /// Whether a transaction may collide that changes no row that others changed: it moved rows, then changed or moved them
    /// again, and others moved rows as well.
    pub fn may_collide_on_a_move(&self, transaction: &Transaction) -> bool {
        transaction.built_upon && self.since(transaction).any(|theirs| theirs.moved)
    }

    /// Whether a transaction may collide that changes no row that others changed: it or they wrote columns, of rows that the model
    /// does not know to lie beside those of the other.
    pub fn may_collide_on_columns(&self, transaction: &Transaction) -> bool {
        self.since(transaction).any(|theirs| theirs.in_place || (transaction.in_place && !theirs.touched.is_empty()))
    }

    fn since(&self, transaction: &Transaction) -> impl Iterator<Item = &Landed> {
        let first = transaction.base.map_or(self.landed.len(), |base| base + 1);
        self.landed.iter().skip(first)
    }

    /// A version was made.
    pub fn push(&mut self, contents: Contents, touched: BTreeMap<i64, Touch>, moved: bool, in_place: bool) {
        self.versions.push(contents);
        self.landed.push(Landed { touched, moved, in_place });
    }
}

impl Transaction {
    fn found(&self, condition: Condition) -> Vec<(i64, i64)> {
        let largest = self.view.values().max().copied();
        let is_found = |key: i64, value: i64| match condition {
            Condition::Remainder(divisor, remainder) => value % divisor == remainder,
            Condition::Below(limit) => value < limit,
            Condition::Largest => Some(value) == largest,
            Condition::KeyRemainder(divisor, remainder) => key % divisor == remainder,
            Condition::All => true,
        };
        self.view.iter().filter(|(key, value)| is_found(**key, **value)).map(|(key, value)| (*key, *value)).collect()
    }

    fn insert(&mut self, key: i64, value: i64) {
        self.view.insert(key, value);
        self.last.inserted += 1;
        self.inserted.insert(key);
    }

    fn update(&mut self, key: i64, value: i64, touch: Touch) {
        self.view.insert(key, value);
        self.last.updated += 1;
        self.touch(key, touch);
    }

    fn delete(&mut self, key: i64) {
        self.view.remove(&key);
        self.last.deleted += 1;
        self.touch(key, Touch::Deleted);
    }

    fn touch(&mut self, key: i64, touch: Touch) {
        if !self.inserted.contains(&key) {
            let held = self.touched.entry(key).or_insert(touch);
            *held = touch.max(*held);
        }
    }
}

fn rows(contents: &Contents) -> Vec<Row> {
    contents.iter().map(|(key, value)| (*key, *value)).collect()
}

impl Set {
    fn of(self, value: i64) -> i64 {
        match self {
            Set::Plus(number) => value + number,
            Set::Scrambled => value * 7 % 23,
            Set::To(number) => number,
        }
    }

    fn sql(self) -> String {
        match self {
            Set::Plus(number) => format!("v + {number}"),
            Set::Scrambled => "v * 7 % 23".to_owned(),
            Set::To(number) => number.to_string(),
        }
    }
}

impl Condition {
    fn sql(self) -> String {
        match self {
            Condition::Remainder(divisor, remainder) => format!(" WHERE v % {divisor} = {remainder}"),
            Condition::Below(limit) => format!(" WHERE v < {limit}"),
            Condition::Largest => " WHERE v IN (SELECT max(v) FROM t)".to_owned(),
            Condition::KeyRemainder(divisor, remainder) => format!(" WHERE k % {divisor} = {remainder}"),
            Condition::All => String::new(),
        }
    }
}
