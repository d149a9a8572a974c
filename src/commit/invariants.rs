use crate::manifest::snapshot::Snapshot;
use crate::txn::composite::Transaction;
pub fn check(_: &Snapshot, _: &Snapshot, _: &Transaction) -> Result<(), String> {
    Ok(())
}
