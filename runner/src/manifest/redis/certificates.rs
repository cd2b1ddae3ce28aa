//! `redis.ca`, `redis.cert` and `redis.key`: the certificates for TLS to Redis.

use std::path::PathBuf;

use duebox_queue::{ConnectionSettings, QueueError, TlsProblem};

use super::super::section::Section;
use super::url::RedisUrl;

const KEYS: [&str; 3] = ["ca", "cert", "key"];

/// PEM files, which are read anew for each connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Certificates {
    /// The authorities that may sign the server's certificate; without it, those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate chain for a server that demands one, and its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl Certificates {
    /// Reads the keys and checks the files.
    pub(super) fn read(section: &Section<'_>, url: Option<&RedisUrl>) -> Self {
        let Some(first) = KEYS.into_iter().find(|key| section.value(key).is_some()) else {
            return Self::default();
        };
        let [ca, cert, key] = KEYS.map(|key| section.path(key));
        if (section.value("cert").is_some()) != (section.value("key").is_some()) {
            refuse(section, first_of(section, ["cert", "key"]), &TlsProblem::HalfPair);
            return Self::default();
        }
        let certificates = Self { ca, client: cert.zip(key) };
        // An address that a flag or a variable replaces need not use TLS.
        if let Some(url) = url
            && section.reader().environment().redis_url().is_none()
            && !matches!(url, RedisUrl::Url(url) if ConnectionSettings::new(url).uses_tls())
        {
            refuse(section, first, &TlsProblem::NotUsed);
            return certificates;
        }
        certificates.check(section);
        certificates
    }

    /// Refuses files that cannot be used, each at its key.
    fn check(&self, section: &Section<'_>) {
        let any = || ConnectionSettings::new("rediss://any");
        let of_ca = self.ca.as_ref().map(|ca| ("ca", any().with_ca(ca)));
        let of_client = self.client.as_ref().map(|(cert, key)| {
            (first_of(section, ["cert", "key"]), any().with_client_certificate(cert, key))
        });
        for (key, settings) in of_ca.into_iter().chain(of_client) {
            match settings.check() {
                Ok(()) => {}
                Err(QueueError::Tls { problem: TlsProblem::File { path, reason }, .. }) => {
                    let at_key = self.client.as_ref().is_some_and(|(_, file)| *file == path);
                    let key = if at_key && key == "cert" { "key" } else { key };
                    refuse(section, key, &TlsProblem::File { path, reason });
                }
                Err(QueueError::Tls { problem, .. }) => refuse(section, key, &problem),
                Err(_) => {}
            }
        }
    }

    /// The settings with these certificates. An address without TLS takes none.
    pub(super) fn add_to(&self, mut settings: ConnectionSettings) -> ConnectionSettings {
        if !settings.uses_tls() {
            return settings;
        }
        if let Some(ca) = &self.ca {
            settings = settings.with_ca(ca);
        }
        if let Some((cert, key)) = &self.client {
            settings = settings.with_client_certificate(cert, key);
        }
        settings
    }
}

/// The first of two keys that is set.
fn first_of(section: &Section<'_>, keys: [&'static str; 2]) -> &'static str {
    if section.value(keys[0]).is_some() { keys[0] } else { keys[1] }
}

fn refuse(section: &Section<'_>, key: &str, problem: &TlsProblem) {
    section.reader().refuse(section.value_at(key), format!("`{key}`: {problem}"), problem.remedy());
}
