//! A directed graph of transactions whose edges say why one came before the other, and cycles in it.

use std::collections::{BTreeMap, VecDeque};

/// The later one wrote the next version of a key.
pub const WW: u8 = 1;
/// The later one read what the other wrote.
pub const WR: u8 = 2;
/// The later one replaced what the other read.
pub const RW: u8 = 4;
/// The later one began after the other had ended.
pub const REAL_TIME: u8 = 8;

/// Edges by their ends.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    edges: BTreeMap<usize, BTreeMap<usize, u8>>,
    nodes: usize,
}

impl Graph {
    /// No edges as yet.
    pub fn new(nodes: usize) -> Graph {
        Graph { edges: BTreeMap::new(), nodes }
    }

    /// Adds an edge, but to the same node.
    pub fn link(&mut self, from: usize, to: usize, why: u8) {
        if from != to {
            *self.edges.entry(from).or_default().entry(to).or_default() |= why;
        }
    }

    fn from(&self, node: usize, why: u8) -> impl Iterator<Item = usize> {
        self.edges.get(&node).into_iter().flatten().filter(move |(_, kinds)| *kinds & why != 0).map(|(to, _)| *to)
    }

    /// Nodes of some cycle of edges of these kinds.
    pub fn cycle(&self, why: u8) -> Option<Vec<usize>> {
        some_cycle(&(0..self.nodes).map(|node| self.from(node, why).collect()).collect::<Vec<_>>())
    }

    /// Nodes of some cycle in which no two `RW` edges follow one another, the others being of these kinds.
    pub fn cycle_without_adjacent_rw(&self, why: u8) -> Option<Vec<usize>> {
        let mut steps: Vec<Vec<usize>> = Vec::with_capacity(self.nodes);
        for node in 0..self.nodes {
            let mut to: Vec<usize> = self.from(node, why).collect();
            to.extend(self.from(node, why).flat_map(|over| self.from(over, RW)).collect::<Vec<_>>());
            to.sort_unstable();
            to.dedup();
            steps.push(to);
        }
        some_cycle(&steps)
    }

    /// The shortest cycle of exactly one `RW` edge and edges of these kinds.
    pub fn cycle_with_one_rw(&self, why: u8) -> Option<Vec<usize>> {
        let rw = (0..self.nodes).flat_map(|from| self.from(from, RW).map(move |to| (from, to)));
        rw.filter_map(|(from, to)| self.path(to, from, why)).min_by_key(Vec::len)
    }

    fn path(&self, from: usize, to: usize, why: u8) -> Option<Vec<usize>> {
        let mut before = BTreeMap::from([(from, from)]);
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            if node == to {
                let mut path = vec![to];
                while path[path.len() - 1] != from {
                    path.push(before[&path[path.len() - 1]]);
                }
                path.reverse();
                return Some(path);
            }
            for next in self.from(node, why) {
                before.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    node
                });
            }
        }
        None
    }

    /// Why one came before the other.
    pub fn reasons(&self, from: usize, to: usize) -> Vec<&'static str> {
        let kinds = self.edges.get(&from).and_then(|edges| edges.get(&to)).copied().unwrap_or(0);
        [(WW, "ww"), (WR, "wr"), (RW, "rw"), (REAL_TIME, "real time")]
            .into_iter()
            .filter(|(kind, _)| kinds & kind != 0)
            .map(|(_, name)| name)
            .collect()
    }
}

/// What is left when nodes that nothing comes before are taken away again and again lies on or behind a cycle; going back
/// along it finds one.
fn some_cycle(steps: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut before = vec![0usize; steps.len()];
    steps.iter().flatten().for_each(|to| before[*to] += 1);
    let mut free: Vec<usize> = (0..steps.len()).filter(|node| before[*node] == 0).collect();
    while let Some(node) = free.pop() {
        for to in &steps[node] {
            before[*to] -= 1;
            if before[*to] == 0 {
                free.push(*to);
            }
        }
    }
    let left = |node: &usize| before[*node] > 0;
    let mut node = (0..steps.len()).find(left)?;
    let mut path = vec![];
    while !path.contains(&node) {
        path.push(node);
        node = (0..steps.len()).find(|from| left(from) && steps[*from].contains(&node)).expect("what is left has a node before it");
    }
    let mut cycle = path.split_off(path.iter().position(|on| *on == node).expect("it was met"));
    cycle.reverse();
    Some(cycle)
}
