//! Every key of a manifest, table by table, in the order of the reference.
//!
//! A key is supported, reserved for a later version, or unknown. Reserved and unknown keys are refused, so
//! no key is accepted and then ignored.

/// The keys of one kind of table.
pub(super) struct Keys {
    /// The name of the table, as it follows "in" in a message.
    pub(super) title: &'static str,
    /// The keys that this version supports.
    pub(super) served: &'static [&'static str],
    /// The keys of the format that this version does not support yet.
    pub(super) later: &'static [&'static str],
    /// A table whose keys are valid here too.
    pub(super) base: Option<&'static Keys>,
}

pub(super) const ROOT: Keys = Keys {
    title: "the manifest",
    served: &["redis", "runner", "server", "defaults", "topics", "schedules"],
    later: &[],
    base: None,
};

pub(super) const REDIS: Keys = Keys {
    title: "[redis]",
    served: &[
        "url",
        "password",
        "ca",
        "cert",
        "key",
        "prefix",
        "poll",
        "durability",
        "node_address_map",
        "managed",
    ],
    later: &[],
    base: None,
};

pub(super) const PASSWORD: Keys =
    Keys { title: "redis.password", served: &["file", "env"], later: &[], base: None };

pub(super) const MANAGED: Keys =
    Keys { title: "redis.managed", served: &["dir", "fsync"], later: &[], base: None };

pub(super) const RUNNER: Keys = Keys {
    title: "[runner]",
    served: &[
        "threads",
        "max_jobs",
        "lease",
        "drain_timeout",
        "log",
        "log_format",
        "memory",
        "cache",
        "compile_memory",
        "compile_time",
        "languages",
        "python_path",
        "otlp",
        "events",
    ],
    later: &[],
    base: None,
};

pub(super) const SERVER: Keys = Keys {
    title: "[server]",
    served: &[
        "listen",
        "probes",
        "tokens",
        "insecure",
        "tls",
        "cors",
        "max_body",
        "max_peer_connections",
        "public_url",
        "open_metrics",
    ],
    later: &[],
    base: None,
};

pub(super) const TLS: Keys =
    Keys { title: "server.tls", served: &["cert", "key"], later: &[], base: None };

pub(super) const DEFAULTS: Keys = Keys {
    title: "[defaults]",
    served: &[
        "concurrency",
        "max_running",
        "delay",
        "ttr",
        "max_attempts",
        "backoff",
        "max_snoozes",
        "max_crashes",
        "on",
        "ttl",
        "if_exists",
        "unique_for",
        "max_pending",
        "retention",
        "max_dead",
        "done_retention",
        "rate",
        "burst",
        "per_key_concurrency",
        "order",
        "shards",
        "priorities",
        "isolation",
        "warm_jobs",
        "snapshot",
        "breaker",
        "smoke",
        "record",
        "rollback",
        "sandbox",
    ],
    later: &[],
    base: None,
};

pub(super) const TOPIC: Keys = Keys {
    title: "a topic",
    served: &["handler", "sha256", "canary", "tests"],
    later: &[],
    base: Some(&DEFAULTS),
};

pub(super) const SANDBOX: Keys = Keys {
    title: "a topic's sandbox",
    served: &[
        "memory",
        "payload",
        "module",
        "log",
        "tables",
        "fuel",
        "push",
        "http",
        "http_private",
        "http_body",
        "kv",
        "dirs",
        "env",
        "config",
        "secrets",
    ],
    later: &[],
    base: None,
};

pub(super) const SECRET: Keys =
    Keys { title: "a secret", served: &["env", "file"], later: &[], base: None };

pub(super) const BACKOFF: Keys = Keys {
    title: "a backoff",
    served: &["base", "factor", "max", "jitter"],
    later: &[],
    base: None,
};

pub(super) const BREAKER: Keys =
    Keys { title: "a breaker", served: &["failures", "probe", "on"], later: &[], base: None };

pub(super) const ROLLBACK: Keys = Keys {
    title: "a topic's rollback",
    served: &["window", "min_jobs", "ratio"],
    later: &[],
    base: None,
};

pub(super) const CANARY: Keys = Keys {
    title: "a topic's canary",
    served: &["handler", "percent", "sha256"],
    later: &[],
    base: None,
};

pub(super) const CASE: Keys = Keys {
    title: "a case",
    served: &[
        "name",
        "payload",
        "headers",
        "attempt",
        "now",
        "config",
        "http",
        "kv",
        "expect",
        "reason",
        "delay",
        "result",
        "follow_ups",
        "log",
        "kv_after",
    ],
    later: &[],
    base: None,
};

pub(super) const FOLLOW_UP: Keys = Keys {
    title: "a follow-up of a case",
    served: &["topic", "id", "payload", "delay"],
    later: &[],
    base: None,
};

