//! What a user of Redis must be allowed to do (ACL), by what the program does.

use redis::Value;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::durability::Durability;
use crate::wire::keys::Keys;
use crate::wire::reply::{array, text};
use crate::wire::script;
use crate::wire::settings::ConnectionSettings;

/// What a program does with the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything: a daemon, or a person who operates it.
    Daemon,
    /// Pushes jobs, and cancels, reschedules and looks at single ones.
    Producer,
    /// Looks at jobs, counts and runners, and changes nothing.
    Viewer,
}

/// A command, arguments with which its permission is asked, and the roles that need it: **d**aemon,
/// **p**roducer, **v**iewer. In the arguments `KEY` is a key of the queue.
struct Permission(&'static str, &'static str, &'static str);

/// Every command that this crate, its scripts and the daemon send. Tests hold it to them.
const PERMISSIONS: [Permission; 59] = [
    Permission("client|tracking", "on", "d"),
    Permission("config|get", "save", "d"),
    Permission("del", "KEY", "d"),
    Permission("eval", "x 0", "dp"),
    Permission("eval_ro", "x 0", "dpv"),
    Permission("evalsha", "x 0", "dp"),
    Permission("evalsha_ro", "x 0", "dpv"),
    Permission("exists", "KEY", "dpv"),
    Permission("expire", "KEY 1", "d"),
    Permission("get", "KEY", "dpv"),
    Permission("hdel", "KEY x", "dp"),
    Permission("hexists", "KEY x", "dpv"),
    Permission("hget", "KEY x", "dpv"),
    Permission("hgetall", "KEY", "d"),
    Permission("hincrby", "KEY x 1", "d"),
    Permission("hkeys", "KEY", "d"),
    Permission("hlen", "KEY", "dpv"),
    Permission("hmget", "KEY x", "dpv"),
    Permission("hrandfield", "KEY", "d"),
    Permission("hscan", "KEY 0", "d"),
    Permission("hset", "KEY x y", "dp"),
    Permission("hsetnx", "KEY x y", "d"),
    Permission("hstrlen", "KEY x", "d"),
    Permission("info", "", "d"),
    Permission("lrange", "KEY 0 1", "d"),
    Permission("pexpire", "KEY 1", "d"),
    Permission("ping", "", "dpv"),
    Permission("psubscribe", "WAKES", "d"),
    Permission("publish", "WAKE x", "dp"),
    Permission("renamenx", "KEY KEY", "d"),
    Permission("rpush", "KEY x", "d"),
    Permission("sadd", "KEY x", "dp"),
    Permission("scan", "0", "d"),
    Permission("script|load", "x", "dpv"),
    Permission("set", "KEY x", "dp"),
    Permission("sismember", "KEY x", "dpv"),
    Permission("slowlog|get", "1", "d"),
    Permission("smembers", "KEY", "dv"),
    Permission("srem", "KEY x", "d"),
    Permission("subscribe", "CONTROL", "d"),
    Permission("time", "", "dpv"),
    Permission("type", "KEY", "d"),
    Permission("xadd", "KEY * x y", "d"),
    Permission("xrange", "KEY - +", "dv"),
    Permission("xrevrange", "KEY + -", "dpv"),
    Permission("zadd", "KEY 0 x", "dp"),
    Permission("zcard", "KEY", "dpv"),
    Permission("zcount", "KEY 0 1", "dv"),
    Permission("zmscore", "KEY x", "dpv"),
    Permission("zrange", "KEY 0 1", "dv"),
    Permission("zrangebylex", "KEY - +", "dp"),
    Permission("zrangebyscore", "KEY 0 1", "dpv"),
    Permission("zrem", "KEY x", "dp"),
    Permission("zremrangebyrank", "KEY 0 1", "d"),
    Permission("zremrangebyscore", "KEY 0 1", "d"),
    Permission("zrevrange", "KEY 0 1", "dv"),
    Permission("zrevrangebyscore", "KEY 1 0", "dp"),
    Permission("zscan", "KEY 0", "d"),
    Permission("zscore", "KEY x", "dpv"),
];

/// The same for what only some addresses and durabilities need, whatever the role. The channels of Sentinel are rules of
/// the sentinels' own users.
const OF_TOPOLOGY: [(Need, Permission); 6] = [
    (Need::Cluster, Permission("asking", "", "")),
    (Need::Cluster, Permission("cluster|info", "", "")),
    (Need::Cluster, Permission("cluster|slots", "", "")),
    (Need::Sentinel, Permission("role", "", "")),
    (Need::Replica, Permission("wait", "1 1", "")),
    (Need::Disk, Permission("waitaof", "1 0 1", "")),
];

/// What a permission is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Cluster,
    Sentinel,
    Replica,
    Disk,
}

/// The permissions that these settings need next to those of the role.
fn of_settings(settings: &ConnectionSettings) -> impl Iterator<Item = &'static Permission> {
    let durability = settings.durability();
    let is_needed = move |need: Need| match need {
        Need::Cluster => settings.is_cluster(),
        Need::Sentinel => settings.sentinels().is_ok_and(|sentinels| sentinels.is_some()),
        Need::Replica => durability == Durability::Replica,
        Need::Disk => durability == Durability::Disk,
    };
    OF_TOPOLOGY.iter().filter(move |(need, _)| is_needed(*need)).map(|(_, permission)| permission)
}

