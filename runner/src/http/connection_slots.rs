//! The number of connections of an address: in total, and from one peer.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of connections of an address.
pub(super) const CONNECTIONS_MAX: u32 = 1_024;
/// The part of an IPv6 address that one peer cannot choose freely.
const NETWORK_OF_PEER: u128 = !(u64::MAX as u128);

/// How many more connections an address accepts.
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    by_peer: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// One connection. Dropping it frees the slot.
pub(super) struct ConnectionSlot {
    peer: IpAddr,
    by_peer: Arc<Mutex<HashMap<IpAddr, usize>>>,
    _permit: OwnedSemaphorePermit,
}

impl Default for ConnectionSlots {
    fn default() -> Self {
        let free = Arc::new(Semaphore::new(CONNECTIONS_MAX as usize));
        Self { free, by_peer: Arc::default() }
    }
}

impl ConnectionSlots {
    /// A slot for a connection of this peer; `None` if all slots are taken, or if the peer has `peer_max`.
    pub(super) fn take(&self, peer: IpAddr, peer_max: usize) -> Option<ConnectionSlot> {
        let peer = network_of(peer);
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        let mut by_peer = self.by_peer.lock();
        let count = by_peer.entry(peer).or_default();
        if *count >= peer_max {
            return None;
        }
        *count += 1;
        Some(ConnectionSlot { peer, by_peer: Arc::clone(&self.by_peer), _permit: permit })
    }

    /// Waits until no connection has a slot.
    pub(super) async fn all_free(&self) {
        // The semaphore is never closed.
        drop(self.free.acquire_many(CONNECTIONS_MAX).await);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut by_peer = self.by_peer.lock();
        if let Some(count) = by_peer.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                by_peer.remove(&self.peer);
            }
        }
    }
}

/// The address by which a peer is counted: of IPv6 its network of 64 bits.
fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) & NETWORK_OF_PEER).into(),
        ip @ IpAddr::V4(_) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_peer_and_all_peers_have_a_number_of_slots() {
        let slots = ConnectionSlots::default();
        let first: Vec<_> = (0..8).map_while(|_| slots.take(ip("10.0.0.1"), 3)).collect();
        assert_eq!(first.len(), 3);
        assert!(slots.take(ip("::ffff:10.0.0.1"), 3).is_none());
        let rest: Vec<_> = (0_u32..2_000)
            .map_while(|n| slots.take(Ipv6Addr::from(u128::from(n) << 64).into(), 3))
            .collect();
        assert_eq!(rest.len(), CONNECTIONS_MAX as usize - 3);
        assert!(slots.take(ip("10.0.0.2"), 3).is_none());
        drop((first, rest));
        assert!(slots.by_peer.lock().is_empty());
        assert_eq!(slots.free.available_permits(), CONNECTIONS_MAX as usize);
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        assert_eq!(network_of(ip("2001:db8::1")), network_of(ip("2001:db8::ffff:2")));
        assert_ne!(network_of(ip("2001:db8::1")), network_of(ip("2001:db8:0:1::1")));
    }
}
