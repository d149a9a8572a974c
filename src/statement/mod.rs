//! What the user said.

pub mod lake;
pub mod outcome;
pub mod session;
pub mod split;
