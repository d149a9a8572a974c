//! Schemas: fields with ids that keep their meaning when names and types change.
//!
//! A schema is a list of fields; a nested type is a field with children (`parent`). Reading maps columns by id, so a
//! rename costs nothing. Files carry the ids as `PARQUET:field_id`.
//!
//! Always holds: ids are unique and never used again; siblings have different names; a parent precedes its children.

use arrow_schema::{DataType, Field as ArrowField, FieldRef, Fields, IntervalUnit, Schema as ArrowSchema, SchemaRef};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

/// The key in the metadata of an Arrow field under which Parquet keeps the field's id.
pub const PARQUET_FIELD_ID: &str = "PARQUET:field_id";

/// A field's id: unique in its table for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId(pub i32);

impl fmt::Display for FieldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The type of a field without its children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
    /// A type without fields of its own, as Arrow names it.
    Leaf(DataType),
    /// A struct of the children.
    Struct,
    /// A list of the only child.
    List,
    /// A list of the only child with 64-bit offsets.
    LargeList,
    /// Lists of this many elements of the only child.
    FixedSizeList(i32),
    /// A map; the only child is a struct of key and value.
    Map {
        /// Whether keys are sorted.
        sorted: bool,
    },
}

impl FieldType {
    /// Whether every value of this type is a value of `to` under the same bytes or a cast that cannot fail, and bounds of
    /// values stay bounds.
    pub fn widens_to(&self, to: &FieldType) -> bool {
        use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
        use DataType::{Decimal128, Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
        let (FieldType::Leaf(from), FieldType::Leaf(to)) = (self, to) else { return self == to };
        match (from, to) {
            (from, to) if from == to => true,
            (Int8, Int16 | Int32 | Int64) | (Int16, Int32 | Int64) | (Int32, Int64) => true,
            (UInt8, UInt16 | UInt32 | UInt64) | (UInt16, UInt32 | UInt64) | (UInt32, UInt64) => true,
            (Float16, Float32 | Float64) | (Float32, Float64) => true,
            (Utf8, LargeUtf8 | Utf8View) | (LargeUtf8, Utf8View) | (Utf8View, LargeUtf8) => true,
            (Binary, LargeBinary | BinaryView) | (LargeBinary, BinaryView) | (BinaryView, LargeBinary) => true,
            (Decimal128(precision, scale), Decimal128(wider, same)) => wider > precision && scale == same,
            _ => false,
        }
    }
}

/// A column, or a part of a nested one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its id.
    pub id: FieldId,
    /// The field it is a part of; `None` for a column.
    pub parent: Option<FieldId>,
    /// Its name, unique among its siblings.
    pub name: String,
    /// Its type.
    pub field_type: FieldType,
    /// Whether it can be NULL.
    pub nullable: bool,
    /// Further Arrow metadata (extension types, comments).
    pub metadata: BTreeMap<String, String>,
}

/// The fields of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableSchema {
    fields: Vec<Field>,
}

impl TableSchema {
    /// The schema of these fields; an error says which rule they break.
    pub fn new(fields: Vec<Field>) -> Result<Self, String> {
        let mut seen: HashMap<FieldId, &Field> = HashMap::new();
        let mut names: HashMap<(Option<FieldId>, &str), FieldId> = HashMap::new();
        for field in &fields {
            if let Some(parent) = field.parent {
                match seen.get(&parent).map(|f| &f.field_type) {
                    Some(FieldType::Leaf(_)) => return Err(format!("field {} is a part of field {parent}, which has no parts", field.id)),
                    None => return Err(format!("field {} precedes its parent {parent}", field.id)),
                    Some(_) => {}
                }
            }
            if let Some(other) = names.insert((field.parent, &field.name), field.id) {
                return Err(format!("fields {other} and {} share the name '{}'", field.id, field.name));
            }
            if seen.insert(field.id, field).is_some() {
                return Err(format!("field id {} is used twice", field.id));
            }
        }
        let mut parts: HashMap<FieldId, usize> = HashMap::new();
        for parent in fields.iter().filter_map(|field| field.parent) {
            *parts.entry(parent).or_default() += 1;
        }
        for field in &fields {
            let children = parts.get(&field.id).copied().unwrap_or(0);
            let ok = match field.field_type {
                FieldType::Leaf(_) => children == 0,
                FieldType::Struct => true,
                FieldType::List | FieldType::LargeList | FieldType::FixedSizeList(_) | FieldType::Map { .. } => children == 1,
            };
            if !ok {
                return Err(format!("field {} ('{}') has {children} parts, which its type does not allow", field.id, field.name));
            }
        }
        Ok(TableSchema { fields })
    }

    /// Numbers the fields of an Arrow schema from `next` on, parents first.
    pub fn from_arrow(schema: &ArrowSchema, next: FieldId) -> Result<Self, String> {
        let mut fields = Vec::new();
        let mut next = next.0;
        for field in schema.fields() {
            flatten(field, None, &mut next, &mut fields)?;
        }
        TableSchema::new(fields)
    }

