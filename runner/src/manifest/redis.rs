//! `[redis]`: the Redis that holds the queue, and the credentials for it.
//!
//! A password is never shown: not in `Debug` and not in a message.

pub(super) mod certificates;
pub(super) mod password;
pub(super) mod url;

use std::collections::BTreeMap;
use std::time::Duration;

use duebox_queue::{ConnectionSettings, Durability, QueueError};

use self::certificates::Certificates;
use self::password::Password;
use self::url::RedisUrl;
use super::environment::Setting;
use super::keys::MANAGED;
use super::reader::ManifestReader;
use super::section::Section;
use crate::redis_host::managed::Fsync;

const URL_HINT: &str = "write redis://[user:password@]host[:port][/database], the same with rediss:// for TLS, \
     redis-sentinel://host[:port],host[:port]/master[/database], redis-cluster://host[:port],host[:port], \
     unix:///path/to/redis.sock or managed";

/// The Redis that holds the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redis {
    /// The server.
    pub url: RedisUrl,
    /// The password, if it is not part of the URL.
    pub password: Option<Password>,
    /// The certificates for TLS.
    pub certificates: Certificates,
    /// The prefix of every key; 1 to 64 of `A-Z a-z 0-9 . _ - :`.
    pub prefix: String,
    /// The longest time until a push by plain Redis commands is found; 10 ms to 1 minute.
    pub poll: Duration,
    /// What a confirmed push survives.
    pub durability: Durability,
    /// Addresses that servers of a cluster or sentinels announce, and those to use in their place.
    pub node_address_map: BTreeMap<String, String>,
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
        let password = Password::read(section);
        password::refuse_useless(section, url.as_ref());
        let certificates = Certificates::read(section, url.as_ref());
        let prefix = check_prefix(section).unwrap_or_else(|| "duebox".to_owned());
        let poll = section
            .duration("poll", Duration::from_millis(10)..=Duration::from_secs(60))
            .unwrap_or(Duration::from_secs(1));
        let durability = read_durability(section, url.as_ref());
        let node_address_map = read_node_addresses(section);
        Some(Self { url: url?, password, certificates, prefix, poll, durability, node_address_map })
    }

    /// The settings of a connection to this address: the one of the manifest, or that of the managed server.
    pub fn connection(&self, url: &str) -> ConnectionSettings {
        let settings = ConnectionSettings::new(url).with_durability(self.durability);
        // The manifest was checked: each is host:port.
        let settings =
            settings.clone().with_node_addresses(self.node_address_map.clone()).unwrap_or(settings);
        let settings = self.certificates.add_to(settings);
        match &self.password {
            Some(password) => password.add_to(settings),
            None => settings,
        }
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
        "redis" | "rediss" | "unix" | "redis+unix" => {}
        "redis-sentinel" | "rediss-sentinel" | "redis-cluster" | "rediss-cluster" => {}
        "" => {
            refuse(format!("`{name}` is not a URL"), URL_HINT);
            return None;
        }
        other => {
            refuse(format!("`{name}`: {other}:// is not a Redis scheme"), URL_HINT);
            return None;
        }
    }
    match ConnectionSettings::new(&text).check() {
        Ok(()) => Some(text),
        Err(QueueError::Address { reason, .. }) => {
            refuse(format!("`{name}` is not a Redis URL: {reason}"), URL_HINT);
            None
        }
        Err(error) => {
            refuse(format!("`{name}`: {}", error.problem()), error.remedy().unwrap_or(URL_HINT));
            None
        }
    }
}

/// The durability. A managed Redis has no replica that could have a copy.
fn read_durability(section: &Section<'_>, url: Option<&RedisUrl>) -> Durability {
    let words = [Durability::Async, Durability::Replica, Durability::Disk];
    let words = words.map(|durability| (durability.word(), durability));
    let durability = section.choice("durability", &words).unwrap_or_default();
    if durability == Durability::Replica && matches!(url, Some(RedisUrl::Managed { .. })) {
        section.reader().refuse(
            section.value_at("durability"),
            "`durability` is \"replica\", and a managed Redis has no replica".to_owned(),
            "write \"disk\", or use a Redis with a replica",
        );
    }
    durability
}

/// The addresses of servers that are reached under others, each `host:port`.
fn read_node_addresses(section: &Section<'_>) -> BTreeMap<String, String> {
    let reader = section.reader();
    let mut addresses = BTreeMap::new();
    for (announced, value) in section.table("node_address_map").into_iter().flatten() {
        let Some(used) = reader.text("node_address_map", value) else { continue };
        let pair = (announced.get_ref().to_string(), used);
        match ConnectionSettings::new("redis://any").with_node_addresses([pair.clone()]) {
            Ok(_) => drop(addresses.insert(pair.0, pair.1)),
            Err(error) => reader.refuse(
                Some(announced.span()),
                format!("`node_address_map`: {}", error.problem()),
                "write \"announced:port\" = \"host:port\"",
            ),
        }
    }
    addresses
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::redis::password::Secret;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
        let url = RedisUrl::Url("redis://me:hun@ter2@host:1/0".into());
        assert_eq!(format!("{url} {url:?}"), "redis://…@host:1/0 redis://…@host:1/0");
        assert_eq!(RedisUrl::Url("redis://host".into()).to_string(), "redis://host");
    }
}
