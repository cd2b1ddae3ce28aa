//! The scripts called as bytes on the wire, so that tests can pass what the queue's own types refuse.
//!
//! They are only ever called by digest, and nothing here loads them: a text that differs from the
//! queue's own by one byte would not be found.

use redis::{Cmd, RedisResult, Script, Value};

use crate::ground::Ground;

macro_rules! script {
    ($name:literal $(, $part:literal)*) => {
        RawScript {
            parts: concat!(
                include_str!("../../src/lua/include/now.lua"),
                $(include_str!(concat!("../../src/lua/include/", $part, ".lua")),)*
            ),
            body: include_str!(concat!("../../src/lua/", $name, ".lua")),
        }
    };
}

pub(crate) struct RawScript {
    parts: &'static str,
    body: &'static str,
}

pub(crate) static PUSH: RawScript =
    script!("produce/push", "due", "option", "rules", "failures", "ready", "wake", "turns");
pub(crate) static PROMOTE: RawScript = script!(
    "work/promote",
    "number",
    "option",
    "rules",
    "failures",
    "ready",
    "turns",
    "bury",
    "scores"
);
pub(crate) static LEASE: RawScript = script!(
    "work/lease",
    "number",
    "option",
    "rules",
    "failures",
    "ready",
    "wake",
    "turns",
    "bury",
    "scores"
);
pub(crate) static SETTLE: RawScript = script!(
    "work/settle",
    "number",
    "option",
    "rules",
    "failures",
    "ready",
    "wake",
    "turns",
    "bury"
);
pub(crate) static EXTEND: RawScript = script!("work/extend", "number");
pub(crate) static RECLAIM: RawScript = script!(
    "work/reclaim",
    "number",
    "option",
    "rules",
    "failures",
    "ready",
    "wake",
    "turns",
    "bury"
);
pub(crate) static CANCEL: RawScript =
    script!("produce/cancel", "option", "rules", "failures", "ready", "wake", "turns");
pub(crate) static RESCHEDULE: RawScript =
    script!("produce/reschedule", "due", "option", "rules", "failures", "ready", "wake", "turns");
pub(crate) static REQUEUE: RawScript = script!(
    "operate/requeue",
    "option",
    "rules",
    "failures",
    "ready",
    "wake",
    "turns",
    "live",
    "place"
);
pub(crate) static RELAY: RawScript = script!(
    "produce/relay",
    "number",
    "due",
    "option",
    "rules",
    "failures",
    "ready",
    "wake",
    "turns",
    "live",
    "place"
);
pub(crate) static RELAYED: RawScript = script!("produce/relayed");
pub(crate) static OUTBOX: RawScript = script!("produce/outbox", "number");
pub(crate) static CONFIGURE: RawScript = script!("topic/configure", "wake");
pub(crate) static GET: RawScript = script!("operate/get");
pub(crate) static LIST: RawScript = script!("operate/list", "number");
pub(crate) static PAUSE: RawScript = script!("operate/pause", "wake");
pub(crate) static PRUNE: RawScript = script!("operate/prune", "number");
pub(crate) static SWEEP: RawScript = script!("operate/sweep", "number");
pub(crate) static KV_GET: RawScript = script!("store/get", "over");
pub(crate) static KV_SET: RawScript = script!("store/set", "number", "over", "kv");
pub(crate) static KV_DELETE: RawScript = script!("store/delete", "over", "kv");
pub(crate) static KV_ADD: RawScript = script!("store/add", "over", "kv");
pub(crate) static KV_SWEEP: RawScript = script!("store/sweep", "number", "kv");

impl RawScript {
    /// Calls the script on the topic's keys, which its header names.
    pub(crate) fn try_call<A: AsRef<[u8]>>(
        &self,
        ground: &Ground,
        args: &[A],
    ) -> RedisResult<Value> {
        let header = self.body.lines().find_map(|line| line.strip_prefix("-- KEYS "));
        let keys: Vec<&str> = header.unwrap().split_whitespace().collect();
        let locals: Vec<String> =
            keys.iter().map(|key| key.replace(':', "_").to_uppercase()).collect();
        let text =
            format!("local {} = unpack(KEYS)\n{}{}", locals.join(", "), self.parts, self.body);
        let mut call: Cmd = redis::cmd("EVALSHA");
        call.arg(Script::new(&text).get_hash()).arg(keys.len());
        for key in keys {
            call.arg(ground.key(key));
        }
        for arg in args {
            call.arg(arg.as_ref());
        }
        ground.try_redis(&call)
    }

    /// Calls the script, which must not refuse, and reads its answer.
    pub(crate) fn call<T: redis::FromRedisValue>(&self, ground: &Ground, args: &[&str]) -> T {
        redis::from_redis_value(self.try_call(ground, args).unwrap()).unwrap()
    }
}
