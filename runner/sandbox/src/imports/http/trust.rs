//! Whom a client of TLS trusts: the roots of the system, and where there are none, as in an image made from
//! scratch, those that Mozilla trusted when this was built.

use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// Sessions of TLS that a client remembers.
const SESSIONS_MAX: usize = 256;

/// The roots, read at the first use: that takes milliseconds, and most daemons never need them.
pub(super) struct Trust {
    given: Vec<CertificateDer<'static>>,
    roots: OnceLock<Arc<RootCertStore>>,
}

impl Trust {
    /// Trusts these roots; without any, those of the system, which `SSL_CERT_FILE` and `SSL_CERT_DIR` name
    /// where they are set.
    pub(super) fn of(given: Vec<CertificateDer<'static>>) -> Self {
        Self { given, roots: OnceLock::new() }
    }

    /// The settings of one client; no two share a session.
    pub(super) fn config(&self) -> Result<ClientConfig, String> {
        let roots = Arc::clone(self.roots.get_or_init(|| Arc::new(read(&self.given))));
        let provider = Arc::new(ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        Ok(config)
    }
}

/// Settings of TLS for a client of the daemon's own, which trusts as handlers' requests do.
///
/// # Errors
/// Why the library refuses them, for people.
pub fn trusting_tls() -> Result<ClientConfig, String> {
    Trust::of(Vec::new()).config()
}

fn read(given: &[CertificateDer<'static>]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    if !given.is_empty() {
        roots.add_parsable_certificates(given.iter().cloned());
        return roots;
    }
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!("some root certificates of this machine cannot be read: {error}");
    }
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        tracing::warn!(
            "this machine has no root certificates; TLS of handlers trusts those that duebox was built with. Install ca-certificates, or name a file by SSL_CERT_FILE"
        );
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}