/// The ACL rules that a cluster, Sentinel, and each durability need next to those of a role.
pub fn rules_of_topology() -> impl Iterator<Item = &'static str> {
    OF_TOPOLOGY.iter().map(|(_, Permission(name, ..))| *name)
}

/// Commands that a daemon can do without: it then knows less, or asks more often.
const OPTIONAL: [&str; 3] = ["client|tracking", "config|get", "slowlog|get"];

/// Asks for the permission of each command: the number of its words, then the words. A command that the server does not
/// have is missed elsewhere.
const ASK: &str = "\
local missing, at = {}, 1
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  local is_known, is_permitted = pcall(redis.acl_check_cmd, unpack(ARGV, at + 1, at + count))
  if is_known and not is_permitted then missing[#missing + 1] = at end
  at = at + count + 1
end
return missing";

impl Role {
    fn letter(self) -> char {
        match self {
            Self::Daemon => 'd',
            Self::Producer => 'p',
            Self::Viewer => 'v',
        }
    }

    /// The commands of this role, sorted, as ACL rules name them.
    pub fn commands(self) -> impl Iterator<Item = &'static str> {
        let of_role = move |permission: &&Permission| permission.2.contains(self.letter());
        PERMISSIONS.iter().filter(of_role).map(|Permission(name, ..)| *name)
    }

    /// The rules for `ACL SETUSER` that give a user this role on the keys under a prefix, and nothing else.
    pub fn acl_rules(self, prefix: &str) -> String {
        let access = match self {
            Self::Daemon => format!("~{prefix}:* &{prefix}:{{*}}:wake &{prefix}:orders"),
            Self::Producer => format!("~{prefix}:* &{prefix}:{{*}}:wake"),
            Self::Viewer => format!("%R~{prefix}:*"),
        };
        self.commands().fold(access, |rules, command| format!("{rules} +{command}"))
    }
}

impl Queue {
    /// The ACL rules that the user of this connection lacks for a role, such as `+evalsha`.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply, or does not permit the question itself (`+eval_ro`).
    pub async fn missing_permissions(&self, role: Role) -> Result<Vec<String>, QueueError> {
        let mut ask = redis::cmd("EVAL_RO");
        ask.arg(ASK).arg(0);
        let mut asked = Vec::new();
        let mut index = 1;
        let of_role = PERMISSIONS.iter().filter(|permission| permission.2.contains(role.letter()));
        let needed = of_role.chain(of_settings(self.connection.settings()));
        for Permission(name, sample, _) in needed {
            let words: Vec<String> = words_of(&self.keys, name, sample);
            asked.push((index, *name, sample.contains("KEY")));
            index += words.len() + 1;
            ask.arg(words.len()).arg(words);
        }
        let reply = array(script::run_one_idempotent(&self.connection, ask).await?)?;
        let missing: Vec<usize> = reply.iter().filter_map(position).collect();
        let is_missing = |index: &usize| missing.contains(index);
        let of_keys = || asked.iter().filter(|(.., is_of_key)| *is_of_key);
        let has_keys = of_keys().any(|(index, ..)| !is_missing(index));
        let lacking = asked.iter().filter(|(index, ..)| is_missing(index));
        let lacking = lacking.filter(|(.., is_of_key)| has_keys || !is_of_key);
        let mut rules: Vec<String> = lacking.map(|(_, name, _)| self.rule_of(name)).collect();
        if !has_keys {
            rules.push(format!("~{}", self.keys.all_keys()));
        }
        Ok(rules)
    }

    /// Fails if the user of this connection may not do what a daemon does.
    ///
    /// # Errors
    /// [`QueueError::NotPermitted`] names every rule that is missing.
    pub async fn check_permissions(&self) -> Result<(), QueueError> {
        let mut missing = self.missing_permissions(Role::Daemon).await?;
        missing.retain(|rule| !OPTIONAL.iter().any(|name| rule.strip_prefix('+') == Some(*name)));
        if missing.is_empty() {
            return Ok(());
        }
        let user = self.connection.settings().user();
        Err(QueueError::NotPermitted { user, reason: format!("it lacks {}", missing.join(" ")) })
    }

    /// The rule that permits a command, with the channel it needs.
    fn rule_of(&self, name: &str) -> String {
        match name {
            "psubscribe" | "publish" => format!("+{name} &{}", self.keys.wake_pattern()),
            "subscribe" => format!("+{name} &{}", self.keys.control_channel()),
            _ => format!("+{name}"),
        }
    }
}

/// A command with arguments for which Redis is asked whether it is permitted.
fn words_of(keys: &Keys, name: &str, sample: &str) -> Vec<String> {
    let key = || keys.topics_key();
    let argument = |word: &str| match word {
        "KEY" => key(),
        "WAKE" => keys.wake_pattern().replace('*', "mail"),
        "WAKES" => keys.wake_pattern(),
        "CONTROL" => keys.control_channel(),
        other => other.to_owned(),
    };
    name.split('|').map(str::to_owned).chain(sample.split_whitespace().map(argument)).collect()
}

fn position(value: &Value) -> Option<usize> {
    match value {
        Value::Int(index) => usize::try_from(*index).ok(),
        other => text(other).ok()?.parse().ok(),
    }
}
