//! A TLS certificate and its key, read from files.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
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

/// Why a pair is invalid.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The certificate is not PEM.
    #[error("{} is not PEM: {error}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: pem::Error,
    },
    /// There is no certificate.
    #[error("{} does not contain a certificate", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// There is no key.
    #[error("{} does not contain a private key in PEM: {error}", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: pem::Error,
    },
    /// The key is of another certificate, or either is invalid.
    #[error("{} and {} do not belong together: {error}", cert.display(), key.display())]
    Mismatch {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What is wrong.
        error: rustls::Error,
    },
}

impl TlsPair {
    /// Reads a pair and checks that the key belongs to the certificate.
    ///
    /// # Errors
    /// [`TlsError`]: which file is invalid, and why.
    pub fn load(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            regular_file::read(path, PEM_BYTES_MAX)
                .map_err(|error| TlsError::Read { path: path.to_owned(), error })
        };
        let contents = [read(cert)?, read(key)?];
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&contents[0]).collect();
        let chain = chain.map_err(|error| TlsError::Pem { path: cert.to_owned(), error })?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate { path: cert.to_owned() });
        }
        let secret = PrivateKeyDer::from_pem_slice(&contents[1])
            .map_err(|error| TlsError::NoKey { path: key.to_owned(), error })?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map(|builder| builder.with_no_client_auth())
            .and_then(|builder| builder.with_single_cert(chain, secret));
        let mut config = config.map_err(|error| TlsError::Mismatch {
            cert: cert.to_owned(),
            key: key.to_owned(),
            error,
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
