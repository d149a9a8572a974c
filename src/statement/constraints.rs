//! Constraints, defaults, comments, properties and clustering columns in CREATE TABLE and ALTER TABLE: DataFusion never sees them, the table
//! keeps them.
//!
//! Goes in: the parsed statement. Comes out: the statement without them, and what was asked for; then, given the fields of the
//! table, what its properties hold.
//! Always holds: what could not be held is refused; a constraint has a name, and no other has it.

use super::properties;
use crate::error::{Error, Result, nearest_name};
use crate::plan::layout::Layout;
use crate::scan::expression;
use crate::scan::expression::fold;
use crate::scan::generated;
use crate::table::constraint::{self, Constraint, Rule};
use crate::table::schema::{Field, FieldId, FieldType, TableSchema};
use datafusion::arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    CheckConstraint, ColumnOption, ColumnOptionDef, ConstraintCharacteristics, CreateTable, Expr, GeneratedAs, GeneratedExpressionMode,
    Ident, IndexColumn, NullsDistinctOption, PrimaryKeyConstraint, TableConstraint, UniqueConstraint,
};
use std::collections::BTreeMap;

/// What a CREATE TABLE says of its rows.
#[derive(Debug, Clone, Default)]
pub struct Definition {
    /// The columns, by position, that are said to be NOT NULL.
    not_null: Vec<usize>,
    /// The columns, by name, of the primary key.
    in_primary_key: Vec<String>,
    defaults: Vec<(Ident, Expr)>,
    generated: Vec<(Ident, Expr)>,
    constraints: Vec<Asked>,
    /// What columns are said to be.
    comments: Vec<(Ident, String)>,
    cluster_by: Vec<Ident>,
    /// The properties that users name.
    properties: BTreeMap<String, Option<String>>,
}

/// A constraint that is asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    name: Option<Ident>,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Check(Box<Expr>),
    Key { columns: Vec<Ident>, primary: bool },
}

impl Definition {
    /// Takes constraints and defaults out of a statement. Refuses what columns cannot have and DataFusion would ignore.
    pub fn take(table: &mut CreateTable) -> Result<Definition> {
        let properties = properties::take(table)?;
        let mut definition = Definition { properties, cluster_by: properties::take_cluster_by(table)?, ..Definition::default() };
        let name = table.name.clone();
        for column in &mut table.columns {
            let mut left = Vec::new();
            for option in std::mem::take(&mut column.options) {
                if let Some(value) = generated_as(&option.option) {
                    definition.generated.push((column.name.clone(), value.clone()));
                    continue;
                }
                match (&option.option, Asked::of_column(&column.name, &option)?) {
                    (_, Some(asked)) => definition.constraints.push(asked),
                    (ColumnOption::Comment(comment), _) => definition.comments.push((column.name.clone(), comment.clone())),
                    (ColumnOption::Default(value), _) => definition.defaults.push((column.name.clone(), value.clone())),
                    (ColumnOption::NotNull | ColumnOption::Null, _) => left.push(option),
                    (other, _) => {
                        return Err(Error::unsupported(format!("CREATE TABLE '{name}' with '{other}' of column '{}'", column.name), None));
                    }
                }
            }
            column.options = left;
        }
        let asked = std::mem::take(&mut table.constraints);
        definition.constraints.extend(asked.iter().map(Asked::of_table).collect::<Result<Vec<_>>>()?);
        let keys = definition.constraints.iter().filter_map(|asked| match &asked.what {
            What::Key { columns, primary: true } => Some(columns),
            _ => None,
        });
        let in_key: Vec<String> = keys.flatten().map(fold).collect();
        for (position, column) in table.columns.iter_mut().enumerate() {
            let says_so = column.options.iter().any(|option| option.option == ColumnOption::NotNull);
            if !says_so && in_key.contains(&fold(&column.name)) {
                column.options.retain(|option| option.option != ColumnOption::Null);
                column.options.push(ColumnOptionDef { name: None, option: ColumnOption::NotNull });
            }
            if says_so || in_key.contains(&fold(&column.name)) {
                definition.not_null.push(position);
            }
        }
        if let Some((column, _)) =
            definition.generated.iter().find(|(column, _)| definition.defaults.iter().any(|(other, _)| other == column))
        {
            return Err(Error::invalid(format!("column {column} of table '{name}' has a DEFAULT and is generated; say one of them")));
        }
        if let Some((column, _)) = definition.generated.first().filter(|_| table.query.is_some()) {
            let what = format!("CREATE TABLE '{name}' with the generated column {column} AS a query");
            return Err(Error::unsupported(what, Some("create it, then INSERT")));
        }
        definition.in_primary_key = in_key;
        Ok(definition)
    }

    /// Whether a column takes no NULL.
    pub fn is_not_null(&self, position: usize, name: &str) -> bool {
        self.not_null.contains(&position) || self.in_primary_key.iter().any(|column| column == name)
    }

