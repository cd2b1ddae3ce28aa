//! The Lua scripts, and how a pipeline of them is sent.
//!
//! Scripts are called by their digest. Where Redis has forgotten them (a restart, SCRIPT FLUSH, a
//! failover) they are loaded and just those calls that were not carried out are sent again, in their
//! old order.

use std::sync::OnceLock;

use redis::{Cmd, Pipeline, Script, ServerErrorKind, Value};

use crate::error::QueueError;
use crate::wire::connection::Connection;
use crate::wire::keys::TopicKeys;

/// Puts a script together from its file and the parts it includes.
macro_rules! script {
    ($name:literal $(, $part:literal)*) => {
        LuaScript {
            parts: &[
                include_str!("../lua/include/now.lua"),
                $(include_str!(concat!("../lua/include/", $part, ".lua")),)*
            ],
            body: include_str!(concat!("../lua/", $name, ".lua")),
            read: OnceLock::new(),
        }
    };
}

pub(crate) struct LuaScript {
    parts: &'static [&'static str],
    body: &'static str,
    read: OnceLock<Read>,
}

/// What Rust must know of a script to call it.
struct Read {
    source: String,
    digest: String,
    /// The names of the keys it takes, in their order: what its header says after `-- KEYS`.
    keys: Vec<&'static str>,
}

pub(crate) static PUSH: LuaScript =
    script!("produce/push", "due", "option", "rules", "failures", "ready", "wake", "turns");
