//! Runners and Redis servers that stop, die or disappear.

mod crash;
mod disconnect;
mod drain;
mod durability;
mod outage;
mod panics;
mod sentinel;
mod sick_topics;
mod stopped_runner;
