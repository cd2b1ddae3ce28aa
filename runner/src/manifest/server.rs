//! `[server]`: where HTTP is served, to whom, and how much of a request is taken.
//!
//! Whoever reaches the address may do whatever the API does; so an address beyond this machine is refused
//! unless the manifest says aloud that it is meant.

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
    "write an address and a port, such as \"127.0.0.1:7280\", or \"\" for no HTTP at all";

const SITE_HINT: &str =
    "write scheme, host and port as the browser does, such as \"https://shop.example\"";

/// The port of HTTP where nothing else is said.
const PORT: u16 = 7280;

/// Tokens, and the file they are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFile {
    /// The file.
    pub path: PathBuf,
    /// What it holds.
    pub tokens: Tokens,
}

/// Where HTTP is served, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The address of the API; port 0 is any that is free. None serves no HTTP.
    pub listen: Option<SocketAddr>,
    /// The address of the probes and the metrics alone; none serves them with the API only.
    pub probes: Option<SocketAddr>,
    /// Who may do what; without it anybody everything.
    pub tokens: Option<TokenFile>,
    /// The certificate that is served; plain HTTP without one.
    pub tls: Option<TlsPair>,
    /// The pages of other sites that a browser may call from: exact origins, such as `https://shop.example`.
    pub cors: Vec<String>,
    /// Whether anybody may use an address beyond this machine.
    pub insecure: bool,
    /// The longest body of a request, in bytes, also after it was unpacked; 1 KiB to 1 GiB.
    pub max_body: usize,
}

impl Server {
    /// Reads `[server]`; `None` if something is wrong with an address.
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
        };
        let at = setting.and_then(|setting| setting.at);
        server.refuse_open(section, at);
        Some(server)
    }

    /// The files that are read beside the manifest.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let tokens = self.tokens.iter().map(|file| file.path.as_path());
        tokens.chain(self.tls.iter().flat_map(|pair| [pair.cert.as_path(), pair.key.as_path()]))
    }

    /// Refuses an address that others reach, where everybody may do everything.
    fn refuse_open(&self, section: &Section<'_>, at: Option<Range<usize>>) {
        let Some(listen) = self.listen.filter(|listen| !is_loopback(listen.ip())) else { return };
        // A file that cannot be read is a problem of its own.
        let has_tokens =
            section.value("tokens").is_some_and(|text| text.get_ref().as_str() != Some(""));
        if self.insecure || has_tokens {
            return;
        }
        section.reader().refuse(
            at,
            format!("`server.listen` is {listen}: others reach it, and anybody may do anything"),
            "listen on 127.0.0.1, name a file of tokens, or say that it is meant: insecure = true",
        );
    }
}

/// Reads `tokens`: a file, or the empty text for none. Who serves nothing does not need it.
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
            let hint = "name a file of tokens; duebox token new makes its entries";
            reader.refuse(section.value_at("tokens"), title, hint);
            reader.await_change(&path);
            None
        }
    }
}

/// Reads `tls`: two files, or none.
fn tls_of(section: &Section<'_>) -> Option<TlsPair> {
    let reader = section.reader();
    let pair = section.section("tls", &TLS);
    let (cert, key) = (named_file(&pair, "cert"), named_file(&pair, "key"));
    let (cert, key) = match (cert, key) {
        (None, None) => return None,
        (Some(cert), Some(key)) => (cert, key),
        _ => {
            let title = "`tls` needs both a cert and a key".to_owned();
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
            let hint = "name a certificate chain and its private key, both in PEM";
            reader.refuse(section.value_at("tls"), format!("`tls`: {why}"), hint);
            reader.await_change(&cert);
            reader.await_change(&key);
            None
        }
    }
}

/// The origin of a page, as a browser writes it into a request.
fn parse_site(text: &str) -> Result<String, String> {
    if text.contains('*') {
        return Err(format!("{text:?} stands for many sites; each is named by itself"));
    }
    let url = Url::parse(text).map_err(|error| format!("{text:?} is no origin: {error}"))?;
    let origin = url.origin().ascii_serialization();
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{text:?} is no origin of the web"));
    }
    match origin == text {
        true => Ok(origin),
        false => Err(format!("{text:?} is no origin; that of such a page is {origin:?}")),
    }
}

/// A file, unless its text is empty.
fn named_file(section: &Section<'_>, key: &str) -> Option<PathBuf> {
    let text = section.value(key)?.get_ref().as_str();
    if text == Some("") { None } else { section.path(key) }
}

/// True if only this machine reaches the address.
fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

fn listen_of(section: &Section<'_>) -> Option<Setting> {
    let text = section.text("listen")?;
    Some(Setting { text, name: "server.listen", at: section.value_at("listen") })
}

/// Reads `probes`, whose default is no address of their own.
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
        let title = format!("`{name}` is no address: {:?}", setting.text);
        section.reader().refuse(at.clone(), title, LISTEN_HINT);
    }
    found.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
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
