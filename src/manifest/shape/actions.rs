//! The shapes of actions and of what they refer to.

use super::Kind::{Bytes, Fixed32, Message, Packed, Reserved, Text, Varint};
use super::{DATA_FILE, DELETION_FILE, ENTRY, MAX_ACTIONS, MAX_ENTRIES, MAX_FIELDS, STAT_VALUE, Shape, many, one};

static FRAGMENT_REF: Shape = Shape { name: "FragmentRef", one_of: true, fields: &[one(1, "committed", Varint), one(2, "local", Varint)] };

static FIELD_REF: Shape = Shape { name: "FieldRef", one_of: true, fields: &[one(1, "committed", Varint), one(2, "local", Varint)] };

static BASE_REF: Shape = Shape { name: "BaseRef", one_of: true, fields: &[one(1, "committed", Varint), one(2, "local", Varint)] };

pub(super) static ACTION: Shape = Shape {
    name: "Action",
    one_of: true,
    fields: &[
        one(1, "AddFragment", Message(&ADD_FRAGMENT)),
        one(2, "AddDataFile", Message(&ADD_DATA_FILE)),
        one(3, "AddField", Message(&ADD_FIELD)),
        one(4, "AddBase", Message(&ADD_BASE)),
        one(5, "TombstoneFieldData", Message(&TOMBSTONE_FIELD_DATA)),
        one(6, "RemoveFragment", Message(&REMOVE_FRAGMENT)),
        one(7, "SetDeletionFile", Message(&SET_DELETION_FILE)),
        one(8, "ConfigUpdate", Message(&CONFIG_UPDATE)),
        one(9, "AddOverlays", Reserved),
        one(10, "RefreshRowVersionMetadata", Reserved),
        one(11, "UpdateCompactedSsTables", Reserved),
        one(12, "DropField", Message(&DROP_FIELD)),
        one(13, "AlterField", Message(&ALTER_FIELD)),
        one(14, "AddIndexSegment", Reserved),
        one(15, "RemoveIndexSegment", Reserved),
        one(16, "AdjustIndexCoverage", Reserved),
        one(17, "ResetTable", Message(&RESET_TABLE)),
        one(18, "ReserveFragmentIds", Message(&RESERVE_FRAGMENT_IDS)),
        one(19, "AssertUniqueKeys", Message(&ASSERT_UNIQUE_KEYS)),
        one(20, "ReserveRowIds", Reserved),
        one(21, "ChangeOfAddress", Message(&CHANGE_OF_ADDRESS)),
    ],
};

static ADD_FRAGMENT: Shape = Shape {
    name: "AddFragment",
    one_of: false,
    fields: &[
        one(1, "id", Message(&FRAGMENT_REF)),
        one(2, "physical_rows", Varint),
        one(3, "data_change", Varint),
        one(4, "replacing", Bytes),
    ],
};

static ADD_DATA_FILE: Shape = Shape {
    name: "AddDataFile",
    one_of: false,
    fields: &[
        one(1, "fragment", Message(&FRAGMENT_REF)),
        one(2, "file", Message(&DATA_FILE)),
        many(3, "fields", Message(&FIELD_REF), MAX_FIELDS),
        one(4, "data_change", Varint),
        one(5, "base", Message(&BASE_REF)),
    ],
};

static ADD_FIELD: Shape = Shape {
    name: "AddField",
    one_of: false,
    fields: &[
        one(1, "id", Message(&FIELD_REF)),
        one(2, "parent", Message(&FIELD_REF)),
        one(3, "name", Text),
        one(4, "type", Text),
        one(5, "nullable", Varint),
        many(6, "metadata", Message(&ENTRY), MAX_ENTRIES),
        one(7, "initial", Message(&STAT_VALUE)),
        one(8, "in_place_of", Message(&FIELD_REF)),
    ],
};

static REMOVE_FRAGMENT: Shape =
    Shape { name: "RemoveFragment", one_of: false, fields: &[one(1, "fragment", Message(&FRAGMENT_REF)), one(2, "data_change", Varint)] };

static SET_DELETION_FILE: Shape = Shape {
    name: "SetDeletionFile",
    one_of: false,
    fields: &[
        one(1, "fragment", Message(&FRAGMENT_REF)),
        one(2, "vector", Message(&DELETION_FILE)),
        one(3, "added", Bytes),
        one(4, "replaced", Varint),
        one(5, "replaced_rows", Bytes),
    ],
};

static DROP_FIELD: Shape = Shape { name: "DropField", one_of: false, fields: &[one(1, "field", Message(&FIELD_REF))] };

static ALTER_FIELD: Shape = Shape {
    name: "AlterField",
    one_of: false,
    fields: &[
        one(1, "field", Message(&FIELD_REF)),
        one(2, "parent", Message(&FIELD_REF)),
        one(3, "name", Text),
        one(4, "type", Text),
        one(5, "nullable", Varint),
    ],
};

static ADD_BASE: Shape =
    Shape { name: "AddBase", one_of: false, fields: &[one(1, "token", Varint), one(2, "name", Text), one(3, "location", Text)] };

static TOMBSTONE_FIELD_DATA: Shape = Shape {
    name: "TombstoneFieldData",
    one_of: false,
    fields: &[
        one(1, "fragment", Message(&FRAGMENT_REF)),
        many(2, "fields", Message(&FIELD_REF), MAX_FIELDS),
        one(3, "data_change", Varint),
    ],
};

static CONFIG_UPDATE: Shape = Shape {
    name: "ConfigUpdate",
    one_of: false,
    fields: &[many(1, "entries", Message(&CONFIG_ENTRY), MAX_ENTRIES), one(2, "replace", Varint)],
};

static CONFIG_ENTRY: Shape = Shape { name: "ConfigEntry", one_of: false, fields: &[one(1, "key", Text), one(2, "value", Text)] };

static RESET_TABLE: Shape = Shape { name: "ResetTable", one_of: false, fields: &[] };

static RESERVE_FRAGMENT_IDS: Shape = Shape { name: "ReserveFragmentIds", one_of: false, fields: &[one(1, "count", Varint)] };

static ASSERT_UNIQUE_KEYS: Shape = Shape {
    name: "AssertUniqueKeys",
    one_of: false,
    fields: &[many(1, "fields", Message(&FIELD_REF), MAX_FIELDS), one(2, "scheme", Varint), one(3, "hashes", Packed)],
};

static CHANGE_OF_ADDRESS: Shape = Shape {
    name: "ChangeOfAddress",
    one_of: false,
    fields: &[
        many(1, "sources", Message(&FRAGMENT_REF), MAX_ACTIONS),
        many(2, "targets", Message(&FRAGMENT_REF), MAX_ACTIONS),
        one(3, "map", Message(&MAP_LOCATION)),
        one(1000, "order", Text),
    ],
};

static MAP_LOCATION: Shape =
    Shape { name: "MapLocation", one_of: true, fields: &[one(1, "inline", Bytes), one(2, "object", Message(&MAP_OBJECT))] };

static MAP_OBJECT: Shape =
    Shape { name: "MapObject", one_of: false, fields: &[one(1, "path", Text), one(2, "size_bytes", Varint), one(3, "crc32c", Fixed32)] };
