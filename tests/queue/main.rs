//! The queue on a real Redis: one binary, one server, a topic of its own for each test.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

// What the tests share.
mod ahead;
mod fixture;
mod script;
mod snapshot;

// The test list of the contract, a test a row.
mod faults;
// The faults of other queues.
mod peers;
// Each verb's answers, one by one.
mod bounds;
mod cancel;
mod combine;
mod dead;
mod follow_ups;
mod get;
mod keys;
mod lease;
mod limits;
mod list;
mod list_live;
mod list_state;
mod order;
mod pause;
mod promote;
mod push;
mod recordings;
mod relay_faults;
mod settle;
mod shards;
mod spread;
mod spread_life;
// Invalid arguments change nothing.
mod refusal;
// A key that cannot be written stops a script before it has changed anything.
mod whole;
// The jobs of schedules.
mod tick;
// Consumers that wait, and settle by id and token.
mod pull;
// The store of a topic.
mod kv;
mod kv_faults;
mod kv_repeats;
// What faulty producers left, found and repaired.
mod doctor;
// Sleeping runners, the control channel, and the status of runners.
mod control;
mod listen;
mod runners;
// A Redis that forgets, goes away, freezes or is full.
mod outage;
// Connections that stay open and carry nothing.
mod half_open;
// Connections that close while idle or under load.
mod reconnect;
// Slots that are spread over servers.
mod cluster;
mod cluster_answers;
mod cluster_migration;
mod fake_node;
// Copies on replicas and disks.
mod durability;
// A primary that sentinels name, and its failover.
mod sentinel;
// TLS, rotated credentials, and addresses that lead elsewhere.
mod connect;
mod permissions;
mod topology_tls;
// Many jobs, odd bytes, and nothing left behind.
mod volume;
// Random lives of jobs against a model of the queue.
mod choice;
mod exhaustive;
mod invariants;
mod ledger;
mod life;
mod model;
mod parcel;
mod random;
mod relay;
mod step;
