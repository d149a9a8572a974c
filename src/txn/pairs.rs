//! Every ordered pair of kinds of actions, landed one after the other on one version, held against `pairs/verdicts.txt`.
//!
//! An action that has a second form with a footprint of its own (a fragment at a reserved id) has a line for each form.
//! A line of that file is: the kind that lands second, the kind that landed first, and what becomes of the second where the
//! first acted on the same place, on a neighbouring one, and elsewhere: `commutes`, `carry` and what is recomputed, or the
//! coordinate of the conflict.
//!
//! Always holds: a new kind of action has a sample for each place, or this does not compile, and a line for each pair, or it
//! fails; where both orders land, they make the same table, and every version passes the invariants.

use super::action::{
    Action, AddBase, AddDataFile, AddField, AlterField, AssertUniqueKeys, ConfigUpdate, DropField, ReserveFragmentIds, ResetTable,
    TombstoneFieldData,
};
use super::compare::Comparison;
use super::composite::RowCounts;
use super::refs::{FieldRef, FragmentRef, Ref, Token};
use super::testbed::{Draft, Row, Testbed, data_file};
use crate::commit::invariants;
use crate::table::fragment::Base;
use crate::table::row_address::FragmentId;
use crate::table::schema::{FieldId, FieldType};
use arrow_schema::DataType;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

macro_rules! kinds {
    ($($kind:ident),* ; $($form:ident of $of:ident),* $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum Kind { $($kind,)* $($form),* }

        const KINDS: &[Kind] = &[$(Kind::$kind,)* $(Kind::$form),*];

        impl Kind {
            fn of(action: &Action) -> Kind {
                match action {
                    $(Action::$kind(_) => Kind::$kind),*
                }
            }

            /// The kind that it is a form of.
            fn base(self) -> Kind {
                match self {
                    $(Kind::$form => Kind::$of,)*
                    kind => kind,
                }
            }
        }
    };
}

kinds!(
    AddFragment,
    AddDataFile,
    RemoveFragment,
    SetDeletionFile,
    ChangeOfAddress,
    AddField,
    AlterField,
    DropField,
    TombstoneFieldData,
    ConfigUpdate,
    ReserveFragmentIds,
    ResetTable,
    AddBase,
    AssertUniqueKeys;
    AddFragmentAtReservedId of AddFragment,
    AddFieldAtOldId of AddField,
);

/// Where the first of a pair acts, seen from the second, which is always at `Same`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Same,
    Neighbour,
    Elsewhere,
}

const PLACES: [Place; 3] = [Place::Same, Place::Neighbour, Place::Elsewhere];
const VERDICTS: &str = include_str!("pairs/verdicts.txt");

impl Place {
    fn pick<T>(self, same: T, neighbour: T, elsewhere: T) -> T {
        match self {
            Place::Same => same,
            Place::Neighbour => neighbour,
            Place::Elsewhere => elsewhere,
        }
    }

    fn fragment(self) -> FragmentRef {
        Ref::Committed(FragmentId(self.pick(0, 1, 2)))
    }

    /// A field and a fragment that has values of it.
    fn column(self) -> (FragmentRef, FieldRef) {
        let (fragment, field) = self.pick((0, 3), (0, 4), (1, 5));
        (Ref::Committed(FragmentId(fragment)), Ref::Committed(FieldId(field)))
    }
}

