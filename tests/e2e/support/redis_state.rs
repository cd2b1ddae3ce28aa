//! Reads the state of the queue in Redis with plain commands.

use std::collections::{BTreeMap, BTreeSet};

use duebox_harness::{RedisServer, TestRedis};
use redis::{Client, Cmd, FromRedisValue, RedisResult, cmd};
use serde_json::Value;

/// Queries a Redis. It reconnects for each query and so survives a restart.
pub(crate) struct Store {
    /// The server, or the primaries of a cluster.
    clients: Vec<Client>,
}

impl Store {
    pub(crate) fn new(url: &str) -> Self {
        Self { clients: vec![Client::open(url).unwrap()] }
    }

    pub(crate) fn of(redis: &TestRedis) -> Self {
        let client = |server: &RedisServer| Client::open(server.url()).unwrap();
        Self { clients: redis.primaries().iter().map(client).collect() }
    }

    /// Queries the server that has the key of the command; the first one if it has no key.
    pub(crate) fn ask<T: FromRedisValue>(&self, command: &mut Cmd) -> T {
        let answer = ask_at(&self.clients[0], command);
        let answer = match &answer {
            Err(error) => match error.redirect_node() {
                Some((place, _)) => {
                    ask_at(&Client::open(format!("redis://{place}/")).unwrap(), command)
                }
                None => answer,
            },
            Ok(_) => answer,
        };
        answer.unwrap()
    }

    /// Queries every server that holds keys.
    pub(crate) fn ask_all<T: FromRedisValue>(&self, command: &mut Cmd) -> Vec<T> {
        self.clients.iter().map(|client| ask_at(client, command).unwrap()).collect()
    }

    /// The names of the keys that match a pattern.
    fn matching(&self, pattern: &str) -> impl Iterator<Item = String> + use<> {
        self.ask_all::<Vec<String>>(cmd("KEYS").arg(pattern)).into_iter().flatten()
    }

    /// The time by Redis' clock, unix milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        let (seconds, micros): (u64, u64) = self.ask(&mut cmd("TIME"));
        seconds * 1_000 + micros / 1_000
    }

    /// The existing keys of the topic, without their common prefix.
    pub(crate) fn keys(&self, topic: &str) -> BTreeSet<String> {
        let base = key(topic, "");
        let found = self.matching(&format!("{base}*"));
        found.map(|name| name[base.len()..].to_owned()).collect()
    }

    /// The same without `meta`, which keeps the rules of the topic.
    pub(crate) fn left(&self, topic: &str) -> BTreeSet<String> {
        let mut keys = self.keys(topic);
        keys.remove("meta");
        keys
    }

    /// The ids in one of the topic's stages: `pending`, `ready`, `unack`, `retry` or `dead`.
    pub(crate) fn stage(&self, topic: &str, stage: &str) -> BTreeSet<String> {
        self.ask(cmd("ZRANGE").arg(key(topic, stage)).arg(0).arg(-1))
    }

    /// The ids that are live.
    pub(crate) fn live(&self, topic: &str) -> BTreeSet<String> {
        self.ask(cmd("HKEYS").arg(key(topic, "jobs")))
    }

    /// The number of live jobs; cheaper than [`live`](Self::live).
    pub(crate) fn live_count(&self, topic: &str) -> usize {
        self.ask(cmd("HLEN").arg(key(topic, "jobs")))
    }

    /// The attempt counter of each id: failures + 1,000,000 × crashes.
    pub(crate) fn attempts(&self, topic: &str) -> BTreeMap<String, u64> {
        self.ask(cmd("HGETALL").arg(key(topic, "attempts")))
    }

    /// The stored information of a dead job.
    pub(crate) fn dead_info(&self, topic: &str, id: &str) -> Value {
        let json: Option<String> = self.ask(cmd("HGET").arg(key(topic, "dead:info")).arg(id));
        serde_json::from_str(&json.unwrap_or_else(|| panic!("{topic} {id} is not dead"))).unwrap()
    }

    /// The class of a dead job.
    pub(crate) fn dead_class(&self, topic: &str, id: &str) -> String {
        self.dead_info(topic, id)["class"].as_str().unwrap_or_default().to_owned()
    }

    /// All keys with their values, except the version of the layout, which the first connection writes.
    pub(crate) fn dump(&self) -> BTreeMap<String, Vec<u8>> {
        let keys = self.matching("*").filter(|name| name != "duebox:layout");
        keys.map(|name| (name.clone(), self.ask(cmd("DUMP").arg(name)))).collect()
    }
}

/// Asks once more if the connection was cut: a sentinel that gives a server its role cuts those of all clients.
fn ask_at<T: FromRedisValue>(client: &Client, command: &Cmd) -> RedisResult<T> {
    let ask = || command.query(&mut client.get_connection()?);
    match ask() {
        Err(error) if error.is_connection_dropped() => ask(),
        answer => answer,
    }
}

/// The full name of a topic's key.
pub(crate) fn key(topic: &str, name: &str) -> String {
    format!("duebox:{{{topic}}}:{name}")
}
