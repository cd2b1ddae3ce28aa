//! The imports `kv_*`, which use the store of the job's topic. Arguments are checked completely before the
//! store is called. While the store works, the guest waits and occupies no thread.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::TopicName;
use wasmtime::{Caller, Linker};

use super::revisions::SeenRevisions;
use super::store::{KV_KEY_MAX, KV_TTL_MAX, KV_VALUE_MAX, KeyValue, KvCondition, KvError};
use crate::imports::abi::{
    CONFLICT, DENIED, INVALID, NAMESPACE, NOT_FOUND, TOO_LARGE, UNAVAILABLE, fill,
};
use crate::imports::call::{View, job_view, view_again};
use crate::imports::fault::Fault;
use crate::imports::intercept::{self, HostAnswer, HostRequest, MaybeInterceptor};
use crate::imports::job::HasJob;
use crate::imports::log::{HasLog, Level};
use crate::imports::spans::{CallIndex, CallTarget, HasSpans};

/// The prefix of their names.
pub(crate) const PREFIX: &str = "kv_";

const GET: &str = "kv_get";
const SET: &str = "kv_set";
const DELETE: &str = "kv_delete";
const ADD: &str = "kv_add";

/// The imports. Each takes a pointer.
pub(crate) const IMPORTS: [(&str, bool); 4] =
    [(GET, true), (SET, true), (DELETE, true), (ADD, true)];

/// The state of a guest that uses the store.
pub(crate) trait HasKv: HasJob + HasLog + HasSpans {
    fn seen_revisions(&self) -> &SeenRevisions;
    fn seen_revisions_mut(&mut self) -> &mut SeenRevisions;
    /// The store, if this run has one.
    fn kv_store(&self) -> Option<&Arc<dyn KeyValue>>;
}

/// Links the imports.
pub(crate) fn link<T: HasKv>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.func_wrap_async(NAMESPACE, GET, |caller, (kp, kl, dst, cap)| {
        Box::new(get::<T>(caller, (kp, kl), (dst, cap)))
    })?;
    linker.func_wrap_async(NAMESPACE, SET, |caller, (kp, kl, vp, vl, ttl_ms, mode)| {
        Box::new(set::<T>(caller, (kp, kl), (vp, vl), ttl_ms, mode))
    })?;
    linker.func_wrap_async(NAMESPACE, DELETE, |caller, (kp, kl)| {
        Box::new(delete::<T>(caller, (kp, kl)))
    })?;
    linker.func_wrap_async(NAMESPACE, ADD, |caller, (kp, kl, delta, dst)| {
        Box::new(add::<T>(caller, (kp, kl), delta, dst))
    })?;
    Ok(())
}

/// Pointer and length.
type Range = (u32, u32);

async fn get<T: HasKv>(
    mut caller: Caller<'_, T>,
    key: Range,
    (dst, cap): Range,
) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, GET)?;
    let target = view.range(dst, cap)?;
    let mut call = match StoreCall::new(&view, GET, key)? {
        Ok(call) => call,
        Err(code) => return Ok(code),
    };
    call.begin(view.guest);
    let store = call.store.get(&call.topic, &call.key);
    let found = call.result(HostRequest::KvGet(&call.key), store).await?;
    let found = match call.end(&mut caller, found) {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    let View { bytes, guest, .. } = view_again(&mut caller, GET)?;
    guest.seen_revisions_mut().insert(&call.key, found.as_ref().map(|entry| entry.revision));
    Ok(match found {
        Some(entry) => fill(&guest.calls().io, &mut bytes[target], &entry.value),
        None => NOT_FOUND,
    })
}

async fn set<T: HasKv>(
    mut caller: Caller<'_, T>,
    key: Range,
    (vp, vl): Range,
    ttl_ms: i64,
    mode: u32,
) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, SET)?;
    let value = view.range(vp, vl)?;
    let mut call = match StoreCall::new(&view, SET, key)? {
        Ok(call) => call,
        Err(code) => return Ok(code),
    };
    if value.len() > KV_VALUE_MAX {
        return Ok(TOO_LARGE);
    }
    let Ok(ttl) = parse_ttl(ttl_ms) else {
        return Ok(INVALID);
    };
    let condition = match mode {
        0 => Some(KvCondition::Always),
        1 => Some(KvCondition::IfAbsent),
        2 => view.guest.seen_revisions().unchanged(&call.key),
        _ => return Ok(INVALID),
    };
    let Some(condition) = condition else {
        return Ok(CONFLICT);
    };
    view.guest.calls().io.count_out(value.len());
    let value = Bytes::copy_from_slice(&view.bytes[value]);
    call.begin(view.guest);
    let request = HostRequest::KvSet { key: &call.key, value: &value, ttl, condition };
    let store = call.store.set(&call.topic, &call.key, value.clone(), ttl, condition);
    let written = call.result(request, store).await?;
    Ok(match call.end(&mut caller, written) {
        Ok(true) => 0,
        Ok(false) => CONFLICT,
        Err(code) => code,
    })
}

