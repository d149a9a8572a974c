//! A lake: a folder of tables and the catalog that names them.

use crate::error::Result;
use std::path::Path;

/// A folder of tables.
#[derive(Debug, Clone)]
pub struct Lake {}

impl Lake {
    /// The lake in a local folder, which is created on the first write.
    pub fn open(_folder: impl AsRef<Path>) -> Result<Lake> {
        Ok(Lake {})
    }

    /// A lake in memory.
    pub fn memory() -> Lake {
        Lake {}
    }
}
