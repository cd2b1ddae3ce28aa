//! Checks that the modules of a crate import each other in one direction.
//!
//! A crate's modules directly under `src` are its *layers*: a folder with the file of its name, or a single
//! file. [`declared`] lists them from the outermost to the innermost. A layer may import the layers after it;
//! layers of one row stand side by side and do not import each other. So no two layers can form a cycle.
//!
//! The check reads the source, not the compiled crate: it follows `mod` items from `lib.rs` and `main.rs`
//! ([`tree`]), lists every path that begins with `crate`, `self` or `super` ([`imports`]) and compares the
//! layers on both sides ([`verdict`]). `lib.rs` and `main.rs` may import everything. Code that only tests
//! compile is left out.

pub mod declared;
pub mod imports;
pub mod tree;
pub mod verdict;

pub use declared::{Crate, Exception};
pub use verdict::{Checked, Violation, check};
