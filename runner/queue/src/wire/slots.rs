//! The hash slots of Redis Cluster: which slot a command belongs to, and which server has it.

use std::collections::HashMap;

use redis::{Arg, Cmd, Value};

use crate::wire::address::NodeAddress;
use crate::wire::node_addresses::NodeAddresses;
use crate::wire::reply::text;

/// The number of slots of every cluster.
pub(super) const SLOTS: u16 = 16_384;

/// Commands that name no key. Any server could carry them out; one is chosen for all.
const WITHOUT_KEY: [&[u8]; 8] =
    [b"PING", b"TIME", b"INFO", b"CONFIG", b"SCRIPT", b"SCAN", b"ROLE", b"CLUSTER"];

/// The slot of a command; `home` if it names no key. A channel counts as a key, so that all that is published on it
/// goes to one server.
pub(super) fn slot_of(command: &Cmd, home: u16) -> u16 {
    let mut words = command.args_iter().map(|arg| match arg {
        Arg::Simple(bytes) => bytes,
        _ => b"",
    });
    let name = words.next().unwrap_or_default().to_ascii_uppercase();
    let key = match name.as_slice() {
        b"EVAL" | b"EVALSHA" | b"EVAL_RO" | b"EVALSHA_RO" => match words.nth(1) {
            None | Some(b"0") => None,
            Some(_) => words.next(),
        },
        name if WITHOUT_KEY.contains(&name) => None,
        _ => words.next(),
    };
    key.map_or(home, slot_of_key)
}

/// The slot of a key: of the part in braces, if there is one.
pub(super) fn slot_of_key(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        Some(&rest[..close]).filter(|tag| !tag.is_empty())
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        let shift = |crc: u16, _| (crc << 1) ^ (if crc & 0x8000 == 0 { 0 } else { 0x1021 });
        (0..8).fold(crc ^ (u16::from(*byte) << 8), shift)
    })
}

/// Which server has which slots.
#[derive(Default)]
pub(super) struct SlotMap {
    /// The first and the last slot of each range, sorted, with the index of its server.
    ranges: Vec<(u16, u16, usize)>,
    /// The primaries, sorted, each once.
    primaries: Vec<NodeAddress>,
    /// Slots that have moved since.
    moved: HashMap<u16, NodeAddress>,
}

impl SlotMap {
    /// Reads the reply to `CLUSTER SLOTS` of the server at `asked`.
    pub(super) fn read(
        reply: &Value,
        asked: &NodeAddress,
        addresses: &NodeAddresses,
    ) -> Option<Self> {
        let Value::Array(rows) = reply else { return None };
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            let Value::Array(row) = row else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = row.as_slice()
            else {
                return None;
            };
            let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
            let [host, Value::Int(port), ..] = primary.as_slice() else { return None };
            let host = text(host).unwrap_or_default();
            found.push((first, last, node_of(host, *port, asked, addresses)?));
        }
        let mut primaries: Vec<NodeAddress> = found.iter().map(|(.., node)| node.clone()).collect();
        primaries.sort_unstable_by_key(ToString::to_string);
        primaries.dedup();
        let index_of = |node: &NodeAddress| primaries.iter().position(|known| known == node);
        let mut ranges = Vec::with_capacity(found.len());
        for (first, last, node) in &found {
            ranges.push((*first, *last, index_of(node)?));
        }
        ranges.sort_unstable();
        Some(Self { ranges, primaries, moved: HashMap::new() })
    }

    /// The server of a slot; `None` if none has it.
    pub(super) fn node_of(&self, slot: u16) -> Option<&NodeAddress> {
        if let Some(node) = self.moved.get(&slot) {
            return Some(node);
        }
        let after = self.ranges.partition_point(|(first, ..)| *first <= slot);
        let (_, last, index) = self.ranges.get(after.checked_sub(1)?)?;
        if slot <= *last { self.primaries.get(*index) } else { None }
    }

    /// Records that a slot has moved, until the map is read again.
    pub(super) fn record_move(&mut self, slot: u16, node: NodeAddress) {
        self.moved.insert(slot, node);
    }

    pub(super) fn primaries(&self) -> &[NodeAddress] {
        &self.primaries
    }

    /// How many slots the primary of this number has.
    pub(super) fn count_of(&self, primary: usize) -> usize {
        let own = self.ranges.iter().filter(|(.., index)| *index == primary);
        own.map(|(first, last, _)| usize::from(last - first) + 1).sum()
    }

    /// The first slot that no server has.
    pub(super) fn first_uncovered(&self) -> Option<u16> {
        let mut next = 0;
        for (first, last, _) in &self.ranges {
            if *first > next {
                return Some(next);
            }
            next = last + 1;
        }
        (next < SLOTS).then_some(next)
    }
}

/// A server as another one names it. An empty host is the one that was asked.
pub(super) fn node_of(
    host: &str,
    port: i64,
    asked: &NodeAddress,
    addresses: &NodeAddresses,
) -> Option<NodeAddress> {
    let NodeAddress::Tcp { host: asked_host, tls, .. } = asked else { return None };
    let host = if host.is_empty() { asked_host.as_str() } else { host };
    addresses.node(host, u16::try_from(port).ok()?, tls.is_some()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Cmd {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command
    }

    #[test]
    fn slots_of_keys_are_those_of_redis() {
        // As CLUSTER KEYSLOT answers.
        for (key, slot) in [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("{foo}bar", 12_182),
            ("x{}y", 16_116),
            ("{ru}", 9),
            ("{fv}", 16_349),
        ] {
            assert_eq!(slot_of_key(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn slots_of_commands_are_those_of_their_first_key() {
        let foo = slot_of_key(b"foo");
        for words in [
            &["GET", "foo"][..],
            &["evalsha", "digest", "1", "foo", "argument"],
            &["EVAL_RO", "text", "2", "foo", "{foo}x"],
            &["PUBLISH", "foo", "text"],
        ] {
            assert_eq!(slot_of(&command(words), 7), foo, "{words:?}");
        }
        for words in [&["TIME"][..], &["EVAL", "text", "0", "foo"], &["INFO", "server"]] {
            assert_eq!(slot_of(&command(words), 7), 7, "{words:?}");
        }
    }

    #[test]
    fn a_map_knows_its_gaps_and_what_has_moved() {
        let at = |port| NodeAddress::tcp("127.0.0.1".to_owned(), port, false).unwrap();
        let row = |first, last, port| {
            let server = vec![Value::BulkString(Vec::new()), Value::Int(port)];
            Value::Array(vec![Value::Int(first), Value::Int(last), Value::Array(server)])
        };
        let reply = Value::Array(vec![row(8_000, 16_383, 2), row(0, 99, 1), row(101, 7_999, 1)]);
        let mut map = SlotMap::read(&reply, &at(1), &NodeAddresses::default()).unwrap();
        assert_eq!((map.node_of(5), map.node_of(100)), (Some(&at(1)), None));
        assert_eq!((map.count_of(0), map.count_of(1)), (100 + 7_899, 8_384));
        assert_eq!((map.node_of(16_383), map.first_uncovered()), (Some(&at(2)), Some(100)));
        map.record_move(5, at(3));
        assert_eq!((map.node_of(5), map.primaries().len()), (Some(&at(3)), 2));
        assert!(SlotMap::read(&Value::Nil, &at(1), &NodeAddresses::default()).is_none());
    }
}
