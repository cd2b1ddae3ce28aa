//! Runners and Redis servers that stop, die or disappear.

mod crash;
mod disconnect;
mod drain;
mod outage;
mod stopped_runner;
