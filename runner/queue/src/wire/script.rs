//! The Lua scripts, and how a pipeline of calls is sent.
//!
//! A script is called by its digest. Where Redis has forgotten the scripts (a restart, SCRIPT FLUSH, a
//! failover), only the calls that were not carried out are sent again, in their old order and with the
//! texts of their scripts.

use std::sync::OnceLock;

use redis::{Arg, Cmd, Pipeline, Script, ServerErrorKind, Value};

use crate::error::QueueError;
use crate::wire::connection::{Connection, RawReplies, Repeat};
use crate::wire::keys::ShardKeys;
use crate::wire::source::{self, Source};

/// Declares the scripts by their files.
macro_rules! scripts {
    ($($name:ident = $path:literal),* $(,)?) => {
        $(pub(crate) static $name: LuaScript = LuaScript {
            body: include_str!(concat!("../lua/", $path, ".lua")),
            path: $path,
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
    TRIM_OUTBOX = "produce/trim_outbox",
    RELAYED = "produce/relayed",
    CONFIGURE = "topic/configure",
    GET = "operate/get",
    LIST = "operate/list",
    LIST_STATE = "operate/list_state",
    PAUSE = "operate/pause",
    TICK = "produce/tick",
    PRUNE = "operate/prune",
    PRUNE_RECORDS = "operate/prune_records",
    PRUNE_TICKS = "operate/prune_ticks",
    PRUNE_RECORDINGS = "operate/prune_recordings",
    RECORD = "operate/record",
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

/// Scripts that only read. A user with read permission alone may call them.
const READ_ONLY: [&str; 6] = [
    "operate/get",
    "operate/list",
    "operate/list_state",
    "operate/peek",
    "topic/locate",
    "store/get",
];

pub(crate) struct LuaScript {
    path: &'static str,
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
        self.call_with(keys, None)
    }

    /// The same, with a further key of the same slot.
    pub(crate) fn call_with(&self, keys: &ShardKeys, further: Option<String>) -> Cmd {
        let Assembled { source, digest } = self.assembled();
        let is_read_only = READ_ONLY.contains(&self.path);
        let mut call = redis::cmd(if is_read_only { "EVALSHA_RO" } else { "EVALSHA" });
        call.arg(digest).arg(source.keys.len() + usize::from(further.is_some()));
        for name in &source.keys {
            call.arg(keys.key(name));
        }
        call.arg(further).to_owned()
    }

    /// The names of the keys that it is called with.
    pub(crate) fn key_names(&self) -> &[&'static str] {
        &self.assembled().source.keys
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

/// The path of the script with this digest.
pub(crate) fn path_of(digest: &str) -> Option<&'static str> {
    ALL.iter().find(|(_, script)| script.assembled().digest == digest).map(|(path, _)| *path)
}

/// The paths of all scripts, for tests that walk them.
#[doc(hidden)]
pub fn script_paths() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(path, _)| *path)
}

/// Loads every script on every server.
pub(crate) async fn load(connection: &Connection) -> Result<(), QueueError> {
    let mut loads = Pipeline::with_capacity(ALL.len());
    for (_, script) in ALL {
        loads.cmd("SCRIPT").arg("LOAD").arg(&script.assembled().source.text);
    }
    for server in 0..connection.primaries() {
        for reply in connection.send_to(server, &loads).await? {
            connection.check(reply)?;
        }
    }
    Ok(())
}

/// The replies to calls.
pub(crate) struct Replies {
    /// One for each call: its value, or the error that Redis gave it.
    pub(crate) values: Vec<Result<Value, QueueError>>,
    /// The calls were sent more than once, and an earlier try may have been carried out.
    pub(crate) are_repeated: bool,
    /// What the writes lack of the copies that were waited for.
    pub(crate) missing: Option<String>,
}

/// Sends calls in one pipeline; none costs nothing. Each is answered by its value or by the error that
/// Redis gave it.
pub(crate) async fn run(
    connection: &Connection,
    calls: Vec<Cmd>,
) -> Result<Vec<Result<Value, QueueError>>, QueueError> {
    Ok(send(connection, calls, Repeat::Unsent).await?.values)
}

/// Sends idempotent calls, which have the same effect if they are carried out twice: they are repeated
/// if the connection is lost.
pub(crate) async fn run_idempotent(
    connection: &Connection,
    calls: Vec<Cmd>,
) -> Result<Vec<Result<Value, QueueError>>, QueueError> {
    Ok(send(connection, calls, Repeat::Always).await?.values)
}

/// Sends calls in one pipeline, and repeats them as the caller says.
pub(crate) async fn send(
    connection: &Connection,
    calls: Vec<Cmd>,
    repeat: Repeat,
) -> Result<Replies, QueueError> {
    if calls.is_empty() {
        return Ok(Replies { values: Vec::new(), are_repeated: false, missing: None });
    }
    let calls = pipeline(calls);
    let RawReplies { mut values, is_repeated, mut missing } =
        connection.send(&calls, repeat).await?;
    let forgotten: Vec<usize> =
        (0..values.len()).filter(|&i| is_forgotten_script(&values[i])).collect();
    let mut are_repeated = is_repeated;
    if !forgotten.is_empty() {
        // By their texts, which also loads them. Loaded scripts may be forgotten before they are called.
        let again = calls.cmd_iter().enumerate().filter(|(i, _)| forgotten.contains(i));
        let again = pipeline(again.map(|(_, call)| with_text(call)));
        let again = connection.send(&again, repeat).await?;
        are_repeated |= again.is_repeated;
        missing = missing.or(again.missing);
        for (i, value) in forgotten.into_iter().zip(again.values) {
            values[i] = value;
        }
    }
    Ok(Replies {
        values: values.into_iter().map(|value| connection.check(value)).collect(),
        are_repeated,
        missing,
    })
}

/// Sends one call.
pub(crate) async fn run_one(connection: &Connection, call: Cmd) -> Result<Value, QueueError> {
    one(run(connection, vec![call]).await?)
}

/// Sends one idempotent call.
pub(crate) async fn run_one_idempotent(
    connection: &Connection,
    call: Cmd,
) -> Result<Value, QueueError> {
    one(run_idempotent(connection, vec![call]).await?)
}

fn one(mut values: Vec<Result<Value, QueueError>>) -> Result<Value, QueueError> {
    values.pop().unwrap_or_else(|| Err(QueueError::BadReply("none".to_owned())))
}

/// The same call, with the text of its script instead of the digest.
fn with_text(call: &Cmd) -> Cmd {
    let args: Vec<&[u8]> = call
        .args_iter()
        .filter_map(|arg| match arg {
            Arg::Simple(bytes) => Some(bytes),
            _ => None,
        })
        .collect();
    let is_called = |script: &LuaScript| {
        args.get(1).is_some_and(|digest| *digest == script.assembled().digest.as_bytes())
    };
    let Some((_, script)) = ALL.iter().find(|(_, script)| is_called(script)) else {
        return call.clone();
    };
    let is_read_only = args.first() == Some(&&b"EVALSHA_RO"[..]);
    let mut again = redis::cmd(if is_read_only { "EVAL_RO" } else { "EVAL" });
    again.arg(&script.assembled().source.text);
    args.iter().skip(2).fold(&mut again, |again, arg| again.arg(*arg));
    again
}

fn pipeline(calls: impl IntoIterator<Item = Cmd>) -> Pipeline {
    let mut pipeline = Pipeline::new();
    for call in calls {
        pipeline.add_command(call);
    }
    pipeline
}

fn is_forgotten_script(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}
