//! TLS settings of HTTP clients. They trust the system's root certificates. If the system has none, as in a
//! container image made from scratch, they trust the Mozilla roots that were compiled in.

use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// How many TLS sessions a client remembers.
const SESSIONS_MAX: usize = 256;

/// The TLS library refuses its settings.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("TLS cannot be set up: {0}")]
pub struct TlsError(#[from] rustls::Error);

/// The trusted root certificates. They are read on first use, which takes milliseconds; most daemons never
/// need them.
pub(super) struct TrustedRoots {
    given: Vec<CertificateDer<'static>>,
    store: OnceLock<Arc<RootCertStore>>,
}

impl TrustedRoots {
    /// Trusts these roots. If the list is empty, trusts the system's, which the environment variables
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR` can replace.
    pub(super) fn new(given: Vec<CertificateDer<'static>>) -> Self {
        Self { given, store: OnceLock::new() }
    }

    /// The settings of one client. Clients share no TLS sessions.
    pub(super) fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let roots = Arc::clone(self.store.get_or_init(|| Arc::new(read_roots(&self.given))));
        let provider = Arc::new(ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        Ok(config)
    }
}

/// TLS settings for an HTTP client of the daemon itself. It trusts the same roots as requests of handlers.
///
/// # Errors
/// [`TlsError`] if the TLS library refuses the settings.
pub fn client_tls_config() -> Result<ClientConfig, TlsError> {
    TrustedRoots::new(Vec::new()).client_config()
}

fn read_roots(given: &[CertificateDer<'static>]) -> RootCertStore {
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
            "this machine has no root certificates; requests of handlers trust the roots compiled into duebox. \
             Install ca-certificates, or set SSL_CERT_FILE"
        );
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}
