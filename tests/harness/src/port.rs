//! Unused ports of loopback.

use std::net::{Ipv4Addr, TcpListener};

/// A port that is free now. Another process may take it before it is used.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .unwrap_or_else(|error| panic!("no free loopback port: {error}"))
        .port()
}
