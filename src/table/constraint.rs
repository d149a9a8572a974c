//! Constraints, defaults, generated columns, comments and clustering columns of a table, as they lie among its properties.
//!
//! ```text
//!   amend.constraint.<name>      CHECK (3, 4) "#3" < "#4"
//!                                PRIMARY KEY (1)
//!                                UNIQUE (1, 2)
//!   amend.default.<field id>     an expression without columns
//!   amend.generated.<field id>   (3, 4) "#3" + "#4"
//!   amend.comment.<field id>     a text
//!   amend.cluster_by             (4, 1)
//! ```
//!
//! Columns are named by their field ids, so that a rename leaves them what they are. In an expression a column is the quoted
//! name `"#<id>"`; the list in front of it says which ones there are.
//!
//! Always holds: what is written is read back the same; a property under these prefixes that cannot be read is an error.

use crate::table::schema::FieldId;
use std::collections::{BTreeMap, BTreeSet};

/// What the properties that hold constraints begin with.
pub const CONSTRAINT_PREFIX: &str = "amend.constraint.";
/// What the properties that hold defaults begin with.
pub const DEFAULT_PREFIX: &str = "amend.default.";
/// What the properties that say of what columns are generated begin with.
pub const GENERATED_PREFIX: &str = "amend.generated.";
/// What the properties that hold comments on columns begin with.
pub const COMMENT_PREFIX: &str = "amend.comment.";

/// The property that holds the columns by which OPTIMIZE sorts.
pub const CLUSTER_KEY: &str = "amend.cluster_by";

/// A rule for the rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    /// Its name.
    pub name: String,
    /// The fields that it is about; for a key in its order.
    pub fields: Vec<FieldId>,
    /// What it asks.
    pub rule: Rule,
}

/// What a constraint asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// That an expression, in which columns are `"#<id>"`, is not false.
    Check(String),
    /// That no two rows have the same values, NULLs left out.
    Unique,
    /// Likewise, and that none of them is NULL.
    PrimaryKey,
}

impl Constraint {
    /// The property that holds it.
    pub fn key(&self) -> String {
        constraint_key(&self.name)
    }

    /// The value of the property.
    pub fn value(&self) -> String {
        let fields = self.fields.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match &self.rule {
            Rule::Check(condition) => format!("CHECK ({fields}) {condition}"),
            Rule::Unique => format!("UNIQUE ({fields})"),
            Rule::PrimaryKey => format!("PRIMARY KEY ({fields})"),
        }
    }

    /// The constraint of that name from the value of its property.
    pub fn parse(name: &str, value: &str) -> Result<Self, String> {
        let wrong = || format!("the constraint '{name}' cannot be read: {value}");
        let (word, rest) = value.split_once(" (").ok_or_else(wrong)?;
        let (fields, rest) = rest.split_once(')').ok_or_else(wrong)?;
        let ids = fields.split(", ").filter(|id| !id.is_empty()).map(|id| id.parse().map(FieldId).map_err(|_| wrong()));
        let fields = ids.collect::<Result<Vec<_>, _>>()?;
        let rule = match (word, rest, fields.is_empty()) {
            ("CHECK", condition, _) => Rule::Check(condition.strip_prefix(' ').ok_or_else(wrong)?.to_owned()),
            ("UNIQUE", "", false) => Rule::Unique,
            ("PRIMARY KEY", "", false) => Rule::PrimaryKey,
            _ => return Err(wrong()),
        };
        Ok(Constraint { name: name.to_owned(), fields, rule })
    }

    /// Whether it is about one of these fields.
    pub fn is_about(&self, fields: &BTreeSet<FieldId>) -> bool {
        self.fields.iter().any(|field| fields.contains(field))
    }

    /// The fields that it names: columns, and parts of them.
    pub fn names(&self) -> BTreeSet<FieldId> {
        let parts = match &self.rule {
            Rule::Check(condition) => named_in(condition),
            Rule::Unique | Rule::PrimaryKey => BTreeSet::new(),
        };
        parts.into_iter().chain(self.fields.iter().copied()).collect()
    }

