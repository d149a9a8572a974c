//! The bytes of a change-of-address map: a protobuf message of absent rows and target sizes, and of positions if rows
//! were given another order.
//!
//! Decoding checks that the map adds up, so a map that was decoded can be used.

use super::packed::PackedPositions;
use super::{AddressMap, MapError, MapSource};
use crate::manifest::frame::{self, DecodeError, Kind};
use bytes::Bytes;
use prost::Message;
use roaring::RoaringBitmap;

/// The encoding of order-preserving rewrites.
const IN_ORDER: u32 = 1;
/// The encoding of rewrites that give rows another order.
const PERMUTED: u32 = 2;
/// The most sources or targets that one map may name.
const MAX_FRAGMENTS: usize = 1 << 20;

#[derive(Clone, PartialEq, Message)]
struct MapMessage {
    #[prost(uint32, tag = "1")]
    encoding: u32,
    #[prost(message, repeated, tag = "2")]
    sources: Vec<SourceMessage>,
    #[prost(uint32, repeated, tag = "3")]
    target_rows: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct SourceMessage {
    #[prost(uint32, tag = "1")]
    physical_rows: u32,
    #[prost(bytes = "bytes", tag = "2")]
    absent: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    positions: Bytes,
}

/// The most bytes that a map object may have.
const MAX_OBJECT_BYTES: u64 = 1 << 30;

/// A map as an object of its own, and the checksum that names it.
pub fn seal(map: &AddressMap) -> (Bytes, u32) {
    let object = frame::seal(Kind::Moves, &encode(map));
    let crc32c = frame::checksum(&object).unwrap_or_default();
    (object, crc32c)
}

/// The map in an object.
pub fn open(object: &Bytes, size_bytes: u64, crc32c: u32) -> Result<AddressMap, DecodeError> {
    let payload = frame::open_named(Kind::Moves, object, size_bytes, crc32c, MAX_OBJECT_BYTES)?;
    decode(&object.slice_ref(payload)).map_err(|error| DecodeError::Damaged(error.0))
}

/// The bytes of a map.
pub fn encode(map: &AddressMap) -> Bytes {
    let positions = |at: usize| map.permuted.as_ref().and_then(|sources| sources.get(at)).map(|p| p.bytes().clone()).unwrap_or_default();
    let sources = map.sources.iter().enumerate().map(|(at, source)| {
        let mut absent = Vec::with_capacity(source.absent.serialized_size());
        // Writing to memory cannot fail: `Vec` never refuses bytes.
        let _ = source.absent.serialize_into(&mut absent);
        SourceMessage { physical_rows: source.physical_rows, absent: absent.into(), positions: positions(at) }
    });
    let encoding = if map.keeps_order() { IN_ORDER } else { PERMUTED };
    let message = MapMessage { encoding, sources: sources.collect(), target_rows: map.targets.clone() };
    message.encode_to_vec().into()
}

/// The map of these bytes.
pub fn decode(bytes: &Bytes) -> Result<AddressMap, MapError> {
    // Decoded from `Bytes`, positions are a part of them and not a copy.
    let message = MapMessage::decode(bytes.clone()).map_err(|e| MapError(format!("address map: {e}")))?;
    if ![IN_ORDER, PERMUTED].contains(&message.encoding) {
        return Err(MapError(format!("address map has the unknown encoding {}", message.encoding)));
    }
    if message.sources.len() > MAX_FRAGMENTS || message.target_rows.len() > MAX_FRAGMENTS {
        return Err(MapError("address map names too many fragments".into()));
    }
    let mut sources = Vec::with_capacity(message.sources.len());
    let mut permuted = Vec::new();
    for source in message.sources {
        let absent = RoaringBitmap::deserialize_from(source.absent.as_ref()).map_err(|e| MapError(format!("address map: {e}")))?;
        let from = MapSource { physical_rows: source.physical_rows, absent };
        match message.encoding {
            PERMUTED => permuted.push(PackedPositions::parse(source.positions, from.survivors())?),
            _ if source.positions.is_empty() => {}
            _ => return Err(MapError("address map has positions of rows that kept their order".into())),
        }
        sources.push(from);
    }
    AddressMap::new(sources, message.target_rows, (message.encoding == PERMUTED).then_some(permuted))
}
