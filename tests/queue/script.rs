//! The scripts called as bytes on the wire, so that tests can pass what the queue's own types refuse.

use redis::{Cmd, RedisResult, Value};

use crate::fixture::Fixture;

/// A script by its path under `lua/`.
pub(crate) struct RawScript(pub(crate) &'static str);

pub(crate) static PUSH: RawScript = RawScript("produce/push");
pub(crate) static PROMOTE: RawScript = RawScript("work/promote");
pub(crate) static LEASE: RawScript = RawScript("work/lease");
pub(crate) static SETTLE: RawScript = RawScript("work/settle");
pub(crate) static EXTEND: RawScript = RawScript("work/extend");
pub(crate) static RECLAIM: RawScript = RawScript("work/reclaim");
pub(crate) static CANCEL: RawScript = RawScript("produce/cancel");
pub(crate) static RESCHEDULE: RawScript = RawScript("produce/reschedule");
pub(crate) static REQUEUE: RawScript = RawScript("operate/requeue");
pub(crate) static RELAY: RawScript = RawScript("produce/relay");
pub(crate) static RELAYED: RawScript = RawScript("produce/relayed");
pub(crate) static TRIM_OUTBOX: RawScript = RawScript("produce/trim_outbox");
pub(crate) static OUTBOX: RawScript = RawScript("produce/outbox");
pub(crate) static CONFIGURE: RawScript = RawScript("topic/configure");
pub(crate) static GET: RawScript = RawScript("operate/get");
pub(crate) static LIST: RawScript = RawScript("operate/list");
pub(crate) static LIST_STATE: RawScript = RawScript("operate/list_state");
pub(crate) static PAUSE: RawScript = RawScript("operate/pause");
pub(crate) static PRUNE: RawScript = RawScript("operate/prune");
pub(crate) static PRUNE_RECORDS: RawScript = RawScript("operate/prune_records");
pub(crate) static PRUNE_TICKS: RawScript = RawScript("operate/prune_ticks");
pub(crate) static PRUNE_RECORDINGS: RawScript = RawScript("operate/prune_recordings");
pub(crate) static RECORD: RawScript = RawScript("operate/record");
pub(crate) static KV_GET: RawScript = RawScript("store/get");
pub(crate) static KV_SET: RawScript = RawScript("store/set");
pub(crate) static KV_DELETE: RawScript = RawScript("store/delete");
pub(crate) static KV_ADD: RawScript = RawScript("store/add");
pub(crate) static KV_PRUNE: RawScript = RawScript("store/prune");

impl RawScript {
    /// Calls the script on the topic's keys, which its header names.
    pub(crate) fn try_call<A: AsRef<[u8]>>(
        &self,
        fixture: &Fixture,
        args: &[A],
    ) -> RedisResult<Value> {
        let (digest, keys) = duebox_queue::digest_and_keys(self.0).unwrap();
        let mut call: Cmd = redis::cmd("EVALSHA");
        call.arg(digest).arg(keys.len());
        for key in keys {
            call.arg(fixture.key(key));
        }
        for arg in args {
            call.arg(arg.as_ref());
        }
        fixture.try_redis(&call)
    }

    /// Calls the script, which must not refuse, and reads its reply.
    pub(crate) fn call<T: redis::FromRedisValue>(&self, fixture: &Fixture, args: &[&str]) -> T {
        redis::from_redis_value(self.try_call(fixture, args).unwrap()).unwrap()
    }
}
