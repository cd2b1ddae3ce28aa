//! Runners and Redis servers that stop, die or disappear.

mod crash;
mod drain;
mod outage;
mod stopped_runner;
