//! Stop: when one partition of a statement fails, the others end soon, and in good order, so that each removes what it
//! has written.
//!
//! To drop them would be quicker, and would leave their files behind.

use crate::error::Error;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use tokio::sync::watch;

/// Whether a statement has failed. One for all writers of a plan.
#[derive(Debug, Default)]
pub struct Stop {
    failed: watch::Sender<bool>,
}

impl Stop {
    /// The statement begins.
    pub fn reset(&self) {
        self.failed.send_replace(false);
    }

    /// The statement has failed.
    pub fn fail(&self) {
        self.failed.send_replace(true);
    }

    /// The same rows, until the statement fails: then an error instead of the next ones.
    pub fn watch(&self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let (mut failed, ended) = (self.failed.subscribe(), self.failed.subscribe());
        let until = async move {
            if failed.wait_for(|failed| *failed).await.is_err() {
                // Nobody can stop it any more.
                std::future::pending::<()>().await;
            }
        };
        let schema = rows.schema();
        let last = futures::stream::once(async move {
            let stopped = *ended.borrow();
            stopped.then(|| Err(DataFusionError::from(Error::internal("another part of the statement failed first"))))
        });
        let rows = rows.take_until(Box::pin(until)).chain(last.filter_map(std::future::ready));
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::parts::PART_SCHEMA;
    use datafusion::arrow::array::RecordBatch;
    use futures::FutureExt;
    use futures::stream;

    fn rows(batches: usize) -> SendableRecordBatchStream {
        let batches = stream::iter((0..batches).map(|_| Ok(RecordBatch::new_empty(PART_SCHEMA.clone()))));
        Box::pin(RecordBatchStreamAdapter::new(PART_SCHEMA.clone(), batches))
    }

    fn endless() -> SendableRecordBatchStream {
        Box::pin(RecordBatchStreamAdapter::new(PART_SCHEMA.clone(), stream::pending()))
    }

    #[tokio::test]
    async fn rows_pass_while_nothing_fails() {
        let stop = Stop::default();
        let passed: Vec<_> = stop.watch(rows(3)).collect().await;
        assert_eq!(passed.iter().filter(|batch| batch.is_ok()).count(), 3);
        assert_eq!(passed.len(), 3);
    }

    #[tokio::test]
    async fn a_writer_that_waits_for_rows_is_told() {
        let stop = Stop::default();
        let mut waiting = stop.watch(endless());
        assert!(waiting.next().now_or_never().is_none());
        stop.fail();
        assert!(waiting.next().await.unwrap().unwrap_err().to_string().contains("failed first"));
        assert!(waiting.next().await.is_none());
        assert!(stop.watch(rows(3)).next().await.unwrap().is_err());
        stop.reset();
        assert!(stop.watch(rows(3)).next().await.unwrap().is_ok());
    }
}
