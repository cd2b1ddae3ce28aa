//! What operators run and read: commands, metrics, traces, status and the container image.

mod alerts;
mod doctor;
mod image;
mod incident;
mod managed_redis;
mod metrics;
mod pull_commands;
mod push_refusal;
mod redis_server;
mod redis_user;
mod repair;
mod replay;
mod restore;
mod runbooks;
mod start_refusal;
mod status;
mod top;
mod traces;
