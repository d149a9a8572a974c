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
//! Always holds: only ids of committed versions have coordinates, and reserved ones that a transaction takes; what it mints, and
//! what it puts under a reserved id, nobody else can name.

use super::action::Action;
use super::composite::Transaction;
use super::refs::{FieldRef, FragmentRef, Ref};
use crate::table::fragment::BaseId;
use crate::table::row_address::FragmentId;
use crate::table::schema::FieldId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A place that transactions can collide on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coordinate {
    /// That a fragment of this id exists.
    FragmentExistence(FragmentId),
    /// The values of a field in a fragment.
    FieldData(FragmentId, FieldId),
    /// That a field exists.
    FieldDefinition(FieldId),
    /// One side of a field.
    FieldFacet(FieldId, Facet),
    /// A name among the parts of a field, or among the columns.
    FieldName(Option<FieldId>, String),
    /// A setting of the table.
    ConfigEntry(String),
    /// The name of a base.
    BaseName(String),
    /// The location of a base.
    BaseLocation(String),
    /// That a file in a base is part of the table.
    FileInBase(BaseId, String),
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
            Coordinate::FragmentExistence(id) => write!(f, "the fragment id {id}"),
            Coordinate::FieldData(fragment, field) => write!(f, "the values of field {field} in fragment {fragment}"),
            Coordinate::FieldDefinition(field) => write!(f, "the definition of field {field}"),
            Coordinate::FieldFacet(field, Facet::Name) => write!(f, "the name of field {field}"),
            Coordinate::FieldFacet(field, Facet::Type) => write!(f, "the type of field {field}"),
            Coordinate::FieldFacet(field, Facet::Nullability) => write!(f, "whether field {field} can be NULL"),
            Coordinate::FieldName(None, name) => write!(f, "the column name '{name}'"),
            Coordinate::FieldName(Some(parent), name) => write!(f, "the name '{name}' in field {parent}"),
            Coordinate::ConfigEntry(key) => write!(f, "the setting '{key}'"),
            Coordinate::BaseName(name) => write!(f, "the base name '{name}'"),
            Coordinate::BaseLocation(location) => write!(f, "the base at '{location}'"),
            Coordinate::FileInBase(_, path) => write!(f, "the file '{path}'"),
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

/// A set of coordinates that cannot be listed; whoever claims it writes all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Region {
    /// All settings of the table.
    Config,
}

impl Region {
    fn contains(self, coordinate: &Coordinate) -> bool {
        match self {
            Region::Config => matches!(coordinate, Coordinate::ConfigEntry(_)),
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Region::Config => f.write_str("the settings"),
        }
    }
}

/// The scheme of keys that are too many to list: who lands second holds its own against the rows of the other.
pub const UNLISTED_KEYS: u32 = u32::MAX;

/// The keys that a transaction inserts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyAssertion {
    /// The fields of the key; `None` if one of them is only now created, so that nobody else can mean the same.
    pub fields: Option<Vec<FieldId>>,
    /// How keys were hashed.
    pub scheme: u32,
    /// The hashes.
    pub hashes: Arc<BTreeSet<u64>>,
}

impl KeyAssertion {
    /// Whether `other` is about the same key.
    fn is_about(&self, other: &KeyAssertion) -> bool {
        self.fields.is_some() && self.fields == other.fields
    }

    fn meets(&self, other: &KeyAssertion) -> bool {
        // Keys that are not listed are looked for among the rows.
        if [self.scheme, other.scheme].contains(&UNLISTED_KEYS) {
            return false;
        }
        self.scheme != other.scheme || !self.hashes.is_disjoint(&other.hashes)
    }
}

/// The claims of a transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    claims: BTreeMap<Coordinate, Mode>,
    regions: BTreeSet<Region>,
    /// Whether it writes everything there is.
    everything: bool,
    /// Whether it inserts rows.
    inserts: bool,
    keys: Vec<KeyAssertion>,
    /// Fields that cannot be NULL from now on.
    not_null: BTreeSet<FieldId>,
    /// Whether a field of its own is among those, which nobody else's rows have.
    own_not_null: bool,
    nulls: Nulls,
    /// Whether it adds a constraint, which its statement held against the rows that it read.
    constrains: bool,
    /// The fields that those constraints are about.
    constrained: BTreeSet<FieldId>,
    /// The fields whose values it wrote in another form.
    converted: BTreeSet<FieldId>,
    /// Whether it adds fields, whose ids are known only when it lands.
    adds_fields: bool,
    /// Whether it wrote down ids of fields in a setting.
    writes_ids_down: bool,
}

