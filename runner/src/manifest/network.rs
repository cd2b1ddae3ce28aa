//! The network grants of a sandbox: `http` and `http_private`.

use std::net::IpAddr;

use duebox_sandbox::Origin;
use ipnet::IpNet;

use super::reader::Value;
use super::section::Section;

/// The form of an origin, for hints.
pub(crate) const ORIGIN_HINT: &str = "write scheme, host and port, such as \"https://api.shop.example\" or \"*.internal.example:8443\"";

/// The form of an address range, for hints.
pub(crate) const NETWORK_HINT: &str =
    "write an address or a range, such as \"127.0.0.1\", \"10.0.0.0/8\" or \"fd00::/8\"";

/// Reads `http`, the origins that a handler may call, and reports every invalid one.
pub(super) fn read_origins(section: &Section<'_>) -> Option<Vec<Origin>> {
    read_each(section, "http", ORIGIN_HINT, |text| {
        text.parse().map_err(|error: duebox_sandbox::OriginError| error.to_string())
    })
}

/// Reads `http_private`, the private addresses that may be dialled, and reports every invalid one.
pub(super) fn read_networks(section: &Section<'_>) -> Option<Vec<IpNet>> {
    read_each(section, "http_private", NETWORK_HINT, parse_network)
}

/// Reads each string of an array and reports every invalid one.
pub(super) fn read_each<T>(
    section: &Section<'_>,
    key: &str,
    hint: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<Vec<T>> {
    let reader = section.reader();
    let read_entry = |entry: &Value<'_>| match parse(&reader.text(key, entry)?) {
        Ok(found) => Some(found),
        Err(why) => {
            reader.refuse(Some(entry.span()), format!("`{key}`: {why}"), hint);
            None
        }
    };
    let entries: Vec<Option<T>> = section.list(key)?.iter().map(read_entry).collect();
    entries.into_iter().collect()
}

/// Parses an address or an address range such as `10.0.0.0/8`.
///
/// # Errors
/// Why the text is invalid. A range must start at its first address, and an IPv4 range must not be
/// written as IPv6, because both are more likely mistakes than intended.
pub(crate) fn parse_network(text: &str) -> Result<IpNet, String> {
    let network = match text.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address),
        Err(_) => {
            text.parse().map_err(|_| format!("{text:?} is not an address or an address range"))?
        }
    };
    if network.trunc() != network {
        return Err(format!(
            "{text:?} does not start at the first address of its range, {}",
            network.trunc()
        ));
    }
    match network {
        IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some() => {
            Err(format!("{text:?} is an IPv4 range written as IPv6"))
        }
        _ => Ok(network),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_an_address_or_a_range_from_its_start() {
        let shown = |text: &str| parse_network(text).map(|network| network.to_string());
        assert_eq!(shown("10.0.0.0/8").as_deref(), Ok("10.0.0.0/8"));
        assert_eq!(shown("127.0.0.1").as_deref(), Ok("127.0.0.1/32"));
        assert_eq!(shown("::1").as_deref(), Ok("::1/128"));
        assert_eq!(shown("fd00::/8").as_deref(), Ok("fd00::/8"));
        assert_eq!(shown("0.0.0.0/0").as_deref(), Ok("0.0.0.0/0"));
        assert!(shown("10.1.2.3/8").unwrap_err().contains("of its range, 10.0.0.0/8"));
        assert!(shown("::ffff:10.0.0.0/104").unwrap_err().contains("IPv4"));
        for text in ["", "10", "10.0.0.0/33", "10.0.0.0-10.0.0.9", "localhost", "010.0.0.1"] {
            assert!(shown(text).is_err(), "{text}");
        }
    }
}
