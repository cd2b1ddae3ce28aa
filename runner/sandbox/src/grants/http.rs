//! Which origins a topic's handler may send requests to. An origin is parsed once, into the form in which
//! URLs are compared.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use url::{Host, Url};

/// What a topic grants of the network. The default is nothing: every call is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpGrant {
    /// The origins that the handler may send requests to.
    pub allow: Vec<Origin>,
    /// Addresses that the handler may connect to although they are not public.
    pub private: Vec<IpNet>,
    /// The largest response body, in bytes.
    pub body_max: usize,
}

impl Default for HttpGrant {
    fn default() -> Self {
        Self { allow: Vec::new(), private: Vec::new(), body_max: 1 << 20 }
    }
}

impl HttpGrant {
    /// Whether one of the origins covers the URL.
    pub fn covers(&self, url: &Url) -> bool {
        self.allow.iter().any(|origin| origin.covers(url))
    }

    /// How many origins it covers, if they can be counted.
    pub(crate) fn origins(&self) -> Option<usize> {
        self.allow.iter().map(Origin::count).sum()
    }
}

/// Hosts with a scheme and a port: `https://api.shop.example`, `*.internal.example:8443`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    text: String,
    scheme: Option<Scheme>,
    host: HostRule,
    port: PortRule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostRule {
    Any,
    /// Every name below this one, but not the name itself. The text starts with a dot.
    Below(String),
    One(Host),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PortRule {
    Any,
    /// The default port of the URL's scheme.
    Standard,
    One(u16),
}

/// Why a text is not an origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// The scheme is neither `http` nor `https`.
    #[error("{0:?} is not a scheme: use http or https")]
    Scheme(String),
    /// The host is missing or malformed.
    #[error(
        "{0:?} is not a host: write a name, *.name for all names below it, * for any, or an address"
    )]
    Host(String),
    /// The port is not a number from 1 to 65535.
    #[error("{0:?} is not a port: write 1 to 65535, or * for any")]
    Port(String),
    /// The text has a path, a query or a user.
    #[error(
        "{0:?} is more than an origin: write only scheme, host and port, without a final slash"
    )]
    More(String),
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let (scheme, rest) = match text.split_once("://") {
            None => (None, text),
            Some(("http", rest)) => (Some(Scheme::Http), rest),
            Some(("https", rest)) => (Some(Scheme::Https), rest),
            Some((scheme, _)) => return Err(OriginError::Scheme(scheme.to_owned())),
        };
        if rest.contains(['/', '?', '#', '@', '\\']) {
            return Err(OriginError::More(text.to_owned()));
        }
        let (host, port) = match rest.rsplit_once(':') {
            // The colons inside the brackets belong to an IPv6 address.
            Some((host, port)) if !port.ends_with(']') => (host, parse_port(port)?),
            _ => (rest, PortRule::Standard),
        };
        Ok(Self { text: text.to_owned(), scheme, host: parse_host(host)?, port })
    }
}

fn parse_port(text: &str) -> Result<PortRule, OriginError> {
    if text == "*" {
        return Ok(PortRule::Any);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if digits && port > 0 => Ok(PortRule::One(port)),
        _ => Err(OriginError::Port(text.to_owned())),
    }
}

fn parse_host(text: &str) -> Result<HostRule, OriginError> {
    let invalid = || OriginError::Host(text.to_owned());
    if text == "*" {
        return Ok(HostRule::Any);
    }
    let (name, is_wildcard) = match text.strip_prefix("*.") {
        Some(name) => (name, true),
        None => (text, false),
    };
    if name.contains('*') {
        return Err(invalid());
    }
    match Host::parse(name).map_err(|_| invalid())? {
        Host::Domain(name) if is_wildcard => {
            Ok(HostRule::Below(format!(".{}", without_final_dot(&name))))
        }
        Host::Domain(name) => Ok(HostRule::One(Host::Domain(without_final_dot(&name).to_owned()))),
        _ if is_wildcard => Err(invalid()),
        address => Ok(HostRule::One(address)),
    }
}

/// `shop.example.` and `shop.example` are the same name.
fn without_final_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

impl Origin {
    /// Whether the origin covers every host, or every host below a top-level name such as `*.com`.
    pub fn covers_anyone(&self) -> bool {
        match &self.host {
            HostRule::Any => true,
            HostRule::Below(suffix) => !suffix[1..].contains('.'),
            HostRule::One(_) => false,
        }
    }

    /// One, or two if it covers both schemes; `None` with a wildcard.
    fn count(&self) -> Option<usize> {
        let is_one = matches!(self.host, HostRule::One(_)) && self.port != PortRule::Any;
        is_one.then_some(if self.scheme.is_some() { 1 } else { 2 })
    }

    /// Whether the origin allows requests without TLS.
    pub fn allows_plain_text(&self) -> bool {
        self.scheme != Some(Scheme::Https)
    }

    /// The host's name, or the name that all covered hosts are below. `None` for an address and for `*`.
    pub fn name(&self) -> Option<&str> {
        match &self.host {
            HostRule::Below(suffix) => Some(&suffix[1..]),
            HostRule::One(Host::Domain(name)) => Some(name),
            HostRule::Any | HostRule::One(_) => None,
        }
    }