/// Where a transaction may bring NULLs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Nulls {
    /// The fields that have a value in every row it inserts, by the fragment that is new.
    filled: BTreeMap<FragmentRef, BTreeSet<FieldId>>,
    /// Fields to which it gives values in fragments that are there, some of which may be NULL.
    given: BTreeSet<FieldId>,
}

impl Nulls {
    fn may_bring(&self, field: FieldId) -> bool {
        self.given.contains(&field) || self.filled.values().any(|filled| !filled.contains(&field))
    }
}

impl Footprint {
    /// Claims a coordinate; the strongest claim stays.
    pub fn claim(&mut self, coordinate: Coordinate, mode: Mode) {
        let held = self.claims.entry(coordinate).or_insert(mode);
        *held = (*held).max(mode);
    }

    /// Claims all of a region.
    pub fn claim_region(&mut self, region: Region) {
        self.regions.insert(region);
    }

    /// Claims everything there is: nothing may land at the same time.
    pub fn claim_everything(&mut self) {
        self.everything = true;
    }

    /// Says that it inserts rows, as a new fragment.
    pub fn inserts_rows_of(&mut self, fragment: FragmentRef) {
        self.inserts = true;
        self.nulls.filled.insert(fragment, BTreeSet::new());
    }

    /// Asserts that nobody else inserts these keys.
    pub fn assert_keys(&mut self, keys: KeyAssertion) {
        self.keys.push(keys);
    }

    /// Makes a field one that cannot be NULL.
    pub fn forbid_null(&mut self, field: FieldRef) {
        match field {
            Ref::Committed(field) => {
                self.not_null.insert(field);
            }
            Ref::Local(_) => self.own_not_null = true,
        }
    }

    /// Adds a constraint on the values of these fields: rows that others bring were not held against it.
    pub fn constrain(&mut self, fields: impl IntoIterator<Item = FieldId>) {
        self.constrains = true;
        self.constrained.extend(fields);
    }

    /// Writes the values of a field in another form: of rows that others bring it has none.
    pub fn convert(&mut self, field: FieldId) {
        self.converted.insert(field);
    }

    /// Says that it adds a field whose id is given out when it lands.
    pub fn adds_field(&mut self) {
        self.adds_fields = true;
    }

    /// Says that a setting of it names fields by their ids.
    pub fn writes_ids_down(&mut self) {
        self.writes_ids_down = true;
    }