pub(crate) static PROMOTE: LuaScript = script!(
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
pub(crate) static LEASE: LuaScript = script!(
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
pub(crate) static SETTLE: LuaScript = script!(
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
pub(crate) static EXTEND: LuaScript = script!("work/extend", "number");
pub(crate) static RECLAIM: LuaScript = script!(
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
pub(crate) static CANCEL: LuaScript =
    script!("produce/cancel", "option", "rules", "failures", "ready", "wake", "turns");
pub(crate) static RESCHEDULE: LuaScript =
    script!("produce/reschedule", "due", "option", "rules", "failures", "ready", "wake", "turns");
pub(crate) static REQUEUE: LuaScript = script!(
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
pub(crate) static RELAY: LuaScript = script!(
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
pub(crate) static OUTBOX: LuaScript = script!("produce/outbox", "number");
pub(crate) static RELAYED: LuaScript = script!("produce/relayed");
pub(crate) static CONFIGURE: LuaScript = script!("topic/configure", "wake");
pub(crate) static GET: LuaScript = script!("operate/get");
pub(crate) static LIST: LuaScript = script!("operate/list", "number");
pub(crate) static PAUSE: LuaScript = script!("operate/pause", "wake");
pub(crate) static TICK: LuaScript = script!("produce/tick", "number", "wake");
pub(crate) static PRUNE: LuaScript = script!("operate/prune", "number");
pub(crate) static SWEEP: LuaScript = script!("operate/sweep", "number");
pub(crate) static KV_GET: LuaScript = script!("store/get", "over");
pub(crate) static KV_SET: LuaScript = script!("store/set", "number", "over", "kv");
pub(crate) static KV_DELETE: LuaScript = script!("store/delete", "over", "kv");
pub(crate) static KV_ADD: LuaScript = script!("store/add", "over", "kv");
pub(crate) static KV_SWEEP: LuaScript = script!("store/sweep", "number", "kv");
pub(crate) static PEEK: LuaScript = script!("operate/peek");
pub(crate) static LOCATE: LuaScript = script!("topic/locate");
pub(crate) static FORGET_SHARDS: LuaScript = script!("topic/forget_shards");

pub(crate) static DOCTOR_TYPES: LuaScript = script!("doctor/types", "number", "doctor");
pub(crate) static DOCTOR_STAGE: LuaScript = script!(
    "doctor/stage",
    "number",
    "option",
    "rules",
    "failures",
    "ready",
    "wake",
    "turns",
    "bury",
    "doctor",
    "doctor_job"
);
pub(crate) static DOCTOR_JOBS: LuaScript = script!(
    "doctor/jobs",
    "number",
    "option",
    "rules",
    "failures",
    "ready",
    "wake",
    "turns",
    "live",
    "bury",
    "doctor",
    "doctor_job"
);
pub(crate) static DOCTOR_SIDE: LuaScript =
    script!("doctor/side", "number", "option", "rules", "ready", "wake", "turns", "doctor");
pub(crate) static DOCTOR_TURNS: LuaScript =
    script!("doctor/turns", "number", "option", "rules", "ready", "wake", "turns", "doctor");
pub(crate) static DOCTOR_LINE: LuaScript = script!(
    "doctor/line",
    "number",
    "option",
    "rules",
    "failures",
    "ready",
    "wake",
    "turns",
    "bury",
    "doctor",
    "doctor_job"
);
pub(crate) static DOCTOR_GRAVE: LuaScript = script!("doctor/grave", "number", "doctor");
pub(crate) static DOCTOR_OUTBOX: LuaScript = script!("doctor/outbox");
pub(crate) static DOCTOR_KV: LuaScript = script!("doctor/kv", "number", "doctor");

static ALL: [&LuaScript; 36] = [
    &PUSH,
    &PROMOTE,
    &LEASE,
    &SETTLE,
    &EXTEND,
    &RECLAIM,
    &CANCEL,
    &RESCHEDULE,
    &REQUEUE,
    &OUTBOX,
    &RELAY,
    &RELAYED,
    &CONFIGURE,
    &GET,
    &LIST,
    &PAUSE,
    &TICK,
    &PRUNE,
    &SWEEP,
    &KV_GET,
    &KV_SET,
    &KV_DELETE,
    &KV_ADD,
    &KV_SWEEP,
    &PEEK,
    &LOCATE,
    &FORGET_SHARDS,
    &DOCTOR_TYPES,
    &DOCTOR_STAGE,
    &DOCTOR_JOBS,
    &DOCTOR_SIDE,
    &DOCTOR_TURNS,
    &DOCTOR_LINE,
    &DOCTOR_GRAVE,
    &DOCTOR_OUTBOX,
    &DOCTOR_KV,
];

impl LuaScript {
    /// Starts a call on a topic's keys; arguments are added to what it returns.
    pub(crate) fn call(&self, keys: &TopicKeys) -> Cmd {
        let read = self.read();
        let mut call = redis::cmd("EVALSHA");
        call.arg(&read.digest).arg(read.keys.len());
        for name in &read.keys {
            call.arg(keys.key(name));
        }
        call
    }

    fn read(&self) -> &Read {
        self.read.get_or_init(|| {
            let header = self.body.lines().find_map(|line| line.strip_prefix("-- KEYS"));
            let keys: Vec<_> = header.unwrap_or_default().split_whitespace().collect();
            let parts: String = self.parts.concat();
            let source = format!("{}{parts}{}", key_locals(&keys), self.body);
            Read { digest: Script::new(&source).get_hash().to_owned(), source, keys }
        })
    }
}

/// The line that gives a script its keys as locals: `dead:info` becomes `DEAD_INFO`.
fn key_locals(keys: &[&str]) -> String {
    let name = |key: &&str| key.replace(':', "_").to_uppercase();
    let names: Vec<String> = keys.iter().map(name).collect();
    format!("local {} = unpack(KEYS)\n", names.join(", "))
}

/// Loads every script.
pub(crate) async fn load(connection: &Connection) -> Result<(), QueueError> {
    let mut loads = Pipeline::with_capacity(ALL.len());
    for script in ALL {
        loads.cmd("SCRIPT").arg("LOAD").arg(&script.read().source);
    }
    for answer in connection.send(&loads).await? {
        refuse_error(answer)?;
    }
    Ok(())
}

/// Sends calls in one pipeline; none costs nothing. Each is answered by its value or by the error that
/// Redis gave it.
pub(crate) async fn run(
    connection: &Connection,
    calls: Vec<Cmd>,
) -> Result<Vec<Result<Value, QueueError>>, QueueError> {
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let calls = pipeline(calls);
    let mut answers = connection.send(&calls).await?;
    let forgotten: Vec<usize> =
        (0..answers.len()).filter(|&i| is_forgotten_script(&answers[i])).collect();
    if !forgotten.is_empty() {
        load(connection).await?;
        let calls = calls.cmd_iter().enumerate().filter(|(i, _)| forgotten.contains(i));
        let again = connection.send(&pipeline(calls.map(|(_, call)| call.clone()))).await?;
        for (i, answer) in forgotten.into_iter().zip(again) {
            answers[i] = answer;
        }
    }
    Ok(answers.into_iter().map(refuse_error).collect())
}

/// Sends one call.
pub(crate) async fn run_one(connection: &Connection, call: Cmd) -> Result<Value, QueueError> {
    let mut answers = run(connection, vec![call]).await?;
    answers.pop().unwrap_or_else(|| Err(QueueError::Answer("none".to_owned())))
}

fn pipeline(calls: impl IntoIterator<Item = Cmd>) -> Pipeline {
    let mut pipeline = Pipeline::new();
    for call in calls {
        pipeline.add_command(call);
    }
    pipeline
}

fn is_forgotten_script(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}

fn refuse_error(answer: Value) -> Result<Value, QueueError> {
    match answer {
        Value::ServerError(error) => Err(QueueError::from(redis::RedisError::from(error))),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A script gets the keys that its header names: they must be keys, and all be used.
    #[test]
    fn headers_name_the_keys_that_scripts_use() {
        for script in ALL {
            let Read { source, keys, .. } = script.read();
            assert!(!keys.is_empty() && !source.contains("KEYS["), "{keys:?}");
            for key in keys {
                assert!(TopicKeys::NAMES.contains(key), "{key}");
                let local = key.replace(':', "_").to_uppercase();
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let uses = source.split(|c| !is_part(c)).filter(|word| *word == local).count();
                assert!(uses > 1, "{local} is declared and not used: {keys:?}");
            }
        }
    }

    #[test]
    fn keys_become_locals() {
        assert_eq!(key_locals(&["jobs", "dead:info"]), "local JOBS, DEAD_INFO = unpack(KEYS)\n");
    }
}
