//! The commands of the documentation and of the examples, run as they are printed.

mod examples;
mod first_steps;
mod flows;
mod links;
mod webhook;
