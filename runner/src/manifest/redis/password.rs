//! `redis.password`: the source of the password, a file or a variable.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use duebox_queue::{ConnectionSettings, QueueError};

use super::super::keys::PASSWORD;
use super::super::reader::ManifestReader;
use super::super::section::Section;
use super::url::RedisUrl;

/// A text that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text that must not be shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The password, if it is not part of the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Password {
    /// The value of a variable.
    Text(Secret),
    /// A file, which is read anew for each connection.
    File(PathBuf),
}

impl Password {
    /// Reads `redis.password`; `None` if it is absent or was refused.
    pub(super) fn read(section: &Section<'_>) -> Option<Self> {
        let value = section.value("password")?;
        let at = section.key_at("password");
        if value.get_ref().is_str() {
            section.reader().redact(value.span());
            section.reader().refuse(
                at,
                "`password` is a string; a manifest must not contain passwords".to_owned(),
                "write { file = \"/run/secrets/redis\" } or { env = \"REDIS_PASSWORD\" }",
            );
            return None;
        }
        let source = section.section("password", &PASSWORD);
        let reader = source.reader();
        match (source.value("file"), source.value("env")) {
            (Some(file), None) => {
                let hint = "set a file that contains only the password";
                known(reader, file.span(), of_file(source.path("file")?), hint)
            }
            (None, Some(env)) => {
                let name = source.text("env")?;
                let text = reader.environment().variable(&name).filter(|text| !text.is_empty());
                let password = text
                    .map(|text| Self::Text(Secret::new(text)))
                    .ok_or_else(|| format!("variable {name} is not set"));
                known(reader, env.span(), password, &format!("set {name} to the password"))
            }
            _ if value.get_ref().is_table() => {
                let title = "`password` needs either file or env".to_owned();
                let hint =
                    "write { file = \"/run/secrets/redis\" } or { env = \"REDIS_PASSWORD\" }";
                reader.refuse(at, title, hint);
                None
            }
            _ => None,
        }
    }

    /// The settings with this password.
    pub(super) fn add_to(&self, settings: ConnectionSettings) -> ConnectionSettings {
        match self {
            Self::Text(secret) => settings.with_password(secret.expose()),
            Self::File(path) => settings.with_password_file(path),
        }
    }
}

/// A file that can be read now.
fn of_file(path: PathBuf) -> Result<Password, String> {
    match ConnectionSettings::new("redis://any").with_password_file(&path).check() {
        Ok(()) => Ok(Password::File(path)),
        Err(QueueError::PasswordFile { reason }) => Err(reason),
        Err(other) => Err(other.problem()),
    }
}

fn known(
    reader: &ManifestReader<'_>,
    at: Range<usize>,
    password: Result<Password, String>,
    hint: &str,
) -> Option<Password> {
    match password {
        Ok(password) => Some(password),
        Err(why) => {
            reader.refuse(Some(at), format!("`password`: {why}"), hint);
            None
        }
    }
}

/// Refuses a second password, and a password for a managed Redis.
pub(super) fn refuse_useless(section: &Section<'_>, url: Option<&RedisUrl>) {
    let (Some(url), Some(at)) = (url, section.key_at("password")) else { return };
    let (title, hint) = match url {
        RedisUrl::Managed { .. } => (
            "a managed Redis has no password; only this user can open its socket",
            "remove `password`, or set the URL of a Redis that needs one",
        ),
        RedisUrl::Url(url) => {
            if !ConnectionSettings::new(url).has_password_in_url() {
                return;
            }
            ("there are two passwords: one in the URL and one in `password`", "keep one of them")
        }
    };
    section.reader().refuse(Some(at), title.to_owned(), hint);
}
