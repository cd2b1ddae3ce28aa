//! The Lua scripts, and how a pipeline of them is sent.
//!
//! Scripts are called by their digest. Where Redis has forgotten them (a restart, SCRIPT FLUSH, a
//! failover) they are loaded and just those calls that were not carried out are sent again, in their
//! old order.

use std::sync::LazyLock;

use redis::{Cmd, Pipeline, Script, ServerErrorKind, Value};

use crate::QueueError;
use crate::connection::Connection;

/// Puts a script together from its file and the parts it includes.
macro_rules! script {
    ($name:literal, $keys:literal $(, $part:literal)*) => {
        LuaScript {
            keys: $keys,
            source: concat!(
                include_str!("lua/include/now.lua"),
                $(include_str!(concat!("lua/include/", $part, ".lua")),)*
                include_str!(concat!("lua/", $name, ".lua")),
            ),
            script: LazyLock::new(|| {
                Script::new(concat!(
                    include_str!("lua/include/now.lua"),
                    $(include_str!(concat!("lua/include/", $part, ".lua")),)*
                    include_str!(concat!("lua/", $name, ".lua")),
                ))
            }),
        }
    };
}

pub(crate) struct LuaScript {
    keys: usize,
    source: &'static str,
    script: LazyLock<Script>,
}

pub(crate) static PUSH: LuaScript = script!("push", 8, "due", "wake");
pub(crate) static PROMOTE: LuaScript = script!("promote", 12, "number", "bury");
pub(crate) static LEASE: LuaScript = script!("lease", 8, "number");
pub(crate) static SETTLE: LuaScript = script!("settle", 12, "number", "bury");
pub(crate) static EXTEND: LuaScript = script!("extend", 1, "number");
pub(crate) static RECLAIM: LuaScript = script!("reclaim", 11, "number", "bury");
pub(crate) static CANCEL: LuaScript = script!("cancel", 7);
pub(crate) static RESCHEDULE: LuaScript = script!("reschedule", 6, "due", "wake");
pub(crate) static REQUEUE: LuaScript = script!("requeue", 12, "wake");
pub(crate) static PRUNE: LuaScript = script!("prune", 4, "number");
pub(crate) static PEEK: LuaScript = script!("peek", 5);

static ALL: [&LuaScript; 11] = [
    &PUSH,
    &PROMOTE,
    &LEASE,
    &SETTLE,
    &EXTEND,
    &RECLAIM,
    &CANCEL,
    &RESCHEDULE,
    &REQUEUE,
    &PRUNE,
    &PEEK,
];

impl LuaScript {
    /// Starts a call; arguments are added to what it returns.
    pub(crate) fn call(&self, keys: &[String]) -> Cmd {
        debug_assert_eq!(keys.len(), self.keys);
        let mut call = redis::cmd("EVALSHA");
        call.arg(self.script.get_hash()).arg(keys.len());
        for key in keys {
            call.arg(key);
        }
        call
    }
}

/// Loads every script.
pub(crate) async fn load(connection: &Connection) -> Result<(), QueueError> {
    let mut loads = Pipeline::with_capacity(ALL.len());
    for script in ALL {
        loads.cmd("SCRIPT").arg("LOAD").arg(script.source);
    }
    for answer in connection.send(&loads).await? {
        refuse_error(answer)?;
    }
    Ok(())
}

/// Sends calls in one pipeline. Each is answered by its value or by the error that Redis gave it.
pub(crate) async fn run(
    connection: &Connection,
    calls: &[Cmd],
) -> Result<Vec<Result<Value, QueueError>>, QueueError> {
    let mut answers = send(connection, calls.iter()).await?;
    let forgotten: Vec<usize> =
        (0..answers.len()).filter(|&i| is_forgotten_script(&answers[i])).collect();
    if !forgotten.is_empty() {
        load(connection).await?;
        let again = send(connection, forgotten.iter().map(|&i| &calls[i])).await?;
        for (i, answer) in forgotten.into_iter().zip(again) {
            answers[i] = answer;
        }
    }
    Ok(answers.into_iter().map(refuse_error).collect())
}

/// Sends one call.
pub(crate) async fn run_one(connection: &Connection, call: Cmd) -> Result<Value, QueueError> {
    let mut answers = run(connection, &[call]).await?;
    answers.pop().unwrap_or_else(|| Err(QueueError::Answer("none".to_owned())))
}

async fn send(
    connection: &Connection,
    calls: impl Iterator<Item = &Cmd>,
) -> Result<Vec<Value>, QueueError> {
    let mut pipeline = Pipeline::new();
    for call in calls {
        pipeline.add_command(call.clone());
    }
    connection.send(&pipeline).await
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

    /// The header of a script names its keys; the number that Rust passes must be theirs.
    #[test]
    fn headers_count_the_keys_that_rust_passes() {
        for script in ALL {
            let header = script.source.lines().find(|line| line.starts_with("-- KEYS")).unwrap();
            let named = header.trim_start_matches("-- KEYS").split_whitespace().count();
            assert_eq!(named, script.keys, "{header}");
        }
    }
}
