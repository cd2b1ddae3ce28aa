//! End to end: the real `duebox` binary on a real Redis with real modules. Tests push jobs the way
//! applications do, keep their own ledger of them, and compare it with what lies in Redis and what
//! the log says.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is the report")]
#![allow(clippy::print_stdout, reason = "measured figures are printed beside the result")]

// The ground.
mod collector;
mod counter;
mod exposition;
mod flow;
mod ground;
mod handler;
mod journal;
mod monitor;
mod producer;
mod store;

// Jobs: through the real handlers, to an application that has none, with files to read, under an id that
// is in use, and as nobody should push them.
mod bad_jobs;
mod files;
mod job_options;
mod plain_jobs;
mod repeated_id;
mod webhook;

// Jobs that the manifest itself asks for.
mod schedules;

// Topics that are served otherwise than by an entry and a handler of their own.
mod patterns;
mod pull_topics;
mod shards;

// What the whole queue promises, and what the pages say.
mod cluster;
mod command_flow;
mod examples;
mod expiry;
mod first_steps;
mod follow_ups;
mod kept;
mod keys;
mod limits;
mod links;
mod pause;
mod priorities;
mod walk_through;

// What people do on the command line.
mod consumer;
mod doctor;
mod repair;
mod top;

// What applications and operators do over HTTP, and people in a browser.
mod http;
mod page;

// What befalls a runner, and what it leaves to others.
mod ahead;
mod death;
mod drain;
mod hostile;
mod idle;
mod managed;
mod neighbour;
mod outage;
mod stopped;
mod unbound;
mod wake_up;

// Where it stands: an image, a pod.
mod sidecar;

// What those see who look after it.
mod metrics;
mod probes;
mod traces;

// What it says of its handlers, and does about one that fails and fails.
mod breaker;
mod status;

// What is changed under it.
mod canary;
mod manifest_reload;
mod module_reload;
mod rollback;
mod secrets;
mod smoke;

// What is refused.
mod push_refusal;
mod refusal;
