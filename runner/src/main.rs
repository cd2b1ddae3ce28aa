//! The `duebox` binary: see `duebox help`.
fn main() {}
