//! The checks that a TLS connection to Redis can fail.

use std::path::PathBuf;

/// Which check of TLS failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsProblem {
    /// Nothing that this program trusts has signed the certificate.
    #[error("its certificate is signed by an unknown issuer")]
    UnknownIssuer,
    /// The certificate is for other names.
    #[error("its certificate is not for {host}, only for {}", shown(names))]
    Name {
        /// The host of the URL.
        host: String,
        /// The names in the certificate.
        names: Vec<String>,
    },
    /// The certificate has expired.
    #[error("its certificate has expired")]
    Expired,
    /// The certificate is not valid yet.
    #[error("its certificate is not valid yet")]
    NotYetValid,
    /// The server wants a certificate of this program and got none.
    #[error("it requires a client certificate")]
    ClientCertificateRequired,
    /// The server refuses the certificate of this program.
    #[error("it refuses the client certificate: {reason}")]
    ClientCertificateRefused {
        /// The alert of the server.
        reason: String,
    },
    /// The server answers, in another protocol.
    #[error("the port does not speak TLS")]
    NotTls,
    /// The server does not answer the handshake, as a port without TLS does.
    #[error("it did not answer the TLS handshake in time")]
    Silent,
    /// The server closed the connection during the handshake.
    #[error("it closed the connection during the TLS handshake: {reason}")]
    Closed {
        /// The reason of the connection.
        reason: String,
    },
    /// There is no version or cipher that both sides support.
    #[error("both sides share no TLS version or cipher")]
    NothingInCommon,
    /// A file of certificates or of a key cannot be used.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A certificate for the client is set without its key, or a key without its certificate.
    #[error("a client certificate and its key are set only together")]
    HalfPair,
    /// There are settings of TLS, and the address does not use it.
    #[error("a certificate is set, and the address does not use TLS")]
    NotUsed,
    /// Any other failure, in the words of the TLS library.
    #[error("{0}")]
    Other(String),
}

impl TlsProblem {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::UnknownIssuer => {
                "set redis.ca to the certificate of the authority that signed it"
            }
            Self::Name { .. } => {
                "write a name of the certificate in redis.url, or issue a certificate for this one"
            }
            Self::Expired => "renew it on the server, or correct the clock of this machine",
            Self::NotYetValid => {
                "correct the clock of this machine or of the one that issued the certificate"
            }
            Self::ClientCertificateRequired => "set redis.cert and redis.key",
            Self::ClientCertificateRefused { .. } => {
                "check that redis.cert has not expired, and that the server trusts its issuer (tls-ca-cert-file)"
            }
            Self::NotTls | Self::Silent => {
                "write redis:// if that port does not take TLS, or the port that does"
            }
            Self::Closed { .. } => "check the log of the server, and that the port takes TLS",
            Self::NothingInCommon => "allow TLS 1.2 or 1.3 on the server (tls-protocols)",
            Self::File { .. } => "correct redis.ca, redis.cert and redis.key: PEM files",
            Self::HalfPair => "set both redis.cert and redis.key, or neither",
            Self::NotUsed => "write rediss:// in redis.url, or remove the certificate",
            Self::Other(_) => "check the certificates and the log of the server",
        }
    }
}

/// The names of a certificate, at most five of them.
fn shown(names: &[String]) -> String {
    const SHOWN_MAX: usize = 5;
    match names.len() {
        0 => "no name".to_owned(),
        count if count > SHOWN_MAX => {
            format!("{} and {} more", names[..SHOWN_MAX].join(", "), count - SHOWN_MAX)
        }
        _ => names.join(", "),
    }
}