    /// The properties that hold it, for a table of these fields.
    pub fn properties(&self, table: &str, schema: &TableSchema) -> Result<BTreeMap<String, Option<String>>> {
        let mut properties = self.properties.clone();
        for (column, comment) in &self.comments {
            properties.insert(constraint::comment_key(column_of(table, schema, column)?.id), Some(comment.clone()));
        }
        if !self.cluster_by.is_empty() {
            let fields = cluster_fields(table, schema, &self.cluster_by)?;
            properties.insert(constraint::CLUSTER_KEY.to_owned(), Some(constraint::cluster_value(&fields)));
        }
        for (column, value) in &self.defaults {
            let field = column_of(table, schema, column)?;
            properties.insert(constraint::default_key(field.id), Some(default(table, schema, field, value)?));
        }
        let generated = self.generated.iter().map(|(column, _)| Ok(column_of(table, schema, column)?.id)).collect::<Result<_>>()?;
        for (column, value) in &self.generated {
            let kept = generated::kept(table, schema, column_of(table, schema, column)?, value, &generated)?;
            properties.insert(kept.key(), Some(kept.value()));
        }
        let mut all = Vec::new();
        // Names that are given go before those that are made up.
        for named in [true, false] {
            for asked in self.constraints.iter().filter(|asked| asked.name.is_some() == named) {
                all.push(asked.constraint(table, schema, &all)?);
            }
        }
        properties.extend(all.iter().map(|constraint| (constraint.key(), Some(constraint.value()))));
        Ok(properties)
    }
}

/// What a column is generated as, if it is stored.
pub fn generated_as(option: &ColumnOption) -> Option<&Expr> {
    match option {
        ColumnOption::Generated {
            generated_as: GeneratedAs::Always | GeneratedAs::ExpStored,
            generation_expr: Some(value),
            generation_expr_mode: None | Some(GeneratedExpressionMode::Stored),
            ..
        } => Some(value),
        _ => None,
    }
}

/// The default of a field as it is kept.
pub fn default(table: &str, schema: &TableSchema, field: &Field, value: &Expr) -> Result<String> {
    expression::default(table, value, &field.name, schema.arrow_field(field).data_type())
}

/// The columns by which OPTIMIZE is to sort: such as can be sorted.
pub fn cluster_fields(table: &str, schema: &TableSchema, columns: &[Ident]) -> Result<Vec<FieldId>> {
    let fields = columns.iter().map(|column| Ok(column_of(table, schema, column)?.id)).collect::<Result<Vec<_>>>()?;
    if !fields.is_empty() {
        Layout::of_fields(&fields, schema, table)?;
    }
    Ok(fields)
}

/// The column of that name.
pub fn column_of<'a>(table: &str, schema: &'a TableSchema, column: &Ident) -> Result<&'a Field> {
    let name = fold(column);
    let unknown = || {
        let nearest = nearest_name(&name, schema.columns().map(|column| column.name.as_str()));
        Error::UnknownColumn { table: table.to_owned(), column: name.clone(), nearest }
    };
    schema.column(&name).ok_or_else(unknown)
}

impl Asked {
    /// The constraint that an option of a column is; `None` if it is another option.
    pub fn of_column(column: &Ident, option: &ColumnOptionDef) -> Result<Option<Asked>> {
        let columns = || vec![IndexColumn::from(column.clone())];
        let constraint = match option.option.clone() {
            ColumnOption::Check(check) => TableConstraint::Check(check),
            ColumnOption::PrimaryKey(key) => TableConstraint::PrimaryKey(PrimaryKeyConstraint { columns: columns(), ..key }),
            ColumnOption::Unique(key) => TableConstraint::Unique(UniqueConstraint { columns: columns(), ..key }),
            _ => return Ok(None),
        };
        let asked = Asked::of_table(&constraint)?;
        Ok(Some(Asked { name: option.name.clone().or(asked.name), ..asked }))
    }

    /// The constraint that a table is to have.
    pub fn of_table(constraint: &TableConstraint) -> Result<Asked> {
        let refuse = |instead: Option<&str>| Err(Error::unsupported(format!("the constraint {constraint}"), instead));
        let plain = |characteristics: &Option<ConstraintCharacteristics>| {
            characteristics.as_ref().is_none_or(|c| c.deferrable != Some(true) && c.enforced != Some(false) && c.initially.is_none())
        };
        let (name, what) = match constraint {
            TableConstraint::Check(CheckConstraint { name, expr, enforced: None | Some(true) }) => (name, What::Check(expr.clone())),
            TableConstraint::PrimaryKey(key) if key.index_type.is_none() && key.index_options.is_empty() && plain(&key.characteristics) => {
                (&key.name, What::Key { columns: key_columns(constraint, &key.columns)?, primary: true })
            }
            TableConstraint::Unique(key) if key.index_type.is_none() && key.index_options.is_empty() && plain(&key.characteristics) => {
                if key.nulls_distinct == NullsDistinctOption::NotDistinct {
                    return refuse(Some("rows with NULL in a key are different; say NOT NULL"));
                }
                (&key.name, What::Key { columns: key_columns(constraint, &key.columns)?, primary: false })
            }
            _ => return refuse(None),
        };
        Ok(Asked { name: name.clone(), what })
    }