    /// Says that a file of a fragment holds a field, and whether some of its values may be NULL.
    pub fn gives_values(&mut self, fragment: FragmentRef, field: FieldId, may_be_null: bool) {
        match (self.nulls.filled.get_mut(&fragment), fragment) {
            (Some(filled), _) => {
                if !may_be_null {
                    filled.insert(field);
                }
            }
            (None, Ref::Committed(_)) if may_be_null => {
                self.nulls.given.insert(field);
            }
            (None, _) => {}
        }
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
                Action::TombstoneFieldData(action) => action.footprint(&mut footprint),
                Action::ConfigUpdate(action) => action.footprint(&mut footprint),
                Action::ResetTable(action) => action.footprint(&mut footprint),
                Action::AddBase(action) => action.footprint(&mut footprint),
                Action::AssertUniqueKeys(action) => action.footprint(&mut footprint),
                Action::AddFragment(action) => action.footprint(&mut footprint),
                Action::RemoveFragment(action) => action.footprint(&mut footprint),
                Action::ReserveFragmentIds(_) => {}
                // Rows are compared by following them, not by coordinates.
                Action::SetDeletionFile(_) | Action::ChangeOfAddress(_) => {}
            }
        }
        // What a transaction adds under a reserved id is its own, as what it mints.
        let own = transaction.claimed_fragments();
        footprint.claims.retain(|at, _| !matches!(at, Coordinate::FieldData(fragment, _) if own.contains(fragment)));
        footprint
    }

    /// The claims in words, rows left out.
    pub fn in_words(&self) -> Vec<String> {
        let claim = |(coordinate, mode): (&Coordinate, &Mode)| match mode {
            Mode::Requires => format!("requires {coordinate}"),
            Mode::WritesPart => format!("writes a part of {coordinate}"),
            Mode::Writes => format!("writes {coordinate}"),
        };
        let keys = |keys: &KeyAssertion| format!("asserts that {} keys are new", keys.hashes.len());
        let everything = self.everything.then(|| "writes the whole table".to_owned());
        let inserts = self.inserts.then(|| "inserts rows".to_owned());
        let claims = self.claims.iter().map(claim);
        let regions = self.regions.iter().map(|region| format!("writes {region}"));
        everything.into_iter().chain(claims).chain(regions).chain(inserts).chain(self.keys.iter().map(keys)).collect()
    }

    /// The first place on which `self`, landing after `landed`, collides with it.
    pub fn collision(&self, landed: &Footprint) -> Option<String> {
        if self.everything || landed.everything {
            return Some("the whole table".to_owned());
        }
        let collides =
            |(coordinate, mode): &(&Coordinate, &Mode)| landed.claims.get(coordinate).is_some_and(|theirs| mode.collides(*theirs));
        let claim = self.claims.iter().find(collides).map(|(coordinate, _)| coordinate.to_string());
        claim
            .or_else(|| landed.regions.iter().find_map(|region| self.within(*region, Mode::Requires)))
            .or_else(|| self.regions.iter().find_map(|region| landed.within(*region, Mode::WritesPart)))
            .or_else(|| self.regions.intersection(&landed.regions).next().map(Region::to_string))
            .or_else(|| self.keys.iter().find_map(|keys| landed.breaks(keys)))
            .or_else(|| landed.keys.iter().find_map(|keys| self.breaks(keys)))
            .or_else(|| self.brings_nulls(landed))
            .or_else(|| landed.brings_nulls(self))
            .or_else(|| self.breaks_constraint(landed))
            .or_else(|| landed.breaks_constraint(self))
            .or_else(|| self.brings_unconverted(landed))
            .or_else(|| landed.brings_unconverted(self))
            .or_else(|| self.misnames_fields(landed))
    }

    /// Whether this transaction brings values of a field that another one writes in another form.
    fn brings_unconverted(&self, other: &Footprint) -> Option<String> {
        let converted = |field: &FieldId| other.converted.contains(field);
        if self.inserts && !other.converted.is_empty() {
            return Some("rows with values that were to get another type".to_owned());
        }
        let brings = |(coordinate, mode): &(&Coordinate, &Mode)| {
            matches!(coordinate, Coordinate::FieldData(_, field) if converted(field)) && **mode >= Mode::WritesPart
        };
        self.claims.iter().find(brings).map(|(coordinate, _)| format!("{coordinate}, which were to get another type"))
    }

    /// How this transaction may break a constraint that another one adds.
    fn breaks_constraint(&self, other: &Footprint) -> Option<String> {
        if !other.constrains {
            return None;
        }
        if self.inserts {
            return Some("rows that a new constraint was not held against".to_owned());
        }
        let breaks = |(coordinate, mode): &(&Coordinate, &Mode)| match coordinate {
            Coordinate::FieldData(_, field) => **mode >= Mode::WritesPart && other.constrained.contains(field),
            // It goes, and the constraint would be about nothing.
            Coordinate::FieldDefinition(field) => **mode == Mode::Writes && other.constrained.contains(field),
            _ => false,
        };
        self.claims.iter().find(breaks).map(|(coordinate, _)| format!("{coordinate}, which has a new constraint"))
    }

    /// Whether ids that this transaction foresaw and wrote down are given to fields of another one.
    fn misnames_fields(&self, landed: &Footprint) -> Option<String> {
        (self.adds_fields && self.writes_ids_down && landed.adds_fields).then(|| "the ids of new columns".to_owned())
    }

    /// The first field into which this transaction may bring NULLs, and which cannot be NULL by another one.
    fn brings_nulls(&self, other: &Footprint) -> Option<String> {
        if other.own_not_null && self.inserts {
            return Some("rows without a value of a new column that cannot be NULL".to_owned());
        }
        let field = other.not_null.iter().find(|field| self.nulls.may_bring(**field))?;
        Some(Coordinate::FieldFacet(*field, Facet::Nullability).to_string())
    }

    /// The first coordinate within a region that is claimed at least so strongly.
    fn within(&self, region: Region, least: Mode) -> Option<String> {
        self.claims.iter().find(|(coordinate, mode)| region.contains(coordinate) && **mode >= least).map(|(at, _)| at.to_string())
    }

    /// How this transaction breaks what another one asserts of keys.
    fn breaks(&self, keys: &KeyAssertion) -> Option<String> {
        let of_key = |field: &FieldId| keys.fields.as_ref().is_some_and(|fields| fields.contains(field));
        let rewritten = self.claims.iter().find(|(coordinate, mode)| {
            matches!(coordinate, Coordinate::FieldData(_, field) if of_key(field)) && **mode >= Mode::WritesPart
        });
        if let Some((coordinate, _)) = rewritten {
            return Some(format!("{coordinate}, which are keys"));
        }
        match self.keys.iter().find(|own| own.is_about(keys)) {
            Some(own) if own.meets(keys) => Some("a key that both insert".to_owned()),
            None if self.inserts => Some("rows whose keys are not known".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::refs::Token;

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

    #[test]
    fn all_settings_collide_with_any_of_them() {
        let one = footprint(&[(Coordinate::ConfigEntry("a".into()), Mode::Writes)]);
        let other = footprint(&[(Coordinate::ConfigEntry("b".into()), Mode::Writes)]);
        let field = footprint(&[(Coordinate::FieldDefinition(FieldId(1)), Mode::Writes)]);
        let mut all = Footprint::default();
        all.claim_region(Region::Config);
        assert_eq!(one.collision(&other), None);
        assert_eq!(one.collision(&all).unwrap(), "the setting 'a'");
        assert_eq!(all.collision(&one).unwrap(), "the setting 'a'");
        assert_eq!(all.collision(&all).unwrap(), "the settings");
        assert_eq!((all.collision(&field), field.collision(&all)), (None, None));
    }

    #[test]
    fn everything_collides_with_nothing_too() {
        let mut everything = Footprint::default();
        everything.claim_everything();
        let nothing = Footprint::default();
        assert_eq!(everything.collision(&nothing).unwrap(), "the whole table");
        assert_eq!(nothing.collision(&everything).unwrap(), "the whole table");
    }

    #[test]
    fn keys_are_held_against_what_others_insert_and_rewrite() {
        let keys = |fields: Option<&[i32]>, scheme, hashes: &[u64]| {
            let mut footprint = Footprint { inserts: true, ..Footprint::default() };
            let fields = fields.map(|fields| fields.iter().map(|id| FieldId(*id)).collect());
            footprint.assert_keys(KeyAssertion { fields, scheme, hashes: Arc::new(hashes.iter().copied().collect()) });
            footprint
        };
        let ours = keys(Some(&[1]), 1, &[5, 6]);
        let data = |field| footprint(&[(Coordinate::FieldData(FragmentId(0), FieldId(field)), Mode::Writes)]);
        let insert = Footprint { inserts: true, ..Footprint::default() };
        for (theirs, expected) in [
            (keys(Some(&[1]), 1, &[7]), None),
            (keys(Some(&[1]), 1, &[6, 7]), Some("a key that both insert")),
            (keys(Some(&[1]), 2, &[7]), Some("a key that both insert")),
            (keys(Some(&[2]), 1, &[7]), Some("rows whose keys are not known")),
            (keys(None, 1, &[7]), Some("rows whose keys are not known")),
            (insert.clone(), Some("rows whose keys are not known")),
            (data(1), Some("the values of field 1 in fragment 0, which are keys")),
            (data(2), None),
            (Footprint::default(), None),
        ] {
            assert_eq!(ours.collision(&theirs).as_deref(), expected);
            assert_eq!(theirs.collision(&ours).as_deref(), expected);
        }
        assert_eq!(insert.collision(&insert), None);
    }

    #[test]
    fn keys_that_are_not_listed_are_no_matter_of_footprints() {
        let keys = |scheme, hashes: &[u64]| {
            let mut footprint = Footprint { inserts: true, ..Footprint::default() };
            let hashes = Arc::new(hashes.iter().copied().collect());
            footprint.assert_keys(KeyAssertion { fields: Some(vec![FieldId(1)]), scheme, hashes });
            footprint
        };
        let insert = Footprint { inserts: true, ..Footprint::default() };
        for theirs in [keys(1, &[5]), keys(UNLISTED_KEYS, &[])] {
            assert_eq!(keys(UNLISTED_KEYS, &[]).collision(&theirs), None);
            assert_eq!(theirs.collision(&keys(UNLISTED_KEYS, &[])), None);
        }
        assert!(keys(UNLISTED_KEYS, &[]).collision(&insert).is_some());
    }

    #[test]
    fn a_new_constraint_meets_no_rows_that_it_was_not_held_against() {
        let mut constraint = Footprint::default();
        constraint.constrain([FieldId(1)]);
        let insert = Footprint { inserts: true, ..Footprint::default() };
        let data = |field| footprint(&[(Coordinate::FieldData(FragmentId(0), FieldId(field)), Mode::Writes)]);
        let definition = |field, mode| footprint(&[(Coordinate::FieldDefinition(FieldId(field)), mode)]);
        for (other, collides) in [
            (insert, true),
            (data(1), true),
            (data(2), false),
            (definition(1, Mode::Writes), true),
            (definition(1, Mode::WritesPart), false),
            (definition(2, Mode::Writes), false),
            (constraint.clone(), false),
            (Footprint::default(), false),
        ] {
            assert_eq!(other.collision(&constraint).is_some(), collides, "{other:?}");
            assert_eq!(constraint.collision(&other).is_some(), collides, "{other:?}");
        }
        let mut foresees = Footprint::default();
        foresees.adds_field();
        let adds = foresees.clone();
        foresees.writes_ids_down();
        assert_eq!(foresees.collision(&adds).unwrap(), "the ids of new columns");
        assert_eq!((adds.collision(&foresees), foresees.collision(&constraint)), (None, None));
    }

    #[test]
    fn values_of_another_type_meet_none_that_others_bring() {
        let mut converted = Footprint::default();
        converted.convert(FieldId(1));
        let insert = Footprint { inserts: true, ..Footprint::default() };
        let data = |field| footprint(&[(Coordinate::FieldData(FragmentId(0), FieldId(field)), Mode::Writes)]);
        for (other, collides) in
            [(insert, true), (data(1), true), (data(2), false), (converted.clone(), false), (Footprint::default(), false)]
        {
            assert_eq!(other.collision(&converted).is_some(), collides, "{other:?}");
            assert_eq!(converted.collision(&other).is_some(), collides, "{other:?}");
        }
    }

    #[test]
    fn nulls_and_not_null_do_not_meet() {
        let field = FieldId(3);
        let not_null = |fields: &[i32]| {
            let mut footprint = Footprint::default();
            fields.iter().for_each(|id| footprint.forbid_null(Ref::Committed(FieldId(*id))));
            footprint
        };
        // Two fragments; what is said of each is whether field 3 may be NULL in it, or that no file of it holds the field.
        let insert = |files: [Option<bool>; 2]| {
            let mut footprint = Footprint { inserts: true, ..Footprint::default() };
            for (token, may_be_null) in (0..).map(Token).zip(files) {
                footprint.inserts_rows_of(Ref::Local(token));
                may_be_null.into_iter().for_each(|may_be_null| footprint.gives_values(Ref::Local(token), field, may_be_null));
            }
            footprint
        };
        let rewritten = |may_be_null| {
            let mut footprint = Footprint::default();
            footprint.gives_values(Ref::Committed(FragmentId(0)), field, may_be_null);
            footprint
        };
        let collision = Some("whether field 3 can be NULL");
        for (other, expected) in [
            (insert([Some(false), Some(false)]), None),
            (insert([Some(false), Some(true)]), collision),
            (insert([Some(false), None]), collision),
            (rewritten(false), None),
            (rewritten(true), collision),
            (Footprint::default(), None),
            (not_null(&[3]), None),
        ] {
            assert_eq!(other.collision(&not_null(&[3])).as_deref(), expected, "{other:?}");
            assert_eq!(not_null(&[3]).collision(&other).as_deref(), expected, "{other:?}");
            if other.inserts {
                assert!(other.collision(&not_null(&[4])).is_some(), "no file holds field 4");
            }
        }
        let mut own = Footprint::default();
        own.forbid_null(Ref::Local(Token(0)));
        assert!(own.collision(&insert([Some(false), Some(false)])).unwrap().contains("new column"));
        assert_eq!(own.collision(&rewritten(true)), None);
    }
}
