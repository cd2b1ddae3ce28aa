//! Topics and jobs: what the queue promises for each state, option and limit.

mod bad_jobs;
mod cluster;
mod command_line;
mod expiry;
mod follow_ups;
mod heavy_follow_ups;
mod idle;
mod job_keys;
mod job_options;
mod limits;
mod list;
mod patterns;
mod pause;
mod plain_jobs;
mod prefetch;
mod priorities;
mod pull_topics;
mod repeated_id;
mod schedules;
mod shards;
mod unbound_topics;
mod wake_up;
