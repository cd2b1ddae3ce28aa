//! TLS to Redis: which certificates are trusted and shown, and what a failure means.
//!
//! The provider of the cryptography is the one of the HTTP API and of the handlers' requests.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};

use crate::error::TlsProblem;
use crate::wire::small_file;

/// The largest file of certificates or of a key, in bytes.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// The files of certificates. They are read anew for each connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsFiles {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl TlsFiles {
    /// Whether every file can be used.
    pub(crate) fn check(&self, uses_tls: bool) -> Result<(), TlsProblem> {
        match (&self.ca, &self.cert, &self.key) {
            (None, None, None) => Ok(()),
            _ if !uses_tls => Err(TlsProblem::NotUsed),
            (None, ..) => self.with_client_certificate(RootCertStore::empty()).map(drop),
            (Some(_), ..) => self.client_config().map(drop),
        }
    }

    /// The settings of one connection.
    pub(crate) fn client_config(&self) -> Result<ClientConfig, TlsProblem> {
        let roots = match &self.ca {
            Some(file) => roots_of(file)?,
            None => system_roots(),
        };
        self.with_client_certificate(roots)
    }

    fn with_client_certificate(&self, roots: RootCertStore) -> Result<ClientConfig, TlsProblem> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsProblem::Other(error.to_string()))?
            .with_root_certificates(roots);
        let mut config = match (&self.cert, &self.key) {
            (None, None) => config.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let mismatch = |error: rustls::Error| TlsProblem::File {
                    path: key.clone(),
                    reason: format!("it does not belong to {}: {error}", cert.display()),
                };
                config.with_client_auth_cert(chain_of(cert)?, key_of(key)?).map_err(mismatch)?
            }
            _ => return Err(TlsProblem::HalfPair),
        };
        // A link lives long, and its successor may show another certificate.
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsProblem> {
    small_file::read(path, PEM_BYTES_MAX).map_err(|error| file_problem(path, &error))
}

fn file_problem(path: &Path, reason: &dyn ToString) -> TlsProblem {
    TlsProblem::File { path: path.to_owned(), reason: reason.to_string() }
}

fn chain_of(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsProblem> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    let chain = chain.map_err(|error| file_problem(path, &format!("not PEM: {error}")))?;
    if chain.is_empty() {
        return Err(file_problem(path, &"it does not contain a certificate"));
    }
    Ok(chain)
}

fn key_of(path: &Path) -> Result<PrivateKeyDer<'static>, TlsProblem> {
    PrivateKeyDer::from_pem_slice(&read(path)?)
        .map_err(|error| file_problem(path, &format!("it has no private key in PEM: {error}")))
}

fn roots_of(path: &Path) -> Result<RootCertStore, TlsProblem> {
    let mut roots = RootCertStore::empty();
    for certificate in chain_of(path)? {
        roots.add(certificate).map_err(|error| file_problem(path, &error))?;
    }
    Ok(roots)
}

/// The roots of the system, which SSL_CERT_FILE and SSL_CERT_DIR can replace. If the system has no roots, like an
/// image made from scratch, the Mozilla roots that were compiled in.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}

/// What a failed handshake, read or write means; `None` if it is not a failure of TLS.
pub(crate) fn problem_of(error: &io::Error, name: &ServerName<'_>) -> Option<TlsProblem> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match error {
        rustls::Error::InvalidCertificate(error) => certificate_problem(error, name),
        rustls::Error::AlertReceived(alert) => alert_problem(*alert),
        rustls::Error::InvalidMessage(_) => TlsProblem::NotTls,
        rustls::Error::PeerIncompatible(_) => TlsProblem::NothingInCommon,
        other => TlsProblem::Other(other.to_string()),
    })
}

fn certificate_problem(error: &CertificateError, name: &ServerName<'_>) -> TlsProblem {
    let host = || name.to_str().into_owned();
    match error {
        // An issuer of a known name whose key is another one.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            TlsProblem::UnknownIssuer
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsProblem::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            TlsProblem::NotYetValid
        }
        CertificateError::NotValidForName => TlsProblem::Name { host: host(), names: Vec::new() },
        CertificateError::NotValidForNameContext { presented, .. } => {
            TlsProblem::Name { host: host(), names: presented.iter().map(|n| plain(n)).collect() }
        }
        other => TlsProblem::Other(format!("its certificate is refused: {other}")),
    }
}

/// A name of a certificate without the library's wrapping: `DnsName("a.example")`.
fn plain(name: &str) -> String {
    name.split('"').nth(1).unwrap_or(name).to_owned()
}

fn alert_problem(alert: AlertDescription) -> TlsProblem {
    use AlertDescription as Alert;
    let reason = || format!("{alert:?}");
    match alert {
        Alert::CertificateRequired | Alert::NoCertificate => TlsProblem::ClientCertificateRequired,
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::DecryptError
        | Alert::AccessDenied => TlsProblem::ClientCertificateRefused { reason: reason() },
        Alert::ProtocolVersion | Alert::InsufficientSecurity | Alert::HandshakeFailure => {
            TlsProblem::NothingInCommon
        }
        _ => TlsProblem::Other(format!("it answers the alert {alert:?}")),
    }
}
