//! Commands of a test to a cluster, each at the servers that it is for.

use std::collections::BTreeMap;

use crate::{RedisCluster, RedisServer};

/// Commands without a key, which are about a server and go to each.
const OF_SERVERS: [&str; 5] = ["ACL", "CLIENT", "CONFIG", "SAVE", "SCRIPT"];
/// Commands without a key that each server answers in its own way.
const OF_ONE: [&str; 6] = ["DBSIZE", "INFO", "KEYS", "REPLICAOF", "SCAN", "TIME"];
/// Commands without a key that go to each primary.
const OF_PRIMARIES: [&str; 1] = ["FLUSHALL"];

impl RedisCluster {
    /// Runs one command with `redis-cli` and returns its output. One about the server goes to all, and the output is
    /// that of the first if all agree, or all of them.
    ///
    /// # Panics
    /// If a server replies with an error.
    pub fn cli(&self, args: &[&str]) -> String {
        let is_one_of =
            |names: &[&str]| names.iter().any(|name| args[0].eq_ignore_ascii_case(name));
        if args[..args.len().min(2)] == ["PUBSUB", "NUMSUB"] {
            return self.subscribers(args);
        }
        if is_one_of(&OF_SERVERS) {
            return together(self.all().iter().map(|server| server.cli(args)));
        }
        if is_one_of(&OF_PRIMARIES) {
            return together(self.initial_primaries().iter().map(|server| server.cli(args)));
        }
        assert!(!is_one_of(&OF_ONE), "{args:?} is about one server; ask each of the primaries");
        self.server_of(args[1]).cli(args)
    }

    /// Runs commands with `redis-cli`, one per line, and returns the lines of its output. Each command, or
    /// transaction, goes to the server of its first key.
    ///
    /// # Panics
    /// If a server replies with an error.
    pub fn pipe(&self, commands: &str) -> Vec<String> {
        let mut found = BTreeMap::new();
        let (mut printed, mut part, mut at) = (Vec::new(), String::new(), 0);
        for block in blocks(commands) {
            let key = first_key(&block);
            let tag = key.split_once('}').map_or(key, |(tag, _)| tag).to_owned();
            let to = *found.entry(tag).or_insert_with(|| self.primary_of(key));
            if to != at && !part.is_empty() {
                printed.extend(self.initial_primaries()[at].pipe(&std::mem::take(&mut part)));
            }
            at = to;
            part.push_str(&block);
            part.push('\n');
        }
        printed.extend(self.initial_primaries()[at].pipe(&part));
        printed
    }

    fn server_of(&self, key: &str) -> &RedisServer {
        &self.initial_primaries()[self.primary_of(key)]
    }

    /// The subscribers of a channel at all servers, as one server prints them.
    fn subscribers(&self, args: &[&str]) -> String {
        let count = |server: &RedisServer| {
            let printed = server.cli(args);
            printed.lines().nth(1).and_then(|line| line.parse::<u64>().ok()).unwrap_or(0)
        };
        let all: u64 = self.all().iter().map(count).sum();
        format!("{}\n{all}", args[2])
    }
}

/// What several servers printed.
fn together(printed: impl Iterator<Item = String>) -> String {
    let mut printed: Vec<String> = printed.filter(|text| !text.is_empty()).collect();
    printed.dedup();
    printed.join("\n")
}

/// The lines of a script, of which a transaction is one.
fn blocks(commands: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in commands.lines().filter(|line| !line.trim().is_empty()) {
        let begins = line.trim().eq_ignore_ascii_case("MULTI");
        match blocks.last_mut() {
            Some(block) if is_open => *block = format!("{block}\n{line}"),
            _ => blocks.push(line.to_owned()),
        }
        is_open = (is_open || begins) && !line.trim().eq_ignore_ascii_case("EXEC");
    }
    blocks
}

/// The key of the first command of a block that has one.
fn first_key(block: &str) -> &str {
    block.lines().find_map(|line| line.split_whitespace().nth(1)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_go_to_the_server_of_their_key() {
        let script = "SET a 1\nMULTI\nHSET {b}:x 1 2\nEXEC\n\nDEL c\n";
        let blocks = blocks(script);
        assert_eq!(blocks, ["SET a 1", "MULTI\nHSET {b}:x 1 2\nEXEC", "DEL c"]);
        let keys: Vec<&str> = blocks.iter().map(|block| first_key(block)).collect();
        assert_eq!(keys, ["a", "{b}:x", "c"]);
        let cluster = RedisCluster::calm(3, &[]);
        let script: String =
            (0..9).map(|n| format!("MULTI\nSET {{{n}}}:x {n}\nGET {{{n}}}:x\nEXEC\n")).collect();
        let printed = cluster.pipe(&script);
        let values: Vec<&str> = printed.iter().skip(4).step_by(5).map(String::as_str).collect();
        assert_eq!(values, ["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
        assert_eq!(cluster.cli(&["GET", "{4}:x"]), "4");
        assert_eq!(cluster.cli(&["CONFIG", "SET", "maxmemory", "0"]), "OK");
    }
}
