//! CRC-32C, of bytes and of the blocks of a file.
//!
//! Goes in: the bytes of an object in order, in pieces of any size. Comes out: its length and one checksum a block.
//! Always holds: a block is a power of two of at least 64 KiB; a file has at most 512 blocks (unless it is larger than a
//! TiB), so what a manifest keeps of a file is bounded; the same bytes give the same blocks however they were cut.

/// The size of a block of a small file.
const SMALLEST_BLOCK_BYTES: u32 = 64 * 1024;
/// The largest block.
const LARGEST_BLOCK_BYTES: u32 = 1 << 31;
/// How many blocks a file has at most.
const MAX_BLOCKS: usize = 512;

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// What was written: the length of an object and the checksums of its blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The length in bytes.
    pub size_bytes: u64,
    /// The size of a block in bytes, a power of two.
    pub block_bytes: u32,
    /// CRC-32C of each block, the last block being the rest of the file.
    pub crc32c: Vec<u32>,
}

impl Written {
    /// What `bytes` would be as an object.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = BlockHasher::new();
        hasher.update(bytes);
        hasher.finish()
    }
}

/// Takes the bytes of an object as they are written.
#[derive(Debug, Clone)]
pub struct BlockHasher {
    size_bytes: u64,
    block_bytes: u32,
    /// The blocks that are full.
    full: Vec<u32>,
    /// The checksum of the block that is being filled, and how much of it there is.
    open: u32,
    open_bytes: u32,
}

impl BlockHasher {
    /// The hasher of an empty object.
    pub fn new() -> Self {
        BlockHasher { size_bytes: 0, block_bytes: SMALLEST_BLOCK_BYTES, full: Vec::new(), open: 0, open_bytes: 0 }
    }

    /// How many bytes there were so far.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The next bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.open_bytes == 0 && self.full.len() == MAX_BLOCKS && self.block_bytes < LARGEST_BLOCK_BYTES {
                self.double_blocks();
            }
            let room = (self.block_bytes - self.open_bytes) as usize;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.open = crc32c::crc32c_append(self.open, now);
            self.open_bytes += now.len() as u32;
            self.size_bytes += now.len() as u64;
            if self.open_bytes == self.block_bytes {
                self.full.push(self.open);
                (self.open, self.open_bytes) = (0, 0);
            }
            bytes = later;
        }
    }

    /// Makes each two full blocks one. The checksum of two joined pieces follows from theirs, so nothing is read again.
    fn double_blocks(&mut self) {
        let length = self.block_bytes as usize;
        let (pairs, _) = self.full.as_chunks::<2>();
        self.full = pairs.iter().map(|[first, second]| crc32c::crc32c_combine(*first, *second, length)).collect();
        self.block_bytes *= 2;
    }

    /// The end of the object.
    pub fn finish(mut self) -> Written {
        if self.open_bytes > 0 {
            self.full.push(self.open);
        }
        Written { size_bytes: self.size_bytes, block_bytes: self.block_bytes, crc32c: self.full }
    }
}

impl Default for BlockHasher {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes without a period that blocks could share.
    fn sample(length: usize) -> Vec<u8> {
        (0..length as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
    }

    fn block_by_block(bytes: &[u8], block_bytes: u32) -> Vec<u32> {
        bytes.chunks(block_bytes as usize).map(crc32c).collect()
    }

    #[test]
    fn crc32c_is_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn blocks_of_small_files_at_their_edges() {
        let kib64 = 65_536;
        assert_eq!(Written::of(b""), Written { size_bytes: 0, block_bytes: kib64, crc32c: vec![] });
        for length in [1, 65_535, 65_536, 65_537, 200_000] {
            let bytes = sample(length);
            let written = Written::of(&bytes);
            assert_eq!((written.size_bytes, written.block_bytes), (length as u64, kib64));
            assert_eq!(written.crc32c, block_by_block(&bytes, kib64), "{length}");
        }
    }

    #[test]
    fn blocks_grow_so_that_there_are_at_most_512() {
        let largest = 512 * 65_536;
        let all = sample(2 * largest + 65_536);
        for (length, block_bytes, blocks) in
            [(largest, 65_536, 512), (largest + 1, 131_072, 257), (2 * largest, 131_072, 512), (2 * largest + 65_536, 262_144, 257)]
        {
            let bytes = &all[..length];
            let written = Written::of(bytes);
            assert_eq!((written.block_bytes, written.crc32c.len()), (block_bytes, blocks), "{length}");
            assert_eq!(written.crc32c, block_by_block(bytes, block_bytes), "{length}");
        }
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_were_cut(length in 0usize..300_000, cuts in prop::collection::vec(1usize..100_000, 1..20)) {
            let bytes = sample(length);
            let mut hasher = BlockHasher::new();
            let mut rest = bytes.as_slice();
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                hasher.update(now);
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(hasher.finish(), Written::of(&bytes));
        }
    }
}
