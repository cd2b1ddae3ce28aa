//! The commands of the documentation and of the examples, run as they are printed.

mod cluster;
mod documented;
mod examples;
mod first_handler;
mod first_steps;
mod flows;
mod init;
mod links;
mod moving;
mod producers;
mod recipes;
mod testing;
mod webhook;
