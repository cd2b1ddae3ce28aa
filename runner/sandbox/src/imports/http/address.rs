//! The SSRF check: which IP addresses a handler may connect to.
//!
//! An address that contains another one (IPv4 in IPv6, tunnels, translators) is as public as the address
//! that its packets finally reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Whether the host may connect to an address: it is public, or a private one that is granted.
pub(super) fn may_connect(address: IpAddr, private: &[IpNet]) -> bool {
    let plain = address.to_canonical();
    is_public(address)
        || private.iter().any(|range| range.contains(&plain) || range.contains(&address))
}

/// Whether packets to this address go to the public internet, as far as the address itself shows.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = match a {
        // This network, private, loopback, multicast, reserved and broadcast.
        0 | 10 | 127 | 224..=255 => true,
        // Carrier-grade NAT.
        100 => (64..128).contains(&b),
        // Link-local, with the metadata services of clouds.
        169 => b == 254,
        172 => (16..32).contains(&b),
        // Protocol assignments, documentation, the anycast address of 6to4, private.
        192 => (b == 0 && (c == 0 || c == 2)) || (b == 88 && c == 99) || b == 168,
        // Benchmarks, documentation.
        198 => b == 18 || b == 19 || (b == 51 && c == 100),
        203 => b == 0 && c == 113,
        _ => false,
    };
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    match (a, b) {
        // A mapped address (::ffff:a.b.c.d) is the IPv4 address itself.
        (0, 0) if (c, d, e, f) == (0, 0, 0, 0xffff) => is_public_v4(v4(g, h)),
        // NAT64 reaches an IPv4 address. Its local-use prefix (64:ff9b:1::/48) may reach any network.
        (0x64, 0xff9b) => (c, d, e, f) == (0, 0, 0, 0) && is_public_v4(v4(g, h)),
        // 6to4 reaches an IPv4 address.
        (0x2002, _) => is_public_v4(v4(b, c)),
        // Protocol assignments: Teredo (2001::/32), benchmarks, ORCHID.
        (0x2001, 0..=0x1ff) => false,
        // Documentation.
        (0x2001, 0xdb8) => false,
        (0x3fff, 0..=0xfff) => false,
        // All other public unicast addresses are in 2000::/3. Outside of it are the unspecified address,
        // loopback, IPv4-compatible and translated addresses, discard, unique local, link-local,
        // site-local, multicast and unassigned ranges.
        _ => a & 0xe000 == 0x2000,
    }
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(address: &str) -> bool {
        is_public(address.parse().unwrap())
    }

    #[test]
    fn special_ranges_of_ipv4_are_not_public_and_their_neighbours_are() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.0.0",
            "169.254.169.254",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.170",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.255",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
        ] {
            assert!(!public(address), "{address}");
        }
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "192.0.3.0",
            "192.88.98.255",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.255",
            "198.51.101.0",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
        ] {
            assert!(public(address), "{address}");
        }
    }

    #[test]
    fn special_ranges_of_ipv6_are_not_public_and_their_neighbours_are() {
        for address in [
            "::",
            "::1",
            "::2",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:0:8.8.8.8",
            "100::1",
            "64:ff9b:1::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:1ff:ffff::",
            "2001:db8::1",
            "3fff::1",
            "3fff:fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "ff0e::1",
        ] {
            assert!(!public(address), "{address}");
        }
        for address in [
            "2000::1",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2001:db7::1",
            "2001:db9::1",
            "2606:4700::1",
            "2a00::1",
            "3ffe::1",
            "3fff:1000::1",
        ] {
            assert!(public(address), "{address}");
        }
    }

    #[test]
    fn an_address_inside_another_is_checked() {
        for (inner, is_open) in [
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("169.254.169.254", false),
            ("8.8.8.8", true),
        ] {
            let [a, b, c, d] = inner.parse::<Ipv4Addr>().unwrap().octets();
            let hex = format!("{a:02x}{b:02x}:{c:02x}{d:02x}");
            for address in
                [format!("::ffff:{inner}"), format!("64:ff9b::{inner}"), format!("2002:{hex}::1")]
            {
                assert_eq!(public(&address), is_open, "{address}");
            }
        }
    }

    fn may(address: &str, private: &[&str]) -> bool {
        let private: Vec<IpNet> = private.iter().map(|range| range.parse().unwrap()).collect();
        may_connect(address.parse().unwrap(), &private)
    }

    #[test]
    fn a_private_range_grants_only_its_own_addresses() {
        assert!(may("8.8.8.8", &[]));
        assert!(!may("10.0.0.1", &[]));
        assert!(may("10.0.0.1", &["10.0.0.0/30"]));
        assert!(!may("10.0.0.4", &["10.0.0.0/30"]));
        assert!(may("fd00::1", &["fd00::/8"]));
        assert!(!may("fe80::1", &["fd00::/8", "10.0.0.0/8"]));
        // The same address in another notation.
        assert!(may("::ffff:10.0.0.1", &["10.0.0.0/8"]));
        assert!(!may("::ffff:127.0.0.1", &["10.0.0.0/8"]));
        // The destination behind a translator is unknown, so a grant does not cover it.
        assert!(!may("64:ff9b::10.0.0.1", &["10.0.0.0/8"]));
    }
}
