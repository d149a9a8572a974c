//! An action in words and numbers, for people who look at a table's transactions.
//!
//! Goes in: an action as it was applied, and the ids that its tokens got. Comes out: what it is about. Rows are counted as the
//! action itself counts them: those it adds, deletes, or asserts something of.

use super::action::{Action, MapLocation};
use super::composite::CommittedTransaction;
use super::refs::{FieldRef, FragmentRef};
use crate::table::row_address::FragmentId;
use crate::table::schema::{FieldId, FieldType};
use crate::table::type_name;

/// What an action is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description {
    /// The fragment that it changes, if it is one.
    pub fragment: Option<FragmentId>,
    /// The fields that it names.
    pub fields: Vec<FieldId>,
    /// How many rows it adds, deletes or speaks of.
    pub rows: Option<u64>,
    /// Whether what can be read changes by it.
    pub data_change: bool,
    /// The rest, in words.
    pub detail: String,
}

/// What an action of a committed transaction is about.
pub fn describe(action: &Action, of: &CommittedTransaction) -> Description {
    let minted = &of.minted;
    let fragment = |fragment: FragmentRef| minted.fragment(fragment);
    let fields = |fields: &[FieldRef]| fields.iter().filter_map(|field| minted.field(*field)).collect::<Vec<_>>();
    let described = Description { data_change: true, ..Description::default() };
    match action {
        Action::AddFragment(add) => {
            Description { fragment: fragment(add.id), rows: Some(u64::from(add.physical_rows)), data_change: add.data_change, ..described }
        }
        Action::AddDataFile(add) => Description {
            fragment: fragment(add.fragment),
            fields: add.fields.iter().flatten().filter_map(|field| minted.field(*field)).collect(),
            data_change: add.data_change,
            detail: format!("{}, {} bytes", add.file.path, add.file.size_bytes),
            ..described
        },
        Action::RemoveFragment(remove) => Description { fragment: fragment(remove.fragment), data_change: remove.data_change, ..described },
        Action::SetDeletionFile(set) => Description {
            fragment: fragment(set.fragment),
            rows: Some(set.added.len()),
            detail: match set.replaced.len() {
                0 => String::new(),
                replaced => format!("{replaced} of them live on in new versions"),
            },
            ..described
        },
        Action::ChangeOfAddress(change) => Description {
            data_change: false,
            detail: format!(
                "fragments {} to {}{}; map {}",
                list(change.sources.iter().filter_map(|source| fragment(*source))),
                list(change.targets.iter().filter_map(|target| fragment(*target))),
                change.order.as_ref().map_or(String::new(), |order| format!(", ordered by {order}")),
                match &change.map {
                    MapLocation::Inline(bytes) => format!("of {} bytes", bytes.len()),
                    MapLocation::Object { path, size_bytes, .. } => format!("{path}, {size_bytes} bytes"),
                }
            ),
            ..described
        },
        Action::AddField(add) => Description {
            fields: fields(&[add.id]),
            data_change: false,
            detail: {
                let not_null = if add.nullable { "" } else { " NOT NULL" };
                let initial = add.initial.as_ref().map(|value| format!(", {value} in the rows that are there")).unwrap_or_default();
                let in_place = add.in_place_of.map(|_| ", in place of another").unwrap_or_default();
                format!("{} {}{not_null}{initial}{in_place}", add.name, type_of(&add.field_type))
            },
            ..described
        },
        Action::AlterField(alter) => {
            let name = alter.name.as_ref().map(|name| format!("name {name}"));
            let field_type = alter.field_type.as_ref().map(|field_type| format!("type {}", type_of(field_type)));
            let nullable = alter.nullable.map(|nullable| if nullable { "NULL" } else { "NOT NULL" }.to_owned());
            let detail = list([name, field_type, nullable].into_iter().flatten());
            Description { fields: fields(&[alter.field]), data_change: false, detail, ..described }
        }
        Action::DropField(drop) => Description { fields: fields(&[drop.field]), ..described },
        Action::TombstoneFieldData(tombstone) => Description {
            fragment: fragment(tombstone.fragment),
            fields: fields(&tombstone.fields),
            data_change: tombstone.data_change,
            ..described
        },
        Action::ConfigUpdate(update) => {
            let entry = |(key, value): (&String, &Option<String>)| match value {
                Some(value) => format!("{key} = {value}"),
                None => format!("{key} unset"),
            };
            let all = update.replace.then(|| "all others unset".to_owned());
            let detail = list(update.entries.iter().map(entry).chain(all));
            Description { data_change: false, detail, ..described }
        }
        Action::ReserveFragmentIds(reserve) => Description { data_change: false, detail: format!("{} ids", reserve.count), ..described },
        Action::ResetTable(_) => described,
        Action::AddBase(add) => Description {
            data_change: false,
            detail: match &add.base.name {
                Some(name) => format!("{name} at {}", add.base.location),
                None => add.base.location.clone(),
            },
            ..described
        },
        Action::AssertUniqueKeys(assert) => {
            Description { fields: fields(&assert.fields), rows: Some(assert.hashes.len() as u64), data_change: false, ..described }
        }
    }
}

fn type_of(field_type: &FieldType) -> String {
    type_name::name(field_type).unwrap_or_else(|| format!("{field_type:?}"))
}

fn list(items: impl Iterator<Item = impl ToString>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
