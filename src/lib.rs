//! SQL tables for Apache DataFusion that you can amend while others amend them.
//!
//! `UPDATE`, `DELETE`, `MERGE`, `INSERT` and `OPTIMIZE` run at the same time on the same rows' files, in one process or in
//! many: what commutes is merged row by row, what moved is followed to its new address, and what truly collides is run
//! again.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> amend::Result<()> {
//! use amend::{Lake, Outcome, Session};
//!
//! let lake = Lake::memory(); // or Lake::open("./lake")?
//! let (ada, bob) = (Session::new(&lake).await?, Session::new(&lake).await?);
//! ada.execute("CREATE TABLE t AS VALUES (1, 'one'), (2, 'two'), (3, 'three')").await?;
//!
//! ada.execute("BEGIN").await?;
//! ada.execute("OPTIMIZE t FULL").await?; // every row gets a new address
//! bob.execute("DELETE FROM t WHERE column1 = 2").await?; // by its old one
//! ada.execute("COMMIT").await?; // the deletion is carried through the change of address
//!
//! let Outcome::Rows(rows) = bob.execute("SELECT * FROM t").await? else { unreachable!() };
//! assert_eq!(rows.batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! Two doors: [`install`] makes a lake's tables writable in a `SessionContext` that you own; a [`Session`] takes the same
//! statements and also transactions, `OPTIMIZE` and DDL.
//!
//! ```text
//!  SQL text
//!    | statement   what the user said: parse, session, catalog
//!    | plan        which rows, which new values: a relational plan that carries row addresses    scan: reading
//!    | stage       run it; write files nobody can see yet; collect actions
//!    | txn         what a transaction is: actions, footprint, address map, rebase        (pure)
//!    | commit      make it happen once
//!    v manifest    what a version is
//!   table: nouns (pure)        store: bytes by name
//! ```
//!
//! The contents page: [`statement`], [`plan`], [`scan`], [`stage`], [`txn`], [`commit`], [`manifest`], [`table`],
//! [`store`]; [`slt`] runs sqllogictest files; [`error`] is what can go wrong. Start reading at [`txn::rebase`].

pub mod commit;
pub mod error;
#[cfg(feature = "faulty-builds")]
pub mod faulty;
#[cfg(not(feature = "faulty-builds"))]
mod faulty;
pub mod maintain;
pub mod manifest;
pub mod plan;
pub mod scan;
pub mod slt;
pub mod stage;
pub mod statement;
pub mod store;
pub mod table;
pub mod txn;

pub use error::{Error, ErrorKind, Result};
pub use manifest::catalog::TableName;
pub use stage::course::Course;
pub use stage::progress::Progress;
pub use statement::install::install;
pub use statement::lake::Lake;
pub use statement::outcome::{Changed, Outcome, Rows};
pub use statement::position::Position;
pub use statement::session::{Session, StagedChange};
