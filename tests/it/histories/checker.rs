//! Our own judge of histories: the dependencies between committed transactions, and the cycles that isolation levels
//! forbid.
//!
//! ```text
//!   reads and writes ──> versions of each key, in order ──> ww  wr  rw  and real-time edges
//!                                                            │
//!   G0 only ww   G1c ww and wr   G-single one rw   G-nonadjacent no two rw in a row   G2-item any
//! ```
//!
//! And without the graph: reads of what failed (G1a), of what was not the last word of its transaction (G1b), of something
//! else than the transaction itself had read or written (internal), of lists that no one order explains; two that read
//! one version and both replaced it (lost update).

use super::graph::{Graph, REAL_TIME, RW, WR, WW};
use super::history::{History, Op, Outcome, Transaction, Workload};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What histories are held against, the weakest first. The last two also hold that what ended before another began comes
/// before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    ReadCommitted,
    Snapshot,
    Serializable,
    StrongSnapshot,
    StrictSerializable,
}

/// All of them.
pub const LEVELS: [Level; 5] =
    [Level::ReadCommitted, Level::Snapshot, Level::Serializable, Level::StrongSnapshot, Level::StrictSerializable];

impl Level {
    /// What the `adya` crate calls it.
    pub fn name(self) -> &'static str {
        match self {
            Level::ReadCommitted => "read-committed",
            Level::Snapshot => "snapshot-isolation",
            Level::Serializable => "serializable",
            Level::StrongSnapshot => "strong-snapshot-isolation",
            Level::StrictSerializable => "strict-serializable",
        }
    }
}

/// An anomaly: its name and an example in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    pub name: &'static str,
    pub example: String,
}

/// The anomalies that were found, by the levels that forbid them.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    found: BTreeMap<Level, Vec<Anomaly>>,
}

impl Verdict {
    /// What a level forbids and the history has.
    pub fn against(&self, level: Level) -> Vec<&Anomaly> {
        let weaker = |of: &Level| match level {
            Level::StrongSnapshot => *of != Level::Serializable && *of <= level,
            _ => *of <= level,
        };
        self.found.iter().filter(|(of, _)| weaker(of)).flat_map(|(_, anomalies)| anomalies).collect()
    }

    /// Whether something of that name was found.
    pub fn has(&self, name: &str) -> bool {
        self.found.values().flatten().any(|anomaly| anomaly.name == name)
    }

    fn add(&mut self, level: Level, name: &'static str, example: String) {
        self.found.entry(level).or_default().push(Anomaly { name, example });
    }
}

/// A version of a key: the value written last; `None` is how the key began.
type Version = (i64, Option<i64>);

struct Checking<'h> {
    workload: Workload,
    committed: Vec<&'h Transaction>,
    failed: HashSet<(i64, i64)>,
    verdict: Verdict,
}

/// Judges a history.
pub fn check(history: &History) -> Verdict {
    let committed = history.transactions.iter().filter(|t| t.outcome == Outcome::Committed).collect();
    let failed = history.transactions.iter().filter(|t| t.outcome == Outcome::Failed).flat_map(writes).collect();
    let mut checking = Checking { workload: history.workload, committed, failed, verdict: Verdict::default() };
    checking.reads_of_failed();
    checking.intermediate_reads(history);
    checking.internal();
    checking.lost_updates();
    let order = checking.versions();
    let graph = checking.graph(&order);
    checking.cycles(&graph);
    checking.verdict
}

/// Writes of committed transactions that the last read of all, which reads every key, does not show.
pub fn lost_writes(history: &History) -> Vec<String> {
    let Some(last) = history.transactions.iter().max_by_key(|t| t.ended) else { return vec![] };
    let mut lost = Vec::new();
    for op in &last.ops {
        let Op::Read { key, found } = op else { continue };
        let committed = history.transactions.iter().filter(|t| t.outcome == Outcome::Committed);
        let written = committed.filter_map(|t| Some((t.position, last_writes(t).remove(key)?, t)));
        let missing = match history.workload {
            Workload::ListAppend => written.filter(|(_, value, _)| !found.contains(value)).collect::<Vec<_>>(),
            Workload::Register => {
                written.max_by_key(|(position, ..)| *position).filter(|(_, value, _)| !found.contains(value)).into_iter().collect()
            }
        };
        lost.extend(
            missing.into_iter().map(|(_, value, t)| format!("{} wrote {value} to key {key}; at the end there is {found:?}", name(t))),
        );
    }
    lost
}

fn writes(transaction: &Transaction) -> impl Iterator<Item = (i64, i64)> {
    transaction.ops.iter().filter_map(|op| if let Op::Write { key, value } = op { Some((*key, *value)) } else { None })
}

/// The last write of each key.
fn last_writes(transaction: &Transaction) -> BTreeMap<i64, i64> {
    writes(transaction).collect()
}

