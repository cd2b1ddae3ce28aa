//! The sandbox from outside: real modules, written as text, in real boxes. What a guest does is seen
//! in its report and its log lines.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is the report")]
mod asker;
mod assemblyscript;
mod costs;
mod dirs;
mod edges;
mod endurance;
mod evidence;
mod failures;
mod follow_ups;
mod hostile;
mod http;
mod imports;
mod interrupts;
mod isolation;
mod kept;
mod kit;
mod kv;
mod leftovers;
mod limits;
mod load;
mod names;
mod reuse;
mod rewind;
mod said;
mod servers;
mod shapes;
mod ssrf;
mod tls;
mod waits;
mod wasi;
mod web;
