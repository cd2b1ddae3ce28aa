//! The Lua scripts, and how a pipeline of calls is sent.
//!
//! A script is called by its digest. Where Redis has forgotten the scripts (a restart, SCRIPT FLUSH, a
//! failover), they are loaded, and only the calls that were not carried out are sent again, in their
//! old order.

use std::sync::OnceLock;

use redis::{Cmd, Pipeline, Script, ServerErrorKind, Value};

use crate::error::QueueError;
use crate::wire::connection::Connection;
use crate::wire::keys::ShardKeys;
use crate::wire::source::{self, Source};

/// Declares the scripts by their files.
macro_rules! scripts {
    ($($name:ident = $path:literal),* $(,)?) => {
        $(pub(crate) static $name: LuaScript = LuaScript {
            body: include_str!(concat!("../lua/", $path, ".lua")),
            assembled: OnceLock::new(),
        };)*

        /// All scripts by their paths under `lua/`.
        static ALL: &[(&str, &LuaScript)] = &[$(($path, &$name)),*];

        /// The files of all scripts and their texts.
        #[cfg(test)]
        pub(super) static BODIES: &[(&str, &str)] =
            &[$(($path, include_str!(concat!("../lua/", $path, ".lua")))),*];
    };
}

scripts! {
    PUSH = "produce/push",
    PROMOTE = "work/promote",
    LEASE = "work/lease",
    SETTLE = "work/settle",
    EXTEND = "work/extend",
    RECLAIM = "work/reclaim",
    CANCEL = "produce/cancel",
    RESCHEDULE = "produce/reschedule",
    REQUEUE = "operate/requeue",
    RELAY = "produce/relay",
    OUTBOX = "produce/outbox",
    RELAYED = "produce/relayed",
    CONFIGURE = "topic/configure",
    GET = "operate/get",
    LIST = "operate/list",
    PAUSE = "operate/pause",
    TICK = "produce/tick",
    PRUNE = "operate/prune",
    PRUNE_MARKS = "operate/prune_marks",
    KV_GET = "store/get",
    KV_SET = "store/set",
    KV_DELETE = "store/delete",
    KV_ADD = "store/add",
    KV_PRUNE = "store/prune",
    PEEK = "operate/peek",
    LOCATE = "topic/locate",
    FORGET_SHARDS = "topic/forget_shards",
    DOCTOR_TYPES = "doctor/types",
    DOCTOR_STAGE = "doctor/stage",
    DOCTOR_JOBS = "doctor/jobs",
    DOCTOR_SIDE = "doctor/side",
    DOCTOR_PERMITS = "doctor/permits",
    DOCTOR_BLOCKED = "doctor/blocked",
    DOCTOR_ENDED = "doctor/ended",
    DOCTOR_OUTBOX = "doctor/outbox",
    DOCTOR_KV = "doctor/kv",
}

pub(crate) struct LuaScript {
    body: &'static str,
    assembled: OnceLock<Assembled>,
}

/// A script as it is loaded and called.
struct Assembled {
    source: Source,
    digest: String,
}

impl LuaScript {
    /// Starts a call on a topic's keys; arguments are added to what it returns.
    pub(crate) fn call(&self, keys: &ShardKeys) -> Cmd {
        let Assembled { source, digest } = self.assembled();
        let mut call = redis::cmd("EVALSHA");
        call.arg(digest).arg(source.keys.len());
        for name in &source.keys {
            call.arg(keys.key(name));
        }
        call
    }

    fn assembled(&self) -> &Assembled {
        self.assembled.get_or_init(|| {
            // A test assembles every script, so that this fails in no release.
            let source = source::assemble(self.body).unwrap_or_else(|error| Source {
                text: format!("return redis.error_reply('DUEBOX {error}')"),
                keys: Vec::new(),
            });
            Assembled { digest: Script::new(&source.text).get_hash().to_owned(), source }
        })
    }
}

/// The digest of a script and the names of its keys, for tests that call it with raw arguments.
#[doc(hidden)]
pub fn digest_and_keys(path: &str) -> Option<(String, Vec<&'static str>)> {
    let script = ALL.iter().find(|(found, _)| *found == path)?.1;
    let Assembled { source, digest } = script.assembled();
    Some((digest.clone(), source.keys.clone()))
}

/// Loads every script.
pub(crate) async fn load(connection: &Connection) -> Result<(), QueueError> {
    let mut loads = Pipeline::with_capacity(ALL.len());
    for (_, script) in ALL {
        loads.cmd("SCRIPT").arg("LOAD").arg(&script.assembled().source.text);
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
        Value::ServerError(error) => Err(QueueError::of_redis(redis::RedisError::from(error))),
        value => Ok(value),
    }
}
