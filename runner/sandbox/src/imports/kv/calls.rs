//! The imports `kv_*`: the store of the job's topic. What a guest names is checked whole before the store
//! is asked; while it answers, the guest waits and holds no thread.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::TopicName;
use wasmtime::{Caller, Linker};

use super::{Condition, KEY_MAX, KeyValue, KvError, TTL_MAX, VALUE_MAX};
use crate::imports::abi::{CONFLICT, INVALID, NAMESPACE, NOT_FOUND, TOO_LARGE, UNAVAILABLE, fill};
use crate::imports::call::{View, job_view, look};
use crate::imports::log::Level;
use crate::imports::spans::Target;
use crate::instance::guest::Guest;

/// What the names of these imports begin with.
pub(crate) const PREFIX: &str = "kv_";

const GET: &str = "kv_get";
const SET: &str = "kv_set";
const DELETE: &str = "kv_delete";
const ADD: &str = "kv_add";

/// The imports, each of which takes a pointer.
pub(crate) const IMPORTS: [(&str, bool); 4] =
    [(GET, true), (SET, true), (DELETE, true), (ADD, true)];

/// Links the imports.
pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(NAMESPACE, GET, |caller, (kp, kl, dst, cap)| {
        Box::new(get(caller, kp, kl, dst, cap))
    })?;
    linker.func_wrap_async(NAMESPACE, SET, |caller, (kp, kl, vp, vl, ttl_ms, mode)| {
        Box::new(set(caller, (kp, kl), (vp, vl), ttl_ms, mode))
    })?;
    linker
        .func_wrap_async(NAMESPACE, DELETE, |caller, (kp, kl)| Box::new(delete(caller, kp, kl)))?;
    linker.func_wrap_async(NAMESPACE, ADD, |caller, (kp, kl, delta, dst)| {
        Box::new(add(caller, kp, kl, delta, dst))
    })?;
    Ok(())
}

async fn get(
    mut caller: Caller<'_, Guest>,
    kp: u32,
    kl: u32,
    dst: u32,
    cap: u32,
) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, GET)?;
    let target = view.range(dst, cap)?;
    let asked = match asked(&view, kp, kl)? {
        Ok(asked) => asked,
        Err(code) => return Ok(code),
    };
    let call = caller.data_mut().begins(Target::Kv(GET));
    let found = asked.store.get(&asked.topic, &asked.key).await;
    note(&mut caller, call, &found);
    let found = match found {
        Ok(found) => found,
        Err(error) => return Ok(refused(&caller, GET, &error)),
    };
    let View { bytes, guest, .. } = look(&mut caller, GET)?;
    guest.seen.found(&asked.key, found.as_ref().map(|entry| entry.revision));
    Ok(match found {
        Some(entry) => fill(&guest.traffic, &mut bytes[target], &entry.value),
        None => NOT_FOUND,
    })
}

async fn set(
    mut caller: Caller<'_, Guest>,
    (kp, kl): (u32, u32),
    (vp, vl): (u32, u32),
    ttl_ms: i64,
    mode: u32,
) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, SET)?;
    let value = view.range(vp, vl)?;
    let asked = match asked(&view, kp, kl)? {
        Ok(asked) => asked,
        Err(code) => return Ok(code),
    };
    if value.len() > VALUE_MAX {
        return Ok(TOO_LARGE);
    }
    let Ok(ttl) = ttl(ttl_ms) else {
        return Ok(INVALID);
    };
    let condition = match mode {
        0 => Some(Condition::Always),
        1 => Some(Condition::IfAbsent),
        2 => view.guest.seen.unchanged(&asked.key),
        _ => return Ok(INVALID),
    };
    let Some(condition) = condition else {
        return Ok(CONFLICT);
    };
    view.guest.traffic.took(value.len());
    let value = Bytes::copy_from_slice(&view.bytes[value]);
    let call = caller.data_mut().begins(Target::Kv(SET));
    let written = asked.store.set(&asked.topic, &asked.key, value, ttl, condition).await;
    note(&mut caller, call, &written);
    Ok(match written {
        Ok(true) => 0,
        Ok(false) => CONFLICT,
        Err(error) => refused(&caller, SET, &error),
    })
}

async fn delete(mut caller: Caller<'_, Guest>, kp: u32, kl: u32) -> wasmtime::Result<i32> {
    let asked = match asked(&job_view(&mut caller, DELETE)?, kp, kl)? {
        Ok(asked) => asked,
        Err(code) => return Ok(code),
    };
    let call = caller.data_mut().begins(Target::Kv(DELETE));
    let deleted = asked.store.delete(&asked.topic, &asked.key).await;
    note(&mut caller, call, &deleted);
    Ok(match deleted {
        Ok(true) => 0,
        Ok(false) => NOT_FOUND,
        Err(error) => refused(&caller, DELETE, &error),
    })
}

async fn add(
    mut caller: Caller<'_, Guest>,
    kp: u32,
    kl: u32,
    delta: i64,
    dst: u32,
) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, ADD)?;
    let target = view.range(dst, size_of::<i64>() as u32)?;
    let asked = match asked(&view, kp, kl)? {
        Ok(asked) => asked,
        Err(code) => return Ok(code),
    };
    let call = caller.data_mut().begins(Target::Kv(ADD));
    let sum = asked.store.add(&asked.topic, &asked.key, delta).await;
    note(&mut caller, call, &sum);
    let sum = match sum {
        Ok(sum) => sum,
        Err(error) => return Ok(refused(&caller, ADD, &error)),
    };
    let View { bytes, guest, .. } = look(&mut caller, ADD)?;
    fill(&guest.traffic, &mut bytes[target], &sum.to_le_bytes());
    Ok(0)
}

/// Notes in the trace what came of a call.
fn note<T>(caller: &mut Caller<'_, Guest>, call: Option<usize>, answer: &Result<T, KvError>) {
    caller.data_mut().ended(call, || answer.as_ref().err().map(KvError::to_string));
}

/// What is asked for, and who is asked.
struct Asked {
    store: Arc<dyn KeyValue>,
    topic: TopicName,
    key: Bytes,
}

/// Reads the key; an error of docs/reference/abi.md if it is none, or if nobody keeps anything.
fn asked(view: &View<'_>, kp: u32, kl: u32) -> wasmtime::Result<Result<Asked, i32>> {
    let key = view.range(kp, kl)?;
    if !(1..=KEY_MAX).contains(&key.len()) {
        return Ok(Err(INVALID));
    }
    let Some(store) = &view.guest.world.kv else {
        return Ok(Err(UNAVAILABLE));
    };
    view.guest.traffic.took(key.len());
    Ok(Ok(Asked {
        store: Arc::clone(store),
        topic: view.guest.invocation.topic.clone(),
        key: Bytes::copy_from_slice(&view.bytes[key]),
    }))
}

/// A ttl as the store wants it; 0 is none.
fn ttl(ms: i64) -> Result<Option<Duration>, ()> {
    let ttl = Duration::from_millis(u64::try_from(ms).map_err(|_| ())?);
    if ttl > TTL_MAX {
        return Err(());
    }
    Ok((!ttl.is_zero()).then_some(ttl))
}

/// The error of docs/reference/abi.md for what the store says. That it is away, the job's log tells too.
fn refused(caller: &Caller<'_, Guest>, import: &str, error: &KvError) -> i32 {
    match error {
        KvError::Full => TOO_LARGE,
        KvError::NotANumber => INVALID,
        KvError::Unavailable(_) => {
            caller.data().log.say(Level::Warn, format!("{import}: {error}").as_bytes());
            UNAVAILABLE
        }
    }
}