    /// The address, if the origin has one instead of a name.
    pub fn address(&self) -> Option<IpAddr> {
        match self.host {
            HostRule::One(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            HostRule::One(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            _ => None,
        }
    }

    fn covers(&self, url: &Url) -> bool {
        let (scheme, standard) = match url.scheme() {
            "http" => (Scheme::Http, 80),
            "https" => (Scheme::Https, 443),
            _ => return false,
        };
        let port = url.port().unwrap_or(standard);
        let port_matches = match self.port {
            PortRule::Any => true,
            PortRule::Standard => port == standard,
            PortRule::One(granted) => port == granted,
        };
        port_matches
            && self.scheme.is_none_or(|granted| granted == scheme)
            && url.host().is_some_and(|host| self.host.covers(&host))
    }
}

impl HostRule {
    fn covers(&self, host: &Host<&str>) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Below(suffix), Host::Domain(name)) => {
                let name = without_final_dot(name);
                name.len() > suffix.len() && name.ends_with(suffix.as_str())
            }
            (Self::One(Host::Domain(granted)), Host::Domain(name)) => {
                granted == without_final_dot(name)
            }
            (Self::One(Host::Ipv4(granted)), Host::Ipv4(address)) => granted == address,
            (Self::One(Host::Ipv6(granted)), Host::Ipv6(address)) => granted == address,
            _ => false,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(origin: &str, url: &str) -> bool {
        origin.parse::<Origin>().unwrap().covers(&Url::parse(url).unwrap())
    }

    #[test]
    fn an_origin_compares_scheme_host_and_port() {
        let shop = "https://api.shop.example";
        assert!(covers(shop, "https://api.shop.example/orders?x=1"));
        assert!(covers(shop, "https://API.shop.example.:443/"));
        for other in [
            "http://api.shop.example/",
            "https://api.shop.example:8443/",
            "https://shop.example/",
            "https://api.shop.example.evil.example/",
            "https://xapi.shop.example/",
        ] {
            assert!(!covers(shop, other), "{other}");
        }
        assert!(covers("http://127.0.0.1:8080", "http://0x7f.1:8080/"));
        assert!(covers("http://[::1]:8080", "http://[0:0::1]:8080/"));
        assert!(!covers("http://127.0.0.1:8080", "http://[::ffff:127.0.0.1]:8080/"));
        assert!(covers("bücher.example", "https://xn--bcher-kva.example/"));
    }

    #[test]
    fn omitted_parts_and_stars_match_anything() {
        let inside = "*.internal.example:8443";
        assert!(covers(inside, "https://a.b.internal.example:8443/"));
        assert!(covers(inside, "http://a.internal.example:8443/"));
        assert!(!covers(inside, "https://internal.example:8443/"));
        assert!(!covers(inside, "https://ainternal.example:8443/"));
        assert!(!covers(inside, "https://a.internal.example/"));
        assert!(covers("shop.example", "http://shop.example/"));
        assert!(covers("shop.example", "https://shop.example/"));
        assert!(!covers("shop.example", "https://shop.example:80/"));
        assert!(covers("https://*", "https://1.2.3.4/"));
        assert!(covers("http://shop.example:*", "http://shop.example:99/"));
    }

    #[test]
    fn an_origin_reports_what_it_covers() {
        let origin = |text: &str| text.parse::<Origin>().unwrap();
        for text in ["*", "https://*:8443", "*.com"] {
            assert!(origin(text).covers_anyone(), "{text}");
        }
        for text in ["shop.example", "*.shop.example", "127.0.0.1", "https://[::1]"] {
            assert!(!origin(text).covers_anyone(), "{text}");
        }
        assert!(origin("a.example").allows_plain_text() && origin("http://*").allows_plain_text());
        assert!(!origin("https://a.example").allows_plain_text());
        assert_eq!(origin("*.shop.example:*").name(), Some("shop.example"));
        assert_eq!((origin("*").name(), origin("*").address()), (None, None));
        assert_eq!(origin("http://[::1]:80").address(), Some("::1".parse().unwrap()));
    }

    #[test]
    fn an_invalid_origin_is_refused_with_its_reason() {
        let error = |text: &str| text.parse::<Origin>().unwrap_err();
        assert!(matches!(error("ftp://a.example"), OriginError::Scheme(_)));
        assert!(matches!(error("https://"), OriginError::Host(_)));
        assert!(matches!(error("a.*.example"), OriginError::Host(_)));
        assert!(matches!(error("*.1.2.3.4"), OriginError::Host(_)));
        assert!(matches!(error("a b"), OriginError::Host(_)));
        for text in ["a.example:0", "a.example:70000", "a.example:+1", "a.example:"] {
            assert!(matches!(error(text), OriginError::Port(_)), "{text}");
        }
        for text in ["https://a.example/", "https://u@a.example", "a.example?x", "a.example\\b"] {
            assert!(matches!(error(text), OriginError::More(_)), "{text}");
        }
    }
}