/// What a transaction read of others: for a register the first read of each key that it had not written.
fn reads_of_others(transaction: &Transaction, workload: Workload) -> Vec<Version> {
    let (mut touched, mut reads) = (HashSet::new(), Vec::new());
    for op in &transaction.ops {
        match op {
            Op::Read { key, found } => {
                if touched.insert(*key) || workload == Workload::ListAppend {
                    reads.push((*key, found.last().copied()));
                }
            }
            Op::Write { key, .. } => {
                touched.insert(*key);
            }
        }
    }
    reads
}

impl<'h> Checking<'h> {
    fn reads(&self) -> impl Iterator<Item = (&'h Transaction, i64, &'h Vec<i64>)> + '_ {
        self.committed
            .iter()
            .flat_map(|t| t.ops.iter().filter_map(move |op| if let Op::Read { key, found } = op { Some((*t, *key, found)) } else { None }))
    }

    fn reads_of_failed(&mut self) {
        let mut read = self.reads().filter(|(_, key, found)| found.iter().any(|value| self.failed.contains(&(*key, *value))));
        if let Some((t, key, found)) = read.next() {
            let example = format!("{} read {found:?} of key {key}, part of which was written by a transaction that failed", name(t));
            drop(read);
            self.verdict.add(Level::ReadCommitted, "G1a", example);
        }
    }

    fn intermediate_reads(&mut self, history: &History) {
        let mut overwritten: HashMap<(i64, i64), usize> = HashMap::new();
        for t in &history.transactions {
            let last = last_writes(t);
            overwritten.extend(writes(t).filter(|(key, value)| last[key] != *value).map(|version| (version, t.began)));
        }
        let by_other = |t: &Transaction, version: (i64, i64)| overwritten.get(&version).is_some_and(|began| *began != t.began);
        let mut read = self.reads().filter(|(t, key, found)| found.last().is_some_and(|value| by_other(t, (*key, *value))));
        if let Some((t, key, found)) = read.next() {
            let example = format!("{} read {found:?} of key {key}, which its writer replaced before it committed", name(t));
            drop(read);
            self.verdict.add(Level::ReadCommitted, "G1b", example);
        }
    }

    /// A transaction sees what it has read and written itself.
    fn internal(&mut self) {
        for t in self.committed.clone() {
            let mut known: BTreeMap<i64, (bool, Vec<i64>)> = BTreeMap::new();
            let mut seen: HashSet<(i64, i64)> = HashSet::new();
            for op in &t.ops {
                match op {
                    Op::Write { key, value } => {
                        if self.workload == Workload::ListAppend && seen.contains(&(*key, *value)) {
                            self.verdict.add(Level::ReadCommitted, "future read", format!("{} read {value} before it wrote it", name(t)));
                        }
                        match self.workload {
                            Workload::ListAppend => known.entry(*key).or_default().1.push(*value),
                            Workload::Register => {
                                known.insert(*key, (true, vec![*value]));
                            }
                        }
                    }
                    Op::Read { key, found } => {
                        seen.extend(found.iter().map(|value| (*key, *value)));
                        let fits =
                            known.get(key).is_none_or(|(whole, values)| if *whole { values == found } else { found.ends_with(values) });
                        if !fits {
                            let example = format!("{} read {found:?} of key {key} and knew of {:?}", name(t), known[key].1);
                            self.verdict.add(Level::Snapshot, "internal", example);
                            break;
                        }
                        known.insert(*key, (true, found.clone()));
                    }
                }
            }
        }
    }

    fn lost_updates(&mut self) {
        let mut readers: BTreeMap<(i64, Vec<i64>), Vec<&Transaction>> = BTreeMap::new();
        for t in &self.committed {
            let (mut read, mut written) = (BTreeMap::new(), BTreeSet::new());
            for op in &t.ops {
                match op {
                    Op::Read { key, found } if !written.contains(key) => {
                        read.entry(*key).or_insert(found.clone());
                    }
                    Op::Read { .. } => {}
                    Op::Write { key, .. } => {
                        written.insert(*key);
                    }
                }
            }
            let replaced = read.into_iter().filter(|(key, _)| written.contains(key));
            replaced.for_each(|version| readers.entry(version).or_default().push(t));
        }
        for ((key, found), readers) in readers.into_iter().filter(|(_, readers)| readers.len() > 1) {
            let names: Vec<String> = readers.iter().map(|t| name(t)).collect();
            self.verdict.add(Level::Snapshot, "lost update", format!("{names:?} all read {found:?} of key {key} and replaced it"));
        }
    }

    /// The versions of each key in order. What nobody read of a list comes after all that was read.
    fn versions(&mut self) -> BTreeMap<i64, Vec<i64>> {
        if self.workload == Workload::Register {
            let mut order: BTreeMap<i64, Vec<(Option<u64>, i64)>> = BTreeMap::new();
            for t in &self.committed {
                for (key, value) in last_writes(t) {
                    order.entry(key).or_default().push((t.position, value));
                }
            }
            order.values_mut().for_each(|versions| versions.sort_unstable());
            return order.into_iter().map(|(key, versions)| (key, versions.into_iter().map(|(_, value)| value).collect())).collect();
        }
        let mut longest: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        let mut found_wrong = Vec::new();
        let mut reads: Vec<(i64, &Vec<i64>)> = self.reads().map(|(_, key, found)| (key, found)).collect();
        reads.sort_by_key(|(_, found)| found.len());
        for (key, found) in reads {
            if found.iter().collect::<HashSet<_>>().len() < found.len() {
                found_wrong.push(("duplicate elements", format!("key {key} was read as {found:?}")));
            }
            let known = longest.entry(key).or_default();
            if !found.starts_with(known) {
                found_wrong.push(("incompatible order", format!("key {key} was read as {known:?} and as {found:?}")));
            }
            known.clone_from(found);
        }
        found_wrong.into_iter().for_each(|(name, example)| self.verdict.add(Level::ReadCommitted, name, example));
        for versions in longest.values_mut() {
            let mut known = HashSet::new();
            versions.retain(|value| known.insert(*value));
        }
        longest
    }

    fn graph(&self, order: &BTreeMap<i64, Vec<i64>>) -> Graph {
        let mut graph = Graph::new(self.committed.len());
        let mut writer: HashMap<Version, usize> = HashMap::new();
        let mut readers: HashMap<Version, Vec<usize>> = HashMap::new();
        for (node, t) in self.committed.iter().enumerate() {
            writer.extend(self.installed(t).into_iter().map(|(key, value)| ((key, Some(value)), node)));
            for version in reads_of_others(t, self.workload) {
                readers.entry(version).or_default().push(node);
            }
        }
        for (version, readers) in &readers {
            if let Some(writer) = writer.get(version) {
                readers.iter().for_each(|reader| graph.link(*writer, *reader, WR));
            }
        }
        for (node, t) in self.committed.iter().enumerate() {
            for (key, value) in self.installed(t) {
                let versions = order.get(&key).map_or(&[][..], Vec::as_slice);
                let place = versions.iter().position(|version| *version == value).unwrap_or(versions.len());
                let replaced = (key, place.checked_sub(1).map(|before| versions[before]));
                if let Some(writer) = writer.get(&replaced) {
                    graph.link(*writer, node, WW);
                }
                readers.get(&replaced).into_iter().flatten().for_each(|reader| graph.link(*reader, node, RW));
            }
        }
        self.real_time(&mut graph);
        graph
    }

    /// The versions that a transaction made.
    fn installed(&self, t: &Transaction) -> Vec<(i64, i64)> {
        match self.workload {
            Workload::ListAppend => writes(t).collect(),
            Workload::Register => last_writes(t).into_iter().collect(),
        }
    }

    /// Each from those that ended last before it began; the others follow.
    fn real_time(&self, graph: &mut Graph) {
        let mut moments: Vec<(usize, bool, usize)> = Vec::new();
        for (node, t) in self.committed.iter().enumerate() {
            moments.extend([(t.began, false, node), (t.ended, true, node)]);
        }
        moments.sort_unstable();
        let mut last: BTreeSet<usize> = BTreeSet::new();
        let mut known_at_begin: HashMap<usize, BTreeSet<usize>> = HashMap::new();
        for (_, ends, node) in moments {
            if ends {
                let older = known_at_begin.remove(&node).unwrap_or_default();
                last.retain(|other| !older.contains(other));
                last.insert(node);
            } else {
                last.iter().for_each(|other| graph.link(*other, node, REAL_TIME));
                known_at_begin.insert(node, last.clone());
            }
        }
    }

    fn cycles(&mut self, graph: &Graph) {
        for (time, levels) in [
            (0, [Level::ReadCommitted, Level::Snapshot, Level::Serializable]),
            (REAL_TIME, [Level::StrongSnapshot, Level::StrongSnapshot, Level::StrictSerializable]),
        ] {
            let found = if let Some(cycle) = graph.cycle(WW | time) {
                Some((levels[0], "G0", cycle))
            } else if let Some(cycle) = graph.cycle(WW | WR | time) {
                Some((levels[0], "G1c", cycle))
            } else if let Some(nodes) = graph.cycle_without_adjacent_rw(WW | WR | time) {
                Some(match graph.cycle_with_one_rw(WW | WR | time) {
                    Some(cycle) => (levels[1], "G-single", cycle),
                    None => (levels[1], "G-nonadjacent", nodes),
                })
            } else {
                graph.cycle(WW | WR | RW | time).map(|cycle| (levels[2], "G2-item", cycle))
            };
            if let Some((level, anomaly, cycle)) = found {
                let example = self.told(graph, &cycle);
                self.verdict.add(level, anomaly, example);
            }
        }
    }

    fn told(&self, graph: &Graph, cycle: &[usize]) -> String {
        let mut lines = Vec::new();
        for (at, node) in cycle.iter().enumerate() {
            let next = cycle[(at + 1) % cycle.len()];
            lines.push(format!("{} {:?} --{:?}--> ", name(self.committed[*node]), self.committed[*node].ops, graph.reasons(*node, next)));
        }
        lines.join("\n")
    }
}

fn name(t: &Transaction) -> String {
    format!("T{}@{}-{}", t.client, t.began, t.ended)
}
