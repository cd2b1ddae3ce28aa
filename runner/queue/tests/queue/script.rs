//! The scripts called as bytes on the wire, so that tests can pass what the queue's own types refuse.
//!
//! They are only ever called by digest, and nothing here loads them: a text that differs from the
//! queue's own by one byte would not be found.

use redis::{Cmd, RedisResult, Script, Value};

use crate::ground::Ground;

macro_rules! script {
    ($name:literal, [$($key:literal),+] $(, $part:literal)*) => {
        RawScript {
            keys: &[$($key),+],
            text: concat!(
                include_str!("../../src/lua/include/now.lua"),
                $(include_str!(concat!("../../src/lua/include/", $part, ".lua")),)*
                include_str!(concat!("../../src/lua/", $name, ".lua")),
            ),
        }
    };
}

pub(crate) struct RawScript {
    keys: &'static [&'static str],
    text: &'static str,
}

pub(crate) static PUSH: RawScript = script!(
    "push",
    ["jobs", "opts", "pending", "ready", "unack", "retry", "attempts", "meta"],
    "due",
    "wake"
);
pub(crate) static PROMOTE: RawScript = script!(
    "promote",
    [
        "pending",
        "ready",
        "unack",
        "retry",
        "attempts",
        "meta",
        "jobs",
        "opts",
        "dead",
        "dead:jobs",
        "dead:opts",
        "dead:info"
    ],
    "number",
    "bury"
);
pub(crate) static LEASE: RawScript = script!(
    "lease",
    ["ready", "unack", "pending", "jobs", "opts", "attempts", "meta", "holders"],
    "number"
);
pub(crate) static SETTLE: RawScript = script!(
    "settle",
    [
        "jobs",
        "opts",
        "pending",
        "ready",
        "unack",
        "retry",
        "attempts",
        "dead",
        "dead:jobs",
        "dead:opts",
        "dead:info",
        "holders"
    ],
    "number",
    "bury"
);
pub(crate) static EXTEND: RawScript = script!("extend", ["unack"], "number");
pub(crate) static RECLAIM: RawScript = script!(
    "reclaim",
    [
        "jobs",
        "opts",
        "pending",
        "unack",
        "retry",
        "attempts",
        "dead",
        "dead:jobs",
        "dead:opts",
        "dead:info",
        "holders"
    ],
    "number",
    "bury"
);
pub(crate) static CANCEL: RawScript =
    script!("cancel", ["jobs", "opts", "pending", "ready", "unack", "retry", "attempts"]);
pub(crate) static RESCHEDULE: RawScript = script!(
    "reschedule",
    ["pending", "ready", "unack", "retry", "attempts", "meta"],
    "due",
    "wake"
);
pub(crate) static REQUEUE: RawScript = script!(
    "requeue",
    [
        "jobs",
        "opts",
        "pending",
        "ready",
        "unack",
        "retry",
        "attempts",
        "meta",
        "dead",
        "dead:jobs",
        "dead:opts",
        "dead:info"
    ],
    "wake"
);
pub(crate) static PRUNE: RawScript =
    script!("prune", ["dead", "dead:jobs", "dead:opts", "dead:info"], "number");

impl RawScript {
    /// Calls the script on the topic's keys.
    pub(crate) fn try_call(&self, ground: &Ground, args: &[&str]) -> RedisResult<Value> {
        let mut call: Cmd = redis::cmd("EVALSHA");
        call.arg(Script::new(self.text).get_hash()).arg(self.keys.len());
        for key in self.keys {
            call.arg(ground.key(key));
        }
        call.arg(args);
        ground.try_redis(&call)
    }

    /// Calls the script, which must not refuse, and reads its answer.
    pub(crate) fn call<T: redis::FromRedisValue>(&self, ground: &Ground, args: &[&str]) -> T {
        redis::from_redis_value(self.try_call(ground, args).unwrap()).unwrap()
    }
}
