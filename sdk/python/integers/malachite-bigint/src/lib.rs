//! The interface of the crate malachite-bigint, which is that of num-bigint. See `../../README.md`.

pub use num_bigint::*;
