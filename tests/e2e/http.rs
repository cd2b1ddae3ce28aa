//! The HTTP API with the real binary. Requests go over plain sockets, so that the tests see the bytes on the wire.

mod access;
mod bad_input;
mod clock;
mod command_protocol;
mod events;
mod limits;
mod operate;
mod probes;
mod pull;
mod push;
mod reference_page;
mod tls;
