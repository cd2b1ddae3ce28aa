//! The commands of the documentation and of the examples, run as they are printed.

mod cluster;
mod examples;
mod first_handler;
mod first_steps;
mod flows;
mod init;
mod links;
mod testing;
mod webhook;
