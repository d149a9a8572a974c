//! `ChangeOfAddress`: a rewrite moved the live rows of its sources to its targets, and this map says which went where.
//!
//! It changes nothing by itself: the `RemoveFragment`s and `AddFragment`s beside it do. It is what lets others follow
//! their rows, and lets the rewrite follow the deletions of others.
//!
//! Always holds: every target is added by the same transaction, and every source is removed by it or was emptied by others.

use crate::manifest::apply::{ApplyError, Applying};
use crate::manifest::check::check_path;
use crate::manifest::frame::DecodeError;
use crate::manifest::record::required;
use crate::manifest::wire;
use crate::txn::refs::FragmentRef;
use bytes::Bytes;

/// Rows moved.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeOfAddress {
    /// The fragments whose rows moved, in the order in which they were read.
    pub sources: Vec<FragmentRef>,
    /// The fragments that took them, in the order in which they were written.
    pub targets: Vec<FragmentRef>,
    /// Where the map itself is.
    pub map: MapLocation,
    /// The order that the rewrite gave the rows, in words that name fields by id; `None` if they kept the one they had.
    /// Informative: it spares the next rewrite the same work.
    pub order: Option<String>,
}

/// Where an encoded [`AddressMap`](crate::txn::address_map::AddressMap) is kept.
#[derive(Debug, Clone, PartialEq)]
pub enum MapLocation {
    /// In the transaction.
    Inline(Bytes),
    /// An object within the table folder.
    Object {
        /// Its name.
        path: String,
        /// Its length.
        size_bytes: u64,
        /// Its CRC-32C.
        crc32c: u32,
    },
}

impl ChangeOfAddress {
    /// Applies the action: its targets must be there by now. A source may be gone: others deleted its last row.
    pub(crate) fn apply(&self, to: &mut Applying) -> Result<(), ApplyError> {
        for fragment in &self.targets {
            to.fragment(*fragment)?;
        }
        Ok(())
    }
}

impl From<&ChangeOfAddress> for wire::ChangeOfAddress {
    fn from(action: &ChangeOfAddress) -> Self {
        use wire::map_location::Place;
        let place = match &action.map {
            MapLocation::Inline(map) => Place::Inline(map.clone()),
            MapLocation::Object { path, size_bytes, crc32c } => {
                Place::Object(wire::MapObject { path: path.clone(), size_bytes: *size_bytes, crc32c: *crc32c })
            }
        };
        wire::ChangeOfAddress {
            sources: action.sources.iter().map(|fragment| (*fragment).into()).collect(),
            targets: action.targets.iter().map(|fragment| (*fragment).into()).collect(),
            map: Some(wire::MapLocation { place: Some(place) }),
            order: action.order.clone(),
        }
    }
}

impl TryFrom<wire::ChangeOfAddress> for ChangeOfAddress {
    type Error = DecodeError;

    fn try_from(action: wire::ChangeOfAddress) -> Result<Self, DecodeError> {
        use wire::map_location::Place;
        let place = action.map.and_then(|map| map.place);
        let map = match required(place, "the map of ChangeOfAddress")? {
            Place::Inline(map) => MapLocation::Inline(map),
            Place::Object(wire::MapObject { path, size_bytes, crc32c }) => {
                check_path(&path).map_err(DecodeError::Damaged)?;
                MapLocation::Object { path, size_bytes, crc32c }
            }
        };
        Ok(ChangeOfAddress {
            sources: action.sources.into_iter().map(FragmentRef::try_from).collect::<Result<_, _>>()?,
            targets: action.targets.into_iter().map(FragmentRef::try_from).collect::<Result<_, _>>()?,
            map,
            order: action.order,
        })
    }
}