    /// Whether it is a primary key; its columns then.
    pub fn primary_key(&self) -> Option<&[Ident]> {
        match &self.what {
            What::Key { columns, primary: true } => Some(columns),
            _ => None,
        }
    }

    /// The constraint, beside `others`.
    pub fn constraint(&self, table: &str, schema: &TableSchema, others: &[Constraint]) -> Result<Constraint> {
        let refuse = |reason: String, sqlstate| Err(Error::Refused { reason, sqlstate });
        let (rule, fields) = match &self.what {
            What::Check(condition) => {
                let (kept, fields) = expression::kept(table, condition, schema)?;
                expression::condition(table, &kept, schema)?;
                (Rule::Check(kept), fields.into_iter().collect())
            }
            What::Key { columns, primary } => {
                let fields = columns.iter().map(|column| key_field(table, schema, column)).collect::<Result<Vec<_>>>()?;
                if let Some(twice) =
                    columns.iter().enumerate().find(|(at, _)| fields.iter().take(*at).any(|field| fields.get(*at) == Some(field)))
                {
                    return refuse(format!("a key of table '{table}' names the column '{}' twice", twice.1), "42701");
                }
                if *primary && others.iter().any(|other| other.rule == Rule::PrimaryKey) {
                    return refuse(format!("table '{table}' cannot have two primary keys"), "42P16");
                }
                (if *primary { Rule::PrimaryKey } else { Rule::Unique }, fields)
            }
        };
        let is_taken = |name: &str| others.iter().any(|other| other.name == name);
        let name = match &self.name {
            Some(name) if is_taken(&fold(name)) => {
                return refuse(format!("table '{table}' has a constraint '{}' already", fold(name)), "42710");
            }
            Some(name) => fold(name),
            None => {
                let first = made_up(table, schema, &rule, &fields);
                let numbered = std::iter::once(first.clone()).chain((1..).map(|number| format!("{first}{number}")));
                numbered.into_iter().find(|name| !is_taken(name)).unwrap_or(first)
            }
        };
        Ok(Constraint { name, fields, rule })
    }
}

fn key_columns(constraint: &TableConstraint, columns: &[IndexColumn]) -> Result<Vec<Ident>> {
    let plain = |column: &IndexColumn| match (&column.column.expr, &column.operator_class, &column.column.with_fill) {
        (Expr::Identifier(name), None, None) if column.column.options == Default::default() => Ok(name.clone()),
        _ => Err(Error::unsupported(format!("the constraint {constraint}"), Some("name columns, without expressions and order"))),
    };
    columns.iter().map(plain).collect()
}

/// A column of a key.
fn key_field(table: &str, schema: &TableSchema, column: &Ident) -> Result<FieldId> {
    let field = column_of(table, schema, column)?;
    check_key(table, field)?;
    Ok(field.id)
}

/// Refuses a column that can be in no key.
pub fn check_key(table: &str, field: &Field) -> Result<()> {
    let FieldType::Leaf(leaf) = &field.field_type else {
        return Err(Error::unsupported(format!("a key of column '{}' of table '{table}', which is nested,", field.name), None));
    };
    match leaf {
        // Zeros that are equal are not the same, and NaN is not equal to itself.
        DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::Null | DataType::Dictionary(..) | DataType::Interval(_) => {
            Err(Error::unsupported(
                format!("a key of column '{}' of table '{table}' of type {leaf}", field.name),
                Some("take an exact type"),
            ))
        }
        _ => Ok(()),
    }
}

/// The name of a constraint that was given none.
fn made_up(table: &str, schema: &TableSchema, rule: &Rule, fields: &[FieldId]) -> String {
    // A table in a namespace is called `s.t`.
    let table = table.rsplit('.').next().unwrap_or(table);
    let names: Vec<&str> = fields.iter().filter_map(|field| schema.field(*field)).map(|field| field.name.as_str()).collect();
    match (rule, names.as_slice()) {
        (Rule::PrimaryKey, _) => format!("{table}_pkey"),
        (Rule::Unique, names) => format!("{table}_{}_key", names.join("_")),
        (Rule::Check(_), [column]) => format!("{table}_{column}_check"),
        (Rule::Check(_), _) => format!("{table}_check"),
    }
}

/// A constraint in words, with the names of today.
pub fn definition(table: &str, schema: &TableSchema, constraint: &Constraint) -> Result<(&'static str, String)> {
    let names = constraint.fields.iter().filter_map(|field| schema.field(*field)).map(|field| expression::ident(&field.name).to_string());
    let columns = names.collect::<Vec<_>>().join(", ");
    Ok(match &constraint.rule {
        Rule::Check(kept) => ("CHECK", format!("CHECK ({})", expression::named(table, kept, schema)?)),
        Rule::Unique => ("UNIQUE", format!("UNIQUE ({columns})")),
        Rule::PrimaryKey => ("PRIMARY KEY", format!("PRIMARY KEY ({columns})")),
    })
}
