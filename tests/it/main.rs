//! What amend promises, tested from outside. One binary, so that it is linked once; every module is one subject.

mod shell;
mod slt;
