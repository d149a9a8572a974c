//! Footprints: what a transaction writes and needs, other than rows.
//!
//! A footprint is computed when two transactions are compared and never stored, so the rule can be sharpened without a
//! change of format. Rows are compared by [`rebase`](super::rebase), which follows them.
//!
//! Always holds: only ids of committed versions have coordinates; what a transaction mints nobody else can name.

use super::action::Action;
use super::composite::Transaction;
use crate::table::row_address::FragmentId;
use crate::table::schema::FieldId;
use std::collections::BTreeMap;
use std::fmt;

/// A place that transactions can collide on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coordinate {
    /// The values of a field in a fragment.
    FieldData(FragmentId, FieldId),
    /// What a field is.
    FieldDefinition(FieldId),
    /// A name among the parts of a field, or among the columns.
    FieldName(Option<FieldId>, String),
}

impl fmt::Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Coordinate::FieldData(fragment, field) => write!(f, "the values of field {field} in fragment {fragment}"),
            Coordinate::FieldDefinition(field) => write!(f, "the definition of field {field}"),
            Coordinate::FieldName(None, name) => write!(f, "the column name '{name}'"),
            Coordinate::FieldName(Some(parent), name) => write!(f, "the name '{name}' in field {parent}"),
        }
    }
}

/// How a transaction claims a coordinate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// It must still be what it was.
    Requires,
    /// It becomes something else.
    Writes,
}

/// The claims of a transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    claims: BTreeMap<Coordinate, Mode>,
}

impl Footprint {
    /// Claims a coordinate; the strongest claim stays.
    pub fn claim(&mut self, coordinate: Coordinate, mode: Mode) {
        let held = self.claims.entry(coordinate).or_insert(mode);
        *held = (*held).max(mode);
    }

    /// Everything that a transaction claims.
    pub fn of(transaction: &Transaction) -> Self {
        let mut footprint = Footprint::default();
        for action in transaction.actions() {
            match action {
                Action::AddDataFile(action) => action.footprint(&mut footprint),
                Action::AddField(action) => action.footprint(&mut footprint),
                // Rows are compared by following them, not by coordinates.
                Action::AddFragment(_) | Action::RemoveFragment(_) | Action::SetDeletionFile(_) | Action::ChangeOfAddress(_) => {}
            }
        }
        footprint
    }

    /// The first coordinate on which `self`, landing after `landed`, collides with it. What only needed a coordinate is
    /// serialised first and so never stands in the way of what lands later.
    pub fn collision(&self, landed: &Footprint) -> Option<&Coordinate> {
        self.claims.keys().find(|coordinate| landed.claims.get(coordinate) == Some(&Mode::Writes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footprint(claims: &[(Coordinate, Mode)]) -> Footprint {
        let mut footprint = Footprint::default();
        for (coordinate, mode) in claims {
            footprint.claim(coordinate.clone(), *mode);
        }
        footprint
    }

    #[test]
    fn a_claim_collides_with_a_write_that_landed_before_it() {
        let place = Coordinate::FieldDefinition(FieldId(3));
        let needs = footprint(&[(place.clone(), Mode::Requires)]);
        let writes = footprint(&[(place.clone(), Mode::Writes)]);
        assert_eq!(needs.collision(&writes), Some(&place));
        assert_eq!(writes.collision(&needs), None);
        assert_eq!(writes.collision(&writes), Some(&place));
        assert_eq!(needs.collision(&needs), None);
    }

    #[test]
    fn equal_names_under_different_parents_do_not_collide() {
        let column = footprint(&[(Coordinate::FieldName(None, "a".into()), Mode::Writes)]);
        let part = footprint(&[(Coordinate::FieldName(Some(FieldId(1)), "a".into()), Mode::Writes)]);
        assert_eq!(column.collision(&part), None);
        assert_eq!(column.collision(&column).unwrap().to_string(), "the column name 'a'");
    }
}
