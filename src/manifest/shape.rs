//! A look at foreign protobuf bytes before they are decoded.
//!
//! The protobuf decoder skips what it does not know and makes room for whatever it is told to. This walk comes first: it
//! holds every field against the list of known ones and counts what would be built, without building anything.
//!
//! In go the bytes of a message, out comes nothing or the reason to refuse it. Always holds for what passes:
//! - a field that is not known has a number from [`FIRST_INFORMATIVE`] on, which means that it may be skipped;
//! - no field comes more often than it may; of alternatives there is exactly one;
//! - there are not many more elements of lists than bytes / 4, and never more than [`MAX_ELEMENTS`], so memory stays in
//!   proportion to the bytes.

use super::frame::DecodeError;
use Kind::{Bytes, Fixed32, Fixed64, Message, Packed, Reserved, Text, Varint};
use actions::ACTION;

mod actions;

/// Field numbers from here on tell something that a reader may do without.
pub(super) const FIRST_INFORMATIVE: u32 = 1000;
/// The field of a manifest that names what its reader has to know.
const READER_FEATURES: u32 = 5;
/// How many elements the lists of an object hold at most, all levels taken together.
const MAX_ELEMENTS: usize = 1 << 22;
/// Every element has at least so many bytes of its own, but for a few that are all zeros.
const MIN_ELEMENT_BYTES: usize = 4;
/// How many of those there may be.
const FREE_ELEMENTS: usize = 1024;

/// The most fields of a schema, and columns of a file.
pub(super) const MAX_FIELDS: u32 = 1 << 15;
/// The most entries of a map.
const MAX_ENTRIES: u32 = 1 << 16;
/// The most names in a list of features.
const MAX_FEATURES: u32 = 1 << 10;
/// The most pages of a version.
const MAX_PAGES: u32 = 1 << 20;
/// The most records of a tail; committers fold it long before.
const MAX_TAIL: u32 = 1 << 16;
/// The most fragments of a page; committers cut pages long before.
pub(super) const MAX_FRAGMENTS_IN_PAGE: u32 = 1 << 12;
/// The most files of a fragment.
const MAX_FILES: u32 = 1 << 12;
/// The most transactions of a version.
const MAX_TRANSACTIONS: u32 = 1 << 12;
/// The most steps of a transaction.
const MAX_STEPS: u32 = 1 << 16;
/// The most actions of a step, and of what names fragments one by one.
const MAX_ACTIONS: u32 = 1 << 20;
/// The most bases of a table.
const MAX_BASES: u32 = 1 << 16;
/// The most tables of a catalog, and the most views.
const MAX_TABLES: u32 = 1 << 20;
/// The most namespaces of a catalog.
const MAX_NAMESPACES: u32 = 1 << 16;

/// What a message may hold.
#[derive(Debug)]
pub(super) struct Shape {
    pub name: &'static str,
    /// Whether the fields are alternatives, of which there is exactly one.
    pub one_of: bool,
    pub fields: &'static [Field],
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub number: u32,
    pub name: &'static str,
    pub kind: Kind,
    /// How often it comes at most.
    pub max: u32,
}

/// How a field is written.
#[derive(Debug)]
pub(super) enum Kind {
    Varint,
    Fixed32,
    Fixed64,
    Text,
    Bytes,
    /// All the numbers of a list in one piece.
    Packed,
    Message(&'static Shape),
    /// A number that is kept for something this build cannot do.
    Reserved,
}

const fn one(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind, max: 1 }
}

const fn many(number: u32, name: &'static str, kind: Kind, max: u32) -> Field {
    Field { number, name, kind, max }
}

pub(super) static MANIFEST: Shape = Shape {
    name: "Manifest",
    one_of: false,
    fields: &[
        one(1, "version", Varint),
        one(2, "table_id", Bytes),
        one(3, "time_ms", Varint),
        one(4, "writer", Text),
        many(READER_FEATURES, "reader_features", Text, MAX_FEATURES),
        many(6, "writer_features", Text, MAX_FEATURES),
        many(7, "fields", Message(&FIELD), MAX_FIELDS),
        one(8, "counters", Message(&COUNTERS)),
        many(9, "config", Message(&ENTRY), MAX_ENTRIES),
        one(10, "low_water_mark", Varint),
        one(11, "pages", Reserved),
        many(12, "tail", Message(&TAIL_RECORD), MAX_TAIL),
        one(13, "transactions", Message(&TRANSACTIONS)),
        many(14, "bases", Message(&BASE), MAX_BASES),
        one(15, "swept_ms", Varint),
        one(16, "pages", Message(&INDEX_REF)),
    ],
};

