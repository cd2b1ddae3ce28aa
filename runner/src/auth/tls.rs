//! A TLS certificate and its key, read from files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::regular_file;

/// The ALPN protocols, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The largest file of certificates or of a key that is read, in bytes.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// A valid certificate with its key. Two pairs are equal if the contents of their files are equal.
#[derive(Clone)]
pub struct TlsPair {
    /// The file of the certificate chain.
    pub cert: PathBuf,
    /// The file of the key.
    pub key: PathBuf,
    contents: [Vec<u8>; 2],
    config: Arc<ServerConfig>,
}

impl TlsPair {
    /// Reads a pair and checks that the key belongs to the certificate.
    ///
    /// # Errors
    /// Which file is invalid, and why.
    pub fn load(cert: &Path, key: &Path) -> Result<Self, String> {
        let read = |path: &Path| {
            regular_file::read(path, PEM_BYTES_MAX)
                .map_err(|error| format!("{}: {error}", path.display()))
        };
        let contents = [read(cert)?, read(key)?];
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&contents[0]).collect();
        let chain = chain.map_err(|error| format!("{} is not PEM: {error}", cert.display()))?;
        if chain.is_empty() {
            return Err(format!("{} does not contain a certificate", cert.display()));
        }
        let secret = PrivateKeyDer::from_pem_slice(&contents[1]).map_err(|error| {
            format!("{} does not contain a private key in PEM: {error}", key.display())
        })?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map(|builder| builder.with_no_client_auth())
            .and_then(|builder| builder.with_single_cert(chain, secret));
        let mut config = config.map_err(|error| {
            format!("{} and {} do not belong together: {error}", cert.display(), key.display())
        })?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        let (cert, key) = (cert.to_owned(), key.to_owned());
        Ok(Self { cert, key, contents, config: Arc::new(config) })
    }

    /// The server configuration for this pair.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

impl PartialEq for TlsPair {
    fn eq(&self, other: &Self) -> bool {
        (&self.cert, &self.key, &self.contents) == (&other.cert, &other.key, &other.contents)
    }
}

impl Eq for TlsPair {}

impl fmt::Debug for TlsPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsPair").field("cert", &self.cert).finish_non_exhaustive()
    }
}
