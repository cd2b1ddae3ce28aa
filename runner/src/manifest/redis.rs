//! `[redis]`: the Redis that holds the queue, and the credentials for it.
//!
//! A password is never shown: not in `Debug` and not in a message.

use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::redis_host::managed::Fsync;
use crate::regular_file;

use super::environment::Setting;
use super::keys::{MANAGED, PASSWORD};
use super::reader::ManifestReader;
use super::section::Section;

/// The largest password file, in bytes.
const PASSWORD_BYTES_MAX: u64 = 4096;

const URL_HINT: &str =
    "write redis://[user:password@]host[:port][/database], unix:///path/to/redis.sock or managed";

/// The Redis that holds the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redis {
    /// The server.
    pub url: RedisUrl,
    /// The password, if it is not part of the URL.
    pub password: Option<Secret>,
    /// The prefix of every key; 1 to 64 of `A-Z a-z 0-9 . _ - :`.
    pub prefix: String,
    /// The longest time until a push by plain Redis commands is found; 10 ms to 1 minute.
    pub poll: Duration,
}

/// The Redis server to use.
#[derive(Clone, PartialEq, Eq)]
pub enum RedisUrl {
    /// An existing server: `redis://…` or `unix://…`.
    Url(String),
    /// A server that the daemon starts and owns.
    Managed {
        /// The directory of its data, socket and log.
        dir: PathBuf,
        /// When its append-only file is synced to the disk.
        fsync: Fsync,
    },
}

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

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for RedisUrl {
    /// The URL with its password masked.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Managed { dir, .. } => write!(f, "managed in {}", dir.display()),
            Self::Url(url) => match (url.split_once("://"), url.rsplit_once('@')) {
                (Some((scheme, _)), Some((_, host))) => write!(f, "{scheme}://…@{host}"),
                _ => f.write_str(url),
            },
        }
    }
}

impl Redis {
    /// Reads `[redis]`; `None` if the URL is invalid.
    pub(super) fn read(section: &Section<'_>) -> Option<Self> {
        let reader = section.reader();
        let managed = section.section("managed", &MANAGED);
        let dir = managed.path("dir");
        let words = [Fsync::Always, Fsync::Everysec, Fsync::No].map(|fsync| (fsync.name(), fsync));
        let fsync = managed.choice("fsync", &words).unwrap_or_default();
        let setting = reader.environment().redis_url().or_else(|| url_of_file(section));
        let url = match setting {
            Some(setting) if setting.text == "managed" => Some(RedisUrl::Managed {
                dir: dir.unwrap_or_else(|| reader.folder().join("data")),
                fsync,
            }),
            Some(setting) => check_url(reader, setting).map(RedisUrl::Url),
            None => None,
        };
        let password = read_password(section);
        refuse_useless_password(section, url.as_ref());
        let prefix = check_prefix(section).unwrap_or_else(|| "duebox".to_owned());
        let poll = section
            .duration("poll", Duration::from_millis(10)..=Duration::from_secs(60))
            .unwrap_or(Duration::from_secs(1));
        Some(Self { url: url?, password, prefix, poll })
    }
}

/// `redis.url` of the file, or its default; `None` if the value was refused.
fn url_of_file(section: &Section<'_>) -> Option<Setting> {
    let text = match section.value("url") {
        Some(_) => section.text("url")?,
        None => section
            .reader()
            .environment()
            .variable("REDIS_URL")
            .filter(|url| !url.is_empty())
            .unwrap_or("redis://127.0.0.1:6379/0")
            .to_owned(),
    };
    Some(Setting { text, name: "redis.url", at: section.value_at("url") })
}

