//! `[server]`: the HTTP listeners, access to them, and the size of requests.
//!
//! Without tokens, every client that reaches the address may use the whole API. An address other than
//! loopback is therefore refused unless tokens or `insecure = true` are set.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};

use url::Url;

use super::environment::Setting;
use super::keys::TLS;
use super::network::read_each;
use super::section::Section;
use crate::auth::tls::TlsPair;
use crate::auth::tokens::Tokens;

const LISTEN_HINT: &str =
    "write an address and a port, such as \"127.0.0.1:7280\", or \"\" to serve no HTTP";

const SITE_HINT: &str =
    "write scheme, host and port as a browser sends them, such as \"https://shop.example\"";

/// The default HTTP port.
const PORT: u16 = 7280;

/// A token file and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The tokens in it.
    pub tokens: Tokens,
}

/// The HTTP listeners and the access to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The address of the API; port 0 picks a free port. `None` serves no HTTP.
    pub listen: Option<SocketAddr>,
    /// A separate address for probes and metrics; `None` serves them with the API only.
    pub probes: Option<SocketAddr>,
    /// The tokens; without them every client may do anything.
    pub tokens: Option<TokenFile>,
    /// The TLS certificate and key; plain HTTP without them.
    pub tls: Option<TlsPair>,
    /// The exact origins of other sites whose pages may call the API, such as `https://shop.example`.
    pub cors: Vec<String>,
    /// Whether an address other than loopback is allowed without tokens.
    pub insecure: bool,
    /// The largest request body, in bytes, also after decompression; 1 KiB to 1 GiB.
    pub max_body: usize,
    /// Most connections from one peer, 1 to 1,024.
    pub max_peer_connections: usize,
    /// The origin at which browsers reach the API, if it is not the one in their requests: that of a proxy.
    pub public_url: Option<String>,
    /// Whether metrics and details of probes need no token at the API's address.
    pub open_metrics: bool,
}

impl Server {
    /// Reads `[server]`; `None` if an address is invalid.
    pub(super) fn read(section: &Section<'_>) -> Option<Self> {
        let default = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        let setting = section.reader().environment().listen().or_else(|| listen_of(section));
        let listen = match &setting {
            Some(setting) if setting.text.is_empty() => Some(None),
            Some(setting) => address(section, setting).map(Some),
            None if section.value("listen").is_some() => None,
            None => Some(Some(default)),
        };
        let server = Self {
            listen: listen?,
            probes: probes_of(section)?,
            tokens: tokens_of(section),
            tls: tls_of(section),
            cors: read_each(section, "cors", SITE_HINT, parse_site).unwrap_or_default(),
            insecure: section.boolean("insecure").unwrap_or(false),
            max_body: section.size("max_body", 1 << 10..=1 << 30).unwrap_or(2 << 20),
            max_peer_connections: section.integer("max_peer_connections", 1..=1_024).unwrap_or(512)
                as usize,
            public_url: public_url_of(section),
            open_metrics: section.boolean("open_metrics").unwrap_or(false),
        };
        let at = setting.and_then(|setting| setting.at);
        server.refuse_open(section, at);
        Some(server)
    }

    /// The other files that `[server]` refers to.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let tokens = self.tokens.iter().map(|file| file.path.as_path());
        tokens.chain(self.tls.iter().flat_map(|pair| [pair.cert.as_path(), pair.key.as_path()]))
    }

    /// Refuses an address other than loopback without tokens or `insecure`.
    fn refuse_open(&self, section: &Section<'_>, at: Option<Range<usize>>) {
        let Some(listen) = self.listen.filter(|listen| !is_loopback(listen.ip())) else { return };
        // An unreadable token file is reported separately.
        let has_tokens =
            section.value("tokens").is_some_and(|text| text.get_ref().as_str() != Some(""));
        if self.insecure || has_tokens {
            return;
        }
        section.reader().refuse(
            at,
            format!("`server.listen` is {listen}: other machines can reach it, and without tokens they may do anything"),
            "listen on 127.0.0.1, set `tokens`, or allow it with insecure = true",
        );
    }
}

