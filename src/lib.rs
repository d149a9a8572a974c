//! amend
