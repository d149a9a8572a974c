//! The one public error. Its *kind* says what the caller does next; its message names the table, the object
//! and what was found there; its SQLSTATE is what a client of SQL sees.
//!
//! Goes in: what any layer found wrong. Comes out: one value that every layer passes on unchanged.
//! Always holds: no variant is a bag for strings that could have been a variant; a message never holds a secret.

use std::fmt;

/// The result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The statement or the call is wrong: correct it.
    Invalid,
    /// A name or a version does not exist.
    NotFound,
    /// What was asked for is not offered: ask for something else.
    Unsupported,
    /// Another transaction came first: run the transaction again.
    Conflict,
    /// The storage refused or could not be reached, and nothing was changed: mend it and try again.
    Unavailable,
    /// The outcome of the commit could not be learned: read the table before trying again.
    Unknown,
    /// Stored bytes are damaged or are not what they should be: restore the object that is named.
    Data,
    /// A fault of amend itself: report it.
    Internal,
}

impl ErrorKind {
    /// The lower-case word for this kind, as the `jsonl` output prints it.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Invalid => "invalid",
            ErrorKind::NotFound => "not_found",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Conflict => "conflict",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Unknown => "unknown",
            ErrorKind::Data => "data",
            ErrorKind::Internal => "internal",
        }
    }
}

/// Everything that can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No table of that name.
    #[error("table '{table}' does not exist{}", did_you_mean(.nearest))]
    UnknownTable {
        /// The name that was looked for.
        table: String,
        /// The nearest name that exists.
        nearest: Option<String>,
    },
    /// No column of that name.
    #[error("column '{column}' does not exist in table '{table}'{}", did_you_mean(.nearest))]
    UnknownColumn {
        /// The table that was searched.
        table: String,
        /// The name that was looked for.
        column: String,
        /// The nearest name that exists.
        nearest: Option<String>,
    },
    /// A version that the table does not have, or no longer has.
    #[error("table '{table}' has no version {version}: the oldest that can be read is {oldest}, the newest {newest}")]
    UnknownVersion {
        /// The table.
        table: String,
        /// The version asked for.
        version: u64,
        /// The oldest version that can be read.
        oldest: u64,
        /// The newest version.
        newest: u64,
    },
    /// A table of that name exists already.
    #[error("table '{table}' already exists")]
    TableExists {
        /// The name.
        table: String,
    },
    /// A column of that name exists already.
    #[error("column '{column}' already exists in table '{table}'")]
    ColumnExists {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// The statement or call is wrong in itself.
    #[error("{reason}")]
    Invalid {
        /// What is wrong, and how to put it right.
        reason: String,
    },
    /// A NULL for a column that does not take one.
    #[error("null value in column '{column}' of table '{table}' violates its not-null constraint")]
    NotNull {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A row that a CHECK constraint does not let in.
    #[error("a row of table '{table}' violates its CHECK constraint '{constraint}', {condition}: {row}")]
    CheckViolation {
        /// The table.
        table: String,
        /// The constraint.
        constraint: String,
        /// What it asks.
        condition: String,
        /// The values of the row.
        row: String,
    },
    /// Two rows of one key.
    #[error("table '{table}' would have {rows} rows of one key, which violates its {kind} constraint '{constraint}': {key}")]
    DuplicateKey {
        /// The table.
        table: String,
        /// The constraint.
        constraint: String,
        /// PRIMARY KEY or UNIQUE.
        kind: &'static str,
        /// How many rows have the key.
        rows: u64,
        /// The columns of the key and their values.
        key: String,
    },
    /// A definition that does not fit those that are there.
    #[error("{reason}")]
    Refused {
        /// What is wrong, and how to put it right.
        reason: String,
        /// The five characters of SQLSTATE.
        sqlstate: &'static str,
    },
    /// One target row was met by several source rows that would all act on it.
    #[error(
        "{statement} on table '{table}' would change one row more than once: {matches} source rows match row {row}; make the source unique per target row"
    )]
    AmbiguousMatch {
        /// The table.
        table: String,
        /// The kind of statement.
        statement: &'static str,
        /// The address of the row.
        row: String,
        /// How many source rows matched, at least.
        matches: u64,
    },
    /// A statement that is not offered.
    #[error("{what} is not supported{}", because(.instead))]
    Unsupported {
        /// The statement or the part of it.
        what: String,
        /// What to do instead, if there is something.
        instead: Option<String>,
    },
    /// A transaction cannot be carried over what others committed in the meantime.
    #[error("{0}")]
    Conflict(Box<ConflictReport>),
    /// The table's schema changed between planning and execution.
    #[error(
        "the schema of table '{table}' changed from version {planned} to version {found} after the statement was planned; run it again, or prepare it again"
    )]
    SchemaChanged {
        /// The table.
        table: String,
        /// The version that was planned against.
        planned: u64,
        /// The version that was met.
        found: u64,
    },
    /// A statement in a transaction that has failed or ended.
    #[error("{reason}")]
    TransactionState {
        /// What state the transaction is in, and what to say next.
        reason: String,
        /// 25001: one is open; 25P01: none is; 25P02: it has failed.
        sqlstate: &'static str,
    },
    /// The store refused an operation.
    #[error("cannot {operation} '{object}': {source}")]
    Store {
        /// What was tried, as a verb.
        operation: &'static str,
        /// The object or folder.
        object: String,
        /// What the store said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Other writers took every version that this commit tried.
    #[error("table '{table}' is too busy: another writer took each of the {attempts} versions that were tried")]
    TooBusy {
        /// The table.
        table: String,
        /// How many versions were tried.
        attempts: u32,
    },
    /// The answer of the store to the commit is unknown and could not be found out.
    #[error("it is not known whether version {version} of table '{table}' was committed: {reason}")]
    OutcomeUnknown {
        /// The table.
        table: String,
        /// The version that was being created.
        version: u64,
        /// Why it could not be found out.
        reason: String,
    },
    /// Stored bytes are damaged, missing, or not what their name says.
    #[error("'{object}' of table '{table}' is damaged: {reason}")]
    Damaged {
        /// The table (its name, or its folder where the name is not known).
        table: String,
        /// The object within the table's folder.
        object: String,
        /// What was found.
        reason: String,
    },
    /// A format that this build does not know.
    #[error("'{object}' of table '{table}' needs a newer amend: {reason}")]
    UnknownFormat {
        /// The table.
        table: String,
        /// The object.
        object: String,
        /// What is not known.
        reason: String,
    },
    /// The engine below refused the statement.
    #[error("{message}")]
    Engine {
        /// What the engine said.
        message: String,
        /// What the caller does next.
        kind: ErrorKind,
        /// The five characters of SQLSTATE.
        sqlstate: &'static str,
    },
    /// A fault of amend.
    #[error("internal error, please report it: {reason}")]
    Internal {
        /// What should not have happened.
        reason: String,
    },
}

