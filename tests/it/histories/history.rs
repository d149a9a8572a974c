//! Histories: what sessions did and saw, transaction by transaction, in the order in which the transactions began and
//! ended.
//!
//! Two kinds of workload. *List-append*: a key holds a list, a write appends a value to it, so that one read tells all
//! versions of the key before it. *Register*: a key holds one value, a write replaces it; which version followed which is
//! known from the order in which the table's log holds the transactions.
//!
//! Always holds: no two writes of a key write one value.

use adya::history::{History as Judged, Interner, Mop, Op as JudgedOp, OpType, ReadValue, Scalar};
use std::collections::HashMap;

/// What a key's writes do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    ListAppend,
    Register,
}

/// A part of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// A list, or for a register none or one value.
    Read {
        key: i64,
        found: Vec<i64>,
    },
    Write {
        key: i64,
        value: i64,
    },
}

/// How a transaction ended, as its client was told, or as the log says where the client could not be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    Failed,
}

/// A transaction of a history. Moments are numbers that grow.
#[derive(Debug, Clone)]
pub struct Transaction {
    pub client: usize,
    pub began: usize,
    pub ended: usize,
    pub outcome: Outcome,
    pub ops: Vec<Op>,
    /// Its place in the table's log, if it is there.
    pub position: Option<u64>,
}

/// A history.
#[derive(Debug, Clone)]
pub struct History {
    pub workload: Workload,
    pub transactions: Vec<Transaction>,
}

impl History {
    /// The same as the `adya` crate takes it, and the order of the log by the moments at which transactions ended.
    pub fn for_adya(&self) -> (Judged, HashMap<u64, i64>) {
        let mut interner = Interner::default();
        let mut ops = Vec::new();
        for transaction in &self.transactions {
            let mut asked = Vec::new();
            let mut answered = Vec::new();
            for op in &transaction.ops {
                let (ask, answer) = self.mops(&mut interner, op);
                asked.push(ask);
                answered.push(answer);
            }
            let kind = if transaction.outcome == Outcome::Committed { OpType::Ok } else { OpType::Fail };
            for (moment, kind, value) in [(transaction.began, OpType::Invoke, asked), (transaction.ended, kind, answered)] {
                ops.push(JudgedOp { index: moment as u64, kind, process: Some(transaction.client as i64), value, time: None });
            }
        }
        ops.sort_by_key(|op| op.index);
        let ordered = self.transactions.iter().filter_map(|t| Some((t.ended as u64, t.position? as i64)));
        (Judged::from_ops(ops, interner), ordered.collect())
    }

    fn mops(&self, interner: &mut Interner, op: &Op) -> (Mop, Mop) {
        match op {
            Op::Read { key, found } => {
                let key = interner.intern(Scalar::Int(*key));
                let mut found = found.iter().map(|value| interner.intern(Scalar::Int(*value)));
                let value = match self.workload {
                    Workload::ListAppend => ReadValue::List(found.collect()),
                    Workload::Register => found.next().map_or(ReadValue::Nil, ReadValue::Scalar),
                };
                (Mop::Read { key, value: ReadValue::Nil }, Mop::Read { key, value })
            }
            Op::Write { key, value } => {
                let (key, value) = (interner.intern(Scalar::Int(*key)), interner.intern(Scalar::Int(*value)));
                let mop = match self.workload {
                    Workload::ListAppend => Mop::Append { key, value },
                    Workload::Register => Mop::Write { key, value },
                };
                (mop.clone(), mop)
            }
        }
    }
}
