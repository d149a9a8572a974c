//! SQL in the words of both engines, and expressions of which both say the same.
//!
//! Always holds: an expression has the same value in both, whatever the row. So integers stay small, doubles are quarters
//! without a negative zero, decimals are whole cents there, dates are ISO texts there, and a date or decimal is never made text.

use crate::schedules::plan::Dice;

/// SQL here and there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Both {
    pub here: String,
    pub there: String,
}

impl From<&str> for Both {
    fn from(same: &str) -> Both {
        Both { here: same.to_owned(), there: same.to_owned() }
    }
}

impl From<String> for Both {
    fn from(same: String) -> Both {
        Both { here: same.clone(), there: same }
    }
}

/// A template with the parts in place of its `{}`.
pub fn put(template: &str, parts: &[&Both]) -> Both {
    let mut both = Both { here: String::new(), there: String::new() };
    let mut parts = parts.iter();
    for (at, piece) in template.split("{}").enumerate() {
        if at > 0 {
            let part = parts.next().unwrap();
            both.here.push_str(&part.here);
            both.there.push_str(&part.there);
        }
        both.here.push_str(piece);
        both.there.push_str(piece);
    }
    assert!(parts.next().is_none(), "{template}");
    both
}

/// The parts one after another.
pub fn join<'a>(parts: impl IntoIterator<Item = &'a Both>, between: &str) -> Both {
    let parts: Vec<&Both> = parts.into_iter().collect();
    put(&vec!["{}"; parts.len()].join(between), &parts)
}

fn differently(here: impl Into<String>, there: impl Into<String>) -> Both {
    Both { here: here.into(), there: there.into() }
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Small,
    Int,
    Big,
    Double,
    Decimal,
    Text,
    Bool,
    Date,
}

pub const KINDS: [Kind; 8] = [Kind::Int, Kind::Big, Kind::Text, Kind::Small, Kind::Double, Kind::Decimal, Kind::Bool, Kind::Date];

impl Kind {
    pub fn name(self) -> Both {
        match self {
            Kind::Small => differently("SMALLINT", "INT"),
            Kind::Int => "INT".into(),
            Kind::Big => differently("BIGINT", "INT"),
            Kind::Double => differently("DOUBLE", "REAL"),
            Kind::Decimal => differently("DECIMAL(10, 2)", "INT"),
            Kind::Text => differently("VARCHAR", "TEXT"),
            Kind::Bool => differently("BOOLEAN", "INT"),
            Kind::Date => differently("DATE", "TEXT"),
        }
    }

    /// Whether values of the two can be compared and assigned.
    pub fn like(self, other: Kind) -> bool {
        self == other || (self.is_int() && other.is_int())
    }

    pub fn is_int(self) -> bool {
        matches!(self, Kind::Small | Kind::Int | Kind::Big)
    }
}

/// A table that a subquery may read.
#[derive(Debug, Clone)]
pub struct Source {
    pub table: String,
    /// Its columns by their bare names.
    pub columns: Vec<(String, Kind)>,
}

/// What an expression may name.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Columns as they are written.
    pub columns: Vec<(String, Kind)>,
    /// Tables of subqueries.
    pub sources: Vec<Source>,
}

impl Scope {
    /// The columns of a relation under its name.
    pub fn of(relation: &str, columns: &[(String, Kind)], sources: &[Source]) -> Scope {
        let columns = columns.iter().map(|(name, kind)| (format!("{relation}.{name}"), *kind)).collect();
        Scope { columns, sources: sources.to_vec() }
    }

    pub fn with(&self, more: &Scope) -> Scope {
        Scope { columns: [self.columns.clone(), more.columns.clone()].concat(), sources: self.sources.clone() }
    }

    /// The same, where no subqueries are allowed.
    pub fn plain(&self) -> Scope {
        Scope { columns: self.columns.clone(), sources: vec![] }
    }
}

/// One of the items.
pub fn any<'a, T>(dice: &mut Dice, items: &'a [T]) -> &'a T {
    &items[dice.below(items.len() as u64) as usize]
}

pub fn chance(dice: &mut Dice, percent: u64) -> bool {
    dice.below(100) < percent
}

/// A constant, never NULL.
pub fn constant(dice: &mut Dice, kind: Kind) -> Both {
    match kind {
        Kind::Small | Kind::Int | Kind::Big => (dice.below(14) as i64 - 3).to_string().into(),
        Kind::Double => format!("{:?}", dice.below(30) as f64 * 0.25).into(),
        Kind::Decimal => {
            let cents = dice.below(600) as i64 - 100;
            let sign = if cents < 0 { "-" } else { "" };
            let (whole, rest) = (cents.abs() / 100, cents.abs() % 100);
            differently(format!("CAST('{sign}{whole}.{rest:02}' AS DECIMAL(10, 2))"), cents.to_string())
        }
        Kind::Text => {
            let texts = ["''", "'a'", "'b'", "'ab'", "'Abc'", "'zz'", "'x''y'", "'ä'", "'%'", "'a_b'", "' '", "'longer text of all'"];
            (*any(dice, &texts)).into()
        }
        Kind::Bool => (*any(dice, &["TRUE", "FALSE"])).into(),
        Kind::Date => {
            let day = format!("'2024-{:02}-{:02}'", 1 + dice.below(3), 1 + dice.below(9));
            differently(format!("DATE {day}"), day)
        }
    }
}