    /// All fields, parents before their children.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| field.parent.is_none())
    }

    /// The schema of these columns alone, named by their positions; ids and order stay.
    pub fn only(&self, positions: &[usize]) -> TableSchema {
        let columns = self.columns().enumerate().filter(|(position, _)| positions.contains(position));
        let mut kept: BTreeSet<FieldId> = columns.map(|(_, column)| column.id).collect();
        // Parents precede their parts.
        let mut keep = |field: &&Field| match field.parent {
            None => kept.contains(&field.id),
            Some(parent) => kept.contains(&parent) && kept.insert(field.id),
        };
        TableSchema { fields: self.fields.iter().filter(|field| keep(field)).cloned().collect() }
    }

    /// The same columns, all of which may be NULL: what rows may be read as that are deleted. They may date from a time when the column
    /// could be NULL.
    pub fn with_nullable_columns(&self) -> TableSchema {
        let nullable = |field: &Field| Field { nullable: field.nullable || field.parent.is_none(), ..field.clone() };
        TableSchema { fields: self.fields.iter().map(nullable).collect() }
    }

    /// The field of that id.
    pub fn field(&self, id: FieldId) -> Option<&Field> {
        self.fields.iter().find(|field| field.id == id)
    }

    /// Whether this schema has all columns of an earlier one, unchanged, and perhaps more.
    pub fn extends(&self, earlier: &TableSchema) -> bool {
        let added = |field: &Field| earlier.field(field.id).is_none();
        let into_old = |field: &Field| field.parent.is_some_and(|parent| earlier.field(parent).is_some());
        earlier.fields.iter().all(|field| self.field(field.id) == Some(field))
            && !self.fields.iter().any(|field| added(field) && into_old(field))
    }

    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&Field> {
        self.columns().find(|field| field.name == name)
    }

    /// The parts of a field, or the columns for `None`, in order.
    pub fn children(&self, parent: Option<FieldId>) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(move |field| field.parent == parent)
    }

    /// The ids of the parts of a field and of their parts, depth first.
    pub fn parts(&self, id: FieldId) -> Vec<FieldId> {
        self.children(Some(id)).flat_map(|part| std::iter::once(part.id).chain(self.parts(part.id))).collect()
    }

    /// The Arrow schema, every field with its id in its metadata.
    pub fn to_arrow(&self) -> SchemaRef {
        let fields: Fields = self.columns().map(|field| self.arrow_field(field)).collect();
        Arc::new(ArrowSchema::new(fields))
    }

    /// The Arrow schema without ids: what queries see. (Ids in the metadata of columns would make columns of two tables
    /// differ that are alike.)
    pub fn to_plain_arrow(&self) -> SchemaRef {
        let fields: Fields = self.columns().map(|field| self.arrow_field_with(field, false)).collect();
        Arc::new(ArrowSchema::new(fields))
    }

    /// The Arrow field of one field and its parts, with ids.
    pub fn arrow_field(&self, field: &Field) -> FieldRef {
        self.arrow_field_with(field, true)
    }

    fn arrow_field_with(&self, field: &Field, ids: bool) -> FieldRef {
        let mut parts = self.children(Some(field.id)).map(|part| self.arrow_field_with(part, ids));
        let data_type = match &field.field_type {
            FieldType::Leaf(data_type) => data_type.clone(),
            FieldType::Struct => DataType::Struct(parts.collect()),
            FieldType::List => parts.next().map_or(DataType::Null, DataType::List),
            FieldType::LargeList => parts.next().map_or(DataType::Null, DataType::LargeList),
            FieldType::FixedSizeList(size) => parts.next().map_or(DataType::Null, |part| DataType::FixedSizeList(part, *size)),
            FieldType::Map { sorted } => parts.next().map_or(DataType::Null, |part| DataType::Map(part, *sorted)),
        };
        let mut metadata: HashMap<String, String> = field.metadata.clone().into_iter().collect();
        if ids {
            metadata.insert(PARQUET_FIELD_ID.to_owned(), field.id.0.to_string());
        }
        Arc::new(ArrowField::new(&field.name, data_type, field.nullable).with_metadata(metadata))
    }
}

/// Whether the writer and the reader of Parquet know the type, that of parts aside.
fn fits_parquet(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) | DataType::RunEndEncoded(..) | DataType::ListView(_) | DataType::LargeListView(_) => false,
        DataType::Interval(IntervalUnit::MonthDayNano) => false,
        DataType::Dictionary(_, values) => {
            use DataType::{BinaryView, Boolean, Dictionary, Float16, Interval, Null, Utf8View};
            !matches!(**values, Null | Boolean | Float16 | BinaryView | Utf8View | Interval(_) | Dictionary(..)) && !values.is_nested()
        }
        _ => true,
    }
}