/// Three fragments, of which the first two have values of the columns x, y and z (fields 3 to 5); the fragment ids 3 to 5 are
/// reserved, and the fields 6 to 8 were dropped.
fn table() -> Testbed {
    let mut bed = Testbed::new(invariants::check);
    let mut insert = bed.draft();
    for keys in [0..4, 4..8, 8..10] {
        insert.insert(&keys.map(|key| (key, 0)).collect::<Vec<Row>>());
    }
    bed.land(insert).unwrap();
    let mut columns = bed.draft();
    for name in ["x", "y", "z", "dropped", "gone", "lost"] {
        columns.add_column(name);
    }
    let fields: Vec<FieldRef> = (0..3).map(|token| Ref::Local(Token(token))).collect();
    let add = |fragment: u32| {
        let file = data_file(&format!("data/columns-{fragment}.parquet"), 4, 3);
        let (fragment, fields) = (Ref::Committed(FragmentId(fragment)), fields.iter().copied().map(Some).collect());
        Action::AddDataFile(AddDataFile { fragment, file, base: None, fields, data_change: true })
    };
    let settings = ["a", "b", "c"].map(|key| (key.to_owned(), Some("0".to_owned())));
    let config = Action::ConfigUpdate(ConfigUpdate { entries: settings.into(), replace: false });
    let reserve = Action::ReserveFragmentIds(ReserveFragmentIds { count: 3 });
    columns.step("ALTER", "columns".into(), vec![add(0), add(1), config, reserve], RowCounts::default());
    let drop = |field| Action::DropField(DropField { field: Ref::Local(Token(field)) });
    columns.step("ALTER", "dropped".into(), vec![drop(3), drop(4), drop(5)], RowCounts::default());
    bed.land(columns).unwrap();
    bed
}

/// A transaction whose point is an action of that kind at that place.
fn sample(kind: Kind, place: Place, draft: &mut Draft) {
    let (fragment, field) = place.column();
    let alter =
        |field: i32| AlterField { field: Ref::Committed(FieldId(field)), parent: None, name: None, field_type: None, nullable: None };
    let tombstone = Action::TombstoneFieldData(TombstoneFieldData { fragment, fields: vec![field], data_change: false });
    let actions = match kind {
        Kind::AddFragment => {
            draft.insert(&[(place.pick(100, 101, 102), 0)]);
            return;
        }
        Kind::AddFragmentAtReservedId => {
            draft.reserved = vec![FragmentId(place.pick(3, 4, 5))];
            draft.insert(&[(place.pick(100, 101, 102), 0)]);
            return;
        }
        Kind::AddDataFile => {
            let file = data_file(&format!("data/{}.parquet", draft.transaction.id.0), 4, 1);
            vec![tombstone, Action::AddDataFile(AddDataFile { fragment, file, base: None, fields: vec![Some(field)], data_change: false })]
        }
        Kind::RemoveFragment => {
            draft.remove(&[place.fragment()]);
            return;
        }
        Kind::SetDeletionFile => {
            draft.update(&[place.pick(0, 1, 4)], 10);
            return;
        }
        Kind::ChangeOfAddress => {
            draft.optimize(&[(vec![place.fragment()], vec![])], true);
            return;
        }
        Kind::AddField => {
            draft.add_column(place.pick("n", "m", "o"));
            return;
        }
        Kind::AddFieldAtOldId => {
            let (id, name) = place.pick((6, "n"), (7, "n"), (8, "o"));
            let (id, parent, field_type) = (Ref::Committed(FieldId(id)), None, FieldType::Leaf(DataType::Int64));
            vec![Action::AddField(AddField {
                id,
                parent,
                name: name.into(),
                field_type,
                nullable: true,
                metadata: BTreeMap::new(),
                initial: None,
                in_place_of: None,
            })]
        }
        Kind::AlterField => {
            let rename = |field, name: &str| AlterField { name: Some(name.into()), ..alter(field) };
            let nullable = AlterField { nullable: Some(true), ..alter(3) };
            vec![Action::AlterField(place.pick(rename(3, "n"), nullable, rename(5, "o")))]
        }
        Kind::DropField => vec![Action::DropField(DropField { field })],
        Kind::TombstoneFieldData => vec![tombstone],
        Kind::ConfigUpdate => {
            let entries = BTreeMap::from([(place.pick("a", "b", "c").to_owned(), Some("1".to_owned()))]);
            vec![Action::ConfigUpdate(ConfigUpdate { entries, replace: false })]
        }
        Kind::ReserveFragmentIds => vec![Action::ReserveFragmentIds(ReserveFragmentIds { count: 2 })],
        Kind::ResetTable => vec![Action::ResetTable(ResetTable)],
        Kind::AddBase => {
            let (name, location) = place.pick(("a", "s3://a"), ("a", "s3://b"), ("c", "s3://c"));
            let base = Base { name: Some(name.into()), location: location.into() };
            vec![Action::AddBase(AddBase { token: Token(0), base })]
        }
        Kind::AssertUniqueKeys => {
            draft.insert(&[(place.pick(200, 201, 202), 0)]);
            let (key, hash) = place.pick((1, 200), (1, 201), (2, 202));
            let (fields, hashes) = (vec![Ref::Committed(FieldId(key))], Arc::new(BTreeSet::from([hash])));
            vec![Action::AssertUniqueKeys(AssertUniqueKeys { fields, scheme: 1, hashes })]
        }
    };
    draft.step("SAMPLE", format!("{kind:?}"), actions, RowCounts::default());
}