/// A constant or NULL.
pub fn value(dice: &mut Dice, kind: Kind) -> Both {
    if chance(dice, 15) { "NULL".into() } else { constant(dice, kind) }
}

/// A column of the kind, if there is one.
pub fn column(dice: &mut Dice, scope: &Scope, kind: Kind) -> Option<Both> {
    let fitting: Vec<&String> = scope.columns.iter().filter(|(_, found)| found.like(kind)).map(|(name, _)| name).collect();
    if fitting.is_empty() { None } else { Some(any(dice, &fitting).as_str().into()) }
}

/// An expression that can be assigned to a column of the kind: bounded, so that repeating it goes nowhere.
pub fn assigned(dice: &mut Dice, scope: &Scope, kind: Kind) -> Both {
    if chance(dice, 8) {
        return "NULL".into();
    }
    let value = expression(dice, scope, kind, 2);
    match kind {
        Kind::Small | Kind::Int | Kind::Big => put("{} % 100", &[&value]),
        Kind::Text => put("substr({}, 1, 12)", &[&value]),
        Kind::Double => put("CASE WHEN {} < 1000.0 AND {} > -1000.0 THEN {} ELSE 0.5 END", &[&value, &value, &value]),
        Kind::Decimal => {
            let bound = differently("CAST('1000.00' AS DECIMAL(10, 2))", "100000");
            put("CASE WHEN {} < {} AND {} > -{} THEN {} ELSE NULL END", &[&value, &bound, &value, &bound, &value])
        }
        Kind::Bool | Kind::Date => value,
    }
}

/// An expression of a kind.
pub fn expression(dice: &mut Dice, scope: &Scope, kind: Kind, depth: u32) -> Both {
    if depth == 0 || chance(dice, 30) {
        return leaf(dice, scope, kind);
    }
    let depth = depth - 1;
    let form = dice.below(10);
    if form == 0 && !scope.sources.is_empty() && kind != Kind::Bool {
        return aggregate_of(dice, scope, kind);
    }
    if form == 1 {
        let condition = predicate(dice, scope, depth);
        let (yes, no) = (expression(dice, scope, kind, depth), leaf(dice, scope, kind));
        return put("(CASE WHEN {} THEN {} ELSE {} END)", &[&condition, &yes, &no]);
    }
    if form == 2 {
        return put("coalesce({}, {})", &[&expression(dice, scope, kind, depth), &constant(dice, kind)]);
    }
    if form == 3 {
        return put("nullif({}, {})", &[&expression(dice, scope, kind, depth), &constant(dice, kind)]);
    }
    let mut some = |kind| expression(dice, scope, kind, depth);
    match kind {
        Kind::Small | Kind::Int | Kind::Big => match form {
            4 => put("({} - {})", &[&some(Kind::Int), &some(Kind::Int)]),
            5 => put("({} * 2)", &[&some(Kind::Int)]),
            6 => put("({} / 3)", &[&some(Kind::Int)]),
            7 => put("({} % 7)", &[&some(Kind::Int)]),
            8 => put("length({})", &[&some(Kind::Text)]),
            _ => put("({} + {})", &[&some(Kind::Int), &some(Kind::Int)]),
        },
        Kind::Double => match form {
            4 => put("({} * 2.0)", &[&some(Kind::Double)]),
            5 => put("({} - {})", &[&some(Kind::Double), &some(Kind::Double)]),
            6 => put("CAST({} AS {})", &[&some(Kind::Int), &differently("DOUBLE", "REAL")]),
            7 => put("abs({})", &[&some(Kind::Double)]),
            _ => put("({} + {})", &[&some(Kind::Double), &some(Kind::Double)]),
        },
        Kind::Decimal => match form {
            4 => put("({} - {})", &[&some(Kind::Decimal), &some(Kind::Decimal)]),
            5 => put("({} * 2)", &[&some(Kind::Decimal)]),
            _ => put("({} + {})", &[&some(Kind::Decimal), &some(Kind::Decimal)]),
        },
        Kind::Text => match form {
            4 => put("substr({}, 1, 2)", &[&some(Kind::Text)]),
            5 => put("replace({}, 'a', 'bb')", &[&some(Kind::Text)]),
            6 => put("CAST({} AS {})", &[&some(Kind::Int), &differently("VARCHAR", "TEXT")]),
            7 => put("trim({})", &[&some(Kind::Text)]),
            _ => put("({} || {})", &[&some(Kind::Text), &some(Kind::Text)]),
        },
        Kind::Bool => put("({})", &[&predicate(dice, scope, depth)]),
        Kind::Date => {
            let (date, days) = (some(Kind::Date), dice.below(5));
            let (here, there) = (format!("({} + INTERVAL '{days} days')", date.here), format!("date({}, '+{days} days')", date.there));
            differently(here, there)
        }
    }
}

