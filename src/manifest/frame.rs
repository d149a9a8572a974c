//! The frame around every metadata object: what it is, how long it is, and that it is whole.
//!
//! ```text
//!   offset  bytes  what
//!        0      8  magic, one a kind of object
//!        8      4  format version, u32 little-endian
//!       12      8  length n of the payload, u64 little-endian
//!       20      n  payload
//!   20 + n      4  CRC-32C of everything before it, u32 little-endian
//! ```
//!
//! Always holds: an object with a flipped bit, a missing end or an appended byte does not open. The frame itself stays
//! the same in all format versions, so that an older build can tell "newer" from "damaged".

use crate::error::Error;
use bytes::{BufMut, Bytes, BytesMut};

/// The format version that this build writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Magic, format version and length.
const HEADER_BYTES: usize = 20;
/// The checksum at the end.
const CHECKSUM_BYTES: usize = 4;
/// How much longer an object is than its payload.
pub const FRAME_BYTES: usize = HEADER_BYTES + CHECKSUM_BYTES;

/// Why bytes do not become a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They are not what they should be.
    #[error("{0}")]
    Damaged(String),
    /// They may be sound, but this build does not know what they mean.
    #[error("{0}")]
    Unknown(String),
}

impl DecodeError {
    /// Bytes that are not what they should be.
    pub fn damaged(reason: impl Into<String>) -> Self {
        DecodeError::Damaged(reason.into())
    }

    /// Bytes that need a newer build.
    pub fn unknown(reason: impl Into<String>) -> Self {
        DecodeError::Unknown(reason.into())
    }

    /// The error of a caller who knows which object of which table it was.
    pub fn of(self, table: impl Into<String>, object: impl Into<String>) -> Error {
        let (table, object) = (table.into(), object.into());
        match self {
            DecodeError::Damaged(reason) => Error::Damaged { table, object, reason },
            DecodeError::Unknown(reason) => Error::UnknownFormat { table, object, reason },
        }
    }
}

/// The kinds of framed objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A version of a table.
    Manifest,
    /// A page of fragment records.
    Page,
    /// The list of a version's pages.
    PageIndex,
    /// Transactions that do not fit into their manifest.
    Transactions,
    /// A change-of-address map.
    Moves,
    /// A version of the catalog.
    Catalog,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 6] = [Kind::Manifest, Kind::Page, Kind::PageIndex, Kind::Transactions, Kind::Moves, Kind::Catalog];

    /// The first eight bytes of an object of this kind.
    pub fn magic(self) -> [u8; 8] {
        match self {
            Kind::Manifest => *b"AMENDMF\x01",
            Kind::Page => *b"AMENDPG\x01",
            Kind::PageIndex => *b"AMENDPI\x01",
            Kind::Transactions => *b"AMENDTX\x01",
            Kind::Moves => *b"AMENDMV\x01",
            Kind::Catalog => *b"AMENDCT\x01",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Manifest => "a manifest",
            Kind::Page => "a page",
            Kind::PageIndex => "a page index",
            Kind::Transactions => "a file of transactions",
            Kind::Moves => "a change-of-address map",
            Kind::Catalog => "a catalog",
        }
    }
}

/// The object of that kind around a payload.
pub fn seal(kind: Kind, payload: &[u8]) -> Bytes {
    let mut object = BytesMut::with_capacity(FRAME_BYTES + payload.len());
    object.put_slice(&kind.magic());
    object.put_u32_le(FORMAT_VERSION);
    object.put_u64_le(payload.len() as u64);
    object.put_slice(payload);
    object.put_u32_le(crc32c::crc32c(&object));
    object.freeze()
}

/// The payload of an object that has to be of that kind and of at most `max_bytes`.
pub fn open(kind: Kind, object: &[u8], max_bytes: u64) -> Result<&[u8], DecodeError> {
    if object.len() as u64 > max_bytes {
        return Err(DecodeError::damaged(format!("{} bytes, where {max_bytes} is the limit", object.len())));
    }
    let (covered, checksum) = object.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(cut_short)?;
    let (magic, rest) = covered.split_first_chunk::<8>().ok_or_else(cut_short)?;
    let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(cut_short)?;
    let (length, payload) = rest.split_first_chunk::<8>().ok_or_else(cut_short)?;
    if *magic != kind.magic() {
        let found = Kind::ALL.into_iter().find(|kind| kind.magic() == *magic).map_or("something else", Kind::name);
        return Err(DecodeError::damaged(format!("not {} but {found}", kind.name())));
    }
    let length = u64::from_le_bytes(*length);
    if length != payload.len() as u64 {
        return Err(DecodeError::damaged(format!("a payload of {} bytes that says it has {length}", payload.len())));
    }
    if crc32c::crc32c(covered) != u32::from_le_bytes(*checksum) {
        return Err(DecodeError::damaged("the checksum does not match"));
    }
    match u32::from_le_bytes(*version) {
        0 => Err(DecodeError::damaged("format version 0")),
        FORMAT_VERSION => Ok(payload),
        newer => Err(DecodeError::unknown(format!("format version {newer}, where {FORMAT_VERSION} is the newest that is known"))),
    }
}

