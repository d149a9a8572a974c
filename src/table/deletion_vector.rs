//! Deletion vectors: which offsets of a fragment are no longer rows.
//!
//! In memory a 32-bit Roaring bitmap. Its bytes are a `deletion-vector-v1` blob, the encoding that Iceberg v3 and Delta
//! share: length (4 bytes, big-endian) of what follows up to the checksum, magic `D1 D3 39 64`, a 64-bit portable
//! Roaring bitmap, CRC-32 (big-endian) of magic and bitmap.
//!
//! Always holds: a decoded vector lies below the number of rows of its fragment; anything else is an error.

use bytes::Bytes;
use roaring::{RoaringBitmap, RoaringTreemap};

/// The magic of a `deletion-vector-v1` blob.
const MAGIC: [u8; 4] = [0xD1, 0xD3, 0x39, 0x64];

/// Where the deletion vector of a fragment is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeletionFile {
    /// In the manifest itself (small vectors, and those not yet committed).
    Inline {
        /// The `deletion-vector-v1` blob.
        blob: Bytes,
        /// How many rows it deletes.
        cardinality: u32,
    },
    /// A blob of a Puffin file.
    Puffin {
        /// The file's name within the table folder.
        path: String,
        /// Where the blob starts.
        offset: u64,
        /// How long the blob is.
        length: u64,
        /// How many rows it deletes.
        cardinality: u32,
        /// CRC-32C of the blob.
        crc32c: u32,
    },
}

impl DeletionFile {
    /// How many rows it deletes.
    pub fn cardinality(&self) -> u32 {
        match self {
            DeletionFile::Inline { cardinality, .. } | DeletionFile::Puffin { cardinality, .. } => *cardinality,
        }
    }

    /// The vector of `rows`, kept inline; `None` when no row is deleted.
    pub fn inline(rows: &RoaringBitmap) -> Option<Self> {
        if rows.is_empty() {
            return None;
        }
        Some(DeletionFile::Inline { blob: encode(rows), cardinality: rows.len() as u32 })
    }
}

/// The `deletion-vector-v1` blob of `rows`.
pub fn encode(rows: &RoaringBitmap) -> Bytes {
    let treemap = RoaringTreemap::from_bitmaps([(0, rows.clone())]);
    let mut body = Vec::with_capacity(MAGIC.len() + treemap.serialized_size());
    body.extend_from_slice(&MAGIC);
    // Writing to memory cannot fail: `Vec` never refuses bytes.
    let _ = treemap.serialize_into(&mut body);
    let mut blob = Vec::with_capacity(body.len() + 8);
    blob.extend_from_slice(&(body.len() as u32).to_be_bytes());
    blob.extend_from_slice(&body);
    blob.extend_from_slice(&crc32fast::hash(&body).to_be_bytes());
    Bytes::from(blob)
}

/// The rows of a `deletion-vector-v1` blob of a fragment of `physical_rows` rows; an error says what is wrong with it.
pub fn decode(blob: &[u8], physical_rows: u32) -> Result<RoaringBitmap, String> {
    let (length, rest) = blob.split_first_chunk::<4>().ok_or("deletion vector is cut short")?;
    let (body, checksum) = rest.split_last_chunk::<4>().ok_or("deletion vector is cut short")?;
    if u32::from_be_bytes(*length) as usize != body.len() {
        return Err(format!("deletion vector of {} bytes says it has {}", body.len(), u32::from_be_bytes(*length)));
    }
    if crc32fast::hash(body) != u32::from_be_bytes(*checksum) {
        return Err("checksum of the deletion vector does not match".into());
    }
    let bitmap = body.strip_prefix(&MAGIC).ok_or("deletion vector has no magic")?;
    let treemap = RoaringTreemap::deserialize_from(bitmap).map_err(|e| format!("deletion vector: {e}"))?;
    let mut rows = RoaringBitmap::new();
    for (high, low) in treemap.bitmaps() {
        if high != 0 && !low.is_empty() {
            return Err("deletion vector names rows beyond 32 bits".into());
        }
        if high == 0 {
            rows = low.clone();
        }
    }
    match rows.max() {
        Some(max) if max >= physical_rows => Err(format!("deletion vector names row {max} of a fragment of {physical_rows} rows")),
        _ => Ok(rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_come_back() {
        for rows in [vec![], vec![0], vec![0, 1, 2, 99_999], (0..70_000).collect::<Vec<u32>>()] {
            let bitmap: RoaringBitmap = rows.into_iter().collect();
            assert_eq!(decode(&encode(&bitmap), 100_000).unwrap(), bitmap);
        }
    }

    #[test]
    fn rows_beyond_the_fragment_are_refused() {
        let bitmap: RoaringBitmap = [3].into_iter().collect();
        assert!(decode(&encode(&bitmap), 4).is_ok());
        assert!(decode(&encode(&bitmap), 3).unwrap_err().contains("row 3 of a fragment of 3 rows"));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let blob = encode(&[1, 5, 70_000].into_iter().collect()).to_vec();
        for byte in 0..blob.len() {
            for bit in 0..8 {
                let mut damaged = blob.clone();
                damaged[byte] ^= 1 << bit;
                assert!(decode(&damaged, 100_000).is_err(), "byte {byte} bit {bit}");
            }
            assert!(decode(&blob[..byte], 100_000).is_err(), "cut at {byte}");
        }
    }
}
