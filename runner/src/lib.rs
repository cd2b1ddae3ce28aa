//! The parts of the `duebox` daemon that are no crate of their own.

pub mod manifest;
pub mod redis_server;
