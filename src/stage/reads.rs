//! What a scan read, as the commit layer asks for it.

use crate::commit::reads::{ReadAssertion, RowsOf};
use crate::error::Result;
use crate::manifest::log::VersionLog;
use crate::scan::read::Read;
use crate::table::fragment::Fragment;
use crate::table::row_address::RowAddress;
use crate::table::schema::FieldId;
use async_trait::async_trait;
use std::sync::Arc;

#[async_trait]
impl ReadAssertion for Read {
    fn describe(&self) -> String {
        Read::describe(self)
    }

    fn minds_deletions(&self) -> bool {
        self.minds_deletions
    }

    fn reads_field(&self, field: FieldId) -> bool {
        self.fields.contains(&field)
    }

    fn may_match(&self, fragments: &[Arc<Fragment>]) -> Result<Vec<bool>> {
        Read::may_match(self, fragments)
    }

    async fn matching(&self, log: &VersionLog, rows: &[RowsOf]) -> Result<Vec<RowAddress>> {
        Read::matching(self, log, rows).await
    }
}
