//! The API over HTTP, as applications and operators meet it: the real binary, and requests over plain
//! sockets, so that what is on the wire is what is tested.

mod access;
mod bad_input;
pub(crate) mod client;
mod command;
mod consume;
mod events;
mod guide;
mod operate;
mod page;
mod push;
mod tls;