pub(super) static PAGE_INDEX: Shape =
    Shape { name: "PageIndex", one_of: false, fields: &[many(1, "pages", Message(&PAGE_REF), MAX_PAGES)] };

pub(super) static PAGE: Shape =
    Shape { name: "Page", one_of: false, fields: &[many(1, "fragments", Message(&FRAGMENT), MAX_FRAGMENTS_IN_PAGE)] };

pub(super) static COMMITTED_TRANSACTIONS: Shape = Shape {
    name: "CommittedTransactions",
    one_of: false,
    fields: &[many(1, "transactions", Message(&COMMITTED_TRANSACTION), MAX_TRANSACTIONS)],
};

pub(super) static CATALOG: Shape = Shape {
    name: "Catalog",
    one_of: false,
    fields: &[
        one(1, "version", Varint),
        one(2, "time_ms", Varint),
        one(3, "writer", Text),
        one(4, "transaction", Bytes),
        many(5, "entries", Message(&CATALOG_ENTRY), MAX_TABLES),
        many(6, "namespaces", Text, MAX_NAMESPACES),
        many(7, "views", Message(&CATALOG_VIEW), MAX_TABLES),
    ],
};

static COUNTERS: Shape =
    Shape { name: "Counters", one_of: false, fields: &[one(1, "fragment", Varint), one(2, "field", Varint), one(3, "base", Varint)] };

static BASE: Shape = Shape { name: "Base", one_of: false, fields: &[one(1, "id", Varint), one(2, "name", Text), one(3, "location", Text)] };

static INDEX_REF: Shape = Shape {
    name: "IndexRef",
    one_of: false,
    fields: &[
        one(1, "path", Text),
        one(2, "size_bytes", Varint),
        one(3, "crc32c", Fixed32),
        one(4, "pages", Varint),
        one(5, "last", Varint),
        one(6, "fragments", Varint),
        one(7, "live_rows", Varint),
    ],
};

static PAGE_REF: Shape = Shape {
    name: "PageRef",
    one_of: false,
    fields: &[
        one(1, "path", Text),
        one(2, "size_bytes", Varint),
        one(3, "crc32c", Fixed32),
        one(4, "first", Varint),
        one(5, "last", Varint),
        one(6, "fragments", Varint),
        one(7, "live_rows", Varint),
        one(8, "rows", Varint),
        many(9, "summaries", Message(&SUMMARY), MAX_FIELDS),
    ],
};

static SUMMARY: Shape = Shape {
    name: "Summary",
    one_of: false,
    fields: &[
        one(1, "field", Varint),
        one(2, "null_count", Varint),
        one(3, "min", Message(&STAT_VALUE)),
        one(4, "max", Message(&STAT_VALUE)),
    ],
};

static TAIL_RECORD: Shape = Shape {
    name: "TailRecord",
    one_of: true,
    fields: &[
        one(1, "added", Message(&FRAGMENT)),
        one(2, "removed", Reserved),
        one(3, "replaced", Message(&REPLACEMENT)),
        one(4, "removed", Message(&REMOVAL)),
    ],
};

static REPLACEMENT: Shape =
    Shape { name: "Replacement", one_of: false, fields: &[one(1, "fragment", Message(&FRAGMENT)), one(2, "hidden_live_rows", Varint)] };

static REMOVAL: Shape = Shape { name: "Removal", one_of: false, fields: &[one(1, "id", Varint), one(2, "hidden_live_rows", Varint)] };

static TRANSACTIONS: Shape = Shape {
    name: "Transactions",
    one_of: true,
    fields: &[one(1, "inline", Message(&COMMITTED_TRANSACTIONS)), one(2, "object", Message(&TRANSACTIONS_REF))],
};

static TRANSACTIONS_REF: Shape = Shape {
    name: "TransactionsRef",
    one_of: false,
    fields: &[one(1, "path", Text), one(2, "size_bytes", Varint), one(3, "crc32c", Fixed32), many(4, "ids", Bytes, MAX_TRANSACTIONS)],
};

static CATALOG_ENTRY: Shape = Shape {
    name: "CatalogEntry",
    one_of: false,
    fields: &[one(1, "namespace", Text), one(2, "name", Text), one(3, "folder", Text), one(4, "table_id", Bytes)],
};

static CATALOG_VIEW: Shape = Shape {
    name: "CatalogView",
    one_of: false,
    fields: &[
        one(1, "namespace", Text),
        one(2, "name", Text),
        one(3, "query", Text),
        many(4, "columns", Text, MAX_FIELDS),
        one(5, "search_namespace", Text),
        many(6, "settings", Message(&ENTRY), MAX_ENTRIES),
    ],
};

static ENTRY: Shape = Shape { name: "map entry", one_of: false, fields: &[one(1, "key", Text), one(2, "value", Text)] };

