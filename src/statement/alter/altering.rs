//! A table on its way to another schema: what the operations of an ALTER TABLE do, one after another.
//!
//! Goes in: the version that is altered, and operations. Comes out: actions, and what is to be looked at before they may land.
//! Always holds: names mean what they mean after the operations before; the fields have the ids that they will have if nobody
//! else adds one.

use super::retype::Conversion;
use super::{refused, unfit};
use crate::error::{Error, Result, nearest_name};
use crate::manifest::snapshot::Snapshot;
use crate::plan::layout::Layout;
use crate::scan::address;
use crate::scan::expression;
use crate::scan::expression::fold;
use crate::scan::generated;
use crate::statement::constraints::{self, Asked};
use crate::statement::create;
use crate::statement::properties;
use crate::table::constraint::{self, CLUSTER_KEY, Constraint, Generated, Rule};
use crate::table::schema::{Field, FieldId, FieldType, TableSchema};
use crate::table::stats::StatValue;
use crate::txn::action::{Action, AddField, AlterField, ConfigUpdate, DropField};
use crate::txn::refs::{FieldRef, Ref, Token};
use datafusion::arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, Ident};
use std::collections::{BTreeMap, BTreeSet};

mod parts;

/// A column as the operations so far have left it.
pub(super) struct Column {
    name: String,
    field: FieldRef,
    field_type: FieldType,
    nullable: bool,
}

/// A table on its way to another schema.
pub(super) struct Altering<'a> {
    table: &'a str,
    columns: Vec<Column>,
    pub(super) actions: Vec<Action>,
    next_token: u32,
    /// Fields of which no row may be NULL.
    pub(super) to_look_at: Vec<FieldId>,
    /// All fields, under the ids that they will have if nobody else adds one.
    fields: Vec<Field>,
    /// The id of the first field that is new.
    next_field: FieldId,
    /// The constraints.
    pub(super) constraints: Vec<Constraint>,
    /// The names of those that are new.
    pub(super) added: Vec<String>,
    /// The defaults as they are kept.
    defaults: BTreeMap<FieldId, String>,
    /// The generated columns.
    pub(super) generated: Vec<Generated>,
    /// The comments on columns.
    comments: BTreeMap<FieldId, String>,
    /// The columns that it is clustered by.
    clustered_by: Vec<FieldId>,
    /// The columns whose values are written in another type.
    pub(super) conversions: Vec<Conversion>,
}

impl<'a> Altering<'a> {
    pub(super) fn new(table: &'a str, snapshot: &Snapshot) -> Result<Self> {
        let schema = &snapshot.schema;
        let constraints = constraint::constraints(&snapshot.config).map_err(|reason| Error::damaged(table, "its properties", reason))?;
        let column = |field: &Field| Column {
            name: field.name.clone(),
            field: Ref::Committed(field.id),
            field_type: field.field_type.clone(),
            nullable: field.nullable,
        };
        let columns = schema.columns().map(column).collect();
        Ok(Altering {
            table,
            columns,
            actions: Vec::new(),
            next_token: 0,
            to_look_at: Vec::new(),
            fields: schema.fields().to_vec(),
            next_field: snapshot.counters.field,
            constraints,
            added: Vec::new(),
            defaults: constraint::defaults(&snapshot.config).into_iter().map(|(id, kept)| (id, kept.to_owned())).collect(),
            generated: constraint::generated(&snapshot.config).map_err(|reason| Error::damaged(table, "its properties", reason))?,
            comments: constraint::comments(&snapshot.config).into_iter().map(|(id, text)| (id, text.to_owned())).collect(),
            clustered_by: constraint::cluster_by(&snapshot.config).map_err(|reason| Error::damaged(table, "its properties", reason))?,
            conversions: Vec::new(),
        })
    }

    /// The schema so far.
    pub(super) fn schema(&self) -> Result<TableSchema> {
        TableSchema::new(self.fields.clone()).map_err(|reason| Error::internal(format!("table '{}': {reason}", self.table)))
    }

    /// The id that a field has, or will have.
    fn id(&self, field: FieldRef) -> FieldId {
        match field {
            Ref::Committed(id) => id,
            Ref::Local(token) => FieldId(self.next_field.0 + token.0 as i32),
        }
    }

