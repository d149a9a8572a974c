//! A schedule before it is run, made of a seed. What does not fit (a COMMIT without BEGIN) is passed over when it is run, so
//! every part of a schedule is a schedule.

/// A schedule.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Each session's partitions and rows of a fragment, and whether its UPDATEs are in column form.
    pub sessions: Vec<(usize, u32, bool)>,
    pub ops: Vec<Op>,
}

/// One move of a session, or of those who hold staged statements.
#[derive(Debug, Clone)]
pub enum Op {
    Begin(usize),
    Commit(usize),
    Rollback(usize),
    /// In the session's transaction, or by itself.
    Run(usize, Statement),
    /// Run up to its commit.
    Stage(usize, Statement),
    CommitStaged(usize),
    DiscardStaged(usize),
    Read(usize),
}

/// A statement that changes the table.
#[derive(Debug, Clone)]
pub enum Statement {
    /// Rows of these values, with new keys.
    Insert(Vec<i64>),
    Update(Set, Condition),
    Delete(Condition),
    /// Source rows: which of the keys so far, and a value.
    Merge(Merge, Vec<(usize, i64)>),
    Optimize {
        full: bool,
    },
}

/// The new value of a row.
#[derive(Debug, Clone, Copy)]
pub enum Set {
    Plus(i64),
    Scrambled,
    To(i64),
}

/// Which rows.
#[derive(Debug, Clone, Copy)]
pub enum Condition {
    Remainder(i64, i64),
    Below(i64),
    Largest,
    KeyRemainder(i64, i64),
    All,
}

/// The clauses of a MERGE.
#[derive(Debug, Clone, Copy)]
pub enum Merge {
    AddOrInsert,
    DeleteOrSet,
    DeleteTouchOrInsert,
}

/// Random numbers that are the same for ever (splitmix64).
pub struct Dice(u64);

impl Dice {
    pub fn of(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn value(&mut self) -> i64 {
        self.below(20) as i64
    }
}

impl Plan {
    pub fn of_seed(seed: u64) -> Plan {
        let dice = &mut Dice::of(seed);
        let mut session = |_| (1 + dice.below(2) as usize, [3, 8, 1000][dice.below(3) as usize], dice.below(3) == 0);
        let count = 2 + session(()).0 as u64;
        let sessions: Vec<_> = (0..count).map(|_| session(())).collect();
        let mut ops = Vec::new();
        // About thirty rows in a few fragments.
        for _ in 0..2 + dice.below(3) {
            let who = dice.below(sessions.len() as u64) as usize;
            ops.push(Op::Run(who, Statement::Insert((0..6 + dice.below(6)).map(|_| dice.value()).collect())));
        }
        for _ in 0..16 + dice.below(10) {
            let who = dice.below(sessions.len() as u64) as usize;
            ops.push(match dice.below(20) {
                0..=3 => Op::Begin(who),
                4..=5 => Op::Commit(who),
                6 if dice.below(2) == 0 => Op::Rollback(who),
                7 => Op::Read(who),
                8..=10 => Op::Stage(who, statement(dice)),
                11..=12 => Op::CommitStaged(dice.below(100) as usize),
                13 if dice.below(4) == 0 => Op::DiscardStaged(dice.below(100) as usize),
                _ => Op::Run(who, statement(dice)),
            });
        }
        // Whoever is not ready by now, is then.
        ops.extend((0..6).map(|_| Op::CommitStaged(dice.below(100) as usize)));
        ops.extend((0..sessions.len()).map(Op::Commit));
        Plan { sessions, ops }
    }
}

fn statement(dice: &mut Dice) -> Statement {
    match dice.below(11) {
        0 => Statement::Insert((0..1 + dice.below(3)).map(|_| dice.value()).collect()),
        1..=3 => {
            let set = match dice.below(3) {
                0 => Set::Plus(1 + dice.value()),
                1 => Set::Scrambled,
                _ => Set::To(dice.value()),
            };
            Statement::Update(set, condition(dice))
        }
        4..=6 => Statement::Delete(condition(dice)),
        7 => {
            let merge = [Merge::AddOrInsert, Merge::DeleteOrSet, Merge::DeleteTouchOrInsert][dice.below(3) as usize];
            Statement::Merge(merge, (0..1 + dice.below(4)).map(|_| (dice.below(1000) as usize, dice.value())).collect())
        }
        _ => Statement::Optimize { full: dice.below(2) == 0 },
    }
}

fn condition(dice: &mut Dice) -> Condition {
    let divisor = 4 + dice.below(9) as i64;
    match dice.below(12) {
        0..=4 => Condition::Remainder(divisor, dice.below(divisor as u64) as i64),
        5 => Condition::Below(1 + dice.below(4) as i64),
        6 => Condition::Largest,
        7..=10 => Condition::KeyRemainder(divisor, dice.below(divisor as u64) as i64),
        _ if dice.below(3) == 0 => Condition::All,
        _ => Condition::Below(1),
    }
}