static FIELD: Shape = Shape {
    name: "Field",
    one_of: false,
    fields: &[
        one(1, "id", Varint),
        one(2, "parent", Varint),
        one(3, "name", Text),
        one(4, "type", Text),
        one(5, "nullable", Varint),
        many(6, "metadata", Message(&ENTRY), MAX_ENTRIES),
        one(7, "initial", Message(&STAT_VALUE)),
    ],
};

static FRAGMENT: Shape = Shape {
    name: "Fragment",
    one_of: false,
    fields: &[
        one(1, "id", Varint),
        one(2, "physical_rows", Varint),
        many(3, "files", Message(&DATA_FILE), MAX_FILES),
        one(4, "deletions", Message(&DELETION_FILE)),
        one(5, "created_at", Varint),
        one(6, "updated_at", Varint),
    ],
};

static DATA_FILE: Shape = Shape {
    name: "DataFile",
    one_of: false,
    fields: &[
        one(1, "path", Text),
        one(2, "base", Varint),
        one(3, "size_bytes", Varint),
        one(4, "block_bytes", Varint),
        one(5, "block_crc32c", Packed),
        one(6, "row_groups", Packed),
        many(7, "columns", Message(&FILE_COLUMN), MAX_FIELDS),
        one(8, "unchecked_bytes", Varint),
        one(9, "inline", Bytes),
        many(10, "sorted_by", Message(&SORT_KEY), MAX_FIELDS),
    ],
};

static SORT_KEY: Shape = Shape {
    name: "SortKey",
    one_of: false,
    fields: &[one(1, "column", Varint), one(2, "descending", Varint), one(3, "nulls_first", Varint)],
};

static FILE_COLUMN: Shape = Shape {
    name: "FileColumn",
    one_of: false,
    fields: &[
        one(1, "field", Varint),
        one(2, "null_count", Varint),
        one(3, "min", Message(&STAT_VALUE)),
        one(4, "max", Message(&STAT_VALUE)),
        one(5, "parts", Packed),
        one(6, "constant", Message(&STAT_VALUE)),
    ],
};

static STAT_VALUE: Shape = Shape {
    name: "StatValue",
    one_of: true,
    fields: &[
        one(1, "boolean", Varint),
        one(2, "int", Varint),
        one(3, "uint", Varint),
        one(4, "float", Fixed64),
        one(5, "decimal", Bytes),
        one(6, "utf8", Text),
        one(7, "binary", Bytes),
    ],
};

static DELETION_FILE: Shape = Shape {
    name: "DeletionFile",
    one_of: true,
    fields: &[one(1, "inline", Message(&INLINE_VECTOR)), one(2, "puffin", Message(&PUFFIN_BLOB))],
};

static INLINE_VECTOR: Shape =
    Shape { name: "InlineVector", one_of: false, fields: &[one(1, "blob", Bytes), one(2, "cardinality", Varint)] };

static PUFFIN_BLOB: Shape = Shape {
    name: "PuffinBlob",
    one_of: false,
    fields: &[
        one(1, "path", Text),
        one(2, "offset", Varint),
        one(3, "length", Varint),
        one(4, "cardinality", Varint),
        one(5, "crc32c", Fixed32),
    ],
};

static COMMITTED_TRANSACTION: Shape = Shape {
    name: "CommittedTransaction",
    one_of: false,
    fields: &[one(1, "transaction", Message(&TRANSACTION)), one(2, "minted", Message(&MINTED)), one(3, "facts", Message(&COMMIT_FACTS))],
};

static TRANSACTION: Shape = Shape {
    name: "Transaction",
    one_of: false,
    fields: &[one(1, "id", Bytes), one(2, "read_version", Varint), many(3, "steps", Message(&STEP), MAX_STEPS)],
};

static STEP: Shape = Shape {
    name: "Step",
    one_of: false,
    fields: &[
        one(1, "operation", Text),
        one(2, "statement", Text),
        many(3, "actions", Message(&ACTION), MAX_ACTIONS),
        one(4, "counts", Message(&ROW_COUNTS)),
    ],
};

static ROW_COUNTS: Shape = Shape {
    name: "RowCounts",
    one_of: false,
    fields: &[one(1, "inserted", Varint), one(2, "updated", Varint), one(3, "deleted", Varint), one(4, "moved", Varint)],
};

static MINTED: Shape = Shape {
    name: "Minted",
    one_of: false,
    fields: &[
        many(1, "fragments", Message(&MINTED_FRAGMENT), MAX_ACTIONS),
        many(2, "fields", Message(&MINTED_FIELD), MAX_ACTIONS),
        many(3, "bases", Message(&MINTED_BASE), MAX_ACTIONS),
    ],
};

