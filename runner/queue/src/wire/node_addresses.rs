//! Other addresses for the servers that a cluster or a sentinel names: they may be reached, or have a certificate, under
//! another name than the one they announce.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::wire::address::NodeAddress;

/// Announced addresses, and those to use instead of them. Both are `host:port`.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeAddresses(Arc<BTreeMap<String, (String, u16)>>);

impl NodeAddresses {
    /// Reads pairs of `host:port`; the error is the first invalid text.
    pub(crate) fn read(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, String> {
        let mut addresses = BTreeMap::new();
        for (announced, used) in pairs {
            split(&announced).ok_or_else(|| announced.clone())?;
            let used = split(&used).ok_or(used.clone())?;
            addresses.insert(announced, used);
        }
        Ok(Self(Arc::new(addresses)))
    }

    /// The server at an announced address.
    pub(crate) fn node(
        &self,
        host: &str,
        port: u16,
        uses_tls: bool,
    ) -> Result<NodeAddress, String> {
        match self.0.get(&format!("{host}:{port}")) {
            Some((host, port)) => NodeAddress::tcp(host.clone(), *port, uses_tls),
            None => NodeAddress::tcp(host.to_owned(), port, uses_tls),
        }
    }
}

fn split(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let port: u16 = port.parse().ok().filter(|port| *port > 0)?;
    (!host.is_empty() && !host.contains('/')).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announced_address_is_replaced() {
        let pairs = [("10.0.0.1:6379".to_owned(), "c1.example:7000".to_owned())];
        let addresses = NodeAddresses::read(pairs).unwrap();
        for (host, port, node) in
            [("10.0.0.1", 6_379, "c1.example:7000"), ("10.0.0.1", 6_380, "10.0.0.1:6380")]
        {
            assert_eq!(addresses.node(host, port, true).unwrap().to_string(), node);
        }
        for wrong in ["c1.example", ":1", "h:0", "h:x", "redis://h:1"] {
            let pairs = [("h:1".to_owned(), wrong.to_owned())];
            assert_eq!(NodeAddresses::read(pairs).unwrap_err(), wrong);
        }
    }
}
