//! Footprints: what a transaction writes and needs, other than rows.
//!
//! A footprint is computed when two transactions are compared and never stored, so the rule can be sharpened without a
//! change of format. Rows, and fragments as sets of rows, are compared by [`rebase`](super::rebase), which follows them:
//! a fragment that a rewrite moved is not gone.
//!
//! ```text
//!   ours, landing second      theirs landed:  needs   writes a part   writes
//!     needs                                     -          -         collides
//!     writes a part                             -          -         collides
//!     writes                                    -       collides     collides
//! ```
//!
//! What only needed a coordinate is serialised first, so it never stands in the way of what lands later: an append after a
//! dropped column collides, dropping a column after an append does not.
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
    /// That a field exists.
    FieldDefinition(FieldId),
    /// One side of a field.
    FieldFacet(FieldId, Facet),
    /// A name among the parts of a field, or among the columns.
    FieldName(Option<FieldId>, String),
}

/// The sides of a field that are altered one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Facet {
    /// Its name.
    Name,
    /// Its type.
    Type,
    /// Whether it can be NULL.
    Nullability,
}

impl fmt::Display for Coordinate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Coordinate::FieldData(fragment, field) => write!(f, "the values of field {field} in fragment {fragment}"),
            Coordinate::FieldDefinition(field) => write!(f, "the definition of field {field}"),
            Coordinate::FieldFacet(field, Facet::Name) => write!(f, "the name of field {field}"),
            Coordinate::FieldFacet(field, Facet::Type) => write!(f, "the type of field {field}"),
            Coordinate::FieldFacet(field, Facet::Nullability) => write!(f, "whether field {field} can be NULL"),
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
    /// Something within it becomes something else; what exactly, other coordinates say.
    WritesPart,
    /// It becomes something else.
    Writes,
}

impl Mode {
    /// Whether a claim that lands second collides with one that landed before.
    fn collides(self, landed: Mode) -> bool {
        match (self, landed) {
            (_, Mode::Requires) => false,
            (_, Mode::Writes) => true,
            (ours, Mode::WritesPart) => ours == Mode::Writes,
        }
    }
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
                Action::AlterField(action) => action.footprint(&mut footprint),
                Action::DropField(action) => action.footprint(&mut footprint),
                // Rows are compared by following them, not by coordinates.
                Action::AddFragment(_) | Action::RemoveFragment(_) | Action::SetDeletionFile(_) | Action::ChangeOfAddress(_) => {}
            }
        }
        footprint
    }

    /// The first place on which `self`, landing after `landed`, collides with it.
    pub fn collision(&self, landed: &Footprint) -> Option<String> {
        let collides =
            |(coordinate, mode): &(&Coordinate, &Mode)| landed.claims.get(coordinate).is_some_and(|theirs| mode.collides(*theirs));
        self.claims.iter().find(collides).map(|(coordinate, _)| coordinate.to_string())
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
    fn modes_collide_by_who_lands_second() {
        use Mode::{Requires, Writes, WritesPart};
        let place = Coordinate::FieldDefinition(FieldId(3));
        let of = |mode| footprint(&[(place.clone(), mode)]);
        for (ours, landed, collides) in [
            (Requires, Requires, false),
            (Requires, WritesPart, false),
            (Requires, Writes, true),
            (WritesPart, Requires, false),
            (WritesPart, WritesPart, false),
            (WritesPart, Writes, true),
            (Writes, Requires, false),
            (Writes, WritesPart, true),
            (Writes, Writes, true),
        ] {
            let expected = collides.then(|| "the definition of field 3".to_owned());
            assert_eq!(of(ours).collision(&of(landed)), expected, "{ours:?} after {landed:?}");
        }
    }

    #[test]
    fn the_strongest_claim_stays() {
        let place = Coordinate::FieldDefinition(FieldId(3));
        let both = footprint(&[(place.clone(), Mode::Writes), (place.clone(), Mode::Requires)]);
        assert_eq!(both, footprint(&[(place, Mode::Writes)]));
    }

    #[test]
    fn equal_names_under_different_parents_do_not_collide() {
        let column = footprint(&[(Coordinate::FieldName(None, "a".into()), Mode::Writes)]);
        let part = footprint(&[(Coordinate::FieldName(Some(FieldId(1)), "a".into()), Mode::Writes)]);
        assert_eq!(column.collision(&part), None);
        assert_eq!(column.collision(&column).unwrap(), "the column name 'a'");
    }
}