impl Error {
    /// What the caller does next.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::UnknownTable { .. } | Error::UnknownColumn { .. } | Error::UnknownVersion { .. } => ErrorKind::NotFound,
            Error::TableExists { .. }
            | Error::ColumnExists { .. }
            | Error::Invalid { .. }
            | Error::NotNull { .. }
            | Error::CheckViolation { .. }
            | Error::DuplicateKey { .. }
            | Error::AmbiguousMatch { .. }
            | Error::TransactionState { .. } => ErrorKind::Invalid,
            Error::Refused { sqlstate: "42704" | "42P01" | "3F000", .. } => ErrorKind::NotFound,
            Error::Refused { .. } => ErrorKind::Invalid,
            Error::Unsupported { .. } => ErrorKind::Unsupported,
            Error::Conflict(_) | Error::SchemaChanged { .. } | Error::TooBusy { .. } => ErrorKind::Conflict,
            Error::Store { .. } => ErrorKind::Unavailable,
            Error::OutcomeUnknown { .. } => ErrorKind::Unknown,
            Error::Damaged { .. } | Error::UnknownFormat { .. } => ErrorKind::Data,
            Error::Engine { kind, .. } => *kind,
            Error::Internal { .. } => ErrorKind::Internal,
        }
    }

    /// The five characters of SQLSTATE (PostgreSQL's list).
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Error::UnknownTable { .. } => "42P01",
            Error::UnknownColumn { .. } => "42703",
            Error::UnknownVersion { .. } => "22023",
            Error::TableExists { .. } => "42P07",
            Error::ColumnExists { .. } => "42701",
            Error::Invalid { .. } => "42601",
            Error::NotNull { .. } => "23502",
            Error::CheckViolation { .. } => "23514",
            Error::DuplicateKey { .. } => "23505",
            Error::Refused { sqlstate, .. } => sqlstate,
            Error::AmbiguousMatch { .. } => "21000",
            Error::Unsupported { .. } => "0A000",
            Error::Conflict(_) | Error::SchemaChanged { .. } | Error::TooBusy { .. } => "40001",
            Error::TransactionState { sqlstate, .. } => sqlstate,
            Error::Store { .. } => "58030",
            Error::OutcomeUnknown { .. } => "08007",
            Error::Damaged { .. } => "XX001",
            Error::UnknownFormat { .. } => "0A000",
            Error::Engine { sqlstate, .. } => sqlstate,
            Error::Internal { .. } => "XX000",
        }
    }

    /// Whether the same statement, planned anew on the newest version, may succeed.
    pub fn is_conflict(&self) -> bool {
        self.kind() == ErrorKind::Conflict
    }

    /// The same error once more, for another who waits for the same thing. What it says is the same; a cause is only told.
    pub(crate) fn copied(&self) -> Self {
        match self {
            Error::Conflict(report) => Error::Conflict(report.clone()),
            Error::Damaged { table, object, reason } => Error::damaged(table, object, reason),
            Error::OutcomeUnknown { table, version, reason } => {
                Error::OutcomeUnknown { table: table.clone(), version: *version, reason: reason.clone() }
            }
            Error::Store { operation, object, source } => {
                Error::Store { operation, object: object.clone(), source: source.to_string().into() }
            }
            Error::TooBusy { table, attempts } => Error::TooBusy { table: table.clone(), attempts: *attempts },
            Error::UnknownTable { table, nearest } => Error::UnknownTable { table: table.clone(), nearest: nearest.clone() },
            other => Error::Engine { message: other.to_string(), kind: other.kind(), sqlstate: other.sqlstate() },
        }
    }

    /// A statement or call that is wrong in itself.
    pub fn invalid(reason: impl Into<String>) -> Self {
        Error::Invalid { reason: reason.into() }
    }

    /// A fault of amend.
    pub fn internal(reason: impl Into<String>) -> Self {
        Error::Internal { reason: reason.into() }
    }

    /// A definition that does not fit those that are there.
    pub fn refused(sqlstate: &'static str, reason: impl Into<String>) -> Self {
        Error::Refused { reason: reason.into(), sqlstate }
    }

    /// Something that is not offered, and what to do instead.
    pub fn unsupported(what: impl Into<String>, instead: Option<&str>) -> Self {
        Error::Unsupported { what: what.into(), instead: instead.map(str::to_owned) }
    }

    /// Damaged bytes in an object.
    pub fn damaged(table: impl Into<String>, object: impl Into<String>, reason: impl Into<String>) -> Self {
        Error::Damaged { table: table.into(), object: object.into(), reason: reason.into() }
    }
}

