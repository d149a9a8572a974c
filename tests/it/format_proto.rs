//! `docs/format.proto` is what amend writes: the stored objects are read by a protobuf library that knows nothing but
//! that file, no byte is left over, every field of it is met, and the values are those that were written.

use crate::format_golden::golden;
use amend::manifest::decode::{DEFAULT_LIMITS, decode_manifest};
use amend::manifest::frame::{self, Kind};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage, Value};
use std::collections::BTreeSet;
use std::fmt::Write;

const OBJECTS: [(&str, Kind, &str); 8] = [
    ("inline.manifest", Kind::Manifest, "Manifest"),
    ("spilled.manifest", Kind::Manifest, "Manifest"),
    ("fragments.page", Kind::Page, "Page"),
    ("rows.page", Kind::Page, "Page"),
    ("sorted.page", Kind::Page, "Page"),
    ("transactions.txn", Kind::Transactions, "CommittedTransactions"),
    ("catalog.manifest", Kind::Catalog, "Catalog"),
    ("names.manifest", Kind::Catalog, "Catalog"),
];

/// Fields that no object of this build has.
const UNUSED: [&str; 3] = ["amend.v1.ChangeOfAddress.order", "amend.v1.Manifest.reader_features", "amend.v1.Manifest.writer_features"];

fn specification() -> DescriptorPool {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/docs");
    DescriptorPool::from_file_descriptor_set(protox::compile(["format.proto"], [docs]).unwrap()).unwrap()
}

fn read(pool: &DescriptorPool, name: &str, kind: Kind, message: &str) -> DynamicMessage {
    let object = golden(name);
    let payload = frame::open(kind, &object, u64::MAX).unwrap();
    let descriptor = pool.get_message_by_name(&format!("amend.v1.{message}")).unwrap();
    DynamicMessage::decode(descriptor, payload).unwrap()
}

/// Says a message as text, one value a line, and notes which fields it has.
fn tell(message: &DynamicMessage, indent: usize, text: &mut String, seen: &mut BTreeSet<String>) {
    assert_eq!(message.unknown_fields().count(), 0, "{}", message.descriptor().full_name());
    for (field, value) in message.fields() {
        seen.insert(field.full_name().to_owned());
        let values = match value {
            Value::List(values) => values.clone(),
            Value::Map(entries) => {
                let mut entries: Vec<Value> = entries
                    .iter()
                    .map(|(key, value)| Value::String(format!("{}: {}", key.as_str().unwrap(), value.as_str().unwrap())))
                    .collect();
                entries.sort_by_key(|entry| format!("{entry:?}"));
                entries
            }
            value => vec![value.clone()],
        };
        for value in values {
            write!(text, "{:indent$}{}", "", field.name()).unwrap();
            match value {
                Value::Message(inner) => {
                    text.push('\n');
                    tell(&inner, indent + 2, text, seen);
                }
                Value::Bytes(bytes) => writeln!(text, " = {}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()).unwrap(),
                value => {
                    // `U32(7)`, without the kind.
                    let value = format!("{value:?}");
                    let plain = value.split_once('(').and_then(|(_, value)| value.strip_suffix(')')).unwrap();
                    writeln!(text, " = {plain}").unwrap();
                }
            }
        }
    }
}

#[test]
fn every_field_is_read_by_the_specification_alone() {
    let pool = specification();
    let (mut seen, mut unused) = (BTreeSet::new(), String::new());
    for (name, kind, message) in OBJECTS {
        tell(&read(&pool, name, kind, message), 0, &mut unused, &mut seen);
    }
    let messages = pool.all_messages().filter(|message| message.package_name() == "amend.v1" && !message.is_map_entry());
    let specified: BTreeSet<String> =
        messages.flat_map(|message| message.fields().map(|field| field.full_name().to_owned()).collect::<Vec<_>>()).collect();
    seen.extend(UNUSED.map(str::to_owned));
    assert_eq!(seen, specified);
}

#[test]
fn what_others_write_by_the_specification_is_read() {
    let pool = specification();
    for (name, kind, message) in OBJECTS {
        let payload = read(&pool, name, kind, message).encode_to_vec();
        let object = frame::seal(kind, &payload);
        // Two writers may put the entries of a map in different orders; the rest has one form.
        assert_eq!(object.len(), golden(name).len(), "{name}");
        match kind {
            Kind::Manifest => {
                let decode = |object: &[u8]| decode_manifest(object, &DEFAULT_LIMITS).unwrap();
                assert_eq!(decode(&object), decode(&golden(name)), "{name}");
            }
            _ => assert!(object == golden(name), "{name}"),
        }
    }
}

#[test]
fn the_values_are_those_that_were_written() {
    let pool = specification();
    let mut told = String::new();
    for (name, kind, message) in OBJECTS.into_iter().filter(|(name, ..)| *name != "inline.manifest") {
        writeln!(told, "{name}").unwrap();
        tell(&read(&pool, name, kind, message), 2, &mut told, &mut BTreeSet::new());
    }
    let expected = String::from_utf8(golden("values.txt")).unwrap();
    if told != expected {
        let found = std::env::temp_dir().join("amend-values.txt");
        std::fs::write(&found, told).unwrap();
        panic!("the values differ from tests/golden/v1/values.txt; see {}", found.display());
    }
}