    /// A column's field so far.
    fn field_mut(&mut self, field: FieldRef) -> Result<&mut Field> {
        let id = self.id(field);
        let missing = || Error::internal(format!("table '{}' has no field {id}", self.table));
        self.fields.iter_mut().find(|field| field.id == id).ok_or_else(missing)
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    fn column(&mut self, name: &Ident) -> Result<&mut Column> {
        let name = fold(name);
        let nearest = nearest_name(&name, self.columns.iter().map(|column| column.name.as_str()));
        match self.columns.iter_mut().find(|column| column.name == name) {
            Some(column) => Ok(column),
            None => Err(Error::UnknownColumn { table: self.table.to_owned(), column: name, nearest }),
        }
    }

    /// Whether there is no such column; if there is, it may be.
    pub(super) fn is_new(&self, definition: &Schema, if_not_exists: bool) -> Result<bool> {
        let name = definition.field(0).name();
        match (self.position(name), if_not_exists) {
            (None, _) => Ok(true),
            (Some(_), true) => Ok(false),
            (Some(_), false) => Err(Error::ColumnExists { table: self.table.to_owned(), column: name.clone() }),
        }
    }

    /// Adds a column, which has that value in the rows that are there.
    pub(super) fn add(&mut self, definition: &Schema, initial: Option<StatValue>) -> Result<()> {
        let table = self.table;
        let column = definition.field(0);
        let name = column.name();
        if !column.is_nullable() && initial.is_none() {
            let what = format!("ADD COLUMN '{name}' NOT NULL on table '{table}' without a DEFAULT that is not NULL");
            return Err(Error::unsupported(what, Some("give it one, or leave NOT NULL out: rows that are there read as NULL")));
        }
        let (field, fields) = self.mint(definition, initial, None)?;
        let field_type = fields.first().map_or(FieldType::Struct, |field| field.field_type.clone());
        self.columns.push(Column { name: name.clone(), field, field_type, nullable: column.is_nullable() });
        self.fields.extend(fields);
        Ok(())
    }

    /// Adds a column that has in each row, also in those that are there, the value of an expression.
    pub(super) fn add_generated(&mut self, definition: &Schema, value: &SqlExpr) -> Result<()> {
        let before = self.schema()?;
        let column = definition.field(0);
        let (field, fields) = self.mint(definition, None, None)?;
        let at = self.actions.len();
        let to = self.id(field);
        let field_type = fields.first().map_or(FieldType::Struct, |field| field.field_type.clone());
        let schema = TableSchema::new(fields.clone()).map_err(Error::internal)?;
        self.columns.push(Column { name: column.name().clone(), field, field_type, nullable: column.is_nullable() });
        self.fields.extend(fields);
        let after = self.schema()?;
        let held = after.field(to).ok_or_else(|| Error::internal(format!("column '{}' is not there", column.name())))?;
        let others = self.generated.iter().map(|generated| generated.field).chain([to]).collect();
        let kept = generated::kept(self.table, &after, held, value, &others)?;
        self.configure([(kept.key(), Some(kept.value()))].into());
        self.generated.push(kept);
        let using = Some(value.clone());
        self.conversions.push(Conversion { column: column.name().clone(), from: None, to, field, schema, using, before, at });
        Ok(())
    }

    /// A generated column becomes one like others, with the values that it has.
    pub(super) fn drop_expression(&mut self, name: &Ident, if_exists: bool) -> Result<()> {
        let field = self.column(name)?.field;
        let id = self.id(field);
        match self.generated.iter().position(|generated| generated.field == id) {
            Some(at) => {
                let generated = self.generated.remove(at);
                self.configure([(generated.key(), None)].into());
                Ok(())
            }
            None if if_exists => Ok(()),
            None => Err(refused(format!("column {name} of table '{}' is not generated", self.table), "55000")),
        }
    }

    /// Adds the fields of a column, in place of another or at the end.
    fn mint(&mut self, definition: &Schema, initial: Option<StatValue>, in_place_of: Option<FieldRef>) -> Result<(FieldRef, Vec<Field>)> {
        let plain = create::schema(self.table, definition, FieldId(1))?.to_plain_arrow();
        let numbered = TableSchema::from_arrow(plain.as_ref(), FieldId(1)).map_err(Error::invalid)?;
        let first = self.next_token;
        let token = |id: FieldId| Token(first + (id.0 - 1) as u32);
        // Of a nested column the first field is the whole.
        let field = |(at, field): (usize, &Field)| Field { initial: initial.clone().filter(|_| at == 0), ..field.clone() };
        let fields: Vec<Field> = numbered.fields().iter().enumerate().map(field).collect();
        let mut place = in_place_of;
        self.actions
            .extend(fields.iter().map(|field| Action::AddField(AddField { in_place_of: place.take(), ..create::add_field(field, token) })));
        self.next_token += fields.len() as u32;
        let of_table = |id: FieldId| FieldId(self.next_field.0 + first as i32 + id.0 - 1);
        let fields = fields.into_iter().map(|field| Field { id: of_table(field.id), parent: field.parent.map(of_table), ..field });
        Ok((Ref::Local(Token(first)), fields.collect()))
    }

    pub(super) fn drop(&mut self, name: &Ident, if_exists: bool, cascade: bool) -> Result<()> {
        let at = match self.position(&fold(name)) {
            None if if_exists => return Ok(()),
            None => return self.column(name).map(|_| ()),
            Some(at) => at,
        };
        if self.columns.len() == 1 {
            return Err(Error::invalid(format!("column {name} is the last one of table '{}'; DROP TABLE drops it", self.table)));
        }
        let Some(id) = self.columns.get(at).map(|column| self.id(column.field)) else { return Ok(()) };
        for made_of_it in self.generated_of(id) {
            if !cascade {
                let reason = format!(
                    "column {name} of table '{}' cannot be dropped: column {made_of_it} is generated from it; DROP COLUMN .. CASCADE drops both",
                    self.table
                );
                return Err(refused(reason, "2BP01"));
            }
            self.drop(&made_of_it, true, true)?;
        }
        if self.clustered_by.contains(&id) {
            if !cascade {
                let reason = format!(
                    "column {name} of table '{}' cannot be dropped: the table is clustered by it; DROP COLUMN .. CASCADE ends that too",
                    self.table
                );
                return Err(refused(reason, "2BP01"));
            }
            self.cluster_by(&[])?;
        }
        let Some(at) = self.columns.iter().position(|column| self.id(column.field) == id) else { return Ok(()) };
        let Column { field, .. } = self.columns.remove(at);
        let about: Vec<String> = self
            .constraints
            .iter()
            .filter(|constraint| constraint.fields.contains(&id))
            .map(|constraint| constraint.name.clone())
            .collect();
        match about.first() {
            Some(constraint) if !cascade => {
                let reason = format!(
                    "column {name} of table '{}' cannot be dropped: the constraint '{constraint}' is about it; DROP COLUMN .. CASCADE drops both",
                    self.table
                );
                return Err(refused(reason, "2BP01"));
            }
            _ => about.iter().try_for_each(|constraint| self.drop_constraint(constraint, false))?,
        }
        self.forget(id);
        self.conversions.retain(|conversion| conversion.to != id);
        self.actions.push(Action::DropField(DropField { field }));
        if self.comments.remove(&id).is_some() {
            self.configure([(constraint::comment_key(id), None)].into());
        }
        if let Some(generated) = self.generated.iter().position(|generated| generated.field == id) {
            let generated = self.generated.remove(generated);
            self.configure([(generated.key(), None)].into());
        }
        if self.defaults.remove(&id).is_some() {
            self.configure([(constraint::default_key(id), None)].into());
        }
        Ok(())
    }

    /// The names of the columns that are generated from one.
    fn generated_of(&self, id: FieldId) -> Vec<Ident> {
        let made_of_it = self.generated.iter().filter(|generated| generated.field != id && generated.inputs.contains(&id));
        let fields = made_of_it.filter_map(|generated| self.fields.iter().find(|field| field.id == generated.field));
        fields.map(|field| expression::ident(&field.name)).collect()
    }

    /// Says what a column is.
    pub(super) fn comment(&mut self, column: &Ident, comment: Option<&str>) -> Result<()> {
        let field = self.column(column)?.field;
        let id = self.id(field);
        let had = match comment {
            Some(comment) => self.comments.insert(id, comment.to_owned()),
            None => self.comments.remove(&id),
        };
        if comment.is_some() || had.is_some() {
            self.configure([(constraint::comment_key(id), comment.map(str::to_owned))].into());
        }
        Ok(())
    }

    /// Takes a field out, with its parts; where it was.
    fn forget(&mut self, id: FieldId) -> usize {
        let place = self.fields.iter().position(|field| field.id == id).unwrap_or(self.fields.len());
        let mut gone = BTreeSet::from([id]);
        self.fields.retain(|field| {
            // Parts follow their column.
            let goes = gone.contains(&field.id) || field.parent.is_some_and(|parent| gone.contains(&parent));
            if goes {
                gone.insert(field.id);
            }
            !goes
        });
        place
    }

    /// Adds a constraint; the rows are held against it later.
    pub(super) fn constrain(&mut self, asked: &Asked) -> Result<()> {
        let constraint = asked.constraint(self.table, &self.schema()?, &self.constraints)?;
        for column in asked.primary_key().unwrap_or_default() {
            self.set_not_null(column)?;
            // So that nobody else makes it nullable meanwhile.
            let field = self.column(column)?.field;
            self.actions.push(Action::AlterField(AlterField { field, parent: None, name: None, field_type: None, nullable: Some(false) }));
        }
        self.configure([(constraint.key(), Some(constraint.value()))].into());
        self.added.push(constraint.name.clone());
        self.constraints.push(constraint);
        Ok(())
    }

    pub(super) fn drop_constraint(&mut self, name: &str, if_exists: bool) -> Result<()> {
        let Some(at) = self.constraints.iter().position(|constraint| constraint.name == name) else {
            let nearest = nearest_name(name, self.constraints.iter().map(|constraint| constraint.name.as_str()));
            let nearest = nearest.map(|nearest| format!("; did you mean '{nearest}'?")).unwrap_or_default();
            let reason = format!("constraint '{name}' does not exist in table '{}'{nearest}", self.table);
            return if if_exists { Ok(()) } else { Err(refused(reason, "42704")) };
        };
        let constraint = self.constraints.remove(at);
        self.added.retain(|added| *added != constraint.name);
        self.configure([(constraint.key(), None)].into());
        Ok(())
    }

    pub(super) fn set_default(&mut self, column: &Ident, value: Option<&SqlExpr>) -> Result<()> {
        let field = self.column(column)?.field;
        let id = self.id(field);
        let schema = self.schema()?;
        if value.is_some() && self.generated.iter().any(|generated| generated.field == id) {
            return Err(Error::invalid(format!("column {column} of table '{}' is generated, and can have no DEFAULT", self.table)));
        }
        let kept = match (value, schema.field(id)) {
            (Some(value), Some(field)) => Some(constraints::default(self.table, &schema, field, value)?),
            _ => None,
        };
        let had = match &kept {
            Some(kept) => self.defaults.insert(id, kept.clone()),
            None => self.defaults.remove(&id),
        };
        if kept.is_some() || had.is_some() {
            self.configure([(constraint::default_key(id), kept)].into());
        }
        Ok(())
    }

    /// The columns by which OPTIMIZE sorts from now on; none ends that.
    pub(super) fn cluster_by(&mut self, columns: &[Ident]) -> Result<()> {
        let fields = constraints::cluster_fields(self.table, &self.schema()?, columns)?;
        if fields != self.clustered_by {
            self.configure([(CLUSTER_KEY.to_owned(), (!fields.is_empty()).then(|| constraint::cluster_value(&fields)))].into());
            self.clustered_by = fields;
        }
        Ok(())
    }

    /// Sets and removes properties that are users'.
    pub(super) fn set(&mut self, entries: BTreeMap<String, Option<String>>) -> Result<()> {
        properties::check_free(self.table, entries.keys())?;
        self.configure(entries);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Ident, to: &Ident) -> Result<()> {
        let name = fold(to);
        let field = self.column(from)?.field;
        if self.position(&name).is_some() {
            return Err(Error::ColumnExists { table: self.table.to_owned(), column: name });
        }
        if address::is_reserved(&name) {
            return Err(Error::invalid(format!("table '{}': the column name '{name}' is reserved", self.table)));
        }
        self.column(from)?.name.clone_from(&name);
        self.field_mut(field)?.name.clone_from(&name);
        self.actions.push(Action::AlterField(AlterField { field, parent: None, name: Some(name), field_type: None, nullable: None }));
        Ok(())
    }

    fn configure(&mut self, entries: BTreeMap<String, Option<String>>) {
        self.actions.push(Action::ConfigUpdate(ConfigUpdate { entries, replace: false }));
    }

    pub(super) fn drop_not_null(&mut self, name: &Ident) -> Result<()> {
        let table = self.table;
        let column = self.column(name)?;
        if column.nullable {
            return Ok(());
        }
        column.nullable = true;
        let field = column.field;
        let id = self.id(field);
        for conversion in self.conversions.iter_mut().filter(|conversion| conversion.to == id) {
            conversion.schema = conversion.schema.with_nullable_columns();
        }
        if let Some(key) = self.constraints.iter().find(|key| key.rule == Rule::PrimaryKey && key.fields.contains(&id)) {
            return Err(refused(format!("column {name} of table '{table}' is in its primary key, '{}'", key.name), "42P16"));
        }
        self.field_mut(field)?.nullable = true;
        self.actions.push(Action::AlterField(AlterField { field, parent: None, name: None, field_type: None, nullable: Some(true) }));
        Ok(())
    }

    pub(super) fn set_not_null(&mut self, name: &Ident) -> Result<()> {
        let table = self.table;
        let column = self.column(name)?;
        if !column.nullable {
            return Ok(());
        }
        let Ref::Committed(id) = column.field else {
            let what = format!("SET NOT NULL of column '{}' of table '{table}', which the same statement adds,", column.name);
            return Err(Error::unsupported(what, Some("add it, UPDATE it, then set it NOT NULL")));
        };
        column.nullable = false;
        let field = column.field;
        self.field_mut(field)?.nullable = false;
        self.to_look_at.push(id);
        self.actions.push(Action::AlterField(AlterField { field, parent: None, name: None, field_type: None, nullable: Some(false) }));
        Ok(())
    }

    /// Gives a column another type: a wider one in place, any other by writing its values again.
    pub(super) fn retype(&mut self, name: &Ident, definition: &Schema, using: Option<&SqlExpr>) -> Result<()> {
        let column = self.column(name)?;
        let arrow = definition.field(0).data_type();
        let wider = if arrow.is_nested() { None } else { Some(FieldType::Leaf(arrow.clone())) };
        let Some(wider) = wider.filter(|wider| using.is_none() && column.field_type.widens_to(wider)) else {
            return self.convert(name, definition, using);
        };
        if wider == column.field_type {
            return Ok(());
        }
        self.check_not_of_generated(name)?;
        let column = self.column(name)?;
        column.field_type = wider.clone();
        let field = column.field;
        self.field_mut(field)?.field_type = wider.clone();
        self.actions.push(Action::AlterField(AlterField { field, parent: None, name: None, field_type: Some(wider), nullable: None }));
        Ok(())
    }

    /// Refuses another type of a column that is generated, or of which one is.
    fn check_not_of_generated(&mut self, name: &Ident) -> Result<()> {
        let field = self.column(name)?.field;
        let id = self.id(field);
        let is_generated = self.generated.iter().any(|generated| generated.field == id);
        match (is_generated, self.generated_of(id).first()) {
            (false, None) => Ok(()),
            (true, _) => Err(Error::unsupported(format!("ALTER COLUMN {name} TYPE of table '{}', which is generated,", self.table), None)),
            (false, Some(other)) => {
                let what = format!("ALTER COLUMN {name} TYPE of table '{}', from which column {other} is generated,", self.table);
                Err(Error::unsupported(what, Some("drop that one")))
            }
        }
    }

    /// Puts a column of another type in place of one. Its constraints and its default go over to it.
    fn convert(&mut self, name: &Ident, definition: &Schema, using: Option<&SqlExpr>) -> Result<()> {
        let table = self.table;
        self.check_not_of_generated(name)?;
        let Column { name: column, field: old, nullable, .. } = self.column(name)?;
        let (column, old, nullable) = (column.clone(), *old, *nullable);
        let Ref::Committed(from) = old else {
            let what = format!("ALTER COLUMN '{column}' TYPE of table '{table}', which the same statement adds or converts,");
            return Err(Error::unsupported(what, Some("say it in a statement of its own")));
        };
        let before = self.schema()?;
        let is_same = before
            .to_plain_arrow()
            .field_with_name(&column)
            .is_ok_and(|held| held.data_type().equals_datatype(definition.field(0).data_type()));
        if is_same && using.is_none() {
            return Ok(());
        }
        let named = |kept: &str| expression::named(table, kept, &before);
        let checks = self.constraints.iter().filter(|constraint| constraint.fields.contains(&from)).map(|constraint| {
            let condition = match &constraint.rule {
                Rule::Check(kept) => Some(named(kept)?),
                Rule::Unique | Rule::PrimaryKey => None,
            };
            Ok((constraint.clone(), condition))
        });
        let checks = checks.collect::<Result<Vec<_>>>()?;
        let default = self.defaults.remove(&from).map(|kept| named(&kept)).transpose()?;

        let renamed = Schema::new(vec![definition.field(0).clone().with_name(&column).with_nullable(nullable)]);
        let (field, fields) = self.mint(&renamed, None, Some(old))?;
        let at = self.actions.len();
        self.actions.push(Action::DropField(DropField { field: old }));
        let to = self.id(field);
        let field_type = fields.first().map_or(FieldType::Struct, |field| field.field_type.clone());
        let schema = TableSchema::new(fields.clone()).map_err(Error::internal)?;
        let place = self.forget(from);
        self.fields.splice(place..place, fields);
        for held in self.columns.iter_mut().filter(|held| held.field == old) {
            (held.field, held.field_type) = (field, field_type.clone());
        }
        let after = self.schema()?;
        let comment = self.comments.remove(&from);
        self.configure([(constraint::comment_key(from), None)].into());
        if let Some(comment) = comment {
            self.comments.insert(to, comment.clone());
            self.configure([(constraint::comment_key(to), Some(comment))].into());
        }
        // Also where there is none: another may set one meanwhile.
        self.configure([(constraint::default_key(from), None)].into());
        if let Some(default) = default {
            let of_type = |error: Error| {
                let reason = format!("the DEFAULT {default} of column '{column}' of table '{table}' is none of its new type: {error}");
                refused(reason, "42804")
            };
            let field = after.field(to).ok_or_else(|| Error::internal(format!("column '{column}' is not there")))?;
            let kept = constraints::default(table, &after, field, &default).map_err(of_type)?;
            self.defaults.insert(to, kept.clone());
            self.configure([(constraint::default_key(to), Some(kept))].into());
        }
        if let Some(clustered) = self.clustered_by.iter_mut().find(|field| **field == from) {
            *clustered = to;
            let fields = self.clustered_by.clone();
            Layout::of_fields(&fields, &after, table)?;
            self.configure([(CLUSTER_KEY.to_owned(), Some(constraint::cluster_value(&fields)))].into());
        }
        for (constraint, condition) in checks {
            let fields: Vec<FieldId> = constraint.fields.iter().map(|id| if *id == from { to } else { *id }).collect();
            let rule = match condition {
                Some(condition) => {
                    let kept = expression::kept(table, &condition, &after);
                    Rule::Check(kept.map_err(|error| unfit(table, &constraint.name, error))?.0)
                }
                None => {
                    after.field(to).map_or(Ok(()), |field| constraints::check_key(table, field))?;
                    constraint.rule
                }
            };
            let constraint = Constraint { name: constraint.name, fields, rule };
            self.configure([(constraint.key(), Some(constraint.value()))].into());
            self.constraints.retain(|other| other.name != constraint.name);
            self.added.retain(|other| *other != constraint.name);
            self.added.push(constraint.name.clone());
            self.constraints.push(constraint);
        }
        self.conversions.push(Conversion { column, from: Some(from), to, field, schema, using: using.cloned(), before, at });
        Ok(())
    }
}
