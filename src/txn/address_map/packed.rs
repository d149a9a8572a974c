//! Packed positions: for a rewrite that gives rows another order, where each survivor of one source went.
//!
//! ```text
//!   block of up to 1,024 survivors, in the order of the source:
//!   | base: 4 bytes | width: 1 byte | (position - base) of each, width bits | filled up to a byte |
//! ```
//!
//! Rows that lie together and stay together need few bits; rows that are thrown anywhere need as many as the rewrite has
//! rows. A position is found by its block and its place in it, so mapping k rows reads only their bits.
//!
//! Always holds: there are exactly as many bytes as the blocks need, and no width is above 32.

use super::MapError;
use bytes::Bytes;

/// How many positions a block holds.
const BLOCK: usize = 1024;
/// Bytes of a block before its positions.
const HEAD_BYTES: usize = 5;

/// The positions of the survivors of one source.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PackedPositions {
    bytes: Bytes,
    /// Where each block begins.
    blocks: Vec<usize>,
    len: usize,
}

impl PackedPositions {
    /// Packs positions.
    pub fn pack(positions: &[u32]) -> Self {
        let mut bytes = Vec::new();
        let mut blocks = Vec::with_capacity(positions.len().div_ceil(BLOCK));
        for block in positions.chunks(BLOCK) {
            blocks.push(bytes.len());
            let base = block.iter().copied().min().unwrap_or(0);
            let width = u32::BITS - block.iter().map(|position| position - base).max().unwrap_or(0).leading_zeros();
            bytes.extend(base.to_le_bytes());
            bytes.push(width as u8);
            let (mut pending, mut bits) = (0u64, 0);
            for position in block {
                pending |= u64::from(position - base) << bits;
                bits += width;
                while bits >= 8 {
                    bytes.push(pending as u8);
                    pending >>= 8;
                    bits -= 8;
                }
            }
            if bits > 0 {
                bytes.push(pending as u8);
            }
        }
        PackedPositions { bytes: bytes.into(), blocks, len: positions.len() }
    }

    /// The positions of `len` survivors, as they were packed.
    pub fn parse(bytes: Bytes, len: u64) -> Result<Self, MapError> {
        let damaged = |reason: &str| MapError(format!("packed positions {reason}"));
        let len = usize::try_from(len).map_err(|_| damaged("are too many"))?;
        let count = len.div_ceil(BLOCK);
        if count.saturating_mul(HEAD_BYTES) > bytes.len() {
            return Err(damaged("are cut short"));
        }
        let mut blocks = Vec::with_capacity(count);
        let mut at = 0usize;
        for block in 0..count {
            blocks.push(at);
            let width = bytes.get(at + HEAD_BYTES - 1).copied().ok_or_else(|| damaged("are cut short"))?;
            if u32::from(width) > u32::BITS {
                return Err(damaged("are wider than 32 bits"));
            }
            let positions = (len - block * BLOCK).min(BLOCK);
            at += HEAD_BYTES + (positions * usize::from(width)).div_ceil(8);
        }
        if at != bytes.len() {
            return Err(damaged("have another length than their blocks"));
        }
        Ok(PackedPositions { bytes, blocks, len })
    }

    /// The bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The position of the survivor of that rank.
    pub fn get(&self, rank: usize) -> Option<u64> {
        if rank >= self.len {
            return None;
        }
        let block = self.bytes.get(*self.blocks.get(rank / BLOCK)?..)?;
        let (base, rest) = block.split_first_chunk::<4>()?;
        let (width, packed) = rest.split_first()?;
        let bit = rank % BLOCK * usize::from(*width);
        let tail = packed.get(bit / 8..)?;
        let word = match tail.first_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None => tail.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        let mask = (1u64 << width) - 1;
        Some(u64::from(u32::from_le_bytes(*base)) + (word >> (bit % 8) & mask))
    }

    /// All positions, in the order of the source.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        (0..self.len).filter_map(|rank| self.get(rank))
    }
}
