//! Risks of `http` and `http_private`: requests to anyone, without TLS, or to what is nobody's business.

use std::net::IpAddr;

use duebox_sandbox::{HttpGrant, Origin, is_public};
use ipnet::IpNet;

use super::Risks;

/// Where clouds hand out a machine's credentials.
const METADATA: [&str; 2] = ["169.254.169.254", "fd00:ec2::254"];
/// This machine itself.
const LOOPBACK: [&str; 2] = ["127.0.0.1", "::1"];
/// Ends of names that no public name has.
const INSIDE: [&str; 8] =
    ["localhost", "local", "internal", "lan", "home.arpa", "svc", "test", "consul"];

impl Risks<'_> {
    pub(super) fn check_network(&self) {
        let Some(http) = &self.topic.grants.http else { return };
        for (number, origin) in http.allow.iter().enumerate() {
            let at = self.entry_at("http", number);
            if origin.covers_anyone() {
                let secrets = if self.has_secrets() { ", its secrets too" } else { "" };
                let what = format!(
                    "`http` covers any host, so its handler may send what it reads to anyone{secrets}"
                );
                self.warn(at, &what, "name the hosts it needs, as in \"https://api.shop.example\"");
            } else if self.has_secrets() && origin.allows_plain_text() && is_outside(origin) {
                let what = format!(
                    "`http` lets requests to {origin} go without TLS, and its handler has secrets"
                );
                self.warn(at, &what, "begin it with https:// unless the way there is yours");
            }
        }
        for (number, range) in http.private.iter().enumerate() {
            self.check_private(http, range, number);
        }
    }

    fn check_private(&self, http: &HttpGrant, range: &IpNet, number: usize) {
        let at = self.entry_at("http_private", number);
        let hint = "grant the addresses it needs, as in \"10.20.0.7\" or \"10.20.0.0/16\"";
        if range.prefix_len() == 0 {
            let what = format!("`http_private` with {range} grants every private address there is");
            self.warn(at, &what, hint);
        } else if covers(range, &METADATA) {
            let what = format!(
                "`http_private` with {range} covers the address where clouds hand out the machine's credentials"
            );
            self.warn(at, &what, "leave 169.254.0.0/16 and fd00:ec2::254 out");
        } else if covers(range, &LOOPBACK) && http.allow.iter().any(|origin| !is_loopback(origin)) {
            let what = format!(
                "`http_private` with {range} opens this machine's own services to every origin in `http` whose name is made to lead here"
            );
            self.warn(
                at,
                &what,
                "grant loopback only beside origins such as \"http://127.0.0.1:8080\"",
            );
        }
    }
}

fn covers(range: &IpNet, addresses: &[&str]) -> bool {
    let mut addresses = addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok());
    addresses.any(|address| range.contains(&address))
}

/// Whether an origin says itself that it is this machine.
fn is_loopback(origin: &Origin) -> bool {
    origin.name() == Some("localhost") || origin.address().is_some_and(|it| it.is_loopback())
}

/// Whether requests to an origin may leave for the open internet, as far as its name tells.
fn is_outside(origin: &Origin) -> bool {
    match (origin.name(), origin.address()) {
        (Some(name), _) => {
            let is_below = |end: &str| {
                name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            };
            name.contains('.') && !INSIDE.iter().any(|end| is_below(end))
        }
        (None, Some(address)) => is_public(address),
        (None, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_whether_it_is_inside() {
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
