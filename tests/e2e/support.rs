//! What the tests share: a fixture with its own Redis, test handlers, clients, and readers of the log, the
//! metrics, Redis and the documentation.

pub(crate) mod alert;
pub(crate) mod client;
pub(crate) mod collector;
pub(crate) mod exposition;
pub(crate) mod fixture;
pub(crate) mod handler;
pub(crate) mod log;
pub(crate) mod monitor;
pub(crate) mod page;
pub(crate) mod producer;
pub(crate) mod program;
pub(crate) mod puppet;
pub(crate) mod redis_state;
pub(crate) mod shell;
pub(crate) mod shop;
pub(crate) mod terminal;