fn leaf(dice: &mut Dice, scope: &Scope, kind: Kind) -> Both {
    let named = if chance(dice, 75) { column(dice, scope, kind) } else { None };
    named.unwrap_or_else(|| constant(dice, kind))
}

/// A subquery of one value: by itself, or for the rows that have a value in common with the outer row.
fn aggregate_of(dice: &mut Dice, scope: &Scope, kind: Kind) -> Both {
    let source = any(dice, &scope.sources).clone();
    let inner = Scope::of("z", &source.columns, &[]);
    let Some(value) = column(dice, &inner, kind) else { return leaf(dice, scope, kind) };
    let function = match kind.is_int() {
        true => *any(dice, &["max({})", "min({})", "count({})", "count(DISTINCT {})", "sum({})"]),
        false => *any(dice, &["max({})", "min({})"]),
    };
    let value = put(function, &[&value]);
    let condition = within(dice, scope, &inner);
    put("(SELECT {} FROM {} AS z WHERE {})", &[&value, &source.table.as_str().into(), &condition])
}

/// The condition of a subquery, perhaps with an equality to the outer row.
fn within(dice: &mut Dice, scope: &Scope, inner: &Scope) -> Both {
    let own = if chance(dice, 50) { predicate(dice, inner, 1) } else { "1 = 1".into() };
    let (outer, kind) = any(dice, &scope.columns).clone();
    match column(dice, inner, kind) {
        Some(column) if kind != Kind::Bool && chance(dice, 60) => put("{} = {} AND ({})", &[&column, &outer.into(), &own]),
        _ => own,
    }
}

/// A condition.
pub fn predicate(dice: &mut Dice, scope: &Scope, depth: u32) -> Both {
    if depth > 0 && chance(dice, 40) {
        let (left, right) = (predicate(dice, scope, depth - 1), predicate(dice, scope, depth - 1));
        return match dice.below(5) {
            0 => put("NOT ({})", &[&left]),
            1 => put("({}) IS NOT TRUE", &[&left]),
            2 | 3 => put("({} OR {})", &[&left, &right]),
            _ => put("({} AND {})", &[&left, &right]),
        };
    }
    let kind = any(dice, &scope.columns).1;
    let form = dice.below(14);
    if form < 3 && !scope.sources.is_empty() {
        // A subquery on the left of IN is refused here.
        let left = expression(dice, &scope.plain(), kind, depth);
        return subquery(dice, scope, form, kind, &left);
    }
    let left = expression(dice, scope, kind, depth);
    match (form, kind) {
        (3, _) => put("{} IS NULL", &[&left]),
        (4, _) => put("{} IS NOT NULL", &[&left]),
        (_, Kind::Bool) if form < 9 => left,
        (5, _) => {
            let list: Vec<Both> = (0..1 + dice.below(3)).map(|_| value(dice, kind)).collect();
            let word = any(dice, &["IN", "NOT IN"]);
            put(&format!("{{}} {word} ({{}})"), &[&left, &join(&list, ", ")])
        }
        (6, Kind::Text) => {
            let (word, pattern) = (any(dice, &["LIKE", "NOT LIKE"]), any(dice, &["'a%'", "'%b%'", "'_'", "''", "'%'", "'A%'", "'_b%'"]));
            put(&format!("{{}} {word} {pattern}"), &[&left])
        }
        (6 | 7, _) => put("{} BETWEEN {} AND {}", &[&left, &constant(dice, kind), &leaf(dice, scope, kind)]),
        (8, _) => {
            let word = any(dice, &["IS DISTINCT FROM", "IS NOT DISTINCT FROM"]);
            put(&format!("{{}} {word} {{}}"), &[&left, &leaf(dice, scope, kind)])
        }
        _ => {
            let sign = any(dice, &["=", "<>", "<", "<=", ">", ">=", "=", "<", ">"]);
            put(&format!("{{}} {sign} {{}}"), &[&left, &expression(dice, scope, kind, depth)])
        }
    }
}

fn subquery(dice: &mut Dice, scope: &Scope, form: u64, kind: Kind, left: &Both) -> Both {
    let source = any(dice, &scope.sources).clone();
    let inner = Scope::of("z", &source.columns, &[]);
    let (condition, table) = (within(dice, scope, &inner), source.table.as_str().into());
    let not = any(dice, &["", "NOT "]);
    match column(dice, &inner, kind) {
        Some(column) if form > 0 => {
            put(&format!("{{}} {not}IN (SELECT {{}} FROM {{}} AS z WHERE {{}})"), &[left, &column, &table, &condition])
        }
        _ => put(&format!("{not}EXISTS (SELECT 1 FROM {{}} AS z WHERE {{}})"), &[&table, &condition]),
    }
}