/// Appends a field and its parts, numbering them.
pub fn flatten(field: &ArrowField, parent: Option<FieldId>, next: &mut i32, into: &mut Vec<Field>) -> Result<(), String> {
    let id = FieldId(*next);
    *next = next.checked_add(1).ok_or("no field ids are left")?;
    let (field_type, parts): (FieldType, Vec<&FieldRef>) = match field.data_type() {
        DataType::Struct(parts) => (FieldType::Struct, parts.iter().collect()),
        DataType::List(part) => (FieldType::List, vec![part]),
        DataType::LargeList(part) => (FieldType::LargeList, vec![part]),
        DataType::FixedSizeList(part, size) => (FieldType::FixedSizeList(*size), vec![part]),
        DataType::Map(part, sorted) => (FieldType::Map { sorted: *sorted }, vec![part]),
        other if !fits_parquet(other) => return Err(format!("column '{}': type {other} cannot be stored in Parquet", field.name())),
        leaf => (FieldType::Leaf(leaf.clone()), vec![]),
    };
    let metadata = field.metadata().iter().filter(|(key, _)| *key != PARQUET_FIELD_ID).map(|(k, v)| (k.clone(), v.clone())).collect();
    into.push(Field { id, parent, name: field.name().clone(), field_type, nullable: field.is_nullable(), metadata });
    for part in parts {
        flatten(part, Some(id), next, into)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested() -> ArrowSchema {
        let map =
            DataType::Struct(vec![ArrowField::new("key", DataType::Utf8, false), ArrowField::new("value", DataType::Int32, true)].into());
        ArrowSchema::new(vec![
            ArrowField::new("a", DataType::Int64, false),
            ArrowField::new_list("l", ArrowField::new("item", DataType::Utf8View, true), true),
            ArrowField::new("m", DataType::Map(Arc::new(ArrowField::new("entries", map, false)), false), true),
        ])
    }

    #[test]
    fn arrow_schemas_come_back_with_ids() {
        let schema = TableSchema::from_arrow(&nested(), FieldId(1)).unwrap();
        assert_eq!(schema.fields().iter().map(|f| f.id.0).collect::<Vec<_>>(), (1..=7).collect::<Vec<_>>());
        assert_eq!(schema.columns().map(|f| f.id.0).collect::<Vec<_>>(), [1, 2, 4]);
        let arrow = schema.to_arrow();
        assert_eq!(arrow.field(2).metadata()[PARQUET_FIELD_ID], "4");
        assert_eq!(TableSchema::from_arrow(&arrow, FieldId(1)).unwrap(), schema);
        assert!(arrow.field(1).data_type().equals_datatype(nested().field(1).data_type()));
        let ids = |schema: TableSchema| schema.fields().iter().map(|field| field.id.0).collect::<Vec<_>>();
        assert_eq!(ids(schema.only(&[1])), [2, 3]);
        assert_eq!(ids(schema.only(&[0, 2])), [1, 4, 5, 6, 7]);
    }

    #[test]
    fn a_schema_extends_one_with_fewer_columns() {
        let plain = |id, parent: Option<i32>, name: &str, field_type| Field {
            id: FieldId(id),
            parent: parent.map(FieldId),
            name: name.to_owned(),
            field_type,
            nullable: true,
            metadata: BTreeMap::new(),
        };
        let earlier = vec![plain(1, None, "s", FieldType::Struct), plain(2, Some(1), "a", FieldType::Leaf(DataType::Int32))];
        let schema = |more: Vec<Field>| TableSchema::new([earlier.clone(), more].concat()).unwrap();
        assert!(schema(vec![]).extends(&schema(vec![])));
        let column = plain(3, None, "b", FieldType::Leaf(DataType::Int32));
        assert!(schema(vec![column.clone()]).extends(&schema(vec![])));
        assert!(!schema(vec![]).extends(&schema(vec![column])));
        assert!(!schema(vec![plain(3, Some(1), "b", FieldType::Leaf(DataType::Int32))]).extends(&schema(vec![])));
        let mut renamed = schema(vec![]);
        renamed.fields[1].name = "b".into();
        assert!(!renamed.extends(&schema(vec![])));
    }

    #[test]
    fn broken_schemas_are_refused() {
        let leaf = |id, parent: Option<i32>, name: &str| Field {
            id: FieldId(id),
            parent: parent.map(FieldId),
            name: name.into(),
            field_type: FieldType::Leaf(DataType::Int32),
            nullable: true,
            metadata: BTreeMap::new(),
        };
        for (fields, needle) in [
            (vec![leaf(1, None, "a"), leaf(1, None, "b")], "used twice"),
            (vec![leaf(1, None, "a"), leaf(2, None, "a")], "share the name"),
            (vec![leaf(1, Some(2), "a"), leaf(2, None, "b")], "precedes"),
            (vec![leaf(1, None, "a"), leaf(2, Some(1), "b")], "has no parts"),
        ] {
            assert!(TableSchema::new(fields).unwrap_err().contains(needle), "{needle}");
        }
    }
}
