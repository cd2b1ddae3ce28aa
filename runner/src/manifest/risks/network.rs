//! Risks of `http` and `http_private`: requests to any host, without TLS, or to internal services.

use std::net::IpAddr;

use duebox_sandbox::{HttpGrant, Origin, is_public};
use ipnet::IpNet;

use super::Risks;

/// The metadata addresses of cloud providers, which return credentials of the machine.
const METADATA: [&str; 2] = ["169.254.169.254", "fd00:ec2::254"];
/// Addresses of this machine.
const LOOPBACK: [&str; 2] = ["127.0.0.1", "::1"];
/// Suffixes that no public name has.
const INSIDE: [&str; 8] =
    ["localhost", "local", "internal", "lan", "home.arpa", "svc", "test", "consul"];

impl Risks<'_> {
    pub(super) fn check_network(&self) {
        let Some(http) = &self.topic.grants.http else { return };
        for (number, origin) in http.allow.iter().enumerate() {
            let at = self.entry_at("http", number);
            if origin.covers_anyone() {
                let secrets = if self.has_secrets() { ", including its secrets" } else { "" };
                let what = format!(
                    "`http` allows any host, so the handler may send everything it reads anywhere{secrets}"
                );
                self.warn(
                    at,
                    &what,
                    "list the hosts it needs, such as \"https://api.shop.example\"",
                );
            } else if self.has_secrets() && origin.allows_plain_text() && is_outside(origin) {
                let what = format!(
                    "`http` allows requests to {origin} without TLS, and the handler has secrets"
                );
                self.warn(at, &what, "write https:// unless you trust the network to it");
            }
        }
        for (number, range) in http.private.iter().enumerate() {
            self.check_private(http, range, number);
        }
    }

    fn check_private(&self, http: &HttpGrant, range: &IpNet, number: usize) {
        let at = self.entry_at("http_private", number);
        let hint = "grant the addresses it needs, such as \"10.20.0.7\" or \"10.20.0.0/16\"";
        if range.prefix_len() == 0 {
            let what = format!("`http_private` with {range} grants every private address");
            self.warn(at, &what, hint);
        } else if covers(range, &METADATA) {
            let what = format!(
                "`http_private` with {range} covers the metadata address, where clouds serve the machine's credentials"
            );
            self.warn(at, &what, "leave out 169.254.0.0/16 and fd00:ec2::254");
        } else if covers(range, &LOOPBACK) && http.allow.iter().any(|origin| !is_loopback(origin)) {
            let what = format!(
                "`http_private` with {range} opens the services of this machine to every origin in `http` that resolves to loopback"
            );
            self.warn(
                at,
                &what,
                "grant loopback only together with origins such as \"http://127.0.0.1:8080\"",
            );
        }
    }
}

fn covers(range: &IpNet, addresses: &[&str]) -> bool {
    let mut addresses = addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok());
    addresses.any(|address| range.contains(&address))
}

/// Whether an origin names this machine.
fn is_loopback(origin: &Origin) -> bool {
    origin.name() == Some("localhost") || origin.address().is_some_and(|it| it.is_loopback())
}

/// Whether requests to an origin may leave the local network, judged by its name or address.
fn is_outside(origin: &Origin) -> bool {
    match (origin.name(), origin.address()) {
        (Some(name), _) => !is_inside(name),
        (None, Some(address)) => is_public(address),
        (None, None) => true,
    }
}

/// Whether no public name has this form.
pub(super) fn is_inside(name: &str) -> bool {
    let is_below = |end: &&str| {
        name.strip_suffix(*end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    !name.contains('.') || INSIDE.iter().any(is_below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_names_and_addresses_are_recognized() {
        let outside = |origin: &str| is_outside(&origin.parse().unwrap());
        for origin in ["api.shop.example", "http://*.shop.example", "8.8.8.8", "notlocal.org"] {
            assert!(outside(origin), "{origin}");
        }
        for origin in [
            "localhost",
            "ledger",
            "http://ledger.internal:8080",
            "*.prod.svc",
            "10.0.0.7",
            "[::1]",
        ] {
            assert!(!outside(origin), "{origin}");
        }
    }
}