/// What a reader can tell of the newest version.
#[derive(Debug, PartialEq)]
struct State {
    rows: Vec<Row>,
    columns: BTreeSet<(i32, String)>,
    settings: BTreeMap<String, String>,
    locations: BTreeSet<String>,
    /// How many rows have values of x, y and z.
    values: Vec<u64>,
}

fn state(bed: &Testbed) -> State {
    let newest = bed.newest();
    let holding = |id| newest.fragments.iter().unwrap().filter(move |fragment| fragment.backing(FieldId(id)).is_some());
    State {
        rows: bed.rows(),
        // Ids of new columns depend on the order.
        columns: newest.schema.columns().map(|column| (column.id.0.min(9), column.name.clone())).collect(),
        settings: newest.config.clone(),
        locations: newest.bases.values().map(|base| base.location.clone()).collect(),
        values: (3..6).map(|id| holding(id).map(|fragment| u64::from(fragment.live_rows())).sum()).collect(),
    }
}

/// What becomes of `second` after `first` in words, and the table if it lands.
fn land(second: (Kind, Place), first: (Kind, Place)) -> (String, Option<State>) {
    let mut bed = table();
    let (mut before, mut after) = (bed.draft(), bed.draft());
    sample(first.0, first.1, &mut before);
    sample(second.0, second.1, &mut after);
    for ((kind, _), draft) in [(first, &before), (second, &after)] {
        assert!(draft.transaction.actions().any(|action| Kind::of(action) == kind.base()), "a sample of {kind:?} without one");
    }
    let first = bed.land(before).unwrap();
    let (comparison, landed) = bed.land_compared(after, &first);
    let verdict = match comparison {
        Comparison::Commutes => "commutes".to_owned(),
        Comparison::Carry(carry) => format!("carry ({carry})"),
        Comparison::Conflict(conflict) => conflict.coordinate,
    };
    (verdict, landed.is_ok().then(|| state(&bed)))
}

#[test]
fn every_pair_comes_to_what_is_written() {
    let mut found = String::new();
    for second in KINDS {
        for first in KINDS {
            write!(found, "{second:?} after {first:?}:").unwrap();
            for place in PLACES {
                let (verdict, landed) = land((*second, Place::Same), (*first, place));
                let (_, swapped) = land((*first, place), (*second, Place::Same));
                if let (Some(one), Some(other)) = (&landed, &swapped) {
                    assert_eq!(one, other, "{second:?} and {first:?} at {place:?} make two tables in two orders");
                }
                write!(found, " {verdict}{}", place.pick(";", ";", "\n")).unwrap();
            }
        }
    }
    if found != VERDICTS {
        let differ = |(found, written): (&str, &str)| (found != written).then(|| format!("found:   {found}\nwritten: {written}"));
        let lines: Vec<String> = found.lines().zip(VERDICTS.lines()).filter_map(differ).collect();
        let path = std::env::temp_dir().join(format!("amend-verdicts-{}.txt", std::process::id()));
        std::fs::write(&path, &found).unwrap();
        panic!("the verdicts differ from src/txn/pairs/verdicts.txt; all are in {}\n{}", path.display(), lines.join("\n"));
    }
}