async fn delete<T: HasKv>(mut caller: Caller<'_, T>, key: Range) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, DELETE)?;
    let mut call = match StoreCall::new(&view, DELETE, key)? {
        Ok(call) => call,
        Err(code) => return Ok(code),
    };
    call.begin(view.guest);
    let store = call.store.delete(&call.topic, &call.key);
    let deleted = call.result(HostRequest::KvDelete(&call.key), store).await?;
    Ok(match call.end(&mut caller, deleted) {
        Ok(true) => 0,
        Ok(false) => NOT_FOUND,
        Err(code) => code,
    })
}

async fn add<T: HasKv>(
    mut caller: Caller<'_, T>,
    key: Range,
    delta: i64,
    dst: u32,
) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, ADD)?;
    let target = view.range(dst, size_of::<i64>() as u32)?;
    let mut call = match StoreCall::new(&view, ADD, key)? {
        Ok(call) => call,
        Err(code) => return Ok(code),
    };
    call.begin(view.guest);
    let store = call.store.add(&call.topic, &call.key, delta);
    let sum = call.result(HostRequest::KvAdd { key: &call.key, delta }, store).await?;
    let sum = match call.end(&mut caller, sum) {
        Ok(sum) => sum,
        Err(code) => return Ok(code),
    };
    let View { bytes, guest, .. } = view_again(&mut caller, ADD)?;
    fill(&guest.calls().io, &mut bytes[target], &sum.to_le_bytes());
    Ok(0)
}

/// A call of the store with a valid key.
struct StoreCall {
    import: &'static str,
    store: Arc<dyn KeyValue>,
    interceptor: MaybeInterceptor,
    topic: TopicName,
    key: Bytes,
    /// The call in the attempt's trace.
    index: Option<CallIndex>,
}

impl StoreCall {
    /// Reads the key. The inner error is a code of docs/reference/abi.md: the key is invalid, the store is not
    /// granted, or this run has none.
    fn new<T: HasKv>(
        view: &View<'_, T>,
        import: &'static str,
        (kp, kl): Range,
    ) -> wasmtime::Result<Result<Self, i32>> {
        let key = view.range(kp, kl)?;
        if !(1..=KV_KEY_MAX).contains(&key.len()) {
            return Ok(Err(INVALID));
        }
        // A module that imports `kv_*` is not loaded without the grant; an interpreter always imports them.
        if !view.guest.grants().kv {
            return Ok(Err(DENIED));
        }
        let Some(store) = view.guest.kv_store() else {
            return Ok(Err(UNAVAILABLE));
        };
        view.guest.calls().io.count_out(key.len());
        Ok(Ok(Self {
            import,
            store: Arc::clone(store),
            interceptor: view.guest.interceptor().cloned(),
            topic: view.guest.job().invocation.topic.clone(),
            key: Bytes::copy_from_slice(&view.bytes[key]),
            index: None,
        }))
    }

    /// The result of the call: the interceptor's, or that of the store.
    async fn result<R>(
        &self,
        request: HostRequest<'_>,
        store: impl Future<Output = R>,
    ) -> Result<R, Fault>
    where
        R: Into<HostAnswer> + TryFrom<HostAnswer, Error = HostAnswer> + Clone,
    {
        intercept::result(self.interceptor.clone(), request, store).await
    }

    /// Records the begin of the call in the trace.
    fn begin<T: HasKv>(&mut self, guest: &mut T) {
        self.index = guest.spans_mut().begin(|| CallTarget::Kv(self.import));
    }

    /// Records the end of the call in the trace. Converts an error to a code of docs/reference/abi.md; an
    /// unreachable store
    /// is also written to the job's log.
    fn end<T: HasKv, R>(
        &self,
        caller: &mut Caller<'_, T>,
        result: Result<R, KvError>,
    ) -> Result<R, i32> {
        let failed = || result.as_ref().err().map(KvError::to_string);
        caller.data_mut().spans_mut().end(self.index, failed);
        result.map_err(|error| match error {
            KvError::Full => TOO_LARGE,
            KvError::NotANumber => INVALID,
            KvError::Unavailable(_) => {
                let text = format!("{}: {error}", self.import);
                caller.data().log().write(Level::Warn, text.as_bytes());
                UNAVAILABLE
            }
        })
    }
}

/// The ttl of a call: 0 means that the value does not expire.
fn parse_ttl(ms: i64) -> Result<Option<Duration>, ()> {
    let ttl = Duration::from_millis(u64::try_from(ms).map_err(|_| ())?);
    if ttl > KV_TTL_MAX {
        return Err(());
    }
    Ok((!ttl.is_zero()).then_some(ttl))
}
