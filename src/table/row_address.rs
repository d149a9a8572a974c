//! Row addresses: `(fragment, offset)` in 64 bits, the fragment in the upper half.
//!
//! Always holds: all-ones halves are never used, so the largest fragment and the largest offset are `u32::MAX - 1`;
//! `0/0` is an ordinary address.

use std::fmt;

/// A fragment's id: unique in its table for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FragmentId(pub u32);

impl FragmentId {
    /// The largest id that can be given out.
    pub const MAX: FragmentId = FragmentId(u32::MAX - 1);
}

impl fmt::Display for FragmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The most rows that one fragment can hold.
pub const MAX_ROWS_PER_FRAGMENT: u64 = u32::MAX as u64 - 1;

/// The address of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowAddress(u64);

impl RowAddress {
    /// The address of row `offset` of `fragment`.
    pub fn new(fragment: FragmentId, offset: u32) -> Self {
        RowAddress((u64::from(fragment.0) << 32) | u64::from(offset))
    }

    /// The fragment: the upper 32 bits.
    pub fn fragment(self) -> FragmentId {
        FragmentId((self.0 >> 32) as u32)
    }

    /// The position in the fragment, counted from 0: the lower 32 bits.
    pub fn offset(self) -> u32 {
        self.0 as u32
    }

    /// The 64 bits.
    pub fn to_bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for RowAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.fragment(), self.offset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_come_back_at_the_ends_of_the_range() {
        for (fragment, offset) in [(0, 0), (1, 0), (0, 1), (u32::MAX - 1, u32::MAX - 1), (7, u32::MAX - 1)] {
            let address = RowAddress::new(FragmentId(fragment), offset);
            assert_eq!((address.fragment(), address.offset()), (FragmentId(fragment), offset));
        }
    }

    #[test]
    fn addresses_order_by_fragment_then_offset() {
        let last_of_first = RowAddress::new(FragmentId(1), u32::MAX - 1);
        assert!(last_of_first < RowAddress::new(FragmentId(2), 0));
        assert_eq!(last_of_first.to_string(), "1/4294967294");
    }
}
