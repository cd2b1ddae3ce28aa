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
    script!("push", "due", "option", "rules", "failures", "ready", "wake", "turns");
pub(crate) static PROMOTE: RawScript =
    script!("promote", "number", "option", "rules", "failures", "ready", "turns", "bury", "scores");
pub(crate) static LEASE: RawScript = script!(
    "lease", "number", "option", "rules", "failures", "ready", "wake", "turns", "bury", "scores",
    "tokens"
);
pub(crate) static SETTLE: RawScript =
    script!("settle", "number", "option", "rules", "failures", "ready", "wake", "turns", "bury");
pub(crate) static EXTEND: RawScript = script!("extend", "number", "tokens");
pub(crate) static RECLAIM: RawScript = script!(
    "reclaim", "number", "option", "rules", "failures", "ready", "wake", "turns", "bury", "tokens"
);
pub(crate) static CANCEL: RawScript =
    script!("cancel", "option", "rules", "failures", "ready", "wake", "turns");
pub(crate) static RESCHEDULE: RawScript =
    script!("reschedule", "due", "option", "rules", "failures", "ready", "wake", "turns");
pub(crate) static REQUEUE: RawScript =
    script!("requeue", "option", "rules", "failures", "ready", "wake", "turns", "live", "place");
pub(crate) static RELAY: RawScript = script!(
    "relay", "number", "due", "option", "rules", "failures", "ready", "wake", "turns", "live",
    "place"
);
pub(crate) static RELAYED: RawScript = script!("relayed");
pub(crate) static OUTBOX: RawScript = script!("outbox", "number");
pub(crate) static CONFIGURE: RawScript = script!("configure", "wake");
pub(crate) static GET: RawScript = script!("get", "tokens");
pub(crate) static LIST: RawScript = script!("list", "number");
pub(crate) static PAUSE: RawScript = script!("pause", "wake");
pub(crate) static PRUNE: RawScript = script!("prune", "number");
pub(crate) static SWEEP: RawScript = script!("sweep", "number");
pub(crate) static KV_GET: RawScript = script!("kv_get", "over");
pub(crate) static KV_SET: RawScript = script!("kv_set", "number", "over", "kv");
pub(crate) static KV_DELETE: RawScript = script!("kv_delete", "over", "kv");
pub(crate) static KV_ADD: RawScript = script!("kv_add", "over", "kv");
pub(crate) static KV_SWEEP: RawScript = script!("kv_sweep", "number", "kv");

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
