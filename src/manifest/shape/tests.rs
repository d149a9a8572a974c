//! The shapes against `docs/format.proto`, and what the walk refuses.

use super::*;
use crate::manifest::wire;
use prost::Message as _;
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind as ProtoKind, MessageDescriptor};
use std::collections::BTreeSet;

fn specification() -> DescriptorPool {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/docs");
    DescriptorPool::from_file_descriptor_set(protox::compile(["format.proto"], [docs]).unwrap()).unwrap()
}

/// Compares a shape and those below it with the messages of the specification.
fn compare(shape: &Shape, message: &MessageDescriptor, seen: &mut BTreeSet<String>) {
    if !seen.insert(message.full_name().to_owned()) {
        return;
    }
    assert_eq!(if message.is_map_entry() { "map entry" } else { message.name() }, shape.name);
    let one_of = message.oneofs().any(|one_of| one_of.fields().len() == message.fields().len());
    assert_eq!(shape.one_of, one_of, "{}", shape.name);
    let known: Vec<&Field> = shape.fields.iter().filter(|field| !matches!(field.kind, Kind::Reserved)).collect();
    let reserved: Vec<u32> = shape.fields.iter().filter(|field| matches!(field.kind, Kind::Reserved)).map(|field| field.number).collect();
    assert_eq!(message.reserved_ranges().flatten().collect::<Vec<_>>(), reserved, "{}", shape.name);
    assert_eq!(message.fields().len(), known.len(), "{}", shape.name);
    for field in known {
        let specified = message.get_field(field.number).unwrap_or_else(|| panic!("{} of {}", field.name, shape.name));
        let names = specified.name().replace('_', "") == field.name.replace('_', "").to_lowercase();
        assert!(names, "{} of {} is {}", field.name, shape.name, specified.name());
        assert_eq!(specified.is_list() || specified.is_map(), field.max > 1 || matches!(field.kind, Kind::Packed), "{}", field.name);
        compare_kind(field, &specified, seen);
    }
}

fn compare_kind(field: &Field, specified: &FieldDescriptor, seen: &mut BTreeSet<String>) {
    let same = match (&field.kind, specified.kind()) {
        (Kind::Message(shape), ProtoKind::Message(message)) => {
            compare(shape, &message, seen);
            true
        }
        (Kind::Text, ProtoKind::String) | (Kind::Bytes, ProtoKind::Bytes) | (Kind::Fixed64, ProtoKind::Double) => true,
        (Kind::Packed, _) => specified.is_packed(),
        (Kind::Fixed32, ProtoKind::Fixed32) => true,
        (Kind::Varint, ProtoKind::Uint32 | ProtoKind::Uint64 | ProtoKind::Int32 | ProtoKind::Sint32 | ProtoKind::Sint64) => true,
        (Kind::Varint, ProtoKind::Bool | ProtoKind::Enum(_)) => true,
        _ => false,
    };
    assert!(same, "{field:?} is specified as {specified:?}");
}

#[test]
fn shapes_are_those_of_the_specification() {
    let specification = specification();
    let mut seen = BTreeSet::new();
    for shape in [&MANIFEST, &PAGE_INDEX, &PAGE, &COMMITTED_TRANSACTIONS, &CATALOG] {
        let message = specification.get_message_by_name(&format!("amend.v1.{}", shape.name)).unwrap();
        compare(shape, &message, &mut seen);
    }
    let all: BTreeSet<String> =
        specification.all_messages().map(|m| m.full_name().to_owned()).filter(|name| name.starts_with("amend.v1.")).collect();
    assert_eq!(seen, all);
}

/// The bytes of a length-delimited field.
fn field(number: u32, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::encode_varint(u64::from(number) << 3 | 2, &mut bytes);
    prost::encoding::encode_varint(value.len() as u64, &mut bytes);
    bytes.extend_from_slice(value);
    bytes
}