    /// Whether it is a key.
    pub fn is_key(&self) -> bool {
        !matches!(self.rule, Rule::Check(_))
    }
}

/// The fields, columns and parts, that an expression names. What a text in it looks like counts too.
pub fn named_in(expression: &str) -> BTreeSet<FieldId> {
    let ids = expression.split("\"#").skip(1).filter_map(|rest| rest.split_once('"'));
    ids.filter_map(|(id, _)| id.parse().ok().map(FieldId)).collect()
}

/// The property of a constraint.
pub fn constraint_key(name: &str) -> String {
    format!("{CONSTRAINT_PREFIX}{name}")
}

/// The property of a field's default.
pub fn default_key(field: FieldId) -> String {
    format!("{DEFAULT_PREFIX}{field}")
}

/// The property of a comment on a field.
pub fn comment_key(field: FieldId) -> String {
    format!("{COMMENT_PREFIX}{field}")
}

/// Whether a property is one of these, and none that users set.
pub fn is_reserved(property: &str) -> bool {
    property == CLUSTER_KEY
        || [CONSTRAINT_PREFIX, DEFAULT_PREFIX, GENERATED_PREFIX, COMMENT_PREFIX].iter().any(|prefix| property.starts_with(prefix))
}

/// The value of the property of the columns by which OPTIMIZE sorts.
pub fn cluster_value(fields: &[FieldId]) -> String {
    format!("({})", fields.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

/// The columns that such a value names.
pub fn parse_cluster_value(value: &str) -> Result<Vec<FieldId>, String> {
    let wrong = || format!("the columns that it is clustered by cannot be read: {value}");
    let fields = value.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or_else(wrong)?;
    fields.split(", ").map(|id| id.parse().map(FieldId).map_err(|_| wrong())).collect()
}

/// The columns by which OPTIMIZE sorts, the first one first; none if it does not.
pub fn cluster_by(properties: &BTreeMap<String, String>) -> Result<Vec<FieldId>, String> {
    properties.get(CLUSTER_KEY).map_or(Ok(vec![]), |value| parse_cluster_value(value))
}

/// Of what a column is generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// The column.
    pub field: FieldId,
    /// The columns that the expression names.
    pub inputs: Vec<FieldId>,
    /// The expression, in which columns are `"#<id>"`.
    pub expression: String,
}

impl Generated {
    /// The property that holds it.
    pub fn key(&self) -> String {
        format!("{GENERATED_PREFIX}{}", self.field)
    }

    /// The value of the property.
    pub fn value(&self) -> String {
        format!("({}) {}", self.inputs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "), self.expression)
    }

    /// What the property of a field holds.
    pub fn parse(field: FieldId, value: &str) -> Result<Self, String> {
        let wrong = || format!("of what field {field} is generated cannot be read: {value}");
        let (inputs, expression) = value.strip_prefix('(').and_then(|rest| rest.split_once(") ")).ok_or_else(wrong)?;
        let ids = inputs.split(", ").filter(|id| !id.is_empty()).map(|id| id.parse().map(FieldId).map_err(|_| wrong()));
        Ok(Generated { field, inputs: ids.collect::<Result<_, _>>()?, expression: expression.to_owned() })
    }
}

/// The generated columns.
pub fn generated(properties: &BTreeMap<String, String>) -> Result<Vec<Generated>, String> {
    by_field(properties, GENERATED_PREFIX).into_iter().map(|(field, value)| Generated::parse(field, value)).collect()
}

/// The comments on columns.
pub fn comments(properties: &BTreeMap<String, String>) -> BTreeMap<FieldId, &str> {
    by_field(properties, COMMENT_PREFIX)
}

fn by_field<'a>(properties: &'a BTreeMap<String, String>, prefix: &'static str) -> BTreeMap<FieldId, &'a str> {
    let from = properties.range(prefix.to_owned()..);
    from.map_while(|(key, value)| Some((key.strip_prefix(prefix)?, value.as_str())))
        .filter_map(|(id, value)| Some((FieldId(id.parse().ok()?), value)))
        .collect()
}

/// The constraint that a property holds; `None` if it holds none.
pub fn of_property(property: &str, value: &str) -> Option<Result<Constraint, String>> {
    property.strip_prefix(CONSTRAINT_PREFIX).map(|name| Constraint::parse(name, value))
}

/// All constraints, by name.
pub fn constraints(properties: &BTreeMap<String, String>) -> Result<Vec<Constraint>, String> {
    let from = properties.range(CONSTRAINT_PREFIX.to_owned()..);
    from.map_while(|(key, value)| of_property(key, value)).collect()
}

/// The defaults, by field.
pub fn defaults(properties: &BTreeMap<String, String>) -> BTreeMap<FieldId, &str> {
    by_field(properties, DEFAULT_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(ids: &[i32]) -> Vec<FieldId> {
        ids.iter().copied().map(FieldId).collect()
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (rule, ids, value) in [
            (Rule::Check(r##""#1" < ")""##.into()), vec![1], r##"CHECK (1) "#1" < ")""##),
            (Rule::Check("true".into()), vec![], "CHECK () true"),
            (Rule::Unique, vec![3, 1], "UNIQUE (3, 1)"),
            (Rule::PrimaryKey, vec![2], "PRIMARY KEY (2)"),
        ] {
            let constraint = Constraint { name: "a b".into(), fields: fields(&ids), rule };
            assert_eq!(constraint.value(), value);
            assert_eq!(Constraint::parse("a b", value).unwrap(), constraint);
        }
        let of_part = Constraint::parse("c", r##"CHECK (1) "#1"."#12" < 5 AND "#1"['#3'] IS NOT NULL"##).unwrap();
        assert_eq!(of_part.names(), fields(&[1, 12]).into_iter().collect());
        for damaged in ["", "UNIQUE", "UNIQUE ()", "UNIQUE (a)", "UNIQUE (1) x", "CHECK (1)", "FOREIGN KEY (1)"] {
            assert!(Constraint::parse("c", damaged).unwrap_err().contains("cannot be read"), "{damaged}");
        }
    }

    #[test]
    fn they_are_found_among_other_properties() {
        let property = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let properties = BTreeMap::from([
            property("amend.constraint.", "UNIQUE (7)"),
            property("amend.constraint.c", "UNIQUE (1)"),
            property("amend.constraintd", "x"),
            property("amend.cluster_by", "(4, 1)"),
            property("amend.comment.3", "three"),
            property("amend.default.12", "5"),
            property("amend.default.3", "now()"),
            property("amend.generated.5", r##"(3, 4) ("#3") + "#4""##),
            property("amend.isolation", "snapshot"),
        ]);
        let generated = generated(&properties).unwrap();
        assert_eq!((generated[0].key().as_str(), generated[0].value().as_str()), ("amend.generated.5", r##"(3, 4) ("#3") + "#4""##));
        assert_eq!((generated[0].field, &generated[0].inputs), (FieldId(5), &fields(&[3, 4])));
        assert_eq!(Generated::parse(FieldId(5), "() 1").unwrap().inputs, []);
        assert!(["", "1", "(x) 1", "(1)1"].iter().all(|damaged| Generated::parse(FieldId(5), damaged).is_err()));
        assert_eq!(cluster_by(&properties).unwrap(), fields(&[4, 1]));
        assert_eq!((cluster_value(&fields(&[4, 1])), cluster_by(&BTreeMap::new())), ("(4, 1)".to_owned(), Ok(vec![])));
        assert!(["", "()", "4", "(4,1)", "(x)"].iter().all(|damaged| parse_cluster_value(damaged).is_err()));
        assert_eq!(comments(&properties), BTreeMap::from([(FieldId(3), "three")]));
        let names: Vec<String> = constraints(&properties).unwrap().into_iter().map(|constraint| constraint.name).collect();
        assert_eq!(names, ["", "c"]);
        assert_eq!(defaults(&properties), BTreeMap::from([(FieldId(3), "now()"), (FieldId(12), "5")]));
        assert!(is_reserved("amend.default.x") && is_reserved("amend.constraint.") && !is_reserved("amend.constraint"));
    }
}