pub(super) const EXCHANGE: Keys = Keys {
    title: "an HTTP exchange",
    served: &[
        "method",
        "url",
        "sent",
        "sent_base64",
        "status",
        "headers",
        "body",
        "body_base64",
        "error",
    ],
    later: &[],
    base: None,
};

pub(super) const CASE_FILE: Keys =
    Keys { title: "a file of cases", served: &["topic", "case"], later: &[], base: None };

pub(super) const EXCHANGE_FILE: Keys =
    Keys { title: "a file of exchanges", served: &["http"], later: &[], base: None };

pub(super) const SCHEDULE: Keys = Keys {
    title: "a schedule",
    served: &["name", "topic", "cron", "every", "tz", "payload", "missed", "window"],
    later: &[],
    base: None,
};

/// The tables that are searched for a misplaced key.
const TABLES: [&Keys; 18] = [
    &ROOT, &REDIS, &MANAGED, &RUNNER, &SERVER, &TLS, &TOPIC, &SANDBOX, &BACKOFF, &BREAKER,
    &PASSWORD, &SECRET, &SCHEDULE, &CASE, &ROLLBACK, &CANARY, &FOLLOW_UP, &EXCHANGE,
];

/// Whether a key is valid in its table.
#[derive(Debug, PartialEq)]
pub(super) enum KeyStatus {
    Served,
    Later,
    Unknown {
        /// A suggestion.
        hint: String,
    },
}

impl Keys {
    /// Whether this table supports a key, will support it later, or does not know it.
    pub(super) fn status(&self, key: &str) -> KeyStatus {
        if self.all_served().any(|name| name == key) {
            return KeyStatus::Served;
        }
        if self.all_later().any(|name| name == key) {
            return KeyStatus::Later;
        }
        KeyStatus::Unknown { hint: self.guess(key) }
    }

    fn all_served(&self) -> impl Iterator<Item = &'static str> {
        self.served.iter().chain(self.base.map_or(&[][..], |base| base.served)).copied()
    }

    fn all_later(&self) -> impl Iterator<Item = &'static str> {
        self.later.iter().chain(self.base.map_or(&[][..], |base| base.later)).copied()
    }

    fn guess(&self, key: &str) -> String {
        if let Some(home) = home(key) {
            return format!("`{key}` belongs in {}", home.title);
        }
        match nearest(key, self.all_served().chain(self.all_later())) {
            Some(name) => format!("did you mean `{name}`?"),
            None => {
                let known: Vec<&str> = self.all_served().collect();
                format!("the keys of this table are {}", known.join(", "))
            }
        }
    }
}

/// The first table that supports a key.
pub(super) fn home(key: &str) -> Option<&'static Keys> {
    TABLES.into_iter().find(|table| table.all_served().any(|name| name == key))
}

/// The name most similar to `text`, if its Jaro-Winkler similarity is at least 0.8.
pub(crate) fn nearest<'n>(text: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    const SIMILARITY_MIN: f64 = 0.8;
    names
        .map(|name| (strsim::jaro_winkler(text, name), name))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_supported_reserved_or_unknown() {
        assert_eq!(TOPIC.status("ttr"), KeyStatus::Served);
        let later = Keys { title: "a table", served: &[], later: &["soon"], base: None };
        assert_eq!(later.status("soon"), KeyStatus::Later);
        let hint = |text: &str| KeyStatus::Unknown { hint: text.to_owned() };
        assert_eq!(TOPIC.status("concurency"), hint("did you mean `concurrency`?"));
        assert_eq!(TOPIC.status("payload"), hint("`payload` belongs in a topic's sandbox"));
        assert_eq!(DEFAULTS.status("handler"), hint("`handler` belongs in a topic"));
        assert_eq!(PASSWORD.status("xyz"), hint("the keys of this table are file, env"));
    }

    #[test]
    fn a_topic_accepts_every_key_of_the_defaults() {
        for key in DEFAULTS.served {
            assert_eq!(TOPIC.status(key), KeyStatus::Served, "{key}");
        }
        for key in DEFAULTS.later {
            assert_eq!(TOPIC.status(key), KeyStatus::Later, "{key}");
        }
    }

    #[test]
    fn the_docs_name_every_key() {
        let docs = include_str!("../../../docs/reference/manifest.md");
        for table in TABLES {
            for key in table.all_served().chain(table.all_later()) {
                let named = [format!("`{key}`"), format!(".{key}`"), format!("[{key}]")];
                let known = named.iter().any(|name| docs.contains(name))
                    || docs.contains(&format!("[[{key}]]"))
                    || docs.contains(&format!("[{key}."))
                    || docs.contains(&format!("{key} = "));
                assert!(
                    known,
                    "docs/reference/manifest.md does not name `{key}` in {}",
                    table.title
                );
            }
        }
    }
}