fn unknown(message: &[u8], shape: &Shape) -> String {
    match check(message, shape) {
        Err(DecodeError::Unknown(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

fn damaged(message: &[u8], shape: &Shape) -> String {
    match check(message, shape) {
        Err(DecodeError::Damaged(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn actions_that_are_not_known_are_named() {
    let step = |action: &[u8]| field(3, &field(3, action));
    assert_eq!(unknown(&step(&field(9, b"")), &TRANSACTION), "action AddOverlays");
    assert_eq!(unknown(&step(&field(20, b"anything")), &TRANSACTION), "action ReserveRowIds");
    assert_eq!(unknown(&step(&field(22, b"")), &TRANSACTION), "field 22 of Action");
    assert_eq!(unknown(&step(&field(4000, b"")), &TRANSACTION), "field 4000 of Action");
    assert_eq!(damaged(&step(b""), &TRANSACTION), "Action has 0 values where one belongs");
    assert_eq!(damaged(&step(&[field(1, b""), field(6, b"")].concat()), &TRANSACTION), "Action has 2 values where one belongs");
}

#[test]
fn unknown_fields_pass_only_if_they_are_informative() {
    assert_eq!(unknown(&field(9, b""), &FRAGMENT), "field 9 of Fragment");
    assert_eq!(unknown(&field(999, b""), &FRAGMENT), "field 999 of Fragment");
    assert_eq!(check(&field(1000, b"news"), &FRAGMENT), Ok(()));
    let fragment = [field(1000, b"news"), wire::Fragment { id: 7, ..Default::default() }.encode_to_vec()].concat();
    assert_eq!(wire::Fragment::decode(&fragment[..]).unwrap().id, 7);
}

#[test]
fn fields_that_come_too_often_are_refused_before_they_are_built() {
    let twice = wire::Counters { fragment: 1, field: 1, base: 0 }.encode_to_vec().repeat(2);
    assert_eq!(damaged(&twice, &COUNTERS), "more than 1 fragment in Counters");
    let columns = field(7, &[8, 3]).repeat(MAX_FIELDS as usize);
    assert_eq!(check(&columns, &DATA_FILE), Ok(()));
    assert_eq!(damaged(&[columns, field(7, &[8, 3])].concat(), &DATA_FILE), format!("more than {MAX_FIELDS} columns in DataFile"));
}

#[test]
fn all_elements_together_are_bounded() {
    // A dead slot without statistics: the smallest element that is written.
    let column = field(7, &[8, 3]);
    assert_eq!(column.len(), MIN_ELEMENT_BYTES);
    let fragment = |columns: usize| field(1, &field(3, &column.repeat(columns)).repeat(8));
    let most = |columns: usize| MAX_ELEMENTS / (columns * 8 + 9);
    let columns = MAX_FIELDS as usize;
    assert_eq!(check(&fragment(columns).repeat(most(columns)), &PAGE), Ok(()));
    let refused = "more elements than belong into so many bytes";
    assert_eq!(damaged(&fragment(columns).repeat(most(columns) + 1), &PAGE), refused);

    let empty = |columns: usize| field(7, b"").repeat(columns);
    assert_eq!(check(&empty(FREE_ELEMENTS), &DATA_FILE), Ok(()));
    assert_eq!(damaged(&empty(FREE_ELEMENTS * 4), &DATA_FILE), refused);
}

#[test]
fn bytes_that_are_not_a_message_are_refused() {
    for bytes in [
        &b"\x08"[..],                                        // a number without digits
        b"\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02",     // 65 bits
        b"\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", // eleven bytes
        b"\x1A\x05abc",                                      // cut short
        b"\x1A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01",     // longer than memory
        b"\x0B",                                             // a group
        b"\x0E",                                             // no wire type
        b"\x00\x00",                                         // field 0
        b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01",         // a field number beyond 29 bits
        b"\x0D\x01\x02\x03",                                 // three bytes of four
    ] {
        assert_eq!(damaged(bytes, &FRAGMENT), "Fragment is not a message", "{bytes:?}");
    }
    assert_eq!(check(b"\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", &FRAGMENT), Ok(()));
    assert_eq!(damaged(&field(1, b""), &FRAGMENT), "id of Fragment is written in the wrong way");
    assert_eq!(damaged(b"\x18\x01", &FRAGMENT), "files of Fragment is written in the wrong way");
}

#[test]
fn reader_features_are_looked_at_first() {
    let manifest = [field(77, b"new"), field(5, b"time-machine")].concat();
    assert_eq!(check_reader_features(&manifest, &[]), Err(DecodeError::unknown("reader feature 'time-machine'")));
    assert_eq!(check_reader_features(&manifest, &["time-machine"]), Ok(()));
    assert_eq!(unknown(&manifest, &MANIFEST), "field 77 of Manifest");
}
