//! Tests of the public API with real modules, written as text. They check the reports and the log lines.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is the report")]
mod assemblyscript;
mod bad_servers;
mod costs;
mod dirs;
mod endurance;
mod entry_points;
mod evidence;
mod failures;
mod follow_ups;
mod host_state;
mod host_work;
mod hostile;
mod http;
mod http_guest;
mod imports;
mod intercept;
mod interrupts;
mod isolation;
mod kv;
mod leftovers;
mod limits;
mod load;
mod name_server;
mod ranges;
mod reset;
mod reuse;
mod ssrf;
mod support;
mod tls;
mod verdict_data;
mod waiting;
mod wasi;
mod web_servers;