/// Why a transaction could not land: what collided, where, and with whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictReport {
    /// The table.
    pub table: String,
    /// What both transactions claim, for example `rows of fragment 3` or `the definition of field 2`.
    pub coordinate: String,
    /// Up to five addresses (`fragment/offset`, at the version that was read) of rows that both changed.
    pub rows: Vec<String>,
    /// The id of the transaction that could not land.
    pub transaction: String,
    /// What it did, in the words of its statements.
    pub statement: String,
    /// The version that it read.
    pub read_version: u64,
    /// The version whose transaction came first.
    pub other_version: u64,
    /// The id of the transaction that came first.
    pub other_transaction: String,
    /// What that transaction did, in the words of its statement.
    pub other_statement: String,
}

impl fmt::Display for ConflictReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "could not serialize access to table '{}': {} changed in version {} ({}) after this transaction read version {}",
            self.table, self.coordinate, self.other_version, self.other_statement, self.read_version
        )?;
        if !self.rows.is_empty() {
            write!(f, "; rows {}", self.rows.join(", "))?;
        }
        Ok(())
    }
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}

fn because(instead: &Option<String>) -> String {
    instead.as_ref().map(|text| format!(": {text}")).unwrap_or_default()
}

/// The candidate nearest to `name` by edit distance, if one is near enough to be a slip of the pen.
pub fn nearest_name<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let length = name.chars().count();
    let limit = (length / 3).max(1) + 1;
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        // Short names are near to one another without having anything in common.
        .filter(|(distance, candidate)| *distance <= limit && *distance < length.max(candidate.chars().count()))
        .min()
        .map(|(_, candidate)| candidate.to_owned())
}