/// The payload of an object that another one names with its length and checksum.
pub fn open_named(kind: Kind, object: &[u8], size_bytes: u64, crc32c: u32, max_bytes: u64) -> Result<&[u8], DecodeError> {
    if object.len() as u64 != size_bytes {
        return Err(DecodeError::damaged(format!("{} bytes, where {size_bytes} were written", object.len())));
    }
    let payload = open(kind, object, max_bytes)?;
    if checksum(object) != Some(crc32c) {
        return Err(DecodeError::damaged("a whole object, but not the one that was written"));
    }
    Ok(payload)
}

/// The checksum by which other objects name this one: the one in its frame. (The CRC of a whole object, its own CRC
/// included, is the same number for all objects.)
pub fn checksum(object: &[u8]) -> Option<u32> {
    object.last_chunk::<CHECKSUM_BYTES>().map(|bytes| u32::from_le_bytes(*bytes))
}

fn cut_short() -> DecodeError {
    DecodeError::damaged("cut short")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMIT: u64 = u64::MAX;

    #[test]
    fn the_bytes_are_those_of_the_specification() {
        let object = seal(Kind::Page, b"abc");
        assert_eq!(&object[..23], b"AMENDPG\x01\x01\0\0\0\x03\0\0\0\0\0\0\0abc");
        assert_eq!(object[23..], crc32c::crc32c(&object[..23]).to_le_bytes());
        assert_eq!(object.len(), 3 + FRAME_BYTES);
    }

    #[test]
    fn payloads_come_back_for_their_kind_only() {
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            for payload in [&b""[..], b"x", &[0; 1000]] {
                let object = seal(kind, payload);
                assert_eq!(open(kind, &object, NO_LIMIT), Ok(payload));
                let other = Kind::ALL[(at + 1) % Kind::ALL.len()];
                assert!(matches!(open(other, &object, NO_LIMIT), Err(DecodeError::Damaged(_))));
            }
        }
    }

    #[test]
    fn every_flipped_bit_cut_and_added_byte_is_noticed() {
        let object = seal(Kind::Manifest, b"some payload").to_vec();
        for byte in 0..object.len() {
            for bit in 0..8 {
                let mut damaged = object.clone();
                damaged[byte] ^= 1 << bit;
                assert!(matches!(open(Kind::Manifest, &damaged, NO_LIMIT), Err(DecodeError::Damaged(_))), "byte {byte} bit {bit}");
            }
            assert!(open(Kind::Manifest, &object[..byte], NO_LIMIT).is_err(), "cut at {byte}");
        }
        for extra in 0..=255 {
            assert!(open(Kind::Manifest, &[&object[..], &[extra]].concat(), NO_LIMIT).is_err());
        }
    }

    #[test]
    fn newer_versions_and_sizes_over_the_limit_are_told_apart_from_damage() {
        let mut newer = seal(Kind::Catalog, b"payload").to_vec();
        newer[8] = 2;
        let covered = newer.len() - 4;
        let crc = crc32c::crc32c(&newer[..covered]).to_le_bytes();
        newer[covered..].copy_from_slice(&crc);
        assert!(matches!(open(Kind::Catalog, &newer, NO_LIMIT), Err(DecodeError::Unknown(reason)) if reason.contains("version 2")));
        let object = seal(Kind::Catalog, b"payload");
        assert!(open(Kind::Catalog, &object, object.len() as u64).is_ok());
        assert!(matches!(open(Kind::Catalog, &object, object.len() as u64 - 1), Err(DecodeError::Damaged(_))));
    }

    #[test]
    fn an_object_that_was_swapped_for_another_is_noticed() {
        let (written, other) = (seal(Kind::Page, b"one"), seal(Kind::Page, b"two"));
        let named = (written.len() as u64, checksum(&written).unwrap());
        assert_eq!(open_named(Kind::Page, &written, named.0, named.1, NO_LIMIT), Ok(&b"one"[..]));
        assert!(open_named(Kind::Page, &other, named.0, named.1, NO_LIMIT).is_err());
        assert!(open_named(Kind::Page, &seal(Kind::Page, b"four"), named.0, named.1, NO_LIMIT).is_err());
    }
}
