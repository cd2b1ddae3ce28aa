//! Ports of loopback for servers.
//!
//! They are below those that the kernel gives to connections, and a process never hands one out twice. So the
//! port of a server that is down stays free for its return, and no other test's server answers in its place: a
//! sentinel would make that one a replica of its group. A connection to a port above that has no listener can even
//! connect to itself.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 12_000;
const COUNT: u16 = 20_000;

/// A port that is free now. Another process may take it before it is used.
///
/// # Panics
/// If this process has used all of them.
pub fn free_port() -> u16 {
    static START: OnceLock<u16> = OnceLock::new();
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test binaries that run at once begin far from each other.
    let start =
        *START.get_or_init(|| (std::process::id().wrapping_mul(7_919) % u32::from(COUNT)) as u16);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(number < COUNT, "this process has used {COUNT} ports");
        let port = FIRST + (start + number) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_port_is_handed_out_twice() {
        let ports: BTreeSet<u16> = (0..200).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 200);
        assert!(ports.iter().all(|port| (FIRST..FIRST + COUNT).contains(port)));
    }
}