/// Checks a URL. Messages do not contain the URL, because it may contain a password.
fn check_url(reader: &ManifestReader<'_>, Setting { text, name, at }: Setting) -> Option<String> {
    let refuse = |title: String, hint: &str| reader.refuse(at.clone(), title, hint);
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    match scheme {
        "redis" | "unix" | "redis+unix" => {}
        "rediss" | "redis-sentinel" | "redis-cluster" => {
            let title = format!("`{name}`: {scheme}:// is not supported by this version");
            refuse(title, "use redis://, unix:// or managed; a later version will support it");
            return None;
        }
        "" => {
            refuse(format!("`{name}` is not a URL"), URL_HINT);
            return None;
        }
        other => {
            refuse(format!("`{name}`: {other}:// is not a Redis scheme"), URL_HINT);
            return None;
        }
    }
    match text.parse::<redis::ConnectionInfo>() {
        Ok(_) => Some(text),
        Err(error) => {
            let reason = error.detail().unwrap_or("it cannot be read").to_owned();
            refuse(format!("`{name}` is not a Redis URL: {reason}"), URL_HINT);
            None
        }
    }
}

fn check_prefix(section: &Section<'_>) -> Option<String> {
    let prefix = section.text("prefix")?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':');
    if (1..=64).contains(&prefix.len()) && prefix.chars().all(allowed) {
        return Some(prefix);
    }
    section.reader().refuse(
        section.value_at("prefix"),
        format!("`prefix` is {prefix:?}; it must be 1 to 64 letters, digits, '.', '_', '-' or ':'"),
        "choose a short name, such as \"duebox\"",
    );
    None
}

/// Reads the password from the source in `redis.password`.
fn read_password(section: &Section<'_>) -> Option<Secret> {
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
    match (source.value("file"), source.value("env")) {
        (Some(file), None) => {
            let path = source.path("file")?;
            let secret = password_of_file(&path);
            record(
                source.reader(),
                file.span(),
                secret,
                "set a file that contains only the password",
            )
        }
        (None, Some(env)) => {
            let name = source.text("env")?;
            let text = source.reader().environment().variable(&name);
            let secret = text
                .filter(|text| !text.is_empty())
                .map(Secret::new)
                .ok_or_else(|| format!("variable {name} is not set"));
            record(source.reader(), env.span(), secret, &format!("set {name} to the password"))
        }
        _ if value.get_ref().is_table() => {
            let title = "`password` needs either file or env".to_owned();
            let hint = "write { file = \"/run/secrets/redis\" } or { env = \"REDIS_PASSWORD\" }";
            source.reader().refuse(at, title, hint);
            None
        }
        _ => None,
    }
}

fn record(
    reader: &ManifestReader<'_>,
    at: Range<usize>,
    secret: Result<Secret, String>,
    hint: &str,
) -> Option<Secret> {
    match secret {
        Ok(secret) => Some(secret),
        Err(why) => {
            reader.refuse(Some(at), format!("`password`: {why}"), hint);
            None
        }
    }
}

/// Reads a password file without its final line ending.
fn password_of_file(path: &Path) -> Result<Secret, String> {
    let unreadable = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = regular_file::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(PASSWORD_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    let password = text.trim_end_matches(['\r', '\n']);
    if password.is_empty() || text.len() as u64 > PASSWORD_BYTES_MAX {
        return Err(format!("{} does not contain a password of 1 to 4096 bytes", path.display()));
    }
    Ok(Secret::new(password))
}

/// Refuses a second password, and a password for a managed Redis.
fn refuse_useless_password(section: &Section<'_>, url: Option<&RedisUrl>) {
    let (Some(url), Some(at)) = (url, section.key_at("password")) else { return };
    let (title, hint) = match url {
        RedisUrl::Managed { .. } => (
            "a managed Redis has no password; only this user can open its socket",
            "remove `password`, or set the URL of a Redis that needs one",
        ),
        RedisUrl::Url(url) => {
            let info = url.parse::<redis::ConnectionInfo>();
            if !info.is_ok_and(|info| info.redis_settings().password().is_some()) {
                return;
            }
            ("there are two passwords: one in the URL and one in `password`", "keep one of them")
        }
    };
    section.reader().refuse(Some(at), title.to_owned(), hint);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
        let url = RedisUrl::Url("redis://me:hun@ter2@host:1/0".into());
        assert_eq!(format!("{url} {url:?}"), "redis://…@host:1/0 redis://…@host:1/0");
        assert_eq!(RedisUrl::Url("redis://host".into()).to_string(), "redis://host");
    }
}
