//! The simulation itself: its lives repeat, its Redis is like the real one, and it finds what is broken.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod drain;
mod faithful;
mod lives;
mod prefetch;
mod repetition;