static MINTED_FRAGMENT: Shape = Shape { name: "MintedFragment", one_of: false, fields: &[one(1, "token", Varint), one(2, "id", Varint)] };

static MINTED_FIELD: Shape = Shape { name: "MintedField", one_of: false, fields: &[one(1, "token", Varint), one(2, "id", Varint)] };

static MINTED_BASE: Shape = Shape { name: "MintedBase", one_of: false, fields: &[one(1, "token", Varint), one(2, "id", Varint)] };

static COMMIT_FACTS: Shape = Shape {
    name: "CommitFacts",
    one_of: false,
    fields: &[
        one(1, "attempts", Varint),
        one(2, "rebased_over", Varint),
        one(3, "rows_carried", Varint),
        one(4, "vectors_merged", Varint),
        one(5, "groups_dropped", Varint),
        one(6, "reran", Varint),
    ],
};

/// Refuses the bytes of a message that are not of this shape.
pub(super) fn check(message: &[u8], shape: &Shape) -> Result<(), DecodeError> {
    walk(message, shape, &mut MAX_ELEMENTS.min(FREE_ELEMENTS + message.len() / MIN_ELEMENT_BYTES))
}

/// Refuses a manifest that names a reader feature which is not in `known`. It comes before everything else, so that the
/// message is about the feature and not about the bytes that come with it.
pub(super) fn check_reader_features(manifest: &[u8], known: &[&str]) -> Result<(), DecodeError> {
    let mut input = Input(manifest);
    while let Some((number, value)) = input.field(&MANIFEST)? {
        if let (READER_FEATURES, Value::Bytes(name)) = (number, value) {
            let name = String::from_utf8_lossy(name);
            if !known.contains(&&*name) {
                return Err(DecodeError::unknown(format!("reader feature '{name}'")));
            }
        }
    }
    Ok(())
}

fn walk(message: &[u8], shape: &Shape, room: &mut usize) -> Result<(), DecodeError> {
    let mut counts = [0u32; 32];
    let mut alternatives = 0u32;
    let mut input = Input(message);
    while let Some((number, value)) = input.field(shape)? {
        let Some((field, count)) = shape.fields.iter().zip(&mut counts).find(|(field, _)| field.number == number) else {
            if number < FIRST_INFORMATIVE || shape.one_of {
                return Err(DecodeError::unknown(format!("field {number} of {}", shape.name)));
            }
            continue;
        };
        *count += 1;
        alternatives += 1;
        if *count > field.max {
            return Err(DecodeError::damaged(format!("more than {} {} in {}", field.max, field.name, shape.name)));
        }
        if field.max > 1 {
            *room = room.checked_sub(1).ok_or_else(|| DecodeError::damaged("more elements than belong into so many bytes"))?;
        }
        match (&field.kind, value) {
            (Kind::Message(shape), Value::Bytes(inner)) => walk(inner, shape, room)?,
            (Kind::Reserved, _) => return Err(DecodeError::unknown(format!("{} {}", shape.name.to_lowercase(), field.name))),
            (Kind::Varint, Value::Varint)
            | (Kind::Fixed32, Value::Fixed32)
            | (Kind::Fixed64, Value::Fixed64)
            | (Kind::Text | Kind::Bytes | Kind::Packed, Value::Bytes(_)) => {}
            _ => return Err(DecodeError::damaged(format!("{} of {} is written in the wrong way", field.name, shape.name))),
        }
    }
    if shape.one_of && alternatives != 1 {
        return Err(DecodeError::damaged(format!("{} has {alternatives} values where one belongs", shape.name)));
    }
    Ok(())
}

/// The value of a field as far as this walk needs it.
enum Value<'a> {
    Varint,
    Fixed32,
    Fixed64,
    Bytes(&'a [u8]),
}

/// What is left of a message.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// The next field: its number and value.
    fn field(&mut self, of: &Shape) -> Result<Option<(u32, Value<'a>)>, DecodeError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let broken = || DecodeError::damaged(format!("{} is not a message", of.name));
        let key = self.varint().and_then(|key| u32::try_from(key).ok()).ok_or_else(broken)?;
        let value = match key & 7 {
            0 => self.varint().map(|_| Value::Varint),
            1 => self.take(8).map(|_| Value::Fixed64),
            2 => self.varint().and_then(|length| usize::try_from(length).ok()).and_then(|length| self.take(length)).map(Value::Bytes),
            5 => self.take(4).map(|_| Value::Fixed32),
            _ => None,
        };
        match (key >> 3, value) {
            (0, _) | (_, None) => Err(broken()),
            (number, Some(value)) => Ok(Some((number, value))),
        }
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7F).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                // Of the tenth byte only one bit is left.
                return (shift < 63 || *byte <= 1).then_some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
