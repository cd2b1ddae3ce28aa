//! A certificate authority for tests, and the certificates that it issues.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

/// Signs certificates. No machine trusts it unless a test says so.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key as PEM files in one folder.
#[derive(Debug, Clone)]
pub struct CertificateFiles {
    /// The certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl CertificateFiles {
    /// The arguments of a redis-server that shows this certificate, and demands none of its clients.
    pub(crate) fn server_args(&self, authority: &Path) -> Vec<String> {
        let files = [
            ("ca-cert-file", authority),
            ("cert-file", self.cert.as_path()),
            ("key-file", self.key.as_path()),
        ];
        let files = files
            .iter()
            .flat_map(|(name, path)| [format!("--tls-{name}"), path.display().to_string()]);
        files.chain(["--tls-auth-clients", "no"].map(str::to_owned)).collect()
    }
}

impl Authority {
    /// A new authority with a key of its own.
    ///
    /// # Panics
    /// If the key cannot be made.
    pub fn new() -> Self {
        let mut params = valid_in(&[], 2020, 4000);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the authority of a test");
        let key = new_key();
        match params.self_signed(&key) {
            Ok(certificate) => {
                let pem = certificate.pem();
                Self { issuer: Issuer::new(params, key), pem }
            }
            Err(error) => panic!("no authority: {error}"),
        }
    }

    /// Writes its certificate to a file.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> PathBuf {
        write(path, &self.pem)
    }

    /// Issues a certificate for these names, and writes it as `NAME.pem` and its key as `NAME.key`.
    ///
    /// # Panics
    /// If a file cannot be written.
    pub fn issue(&self, folder: &Path, name: &str, names: &[&str]) -> CertificateFiles {
        self.issue_valid_in(folder, name, names, 2020, 4000)
    }

    /// The same, valid from the start of one year to the start of another.
    ///
    /// # Panics
    /// If a file cannot be written.
    pub fn issue_valid_in(
        &self,
        folder: &Path,
        name: &str,
        names: &[&str],
        from: i32,
        until: i32,
    ) -> CertificateFiles {
        let key = new_key();
        let mut params = valid_in(names, from, until);
        params.distinguished_name.push(DnType::CommonName, name);
        match params.signed_by(&key, &self.issuer) {
            Ok(certificate) => CertificateFiles {
                cert: write(&folder.join(format!("{name}.pem")), &certificate.pem()),
                key: write(&folder.join(format!("{name}.key")), &key.serialize_pem()),
            },
            Err(error) => panic!("no certificate for {names:?}: {error}"),
        }
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

fn valid_in(names: &[&str], from: i32, until: i32) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    match CertificateParams::new(names) {
        Ok(mut params) => {
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(until, 1, 1);
            params
        }
        Err(error) => panic!("no certificate: {error}"),
    }
}

fn new_key() -> KeyPair {
    match KeyPair::generate() {
        Ok(key) => key,
        Err(error) => panic!("no key: {error}"),
    }
}

fn write(path: &Path, text: &str) -> PathBuf {
    match fs::write(path, text) {
        Ok(()) => path.to_owned(),
        Err(error) => panic!("cannot write {}: {error}", path.display()),
    }
}
