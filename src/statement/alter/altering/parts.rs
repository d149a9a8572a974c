//! Parts of nested columns: fields of structs, also within lists and maps, are added, dropped and renamed.
//!
//! Goes in: a path of names from the column on. The element of a list is called `element`, what a map holds `value`. Comes out: actions.
//! Always holds: only structs get and lose parts; the last one stays; parts that an expression calls by
//! their names, a DEFAULT or that of a generated column, are called so as long as it is there.

use super::{Altering, refused};
use crate::error::{Error, Result, nearest_name};
use crate::scan::expression::{self, fold};
use crate::table::constraint::{self, Rule};
use crate::table::schema::{Field, FieldId, FieldType};
use crate::txn::action::{Action, AddField, AlterField, DropField};
use crate::txn::refs::{FieldRef, Ref, Token};
use datafusion::arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::Ident;
use std::collections::BTreeSet;

impl Altering<'_> {
    /// Adds a part to a struct: NULL in the rows that are there.
    pub(in crate::statement::alter) fn add_part(&mut self, path: &[Ident], definition: &Schema, if_not_exists: bool) -> Result<()> {
        let Some((name, whole)) = path.split_last() else { return Ok(()) };
        let parent = self.found(whole)?;
        let shown = shown(path);
        if parent.field_type != FieldType::Struct {
            let reason = format!("'{}' of table '{}' is no struct, so '{shown}' can be no part of it", self::shown(whole), self.table);
            return Err(refused(reason, "42809"));
        }
        match (self.part(parent.id, &fold(name)), if_not_exists) {
            (None, _) => {}
            (Some(_), true) => return Ok(()),
            (Some(_), false) => return Err(Error::ColumnExists { table: self.table.to_owned(), column: shown }),
        }
        let at = self.actions.len();
        let (_, mut fields) = self.mint(definition, None, None)?;
        let of_struct = self.reference(parent.id);
        if let Some(Action::AddField(add)) = self.actions.get_mut(at) {
            *add = AddField { parent: Some(of_struct), ..add.clone() };
        }
        if let Some(first) = fields.first_mut() {
            first.parent = Some(parent.id);
        }
        self.fields.extend(fields);
        self.schema().map(drop)
    }

    /// Drops a part of a struct.
    pub(in crate::statement::alter) fn drop_part(&mut self, path: &[Ident], if_exists: bool, cascade: bool) -> Result<()> {
        let field = match self.found(path) {
            Err(Error::UnknownColumn { .. }) if if_exists => return Ok(()),
            found => self.of_struct(found?, path)?,
        };
        let (table, shown) = (self.table, shown(path));
        if self.fields.iter().filter(|other| other.parent == field.parent).count() == 1 {
            return Err(Error::invalid(format!("'{shown}' is the last part of its struct in table '{table}'; drop that one")));
        }
        let gone: BTreeSet<FieldId> = self.schema()?.parts(field.id).into_iter().chain([field.id]).collect();
        let names_it = |kept: &str| !constraint::named_in(kept).is_disjoint(&gone);
        let column = self.hold_named(field.id, &shown, "dropped")?;
        let generated = self.generated.iter().filter(|generated| names_it(&generated.expression));
        let generated = generated.filter_map(|generated| self.fields.iter().find(|field| field.id == generated.field));
        let generated: Vec<Ident> = generated.map(|field| expression::ident(&field.name)).collect();
        match generated.first() {
            Some(of) if !cascade => {
                let reason = format!(
                    "'{shown}' of table '{table}' cannot be dropped: column {of} is generated from it; DROP COLUMN .. CASCADE drops both"
                );
                return Err(refused(reason, "2BP01"));
            }
            _ => generated.iter().try_for_each(|column| self.drop(column, true, true))?,
        }
        let about = self.constraints.iter().filter(|constraint| matches!(&constraint.rule, Rule::Check(kept) if names_it(kept)));
        let about: Vec<String> = about.map(|constraint| constraint.name.clone()).collect();
        match about.first() {
            Some(constraint) if !cascade => {
                let reason = format!(
                    "'{shown}' of table '{table}' cannot be dropped: the constraint '{constraint}' is about it; DROP COLUMN .. CASCADE drops both"
                );
                return Err(refused(reason, "2BP01"));
            }
            _ => about.iter().try_for_each(|constraint| self.drop_constraint(constraint, false))?,
        }
        let dropped = self.reference(field.id);
        self.forget(field.id);
        self.actions.push(Action::DropField(DropField { field: dropped }));
        self.hold_no_default(column);
        Ok(())
    }

    /// Gives a part of a struct another name.
    pub(in crate::statement::alter) fn rename_part(&mut self, path: &[Ident], to: &Ident) -> Result<()> {
        let field = self.found(path)?;
        let field = self.of_struct(field, path)?;
        let column = self.hold_named(field.id, &shown(path), "renamed")?;
        let (name, parent) = (fold(to), field.parent);
        if parent.and_then(|parent| self.part(parent, &name)).is_some() {
            let whole = path.split_last().map(|(_, whole)| shown(whole)).unwrap_or_default();
            return Err(Error::ColumnExists { table: self.table.to_owned(), column: format!("{whole}.{name}") });
        }
        let (reference, parent) = (self.reference(field.id), parent.map(|parent| self.reference(parent)));
        self.field_mut(reference)?.name.clone_from(&name);
        self.actions.push(Action::AlterField(AlterField { field: reference, parent, name: Some(name), field_type: None, nullable: None }));
        self.hold_no_default(column);
        Ok(())
    }

    /// The column that a field is a part of. Refuses to change parts of one whose values are made of an expression, which calls them by
    /// their names.
    fn hold_named(&self, part: FieldId, shown: &str, what: &str) -> Result<FieldId> {
        let mut column = self.fields.iter().find(|field| field.id == part);
        while let Some(parent) = column.and_then(|field| field.parent) {
            column = self.fields.iter().find(|field| field.id == parent);
        }
        let Some(Field { id, name, .. }) = column else { return Err(Error::internal(format!("'{shown}' is a part of no column"))) };
        let why = if self.defaults.contains_key(id) {
            "has a DEFAULT, which names its parts; DROP DEFAULT first"
        } else if self.generated.iter().any(|generated| generated.field == *id) {
            "is generated, by an expression that names its parts"
        } else {
            return Ok(*id);
        };
        Err(refused(format!("'{shown}' of table '{}' cannot be {what}: column '{name}' {why}", self.table), "2BP01"))
    }

    /// So that nobody else gives a column a DEFAULT meanwhile.
    fn hold_no_default(&mut self, column: FieldId) {
        if matches!(self.reference(column), Ref::Committed(_)) {
            self.configure([(constraint::default_key(column), None)].into());
        }
    }

    /// The field at the end of a path.
    fn found(&self, path: &[Ident]) -> Result<Field> {
        let mut at: Option<&Field> = None;
        for name in path {
            let wanted = fold(name);
            let parent = at.map(|field| field.id);
            // What a map holds lies in its entries.
            let entries = at.filter(|field| matches!(field.field_type, FieldType::Map { .. }));
            let parent =
                entries.and_then(|map| self.fields.iter().find(|field| field.parent == Some(map.id))).map(|field| field.id).or(parent);
            let is_list =
                at.is_some_and(|field| !matches!(field.field_type, FieldType::Struct | FieldType::Map { .. } | FieldType::Leaf(_)));
            let found = self.fields.iter().find(|field| field.parent == parent && (field.name == wanted || is_list && wanted == "element"));
            let Some(found) = found else {
                let names = self.fields.iter().filter(|field| field.parent == parent).map(|field| field.name.as_str());
                let nearest = nearest_name(&wanted, names);
                return Err(Error::UnknownColumn { table: self.table.to_owned(), column: shown(path), nearest });
            };
            at = Some(found);
        }
        at.cloned().ok_or_else(|| Error::internal("a part without a path"))
    }

    /// Refuses a field that is no part of a struct, but what a list or a map is made of.
    fn of_struct(&self, field: Field, path: &[Ident]) -> Result<Field> {
        let parent = field.parent.and_then(|id| self.fields.iter().find(|other| other.id == id));
        let in_map = parent.and_then(|parent| parent.parent).and_then(|id| self.fields.iter().find(|other| other.id == id));
        let is_entry = in_map.is_some_and(|map| matches!(map.field_type, FieldType::Map { .. }));
        match parent.is_some_and(|parent| parent.field_type == FieldType::Struct) && !is_entry {
            true => Ok(field),
            false => {
                let reason = format!("'{}' of table '{}' is no part of a struct", shown(path), self.table);
                Err(refused(reason, "42809"))
            }
        }
    }

    fn part(&self, parent: FieldId, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.parent == Some(parent) && field.name == name)
    }

    /// How actions call a field.
    fn reference(&self, id: FieldId) -> FieldRef {
        match u32::try_from(id.0 - self.next_field.0) {
            Ok(token) => Ref::Local(Token(token)),
            Err(_) => Ref::Committed(id),
        }
    }
}

fn shown(path: &[Ident]) -> String {
    path.iter().map(fold).collect::<Vec<_>>().join(".")
}