/// Reads `tokens`: a file, or the empty string for none. Commands that serve no HTTP do not read the file.
fn tokens_of(section: &Section<'_>) -> Option<TokenFile> {
    let reader = section.reader();
    let path = named_file(section, "tokens")?;
    if !reader.environment().runs_handlers() {
        return None;
    }
    match Tokens::load(&path) {
        Ok(tokens) => Some(TokenFile { path, tokens }),
        Err(why) => {
            let title = format!("`tokens`: {}: {why}", path.display());
            let hint = "set a token file; duebox token new prints its entries";
            reader.refuse(section.value_at("tokens"), title, hint);
            reader.await_change(&path);
            None
        }
    }
}

/// Reads `tls`: a certificate and a key, or neither.
fn tls_of(section: &Section<'_>) -> Option<TlsPair> {
    let reader = section.reader();
    let pair = section.section("tls", &TLS);
    let (cert, key) = (named_file(&pair, "cert"), named_file(&pair, "key"));
    let (cert, key) = match (cert, key) {
        (None, None) => return None,
        (Some(cert), Some(key)) => (cert, key),
        _ => {
            let title = "`tls` needs both `cert` and `key`".to_owned();
            let hint = "write { cert = \"cert.pem\", key = \"key.pem\" }";
            reader.refuse(section.key_at("tls"), title, hint);
            return None;
        }
    };
    if !reader.environment().runs_handlers() {
        return None;
    }
    match TlsPair::load(&cert, &key) {
        Ok(pair) => Some(pair),
        Err(why) => {
            let hint = "set a certificate chain and its private key, both in PEM";
            reader.refuse(section.value_at("tls"), format!("`tls`: {why}"), hint);
            reader.await_change(&cert);
            reader.await_change(&key);
            None
        }
    }
}

/// Reads `public_url`: the origin of a proxy in front of the API.
fn public_url_of(section: &Section<'_>) -> Option<String> {
    let text = section.text("public_url").filter(|text| !text.is_empty())?;
    let parsed = parse_site(&text);
    if let Err(why) = &parsed {
        let title = format!("`public_url`: {why}");
        section.reader().refuse(section.value_at("public_url"), title, SITE_HINT);
    }
    parsed.ok()
}

/// Parses the origin of a page, as a browser sends it.
fn parse_site(text: &str) -> Result<String, String> {
    if text.contains('*') {
        return Err(format!("{text:?} contains a wildcard; list each origin"));
    }
    let url = Url::parse(text).map_err(|error| format!("{text:?} is not an origin: {error}"))?;
    let origin = url.origin().ascii_serialization();
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{text:?} is not an http:// or https:// origin"));
    }
    match origin == text {
        true => Ok(origin),
        false => Err(format!("{text:?} is not an origin; write {origin:?}")),
    }
}

/// A path, unless the string is empty.
fn named_file(section: &Section<'_>, key: &str) -> Option<PathBuf> {
    let text = section.value(key)?.get_ref().as_str();
    if text == Some("") { None } else { section.path(key) }
}

/// Whether only this machine can reach the address.
fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

fn listen_of(section: &Section<'_>) -> Option<Setting> {
    let text = section.text("listen")?;
    Some(Setting { text, name: "server.listen", at: section.value_at("listen") })
}

/// Reads `probes`; by default there is no separate address.
fn probes_of(section: &Section<'_>) -> Option<Option<SocketAddr>> {
    if section.value("probes").is_none() {
        return Some(None);
    }
    let (text, at) = (section.text("probes")?, section.value_at("probes"));
    if text.is_empty() {
        return Some(None);
    }
    address(section, &Setting { text, name: "server.probes", at }).map(Some)
}

fn address(section: &Section<'_>, setting: &Setting) -> Option<SocketAddr> {
    let Setting { text, name, at } = setting;
    let text = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let found = text.as_deref().unwrap_or(&setting.text).parse();
    if found.is_err() {
        let title = format!("`{name}` is not an address: {:?}", setting.text);
        section.reader().refuse(at.clone(), title, LISTEN_HINT);
    }
    found.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_recognized() {
        for (ip, is_it) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("0.0.0.0", false),
            ("::", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(ip.parse().unwrap()), is_it, "{ip}");
        }
    }
}
