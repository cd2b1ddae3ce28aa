//! How safe a write is before it is confirmed, and the commands that wait for it: `WAIT` and `WAITAOF`.

use std::fmt;
use std::time::Duration;

use redis::{Cmd, Value};

use crate::wire::millis::millis;
use crate::wire::reply::text;

/// What a confirmed write survives.
///
/// With anything but [`Self::Async`], a push and a settlement wait, for a bounded time, until enough servers have
/// the write. A push that ends without them is [`QueueError::Unconfirmed`](crate::QueueError::Unconfirmed).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The primary has it in memory. It writes to its disk, and to its replicas, after its reply.
    #[default]
    Async,
    /// A replica has it in memory too.
    Replica,
    /// The disk of the primary has it; with Sentinel and in a cluster the disk of a replica too.
    Disk,
}

impl Durability {
    /// The word for it in the manifest.
    pub fn word(self) -> &'static str {
        match self {
            Self::Async => "async",
            Self::Replica => "replica",
            Self::Disk => "disk",
        }
    }
}

/// The copies that a write must have before it is confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    /// In the memory of a replica.
    Replica,
    /// On the disk of the primary, and on those of so many replicas.
    Disks { replicas: u32 },
}

/// What a wait for copies ended with.
#[derive(Debug, Clone)]
pub(crate) enum Waited {
    /// The copies exist.
    Kept,
    /// They do not exist yet, or it is unknown; and why.
    Short(String),
    /// The server has become a replica.
    Demoted,
}

impl Copies {
    /// The copies for this durability, at an address whose servers replace each other or do not.
    pub(crate) fn of(durability: Durability, fails_over: bool) -> Option<Self> {
        match durability {
            Durability::Async => None,
            Durability::Replica => Some(Self::Replica),
            Durability::Disk => Some(Self::Disks { replicas: u32::from(fails_over) }),
        }
    }

    /// The longest wait. A Redis with `appendfsync everysec` writes to its disk after 2 s at the latest.
    pub(crate) fn longest_wait(self) -> Duration {
        match self {
            Self::Replica => Duration::from_secs(1),
            Self::Disks { .. } => Duration::from_secs(3),
        }
    }

    /// Waits for the copies of everything that the same connection has sent before.
    pub(crate) fn wait(self, within: Duration) -> Cmd {
        // Redis takes 0 for a wait without an end.
        let ms = millis(within).max(1);
        match self {
            Self::Replica => redis::cmd("WAIT").arg(1).arg(ms).to_owned(),
            Self::Disks { replicas } => {
                redis::cmd("WAITAOF").arg(1).arg(replicas).arg(ms).to_owned()
            }
        }
    }

    /// What the replies to a write and to such a wait mean.
    pub(crate) fn read(self, replies: &[Value], within: Duration) -> Waited {
        let refusal = replies.iter().find_map(|reply| match reply {
            Value::ServerError(error) => Some(error),
            _ => None,
        });
        match (refusal, replies.last()) {
            (Some(error), _) if is_demotion(error) => Waited::Demoted,
            (Some(error), _) => Waited::Short(format!("Redis refused to wait for copies: {error}")),
            (None, reply) => self.read_counts(reply.unwrap_or(&Value::Nil), within),
        }
    }

    fn read_counts(self, reply: &Value, within: Duration) -> Waited {
        let in_time = format!("within {} ms", millis(within));
        let what = match (self, reply) {
            (Self::Replica, Value::Int(count)) if *count >= 1 => return Waited::Kept,
            (Self::Replica, _) => format!("no replica confirmed them {in_time}"),
            (Self::Disks { replicas }, Value::Array(counts)) => {
                let [local, remote] = [0, 1].map(|at| counts.get(at).and_then(count).unwrap_or(0));
                match (local >= 1, remote >= i64::from(replicas)) {
                    (true, true) => return Waited::Kept,
                    (false, _) => format!("the disk of Redis did not have them {in_time}"),
                    (true, false) => format!("no replica had them on its disk {in_time}"),
                }
            }
            (Self::Disks { .. }, _) => "Redis answered WAITAOF in an unknown form".to_owned(),
        };
        Waited::Short(what)
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

fn count(value: &Value) -> Option<i64> {
    match value {
        Value::Int(count) => Some(*count),
        other => text(other).ok()?.parse().ok(),
    }
}

/// Whether a server refuses to wait because it is a replica, or has just become one.
fn is_demotion(error: &redis::ServerError) -> bool {
    let of_replica = |details: &str| details.contains("cannot be used with replica instances");
    matches!(error.code(), "UNBLOCKED" | "READONLY") || error.details().is_some_and(of_replica)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(copies: Copies, line: &str) -> Waited {
        let reply = redis::parse_redis_value(line.as_bytes()).unwrap();
        copies.read(&[Value::Okay, reply], Duration::from_secs(1))
    }

    #[test]
    fn a_reply_is_kept_short_or_of_a_replica() {
        let both = Copies::of(Durability::Disk, true).unwrap();
        let own = Copies::of(Durability::Disk, false).unwrap();
        let replica = Copies::of(Durability::Replica, false).unwrap();
        assert_eq!(Copies::of(Durability::Async, true), None);
        for (copies, line) in
            [(replica, ":2\r\n"), (own, "*2\r\n:1\r\n:0\r\n"), (both, "*2\r\n:1\r\n:2\r\n")]
        {
            assert!(matches!(read(copies, line), Waited::Kept), "{copies:?} {line}");
        }
        let refused =
            "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n";
        for (copies, line, why) in [
            (replica, ":0\r\n", "no replica confirmed"),
            (own, "*2\r\n:0\r\n:3\r\n", "the disk of Redis"),
            (both, "*2\r\n:1\r\n:0\r\n", "no replica had them on its disk"),
            (own, refused, "appendonly"),
        ] {
            let waited = read(copies, line);
            assert!(matches!(&waited, Waited::Short(text) if text.contains(why)), "{waited:?}");
        }
        for line in [
            "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n",
            "-ERR WAIT cannot be used with replica instances. Please also note that …\r\n",
        ] {
            assert!(matches!(read(replica, line), Waited::Demoted), "{line}");
        }
    }

    #[test]
    fn no_wait_is_without_an_end() {
        let packed = |copies: Copies| copies.wait(Duration::ZERO).get_packed_command();
        assert_eq!(packed(Copies::Replica), b"*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$1\r\n1\r\n");
    }
}
